"""Rows from Parquet files, by row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mercer.io.columns import Column
from mercer.io.paths import check_file, find_files
from mercer.io.source import Part, RowSource, load_pyarrow, rows_per_part, runs
from mercer.io.table import TablePlan, read_errors

__all__ = ["open_parquet"]

# The ends of names that tell the format.
ENDS = (".parquet", ".pq")

# Of a column so much is read at a time: memory does not grow with the size of a row group.
BUFFER_BYTES = 2**18


@dataclass(frozen=True)
class RowGroups(Part):
    """A run of row groups of one file."""

    path: str
    first: int
    stop: int
    start: int  # number of the first row
    n_rows: int
    plan: TablePlan

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        row = self.start
        with read_errors(self.path, "Parquet"), _parquet(self.path) as file:
            # On this thread: whoever reads may be one of several, and parallelism belongs to the engine.
            for batch in file.iter_batches(
                self.plan.block_rows,
                row_groups=range(self.first, self.stop),
                columns=self.plan.columns.names,
                use_threads=False,
            ):
                yield self.plan.block(batch, self.path, row)
                row += batch.num_rows

    def __str__(self) -> str:
        groups = f"group {self.first}" if self.stop == self.first + 1 else f"groups {self.first} to {self.stop - 1}"
        return f"{self.path}, row {groups}"


def open_parquet(
    source: Any,
    *,
    target: Column | Sequence[Column] | None = None,
    weight: Column | None = None,
    columns: Sequence[Column] | None = None,
    dtype: Any = None,
) -> RowSource:
    """Open Parquet files: a part is a run of row groups, and only the columns that are needed are read.

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
    schemas, sizes = [], []
    for path in map(check_file, find_files(source, ENDS)):
        with read_errors(str(path), "Parquet"), _parquet(str(path)) as file:
            schemas.append((str(path), file.schema_arrow))
            metadata = file.metadata
            sizes.append([metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)])
    plan = TablePlan.of(schemas, dtype, target=target, weight=weight, columns=columns)
    parts = [
        RowGroups(where, *run, plan)
        for (where, _), rows in zip(schemas, sizes, strict=True)
        for run in runs(rows, rows_per_part(plan.block_rows))
    ]
    return plan.source(parts)


def _parquet(path: str) -> Any:
    parquet = load_pyarrow("pyarrow.parquet", "A Parquet file")
    return parquet.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True)
