"""Processing of one partition of the rows, and the tree reduction that adds the results of all partitions.

The rows of a partition are validated, split into blocks and added to an empty accumulator, whose result is serialized.
The results of all partitions are added by a tree reduction whose shape depends only on the number of partitions. The
total is therefore bitwise the same whichever workers process the partitions, in whatever order they finish, and whether
or not some partitions are computed again after a failure. This module does not import Dask.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, TypeVar

import numpy as np

from mercer.engines.base import Accumulator, Block, row_blocks, workers
from mercer.errors import DataError, MissingPackageError

__all__ = [
    "FAN_IN",
    "Packed",
    "Work",
    "add_up",
    "first_rows",
    "join",
    "memory_advice",
    "on_dask",
    "pack",
    "same_for_one_row",
]

S = TypeVar("S")
T = TypeVar("T")
# Number of results that one task of the tree reduction adds: small enough that they fit into memory together, large
# enough that the tree has few levels.
FAN_IN = 8
# Number of rows of the first block, which settles the dtype and the number of features of all rows.
HEAD_ROWS = 256


def on_dask(source: Any) -> Any:
    """Return the rows of files as partitions that Dask workers read.

    Each part of the files is one partition and is read by the worker that processes it, so every worker must be able to
    open the files by the same path.

    Parameters
    ----------
    source : RowSource
        The result of `mercer.open_rows`.

    Returns
    -------
    Partitions
        Rows for `fit` and `predict` of a learner: ``model.fit(on_dask(source))``. They are processed by the active
        ``distributed.Client``, or by the threads of this process if no client is active.

    See Also
    --------
    mercer.open_rows : Open files for reading in this process.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from mercer import KernelRidge, on_dask, open_rows
    >>> table = np.random.default_rng(0).normal(size=(1000, 3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "table.npy")
    ...     np.save(path, table)
    ...     model = KernelRidge(random_state=0).fit(on_dask(open_rows(path, target=-1)))
    >>> in_memory = KernelRidge(random_state=0).fit(table[:, :2], table[:, 2])
    >>> bool(np.allclose(model.coef_, in_memory.coef_))
    True
    """
    try:
        from mercer.engines.dask.collections import file_partitions
    except ImportError as error:
        msg = "on_dask needs Dask, which is not installed. Try: pip install 'mercer[dask]'"
        raise MissingPackageError(msg) from error
    return file_partitions(source)


@dataclass(frozen=True)
class Packed:
    """A serialized statistic: a pickle of protocol 5 whose arrays are stored separately, as out-of-band buffers.

    Its size in memory is its size on the network, and ``__sizeof__`` reports this size to the scheduler of Dask.
    """

    rows: int  # number of rows that were summed
    pickle: bytes
    arrays: tuple[np.ndarray, ...]  # the out-of-band buffers

    def unpack(self) -> Any:
        """Return the deserialized statistic. Its arrays may share memory with this object and be read-only."""
        return pickle.loads(self.pickle, buffers=self.arrays)

    def unpack_copy(self) -> Any:
        """Return the deserialized statistic with arrays of its own, which are writable."""
        return pickle.loads(self.pickle, buffers=[array.copy() for array in self.arrays])

    def __sizeof__(self) -> int:
        return len(self.pickle) + sum(array.nbytes for array in self.arrays)


def pack(rows: int, statistic: Any) -> Packed:
    """Serialize a statistic that was summed over `rows` rows."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(statistic, protocol=5, buffer_callback=buffers.append)
    return Packed(rows, body, tuple(np.asarray(buffer.raw()) for buffer in buffers))


@dataclass(frozen=True)
class Work:
    """Computes the sum over one partition: validates its rows, and adds them to an accumulator block by block."""

    into: Accumulator[Any]  # empty
    check: Callable[..., tuple[Any, Any, Any]]  # validates (X, y, weight) and returns them
    block_rows: int  # number of rows that are added at a time

    def on(self, blocks: Iterable[Any], *, number: int, start: int, rows: int) -> Packed | None:
        """Return the serialized sum over one partition, or None if the partition has no rows.

        The blocks are added to the accumulator `into`, which must be empty, so this method can be called only once.

        Parameters
        ----------
        blocks : iterable
            Rows of the partition, as tuples ``(X,)``, ``(X, y)`` or ``(X, y, weight)``.
        number : int
            Index of the partition, for messages.
        start : int
            Index of the first row of the partition among the rows of all partitions.
        rows : int
            Expected number of rows of the partition, from an earlier count.
        """
        seen = 0
        with workers(1) as team:
            for parts in blocks:
                for block in self._checked(parts, number, start + seen):
                    self.into.add(block, team)
                    seen += len(block)
        if seen != rows:
            msg = (
                f"Partition {number} was counted to have {rows} rows and now has {seen}. Partitions must have the same "
                "rows each time they are computed. Set the seeds of random operations, or persist the collection."
            )
            raise DataError(msg)
        return pack(seen, self.into.result()) if seen else None

    def _checked(self, parts: Any, number: int, start: int) -> Iterator[Block]:
        """Validate a tuple ``(X, y, weight)``, whose first row has the index `start`, and yield it as blocks."""
        if not parts[0].shape[0]:
            return
        try:
            X, y, weight = self.check(*parts)
        except (TypeError, ValueError) as error:
            msg = f"Partition {number}, rows from {start} on: {error}"
            raise DataError(msg) from error
        yield from row_blocks(Block(start, X, y, weight), self.block_rows)


def add_up(parts: Sequence[Packed | None]) -> Packed | None:
    """Return the serialized sum of serialized statistics, added from left to right.

    A statistic is None if its partition has no rows. The sum is None if all statistics are None.
    """
    present = [part for part in parts if part is not None]
    if len(present) < 2:
        return present[0] if present else None
    return pack(sum(part.rows for part in present), reduce(add, (part.unpack() for part in present)))


def join(parts: Sequence[T], add_some: Callable[[list[T]], T]) -> T:
    """Combine neighboring results, at most `FAN_IN` at a time, until a single result is left, and return that result.

    The order of the results is preserved. The shape of this tree reduction depends only on the number of results.

    Parameters
    ----------
    parts : sequence
        Results, at least one.
    add_some : callable
        Combines a list of at most `FAN_IN` neighboring results.
    """
    level = list(parts)
    while len(level) > 1:
        level = [add_some(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return level[0]


def first_rows(*parts: Any) -> tuple[Any, ...]:
    """Return a tuple with the first `HEAD_ROWS` rows of each argument, or None for an argument that is None."""
    return tuple(
        part if part is None else part.iloc[:HEAD_ROWS] if hasattr(part, "iloc") else part[:HEAD_ROWS] for part in parts
    )


def same_for_one_row(where: str, two: Any, one: Any) -> None:
    """Raise DataError if the number of columns in the result of a method depends on the number of input rows.

    Such a method, for example one that returns a kernel matrix of shape (n, n), cannot be applied block by block. The
    results for two rows and for one row are compared: ``two.shape[1:]`` must equal ``one.shape[1:]``. DataError is also
    raised if the results are not arrays.

    Parameters
    ----------
    where : str
        The kind of input, such as "files", for messages.
    two, one : ndarray or tuple of ndarrays
        Result of the method for two rows, and its result for the first of these rows alone.
    """
    parts = list(zip(two, one, strict=True)) if isinstance(two, tuple) else [(two, one)]
    if not all(isinstance(a, np.ndarray) and a.ndim for a, _ in parts):
        msg = f"On {where} only methods that return arrays can be used, got {type(two).__name__}."
        raise DataError(msg)
    if any(a.shape[1:] != b.shape[1:] for a, b in parts):
        msg = (
            f"On {where} only methods can be used whose result for a row does not depend on other rows; the result of "
            "this one has an entry for each pair of rows. Pass a subset of the rows as an array."
        )
        raise DataError(msg)


def memory_advice(
    *,
    rows: int,
    row_bytes: float | None,
    limit: int | None,
    threads: int,
    block_rows: int | None = None,
    feature_bytes: float = 8.0,
) -> str:
    """Return advice on partition and block sizes for a worker that ran out of memory.

    Parameters
    ----------
    rows : int
        Number of rows of the largest partition.
    row_bytes : float or None
        Bytes of one row, including targets and weight, or None if unknown.
    limit : int or None
        Memory limit of the worker in bytes, or None if the limit is unknown or the worker has no limit.
    threads : int
        Number of threads of the worker. Each thread processes one partition at a time.
    block_rows : int or None, default=None
        Number of rows whose features are computed at a time, or None if no features were computed yet.
    feature_bytes : float, default=8.0
        Bytes of the features of one row.

    Returns
    -------
    str
        One or two sentences.
    """
    text = f"A partition has up to {rows:,} rows"
    text += "" if row_bytes is None else f", {_size(rows * row_bytes)}"
    if block_rows is not None:
        text += f", and the features of {block_rows:,} rows at a time take {_size(block_rows * feature_bytes)}"
    if limit is None or row_bytes is None:
        known = "" if limit is None else f"; a worker has {_size(limit)} for {_threads(threads)}"
        text += f"{known}. Try partitions of half as many rows, {max(1, rows // 2):,}"
        return text + ("." if block_rows is None else f", and block_size={max(1, block_rows // 2)}.")
    share = limit / threads
    # One quarter of the memory is for the rows as they were read, one for the validated rows, and one for buffers while
    # reading. Half of the last quarter is for features, and half for the sum, its serialized copy and the interpreter.
    partition = min(rows, int(max(1, share / 4 // row_bytes)))
    text += f"; a worker has {_size(limit)} for {_threads(threads)}. Try partitions of at most {partition:,} rows"
    block = block_rows
    if block_rows is not None:
        block = int(max(1, min(block_rows, share / 8 // feature_bytes)))
        text += f" and block_size={block}"
    if (partition, block) == (rows, block_rows):
        text += ", which is what you have, with fewer n_components, fewer threads per worker or more memory"
    return text + "."


def _threads(threads: int) -> str:
    """Return the text for a number of threads in a message, such as "1 thread" or "2 threads"."""
    return f"{threads} thread{'s' if threads > 1 else ''}"


def _size(size: float) -> str:
    """Return the text for a number of bytes in a message, in MB or GB."""
    return f"{size / 1e6:,.1f} MB" if size < 1e8 else f"{size / 1e9:,.2f} GB"
