"""Progress of a fit: its stages, their share of the work, and their display on a terminal, in a notebook or in a log.

A fit has one `Stages` object. It is a `Report`, so that it can be passed to `Engine.sum` and to `Passes`, and it knows
which stage the reports belong to, and which fraction of the fit is done. Solvers call ``enter_stage(report, name)`` of
`mercer.engines` before they start a stage, and ``report_step(report, done, total)`` in a stage that does not read rows.
Both accept None and plain callables.

The fraction goes by the costs of the stages, which are estimated before the fit. A stage has no cost if it is not known
how many passes its solver will take; there is no fraction then until this stage is finished.
"""

from __future__ import annotations

import importlib
import logging
import shutil
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from mercer.engines.base import Progress, Report, StagedReport

__all__ = [
    "Display",
    "LogDisplay",
    "NotebookDisplay",
    "Stages",
    "TerminalDisplay",
    "describe",
]

Clock = Callable[[], float]
# The remaining time of a fit is shown from this fraction on.
LEAST_FRACTION = 0.02


# ---- stages of a fit --------------------------------------------------------------------------


class Stages(StagedReport):
    """Report of a fit that consists of stages.

    Parameters
    ----------
    owner : str
        Name of the estimator or function, which lines start with.
    report : callable
        Receives each `Progress`, with the stage and the fraction of the fit. A `Display` also receives the start of
        each stage.
    clock : callable, default=time.perf_counter
        Returns seconds.
    """

    def __init__(self, owner: str, report: Report, clock: Clock = time.perf_counter) -> None:
        self.owner = owner
        self._report = report
        self._clock = clock
        self._start = self._stage_start = clock()
        self._costs: dict[str, float | None] = {}
        self._stage = ""
        self._planned = ""  # the stage with a cost that the current stage is, or is a part of
        self._finished: set[str] = set()
        self._fraction = 0.0

    def plan(self, costs: Mapping[str, float | None]) -> None:
        """Announce stages in their order, with their costs in any unit; None means that the cost is not known."""
        self._costs.update(costs)

    def enter(self, name: str) -> None:
        """Start a stage. All stages that were announced before it are finished, or skipped.

        A stage that was not announced is a part of the current one, of unknown length.
        """
        if name in self._costs:
            names = list(self._costs)
            self._finished.update(names[: names.index(name)])
            self._planned = name
        self._stage, self._stage_start = name, self._clock()
        if isinstance(self._report, Display):
            self._report.start(self._complete(Progress(0, None, 0.0), 0.0))

    def __call__(self, progress: Progress) -> None:
        """Report progress within the current stage."""
        within = 0.0 if not progress.total else progress.rows / progress.total
        self._report(self._complete(progress, within))

    def step(self, done: int, total: int | None, note: str = "", unit: str = "steps") -> None:
        """Report that `done` of `total` steps of the current stage are done; None means that the total is not known."""
        self(Progress(done, total, self._clock() - self._stage_start, note, unit=unit))

    def close(self, *, success: bool) -> None:
        """End the display, if there is one."""
        if isinstance(self._report, Display):
            self._fraction = 1.0 if success else self._fraction
            elapsed = self._clock() - self._start
            self._report.end(Progress(0, None, elapsed, owner=self.owner, elapsed=elapsed), success=success)

    def _complete(self, progress: Progress, within: float) -> Progress:
        fraction = self._so_far(within)
        elapsed = self._clock() - self._start
        return replace(progress, stage=self._stage, fraction=fraction, elapsed=elapsed, owner=self.owner)

    def _so_far(self, within: float) -> float | None:
        """Return the fraction of the fit that is done, or None if a stage that is not finished has no cost."""
        if any(cost is None for name, cost in self._costs.items() if name not in self._finished):
            return None
        total = sum(cost or 0.0 for cost in self._costs.values())
        done = sum(self._costs[name] or 0.0 for name in self._finished)
        if self._stage == self._planned and self._stage in self._costs and self._stage not in self._finished:
            done += (self._costs[self._stage] or 0.0) * within
        if not total:
            return None
        self._fraction = max(self._fraction, min(done / total, 1.0))  # a stage may be repeated
        return self._fraction


# ---- displays ---------------------------------------------------------------------------------


class Display(ABC):
    """Base class of displays: one line for the complete fit.

    Parameters
    ----------
    clock : callable, default=time.perf_counter
        Returns seconds.
    """

    #: Seconds after which a line is repeated with the current time, in stages that report nothing; None means never.
    beat: ClassVar[float | None] = None

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        self._clock = clock
        self._last: float | None = None  # time of the latest line
        self._latest: tuple[float, Progress] | None = None  # the latest progress, and when it arrived
        self._lock = threading.RLock()
        self._ended = threading.Event()

    @staticmethod
    def here() -> Display:
        """Return the display that suits this process: a notebook, a terminal, or a log."""
        if _in_notebook():
            return NotebookDisplay()
        return TerminalDisplay() if sys.stderr.isatty() else LogDisplay()

    def __call__(self, progress: Progress) -> None:
        with self._lock:
            self._latest = self._clock(), progress
            if self._is_due(progress):
                self._write(progress)

    def start(self, progress: Progress) -> None:
        """Show that a stage starts."""
        with self._lock:
            if self._latest is None and self.beat is not None:
                threading.Thread(target=self._beat, name="mercer-progress", daemon=True).start()
            self._latest = self._clock(), progress
            if self._starts_show(progress):
                self._write(progress)

    def end(self, progress: Progress, *, success: bool) -> None:
        """Show that the fit is done, or that it has failed."""
        self._ended.set()
        what = "done in" if success else "stopped after"
        with self._lock:
            self._end(f"{progress.owner}: {what} {duration(progress.seconds)}")

    def _beat(self) -> None:
        while not self._ended.wait(self.beat):
            self.repeat()

    def repeat(self) -> None:
        """Show the latest progress again, with the current time, if nothing was shown for `beat` seconds."""
        with self._lock:
            if self._latest is None or self._ended.is_set() or self._seconds_since_last() < (self.beat or 0.0):
                return
            at, progress = self._latest
            self._write(replace(progress, elapsed=(progress.elapsed or 0.0) + self._clock() - at))

    def _write(self, progress: Progress) -> None:
        self._last = self._clock()
        self._show(describe(progress), progress)

    def _seconds_since_last(self) -> float:
        return float("inf") if self._last is None else self._clock() - self._last

    @abstractmethod
    def _is_due(self, progress: Progress) -> bool:
        """Return whether progress within a stage is shown now."""

    @abstractmethod
    def _starts_show(self, progress: Progress) -> bool:
        """Return whether the start of a stage is shown now."""

    @abstractmethod
    def _show(self, line: str, progress: Progress) -> None:
        """Show a line."""

    @abstractmethod
    def _end(self, line: str) -> None:
        """Show the last line."""


