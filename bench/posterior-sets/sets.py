"""Are curvature sets worth their price? Gradient-only sets of D8 against both families at equal cost.

   python sets.py [PROBLEM...]        OMP_NUM_THREADS=1; those whose names contain one of the words
   python sets.py borderline          where the tails of both families stop being finite
   python sets.py cuts                two rules for tau

Cost is counted in products of rows and coefficients (N d): 4 for a pair (value and gradient at x and at -x), 2 + d for a local
draw (value, gradient, two symmetric Gram matrices; eigenvalues are not counted), 1.5 d for a product of the operator of Lemma Q.
This favours the curvature sets. `free` also gives them 3,000 local draws for nothing."""
import csv
import math
import os
import sys
import time
import numpy as np
import weights
from weights import Set, certify, probability_at_most, thresholds, upper_quantile

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), '..', '..', 'data')
DENSE = 100          # eigenvalues of the operator of Lemma Q are dense up to this d, else Lanczos


# ------------------------------------------------------------------ likelihoods
def _chord_table():
    """b(t) = sup_y (s'(t) - s'(t + y))/|y| of the logistic, on a grid up to ln(2 + sqrt 3), where it becomes |s''|: it increases
    below, so the value of the node to the right is an upper bound; 1e-4 for the grid of y."""
    last = math.log(2 + math.sqrt(3))
    t, y = np.linspace(0, last, 400), np.linspace(1e-3, 12, 12000)
    b = np.array([((_s1(a) - _s1(a + y)) / y).max() for a in t])
    return t, np.maximum.accumulate(b) * (1 + 1e-4)


def _s1(t):
    e = np.exp(-np.abs(t))
    return e / (1 + e) ** 2


NODES, CHORD = None, None


class Binomial:
    """Logistic rows with trials."""

    def __init__(self, y, trials=1.):
        self.y, self.trials = np.asarray(y, float), np.asarray(trials, float) * np.ones(len(y))

    def d0(self, t):
        return self.trials * np.logaddexp(0, t) - self.y * t

    def d1(self, t):
        return self.trials / (1 + np.exp(-t)) - self.y

    def d2(self, t):
        return self.trials * _s1(t)

    def chord(self, t):
        global NODES, CHORD
        if NODES is None:
            NODES, CHORD = _chord_table()
        a = np.abs(t)
        inner = CHORD[np.minimum(np.searchsorted(NODES, a), len(CHORD) - 1)]
        return self.trials * np.where(a < NODES[-1], inner, _s1(a) * np.tanh(.5 * a))


class Poisson:
    def __init__(self, y):
        self.y = np.asarray(y, float)

    def d0(self, t):
        return np.exp(t) - self.y * t

    def d1(self, t):
        return np.exp(t) - self.y

    def d2(self, t):
        return np.exp(t)

    chord = d2


# ------------------------------------------------------------------ problems
def logistic(d, n, seed=0):
    rng = np.random.default_rng([7, seed])
    a, theta = rng.standard_normal((n, d)), rng.standard_normal(d) / math.sqrt(d) * 1.5
    return a, Binomial(rng.random(n) < 1 / (1 + np.exp(-a @ theta))), np.eye(d)


def poisson(d, n, seed=0):
    rng = np.random.default_rng([8, seed])
    a, theta = rng.standard_normal((n, d)), rng.standard_normal(d) / math.sqrt(d) * .6
    a[:, 0] = 1
    return a, Poisson(rng.poisson(np.exp(a @ theta))), np.eye(d)


def table(name):
    with open(os.path.join(DATA, name)) as file:
        rows = list(csv.reader(file))
    return rows[0], np.array(rows[1:], float)


def logit(name):
    head, rows = table(name + '.csv')
    a = rows[:, [i for i, h in enumerate(head) if h.startswith('x')]]
    return a, Binomial(rows[:, head.index('y')]), np.eye(a.shape[1])


def beetles():
    """Bliss (1935), dose standardised, prior sd 2.5."""
    dose = np.array([1.6907, 1.7242, 1.7552, 1.7842, 1.8113, 1.8369, 1.8610, 1.8839])
    trials, killed = np.array([59, 60, 62, 56, 63, 59, 62, 60.]), np.array([6, 13, 18, 28, 52, 53, 61, 60.])
    return np.stack([np.ones(8), (dose - dose.mean()) / dose.std()], axis=1), Binomial(killed, trials), np.eye(2) / 6.25


