"""Rows of Parquet files. Each part of a source consists of consecutive row groups of a file."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mercer.io.formats.pieces import Pieces
from mercer.io.source import load_pyarrow

__all__ = ["open_parquet"]

# File name extensions of the format.
ENDS = (".parquet", ".pq")

# Number of bytes of a column that are read at a time. Memory use thus does not grow with the size of a row group.
BUFFER_BYTES = 2**18


class RowGroups(Pieces):
    """Consecutive row groups of a Parquet file."""

    ends = ENDS
    what = "Parquet"
    names = ("row group", "row groups")

    @staticmethod
    def look(path: str) -> tuple[Any, list[int]]:
        with _parquet(path) as file:
            groups = range(file.metadata.num_row_groups)
            return file.schema_arrow, [file.metadata.row_group(i).num_rows for i in groups]

    def _blocks(self) -> Iterator[tuple[Any, ...]]:
        row = self.start
        with _parquet(self.path) as file:
            # On one thread, because the engine may read several parts in parallel.
            for batch in file.iter_batches(
                self.plan.block_rows,
                row_groups=range(self.first, self.stop),
                columns=self.plan.columns.names,
                use_threads=False,
            ):
                yield self.plan.block(self.plan.checked(batch), self.path, row)
                row += batch.num_rows


#: Opens Parquet files.
open_parquet = RowGroups.open


def _parquet(path: str) -> Any:
    """Open a Parquet file."""
    parquet = load_pyarrow("pyarrow.parquet", "A Parquet file")
    return parquet.ParquetFile(path, buffer_size=BUFFER_BYTES, pre_buffer=False, page_checksum_verification=True)
