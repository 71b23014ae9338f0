"""Tables in files: which column is the target, what is to be learned, and which rows are held out."""

from __future__ import annotations

import difflib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from mercer.errors import DataError, ParameterError
from mercer.io.source import Part, load_pyarrow
from mercer.io.tables import TableSource, open_table

__all__ = [
    "Sample",
    "Task",
    "check_column",
    "labels_as_text",
    "missing_targets",
    "need_target",
    "opened",
    "read_sample",
    "rows_without",
    "split_rows",
    "task_of",
]

Array = np.ndarray
Task = Literal["regression", "classification"]
# Integers are labels if there are at most so many different ones.
MOST_INTEGER_LABELS = 20
# Largest number of labels, and least number of rows per label. A column beyond these identifies rows.
MOST_LABELS, ROWS_PER_LABEL = 1000, 2
# Targets have squares, and sums of squares.
LARGEST_TARGET, SMALLEST_SPREAD = 1e140, 1e-140
# Share of the rows that are held out, and their largest number.
TEST_SHARE, MOST_TEST_ROWS = 0.2, 20_000
# Samples have at least this share of the rows.
LEAST_THRESHOLD = 1e-9
# Number of column names in messages.
SHOWN_COLUMNS = 30


@contextmanager
def opened(
    source: Any, *, target: str | None = None, drop: Sequence[str] = (), header: bool | None = None
) -> Iterator[TableSource]:
    """Open a table in a with statement; "-" means standard input, which is copied to a temporary file first.

    A model reads its rows several times, and standard input can be read only once.

    Parameters
    ----------
    source : path, glob pattern, folder, list of these, data frame or "-"
        The table.
    target : str or None, default=None
        The column of the targets.
    drop : sequence of str, default=()
        Columns that are left out.
    header : bool or None, default=None
        Whether the first line of CSV files contains the names of the columns.
    """
    if not (isinstance(source, str) and source == "-"):
        yield _open(source, str(source) if isinstance(source, str | os.PathLike) else "The table", target, drop, header)
        return
    with tempfile.TemporaryDirectory(prefix="mercer-") as folder:
        path = Path(folder) / "standard input.csv"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file, 2**20)
        if not path.stat().st_size:
            msg = "Standard input is empty. Pipe a CSV file into the command, or pass the name of a file."
            raise DataError(msg)
        yield _open(str(path), "Standard input", target, drop, header)


def _open(source: Any, where: str, target: str | None, drop: Sequence[str], header: bool | None) -> TableSource:
    columns = None
    if drop:
        names = open_table(source, header=header).feature_names or ()
        for name in drop:
            check_column(name, names, "drop", where)
        columns = [name for name in names if name not in {*drop, target}]
    try:
        return open_table(source, target=target, columns=columns, header=header)
    except ParameterError:
        if target is not None:
            check_column(target, open_table(source, header=header).feature_names or (), "target", where)
        raise


def need_target(source: Any, target: str | None, header: bool | None = None) -> str:
    """Return the name of the target; without one, raise an error that lists the columns of the table."""
    if target is not None:
        return target
    with opened(source, header=header) as table:
        return check_column(None, table.feature_names or (), "target", str(source))


def check_column(name: str | None, names: Sequence[str], what: str, where: str) -> str:
    """Return the name of a column if it exists; raise an error that lists the columns otherwise.

    Examples
    --------
    >>> check_column("prise", ["price"], "target", "t.csv")
    Traceback (most recent call last):
    ...
    mercer.errors.ParameterError: t.csv has no column 'prise' for target. Did you mean 'price'? The columns are price.
    """
    if name in names:
        return str(name)
    shown = ", ".join(names[:SHOWN_COLUMNS]) + (", ..." if len(names) > SHOWN_COLUMNS else "")
    if name is None:
        guess = _likely_target(names)
        ask = f"which column is to be predicted? Pass --{what}, such as --{what} {guess}."
        msg = f"{where}: {ask} The columns are {shown}."
        raise ParameterError(msg)
    lower = {one.lower(): one for one in reversed(names)}
    near = difflib.get_close_matches(name.lower(), lower, n=1)
    hint = f" Did you mean {lower[near[0]]!r}?" if near else ""
    msg = f"{where} has no column {name!r} for {what}.{hint} The columns are {shown}."
    raise ParameterError(msg)


