"""What a source of rows is: parts in a fixed order, each of which yields its own blocks."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from mercer.errors import DataError, MissingPackageError
from mercer.io.digests import file_in_words

__all__ = ["Part", "RowSource", "load_pyarrow", "rows_per_block", "rows_per_part"]

# A block as it comes from a file. Two of them may wait while a third is worked on.
BLOCK_BYTES = 16 * 2**20
# However wide rows are, so many of them make a block.
LEAST_ROWS = 256
# Blocks of whole multiples of this are cut by learners without a remainder.
BLOCK_STEP = 8192
# Blocks of a part: enough work for one task, and small pieces of a file (row groups, batches) are joined to so many.
PART_BLOCKS = 4


class Part(ABC):
    """A run of consecutive rows that any process can read: small, picklable, the same blocks every time."""

    #: The number of rows, or None if only reading them tells.
    n_rows: int | None

    @property
    def files(self) -> tuple[str, ...]:
        """Paths of the files that hold these rows; none for rows in memory."""
        return ()

    def facts(self) -> str | None:
        """Return what tells rows that lie in no file from others, in words, or None if nothing does."""
        return None

    @abstractmethod
    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Read the rows: yield blocks ``(X,)``, ``(X, y)`` or ``(X, y, weight)``."""

    @abstractmethod
    def __str__(self) -> str:
        """Say for messages where these rows are."""


class RowSource:
    """Rows in files, read block by block, as often as needed, always in the same order.

    `open_rows` makes one; learners take it: ``model.fit(source)``.

    Attributes
    ----------
    n_rows : int or None
        The number of rows, or None if only reading them tells.
    n_features : int
        The number of columns of `X`.
    feature_names : tuple of str or None
        Their names, where the files have some; learners keep them as ``feature_names_in_``.
    """

    def __init__(self, parts: Sequence[Part], *, n_features: int, feature_names: tuple[str, ...] | None = None) -> None:
        self._parts = tuple(parts)
        self.n_features = n_features
        self.feature_names = feature_names
        counts = [part.n_rows for part in self._parts]
        known = [count for count in counts if count is not None]
        self.n_rows = sum(known) if len(known) == len(counts) else None
        if self.n_rows == 0:
            msg = "There are no rows in these files."
            raise DataError(msg)

    def parts(self) -> tuple[Part, ...]:
        """Return the parts, in order: each can be pickled and read elsewhere."""
        return self._parts

    def facts(self) -> dict[str, str]:
        """Return what must be the same for the rows to be the same, in words; checkpoints compare it."""
        files = dict.fromkeys(path for part in self._parts for path in part.files)
        facts = {f"file {number}": file_in_words(path) for number, path in enumerate(files)}
        known = ((f"part {number}", part.facts()) for number, part in enumerate(self._parts))
        return {**facts, **{name: words for name, words in known if words is not None}}

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for part in self._parts:
            yield from part

    def __repr__(self) -> str:
        rows = "unknown number of rows" if self.n_rows is None else counted(self.n_rows, "row")
        return f"<{rows} of {counted(self.n_features, 'column')} in {counted(len(self._parts), 'part')}>"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: "1 row", "2,000 rows"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def rows_per_block(n_features: int, itemsize: int) -> int:
    """Return how many rows of a file make a block: it depends on their width alone."""
    rows = int(np.clip(BLOCK_BYTES // max(1, n_features * itemsize), LEAST_ROWS, 8 * BLOCK_STEP))
    return rows if rows < BLOCK_STEP else rows - rows % BLOCK_STEP


def rows_per_part(block_rows: int) -> int:
    """Return how many rows make a part, where a file can be cut anywhere."""
    return PART_BLOCKS * block_rows


def load_pyarrow(module: str, what: str) -> Any:
    """Import a module of pyarrow, or say how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = f"{what} needs pyarrow, which is not installed. Try: pip install 'mercer[io]'"
        raise MissingPackageError(msg) from error
