"""The demo's report: one HTML file without anything from elsewhere, charts as inline SVG."""
import html
import math

ARMS = {"alone": "every engine alone", "pool": "shared pool"}
SIZES = ("scarce", "enough", "ample")

STYLE = """
:root { color-scheme: light dark; --paper:#fbfbf9; --card:#ffffff; --ink:#1c2124; --soft:#5c666c; --line:#dfe3e4; --grid:#eceeee;
        --pool:#0b7a8a; --alone:#c4692b; --bound:#7a8288; --good:#1c7d46; --bad:#b3261e; }
@media (prefers-color-scheme: dark) { :root { --paper:#14181a; --card:#1b2023; --ink:#e6eaeb; --soft:#9aa5aa; --line:#30383c; --grid:#262d30;
        --pool:#45bccd; --alone:#e59a5f; --bound:#8b959a; --good:#5cc38a; --bad:#f2847d; } }
* { box-sizing:border-box } body { margin:0; background:var(--paper); color:var(--ink); font:15px/1.5 system-ui,"Segoe UI",Roboto,"DejaVu Sans",sans-serif }
main { max-width:1180px; margin:0 auto; padding:36px 24px 60px } h1 { font-size:27px; line-height:1.2; margin:0 0 6px; letter-spacing:-.01em }
h2 { font-size:17px; margin:38px 0 4px } p { margin:4px 0 10px; max-width:82ch } .soft { color:var(--soft) }
.cards { display:grid; grid-template-columns:repeat(auto-fit,minmax(200px,1fr)); gap:14px; margin:22px 0 6px }
.card { background:var(--card); border:1px solid var(--line); border-radius:8px; padding:14px 16px }
.card b { display:block; font-size:25px; line-height:1.25; font-weight:650; font-variant-numeric:tabular-nums }
.card span { color:var(--soft); font-size:13px } .pool { color:var(--pool) } .alone { color:var(--alone) }
.wide { overflow-x:auto } table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums; font-size:14px; background:var(--card) }
th,td { padding:7px 10px; text-align:right; border-bottom:1px solid var(--line); white-space:nowrap }
th { font-weight:600; color:var(--soft); font-size:12.5px } td:first-child,th:first-child,td:nth-child(2),th:nth-child(2) { text-align:left }
tr.last td { border-bottom-width:2px } .charts { display:grid; grid-template-columns:repeat(auto-fit,minmax(340px,1fr)); gap:14px; margin-top:8px }
figure { margin:0; background:var(--card); border:1px solid var(--line); border-radius:8px; padding:12px 12px 6px } figcaption { font-size:13.5px; font-weight:600 }
svg { width:100%; height:auto; display:block } svg text { fill:var(--soft); font-size:11px } .key { display:inline-block; width:22px; height:0; border-top:3px solid; vertical-align:middle; margin:0 6px 2px 0 }
.legend { margin:6px 0 0; font-size:13.5px } .legend span { margin-right:22px } ul { padding-left:20px; margin:6px 0 } li { max-width:92ch; margin:3px 0 }
code { font-family:ui-monospace,"DejaVu Sans Mono",monospace; font-size:13px }
"""


def percent(x, digits=1):
    return f"{100 * x:.{digits}f} %"


def size_text(count):
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= scale:
            return f"{count / scale:.{0 if count / scale >= 100 or count % scale == 0 else 1}f} {unit}"
    return f"{count} B"


def ms_text(ms):
    return f"{ms / 1000:.1f} s" if ms >= 1000 else f"{ms:.0f} ms"


def tokens_text(count):
    return f"{count / 1e6:.2f} M" if count >= 1e6 else f"{count:,}"


def load_against_prefill(results):
    load = results["model_bytes_per_token"] / (results["ttft_load_GBps"] * 1e9) * 1e6
    prefill = 1e6 / results["prefill_speed"]
    verdict = "" if load < prefill else "; so slow a load is no gain, an engine should have prefilled instead"
    return f"{load:.0f} us to load a token, {prefill:.0f} us to prefill it{verdict}"


