"""What the theorems ask of their numbers, and what they return."""

from __future__ import annotations

import math

from mercer.errors import ParameterError

__all__ = ["check_base", "check_positive", "probability", "square"]


def square(owner: str, radius: float) -> float:
    """Return the square of a radius that is a positive number."""
    check_positive(owner, radius=radius)
    return float(radius) ** 2


def probability(logarithm: float) -> float:
    """Return a bound as a probability: at most one."""
    return math.exp(min(0.0, logarithm))


def check_positive(owner: str, **values: float) -> None:
    """Raise unless every value is a finite number above zero."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            msg = f"{owner}: {name} must be a finite number > 0, got {value!r}."
            raise ParameterError(msg)


def check_base(owner: str, base: float) -> None:
    """Raise unless the base of the law of degrees makes a law."""
    if not 1 < base < math.inf:
        msg = f"{owner}: base must be > 1, or (base - 1) / base^(n + 1) is no law of degrees, got {base!r}."
        raise ParameterError(msg)
