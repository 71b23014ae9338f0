"""Base classes of engines. An engine computes sums over blocks of rows, always in the same order.

A statistic is any value that supports ``+``, such as a Gram matrix or a count of labels. There are two ways to sum one:

- ``Engine.sum(term)``, for small statistics. `term` is a function of a block of rows that returns the statistic of this
  block. Several threads evaluate it for different blocks at once, but the results are added one after another in the
  order of the rows, so the sum is bitwise the same for any number of threads.
- ``Engine.accumulate(into)``, for statistics so large that one copy per block would be too much. The blocks are added
  in place to an `Accumulator`, one after another, and all threads work on the same block.

While an engine sums, BLAS runs on one thread, because the engine itself distributes the work among threads.

The rows may be on other machines, so `term` and `into` must be picklable: see `Engine`.
"""

from __future__ import annotations

import operator
import os
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Generic, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from mercer.errors import DataError, MercerError
from mercer.parameters import Choice, Instance, check_parameter, count_threads

__all__ = [
    "START",
    "UNKNOWN",
    "Accumulator",
    "Block",
    "Engine",
    "LocalEngine",
    "OutOfTimeError",
    "Position",
    "Progress",
    "Report",
    "StagedReport",
    "TermSum",
    "Workers",
    "closing_all",
    "count_threads",
    "enter_stage",
    "report_step",
    "reported",
    "row_blocks",
    "stages_of",
    "workers",
]

NO_ROWS = "There are no rows: every block was empty, or there was no block. Check what the blocks yield."

#: Value of a fingerprint entry that is not known: it matches every other value.
UNKNOWN = "unknown"
# Largest number of rows of matrices that are factorized on one thread of BLAS; see `blas_threads_for`.
SMALL_MATRIX = 2048

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Block:
    """Rows in the order of the data, with their targets and weights.

    Attributes
    ----------
    start : int
        Index of the first row in the data.
    X : ndarray or CSR of shape (n, d)
        Rows.
    y : ndarray or None
        Targets, or None if the rows have no targets.
    weight : ndarray of shape (n,) or None
        Sample weights; None means that all weights are 1.
    positions : ndarray of shape (n,) or None
        Indices of the rows in the data. None means that the rows are consecutive, from `start` on; see `index`.
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
    """Skip the first `done` rows of a block, and yield its other rows as blocks of at most `rows` rows, in order.

    Raises DataError if `done` is not a multiple of `rows`, unless no row or all rows are skipped.
    """
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
    """How far a pass over the rows has come: all rows before the index `row` have been processed."""

    row: int = 0
    item: int = 0  # index of the block or part of the source that the row belongs to
    item_row: int = 0  # index of the first row of that item


#: Position before the first row.
START = Position()


@dataclass(frozen=True)
class Progress:
    """Progress of a pass over the rows, or of another stage of a fit; the last report of a pass has ``rows == total``.

    The fields after `note` are set in reports to a user, whose passes are parts of a fit.
    """

    rows: int  # number of rows processed so far
    total: int | None  # None if the number of rows is not known before the last one is read
    seconds: float  # time since the start of the pass
    note: str = ""  # further information, such as the number of the pass
    unit: str = "rows"  # what is counted by `rows` and `total`
    stage: str = ""  # name of the stage of the fit
    fraction: float | None = None  # of the complete fit, from 0 to 1; None if it is not known
    elapsed: float | None = None  # time since the start of the fit
    owner: str = ""  # name of the estimator

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the remaining seconds at the rate so far, or None if it is not known.

        They are those of the complete fit if its fraction is known, and those of the pass if it is not part of a fit.
        """
        if self.elapsed is not None:
            return self.elapsed * (1 - self.fraction) / self.fraction if self.fraction else None
        return None if self.total is None else self.seconds * (self.total - self.rows) / max(self.rows, 1)


#: Function that an engine calls with the progress of a pass.
Report = Callable[[Progress], None]


class OutOfTimeError(MercerError):
    """Raised by a report to end the stage that it is called from, when a time limit has passed."""


class StagedReport(ABC):
    """Base class of reports that know the stages of a fit; see `mercer.engines.progress`."""

    @abstractmethod
    def __call__(self, progress: Progress) -> None:
        """Report progress within the current stage."""

    @abstractmethod
    def plan(self, costs: Mapping[str, float | None]) -> None:
        """Announce stages in their order, with their costs in any unit; None means that the cost is not known."""

    @abstractmethod
    def enter(self, name: str) -> None:
        """Start a stage."""

    @abstractmethod
    def step(self, done: int, total: int | None, note: str = "", unit: str = "steps") -> None:
        """Report that `done` of `total` steps of the current stage are done; None means that the total is not known."""

    @abstractmethod
    def close(self, *, success: bool) -> None:
        """End the display, if there is one."""


