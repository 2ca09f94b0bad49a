"""Functions as targets: closed forms, declared constants, errors as they were raised."""

import numpy as np
import pytest

import certus

COVARIANCE = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, -0.3], [0.0, -0.3, 0.5]])
MEAN = np.array([1.0, -2.0, 0.5])
PRECISION = np.linalg.inv(COVARIANCE)


def gaussian(z):
    r = z - MEAN
    g = -r @ PRECISION
    return 0.5 * (r * g).sum(axis=1), g


def test_a_gaussian_is_found():
    fit = certus.fit(certus.target(gaussian, dim=3))
    assert fit.status == "reached"
    assert fit.certificate.gap.level == "estimated"
    assert fit.certificate.gap.bound <= 0.01
    # KL between two Gaussians in closed form is the gap here
    r = fit.mean - MEAN
    ratio = PRECISION @ fit.covariance
    gap = 0.5 * (np.trace(ratio) - 3 - np.linalg.slogdet(ratio)[1] + r @ PRECISION @ r)
    assert 0 <= gap + 1e-12 and gap <= fit.certificate.gap.bound + 1e-6
    assert fit.names == ["z[0]", "z[1]", "z[2]"]
    assert fit.verdict == "accurate" and fit.sentences[0].startswith("accurate: k-hat ")
    assert "proved" not in " ".join(fit.sentences)


def test_declared_constants_make_it_probable():
    values = np.linalg.eigvalsh(PRECISION)
    target = certus.target(gaussian, dim=3, strong_convexity=values[0] * 0.999, smoothness=values[-1] * 1.001, reason="eigenvalues", names=list("abc"))
    fit = certus.fit(target, gap=0.05)
    assert (fit.status, fit.certificate.gap.level) == ("reached", "probable")
    assert fit.certificate.gap.bound <= 0.05
    assert any(a.reason == "eigenvalues" for a in fit.certificate.gap.assumptions)
    assert fit.names == ["a", "b", "c"]
    assert "with probability 0.99" in repr(fit)


def test_the_level_asked_for_decides():
    fit = certus.fit(certus.target(gaussian, dim=3), level="proved")
    assert fit.status == "limit" and "stronger" in fit.message


def test_the_seed_decides_the_bits():
    def bumpy(z):
        return -np.cosh(z).sum(axis=1), -np.sinh(z)

    fits = [certus.fit(certus.target(bumpy, dim=2), seed=seed) for seed in (3, 3, 4)]
    assert np.array_equal(fits[0].mean, fits[1].mean) and np.array_equal(fits[0].sample(5, 1), fits[1].sample(5, 1))
    assert not np.array_equal(fits[0].sd, fits[2].sd)


def test_points_are_ours_to_keep():
    kept = []

    def keeper(z):
        assert z.flags.c_contiguous and z.dtype == np.float64 and z.ndim == 2
        kept.append((z, z.copy()))
        return -0.5 * (z**2).sum(axis=1), -z

    certus.fit(certus.target(keeper, dim=4))
    assert all(np.array_equal(a, b) for a, b in kept)


class Own(Exception):
    pass


def test_an_exception_comes_back_as_itself():
    raised = Own("mine")
    calls = 0

    def breaks(z):
        nonlocal calls
        calls += 1
        if calls > 3:
            raise raised
        return gaussian(z)

    with pytest.raises(Own) as caught:
        certus.fit(certus.target(breaks, dim=3))
    assert caught.value is raised
    assert "breaks" in [entry.name for entry in caught.traceback]


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda z: (gaussian(z)[0][:, None], gaussian(z)[1]), ["values", "shape"]),
        (lambda z: (gaussian(z)[0], gaussian(z)[1].T), ["gradients", "shape"]),
        (lambda z: (gaussian(z)[0].astype(np.float32), gaussian(z)[1]), ["values", "float32", "jax_enable_x64"]),
        (lambda z: (gaussian(z)[0].astype(object), gaussian(z)[1]), ["values", "object"]),
        (lambda z: (gaussian(z)[0], gaussian(z)[1].astype(int)), ["gradients", "int64"]),
        (lambda z: gaussian(z)[0], ["log_density", "two arrays"]),
        (lambda z: None, ["log_density", "NoneType"]),
        (lambda z: ("a", "b"), ["values", "<U1"]),
    ],
)
def test_wrong_results_are_named(function, words):
    with pytest.raises(certus.TargetError) as caught:
        certus.fit(certus.target(function, dim=3))
    assert caught.value.exit_code == 20 and isinstance(caught.value, certus.Error)
    for word in ["log_density", *words]:
        assert word in str(caught.value)


