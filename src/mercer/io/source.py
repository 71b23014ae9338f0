"""Base classes for rows in files: a source consists of parts in a fixed order, and a part yields blocks of rows."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np

from mercer.errors import DataError, MercerError, MissingPackageError
from mercer.io.digests import digest_of, file_fingerprint

__all__ = ["Part", "RowSource", "load_pyarrow", "reading", "rows_per_block", "rows_per_part"]

# Size of a block that is read from a file. Two blocks may be read ahead while a third one is processed.
BLOCK_BYTES = 16 * 2**20
# Minimum number of rows of a block, also if it exceeds BLOCK_BYTES.
LEAST_ROWS = 256
# Large blocks have a multiple of this number of rows, so that engines can cut them into blocks of equal size.
BLOCK_STEP = 8192
# Number of blocks of a part: enough work for one task. Small row groups or record batches are joined up to this size.
PART_BLOCKS = 4


class Part(ABC):
    """Base class of references to consecutive rows of a source, which any process can read.

    A part for rows in files is small. Every part is picklable, and yields the same blocks each time it is read.
    """

    #: Name of the format, for messages.
    what: ClassVar[str]
    #: The number of rows, or None if it is not known before they are read.
    n_rows: int | None

    @property
    @abstractmethod
    def files(self) -> tuple[str, ...]:
        """Paths of the files that contain these rows; empty for rows in memory."""

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Read the rows and yield them as blocks; raise DataError if they cannot be read, or are not `n_rows` rows."""
        rows = 0
        with reading(str(self), self.what):
            for block in self._blocks():
                rows += block[0].shape[0]
                yield block
        if self.n_rows is not None and rows != self.n_rows:
            msg = (
                f"{self} must have {counted(self.n_rows, 'row')}, as when it was opened, but {counted(rows, 'row')} "
                "could be read. Is the file damaged, or was it changed? Open it again."
            )
            raise DataError(msg)

    @abstractmethod
    def _blocks(self) -> Iterator[tuple[Any, ...]]:
        """Read the rows and yield them as blocks ``(X,)``, ``(X, y)`` or ``(X, y, weight)``."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the location of these rows for messages, such as the path of the file and a range of rows."""


class RowSource:
    """Rows in files or Arrow tables, read block by block, any number of times and always in the same order.

    `open_rows` returns one, and learners accept it: ``model.fit(source)``.

    Attributes
    ----------
    n_rows : int or None
        The number of rows, or None if it is not known before they are read.
    n_features : int
        The number of features.
    feature_names : tuple of str or None
        Names of the features, if the files have names; learners store them as ``feature_names_in_``.

    See Also
    --------
    mercer.open_rows : Opens files of any supported format.
    """

    def __init__(self, parts: Sequence[Part], *, n_features: int, feature_names: tuple[str, ...] | None = None) -> None:
        self._parts = tuple(parts)
        self.n_features = n_features
        self.feature_names = feature_names
        counts = [part.n_rows for part in self._parts]
        known = [count for count in counts if count is not None]
        self.n_rows = sum(known) if len(known) == len(counts) else None
        if self.n_rows == 0:
            msg = "The files have no rows."
            raise DataError(msg)

    def parts(self) -> tuple[Part, ...]:
        """Return the parts in order; each can be pickled and read in another process."""
        return self._parts

    def fingerprint(self) -> dict[str, str]:
        """Return named strings that identify the rows. A fit resumes from a checkpoint only if these strings are equal.

        Files are identified by their metadata, and rows in memory by a digest.
        """
        files = dict.fromkeys(path for part in self._parts for path in part.files)
        in_files = {}
        for number, path in enumerate(files):
            with reading(path, "a file of rows"):
                in_files[f"file {number}"] = file_fingerprint(path)
        in_memory = {
            f"part {number}": f"rows in memory, {digest_of(values for block in part for values in block)}"
            for number, part in enumerate(self._parts)
            if not part.files
        }
        return {**in_files, **in_memory}

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for part in self._parts:
            yield from part

    def __repr__(self) -> str:
        rows = "unknown number of rows" if self.n_rows is None else counted(self.n_rows, "row")
        return f"<{rows} of {counted(self.n_features, 'feature')} in {counted(len(self._parts), 'part')}>"


def counted(number: int, noun: str) -> str:
    """Return a number followed by its noun, such as "1 row" or "2,000 rows"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def rows_per_block(n_features: int, itemsize: int) -> int:
    """Return the number of rows of a block, for rows of `n_features` features of `itemsize` bytes."""
    rows = int(np.clip(BLOCK_BYTES // max(1, n_features * itemsize), LEAST_ROWS, 8 * BLOCK_STEP))
    return rows if rows < BLOCK_STEP else rows - rows % BLOCK_STEP


def rows_per_part(block_rows: int) -> int:
    """Return the number of rows of a part, given the number of rows of a block."""
    return PART_BLOCKS * block_rows


@contextmanager
def reading(where: str, what: str) -> Iterator[None]:
    """Inside a with statement, convert every error of a reader to a DataError that names the file.

    A damaged file can make a reader raise almost any exception, so all of them are converted, except those of this
    package, which already name the file. All reading of rows takes place inside such a statement.

    Parameters
    ----------
    where : str
        Name of the file, or of the part of it that is read.
    what : str
        Name of the format, such as "an Arrow file".
    """
    try:
        yield
    except (MercerError, StopIteration, Warning):
        raise
    except MemoryError as error:
        msg = (
            f"{where} cannot be read as {what}: it asks for more memory than there is. Is the file damaged? "
            "If it is not, select fewer features by columns=, or divide the file."
        )
        raise DataError(msg) from error
    except Exception as error:
        why = str(error).strip() or type(error).__name__
        msg = (
            f"{where} cannot be read as {what}: {why}{'' if why.endswith('.') else '.'} Is the file complete, and of "
            "this format?"
        )
        raise DataError(msg) from error


def load_pyarrow(module: str, what: str) -> Any:
    """Return an imported module of pyarrow, or raise an error with instructions to install it.

    `what` names the input that needs pyarrow in the message, such as "A CSV file".
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        msg = f"{what} needs pyarrow, which is not installed. Try: pip install 'mercer[io]'"
        raise MissingPackageError(msg) from error
