"""Errors of a Dask cluster, explained: workers that died, a cluster that was closed, a lost connection, a deadlock."""

from __future__ import annotations

import pickletools
import sys
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from mercer.engines.dask.partitions import memory_advice
from mercer.errors import MercerError

__all__ = ["check_imported", "check_open", "failures_explained"]

REPARTITION = "Change the partitions with X.rechunk({0: rows}) or frame.repartition(partition_size=...)."
RESUME = (
    "A fit with a checkpoint continues after its last complete pass if fit is called again with the same checkpoint; "
    "without one it starts over."
)
CLOSED = (
    "The Dask client or its cluster was closed during the computation. Keep both open until fit has returned, and call "
    f"fit again. {RESUME}"
)
# Topic under which a nanny reports that it stopped a worker that exceeded its memory limit.
MEMORY_TOPIC = "worker-restart-memory"


def check_open(client: Any) -> None:
    """Raise MercerError if a client was closed; without one, Dask would go on with the threads of this process."""
    if client is not None and client.status in ("closing", "closed"):
        raise MercerError(CLOSED)


def check_imported(work: bytes) -> None:
    """Raise MercerError if a pickle refers to a module that is being imported.

    Another thread that unpickles it waits for the end of the import, which may be waiting for that thread.
    """
    strings = {argument for _, argument, _ in pickletools.genops(work) if isinstance(argument, str)}
    for name in sorted(strings & sys.modules.keys()):
        if getattr(getattr(sys.modules[name], "__spec__", None), "_initializing", False):
            msg = (
                f"A fit on Dask needs classes or functions of the module {name} in other threads or processes, but "
                "this module is still being imported, and the import waits for the fit. Call fit in a function after "
                "the import, or in a script under 'if __name__ == \"__main__\":'."
            )
            raise MercerError(msg)


@contextmanager
def failures_explained(client: Any, **sizes: Any) -> Iterator[None]:
    """Inside a with statement, replace errors of the cluster by a MercerError that says what happened and what to try.

    Errors that a task raised itself are not changed, except for MemoryError.

    Parameters
    ----------
    client : distributed.Client or None
        The client that computes, or None if tasks run in this process.
    **sizes
        The arguments `rows`, `row_bytes`, `block_rows` and `feature_bytes` of `memory_advice`; without them no advice
        on the size of partitions is given.
    """
    try:
        yield
    except MercerError:
        raise
    except Exception as error:
        text = _explain(error, client, sizes)
        if text is None:
            raise
        raise MercerError(text) from error


def _explain(error: Exception, client: Any, sizes: dict[str, Any]) -> str | None:
    """Return what happened and what to try, or None for an error that is not one of the cluster."""
    if isinstance(error, MemoryError):  # the worker is alive, and the error does not name it
        return f"A worker ran out of memory over a partition ({type(error).__name__}). {_advice(sizes, None, 1)}"
    if "distributed" not in sys.modules:
        return None
    from distributed import scheduler
    from distributed.comm import CommClosedError

    if isinstance(error, scheduler.KilledWorker):
        return _killed(error, client, sizes)
    if isinstance(error, getattr(scheduler, "NoWorkerError", ())):
        return f"The Dask cluster has no workers ({error}). Start workers, and call fit again. {RESUME}"
    if client is not None and client.status in ("closing", "closed"):
        return CLOSED
    if isinstance(error, CommClosedError):
        return f"The connection to the Dask scheduler was lost ({error}). Connect a new client. {RESUME}"
    if isinstance(error, CancelledError):
        reason = getattr(error, "reason", "unknown")
        what = {
            "scheduler-connection-lost": "The connection to the Dask scheduler was lost: it was stopped, or is out of "
            "reach. Connect a new client, and call fit again.",
            "scheduler-restart": "The Dask cluster was restarted during the computation. Call fit again.",
        }.get(
            reason,
            f"Dask canceled the computation (reason: {reason}). Another thread or client may have canceled it, or "
            "released data that it needs. Call fit again.",
        )
        return f"{what} {RESUME}"
    return None


def _killed(error: Any, client: Any, sizes: dict[str, Any]) -> str:
    """Return the text for a task during which one worker after another died."""
    worker, times = error.last_worker, error.allowed_failures + 1
    advice = _advice(sizes, worker.memory_limit or None, worker.nthreads)
    if _exceeded_memory(client, worker.address):
        return (
            f"A worker ran out of memory over a partition, {times} times in a row; the last one was {worker.address} "
            f"({type(error).__name__}). {advice} {RESUME}"
        )
    left = _workers_left(client)
    return (
        f"The worker of a partition died, {times} times in a row; the last one was {worker.address} "
        f"({type(error).__name__}). {left} Dask did not report that it exceeded a memory limit. It was killed, by a "
        "user, a batch system or an operating system that is short of memory, or it crashed: see its log, and the "
        f"memory of its machine. Start workers again, and call fit again. {RESUME} If memory was short: {advice}"
    )


def _exceeded_memory(client: Any, address: str) -> bool:
    """Return whether a nanny reported that it stopped the worker with this address for its use of memory."""
    if client is None:
        return False
    try:
        events = client.get_events(MEMORY_TOPIC)
    except Exception:  # the cluster may be gone by now; the first error is the one to report
        return False
    return any(isinstance(event, dict) and event.get("worker") == address for _, event in events)


def _workers_left(client: Any) -> str:
    """Return a sentence on the number of workers that are connected now, or an empty string if it is not known."""
    try:
        number = len(client.nthreads())
    except Exception:  # as above
        return ""
    return "No worker is left." if not number else f"Connected now: {number} worker{'s' if number > 1 else ''}."


def _advice(sizes: dict[str, Any], limit: int | None, threads: int) -> str:
    """Return advice on the sizes of partitions and blocks."""
    if not sizes:
        return "Try smaller partitions, fewer threads per worker or more memory."
    return f"{memory_advice(limit=limit, threads=threads, **sizes)} {REPARTITION}"
