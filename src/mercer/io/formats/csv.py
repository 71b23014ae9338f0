"""Rows from CSV files, by ranges of bytes."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mercer.errors import DataError, ParameterError
from mercer.io.formats.columns import Column, choose_columns
from mercer.io.formats.header import first_line, is_number, is_whole
from mercer.io.formats.lines import Lines, check_text, line_number, line_ranges
from mercer.io.formats.table import TablePlan
from mercer.io.paths import find_files
from mercer.io.source import Part, RowSource, load_pyarrow

__all__ = ["open_csv"]

# The ends of names that tell the format.
ENDS = (".csv", ".tsv")

# Rows that are looked at to tell whether targets are whole numbers, numbers or text.
SAMPLE_BYTES = 2**20

Kind = Literal["int64", "float64", "string"]


@dataclass(frozen=True)
class Dialect:
    """How the lines of a CSV file are cut into columns, and which of them are text."""

    delimiter: str
    names: tuple[str, ...]
    kinds: tuple[tuple[str, Kind], ...]  # of the columns that are read
    targets: tuple[str, ...] = ()  # which may be empty: whether rows need one, learners say

    def table(self, text: bytes, path: str, place: int) -> Any:
        """Return whole lines that begin at a byte of a file as an Arrow table."""
        pa = load_pyarrow("pyarrow", "A CSV file")
        whole = {name: kind for name, kind in self.kinds if kind == "int64"}
        try:
            table = self._parsed(text, self.kinds)
        except pa.ArrowInvalid:
            if not whole:
                raise self._explained(text, path, place) from None
            # Targets that were whole numbers so far need not be.
            try:
                table = self._parsed(text, [(name, "float64" if name in whole else kind) for name, kind in self.kinds])
            except pa.ArrowInvalid:
                raise self._explained(text, path, place) from None
        if any(table.column(name).null_count for name, _ in self.kinds if name not in self.targets):
            raise self._explained(text, path, place)
        return table

    def _parsed(self, text: bytes, kinds: Any) -> Any:
        pa_csv = load_pyarrow("pyarrow.csv", "A CSV file")
        return pa_csv.read_csv(
            io.BytesIO(text),
            pa_csv.ReadOptions(column_names=list(self.names), use_threads=False, block_size=len(text) + 1),
            pa_csv.ParseOptions(delimiter=self.delimiter),
            pa_csv.ConvertOptions(
                column_types=dict(kinds),
                include_columns=[name for name, _ in kinds],
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )

    def _explained(self, text: bytes, path: str, place: int) -> DataError:
        """Return the error for lines that cannot be read: find the first."""
        begin = line_number(path, place)
        kinds = dict(self.kinds)
        for number, line in enumerate(text.decode("utf-8", "replace").split("\n")):
            if not line.strip():
                continue
            where = f"{path}, line {begin + number}"
            try:
                cells = next(csv.reader([line], delimiter=self.delimiter))
            except csv.Error as error:
                return DataError(f"{where} cannot be read as CSV: {error}.")
            if len(cells) != len(self.names):
                return DataError(f"{where}: {len(cells)} columns, but there are {len(self.names)} in the first line.")
            for name, cell in zip(self.names, cells, strict=True):
                kind = kinds.get(name)
                if kind is not None and not cell.strip() and name not in self.targets:
                    return DataError(f"{where}: column {name!r} is empty. Fill missing values, or drop such rows.")
                if kind is not None and kind != "string" and cell.strip() and not is_number(cell):
                    return DataError(
                        f"{where}: column {name!r} holds {cell!r}, not a number. Leave the column out with columns=, "
                        "encode it, or, if it is a target, open the file with mercer.io.open_csv(..., "
                        "text_target=True)."
                    )
        return DataError(f"{path} cannot be read as CSV near line {begin}: is it text in UTF-8?")


@dataclass(frozen=True)
class CsvLines(Part):
    """Rows of a CSV file that begin in a range of bytes."""

    lines: Lines
    dialect: Dialect
    plan: TablePlan
    n_rows: int | None = None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        row = 0
        for place, text in self.lines.chunks():
            table = self.dialect.table(text, self.lines.path, place)
            yield from self.plan.blocks(table, self.lines.path, row)
            row += table.num_rows

    @property
    def files(self) -> tuple[str, ...]:
        return (self.lines.path,)

    def __str__(self) -> str:
        return str(self.lines)


def open_csv(
    source: Any,
    *,
    target: Column | Sequence[Column] | None = None,
    weight: Column | None = None,
    columns: Sequence[Column] | None = None,
    dtype: Any = None,
    delimiter: str | None = None,
    header: bool | None = None,
    text_target: bool | None = None,
) -> RowSource:
    """Open CSV files. Values may be quoted, but must not contain line breaks.

    Parameters
    ----------
    source : path, pattern, folder, or a list of these
        The files, in order, all with the same columns in the same order.
    target, weight, columns, dtype
        As in `mercer.open_rows`; features are float64 unless `dtype` says otherwise.
    delimiter : str or None, default=None
        What stands between values; None takes the most frequent of comma, semicolon, tab and bar in the first line.
    header : bool or None, default=None
        Whether the first line names the columns. None takes it for names if no value in it is a number, for a row if
        all are, and raises where that may be wrong: at numbers that may be names, such as 0, 1, 2, which pandas writes
        for columns without names, and at words among numbers. Without names columns are called "0", "1", ...
    text_target : bool or None, default=None
        Whether targets are text also where they look like numbers; None decides by the first rows.

    Returns
    -------
    RowSource
    """
    pa = load_pyarrow("pyarrow", "A CSV file")
    if delimiter is not None and len(delimiter) != 1:
        msg = f"delimiter must be one character, got {delimiter!r}."
        raise ParameterError(msg)
    if dtype is not None and np.dtype(dtype).kind != "f":
        msg = f"dtype must be a float, got {dtype!r}."
        raise ParameterError(msg)
    paths = find_files(source, ENDS)
    first: tuple[str, ...] | None = None
    ranges: list[Lines] = []
    for path in map(check_text, paths):
        names, begin, delimiter = first_line(path, delimiter, header)
        if first is not None and names != first:
            msg = f"{path} has the columns {list(names)}, but {paths[0]} has {list(first)}."
            raise DataError(msg)
        first = names
        ranges += line_ranges(path, begin)
    assert first is not None
    assert delimiter is not None
    chosen = choose_columns(first, str(paths[0]), target=target, weight=weight, columns=columns)
    if columns is None and "" in chosen.features:
        msg = (
            f"{paths[0]}: column {first.index('')} has no name, as the index that pandas writes. Name the features in "
            "columns=, or write the file without its index."
        )
        raise DataError(msg)
    kinds: dict[str, Kind] = {name: "float64" for name in chosen.names}
    for name in chosen.targets:
        kinds[name] = "string" if text_target else _kind_of(ranges, Dialect(delimiter, first, ()), name)
        if kinds[name] == "string" and text_target is False:
            kinds[name] = "float64"  # the error will name the line
    dialect = Dialect(delimiter, first, tuple(kinds.items()), chosen.targets)
    schema = pa.schema([(name, pa.type_for_alias(kinds.get(name, "string"))) for name in first])
    plan = TablePlan.of(
        [(str(paths[0]), schema)],
        np.float64 if dtype is None else dtype,
        target=list(chosen.targets) if chosen.matrix_target else next(iter(chosen.targets), None),
        weight=chosen.weight,
        columns=chosen.features,
    )
    if not ranges:
        msg = f"{paths[0]} has no rows below its first line."
        raise DataError(msg)
    return plan.source([CsvLines(lines, dialect, plan) for lines in ranges])


def _kind_of(ranges: Sequence[Lines], dialect: Dialect, name: str) -> Kind:
    """Return what the first rows of a column hold."""
    if not ranges:
        return "float64"
    with open(ranges[0].path, "rb") as file:
        file.seek(ranges[0].begin)
        lines = file.read(SAMPLE_BYTES)
        lines += file.readline() if lines[-1:] != b"\n" else b""
    column = dialect.names.index(name)
    cells = [
        row[column]
        for row in csv.reader(io.StringIO(lines.decode("utf-8", "replace")), delimiter=dialect.delimiter)
        if len(row) > column and row[column].strip()
    ]
    if all(is_whole(cell) for cell in cells):
        return "int64"
    return "float64" if all(is_number(cell) for cell in cells) else "string"
