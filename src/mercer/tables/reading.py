"""Blocks of tables for engines: each block is a `Frame`, whose cells are not converted to numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from mercer.data.targets import Coding
from mercer.errors import DataError
from mercer.io.formats.columns import listed
from mercer.tables.frames import Frame, frame_of

__all__ = ["BLOCK_ROWS", "Tables"]

#: Number of rows of a block.
BLOCK_ROWS = 2**16


@dataclass(frozen=True)
class Tables(Coding):
    """Coding that reads blocks as frames and ignores targets; all blocks must have the columns of the first one."""

    columns: tuple[str, ...] | None = None
    named: bool = False  # whether the columns have names that are strings

    @property
    def settled(self) -> bool:
        return True

    def validate(self, estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Any, None, Tables]:  # noqa: ARG002
        owner = type(estimator).__name__
        frame, named = frame_of(X, owner)
        if not len(frame):
            msg = f"{owner}: Found array with 0 sample(s) (shape={frame.shape}) while a minimum of 1 is required."
            raise DataError(msg)
        if reset or self.columns is None:
            return frame, None, replace(self, columns=frame.names, named=named)
        if frame.names == self.columns:
            return frame, None, self
        lacks = [name for name in self.columns if name not in frame.names]
        more = [name for name in frame.names if name not in self.columns]
        if lacks or more:
            what = f"lacks {listed(lacks)}" if lacks else f"also has {listed(more)}"
            msg = f"{owner}: all blocks must have the columns of the first one; this one {what}."
            raise DataError(msg)
        index = {name: i for i, name in enumerate(frame.names)}
        return Frame(self.columns, tuple(frame.columns[index[name]] for name in self.columns), len(frame)), None, self
