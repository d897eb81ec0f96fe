#!/usr/bin/env python3
"""Makes examples/traces/claude_code_excerpt.jsonl from the repacked WEKA Claude Code traces.

    tools/make_excerpt.py weka_cc_compact.jsonl.gz examples/traces/claude_code_excerpt.jsonl

The rule, so that nobody has to trust our taste: of the conversations with at least TURNS_MIN requests take the SESSIONS
with the smallest SHA-256 of their id. Each starts at a second drawn from START_SPAN by a generator seeded with that
hash, and is cut after TURNS_MAX requests and at the end of WINDOW. Nothing looks at lengths or hit rates.

Output: Mooncake's JSONL form {timestamp ms, input_length, output_length, hash_ids} plus {session, turn}, by timestamp.
hash_ids are prefix-chained blocks of 512 tokens: two requests share an id exactly where their prompts agree from the
first token on. The last id stands for a partial block unless 512 divides input_length.
"""
import gzip
import hashlib
import json
import random
import sys

SESSIONS = 12
TURNS_MIN = 10
TURNS_MAX = 30
START_SPAN = 30 * 60      # seconds
WINDOW = 60 * 60          # seconds
BLOCK = 512               # tokens; the source has blocks of 64
GROUP = BLOCK // 64


def digest(conversation):
    return hashlib.sha256(conversation["id"].encode()).hexdigest()


def choose(conversations):
    long_enough = [c for c in conversations if len(c["req"]) >= TURNS_MIN]
    return sorted(long_enough, key=digest)[:SESSIONS]


class Ids:
    """Numbers blocks in the order of their first appearance; a name stands for the same block in every conversation."""

    def __init__(self):
        self.named = {}
        self.count = 0

    def fresh(self):
        self.count += 1
        return self.count - 1

    def of(self, name):
        if name not in self.named:
            self.named[name] = self.fresh()
        return self.named[name]


def requests(conversation, start):
    for turn, r in enumerate(conversation["req"][:TURNS_MAX]):
        at, inputs, outputs, _, ref, lcp, _, _, _, _, tool, system = r
        if start + at >= WINDOW:
            return
        yield {"at": start + at, "turn": turn, "session": conversation["id"], "input": inputs, "output": outputs,
               "ref": ref, "lcp": lcp, "tool": tool, "system": system}


def name_blocks(request, chains, used, ids):
    """The ids of one request, given those of the earlier requests of its conversation."""
    full = request["input"] // BLOCK
    shared = request["lcp"] // GROUP if request["ref"] >= 0 else 0
    chain = chains[request["ref"]][:shared] if shared else []
    # A prompt that shares nothing with its own conversation begins with tool schemas and a system prompt, which other
    # conversations with equal lengths of both have too. Not where this conversation had that prefix before: the source
    # says then that the two differ.
    for i in range(len(chain), full):
        name = None
        if shared == 0 and (i + 1) * BLOCK <= request["tool"]:
            name = ("tools", request["tool"], i)
        elif shared == 0 and (i + 1) * BLOCK <= request["tool"] + request["system"]:
            name = ("system", request["tool"], request["system"], i)
        if name is None or name in used:
            shared = -1               # chained: nothing after a block of its own can be common
            chain.append(ids.fresh())
        else:
            used.add(name)
            chain.append(ids.of(name))
    return chain


def main():
    source, target = sys.argv[1:3]
    with gzip.open(source, "rt") as f:
        chosen = choose([json.loads(line) for line in f])
    everything = []
    for conversation in chosen:
        start = random.Random(int(digest(conversation), 16)).uniform(0, START_SPAN)
        everything += requests(conversation, start)
    everything.sort(key=lambda r: (r["at"], r["session"], r["turn"]))
    ids, chains, used = Ids(), {}, {}
    tokens = hits = blocks = 0
    with open(target, "w") as f:
        for r in everything:
            mine = chains.setdefault(r["session"], {})
            before = ids.count
            chain = name_blocks(r, mine, used.setdefault(r["session"], set()), ids)
            mine[r["turn"]] = chain
            tokens += r["input"]
            hits += (len(chain) - (ids.count - before)) * BLOCK
            blocks += len(chain)
            partial = [ids.fresh()] if r["input"] % BLOCK else []
            f.write(json.dumps({"timestamp": round(r["at"] * 1000), "input_length": r["input"],
                                "output_length": r["output"], "hash_ids": chain + partial,
                                "session": r["session"], "turn": r["turn"]}, separators=(",", ":")) + "\n")
    print(f"{len(everything)} requests of {len(chains)} sessions, {tokens:,} input tokens, {blocks:,} full blocks, "
          f"infinite cache {hits / tokens:.1%}")


if __name__ == "__main__":
    main()
