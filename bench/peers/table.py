"""Prints a Markdown table of result lines: tool and setting by problem, median gap (median CPU seconds, gradients, runs)."""
import statistics
import sys

import results


def short(x):
    """Two significant digits, without exponent where that is as short."""
    if x == 0:
        return "0"
    if x >= 1e5 or abs(x) < 1e-4:
        mantissa, exponent = f"{x:.1e}".split("e")
        return f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    return f"{float(f'{x:.2g}'):g}"


def count(n):
    """12000 as 12k."""
    return f"{n / 1e6:.3g}M" if n >= 1e6 else f"{n / 1e3:.3g}k" if n >= 1e3 else f"{n:.0f}"


def cell(lines):
    runs = [x for x in lines if "skipped" not in x]
    if not runs:
        return "skipped" if lines else "–"
    gap, bad = results.median_gap(runs), sum(x["gap"] is None for x in runs)
    text = "NaN" if gap == float("inf") else short(gap)
    if bad and len(runs) > 1:
        text += f" [NaN {bad}/{len(runs)}]"
    seconds = statistics.median(x["cpu_seconds"] for x in runs)
    return f"{text} ({short(seconds)}, {count(statistics.median(x['gradients'] for x in runs))}, {len(runs)})"


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    lines = results.read(sys.argv[1:])
    names = results.problems_of(lines)
    print("| tool, setting | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")
    for tool, setting in results.settings_of(lines):
        mine = [x for x in lines if (x["tool"], x["setting"]) == (tool, setting)]
        version = " ".join(dict.fromkeys(x["version"] for x in mine if x.get("version")))
        cells = [cell([x for x in mine if x["problem"] == name]) for name in names]
        print(f"| {tool} {version}, {setting} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
