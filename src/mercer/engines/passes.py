"""Progress of solvers whose number of passes over the rows is not known in advance."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from mercer.engines import Progress

__all__ = ["Passes"]


class Passes:
    """Counts passes over the rows, and reports them.

    `tell` and `end` are for many short passes, whose rows add up. `within` and `done` are for passes that may be long:
    each is reported by its number, and its seconds are its own, so that the remaining time is that of the pass.
    """

    def __init__(self, report: Callable[[Progress], None] | None) -> None:
        self.count = 0
        self._report = report
        self._start = time.perf_counter()
        self._rows = 0
        self._before = 0  # rows of earlier runs
        self._read = 0  # rows of the current pass, labeled or not, as far as reported
        self._note = ""

    # ---- rows of all passes together ----------------------------------------------------------

    def tell(self, rows: int, number: int) -> None:
        """Report pass `number` over so many rows; the total number of passes is unknown."""
        self.count += 1
        self._before = self._rows if number == 1 else self._before
        self._rows = self._before + rows * number
        self._send(Progress(self._rows, None, self._seconds()))

    def end(self) -> None:
        """Report that the last pass is done."""
        self._send(Progress(self._rows, self._rows, self._seconds()))

    # ---- each pass by itself ------------------------------------------------------------------

    @property
    def within(self) -> Callable[[Progress], None] | None:
        """The receiver of the progress of an engine in the next pass, or None if progress is not reported."""
        return None if self._report is None else self._part

    def _part(self, progress: Progress) -> None:
        self._read = progress.rows
        if progress.rows != progress.total:  # the end of a pass is reported by `done`, with a note
            self._send(replace(progress, note=self._describe(self.count + 1)))

    def done(self, rows: int, note: str = "") -> None:
        """Report a finished pass over so many rows, with a note that also describes the next passes."""
        self.count += 1
        self._note = note or self._note
        rows, self._read = self._read or rows, 0  # with rows that have no label
        self._send(Progress(rows, rows, self._seconds(), self._describe(self.count)))

    def _describe(self, number: int) -> str:
        return f"pass {number}" + (f", {self._note}" if self._note else "")

    def _seconds(self) -> float:
        return time.perf_counter() - self._start

    def _send(self, progress: Progress) -> None:
        if self._report is not None:
            self._report(progress)
