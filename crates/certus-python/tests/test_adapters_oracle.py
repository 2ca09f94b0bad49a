"""What the adapters are measured against: closed forms in NumPy, central differences, numeric Jacobians."""

import numpy as np

LOG_2PI = np.log(2 * np.pi)
GROUP = np.array([0, 1, 2, 0, 1, 2, 2])
Y = np.array([0.3, -1.2, 0.8, 0.1, -0.7, 1.9, 1.1])
COUNTS = np.array([3, 1, 4, 2])
CONCENTRATION = np.array([1.0, 2.0, 3.0, 1.5])


def normal(x, mean, sd):
    return -0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * LOG_2PI


def gradients_by_differences(log_density, points, step=1e-5):
    """Central differences: error step² |f‴|/6 + ulp |f|/step, below 1e-7 (1 + |f|) for the targets here."""
    out = np.empty_like(points)
    for k in range(points.shape[1]):
        shift = step * np.eye(points.shape[1])[k]
        out[:, k] = (log_density(points + shift)[0] - log_density(points - shift)[0]) / (2 * step)
    return out


def check_gradients(target, count=5, seed=1):
    points = np.random.default_rng(seed).normal(size=(count, target.dim))
    values, gradients = target.log_density(points)
    assert values.shape == (count,) and gradients.shape == (count, target.dim)
    assert values.dtype == gradients.dtype == np.float64 and gradients.flags.c_contiguous
    differences = gradients_by_differences(target.log_density, points)
    np.testing.assert_allclose(gradients, differences, rtol=1e-6, atol=1e-6)
    # a batch is its points, one by one
    singly = [target.log_density(points[k : k + 1]) for k in range(count)]
    np.testing.assert_allclose(values, [v[0] for v, _ in singly], rtol=1e-13)
    np.testing.assert_allclose(gradients, [g[0] for _, g in singly], rtol=1e-11, atol=1e-11)


# The logistic regression that goes through every interface: a | N(0, 10²), b | N(0, 2.5²).


def logistic_data():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(300, 3)) @ np.array([[1.0, 0.6, 0.0], [0.0, 0.8, 0.0], [0.0, 0.0, 1.0]])
    p = 1 / (1 + np.exp(-(0.4 + X @ [1.0, -0.8, 0.3])))
    return X, (rng.random(300) < p).astype(int)


def logistic_log_density(points):
    """log p and its gradient at points (B, 4), intercept first."""
    X, y = logistic_data()
    X1 = np.column_stack([np.ones(len(X)), X])
    sd = np.array([10.0, 2.5, 2.5, 2.5])
    eta = points @ X1.T
    values = (y * eta - np.logaddexp(0, eta)).sum(1) + normal(points, 0, sd).sum(1)
    gradients = (y - 1 / (1 + np.exp(-eta))) @ X1 - points / sd**2
    return values, np.ascontiguousarray(gradients)


# A hierarchy with a positive scale and a simplex: mu, tau > 0, theta | mu, tau, p on the simplex. The prior of tau keeps it from 0,
# where the density of (theta, log tau) would grow without end.


def hierarchy_log_joint(mu, tau, theta, p):
    prior = normal(mu, 0, 1) + normal(np.log(tau), 0, 0.3) - np.log(tau) + normal(theta, mu, tau).sum()
    dirichlet = ((CONCENTRATION - 1) * np.log(p)).sum() + log_gamma(CONCENTRATION.sum()) - sum(map(log_gamma, CONCENTRATION))
    return prior + dirichlet + normal(Y, theta[GROUP], 1.0).sum() + (COUNTS * np.log(p)).sum()


def log_gamma(x):
    from math import lgamma

    return lgamma(x)


def check_hierarchy(target):
    """Shapes, domains, and log p(z) = log p(θ(z)) + log |dθ/dz|, the Jacobian by differences of the adapter's own map."""
    shapes = {v.name: v.shape for v in target.variables}
    assert list(shapes) == ["mu", "tau", "theta", "p", "doubled"]
    assert shapes == {"mu": (), "tau": (), "theta": (3,), "p": (4,), "doubled": (3,)}
    assert target.dim == 1 + 1 + 3 + 3 and len(target.names) == len(set(target.names)) == target.dim

    points = np.random.default_rng(3).normal(size=(40, target.dim))
    draws = target.constrain(points)
    assert list(draws) == list(shapes)
    for name, shape in shapes.items():
        assert draws[name].shape == (40, *shape) and draws[name].dtype == np.float64
    assert (draws["tau"] > 0).all() and (draws["p"] > 0).all()
    np.testing.assert_allclose(draws["p"].sum(1), 1, rtol=1e-14)
    np.testing.assert_array_equal(draws["doubled"], 2 * draws["theta"])

    def free(z):
        at = target.constrain(z)
        return np.column_stack([at["mu"], at["tau"], at["theta"], at["p"][:, :3]])

    step = 1e-5
    for k in range(5):
        shifts = step * np.eye(target.dim)
        jacobian = (free(points[k] + shifts) - free(points[k] - shifts)) / (2 * step)
        expected = hierarchy_log_joint(*(draws[name][k] for name in ("mu", "tau", "theta", "p")))
        expected += np.linalg.slogdet(jacobian)[1]
        # differences are good to about 1e-9 relative, through 8 columns
        np.testing.assert_allclose(target.log_density(points[k : k + 1])[0][0], expected, atol=1e-6)


def test_the_oracle_of_the_logistic_model():
    points = np.random.default_rng(0).normal(size=(3, 4))
    differences = gradients_by_differences(logistic_log_density, points)
    np.testing.assert_allclose(logistic_log_density(points)[1], differences, rtol=1e-6, atol=1e-6)
    # at 0 every observation has probability 1/2
    expected = 300 * np.log(0.5) - np.log(10) - 3 * np.log(2.5) - 2 * LOG_2PI
    np.testing.assert_allclose(logistic_log_density(np.zeros((1, 4)))[0], expected, rtol=1e-14)


def best_gaussian_of_the_logistic_model():
    """The Gaussian nearest to the logistic posterior: E ∇ log p = 0 and Σ⁻¹ = E[−∇² log p], iterated to a fixed point.

    The expectations are over one normal per row, by a trapezoid sum that is exact to rounding.
    """
    X, y = logistic_data()
    X1 = np.column_stack([np.ones(len(X)), X])
    precision = np.array([10.0, 2.5, 2.5, 2.5]) ** -2.0
    nodes = np.linspace(-10, 10, 161)
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    mean, cov = np.zeros(4), np.linalg.inv(np.diag(precision) + 0.25 * X1.T @ X1)
    for _ in range(200):
        rows = np.sqrt(np.einsum("ij,jk,ik->i", X1, cov, X1))
        p = 1 / (1 + np.exp(-((X1 @ mean)[:, None] + rows[:, None] * nodes)))
        slope = X1.T @ (y - p @ weights) - precision * mean
        bend = X1.T @ (((p * (1 - p)) @ weights)[:, None] * X1) + np.diag(precision)
        error = np.abs(bend @ cov - np.eye(4)).max() + np.abs(slope).max()
        cov = np.linalg.inv(bend)
        mean = mean + cov @ slope
    assert error < 1e-11
    return mean, cov
