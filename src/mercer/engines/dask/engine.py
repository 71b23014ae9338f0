"""Engine over rows on a Dask cluster, or on the threads of Dask in this process.

A sum over the rows is computed by one task per partition, followed by a tree reduction of the partial sums. A further
task, on which the tasks of all partitions depend, holds the serialized accumulator and the function that validates
rows. If a worker dies, Dask can therefore compute everything it held again from the graph. Data sent by
``Client.scatter`` would be lost with the worker that holds it. Only this module, `mercer.engines.dask.collections` and
`mercer.engines.dask.failures` import Dask.
"""

from __future__ import annotations

import pickle
import queue
import sys
import time
import uuid
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, TypeVar

import cloudpickle
import dask
import numpy as np
from dask._task_spec import Task, TaskRef
from dask.base import get_scheduler
from dask.callbacks import Callback
from dask.delayed import Delayed
from dask.highlevelgraph import HighLevelGraph
from dask.local import get_sync
from dask.utils import parse_bytes

from mercer.engines.base import (
    NO_ROWS,
    START,
    UNKNOWN,
    Accumulator,
    Block,
    Engine,
    Position,
    Progress,
    Report,
    TermSum,
    row_blocks,
)
from mercer.engines.dask.failures import check_imported, check_open, failures_explained
from mercer.engines.dask.partitions import Packed, Work, add_up, first_rows, join
from mercer.errors import DataError, MercerWarning
from mercer.io.digests import digest_of

__all__ = ["DaskEngine", "Partitions", "active_client", "count_rows"]

S = TypeVar("S")
# Seconds without news from the cluster after which it is checked whether there are workers.
WAIT_SECONDS = 30.0
Pieces = Sequence[tuple[Any, ...]]  # for each partition, a tuple of delayed values or None; see `Partitions.pieces`


@dataclass(frozen=True)
class Partitions:
    """Partitions of rows that are not computed yet.

    Parameters
    ----------
    pieces : list of tuples
        One tuple per partition, which is either ``(X, y, weight)`` of delayed values, where `y` and `weight` may be
        None; or ``(block,)``, where `block` is a delayed ``X``, ``(X, y)`` or ``(X, y, weight)``; or ``(blocks,)``,
        where `blocks` is a delayed iterable of such blocks.
    rows : list of int
        Number of rows of each partition.
    row_bytes : float or None, default=None
        Bytes of one row, or None if they are not known before a row is computed.
    holds : object, default=None
        Collections that the pieces come from. As long as they are referenced, Dask does not release persisted data.
    source : RowSource or None, default=None
        The files that the rows are read from, or None if the rows do not come from files.
    """

    pieces: Pieces
    rows: list[int]
    row_bytes: float | None = None
    holds: Any = None
    source: Any = None

    def __iter__(self) -> Iterator[tuple[int, int, int, tuple[Any, ...]]]:
        """Yield ``(number, start, rows, pieces)`` for each partition with rows; `start` is its first row index."""
        starts = [0, *accumulate(self.rows)]
        for number, (rows, pieces) in enumerate(zip(self.rows, self.pieces, strict=True)):
            if rows:
                yield number, starts[number], rows, pieces

    @cached_property
    def head(self) -> tuple[Any, ...]:
        """The first few rows as ``(X, y, weight)``, before validation."""
        for _, _, rows, pieces in self:
            return compute_one(_head, pieces, rows=rows, row_bytes=self.row_bytes)
        raise DataError(NO_ROWS)


