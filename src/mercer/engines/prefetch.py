"""Reading ahead: a thread reads the next blocks while the current one is processed."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import TypeVar

from mercer.engines.base import closing_all

__all__ = ["read_ahead"]

T = TypeVar("T")


def read_ahead(items: Iterator[T], depth: int = 2) -> Iterator[T]:
    """Yield the items of an iterator. A separate thread reads the iterator, at most `depth` items ahead.

    The thread ends after the last item, after an error in the iterator, or when this generator is closed. It then
    closes the iterator. An error in the iterator is raised again by this generator.
    """
    ready: SimpleQueue[tuple[T | None, BaseException | None, bool]] = SimpleQueue()
    slots = threading.Semaphore(depth)
    stop = threading.Event()

    def read() -> None:
        error: BaseException | None = None
        try:
            with closing_all(items):
                while slots.acquire() and not stop.is_set():
                    try:
                        item = next(items)
                    except StopIteration:
                        break
                    ready.put((item, None, False))
        except BaseException as caught:
            error = caught
        ready.put((None, error, True))

    thread = threading.Thread(target=read, name="mercer-reader", daemon=True)
    process = os.getpid()
    thread.start()
    try:
        while True:
            if os.getpid() != process:
                msg = "This process was forked while blocks were read. Start a new pass over the rows in the child."
                raise RuntimeError(msg)
            item, error, end = ready.get()
            if error is not None:
                raise error
            if end:
                return
            slots.release()
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        slots.release()
        thread.join()  # at once in a forked child, where the thread does not exist
