"""The engine for an iterable of blocks ``(X, y)`` or ``(X, y, weight)``, which can be read once or many times.

The iterable may have three optional attributes, all of which the result of `mercer.open_rows` has:

- `n_rows`, the number of its rows, or None if it is not known.
- `parts()`, which returns a tuple of iterables that yield the same blocks if they are read one after another. In this
  case a thread reads ahead, and a pass that starts in the middle does not read the earlier parts.
- `fingerprint()`, which returns named strings that identify its rows. A fit resumes from a checkpoint only if they are
  equal to those in the checkpoint.
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
        Each block is ``X``, ``(X,)``, ``(X, y)`` or ``(X, y, weight)``. A list, or any object whose ``__iter__`` starts
        over, can be read more than once; a generator cannot. Optional attributes are `n_rows`, `parts` and
        `fingerprint`, see `mercer.engines.stream`.
    check : callable
        Validates ``X``, ``X, y`` or ``X, y, weight`` of one block and returns ``(X, y, weight)``.
    block_rows : callable, default=None
        Function of validated rows that returns the maximum number of rows of a block; larger blocks are cut. None means
        that blocks are not cut.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
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
        self._pending: Iterator[Any] | None = None  # a started iterator, before which the blocks read are put back
        self._rows: int | None = None  # number of rows of the first complete pass
        # An item is a part of the source, or a block if the source has no parts: first row of each, in this pass.
        self._item_rows: list[int] = []

    def first(self) -> Block:
        if self._parts is not None:
            with closing_all(self.blocks()) as blocks:
                for block in blocks:
                    if len(block):
                        return block
            raise DataError(NO_ROWS)
        # Blocks that are read here are put back for the next pass. Calling iter() again would lose them if the source,
        # although it is not an iterator, does not start over.
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
        # Without the folder, since files may be moved, and without the memory address in the default repr of objects.
        last = re.sub(r" at 0x[0-9a-fA-F]+", "", str(self._parts[-1]).split(os.sep)[-1])
        known["parts of the files"] = f"{len(self._parts)}, the last {last}"
        return {**known, **(self.source.fingerprint() if hasattr(self.source, "fingerprint") else {})}

    def _all_values(self) -> Iterator[Any]:
        """Yield `X`, `y` and `weight` of every block, validated."""
        row = 0
        for number, parts in enumerate(self.source):
            block = self._checked(number, row, parts)
            yield from (block.X, block.y, block.weight)
            row += len(block)

    def _items(self, skip: int) -> Iterator[tuple[int, Any]]:
        """Yield ``(number, block)`` for the blocks of the source, which are not validated.

        `number` is the index of the part of the source that the block belongs to, or the index of the block if the
        source has no parts. The first `skip` parts or blocks are left out.
        """
        if self._parts is None:
            source = iter(self.source) if self._pending is None else self._pending
            self._pending = None
            yield from islice(enumerate(source), skip, None)
            return
        for number in range(skip, len(self._parts)):
            for parts in self._parts[number]:
                yield number, parts

    def _check_rows(self, rows: int) -> None:
        """Raise if `rows`, the number of rows in a complete pass, differs from the first pass or from `n_rows`."""
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
        """Validate ``parts = (X, y, weight)`` and return them as a `Block` whose first row has the index `start`.

        `number` is the index of the part or block in the source, for messages.
        """
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
        """Skip the first `done` rows of a block, and yield its other rows in blocks of the size set by `block_rows`."""
        if 0 < len(block) <= done:
            return
        if self.block_rows is None or not len(block):
            yield block
            return
        yield from row_blocks(block, self.block_rows(block.X), done)
