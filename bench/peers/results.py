"""Reads result lines (JSON, one run each) and puts them in the order of problems and settings used by the table and the figure."""
import json
import statistics

from problems import NAMES

TOOLS = ["certus", "NumPyro", "BlackJAX", "Stan", "PyMC", "viabel"]


def read(paths):
    """All result lines of the files."""
    lines = []
    for path in paths:
        with open(path) as f:
            lines += [json.loads(text) for text in f if text.strip()]
    return lines


def ordered(items, first):
    """Distinct items, those in `first` before the others, else in order of appearance."""
    items = list(dict.fromkeys(items))
    return sorted(items, key=lambda x: first.index(x) if x in first else len(first))


def problems_of(lines):
    return ordered((x["problem"] for x in lines), NAMES)


def settings_of(lines):
    """Pairs (tool, setting), grouped by tool, certus first, a tool's default before its tuned settings."""
    pairs = {(x["tool"], x["setting"]): bool(x.get("tuned")) for x in lines}
    tools = ordered((tool for tool, _ in pairs), TOOLS)
    return sorted(pairs, key=lambda pair: (tools.index(pair[0]), pairs[pair]))


def median_gap(runs):
    """Median over runs, where a run without a finite gap counts as infinitely bad."""
    return statistics.median_low([float("inf") if x["gap"] is None else x["gap"] for x in runs])
