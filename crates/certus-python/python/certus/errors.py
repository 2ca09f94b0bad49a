"""Exceptions, one class per exit code of the command line."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Base class of all errors of certus. `fit` is the partial fit, if there is one."""

    exit_code = 70
    fit: Any = None


class UsageError(Error, ValueError):
    """Arguments that contradict each other or have no meaning."""

    exit_code = 64


class DataError(Error, ValueError):
    """Data that do not fit the request, including unknown columns."""

    exit_code = 65


class NotFiniteError(Error, ArithmeticError):
    """A value that is infinite or not a number; `fit` has the last finite iterate."""

    exit_code = 12


class AssumptionError(Error):
    """An assumption is violated, with a witness in the message."""

    exit_code = 13


class TargetError(Error, TypeError):
    """A log density that does not return what is required."""

    exit_code = 20


class InputError(Error, FileNotFoundError):
    """A file or directory that does not exist or cannot be read."""

    exit_code = 66


class OutputError(Error, OSError):
    """Files that already exist or cannot be written."""

    exit_code = 73


_CLASSES = {c.exit_code: c for c in (UsageError, DataError, NotFiniteError, AssumptionError, TargetError, InputError, OutputError)}


def of(code: int, message: str) -> Error:
    """The exception for an exit code."""
    error = _CLASSES.get(OutputError.exit_code if code == 74 else code, Error)(message)
    error.exit_code = code
    return error
