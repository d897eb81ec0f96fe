#!/usr/bin/env python3
"""./run demo: real coding-agent sessions over three engines, each alone and as one pool, with the same total memory.

Per memory size and arm: starts masters and nodes, lets `millpond replay` run the trace over three engine processes
(real bytes, every one compared), and stops everything. Prints a table, writes an HTML report and, with --json, figures
and one line per load. Exit status 1: a byte was wrong, or the pool is not as good as it must be.
"""
import argparse
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time

import demo_report
from demo_cluster import Clusters, Failed, die_with_parent
from demo_report import ARMS, SIZES, ms_text, percent, size_text, tokens_text

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENGINES = 3
BLOCK_TOKENS = 512
SPEED = 300                       # trace seconds per second
ENOUGH = 1.15                     # × the trace's different blocks: headers, condemned blocks, uneven placement
FACTORS = {"scarce": 1 / ENGINES, "enough": 1, "ample": ENGINES}   # × enough; ample: every engine alone could hold everything
LOADED_MIN = 4 << 30              # bytes; a smaller run proves little
BOUND_MARGIN = 0.02               # how far below an infinite cache the pool may stay when memory suffices
RUN_DEADLINE = 170.0              # seconds for one replay

# What depends on time in the pool is compressed like the trace: 10 s of protection, 100 ms of gathering touches,
# 1 s between heartbeats (10 ms at least).
SETTINGS = {"master": ["--admin-listen", "127.0.0.1:0", "--touch-interval", "1ms", "--heartbeat-interval", f"{max(10, 1000 // SPEED)}ms"],
            "node": ["--admin-listen", "127.0.0.1:0", "--protection", f"{10_000 // SPEED}ms"]}


def arguments():
    p = argparse.ArgumentParser(prog="./run demo", description="Replays real coding-agent sessions: engines alone, then one pool.")
    p.add_argument("--binary", default=str(ROOT / "build/release/apps/millpond"), help="the millpond program")
    p.add_argument("--json", metavar="FILE", help="write the figures here, and one line per load beside it")
    p.add_argument("--report", metavar="FILE", default=str(ROOT / "out/demo/report.html"), help="where the HTML report goes")
    p.add_argument("--trace", default=str(ROOT / "examples/traces/claude_code_excerpt.jsonl"), help="a trace in Mooncake JSONL form")
    p.add_argument("--block-size", type=int, default=128 << 10, metavar="BYTES", help="bytes per block of 512 tokens (default 131072)")
    p.add_argument("--prefill-speed", type=float, default=10_000, metavar="TOKENS/S", help="of the modelled engine (default 10000)")
    return p.parse_args()


class Progress:
    """One bar over all runs on a terminal; a line per run elsewhere."""

    def __init__(self, runs):
        self.runs, self.done, self.now = runs, 0, ""
        self.live = sys.stderr.isatty()

    def show(self, share):
        if not self.live:
            return
        width = 34
        filled = int(width * (self.done + share) / self.runs)
        sys.stderr.write(f"\r  [{'█' * filled}{'░' * (width - filled)}] {100 * (self.done + share) / self.runs:3.0f} %  {self.now}\033[K")
        sys.stderr.flush()

    def begin(self, name):
        self.now = name
        self.show(0)

    def end(self, text):
        self.done += 1
        if self.live:
            sys.stderr.write("\r\033[K")
        print(f"  {text}", flush=True)
        self.show(0) if self.done < self.runs else None


def working_set(path):
    """(different full blocks, trace seconds)"""
    seen, times = set(), []
    try:
        with open(path) as f:
            for number, line in enumerate(f, 1):
                if line.strip():
                    r = json.loads(line)
                    seen.update(r["hash_ids"][:r["input_length"] // BLOCK_TOKENS])
                    times.append(r["timestamp"])
    except OSError as e:
        raise Failed(f"cannot read the trace {path}: {e.strerror}")
    except (ValueError, KeyError, TypeError) as e:
        raise Failed(f"{path}, line {number}: not a request in Mooncake JSONL form ({type(e).__name__}: {e})")
    if not seen:
        raise Failed(f"{path} has no request with a full block of {BLOCK_TOKENS} tokens")
    return len(seen), (max(times) - min(times)) / 1000


def memory_free():
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) << 10 for line in f if line.startswith("MemAvailable"))