class DaskEngine(Engine):
    """An engine over the partitions of a Dask collection.

    Each partition is processed by one task in one thread, so `n_jobs` has no effect. Tasks are run by the active
    scheduler: by the workers of an existing ``distributed.Client``, or by the threads of this process.

    Parameters
    ----------
    partitions : Partitions
        Rows.
    check : callable
        Validates ``(X, y, weight)`` of a block of rows and returns them; it is sent to the workers.
    block_rows : int
        Number of rows that are processed at a time.
    row_bytes, feature_bytes : float
        Bytes of one row and of its features, for the advice that is given when a worker runs out of memory.
    """

    replayable = True
    n_jobs = 1

    def __init__(
        self,
        partitions: Partitions,
        check: Callable[..., tuple[Any, Any, Any]],
        *,
        block_rows: int,
        row_bytes: float = 8.0,
        feature_bytes: float = 8.0,
    ) -> None:
        self.partitions = partitions
        self.n_rows = sum(partitions.rows)
        self.check = check
        self.block_rows = block_rows
        self.row_bytes = row_bytes
        self.feature_bytes = feature_bytes
        self._client = active_client()

    def fingerprint(self) -> dict[str, str]:
        source = self.partitions.source
        return {
            "number of rows": str(self.n_rows),
            "digest of all rows": UNKNOWN,
            "rows of the partitions": digest_of([np.array(self.partitions.rows)]),
            **({} if source is None else source.fingerprint()),
        }

    def blocks(self, since: Position = START) -> Iterator[Block]:
        """Compute the partitions one after another, and yield their blocks in this process."""
        for _, start, rows, pieces in self.partitions:
            for values in compute_one(_list, pieces) if since.row < start + rows else []:
                block = Block(start, *self.check(*values))
                yield from row_blocks(block, self.block_rows, since.row - start)
                start += len(block)

    def first(self) -> Block:
        """Return the first few rows of the first partition that has rows, validated."""
        return Block(0, *self.check(*self.partitions.head))

    def sum(self, term: Callable[[Block], S], progress: Report | None = None) -> S:
        return self.accumulate(TermSum(term), progress)

    def accumulate(self, into: Accumulator[S], progress: Report | None = None) -> S:
        if not self.n_rows:
            raise DataError(NO_ROWS)
        with tasks_within_tasks():
            return self._accumulate(into, progress)

    def __getstate__(self) -> dict[str, Any]:
        # A client cannot be pickled, and another process has another one.
        return {**vars(self), "_client": None}

    def _accumulate(self, into: Accumulator[S], progress: Report | None) -> S:
        client = active_client()
        if client is None:
            check_open(self._client)
        token = uuid.uuid4().hex
        work = cloudpickle.dumps(Work(into, self.check, self.block_rows))
        if get_scheduler() is not get_sync:  # which runs in this thread
            check_imported(work)
        topic = None if client is None or progress is None else f"mercer-{token}"
        total = self._graph(work, token, topic)
        watch = _Watch(sum(self.partitions.rows), progress)
        with failures_explained(
            client,
            rows=max(self.partitions.rows),
            row_bytes=self.row_bytes,
            block_rows=self.block_rows,
            feature_bytes=self.feature_bytes,
        ):
            if client is None:
                with watch.tasks(_part(token)):
                    packed = total.compute()
            else:
                packed = compute_on_cluster(client, total, len(work), topic, watch)
        watch.finish()
        return packed.unpack_copy()

    def _graph(self, work: bytes, token: str, topic: str | None) -> Delayed:
        """Return the sum over all partitions as a delayed value, whose tasks form one layer of the Dask graph.

        Parameters
        ----------
        work : bytes
            Serialized `Work`, which computes the sum over one partition.
        token : str
            Unique string for the names of the tasks.
        topic : str or None
            Dask topic on which workers report finished partitions; None means that they report nothing.
        """
        shared = f"mercer-work-{token}"
        tasks: dict[Any, Task] = {shared: Task(shared, _shared_work, work)}

        def add(key: Any, function: Callable[..., Any], *arguments: Any) -> Any:
            tasks[key] = Task(key, function, *arguments)
            return key

        parts = [
            add((_part(token), number), _run, TaskRef(shared), number, start, rows, topic, *map(ref, pieces))
            for number, start, rows, pieces in self.partitions
        ]
        total = join(parts, lambda keys: add((f"mercer-sum-{token}", len(tasks)), _add, *map(TaskRef, keys)))
        return as_delayed(total, tasks, self.partitions.pieces)


# ---- tasks ------------------------------------------------------------------------------------


def _part(token: str) -> str:
    """Return the name of the tasks that sum over one partition each. The key of task i is ``(name, i)``."""
    return f"mercer-part-{token}"


def ref(piece: Delayed | None) -> TaskRef | None:
    """Return the reference to a delayed value for use as an argument of a task, or None if `piece` is None.

    The key alone would not be enough as an argument. Dask replaces a key by its value only if the key is in the graph,
    and the keys of persisted collections are not.
    """
    return None if piece is None else TaskRef(piece.key)


def _shared_work(work: bytes) -> bytes:
    """Return the serialized `Work`. Each partition's task deserializes its own copy, which has an empty accumulator."""
    # As bytes, Dask also knows its size.
    return work


