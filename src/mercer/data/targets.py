"""Which rows have a target: those that do not hold the mark of a learner, its parameter `unlabeled`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block, some_rows
from mercer.errors import DataError, ParameterError

__all__ = [
    "HasLabel",
    "as_targets",
    "check_mark",
    "check_none_missing",
    "check_numbers",
    "has_label",
    "is_number",
    "known_labels",
    "label_kind",
    "no_targets",
    "plain",
]

KINDS = {"b": "truth values", "U": "texts", "S": "bytes"}
# What NumPy and pandas make of a missing value that has to be text.
MISSING_TEXTS = ("nan", "None", "<NA>")


@dataclass(frozen=True)
class HasLabel:
    """The rule that keeps rows whose target is known."""

    unlabeled: Any

    def __call__(self, block: Block) -> Block:
        some = some_rows(block, has_label(block.y, self.unlabeled))
        return some if some.y.dtype.kind != "O" else replace(some, y=plain(some.y))


def has_label(y: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return of each row whether its target is another than the mark; NaN stands for all that is missing.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data.targets import has_label
    >>> has_label(np.array([0, -1, 1]), -1).tolist()
    [True, False, True]
    >>> has_label(np.array(["a", None, np.nan], dtype=object), np.nan).tolist()
    [True, False, False]
    """
    marks = with_mark(y, unlabeled)
    return np.logical_not(marks if y.ndim == 1 else marks.all(axis=1))


