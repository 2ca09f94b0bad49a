"""Converts keyword arguments to the settings of the command line and checks their types."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from .errors import UsageError


def number(name: str, value: Any) -> float:
    """A number that is not NaN."""
    if isinstance(value, bool) or not isinstance(value, Real) or math.isnan(value):
        raise UsageError(f"{name} is {value!r}, but a number is required")
    return float(value)


def whole(name: str, value: Any, least: int = 0) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) < 2**64:
        raise UsageError(f"{name} is {value!r}, but a whole number of at least {least} is required")
    return int(value)


def run_settings(
    *,
    gap: float = 0.01,
    delta: float = 0.01,
    accuracy: float | None = None,
    posterior: str = "auto",
    rigorous: bool = False,
    method: str = "auto",
    seed: int = 0,
    max_time: float | None = None,
    max_gradients: int | None = None,
    level: str | None = None,
    threads: int | None = None,
    constants: str | None = None,
    steps: str | None = None,
    batch: int | None = None,
    iterations: int | None = None,
    row_batch: int | None = None,
    factor: str | None = None,
) -> dict[str, Any]:
    """The settings of a run, with the names of fit.json."""
    words: dict[str, Any] = {"gap": number("gap", gap), "delta": number("delta", delta), "seed": whole("seed", seed)}
    given = (
        ("method", method), ("posterior", posterior), ("level", level), ("constants", constants), ("steps", steps), ("factor", factor),
    )
    for name, text in given:
        if text is not None:
            if not isinstance(text, str):
                raise UsageError(f"{name} is {text!r}, but a word is required")
            words[name] = text.replace("_", "-")
    if accuracy is not None:
        words["accuracy"] = number("accuracy", accuracy)
    if not isinstance(rigorous, bool):
        raise UsageError(f"rigorous is {rigorous!r}, but True or False is required")
    if rigorous:
        words["rigorous"] = True
    if max_time is not None:
        seconds = number("max_time", max_time)
        if not 0 <= seconds < math.inf:
            raise UsageError(f"max_time is {max_time!r}, but a number of seconds of at least 0 is required")
        words["max-time"] = f"{seconds!r}s"
    for name, value in (("threads", threads), ("max_gradients", max_gradients), ("batch", batch), ("iterations", iterations), ("row_batch", row_batch)):
        if value is not None:
            words[name.replace("_", "-")] = whole(name, value, 1)
    # as on the command line, defaults are not written
    usual = {"gap": 0.01, "delta": 0.01, "method": "auto", "posterior": "auto", "seed": 0}
    return {name: value for name, value in words.items() if usual.get(name) != value}


def coefficient_prior(name: str, value: Any) -> float | dict[str, float]:
    """The prior of one coefficient: its sd, a pair (mean, sd), or a dict with "mean", "sd" or both."""
    if isinstance(value, Mapping):
        unknown = next((key for key in value if key not in ("mean", "sd")), None)
        if unknown is not None or not value:
            raise UsageError(f"{name} is {value!r}, but a dict with 'mean', 'sd' or both is required")
        return {str(key): number(f"{name}[{key!r}]", x) for key, x in value.items()}
    if isinstance(value, (tuple, list)):
        if len(value) != 2:
            raise UsageError(f"{name} is {value!r}, but an sd or a pair (mean, sd) is required")
        return {"mean": number(f"the mean of {name}", value[0]), "sd": number(f"the sd of {name}", value[1])}
    return number(name, value)


def infinite(words: Mapping[str, Any]) -> str:
    """JSON, with infinite numbers as the word 'inf'."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(x) for key, x in value.items()}
        return "inf" if isinstance(value, float) and math.isinf(value) and value > 0 else value

    return json.dumps(plain(words), allow_nan=False)
