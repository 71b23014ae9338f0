"""The contract of an engine: add one statistic over row blocks, always in the same order.

A statistic is any value with ``+``. Parts of it may be computed by several threads at once, but they are added one
after another in the order of the rows: equal rows give equal bits for any number of threads. Inside a part, BLAS
runs on one thread, because the engine owns all parallelism.

Small statistics come from `Engine.sum`, one term a block. Large ones, whose terms would be as large as the sum, come
from `Engine.accumulate`: blocks one after another, all threads at work on each, added in place.

Rows may lie on other machines, so what is summed must be able to travel: see `Engine`.
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
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController

from mercer.errors import DataError, ParameterError

if TYPE_CHECKING:
    from mercer.engines.checkpoint import Journal

__all__ = [
    "BEGIN",
    "UNKNOWN",
    "Accumulator",
    "Block",
    "Engine",
    "Place",
    "Progress",
    "Workers",
    "closing_all",
    "count_threads",
    "row_blocks",
    "workers",
]

NO_ROWS = "There are no rows: every block was empty, or there was no block. Check what the blocks yield."

#: In place of a fact that nobody knows: it differs from none.
UNKNOWN = "unknown"

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Block:
    """Consecutive rows with their targets and weights; `start` is the index of the first row in the data.

    Where some rows have been left out, `places` has the indices of the others; see `index`.
    """

    start: int
    X: Any
    y: Any = None  # an array, or None where there are no targets
    weight: np.ndarray | None = None
    places: np.ndarray | None = None

    def __len__(self) -> int:
        return self.X.shape[0]

    @property
    def index(self) -> np.ndarray:
        """Indices of the rows in the data."""
        return np.arange(self.start, self.start + len(self)) if self.places is None else self.places


def row_blocks(block: Block, rows: int, done: int = 0) -> Iterator[Block]:
    """Cut a block into consecutive ones of at most `rows` rows, and leave out those among the first `done` rows."""
    if 0 < done < len(block) and done % rows:
        msg = f"Row {block.start + done} is not where a block ends: {rows} rows are worked on at a time."
        raise DataError(msg)
    for i in range(max(0, done), len(block), rows):
        part = slice(i, i + rows)
        y = None if block.y is None else block.y[part]
        weight = None if block.weight is None else block.weight[part]
        places = None if block.places is None else block.places[part]
        yield Block(block.start + i, block.X[part], y, weight, places)


@dataclass(frozen=True)
class Place:
    """Where a pass over the rows stands: all rows before `row` are done."""

    row: int = 0
    item: int = 0  # the block or part of the source that the row belongs to
    item_row: int = 0  # the first row of that


BEGIN = Place()


@dataclass(frozen=True)
class Progress:
    """How far a pass over the rows has come; the last report has ``rows == total``."""

    rows: int
    total: int | None  # None if the number of rows is not known before the last one is read
    seconds: float
    note: str = ""  # what else there is to say, such as the number of the pass

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the time to go, at the rate so far."""
        return None if self.total is None else self.seconds * (self.total - self.rows) / max(self.rows, 1)


class Accumulator(ABC, Generic[S]):
    """A sum that blocks are added to in place.

    An empty one is a small value that survives pickle: matrices as large as the sum are made when the first block is
    added. An engine may send copies of an empty one to several places and add their results.
    """

    @abstractmethod
    def add(self, block: Block, workers: Workers) -> None:
        """Add a block that has rows."""

    @abstractmethod
    def result(self) -> S:
        """Return the sum as a value with ``+``."""

    def state(self) -> Any:
        """Return the sum so far, whole: all that `restore` needs to go on from here to the bit.

        It may share memory with the sum, so it is good until the next block is added.
        """
        return self.result()

    @abstractmethod
    def restore(self, state: Any) -> None:
        """Go on from what `state` returned, in place of nothing."""


