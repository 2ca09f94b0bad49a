"""Writes psis_weights.csv and psis_reference.csv: log importance weights, and what two releases of ArviZ say of them.

Run in this folder with arviz 0.23.4 and arviz-stats 0.8.0. `arviz.psislw` takes log weights; `arviz_stats`' psislw takes
their negative. They also differ in the length of the tail, ceil or floor of min(S/5, 3 sqrt S), and in values tied with
the cutoff (left out of the tail or kept), so the second column is empty where they need not agree.
"""
import csv
import numpy as np
from arviz import psislw as of_log_weights
from arviz_stats.base import array_stats

rng = np.random.default_rng(20240611)

def gaussian(draws, dim, wide):
    """q = N(0, wide^2 I) against p = N(0, I): bounded weights."""
    u = rng.standard_normal((draws, dim))
    return ((1 - wide**2) * u**2 / 2 + np.log(wide)).sum(axis=1)

def pareto(draws, k):
    """Weights with a generalised Pareto tail of shape k and a lognormal factor."""
    return -k * np.log(rng.uniform(size=draws)) + 0.1 * rng.standard_normal(draws) - 700.0

tied = np.round(pareto(100, 0.7), 1)
tied[np.argsort(tied)[:80]] -= 0.05  # the cutoff is below the tail
tied_at_cutoff = np.round(pareto(100, 0.7), 1)
order = np.argsort(tied_at_cutoff)
tied_at_cutoff[order[76:84]] = tied_at_cutoff[order[79]]  # the cutoff is the 80th
cases = [
    ("light", gaussian(400, 3, 1.3), True),
    ("half", pareto(400, 0.5), True),
    ("heavy", pareto(400, 2.0), True),
    ("small", pareto(30, 0.5), True),
    ("tied", tied, True),
    ("tied at the cutoff", tied_at_cutoff, False),
    ("uneven", pareto(500, 0.6), False),
    ("underflow", np.where(np.arange(400) < 30, pareto(400, 0.9), -3000.0 + pareto(400, 0.9)), False),
    ("too few", pareto(20, 0.5), False),
]
text = lambda x: repr(float(x))
with open("psis_weights.csv", "w", newline="") as file:
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["case", "log_weight"])
    for name, weights, _ in cases:
        out.writerows([name, text(x)] for x in weights)
with open("psis_reference.csv", "w", newline="") as file:
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["case", "quantity", "rank", "arviz", "arviz_stats"])
    for name, weights, same in cases:
        old, k_old = of_log_weights(weights.copy())
        new, k_new = array_stats.psislw(-weights) if same else (None, None)
        out.writerow([name, "k_hat", "", text(k_old), text(k_new) if same else ""])
        # smoothed normalised log weights in increasing order: the smallest, the middle, into and through the tail
        n = len(weights)
        for rank in [0, n // 2, n - n // 5, n - 9, n - 4, n - 2, n - 1]:
            at = lambda x: text(np.sort(x)[rank])
            out.writerow([name, "log_weight", rank, at(old), at(new) if same else ""])
