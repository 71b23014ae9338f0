"""Progress of learners that read the rows many times, nobody knows how often."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from mercer.engines import Progress

__all__ = ["Passes"]


class Passes:
    """Counts passes over the rows, and tells of them: as they are done, or also how far each has come.

    `tell` and `end` are for runs of many short passes, whose rows add up. `within` and `done` are for passes that may
    be long: each is told by its number. Within a pass, seconds are those of the pass, so that the time left is its own.
    """

    def __init__(self, report: Callable[[Progress], None] | None) -> None:
        self.count = 0
        self._report = report
        self._start = time.perf_counter()
        self._rows = 0
        self._before = 0  # rows of runs that came before this one
        self._read = 0  # rows of the pass that is under way, labeled or not, as far as was told
        self._note = ""

    # ---- rows of all passes together ----------------------------------------------------------

    def tell(self, rows: int, number: int) -> None:
        """Report pass `number` over so many rows; how many there will be, nobody knows."""
        self.count += 1
        self._before = self._rows if number == 1 else self._before
        self._rows = self._before + rows * number
        self._send(Progress(self._rows, None, self._seconds()))

    def end(self) -> None:
        """Report that there will be no more."""
        self._send(Progress(self._rows, self._rows, self._seconds()))

    # ---- each pass by itself ------------------------------------------------------------------

    @property
    def within(self) -> Callable[[Progress], None] | None:
        """What an engine reports its blocks to, in the pass that comes next; None if nobody listens."""
        return None if self._report is None else self._part

    def _part(self, progress: Progress) -> None:
        self._read = progress.rows
        if progress.rows != progress.total:  # that a pass is over is told by `done`, which knows more
            self._send(replace(progress, note=self._words(self.count + 1)))

    def done(self, rows: int, note: str = "") -> None:
        """Report a pass over so many rows, and what there is to say of it and of those to come."""
        self.count += 1
        self._note = note or self._note
        rows, self._read = self._read or rows, 0  # of which some may count for nothing
        self._send(Progress(rows, rows, self._seconds(), self._words(self.count)))

    def _words(self, number: int) -> str:
        return f"pass {number}" + (f", {self._note}" if self._note else "")

    def _seconds(self) -> float:
        return time.perf_counter() - self._start

    def _send(self, progress: Progress) -> None:
        if self._report is not None:
            self._report(progress)
