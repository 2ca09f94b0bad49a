"""NumPyro models: the potential on the flattened unconstrained space, jitted and vectorised, in double precision."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from ..errors import UsageError
from ..targets import NonCentred, Target, Variable
from .jax import batched, double_precision, import_jax


STARTS = 8
"""Draws of the prior."""


def target(model: Callable[..., Any], *args: Any, seed: int = 0, **kwargs: Any) -> Target:
    """The target of a NumPyro model, a function called as `model(*args, **kwargs)` with the data among its arguments.

    `seed` is used only to draw the initial point; it is not passed to the model.
    """
    numpyro, jax = import_numpyro(), import_jax()
    # JAX remembers a NumPy array that it has traced in 64 bits by its identity and then refuses it in 32: it sees only ours
    args, kwargs = jax.tree_util.tree_map(lambda x: x.copy() if isinstance(x, np.ndarray) else x, (args, kwargs))
    at = numpyro, jax, seed, args, kwargs
    own = as_written(model, *at)
    found = location_scale_sites(model, *at)
    if not found:
        return own

    def noncentred() -> Target:
        other = as_written(numpyro.handlers.reparam(model, config=found), *at)
        constrain: Any = other.constrain
        variables = [v.name for v in own.variables or ()]

        def shown(draws: np.ndarray) -> dict[str, np.ndarray]:
            values = constrain(draws)
            return {name: values[name] for name in variables}

        return replace(other, variables=own.variables, coords=own.coords, constrain=shown)

    return replace(own, noncentred=NonCentred(tuple(found), noncentred))


FAMILIES: dict[str, tuple[str, ...]] = {"StudentT": ("df",)}
FAMILIES |= dict.fromkeys(("Normal", "Laplace", "Cauchy", "Logistic", "Gumbel"), ())
"""Families of a location and a scale, with their other parameters."""


def location_scale_sites(
    model: Callable[..., Any], numpyro: Any, jax: Any, seed: int, args: Any, kwargs: Any
) -> dict[str, Any]:
    """Latent sites of a location-scale family whose parameters differ at two draws of the prior, with what non-centres them.

    A site whose density is scaled or masked is left alone. Of one that the model itself reparametrises only t is a site,
    with constant parameters.
    """
    wrappers = numpyro.distributions.Independent, numpyro.distributions.ExpandedDistribution

    def parameters(key: Any) -> dict[str, tuple[str, np.ndarray, np.ndarray]]:
        trace = numpyro.handlers.trace(numpyro.handlers.seed(model, key)).get_trace(*args, **kwargs)
        found = {}
        for name, site in trace.items():
            if site["type"] == "sample" and not site["is_observed"] and site.get("scale") is None:
                fn = site["fn"]
                while isinstance(fn, wrappers):
                    fn = fn.base_dist
                if type(fn).__name__ in FAMILIES and type(fn).__module__.startswith("numpyro."):
                    found[name] = type(fn).__name__, np.asarray(fn.loc), np.asarray(fn.scale)
        return found

    with double_precision(jax):
        keys = jax.random.split(jax.random.fold_in(jax.random.PRNGKey(seed), 2), 2)
        first, second = map(parameters, keys)
    same = lambda a, b: np.array_equal(a[1], b[1]) and np.array_equal(a[2], b[2])
    varying = [name for name in first if name in second and not same(first[name], second[name])]
    reparam = numpyro.infer.reparam.LocScaleReparam
    return {name: reparam(centered=0, shape_params=FAMILIES[first[name][0]]) for name in varying}


def as_written(model: Callable[..., Any], numpyro: Any, jax: Any, seed: int, args: Any, kwargs: Any) -> Target:
    """The target of a model in its own coordinates."""
    from jax.flatten_util import ravel_pytree

    with double_precision(jax):
        key = jax.random.PRNGKey(seed)
        refuse_discrete(numpyro.handlers.trace(numpyro.handlers.seed(model, key)).get_trace(*args, **kwargs))
        info = numpyro.infer.util.initialize_model(key, model, model_args=args, model_kwargs=kwargs, validate_grad=True)
        if not info.param_info.z:
            raise UsageError("the model has no latent sample sites, so there is nothing to fit")
        flat, unravel = ravel_pytree(info.param_info.z)
    if flat.dtype != np.float64:
        raise UsageError(
            f"the unconstrained parameters are {flat.dtype}, but float64 is required; "
            "call numpyro.enable_x64() before the model's arrays are made"
        )
    observed = {name: np.asarray(s["value"]) for name, s in info.model_trace.items() if is_observed(s)}
    to_sites = jax.jit(jax.vmap(lambda z: info.postprocess_fn(unravel(z))))

    def constrain(draws: np.ndarray) -> dict[str, np.ndarray]:
        with double_precision(jax):
            sites = to_sites(np.asarray(draws, dtype=np.float64))
        # JAX sorts by name; users expect the order of the sites in the model
        return {name: np.asarray(sites[name]) for name in info.model_trace if name in sites and name not in observed}

    def log_likelihood(draws: np.ndarray) -> dict[str, np.ndarray]:
        sites = {name: value for name, value in constrain(draws).items() if info.model_trace[name]["type"] == "sample"}
        with double_precision(jax):
            pointwise = numpyro.infer.log_likelihood(model, sites, *args, **kwargs)
        return {name: np.asarray(pointwise[name]) for name in observed}

    start = np.array(flat)
    at_start = {name: value[0] for name, value in constrain(start[None]).items()}
    shapes = {name: value.shape for name, value in at_start.items()}
    plates = {name: plate_dims(info.model_trace[name], shape) for name, shape in shapes.items()}
    return Target(
        starts=prior_draws(numpyro, jax, key, model, args, kwargs, start.size),
        log_density=batched(jax, lambda z: -info.potential_fn(unravel(z))),
        dim=start.size,
        names=coordinate_names(info.param_info.z, at_start),
        start=start,
        variables=tuple(Variable(name, shape, plates[name]) for name, shape in shapes.items()),
        coords={p.name: np.arange(p.size) for s in info.model_trace.values() for p in s.get("cond_indep_stack", ())},
        constrain=constrain,
        observed=observed or None,
        observed_dims={name: plate_dims(info.model_trace[name], value.shape) for name, value in observed.items()},
        log_likelihood=log_likelihood if observed else None,
        noncentred=NonCentred(),
    )


def prior_draws(numpyro: Any, jax: Any, key: Any, model: Callable[..., Any], args: Any, kwargs: Any, dim: int) -> np.ndarray | None:
    """Draws of the prior on the unconstrained space, from which other modes are searched for; None if they cannot be had."""
    from jax.flatten_util import ravel_pytree

    rows = []
    with double_precision(jax):
        for one in jax.random.split(jax.random.fold_in(key, 1), STARTS):
            trace = numpyro.handlers.trace(numpyro.handlers.seed(model, one)).get_trace(*args, **kwargs)
            latent = {name: site for name, site in trace.items() if site["type"] == "sample" and not site["is_observed"]}
            free = {name: numpyro.distributions.biject_to(site["fn"].support).inv(site["value"]) for name, site in latent.items()}
            rows.append(np.asarray(ravel_pytree(free)[0], dtype=np.float64))
    rows = [row for row in rows if row.shape == (dim,) and np.isfinite(row).all()]
    return np.array(rows) if rows else None


def is_observed(site: dict[str, Any]) -> bool:
    # sites of factors also have type "sample", with a Unit distribution and no values
    return site["type"] == "sample" and site["is_observed"] and np.size(site["value"]) > 0


def refuse_discrete(trace: dict[str, Any]) -> None:
    discrete = [
        name
        for name, site in trace.items()
        if site["type"] == "sample" and not site["is_observed"] and site["fn"].support.is_discrete
    ]
    if discrete:
        raise UsageError(
            f"the sites {', '.join(discrete)} are discrete, but a Gaussian needs continuous ones; "
            "sum them out in the model or replace them by continuous sites"
        )


def plate_dims(site: dict[str, Any], shape: tuple[int, ...]) -> tuple[str, ...]:
    """Names of a site's axes: its plates, if it is in one, otherwise numbers as in ArviZ."""
    names = [f"{site['name']}_dim_{k}" for k in range(len(shape))]
    plates = site.get("cond_indep_stack", ())
    if site["type"] == "sample":
        batch = len(site["fn"].batch_shape)
    else:
        # axes of a deterministic beyond its plates have no names, and which they are is not known
        batch = len(shape) if max((-frame.dim for frame in plates), default=0) == len(shape) else 0
    for frame in plates:
        axis = batch + frame.dim
        if 0 <= axis < len(shape) and shape[axis] == frame.size:
            names[axis] = frame.name
    return tuple(names)


def coordinate_names(sites: dict[str, Any], constrained: dict[str, Any]) -> tuple[str, ...]:
    """One name per flat coordinate, in the order of ravel_pytree: sites by name, each by rows.

    Sites that the constraint changes (seen at the random initial point) are marked as unconstrained.
    """
    names = []
    for name in sorted(sites):
        kept = np.array_equal(sites[name], constrained[name])
        for index in np.ndindex(np.shape(sites[name])):
            inner = f"[{', '.join(map(str, index))}]" if index else ""
            names.append(("" if kept else "unconstrained ") + name + inner)
    return tuple(names)


def import_numpyro() -> Any:
    """NumPyro, or an error that tells how to install it."""
    try:
        import numpyro
        import numpyro.infer.reparam
        import numpyro.infer.util
    except ImportError as error:
        raise ImportError("a NumPyro model needs NumPyro: pip install numpyro") from error
    return numpyro
