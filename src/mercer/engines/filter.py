"""An engine over some of the rows of another engine.

The rows are selected by a rule: a function of a block of rows that returns the block of the selected rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np

from mercer.engines.base import START, Accumulator, Block, Engine, Position, Report, Workers
from mercer.errors import DataError
from mercer.io.archive import storable

__all__ = ["FilteredEngine", "Rule", "Selected", "some_rows"]

S = TypeVar("S")


class Rule(Protocol):
    """A picklable function of a block of rows that returns the block of the selected rows."""

    def __call__(self, block: Block) -> Block:
        """Return the selected rows of a block, as `some_rows` does; the result may have no rows."""


class FilteredEngine(Engine):
    """An engine over selected rows of another engine.

    For each block, ``block.index`` are the indices of its rows among all rows of the other engine.

    Parameters
    ----------
    engine : Engine
        Engine over all rows.
    rule : Rule
        Function of a block that returns its selected rows.
    nothing : str
        Message of the error that is raised if no row is selected.
    """

    n_rows = None

    def __init__(self, engine: Engine, rule: Rule, nothing: str) -> None:
        self.engine = engine
        self.rule = rule
        self.nothing = nothing
        self.replayable = engine.replayable
        self.n_jobs = engine.n_jobs

    def first(self) -> Block:
        for block in self.blocks():
            return block
        raise DataError(self.nothing)

    def blocks(self, since: Position = START) -> Iterator[Block]:
        for block in self.engine.blocks(since):
            some = self.rule(block)
            if len(some):
                yield some

    def sum(self, term: Callable[[Block], S], progress: Report | None = None) -> S:
        return self._found(self.engine.sum(SelectedTerm(term, self.rule), progress))

    def accumulate(self, into: Accumulator[S], progress: Report | None = None) -> S:
        return self._found(self.engine.accumulate(SelectedSum(into, self.rule), progress))

    def fingerprint(self) -> dict[str, str]:
        return self.engine.fingerprint()

    def _found(self, total: Selected) -> Any:
        """Return ``total.value``, the sum over the selected rows; raise DataError if no row was selected."""
        if total.value is None:
            raise DataError(self.nothing)
        return total.value


@storable
@dataclass(frozen=True)
class Selected:
    """A sum over the selected rows, stored in `value`, which is None if no row was selected."""

    value: Any

    def __add__(self, other: Selected) -> Selected:
        if self.value is None or other.value is None:
            return other if self.value is None else self
        return Selected(self.value + other.value)


@dataclass(frozen=True)
class SelectedTerm:
    """Function of a block of rows that evaluates `term` on the selected rows, and returns the value as `Selected`."""

    term: Callable[[Block], Any]
    rule: Rule

    def __call__(self, block: Block) -> Selected:
        some = self.rule(block)
        return Selected(self.term(some) if len(some) else None)


class SelectedSum(Accumulator[Selected]):
    """Accumulator that adds the selected rows of each block to the accumulator `into`."""

    def __init__(self, into: Accumulator[Any], rule: Rule) -> None:
        self._into = into
        self._rule = rule
        self._any = False

    def add(self, block: Block, workers: Workers) -> None:
        some = self._rule(block)
        if len(some):
            self._into.add(some, workers)
            self._any = True

    def result(self) -> Selected:
        return Selected(self._into.result() if self._any else None)

    def restore(self, state: Selected) -> None:
        if state.value is not None:
            self._into.restore(state.value)
            self._any = True


def some_rows(block: Block, mask: np.ndarray) -> Block:
    """Return a block with the rows for which the boolean `mask` of shape (n,) is True, and with their row indices."""
    if mask.all():
        return block
    y, weight = (None if values is None else values[mask] for values in (block.y, block.weight))
    return Block(block.start, block.X[mask], y, weight, block.index[mask])
