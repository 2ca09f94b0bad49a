"""JAX and PyTorch functions as targets."""

import numpy as np
import pytest
from certus.errors import TargetError
from test_adapters_oracle import check_gradients, logistic_data, logistic_log_density


def logistic_in_jax():
    jnp = pytest.importorskip("jax").numpy
    X, y = logistic_data()
    sd = np.array([10.0, 2.5, 2.5, 2.5])

    def log_density(z):
        eta = z[0] + X @ z[1:]
        prior = -0.5 * jnp.sum((z / sd) ** 2) - np.log(sd).sum() - 2 * np.log(2 * np.pi)
        return jnp.sum(y * eta - jnp.logaddexp(0.0, eta)) + prior

    return log_density


def test_jax_value_and_gradient():
    from certus.adapters import jax as adapter

    target = adapter.target(logistic_in_jax(), dim=4, names=["a", "b1", "b2", "b3"])
    assert target.names == ("a", "b1", "b2", "b3")
    check_gradients(target)
    points = np.random.default_rng(2).normal(size=(9, 4))
    for ours, expected in zip(target.log_density(points), logistic_log_density(points), strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-11)


def test_jax_stays_in_double_precision_and_leaves_the_global_setting_alone():
    jax = pytest.importorskip("jax")
    from certus.adapters import jax as adapter

    before = jax.config.jax_enable_x64
    target = adapter.target(lambda z: 1e8 + z @ z, dim=2)
    values, _ = target.log_density(np.array([[1.0, 0.0], [0.5, 0.0]]))
    assert values[0] - values[1] == 0.75
    assert jax.config.jax_enable_x64 == before


def test_jax_refuses_what_is_not_a_scalar_density():
    jnp = pytest.importorskip("jax").numpy
    from certus.adapters import jax as adapter

    with pytest.raises(TargetError, match=r"shape \(3,\)"):
        adapter.target(lambda z: -0.5 * z**2, dim=3)
    with pytest.raises(TargetError, match="float32"):
        adapter.target(lambda z: jnp.sum(z.astype("float32")), dim=3)


def test_jax_carries_declared_constants():
    pytest.importorskip("jax")
    from certus.adapters import jax as adapter

    target = adapter.target(lambda z: -0.5 * z @ z, dim=3, strong_convexity=1.0, smoothness=1.0, reason="a normal")
    assert (target.strong_convexity, target.smoothness, target.reason) == (1.0, 1.0, "a normal")


def test_torch_value_and_gradient():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    from certus.adapters import torch as adapter

    X, y = (torch.tensor(a, dtype=torch.float64) for a in logistic_data())
    sd = torch.tensor([10.0, 2.5, 2.5, 2.5], dtype=torch.float64)

    def one(z):
        eta = z[0] + X @ z[1:]
        prior = torch.distributions.Normal(0.0, sd, validate_args=False).log_prob(z).sum()
        return (y * eta - torch.nn.functional.softplus(eta, threshold=1e9)).sum() + prior

    def many(z):
        eta = z[:, :1] + z[:, 1:] @ X.T
        prior = torch.distributions.Normal(0.0, sd).log_prob(z).sum(1)
        return (y * eta - torch.nn.functional.softplus(eta, threshold=1e9)).sum(1) + prior

    points = np.random.default_rng(2).normal(size=(9, 4))
    for target in (adapter.target(one, dim=4), adapter.target(many, dim=4, batched=True)):
        check_gradients(target)
        for ours, expected in zip(target.log_density(points), logistic_log_density(points), strict=True):
            np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-11)
    with pytest.raises(TargetError, match=r"\(9, 4\)"):
        adapter.target(lambda z: z, dim=4).log_density(points)
    with pytest.raises(TargetError, match="float32"):
        adapter.target(lambda z: z.float().sum(), dim=4).log_density(points)
    for branching in (lambda z: -z.sum() ** 2 if z[0] > 0 else -z[0] ** 2, lambda z: -(z[0].item() ** 2)):
        with pytest.raises(TargetError, match="vmap.*batched=True"):
            adapter.target(branching, dim=4).log_density(points)
