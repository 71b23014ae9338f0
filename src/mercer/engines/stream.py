"""Rows that arrive as an iterable of blocks: (X, y) or (X, y, weight), once or many times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from mercer.engines.base import Block, Engine
from mercer.errors import DataError

__all__ = ["StreamEngine"]


class StreamEngine(Engine):
    """An engine over an iterable of blocks.

    Parameters
    ----------
    blocks : iterable of tuples
        Each is ``(X,)``, ``(X, y)`` or ``(X, y, weight)``. A list, or any object whose ``iter`` starts again, can be
        read more than once; a generator cannot.
    check : callable
        Turns the parts of one block into validated ``(X, y, weight)``.
    """

    n_rows = None

    def __init__(
        self,
        blocks: Iterable[Any],
        check: Callable[..., tuple[Any, Any, Any]],
        *,
        n_jobs: int | None = None,
    ) -> None:
        self.source = blocks
        self.check = check
        self.n_jobs = n_jobs
        self.replayable = iter(blocks) is not blocks

    def blocks(self) -> Iterator[Block]:
        start = 0
        for number, parts in enumerate(self.source):
            if not isinstance(parts, tuple | list) or not 1 <= len(parts) <= 3:
                msg = (
                    f"Block {number}: a block is a tuple (X, y) or (X, y, weight), got {type(parts).__name__}"
                    f"{f' of length {len(parts)}' if isinstance(parts, tuple | list) else ''}."
                )
                raise DataError(msg)
            try:
                X, y, weight = self.check(*parts)
            except (TypeError, ValueError) as error:
                msg = f"Block {number}, which starts at row {start}: {error}"
                raise DataError(msg) from error
            yield Block(start, X, y, weight)
            start += X.shape[0]

    def first(self) -> Block:
        if self.replayable:
            return super().first()
        # A one-time source: what is read here is put back in front.
        source = iter(self.source)
        read: list[Any] = []
        self.source = _remember(source, read)
        try:
            return super().first()
        finally:
            self.source = chain(read, source)


def _remember(source: Iterator[Any], read: list[Any]) -> Iterator[Any]:
    for item in source:
        read.append(item)
        yield item
