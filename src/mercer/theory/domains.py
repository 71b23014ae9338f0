"""What the theorems ask of their numbers, and what they return."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np

from mercer.errors import ParameterError

__all__ = ["check_base", "check_not_negative", "check_positive", "probability", "square", "square_matrices"]


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
        if not (isinstance(value, Real) and 0 < value < math.inf):
            msg = f"{owner}: {name} must be a finite number > 0, got {value!r}."
            raise ParameterError(msg)


def check_not_negative(owner: str, **values: float) -> None:
    """Raise unless every value is a finite number of at least zero."""
    for name, value in values.items():
        if not (isinstance(value, Real) and 0 <= value < math.inf):
            msg = f"{owner}: {name} must be a finite number >= 0, got {value!r}."
            raise ParameterError(msg)


def square_matrices(owner: str, **matrices: Any) -> list[np.ndarray]:
    """Return matrices in float64, if they are finite, square and of one size."""
    out: list[np.ndarray] = []
    for name, matrix in matrices.items():
        A = real_matrix(matrix)
        if A is None:
            msg = f"{owner}: {name} must be a dense matrix of real numbers, got {type(matrix).__name__}."
            raise ParameterError(msg)
        if A.ndim != 2 or A.shape[0] != A.shape[1]:
            msg = f"{owner}: {name} must be a square matrix, got shape {A.shape}."
            raise ParameterError(msg)
        if out and A.shape != out[0].shape:
            first = next(iter(matrices))
            msg = f"{owner}: {name} must be of the shape {out[0].shape} of {first}, got {A.shape}."
            raise ParameterError(msg)
        if not np.isfinite(A).all():
            i, j = np.argwhere(~np.isfinite(A))[0].tolist()
            msg = f"{owner}: {name} must be finite, got {A[i, j]} at [{i}, {j}]."
            raise ParameterError(msg)
        out.append(A)
    return out


def check_base(owner: str, base: float) -> None:
    """Raise unless the base of the law of degrees makes a law."""
    if not 1 < base < math.inf:
        msg = f"{owner}: base must be > 1, or (base - 1) / base^(n + 1) is no law of degrees, got {base!r}."
        raise ParameterError(msg)


def real_matrix(matrix: Any) -> np.ndarray | None:
    """Return an array, or lists of lists, in float64; None if they are no such numbers."""
    try:
        A = np.asarray(matrix) if isinstance(matrix, list | tuple | np.ndarray) else None
    except ValueError:  # lists of different lengths
        return None
    return None if A is None or A.dtype.kind not in "fiub" else A.astype(np.float64)
