#!/usr/bin/env python3
"""bench/paper.py CSV PNG: draws what `bench/run paper` measured. Needs matplotlib."""

import csv
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

TITLES = {
    "lin_d10": "Linear regression",
    "logit_d10": "Logistic regression",
    "hier_logit": "Hierarchical logistic regression",
}
METHODS = {
    "prox-energy": ("#0072b2", "proximal, energy"),
    "proj-entropy": ("#d55e00", "projected, entropy"),
    "proj-stl": ("#009e73", "projected, sticking the landing"),
    "ball-stl": ("#000000", "in a certified ball (distance in posterior sds)"),
}
LINES = {"paper": ":", "sharp": "-", "local": "-"}

series = defaultdict(list)
with open(sys.argv[1], newline="") as file:
    for row in csv.DictReader(line for line in file if not line.startswith("#")):
        key = row["problem"], row["method"], row["constants"]
        series[key].append([float(row[name]) for name in ("iteration", "mean", "standard_error", "bound", "dimension", "kappa")])

figure, panels = plt.subplots(1, 3, figsize=(15, 5.6), sharey=False)
for panel, (problem, title) in zip(panels, TITLES.items()):
    for (own, method, constants), rows in series.items():
        if own != problem:
            continue
        color, style = METHODS[method][0], LINES[constants]
        at, mean, _, bound = ([row[k] for row in rows] for k in range(4))
        panel.plot(at, bound, style, color=color, linewidth=1, alpha=0.6)
        panel.plot(at, mean, style, color=color, linewidth=2.2)
        panel.set_title(f"{title}: d = {rows[0][4]:.0f}, M/μ = {rows[0][5]:.3g}", fontsize=11)
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xlabel("iterations of one draw each")
    panel.grid(alpha=0.25)
panels[0].set_ylabel("E|w − w*|²: measured (thick) and its bound (thin)")
handles = [plt.Line2D([], [], color=color, linewidth=2.2, label=label) for color, label in METHODS.values()]
handles += [plt.Line2D([], [], color="grey", linestyle=style, label=label) for style, label in ((":", "constants and steps of the paper"), ("-", "ours"))]
figure.legend(handles=handles, loc="lower center", ncol=3, fontsize=9, frameon=False)
figure.tight_layout(rect=(0, 0.12, 1, 1))
figure.savefig(sys.argv[2], dpi=110)
