"""Arrow data as rows: tables, record batches and streams of them in memory, and files in Arrow's own format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mercer.errors import DataError
from mercer.io.columns import Column
from mercer.io.paths import check_file, find_files
from mercer.io.source import Part, RowSource, load_pyarrow, rows_per_part, runs
from mercer.io.table import TablePlan, read_errors

__all__ = ["BatchStream", "is_arrow", "open_arrow", "open_ipc"]

# The ends of names that tell the format.
ENDS = (".arrow", ".feather", ".ipc")


@dataclass(frozen=True)
class TablePart(Part):
    """A slice of a table in memory."""

    table: Any
    start: int
    plan: TablePlan

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self.plan.blocks(self.table, str(self), self.start)

    def __str__(self) -> str:
        return "The Arrow table"


class BatchStream:
    """Blocks of a stream of record batches, which can be read once."""

    n_rows = None

    def __init__(self, batches: Iterator[Any], plan: TablePlan) -> None:
        self._batches = batches
        self._plan = plan
        self._rows = 0
        self._ready: Iterator[tuple[Any, ...]] = iter(())
        self.n_features = len(plan.columns.features)
        self.feature_names = plan.columns.features

    def __iter__(self) -> BatchStream:
        return self

    def __next__(self) -> tuple[Any, ...]:
        block = next(self._ready, None)
        while block is None:
            with read_errors("The Arrow stream", "record batches"):
                batch = next(self._batches)
            self._ready = self._plan.blocks(batch, "The Arrow stream", self._rows)
            self._rows += batch.num_rows
            block = next(self._ready, None)
        return block


def is_arrow(source: Any) -> bool:
    """Return whether an object is Arrow data, or a table that can be had as such."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


def open_arrow(
    source: Any,
    *,
    target: Column | Sequence[Column] | None = None,
    weight: Column | None = None,
    columns: Sequence[Column] | None = None,
    dtype: Any = None,
) -> RowSource | BatchStream:
    """Open Arrow data in memory: a table, record batches, or a stream of them.

    Parameters
    ----------
    source : pyarrow.Table, RecordBatch or RecordBatchReader, a list of batches, or a pandas or polars frame
        A reader can be read only once; everything else as often as needed.
    target, weight, columns, dtype
        As in `mercer.open_rows`.

    Returns
    -------
    RowSource or BatchStream
    """
    pa = load_pyarrow("pyarrow", "Arrow data")
    chosen = {"target": target, "weight": weight, "columns": columns}
    if isinstance(source, pa.RecordBatchReader):
        plan = TablePlan.of([("The Arrow stream", source.schema)], dtype, **chosen)
        return BatchStream(iter(source), plan)
    if isinstance(source, Sequence):
        source = pa.Table.from_batches(source)
    table = source if isinstance(source, pa.Table) else pa.table(source)
    plan = TablePlan.of([("The Arrow table", table.schema)], dtype, **chosen)
    if not table.num_rows:
        msg = "The Arrow table has no rows."
        raise DataError(msg)
    step = rows_per_part(plan.block_rows)
    return plan.source([TablePart(table.slice(i, step), i, plan) for i in range(0, table.num_rows, step)])


# ---- files --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batches(Part):
    """A run of record batches of a file in Arrow's format."""

    path: str
    first: int
    stop: int
    start: int  # number of the first row
    n_rows: int
    plan: TablePlan

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        pa = load_pyarrow("pyarrow", "An Arrow file")
        row = self.start
        with read_errors(self.path, "an Arrow file"), pa.memory_map(self.path) as memory:
            reader = pa.ipc.open_file(memory)
            for number in range(self.first, self.stop):
                batch = reader.get_batch(number)
                yield from self.plan.blocks(batch, self.path, row)
                row += batch.num_rows

    def __str__(self) -> str:
        return f"{self.path}, record batches {self.first} to {self.stop - 1}"


def open_ipc(
    source: Any,
    *,
    target: Column | Sequence[Column] | None = None,
    weight: Column | None = None,
    columns: Sequence[Column] | None = None,
    dtype: Any = None,
) -> RowSource:
    """Open files in Arrow's own format (also called Feather 2), by runs of record batches.

    Parameters
    ----------
    source : path, pattern, folder, or a list of these
        The files, in order.
    target, weight, columns, dtype
        As in `mercer.open_rows`.

    Returns
    -------
    RowSource
    """
    pa = load_pyarrow("pyarrow", "An Arrow file")
    schemas, sizes = [], []
    for path in map(check_file, find_files(source, ENDS)):
        with read_errors(str(path), "an Arrow file"), pa.memory_map(str(path)) as memory:
            reader = pa.ipc.open_file(memory)
            schemas.append((str(path), reader.schema))
            sizes.append([reader.get_batch(i).num_rows for i in range(reader.num_record_batches)])
    plan = TablePlan.of(schemas, dtype, target=target, weight=weight, columns=columns)
    parts = [
        Batches(where, *run, plan)
        for (where, _), rows in zip(schemas, sizes, strict=True)
        for run in runs(rows, rows_per_part(plan.block_rows))
    ]
    return plan.source(parts)
