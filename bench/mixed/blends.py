#!/usr/bin/env python3
"""Five blends of penicillin (Box, Hunter and Hunter 1978; `penicillin` of the R package faraway): posteriors by sums over a grid.

    python blends.py          (numpy)

yield ~ treat + (1 | blend). Given the two scales everything is normal, so that a fine grid over them is the posterior, whatever their
priors are. Computed for the priors of brms 2.18, of three fits of INLA 22.12 and of a Stan program, as Faraway's page has them
(github.com/julianfaraway/rexamples, mixed/penicillin.md, 5 January 2023), to compare with what these print there. certus: docs/who-is-right.md.
"""
import numpy as np

YIELD = np.array([89, 88, 97, 94, 84, 77, 92, 79, 81, 87, 87, 85, 87, 92, 89, 84, 79, 81, 80, 88.0])
BLEND, TREAT = np.repeat(np.arange(5), 4), np.tile(np.arange(4), 5)
X = np.column_stack([np.ones(20)] + [(TREAT == k) * 1.0 for k in (1, 2, 3)])
Z = (BLEND[:, None] == np.arange(5)) * 1.0


def posterior(log_blend, log_sigma, precision):
    """Means and sds of sd(blend), sigma and the coefficients; prior densities of the sds, prior precisions of the coefficients."""
    blends, sigmas = np.exp(np.linspace(np.log(0.002), np.log(1e7), 640)), np.exp(np.linspace(np.log(1.5), np.log(25), 240))
    log, mean, var = np.empty((640, 240)), np.empty((640, 240, 4)), np.empty((640, 240, 4))
    for i, s in enumerate(blends):
        for j, v in enumerate(sigmas):
            cov = s * s * Z @ Z.T + v * v * np.eye(20)
            inverse = np.linalg.inv(cov)
            a = X.T @ inverse @ X + np.diag(precision)
            m = np.linalg.solve(a, X.T @ inverse @ YIELD)
            log[i, j] = -0.5 * (np.linalg.slogdet(cov)[1] + np.linalg.slogdet(a)[1] + YIELD @ inverse @ YIELD - m @ a @ m)
            log[i, j] += log_blend(s) + log_sigma(v) + np.log(s * v)
            mean[i, j], var[i, j] = m, np.diag(np.linalg.inv(a))
    w = np.exp(log - log.max())
    w /= w.sum()
    out = []
    for values, weight in ((blends, w.sum(1)), (sigmas, w.sum(0))):
        m = weight @ values
        out.append((m, np.sqrt(weight @ (values - m) ** 2)))
    m = np.einsum("ij,ijk->k", w, mean)
    sd = np.sqrt(np.einsum("ij,ijk->k", w, var + (mean - m) ** 2))
    return out + list(zip(m, sd))


def table(name, printed, *priors):
    print(f"\n{name}\n                 grid: mean, sd        printed")
    for row, (m, s), p in zip(("sd(blend)", "sigma", "(Intercept)", "treat[B]", "treat[C]", "treat[D]"), posterior(*priors), printed):
        print(f"  {row:11} {m:10.4f} {s:10.4f}       {p}")


residual = YIELD - X @ np.linalg.lstsq(X, YIELD, rcond=None)[0]
rate = -np.log(0.01) / (3 * np.sqrt(residual @ residual / 19))  # P(sd > 3 sds of the residuals) = 0.01
half_t = lambda s: -2 * np.log(1 + (s / 5.9) ** 2 / 3)
flat = lambda s: 0.0
gamma = lambda s: -5e-5 / s**2 - 3 * np.log(s)  # precision ~ Gamma(1, 5e-5), INLA's default of both precisions
inla = (0, 0.001, 0.001, 0.001)
table("brms: sds half-t(3, 0, 5.9), coefficients flat (brms: the intercept has Student's t(3, 87, 5.9))",
    ("3.76 2.07", "4.81 1.09", "84.26 2.80", "0.95 3.09", "4.87 3.21", "1.97 3.18"), half_t, half_t, (0, 0, 0, 0))
table("Stan, all flat", ("5.12 3.44", "4.94 1.14", "84.34 3.56"), flat, flat, (0, 0, 0, 0))
table("INLA, penalised-complexity prior of sd(blend)", ("3.5467 1.7024", "4.2309 0.83336", "84.03 2.6078", "0.9668 2.724", "4.9518 2.724", "1.963 2.724"),
    lambda s: -rate * s, gamma, inla)
table("INLA, half-normal prior of sd(blend)", ("4.1465 1.8773", "4.2244 0.80126", "84.029 2.7731", "0.96743 2.6976", "4.9527 2.6976", "1.9638 2.6976"),
    lambda s: -0.5 * s * s / YIELD.var(ddof=1), gamma, inla)
table("INLA, its defaults", ("precision 1.82e4", "precision 0.037 (sd 5.2)", "84.045 2.39", "0.949 3.38", "4.926 3.38", "1.943 3.38"), gamma, gamma, inla)
print(f"\nscale (mean) of the penalised-complexity prior: {1 / rate:.4f}")
