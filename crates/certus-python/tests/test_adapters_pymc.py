"""PyMC models as targets: values, gradients, names, dims, coords, constrained draws, pointwise log likelihoods."""

import certus
import numpy as np
import pytest
from certus.errors import UsageError
from test_adapters_oracle import (
    CONCENTRATION, COUNTS, GROUP, Y, check_gradients, check_hierarchy, logistic_data, logistic_log_density, normal,
)

pm = pytest.importorskip("pymc", reason="PyMC is not installed")

from certus.adapters import pymc as adapter  # noqa: E402


def hierarchy():
    with pm.Model(coords={"school": ["a", "b", "c"]}) as model:
        model.add_coord("part", length=4)
        mu = pm.Normal("mu", 0, 1)
        tau = pm.LogNormal("tau", 0, 0.3)
        theta = pm.Normal("theta", mu, tau, dims="school")
        p = pm.Dirichlet("p", CONCENTRATION, dims="part")
        pm.Deterministic("doubled", 2 * theta, dims="school")
        pm.Normal("y", theta[GROUP], 1.0, observed=Y)
        pm.Categorical("outcomes", p, observed=np.repeat(np.arange(4), COUNTS))
    return model


def logistic():
    X, y = logistic_data()
    with pm.Model(coords={"feature": ["x1", "x2", "x3"]}) as model:
        a = pm.Normal("a", 0, 10)
        b = pm.Normal("b", 0, 2.5, dims="feature")
        pm.Bernoulli("y", logit_p=a + pm.math.dot(pm.Data("X", X), b), observed=y)
    return model


def same_density(ours, expected):
    """Equal up to a constant below 1e-6: PyMC keeps `sigma=10` as a small integer, whose log it takes in single precision."""
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-6)
    np.testing.assert_allclose(ours - ours[0], expected - expected[0], rtol=1e-12, atol=1e-11)


@pytest.fixture(scope="module")
def hierarchical():
    return adapter.target(hierarchy())


def test_logistic_is_the_closed_form():
    model = logistic()
    target = adapter.target(model)
    assert target.names == ("a", "b[x1]", "b[x2]", "b[x3]")
    check_gradients(target)
    points = np.random.default_rng(2).normal(size=(9, 4))
    values, gradients = target.log_density(points)
    same_density(values, logistic_log_density(points)[0])
    np.testing.assert_allclose(gradients, logistic_log_density(points)[1], rtol=1e-12, atol=1e-11)
    by_pymc = model.compile_logp()
    np.testing.assert_allclose(values, [by_pymc({"a": z[0], "b": z[1:]}) for z in points], rtol=1e-13)


def test_hierarchy_with_scale_and_simplex(hierarchical):
    check_gradients(hierarchical)
    check_hierarchy(hierarchical)
    assert hierarchical.names[:3] == ("mu", "tau_log__", "theta[a]")
    dims = {v.name: v.dims for v in hierarchical.variables}
    assert dims == {"mu": (), "tau": (), "theta": ("school",), "p": ("part",), "doubled": ("school",)}
    np.testing.assert_array_equal(hierarchical.coords["school"], ["a", "b", "c"])
    np.testing.assert_array_equal(hierarchical.coords["part"], np.arange(4))


def test_the_start_is_the_initial_point(hierarchical):
    assert hierarchical.start.shape == (8,) and hierarchical.start.dtype == np.float64
    # PyMC starts at the means of the priors
    at = hierarchical.constrain(hierarchical.start[None])
    np.testing.assert_allclose(at["p"][0], CONCENTRATION / CONCENTRATION.sum(), rtol=1e-12)
    np.testing.assert_allclose(at["tau"], np.exp(0.3**2 / 2))


def test_observed_data_and_pointwise_log_likelihood(hierarchical):
    np.testing.assert_array_equal(hierarchical.observed["y"], Y)
    points = np.random.default_rng(5).normal(size=(6, hierarchical.dim))
    draws, pointwise = hierarchical.constrain(points), hierarchical.log_likelihood(points)
    np.testing.assert_allclose(pointwise["y"], normal(Y, draws["theta"][:, GROUP], 1.0), rtol=1e-12)
    np.testing.assert_allclose(pointwise["outcomes"], np.log(np.repeat(draws["p"], COUNTS, axis=1)), rtol=1e-11)


