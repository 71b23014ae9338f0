"""Display of progress as one line on standard error, if that is a terminal."""

from __future__ import annotations

import sys

from mercer.engines.base import Progress

__all__ = ["show_progress"]


def show_progress(progress: Progress) -> None:
    """If stderr is a terminal, write the progress of a pass to it, as a line that replaces the previous line."""
    if not sys.stderr.isatty():
        return
    done = progress.rows == progress.total
    sys.stderr.write("\r\033[K" + describe(progress) + ("\n" if done else ""))
    sys.stderr.flush()


def describe(progress: Progress) -> str:
    """Return the progress of a pass as one line of text.

    Examples
    --------
    >>> describe(Progress(rows=20000, total=60000, seconds=2.5))
    '20,000 of 60,000 rows, 2.5 s, about 5.0 s left'
    """
    of = "" if progress.total is None else f" of {progress.total:,}"
    note = f"{progress.note}: " if progress.note else ""
    text = f"{note}{progress.rows:,}{of} rows, {progress.seconds:.1f} s"
    left = progress.seconds_left
    return text if left is None or progress.rows == progress.total else f"{text}, about {left:.1f} s left"