def with_mark(y: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return of each target whether it is the mark."""
    if y.dtype.kind == "O":  # in which one by one is needed: what is missing compares with nothing
        is_mark = is_missing if is_missing(unlabeled) else lambda value: not is_missing(value) and value == unlabeled
        marks = np.frompyfunc(is_mark, 1, 1)(y)
    elif not is_missing(unlabeled):
        marks = y == unlabeled
    else:
        marks = y != y
    return np.broadcast_to(np.asarray(marks, dtype=bool), y.shape)


def is_missing(value: Any) -> bool:
    """Return whether a value is NaN of any kind, None, or the NA of pandas."""
    if isinstance(value, Real):
        return bool(value != value)
    return value is None or type(value).__name__ == "NAType"


def check_mark(owner: str, y: np.ndarray, unlabeled: Any, learned: str | None = None) -> None:
    """Raise if a mark cannot stand among such targets, and so would mark none, or if it stands in a part of a row.

    Labels of the kind that was `learned` before, as `label_kind` tells it, may hold no mark: all of them are known.
    """
    if isinstance(unlabeled, bool | np.bool_) or np.ndim(unlabeled) or isinstance(unlabeled, dict | set):
        msg = (
            f"{owner}: unlabeled must be what y holds for rows without a target, such as -1 or np.nan, or None if all "
            f"rows have one, got {unlabeled!r}."
        )
        raise ParameterError(msg)
    if y.dtype.kind not in "OV" and isinstance(unlabeled, str | bytes) != (y.dtype.kind in "US"):
        check_lacks_mark(owner, y, unlabeled, learned)
    if y.dtype.kind == "b" and isinstance(unlabeled, Real) and unlabeled in (0, 1):
        msg = f"{owner}: unlabeled={unlabeled!r} would be one of the truth values of y. Try another mark, such as -1."
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


def check_lacks_mark(owner: str, y: np.ndarray, unlabeled: Any, learned: str | None) -> None:
    """Raise if a mark is meant to stand among labels of another kind, where it cannot."""
    of_texts, missing = y.dtype.kind in "US", is_missing(unlabeled)
    # A block of a file, all of whose labels are known, holds texts alone: the mark would be among them as a text.
    wrong = np.intersect1d(y.astype(str), MISSING_TEXTS if missing else [str(unlabeled)]) if of_texts else np.zeros(0)
    all_known = (of_texts and missing) or (learned is not None and label_kind(y, None) == learned)
    if all_known and not len(wrong):
        return
    hint = "Give a mark of their kind, or make y an array of dtype object, which can hold both."
    if y.dtype.kind == "f":
        hint = "Give a number, such as np.nan."
    elif len(wrong):
        name = "NaN" if missing else repr(unlabeled)
        hint = f"In an array of texts {name} is the text {str(wrong[0])!r}: make y an array of dtype object."
    kind = "texts" if of_texts else "numbers"
    msg = f"{owner}: unlabeled={unlabeled!r} cannot stand among the {kind} of y. {hint}"
    raise DataError(msg)


def no_targets(learner: Any, shape: int | tuple[int, ...]) -> np.ndarray:
    """Return an array of the mark, for rows that came without targets, or say that there must be some."""
    mark = learner.unlabeled
    if mark is None:
        name = type(learner).__name__
        msg = (
            f"{name} requires y to be passed, but the target y is None. Pass y, or blocks (X, y); if rows without a "
            "target are meant, say what marks them elsewhere, such as unlabeled=np.nan: then y may be None in a block."
        )
        raise DataError(msg)
    return np.full(shape, np.nan if is_missing(mark) else mark)


def as_targets(y: Any) -> Any:
    """Return targets as they are, or lists of texts among other things as objects: NumPy would make all of it text."""
    if isinstance(y, list | tuple) and 0 < sum(isinstance(one, str) for one in y) < len(y):
        out = np.empty(len(y), dtype=object)
        out[:] = y
        return out
    return y


def check_numbers(owner: str, y: Any) -> None:
    """Raise if a target of a regression is a text that is no number, such as a mark."""
    values = np.asarray(as_targets(y))
    if values.dtype.kind not in "OUS":
        return
    for value in values.ravel():
        if isinstance(value, str | bytes) and not is_number(value):
            msg = (
                f"{owner}: targets must be numbers, got the text {str(value)!r}. If it marks rows without a target, "
                "put np.nan in its place and say unlabeled=np.nan."
            )
            raise DataError(msg)


def is_number(text: str | bytes) -> bool:
    """Return whether a text can be read as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def known_labels(learner: Any, y: np.ndarray) -> np.ndarray:
    """Return the labels that are known, numbers and truth values in arrays of their own, or say what is wrong."""
    owner, mark = type(learner).__name__, learner.unlabeled
    known = y if mark is None else y[has_label(y, mark)]
    missing = with_mark(known, np.nan) if known.dtype.kind in ("f", "O") else np.zeros(len(known), bool)
    if missing.any():
        msg = (
            f"{owner}: y contains NaN, or no value, in {int(missing.sum())} of {len(y)} rows, which is not the mark, "
            f"unlabeled={mark!r}. Put the mark in its place, or say unlabeled=np.nan and put NaN for all of them."
        )
        raise DataError(msg)
    if known.dtype.kind == "O" and object_kind(known) == "objects":
        one = known[0]
        other = next((value for value in known if type(value) is not type(one)), one)
        got = f"{type(one).__name__} {one!r}" + (f" and {type(other).__name__} {other!r}" if other is not one else "")
        rest = "" if mark is None else f", but for the mark, unlabeled={mark!r}"
        msg = (
            f"{owner}: labels must be all texts, all numbers or all truth values{rest}; got {got}. Try texts for all "
            "of them: [str(label) for label in y]."
        )
        raise DataError(msg)
    return plain(known)


def plain(labels: np.ndarray) -> np.ndarray:
    """Return labels, numbers and truth values among objects in arrays of their own.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data.targets import plain
    >>> plain(np.array([0, 1], dtype=object)), plain(np.array([True, False], dtype=object))
    (array([0, 1]), array([ True, False]))
    """
    kind = object_kind(labels) if labels.dtype.kind == "O" and labels.ndim == 1 else None
    return labels.astype(bool) if kind == "truth values" else np.array(labels.tolist()) if kind == "numbers" else labels


def object_kind(values: np.ndarray) -> str | None:
    """Return what objects are, in words: what all of them are, or just objects; None if there is none."""
    if not len(values):
        return None
    for types, kind in ((str, "texts"), (bytes, "bytes"), ((bool, np.bool_), "truth values")):
        if all(isinstance(one, types) for one in values):
            return kind
    are_numbers = all(isinstance(one, Real) and not isinstance(one, bool | np.bool_) for one in values)
    return "numbers" if are_numbers else "objects"


def check_none_missing(learner: Any, y: Any) -> None:
    """Raise if some targets are missing, for a learner to which nobody said what that means."""
    if y is None or sp.issparse(y):
        return
    values = np.asarray(as_targets(y))
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
    >>> from mercer.data.targets import label_kind
    >>> label_kind(np.array(["a", None], dtype=object), np.nan), label_kind(np.array(["a", "b"]), np.nan)
    ('texts', 'texts')
    """
    known = y if unlabeled is None else y[has_label(y, unlabeled)]
    if not len(known):
        return None
    return object_kind(known) if y.dtype.kind == "O" else KINDS.get(y.dtype.kind, "numbers")
