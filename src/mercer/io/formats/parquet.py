"""Rows from Parquet files, by row groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mercer.io.formats.columns import Column
from mercer.io.formats.pieces import Pieces
from mercer.io.formats.table import read_errors
from mercer.io.source import RowSource, load_pyarrow

__all__ = ["open_parquet"]

# The ends of names that tell the format.
ENDS = (".parquet", ".pq")

# Of a column so much is read at a time: memory does not grow with the size of a row group.
BUFFER_BYTES = 2**18


class RowGroups(Pieces):
    """A run of row groups of one file."""

    ends = ENDS
    what = "Parquet"
    names = ("row group", "row groups")

    @staticmethod
    def look(path: str) -> tuple[Any, list[int]]:
        with _parquet(path) as file:
            groups = range(file.metadata.num_row_groups)
            return file.schema_arrow, [file.metadata.row_group(i).num_rows for i in groups]

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        row = self.start
        with read_errors(self.path, self.what), _parquet(self.path) as file:
            # On this thread: whoever reads may be one of several, and parallelism belongs to the engine.
            for batch in file.iter_batches(
                self.plan.block_rows,
                row_groups=range(self.first, self.stop),
                columns=self.plan.columns.names,
                use_threads=False,
            ):
                yield self.plan.block(batch, self.path, row)
                row += batch.num_rows


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
    return RowGroups.open(source, dtype, target=target, weight=weight, columns=columns)


def _parquet(path: str) -> Any:
    parquet = load_pyarrow("pyarrow.parquet", "A Parquet file")
    return parquet.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True)
