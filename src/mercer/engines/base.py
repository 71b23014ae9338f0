"""The contract of an engine: add one statistic over row blocks, always in the same order.

A statistic is any value with ``+``. Terms of different blocks may be computed by several threads at once, but
they are added one after another in the order of the blocks: equal rows give equal bits for any number of
threads. Inside a term, BLAS runs on one thread, because the engine owns all parallelism.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any, TypeVar

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController

from mercer.errors import DataError, ParameterError

__all__ = ["Block", "Engine", "count_threads", "in_order"]

NO_ROWS = "There are no rows: every block was empty, or there was no block. Check what the blocks yield."

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class Block:
    """Consecutive rows with their targets and weights; `start` is the index of the first row in the data."""

    start: int
    X: Any
    y: Any = None  # an array, or None where there are no targets
    weight: np.ndarray | None = None

    def __len__(self) -> int:
        return self.X.shape[0]


class Engine(ABC):
    """A source of row blocks and a way to add over them."""

    #: Whether the rows can be read more than once.
    replayable: bool
    n_jobs: int | None

    @abstractmethod
    def blocks(self) -> Iterator[Block]:
        """Yield the blocks in order."""

    def first(self) -> Block:
        """Return the first block that has rows."""
        for block in self.blocks():
            if len(block):
                return block
        raise DataError(NO_ROWS)

    def sum(self, term: Callable[[Block], S]) -> S:
        """Return the sum of ``term(block)`` over all blocks."""
        with_rows = (block for block in self.blocks() if len(block))
        terms = in_order(term, with_rows, count_threads(self.n_jobs))
        try:
            first = next(terms)
        except StopIteration:
            raise DataError(NO_ROWS) from None
        return reduce(operator.add, terms, first)


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`: None means all cores this process may use.

    Results do not depend on it, so the default is the fastest choice. Negative values count from the end, as
    in joblib: -1 is all cores, -2 all but one.
    """
    if n_jobs is None:
        return joblib.cpu_count()
    if n_jobs == 0:
        msg = (
            "n_jobs must not be 0. Use None for all cores, a number of threads, or -1, -2, ... to count from all cores."
        )
        raise ParameterError(msg)
    return max(1, joblib.cpu_count() + 1 + n_jobs) if n_jobs < 0 else int(n_jobs)


def in_order(function: Callable[[T], S], items: Iterable[T], threads: int) -> Iterator[S]:
    """Yield ``function(item)`` in the order of the items, a few ahead at a time on several threads.

    At most ``threads`` items are under way or waiting, which bounds the memory.
    """
    with _blas_threads().limit(limits=1, user_api="blas"):
        if threads == 1:
            yield from map(function, items)
            return
        with ThreadPoolExecutor(threads, thread_name_prefix="mercer") as pool:
            waiting: deque[Future[S]] = deque()
            try:
                for item in items:
                    waiting.append(pool.submit(function, item))
                    if len(waiting) >= threads + 1:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                for future in waiting:
                    future.cancel()


@cache
def _blas_threads() -> ThreadpoolController:
    # Finding the loaded libraries costs milliseconds: once is enough.
    return ThreadpoolController()
