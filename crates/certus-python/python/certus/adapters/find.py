"""Which adapter a model of another library needs."""

from __future__ import annotations

import importlib
import os
from typing import Any

from ..errors import UsageError
from ..targets import Target

ADAPTERS = {"pymc": "pymc", "numpyro": "numpyro", "jax": "jax", "jaxlib": "jax", "torch": "torch", "stan": "stan"}


def as_target(model: Any, options: dict[str, Any]) -> Target:
    """The target of a model of another library, found by the module of its class."""
    if isinstance(model, (str, os.PathLike)):
        return importlib.import_module("certus.adapters.stan").target(model, **options)
    modules = [c.__module__.partition(".")[0] for c in type(model).__mro__] + [getattr(model, "__module__", None) or ""]
    modules = [m.partition(".")[0] for m in modules]
    name = next((ADAPTERS[m] for m in modules if m in ADAPTERS), None)
    if name is None:
        if callable(model):
            raise UsageError(
                "the dimension of the function is not known: pass it, certus.fit(certus.target(fn, dim=d)); "
                "for a NumPyro model use certus.numpyro(model, ...)"
            )
        raise UsageError(
            f"the model is a {type(model).__module__}.{type(model).__qualname__}, but a certus.target, a model such as certus.logistic, "
            "or a model of PyMC, NumPyro or Stan is required"
        )
    return importlib.import_module(f"certus.adapters.{name}").target(model, **options)
