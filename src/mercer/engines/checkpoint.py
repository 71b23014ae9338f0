"""Checkpoints: an interrupted fit continues where it stopped, with bitwise the same result.

A fit reads its rows only to compute sums over them, one sum per pass, and its result is a deterministic function of
these sums. The checkpoint of a fit therefore holds the sums of all finished passes, and the position and partial sum of
the current pass. A resumed fit takes the sums of finished passes from the file, without reading rows, and continues the
interrupted pass at its position.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from mercer.engines.base import START, UNKNOWN, Accumulator, Block, Engine, LocalEngine, Position, Report
from mercer.errors import CheckpointError, ParameterError
from mercer.io.archive import ArchiveError, Stored, check_archive, read_archive, store, write_archive
from mercer.io.digests import digest_of
from mercer.io.files import remove_file

__all__ = ["Checkpoint", "CheckpointedEngine", "Journal"]

S = TypeVar("S")
FORMAT = 2
# Saving takes at most 1 / SHARE of the time.
SHARE = 20
# Results of finished passes wait in memory for the next saving; if they exceed this many bytes, they are saved at once.
WAITING_BYTES = 256 * 2**20
# Number of rows whose features are compared with those in the checkpoint.
PROBE_ROWS = 8


@dataclass(frozen=True)
class Checkpoint:
    """The file in which a fit saves its progress, and how often it does so.

    Parameters
    ----------
    path : path-like
        The file, created by the fit and removed when the fit has succeeded. If it exists, the fit continues from it.
    seconds : float, default=30.0
        Time between two savings. It is extended if saving would take more than a twentieth of the total time.

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


class CheckpointedEngine(Engine):
    """An engine that computes sums with another engine, and saves them to a file from which a fit can be resumed.

    If the file exists, a sum that it contains is returned without reading rows.

    Parameters
    ----------
    engine : Engine
        Engine over the rows.
    checkpoint : Checkpoint
        The file.
    fingerprint : mapping of str to str
        Named strings that identify the learner and its parameters. The strings that identify the rows are added.

    Attributes
    ----------
    seed : int
        Random seed of the fit, stored in the file. It replaces ``random_state=None``, so that a resumed fit samples the
        same random numbers.
    """

    def __init__(self, engine: Engine, checkpoint: Checkpoint, fingerprint: Mapping[str, str]) -> None:
        self.engine = engine
        self.replayable, self.n_rows, self.n_jobs = engine.replayable, engine.n_rows, engine.n_jobs
        self.in_memory = engine.in_memory
        head = engine.first()
        self._probe = head.X[:PROBE_ROWS].copy()
        self._journal = Journal(
            checkpoint,
            {
                **fingerprint,
                "first block of rows": describe(head),
                **engine.fingerprint(),
                # Another version may round differently. The package cannot be imported here, since it imports this
                # module.
                "version of mercer": sys.modules["mercer"].__version__,
            },
        )
        self.seed = self._journal.seed

    def first(self) -> Block:
        return self.engine.first()

    def blocks(self, since: Position = START) -> Iterator[Block]:
        return self.engine.blocks(since)

    def fingerprint(self) -> dict[str, str]:
        return self.engine.fingerprint()

    def sum(self, term: Callable[[Block], S], progress: Report | None = None) -> S:
        journal = self._journal
        if journal.next_is_finished():
            return journal.finished_result()
        if not isinstance(self.engine, LocalEngine):
            return journal.finish(self.engine.sum(term, progress))
        since, total, seconds = journal.interrupted()
        start = time.perf_counter() - seconds
        for row, total in self.engine.partial_sums(term, since, total, progress, seconds):  # noqa: B020 - continued
            journal.save_if_due(self.engine.position, row, start, partial(_itself, total))
        return journal.finish(total)

    def accumulate(self, into: Accumulator[S], progress: Report | None = None) -> S:
        journal = self._journal
        if journal.next_is_finished():
            return journal.finished_result()
        if not isinstance(self.engine, LocalEngine):
            return journal.finish(self.engine.accumulate(into, progress))
        since, state, seconds = journal.interrupted()
        if state is not None:
            into.restore(state)
        start = time.perf_counter() - seconds
        for row in self.engine.additions(into, progress, since, seconds):
            journal.save_if_due(self.engine.position, row, start, into.result)
        return journal.finish(into.result())

    def check_same(self, what: str, function: Callable[[Any], np.ndarray]) -> None:
        """Raise CheckpointError if `function`, evaluated on the first rows, differs from the values in the checkpoint.

        If the checkpoint has no values under the name `what`, the values of `function` are stored. In this way, a
        resumed fit detects, for example, that its feature map was sampled with another seed.

        Parameters
        ----------
        what : str
            Name of the function in the checkpoint and in the message.
        function : callable
            Function of rows that returns an array, such as a feature map.
        """
        self._journal.check_same(what, np.asarray(function(self._probe)))

    def remove(self) -> None:
        """Remove the checkpoint file, after the fit has succeeded."""
        self._journal.remove()


def _itself(value: S) -> S:
    """Return the argument."""
    return value


