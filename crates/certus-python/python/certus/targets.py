"""A log density with what is known about it, as an argument of `certus.fit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import UsageError

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Variable:
    """A variable of a model: its name, its shape and the names of its dimensions."""

    name: str
    shape: tuple[int, ...] = ()
    dims: tuple[str, ...] = ()


@dataclass(frozen=True)
class NonCentred:
    """The variables whose location or scale depends on others, and how to make the target in which each is location + scale t.

    That target has other coordinates, but the same variables. Without variables there is none.
    """

    variables: tuple[str, ...] = ()
    make: Callable[[], Target] | None = None


@dataclass(frozen=True)
class Target:
    """A log density on d unconstrained coordinates.

    `log_density` maps a C-order float64 (B, d) array to ((B,), (B, d)): the log densities and their gradients. It may instead be an
    object of certus that is evaluated without the interpreter. The other fields are optional: constants of -log p (`strong_convexity`,
    `smoothness`, with `mode` and the `reason` why they hold), `log_concave=True` to declare that -log p is convex (only you can know: then means, sds
    and quantiles get errors that hold with a stated probability), the `start` of the search, more `starts` for the search for other modes (such as
    draws of the prior), and the meaning of the coordinates:
    `variables` with `coords` (labels by dimension), `constrain` from (n, d) draws to {name: (n, *shape)}, `observed` data with the names of their
    dimensions (`observed_dims`), and `log_likelihood` from (n, d) draws to {name: (n, *shape of the observations)}.
    `noncentred` has the same density with hierarchical variables written non-centred; adapters that know the structure of a model set it.
    """

    log_density: Callable[[Array], tuple[Any, Any]] | Any
    dim: int
    names: Sequence[str] | None = None
    strong_convexity: float | None = None
    smoothness: float | None = None
    mode: Sequence[float] | Array | None = None
    reason: str | None = None
    log_concave: bool = False
    start: Sequence[float] | Array | None = None
    starts: Sequence[Sequence[float]] | Array | None = None
    variables: tuple[Variable, ...] | None = None
    coords: Mapping[str, Any] | None = None
    constrain: Callable[[Array], Mapping[str, NDArray[Any]]] | None = None
    observed: Mapping[str, NDArray[Any]] | None = None
    observed_dims: Mapping[str, Sequence[str]] | None = None
    log_likelihood: Callable[[Array], Mapping[str, NDArray[Any]]] | None = None
    noncentred: NonCentred | None = None

    def __post_init__(self) -> None:
        if not callable(self.log_density):
            raise UsageError(f"log_density is a {type(self.log_density).__name__}, but a function is required")
        if isinstance(self.dim, bool) or not isinstance(self.dim, (int, np.integer)) or self.dim < 1:
            raise UsageError(f"dim is {self.dim!r}, but a whole number of at least 1 is required")
        if self.names is not None:
            names = [str(name) for name in self.names]
            if len(names) != self.dim or len(set(names)) != len(names):
                raise UsageError(f"names has {len(set(names))} different entries, but {self.dim} are required")
            object.__setattr__(self, "names", tuple(names))
        if (self.strong_convexity is None) != (self.smoothness is None):
            raise UsageError("strong_convexity and smoothness belong together: give both or neither")
        if not isinstance(self.log_concave, bool):
            raise UsageError(f"log_concave is {self.log_concave!r}, but True or False is required")
        if self.starts is not None:
            rows = [_vector("a row of starts", row, self.dim) for row in self.starts]
            object.__setattr__(self, "starts", np.array(rows, dtype=np.float64).reshape(len(rows), self.dim))
        for name in ("mode", "start"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _vector(name, value, self.dim))
        if self.mode is not None and self.smoothness is None:
            raise UsageError("mode is part of the declared constants: give strong_convexity and smoothness too, or use start=")

    def coordinate_names(self) -> list[str]:
        """`names`, or z[0], z[1], ..."""
        return list(self.names) if self.names is not None else [f"z[{i}]" for i in range(self.dim)]

    def declared(self) -> tuple[float, float, list[float] | None, str] | None:
        """The constants in the form that Rust takes."""
        if self.strong_convexity is None or self.smoothness is None:
            return None
        mode = None if self.mode is None else [float(x) for x in self.mode]
        return float(self.strong_convexity), float(self.smoothness), mode, self.reason or "no reason was given"


def _vector(name: str, value: Any, dim: int) -> Array:
    try:
        vector = np.array(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(f"{name} is not a vector of numbers: {error}") from None
    if vector.shape != (dim,) or not np.isfinite(vector).all():
        raise UsageError(f"{name} has shape {vector.shape}, but {dim} finite numbers are required")
    return vector


def target(
    fn: Callable[[Array], tuple[Any, Any]],
    *,
    dim: int,
    strong_convexity: float | None = None,
    smoothness: float | None = None,
    mode: Sequence[float] | Array | None = None,
    reason: str | None = None,
    log_concave: bool = False,
    names: Sequence[str] | None = None,
    start: Sequence[float] | Array | None = None,
    starts: Sequence[Sequence[float]] | Array | None = None,
    log_likelihood: Callable[[Array], Mapping[str, NDArray[Any]]] | None = None,
) -> Target:
    """A target from a function of a (B, d) array that returns the B log densities and their (B, d) gradients."""
    return Target(
        fn,
        dim,
        log_likelihood=log_likelihood,
        names=names,
        strong_convexity=strong_convexity,
        smoothness=smoothness,
        mode=mode,
        reason=reason,
        log_concave=log_concave,
        start=start,
        starts=starts,
    )
