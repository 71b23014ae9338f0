"""Some rows of another engine: those that a rule keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from mercer.engines.base import BEGIN, Accumulator, Block, Engine, Place, Progress, Workers
from mercer.errors import DataError
from mercer.io.archive import storable

__all__ = ["FilteredEngine", "Kept", "Rule", "some_rows"]

S = TypeVar("S")


class Rule(Protocol):
    """Keeps the rows of a block that count; it may have to travel, and so survives pickle."""

    def __call__(self, block: Block) -> Block:
        """Return these rows, such as `some_rows` does; they may be none."""


class FilteredEngine(Engine):
    """An engine over the rows that a rule keeps; they know their places among all rows.

    Parameters
    ----------
    engine : Engine
        All rows.
    rule : Rule
        Which of them count.
    nothing : str
        What to say if there are none.
    """

    n_rows = None

    def __init__(self, engine: Engine, rule: Rule, nothing: str) -> None:
        self.engine = engine
        self.rule = rule
        self.nothing = nothing
        self.replayable = engine.replayable
        self.n_jobs = engine.n_jobs

    def blocks(self, since: Place = BEGIN) -> Iterator[Block]:
        for block in self.engine.blocks(since):
            some = self.rule(block)
            if len(some):
                yield some

    def sum(self, term: Callable[[Block], S], progress: Callable[[Progress], None] | None = None) -> S:
        return self._found(self.engine.sum(KeptTerm(term, self.rule), progress))

    def accumulate(self, into: Accumulator[S], progress: Callable[[Progress], None] | None = None) -> S:
        return self._found(self.engine.accumulate(KeptSum(into, self.rule), progress))

    def _found(self, total: Kept) -> Any:
        if total.value is None:
            raise DataError(self.nothing)
        return total.value


@storable
@dataclass(frozen=True)
class Kept:
    """A sum over the rows kept, None if there was none of them."""

    value: Any

    def __add__(self, other: Kept) -> Kept:
        if self.value is None or other.value is None:
            return other if self.value is None else self
        return Kept(self.value + other.value)


@dataclass(frozen=True)
class KeptTerm:
    """The term of the rows kept."""

    term: Callable[[Block], Any]
    rule: Rule

    def __call__(self, block: Block) -> Kept:
        some = self.rule(block)
        return Kept(self.term(some) if len(some) else None)


class KeptSum(Accumulator[Kept]):
    """Adds the rows kept to another sum."""

    def __init__(self, into: Accumulator[Any], rule: Rule) -> None:
        self._into = into
        self._rule = rule
        self._any = False

    def add(self, block: Block, workers: Workers) -> None:
        some = self._rule(block)
        if len(some):
            self._into.add(some, workers)
            self._any = True

    def result(self) -> Kept:
        return Kept(self._into.result() if self._any else None)

    def state(self) -> Kept:
        return Kept(self._into.state() if self._any else None)

    def restore(self, state: Kept) -> None:
        if state.value is not None:
            self._into.restore(state.value)
            self._any = True


def some_rows(block: Block, mask: np.ndarray) -> Block:
    """Return the rows of a block for which a truth value says so; they know their places."""
    if mask.all():
        return block
    y, weight = (None if values is None else values[mask] for values in (block.y, block.weight))
    return Block(block.start, block.X[mask], y, weight, block.index[mask])