class Chart:
    """Axes with labels; points and lines in data coordinates."""
    WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 460, 270, 50, 12, 10, 38

    def __init__(self, x_range, y_range, x_ticks, y_ticks, x_label, y_label, log=False):
        self.x_range, self.y_range, self.log = x_range, y_range, log
        self.parts = []
        for value, label in y_ticks:
            y = self.y(value)
            self.parts.append(f'<line x1="{self.LEFT}" x2="{self.WIDTH - self.RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="var(--grid)"/>'
                              f'<text x="{self.LEFT - 6}" y="{y + 3.5:.1f}" text-anchor="end">{label}</text>')
        base = self.HEIGHT - self.BOTTOM
        for value in x_ticks:
            self.parts.append(f'<text x="{self.x(value):.1f}" y="{base + 15}" text-anchor="middle">{value}</text>')
        self.parts.append(f'<line x1="{self.LEFT}" x2="{self.WIDTH - self.RIGHT}" y1="{base}" y2="{base}" stroke="var(--line)"/>'
                          f'<text x="{(self.LEFT + self.WIDTH - self.RIGHT) / 2}" y="{self.HEIGHT - 4}" text-anchor="middle">{x_label}</text>'
                          f'<text transform="translate(11 {(self.TOP + base) / 2}) rotate(-90)" text-anchor="middle">{y_label}</text>')

    def x(self, value):
        low, high = self.x_range
        return self.LEFT + (value - low) / (high - low) * (self.WIDTH - self.LEFT - self.RIGHT)

    def y(self, value):
        low, high = self.y_range
        value = min(max(value, low), high)
        share = math.log(value / low) / math.log(high / low) if self.log else (value - low) / (high - low)
        return self.HEIGHT - self.BOTTOM - share * (self.HEIGHT - self.TOP - self.BOTTOM)

    def points(self, points, color):
        dots = "".join(f'<circle cx="{self.x(x):.1f}" cy="{self.y(y):.1f}" r="2.1"><title>{html.escape(title)}</title></circle>'
                       for x, y, title in points)
        self.parts.append(f'<g fill="{color}" fill-opacity=".33">{dots}</g>')

    def line(self, points, color):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2.4" stroke-linejoin="round"/>')

    def svg(self, name):
        return f'<svg viewBox="0 0 {self.WIDTH} {self.HEIGHT}" role="img" aria-label="{html.escape(name)}">{"".join(self.parts)}</svg>'


def by_turn(run):
    turns = {}
    for r in run["per_turn"]:
        turns.setdefault(r["turn"] + 1, []).append(r)
    return sorted(turns.items())


