"""Targets: their validation, rows without a target, and the coding of labels as numbers for solvers.

A `Coding` validates the targets of a fit block by block. It is immutable: validating a block returns a new coding that
records the form of the targets (the shape of numeric targets, or the kind of labels), and later blocks must have the
same form.

In rows without a target, `y` is the value of the parameter `unlabeled`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d, validate_data

from mercer.engines import Block, some_rows
from mercer.errors import DataError, ParameterError
from mercer.errors.columns import check_rows, explain_rows, reads_as_number
from mercer.errors.values import explain_lengths, explain_values
from mercer.linalg.dispatch import canonical, native

__all__ = [
    "FLOATS",
    "Coding",
    "HasTarget",
    "Ignored",
    "Labels",
    "Numbers",
    "as_floats",
    "as_targets",
    "check_no_missing_targets",
    "has_target",
    "label_codes",
    "label_signs",
    "plain_labels",
    "without_nullable_dtype",
]

FLOATS = (np.float64, np.float32)
KINDS = {"b": "booleans", "U": "strings", "S": "bytes"}
# Strings to which NumPy and pandas convert missing values.
MISSING_STRINGS = ("nan", "None", "<NA>")


# ---- codings ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Coding(ABC):
    """Base class of objects that validate targets. All blocks of a fit must have targets of the same form."""

    #: Value in `y` of rows whose target is not known; None if every row has a target.
    unlabeled: Any = None

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether the form of the targets is known, so that further blocks can be validated in any order."""

    @abstractmethod
    def validate(self, estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray | None, Coding]:
        """Validate one block of rows and targets.

        Parameters
        ----------
        estimator : BaseEstimator
            The learner, on which scikit-learn records the number and the names of the features.
        X : array-like or CSR of shape (n, d)
            Rows.
        y : array-like or None
            Targets.
        reset : bool
            Whether these are the first rows of a fit. If False, their features and the form of their targets must agree
            with those of the earlier rows.

        Returns
        -------
        X : ndarray or CSR
        y : ndarray or None
        coding : Coding
            The coding for the next block, which records the form of these targets.
        """


