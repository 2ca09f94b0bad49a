"""One logistic posterior through every interface: each fit is the same Gaussian, and says how it knows."""

import importlib.util
import shutil

import certus
import numpy as np
import pytest
from test_adapters_oracle import best_gaussian_of_the_logistic_model, logistic_data, logistic_log_density


def by_formula():
    import pandas as pd

    X, y = logistic_data()
    data = pd.DataFrame(X, columns=["x1", "x2", "x3"]).assign(y=y)
    return certus.logistic(
        "y ~ x1 + x2 + x3", data=data, prior_sd=2.5, intercept_prior_sd=10.0, standardise=False
    )


def by_numpy():
    return certus.target(logistic_log_density, dim=4)


def by_jax():
    from test_adapters_jax import logistic_in_jax

    return certus.jax(logistic_in_jax(), dim=4)


def by_numpyro():
    from test_adapters_numpyro import logistic

    return certus.numpyro(logistic, *logistic_data())


def by_pymc():
    from test_adapters_pymc import logistic

    return logistic()


def by_stan():
    if importlib.util.find_spec("httpstan") is None or shutil.which("g++") is None:
        pytest.skip("httpstan or g++ is not installed")
    from test_adapters_stan import logistic_target

    return logistic_target()


@pytest.mark.parametrize("interface", [by_formula, by_numpy, by_jax, by_numpyro, by_pymc, by_stan])
def test_every_interface_leads_to_the_same_gaussian(interface):
    """A gap of 1e-4 nats allows means to be off by √(2·1e-4) ≈ 0.014 sds, and sds by √1e-4 ≈ 1 %."""
    fit = certus.fit(interface(), gap=1e-4, progress=False)
    mean, cov = best_gaussian_of_the_logistic_model()
    sd = np.sqrt(np.diag(cov))
    assert fit.status == "reached"
    assert fit.certificate.gap.bound <= 1e-4
    assert fit.certificate.gap.level == ("proved" if interface is by_formula else "estimated")
    np.testing.assert_array_less(np.abs(fit.mean - mean) / sd, 0.02)
    np.testing.assert_array_less(np.abs(fit.sd / sd - 1), 0.02)
    correlation = fit.covariance / np.outer(fit.sd, fit.sd)
    np.testing.assert_allclose(correlation, cov / np.outer(sd, sd), atol=0.03)