def stages_of(owner: str, progress: bool | Report) -> StagedReport | None:
    """Return the report of a fit for the parameter `progress`: a display for True, None for False."""
    check_parameter(owner, "progress", progress, Choice(True, False) | Instance(Callable, "a callable"))  # type: ignore[arg-type]
    if progress is False:
        return None
    from mercer.engines.progress import Display, Stages

    return Stages(owner, Display.here() if progress is True else progress)


@contextmanager
def reported(report: Report | None) -> Iterator[None]:
    """Context manager of a fit that ends its display, also if the fit fails."""
    success = False
    try:
        yield
        success = True
    finally:
        if isinstance(report, StagedReport):
            report.close(success=success)


def enter_stage(report: Report | None, name: str) -> None:
    """Start a stage of a fit; nothing is done if `report` is None or does not know stages."""
    if isinstance(report, StagedReport):
        report.enter(name)


def report_step(report: Report | None, done: int, total: int | None, note: str = "", unit: str = "steps") -> None:
    """Report the steps of the current stage that are done; nothing is done if `report` does not know stages."""
    if isinstance(report, StagedReport):
        report.step(done, total, note, unit)


class Accumulator(ABC, Generic[S]):
    """Base class of sums to which blocks of rows are added in place.

    An empty accumulator, to which no block has been added, must be small and picklable: large matrices are allocated
    when the first block is added. An engine may send copies of an empty accumulator to several workers and add their
    results.
    """

    @abstractmethod
    def add(self, block: Block, workers: Workers) -> None:
        """Add a block with at least one row."""

    @abstractmethod
    def result(self) -> S:
        """Return the sum over the blocks added so far, as a value that supports ``+``.

        The sum is also the complete state of the accumulator: if it is passed to `restore` of an empty accumulator, and
        the remaining blocks are added to that accumulator, the final sum is bitwise the same. The returned value may
        share memory with this accumulator, so it is valid only until the next block is added.
        """

    @abstractmethod
    def restore(self, state: S) -> None:
        """Set the sum of this empty accumulator to `state`, the `result` of an earlier accumulator."""

    #: Optional method ``finish(total) -> S``: what learners use in place of the sum over all rows.
    finish: Callable[[S], S] | None = None


class TermSum(Accumulator[S]):
    """Accumulator that sums ``term(block)``, for a function `term` that returns a small statistic of a block."""

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
    """Base class of engines, which provide rows in blocks and compute sums over the blocks.

    The rows may be in other processes, so the argument `term` of `sum` and the argument `into` of `accumulate` are sent
    to them, and the sums are sent back. This requires:

    - `term` and an empty `Accumulator` are picklable. Use frozen dataclasses with ``__call__``, or `functools.partial`
      of module-level functions, but no lambdas or nested functions. They hold everything they need, such as the sampled
      features and the current coefficients, and do not refer to a learner.
    - `term` is a pure function, and an accumulator depends only on the blocks added to it. A block may be processed
      again by another worker, and must then give bitwise the same result.
    - Statistics are picklable. Those with a symmetric matrix pickle only one triangle of it
      (`mercer.statistics.moments.Triangular`).
    """

    #: Whether the rows can be read more than once.
    replayable: bool
    #: The number of rows, or None if it is not known beforehand.
    n_rows: int | None
    #: The number of threads, as in joblib; None means all cores.
    n_jobs: int | None
    #: All rows as one block if they are in memory; otherwise None.
    in_memory: Block | None = None

    @abstractmethod
    def first(self) -> Block:
        """Return the first block that has rows. It may have fewer rows than the first block that `blocks` yields."""

    @abstractmethod
    def blocks(self, since: Position = START) -> Iterator[Block]:
        """Yield the blocks of rows in order, from the position `since` on.

        The boundaries between the blocks are those of a pass over all rows.
        """

    @abstractmethod
    def sum(self, term: Callable[[Block], S], progress: Report | None = None) -> S:
        """Return the sum of ``term(block)`` over all blocks, and call `progress` as blocks are processed."""

    @abstractmethod
    def accumulate(self, into: Accumulator[S], progress: Report | None = None) -> S:
        """Add all blocks to the empty accumulator `into` and return the sum; call `progress` as blocks are processed.

        `into` itself may remain empty, if the blocks are added to copies of it in other processes.
        """

    @abstractmethod
    def fingerprint(self) -> dict[str, str]:
        """Return named strings that identify the rows, such as their number and a digest.

        A fit resumes from a checkpoint only if the fingerprint of its rows equals the one in the checkpoint. The value
        `UNKNOWN` matches every other value.
        """