@dataclass(frozen=True)
class Numbers(Coding):
    """Numeric targets, in one column or several; validated targets have the shape (n, t)."""

    #: Shape of the target of one row: () for y of shape (n,), (t,) for y of shape (n, t), None if not yet known.
    shape: tuple[int, ...] | None = None

    @property
    def settled(self) -> bool:
        return self.shape is not None

    def validate(self, estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray, Numbers]:
        name, shape = type(estimator).__name__, None if reset else self.shape
        if y is None:
            check_may_lack_targets(name, self.unlabeled)
            X = validate_rows(estimator, X, reset=reset)
            check_unlabeled_value(name, np.zeros(0), self.unlabeled)
            missing = np.full((X.shape[0], *(shape or (1,))), unlabeled_entry(self.unlabeled), dtype=np.float64)
            return X, missing, replace(self, shape=shape)
        check_numeric(name, y)
        if self.unlabeled is None:
            check_no_missing_targets(estimator, y)
            X, y = as_floats(estimator, X, y, multi_output=True, y_numeric=True, reset=reset)
        else:
            X, y = self._validate_some(estimator, X, y, reset=reset)
        if shape is not None and y.shape[1:] != shape:
            needed = ", ".join(["n", *map(str, shape)]) if shape else "n,"
            msg = f"y must have the same shape in every block: needed ({needed}), got {y.shape}."
            raise DataError(msg)
        return X, np.asarray(y, dtype=np.float64).reshape(len(y), -1), replace(self, shape=y.shape[1:])

    def _validate_some(self, estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        """Return validated rows and targets for a learner with an `unlabeled` value: rows may have no target."""
        name = type(estimator).__name__
        X = validate_rows(estimator, X, reset=reset)
        y = check_array(y, dtype=np.float64, ensure_2d=False, ensure_all_finite=False, input_name="y")
        check_lengths(name, X, y)
        check_unlabeled_value(name, y, self.unlabeled)
        if not np.isfinite(y[has_target(y, self.unlabeled)]).all():
            msg = (
                f"{name}: targets must be finite, or unlabeled={self.unlabeled!r} in all columns of a row; got NaN or "
                "infinity in a row that is neither. Check y, or drop these rows."
            )
            raise DataError(msg)
        return X, y


@dataclass(frozen=True)
class Labels(Coding):
    """Labels of classes: numbers, strings, bytes or booleans, all of one kind."""

    #: Kind of the labels: "numbers", "strings", "bytes" or "booleans"; None if no label is known yet.
    kind: str | None = None

    @property
    def settled(self) -> bool:
        return True

    def validate(self, estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray, Labels]:
        name, kind = type(estimator).__name__, None if reset else self.kind
        if y is None:
            check_may_lack_targets(name, self.unlabeled)
            X = validate_rows(estimator, X, reset=reset)
            y = np.full(X.shape[0], unlabeled_entry(self.unlabeled))
            check_unlabeled_value(name, np.zeros(0, y.dtype), self.unlabeled)
        elif self.unlabeled is None:
            check_no_missing_targets(estimator, y)
            y = without_nullable_dtype(y)
            if isinstance(y, np.ndarray) and y.dtype.kind == "O" and y.ndim == 1:
                y = known_labels(name, y, None)
            X, y = as_floats(estimator, X, y, reset=reset)
            check_classification_targets(y)
            y = column_or_1d(y, warn=True)
        else:
            X = validate_rows(estimator, X, reset=reset)
            y = column_or_1d(as_targets(y), warn=True)
            check_lengths(name, X, y)
            check_unlabeled_value(name, y, self.unlabeled, kind)
            known = known_labels(name, y, self.unlabeled)
            if len(known):
                check_classification_targets(known)
        found = label_kind(y, self.unlabeled)
        if kind is not None and found not in (kind, None):
            msg = f"y must have labels of the same kind in every block: needed {kind}, got {found}."
            raise DataError(msg)
        return X, y, replace(self, kind=kind or found)

    def known(self, y: Any) -> np.ndarray:
        """Return the labels in `y` that are not the `unlabeled` value."""
        y = np.asarray(as_targets(y))
        return plain_labels(y if self.unlabeled is None else y[has_target(y, self.unlabeled)])


@dataclass(frozen=True)
class Ignored(Coding):
    """Coding for learners that use no targets. A `y` that is passed, as pipelines do, is ignored."""

    @property
    def settled(self) -> bool:
        return True

    def validate(self, estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Any, None, Ignored]:  # noqa: ARG002
        return validate_rows(estimator, X, reset=reset), None, self


def validate_rows(estimator: Any, X: Any, *, reset: bool) -> Any:
    """Return rows as a float array or CSR matrix.

    If `reset` is True, the number and names of the features are recorded on the estimator. Otherwise they must agree
    with the number and names recorded earlier.
    """
    return as_floats(estimator, X, reset=reset)


def check_lengths(owner: str, X: Any, y: Any) -> None:
    """Raise if there are not as many targets as rows."""
    if np.ndim(y) == 0 or len(y) != X.shape[0]:
        explain_lengths(owner, X, y)


def as_floats(estimator: Any, X: Any, *y: Any, **options: Any) -> Any:
    """Return rows, and targets if there are any, as validated by scikit-learn's `validate_data`.

    Rows that are not numbers raise an error that names the column and says what to do. The rows that are returned are
    aligned in memory, in the byte order of the machine, and without duplicate entries.
    """
    owner = type(estimator).__name__
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiub":
        check_rows(owner, X)
    try:
        checked = validate_data(estimator, native(X), *y, accept_sparse="csr", dtype=FLOATS, **options)
    except (TypeError, ValueError):
        explain_rows(owner, X)
        explain_values(owner, X, *y)
        raise
    return (canonical(checked[0]), *checked[1:]) if y else canonical(checked)


# ---- labels as numbers ------------------------------------------------------------------------


def label_codes(y: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Return the integer array `i` with ``labels[i] == y``. `labels` is sorted and contains all entries of `y`."""
    return np.minimum(np.searchsorted(labels, y), len(labels) - 1)


def label_signs(codes: np.ndarray, n_labels: int) -> np.ndarray:
    """Return targets for classification: column j is +1 in rows whose label has index j, and -1 in all other rows.

    With two labels there is a single column, which is +1 in rows with the second label.

    Parameters
    ----------
    codes : ndarray of shape (n,)
        Indices of the labels.
    n_labels : int
        Number of labels.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data.targets import label_signs
    >>> label_signs(np.array([0, 1]), 2).tolist(), label_signs(np.array([0, 2]), 3).tolist()
    ([[-1.0], [1.0]], [[1.0, -1.0, -1.0], [-1.0, -1.0, 1.0]])
    """
    columns = np.array([1]) if n_labels == 2 else np.arange(n_labels)
    return np.where(codes[:, None] == columns, 1.0, -1.0)


# ---- rows without a target --------------------------------------------------------------------


@dataclass(frozen=True)
class HasTarget:
    """Filter of blocks that selects the rows whose target is known."""

    unlabeled: Any

    def __call__(self, block: Block) -> Block:
        some = some_rows(block, has_target(block.y, self.unlabeled))
        return some if some.y.dtype.kind != "O" else replace(some, y=plain_labels(some.y))


def has_target(y: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return a boolean mask of the rows whose target is known, that is, not the `unlabeled` value.

    If `unlabeled` is NaN, it matches NaN of any type, None and the NA of pandas. If `y` has several columns, a target
    is unknown if all its columns are the `unlabeled` value.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data.targets import has_target
    >>> has_target(np.array([0, -1, 1]), -1).tolist()
    [True, False, True]
    >>> has_target(np.array(["a", None, np.nan], dtype=object), np.nan).tolist()
    [True, False, False]
    """
    missing = is_unlabeled(y, unlabeled)
    return np.logical_not(missing if y.ndim == 1 else missing.all(axis=1))


def is_unlabeled(y: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return a boolean mask of the entries of `y` that are the `unlabeled` value."""
    if y.dtype.kind == "O":  # entry by entry, since NaN and NA are not equal to themselves
        matches = is_missing if is_missing(unlabeled) else lambda value: not is_missing(value) and value == unlabeled
        found = np.frompyfunc(matches, 1, 1)(y)
    elif not is_missing(unlabeled):
        found = y == unlabeled
    else:
        found = y != y
    return np.broadcast_to(np.asarray(found, dtype=bool), y.shape)


def is_missing(value: Any) -> bool:
    """Return whether a value is NaN of any numeric type, None, or the NA of pandas."""
    if isinstance(value, Real):
        return bool(value != value)
    return value is None or type(value).__name__ == "NAType"


def check_unlabeled_value(owner: str, y: np.ndarray, unlabeled: Any, learned: str | None = None) -> None:
    """Raise if the `unlabeled` value cannot occur in `y`, or occurs in some but not all columns of a row.

    Parameters
    ----------
    owner : str
        Name of the learner, for messages.
    y : ndarray
        Targets.
    unlabeled : object
        Value in `y` of rows without a target.
    learned : str or None, default=None
        Kind of the labels of earlier blocks, or None if no label is known. If the labels of `y` are of this kind, `y`
        need not be able to hold the `unlabeled` value, since all its rows may have labels.
    """
    if isinstance(unlabeled, bool | np.bool_) or np.ndim(unlabeled) or isinstance(unlabeled, dict | set):
        msg = (
            f"{owner}: unlabeled must be the value in y of rows without a target, such as -1 or np.nan, or None if all "
            f"rows have a target, got {unlabeled!r}."
        )
        raise ParameterError(msg)
    if y.dtype.kind not in "OV" and isinstance(unlabeled, str | bytes) != (y.dtype.kind in "US"):
        check_kinds_agree(owner, y, unlabeled, learned)
    if y.dtype.kind == "b" and isinstance(unlabeled, Real) and unlabeled in (0, 1):
        msg = f"{owner}: unlabeled={unlabeled!r} equals one of the booleans of y. Try another value, such as -1."
        raise DataError(msg)
    if y.ndim > 1:
        missing = is_unlabeled(y, unlabeled)
        half = missing.any(axis=1) & ~missing.all(axis=1)
        if half.any():
            msg = (
                f"{owner}: y must have targets in all columns of a row, or unlabeled={unlabeled!r} in all of them; got "
                f"row {int(half.argmax())} with it in {int(missing[half.argmax()].sum())} of {y.shape[1]} columns. "
                "Fill in these targets, or fit one model per column."
            )
            raise DataError(msg)


def check_kinds_agree(owner: str, y: np.ndarray, unlabeled: Any, learned: str | None) -> None:
    """Raise for an `unlabeled` value that is a number if `y` holds strings, or a string if `y` holds numbers.

    No error is raised if all rows of `y` have known labels. `learned` is the kind of the labels of earlier blocks, or
    None if no label is known.
    """
    strings, missing = y.dtype.kind in "US", is_missing(unlabeled)
    # An array of strings is valid if all its labels are known. `wrong` are strings that NumPy made of `unlabeled`.
    wrong = np.intersect1d(y.astype(str), MISSING_STRINGS if missing else [str(unlabeled)]) if strings else np.zeros(0)
    all_known = (strings and missing) or (learned is not None and label_kind(y, None) == learned)
    if all_known and not len(wrong):
        return
    hint = "Use a value of the kind of the labels, or make y an array of dtype object, which can hold both."
    if y.dtype.kind == "f":
        hint = "Use a number, such as np.nan."
    elif len(wrong):
        name = "NaN" if missing else repr(unlabeled)
        hint = f"In an array of strings {name} is the string {str(wrong[0])!r}: make y an array of dtype object."
    kind = "a string" if isinstance(unlabeled, str | bytes) else "a number"
    msg = f"{owner}: unlabeled={unlabeled!r} is {kind} but y holds {'strings' if strings else 'numbers'}. {hint}"
    raise DataError(msg)


def check_may_lack_targets(owner: str, unlabeled: Any) -> None:
    """Raise an error that `y` is missing if `unlabeled` is None, which means that the learner requires targets."""
    if unlabeled is None:
        msg = (
            f"{owner} requires y to be passed, but the target y is None. Pass y, blocks (X, y), or files opened with "
            "open_rows(path, target=...). If these rows have no target on purpose, set the unlabeled parameter, such "
            "as unlabeled=np.nan: then y may be None."
        )
        raise DataError(msg)


def unlabeled_entry(unlabeled: Any) -> Any:
    """Return the entry of `y` that marks a row without a target.

    It is NaN if `unlabeled` is NaN, None or the NA of pandas, and `unlabeled` itself otherwise.
    """
    return np.nan if is_missing(unlabeled) else unlabeled


def check_no_missing_targets(estimator: Any, y: Any) -> None:
    """Raise if `y` contains NaN, None or NA, for a learner that requires a target in every row."""
    if y is None or sp.issparse(y):
        return
    values = np.asarray(as_targets(y))
    if values.ndim == 0 or values.dtype.kind not in ("f", "O"):
        return
    found = is_unlabeled(values, np.nan)
    missing = found.any(axis=tuple(range(1, found.ndim)))
    if not missing.any():
        return
    supported = "unlabeled" in estimator.get_params()
    hint = " If these rows have no target on purpose, set unlabeled=np.nan." if supported else ""
    msg = (
        f"{type(estimator).__name__}: y contains NaN or None in {int(missing.sum())} of {len(values)} rows, first in "
        f"row {int(missing.argmax())}.{hint} Otherwise fill in these targets, or drop such rows."
    )
    raise DataError(msg)


# ---- kinds of targets -------------------------------------------------------------------------


def as_targets(y: Any) -> Any:
    """Convert targets that NumPy would change to an array that retains them; return other targets unchanged.

    NumPy would convert all entries of a list that mixes strings with other values to strings, and nullable integers and
    booleans of pandas to floats.
    """
    if isinstance(y, list | tuple) and 0 < sum(isinstance(one, str) for one in y) < len(y):
        out = np.empty(len(y), dtype=object)
        out[:] = y
        return out
    return without_nullable_dtype(y)


def without_nullable_dtype(y: Any) -> Any:
    """Convert nullable integers and booleans of pandas to an array, of dtype object if some are missing.

    Other targets are returned unchanged.

    Examples
    --------
    >>> import pandas as pd
    >>> from mercer.data.targets import without_nullable_dtype
    >>> without_nullable_dtype(pd.Series([0, 1], dtype="Int64"))
    array([0, 1])
    >>> without_nullable_dtype(pd.Series([True, None], dtype="boolean"))
    array([True, <NA>], dtype=object)
    """
    plain = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if plain is None or plain.kind not in "iub":
        return y
    return y.to_numpy(dtype=object if y.isna().any() else plain)


def check_numeric(owner: str, y: Any) -> None:
    """Raise if a target of a regression is a date, a duration, or a string that is not a number."""
    values = np.asarray(as_targets(y))
    if values.dtype.kind in "mM":
        what, line = ("durations", "y / np.timedelta64(1, 's')")
        if values.dtype.kind == "M":
            what, line = ("dates", "(y - y.min()) / np.timedelta64(1, 's')")
        msg = f"{owner}: targets must be numbers, got {what} of type {values.dtype}. Pass seconds: {line}."
        raise DataError(msg)
    if values.dtype.kind not in "OUS":
        return
    for value in values.ravel():
        if isinstance(value, str | bytes) and not reads_as_number(value):
            msg = (
                f"{owner}: targets must be numbers, got the string {str(value)!r}. If it denotes a missing target, "
                "replace it by np.nan and set unlabeled=np.nan."
            )
            raise DataError(msg)


def known_labels(owner: str, y: np.ndarray, unlabeled: Any) -> np.ndarray:
    """Return the labels in `y` that are not the `unlabeled` value, converted by `plain_labels`.

    Raises DataError if a label is a missing value, or if the labels are of different kinds: all must be strings, or all
    bytes, or all numbers, or all booleans.
    """
    known = y if unlabeled is None else y[has_target(y, unlabeled)]
    missing = is_unlabeled(known, np.nan) if known.dtype.kind in ("f", "O") else np.zeros(len(known), bool)
    if missing.any():
        msg = (
            f"{owner}: y contains NaN or None in {int(missing.sum())} of {len(y)} rows, which is not the value of "
            f"unlabeled={unlabeled!r}. Replace it by that value, or set unlabeled=np.nan and use NaN throughout."
        )
        raise DataError(msg)
    if known.dtype.kind == "O" and object_kind(known) == "objects":
        one = known[0]
        other = next((value for value in known if type(value) is not type(one)), one)
        got = f"{type(one).__name__} {one!r}" + (f" and {type(other).__name__} {other!r}" if other is not one else "")
        rest = "" if unlabeled is None else f", except for unlabeled={unlabeled!r}"
        msg = (
            f"{owner}: labels must be all strings, all numbers or all booleans{rest}; got {got}. Try strings: "
            "[str(label) for label in y]."
        )
        raise DataError(msg)
    return plain_labels(known)


def plain_labels(labels: np.ndarray) -> np.ndarray:
    """Convert an object array of numbers or booleans to a numeric or boolean dtype; return other labels unchanged.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data.targets import plain_labels
    >>> plain_labels(np.array([0, 1], dtype=object)), plain_labels(np.array([True, False], dtype=object))
    (array([0, 1]), array([ True, False]))
    """
    kind = object_kind(labels) if labels.dtype.kind == "O" and labels.ndim == 1 else None
    return labels.astype(bool) if kind == "booleans" else np.array(labels.tolist()) if kind == "numbers" else labels


def object_kind(values: np.ndarray) -> str | None:
    """Return the common kind of the entries of an object array: "strings", "bytes", "booleans" or "numbers".

    Return "objects" if the entries have no common kind, and None if the array is empty.
    """
    if not len(values):
        return None
    for types, kind in ((str, "strings"), (bytes, "bytes"), ((bool, np.bool_), "booleans")):
        if all(isinstance(one, types) for one in values):
            return kind
    are_numbers = all(isinstance(one, Real) and not isinstance(one, bool | np.bool_) for one in values)
    return "numbers" if are_numbers else "objects"


def label_kind(y: np.ndarray, unlabeled: Any) -> str | None:
    """Return the kind of the known labels in `y`, such as "numbers", or None if all rows are unlabeled.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.data.targets import label_kind
    >>> label_kind(np.array(["a", None], dtype=object), np.nan), label_kind(np.array(["a", "b"]), np.nan)
    ('strings', 'strings')
    """
    known = y if unlabeled is None else y[has_target(y, unlabeled)]
    if not len(known):
        return None
    return object_kind(known) if y.dtype.kind == "O" else KINDS.get(y.dtype.kind, "numbers")