def test_later_changes_of_the_data_do_not_reach_the_target():
    model = logistic()
    target = adapter.target(model)
    with model:
        pm.set_data({"X": np.zeros((300, 3))})
    points = np.random.default_rng(2).normal(size=(2, 4))
    same_density(target.log_density(points)[0], logistic_log_density(points)[0])


def test_deterministics_that_do_not_depend_on_the_point_have_a_row_per_draw():
    with pm.Model() as model:
        pm.Normal("x", 0, 1)
        pm.Deterministic("fixed", pm.math.stack([1.0, 2.0]))
    target = adapter.target(model)
    np.testing.assert_array_equal(target.constrain(np.zeros((3, 1)))["fixed"], [[1.0, 2.0]] * 3)
    assert target.log_likelihood is None


def test_matrices_keep_their_rows():
    with pm.Model() as model:
        pm.Normal("w", mu=np.arange(6.0).reshape(2, 3), sigma=1, shape=(2, 3))
    target = adapter.target(model)
    assert target.names[1] == "w[0, 1]"
    peak = np.arange(6.0)[None]
    np.testing.assert_array_equal(target.log_density(peak)[1], np.zeros((1, 6)))
    np.testing.assert_array_equal(target.constrain(peak)["w"][0], np.arange(6.0).reshape(2, 3))


def test_a_scan_in_the_graph():
    with pm.Model() as model:
        rho = pm.Normal("rho", 0, 0.5)
        pm.AR("x", rho=pm.math.stack([rho]), sigma=1.0, shape=6, init_dist=pm.Normal.dist(0, 1))
    target = adapter.target(model)
    check_gradients(target)
    points = np.random.default_rng(0).normal(size=(3, 7))
    rho, x = points[:, :1], points[:, 1:]
    expected = normal(rho, 0, 0.5)[:, 0] + normal(x[:, 0], 0, 1) + normal(x[:, 1:], rho * x[:, :-1], 1).sum(1)
    same_density(target.log_density(points)[0], expected)


def test_a_scale_that_underflows_has_density_zero_at_its_own_point_only():
    with pm.Model() as model:
        s = pm.LogNormal("s", 0, 1)
        pm.Normal("y", 0, s, observed=[1.0, 2.0])
    target = adapter.target(model)
    # exp(-800) is 0, and PyMC checks s > 0
    values, _ = target.log_density(np.array([[0.0], [-800.0], [0.5]]))
    assert values[1] == -np.inf
    at = np.array([0.0, 0.5])
    expected = normal(at, 0, 1) + normal(1.0, 0, np.exp(at)) + normal(2.0, 0, np.exp(at))
    np.testing.assert_allclose(values[[0, 2]], expected, rtol=1e-12)


def test_initial_values_of_the_user_are_the_start():
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        pm.Normal("x", 0, 1, initval=1.5)
        pm.LogNormal("s", 0, 1, initval=np.exp(-2.0))
        pm.Normal("cuts", 0, 1, shape=2, transform=ordered, initval=np.array([-1.0, np.e - 1.0]))
        pm.Normal("y", 0, 1)
    kept = dict(model.rvs_to_initial_values)
    target = adapter.target(model)
    # an ordered vector is its first entry and the logarithms of the steps
    np.testing.assert_allclose(target.start, [1.5, -2.0, -1.0, 1.0, 0.0], rtol=1e-12)
    assert model.rvs_to_initial_values == kept and kept[model["x"]] == 1.5
    check_gradients(target)


