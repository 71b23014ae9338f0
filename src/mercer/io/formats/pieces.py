"""Files that store a table in pieces: row groups in Parquet, record batches in the Arrow IPC format."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mercer.io.formats.columns import Column
from mercer.io.formats.table import TablePlan
from mercer.io.paths import check_file, find_files
from mercer.io.source import Part, RowSource, reading, rows_per_part

__all__ = ["Pieces"]


@dataclass(frozen=True)
class Pieces(Part):
    """Base class of parts that consist of consecutive pieces of one file, with one subclass per format.

    A piece is a row group of a Parquet file, or a record batch of an Arrow file.
    """

    #: File name extensions of the format.
    ends: ClassVar[tuple[str, ...]]
    #: Singular and plural of the name of a piece, for messages.
    names: ClassVar[tuple[str, str]]

    path: str
    first: int  # index of the first piece
    stop: int  # index after the last piece
    start: int  # index of the first row in the file
    n_rows: int
    plan: Any  # such as TablePlan

    @staticmethod
    @abstractmethod
    def look(path: str) -> tuple[Any, list[int]]:
        """Return the Arrow schema of a file, and the number of rows of each of its pieces."""

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path,)

    def __str__(self) -> str:
        one, several = self.names
        last = self.stop - 1
        return f"{self.path}, " + (f"{one} {last}" if last == self.first else f"{several} {self.first} to {last}")

    @classmethod
    def open(
        cls,
        source: Any,
        *,
        target: Column | Sequence[Column] | None = None,
        weight: Column | None = None,
        columns: Sequence[Column] | None = None,
        dtype: Any = None,
    ) -> RowSource:
        """Open Parquet files (`open_parquet`), or files in the Arrow IPC format, also called Feather 2 (`open_ipc`).

        A part of the source consists of consecutive row groups of a Parquet file, or record batches of an Arrow file.
        From Parquet files, only the required columns are read.

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
        files = cls.files_of(source)
        plan = TablePlan.of(
            ((path, schema) for path, schema, _ in files), dtype, target=target, weight=weight, columns=columns
        )
        return plan.source(cls.parts_of(files, plan))

    @classmethod
    def files_of(cls, source: Any) -> list[tuple[str, Any, list[int]]]:
        """Return path, Arrow schema and numbers of rows of the pieces of each file."""
        files = []
        for path in map(str, map(check_file, find_files(source, cls.ends))):
            with reading(path, cls.what):
                files.append((path, *cls.look(path)))
        return files

    @classmethod
    def parts_of(cls, files: list[tuple[str, Any, list[int]]], plan: Any) -> list[Pieces]:
        """Return the parts of files, whose record batches are converted to blocks by `plan`."""
        return [cls(path, *run, plan) for path, _, rows in files for run in runs(rows, rows_per_part(plan.block_rows))]


def runs(sizes: Sequence[int], enough: int) -> Iterator[tuple[int, int, int, int]]:
    """Group consecutive pieces of a file into runs of at least `enough` rows, without dividing a piece.

    ``sizes[i]`` is the number of rows of piece i. For each run, yield a tuple: the index of its first piece, the index
    after its last piece, the index of its first row, and its number of rows. Only the last run may have fewer than
    `enough` rows.

    Examples
    --------
    >>> list(runs([3, 2, 9, 1], 5))
    [(0, 2, 0, 5), (2, 3, 5, 9), (3, 4, 14, 1)]
    """
    first = start = rows = 0
    for i, size in enumerate(sizes):
        rows += size
        if rows and (rows >= enough or i == len(sizes) - 1):
            yield first, i + 1, start, rows
            first, start, rows = i + 1, start + rows, 0
