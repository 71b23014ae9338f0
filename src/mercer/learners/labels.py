"""Which rows have a target: those that do not hold the mark of a learner, its parameter `unlabeled`."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block
from mercer.errors import DataError, ParameterError

__all__ = ["HasLabel", "check_mark", "check_none_missing", "has_label", "label_kind"]

KINDS = {"b": "truth values", "U": "texts", "S": "bytes", "O": "objects"}
# What NumPy and pandas make of a missing value that has to be text.
MISSING_TEXTS = ("nan", "None", "<NA>")


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
    # A block of a file, all of whose labels are known, holds texts alone: NaN would be among them as a text.
    wrong = np.intersect1d(y.astype(str), MISSING_TEXTS) if wants_text and is_missing(unlabeled) else None
    if y.dtype.kind not in "OV" and is_text != wants_text and (wrong is None or len(wrong)):
        hint = "Give a mark of their kind."
        if wrong is not None:
            hint = f"In an array of texts NaN is the text {str(wrong[0])!r}: make y an array of dtype object."
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


def check_none_missing(learner: Any, y: Any) -> None:
    """Raise if some targets are missing, for a learner to which nobody said what that means."""
    if y is None or sp.issparse(y):
        return
    values = np.asarray(y)
    if values.ndim == 0 or values.dtype.kind not in ("f", "O"):
        return
    marked = with_mark(values, np.nan)
    missing = marked.any(axis=tuple(range(1, marked.ndim)))
    if not missing.any():
        return
    has_mark = "unlabeled" in learner.get_params()
    hint = " If that marks rows without a target, say so: unlabeled=np.nan." if has_mark else ""
    msg = (
        f"{type(learner).__name__}: y contains NaN, or no value, in {int(missing.sum())} of {len(values)} rows, the "
        f"first in row {int(missing.argmax())} of these.{hint} Otherwise fill them, or drop such rows."
    )
    raise DataError(msg)


def label_kind(y: np.ndarray, unlabeled: Any) -> str | None:
    """Return what the known labels are made of, in words; None if none is known.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.learners.labels import label_kind
    >>> label_kind(np.array(["a", None], dtype=object), np.nan), label_kind(np.array(["a", "b"]), np.nan)
    ('texts', 'texts')
    """
    if y.dtype.kind == "O" and unlabeled is not None and is_missing(unlabeled):
        known = y[has_label(y, unlabeled)]
        if not len(known):
            return None
        for types, kind in (((str,), "texts"), ((bool, np.bool_), "truth values")):
            if all(isinstance(one, types) for one in known):
                return kind
    return KINDS.get(y.dtype.kind, "numbers")
