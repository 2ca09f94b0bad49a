"""Terms of formulae as pickles keep them: without the data of the fit, and with the names that they use in the place of all that was in scope."""

from __future__ import annotations

import ast
import copy
import importlib
from types import ModuleType
from typing import Any

from formulae.categorical import ENCODINGS
from formulae.environment import Environment
from formulae.transforms import TRANSFORMS

DATA = ("value", "_intermediate_data")
"""What a part of a term keeps of the rows that it was made of."""


def kept(term: Any) -> tuple[Any, dict[str, Any]]:
    """A copy of a term without data and scope, and what the names in it stand for; modules as ("module", name)."""
    used: dict[str, Any] = {}
    parts = []
    for component in term.components:
        own = copy.copy(component)
        for name in DATA:
            if hasattr(own, name) and not (name == "_intermediate_data" and own.kind == "offset"):
                setattr(own, name, None)
        if getattr(own, "env", None) is not None:
            space = own.env.namespace
            for name in _names(own.name):
                if name in space and name not in TRANSFORMS and name not in ENCODINGS:
                    value = space[name]
                    used[name] = ("module", value.__name__) if isinstance(value, ModuleType) else ("value", value)
            own.env = None
        parts.append(own)
    out = copy.copy(term)
    out.components = parts
    if hasattr(out, "data"):
        out.data = None
    return out, used


def restored(term: Any, used: dict[str, Any]) -> Any:
    """A term that evaluates new data again."""
    scope = {name: importlib.import_module(value) if kind == "module" else value for name, (kind, value) in used.items()}
    for component in term.components:
        if hasattr(component, "env"):
            component.env = Environment([{**TRANSFORMS, **ENCODINGS}, scope])
    return term


def _names(text: str) -> set[str]:
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        return set()
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