PROBLEMS = {
    'logit_d10 d=10 N=1000': lambda: logit('logit_d10'),
    'logistic d=20 N=500': lambda: logistic(20, 500),
    'poisson d=50 N=1000': lambda: poisson(50, 1000),
    'logistic d=20 N=200': lambda: logistic(20, 200),
    'logit_bc d=31 N=569': lambda: logit('logit_bc'),
    'logistic d=200 N=20000': lambda: logistic(200, 20000),
    'beetles d=2 N=8': beetles,
}


# ------------------------------------------------------------------ the best Gaussian
def moments(family, c, sd):
    """E phi, E phi', E phi'' of rows with N(c, sd^2): the trapezoid rule."""
    step = min(.2, .5 / max(1., sd.max()))
    x = np.arange(-int(9 / step), int(9 / step) + 1) * step
    w = step * np.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    out = np.zeros((3, len(c)))
    for xi, wi in zip(x, w):
        t = c + sd * xi
        out += wi * np.stack([family.d0(t), family.d1(t), family.d2(t)])
    return out


def fit(a, family, precision):
    """The optimum over all Gaussians: damped Newton steps of the mean and the fixed point of the covariance."""
    d = a.shape[1]
    m, s = np.zeros(d), np.linalg.inv(precision + (a.T * family.d2(np.zeros(len(a)))) @ a)
    for i in range(200):
        sd = np.sqrt(np.einsum('ij,jk,ik->i', a, s, a) if d < 4 else ((a @ np.linalg.cholesky(s)) ** 2).sum(axis=1))
        _, slope, curvature = moments(family, a @ m, sd)
        g = a.T @ slope + precision @ m
        new = np.linalg.inv(precision + (a.T * curvature) @ a)
        step = new @ g
        change = math.sqrt(g @ step) + np.abs(np.linalg.eigvals(new @ np.linalg.inv(s)) - 1).max()
        m, s = m - step * min(1., 1. / max(1e-9, np.abs(a @ step).max())), .5 * s + .5 * new
        if change < 1e-10:
            break
    return m, np.linalg.cholesky(s), change


