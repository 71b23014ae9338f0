"""Time, memory and progress of a workflow that consists of several steps."""

from __future__ import annotations

import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from mercer.engines import Progress, Report
from mercer.engines.progress import Display

__all__ = [
    "Deadline",
    "PeakMemory",
    "Steps",
    "available_bytes",
    "processor_share",
    "release_memory",
    "resident_bytes",
]

Clock = Callable[[], float]
# From this fraction of a step on, its remaining time goes by the time so far, and not by what was expected.
TRUSTED_FRACTION = 0.05
# A step that takes longer than expected will take this part of its time longer.
LEAST_LEFT = 0.1


class Deadline:
    """A time limit that starts now; without a limit, there is always time left.

    Parameters
    ----------
    seconds : float or None
        The limit.
    clock : callable, default=time.perf_counter
        Returns seconds.

    Attributes
    ----------
    share : float
        The share of the processors that is available; see `processor_share`.
    """

    def __init__(self, seconds: float | None, clock: Clock = time.perf_counter) -> None:
        self.seconds = seconds
        self.share = 1.0
        self._clock = clock
        self._start = clock()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._start

    @property
    def left(self) -> float:
        """Seconds that are left, at least 0; infinite without a limit."""
        return float("inf") if self.seconds is None else max(0.0, self.seconds - self.elapsed)


class Steps:
    """Progress of a workflow in a with statement: which step runs, and which fraction of all steps is done.

    The fraction goes by the time that is expected to be left: that of the current step by what it reports, and that of
    later steps by what was announced, which may be announced again as soon as more is known. It may decrease.

    Parameters
    ----------
    owner : str
        Name of the workflow, which lines start with.
    progress : bool or callable
        True shows lines on a terminal, in a notebook or in a log. A callable receives each `Progress`.
    clock : callable, default=time.perf_counter
        Returns seconds.
    """

    def __init__(self, owner: str, progress: bool | Report, clock: Clock = time.perf_counter) -> None:
        self.owner = owner
        self.seconds: dict[str, float] = {}
        self._report: Report | None = Display.here() if progress is True else progress or None
        self._clock = clock
        self._start = self._step_start = clock()
        self._expected: dict[str, float] = {}
        self._current = ""
        self._limit: float | None = None

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if isinstance(self._report, Display):
            elapsed = self._clock() - self._start
            last = Progress(0, None, elapsed, owner=self.owner, elapsed=elapsed)
            self._report.end(last, success=kind is None)

    def expect(self, seconds: Mapping[str, float]) -> None:
        """Announce the expected seconds of steps that have not ended, in their order."""
        self._expected.update({name: value for name, value in seconds.items() if name not in self.seconds})

    @contextmanager
    def step(self, name: str, seconds: float | None = None) -> Iterator[Report | None]:
        """Run a step in a with statement, which yields the report for an estimator, or None.

        The fraction of a step that has a time limit, `seconds`, goes by the time: what is tried in it depends on it.
        """
        self._current, self._step_start, self._limit = name, self._clock(), seconds
        if isinstance(self._report, Display):
            self._report.start(self._at(0.0))
        yield None if self._report is None else self._inner
        took = self._clock() - self._step_start
        self.seconds[name] = self.seconds.get(name, 0.0) + took

    def advance(self, fraction: float | None, note: str = "") -> None:
        """Report that a fraction of the current step is done; None means that it is not known."""
        if self._report is not None:
            self._report(self._at(fraction or 0.0, note))

    def _inner(self, progress: Progress) -> None:
        within = progress.fraction
        if within is None and progress.total:
            within = progress.rows / progress.total
        self.advance(within, progress.stage)

    def _at(self, within: float, note: str = "") -> Progress:
        now = self._clock()
        elapsed, in_step = now - self._start, now - self._step_start
        names = list(self._expected)
        later = names[names.index(self._current) + 1 :] if self._current in names else names
        left = sum(self._expected[name] for name in later if name not in self.seconds)
        left += self._left_in_step(in_step, min(max(within, 0.0), 1.0))
        # So defined, the remaining time at the rate so far is the time that is expected to be left.
        fraction = elapsed / (elapsed + left) if self._expected and left > 0 else None
        return Progress(
            0, None, in_step, note, stage=self._current, fraction=fraction, elapsed=elapsed, owner=self.owner
        )

    def _left_in_step(self, in_step: float, within: float) -> float:
        """Return the seconds that the current step will probably take from now on."""
        if self._limit is not None:
            return max(0.0, self._limit - in_step)
        if within >= TRUSTED_FRACTION:
            return in_step * (1 - within) / within
        return max(in_step * LEAST_LEFT, self._expected.get(self._current, 0.0) - in_step)


class PeakMemory:
    """Largest resident memory of this process within a with statement.

    Attributes
    ----------
    added : int or None
        The largest resident memory minus that at the start, in bytes; None on systems that do not report it.
    overall : int
        Class attribute: the largest resident memory of the process in all with statements so far.
    """

    overall = 0

    def __init__(self) -> None:
        self.added: int | None = None
        self._before: int | None = None

    def __enter__(self) -> PeakMemory:
        PeakMemory.note()
        release_memory()
        # Linux forgets the largest resident memory so far if this is written to the file.
        try:
            with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
                file.write("5")
            self._before = resident_bytes()
        except OSError:
            self._before = None
        return self

    def __exit__(self, *_: object) -> None:
        peak = PeakMemory.note()
        if self._before is not None and peak is not None:
            self.added = max(0, peak - self._before)

    @staticmethod
    def note() -> int | None:
        """Return the largest resident memory since it was reset last, and remember it in `overall`."""
        peak = None
        with suppress(OSError, ValueError, IndexError), open("/proc/self/status", encoding="ascii") as file:
            peak = next((1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM:")), None)
        if peak is None:
            with suppress(ImportError):
                import resource

                unit = 1 if sys.platform == "darwin" else 1024
                peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        PeakMemory.overall = max(PeakMemory.overall, peak or 0)
        return peak


def processor_share(n_threads: int, seconds: float = 0.2) -> float:
    """Return which share of the processors this process gets, at least 0.1: less than one if others use them, too.

    Parameters
    ----------
    n_threads : int
        Number of threads.
    seconds : float, default=0.2
        How long it is measured, by products of matrices.
    """
    A = np.ones((400, 400))
    wall, used = time.perf_counter(), time.process_time()
    while time.perf_counter() - wall < seconds:
        A @ A
    share = (time.process_time() - used) / (time.perf_counter() - wall) / n_threads
    return min(1.0, max(0.1, share))


def resident_bytes() -> int | None:
    """Return the resident memory of this process, or None where it is not known."""
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return None


def available_bytes(memory_limit: int | None) -> int:
    """Return how many bytes the process may still use: up to a limit, or half of what the system has available."""
    if memory_limit is not None:
        return max(0, memory_limit - (resident_bytes() or 0))
    with suppress(OSError, ValueError, IndexError), open("/proc/meminfo", encoding="ascii") as file:
        free = next((1024 * int(line.split()[1]) for line in file if line.startswith("MemAvailable:")), None)
        if free is not None:
            return free // 2
    return 4 * 2**30


def release_memory() -> None:
    """Return memory that was freed to the system, so that it is not counted for what comes next."""
    arrow: Any = sys.modules.get("pyarrow")
    if arrow is not None:
        arrow.default_memory_pool().release_unused()
    with suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).malloc_trim(0)
