"""Sparse rows of svmlight (libsvm) files. Each part of a source is a range of bytes of a file."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError, ParameterError
from mercer.io.formats.header import shown
from mercer.io.formats.lines import Lines, check_text, line_number, line_ranges
from mercer.io.paths import find_files
from mercer.io.source import Part, RowSource, reading

__all__ = ["open_svmlight"]

# File name extensions of the format.
ENDS = (".svmlight", ".svm", ".libsvm")

# scikit-learn reads column indices as 32-bit integers.
MOST_COLUMNS = 2**31 - 1


@dataclass(frozen=True)
class SparseLines(Part):
    """The rows of an svmlight file whose lines start in a given range of bytes."""

    what: ClassVar[str] = "svmlight"

    lines: Lines
    n_features: int
    first_column: int  # index of the first column in the file, 0 or 1
    dtype: str
    n_rows: int | None = None

    def _blocks(self) -> Iterator[tuple[Any, ...]]:
        for offset, text in self.lines.chunks():
            X, y = parse(text, self.lines.path, offset)
            columns = X.indices - self.first_column
            outside = (columns < 0) | (columns >= self.n_features)
            if outside.any():
                row = int(np.searchsorted(X.indptr, outside.argmax(), side="right")) - 1
                number = line_number(self.lines.path, offset) + _content_lines(text)[row]
                last = self.n_features - 1 + self.first_column
                msg = (
                    f"{self.lines.path}, line {number}: column {int(X.indices[outside.argmax()])} is not in the "
                    f"range {self.first_column} to {last}. Pass another n_features or zero_based."
                )
                raise DataError(msg)
            if len(y):
                shape = (len(y), self.n_features)
                values = X.data.astype(self.dtype, copy=False)
                kind = np.int32 if max(self.n_features, len(values)) < 2**31 else np.int64
                indices = (columns.astype(kind, copy=False), X.indptr.astype(kind, copy=False))
                yield sp.csr_array((values, *indices), shape=shape), y

    @property
    def files(self) -> tuple[str, ...]:
        return (self.lines.path,)

    def __str__(self) -> str:
        return str(self.lines)


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
    ranges: list[Lines] = []
    for path in paths:
        with reading(str(path), SparseLines.what):
            ranges += line_ranges(check_text(path))
    kind = np.dtype(np.float64 if dtype is None else dtype).str
    counts: list[int | None] = [None] * len(ranges)
    first = 0 if zero_based is True else 1
    if n_features is None or zero_based == "auto":
        lowest, highest = np.inf, -1
        for i, lines in enumerate(ranges):
            rows = 0
            with reading(str(lines), SparseLines.what):
                for offset, text in lines.chunks():
                    X, y = parse(text, lines.path, offset)
                    lowest = min(lowest, X.indices.min(initial=MOST_COLUMNS))
                    highest = max(highest, int(X.indices.max(initial=-1)))
                    rows += len(y)
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


def parse(text: bytes, path: str, offset: int) -> tuple[sp.csr_array, np.ndarray]:
    """Parse complete lines of an svmlight file into rows and labels, by scikit-learn.

    Column indices are those in the file, which start at 0 or 1. What scikit-learn refuses raises an error that names
    the first such line; `path` and `offset`, the position of the lines in the file in bytes, are for this message.
    """
    try:
        return _loaded(text)
    except (ValueError, OverflowError):
        raise _explained(text, path, offset) from None


def _loaded(text: bytes) -> tuple[sp.csr_array, np.ndarray]:
    """Return the rows and labels that scikit-learn reads from lines; it raises ValueError or OverflowError."""
    from sklearn.datasets import load_svmlight_file

    rows, labels = load_svmlight_file(io.BytesIO(text), zero_based=True)
    return rows, labels


def _content_lines(text: bytes) -> list[int]:
    """Return the index of each line that is a row: it is not blank, and not only a comment."""
    return [number for number, line in enumerate(text.split(b"\n")) if line.partition(b"#")[0].strip()]


def _explained(text: bytes, path: str, offset: int) -> DataError:
    """Return the error for lines that scikit-learn refuses, which names the first of them and the reason."""
    lines = text.split(b"\n")
    good, bad = 0, len(lines)  # lines before `good` are valid; one of those before `bad` is not
    why = ""
    while bad - good > 0:
        middle = (good + bad) // 2
        try:
            _loaded(b"\n".join(lines[good : middle + 1]))
            good = middle + 1
        except (ValueError, OverflowError) as error:
            why = str(error)
            bad = middle
    problem = _problem(lines[good].partition(b"#")[0].decode("utf-8", "replace").split()) or f"{why}."
    at = line_number(path, offset) + good
    return DataError(f"{path}, line {at}: {problem} A line is: label column:value column:value ...")


def _problem(words: list[str]) -> str | None:
    """Return why a line, split into words, is invalid, or None if the reason is not known."""
    if not _is_number(words[0]):
        return f"the label {shown(words[0])} is not one number."
    last = -1
    for word in words[2 if words[1:2] and words[1].startswith("qid:") else 1 :]:
        column, colon, value = word.partition(":")
        if not _is_number(value):
            return f"{shown(word)} is not a column and a number."
        if not (colon and column.isdigit()):
            return f"{shown(word)} is not a column, which is an integer >= 0, and a number."
        if int(column[:20]) > MOST_COLUMNS:
            return (
                f"column {column[:20]} is larger than {MOST_COLUMNS}, the largest that can be read: a model of so many "
                "features would not fit into memory. Correct the line if it is damaged, or number the columns anew, "
                "and pass n_features, their number."
            )
        if int(column) <= last:
            return f"column {column} comes after column {last}, but columns must increase."
        last = int(column)
    return None


def _is_number(word: str) -> bool:
    """Return whether a word is a number."""
    try:
        float(word)
    except ValueError:
        return False
    return True
