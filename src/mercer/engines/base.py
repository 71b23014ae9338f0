"""The contract of an engine: sum one statistic over blocks of rows, always in the same order.

A statistic is any value with ``+``. Its terms may be computed by several threads at once, but they are added one after
another in the order of the rows, so equal rows give equal bits for any number of threads. Inside a term, BLAS runs on
one thread, because the engine owns all parallelism.

Small statistics come from `Engine.sum`, one term per block. Large ones, whose terms would be as large as the sum, come
from `Engine.accumulate`: blocks are added in place one after another, with all threads at work on each.

Rows may lie on other machines, so what is summed must survive pickle: see `Engine`.
"""

from __future__ import annotations

import operator
import os
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from numbers import Integral
from typing import Any, Generic, TypeVar

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController

from mercer.errors import DataError, ParameterError

__all__ = [
    "START",
    "UNKNOWN",
    "Accumulator",
    "Block",
    "Engine",
    "LocalEngine",
    "Position",
    "Progress",
    "Report",
    "TermSum",
    "Workers",
    "closing_all",
    "count_threads",
    "row_blocks",
    "workers",
]

NO_ROWS = "There are no rows: every block was empty, or there was no block. Check what the blocks yield."

#: Value of a fingerprint entry that is not known: it matches every other value.
UNKNOWN = "unknown"

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Block:
    """Consecutive rows with their targets and weights.

    Attributes
    ----------
    start : int
        Index of the first row in the data.
    X : ndarray or CSR of shape (n, d)
        Rows.
    y : ndarray or None
        Targets, None where there are none.
    weight : ndarray of shape (n,) or None
        Sample weights; None means that all are one.
    positions : ndarray of shape (n,) or None
        Indices of the rows in the data, where some rows have been left out; see `index`.
    """

    start: int
    X: Any
    y: Any = None
    weight: np.ndarray | None = None
    positions: np.ndarray | None = None

    def __len__(self) -> int:
        return self.X.shape[0]

    @property
    def index(self) -> np.ndarray:
        """Indices of the rows in the data."""
        return np.arange(self.start, self.start + len(self)) if self.positions is None else self.positions


def row_blocks(block: Block, rows: int, done: int = 0) -> Iterator[Block]:
    """Cut a block into consecutive ones of at most `rows` rows, without the first `done` rows."""
    if 0 < done < len(block) and done % rows:
        msg = f"Row {block.start + done} is not where a block ends: blocks have {rows} rows."
        raise DataError(msg)
    for i in range(max(0, done), len(block), rows):
        part = slice(i, i + rows)
        y = None if block.y is None else block.y[part]
        weight = None if block.weight is None else block.weight[part]
        positions = None if block.positions is None else block.positions[part]
        yield Block(block.start + i, block.X[part], y, weight, positions)


@dataclass(frozen=True)
class Position:
    """Position of a pass in the rows: all rows before `row` are done."""

    row: int = 0
    item: int = 0  # index of the block or part of the source that the row belongs to
    item_row: int = 0  # index of the first row of that item


#: Position before the first row.
START = Position()