class Journal:
    """Checkpoint file of one fit, with the sums of its finished passes and the partial sum of the current pass.

    A resumed fit repeats its passes in the same order. Before each pass, `next_is_finished` tells whether the sum of
    this pass is in the file. If the file exists but has another fingerprint, CheckpointError is raised.
    """

    def __init__(self, checkpoint: Checkpoint, fingerprint: Mapping[str, str]) -> None:
        self._path = Path(checkpoint.path).expanduser().resolve()
        self._seconds = float(checkpoint.seconds)
        self._fingerprint = dict(fingerprint)
        self._passes = 0  # number of passes started in this process, including those whose sum is in the file
        self._saved = 0  # number of finished passes in the file
        self._waiting: dict[str, Stored] = {}  # sums of finished passes that are not yet in the file
        self._witnesses: dict[str, Any] = {}  # values that `check_same` compares, by name
        self._running: dict[str, Any] | None = None  # state of the interrupted pass in the file
        self.seed = secrets.randbits(31)
        if self._path.exists():
            self._open()
        else:
            self._save()  # raises at once if the path cannot be written to
        self._cost = 0.0  # seconds that the last saving took
        self._last = time.monotonic()

    def check_same(self, what: str, values: np.ndarray) -> None:
        """Raise CheckpointError if `values` differ from the values stored under the name `what` in the file.

        If the file has no values of this name, `values` are stored.
        """
        before = self._witnesses.setdefault(what, values)
        # With a tolerance, since another machine may round differently.
        same = before.shape == values.shape and np.allclose(before, values, rtol=0, atol=1e-4 * np.abs(before).max())
        if not same:
            msg = (
                f"{self._path} is the checkpoint of another fit: {what} differs. If a part of a composed map has no "
                "random_state, give it one, an integer. Use another path, or remove the file to start over."
            )
            raise CheckpointError(msg)

    def remove(self) -> None:
        """Remove the checkpoint file."""
        remove_file(self._path)

    # ---- replaying --------------------------------------------------------------------------------

    def next_is_finished(self) -> bool:
        """Count the next pass as started, and return whether its sum is in the file."""
        self._passes += 1
        return self._passes <= self._saved

    def finished_result(self) -> Any:
        """Return the sum of the current pass from the file; call it only if `next_is_finished` returned True."""
        return self._read(f"pass{self._passes - 1}")[0]

    def interrupted(self) -> tuple[Position, Any, float]:
        """Return position, partial sum and seconds of the interrupted pass in the file.

        If the file has no interrupted pass, return those of a new pass: ``(START, None, 0.0)``.
        """
        running, self._running = self._running, None
        if running is None:
            return START, None, 0.0
        return Position(**running["position"]), running["total"], running["seconds"]

    def finish(self, result: S) -> S:
        """Record the sum of the finished current pass, and return it. The file is written now or at the next saving."""
        name = f"pass{self._passes - 1}"
        # Copied unless it is written at once, since the caller may modify the result.
        self._waiting[name] = store((result,), copy=not self._is_due())
        if self._is_due() or sum(one.nbytes for one in self._waiting.values()) > WAITING_BYTES:
            self._save()
        return result

    # ---- saving -----------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        """Return whether enough time has passed since the last saving to save again."""
        return time.monotonic() - self._last >= max(self._seconds, SHARE * self._cost)

    def save_if_due(
        self, position: Callable[[int], Position], row: int, start: float, total: Callable[[], Any]
    ) -> None:
        """Save the state of the current pass if enough time has passed since the last saving.

        Parameters
        ----------
        position : callable
            Returns the `Position` of a row.
        row : int
            Number of rows processed so far.
        start : float
            Start time of the pass, on the clock of `time.perf_counter`.
        total : callable
            Returns the sum over the rows processed so far.
        """
        if self._is_due():
            seconds = time.perf_counter() - start
            self._save({"position": asdict(position(row)), "seconds": seconds, "total": total()})

    def _save(self, running: dict[str, Any] | None = None) -> None:
        """Write the file; `running` is the state of the current pass, or None between two passes."""
        begin = time.monotonic()
        keep = [f"pass{i}" for i in range(self._saved)]
        saved = self._saved + len(self._waiting)
        header = {"format": FORMAT, "fingerprint": self._fingerprint, "seed": self.seed, "passes": saved}
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
        """Read the state of the fit from the existing file; raise CheckpointError if it belongs to another fit."""
        header = None
        if self._path.is_file():
            try:
                check_archive(self._path)
                header = self._read("header")
            except ArchiveError as error:
                msg = (
                    f"{self._path} is not a checkpoint, or it is damaged: {error}. Nothing was changed. Use another "
                    "path, or remove the file to start over."
                )
                raise CheckpointError(msg) from error
        if not isinstance(header, dict) or "format" not in header:
            msg = f"{self._path} is not a checkpoint. Nothing was changed. Use another path."
            raise CheckpointError(msg)
        if header["format"] != FORMAT:
            msg = (
                f"{self._path} has format {header['format']}, which this version of mercer cannot read (it writes "
                f"format {FORMAT}). Continue with the version that wrote it, or remove the file to start over."
            )
            raise CheckpointError(msg)
        for name in dict.fromkeys([*header["fingerprint"], *self._fingerprint]):
            was, now = header["fingerprint"].get(name, "absent"), self._fingerprint.get(name, "absent")
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
        """Return the value stored under `name` in the file, or None if the file has no such entry."""
        return read_archive(self._path, name)


def describe(block: Block) -> str:
    """Return a short string that identifies a block of rows: its shape, its dtype and a digest."""
    return f"{' x '.join(map(str, block.X.shape))} of {block.X.dtype}, {digest_of([block.X, block.y, block.weight])}"
