"""PyMC models whose variables of a location-scale family are written non-centred: x = location + scale t."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

FAMILIES = {"normal": (0, 1), "t": (1, 2)} | dict.fromkeys(("laplace", "cauchy", "logistic", "gumbel"), (0, 1))
"""Which parameters of a distribution are its location and its scale, by the name of PyMC's operation."""
LOG = "lognormal"
"""Its logarithm, on which the unconstrained value is, is normal."""


@dataclass(frozen=True)
class Located:
    """A free variable with its value x on the unconstrained space, and t, which takes its place there."""

    variable: Any
    value: Any
    t: Any
    location: Any
    scale: Any
    """In the variables of the model; `x` and `density` are in values."""
    x: Any
    density: Any


def located(model: Any, free: Sequence[Any]) -> list[Located]:
    """The free variables of a location-scale family whose parameters depend on other free ones; parents come first."""
    depth = {v: len(parents(v, free)) for v in free if is_location_scale(model, v)}
    return [describe(model, v) for v in sorted(depth, key=depth.__getitem__) if depth[v] > 0]


def is_location_scale(model: Any, variable: Any) -> bool:
    """A transform, such as `ordered`, would be between x and the value."""
    op, transform = variable.owner.op, model.rvs_to_transforms.get(variable)
    name = getattr(op, "name", None) if hasattr(op, "dist_params") else None
    return (name in FAMILIES and transform is None) or (name == LOG and type(transform).__name__ == "LogTransform")


def parents(variable: Any, free: Sequence[Any]) -> set[Any]:
    """All free variables on which the parameters of one depend, directly or not; a parent has fewer of them."""
    try:
        from pytensor.graph.traversal import ancestors
    except ImportError:
        from pytensor.graph.basic import ancestors  # type: ignore[no-redef]

    return set(free) & set(ancestors(variable.owner.op.dist_params(variable.owner)))


# If x has the location a and the scale b > 0, then t = (x - a) / b has the density b p(a + b t) = p₀(t), which is that
# of the same family with location 0 and scale 1. p₀ is used as it stands: in b p(a + b t) the difference x - a would have
# no correct digits where b is far below a.
def describe(model: Any, variable: Any) -> Located:
    import pymc as pm
    import pytensor.tensor as pt

    node = variable.owner
    parameters = list(node.op.dist_params(node))
    at, by = FAMILIES.get(node.op.name, (0, 1))
    standard = model.replace_rvs_by_values(parameters)
    location, scale = standard[at], standard[by]
    standard[at], standard[by] = pt.zeros_like(location), pt.ones_like(scale)
    value = model.rvs_to_values[variable]
    # the name that NumPyro gives it
    t = value.type(f"{variable.name}_decentered")
    op = pt.random.normal if node.op.name == LOG else node.op
    density = pt.switch(scale > 0, pm.logp(op(*standard), t), -np.inf)
    return Located(variable, value, t, parameters[at], parameters[by], location + scale * t, density.sum())


def t_of(one: Located, model: Any) -> Any:
    """t in the variables of the model."""
    transform = model.rvs_to_transforms.get(one.variable)
    x = one.variable if transform is None else transform.forward(one.variable, *one.variable.owner.inputs)
    return (x - one.location) / one.scale


def log_density(model: Any, found: Sequence[Located]) -> Any:
    """The sum of the terms of the other variables and of p₀(t)."""
    moved = {one.variable for one in found}
    others = [v for v in [*model.free_RVs, *model.observed_RVs, *model.potentials] if v not in moved]
    return model.logp(vars=others) + sum(one.density for one in found)


def start(model: Any, found: Mapping[Any, Located], given: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The start with t in the place of x, by value."""
    import pytensor

    values = list(model.value_vars)
    graphs = model.replace_rvs_by_values([t_of(one, model) for one in found.values()])
    compiled = pytensor.function(values, graphs, mode="FAST_COMPILE", on_unused_input="ignore")
    at = compiled(*[given[v.name].astype(v.dtype) for v in values])
    ours = {one.value.name: (one.t.name, t) for one, t in zip(found.values(), at, strict=True)}
    moved = [ours.get(name, (name, x)) for name, x in given.items()]
    return {name: np.where(np.isfinite(x), x, 0.0).astype(np.float64) for name, x in moved}