class Engine(ABC):
    """A source of row blocks and a way to add over them.

    What is to be added may have to travel to where the rows are, and come back:

    - The `term` of `sum` and an empty `Accumulator` survive pickle: frozen dataclasses with ``__call__``, or
      `functools.partial` of functions of a module; no lambdas, no functions inside functions. They hold all that they
      need (the drawn features, the coefficients of this step) and refer to no learner.
    - A term is pure, and an accumulator depends on nothing but the blocks it was given: a block may be worked on again
      elsewhere, and must then give the same bits.
    - Statistics survive pickle too. One with a symmetric matrix pickles a triangle of it
      (`mercer.statistics.moments.Triangular`).
    """

    #: Whether the rows can be read more than once.
    replayable: bool
    #: The number of rows, or None if it is not known beforehand.
    n_rows: int | None
    n_jobs: int | None

    #: Where finished sums are kept, so that a fit that was stopped can go on.
    journal: Journal | None = None
    #: Whether a pass can begin in the middle: `blocks` takes a place, and `place` tells one.
    resumable: bool = False

    @abstractmethod
    def blocks(self, since: Place = BEGIN) -> Iterator[Block]:
        """Yield the blocks in order, from a place on: the same blocks that follow it in a pass from the begin."""

    def place(self, row: int) -> Place:
        """Return the place of a row that a block has ended at, in the pass under way."""
        return Place(row)

    def facts(self) -> dict[str, str]:
        """Return what is known of the rows beforehand, in words: a checkpoint is for the same rows only."""
        return {"number of rows": str(self.n_rows), "digest of all rows": UNKNOWN}

    def first(self) -> Block:
        """Return the first block that has rows."""
        with closing_all(self.blocks()) as blocks:
            for block in blocks:
                if len(block):
                    return block
        raise DataError(NO_ROWS)

    def sum(self, term: Callable[[Block], S], progress: Callable[[Progress], None] | None = None) -> S:
        """Return the sum of ``term(block)`` over all blocks; report after each block."""
        return self.sum_anew(term, progress) if self.journal is None else self.journal.sum(self, term, progress)

    def accumulate(self, into: Accumulator[S], progress: Callable[[Progress], None] | None = None) -> S:
        """Add all blocks to an accumulator and return its result; report after each block."""
        if self.journal is None:
            return self.accumulate_anew(into, progress)
        return self.journal.accumulate(self, into, progress)

    # ---- how an engine adds: one that adds elsewhere does these in its own way --------------------

    def sum_anew(self, term: Callable[[Block], S], progress: Callable[[Progress], None] | None = None) -> S:
        """Add over all blocks, whatever a journal says."""
        return deque(self.sums(term, progress=progress), maxlen=1).pop()[1]

    def sums(
        self,
        term: Callable[[Block], S],
        since: Place = BEGIN,
        total: S | None = None,
        progress: Callable[[Progress], None] | None = None,
        seconds: float = 0.0,
    ) -> Iterator[tuple[int, S]]:
        """Yield after each block how many rows are done and the sum so far; go on from a place, a sum and a time."""
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

    def accumulate_anew(self, into: Accumulator[S], progress: Callable[[Progress], None] | None = None) -> S:
        """Add all blocks to an accumulator, whatever a journal says."""
        deque(self.additions(into, progress), maxlen=0)
        return into.result()

    def additions(
        self,
        into: Accumulator[Any],
        progress: Callable[[Progress], None] | None = None,
        since: Place = BEGIN,
        seconds: float = 0.0,
    ) -> Iterator[int]:
        """Add block after block, and yield after each how many rows are done; go on from a place after some time."""
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
    """Close a generator at the end of the block, also after an error, whose traceback would keep it open."""
    try:
        yield iterator
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


class Workers:
    """Threads that work through tasks; BLAS inside a task runs on one thread."""

    def __init__(self, threads: int, pool: ThreadPoolExecutor | None) -> None:
        self.threads = threads
        self._pool = pool

    def in_order(self, function: Callable[[T], S], items: Iterable[T]) -> Iterator[S]:
        """Yield ``function(item)`` in the order of the items, a few ahead at a time.

        At most one item more than there are threads is under way or waiting, which bounds the memory.
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

        The calling thread works too, and all take items from one queue: short items would cost less than handing each
        to another thread.
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
    """Provide a team of threads for `n_jobs` while the block runs."""
    threads = count_threads(n_jobs)
    with _ONE_BLAS_THREAD:
        if threads == 1:
            yield Workers(1, None)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="mercer") as pool:
            yield Workers(threads, pool)


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`: None means all cores this process may use.

    Results do not depend on it, so the default is the fastest choice. Negative values count from the end, as
    in joblib: -1 is all cores, -2 all but one.
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
    """Keeps BLAS on one thread as long as anybody works, and then gives it back as it was.

    The setting belongs to the process, so teams that overlap must share it: the first in sets it, the last out
    restores it.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start anew, as in a child process, where the threads that held the limit do not exist."""
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
