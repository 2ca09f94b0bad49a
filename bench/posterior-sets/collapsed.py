"""The weight certificate D8 on the collapsed potential of hier_logit: theta ~ N(0, I_5), z_g ~ N(theta, I_5), 20 groups of 50
logistic rows. The groups are integrated out: V(theta) = |theta|^2/2 - sum_g log E[L_g(z); z ~ N(theta, I)], which is convex
(Prekopa), with Hessian >= I. Each group's integral by a tensor Gauss-Hermite rule placed at its own mode: fixed nodes z_j, so that
log E L_g = log sum_j exp(a_j + z_j'theta) - |theta|^2/2 and the gradient comes from the same sum.

   python collapsed.py [nodes per axis = 5]         OMP_NUM_THREADS=1"""
import itertools
import math
import sys
import time
import numpy as np
from sets import Binomial, table, words
from weights import certify


class Group:
    def __init__(self, x, y, theta, per_axis):
        d, family = x.shape[1], Binomial(y)
        z = theta.copy()
        for _ in range(50):
            g = x.T @ family.d1(x @ z) + z - theta
            h = (x.T * family.d2(x @ z)) @ x + np.eye(d)
            z = z - np.linalg.solve(h, g)
        c = np.linalg.inv(np.linalg.cholesky(h)).T          # c c' = h^-1
        t, w = np.polynomial.hermite_e.hermegauss(per_axis)
        grid = np.array(list(itertools.product(t, repeat=d)))
        log_w = np.array(list(itertools.product(np.log(w / w.sum()), repeat=d))).sum(axis=1)
        self.nodes = z + grid @ c.T
        likelihood = np.array([-family.d0(x @ v).sum() for v in self.nodes])
        # N(z; theta, I) L(z)/N(z; mode, h^-1) without the parts that contain theta
        self.a = (log_w + likelihood - .5 * (self.nodes ** 2).sum(axis=1) + .5 * (grid ** 2).sum(axis=1)
                  + np.linalg.slogdet(c)[1])
        keep = self.a > self.a.max() - 60
        self.nodes, self.a = self.nodes[keep], self.a[keep]

    def log_integral(self, theta):
        e = theta @ self.nodes.T + self.a
        top = e.max(axis=1, keepdims=True)
        e = np.exp(e - top)
        total = e.sum(axis=1)
        return np.log(total) + top[:, 0] - .5 * (theta ** 2).sum(axis=1), e @ self.nodes / total[:, None] - theta


class Collapsed:
    def __init__(self, per_axis):
        head, rows = table('hier_logit.csv')
        _, reference = table('hier_logit.reference.csv')
        self.d = 5
        self.start = reference[:5, 0], np.linalg.cholesky((reference[:, 1:] @ reference[:, 1:].T)[:5, :5])
        x, y, g = rows[:, 2:], rows[:, head.index('y')], rows[:, head.index('group')]
        self.groups = [Group(x[g == k], y[g == k], self.start[0], per_axis) for k in np.unique(g)]

    def potential(self, theta):
        """V with all constants but those of the likelihood, and its gradient."""
        v, slope = .5 * (theta ** 2).sum(axis=1) + .5 * self.d * math.log(2 * math.pi), theta.copy()
        for k in range(0, len(theta), 500):
            for group in self.groups:
                value, g = group.log_integral(theta[k:k + 500])
                v[k:k + 500] -= value
                slope[k:k + 500] -= g
        return v, slope


def gauss(per_axis, d):
    t, w = np.polynomial.hermite_e.hermegauss(per_axis)
    return np.array(list(itertools.product(t, repeat=d))), np.array(list(itertools.product(w / w.sum(), repeat=d))).prod(axis=1)


def main(per_axis):
    start = time.time()
    p = Collapsed(per_axis)
    m, c = p.start
    x, w = gauss(4, p.d)
    for step in range(40):
        _, g = p.potential(m + x @ c.T)
        g = g @ c
        shift, curvature = w @ g, (x.T * w) @ g
        change = np.linalg.norm(shift) + np.linalg.norm(curvature - np.eye(p.d))
        h = .5 * (curvature + curvature.T)
        m = m - c @ np.linalg.solve(h, shift)
        c = np.linalg.cholesky(c @ (.5 * np.eye(p.d) + .5 * np.linalg.inv(h)) @ c.T)
        if change < 1e-7:
            break
    print(f"the best Gaussian of theta after {step + 1} steps, change {change:.0e}; it and the reference's marginal differ by "
          f"{np.abs((m - p.start[0]) / np.linalg.norm(c, axis=1)).max():.3f} sd in a mean; sds {np.linalg.norm(c, axis=1).round(3)}; {time.time() - start:.0f} s", flush=True)
    kappa = min(float(np.linalg.eigvalsh(c.T @ c)[0]), 1.)
    f = [float(wi @ (p.potential(m + xi @ c.T)[0] - .5 * (xi ** 2).sum(axis=1))) for xi, wi in (gauss(4, p.d), gauss(5, p.d))]
    c0 = f[1]
    elbo = -(c0 - np.linalg.slogdet(c)[1] - .5 * p.d * math.log(2 * math.pi))
    print(f"kappa {kappa:.3f}; ELBO {elbo:.5f}, and {f[1] - f[0]:+.1e} with fewer nodes for theta; reference log evidence -493.5541 +- 0.0096 "
          f"(best Gaussian of all 105 latents: -494.1250)", flush=True)
    check = np.random.default_rng(5).standard_normal((20, p.d))
    here = p.potential(m + check @ c.T)
    finer = Collapsed(per_axis + 2).potential(m + check @ c.T)
    print(f"two more nodes per axis change V by at most {np.abs(here[0] - finer[0]).max():.1e}, its gradient in the frame by "
          f"{np.abs((here[1] - finer[1]) @ c).max():.1e} at 20 draws; {time.time() - start:.0f} s", flush=True)
    rng = np.random.default_rng([0x7CE27, 0xC0])
    u = c.T / np.linalg.norm(c.T, axis=0)

    def pairs(count):
        x = rng.standard_normal((count, p.d))
        out = []
        for y in (x, -x):
            v, g = p.potential(m + y @ c.T)
            r = g @ c - y
            out.append((-(v - .5 * (y ** 2).sum(axis=1) - c0), np.sqrt((r ** 2).sum(axis=1))))
        return np.stack([o[0] for o in out], axis=1), np.stack([o[1] for o in out], axis=1), x @ u
    pilot, draws = pairs(4000), pairs(32000)
    v = draws[0]
    print(f"estimated KL(q||p) {math.log(np.exp(v).mean()):.5f}, largest weight {math.exp(v.max()):.2f}, |grad W|: median {np.median(draws[1]):.3f}, "
          f"largest {draws[1].max():.3f}; {time.time() - start:.0f} s", flush=True)
    for n in (8000, 32000):
        few = max(500, n // 8)
        found = certify(tuple(a[:few] for a in pilot), tuple(a[:n] for a in draws), kappa)
        s = found['closest']
        print(f"{n} pairs: {words(found)}; the set with the largest z - r0: r0 {s.r0:.2f}, z {s.z:.2f}", flush=True)
        found = certify(tuple(a[:few] for a in pilot), tuple(a[:n] for a in draws), 0.)
        print(f"   with kappa = 0: {words(found)}", flush=True)


if __name__ == '__main__':
    main(int(sys.argv[1]) if sys.argv[1:] else 5)