def _likely_target(names: Sequence[str]) -> str:
    """Return the column that a table most likely wants to be predicted: one with a usual name, or the last."""
    usual = ("target", "y", "label", "class", "outcome", "response")
    return next((name for wanted in usual for name in names if name.lower() == wanted), names[-1])


# ---- reading ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Rows of a table in memory: all of them, or a random sample of those that do not fit.

    Attributes
    ----------
    table : pyarrow.Table
        The columns other than the target.
    y : ndarray or None
        Targets; labels as they are in the file.
    index : ndarray of int
        Indices of the rows in the table they were read from.
    n_rows : int
        Number of rows of that table with a target.
    n_missing : int
        Number of rows whose target is missing; they are in no sample.
    rows_of_parts : tuple of int
        Number of rows of each part of the table.
    """

    table: Any
    y: Array | None
    index: Array
    n_rows: int
    n_missing: int
    rows_of_parts: tuple[int, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Whether these are all rows."""
        return len(self.index) == self.n_rows

    def take(self, rows: Array) -> Sample:
        """Return some of the rows, by their positions."""
        y = None if self.y is None else self.y[rows]
        return Sample(self.table.take(rows), y, self.index[rows], len(rows), 0)


def read_sample(
    source: TableSource,
    *,
    most_bytes: float,
    seed: int,
    advance: Callable[[float | None], None] | None = None,
) -> Sample:
    """Read a table into memory, or a random sample of its rows if it needs more than `most_bytes`.

    Each row draws a number, and the rows below a threshold are retained. The threshold is halved whenever they take too
    much memory, so that all rows have the same probability to be in the sample. Rows without a target are left out.
    """
    pa = load_pyarrow("pyarrow", "A table")
    rng = np.random.default_rng([seed, 0x7AB1E])
    pieces: list[tuple[Any, Array | None, Array, Array]] = []
    threshold, size, row, missing = 1.0, 0, 0, 0
    rows_of_parts = []
    for part in source.parts():
        first = row
        for table, *targets in part:
            n = table.num_rows
            index, draw = np.arange(row, row + n), rng.random(n)
            row += n
            y = targets[0] if targets else None
            absent = np.zeros(n, dtype=bool) if y is None else missing_targets(y)
            missing += int(absent.sum())
            piece = _rows_of((table, y, index, draw), ~absent & (draw < threshold))
            pieces.append(piece)
            size += piece[0].nbytes
            while size > most_bytes and size and threshold > LEAST_THRESHOLD:
                threshold /= 2
                pieces = [_rows_of(piece, piece[3] < threshold) for piece in pieces]
                size = sum(piece[0].nbytes for piece in pieces)
            if advance is not None:
                advance(None if not source.n_rows else row / source.n_rows)
        rows_of_parts.append(row - first)
    if row == missing:
        target = source.target_names[0] if source.target_names else ""
        msg = f"All {row:,} cells of the column {target!r} are missing. Is it the right column?"
        raise DataError(msg if row else "The table has no rows.")
    tables, all_targets, indices, _ = zip(*pieces, strict=True)
    table = pa.concat_tables(tables)
    y = None if all_targets[0] is None else np.concatenate(all_targets)
    return Sample(table, y, np.concatenate(indices), row - missing, missing, tuple(rows_of_parts))


def _rows_of(piece: tuple[Any, Array | None, Array, Array], kept: Array) -> tuple[Any, Array | None, Array, Array]:
    if kept.all():
        return piece
    table, y, index, draw = piece
    rows = np.flatnonzero(kept)
    return table.take(rows), None if y is None else y[rows], index[rows], draw[rows]


