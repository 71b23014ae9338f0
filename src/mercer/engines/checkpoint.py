"""Checkpoints: a fit that was stopped goes on where it was, to the bit.

All that a fit learns from its rows are sums, and it is a deterministic function of them. So the journal of a fit holds
the results of its finished passes, one after another, and of the pass under way the sum so far and the place in the
rows. A fit that is taken up again gets finished sums from the journal without reading a row, and goes on in the middle
of the unfinished one.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mercer.errors import CheckpointError, ParameterError
from mercer.io.archive import ArchiveError, Stored, check_archive, read_archive, store, write_archive
from mercer.io.digests import digest_of
from mercer.io.files import remove_file

if TYPE_CHECKING:
    from mercer.engines.base import Accumulator, Block, Engine, Progress

__all__ = ["Checkpoint", "Journal"]

S = TypeVar("S")
FORMAT = 1
# Saving takes at most one part in so many of the time.
SHARE = 20
# Results that wait in memory to be saved.
WAITING_BYTES = 256 * 2**20
# Rows on which a drawn map is compared with that of the checkpoint.
PROBE_ROWS = 8


@dataclass(frozen=True)
class Checkpoint:
    """Where a fit saves how far it has come, and how often.

    Parameters
    ----------
    path : path-like
        A file, made by the fit and removed when it has succeeded. If it is there already, the fit goes on from it.
    seconds : float, default=30.0
        Time between two savings; more where saving would take more than a twentieth of the time.

    Examples
    --------
    >>> import numpy as np, os, tempfile
    >>> from mercer import Checkpoint, KernelRidge
    >>> rng = np.random.default_rng(0)
    >>> blocks = [(rng.normal(size=(500, 2)), rng.normal(size=500)) for _ in range(4)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "fit.checkpoint")
    ...     model = KernelRidge(random_state=0).fit(blocks, checkpoint=Checkpoint(path, seconds=60))
    ...     os.listdir(folder)
    []
    """

    path: str | os.PathLike[str]
    seconds: float = 30.0

    def __post_init__(self) -> None:
        if not isinstance(self.path, str | os.PathLike):
            msg = f"checkpoint must be a path or a Checkpoint, got {self.path!r}."
            raise ParameterError(msg)
        if not isinstance(self.seconds, Real) or isinstance(self.seconds, bool) or not self.seconds >= 0:
            msg = f"Checkpoint: seconds must be a number >= 0, got {self.seconds!r}."
            raise ParameterError(msg)


class Journal:
    """The passes of one fit over the rows of one engine, in a file.

    Parameters
    ----------
    checkpoint : Checkpoint
        The file.
    engine : Engine
        The rows.
    facts : mapping of str to str
        What must be the same for a fit to be the same: the learner and its parameters.

    Attributes
    ----------
    seed : int
        A number that is drawn once for a fit: what stands for ``random_state=None`` when it is taken up again.
    """

    def __init__(self, checkpoint: Checkpoint, engine: Engine, facts: Mapping[str, str]) -> None:
        self._path = Path(checkpoint.path).expanduser().resolve()
        self._seconds = float(checkpoint.seconds)
        head = engine.first()
        self._probe = head.X[:PROBE_ROWS].copy()
        self._facts = {
            **facts,
            "first block of rows": fingerprint(head),
            **engine.facts(),
            # Not imported: the package is above this module. Another version may compute other bits.
            "version of mercer": sys.modules["mercer"].__version__,
        }
        self._passes = 0  # of this process: replayed, finished or under way
        self._saved = 0  # finished passes in the file
        self._waiting: dict[str, Stored] = {}  # results of passes after those
        self._witnesses: dict[str, Any] = {}
        self._running: dict[str, Any] | None = None  # what the file says of a pass under way
        self.seed = secrets.randbits(31)
        if self._path.exists():
            self._open()
        else:
            self._save()  # so that a place that cannot be written to is found now and not in an hour
        self._cost = 0.0
        self._last = time.monotonic()

    # ---- what an engine calls ---------------------------------------------------------------------

    def sum(self, engine: Engine, term: Callable[[Block], S], progress: Callable[[Progress], None] | None = None) -> S:
        """Return ``engine.sum(term)``, from the journal as far as it goes."""
        if self._is_replayed():
            return self._replayed()
        if not engine.resumable:
            return self._finished(engine.sum_anew(term, progress))
        since, total, seconds = self._taken_up()
        start = time.perf_counter() - seconds
        for row, total in engine.sums(term, since, total, progress, seconds):  # noqa: B020 - goes on from the total
            self._save_if_due(engine, row, start, total)
        return self._finished(total)

    def accumulate(self, engine: Engine, into: Accumulator[S], progress: Callable[[Progress], None] | None = None) -> S:
        """Return ``engine.accumulate(into)``, from the journal as far as it goes."""
        if self._is_replayed():
            return self._replayed()
        if not engine.resumable:
            return self._finished(engine.accumulate_anew(into, progress))
        since, state, seconds = self._taken_up()
        if state is not None:
            into.restore(state)
        start = time.perf_counter() - seconds
        for row in engine.additions(into, progress, since, seconds):
            self._save_if_due(engine, row, start, into)
        return self._finished(into.result())

    def witness(self, what: str, of: Callable[[Any], np.ndarray]) -> None:
        """Compare a function of a few rows with what it was when the fit began, or take note of it."""
        values = np.asarray(of(self._probe))
        before = self._witnesses.setdefault(what, values)
        # On another machine the last digits may differ.
        same = before.shape == values.shape and np.allclose(before, values, rtol=0, atol=1e-4 * np.abs(before).max())
        if not same:
            msg = (
                f"{self._path} is the checkpoint of another fit: {what} differs. If a part of a composed map has no "
                "random_state, give it one, an integer. Use another path, or remove the file to start over."
            )
            raise CheckpointError(msg)

    def remove(self) -> None:
        """Remove the file: the fit has succeeded."""
        remove_file(self._path)

    # ---- replaying --------------------------------------------------------------------------------

    def _is_replayed(self) -> bool:
        self._passes += 1
        return self._passes <= self._saved

    def _replayed(self) -> Any:
        return self._read(f"pass{self._passes - 1}")[0]

    def _taken_up(self) -> tuple[Any, Any, float]:
        """Return place, sum and seconds of the pass that the file has begun, or those of a new one."""
        from mercer.engines.base import BEGIN, Place

        running, self._running = self._running, None
        if running is None:
            return BEGIN, None, 0.0
        return Place(**running["place"]), running["total"], running["seconds"]

    def _finished(self, result: S) -> S:
        name = f"pass{self._passes - 1}"
        # A copy, unless it is written at once: whoever asked for the result may change it.
        self._waiting[name] = store((result,), copy=not self._is_due())
        if self._is_due() or sum(one.nbytes for one in self._waiting.values()) > WAITING_BYTES:
            self._save()
        return result

    # ---- saving -----------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        return time.monotonic() - self._last >= max(self._seconds, SHARE * self._cost)

    def _save_if_due(self, engine: Engine, row: int, start: float, total: Any) -> None:
        if self._is_due():
            from mercer.engines.base import Accumulator

            state = total.state() if isinstance(total, Accumulator) else total
            running = {"place": asdict(engine.place(row)), "seconds": time.perf_counter() - start, "total": state}
            self._save(running)

    def _save(self, running: dict[str, Any] | None = None) -> None:
        begin = time.monotonic()
        keep = [f"pass{i}" for i in range(self._saved)]
        saved = self._saved + len(self._waiting)
        header = {"format": FORMAT, "facts": self._facts, "seed": self.seed, "passes": saved}
        values = {"header": store(header), **self._waiting, "witnesses": store(self._witnesses, copy=False)}
        if running is not None:
            values["running"] = store(running, copy=False)
        write_archive(self._path, values, keep)
        self._saved = saved
        self._waiting = {}
        self._last = time.monotonic()
        self._cost = self._last - begin

    # ---- opening ----------------------------------------------------------------------------------

    def _open(self) -> None:
        from mercer.engines.base import UNKNOWN

        header = None
        if self._path.is_file():
            try:
                check_archive(self._path)
                header = self._read("header")
            except ArchiveError as error:
                msg = (
                    f"{self._path} is no checkpoint, or a damaged one: {error}. Nothing was changed. Use another path, "
                    "or remove the file to start over."
                )
                raise CheckpointError(msg) from error
        if not isinstance(header, dict) or "format" not in header:
            msg = f"{self._path} is something else than a checkpoint. Nothing was changed. Use another path."
            raise CheckpointError(msg)
        if header["format"] != FORMAT:
            msg = (
                f"{self._path} has format {header['format']}, which this version of mercer does not know (it writes "
                f"{FORMAT}). Go on with the version that made it, or remove the file to start over."
            )
            raise CheckpointError(msg)
        for name in dict.fromkeys([*header["facts"], *self._facts]):
            was, now = header["facts"].get(name, "absent"), self._facts.get(name, "absent")
            if was != now and UNKNOWN not in (was, now):
                msg = (
                    f"{self._path} is the checkpoint of another fit: {name} was {was}, and is {now}. Use another path, "
                    "or remove the file to start over."
                )
                raise CheckpointError(msg)
        self.seed = header["seed"]
        self._saved = header["passes"]
        self._witnesses = self._read("witnesses")
        self._running = self._read("running")

    def _read(self, name: str) -> Any:
        return read_archive(self._path, name)


def fingerprint(block: Block) -> str:
    """Return a short text that tells a block of rows from others."""
    return f"{' x '.join(map(str, block.X.shape))} of {block.X.dtype}, {digest_of([block.X, block.y, block.weight])}"
