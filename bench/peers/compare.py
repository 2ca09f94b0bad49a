"""Holds every run of the other tools against ours: how soon do we reach the gap that it ended with?

compare.py PEERS.jsonl CERTUS.jsonl [--factor 5]: for every peer run the slowest of our seeds to reach its gap as a black box, in gradients
and CPU seconds; fails if that is more than 1/FACTOR of its gradients, or more CPU seconds. Also checks what certus says of itself.
"""

import argparse
import json
import math
import sys
from collections import defaultdict


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def first_reach(traces, gap):
    """(gradients, CPU seconds) at the first point of the trace of one seed that is at least as good, per seed the better of its runs."""
    found = {}
    for seed, trace in traces:
        hit = next(((g, c) for g, c, value in trace if value <= gap), None)
        if hit and (seed not in found or hit[0] < found[seed][0]):
            found[seed] = hit
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("peers")
    parser.add_argument("certus")
    parser.add_argument("--factor", type=float, default=5.0)
    options = parser.parse_args()
    ours = [r for r in lines(options.certus) if r["tool"] == "certus"]
    traces, failures = defaultdict(list), []
    for run in ours:
        if run["setting"].startswith("black box"):
            traces[run["problem"]].append((run["seed"], run["trace"]))
    worst = defaultdict(lambda: (0.0, 0.0))
    compared = 0
    for run in lines(options.peers):
        if run.get("skipped") or run.get("gap") is None or not math.isfinite(run["gap"]):
            continue
        if run["problem"] not in traces:
            continue
        compared += 1
        seeds = {seed for seed, _ in traces[run["problem"]]}
        found = first_reach(traces[run["problem"]], max(run["gap"], 0.0))
        name = f"{run['tool']}, {run['setting']}, {run['problem']}, seed {run['seed']} (gap {run['gap']:.3g}, {run['gradients']} gradients, {run['cpu_seconds']:.3g} s)"
        missing = seeds - set(found)
        if missing:
            failures.append(f"{name}: not reached by seeds {sorted(missing)}")
            continue
        gradients = max(g for g, _ in found.values()) / run["gradients"]
        seconds = max(c for _, c in found.values()) / run["cpu_seconds"]
        key = (run["tool"], run["setting"])
        worst[key] = (max(worst[key][0], gradients), max(worst[key][1], seconds))
        if gradients * options.factor > 1.0:
            failures.append(f"{name}: {gradients:.3f} of its gradients")
        if seconds > 1.0:
            failures.append(f"{name}: {seconds:.3f} of its CPU seconds")
    print(f"{compared} runs of other tools; our slowest seed to reach the gap of each, as a part of what it spent:")
    for (tool, setting), (gradients, seconds) in sorted(worst.items()):
        print(f"  {tool}, {setting}: gradients {gradients:.4f}, CPU seconds {seconds:.3f}")
    print("certus itself:")
    for key in sorted({(r["setting"], r["problem"]) for r in ours}):
        runs = [r for r in ours if (r["setting"], r["problem"]) == key]
        gaps, gradients = [r["gap"] for r in runs], [r["gradients"] for r in runs]
        close = sum(
            r["estimate"] is not None
            and (abs(r["estimate"] - r["gap"]) <= 0.003 or r["gap"] / 3 <= r["estimate"] <= 3 * r["gap"])
            for r in runs
        )
        levels = ", ".join(sorted({f"{r['status']} ({r['level']})" for r in runs}))
        bounds = [r["bound"] for r in runs if r["bound"] is not None]
        print(
            f"  {key[0]}, {key[1]}: {len(runs)} runs, {levels}; largest gap {max(gaps):.2e}, largest bound {max(bounds, default=math.nan):.2e}, "
            f"gradients {min(gradients)} to {max(gradients)}, CPU s {max(r['cpu_seconds'] for r in runs):.3f} at most"
            + (f", estimate close in {close}" if key[0] == "black box" else "")
        )
    print("\n".join(failures) if failures else "nothing to object")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
