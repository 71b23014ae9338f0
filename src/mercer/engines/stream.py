"""Rows that arrive as an iterable of blocks: (X, y) or (X, y, weight), once or many times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

from mercer.engines.base import NO_ROWS, Block, Engine, row_blocks
from mercer.errors import DataError

__all__ = ["StreamEngine"]


class StreamEngine(Engine):
    """An engine over an iterable of blocks.

    Parameters
    ----------
    blocks : iterable
        Each is ``X``, ``(X,)``, ``(X, y)`` or ``(X, y, weight)``. A list, or any object whose ``iter`` starts again,
        can be read more than once; a generator cannot.
    check : callable
        Turns the parts of one block into validated ``(X, y, weight)``.
    block_rows : callable, default=None
        Given checked rows, the number of them to work on at a time: larger blocks are cut. None leaves them whole.
    n_jobs : int or None, default=None
        Threads.
    """

    n_rows = None

    def __init__(
        self,
        blocks: Iterable[Any],
        check: Callable[..., tuple[Any, Any, Any]],
        *,
        block_rows: Callable[[Any], int] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.source = blocks
        self.check = check
        self.block_rows = block_rows
        self.n_jobs = n_jobs
        self.replayable = iter(blocks) is not blocks
        self._pending: Iterator[Any] | None = None  # an iterator that was begun, with what was read put back
        self._rows: int | None = None  # of the first complete reading

    def first(self) -> Block:
        # Whatever is read here is put back for the next reading. Starting over instead would lose it for sources
        # that only look as if they could.
        source = iter(self.source) if self._pending is None else self._pending
        read: list[Any] = []
        try:
            for parts in source:
                read.append(parts)
                block = self._checked(len(read) - 1, 0, parts)
                if len(block):
                    return block
        finally:
            self._pending = chain(read, source)
        raise DataError(NO_ROWS)

    def blocks(self) -> Iterator[Block]:
        source = iter(self.source) if self._pending is None else self._pending
        self._pending = None
        start = 0
        for number, parts in enumerate(source):
            block = self._checked(number, start, parts)
            yield from self._cut(block)
            start += len(block)
        if self._rows is not None and start != self._rows:
            msg = (
                f"The blocks gave {self._rows} rows at the first reading and {start} at the next. Pass a list, or an "
                "object whose __iter__ starts over, or a map that does not learn from rows."
            )
            raise DataError(msg)
        self._rows = start

    def _checked(self, number: int, start: int, parts: Any) -> Block:
        if len(getattr(parts, "shape", ())) == 2:
            parts = (parts,)
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
        return Block(start, X, y, weight)

    def _cut(self, block: Block) -> Iterator[Block]:
        if self.block_rows is None or not len(block):
            yield block
            return
        yield from row_blocks(block, self.block_rows(block.X))
