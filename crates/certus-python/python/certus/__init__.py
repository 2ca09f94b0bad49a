"""certus: Gaussian posterior approximations with a certificate of their accuracy."""

from ._certus import __version__
from .adapters.lazy import jax, numpyro, pymc, stan, torch
from .errors import AssumptionError, DataError, Error, InputError, NotFiniteError, OutputError, TargetError, UsageError
from .fit import Fit, fit, load
from .loo import Loo, compare
from .models import Model, binomial, linear, logistic, negative_binomial, poisson, probit
from .ppc import Ppc
from .targets import Target, Variable, target

__all__ = [
    "AssumptionError",
    "DataError",
    "Error",
    "Fit",
    "InputError",
    "Loo",
    "Model",
    "NotFiniteError",
    "OutputError",
    "Ppc",
    "Target",
    "TargetError",
    "UsageError",
    "Variable",
    "__version__",
    "binomial",
    "compare",
    "fit",
    "jax",
    "linear",
    "load",
    "logistic",
    "negative_binomial",
    "numpyro",
    "poisson",
    "probit",
    "pymc",
    "stan",
    "target",
    "torch",
]