def test_what_is_not_finite_stops_with_the_last_iterate():
    with pytest.raises(certus.NotFiniteError) as caught:
        certus.fit(certus.target(lambda z: (np.full(len(z), np.nan), z), dim=2))
    assert caught.value.exit_code == 12 and "start" in str(caught.value)
    calls = 0

    def later(z):
        nonlocal calls
        calls += 1
        value, gradient = gaussian(z)
        # past the search for the mode, in which a bad point only shortens a step
        return (value, gradient) if calls < 60 else (value * np.nan, gradient)

    with pytest.raises(certus.NotFiniteError) as caught:
        certus.fit(certus.target(lambda z: (lambda v, g: (v - 0.1 * (z**4).sum(axis=1), g - 0.4 * z**3))(*later(z)), dim=3), gap=1e-6)
    assert caught.value.fit.status == "non_finite" and np.isfinite(caught.value.fit.mean).all()


def test_a_wrong_gradient_is_noticed():
    with pytest.raises(certus.AssumptionError, match="gradient") as caught:
        certus.fit(certus.target(lambda z: (gaussian(z)[0], 2 * gaussian(z)[1]), dim=3))
    assert caught.value.exit_code == 13


def test_two_modes_are_reported_not_hidden():
    def double(z):
        return np.logaddexp(-0.5 * (z - 3) ** 2, -0.5 * (z + 3) ** 2)[:, 0], np.tanh(3 * z) * 3 - z

    fit = certus.fit(certus.target(double, dim=1, start=[2.5]))
    assert (fit.verdict, fit.status, fit.certificate.gap.level) == ("unreliable", "limit", "none")
    assert "one of several modes" in fit.sentences[0] and "a symmetry of the model" in fit.sentences[0]
    assert any(s.startswith("gap not certified: not log-concave: no gap is claimed") for s in fit.sentences)
    own, other = fit.comparison.modes
    assert abs(own.point[0] - 3) < 0.1 and abs(other.point[0] + 3) < 0.1 and abs(own.log_density - other.log_density) < 1e-3
    assert other.symmetry == "changing signs of coordinates" and fit.comparison.missed == 1
    assert "at most" not in repr(fit)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"dim": 0}, "dim"),
        ({"dim": 2.5}, "dim"),
        ({"dim": True}, "dim"),
        ({"dim": 3, "names": ["a"]}, "names"),
        ({"dim": 3, "smoothness": 1.0}, "strong_convexity"),
        ({"dim": 3, "start": [1.0]}, "start"),
        ({"dim": 3, "start": ["x", 1, 2]}, "start"),
        ({"dim": 3, "mode": [0.0, 0, 0]}, "mode"),
    ],
)
def test_wrong_targets_are_refused(arguments, words):
    with pytest.raises(certus.UsageError, match=words):
        certus.target(gaussian, **arguments)


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"gap": -1}, "gap"),
        ({"gap": "small"}, "gap"),
        ({"gap": float("nan")}, "gap"),
        ({"delta": 2.0}, "delta"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
        ({"max_time": -1}, "max_time"),
        ({"threads": 0}, "threads"),
        ({"level": "sure"}, "level"),
        ({"method": "newton"}, "method"),
        ({"colour": 3}, "colour"),
        ({"accuracy": -0.1}, "accuracy"),
        ({"posterior": "exact"}, "posterior"),
        ({"iterations": 100}, "iterations"),
        ({"batch": 1}, "batch"),
        ({"max_gradients": 0}, "max_gradients"),
    ],
)
def test_wrong_settings_are_refused(arguments, words):
    with pytest.raises(certus.UsageError, match=words):
        certus.fit(certus.target(gaussian, dim=3), **arguments)


def test_models_nobody_knows_are_refused():
    with pytest.raises(certus.UsageError, match="dim"):
        certus.fit(gaussian)
    with pytest.raises(certus.UsageError, match="builtins.int"):
        certus.fit(3)