def replay(options, masters, json_path, loads_path, label, progress):
    argv = [options.binary, "replay", options.trace, "--master", ",".join(masters), "--engines", str(ENGINES), "--block-size", str(options.block_size),
            "--speed", str(SPEED), "--prefill-speed", str(options.prefill_speed), "--json", str(json_path), "--progress", "lines", "--label", label]
    if loads_path:
        argv += ["--loads", str(loads_path)]
    json_path.unlink(missing_ok=True)              # of an earlier demo
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
    timer = threading.Timer(RUN_DEADLINE, process.kill)
    timer.start()
    said = []
    try:
        for line in process.stderr:
            words = line.split()
            if words[:1] == ["progress"] and len(words) == 3:
                progress.show(int(words[1]) / int(words[2]))
            else:
                said.append(line)
        status = process.wait()
    finally:
        timer.cancel()
        if process.poll() is None:
            process.kill()
            process.wait()
    try:
        result = json.loads(json_path.read_text())
    except (OSError, ValueError):
        result = None
    if result is None or (status != 0 and result["wrong_bytes"] == 0):
        late = f" (killed after {RUN_DEADLINE:.0f} s)" if status == -signal.SIGKILL else ""
        raise Failed(f"millpond replay ended with {status}{late}:\n" + "".join("    " + line for line in said[-8:]))
    return result


def rebuilt_from(loads_path):
    """The totals as somebody outside would rebuild them, and whether one key always had one checksum."""
    loads = size = tokens = 0
    sums, wrong = {}, 0
    with open(loads_path) as f:
        for line in f:
            r = json.loads(line)
            loads += 1
            size += r["bytes"]
            tokens += BLOCK_TOKENS if r["ok"] else 0
            wrong += sums.setdefault(r["key"], r["checksum"]) != r["checksum"]
    return {"loads": loads, "bytes": size, "tokens": tokens, "keys": len(sums), "checksums_that_changed": wrong}


def model_ttft(sizes, prefill_speed):
    """TTFT again as in src/replay/ttft.h, at one load rate for all runs: what else this machine did during one of them
    must not speak for or against an arm. For the same reason the rate is that of processor time: in a cluster each engine has a
    host of its own, here ten processes share two cores. Answers it in bytes per second."""
    runs = [sizes[size][arm] for size in SIZES for arm in ARMS]
    rate = sum(r["loaded_bytes"] for r in runs) / max(1e-9, sum(r["load_cpu_seconds"] for r in runs)) or 1
    for run in runs:
        engine_free, session_ready = {}, {}
        for r in run["per_turn"]:
            arrival = max(r["timestamp_ms"], session_ready.get(r["session"], 0))
            start = max(arrival, engine_free.get(r["engine"], 0))
            seconds = (r["loads"] * BLOCK_TOKENS * run["model_bytes_per_token"] / rate + (r["tokens"] - r["tokens_not_prefilled"]) / prefill_speed)
            engine_free[r["engine"]] = session_ready[r["session"]] = first_token = start + 1000 * seconds
            r["ttft_ms"] = first_token - arrival
        ordered = sorted(r["ttft_ms"] for r in run["per_turn"])
        run["ttft_ms"] = {name: ordered[math.ceil(share * len(ordered)) - 1] for name, share in (("p50", 0.5), ("p99", 0.99))}
    return rate


def judge(sizes):
    """What an honest reader would object to; empty: nothing."""
    failures = []
    for size in SIZES:
        alone, pool = sizes[size]["alone"], sizes[size]["pool"]
        for arm, r in (("alone", alone), ("pool", pool)):
            if r["wrong_bytes"]:
                failures.append(f"{size}, {ARMS[arm]}: {r['wrong_bytes']} wrong bytes in {r['wrong_blocks']} blocks")
        if pool["hit_rate"] <= alone["hit_rate"]:
            failures.append(f"{size}: the pool hits {percent(pool['hit_rate'], 2)}, engines alone {percent(alone['hit_rate'], 2)}")
        if size != "scarce" and pool["hit_rate"] < pool["hit_rate_bound"] - BOUND_MARGIN:
            failures.append(f"{size}: the pool hits {percent(pool['hit_rate'], 2)}, more than 2 points below the bound of {percent(pool['hit_rate_bound'], 2)}")
    if sizes["enough"]["pool"]["loaded_bytes"] < LOADED_MIN:
        failures.append(f"only {size_text(sizes['enough']['pool']['loaded_bytes'])} were loaded from the pool; {size_text(LOADED_MIN)} are wanted")
    return failures


