"""Checks of parameters and features that many maps and learners share."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from mercer.errors import ParameterError

__all__ = ["check_choice", "check_count"]


def check_count(owner: Any, name: str) -> None:
    """Raise unless the named parameter is an integer of at least one."""
    value = getattr(owner, name)
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        msg = f"{type(owner).__name__}: {name} must be an integer >= 1, got {value!r}."
        raise ParameterError(msg)


def check_choice(owner: Any, name: str, choices: Any) -> None:
    """Raise unless the named parameter is one of a closed set of words."""
    value = getattr(owner, name)
    if value not in tuple(choices):
        msg = f"{type(owner).__name__}: {name} must be one of {', '.join(map(repr, choices))}, got {value!r}."
        raise ParameterError(msg)
