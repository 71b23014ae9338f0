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
    marks = with_mark(y, unlabeled)
    return np.logical_not(marks if y.ndim == 1 else marks.all(axis=1))


def with_mark(y: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return of each target whether it is the mark."""
    if not is_missing(unlabeled):
        marks = y == unlabeled
    elif y.dtype.kind == "O":
        marks = np.frompyfunc(is_missing, 1, 1)(y)
    else:
        marks = y != y
    return np.broadcast_to(np.asarray(marks, dtype=bool), y.shape)


def is_missing(value: Any) -> bool:
    """Return whether a value is NaN of any kind, None, or the NA of pandas."""
    if isinstance(value, Real):
        return bool(value != value)
    return value is None or type(value).__name__ == "NAType"


def check_mark(owner: str, y: np.ndarray, unlabeled: Any) -> None:
    """Raise if a mark cannot stand among such targets, and so would mark none, or if it stands in a part of a row."""
    if isinstance(unlabeled, bool | np.bool_) or np.ndim(unlabeled) or isinstance(unlabeled, dict | set):
        msg = (
            f"{owner}: unlabeled must be what y holds for rows without a target, such as -1 or np.nan, or None if all "
            f"rows have one, got {unlabeled!r}."
        )
        raise ParameterError(msg)
    is_text, wants_text = isinstance(unlabeled, str | bytes), y.dtype.kind in "US"
    if y.dtype.kind not in "OV" and is_text != wants_text:
        hint = "Give a mark of their kind."
        if wants_text and is_missing(unlabeled):
            hint = "In an array of texts NaN is the text 'nan': make y an array of dtype object."
        kind = "texts" if wants_text else "numbers"
        msg = f"{owner}: unlabeled={unlabeled!r} cannot stand among the {kind} of y. {hint}"
        raise DataError(msg)
    if y.ndim > 1:
        marks = with_mark(y, unlabeled)
        half = marks.any(axis=1) & ~marks.all(axis=1)
        if half.any():
            msg = (
                f"{owner}: y must have targets in all columns of a row, or unlabeled={unlabeled!r} in all of them; got "
                f"row {int(half.argmax())} with it in {int(marks[half.argmax()].sum())} of {y.shape[1]}. Fill them in, "
                "mark the whole row, or fit one model for each column."
            )
            raise DataError(msg)
