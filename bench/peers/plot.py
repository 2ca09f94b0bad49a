"""Draws gap against gradients and against CPU seconds, one panel per problem: peers as markers, certus as lines.

python plot.py RESULT.jsonl... --out FILE.png
"""
import argparse

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

import results

COLOURS = {"NumPyro": "#0072B2", "BlackJAX": "#E69F00", "Stan": "#009E73", "PyMC": "#D55E00", "viabel": "#CC79A7"}
CERTUS = {"auto": ("black", "-"), "stochastic": ("#6a3d9a", "-"), "black box": ("#777777", "-")}
MARKERS = {"NumPyro": "oP", "BlackJAX": "sX", "Stan": "^<", "PyMC": "Dd", "viabel": "v>"}  # first and second setting of a kind
FLOOR, CEILING, TARGET = 1e-9, 1e7, 0.01
AXES = (("gradients", "gradients of the log density"), ("cpu_seconds", "CPU seconds, one thread, without compilation"))


def clip(gap):
    """A gap inside the drawn range."""
    return min(max(gap, FLOOR), CEILING)


def style(tool, setting, lines):
    """Marker, face and edge of a peer's setting: filled where tuned."""
    settings = [s for t, s in results.settings_of(lines) if t == tool]
    tuned = {s: any(x.get("tuned") for x in lines if (x["tool"], x["setting"]) == (tool, s)) for s in settings}
    rank = [s for s in settings if tuned[s] == tuned[setting]].index(setting)
    colour = COLOURS.get(tool, "#444444")
    return {"marker": MARKERS.get(tool, "o*")[rank % 2], "mec": colour, "mfc": colour if tuned[setting] else "white"}


def draw(axes, lines, key, problem):
    """One panel."""
    axes.axhline(TARGET, color="#b00020", lw=0.8, ls=(0, (4, 3)), zorder=1)
    runs = [x for x in lines if x["problem"] == problem and "skipped" not in x]
    lost = [x for x in runs if x["gap"] is None]
    for i, (tool, setting) in enumerate(results.settings_of(lost)):
        mine = [x for x in runs if (x["tool"], x["setting"]) == (tool, setting)]
        text = f"{tool}, {setting}: NaN {sum(x['gap'] is None for x in mine)}/{len(mine)}"
        axes.text(0.99, 0.97 - 0.1 * i, text, transform=axes.transAxes, ha="right", va="top", fontsize=7, color=COLOURS.get(tool))
    for x in runs:
        if x["gap"] is None:
            continue
        if x["tool"] == "certus":
            colour, dash = CERTUS.get(x["setting"], ("#333333", ":"))
            column = 0 if key == "gradients" else 1
            trace = [point for point in x.get("trace", []) if point[column] > 0]
            axes.plot([p[column] for p in trace], [clip(p[2]) for p in trace], color=colour, ls=dash, lw=0.9, zorder=4)
            axes.plot([max(x[key], 1e-12)], [clip(x["gap"])], marker="*", ms=8, mfc=colour, mec="white", mew=0.5, ls="", zorder=5)
        else:
            look = style(x["tool"], x["setting"], lines)
            axes.plot([x[key]], [clip(x["gap"])], ls="", ms=5.5, mew=1.2, alpha=0.9, zorder=3, clip_on=False, **look)


def handles(lines):
    """Legend entries: certus lines, then the peers' settings."""
    out = []
    for tool, setting in results.settings_of(lines):
        if tool == "certus":
            colour, dash = CERTUS.get(setting, ("#333333", ":"))
            out.append(Line2D([], [], color=colour, ls=dash, lw=1.4, marker="*", ms=8, mec="white", label=f"certus, {setting}"))
    for tool, setting in results.settings_of(lines):
        runs = [x for x in lines if (x["tool"], x["setting"]) == (tool, setting) and "skipped" not in x]
        if tool != "certus" and runs:
            out.append(Line2D([], [], ls="", ms=6, mew=1.2, label=f"{tool}, {setting}", **style(tool, setting, lines)))
    out.append(Line2D([], [], color="#b00020", lw=0.9, ls=(0, (4, 3)), label=f"gap {TARGET}"))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    lines = results.read(args.files)
    names = results.problems_of(lines)
    columns = min(4, len(names))
    depth = -(-len(names) // columns)
    plt.rcParams.update({"font.size": 9, "axes.titlesize": 10, "axes.linewidth": 0.6, "xtick.labelsize": 8, "ytick.labelsize": 8})
    figure = plt.figure(figsize=(3.4 * columns, 2.35 * 2 * depth + 1.4), layout="constrained")
    parts = figure.subfigures(3, 1, height_ratios=[2.35 * depth, 2.35 * depth, 1.2])
    for part, (key, label) in zip(parts, AXES):
        grid = part.subplots(depth, columns, sharey=True, squeeze=False)
        for i, axes in enumerate(grid.flat):
            if i >= len(names):
                axes.set_visible(False)
                continue
            draw(axes, lines, key, names[i])
            axes.set(xscale="log", yscale="log", ylim=(FLOOR, 10 * CEILING))
            axes.set_title(names[i], pad=4)
            axes.grid(True, which="major", color="#e4e4e4", lw=0.5, zorder=0)
            axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0,), numticks=10))
            axes.yaxis.set_minor_formatter(NullFormatter())
            axes.xaxis.set_major_locator(LogLocator(base=10, numticks=7))
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.tick_params(which="minor", length=0)
            axes.spines[["top", "right"]].set_visible(False)
        part.supxlabel(label, fontsize=10)
        part.supylabel("gap f − f*, nats", fontsize=10)
    parts[2].legend(handles=handles(lines), loc="center", ncols=min(3, columns), frameon=False, fontsize=9)
    figure.savefig(args.out, dpi=130)


if __name__ == "__main__":
    main()
