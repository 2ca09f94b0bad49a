"""A log density written in PyTorch: one vectorised value and gradient per batch, on the CPU in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import TargetError
from ..targets import Target


def target(fn: Callable[..., Any], dim: int, *, names: Sequence[str] | None = None, batched: bool = False, **declared: Any) -> Target:
    """The target of `fn`, a PyTorch function from one point, a float64 tensor (dim,), to its log density, a scalar.

    With `batched=True`, `fn` maps (B, dim) to (B,) itself, for operations that `torch.func.vmap` does not support.
    `declared` are further fields of `Target`: `strong_convexity`, `smoothness`, `mode`, `reason`, `start`.
    """
    try:
        import torch
    except ImportError as error:
        raise ImportError("a PyTorch target needs PyTorch: pip install torch") from error

    def over_points(z: Any) -> Any:
        if batched:
            return fn(z)
        try:
            return torch.func.vmap(fn)(z)
        except RuntimeError as error:
            if not str(error).startswith("vmap"):
                raise
            raise TargetError(
                f"fn can't be vectorised: {error} Write it without branches on values, for example with torch.where, "
                "or for (B, dim) tensors and pass batched=True"
            ) from error

    def log_density(points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # the copy keeps the caller's array out of the graph and protects read-only arrays
        z = torch.tensor(points, dtype=torch.float64).requires_grad_()
        values = over_points(z)
        check(values, len(points))
        # points share no terms, so the gradient of the sum contains the gradient of each
        (gradients,) = torch.autograd.grad(values.sum(), z)
        return values.detach().numpy(), gradients.numpy()

    def check(values: Any, count: int) -> None:
        if tuple(values.shape) != (count,):
            raise TargetError(
                f"fn gave log densities of shape {tuple(values.shape)} for {count} points, but ({count},) is required; "
                "return one scalar per point"
            )
        if values.dtype != torch.float64:
            raise TargetError(f"fn returns {values.dtype}, but float64 is required; make the tensors it uses float64")

    names = None if names is None else tuple(names)
    return Target(log_density=log_density, dim=dim, names=names, **declared)
