"""NumPyro models as targets: values, gradients, names, plates, constrained draws, pointwise log likelihoods."""

import certus
import numpy as np
import pytest
from certus.errors import UsageError
from test_adapters_oracle import (
    CONCENTRATION, COUNTS, GROUP, Y, check_gradients, check_hierarchy, logistic_data, logistic_log_density, normal,
)

numpyro = pytest.importorskip("numpyro", reason="NumPyro is not installed")
import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpyro.distributions as dist  # noqa: E402

from certus.adapters import numpyro as adapter  # noqa: E402


def hierarchy(group, y=None, outcomes=None):
    mu = numpyro.sample("mu", dist.Normal(0, 1))
    tau = numpyro.sample("tau", dist.LogNormal(0, 0.3))
    with numpyro.plate("school", 3):
        theta = numpyro.sample("theta", dist.Normal(mu, tau))
    p = numpyro.sample("p", dist.Dirichlet(CONCENTRATION))
    numpyro.deterministic("doubled", 2 * theta)
    with numpyro.plate("row", len(group)):
        numpyro.sample("y", dist.Normal(theta[group], 1.0), obs=y)
    with numpyro.plate("outcome", 10):
        numpyro.sample("outcomes", dist.Categorical(p), obs=outcomes)


def hierarchical_target():
    return adapter.target(hierarchy, GROUP, y=Y, outcomes=np.repeat(np.arange(4), COUNTS))


def logistic(X, y):
    a = numpyro.sample("a", dist.Normal(0, 10))
    b = numpyro.sample("b", dist.Normal(jnp.zeros(3), 2.5).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=a + X @ b), obs=y)


def test_logistic_is_the_closed_form():
    target = adapter.target(logistic, *logistic_data())
    assert target.names == ("a", "b[0]", "b[1]", "b[2]")
    check_gradients(target)
    points = np.random.default_rng(2).normal(size=(9, 4))
    for ours, expected in zip(target.log_density(points), logistic_log_density(points), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-11)


def test_hierarchy_with_scale_and_simplex():
    target = hierarchical_target()
    check_gradients(target)
    check_hierarchy(target)
    assert target.names[:5] == ("mu", *(f"unconstrained p[{k}]" for k in range(3)), "unconstrained tau")
    dims = {v.name: v.dims for v in target.variables}
    assert dims["theta"] == ("school",) and dims["mu"] == ()
    np.testing.assert_array_equal(target.coords["school"], [0, 1, 2])


def test_observed_data_and_pointwise_log_likelihood():
    target = hierarchical_target()
    np.testing.assert_array_equal(target.observed["y"], Y)
    points = np.random.default_rng(5).normal(size=(6, target.dim))
    draws, pointwise = target.constrain(points), target.log_likelihood(points)
    np.testing.assert_allclose(pointwise["y"], normal(Y, draws["theta"][:, GROUP], 1.0), rtol=1e-12)
    np.testing.assert_allclose(pointwise["outcomes"], np.log(np.repeat(draws["p"], COUNTS, axis=1)), rtol=1e-11)


def test_discrete_sites_are_refused_by_name():
    def mixture(y):
        z = numpyro.sample("component", dist.Bernoulli(0.5))
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(mu + z, 1), obs=y)

    with pytest.raises(UsageError, match="component"):
        adapter.target(mixture, Y)


def test_a_model_without_latents_is_refused():
    with pytest.raises(UsageError, match="nothing to fit"):
        adapter.target(lambda y: numpyro.sample("y", dist.Normal(0, 1), obs=y), Y)


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jnp"])
@pytest.mark.parametrize("order", [("certus", "nuts", "certus", "nuts"), ("nuts", "certus", "nuts", "certus")], ids=lambda o: f"{o[0]} first")
def test_numpyro_and_certus_leave_each_other_alone(array, order):
    """NumPyro samples in its own precision before and after, and certus computes in 64 bits, whoever compiles the model first."""

    def model(X, y):
        tau = numpyro.sample("tau", dist.HalfNormal(1.0))
        with numpyro.plate("feature", 3):
            b = numpyro.sample("b", dist.Normal(0.0, 2.5))
        numpyro.deterministic("eta", X @ b)
        numpyro.sample("y", dist.Normal(X @ b, tau), obs=y)

    X, y = (array(a) for a in logistic_data())
    before = jax.config.jax_enable_x64
    samples, densities = [], []
    for who in order:
        if who == "nuts":
            chain = numpyro.infer.MCMC(numpyro.infer.NUTS(model), num_warmup=5, num_samples=5, progress_bar=False)
            chain.run(jax.random.PRNGKey(0), X, y)
            samples.append(chain.get_samples()["b"])
        else:
            target = adapter.target(model, X, y)
            points = np.random.default_rng(1).normal(size=(2, 4))
            densities.append(target.log_density(points)[0])
            assert target.constrain(points)["b"].dtype == np.float64
            assert target.log_likelihood(points)["y"].dtype == np.float64
        assert jax.config.jax_enable_x64 == before
    assert samples[0].dtype == jnp.zeros(1).dtype
    np.testing.assert_array_equal(*samples)
    assert densities[0].dtype == np.float64
    np.testing.assert_array_equal(*densities)


def test_plates_of_observed_data_and_deterministics_reach_arviz():
    def model(group, y):
        with numpyro.plate("school", 3):
            theta = numpyro.sample("theta", dist.Normal(0.0, 1.0))
            numpyro.deterministic("doubled", 2 * theta)
        with numpyro.plate("row", len(group)):
            numpyro.sample("y", dist.Normal(theta[group], 1.0), obs=y)

    target = adapter.target(model, GROUP, Y)
    assert {v.name: v.dims for v in target.variables} == {"theta": ("school",), "doubled": ("school",)}
    tree = certus.fit(target, progress=False).to_arviz(draws=10)
    assert tree["posterior"]["doubled"].dims == ("chain", "draw", "school")
    assert tree["observed_data"]["y"].dims == ("row",)
    assert tree["log_likelihood"]["y"].dims == ("chain", "draw", "row")


def test_a_model_without_its_adapter_is_refused_with_the_adapter():
    with pytest.raises(UsageError, match=r"certus\.numpyro\(model"):
        certus.fit(logistic)
    with pytest.raises(UsageError, match=r"certus\.numpyro\(model"):
        certus.fit(logistic, X=1, y=2)