def median(values):
    values = sorted(values)
    return values[len(values) // 2] if len(values) % 2 else (values[len(values) // 2 - 1] + values[len(values) // 2]) / 2


def frame(runs, y_range, y_ticks, y_label, log=False):
    last = max(r["turn"] + 1 for run in runs.values() for r in run["per_turn"])
    step = max(1, math.ceil(last / 6 / 5) * 5)
    return Chart((0.5, last + 0.5), y_range, [1] + list(range(step, last + 1, step)), y_ticks, "turn of its session", y_label, log)


def hit_chart(name, runs):
    chart = frame(runs, (0, 1), [(v / 100, f"{v} %") for v in (0, 25, 50, 75, 100)], "hit rate (prompt tokens)")
    for arm, run in runs.items():
        offset = -0.12 if arm == "alone" else 0.12
        chart.points([(r["turn"] + 1 + offset, r["tokens_not_prefilled"] / max(1, r["tokens"]),
                       f"{ARMS[arm]}: session {r['session']}, turn {r['turn'] + 1}: {percent(r['tokens_not_prefilled'] / max(1, r['tokens']))} "
                       f"of {r['tokens']:,} tokens") for r in run["per_turn"]], f"var(--{arm})")
    for arm, run in runs.items():
        chart.line([(turn, sum(r["tokens_not_prefilled"] for r in rows) / max(1, sum(r["tokens"] for r in rows))) for turn, rows in by_turn(run)],
                   f"var(--{arm})")
    return chart.svg(f"Hit rate per turn, {name}")


def ttft_chart(name, runs, least_ms, most_ms):
    bottom = math.floor(math.log10(max(least_ms, 1)))
    top = max(bottom + 1, math.ceil(math.log10(max(most_ms, 1))))
    low, high = 10 ** bottom, 10 ** top
    ticks = [(10 ** e, ms_text(10 ** e).replace(".0", "")) for e in range(bottom, top + 1)]
    chart = frame(runs, (low, high), ticks, "modelled TTFT (log)", log=True)
    for arm, run in runs.items():
        offset = -0.12 if arm == "alone" else 0.12
        chart.points([(r["turn"] + 1 + offset, max(low, r["ttft_ms"]),
                       f"{ARMS[arm]}: session {r['session']}, turn {r['turn'] + 1}: {ms_text(r['ttft_ms'])}") for r in run["per_turn"]], f"var(--{arm})")
    for arm, run in runs.items():
        chart.line([(turn, max(low, median([r["ttft_ms"] for r in rows]))) for turn, rows in by_turn(run)], f"var(--{arm})")
    return chart.svg(f"Modelled TTFT per turn, {name}")


def table(results):
    head = ["Memory", "Arm", "Hit rate", "Below bound", "Not prefilled", "TTFT p50", "TTFT p99", "Load GB/s", "Loaded", "Verified", "Wrong bytes"]
    rows = []
    for size in SIZES:
        for arm in ARMS:
            r = results["sizes"][size][arm]
            cells = [f"{size}, {size_text(results['sizes'][size]['memory_bytes'])}" if arm == "alone" else "", f'<span class="{arm}">{ARMS[arm]}</span>',
                     f"<b>{percent(r['hit_rate'])}</b>", f"{max(0, 100 * (r['hit_rate_bound'] - r['hit_rate'])):.1f} points", tokens_text(r["tokens_not_prefilled"]),
                     ms_text(r["ttft_ms"]["p50"]), ms_text(r["ttft_ms"]["p99"]), f"{r['load_GBps']:.2f}", size_text(r["loaded_bytes"]),
                     f"{r['blocks_verified']:,}", str(r["wrong_bytes"])]
            rows.append(f'<tr{" class=last" if arm == "pool" else ""}>' + "".join(f"<td>{c}</td>" for c in cells) + "</tr>")
    return "<div class=wide><table><tr>" + "".join(f"<th>{h}</th>" for h in head) + "</tr>" + "".join(rows) + "</table></div>"


def render(results):
    """HTML text. `results`: what --json writes, with per_turn in each arm of each size."""
    enough = results["sizes"]["enough"]
    pool, alone, scale = enough["pool"], enough["alone"], results["scale"]
    ok = not results["failures"]
    every_ttft = [r["ttft_ms"] for s in SIZES for arm in ARMS for r in results["sizes"][s][arm]["per_turn"]]
    charts = {"hit": "", "ttft": ""}
    for size in SIZES:
        runs = {arm: results["sizes"][size][arm] for arm in ARMS}
        title = f"{size}: {size_text(results['sizes'][size]['memory_bytes'])} in all"
        charts["hit"] += f"<figure><figcaption>{title}</figcaption>{hit_chart(title, runs)}</figure>"
        charts["ttft"] += f"<figure><figcaption>{title}</figcaption>{ttft_chart(title, runs, min(every_ttft), max(every_ttft))}</figure>"
    verdict = ('<span style="color:var(--good)">every check passed</span>' if ok else
               '<span style="color:var(--bad)">failed: ' + html.escape("; ".join(results["failures"])) + "</span>")
    everything = results["all_runs"]
    return f"""<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<title>Millpond demo</title><style>{STYLE}</style></head><body><main>
<h1>Millpond demo: the same memory, shared or not</h1>
<p class="soft">{pool['turns']} requests of {pool['sessions']} Claude Code sessions, each turn on another one of {pool['engines']} engines; {verdict}.</p>
<div class="cards">
<div class="card"><b class="pool">{percent(pool['hit_rate'])}</b><span>of prompt tokens hit in the shared pool; an infinite cache reaches {percent(pool['hit_rate_bound'])}</span></div>
<div class="card"><b class="alone">{percent(alone['hit_rate'])}</b><span>hit when every engine has a third of the same memory to itself</span></div>
<div class="card"><b>{(alone['tokens_total'] - alone['tokens_not_prefilled']) / max(1, pool['tokens_total'] - pool['tokens_not_prefilled']):.1f}×</b><span>fewer tokens to prefill:
{tokens_text(pool['tokens_total'] - pool['tokens_not_prefilled'])} instead of {tokens_text(alone['tokens_total'] - alone['tokens_not_prefilled'])}</span></div>
<div class="card"><b>{everything['wrong_bytes']}</b><span>wrong bytes in {everything['blocks_verified']:,} loaded blocks ({size_text(everything['loaded_bytes'])}), every byte compared</span></div>
</div>
<p class="soft">The four figures are for the size that is enough for the pool ({size_text(enough['memory_bytes'])}), the last one for all six runs.</p>
<h2>Figures</h2>{table(results)}
<div class="legend"><span><i class="key" style="color:var(--pool)"></i>shared pool</span><span><i class="key" style="color:var(--alone)"></i>every engine alone</span>
<span class="soft">one dot per request; lines: all sessions' n-th turns together (hit rate over tokens, median of TTFT)</span></div>
<h2>Hit rate per turn</h2><div class="charts">{charts['hit']}</div>
<h2>Modelled time to first token per turn</h2>
<p class="soft">Queue + load + prefill at {results['prefill_speed']:,.0f} tokens/s (an assumption: there is no GPU here). A loaded token counts as
{size_text(results['model_bytes_per_token'])}, Llama-3.1-8B in bf16, at {results['ttft_load_GBps']:.2f} GB/s, measured: what one core moved and verified in the six runs ({load_against_prefill(results).replace("us ", "µs ")}).</p><div class="charts">{charts['ttft']}</div>
<h2>What was run</h2><ul>
<li>Trace: {html.escape(results['trace'])}; real sessions (callanjfox/kv-cache-tester, WEKA, Apache-2.0), chosen by hash. Lengths, times and shared prefixes are real; no text is in it.</li>
<li>Time: {scale['trace_seconds']:.0f} s of trace in {scale['wall_seconds']:.1f} s, {scale['time_compression']:.0f}× compressed (asked for {scale['speed']:.0f}×). Waits that depend on
time (protection of looked-up blocks, gathering of touches) are compressed alike, in both arms.</li>
<li>Bytes: {scale['bytes_per_token']} per token stored, {scale['bytes_shrunk']:.0f}× smaller than the model's; blocks of 512 tokens, {size_text(scale['block_bytes'])}, each in 8 pieces.</li>
<li>Memory: enough = {scale['enough_factor']:g} × the trace's {scale['unique_blocks']:,} different blocks; scarce = a third of that; ample = 3 × that, so that every engine alone could hold everything.
Each engine has a third to itself (a master and a node of its own: the same code, the same eviction), or all three nodes are one pool.</li>
<li>Even with infinite memory, engines that share nothing reach {percent(pool['hit_rate_bound_alone'])} here: the next turn comes to an engine that has not seen the last two.</li>
<li>A block's content is a function of its key. Each engine process compares every byte that it loads.</li>
</ul></main></body></html>
"""