@dataclass(frozen=True)
class PartWithout(Part):
    """A part of a table without some of its rows, and without rows whose target is missing."""

    what: ClassVar[str] = "a table"

    part: Part
    dropped: Array  # sorted positions of the rows in the part

    n_rows = None

    @property
    def files(self) -> tuple[str, ...]:
        return self.part.files

    def _blocks(self) -> Iterator[tuple[Any, ...]]:
        row = 0
        for block in self.part:
            n = block[0].num_rows
            low, high = np.searchsorted(self.dropped, [row, row + n])
            kept = ~missing_targets(block[1])
            kept[self.dropped[low:high] - row] = False
            row += n
            rows = np.flatnonzero(kept)
            if len(rows) == n:
                yield block
            elif len(rows):
                yield block[0].take(rows), *(values[rows] for values in block[1:])

    def __str__(self) -> str:
        return str(self.part)


def rows_without(source: TableSource, sample: Sample, dropped: Array) -> TableSource:
    """Return the rows of a table with a target that are not among `dropped`, sorted indices of rows.

    `sample` is what `read_sample` returned for the table.
    """
    starts = np.concatenate([[0], np.cumsum(sample.rows_of_parts)])
    parts: list[Part] = []
    for part, start, end in zip(source.parts(), starts[:-1], starts[1:], strict=True):
        low, high = np.searchsorted(dropped, [start, end])
        parts.append(PartWithout(part, dropped[low:high] - start))
    return TableSource(parts, schema=source.schema, target_names=source.target_names)


def missing_targets(y: Array) -> Array:
    """Return which targets are missing."""
    if y.dtype == object:
        return np.array([value is None for value in y], dtype=bool)
    return np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), dtype=bool)


# ---- task and split -----------------------------------------------------------------------------


def task_of(y: Array, task: Task | None, target: str) -> tuple[Task, Array, str]:
    """Return the task, the targets in the form that it needs, and the reason as a sentence.

    Strings and booleans are labels. Numbers that are all integers are labels if at most 20 of them are different; all
    other numbers are predicted as numbers.

    Examples
    --------
    >>> task_of(np.array([1.0, 2.0, 2.0]), None, "grade")[2]
    "classification, because 'grade' has 2 different integers, at most 20"
    """
    is_text = y.dtype.kind in "OUb"
    what = "booleans" if all(isinstance(value, bool | np.bool_) for value in y[:1000]) else "strings"
    if is_text:
        if task == "regression":
            msg = (
                f"task='regression' needs numbers, but the column {target!r} has {what}, such as {_not_a_number(y)!r}. "
                "Correct these cells, or use task='classification'."
            )
            raise DataError(msg)
        y = y.astype(bool if what == "booleans" else str)
        labels = np.unique(y)
        why = f"{target!r} has {what}"
    else:
        if not np.isfinite(y).all():
            msg = f"The column {target!r} has infinite values. Remove these rows, or correct their targets."
            raise DataError(msg)
        is_integer = y.dtype.kind in "iu" or bool((y == np.floor(y)).all())
        labels = np.unique(y)
        if len(labels) == 1:
            msg = f"The column {target!r} has only one value, {labels[0]:g}, so there is nothing to learn."
            raise DataError(msg)
        size = float(np.abs(y).max())
        if size > LARGEST_TARGET or np.ptp(y.astype(np.float64) / size) * size < SMALLEST_SPREAD:
            msg = (
                f"The numbers of the column {target!r}, from {labels[0]:g} to {labels[-1]:g}, are so large or so close "
                "that their squares cannot be computed. Multiply them by a constant."
            )
            raise DataError(msg)
        few = is_integer and len(labels) <= MOST_INTEGER_LABELS
        if task is None:
            task = "classification" if few else "regression"
        if task == "regression":
            why = f"{target!r} has numbers" if not is_integer else f"{target!r} has {len(labels):,} different integers"
            if few:
                why = "as requested"
            elif is_integer:
                why += f", more than {MOST_INTEGER_LABELS}"
            return "regression", y.astype(np.float64), f"regression, because {why}".replace("because as", "as")
        why = f"{target!r} has {len(labels)} different integers, at most {MOST_INTEGER_LABELS}"
        if not few:
            why = "as requested"
        if is_integer:
            y = y.astype(np.int64)
    if len(labels) < 2:
        msg = f"The column {target!r} has only one label, {str(labels[0])!r}, so there is nothing to learn."
        raise DataError(msg)
    rare = is_text and len(labels) > MOST_INTEGER_LABELS and len(y) < ROWS_PER_LABEL * len(labels)
    if len(labels) > MOST_LABELS or rare:
        msg = (
            f"The column {target!r} has {len(labels):,} different labels in {len(y):,} rows, as a column of names or "
            f"identifiers has. Pass another target, or one of at most {MOST_LABELS:,} labels that occur several times."
        )
        raise DataError(msg)
    return "classification", y, f"classification, because {why}".replace("because as", "as")


