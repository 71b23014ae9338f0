"""Rows of Arrow data: tables, record batches and streams of batches in memory, and files in the Arrow IPC format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from mercer.errors import DataError
from mercer.io.formats.columns import Column
from mercer.io.formats.pieces import Pieces
from mercer.io.formats.table import TablePlan, read_errors
from mercer.io.source import Part, RowSource, load_pyarrow, rows_per_part

__all__ = ["BatchStream", "is_arrow", "open_arrow", "open_ipc"]

# File name extensions of the format.
ENDS = (".arrow", ".feather", ".ipc")


@dataclass(frozen=True)
class TablePart(Part):
    """A slice of an Arrow table in memory."""

    table: Any  # the slice
    start: int  # index of its first row in the complete table
    plan: TablePlan

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return self.plan.blocks(self.table, str(self), self.start)

    @property
    def files(self) -> tuple[str, ...]:
        return ()

    def __str__(self) -> str:
        return "The Arrow table"


class BatchStream:
    """Iterator over the blocks of a stream of Arrow record batches, which can be read once."""

    n_rows = None

    def __init__(self, batches: Iterator[Any], plan: TablePlan) -> None:
        self._batches = batches
        self._plan = plan
        self._rows = 0
        self._ready: Iterator[tuple[Any, ...]] = iter(())
        self.n_features = len(plan.columns.features)
        self.feature_names = plan.feature_names

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
    """Return whether an object implements the Arrow PyCapsule interface, as pyarrow, pandas and polars tables do."""
    return hasattr(source, "__arrow_c_stream__") or hasattr(source, "__arrow_c_array__")


def open_arrow(
    source: Any,
    *,
    target: Column | Sequence[Column] | None = None,
    weight: Column | None = None,
    columns: Sequence[Column] | None = None,
    dtype: Any = None,
) -> RowSource | BatchStream:
    """Open Arrow data in memory: a table, record batches, or a stream of record batches.

    Parameters
    ----------
    source : pyarrow.Table, RecordBatch or RecordBatchReader, a list of batches, or a pandas or polars data frame
        The data. A RecordBatchReader can be read only once; everything else any number of times.
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


class Batches(Pieces):
    """Consecutive record batches of a file in the Arrow IPC format."""

    ends = ENDS
    what = "an Arrow file"
    names = ("record batch", "record batches")

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        row = self.start
        with read_errors(self.path, self.what), _ipc(self.path) as reader:
            for number in range(self.first, self.stop):
                batch = reader.get_batch(number)
                yield from self.plan.blocks(batch, self.path, row)
                row += batch.num_rows

    @staticmethod
    def look(path: str) -> tuple[Any, list[int]]:
        with _ipc(path) as reader:
            return reader.schema, [reader.get_batch(i).num_rows for i in range(reader.num_record_batches)]


#: Opens files in the Arrow IPC format, also called Feather 2.
open_ipc = Batches.open


@contextmanager
def _ipc(path: str) -> Iterator[Any]:
    """Open a file in the Arrow IPC format, memory-mapped, and provide its reader inside a with statement."""
    pa = load_pyarrow("pyarrow", "An Arrow file")
    with pa.memory_map(path) as memory:
        yield pa.ipc.open_file(memory)
