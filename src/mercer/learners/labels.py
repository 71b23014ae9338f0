"""Which rows have a target: those that do not hold the mark of a learner, its parameter `unlabeled`."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from mercer.engines import Block
from mercer.errors import DataError, ParameterError

__all__ = ["HasLabel", "check_mark", "has_label"]


@dataclass(frozen=True)
class HasLabel:
    """The rule that keeps rows whose target is known."""

    unlabeled: Any

    def __call__(self, block: Block) -> np.ndarray:
        return has_label(block.y, self.unlabeled)


def has_label(y: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return of each row whether its target is another than the mark; NaN stands for all that is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.learners.labels import has_label
    >>> has_label(np.array([0, -1, 1]), -1).tolist()
    [True, False, True]
    >>> has_label(np.array(["a", None, np.nan], dtype=object), np.nan).tolist()
    [True, False, False]
    """
    if not is_missing(unlabeled):
        with_mark = y == unlabeled
    elif y.dtype.kind == "O":
        with_mark = np.frompyfunc(is_missing, 1, 1)(y)
    else:
        with_mark = y != y
    with_mark = np.broadcast_to(np.asarray(with_mark, dtype=bool), y.shape)
    return np.logical_not(with_mark if y.ndim == 1 else with_mark.all(axis=1))


def is_missing(value: Any) -> bool:
    """Return whether a value is NaN of any kind, None, or the NA of pandas."""
    if isinstance(value, Real):
        return bool(value != value)
    return value is None or type(value).__name__ == "NAType"


def check_mark(owner: str, y: np.ndarray, unlabeled: Any) -> None:
    """Raise if a mark cannot stand among such targets, and so would mark none of them."""
    if isinstance(unlabeled, bool | np.bool_):
        msg = (
            f"{owner}: unlabeled must be what y holds for rows without a target, such as -1 or np.nan, or None if all "
            f"rows have one, got {unlabeled!r}."
        )
        raise ParameterError(msg)
    is_text, wants_text = isinstance(unlabeled, str | bytes), y.dtype.kind in "US"
    if y.dtype.kind in "OV" or is_text == wants_text:
        return
    hint = "Give a mark of their kind."
    if wants_text and is_missing(unlabeled):
        hint = "In an array of texts NaN is the text 'nan': make y an array of dtype object."
    msg = f"{owner}: unlabeled={unlabeled!r} cannot stand among the {'texts' if wants_text else 'numbers'} of y. {hint}"
    raise DataError(msg)