@dataclass(frozen=True)
class Progress:
    """Progress of a pass over the rows; the last report has ``rows == total``."""

    rows: int
    total: int | None  # None if the number of rows is not known before the last one is read
    seconds: float
    note: str = ""  # further information, such as the number of the pass

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the remaining time, at the rate so far."""
        return None if self.total is None else self.seconds * (self.total - self.rows) / max(self.rows, 1)


#: Receives the progress of a pass.
Report = Callable[[Progress], None]


class Accumulator(ABC, Generic[S]):
    """A sum to which blocks are added in place.

    An empty accumulator is small and survives pickle: matrices as large as the sum are allocated with the first block.
    An engine may send copies of an empty accumulator to several workers and add their results.
    """

    @abstractmethod
    def add(self, block: Block, workers: Workers) -> None:
        """Add a block with at least one row."""

    @abstractmethod
    def result(self) -> S:
        """Return the sum as a value with ``+``, complete enough for `restore` to continue from it to the bit.

        It may share memory with the accumulator, so it is valid until the next block is added.
        """

    @abstractmethod
    def restore(self, state: S) -> None:
        """Continue from a result of an earlier accumulator; this one must be empty."""


class TermSum(Accumulator[S]):
    """An accumulator of ``term(block)``, for statistics that are small."""

    def __init__(self, term: Callable[[Block], S]) -> None:
        self._term = term
        self._total: S | None = None

    def add(self, block: Block, workers: Workers) -> None:  # noqa: ARG002 - one thread evaluates a term
        part = self._term(block)
        self._total = part if self._total is None else operator.add(self._total, part)

    def result(self) -> S:
        assert self._total is not None
        return self._total

    def restore(self, state: S) -> None:
        self._total = state


class Engine(ABC):
    """A source of row blocks and a way to sum over them.

    What is summed may have to be sent to where the rows are, and its result sent back:

    - The `term` of `sum` and an empty `Accumulator` survive pickle: frozen dataclasses with ``__call__``, or
      `functools.partial` of module-level functions; no lambdas, no nested functions. They hold all that they need (the
      drawn features, the current coefficients) and refer to no learner.
    - A term is pure, and an accumulator depends on nothing but the blocks that it was given: a block may be processed
      again by another worker, and must then give the same bits.
    - Statistics survive pickle too. One with a symmetric matrix pickles a triangle of it
      (`mercer.statistics.moments.Triangular`).
    """

    #: Whether the rows can be read more than once.
    replayable: bool
    #: The number of rows, or None if it is not known beforehand.
    n_rows: int | None
    n_jobs: int | None
    #: All rows as one block, where they are in memory; otherwise None.
    in_memory: Block | None = None

    @abstractmethod
    def first(self) -> Block:
        """Return the first block that has rows."""

    @abstractmethod
    def blocks(self, since: Position = START) -> Iterator[Block]:
        """Yield the blocks in order, starting at a position: the same blocks that follow it in a complete pass."""

    @abstractmethod
    def sum(self, term: Callable[[Block], S], progress: Report | None = None) -> S:
        """Return the sum of ``term(block)`` over all blocks; report after each block."""

    @abstractmethod
    def accumulate(self, into: Accumulator[S], progress: Report | None = None) -> S:
        """Add all blocks to an accumulator and return its result; report after each block."""

    @abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """Return what identifies the rows without reading them: a checkpoint is valid for the same rows only.

        The value `UNKNOWN` matches every other value.
        """


class LocalEngine(Engine):
    """An engine that sums in this process, block after block, and can continue an interrupted pass."""

    @abstractmethod
    def position(self, row: int) -> Position:
        """Return the position of a row at which a block of the current pass has ended."""

    def sum(self, term: Callable[[Block], S], progress: Report | None = None) -> S:
        return deque(self.partial_sums(term, progress=progress), maxlen=1).pop()[1]

    def accumulate(self, into: Accumulator[S], progress: Report | None = None) -> S:
        deque(self.additions(into, progress), maxlen=0)
        return into.result()

    def partial_sums(
        self,
        term: Callable[[Block], S],
        since: Position = START,
        total: S | None = None,
        progress: Report | None = None,
        seconds: float = 0.0,
    ) -> Iterator[tuple[int, S]]:
        """Yield the number of rows done and the sum so far, after each block.

        A pass is continued from a position, the sum up to it, and the seconds that it has taken.
        """
        start = time.perf_counter() - seconds
        with workers(self.n_jobs) as team, closing_all(self.blocks(since)) as blocks:
            with_rows = (block for block in blocks if len(block))
            for row, part in team.in_order(partial(_with_end, term), with_rows):
                total = part if total is None else operator.add(total, part)
                if progress is not None:
                    progress(Progress(row, self.n_rows, time.perf_counter() - start))
                yield row, total
        if total is None:
            raise DataError(NO_ROWS)

    def additions(
        self,
        into: Accumulator[Any],
        progress: Report | None = None,
        since: Position = START,
        seconds: float = 0.0,
    ) -> Iterator[int]:
        """Add block after block, and yield the number of rows done after each; continue from a position."""
        start, rows = time.perf_counter() - seconds, since.row
        with workers(self.n_jobs) as team, closing_all(self.blocks(since)) as blocks:
            for block in blocks:
                if not len(block):
                    continue
                into.add(block, team)
                rows += len(block)
                if progress is not None:
                    progress(Progress(rows, self.n_rows, time.perf_counter() - start))
                yield rows
        if rows == 0:
            raise DataError(NO_ROWS)
        if progress is not None and self.n_rows is None:
            progress(Progress(rows, rows, time.perf_counter() - start))


def _with_end(term: Callable[[Block], S], block: Block) -> tuple[int, S]:
    return block.start + len(block), term(block)


@contextmanager
def closing_all(iterator: Iterator[T]) -> Iterator[Iterator[T]]:
    """Close a generator at the end of the with statement, also after an error, whose traceback would keep it open."""
    try:
        yield iterator
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


class Workers:
    """A team of threads; BLAS inside a task runs on one thread."""

    def __init__(self, threads: int, pool: ThreadPoolExecutor | None) -> None:
        self.threads = threads
        self._pool = pool

    def in_order(self, function: Callable[[T], S], items: Iterable[T]) -> Iterator[S]:
        """Yield ``function(item)`` in the order of the items.

        At most one item more than there are threads is in progress or waiting, which bounds the memory.
        """
        if self._pool is None:
            yield from map(function, items)
            return
        waiting: deque[Future[S]] = deque()
        try:
            for item in items:
                waiting.append(self._pool.submit(function, item))
                if len(waiting) > self.threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def run(self, function: Callable[[T], Any], items: Iterable[T]) -> None:
        """Call ``function(item)`` for all items and wait for the last; if any fail, raise the error of the first.

        The calling thread takes part, and all threads take items from one queue, since handing every item to another
        thread would cost more than a short item itself.
        """
        rest = deque(enumerate(items))
        failed: list[tuple[int, BaseException]] = []

        def work() -> None:
            while rest:
                try:
                    number, item = rest.popleft()
                except IndexError:  # another thread took the last
                    return
                try:
                    function(item)
                except BaseException as error:
                    failed.append((number, error))
                    rest.clear()

        helpers = [] if self._pool is None else [self._pool.submit(work) for _ in range(self.threads - 1)]
        work()
        for helper in helpers:
            helper.result()
        if failed:
            raise min(failed, key=operator.itemgetter(0))[1]


@contextmanager
def workers(n_jobs: int | None) -> Iterator[Workers]:
    """Provide a team of `n_jobs` threads inside a with statement."""
    threads = count_threads(n_jobs)
    with _ONE_BLAS_THREAD:
        if threads == 1:
            yield Workers(1, None)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="mercer") as pool:
            yield Workers(threads, pool)


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`; None means all cores that this process may use.

    Results do not depend on the number of threads, so the default is the fastest choice. Negative values count from
    the number of cores, as in joblib: -1 is all cores, -2 all but one.
    """
    if n_jobs is None:
        return int(joblib.cpu_count())
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool):
        msg = f"n_jobs must be None or an integer, got {n_jobs!r}."
        raise ParameterError(msg)
    if n_jobs == 0:
        msg = (
            "n_jobs must not be 0. Use None for all cores, a number of threads, or -1, -2, ... to count from all cores."
        )
        raise ParameterError(msg)
    return max(1, joblib.cpu_count() + 1 + n_jobs) if n_jobs < 0 else int(n_jobs)


class _BlasLimit:
    """Limits BLAS to one thread while any team of threads exists, and restores the previous limit afterwards.

    The setting belongs to the process, so teams that overlap share it: the first sets it and the last restores it.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset the state, as in a child process, where the threads that held the limit do not exist."""
        self._lock = threading.Lock()
        self._users = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                self._limit = _blas_libraries().limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._limit.restore_original_limits()


_ONE_BLAS_THREAD = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ONE_BLAS_THREAD.forget)


@cache
def _blas_libraries() -> ThreadpoolController:
    # Finding the loaded libraries costs milliseconds: once is enough.
    return ThreadpoolController()
