"""Data frames in memory as Arrow tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mercer.errors import DataError
from mercer.io.formats.arrow import TablePart
from mercer.io.source import load_pyarrow, reading, rows_per_part
from mercer.io.tables.source import TableSource, TypedPlan

__all__ = ["arrow_table", "open_frame"]


def open_frame(source: Any, **chosen: Any) -> TableSource:
    """Open a data frame of pandas or polars, or Arrow data; `chosen` are the arguments of `choose_columns`."""
    table = arrow_table(source)
    plan = TypedPlan.of([("The table", table.schema)], **chosen)
    if not table.num_rows:
        msg = "The table has no rows."
        raise DataError(msg)
    step = rows_per_part(plan.block_rows)
    return plan.source([TablePart(table.slice(i, step), i, plan) for i in range(0, table.num_rows, step)])  # type: ignore[arg-type]


def arrow_table(source: Any) -> Any:
    """Return a data frame of pandas or polars, or Arrow data, as a `pyarrow.Table`.

    The index of a pandas data frame is left out. A column of objects of different types, such as numbers and strings,
    becomes a column of strings.
    """
    pa = load_pyarrow("pyarrow", "A table")
    if isinstance(source, pa.Table):
        return source
    if hasattr(source, "iloc") and hasattr(source, "columns"):
        return _pandas_table(pa, source)
    with reading("The source", "an Arrow table"):
        if isinstance(source, pa.RecordBatchReader):
            return source.read_all()
        if isinstance(source, Sequence) and not isinstance(source, str):
            return pa.Table.from_batches(source)
        return pa.table(source)


def _pandas_table(pa: Any, frame: Any) -> Any:
    arrays, names = [], [str(name) for name in frame.columns]
    for i in range(len(names)):
        column = frame.iloc[:, i]
        try:
            arrays.append(pa.array(column, from_pandas=True))
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            missing = column.isna()
            arrays.append(pa.array([None if gone else str(v) for v, gone in zip(column, missing, strict=True)]))
    return pa.Table.from_arrays(arrays, names=names)