class Frame:
    """The posterior in the frame of q."""

    def __init__(self, a, family, precision, m, c):
        self.family, (self.n, self.d) = family, a.shape
        self.h, self.c = np.ascontiguousarray(a @ c), a @ m
        self.sd = np.sqrt((self.h ** 2).sum(axis=1))
        self.j = c.T @ precision @ c
        self.g0 = c.T @ (precision @ m)
        self.kappa = min(max(float(np.linalg.eigvalsh(self.j)[0]), 0.), 1.)
        self.c0 = moments(family, self.c, self.sd)[0].sum() + .5 * np.trace(self.j) - .5 * self.d
        self.u = c.T / np.linalg.norm(c.T, axis=0)

    def points(self, x):
        """-W and grad W at the rows of x."""
        t = x @ self.h.T + self.c
        v = -(self.family.d0(t).sum(axis=1) + .5 * np.einsum('ij,ij->i', x @ self.j, x) + x @ self.g0 - .5 * (x * x).sum(axis=1) - self.c0)
        return v, self.family.d1(t) @ self.h + x @ self.j + self.g0 - x

    def pairs(self, rng, count):
        v, r, along = np.empty((count, 2)), np.empty((count, 2)), np.empty((count, self.d))
        batch = max(16, min(2000, 4_000_000 // self.n))
        for k in range(0, count, batch):
            x = rng.standard_normal((min(batch, count - k), self.d))
            for i, y in enumerate((x, -x)):
                v[k:k + len(x), i], g = self.points(y)
                r[k:k + len(x), i] = np.sqrt((g * g).sum(axis=1))
            along[k:k + len(x)] = x @ self.u
        return v, r, along

    def omega(self):
        x, w = np.polynomial.hermite_e.hermegauss(40)
        om = sum(b * self.family.chord(self.c + self.sd * a) for a, b in zip(x, w / w.sum()))
        return np.maximum(om, 1e-6 * om.max())

    def local(self, rng, count, om, q4):
        """-W, |grad W|, 1 - lambda_min(Hessian of V), the cubic constant at draws of q."""
        out, d = np.empty((count, 4)), self.d
        products = (self.h[:, :, None] * self.h[:, None, :]).reshape(self.n, d * d) if self.n * d * d < 5e6 else None
        batch = 100 if products is not None else 1
        for k in range(0, count, batch):
            x = rng.standard_normal((min(batch, count - k), d))
            v, g = self.points(x)
            t = x @ self.h.T + self.c
            weights = self.family.d2(t), self.family.chord(t) ** 2 / om
            if products is None:
                grams = [(self.h.T * w[0]) @ self.h for w in weights]
            else:
                grams = [(w @ products).reshape(len(x), d, d) for w in weights]
            least = np.linalg.eigvalsh(self.j + grams[0])[..., 0]
            most = np.linalg.eigvalsh(grams[1])[..., -1]
            out[k:k + len(x)] = np.stack([v, np.linalg.norm(g, axis=1), (1 - least) * np.ones(len(x)),
                                          np.sqrt(np.maximum(most, 0.) * q4) * np.ones(len(x))], axis=1)
        return out


def quartic(h, om, rng, failure=1e-5):
    """Q_4 of Lemma Q and the products it took: dense eigenvalues, or Lanczos (Kuczynski and Wozniakowski)."""
    d = h.shape[1]
    size = d * (d + 1) // 2

    def product(b):
        return (h.T * (om * np.einsum('ij,ij->i', h @ b, h))) @ h
    if d == 1:
        return float((om * h[:, 0] ** 4).sum()), 0
    if d <= DENSE:
        iu = np.triu_indices(d)
        scale = np.where(iu[0] == iu[1], 1., math.sqrt(2.))
        s = h[:, iu[0]] * h[:, iu[1]] * scale
        lam, u = np.linalg.eigh((s.T * om) @ s)
        e = np.zeros((d, d))
        e[iu] = u[:, -1] / scale
        e = e + e.T - np.diag(np.diag(e))
        top = min(1., np.abs(np.linalg.eigvalsh(e)).max())
        return lam[-1] * top ** 2 + lam[-2] * (1 - top ** 2), 0
    e = np.eye(d) / math.sqrt(d)
    for _ in range(30):
        e = product(e)
        e = .5 * (e + e.T) / np.linalg.norm(e)
    qe = product(e)
    lam = (e * qe).sum()
    r = np.linalg.norm(qe - lam * e)

    def off(b):
        return b - (b * e).sum() * e
    steps = 60
    b = rng.standard_normal((d, d))
    b = off((b + b.T) / math.sqrt(2))          # uniform on the sphere of symmetric matrices orthogonal to E
    basis, alpha, beta = [b / np.linalg.norm(b)], [], []
    for _ in range(steps):
        y = off(product(basis[-1]))
        alpha.append((y * basis[-1]).sum())
        for v in basis:
            y = y - (y * v).sum() * v
        beta.append(np.linalg.norm(y))
        basis.append(y / beta[-1])
    ritz = np.linalg.eigvalsh(np.diag(alpha) + np.diag(beta[:-1], 1) + np.diag(beta[:-1], -1))[-1]
    eps = (math.log(1.648 * math.sqrt(size - 1) / failure) / (2 * steps - 1)) ** 2
    mu, top = ritz / (1 - eps), min(1., np.abs(np.linalg.eigvalsh(e)).max())
    return max(lam, mu) * top ** 2 + mu * (1 - top ** 2) + r * min(1., 2 * top), steps + 32


def words(found):
    if not found['certified']:
        c, b = found['closest'], found['curved']
        more = f", curved {b.r0:.2f} (z {b.z:.2f}, beta {b.beta:.2f}, L {b.cubic:.2f}, slope {b.slope():+.2f})" if b else ''
        return f"declined: r0 {c.r0:.2f}, z {c.z:.2f}{more}"
    t = found['tail']
    return (f"mean +- {found['mean']:.4f}, sd +- {found['sd']:.4f}, KL in [{found['kl'][0]:.4f}, {found['kl'][1]:.4f}]"
            f", tau {found['tau']:.2f}, T {t[0]:.1e} {t[1]:.1e} {t[2]:.1e}")


def run(name, budgets, seed=1):
    start = time.time()
    a, family, precision = PROBLEMS[name]()
    m, c, change = fit(a, family, precision)
    f = Frame(a, family, precision, m, c)
    rng = np.random.default_rng([0x7CE27, seed])
    om = f.omega()
    q4, products = quartic(f.h, om, rng)
    fixed = 1.5 * f.d * (products + 2)
    most = max(budgets)
    pilots = max(500, min(4000, most // 8))
    pilot, main = f.pairs(rng, pilots), f.pairs(rng, most)
    # as many as half of the largest budget can pay for, and at least those of `free`
    free = 3000 if f.n * f.d ** 2 < 1e8 else 120
    free = max(free, int(1.5 * most / (2 + f.d)))
    draws = f.local(rng, free + free // 3, om, q4)
    print(f"{name}: change of the last step {change:.0e}, kappa {f.kappa:.3f}, row sds at most {f.sd.max():.2f}, Q4 {q4:.3g}; medians of the "
          f"local draws: r {np.median(draws[:, 1]):.2f}, beta {np.median(draws[:, 2]):.2f}, L {np.median(draws[:, 3]):.2f}", flush=True)
    for budget in budgets:
        def certificate(n, count):
            p, few = max(500, min(4000, n // 8)), count // 3
            local = {} if count == 0 else {'local': draws[few:few + count], 'local_pilot': draws[:few]}
            return certify(tuple(x[:p] for x in pilot), tuple(x[:n] for x in main), f.kappa, **local)
        only = certificate(budget, 0)
        print(f"  {budget:6d} pairs, gradient-only: {words(only)}", flush=True)
        best = None
        for part in (.1, .2, .35, .5):
            count = int((part * 4 * budget - fixed) / (2 + f.d) * .75)          # a third as many pilots
            count = min(count, free)
            left = int(budget - (fixed + (2 + f.d) * count * 4 / 3) / 4)
            if count < 40 or left < 100:
                continue
            found = certificate(left, count)
            key = found['mean'] + found['sd'] if found['certified'] else 1e9 + found['curved'].slope()
            if best is None or key < best[0]:
                best = key, found, left, count
        if best:
            print(f"         equal cost, {best[3]} local draws and {best[2]} pairs: {words(best[1])}", flush=True)
        else:
            print("         equal cost: no local draws can be paid for", flush=True)
        print(f"         free, {free} local draws and {budget} pairs: {words(certificate(budget, free))}", flush=True)
    print(f"  ({time.time() - start:.0f} s)", flush=True)


def borderline(name, problem, pairs=8000, local=2000, seed=1):
    """Where gradient-only sets stop: the smallest slope (negative: the tail is finite for kappa = 0) of both families, the
    curvature sets with local draws for nothing."""
    a, family, precision = problem
    m, c, _ = fit(a, family, precision)
    f = Frame(a, family, precision, m, c)
    rng = np.random.default_rng([0x7CE27, seed])
    om = f.omega()
    q4, _ = quartic(f.h, om, rng)
    v, r, _ = f.pairs(rng, pairs + 1000)
    draws = f.local(rng, local + local // 3, om, q4)
    slopes = []
    for pilot, fresh in ((np.stack([v[:1000].ravel(), r[:1000].ravel()], axis=1), np.stack([v[1000:, 0], r[1000:, 0]], axis=1)),
                         (draws[:local // 3], draws[local // 3:])):
        sets = []
        for t in thresholds(pilot):
            outside = np.array(float((fresh > t).any(axis=1).sum()))
            z = float(upper_quantile(probability_at_most(outside, len(fresh), .25e-3 / 11)))
            sets.append(Set(t[0], t[1], z, 0., *t[2:]))
        slopes.append(min(sets, key=Set.slope))
    g, b = slopes
    kl = math.log(np.exp(v).mean())
    print(f"{name}: KL about {kl:.3f}; gradient-only r0 {g.r0:.2f}, z {g.z:.2f}, slope {g.slope():+.2f}; curvature r0 {b.r0:.2f}, z {b.z:.2f}, "
          f"beta {b.beta:.2f}, L {b.cubic:.2f}, slope {b.slope():+.2f}", flush=True)


def cuts(name, seed=1):
    """Gradient-only sets with tau from the rough cost T_1 + T_2/2 + what no draw has seen, and from the widths that the pilot
    foresees."""
    a, family, precision = PROBLEMS[name]()
    m, c, _ = fit(a, family, precision)
    f = Frame(a, family, precision, m, c)
    rng = np.random.default_rng([0x7CE27, seed])
    for n in (8000, 32000):
        pilot, main = f.pairs(rng, n // 8), f.pairs(rng, n)
        for predict in (False, True):
            weights.PREDICT = predict
            print(f"{name}, {n:5d} pairs, tau {'foreseen' if predict else 'rough'}: {words(certify(pilot, main, f.kappa))}", flush=True)


if __name__ == '__main__':
    if sys.argv[1:] == ['cuts']:
        for problem in ('beetles d=2 N=8', 'logit_d10 d=10 N=1000', 'logistic d=20 N=500', 'logistic d=20 N=200', 'poisson d=50 N=1000'):
            cuts(problem)
        sys.exit()
    if sys.argv[1:] == ['borderline']:
        for n in (30, 45, 60, 80, 110):
            borderline(f"logistic d=20 N={n}", logistic(20, n))
        for n in (6, 10, 16):
            borderline(f"logistic d=2 N={n}", logistic(2, n))
        for n in (25, 40, 60, 100):
            borderline(f"poisson d=20 N={n}", poisson(20, n))
        sys.exit()
    chosen = [p for p in PROBLEMS if not sys.argv[1:] or any(w in p for w in sys.argv[1:])]
    for problem in chosen:
        run(problem, (8000,) if 'd=200' in problem else (8000, 32000))