def figures(options, sizes, unique, trace_seconds):
    rate = model_ttft(sizes, options.prefill_speed)
    alone, pool = sizes["enough"]["alone"], sizes["enough"]["pool"]
    runs = [sizes[size][arm] for size in SIZES for arm in ARMS]
    ttft = {arm: sizes["enough"][arm]["ttft_ms"] for arm in ARMS}
    return {
        "size": "enough", "hit_rate_bound": pool["hit_rate_bound"], "hit_rate_alone": alone["hit_rate"], "hit_rate_pool": pool["hit_rate"],
        "hit_rate_bound_alone": pool["hit_rate_bound_alone"], "tokens_total": pool["tokens_total"], "tokens_not_prefilled": pool["tokens_not_prefilled"],
        "tokens_not_prefilled_alone": alone["tokens_not_prefilled"], "ttft_ms": ttft, "blocks_verified": pool["blocks_verified"],
        "wrong_bytes": pool["wrong_bytes"], "loaded_bytes": pool["loaded_bytes"], "load_GBps": pool["load_GBps"],
        "ttft_load_GBps": rate / 1e9, "prefill_speed": options.prefill_speed, "model_bytes_per_token": pool["model_bytes_per_token"], "trace": os.path.relpath(options.trace, ROOT),
        "all_runs": {key: sum(r[key] for r in runs) for key in ("blocks_verified", "wrong_bytes", "loaded_bytes")},
        "scale": {"trace_seconds": trace_seconds, "wall_seconds": pool["wall_seconds"], "time_compression": trace_seconds / pool["wall_seconds"], "speed": SPEED,
                  "block_bytes": options.block_size, "block_tokens": BLOCK_TOKENS, "bytes_per_token": options.block_size // BLOCK_TOKENS,
                  "bytes_shrunk": pool["model_bytes_per_token"] * BLOCK_TOKENS / options.block_size, "unique_blocks": unique, "enough_factor": ENOUGH},
        "sizes": sizes, "failures": judge(sizes)}


def print_table(results):
    print(f"\n  {'memory':<19}{'arm':<20}{'hit rate':>9}{'bound':>8}{'not prefilled':>15}{'TTFT p50':>10}{'p99':>9}{'GB/s':>7}{'verified':>10}{'wrong':>7}")
    print("  " + "─" * 114)
    for size in SIZES:
        for arm in ARMS:
            r = results["sizes"][size][arm]
            memory = f"{size} ({size_text(results['sizes'][size]['memory_bytes'])})" if arm == "alone" else ""
            print(f"  {memory:<19}{ARMS[arm]:<20}{percent(r['hit_rate']):>9}{percent(r['hit_rate_bound']):>8}{tokens_text(r['tokens_not_prefilled']):>15}"
                  f"{ms_text(r['ttft_ms']['p50']):>10}{ms_text(r['ttft_ms']['p99']):>9}{r['load_GBps']:>7.2f}{r['blocks_verified']:>10,}{r['wrong_bytes']:>7}")
    scale = results["scale"]
    print(f"""
  hit rate: share of the {tokens_text(results['tokens_total'])} prompt tokens; bound: one infinite cache (engines that share nothing: {percent(results['hit_rate_bound_alone'])})
  TTFT: modelled: queue + load + prefill at {results['prefill_speed']:,.0f} tokens/s; a loaded token is {size_text(results['model_bytes_per_token'])} (Llama-3.1-8B, bf16)
        at {results['ttft_load_GBps']:.2f} GB/s, measured: what one core moved and verified in the six runs: {demo_report.load_against_prefill(results)}
  GB/s: one engine while it loads, by the clock, the pool's own verification included; three engines, their nodes and this machine's {os.cpu_count()} CPUs
  scale: {scale['trace_seconds']:.0f} s of trace in {scale['wall_seconds']:.1f} s ({scale['time_compression']:.0f}x); {scale['bytes_per_token']} B per token stored, {scale['bytes_shrunk']:.0f}x less than the model's; blocks of {size_text(scale['block_bytes'])}
  {size_text(results['all_runs']['loaded_bytes'])} loaded in {results['all_runs']['blocks_verified']:,} blocks over the six runs, every byte compared: {results['all_runs']['wrong_bytes']} wrong""")


