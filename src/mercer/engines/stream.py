"""The engine for an iterable of blocks: (X, y) or (X, y, weight), read once or many times.

An iterable may provide more. `n_rows` is the number of its rows, or None. `parts()` returns a tuple of iterables that
give the same blocks one after another: then a thread reads ahead, and a pass that starts in the middle does not read
the earlier parts. `fingerprint()` returns what identifies its rows, by which a checkpoint recognizes them. The result
of `mercer.open_rows` has all three.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import Any

from mercer.engines.base import NO_ROWS, START, UNKNOWN, Block, LocalEngine, Position, closing_all, row_blocks
from mercer.engines.prefetch import read_ahead
from mercer.errors import DataError
from mercer.io.digests import digest_of

__all__ = ["StreamEngine"]


class StreamEngine(LocalEngine):
    """An engine over an iterable of blocks.

    Parameters
    ----------
    blocks : iterable
        Each is ``X``, ``(X,)``, ``(X, y)`` or ``(X, y, weight)``. A list, or any object whose ``iter`` starts again,
        can be read more than once; a generator cannot. See the module for `n_rows`, `parts` and `fingerprint`.
    check : callable
        Validates the parts of one block and returns ``(X, y, weight)``.
    block_rows : callable, default=None
        Given validated rows, the number of rows per block: larger blocks are cut. None leaves them as they are.
    n_jobs : int or None, default=None
        Threads.
    """

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
        self.n_rows = getattr(blocks, "n_rows", None)
        self._parts: tuple[Any, ...] | None = blocks.parts() if hasattr(blocks, "parts") else None
        self._pending: Iterator[Any] | None = None  # an iterator that was started, with what was read put back
        self._rows: int | None = None  # of the first complete reading
        self._item_rows: list[int] = []  # the first row of each item of the source, in the pass under way

    def first(self) -> Block:
        if self._parts is not None:
            with closing_all(self.blocks()) as blocks:
                for block in blocks:
                    if len(block):
                        return block
            raise DataError(NO_ROWS)
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

    def blocks(self, since: Position = START) -> Iterator[Block]:
        items = self._items(since.item)
        if self._parts is not None:
            items = read_ahead(items)
        row = since.item_row
        self._item_rows = [row] * (since.item + 1)
        with closing_all(items):
            for number, parts in items:
                while len(self._item_rows) <= number:
                    self._item_rows.append(row)
                block = self._checked(number, row, parts)
                yield from self._cut(block, since.row - row)
                row += len(block)
        self._check_rows(row)

    def position(self, row: int) -> Position:
        item = bisect_left(self._item_rows, row) - 1
        return Position(row, max(item, 0), self._item_rows[max(item, 0)])

    def fingerprint(self) -> dict[str, str]:
        known = {"number of rows": str(self.n_rows), "digest of all rows": UNKNOWN}
        if isinstance(self.source, list | tuple):
            known["digest of all rows"] = digest_of(self._all_values())
        if self._parts is None:
            return known
        # Neither the folder, since files may be moved, nor the address of an object without a description.
        last = re.sub(r" at 0x[0-9a-fA-F]+", "", str(self._parts[-1]).split(os.sep)[-1])
        known["parts of the files"] = f"{len(self._parts)}, the last {last}"
        return {**known, **(self.source.fingerprint() if hasattr(self.source, "fingerprint") else {})}

    def _all_values(self) -> Iterator[Any]:
        row = 0
        for number, parts in enumerate(self.source):
            block = self._checked(number, row, parts)
            yield from (block.X, block.y, block.weight)
            row += len(block)

    def _items(self, skip: int) -> Iterator[tuple[int, Any]]:
        """Yield the blocks of the source, each with the index of its item: that of its part, or its own."""
        if self._parts is None:
            source = iter(self.source) if self._pending is None else self._pending
            self._pending = None
            yield from islice(enumerate(source), skip, None)
            return
        for number in range(skip, len(self._parts)):
            for parts in self._parts[number]:
                yield number, parts

    def _check_rows(self, rows: int) -> None:
        if self._rows is not None and rows != self._rows:
            msg = (
                f"The blocks had {self._rows} rows in the first pass and {rows} in the next. Pass a list, or an object "
                "whose __iter__ starts over, or a map that does not depend on the rows."
            )
            raise DataError(msg)
        if self.n_rows is not None and rows != self.n_rows:
            msg = f"The source of the blocks has n_rows={self.n_rows}, but its blocks had {rows} rows."
            raise DataError(msg)
        self._rows = rows

    def _checked(self, number: int, start: int, parts: Any) -> Block:
        if len(getattr(parts, "shape", ())) == 2:
            parts = (parts,)
        where = f"Block {number}" if self._parts is None else str(self._parts[number])
        if not isinstance(parts, tuple | list) or not 1 <= len(parts) <= 3:
            msg = (
                f"{where}: a block is a tuple (X, y) or (X, y, weight), got {type(parts).__name__}"
                f"{f' of length {len(parts)}' if isinstance(parts, tuple | list) else ''}."
            )
            raise DataError(msg)
        try:
            X, y, weight = self.check(*parts)
        except (TypeError, ValueError) as error:
            msg = f"{where}, {'which' if self._parts is None else 'in a block that'} starts at row {start}: {error}"
            raise DataError(msg) from error
        return Block(start, X, y, weight)

    def _cut(self, block: Block, done: int) -> Iterator[Block]:
        """Cut a block, without its first `done` rows."""
        if 0 < len(block) <= done:
            return
        if self.block_rows is None or not len(block):
            yield block
            return
        yield from row_blocks(block, self.block_rows(block.X), done)
