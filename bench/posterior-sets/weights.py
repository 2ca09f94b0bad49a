"""The weight certificate D8 of docs/maths.md in numpy, with the gradient-only sets of certus and, beside them, sets that
also bound the curvature (Theorems 1 and 2 with P'' = min(beta + L t, 1 - kappa)). For experiments: no allowance for rounding."""
import math
import numpy as np

XI, LARGEST_TAU = 4.0, 8.0
FACTOR, PREDICT = 3., True
SHARES, BEYOND = (.5, .8, .9, .95, .98, .99, .995), (0., .1, .25, .5)

# Q(t) from a table of its logarithm, to about 1e-7 of it
_T = np.arange(-9, 38, 1e-3)
_LOG_Q = np.array([math.log(.5 * math.erfc(t / math.sqrt(2))) for t in _T])


def density(t):
    return np.exp(-.5 * t * t) / math.sqrt(2 * math.pi)


def upper_tail(t):
    return np.exp(np.interp(t, _T, _LOG_Q))


def upper_quantile(p):
    """The t with Q(t) = p; minus infinity beyond 0.999, as in certus."""
    t = np.interp(-np.log(np.maximum(p, 1e-300)), -_LOG_Q, _T)
    return np.where(np.asarray(p) > .999, -np.inf, t)


def probability_at_most(k, n, delta):
    """Chernoff's bound of a probability, of n draws k hits."""
    share = np.minimum(k / n, 1.)
    low, high = share.copy() if np.ndim(share) else np.array(share), np.ones(np.shape(share))
    for _ in range(60):
        p = .5 * (low + high)
        with np.errstate(divide='ignore', invalid='ignore'):
            hit = np.where(share > 0, share * np.log(share / p), 0.)
            miss = np.where(share < 1, (1 - share) * np.log((1 - share) / (1 - p)), 0.)
        fits = n * (hit + miss) <= -math.log(delta)
        low, high = np.where(fits, p, low), np.where(fits, high, p)
    return high


class Set:
    """w0, r0, beta, L, z: -W <= w0, |grad W| <= r0, lambda_min(Hessian of V) >= 1 - beta, cubic constant <= L on the set, and
    q(set) >= Phi(z). Gradient-only: beta = 1 - kappa, L = 0."""

    def __init__(self, w0, r0, z, kappa, beta=None, cubic=0.):
        self.w0, self.r0, self.z, self.top = w0, r0, z, 1 - kappa
        self.beta = self.top if beta is None else min(max(beta, 0.), self.top)
        # a larger L is valid; this one makes rho_c <= 20, so that the remainder beyond s = 400 applies
        self.cubic = max(cubic, (self.top - self.beta) / 20.)
        self.rc = (self.top - self.beta) / self.cubic if self.cubic > 0 else 0.
        self.steep = r0 + self.beta * self.rc + self.cubic * self.rc ** 2 / 2      # P'(rho_c)

    def growth(self, rho):
        a, b = np.minimum(rho, self.rc), np.maximum(rho - self.rc, 0)
        return (self.w0 + self.r0 * a + self.beta * a * a / 2 + self.cubic * a ** 3 / 6 + self.steep * b + self.top * b * b / 2)

    def slope(self):
        """r0 - z for gradient-only sets and kappa = 0; the tail is finite where this is negative (or kappa > 0)."""
        return self.steep - self.rc - self.z

    def distance(self, s):
        low, high = np.zeros_like(s), np.full_like(s, 60. / math.sqrt(max(self.top, 1e-4)))
        for _ in range(56):
            middle = .5 * (low + high)
            below = self.growth(middle) <= s
            low, high = np.where(below, middle, low), np.where(below, high, middle)
        return low

    def beyond(self, s):
        return np.where(s >= self.w0, upper_tail(np.minimum(self.distance(s) + self.z, 36.)), 1.)

    def remainder(self, s):
        far = float(self.distance(np.array([s]))[0])
        y = far + self.z
        sigma = y - (self.steep + self.top * (far - self.rc))
        if s < self.w0 or far < self.rc or y < 1 or sigma <= 0:
            return np.full(4, np.inf)
        f, p, v = math.exp(s - .5 * y * y) / math.sqrt(2 * math.pi), s, 1 / sigma
        return f * np.array([v, y * v + v * v + 1.7 / y * v, y * y * v + 2 * y * v * v + 2 * v ** 3 + (3.4 + .5 / (y * y)) * v,
                             (1 + p) * v + y * v * v + v ** 3])