def run_all(options, work, loads):
    """Runs each arm at each size. `loads`: {(size, arm): path}, may be empty."""
    unique, trace_seconds = working_set(options.trace)
    enough = ENOUGH * unique * options.block_size
    sizes, progress = {}, Progress(len(SIZES) * len(ARMS))
    ample = int(FACTORS["ample"] * enough)
    if memory_free() < ample + (1 << 29):
        raise Failed(f"the largest size takes {size_text(ample)} and half a GiB for processes, but this machine has {size_text(memory_free())} free; "
                     "close something, or give --block-size a smaller value")
    print(f"  {unique:,} different blocks of {size_text(options.block_size)}: {size_text(unique * options.block_size)}; "
          f"{trace_seconds:.0f} s of trace at {SPEED}x; three engines, {len(SIZES)} sizes, 2 arms")
    for size in SIZES:
        node_bytes = -(-int(FACTORS[size] * enough / ENGINES) // (1 << 20)) << 20    # whole MiB
        sizes[size] = {"memory_bytes": node_bytes * ENGINES}
        for arm in ARMS:
            name = f"{size}, {ARMS[arm]}"
            progress.begin(name)
            began = time.monotonic()
            with Clusters(options.binary, work / "logs", f"{size}-{arm}", ENGINES, node_bytes, arm == "pool", SETTINGS) as cluster:
                result = replay(options, cluster.masters, work / f"{size}-{arm}.json", loads.get((size, arm)), f"arm={arm},size={size}", progress)
                if dead := cluster.ended():
                    raise Failed(f"a daemon ended by itself during {name}; see {dead[0].log_path}")
            sizes[size][arm] = result
            progress.end(f"{name:<28} {size_text(node_bytes * ENGINES):>8}: hit rate {percent(result['hit_rate']):>6}, "
                         f"{size_text(result['loaded_bytes'])} loaded, {time.monotonic() - began:.1f} s")
    return figures(options, sizes, unique, trace_seconds)


def write_json(results, path, work, loads):
    main_loads = loads[("enough", "pool")]
    others = path.with_name(path.stem + ".other-loads.jsonl")
    with open(others, "wb") as target:
        for key, part in loads.items():
            if key != ("enough", "pool"):
                with open(part, "rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)
                os.unlink(part)
    results["loads_file"], results["other_loads_file"] = main_loads.name, others.name
    results["rebuilt_from_loads"] = rebuilt = rebuilt_from(main_loads)
    if rebuilt["loads"] != results["blocks_verified"] or rebuilt["bytes"] != results["loaded_bytes"] or rebuilt["checksums_that_changed"]:
        results["failures"].append(f"the load lines do not add up to the figures: {rebuilt}")
    path.write_text(json.dumps(results, indent=1) + "\n")
    print(f"  figures        {path}\n  loads          {main_loads} ({rebuilt['loads']:,} lines: the pool at the size that is enough)"
          f"\n  other loads    {others} (the five other runs)")


def main():
    options = arguments()
    if not os.access(options.binary, os.X_OK):
        raise Failed(f"no program at {options.binary}; ./run build makes it")
    for name in [n for n in os.environ if n.startswith("MILLPOND_") and n != "MILLPOND_LOG"]:
        del os.environ[name]                                       # the demo runs on the settings that it states
    report = pathlib.Path(options.report).resolve()
    work = ROOT / "out" / "demo"
    (work / "logs").mkdir(parents=True, exist_ok=True)
    report.parent.mkdir(parents=True, exist_ok=True)
    loads = {}
    if options.json:
        path = pathlib.Path(options.json).resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        loads = {(size, arm): work / f"{size}-{arm}.loads.jsonl" for size in SIZES for arm in ARMS}
        loads[("enough", "pool")] = path.with_name(path.stem + ".loads.jsonl")
    print("Millpond demo: the same memory, every engine alone and as one pool")
    results = run_all(options, work, loads)
    print_table(results)
    print()
    if options.json:
        write_json(results, path, work, loads)
    report.write_text(demo_report.render(results))
    print(f"  report         {report}")
    for failure in results["failures"]:
        print(f"  FAILED: {failure}", file=sys.stderr)
    return 1 if results["failures"] else 0


def stop(number, _frame):
    """The first signal ends the demo; what it started is then put away without being disturbed by a second."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(143)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    try:
        sys.exit(main())
    except Failed as failure:
        print(f"\nmillpond demo: {failure}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("\nmillpond demo: stopped; everything that it started is gone", file=sys.stderr)
        sys.exit(130)
