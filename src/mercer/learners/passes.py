"""Progress of learners that read the rows many times, nobody knows how often."""

from __future__ import annotations

import time
from collections.abc import Callable

from mercer.engines import Progress

__all__ = ["Passes"]


class Passes:
    """Tells of the passes over the rows as they are done."""

    def __init__(self, report: Callable[[Progress], None] | None) -> None:
        self._report = report
        self._start = time.perf_counter()
        self._rows = 0
        self._before = 0  # rows of runs that came before this one

    def tell(self, rows: int, number: int) -> None:
        """Report pass `number` over so many rows; how many there will be, nobody knows."""
        self._before = self._rows if number == 1 else self._before
        self._rows = self._before + rows * number
        self._send(None)

    def end(self) -> None:
        """Report that there will be no more."""
        self._send(self._rows)

    def _send(self, total: int | None) -> None:
        if self._report is not None:
            self._report(Progress(self._rows, total, time.perf_counter() - self._start))
