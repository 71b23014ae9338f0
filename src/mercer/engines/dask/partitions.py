"""What is done with one partition of the rows, wherever it lies, and how the results of partitions are joined.

A partition is checked, cut into blocks and added to an empty sum; what comes back is packed for the wire. Packed
results are joined by a tree of fixed shape, so that the bits of the total depend neither on who worked on what, nor on
who finished first, nor on who died and was replaced.
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
# Results that one task adds: few enough to lie side by side in memory, enough for a tree of few levels.
FAN_IN = 8
# Rows that tell what all rows look like.
HEAD_ROWS = 256


def on_dask(source: Any) -> Any:
    """Let the workers of dask read the rows of files.

    Each part of the files is one partition, read by the worker that works on it: every worker must be able to open the
    files by the same path.

    Parameters
    ----------
    source : RowSource
        What `mercer.open_rows` returns.

    Returns
    -------
    Partitions
        Learners take it: ``model.fit(on_dask(source))``. It runs on the active ``distributed.Client``, or on the
        threads of this process if there is none.

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
        msg = "on_dask needs dask, which is not installed. Try: pip install 'mercer[dask]'"
        raise MissingPackageError(msg) from error
    return file_partitions(source)


@dataclass(frozen=True)
class Packed:
    """A statistic ready to travel: its pickle, with the arrays beside it.

    So it is as large in memory as on the wire, and tells its size to whoever plans memory by it.
    """

    rows: int
    pickle: bytes
    arrays: tuple[np.ndarray, ...]

    def unpack(self) -> Any:
        """Return the statistic; its arrays may share memory with this object and be read-only."""
        return pickle.loads(self.pickle, buffers=self.arrays)

    def unpack_copy(self) -> Any:
        """Return the statistic with arrays of its own."""
        return pickle.loads(self.pickle, buffers=[array.copy() for array in self.arrays])

    def __sizeof__(self) -> int:
        return len(self.pickle) + sum(array.nbytes for array in self.arrays)


def pack(rows: int, statistic: Any) -> Packed:
    """Return a statistic ready to travel."""
    buffers: list[pickle.PickleBuffer] = []
    body = pickle.dumps(statistic, protocol=5, buffer_callback=buffers.append)
    return Packed(rows, body, tuple(np.asarray(buffer.raw()) for buffer in buffers))


@dataclass(frozen=True)
class Work:
    """What is done with each partition: check its rows, cut them into blocks, add these to an empty sum."""

    into: Accumulator[Any]
    check: Callable[..., tuple[Any, Any, Any]]
    block_rows: int

    def on(self, blocks: Iterable[Any], *, number: int, start: int, rows: int) -> Packed | None:
        """Return the packed sum over one partition, or None if it has no rows; the sum must be a fresh one.

        Parameters
        ----------
        blocks : iterable
            Tuples ``(X, y, weight)``, of which the last may be missing.
        number, start, rows : int
            Of the partition, of its first row, and how many rows it was said to have.
        """
        seen = 0
        with workers(1) as team:
            for parts in blocks:
                for block in self._checked(parts, number, start + seen):
                    self.into.add(block, team)
                    seen += len(block)
        if seen != rows:
            msg = (
                f"Partition {number} was counted to have {rows} rows and now has {seen}. Partitions must give the same "
                "rows whenever they are computed: seed what is random, or persist the collection."
            )
            raise DataError(msg)
        return pack(seen, self.into.result()) if seen else None

    def _checked(self, parts: Any, number: int, start: int) -> Iterator[Block]:
        if not parts[0].shape[0]:
            return
        try:
            X, y, weight = self.check(*parts)
        except (TypeError, ValueError) as error:
            msg = f"Partition {number}, rows from {start} on: {error}"
            raise DataError(msg) from error
        yield from row_blocks(Block(start, X, y, weight), self.block_rows)


def add_up(parts: Sequence[Packed | None]) -> Packed | None:
    """Return the sum of packed statistics, added one after another; None stands for no rows."""
    kept = [part for part in parts if part is not None]
    if len(kept) < 2:
        return kept[0] if kept else None
    return pack(sum(part.rows for part in kept), reduce(add, (part.unpack() for part in kept)))


def join(parts: Sequence[T], add_some: Callable[[list[T]], T]) -> T:
    """Join results by a tree: always the same neighbors, `FAN_IN` at a time, in the order of the rows."""
    level = list(parts)
    while len(level) > 1:
        level = [add_some(level[i : i + FAN_IN]) for i in range(0, len(level), FAN_IN)]
    return level[0]


def first_rows(*parts: Any) -> tuple[Any, ...]:
    """Return a few rows of the parts ``X, y, weight`` of a partition; missing ones stay None."""
    return tuple(
        part if part is None else part.iloc[:HEAD_ROWS] if hasattr(part, "iloc") else part[:HEAD_ROWS] for part in parts
    )


def same_for_one_row(where: str, two: Any, one: Any) -> None:
    """Raise unless results of two rows and of one are arrays whose rows do not depend on the rows beside them."""
    parts = list(zip(two, one, strict=True)) if isinstance(two, tuple) else [(two, one)]
    if not all(isinstance(a, np.ndarray) and a.ndim for a, _ in parts):
        msg = f"On {where} only methods that return arrays can be used, got {type(two).__name__}."
        raise DataError(msg)
    if any(a.shape[1:] != b.shape[1:] for a, b in parts):
        msg = (
            f"On {where} only methods can be used whose result for a row does not depend on other rows; "
            "this one relates all of them to each other. Compute a part of the rows, and pass that."
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
    """Return what to try when a worker that held a partition of `rows` rows ran out of memory.

    Parameters
    ----------
    rows : int
        Of the largest partition.
    row_bytes : float or None
        Bytes of one row, targets and weight included, if known.
    limit : int or None
        Bytes of memory of the smallest worker, None if it has no limit.
    threads : int
        Of that worker: as many partitions are worked on at once.
    block_rows : int or None, default=None
        Rows whose features are computed at a time; None if it had not come to that.
    feature_bytes : float, default=8.0
        Bytes of the features of one row.
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
    # Rows as they were read and as they were checked, and room for reading them: a quarter of the memory each. What
    # remains is for the sum, its packed copy and the interpreter; of that an eighth of all is for features.
    partition = min(rows, int(max(1, share / 4 // row_bytes)))
    text += f"; a worker has {_size(limit)} for {_threads(threads)}. Try partitions of at most {partition:,} rows"
    block = block_rows
    if block_rows is not None:
        block = int(max(1, min(block_rows, share / 8 // feature_bytes)))
        text += f" and block_size={block}"
    if (partition, block) == (rows, block_rows):
        text += ", which is what you have, with fewer features (n_components), fewer threads a worker or more memory"
    return text + "."


def _threads(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"


def _size(size: float) -> str:
    return f"{size / 1e6:,.1f} MB" if size < 1e8 else f"{size / 1e9:,.2f} GB"