def _run(work: bytes, number: int, start: int, rows: int, topic: str | None, *values: Any) -> Packed | None:
    """Return the serialized sum over one partition, or None if the partition has no rows.

    `values` are the computed pieces of the partition. If `topic` is not None, report on this Dask topic that the
    partition is finished.
    """
    packed = pickle.loads(work).on(_blocks(*values), number=number, start=start, rows=rows)
    if topic is not None:
        from distributed import get_worker

        get_worker().log_event(topic, (number, rows))
    return packed


def _add(*parts: Packed | None) -> Packed | None:
    """Return the serialized sum of the serialized sums over some partitions."""
    return add_up(parts)


def _blocks(*values: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield the blocks ``(X, y, weight)`` of a partition, given its computed pieces.

    The arguments are `X`, `y` and `weight`; or one block ``X``, ``(X, y)`` or ``(X, y, weight)``; or one iterable of
    blocks.
    """
    if len(values) > 1 or isinstance(values[0], tuple | list) or hasattr(values[0], "shape"):
        yield _block(values if len(values) > 1 or hasattr(values[0], "shape") else values[0])
        return
    if not isinstance(values[0], Iterable):
        yield _block(values)  # raises
    for block in values[0]:
        yield _block(block)


def _block(values: Any) -> tuple[Any, Any, Any]:
    """Return ``(X,)``, ``(X, y)`` or ``(X, y, weight)`` as ``(X, y, weight)`` with None for missing entries."""
    if not 1 <= len(values) <= 3 or len(getattr(values[0], "shape", ())) != 2:
        kinds = ", ".join(type(value).__name__ for value in values)
        msg = f"A delayed block must be X, (X, y) or (X, y, weight) with a two-dimensional array X, got ({kinds})."
        raise DataError(msg)
    X, y, weight = (*values, None, None)[:3]
    return X, y, weight


def _list(*values: Any) -> list[tuple[Any, Any, Any]]:
    """Return the blocks ``(X, y, weight)`` of a partition that have rows, given its computed pieces."""
    return [block for block in _blocks(*values) if block[0].shape[0]]


def _head(*values: Any) -> tuple[Any, ...]:
    """Return ``(X, y, weight)`` of the first few rows of a partition, given its computed pieces."""
    return first_rows(*next(block for block in _blocks(*values) if block[0].shape[0]))


def _count(*values: Any) -> int:
    """Return the number of rows of a partition, given its computed pieces."""
    return sum(int(block[0].shape[0]) for block in _blocks(*values))


# ---- graphs and schedulers --------------------------------------------------------------------


def layer_of(name: str, tasks: dict[Any, Task], pieces: Pieces) -> HighLevelGraph:
    """Return a graph with the tasks as one layer named `name`, on top of the graphs of the delayed values `pieces`."""
    # The pieces of one collection share its graph, which is merged once rather than once per partition.
    present = (piece for some in pieces for piece in some if piece is not None)
    sources: dict[Any, Any] = {(id(piece.dask), *piece.__dask_layers__()): piece for piece in present}
    return HighLevelGraph.from_collections(name, tasks, list(sources.values()))


def as_delayed(key: Any, tasks: dict[Any, Task], pieces: Pieces) -> Delayed:
    """Return the result of the task with key `key` as a delayed value.

    The graph consists of `tasks` and of the graphs of the delayed values `pieces`.
    """
    name = f"mercer-{uuid.uuid4().hex}"
    return Delayed(key, layer_of(name, tasks, pieces), layer=name)


def compute_one(function: Callable[..., Any], pieces: tuple[Any, ...], **sizes: Any) -> Any:
    """Return ``function(*pieces)`` for the delayed values `pieces` of one partition, computed by the Dask scheduler.

    The keyword arguments are the sizes for the advice that is given when a worker dies; see `failures_explained`.
    """
    key = f"mercer-one-{uuid.uuid4().hex}"
    with failures_explained(active_client(), **sizes):
        return as_delayed(key, {key: Task(key, function, *map(ref, pieces))}, [pieces]).compute()


def count_rows(pieces: Pieces) -> list[int]:
    """Return the number of rows of each partition, by computing all partitions."""
    token = uuid.uuid4().hex
    keys = [(f"mercer-count-{token}", i) for i in range(len(pieces))]
    tasks: dict[Any, Task] = {key: Task(key, _count, *map(ref, some)) for key, some in zip(keys, pieces, strict=True)}
    counts = f"mercer-counts-{token}"
    tasks[counts] = Task(counts, _as_list, *map(TaskRef, keys))
    with failures_explained(active_client()):
        return as_delayed(counts, tasks, pieces).compute()


def _as_list(*values: int) -> list[int]:
    """Return the arguments as a list."""
    return list(values)


def active_client() -> Any:
    """Return the ``distributed.Client`` that Dask uses by default, or None if computations run in this process."""
    if "distributed" not in sys.modules:
        return None
    from distributed import Client

    owner = getattr(get_scheduler(), "__self__", None)
    return owner if isinstance(owner, Client) else None


def tasks_within_tasks() -> AbstractContextManager[Any]:
    """Return a context in which a task on a worker can compute tasks of its own.

    The thread of the task leaves the thread pool of the worker meanwhile. Otherwise all threads could wait for tasks
    that no thread is left for.
    """
    if "distributed" in sys.modules:
        from distributed import worker_client
        from distributed.worker import thread_state

        if getattr(thread_state, "execution_state", None):
            return worker_client()
    return nullcontext()


def compute_on_cluster(client: Any, total: Delayed, work_bytes: int, topic: str | None, watch: _Watch) -> Packed:
    """Compute a delayed sum on a cluster and return it. If this process is interrupted, cancel the tasks.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    total : Delayed
        The sum, see `DaskEngine._graph`.
    work_bytes : int
        Size of the serialized `Work` in the graph.
    topic : str or None
        Dask topic on which workers report finished partitions; None means that they report nothing.
    watch : _Watch
        Receives the reports of the workers.
    """
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    if topic is not None:
        client.subscribe_topic(topic, lambda event: events.put(event[1]))
    # The feature map and the coefficients are in the graph on purpose, so Dask should not warn about their size.
    threshold = "distributed.admin.large-graph-warning-threshold"
    with dask.config.set({threshold: parse_bytes(dask.config.get(threshold)) + work_bytes}):
        future = client.compute(total)
    has_warned = False
    try:
        future.add_done_callback(lambda _: events.put(None))
        while True:
            try:
                event = events.get(timeout=WAIT_SECONDS)
            except queue.Empty:
                has_warned = has_warned or warn_without_workers(client)
                continue
            if event is None:
                return future.result()
            watch.done(*event)
    except BaseException:
        with suppress(Exception):  # the client may be closed; the first error is the one to report
            client.cancel([future])
        raise
    finally:
        if topic is not None:
            with suppress(Exception):
                client.unsubscribe_topic(topic)


def warn_without_workers(client: Any) -> bool:
    """Warn if no worker is connected, for which Dask waits without a limit, and return whether this is so."""
    if client.nthreads():
        return False
    msg = (
        "No Dask worker is connected, and the computation waits for one. Start workers, or interrupt it. The Dask "
        "setting distributed.scheduler.no-workers-timeout makes it fail instead."
    )
    warnings.warn(msg, MercerWarning, stacklevel=2)
    return True


class _Watch:
    """Reports how many rows are in finished partitions. A partition that is computed more than once counts once."""

    def __init__(self, total: int, report: Report | None) -> None:
        self._total = total
        self._report = report
        self._rows: dict[int, int] = {}
        self._start = time.perf_counter()

    def done(self, number: int, rows: int) -> None:
        """Report that the partition with index `number`, which has `rows` rows, is finished."""
        if self._report is not None and number not in self._rows:
            self._rows[number] = rows
            self._report(Progress(sum(self._rows.values()), self._total, time.perf_counter() - self._start))

    def finish(self) -> None:
        """Report that all rows are done, unless this has been reported already."""
        if self._report is not None and sum(self._rows.values()) < self._total:
            self._report(Progress(self._total, self._total, time.perf_counter() - self._start))

    def tasks(self, name: str) -> AbstractContextManager[Any]:
        """Return a context manager that reports tasks with keys ``(name, number)`` that finish in this process."""
        if self._report is None:
            return nullcontext()

        def after(key: Any, value: Any, *_: Any) -> None:
            if isinstance(key, tuple) and key[0] == name:
                self.done(key[1], value.rows)

        return Callback(posttask=after)
