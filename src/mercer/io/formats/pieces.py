"""Files of tables that are stored piece by piece: Parquet by row groups, Arrow's own format by record batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mercer.io.formats.table import TablePlan, read_errors
from mercer.io.paths import check_file, find_files
from mercer.io.source import Part, RowSource, rows_per_part

__all__ = ["Pieces"]


@dataclass(frozen=True)
class Pieces(Part):
    """A run of consecutive pieces of one file. A format adds how it finds its pieces, and how it reads them."""

    #: The ends of names that tell the format.
    ends: ClassVar[tuple[str, ...]]
    #: The format and its pieces, one and several, in messages.
    what: ClassVar[str]
    names: ClassVar[tuple[str, str]]

    path: str
    first: int
    stop: int
    start: int  # number of the first row
    n_rows: int
    plan: TablePlan

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
    def open(cls, source: Any, dtype: Any, **chosen: Any) -> RowSource:
        """Return the rows of some files, cut into runs of pieces.

        Parameters
        ----------
        source : path, pattern, folder, or a list of these
            The files, in order.
        dtype, **chosen
            As in `TablePlan.of`.
        """
        schemas, sizes = [], []
        for path in map(str, map(check_file, find_files(source, cls.ends))):
            with read_errors(path, cls.what):
                schema, rows = cls.look(path)
            schemas.append((path, schema))
            sizes.append(rows)
        plan = TablePlan.of(schemas, dtype, **chosen)
        parts = [
            cls(path, *run, plan)
            for (path, _), rows in zip(schemas, sizes, strict=True)
            for run in runs(rows, rows_per_part(plan.block_rows))
        ]
        return plan.source(parts)


def runs(sizes: Sequence[int], enough: int) -> Iterator[tuple[int, int, int, int]]:
    """Join consecutive pieces of some numbers of rows: yield (first piece, last + 1, row of its begin, rows).

    A run ends as soon as it has enough rows; pieces are never cut.

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
