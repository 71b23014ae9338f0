"""Messages for rows that are not numbers: paths, tables with categories, strings, times or missing values.

`check_rows` is called before rows are converted to floats, and looks at types only: it refuses what NumPy would convert
to numbers without a meaning, such as times, or what is no table at all. `explain_rows` is called after a conversion has
failed, and raises an error that names the column, its type and what to write.

A column of categories is refused even if the categories are numbers, because their order and distance may mean
nothing. Booleans are the numbers 0 and 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np

from mercer.errors import DataError

__all__ = ["check_path", "check_rows", "explain_rows", "reads_as_number"]

# Suffixes of files that contain their own targets.
WITH_TARGETS = (".svm", ".svmlight", ".libsvm")
# What takes columns of any type.
OF_TABLES = ("KernelClassifier", "KernelRegressor", "TablePreprocessor")
# Number of columns that a message names.
MOST_NAMES = 5
# Number of entries of an array that are searched for a string.
MOST_ENTRIES = 1_000_000


class Column(NamedTuple):
    """Name, type and values of a column of a table."""

    name: Any
    dtype: str
    values: Any


def check_path(owner: str, X: Any) -> None:
    """Raise if `X` is a path, or a list of paths, where rows are needed."""
    first = X[0] if isinstance(X, list | tuple) and X else X
    if not isinstance(first, str | bytes | PathLike):
        return
    path = fspath(first)
    text = path if isinstance(path, str) else path.decode(errors="replace")
    of = f"{text!r}" if first is X else f"[{text!r}, ...]"
    target, where = "", ""
    if not text.endswith(WITH_TARGETS):
        target, where = ", target=-1", ", where target is the name or index of the column of y, if there is one"
    what = "the path" if first is X else "a list of paths"
    opener = "open_table" if owner in OF_TABLES and not text.endswith((*WITH_TARGETS, ".npy")) else "open_rows"
    msg = (
        f"{owner}: X must be rows, got {what} {text!r}. Open the file first: X = mercer.{opener}({of}{target}){where}."
    )
    raise DataError(msg)


def check_rows(owner: str, X: Any) -> None:
    """Raise if `X` is no table of numbers, as far as types show it; the values are not read.

    Parameters
    ----------
    owner : str
        Name of the object that takes the rows, with which the message starts.
    X : object
        What was passed as rows.
    """
    check_path(owner, X)
    mapping = isinstance(X, dict | set) and not hasattr(X, "shape")  # a sparse matrix may be a dict
    if X is None or mapping or getattr(getattr(X, "dtype", None), "names", None):
        what = "a structured array" if hasattr(X, "dtype") else "None" if X is None else f"a {type(X).__name__}"
        hint = "" if X is None else " Try pandas.DataFrame(X)."
        msg = f"{owner}: X must be rows, a 2-d array or a table, got {what}.{hint}"
        raise DataError(msg)
    kind = getattr(getattr(X, "dtype", None), "kind", "")
    if kind in ("m", "M"):
        raise _times(owner, [Column(None, str(X.dtype), X)])
    columns = list(_columns(X))
    times = [column for column in columns if column.dtype.lower().startswith(("date", "time", "duration"))]
    if times:
        raise _times(owner, times)
    kinds = ("category", "categorical", "enum", "dictionary")
    categories = [column for column in columns if column.dtype.lower().startswith(kinds)]
    if categories:
        raise _categories(owner, categories, "of type " + categories[0].dtype.partition("<")[0])


def explain_rows(owner: str, X: Any) -> None:
    """Raise an error that says why rows could not be converted to numbers, if the reason is found.

    The reason may be a column of strings, missing values, or entries that are no numbers.
    """
    columns = list(_columns(X))
    for column in columns:
        _explain_column(owner, column, X)
    if columns:
        return
    values = np.asarray(X) if isinstance(X, list | tuple | np.ndarray) else np.zeros(0)
    if values.dtype.kind not in "USO":
        return
    for entry in values.ravel()[:MOST_ENTRIES]:
        if isinstance(entry, str | bytes) and not reads_as_number(entry):
            msg = (
                f"{owner}: rows must be numbers, got strings such as {str(entry)!r}. Encode them as numbers first, for "
                "instance with scikit-learn's HashingVectorizer or a fitted OneHotEncoder, block by block."
            )
            raise DataError(msg)
        if isinstance(entry, list | tuple | np.ndarray):
            what = type(entry).__name__
            msg = f"{owner}: rows must be numbers, got a {what} as an entry. Are all rows of equal length?"
            raise DataError(msg)


def reads_as_number(string: str | bytes) -> bool:
    """Return whether a string can be read as a number."""
    try:
        float(string)
    except ValueError:
        return False
    return True


# ---- columns of tables ------------------------------------------------------------------------


def _columns(X: Any) -> Iterator[Column]:
    """Yield the columns of a table of pandas, polars or pyarrow; nothing for other objects."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):  # pandas
        for i, (name, dtype) in enumerate(zip(X.columns, X.dtypes, strict=True)):
            yield Column(name, str(dtype), X.iloc[:, i])
        return
    schema: Any = getattr(X, "schema", None)
    if hasattr(schema, "names") and hasattr(schema, "types"):  # pyarrow
        for i, (name, dtype) in enumerate(zip(schema.names, schema.types, strict=True)):
            yield Column(name, str(dtype), X.column(i))
    elif hasattr(schema, "items"):  # polars
        for name, dtype in schema.items():
            yield Column(name, str(dtype), X[name])


