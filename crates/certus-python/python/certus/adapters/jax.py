"""A log density written in JAX: one jitted, vectorised value and gradient per batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import TargetError
from ..targets import Target


def target(fn: Callable[..., Any], dim: int, *, names: Sequence[str] | None = None, **declared: Any) -> Target:
    """The target of `fn`, a JAX function from one point, an array (dim,), to its log density, a scalar.

    `declared` are further fields of `Target`: `strong_convexity`, `smoothness`, `mode`, `reason`, `start`.
    """
    jax = import_jax()
    check_scalar(jax, fn, dim)
    names = None if names is None else tuple(names)
    return Target(log_density=batched(jax, fn), dim=dim, names=names, **declared)


def batched(jax: Any, fn: Callable[..., Any]) -> Callable[..., Any]:
    """`fn` on a (B, d) array of points: the log densities (B,) and their gradients (B, d), in double precision."""
    compiled = jax.jit(jax.vmap(jax.value_and_grad(fn)))

    def log_density(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with double_precision(jax):
            values, gradients = compiled(points)
            return np.asarray(values), np.asarray(gradients)

    return log_density


def double_precision(jax: Any) -> Any:
    """A context in which JAX computes in 64 bits, whatever the global setting.

    Single precision has errors of 1e-7 |log p|, which hide the small differences that matter for a gap of 0.01 nats.
    """
    return jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64()


def check_scalar(jax: Any, fn: Callable[..., Any], dim: int) -> None:
    """Refuses a function that does not map (dim,) to a scalar of 64 bits, before anything is compiled."""
    with double_precision(jax):
        out = jax.eval_shape(fn, jax.ShapeDtypeStruct((dim,), "float64"))
    shape, dtype = getattr(out, "shape", None), getattr(out, "dtype", None)
    if shape != ():
        raise TargetError(
            f"fn must map one point of shape ({dim},) to a scalar log density, but its result has shape {shape}; "
            "sum over the data inside fn, and leave the batch to certus"
        )
    if dtype != np.float64:
        raise TargetError(
            f"fn returns {dtype}, but float64 is required; remove casts to lower precision, and make arrays that fn "
            "uses after jax.config.update('jax_enable_x64', True) or keep them as NumPy float64 arrays"
        )


def import_jax() -> Any:
    """JAX, or an error that tells how to install it."""
    try:
        import jax
    except ImportError as error:
        raise ImportError("a JAX target needs JAX: pip install jax") from error
    return jax
