"""Stan programs, compiled here or by BridgeStan, evaluated in Rust without Python in the loop."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .._certus import StanModel
from ..errors import DataError, InputError, UsageError
from ..targets import Target, Variable
from .stan_build import build


def target(
    program: str | Path,
    data: Mapping[str, Any] | str | Path | None = None,
    *,
    seed: int = 0,
    observed: Sequence[str] | str = (),
    log_likelihood: str = "log_lik",
) -> Target:
    """The target of a Stan program: its code, a `.stan` file, or a `.so` that BridgeStan compiled.

    `data` are the program's data, or a `.json` file with them. `observed` names those that are observations, and
    `log_likelihood` the generated quantity with the pointwise log likelihood, if there is one.
    """
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**32:
        raise UsageError(f"seed is {seed!r}, but a whole number from 0 to 2**32 - 1 is required")
    model = StanModel(library(program), data_text(data), int(seed))
    names = model.param_names()
    columns = grouped(names)
    latent = grouped(model.param_names(transformed=False, generated=False))

    def constrain(draws: np.ndarray) -> dict[str, np.ndarray]:
        draws = np.ascontiguousarray(draws, dtype=np.float64)
        return pick(model.param_constrain(draws, seed=seed), {k: v for k, v in columns.items() if k != log_likelihood})

    def pointwise(draws: np.ndarray) -> dict[str, np.ndarray]:
        draws = np.ascontiguousarray(draws, dtype=np.float64)
        return pick(model.param_constrain(draws, seed=seed), {log_likelihood: columns[log_likelihood]})

    shown = {name: at.shape for name, at in columns.items() if name != log_likelihood}
    return Target(
        log_density=model.log_density,
        dim=model.dim,
        names=coordinate_names(model, latent),
        start=starting_point(model, seed),
        # Stan's own inits
        starts=np.random.default_rng(seed + 1).uniform(-2, 2, (8, model.dim)),
        variables=tuple(Variable(k, s, tuple(f"{k}_dim_{i}" for i in range(len(s)))) for k, s in shown.items()),
        constrain=constrain,
        observed=observations(data, observed) or None,
        log_likelihood=pointwise if log_likelihood in columns else None,
    )


def library(program: str | Path) -> Path:
    """The shared library of a program given as code or as a file."""
    text = str(program)
    if isinstance(program, Path) and program.suffix not in (".stan", ".so", ".dylib", ".dll"):
        raise UsageError(f"program is {text!r}, but a .stan file or a .so that BridgeStan compiled is required")
    is_file = isinstance(program, Path) or ("\n" not in text and text.endswith((".stan", ".so", ".dylib", ".dll")))
    if not is_file:
        if "{" not in text:
            raise UsageError(f"program is {text!r}, which is neither Stan code nor the path of a .stan file or a .so")
        return build(text)
    path = Path(program).resolve()
    if not path.is_file():
        raise InputError(f"there is no file {program}; program must be Stan code, a .stan file or a BridgeStan .so")
    return build(path.read_text(), include=path.parent) if path.suffix == ".stan" else path


def data_text(data: Mapping[str, Any] | str | Path | None) -> str:
    """Data as Stan's JSON; arrays by rows, booleans as 0 and 1."""
    if data is None:
        return ""
    if not isinstance(data, Mapping):
        if not Path(data).is_file():
            raise InputError(f"there is no data file {data}; data must be a dict or the path of a .json file")
        return Path(data).read_text()
    return json.dumps({name: plain(name, value) for name, value in data.items()})


def plain(name: str, value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind == "b":
        array = array.astype(int)
    if array.dtype.kind not in "iuf":
        raise DataError(f"data[{name!r}] holds {array.dtype}, but Stan data are rectangular arrays of numbers")
    return array.tolist()


def observations(data: Any, names: Sequence[str] | str) -> dict[str, np.ndarray]:
    if isinstance(names, str):
        names = [names]
    values = json.loads(data_text(data) or "{}") if names else {}
    missing = [name for name in names if name not in values]
    if missing:
        raise DataError(f"observed names {', '.join(missing)}, but data has {', '.join(values) or 'nothing'}")
    return {name: np.asarray(values[name]) for name in names}


def grouped(names: Sequence[str]) -> dict[str, np.ndarray]:
    """Columns of each variable as an array of its shape: "b.1.2" is entry [0, 1] of b. Stan counts from 1."""
    found: dict[str, list[tuple[tuple[int, ...], int]]] = {}
    for column, name in enumerate(names):
        # components of complex numbers and of arrays of tuples keep their full name, as scalars
        match = re.fullmatch(r"([^.]+)((?:\.\d+)*)", name)
        base, index = match.groups() if match else (name, "")
        found.setdefault(base, []).append((tuple(int(i) - 1 for i in index.split(".")[1:]), column))
    columns = {}
    for name, entries in found.items():
        at = np.zeros(np.max([index for index, _ in entries], axis=0).astype(int) + 1, dtype=int)
        for index, column in entries:
            at[index] = column
        columns[name] = at
    return columns


def pick(values: np.ndarray, columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: values[:, at] for name, at in columns.items()}


def coordinate_names(model: StanModel, latent: Mapping[str, np.ndarray]) -> tuple[str, ...]:
    """Names like `beta[1]`, counted from 0 as in the summary; a parameter that Stan transforms is marked as unconstrained."""
    names = model.param_unc_names()
    point = np.linspace(0.1, 0.9, model.dim)
    there = pick(model.param_constrain(point[None], transformed=False, generated=False), latent)
    kept = {name for name, at in grouped(names).items() if name in there and np.array_equal(there[name][0], point[at])}

    def shown(name: str) -> str:
        base, *index = name.split(".")
        return (base if base in kept else f"unconstrained {base}") + (f"[{', '.join(str(int(i) - 1) for i in index)}]" if index else "")

    return tuple(map(shown, names))


def starting_point(model: StanModel, seed: int) -> np.ndarray:
    """The origin or, if the program rejects it, the first accepted one of 100 points drawn from (-2, 2) as in Stan."""
    rng = np.random.default_rng(seed)
    for attempt in range(101):
        point = np.zeros(model.dim) if attempt == 0 else rng.uniform(-2, 2, model.dim)
        value, gradient = model.log_density(point[None])
        if np.isfinite(value).all() and np.isfinite(gradient).all():
            return point
    reason = model.rejection or "the log density or its gradient is not finite"
    raise DataError(f"the Stan program rejects the origin and 100 random points, the last time with: {reason}")
