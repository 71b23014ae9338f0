"""Reading ahead: a thread reads the next blocks while the last one is worked on."""

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
    """Yield the items of an iterator that a thread of its own reads, at most `depth` of them ahead.

    The thread lives as long as this generator: it ends with the last item, with an error, which is raised here, or as
    soon as the generator is closed. Then the iterator is closed too.
    """
    ready: SimpleQueue[tuple[T | None, BaseException | None, bool]] = SimpleQueue()
    room = threading.Semaphore(depth)
    stop = threading.Event()

    def read() -> None:
        error: BaseException | None = None
        try:
            with closing_all(items):
                while room.acquire() and not stop.is_set():
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
                msg = "This process was forked while blocks were read: begin a new pass over the rows here."
                raise RuntimeError(msg)
            item, error, end = ready.get()
            if error is not None:
                raise error
            if end:
                return
            room.release()
            yield item  # type: ignore[misc]
    finally:
        stop.set()
        room.release()
        thread.join()  # at once in a forked child, where the thread does not exist
