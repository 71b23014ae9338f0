"""Checkpoints: an interrupted fit continues where it stopped, with bitwise the same result.

A fit reads its rows only to compute sums over them, one sum per pass, and its result is a deterministic function of
these sums. The checkpoint of a fit therefore holds the sums of all finished passes, and the position and partial sum of
the current pass. A resumed fit takes the sums of finished passes from the file, without reading rows, and continues the
interrupted pass at its position.

Two fits must not write the same file, since a mixture of their sums would give a wrong model. A lock lets only one of
them start. Where locks do not work, the digest of the file shows before each saving whether it is still what this fit
wrote, and sums of earlier passes are always taken from the file that this fit has open, not from its path.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from numbers import Real
from pathlib import Path
from typing import IO, Any, Self, TypeVar

import numpy as np
import scipy.sparse as sp

from mercer.engines.base import START, UNKNOWN, Accumulator, Block, Engine, LocalEngine, Position, Report
from mercer.errors import CheckpointError, MercerWarning, ParameterError
from mercer.io.archive import (
    ArchiveError,
    Stored,
    check_archive,
    digest_at_end,
    read_archive,
    store,
    write_archive,
)
from mercer.io.digests import digest_of
from mercer.io.files import open_regular, remove_temporary_files, unresolved, why_not_written
from mercer.io.locks import FileLock, LockedError

__all__ = ["Checkpoint", "CheckpointedEngine", "Journal"]

S = TypeVar("S")
FORMAT = 3
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
        Missing folders are created. A symbolic link is refused.
    seconds : float, default=30.0
        Time between two savings. It is extended if saving would take more than a twentieth of the total time.

    Notes
    -----
    A path is used by one fit at a time. Another fit on the same path raises `CheckpointError` while the first one runs,
    by a lock file ``.<name>.lock`` beside the checkpoint, which the operating system unlocks when a process ends. On
    network file systems this works between machines if the server supports ``flock`` (NFS with its lock service, Lustre
    mounted with ``flock``). If there are no locks, a warning is issued; then, and with locks that are valid on one
    machine only, two fits are not mixed either, but the second of them to save raises `CheckpointError`.

    If the file is removed during the fit, it is written again at the next saving. If it cannot be written, for instance
    because the disk is full, `CheckpointError` is raised; the previous checkpoint remains valid.

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
        self._probe = largest_rows(head.X)
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

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        """Raise CheckpointError if `function`, evaluated on some rows, differs from the values in the checkpoint.

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

    def close(self) -> None:
        """Let other fits use the checkpoint file; no further sums can be computed."""
        self._journal.close()


def _itself(value: S) -> S:
    """Return the argument."""
    return value


