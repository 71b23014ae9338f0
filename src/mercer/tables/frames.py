"""Tables of any library as columns of four kinds: numbers, booleans, dates and categories.

A `Frame` is what the statistics and the encoders of a `TablePreprocessor` work on. It has a shape and can be sliced
like an array of rows, so engines divide it into blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from numbers import Real
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError
from mercer.errors.columns import check_path
from mercer.io.formats.columns import listed

__all__ = ["MISSING_DATE", "Column", "Frame", "Kind", "frame_of"]

Array = np.ndarray
Kind = Literal["number", "boolean", "date", "category", "missing"]
#: Number of microseconds that denotes a missing date.
MISSING_DATE = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class Column:
    """The cells of one column.

    Attributes
    ----------
    kind : {"number", "boolean", "date", "category", "missing"}
        What the cells are; "missing" means that all of them are missing.
    dtype : str
        Type of the cells in the table, for messages.
    values : ndarray of shape (n,)
        Numbers and booleans in float64 with NaN for missing cells; dates in microseconds since 1970 in int64 with
        `MISSING_DATE`; indices of categories in int64 with -1.
    categories : ndarray of str
        Categories, in any order; empty for other kinds.
    """

    kind: Kind
    dtype: str
    values: Array
    categories: Array = field(default_factory=lambda: np.zeros(0, dtype=object))

    def __getitem__(self, rows: Any) -> Column:
        return replace(self, values=self.values[rows])

    @property
    def is_missing(self) -> Array:
        """Which cells are missing."""
        if self.kind == "date":
            return self.values == MISSING_DATE
        return self.values < 0 if self.kind == "category" else np.isnan(self.values)


@dataclass(frozen=True, eq=False)
class Frame:
    """A table of named columns."""

    names: tuple[str, ...]
    columns: tuple[Column, ...]
    n_rows: int

    #: Dtype by which engines estimate the size of rows.
    dtype = np.dtype(np.float64)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        return self.n_rows, len(self.columns)

    @property
    def nbytes(self) -> int:
        """Number of bytes, without the categories."""
        return sum(column.values.nbytes for column in self.columns)

    def __len__(self) -> int:
        return self.n_rows

    def __getitem__(self, rows: Any) -> Frame:
        columns = tuple(column[rows] for column in self.columns)
        n = len(columns[0].values) if columns else len(np.arange(self.n_rows)[rows])
        return Frame(self.names, columns, n)

    def column(self, name: str) -> Column | None:
        """Return the column of this name, or None if there is none."""
        return self.columns[self.names.index(name)] if name in self.names else None


def frame_of(X: Any, owner: str) -> tuple[Frame, bool]:
    """Return a table as a `Frame`, and whether its columns have names that are strings.

    Parameters
    ----------
    X : array-like, or data frame of pandas, polars or pyarrow
        The table. Columns of arrays are named x0, x1, ...
    owner : str
        Name of the caller, for messages.
    """
    if isinstance(X, Frame):
        return X, True
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return _pandas_frame(X, owner)
    if hasattr(X, "to_batches") or hasattr(X, "__arrow_c_stream__") or hasattr(X, "__arrow_c_array__"):
        return _arrow_frame(X, owner)
    return _array_frame(X, owner), False


def _named(owner: str, names: Sequence[str], columns: Sequence[Column], n_rows: int) -> Frame:
    """Return a frame; raise if there are no columns, or if two have the same name."""
    if not names:
        msg = f"{owner}: the table has no columns: 0 feature(s) (shape=({n_rows}, 0)) while a minimum of 1 is required."
        raise DataError(msg)
    repeated = [name for name in dict.fromkeys(names) if names.count(name) > 1] if len(set(names)) < len(names) else []
    if repeated:
        msg = (
            f"{owner}: the table has several columns of the name {listed(repeated)}. Rename them, so that names differ."
        )
        raise DataError(msg)
    return Frame(tuple(names), tuple(columns), n_rows)


# ---- arrays ---------------------------------------------------------------------------------------------------------


def _array_frame(X: Any, owner: str) -> Frame:
    if sp.issparse(X):
        msg = (
            f"{owner}: tables are dense, got a sparse {type(X).__name__}. Sparse data can be passed to learners "
            "directly, without a preprocessor; otherwise use X.toarray()."
        )
        raise TypeError(msg)
    check_path(owner, X)
    if isinstance(X, dict | set | int | float) or X is None:
        what = "None" if X is None else f"a {type(X).__name__}"
        msg = f"{owner}: X must be a table, a data frame or a 2-d array, got {what}. Try pandas.DataFrame(X)."
        raise DataError(msg)
    array = X if isinstance(X, np.ndarray) else _as_objects(X)
    if array.ndim != 2:
        hint = "Reshape your data: X.reshape(-1, 1) for one column, X.reshape(1, -1) for one row."
        msg = f"{owner}: Expected 2D array, got {array.ndim}D array instead. {hint}"
        raise DataError(msg)
    names = [f"x{j}" for j in range(array.shape[1])]
    return _named(owner, names, [_array_column(array[:, j], owner, names[j]) for j in range(len(names))], len(array))


def _as_objects(X: Any) -> Array:
    """Return a list of rows as an array, of numbers if all entries are numbers, and of objects otherwise."""
    array = np.asarray(X)
    if array.dtype.kind in "fiubmM":
        return array
    # NumPy would convert the numbers of rows with numbers and strings to strings.
    return np.asarray(X, dtype=object)


def _array_column(values: Array, owner: str, name: str) -> Column:
    kind, dtype = values.dtype.kind, str(values.dtype)
    if kind in "fiu":
        return Column("number", dtype, values.astype(np.float64))
    if kind == "b":
        return Column("boolean", dtype, values.astype(np.float64))
    if kind == "M":
        return Column("date", dtype, _microseconds(values))
    if kind == "m":
        seconds = values.astype("m8[us]").astype(np.float64) / 1e6
        return Column("number", dtype, np.where(np.isnat(values), np.nan, seconds))
    if kind in "US":
        return _category_column([str(value) if kind == "U" else value.decode() for value in values], dtype)
    if kind == "O":
        return _object_column(values, owner, name)
    msg = f"{owner}: Complex data not supported: column {name!r} has the type {dtype}. Pass real and imaginary parts."
    raise DataError(msg)


def _microseconds(values: Array) -> Array:
    out = values.astype("M8[us]").astype(np.int64)
    out[np.isnat(values)] = MISSING_DATE
    return out


def _object_column(values: Array, owner: str, name: str) -> Column:
    """Return a column of Python objects: of the kind of all of them, or of their strings if they have several kinds."""
    types = set(map(type, values.tolist()))
    missing = np.fromiter(map(_is_missing, values), bool, len(values))
    known = values[~missing]
    if not len(known):
        return Column("missing", "object", np.full(len(values), np.nan))
    if types & {str, np.str_} and not types - {str, np.str_, type(None), float}:
        if all(isinstance(value, str) for value in known):
            return _category_column([None if gone else v for v, gone in zip(values, missing, strict=True)], "object")
    if all(isinstance(value, bool | np.bool_) for value in known):
        return Column("boolean", "object", _filled(values, missing, float))
    if all(isinstance(value, Real | Decimal) and not isinstance(value, bool | np.bool_) for value in known):
        return Column("number", "object", _filled(values, missing, float))
    if any(isinstance(value, complex) for value in known):
        msg = f"{owner}: Complex data not supported: column {name!r} has complex numbers."
        raise DataError(msg)
    nested = next((value for value in known if isinstance(value, list | tuple | dict | set | np.ndarray)), None)
    if nested is not None:
        msg = (
            f"{owner}: column {name!r} has entries of type {type(nested).__name__}, but argument must be a string, a "
            "number, a boolean or a date. Leave it out, or make one column of each of its parts."
        )
        raise TypeError(msg)
    if all(hasattr(value, "year") and hasattr(value, "day") for value in known):
        dates = np.full(len(values), np.datetime64("NaT"), dtype="M8[us]")
        dates[~missing] = [_naive(value) for value in known]
        return Column("date", "object", _microseconds(dates))
    return _category_column([None if gone else str(v) for v, gone in zip(values, missing, strict=True)], "object")


def _naive(value: Any) -> np.datetime64:
    """Return a date, or a time in UTC."""
    if getattr(value, "tzinfo", None) is not None:
        from datetime import UTC

        value = value.astimezone(UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or the NA or NaT of pandas."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float | np.floating | Decimal | np.datetime64) and bool(value != value)


def _filled(values: Array, missing: Array, convert: Any) -> Array:
    out = np.full(len(values), np.nan)
    out[~missing] = [convert(value) for value in values[~missing]]
    return out


def _category_column(values: Sequence[str | None], dtype: str) -> Column:
    """Return a column of strings, with None for missing cells."""
    index: dict[str | None, int] = {None: -1}
    codes = np.fromiter((index.setdefault(value, len(index) - 1) for value in values), np.int64, len(values))
    del index[None]
    return Column("category", dtype, codes, _strings(index))


def _strings(values: Any) -> Array:
    """Return an array of objects, all of them strings of type str."""
    out = np.empty(len(values), dtype=object)
    out[:] = [str(value) for value in values]
    return out


# ---- data frames ----------------------------------------------------------------------------------------------------


def _pandas_frame(X: Any, owner: str) -> tuple[Frame, bool]:
    names = [str(name) for name in X.columns]
    columns = [_pandas_column(series, owner, name) for name, (_, series) in zip(names, X.items(), strict=True)]
    return _named(owner, names, columns, len(X)), all(isinstance(name, str) for name in X.columns)


def _pandas_column(series: Any, owner: str, name: str) -> Column:
    dtype, text = series.dtype, str(series.dtype)
    if isinstance(dtype, np.dtype):
        column = _array_column(series.to_numpy(), owner, name)
        return replace(column, dtype=text)
    if text == "category":
        # Not by the accessor `cat`, which takes longer than all the rest of a column of few rows.
        return _merged("category", text, np.asarray(series.array.codes).astype(np.int64), dtype.categories.tolist())
    kind = getattr(dtype, "kind", "O")
    if kind == "b":
        return Column("boolean", text, series.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind in "iuf":
        return Column("number", text, series.to_numpy(dtype=np.float64, na_value=np.nan))
    if kind == "M":
        if getattr(dtype, "tz", None) is not None:
            series = series.dt.tz_convert("UTC").dt.tz_localize(None)
        return Column("date", text, _microseconds(series.to_numpy(dtype="M8[us]", na_value=np.datetime64("NaT", "us"))))
    if text.startswith("period"):
        return replace(_pandas_column(series.dt.to_timestamp(), owner, name), dtype=text)
    # Strings, and types of Arrow.
    return replace(_object_column(series.to_numpy(dtype=object, na_value=None), owner, name), dtype=text)


def _merged(kind: Kind, dtype: str, codes: Array, categories: Any) -> Column:
    """Return a column of categories, of which different ones may have the same string, such as 1 and "1"."""
    strings = _strings(categories)
    if len(set(strings.tolist())) < len(strings):
        index = {value: i for i, value in enumerate(dict.fromkeys(strings.tolist()))}
        places = np.array([index[value] for value in strings], dtype=np.int64)
        codes, strings = np.where(codes < 0, -1, places[codes]), _strings(list(index))
    return Column(kind, dtype, codes, strings)


def _arrow_frame(X: Any, owner: str) -> tuple[Frame, bool]:
    from mercer.io.tables.memory import arrow_table

    table = arrow_table(X)
    names = list(table.schema.names)
    columns = [_arrow_column(table.column(j), owner, names[j]) for j in range(len(names))]
    return _named(owner, names, columns, table.num_rows), True


def _arrow_column(values: Any, owner: str, name: str) -> Column:
    import pyarrow as pa

    t, kind, text = pa.types, values.type, str(values.type)
    if hasattr(values, "combine_chunks"):
        values = values.combine_chunks()
        if isinstance(values, pa.ChunkedArray):
            values = values.chunk(0) if values.num_chunks == 1 else pa.concat_arrays(values.chunks)
    if t.is_null(kind):
        return Column("missing", text, np.full(len(values), np.nan))
    if t.is_boolean(kind):
        values = values.cast(pa.int8())
    if t.is_decimal(kind):  # by way of strings, because Arrow's own conversion is not correctly rounded
        values = values.cast(pa.string()).cast(pa.float64())
    if t.is_integer(values.type) or t.is_floating(values.type):
        numbers = values.to_numpy(zero_copy_only=False).astype(np.float64)
        return Column("boolean" if t.is_boolean(kind) else "number", text, numbers)
    if t.is_timestamp(kind) or t.is_date(kind):
        dates = values.cast(pa.timestamp("us", getattr(kind, "tz", None)), safe=False).cast(pa.int64())
        return Column("date", text, dates.fill_null(MISSING_DATE).to_numpy(zero_copy_only=False))
    if t.is_time(kind) or t.is_duration(kind):
        unit = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}[kind.unit]
        numbers = values.cast(pa.int32() if t.is_time32(kind) else pa.int64()).to_numpy(zero_copy_only=False)
        return Column("number", text, numbers.astype(np.float64) / unit)
    if not t.is_dictionary(kind):
        if not (t.is_string(kind) or t.is_large_string(kind) or text == "string_view"):
            msg = (
                f"{owner}: column {name!r} contains {text}, but columns must be numbers, strings, booleans, dates or "
                "categories. Leave it out, or convert it first."
            )
            raise DataError(msg)
        values = (values.cast(pa.large_string()) if text == "string_view" else values).dictionary_encode()
    codes = values.indices.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    categories = values.dictionary.to_pylist()
    if None in categories:
        codes = np.where(np.array([one is None for one in categories])[codes] & (codes >= 0), -1, codes)
    return _merged("category", text, codes, categories)