def test_time_is_a_limit():
    def slow(z):
        return -np.cosh(z).sum(axis=1), -np.sinh(z)

    fit = certus.fit(certus.target(slow, dim=3), gap=1e-9, max_time=0.0)
    assert fit.status == "limit" and "time" in fit.message


def test_progress_is_called_on_the_callers_thread():
    import threading
    import time

    here, seen = threading.get_ident(), []

    def slow(z):
        assert threading.get_ident() == here
        time.sleep(0.002)
        return -np.cosh(z).sum(axis=1), -np.sinh(z)

    def show(seconds, iteration, gradients, bound):
        assert threading.get_ident() == here
        seen.append((seconds, iteration, gradients, bound))

    certus.fit(certus.target(slow, dim=3), gap=1e-4, max_time=3, progress=show)
    assert len(seen) > 1 and seen[-1][2] > seen[0][2]
    with pytest.raises(Own):
        certus.fit(certus.target(slow, dim=3), gap=1e-4, max_time=5, progress=lambda *_: (_ for _ in ()).throw(Own()))


def log_gamma(z):
    """The logarithms of gamma variables of shapes 2 and 30: means psi(a), variances psi'(a)."""
    shapes = np.array([2.0, 30.0])
    return (shapes * z - np.exp(z)).sum(axis=1), shapes - np.exp(z)


TRUTH = np.array([[0.4227843350984671, 3.384438132690962], [0.8030778709740584, 0.18410611167653546]])
"""psi and the root of psi', at 2 and 30."""


def test_corrected_numbers_are_printed_and_drawn():
    fit = certus.fit(certus.target(log_gamma, dim=2))
    assert (fit.verdict, fit.status, fit.table.source) == ("usable after correction", "reached", "importance")
    for k in range(2):
        error = [fit.parameters[k].mean_error * fit.sd[k], fit.parameters[k].sd_error * fit.sd[k]]
        assert abs(fit.mean[k] - TRUTH[0, k]) < 2 * error[0] and abs(fit.sd[k] - TRUTH[1, k]) < 2 * error[1]
    # shape 2 is skewed: its Gaussian is narrower than it
    assert fit.gaussian.sd[0] < 0.95 * TRUTH[1, 0]
    draws = fit.sample(4000)
    assert abs(draws[:, 0].std() / TRUTH[1, 0] - 1) < 0.1
    gaussian = certus.fit(certus.target(log_gamma, dim=2), posterior="gaussian")
    assert gaussian.status == "limit" and np.array_equal(gaussian.mean, fit.gaussian.mean)


def test_a_declaration_makes_errors_probable_or_is_contradicted():
    def near(z):
        return (30 * z - np.exp(z)).sum(axis=1), 30 - np.exp(z)

    fit = certus.fit(certus.target(near, dim=2), log_concave=True)
    assert (fit.table.source, fit.table.level, fit.comparison.log_concave) == ("corrected", "probable", "declared")
    for k in range(2):
        assert abs(fit.mean[k] - TRUTH[0, 1]) <= fit.parameters[k].mean_error * fit.sd[k]
        assert abs(fit.sd[k] - TRUTH[1, 1]) <= fit.parameters[k].sd_error * fit.sd[k]
    assert 0 < fit.table.constants["total variation, at most"] < 0.5

    def double(z):
        return np.logaddexp(-0.5 * (z - 3) ** 2, -0.5 * (z + 3) ** 2)[:, 0], np.tanh(3 * z) * 3 - z

    with pytest.raises(certus.AssumptionError, match="declaration contradicted") as caught:
        certus.fit(certus.target(double, dim=1, start=[2.5], log_concave=True))
    assert caught.value.exit_code == 13


def test_limits_are_honoured():
    points = []

    def counted(z):
        points.append(len(z))
        return log_gamma(z)

    fit = certus.fit(certus.target(counted, dim=2), gap=1e-9, max_gradients=5000)
    assert fit.counts.gradients == sum(points) and 2500 < sum(points) < 5600
    points.clear()
    certus.fit(certus.target(counted, dim=2), batch=50, gap=1e-9, max_gradients=20_000)
    assert points.count(50) > 20


