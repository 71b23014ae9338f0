"""Sparse rows of svmlight (libsvm) files. Each part of a source is a range of bytes of a file."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError, ParameterError
from mercer.io.formats.lines import LinePart, check_text, line_number, line_ranges
from mercer.io.paths import find_files
from mercer.io.source import RowSource

__all__ = ["open_svmlight"]

# File name extensions of the format.
ENDS = (".svmlight", ".svm", ".libsvm")

Array = np.ndarray


@dataclass(frozen=True)
class Entries:
    """Labels and non-zero entries of some lines, in the layout of a CSR matrix.

    Column indices are those in the file, which start at 0 or 1.
    """

    labels: Array  # (n,)
    starts: Array  # (n + 1,), the CSR index pointer
    columns: Array  # (m,), column indices of the entries
    values: Array  # (m,), values of the entries


@dataclass(frozen=True)
class SparseLines(LinePart):
    """The rows of an svmlight file whose lines start in a given range of bytes."""

    n_features: int
    first_column: int  # index of the first column in the file, 0 or 1
    dtype: str
    n_rows: int | None = None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        for offset, text in self.lines.chunks():
            rows = parse(text, self.lines.path, offset)
            columns = rows.columns - self.first_column
            outside = (columns < 0) | (columns >= self.n_features)
            if outside.any():
                row = int(np.searchsorted(rows.starts, outside.argmax(), side="right")) - 1
                number = line_number(self.lines.path, offset) + _content_lines(text)[row][0]
                last = self.n_features - 1 + self.first_column
                msg = (
                    f"{self.lines.path}, line {number}: column {int(rows.columns[outside.argmax()])} is not in the "
                    f"range {self.first_column} to {last}. Pass another n_features or zero_based."
                )
                raise DataError(msg)
            if len(rows.labels):
                shape = (len(rows.labels), self.n_features)
                values = rows.values.astype(self.dtype, copy=False)
                kind = np.int32 if max(self.n_features, len(values)) < 2**31 else np.int64
                indices = (columns.astype(kind), rows.starts.astype(kind))
                yield sp.csr_array((values, *indices), shape=shape), rows.labels


def open_svmlight(
    source: Any,
    *,
    n_features: int | None = None,
    zero_based: bool | Literal["auto"] = "auto",
    dtype: Any = None,
) -> RowSource:
    """Open svmlight files, whose lines are ``label column:value column:value ...``; comments and qid are ignored.

    Parameters
    ----------
    source : path, pattern, folder, or a list of these
        The files, in order.
    n_features : int or None, default=None
        The number of features; None means the number of columns up to the largest column index in the files.
    zero_based : bool or "auto", default="auto"
        Whether column indices start at 0 rather than 1; "auto" means that they start at 1 if no row has a column 0, as
        in scikit-learn. If `n_features` is None or `zero_based` is "auto", the files are read once to find out.
    dtype : dtype, default=None
        Dtype of the values; None means float64.

    Returns
    -------
    RowSource
        Its blocks are ``(X, y)``, where `X` is a CSR array and `y` are the labels.

    See Also
    --------
    sklearn.datasets.load_svmlight_file : Reads a file of this format into memory.
    """
    if zero_based not in (True, False, "auto"):
        msg = f"zero_based must be True, False or 'auto', got {zero_based!r}."
        raise ParameterError(msg)
    paths = find_files(source, ENDS)
    ranges = [lines for path in paths for lines in line_ranges(check_text(path))]
    kind = np.dtype(np.float64 if dtype is None else dtype).str
    counts: list[int | None] = [None] * len(ranges)
    first = 0 if zero_based is True else 1
    if n_features is None or zero_based == "auto":
        lowest, highest = np.inf, -1
        for i, lines in enumerate(ranges):
            rows = 0
            for offset, text in lines.chunks():
                entries = parse(text, lines.path, offset)
                lowest = min(lowest, entries.columns.min(initial=2**62))
                highest = max(highest, int(entries.columns.max(initial=-1)))
                rows += len(entries.labels)
            counts[i] = rows
        if not sum(count or 0 for count in counts):
            msg = f"{paths[0]} has no rows; every line is blank or a comment."
            raise DataError(msg)
        if zero_based == "auto":
            first = 0 if lowest == 0 else 1
        if n_features is None:
            n_features = max(1, highest + 1 - first)
    parts = [SparseLines(lines, n_features, first, kind, rows) for lines, rows in zip(ranges, counts, strict=True)]
    return RowSource(parts, n_features=n_features)


def parse(text: bytes, path: str, offset: int) -> Entries:
    """Parse complete lines of an svmlight file; raise an error that names the first invalid line.

    `path` and `offset`, the position of the lines in the file in bytes, are for messages.
    """
    lines = [line for _, line in _content_lines(text)]
    sizes = np.array([line.count(b":") for line in lines], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    joined = b"\n".join(lines)
    try:
        numbers = np.fromstring(joined.replace(b":", b" "), sep=" ")
    except (ValueError, DeprecationWarning):
        raise _explained(text, path, offset) from None
    if len(numbers) != len(lines) + 2 * starts[-1] or re.search(rb"\s:|:\s", joined):
        raise _explained(text, path, offset)
    is_label = np.zeros(len(numbers), dtype=bool)
    is_label[starts[:-1] * 2 + np.arange(len(lines))] = True
    entries = numbers[~is_label]
    columns = entries[::2].astype(np.int64)
    # Column indices must increase within a row, but may decrease from the end of a row to the start of the next.
    increasing = np.diff(columns, prepend=-1) > 0
    increasing[starts[:-1][sizes > 0]] = True
    if (columns != entries[::2]).any() or (columns < 0).any() or not increasing.all():
        raise _explained(text, path, offset)
    return Entries(numbers[is_label], starts, columns, entries[1::2])


def _content_lines(text: bytes) -> list[tuple[int, bytes]]:
    """Return ``(number, line)`` for each line that is not blank, with comments and qid removed; numbers start at 0."""
    if b"#" in text:
        text = re.sub(rb"#[^\n]*", b"", text)
    if b"qid:" in text:
        text = re.sub(rb"\bqid:\S+", b"", text)
    return [(number, stripped) for number, line in enumerate(text.split(b"\n")) if (stripped := line.strip())]


def _explained(text: bytes, path: str, offset: int) -> DataError:
    """Return the error for lines that cannot be parsed, which names the first invalid line and the reason."""
    for number, line in _content_lines(text):
        problem = _problem(line.decode("utf-8", "replace").split())
        if problem:
            at = line_number(path, offset) + number
            return DataError(f"{path}, line {at}: {problem} A line is: label column:value column:value ...")
    return DataError(f"{path} cannot be read as svmlight. A line is: label column:value column:value ...")


def _problem(words: list[str]) -> str | None:
    """Return why a line, split into words, is invalid, or None if it is valid."""
    try:
        float(words[0])
    except ValueError:
        return f"the label {words[0]!r} is not one number."
    last = -1
    for word in words[1:]:
        column, colon, value = word.partition(":")
        try:
            float(value)
        except ValueError:
            return f"{word!r} is not a column and a number."
        if not (colon and column.isdigit()):
            return f"{word!r} is not a column, which is an integer >= 0, and a number."
        if int(column) <= last:
            return f"column {column} comes after column {last}, but columns must increase."
        last = int(column)
    return None