def _grid():
    grid = [.05]
    while grid[-1] < 400:
        grid.append(grid[-1] + 2e-3 * max(grid[-1], 1.))
    return np.array(grid)


GRID = _grid()


def tails(sets):
    """T_0, T_1, T_2, T_k at every point of the grid: upper sums."""
    p, rest = np.ones(len(GRID) - 1), np.full(4, np.inf)
    for s in sets:
        p, rest = np.minimum(p, s.beyond(GRID[:-1])), np.minimum(rest, s.remainder(GRID[-1]))
    y = np.where(p >= 1, 0., np.maximum(upper_quantile(.5 * p), 0.))
    rise = np.diff(np.exp(GRID))
    parts = [rise * p, rise * 2 * density(y), rise * 2 * (y * density(y) + upper_tail(y)), np.diff(GRID * np.exp(GRID)) * p]
    return np.stack([np.concatenate([np.cumsum(t[::-1])[::-1] + r, [r]]) for t, r in zip(parts, rest)])


def thresholds(columns):
    """Nested thresholds from pilot draws: quantiles, and beyond the largest value."""
    columns = np.sort(columns, axis=0)
    n = len(columns)
    most, median = columns[-1], columns[n // 2]
    return [columns[min(int(f * n), n - 1)] for f in SHARES] + [most + f * (most - median) for f in BEYOND]


def interval(x, clip, most, delta):
    """Maurer and Pontil for the clipped mean, Chernoff for what is clipped; columns at once."""
    n, third = len(x), delta / 3
    c = np.clip(x, -clip, clip)
    log = math.log(2 / third)
    width = np.sqrt(2 * c.var(axis=0, ddof=1) * log / n) + 14 * clip * log / (3 * (n - 1))
    width = width + (most - clip) * probability_at_most((np.abs(x) > clip).sum(axis=0).astype(float), n, third)
    mean = c.mean(axis=0)
    return mean - width, mean + width


def ratio(low, high, z):
    return np.where(low < 0, low / z[0], low / z[1]), np.where(high > 0, high / z[0], high / z[1])


def variables(v, along, tau):
    w = np.exp(np.minimum(v, tau))
    y = .5 * (w[:, 0] + w[:, 1]) - 1
    g = np.clip(along, -XI, XI)
    return y[:, None], .5 * (w[:, 0] - w[:, 1])[:, None] * g, y[:, None] * (g * g - 1)


def sizes(pilot, tau):
    """Largest values and clips of the three variables."""
    cap = math.exp(tau)
    most = [max(cap - 1, 1.), .5 * cap * XI, max(cap - 1, 1.) * (XI * XI - 1)]
    xs = variables(pilot[0], pilot[2], tau)
    return xs, most, [np.clip(FACTOR * np.abs(x).max(axis=0), .05 * m, m) for x, m in zip(xs, most)]


def predicted(pilot, t, tau, n, share):
    """Half widths of a mean and an sd that n pairs would give, if they were like the pilot's and none was clipped."""
    (_, xm, xs), most, clips = sizes(pilot, tau)
    log = math.log(6 / share)
    half = [np.sqrt(2 * x.var(axis=0, ddof=1) * log / n) + 14 * c * log / (3 * n) + (m - c) * math.log(3 / share) / n
            for x, m, c in zip((xm, xs), most[1:], clips[1:])]
    return max((half[0] + t[1]).max(), .5 * (half[1] + .5 * (t[0] + t[2])).max())


def certify(pilot, main, kappa, delta=1e-3, local=None, local_pilot=None):
    """pilot, main = (v of x and -x, |grad W| of both, u'x of everything reported). `local`: (v, |grad W|, 1 - lambda_min, cubic
    constant) of fresh draws for the curvature sets, `local_pilot` those that choose thresholds; half of the sets' delta is theirs."""
    v, r, along = pilot
    n, k = len(main[0]), along.shape[1]
    share = .25 * delta * (.5 if local is not None else 1.)
    th = thresholds(np.stack([v.ravel(), r.ravel()], axis=1))

    def gradient_sets(points, count):
        out = []
        for w0, r0 in th:
            outside = ((points[:, 0] > w0) | (points[:, 1] > r0)).sum()
            z = upper_quantile(probability_at_most(np.array(count(outside, len(points))), n, share / len(th)))
            out.append(Set(w0, r0, float(z), kappa))
        return out
    both = np.stack([v.ravel(), r.ravel()], axis=1)
    planned = gradient_sets(both, lambda c, m: min((c + 1.) / m * n, n))
    curved = []
    if local is not None:
        tl = thresholds(local_pilot)
        for w0, r0, beta, cubic in tl:
            outside = (local > np.array([w0, r0, beta, cubic])).any(axis=1).sum()
            p = probability_at_most(np.array(float(outside)), len(local), share / len(tl))
            curved.append(Set(w0, r0, float(upper_quantile(p)), kappa, beta, cubic))
    t = tails(planned + curved)
    unseen = .5 * np.exp(GRID) * (XI + XI * XI) * math.log(12 * k / delta) / n
    cost = np.where(GRID <= LARGEST_TAU, t[1] + .5 * t[2] + unseen, np.inf)
    sets = gradient_sets(np.stack([main[0][:, 0], main[1][:, 0]], axis=1), lambda c, m: float(c))
    found = {'closest': min(sets, key=Set.slope), 'curved': min(curved, key=Set.slope) if curved else None, 'certified': False}
    i = int(np.argmin(cost))
    if PREDICT and np.isfinite(cost[i]):
        share = .25 * delta / k
        some = [j for j in range(0, len(GRID), 20) if GRID[j] <= LARGEST_TAU and np.isfinite(cost[j]) and cost[j] < 5 * cost[i]]
        i = min(some, key=lambda j: predicted(pilot, t[:, j], GRID[j], n, share))
    if not np.isfinite(cost[i]):
        return found
    tau = GRID[i]
    t = tails(sets + curved)[:, i]
    if not np.isfinite(t).all():
        return found
    cap = math.exp(tau)
    _, most, clips = sizes(pilot, tau)
    shares = [.125 * delta, .25 * delta / k, .25 * delta / k]
    xs = variables(main[0], main[2], tau)
    y, m, s = [interval(x, c, b, d) for x, c, b, d in zip(xs, clips, most, shares)]
    z = (max(1., 1 + float(y[0][0])), 1 + float(y[1][0]) + t[0])
    q = float(upper_tail(XI))
    e1, e2 = cap * (float(density(XI)) - XI * q), 2 * (XI * float(density(XI)) + (1 - XI * XI) * q)
    shift = ratio(m[0] - t[1] - e1, m[1] + t[1] + e1, z)
    square = ratio(s[0] - t[0] - e2, s[1] + t[2] + max(cap - 1, 0) * e2, z)
    inner = np.where((shift[0] <= 0) & (shift[1] >= 0), 0, np.minimum(shift[0] ** 2, shift[1] ** 2))
    outer = np.maximum(shift[0] ** 2, shift[1] ** 2)
    sd = np.sqrt(np.maximum(1 + square[0] - outer, 0)), np.sqrt(np.maximum(1 + square[1] - inner, 0))
    found.update(certified=True, tau=tau, tail=t, kl=(math.log(z[0]), math.log(z[1])), mean=float((shift[1] - shift[0]).max() / 2),
                 sd=float((sd[1] - sd[0]).max() / 2), means=shift, sds=sd)
    return found
