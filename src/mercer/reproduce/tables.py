"""What a published table is: its rows, the methods that are run again, and the figures of the paper."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal

__all__ = ["Measured", "Method", "Published", "Table", "Trial"]

#: Whose a method is: the exact one that features approximate, one of the paper, or one of mercer.
Kind = Literal["exact", "paper", "ours"]


@dataclass(frozen=True)
class Method:
    """A method that is run.

    Parameters
    ----------
    title : str
        Its name on the scoreboard.
    kind : {"exact", "paper", "ours"}
        The exact method, a method of the paper that is run again, or one of mercer.
    published : str or None, default=None
        Name of the method in the published table, if it is there.
    """

    title: str
    kind: Kind
    published: str | None = None


@dataclass(frozen=True)
class Measured:
    """One figure of one method: its value, and the seconds that the method took."""

    value: float
    seconds: float
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """What a measurement needs to know: the folder of data sets, the row of the table, and the number of the split."""

    folder: Path
    row: str
    split: int
    quick: bool
    methods: tuple[str, ...]


@dataclass(frozen=True)
class Published:
    """The figures of a paper, from a file in the folder ``targets``.

    Attributes
    ----------
    title, citation, source : str
        What the table is, the paper, and where the figures were read.
    measure, unit : str
        What is measured, and its unit.
    better : {"lower", "higher"}
        Which figures are better.
    figures : dict of str to dict of str to float
        The figures, by row and method.
    remarks : dict of str to str
        What to know about a row, by row.
    reasons : dict of str to str
        Why a figure of ours is worse than the best of the paper, by row, where it is known.
    exact : sequence of str
        Columns of exact methods, whose figures features approximate and need not exceed.
    """

    title: str
    citation: str
    source: str
    measure: str
    unit: str
    better: Literal["lower", "higher"]
    figures: Mapping[str, Mapping[str, float]]
    remarks: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    exact: Sequence[str] = ()

    @classmethod
    def read(cls, name: str) -> Published:
        """Return the figures of a table."""
        file = resources.files("mercer.reproduce").joinpath("targets", f"{name}.json")
        return cls(**json.loads(file.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Table:
    """A published table that can be run again.

    Parameters
    ----------
    name : str
        Its name on the command line, and that of its file of figures.
    protocol : str
        How it is measured here, in sentences; what the paper leaves open is stated.
    methods : dict of str to Method
        The methods that are run.
    rows : callable
        Returns the names of the rows, given whether the run is quick.
    splits : callable
        Returns the number of repetitions of a row, given its name and whether the run is quick.
    measure : callable
        Runs the methods of a trial, and returns one figure for each, by name.
    datasets : callable
        Returns the names of the data sets that a row needs.
    smaller : callable or None, default=None
        Returns whether the quick run of a row has fewer rows of data, so that its figures cannot be compared. None
        means that no row has.
    apart : bool, default=False
        Whether each method has a process of its own, so that its peak memory is known.
    """

    name: str
    protocol: str
    methods: Mapping[str, Method]
    rows: Callable[[bool], tuple[str, ...]]
    splits: Callable[[str, bool], int]
    measure: Callable[[Trial], Mapping[str, Measured]]
    datasets: Callable[[str], tuple[str, ...]]
    smaller: Callable[[str], bool] | None = None
    apart: bool = False

    @cached_property
    def published(self) -> Published:
        """The figures of the paper."""
        return Published.read(self.name)

    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Return the methods that share a process."""
        return tuple((name,) for name in self.methods) if self.apart else (tuple(self.methods),)
