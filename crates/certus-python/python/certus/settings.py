"""Keyword arguments to the words of the command line, checked by type before Rust sees them."""

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
    method: str = "auto",
    seed: int = 0,
    max_time: float | None = None,
    level: str | None = None,
    threads: int | None = None,
    constants: str | None = None,
    steps: str | None = None,
    batch: int | None = None,
    iterations: int | None = None,
    row_batch: int | None = None,
    factor: str | None = None,
) -> dict[str, Any]:
    """The settings of a run, in the words of fit.json."""
    words: dict[str, Any] = {"gap": number("gap", gap), "delta": number("delta", delta), "seed": whole("seed", seed)}
    for name, text in (("method", method), ("level", level), ("constants", constants), ("steps", steps), ("factor", factor)):
        if text is not None:
            if not isinstance(text, str):
                raise UsageError(f"{name} is {text!r}, but a word is required")
            words[name] = text.replace("_", "-")
    if max_time is not None:
        seconds = number("max_time", max_time)
        if not 0 <= seconds < math.inf:
            raise UsageError(f"max_time is {max_time!r}, but a number of seconds of at least 0 is required")
        words["max-time"] = f"{seconds!r}s"
    for name, value in (("threads", threads), ("batch", batch), ("iterations", iterations), ("row_batch", row_batch)):
        if value is not None:
            words[name.replace("_", "-")] = whole(name, value, 1)
    return words


def infinite(words: Mapping[str, Any]) -> str:
    """JSON, with infinite numbers as the word 'inf'."""
    plain = {k: "inf" if isinstance(v, float) and math.isinf(v) and v > 0 else v for k, v in words.items()}
    return json.dumps(plain, allow_nan=False)