def test_dims_of_observed_data_and_deterministics_reach_arviz():
    coords = {"school": ["a", "b", "c"], "row": [f"r{k}" for k in range(len(Y))]}
    with pm.Model(coords=coords) as model:
        theta = pm.Normal("theta", 0, 1, dims="school")
        pm.Deterministic("fitted", theta[GROUP], dims="row")
        pm.Normal("y", theta[GROUP], 1.0, observed=Y, dims="row")
    tree = certus.fit(model, progress=False).to_arviz(draws=10)
    for group, name, dims in (("posterior", "fitted", ("chain", "draw", "row")), ("observed_data", "y", ("row",)), ("log_likelihood", "y", ("chain", "draw", "row"))):
        assert tree[group][name].dims == dims
        assert list(tree[group][name].coords["row"].values) == coords["row"]


def test_the_summary_is_on_the_scale_of_the_model():
    with pm.Model(coords={"school": ["a", "b"]}) as model:
        pm.LogNormal("tau", 0, 0.3)
        theta = pm.Normal("theta", [1.0, 2.0], 1, dims="school")
        pm.Deterministic("total", theta.sum())
    fit = certus.fit(model, progress=False)
    table = fit.summary()
    assert list(table.index) == ["tau", "theta[a]", "theta[b]", "total"]
    # moments of the log-normal distribution; five standard errors of 16,000 draws
    mean, sd = np.exp(0.3**2 / 2), np.exp(0.3**2 / 2) * np.sqrt(np.expm1(0.3**2))
    assert abs(table.loc["tau", "mean"] - mean) < 0.04 * sd
    assert abs(table.loc["tau", "sd"] / sd - 1) < 0.05
    np.testing.assert_allclose(table.loc["tau", ["q05", "q50", "q95"]].to_numpy(float), np.exp(0.3 * np.array([-1.645, 0, 1.645])), rtol=0.03)
    assert abs(table.loc["total", "mean"] - 3) < 0.06 and abs(table.loc["total", "sd"] / np.sqrt(2) - 1) < 0.04
    assert list(fit.summary(unconstrained=True).index) == ["tau_log__", "theta[a]", "theta[b]"]
    assert "tau_log__" not in repr(fit) and "tau_log__" not in fit._repr_html_() and "total" in fit._repr_html_()


def test_variables_that_are_coordinates_have_the_numbers_of_the_fit():
    fit = certus.fit(logistic(), log_concave=True, progress=False)
    own = fit.summary(unconstrained=True)
    assert fit.table.source == "corrected"
    np.testing.assert_array_equal(fit.summary(), own[fit.summary().columns])


@pytest.mark.parametrize("shape", [5, 8])
def test_tails_that_exp_makes_heavy_are_seen(shape):
    """The inverse gamma distribution has the sd mean / √(shape - 2); draws of the Gaussian of its logarithm alone are 18 to 36 % off."""
    with pm.Model() as model:
        pm.InverseGamma("g", alpha=shape, beta=shape - 1)
        pm.Normal("z", 0, 1)
    table = certus.fit(model, progress=False).summary()
    # a third of the effective sample size of 16,000 draws with a kurtosis of at most 100: √(100 / 4 / 5300) = 0.07
    assert abs(table.loc["g", "mean"] - 1) < 0.03 and abs(table.loc["g", "sd"] * np.sqrt(shape - 2) - 1) < 0.07


def test_a_second_mode_contradicts_a_declaration():
    with pm.Model() as model:
        pm.Mixture("x", [0.4, 0.6], [pm.Normal.dist(-9, 1), pm.Normal.dist(9, 1)])
    with pytest.raises(certus.AssumptionError, match="declared log-concave, but it has maxima at"):
        certus.fit(model, log_concave=True, progress=False)


def test_what_cannot_be_fitted_is_refused_with_the_reason():
    with pm.Model() as discrete:
        k = pm.Poisson("k", 3)
        pm.Normal("y", k, 1, observed=1.0)
    with pytest.raises(UsageError, match="k are discrete|variables k "):
        adapter.target(discrete)
    with pytest.raises(UsageError, match="nothing to fit"), pm.Model() as empty:
        adapter.target(empty)
    with pytest.raises(UsageError, match="pymc.Model"):
        adapter.target(3)