def _explain_column(owner: str, column: Column, X: Any) -> None:
    dtype = getattr(column.values, "dtype", None)
    kind = dtype.kind if isinstance(dtype, np.dtype) else "O"
    if kind in "iub":
        return
    values = np.asarray(column.values, dtype=float if kind == "f" else object)
    if kind == "f" and not np.isnan(values).any():  # in one step, since a table may be large
        return
    missing = np.fromiter(map(_is_missing, values), bool, len(values))
    strings = [(row, v) for row, v in enumerate(values) if isinstance(v, str | bytes) and not reads_as_number(v)]
    if strings:
        row, string = strings[0]
        if any(isinstance(v, str | bytes) and reads_as_number(v) for v in values) or any(
            isinstance(v, int | float) and v == v for v in values
        ):
            msg = (
                f"{owner}: column {column.name!r} of X (type {column.dtype}) has numbers and the string "
                f"{str(string)!r}, in row {row}. If it denotes a missing value, write X[{column.name!r}] = "
                f"pandas.to_numeric(X[{column.name!r}], errors='coerce'), and fill in or drop what is missing."
            )
            raise DataError(msg)
        others = [c for c in _columns(X) if any(isinstance(v, str) for v in np.asarray(c.values, dtype=object)[:100])]
        raise _categories(owner, others or [column], f"of type {column.dtype}, with strings such as {str(string)!r}")
    if missing.any():
        msg = (
            f"{owner}: column {column.name!r} of X (type {column.dtype}) has {int(missing.sum())} missing values, "
            f"first in row {int(missing.argmax())}. Fill them in, X = X.fillna(X.median()), or drop these rows, "
            "X = X.dropna(), with their targets."
        )
        raise DataError(msg)
    for row, value in enumerate(values):
        try:
            float(value)
        except (TypeError, ValueError):
            msg = (
                f"{owner}: column {column.name!r} of X (type {column.dtype}) must have numbers, got "
                f"{type(value).__name__} {str(value)[:60]!r} in row {row}. Turn it into numbers, or leave it out: "
                f"X.drop(columns=[{column.name!r}])."
            )
            raise DataError(msg) from None


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or the NA of pandas, which cannot be compared."""
    return value is None or type(value).__name__ in ("NAType", "NaTType") or bool(value != value)


def _names(columns: list[Column]) -> str:
    names = [column.name for column in columns]
    return "[" + ", ".join(map(repr, names[:MOST_NAMES])) + (", ...]" if len(names) > MOST_NAMES else "]")


def _categories(owner: str, columns: list[Column], what: str) -> DataError:
    """Return an error for columns of categories or strings, with a line that encodes them."""
    name = columns[0].name
    learner = owner.partition(":")[0]
    numbers = ""
    categories = getattr(getattr(columns[0].values, "cat", None), "categories", None)
    if categories is not None and getattr(categories.dtype, "kind", "O") in "iuf":
        numbers = f" If its numbers are meant as numbers, write X[{name!r}] = X[{name!r}].astype(float)."
    several = f" (and {len(columns) - 1} more)" if len(columns) > 1 else ""
    encoder = (
        f"make_column_transformer((OneHotEncoder(handle_unknown='ignore'), {_names(columns)}), remainder='passthrough')"
    )
    line = f"X = {encoder}.fit_transform(X)" if "(" in owner else f"make_pipeline({encoder}, {learner}())"
    return DataError(
        f"{owner}: column {name!r} of X{several} is {what}, but rows must be numbers. Encode categories with "
        f"scikit-learn: {line}.{numbers}"
    )


def _times(owner: str, columns: list[Column]) -> DataError:
    """Return an error for columns of dates, times or durations, with a line that converts them."""
    name, dtype, _ = columns[0]
    X = "X" if name is None else f"X[{name!r}]"
    day = "numpy.timedelta64(1, 'D')" if name is None else "pandas.Timedelta('1D')"
    line = f"{X} / {day}" if dtype.lower().startswith(("timedelta", "duration")) else f"({X} - {X}.min()) / {day}"
    what = f"X has type {dtype}" if name is None else f"column {name!r} of X has type {dtype}"
    return DataError(f"{owner}: {what}, but rows must be numbers. Turn times into numbers, such as days: {X} = {line}.")