def _not_a_number(y: Array) -> str:
    """Return the first of some labels that is not a number, shortened."""
    for value in y:
        try:
            float(value)
        except ValueError:
            return str(value)[:40]
    return str(y[0])[:40]


def labels_as_text(y: Array) -> Array:
    """Return labels as strings."""
    return np.asarray(y).astype(str)


def split_rows(
    y: Array, task: Task, test_size: float | None, seed: int, *, most: int | None = None, of: int | None = None
) -> tuple[Array, Array, str]:
    """Return positions of the rows for training and for testing, and how they were chosen, as a sentence.

    Labels have the same shares in both parts, up to one row. A label of a single row is used for training.

    Parameters
    ----------
    y : ndarray of shape (n,)
        Targets.
    task : {"regression", "classification"}
        What is learned.
    test_size : float or None
        A share of the rows if it is below 1, and a number of rows otherwise. None means 20 %, at most 20,000.
    seed : int
        Seed.
    most : int or None, default=None
        Largest number of test rows, if `test_size` is None.
    of : int or None, default=None
        Number of rows of the table, if these rows are a sample of it.
    """
    n = len(y)
    of = n if of is None else of
    if n < 4:
        msg = f"There are only {n} rows with a target; at least 4 are needed to hold out a part. Add rows."
        raise DataError(msg)
    rule = "as requested"
    if test_size is None:
        most = min(MOST_TEST_ROWS, most or MOST_TEST_ROWS)
        wanted = min(TEST_SHARE * n, most)
        rule = f"{TEST_SHARE:.0%} of the rows" + (f", at most {most:,}" if wanted < TEST_SHARE * n else "")
    else:
        wanted = test_size * n if test_size < 1 else test_size
        if not 1 <= wanted <= n - 2:
            msg = (
                f"test_size must be a share above 0 and below 1, or a number of rows from 1 to {n - 2:,}, got "
                f"{test_size:g} for {n:,} rows."
            )
            raise ParameterError(msg)
    rng = np.random.default_rng([seed, 0x5917])
    if task == "regression":
        order = rng.permutation(n)
        count = max(1, round(wanted))
        train, test = np.sort(order[count:]), np.sort(order[:count])
        return train, test, f"{count:,} of {of:,} rows were drawn at random and held out ({rule}), seed {seed}."
    labels, codes = np.unique(y, return_inverse=True)
    counts = np.bincount(codes)
    exact = wanted * counts / n
    shares = np.floor(exact).astype(int)
    # Rows that rounding leaves over go to the labels with the largest remainders.
    rest = max(1, round(wanted)) - shares.sum()
    shares[np.argsort(shares - exact, kind="stable")[: max(0, rest)]] += 1
    shares = np.minimum(shares, counts - 1)
    order = rng.permutation(n)
    order = order[np.argsort(codes[order], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    held = np.concatenate([order[start : start + share] for start, share in zip(starts, shares, strict=True)])
    if not len(held):
        msg = f"Each of the {len(labels)} labels occurs only once, so no row can be held out. Add rows."
        raise DataError(msg)
    mask = np.zeros(n, dtype=bool)
    mask[held] = True
    sentence = (
        f"{len(held):,} of {of:,} rows were drawn at random and held out ({rule}), with the same share of each label, "
        f"seed {seed}."
    )
    return np.flatnonzero(~mask), np.flatnonzero(mask), sentence
