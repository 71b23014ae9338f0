"""Progress of solvers whose number of passes over the rows is not known in advance."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from mercer.engines import Progress

__all__ = ["Passes"]


class Passes:
    """Counts the passes of a solver over the rows, and reports their progress.

    There are two ways to report. `tell` and `end` are for many short passes: the number of rows reported is the total
    over all passes. `within` and `done` are for long passes: progress is reported within each pass, with the number of
    the pass as a note. Seconds are counted from the start of the pass, so the estimated remaining time is for this pass
    alone.

    Parameters
    ----------
    report : callable or None
        Called with each `Progress`; None means that nothing is reported.

    Attributes
    ----------
    count : int
        Number of finished passes.
    """

    def __init__(self, report: Callable[[Progress], None] | None) -> None:
        self.count = 0
        self._report = report
        self._start = time.perf_counter()
        self._rows = 0
        self._before = 0  # rows of all passes of earlier runs of the solver
        self._read = 0  # rows of the current pass that the engine has reported, with or without a label
        self._note = ""

    # ---- rows of all passes together ----------------------------------------------------------

    def tell(self, rows: int, number: int) -> None:
        """Report that pass `number` of a solver, counted from 1, over `rows` rows is finished."""
        self.count += 1
        self._before = self._rows if number == 1 else self._before
        self._rows = self._before + rows * number
        self._send(Progress(self._rows, None, self._seconds()))

    def end(self) -> None:
        """Report that the last pass is finished, with the number of rows of all passes as the total."""
        self._send(Progress(self._rows, self._rows, self._seconds()))

    # ---- each pass by itself ------------------------------------------------------------------

    @property
    def within(self) -> Callable[[Progress], None] | None:
        """Function to pass as `progress` to the engine in the next pass, or None if progress is not reported."""
        return None if self._report is None else self._part

    def _part(self, progress: Progress) -> None:
        """Pass on the progress of an engine within a pass, with the number of the pass as a note."""
        self._read = progress.rows
        if progress.rows != progress.total:  # the end of a pass is reported by `done`, with a note
            self._send(replace(progress, note=self._describe(self.count + 1)))

    def done(self, rows: int, note: str = "") -> None:
        """Report that a pass over `rows` rows is finished; `note` is displayed until another note replaces it."""
        self.count += 1
        self._note = note or self._note
        rows, self._read = self._read or rows, 0  # the engine also counts rows that have no label
        self._send(Progress(rows, rows, self._seconds(), self._describe(self.count)))

    def _describe(self, number: int) -> str:
        """Return "pass `number`", followed by the latest note of the solver if there is one."""
        return f"pass {number}" + (f", {self._note}" if self._note else "")

    def _seconds(self) -> float:
        return time.perf_counter() - self._start

    def _send(self, progress: Progress) -> None:
        if self._report is not None:
            self._report(progress)
