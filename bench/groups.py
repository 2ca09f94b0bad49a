"""groups.py fit FILE FEATURES: GPBoost's sd of the groups of a file that `groups make` wrote, its CPU seconds and memory at most.
groups.py picture CERTUS-GROUPS FILE.png: the sd against rows per group by Laplace (GPBoost), the ELBO and the exact likelihood, true sds 1 and 3."""
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def read(file, features):
    return np.fromfile(file).reshape(-1, features + 2)


def laplace(y, group, x):
    import gpboost

    model = gpboost.GPModel(group_data=group, likelihood="bernoulli_logit")
    model.fit(y=y, X=x)
    return float(np.sqrt(np.ravel(model.get_cov_pars())[0]))


def fit(file, features):
    table = read(file, features)
    y, group = table[:, 0].copy(), table[:, 1].astype(np.int64)
    x = np.column_stack([np.ones(len(table)), table[:, 2:]])
    del table
    import gpboost  # noqa: F401 (not counted)

    wall, cpu = time.time(), time.process_time()
    sd = laplace(y, group, x)
    wall, cpu = time.time() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"gpboost     sd {sd:.5f}, {wall:.2f} s, {cpu:.2f} CPU s, {peak} kB at most")


def elbo_sd(successes, rows, start_sd):
    """The sd at the maximum of the ELBO over (β, σ), groups with the same number of successes sharing one Gaussian."""
    from scipy.optimize import minimize
    from scipy.special import expit

    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    counts = np.bincount(successes, minlength=rows + 1).astype(float)
    k = np.arange(rows + 1.0)

    def negative(w):
        beta, sigma = w[0], np.exp(w[1])
        mean, log_sd = w[2 : rows + 3], w[rows + 3 :]
        sd = np.exp(log_sd)
        u = mean[:, None] + sd[:, None] * nodes
        t = beta + sigma * u
        p = expit(t)
        loss = rows * np.logaddexp(0, t) - k[:, None] * t
        slope = rows * p - k[:, None]
        value = (loss @ weights) + 0.5 * (mean**2 + sd**2 - 1) - log_sd
        e_slope = slope @ weights
        gradient_mean = sigma * e_slope + mean
        gradient_sd = (sigma * (slope * nodes) @ weights + sd - 1 / sd) * sd
        gradient = np.concatenate(
            [
                [counts @ e_slope, counts @ ((slope * sigma * u) @ weights)],
                counts * gradient_mean,
                counts * gradient_sd,
            ]
        )
        return counts @ value / counts.sum(), gradient / counts.sum()

    start = np.concatenate([[-0.5, np.log(start_sd)], np.zeros(rows + 1), np.full(rows + 1, -0.3)])
    found = minimize(negative, start, jac=True, method="L-BFGS-B", options={"maxiter": 20000, "maxfun": 40000, "ftol": 1e-14, "gtol": 1e-9})
    return float(np.exp(found.x[1]))


def picture(binary, file):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    sizes = [2, 3, 5, 8, 12, 20, 40, 80]
    figure, both = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for axes, truth in zip(both, [1, 3]):
        ours, theirs, elbo = [], [], []
        for rows in sizes:
            groups = max(30_000, 300_000 // rows)
            with tempfile.TemporaryDirectory() as work:
                data = str(Path(work) / "groups.f64")
                subprocess.run([binary, "make", str(groups), str(rows), "0", str(truth), data], check=True)
                said = subprocess.run([binary, "fit", data, "0"], check=True, capture_output=True, text=True).stdout
                table = read(data, 0)
            ours.append(float(said.split()[2].rstrip(",")))
            y, group = table[:, 0].copy(), table[:, 1].astype(np.int64)
            theirs.append(laplace(y, group, np.ones((len(y), 1))))
            elbo.append(elbo_sd(np.bincount(group, weights=y).astype(int), rows, truth))
            print(f"true sd {truth}, {groups} groups of {rows:2d} rows: exact {ours[-1]:.4f}, ELBO {elbo[-1]:.4f}, Laplace {theirs[-1]:.4f}", flush=True)
        axes.axhline(truth, color="black", linewidth=1, linestyle="--", label="truth")
        axes.plot(sizes, ours, "o-", color="#0072b2", label="certus (groups integrated out)")
        axes.plot(sizes, elbo, "s-", color="#e69f00", label="maximum of the ELBO")
        axes.plot(sizes, theirs, "^-", color="#d55e00", label="Laplace (GPBoost)")
        axes.set_xscale("log")
        axes.set_xticks(sizes, [str(s) for s in sizes])
        axes.minorticks_off()
        axes.set_xlabel("binary rows per group")
        axes.set_ylabel("estimated sd between groups")
        axes.set_ylim(0.65 * truth, 1.1 * truth)
        axes.set_title(f"true sd {truth}")
    both[0].legend(loc="lower right")
    figure.savefig(file, dpi=150)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["fit", file, features]:
            fit(file, int(features))
        case ["picture", binary, file]:
            picture(binary, file)
        case _:
            sys.exit(__doc__)