class LocalEngine(Engine):
    """Base class of engines that sum in this process, block after block, and can continue an interrupted pass."""

    @abstractmethod
    def position(self, row: int) -> Position:
        """Return the `Position` before `row`, from which `blocks` can continue the current pass.

        A block of the current pass must end at `row`.
        """

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
        """Sum ``term(block)`` over the blocks. After each block, yield the number of rows so far and the sum so far.

        To continue an interrupted pass, specify the position `since` where it stopped, its sum `total` up to there, and
        its time `seconds` up to there.
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
        """Add the blocks to `into`, and yield the number of rows processed so far after each block.

        To continue an interrupted pass, restore `into` first, and specify the position `since` where the pass stopped
        and its time `seconds` up to there.
        """
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
    """Return the index after the last row of a block, and ``term(block)``."""
    return block.start + len(block), term(block)


@contextmanager
def closing_all(iterator: Iterator[T]) -> Iterator[Iterator[T]]:
    """Provide an iterator inside a with statement, and close it at the end if it is a generator.

    Otherwise, after an error, the generator would stay open as long as the traceback, which refers to it, exists.
    """
    try:
        yield iterator
    finally:
        close = getattr(iterator, "close", None)
        if close is not None:
            close()


class Workers:
    """Pool of `threads` threads that evaluate functions. While the pool exists, BLAS runs on one thread."""

    def __init__(self, threads: int, pool: ThreadPoolExecutor | None) -> None:
        self.threads = threads
        self._pool = pool

    def in_order(self, function: Callable[[T], S], items: Iterable[T]) -> Iterator[S]:
        """Yield ``function(item)`` for all items, in their order, evaluated by several threads.

        To bound the memory, at most ``threads + 1`` items are taken from `items` before their results are yielded.
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
        """Call ``function(item)`` for all items on all threads, and return when all calls have finished.

        If calls fail, no further items are started, and the error of the earliest item that failed is raised. The
        calling thread also takes items from the common queue: submitting each item to the pool as a separate task would
        take longer than a short item itself.
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
    """Provide a pool of `n_jobs` threads inside a with statement; see `count_threads` for `n_jobs`."""
    threads = count_threads(n_jobs)
    with _ONE_BLAS_THREAD:
        if threads == 1:
            yield Workers(1, None)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="mercer") as pool:
            yield Workers(threads, pool)


def blas_threads_for(size: int) -> AbstractContextManager[None]:
    """Return a context manager that limits BLAS to one thread if matrices are small.

    Factorizations of small matrices consist of many short products. On a machine that other programs use, threads of
    BLAS wait for each other in each of them: two fits on two threads took 2 and more than 8 times as long as on one.

    Parameters
    ----------
    size : int
        Number of rows of the matrices that are factorized; at most `SMALL_MATRIX` is small.
    """
    return _ONE_BLAS_THREAD if size <= SMALL_MATRIX else nullcontext()


class _BlasLimit:
    """Context manager that limits BLAS to one thread, and restores the previous limit at the end.

    The limit applies to the whole process. If several with statements overlap, the first one sets the limit and the
    last one restores it.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Reset the count of users in a forked child process, where the threads that used the limit do not exist."""
        self._lock = threading.Lock()
        self._users = 0
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1:
                _release_blas()
                self._limit = _blas_libraries().limit(limits=1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                _release_blas()
                self._limit.restore_original_limits()
                _release_blas()


_ONE_BLAS_THREAD = _BlasLimit()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_ONE_BLAS_THREAD.forget)


@cache
def _blas_libraries() -> ThreadpoolController:
    # Finding the loaded libraries takes milliseconds, so it is done once.
    return ThreadpoolController()


def _release_blas() -> None:
    """Let the calling thread change the number of threads of BLAS.

    From version 3.8 on, threadpoolctl ignores all other threads once one has changed it, as long as that one lives. The
    thread that restores the number need not be the one that set it, and the threads of a pool live on.
    """
    for library in _blas_libraries().lib_controllers:
        clear = getattr(library, "clear_controlling_thread", None)
        if clear is not None:
            clear(force=True)
