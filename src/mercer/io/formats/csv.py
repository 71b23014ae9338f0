"""Rows of CSV files. Each part of a source is a range of bytes of a file, parsed by pyarrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from mercer.errors import DataError, ParameterError
from mercer.io.formats.columns import Column, choose_columns, listed
from mercer.io.formats.header import first_line, is_integer, is_number, shown
from mercer.io.formats.lines import check_text, count_lines, line_number
from mercer.io.formats.records import Records, first_records, quoted, record_ranges
from mercer.io.formats.table import TablePlan
from mercer.io.paths import find_files
from mercer.io.source import Part, RowSource, load_pyarrow, reading

__all__ = ["CsvRecords", "Dialect", "check_quotes", "open_csv", "parsed"]

# File name extensions of the format.
ENDS = (".csv", ".tsv")

# Number of bytes of the first rows, from which the type of targets is inferred: integers, floats or strings.
SAMPLE_BYTES = 2**20

# Numbers that Arrow accepts, but neither Python nor pandas: integers in base 16, and NaN with a payload.
SPELLED = r"(?i)^\s*-?0x|nan\("
SPELLING = (b"(", b"0x", b"0X")

Kind = Literal["int64", "float64", "string"]


@dataclass(frozen=True)
class Dialect:
    """Delimiter, names and types of the columns of a CSV file."""

    delimiter: str
    names: tuple[str, ...]  # names of all columns, in order
    kinds: tuple[tuple[str, Kind], ...]  # names and types of the columns that are read
    targets: tuple[str, ...] = ()  # names of the columns that may have missing values; others must be complete

    def table(self, text: bytes, path: str, offset: int) -> Any:
        """Parse complete records of a file into an Arrow table; raise an error that names the first invalid line.

        `path` and `offset`, the position of the records in the file in bytes, are for messages.
        """
        pa = load_pyarrow("pyarrow", "A CSV file")
        check_quotes(text, self.delimiter, path, offset)
        numbers = [name for name, kind in self.kinds if kind != "string"]
        try:
            if numbers and any(sign in text for sign in SPELLING) and self._has_spelling(text, numbers):
                raise self.explained(text, path, offset)
            try:
                table = self._parsed(text, self.kinds)
            except pa.ArrowInvalid:
                # A target column that starts with integers may contain floats here.
                kinds: list[tuple[str, Kind]] = [
                    (name, "float64" if kind == "int64" else kind) for name, kind in self.kinds
                ]
                table = self._parsed(text, kinds)
        except pa.ArrowInvalid:
            raise self.explained(text, path, offset) from None
        if any(table.column(name).null_count for name, _ in self.kinds if name not in self.targets):
            raise self.explained(text, path, offset)
        return table

    def _has_spelling(self, text: bytes, numbers: Sequence[str]) -> bool:
        """Return whether a column of numbers has a value that Arrow accepts and that is not a number elsewhere."""
        compute = load_pyarrow("pyarrow.compute", "A CSV file")
        table = self._parsed(text, [(name, "string") for name in numbers])
        return any(compute.any(compute.match_substring_regex(column, SPELLED)).as_py() for column in table.columns)

    def _parsed(self, text: bytes, kinds: Sequence[tuple[str, Kind]]) -> Any:
        """Parse records into an Arrow table; `kinds` are the names and types of its columns."""
        return parsed(
            text,
            self.names,
            self.delimiter,
            column_types=dict(kinds),
            include_columns=[name for name, _ in kinds],
            null_values=[""],
            # An empty string in quotes is a label, but a missing number.
            quoted_strings_can_be_null=all(kind != "string" for _, kind in kinds),
        )

    def explained(self, text: bytes, path: str, offset: int) -> DataError:
        """Return the error for records that cannot be parsed, which names the first invalid line and the reason."""
        start = line_number(path, offset)
        kinds = dict(self.kinds)
        # Bytes that are not UTF-8 are an error only in columns that are read.
        decoded = text.decode("utf-8", "surrogateescape")
        reader = csv.reader(io.StringIO(decoded, newline=""), delimiter=self.delimiter)
        line = start
        while True:
            where = f"{path}, line {line}"
            try:
                cells = next(reader)
            except csv.Error as error:
                return DataError(f"{where} cannot be read as CSV: {error}.")
            except StopIteration:
                break
            line = start + reader.line_num
            if not cells:
                continue
            if len(cells) != len(self.names):
                return DataError(f"{where} has {len(cells)} columns, but the first line has {len(self.names)}.")
            for name, cell in zip(self.names, cells, strict=True):
                kind = kinds.get(name)
                if kind is not None and not cell.strip() and name not in self.targets:
                    return DataError(f"{where}: column {name!r} is empty. Fill missing values, or drop such rows.")
                if kind is not None and kind != "string" and cell and not is_number(cell):
                    return DataError(
                        f"{where}: column {name!r} contains {shown(cell)}, not a number. Omit it with columns=, "
                        "encode it, or, if it is a target, open the file with mercer.io.open_csv(..., "
                        "text_target=True)."
                    )
                if kind == "string" and any("\udc80" <= symbol <= "\udcff" for symbol in cell):
                    return DataError(f"{where}: column {name!r} is not text in UTF-8. Save the file in UTF-8.")
        return DataError(f"{path} cannot be read as CSV near line {start}. Is it text in UTF-8?")


def check_quotes(text: bytes, delimiter: str, path: str, offset: int) -> None:
    """Raise if a quote in complete records is not closed; `offset` is their position in the file in bytes."""
    starts, ends = quoted(text, delimiter)
    if len(ends) and ends[-1] > len(text):
        at = line_number(path, offset) + count_lines(text[: starts[-1]])
        msg = f"{path}, line {at}: the quote that opens a value here is not closed. Is the file complete?"
        raise DataError(msg)


def parsed(text: bytes, names: Sequence[str], delimiter: str, **options: Any) -> Any:
    """Parse complete records into an Arrow table; `options` are those of pyarrow's ConvertOptions."""
    pa_csv = load_pyarrow("pyarrow.csv", "A CSV file")
    return pa_csv.read_csv(
        io.BytesIO(text),
        pa_csv.ReadOptions(column_names=list(names), use_threads=False, block_size=len(text) + 1),
        # The option is for a last line that does not end; it makes Arrow search for the end twice.
        pa_csv.ParseOptions(delimiter=delimiter, newlines_in_values=not text.endswith(b"\n")),
        pa_csv.ConvertOptions(strings_can_be_null=True, **options),
    )


