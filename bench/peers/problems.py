"""Loads a benchmark problem by name and measures the exact gap f(q) - f* of any Gaussian q on it.

Run `python problems.py [--data DIR]` to check the rule: the gap at every stored optimum, and the two quadratures against each other.
"""
import argparse
import json
import os
from pathlib import Path

import numpy as np
from scipy.special import log_expit, ndtr

NAMES = ["lin_d10", "logit_d10", "logit_bc", "lin_ill_d50", "hier_logit", "lin_d100", "logit_d100", "logit_d500"]
REPO_DATA = Path(__file__).resolve().parents[2] / "data"
LOG_2PI = np.log(2 * np.pi)


def read_table(directory, name):
    """The columns of NAME.csv or NAME.parquet as a dictionary of float arrays."""
    csv, parquet = Path(directory) / f"{name}.csv", Path(directory) / f"{name}.parquet"
    if csv.exists():
        with open(csv) as f:
            columns = f.readline().strip().split(",")
        table = np.loadtxt(csv, delimiter=",", skiprows=1, ndmin=2)
        return {c: table[:, j] for j, c in enumerate(columns)}
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(parquet)
    return {c: table[c].to_numpy().astype(float) for c in table.column_names}


def softplus_trapezoid(mean, sd, refine=1):
    """E log(1 + e^t), t ~ N(mean, sd^2), by the trapezoid rule in z = (t - mean)/sd, for moderate sd.

    log(1 + e^t) is analytic for |Im z| < pi/sd, so a step h has error about exp(-2 pi a/h + a^2/2), a = min(pi/sd, 2 pi/h):
    h = min(0.2, 2 pi a/40) puts it far below rounding. Each row has its own step; rows of like step go together.
    """
    out = np.empty_like(mean)
    wanted = np.minimum(0.2, 2 * np.pi**2 / np.maximum(sd, 1e-300) / 40) / refine
    count = (2 ** np.ceil(np.log2(10 / wanted))).astype(int)  # nodes on each side of z = 0
    for n in np.unique(count):
        z = np.linspace(-10, 10, 2 * n + 1)
        weight = np.exp(-0.5 * z * z) * (10 / n) / np.sqrt(2 * np.pi)
        rows = np.flatnonzero(count == n)
        for part in np.array_split(rows, max(1, rows.size * z.size // 2_000_000)):
            out[part] = np.logaddexp(0, mean[part, None] + sd[part, None] * z) @ weight
    return out


def softplus_panels(mean, sd):
    """The same for wide rows: E max(t, 0) in closed form, and the rest, log(1 + e^-|t|), by Gauss-Legendre panels on [0, 40]."""
    node, weight = np.polynomial.legendre.leggauss(16)
    left = np.arange(0, 40, 1.0)[:, None]
    u, w = (left + 0.5 * (node + 1)).ravel(), np.tile(0.5 * weight, 40)
    g = np.log1p(np.exp(-u)) * w
    ratio = mean / sd
    out = mean * ndtr(ratio) + sd * np.exp(-0.5 * ratio**2) / np.sqrt(2 * np.pi)
    for part in np.array_split(np.arange(mean.size), max(1, mean.size * u.size // 2_000_000)):
        m, s = mean[part, None], sd[part, None]
        density = np.exp(-0.5 * ((u - m) / s) ** 2) + np.exp(-0.5 * ((u + m) / s) ** 2)
        out[part] += density @ g / (s[:, 0] * np.sqrt(2 * np.pi))
    return out


def expected_softplus(mean, sd, refine=1):
    """E log(1 + e^t) row by row: the trapezoid rule up to sd 16, panels beyond (only fits that went astray are so wide)."""
    wide = sd > 16
    out = np.empty_like(mean)
    out[~wide] = softplus_trapezoid(mean[~wide], sd[~wide], refine)
    if wide.any():
        out[wide] = softplus_panels(mean[wide], sd[wide])
    return out


class Problem:
    """One posterior: data X, y and (hierarchical only) group, log density, and the exact objective of a Gaussian."""

    def __init__(self, name, directory=None):
        directory = Path(directory or REPO_DATA)
        self.name, self.directory = name, directory
        reference = json.loads((directory / "references.json").read_text())[name]
        table = read_table(directory, name)
        features = sorted((c for c in table if c[0] == "x"), key=lambda c: int(c[1:]))
        self.X = np.ascontiguousarray(np.stack([table[c] for c in features], axis=1))
        self.y = np.ascontiguousarray(table["y"])
        self.group = table["group"].astype(int) if "group" in table else None
        self.linear = reference["kind"] == "linear"
        self.kind = "linear" if self.linear else "logistic" if self.group is None else "hierarchical"
        self.dim, self.optimum = reference["latents"], reference["neg_elbo"]
        assert self.linear is False or reference["sigma"] == 1.0

    def reference(self):
        """Mean and lower factor of the stored optimum."""
        table = read_table(self.directory, f"{self.name}.reference")
        return table["mean"], np.stack([table[f"c{j}"] for j in range(self.dim)], axis=1)

    def design(self):
        """The N x d matrix A of the row predictors A w, with the hierarchical blocks written out."""
        if self.group is None:
            return self.X
        n, k = self.X.shape
        out = np.zeros((n, self.dim))
        for j in range(k):
            out[np.arange(n), k * (self.group + 1) + j] = self.X[:, j]
        return out

    def log_density(self, w):
        """log p(y, w) with all constants."""
        k = self.X.shape[1]
        if self.group is None:
            prior, t = -0.5 * w @ w, self.X @ w
        else:
            theta, z = w[:k], w[k:].reshape(-1, k)
            prior, t = -0.5 * theta @ theta - 0.5 * np.sum((z - theta) ** 2), np.sum(self.X * z[self.group], axis=1)
        prior -= 0.5 * self.dim * LOG_2PI
        if self.linear:
            return prior - 0.5 * np.sum((self.y - t) ** 2) - 0.5 * self.y.size * LOG_2PI
        return prior + np.sum(self.y * t + log_expit(-t))

    def neg_elbo(self, mean, factor=None, covariance=None, refine=1):
        """f(q) = E_q[-log p] - entropy of q = N(mean, factor factor'), exact."""
        mean = np.asarray(mean, float)
        factor = np.linalg.cholesky(covariance) if factor is None else np.asarray(factor, float)
        d, k = self.dim, self.X.shape[1]
        if self.group is None:
            row_mean, row_factor = self.X @ mean, self.X @ factor
            second = mean @ mean + np.sum(factor * factor)
        else:
            z, blocks = mean[k:].reshape(-1, k), factor[k:].reshape(-1, k, d)
            row_mean = np.sum(self.X * z[self.group], axis=1)
            row_factor = np.einsum("nk,nkd->nd", self.X, blocks[self.group])
            second = mean[:k] @ mean[:k] + np.sum(factor[:k] ** 2)
            second += np.sum((z - mean[:k]) ** 2) + np.sum((blocks - factor[:k]) ** 2)
        row_sd = np.sqrt(np.sum(row_factor**2, axis=1))
        value = 0.5 * second + 0.5 * d * LOG_2PI
        if self.linear:
            value += 0.5 * np.sum((self.y - row_mean) ** 2 + row_sd**2) + 0.5 * self.y.size * LOG_2PI
        else:
            value += np.sum(expected_softplus(row_mean, row_sd, refine) - self.y * row_mean)
        if np.array_equal(factor, np.tril(factor)):
            log_det = np.sum(np.log(np.abs(np.diag(factor))))
        else:
            log_det = np.linalg.slogdet(factor)[1]
        return value - log_det - 0.5 * d * (1 + LOG_2PI)

    def gap(self, mean, factor=None, covariance=None, refine=1):
        """f(q) - f*, or None where q is not a Gaussian with finite numbers."""
        given = [np.asarray(a) for a in (mean, factor, covariance) if a is not None]
        if not all(np.all(np.isfinite(a)) for a in given):
            return None
        try:
            gap = float(self.neg_elbo(mean, factor, covariance, refine) - self.optimum)
        except np.linalg.LinAlgError:
            return None
        return gap if np.isfinite(gap) else None


def available(directory=None):
    """Names of the problems in a directory, small ones first."""
    directory = directory or REPO_DATA
    return [n for n in NAMES if any(os.path.exists(Path(directory) / f"{n}.{e}") for e in ("csv", "parquet"))]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=REPO_DATA)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    m, s = rng.normal(size=400) * 8, np.exp(rng.uniform(np.log(4), np.log(60), 400))
    between = np.max(np.abs(softplus_trapezoid(m, s) - softplus_panels(m, s)))
    print(f"trapezoid against panels, sd 4 to 60: {between:.1e}")
    assert between < 1e-11
    for name in available(args.data):
        problem = Problem(name, args.data)
        mean, factor = problem.reference()
        gap, finer = problem.gap(mean, factor), problem.gap(mean, factor, refine=2)
        wide = problem.gap(mean + 0.1, 3 * factor) - problem.gap(mean + 0.1, covariance=9 * factor @ factor.T, refine=2)
        # Monte Carlo with the plain log density: f must agree within 5 standard errors.
        z = rng.normal(size=(4000 if problem.dim < 300 else 400, problem.dim))
        entropy = np.sum(np.log(np.diag(factor))) + 0.5 * problem.dim * (1 + LOG_2PI)
        draws = -np.array([problem.log_density(mean + factor @ u) for u in z]) - entropy
        score = (draws.mean() - problem.optimum) / (draws.std() / np.sqrt(len(z)))
        print(f"{name:12} gap at optimum {gap:9.2e}, step halved {gap - finer:9.2e}, wide {wide:9.2e}, Monte Carlo {score:+.2f} se")
        assert abs(gap) < 1e-9 and abs(gap - finer) < 1e-10 and abs(wide) < 1e-8 and abs(score) < 5


if __name__ == "__main__":
    main()
