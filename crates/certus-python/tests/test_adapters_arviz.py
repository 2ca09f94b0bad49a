"""ArviZ on fits of other libraries' models: names, dims and constrained scales arrive, and its tables and plots work."""

import certus
import numpy as np
import pytest
from test_adapters_oracle import CONCENTRATION, COUNTS, GROUP, Y

az = pytest.importorskip("arviz", reason="ArviZ is not installed")
matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
matplotlib.use("Agg")


def by_pymc():
    from test_adapters_pymc import hierarchy

    return hierarchy(), ["y", "outcomes"], "school"


def by_numpyro():
    from test_adapters_numpyro import hierarchical_target

    return hierarchical_target(), ["y", "outcomes"], "school"


def by_stan():
    from test_adapters_stan import hierarchical_target

    return hierarchical_target(), ["log_lik"], "theta_dim_0"


@pytest.mark.parametrize("interface", [by_pymc, by_numpyro, by_stan])
def test_hierarchy_with_scale_and_simplex_in_arviz(interface):
    model, likelihoods, group = interface()
    fit = certus.fit(model, gap=0.05, progress=False)
    # −log p of a hierarchy is not convex in log tau; whether the fit meets a witness is chance, but nothing is ever proved
    assert fit.certificate.gap.level in ("estimated", "none")
    assert fit.verdict in ("accurate", "usable after correction", "unreliable")
    tree = fit.to_arviz(draws=400)
    posterior = tree["posterior"]
    sizes = {"mu": (), "tau": (), "theta": (3,), "p": (4,), "doubled": (3,)}
    assert {name: posterior[name].shape for name in posterior.data_vars} == {k: (1, 400, *s) for k, s in sizes.items()}
    assert posterior["theta"].dims == ("chain", "draw", group)
    assert (posterior["tau"].values > 0).all()
    np.testing.assert_allclose(posterior["p"].values.sum(-1), 1, rtol=1e-13)
    np.testing.assert_array_equal(posterior["doubled"].values, 2 * posterior["theta"].values)

    table = az.summary(tree)
    assert len(table) == 12 and np.isfinite(table["mean"].astype(float)).all()
    # the simplex has a conjugate margin: p | counts is Dirichlet(concentration + counts)
    alpha = CONCENTRATION + COUNTS
    mean, sd = alpha / alpha.sum(), np.sqrt(alpha * (alpha.sum() - alpha) / (alpha.sum() ** 2 * (alpha.sum() + 1)))
    # 0.25 sds: five standard errors of 400 draws, and the shape that a Gaussian on the free scale misses
    np.testing.assert_array_less(np.abs(posterior["p"].values.mean((0, 1)) - mean) / sd, 0.25 + 0.1)

    az.plot_forest(tree)
    matplotlib.pyplot.close("all")
    assert list(tree["log_likelihood"].data_vars) == likelihoods
    loo = az.loo(tree, var_name=likelihoods[0])
    # each observation is about N(theta, 1): its log predictive density lies between -0.92 (at its mean) and -3
    elpd = loo.elpd_loo if hasattr(loo, "elpd_loo") else loo.elpd  # before and since ArviZ 1
    assert -3 * len(Y) < elpd < -0.9 * len(Y)
    assert len(GROUP) == tree["log_likelihood"][likelihoods[0]].shape[-1]
