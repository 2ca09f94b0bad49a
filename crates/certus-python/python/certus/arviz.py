"""Draws of a fit as an ArviZ object, with names, dimensions, log weights, data and log likelihoods if they are known."""

from __future__ import annotations

import contextlib
import json
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from . import _certus
from .errors import UsageError
from .targets import Target

if TYPE_CHECKING:
    from .fit import Fit

Groups = dict[str, dict[str, Any]]


def convert(fit: Fit, draws: int, seed: int) -> Any:
    """A DataTree, or InferenceData for an ArviZ before 1.0."""
    groups, coords, dims = contents(fit, draws, seed)
    for name in groups.keys() - {"observed_data"}:
        # one chain: the draws are independent
        groups[name] = {key: np.asarray(value)[None] for key, value in groups[name].items()}
    try:
        old = int(version("arviz").partition(".")[0]) < 1
    except PackageNotFoundError:
        old = False
    if old:
        import arviz

        arguments: dict[str, Any] = {**groups, "coords": coords, "dims": dims}
        return arviz.from_dict(**arguments)
    try:
        from arviz_base import from_dict
    except ImportError:
        raise UsageError("fit.to_arviz() needs ArviZ: pip install arviz-base") from None
    return from_dict(groups, coords=coords, dims=dims)


def contents(fit: Fit, draws: int, seed: int) -> tuple[Groups, dict[str, Any], dict[str, list[str]]]:
    """The groups without their chain dimension, the coordinates and the dimensions."""
    latents: Any = None if fit._fitted.is_mixture else fit.latents(draws, seed)
    source = fit.source
    coords: dict[str, Any] = {}
    dims: dict[str, list[str]] = {}
    groups: Groups = {"posterior": {}}
    if isinstance(source, Target):
        groups["posterior"] = _of_target(source, latents, coords, dims)
        if source.observed:
            groups["observed_data"] = {k: np.asarray(v) for k, v in source.observed.items()}
            dims.update({name: list(names) for name, names in (source.observed_dims or {}).items() if names})
        if source.log_likelihood is not None:
            groups["log_likelihood"] = dict(source.log_likelihood(latents))
    else:
        groups["posterior"] = _of_model(fit, draws, seed, coords, dims)
        if source is not None:
            response = _certus.read_formula(fit.settings.formula)[0] if "formula" in fit.settings else fit.settings.response
            groups["observed_data"] = {response: source._model.responses()}
        if source is not None:
            dims[response] = ["row"]
            coords["row"] = np.arange(source.rows)
            # all of it at the draws of the posterior, which some fits do not have
            with contextlib.suppress(UsageError):
                groups["log_likelihood"] = {response: _certus.log_likelihood(fit._fitted, source._model, draws, seed).T}
                # of estimates, which have none, `simulate` is a bootstrap
                groups["posterior_predictive"] = {response: fit.simulate(draws, seed)}
    weights = fit.log_weights(draws, seed)
    if weights is not None and latents is not None:
        groups["sample_stats"] = {"lp": weights + fit.log_q(latents), "log_weight": weights}
    elif source is not None and latents is not None:
        # draws of the posterior need no weights
        groups["sample_stats"] = {"lp": fit._log_density(latents)}
    return groups, coords, dims


def _of_target(target: Target, latents: Any, coords: dict[str, Any], dims: dict[str, list[str]]) -> dict[str, Any]:
    if target.constrain is not None:
        for variable in target.variables or ():
            if variable.dims:
                dims[variable.name] = list(variable.dims)
        coords.update(target.coords or {})
        return dict(target.constrain(latents))
    if target.names is not None:
        return {name: latents[:, k] for k, name in enumerate(target.names)}
    dims["z"] = ["coordinate"]
    coords["coordinate"] = np.arange(latents.shape[1])
    return {"z": latents}


def _of_model(fit: Fit, draws: int, seed: int, coords: dict[str, Any], dims: dict[str, list[str]]) -> dict[str, Any]:
    """Common coefficients under their names; those of groups as `name|group` with the levels as coordinates."""
    values = fit.sample(draws, seed)
    meaning = json.loads(fit._fitted.parts()[2] or "null")
    if meaning is None or not meaning["latents"]:
        return {name: values[:, k] for k, name in enumerate(fit.names)}
    out: dict[str, Any] = {}
    groups = meaning["encoding"]["groups"]
    names = (["(Intercept)"] if meaning["encoding"]["intercept"] else []) + [f["name"] for f in meaning["encoding"]["features"]]
    place = 0
    for latent in meaning["latents"]:
        name = names[latent["feature"]]
        if latent["group"] is None:
            out[name] = values[:, place]
        else:
            group = groups[latent["group"]]
            key = f"{name}|{group['name']}"
            if key not in out:
                out[key] = np.empty((draws, len(group["levels"])))
                dims[key] = [group["name"]]
                coords[group["name"]] = [level.replace("\x1f", "/") for level in group["levels"]]
            out[key][:, latent["level"]] = values[:, place]
        # a coefficient that is centred at another is followed by its deviation from that
        place += 1 + (latent["group"] is not None and latent["outer"] is not None)
    return out