class TerminalDisplay(Display):
    """Display on a terminal: a line that replaces the previous line, at most ten times per second."""

    beat = 1.0

    def _is_due(self, progress: Progress) -> bool:  # noqa: ARG002 - the signature of the contract
        return self._seconds_since_last() >= 0.1

    def _starts_show(self, progress: Progress) -> bool:  # noqa: ARG002 - the signature of the contract
        return True

    def _show(self, line: str, progress: Progress) -> None:  # noqa: ARG002 - the signature of the contract
        # A line that wraps could not be replaced.
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r\033[K" + (line if len(line) <= width else line[: width - 1] + "…"))
        sys.stderr.flush()

    def _end(self, line: str) -> None:
        sys.stderr.write(f"\r\033[K{line}\n")
        sys.stderr.flush()


class NotebookDisplay(Display):
    """Display in a notebook: an output of text that is updated, at most five times per second."""

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        super().__init__(clock)
        self._handle: Any = None

    def _is_due(self, progress: Progress) -> bool:  # noqa: ARG002 - the signature of the contract
        return self._seconds_since_last() >= 0.2

    def _starts_show(self, progress: Progress) -> bool:  # noqa: ARG002 - the signature of the contract
        return True

    def _show(self, line: str, progress: Progress) -> None:  # noqa: ARG002 - the signature of the contract
        self._end(line)

    def _end(self, line: str) -> None:
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display({"text/plain": line}, raw=True, display_id=True)
        else:
            self._handle.update({"text/plain": line}, raw=True)


class LogDisplay(Display):
    """Display in a log: a line per tenth of the fit, but not more than one per second, and at least one in 30 seconds.

    Lines go to the logger "mercer" at the level INFO, if logging is set up for it, and to standard error otherwise.
    """

    beat = 30.0

    def __init__(self, clock: Clock = time.perf_counter) -> None:
        super().__init__(clock)
        self._tenths = 0

    def _is_due(self, progress: Progress) -> bool:
        since = self._seconds_since_last()
        return since >= 30 or (since >= 1 and self._tenths_of(progress) > self._tenths)

    def _starts_show(self, progress: Progress) -> bool:  # noqa: ARG002 - the signature of the contract
        return self._seconds_since_last() >= 1

    def _tenths_of(self, progress: Progress) -> int:
        return 0 if progress.fraction is None else int(10 * progress.fraction)

    def _show(self, line: str, progress: Progress) -> None:
        self._tenths = max(self._tenths, self._tenths_of(progress))
        self._end(line)

    def _end(self, line: str) -> None:
        logger = logging.getLogger("mercer")
        if logger.hasHandlers() and logger.isEnabledFor(logging.INFO):
            logger.info(line)
        else:
            sys.stderr.write(line + "\n")
            sys.stderr.flush()


def _in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, without importing IPython."""
    shell = sys.modules.get("IPython")
    current = None if shell is None else shell.get_ipython()
    return current is not None and hasattr(current, "kernel")


# ---- text -------------------------------------------------------------------------------------


def describe(progress: Progress) -> str:
    """Return progress as one line of text.

    Examples
    --------
    >>> describe(Progress(rows=20000, total=60000, seconds=2.5))
    '20,000 of 60,000 rows, 2.5 s, about 5.0 s left'
    >>> describe(Progress(7, 9, 2.5, unit="strengths", owner="Search", stage="compare", fraction=0.5, elapsed=70))
    'Search: compare, 7 of 9 strengths, 50 %, 1 min 10 s, about 1 min 10 s left'
    """
    parts = [progress.stage, progress.note]
    if progress.total is not None or progress.rows:
        of = "" if progress.total is None else f" of {progress.total:,}"
        parts.append(f"{progress.rows:,}{of} {progress.unit}")
    if progress.fraction is not None:
        parts.append(f"{100 * progress.fraction:.0f} %")
    parts.append(duration(progress.seconds if progress.elapsed is None else progress.elapsed))
    left = progress.seconds_left
    if left and (progress.fraction is None or progress.fraction >= LEAST_FRACTION):
        parts.append(f"about {duration(left)} left")
    return (f"{progress.owner}: " if progress.owner else "") + ", ".join(part for part in parts if part)


def duration(seconds: float) -> str:
    """Return a number of seconds as text.

    Examples
    --------
    >>> duration(2.5), duration(70), duration(7260)
    ('2.5 s', '1 min 10 s', '2 h 1 min')
    """
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
