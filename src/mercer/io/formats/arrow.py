"""Rows of Arrow data: tables, record batches and streams of batches in memory, and files in the Arrow IPC format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from mercer.errors import DataError
from mercer.io.formats.columns import Column
from mercer.io.formats.pieces import Pieces
from mercer.io.formats.table import TablePlan
from mercer.io.paths import check_size
from mercer.io.source import Part, RowSource, load_pyarrow, reading, rows_per_part

__all__ = ["BatchStream", "is_arrow", "open_arrow", "open_ipc"]

# File name extensions of the format.
ENDS = (".arrow", ".feather", ".ipc")

# Record batches of up to about this many bytes are read into memory; larger ones are memory-mapped.
BATCH_BYTES = 2**28
# Number of bytes of a number, to estimate the size of a batch.
NUMBER_BYTES = 8


@dataclass(frozen=True)
class TablePart(Part):
    """A slice of an Arrow table in memory."""

    what: ClassVar[str] = "Arrow data"

    table: Any  # the slice
    start: int  # index of its first row in the complete table
    plan: TablePlan

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return int(self.table.num_rows)

    def _blocks(self) -> Iterator[tuple[Any, ...]]:
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
        with reading("The Arrow stream", "record batches"):
            block = next(self._ready, None)
            while block is None:
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
    with reading("The source", "an Arrow table"):
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

    def _blocks(self) -> Iterator[tuple[Any, ...]]:
        names = self.plan.columns.names
        # Small batches are joined to parts of limited size, so a part that is larger than that consists of one batch.
        mapped = self.n_rows * len(names) * NUMBER_BYTES > BATCH_BYTES
        size = Path(self.path).stat().st_size
        row = self.start
        with _ipc(self.path, names, mapped=mapped) as reader:
            for number in range(self.first, self.stop):
                check_size(self.path, size)
                batch = self.plan.checked(reader.get_batch(number))
                for i in range(0, batch.num_rows, self.plan.block_rows):
                    if mapped:
                        # Access to a page after the end of the file would end the process.
                        check_size(self.path, size)
                    yield self.plan.block(batch.slice(i, self.plan.block_rows), self.path, row + i)
                row += batch.num_rows

    @staticmethod
    def look(path: str) -> tuple[Any, list[int]]:
        with _ipc(path, mapped=False) as reader:
            schema, batches = reader.schema, reader.num_record_batches
        # One column is enough to count rows: it is read, and decompressed if the file is compressed. Large batches are
        # mapped, because space for all their columns would be allocated.
        mapped = Path(path).stat().st_size > BATCH_BYTES * batches
        with _ipc(path, _narrowest(schema), mapped=mapped) as reader:
            return schema, [reader.get_batch(i).num_rows for i in range(batches)]


#: Opens files in the Arrow IPC format, also called Feather 2.
open_ipc = Batches.open


@contextmanager
def _ipc(path: str, names: Sequence[str] = (), *, mapped: bool) -> Iterator[Any]:
    """Open a file in the Arrow IPC format, and provide its reader inside a with statement.

    Parameters
    ----------
    path : str
        The file.
    names : sequence of str, default=()
        Names of the columns to read; empty means all columns. A mapped file always provides all columns.
    mapped : bool
        Whether the file is memory-mapped. If it is not, batches are copied into memory, so that the process does not
        end if another process shortens the file.
    """
    pa = load_pyarrow("pyarrow", "An Arrow file")
    with (pa.memory_map if mapped else pa.OSFile)(path) as file:
        reader = pa.ipc.open_file(file)
        if names and not mapped:
            index = {name: i for i, name in enumerate(reader.schema.names)}
            wanted = sorted({index[name] for name in names})
            reader = pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=wanted, use_threads=False))
        yield reader


def _narrowest(schema: Any) -> list[str]:
    """Return the name of a column whose values take the fewest bytes, in a list; empty if there are no columns."""

    def width(field: Any) -> float:
        try:
            return float(field.type.bit_width)
        except ValueError:  # strings have no fixed width
            return float("inf")

    return [field.name for field in sorted(schema, key=width)[:1]]
