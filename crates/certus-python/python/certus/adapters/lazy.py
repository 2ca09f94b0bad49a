"""The adapters under `certus`: each function imports its module when it is called, so no library is needed before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..targets import Target


def pymc(model: Any) -> Target:
    """The target of a `pymc.Model`; `certus.fit(model)` does the same."""
    from .pymc import target

    return target(model)


def numpyro(model: Callable[..., Any], *args: Any, **kwargs: Any) -> Target:
    """The target of a NumPyro model, with the arguments of the model."""
    from .numpyro import target

    return target(model, *args, **kwargs)


def jax(fn: Callable[[Any], Any], *, dim: int, names: Sequence[str] | None = None, **declared: Any) -> Target:
    """The target of a JAX function from one point (dim,) to its log density; `declared` as in `certus.target`."""
    from .jax import target

    return target(fn, dim, names=names, **declared)


def torch(
    fn: Callable[[Any], Any], *, dim: int, names: Sequence[str] | None = None, batched: bool = False, **declared: Any
) -> Target:
    """The target of a PyTorch function from one point (dim,), or with `batched` from (B, dim), to the log density."""
    from .torch import target

    return target(fn, dim, names=names, batched=batched, **declared)


def stan(
    program: str | Path,
    data: Mapping[str, Any] | str | Path | None = None,
    *,
    seed: int = 0,
    observed: Sequence[str] | str = (),
    log_likelihood: str = "log_lik",
) -> Target:
    """The target of a Stan program: code, a `.stan` file (compiled once, about a minute), or a `.so` of BridgeStan.

    `observed` names the data that are observations; `log_likelihood` names the generated quantity with the pointwise log likelihood.
    """
    from .stan import target

    return target(program, data, seed=seed, observed=observed, log_likelihood=log_likelihood)
