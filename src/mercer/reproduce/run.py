"""Running tables: one process per row, a file per row so that a run can be interrupted, and the results."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import Any

from mercer import __version__
from mercer.diagnostics.fits.results import Result
from mercer.engines import Report, enter_stage, reported, stages_of
from mercer.errors import DataError, MercerError, ParameterError
from mercer.io import write_text
from mercer.reproduce.datasets import missing, where
from mercer.reproduce.papers import TABLES
from mercer.reproduce.tables import Kind, Table

__all__ = ["Cell", "Scoreboard", "reproduce"]

# Figures that differ by less than this many standard errors are called equal.
EQUAL = 1.0
# Verdicts of rows that are compared with the paper, and of others.
COMPARED = ("better", "equal", "worse")
NOT_COMPARED = ("fewer rows", "not compared")


@dataclass(frozen=True)
class Cell(Result):
    """The figures of one method in one row of a table.

    Attributes
    ----------
    method, title, kind : str
        The method, its title, and whose it is: "exact", "paper" or "ours".
    published : float or None
        Its figure in the paper.
    value, error : float
        Mean over the splits, and its standard error, NaN for one split.
    n_splits : int
        Number of splits.
    seconds : float
        Mean time.
    peak_bytes : int or None
        Peak memory of the process, which may have run several methods of the row.
    """

    method: str
    title: str
    kind: Kind
    published: float | None
    value: float
    error: float
    n_splits: int
    seconds: float
    peak_bytes: int | None


@dataclass(frozen=True)
class Row(Result):
    """One row of a table: the figures of the paper, and those that were measured.

    Attributes
    ----------
    name : str
        Its name.
    published : dict of str to float
        The figures of the paper, without those of exact methods.
    cells : tuple of Cell
        What was measured.
    remark : str
        What to know about it.
    better : {"lower", "higher"}
        Which figures are better.
    smaller : bool
        Whether it was run with fewer rows of data than in the paper.
    known_reason : str
        Why our best figure is worse than that of the paper, where it is known.
    verdict : str
        Whether our best is "better" than the best of the paper, "equal" within a standard error, or "worse". It is
        "fewer rows" if the row was run with fewer rows of data, and "not compared" without figures.
    reason : str
        Why our best is worse: what is known, and which methods of the paper are worse here, too. It is empty if our
        best is not worse.
    """

    name: str
    published: dict[str, float]
    cells: tuple[Cell, ...]
    remark: str
    better: str
    smaller: bool = False
    known_reason: str = ""
    verdict: str = field(init=False)
    reason: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdict", self._verdict())
        object.__setattr__(self, "reason", self._reason() if self.verdict == "worse" else "")

    def best(self, *kinds: str) -> Cell | None:
        """Return the best method of some kinds that was measured, or None if there is none."""
        found = [cell for cell in self.cells if cell.kind in kinds]
        sign = 1 if self.better == "lower" else -1
        return min(found, key=lambda cell: sign * cell.value) if found else None

    @property
    def best_published(self) -> float | None:
        """The best figure of the paper, without those of exact methods."""
        figures = list(self.published.values())
        if not figures:
            return None
        return min(figures) if self.better == "lower" else max(figures)

    def _verdict(self) -> str:
        if self.smaller:
            return "fewer rows"
        ours, theirs = self.best("ours"), self.best_published
        if ours is None or theirs is None:
            return "not compared"
        gain = (theirs - ours.value) if self.better == "lower" else (ours.value - theirs)
        margin = 0.0 if ours.error != ours.error else EQUAL * ours.error
        return "better" if gain > margin else "equal" if gain >= -margin else "worse"

    def _reason(self) -> str:
        sign = 1 if self.better == "lower" else -1
        harder = [
            f"{cell.title} {cell.value:.4g} instead of {cell.published:.4g}"
            for cell in self.cells
            if cell.published is not None and sign * cell.value > sign * cell.published
        ]
        also = f"Other methods are worse here than in the paper, too: {', '.join(harder)}." if harder else ""
        return " ".join(filter(None, (self.known_reason, also))) or "The reason is not known."


@dataclass(frozen=True)
class TableResult(Result):
    """One published table beside what was measured."""

    name: str
    title: str
    citation: str
    source: str
    measure: str
    unit: str
    better: str
    protocol: str
    rows: tuple[Row, ...]
    skipped: tuple[str, ...]

    @property
    def has_exact(self) -> bool:
        """Whether an exact method was measured."""
        return any(row.best("exact") is not None for row in self.rows)

    def counts(self) -> dict[str, int]:
        """Return how many rows have which verdict, without verdicts that no row has."""
        verdicts = [row.verdict for row in self.rows]
        return {name: verdicts.count(name) for name in (*COMPARED, *NOT_COMPARED) if name in verdicts}


@dataclass(frozen=True)
class Scoreboard(Result):
    """The results of `reproduce`.

    Attributes
    ----------
    tables : tuple of TableResult
        One entry per table.
    quick : bool
        Whether rows were left out and splits reduced.
    version : str
        The version of mercer.
    """

    tables: tuple[TableResult, ...]
    quick: bool
    version: str

    def __str__(self) -> str:
        lines = []
        for table in self.tables:
            counts = ", ".join(f"{count} {name}" for name, count in table.counts().items())
            lines += [
                f"{table.title}: {table.measure}{f' in {table.unit}' if table.unit else ''}; {counts or 'no rows'}"
            ]
            for row in table.rows:
                lines.append(f"  {_line(row)}")
                lines += [f"    {row.reason}"] if row.reason else []
            lines += [f"  skipped: {one}" for one in table.skipped]
        return "\n".join(lines)


def _line(row: Row) -> str:
    """Return a row as a line of text."""
    parts = [row.name.ljust(24)]
    if row.best_published is not None:
        parts.append(f"paper {row.best_published:.4g}")
    for kind, name in (("exact", "exact"), ("paper", "paper's method here"), ("ours", "mercer")):
        if (cell := row.best(kind)) is not None:
            interval = "" if cell.error != cell.error else f" ± {cell.error:.2g}"
            parts.append(f"{name} {cell.value:.4g}{interval}")
    return "  ".join(parts) + f"  {row.verdict}"


def reproduce(
    names: str | Sequence[str] = "all",
    data: str | os.PathLike[str] = "data",
    *,
    quick: bool = False,
    output: str | os.PathLike[str] | None = None,
    rows: Sequence[str] | None = None,
    splits: int | None = None,
    progress: bool | Report = False,
) -> Scoreboard:
    """Run published tables again, with the paper's methods and mercer's.

    Every row runs in a process of its own, whose figures are stored in `output`: a run that is interrupted continues
    with the rows that are missing. Nothing is downloaded.

    Parameters
    ----------
    names : str or sequence of str, default="all"
        Names of tables, the keys of `mercer.reproduce.TABLES`; "all" means all of them.
    data : path-like, default="data"
        Folder of the data sets, one npz file each. An error names those that are missing, and how to make them.
    quick : bool, default=False
        Whether to leave out large rows and use fewer splits.
    output : path-like or None, default=None
        Folder of the results. None means a temporary folder, which is removed.
    rows : sequence of str or None, default=None
        The rows to run, for one table. None means all.
    splits : int or None, default=None
        Number of splits. None means that of the paper, or fewer for a quick run.
    progress : bool or callable, default=False
        Whether to show progress, or a function that receives it.

    Returns
    -------
    Scoreboard
    """
    chosen = _tables(names)
    folder = Path(data)
    plan = [(table, row) for table in chosen for row in _rows(table, rows, quick)]
    _check_data(folder, plan)
    report = stages_of("reproduce", progress)
    with tempfile.TemporaryDirectory(prefix="mercer-reproduce-") as temporary, reported(report):
        target = Path(temporary) if output is None else Path(output)
        target.mkdir(parents=True, exist_ok=True)
        enter_stage(report, "rows of tables")
        done: dict[tuple[str, str], list[dict[str, Any]]] = {}
        skipped: dict[str, list[str]] = {table.name: [] for table in chosen}
        for number, (table, row) in enumerate(plan):
            if report is not None:
                report.step(number, len(plan), note=f"{table.name}: {row}", unit="rows of tables")
            absent = missing(folder, table.datasets(row))
            if absent:
                skipped[table.name].append(f"{row}: {', '.join(absent)}.npz is not in {folder}")
                continue
            count = splits or table.splits(row, quick)
            done[table.name, row] = [
                _measured(table, row, group, count, quick, folder, target) for group in table.groups()
            ]
        results = tuple(_result(table, _rows(table, rows, quick), done, skipped[table.name], quick) for table in chosen)
    return Scoreboard(results, quick, __version__)


def _tables(names: str | Sequence[str]) -> list[Table]:
    """Return the tables of given names."""
    given = [names] if isinstance(names, str) else list(names)
    if given == ["all"]:
        return list(TABLES.values())
    for name in given:
        if name not in TABLES:
            msg = f"reproduce: a table must be 'all' or one of {', '.join(map(repr, TABLES))}, got {name!r}."
            raise ParameterError(msg)
    return [TABLES[name] for name in dict.fromkeys(given)]


def _rows(table: Table, rows: Sequence[str] | None, quick: bool) -> tuple[str, ...]:
    """Return the rows of a table that are wanted."""
    there = table.rows(quick)
    if rows is None:
        return there
    for row in rows:
        if row not in table.rows(False):
            msg = f"reproduce: {table.name} has no row {row!r}; its rows are {', '.join(map(repr, table.rows(False)))}."
            raise ParameterError(msg)
    return tuple(rows)


def _check_data(folder: Path, plan: list[tuple[Table, str]]) -> None:
    """Raise an error if no data set is there; single ones may be missing, and their rows are skipped."""
    needed = tuple(dict.fromkeys(name for table, row in plan for name in table.datasets(row)))
    absent = missing(folder, needed)
    if needed and len(absent) == len(needed):
        msg = f"reproduce needs data sets in the folder {folder}, which has none of them:\n{where(needed)}"
        raise DataError(msg)


def _measured(
    table: Table, row: str, methods: tuple[str, ...], splits: int, quick: bool, folder: Path, output: Path
) -> dict[str, Any]:
    """Return the figures of a group of methods in a row: those of an earlier run, or new ones."""
    name = re.sub(r"[^\w=.-]+", "_", f"{table.name}.{row}.{methods[0] if table.apart else 'all'}")
    file = output / f"{name}.json"
    settings = {"version": __version__, "methods": list(methods), "splits": splits, "quick": quick}
    if file.is_file():
        earlier = json.loads(file.read_text(encoding="utf-8"))
        if earlier.get("settings") == settings:
            return earlier
    part = output / f"{name}.part"
    command = [sys.executable, "-m", "mercer.reproduce", table.name, row, json.dumps(methods), str(splits)]
    command += ["quick" if quick else "full", str(folder.resolve()), str(part)]
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode:
            reason = finished.stderr.strip().splitlines()[-1:] or [f"exit code {finished.returncode}"]
            msg = f"reproduce: {table.name}, {row} failed: {reason[0]}. Run it alone to see more: {shlex.join(command)}"
            raise MercerError(msg)
        content = {"settings": settings, **json.loads(part.read_text(encoding="utf-8"))}
    finally:
        part.unlink(missing_ok=True)
    write_text(file, json.dumps(content, indent=1))
    return content


def _result(
    table: Table,
    rows: tuple[str, ...],
    done: dict[tuple[str, str], list[dict[str, Any]]],
    skipped: list[str],
    quick: bool,
) -> TableResult:
    """Return the figures of a table beside those of the paper."""
    published = table.published
    found = []
    for row in rows:
        groups = done.get((table.name, row))
        if groups is None:
            continue
        figures = dict(published.figures.get(row, {}))
        cells = [
            _cell(table, method, splits, group["peak_bytes"], figures)
            for group in groups
            for method, splits in group["methods"].items()
            if splits
        ]
        inexact = {name: value for name, value in figures.items() if name not in published.exact}
        smaller = quick and table.smaller is not None and table.smaller(row)
        remark, reason = published.remarks.get(row, ""), published.reasons.get(row, "")
        found.append(Row(row, inexact, tuple(cells), remark, published.better, smaller, reason))
    return TableResult(
        table.name,
        published.title,
        published.citation,
        published.source,
        published.measure,
        published.unit,
        published.better,
        table.protocol,
        tuple(found),
        tuple(skipped),
    )


def _cell(
    table: Table, method: str, splits: list[dict[str, Any]], peak: int | None, published: dict[str, float]
) -> Cell:
    """Return the mean of a method over the splits, with its standard error."""
    values = [one["value"] for one in splits]
    n = len(values)
    mean = sum(values) / n
    error = sqrt(sum((value - mean) ** 2 for value in values) / (n - 1) / n) if n > 1 else float("nan")
    about = table.methods[method]
    figure = published.get(about.published) if about.published else None
    seconds = sum(one["seconds"] for one in splits) / n
    return Cell(method, about.title, about.kind, figure, mean, error, n, seconds, peak)