def test_unreliable_numbers_are_sampled_by_nuts():
    def heavy(z):
        """The logarithms of two exponential variables: mean -Euler's constant, sd pi / sqrt(6), with a left tail that a Gaussian does not see."""
        with np.errstate(over="ignore"):
            return (z - np.exp(z)).sum(axis=1), 1 - np.exp(z)

    points = []

    def counted(z):
        points.append(len(z))
        return heavy(z)

    truth = np.array([-0.5772156649015329, np.pi / np.sqrt(6)])
    for posterior in ("auto", "nuts"):
        points.clear()
        fit = certus.fit(certus.target(counted, dim=2), posterior=posterior)
        assert (fit.verdict, fit.status, fit.table.source) == ("accurate", "reached", "nuts")
        assert "NUTS draws of 4 chains" in fit.sentences[0] and "q itself is" in fit.sentences[0]
        assert fit.counts.gradients == sum(points)
        constants = fit.table.constants
        assert constants["R-hat"] < 1.01 and constants["effective sample size"] > 400 and constants["divergences"] == 0
        for k, row in enumerate(fit.parameters):
            assert abs(fit.mean[k] - truth[0]) < 2 * row.mean_error * fit.sd[k]
            assert abs(fit.sd[k] - truth[1]) < 2 * row.sd_error * fit.sd[k]
        assert abs(fit.sample(4000).mean() - truth[0]) < 0.2
    plain = certus.fit(certus.target(heavy, dim=2), posterior="gaussian")
    assert plain.verdict == "unreliable" and plain.sd[0] < 0.85 * truth[1]
    short = certus.fit(certus.target(heavy, dim=2), max_gradients=30_000)
    assert short.verdict == "unreliable" and "NUTS was not run" in short.message and short.counts.gradients <= 30_600


def test_errors_during_nuts_are_passed_on():
    class Own(Exception):
        pass

    calls = []

    def failing(z):
        # only the sampler asks for so many single points
        calls.append(len(z))
        if calls.count(1) > 3000:
            raise Own
        return -np.cosh(z).sum(axis=1), -np.sinh(z)

    with pytest.raises(Own):
        certus.fit(certus.target(failing, dim=2), posterior="nuts")


def test_the_summary_of_a_target_with_variables_is_weighted_where_the_gaussian_is_accurate():
    from certus.constrained import marginal, weighted_draws
    from certus.targets import Target, Variable

    def log_gamma(z):
        """The logarithms of two Gamma(50) variables."""
        return (50 * z - np.exp(z)).sum(axis=1), 50 - np.exp(z)

    variable = Variable("g", (2,), ("side",))
    coords = {"side": ["left", "right"]}
    target = Target(log_gamma, 2, start=[3.0, 3.0], variables=(variable,), coords=coords, constrain=lambda z: {"g": np.exp(z)})
    fit = certus.fit(target, progress=False)
    assert fit.verdict == "accurate" and fit.table is None
    table = fit.summary()
    assert list(table.index) == ["g[left]", "g[right]"]
    # five standard errors of 16,000 draws
    np.testing.assert_allclose(table["mean"], 50, atol=0.04 * np.sqrt(50))
    np.testing.assert_allclose(table["sd"], np.sqrt(50), rtol=0.04)
    assert np.ptp(weighted_draws(fit, target)[1]) > 0
    for own in (fit.gaussian, certus.fit(target, progress=False, posterior="gaussian")):
        assert np.ptp(weighted_draws(own, target)[1]) == 0
    # 1, 2, 4 with weights 1/2, 1/4, 1/4
    np.testing.assert_allclose(marginal(np.array([4.0, 1.0, 2.0]), np.array([0.25, 0.5, 0.25]))[:2], [2.0, np.sqrt(1.5)])


def test_chains_of_infinite_variance_are_not_accurate():
    """Student's t with 2 degrees of freedom: the chains mix, and their sd is that of the farthest draw."""
    fit = certus.fit(certus.target(lambda z: (-1.5 * np.log1p(z**2).sum(1), -3 * z / (1 + z**2)), dim=2), progress=False)
    assert fit.verdict == "unreliable" and fit.status == "limit"
    assert "known only to" in fit.sentences[0]