@dataclass(frozen=True)
class CsvRecords(Part):
    """The rows of a range of bytes of a CSV file."""

    what: ClassVar[str] = "CSV"

    records: Any  # with the attribute `path` and the method `chunks`, such as `Records`
    dialect: Any  # with the method `table`, such as `Dialect`
    plan: Any  # with the method `blocks`, such as `TablePlan`
    n_rows: int | None = None

    def _blocks(self) -> Iterator[tuple[Any, ...]]:
        row = 0
        for offset, text in self.records.chunks():
            table = self.dialect.table(text, self.records.path, offset)
            yield from self.plan.blocks(table, self.records.path, row)
            row += table.num_rows

    @property
    def files(self) -> tuple[str, ...]:
        return (self.records.path,)

    def __str__(self) -> str:
        return str(self.records)


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
    """Open CSV files. Values may be quoted, and quoted values may contain line breaks.

    Rows are those that Python's csv module, pandas and pyarrow read. Blank lines are skipped. A file of more than 8 MiB
    is read once when it is opened, to find the line breaks that are inside quotes.

    Parameters
    ----------
    source : path, pattern, folder, or a list of these
        The files, in order, all with the same columns in the same order.
    target, weight, columns, dtype
        As in `mercer.open_rows`; features are float64 by default.
    delimiter : str or None, default=None
        Character between values; None means the most frequent of comma, semicolon, tab and vertical bar in the first
        line.
    header : bool or None, default=None
        Whether the first line contains the names of the columns. With None, the first line is treated as names if no
        value in it is a number, and as a row if all values are numbers. An error is raised if the first line is
        ambiguous: if it has both words and numbers, or numbers that may be names, such as 0, 1, 2, which pandas writes
        for columns without names. Without names, columns are named "0", "1", ...
    text_target : bool or None, default=None
        Whether targets are strings even if they look like numbers; None infers it from the first rows.

    Returns
    -------
    RowSource

    See Also
    --------
    mercer.open_rows : Opens files of any format.
    """
    pa = load_pyarrow("pyarrow", "A CSV file")
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        msg = f"delimiter must be one character of ASCII, and neither a quote nor a line break, got {delimiter!r}."
        raise ParameterError(msg)
    if dtype is not None and np.dtype(dtype).kind != "f":
        msg = f"dtype must be a floating point type, got {dtype!r}."
        raise ParameterError(msg)
    paths = find_files(source, ENDS)
    first: tuple[str, ...] | None = None
    ranges: list[Records] = []
    for path in paths:
        with reading(str(path), "CSV"):
            check_text(path)
            names, start, delimiter = first_line(path, delimiter, header)
            if first is not None and names != first:
                msg = f"{path} has the columns {listed(names)}, but {paths[0]} has {listed(first)}."
                raise DataError(msg)
            first = names
            ranges += record_ranges(str(path), start, delimiter)
    assert first is not None
    assert delimiter is not None
    chosen = choose_columns(first, str(paths[0]), target=target, weight=weight, columns=columns)
    if columns is None and "" in chosen.features:
        msg = (
            f"{paths[0]}: column {first.index('')} has no name, like the index that pandas writes. Pass the features "
            "as columns=, or write the file without the index."
        )
        raise DataError(msg)
    kinds: dict[str, Kind] = {name: "float64" for name in chosen.names}
    for name in chosen.targets:
        with reading(str(paths[0]), "CSV"):
            kinds[name] = "string" if text_target else _kind_of(ranges, delimiter, first, name)
        if kinds[name] == "string" and text_target is False:
            kinds[name] = "float64"  # so that reading raises an error that names the line
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
        msg = f"{paths[0]} has no rows after its first line."
        raise DataError(msg)
    return plan.source([CsvRecords(records, dialect, plan) for records in ranges])


def _kind_of(ranges: Sequence[Records], delimiter: str, names: tuple[str, ...], name: str) -> Kind:
    """Return the type of the column `name`, inferred from the first rows of the first file."""
    if not ranges:
        return "float64"
    path, start = ranges[0].path, ranges[0].offsets[0]
    with open(path, "rb") as file:
        text = first_records(file, path, start, delimiter, SAMPLE_BYTES)
    table = Dialect(delimiter, names, ((name, "string"),), (name,)).table(text, path, start)
    cells = [cell for cell in table.column(name).unique().to_pylist() if cell is not None and cell.strip()]
    if all(is_integer(cell) for cell in cells):
        return "int64"
    return "float64" if all(is_number(cell) for cell in cells) else "string"