class Journal:
    """Checkpoint file of one fit, with the sums of its finished passes and the partial sum of the current pass.

    A resumed fit repeats its passes in the same order. Before each pass, `next_is_finished` tells whether the sum of
    this pass is in the file. If the file exists but has another fingerprint, CheckpointError is raised. The file is
    locked until `close` is called.
    """

    def __init__(self, checkpoint: Checkpoint, fingerprint: Mapping[str, str]) -> None:
        self._path = unresolved(Path(checkpoint.path).expanduser())
        self._seconds = float(checkpoint.seconds)
        self._fingerprint = dict(fingerprint)
        self._passes = 0  # number of passes started in this process, including those whose sum is in the file
        self._saved = 0  # number of finished passes in the file
        self._waiting: dict[str, Stored] = {}  # sums of finished passes that are not yet in the file
        self._witnesses: dict[str, Any] = {}  # values that `check_same` compares, by name
        # Position, partial sum and seconds of the interrupted pass in the file.
        self._running: tuple[Position, Any, float] | None = None
        # The file as this process read or wrote it, which stays readable if it is removed; its digest; and its size and
        # time when its content was known to have this digest.
        self._file: IO[bytes] | None = None
        self._digest: bytes | None = None
        self._stamp: tuple[int, int] | None = None
        self._lock = FileLock(self._path)
        self._has_warned = False
        self.seed = secrets.randbits(31)
        if self._path.is_dir():
            msg = f"{self._path} is not a checkpoint. Nothing was changed. Use another path: this one is a folder."
            raise CheckpointError(msg)
        try:
            if self._acquire():
                remove_temporary_files(self._path)  # no other process is writing one
            if os.path.lexists(self._path):
                self._open()
            else:
                self._save()  # raises at once if the path cannot be written to
        except BaseException:
            self.close()
            raise
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
        """Remove the checkpoint file, unless another process replaced it."""
        if self._file is not None:
            self._file.close()
        try:
            with open_regular(self._path) as file:
                is_ours = digest_at_end(file) == self._digest
            if is_ours:
                self._path.unlink()
        except FileNotFoundError:
            pass
        except OSError as error:  # no reason to lose the model
            msg = f"The fit has succeeded, but its checkpoint could not be removed: {error}. Remove it yourself."
            warnings.warn(msg, MercerWarning, stacklevel=2)

    def close(self) -> None:
        """Release the lock."""
        if self._file is not None:
            self._file.close()
        self._lock.release()

    # ---- replaying --------------------------------------------------------------------------------

    def next_is_finished(self) -> bool:
        """Count the next pass as started, and return whether its sum is in the file."""
        self._passes += 1
        return self._passes <= self._saved

    def finished_result(self) -> Any:
        """Return the sum of the current pass from the file; call it only if `next_is_finished` returned True."""
        result = self._read(f"pass{self._passes - 1}")
        if not isinstance(result, tuple):
            why = f"the sum of pass {self._passes} is missing"
            raise self._damaged(why)
        return result[0]

    def interrupted(self) -> tuple[Position, Any, float]:
        """Return position, partial sum and seconds of the interrupted pass in the file.

        If the file has no interrupted pass, return those of a new pass: ``(START, None, 0.0)``.
        """
        running, self._running = self._running, None
        return (START, None, 0.0) if running is None else running

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
        self._acquire()  # again, if the lock file was removed
        self._check_ours()
        needed = sum(value.nbytes for value in values.values())
        try:
            if self._file is not None:
                self._check_content(self._file)
                needed += os.fstat(self._file.fileno()).st_size
            self._digest = write_archive(self._path, values, keep, self._file)
            self._file = open_regular(self._path)
            self._stamp = stamp_of(self._file)
        except ArchiveError as error:
            raise self._damaged(error) from error
        except OSError as error:
            raise self._not_written(error, needed) from error
        self._saved = saved
        self._waiting = {}
        self._last = time.monotonic()
        self._cost = self._last - begin

    def _acquire(self) -> bool:
        """Take the lock, or verify that it is still there, and return whether there are locks."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            locked = self._lock.acquire()
        except LockedError as error:
            this = " (this process)" if error.owner.startswith(f"process {os.getpid()} on ") else ""
            msg = (
                f"{self._path} is in use: {error.owner}{this} is fitting with this checkpoint, and two fits must not "
                "write the same file. Wait until the other fit has ended, or use another path. If that process has "
                f"ended, one that it started still runs: end it, or remove {error.path}."
            )
            raise CheckpointError(msg) from error
        except OSError as error:
            raise self._not_written(error, 0) from error
        if not locked and not self._has_warned:
            self._has_warned = True
            msg = (
                f"The checkpoint {self._path} is on a file system without locks. Make sure that no other fit uses the "
                "same path; if one does, the second of them to save raises an error."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        return locked

    def _check_ours(self) -> None:
        """Raise CheckpointError if the file is not the one that this process read or wrote.

        It may be missing: a checkpoint that was removed during the fit is written again.
        """
        found = None
        try:
            with open_regular(self._path) as file:
                found = digest_at_end(file)
        except FileNotFoundError:
            return
        except OSError:  # not a file any more
            pass
        if found is None or found != self._digest:
            msg = (
                f"{self._path} was replaced or changed by another process during this fit, which therefore stopped: "
                "two fits must not write the same file. Nothing was changed. Use another path for one of them."
            )
            raise CheckpointError(msg)

    def _not_written(self, error: OSError, needed: int) -> CheckpointError:
        """Return the error for a checkpoint that could not be written."""
        why = why_not_written(error, self._path, needed)
        if self._file is None:
            state = "Nothing was fitted yet. Use another path, or make this one writable."
        else:
            state = (
                f"The previous checkpoint is unchanged, with {self._saved} finished passes. Make space, or make the "
                "path writable, and call fit again: it continues from there. Or copy the file, and pass the new path."
            )
        return CheckpointError(f"The checkpoint {self._path} cannot be written: {why}. {state}")

    # ---- opening ----------------------------------------------------------------------------------

    def _open(self) -> None:
        """Read the state of the fit from the existing file; raise CheckpointError if it belongs to another fit."""
        try:
            self._file = open_regular(self._path)
            self._stamp = stamp_of(self._file)
            self._digest = check_archive(self._file)
        except ArchiveError as error:
            raise self._damaged(error) from error
        except OSError as error:
            why = error.strerror or str(error)
            link = " Pass the path of the file itself." if self._path.is_symlink() else ""
            msg = (
                f"{self._path} is not a checkpoint, or cannot be read: {why}. Nothing was changed. Use another path."
                f"{link}"
            )
            raise CheckpointError(msg) from error
        header = self._read("header")
        if not isinstance(header, dict) or "format" not in header:
            msg = f"{self._path} is not a checkpoint. Nothing was changed. Use another path."
            raise CheckpointError(msg)
        if header["format"] != FORMAT:
            msg = (
                f"{self._path} has format {header['format']}, which this version of mercer cannot read (it writes "
                f"format {FORMAT}). Continue with the version that wrote it, or remove the file to start over."
            )
            raise CheckpointError(msg)
        try:
            fingerprint = dict(header["fingerprint"])
            self.seed, self._saved = int(header["seed"]), int(header["passes"])
            self._witnesses = dict(self._read("witnesses"))
            running = self._read("running")
            if running is not None:
                self._running = Position(**running["position"]), running["total"], float(running["seconds"])
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, CheckpointError):
                raise
            why = f"an entry is missing or has a wrong type: {error}"
            raise self._damaged(why) from error
        for name in dict.fromkeys([*fingerprint, *self._fingerprint]):
            was, now = fingerprint.get(name, "absent"), self._fingerprint.get(name, "absent")
            if was != now and UNKNOWN not in (was, now):
                msg = (
                    f"{self._path} is the checkpoint of another fit: {name} was {was}, and is {now}. Use another path, "
                    "or remove the file to start over."
                )
                raise CheckpointError(msg)

    def _read(self, name: str) -> Any:
        """Return the value stored under `name` in the file, or None if the file has no such entry."""
        assert self._file is not None
        try:
            self._check_content(self._file)
            return read_archive(self._file, name)
        except (ArchiveError, OSError) as error:
            raise self._damaged(error) from error

    def _check_content(self, file: IO[bytes]) -> None:
        """Raise ArchiveError if another program changed the open file in place."""
        stamp = stamp_of(file)
        if stamp != self._stamp:
            if check_archive(file) != self._digest:
                msg = "another process changed it, which must not happen during a fit"
                raise ArchiveError(msg)
            self._stamp = stamp

    def _damaged(self, why: object) -> CheckpointError:
        """Return the error for a file that cannot be used."""
        msg = (
            f"{self._path} is not a checkpoint, or it is damaged, or another version of mercer wrote it: {why}. "
            "Nothing was changed. Use another path, or remove the file to start over."
        )
        return CheckpointError(msg)


def stamp_of(file: IO[bytes]) -> tuple[int, int]:
    """Return size and modification time of an open file."""
    about = os.fstat(file.fileno())
    return about.st_size, about.st_mtime_ns


def largest_rows(X: Any) -> Any:
    """Return the `PROBE_ROWS` rows with the largest entries, in their order.

    Rows of zeros would not do: random Fourier features of a row of zeros are the same in all draws.
    """
    most = abs(X).max(axis=1)
    most = np.asarray(most.toarray() if sp.issparse(most) else most).ravel()
    return X[np.sort(np.argsort(-most, kind="stable")[:PROBE_ROWS])]


def describe(block: Block) -> str:
    """Return a short string that identifies a block of rows: its shape, its dtype and a digest."""
    return f"{' x '.join(map(str, block.X.shape))} of {block.X.dtype}, {digest_of([block.X, block.y, block.weight])}"
