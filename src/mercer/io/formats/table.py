"""Conversion of Arrow tables to blocks of rows, for the readers of Arrow, Parquet and CSV."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.errors import DataError
from mercer.io.formats.columns import Columns, choose_columns
from mercer.io.source import Part, RowSource, load_pyarrow, rows_per_block

__all__ = ["TablePlan", "index_columns", "is_number", "is_text"]

# A matrix is filled column by column in tiles of rows of about this many bytes, which stay in cache.
TILE_BYTES = 2**17


@dataclass(frozen=True)
class TablePlan:
    """Describes how Arrow tables are converted to blocks of rows: columns, dtype of the features and size of blocks."""

    columns: Columns
    dtype: str  # of the features
    block_rows: int  # maximum number of rows of a block
    named: bool = True  # False if the names of the columns are their positions "0", "1", ...

    @classmethod
    def of(cls, schemas: Iterable[tuple[str, Any]], dtype: Any = None, **chosen: Any) -> TablePlan:
        """Return the plan for one or several tables; the schema of the first one determines the columns.

        Parameters
        ----------
        schemas : iterable of (str, pyarrow.Schema)
            Names, for messages, and schemas of all tables. Each table must have the columns selected in the first one.
        dtype : dtype, default=None
            Dtype of the features; None means float32 if all of them are float32 or float16, else float64.
        **chosen
            The arguments `target`, `weight` and `columns` of `choose_columns`.
        """
        pa = load_pyarrow("pyarrow", "Arrow data")
        columns: Columns | None = None
        narrow = named = True
        for where, schema in schemas:
            if columns is None:
                index = index_columns(schema)
                indexed = set(index)
                columns = choose_columns(schema.names, where, index=index, **chosen)
                values = [name for name in schema.names if name not in indexed]
                named = values != [str(i) for i in range(len(values))]
            else:
                choose_columns(
                    schema.names,
                    where,
                    target=list(columns.targets),
                    weight=columns.weight,
                    columns=columns.features,
                )
            for name in [*columns.features, *([] if columns.weight is None else [columns.weight])]:
                kind = schema.field(name).type
                if not is_number(pa, kind):
                    msg = f"{where}: column {name!r} contains {kind}, not numbers. Omit it with columns=, or encode it."
                    raise DataError(msg)
            for name in columns.targets:
                kind = schema.field(name).type
                text = is_text(pa, kind)
                if not (is_number(pa, kind) or pa.types.is_null(kind) or (text and not columns.matrix_target)):
                    numbers = "numbers" if columns.matrix_target else "numbers or strings"
                    msg = f"{where}: the target {name!r} contains {kind}, not {numbers}."
                    raise DataError(msg)
            floats = (pa.float32(), pa.float16())
            narrow = narrow and all(schema.field(name).type in floats for name in columns.features)
        assert columns is not None
        chosen_dtype = np.dtype((np.float32 if narrow else np.float64) if dtype is None else dtype)
        return cls(columns, chosen_dtype.str, rows_per_block(len(columns.features), chosen_dtype.itemsize), named)

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the features, or None if the columns of the table have no names."""
        return self.columns.features if self.named else None

    def source(self, parts: Sequence[Part]) -> RowSource:
        """Return a `RowSource` that consists of the given parts, whose tables are converted by this plan."""
        return RowSource(parts, n_features=len(self.columns.features), feature_names=self.feature_names)

    def checked(self, table: Any) -> Any:
        """Return the columns that are read of a table or record batch; raise ArrowInvalid if they are damaged.

        Arrow trusts its buffers: an offset or a dictionary code out of range would be read as other values, or from
        memory outside the buffer. This check costs time for strings and dictionaries, and hardly any for numbers.
        """
        table = table.select(list(dict.fromkeys(self.columns.names)))  # a feature may be selected twice
        table.validate(full=True)
        return table

    def block(self, batch: Any, where: str, start: int) -> tuple[Any, ...]:
        """Return a checked record batch as a block ``(X,)``, ``(X, y)`` or ``(X, y, weight)``.

        `where`, the name of the table, and `start`, the index of the first row of the batch, are for messages.
        """
        dtype = np.dtype(self.dtype)
        features = [self.numbers(batch, name, where, start) for name in self.columns.features]
        X = np.empty((batch.num_rows, len(features)), dtype)
        step = max(64, TILE_BYTES // max(1, len(features) * dtype.itemsize))
        with np.errstate(over="ignore"):  # values too large for float32 become infinite, which is reported later
            for i in range(0, len(X), step):
                for j, values in enumerate(features):
                    X[i : i + step, j] = values[i : i + step]
        y = self.targets(self.columns, batch, where)
        if self.columns.weight is not None:
            return X, y, self.numbers(batch, self.columns.weight, where, start)
        return (X,) if y is None else (X, y)

    def blocks(self, table: Any, where: str, start: int) -> Iterator[tuple[Any, ...]]:
        """Yield a table or record batch as blocks of at most `block_rows` rows.

        `where`, the name of the table, and `start`, the index of its first row, are for messages.
        """
        table = self.checked(table)
        for i in range(0, table.num_rows, self.block_rows):
            yield self.block(table.slice(i, self.block_rows), where, start + i)

    @staticmethod
    def numbers(batch: Any, name: str, where: str, start: int) -> np.ndarray:
        """Return the numeric column `name` as an array; raise an error that names the row if a value is missing."""
        values = batch.column(name)
        if values.null_count:
            mask = values.is_null().to_numpy(zero_copy_only=False)
            msg = (
                f"{where}: column {name!r} has no value in row {start + int(mask.argmax())} (counted from 0). "
                "Fill missing values, or drop such rows."
            )
            raise DataError(msg)
        return _array(values)

    @classmethod
    def targets(cls, columns: Columns, batch: Any, where: str) -> np.ndarray | None:
        """Return the targets of a record batch as a NumPy array of shape (n,) or (n, t), or None if there are none."""
        if not columns.targets:
            return None
        targets = [cls._target(batch, name, where) for name in columns.targets]
        return np.column_stack(targets) if columns.matrix_target else targets[0]

    @staticmethod
    def _target(batch: Any, name: str, where: str) -> np.ndarray:
        """Return the column of targets `name` as a NumPy array.

        A missing target becomes NaN in a column of numbers, and None in a column of strings or booleans.

        Learners decide whether they accept missing targets.
        """
        pa = load_pyarrow("pyarrow", "Arrow data")
        values = batch.column(name)
        if not is_text(pa, values.type):
            return _array(values)
        if hasattr(values, "combine_chunks"):
            values = values.combine_chunks()
        if not pa.types.is_dictionary(values.type):
            values = values.dictionary_encode()
        # There are few distinct labels, so each one is converted to a string once, not once per row.
        labels, codes = values.dictionary.to_pylist(), values.indices
        if any(label is not None and label.endswith("\0") for label in labels):
            # NumPy would drop them, so that two labels could become one.
            msg = f"{where}: a label of the target {name!r} ends with a zero character. Remove these characters."
            raise DataError(msg)
        if not codes.null_count and None not in labels:
            return np.array(labels, dtype=str)[codes.to_numpy(zero_copy_only=False)]
        codes = codes.cast("int64").fill_null(len(labels)).to_numpy(zero_copy_only=False)
        return np.array([*labels, None], dtype=object)[codes]


def _array(values: Any) -> np.ndarray:
    """Return a column of numbers as a NumPy array, with NaN for missing values."""
    if "decimal" in str(values.type):
        # By way of strings, because Arrow's own conversion of decimals is not correctly rounded: 0.69 would become
        # 0.6900000000000001.
        values = values.cast("string").cast("float64")
    return values.to_numpy(zero_copy_only=False) if hasattr(values, "offset") else values.to_numpy()


def index_columns(schema: Any) -> list[str]:
    """Return the names of the columns of an Arrow schema that were the index of a pandas data frame."""
    try:
        index = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))["index_columns"]
    except (ValueError, KeyError, TypeError):  # not from pandas
        return []
    return [name for name in index if isinstance(name, str)]  # a RangeIndex is not stored as a column


def is_number(pa: Any, kind: Any) -> bool:
    """Return whether an Arrow type is numeric or boolean."""
    t = pa.types
    return t.is_integer(kind) or t.is_floating(kind) or t.is_boolean(kind) or t.is_decimal(kind)


def is_text(pa: Any, kind: Any) -> bool:
    """Return whether an Arrow type is a string type, or a dictionary of strings."""
    t = pa.types
    if t.is_dictionary(kind):
        return is_text(pa, kind.value_type)
    return t.is_string(kind) or t.is_large_string(kind) or (hasattr(t, "is_string_view") and t.is_string_view(kind))
