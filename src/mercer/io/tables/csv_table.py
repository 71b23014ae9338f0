"""CSV files as tables. The types of the columns are determined in one pass over all rows when the files are opened."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from warnings import warn

from mercer.errors import DataError, MercerWarning
from mercer.io.formats import lines
from mercer.io.formats.columns import choose_columns, listed
from mercer.io.formats.csv import ENDS, CsvRecords, Dialect, check_quotes, parsed
from mercer.io.formats.header import first_line, shown
from mercer.io.formats.lines import check_text
from mercer.io.formats.records import MOST_BYTES, Records, last_end, record_ranges
from mercer.io.paths import GZIP, check_file, find_files, open_bytes
from mercer.io.source import load_pyarrow, reading
from mercer.io.tables.cells import (
    KINDS,
    MISSING,
    ambiguous_dates,
    arrow_type,
    best_kind,
    converted,
    looks_numeric,
    possible,
)
from mercer.io.tables.source import TableSource, TypedPlan

__all__ = ["TABLE_ENDS", "open_csv_table"]

T = TypeVar("T")
S = TypeVar("S")
#: File name extensions of the format.
TABLE_ENDS = (*ENDS, *(end + GZIP for end in ENDS))
# Kinds of targets: labels such as "yes", "true" or a date stay strings, so that they are predicted as they are written.
TARGET_KINDS = ("integer", "number", "comma")
# A column of strings is reported if at least this share of its cells, and this number, are numbers.
NUMBERS_SHARE, LEAST_NUMBERS = 0.95, 20
MOST_THREADS = 4


@dataclass(frozen=True)
class TypedDialect:
    """Delimiter, names and kinds of the columns of a CSV file, see `mercer.io.tables.cells`."""

    delimiter: str
    names: tuple[str, ...]  # names of all columns, in order
    kinds: tuple[tuple[str, str], ...]  # names and kinds of the columns that are read

    def table(self, text: bytes, path: str, offset: int) -> Any:
        """Parse complete records of a file into an Arrow table.

        `path` and `offset`, the position of the records in the file in bytes, are for messages.
        """
        pa = load_pyarrow("pyarrow", "A CSV file")
        check_quotes(text, self.delimiter, path, offset)
        direct = {"integer": pa.int64(), "number": pa.float64()}
        types = {name: direct.get(kind, pa.string()) for name, kind in self.kinds}
        try:
            table = self._parsed(text, types)
        except pa.ArrowInvalid:
            # A number may have spaces around it that Arrow does not accept.
            table = self._cells(text, path, offset)
        arrays = []
        for name, kind in self.kinds:
            cells = table.column(name)
            cells = _trimmed(cells) if pa.types.is_string(cells.type) else cells
            try:
                arrays.append(cells if cells.type == arrow_type(kind) else converted(cells, kind))
            except pa.ArrowInvalid as error:
                msg = (
                    f"{path}, near line {lines.line_number(path, offset)}: column {name!r} contained {_plural(kind)} "
                    f"when the file was opened, but not any more: {error}. Was the file changed? Open it again."
                )
                raise DataError(msg) from None
        return pa.table(arrays, names=[name for name, _ in self.kinds])

    def as_strings(self, names: Sequence[str]) -> TypedDialect:
        """Return the dialect that reads some columns as strings."""
        return replace(self, kinds=tuple((name, "string" if name in names else kind) for name, kind in self.kinds))

    def cells(self, text: bytes, path: str, offset: int) -> dict[str, Any]:
        """Return the cells of complete records as strings, with null for missing ones, by the name of the column."""
        check_quotes(text, self.delimiter, path, offset)
        table = self._cells(text, path, offset)
        return {name: _trimmed(table.column(name)) for name, _ in self.kinds}

    def _cells(self, text: bytes, path: str, offset: int) -> Any:
        """Parse complete records as strings; raise an error that names the first invalid line."""
        pa = load_pyarrow("pyarrow", "A CSV file")
        names = tuple(name for name, _ in self.kinds)
        try:
            return self._parsed(text, dict.fromkeys(names, pa.string()))
        except pa.ArrowInvalid:
            plain = Dialect(self.delimiter, self.names, tuple((name, "string") for name in names), names)
            raise plain.explained(text, path, offset) from None

    def _parsed(self, text: bytes, types: dict[str, Any]) -> Any:
        return parsed(
            text, self.names, self.delimiter, column_types=types, include_columns=list(types), null_values=list(MISSING)
        )


def _trimmed(cells: Any) -> Any:
    """Return cells without spaces around them, with null for those that are missing."""
    pa = load_pyarrow("pyarrow", "A CSV file")
    pc = load_pyarrow("pyarrow.compute", "A CSV file")
    trimmed = pc.utf8_trim_whitespace(cells)
    if pc.sum(pc.binary_length(trimmed)).as_py() == pc.sum(pc.binary_length(cells)).as_py():
        return cells
    return pc.if_else(pc.is_in(trimmed, pa.array(MISSING)), None, trimmed)


@dataclass(frozen=True)
class GzipRecords:
    """The records of a compressed CSV file, which is read from its start."""

    path: str
    start: int
    delimiter: str

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield ``(offset, text)``: chunks of complete records, and their positions in the decompressed file."""
        with open_bytes(self.path) as file:
            skipped = 0
            while skipped < self.start:
                skipped += len(file.read(min(lines.CHUNK_BYTES, self.start - skipped))) or self.start
            offset, rest = self.start, b""
            while more := file.read(lines.CHUNK_BYTES):
                text = rest + more
                end = last_end(text, self.delimiter)
                if not end and len(text) > MOST_BYTES:
                    msg = (
                        f"{self.path}: the record that starts at byte {offset} has more than {MOST_BYTES >> 20} MiB. "
                        "Is a quote in it not closed?"
                    )
                    raise DataError(msg)
                if end:
                    yield offset, text[:end]
                offset, rest = offset + end, text[end:]
            if rest:
                yield offset, rest

    def __str__(self) -> str:
        return self.path


@dataclass
class Tally:
    """What the cells of a column are, in all chunks that were read so far."""

    kinds: frozenset[str] = frozenset(KINDS)
    has_codes: bool = False
    cells: int = 0  # that are not missing
    numbers: int = 0  # those that are numbers
    example: tuple[str, int] | None = None  # the first cell that is not a number, and its row
    rows: int = 0

    def __add__(self, other: Tally) -> Tally:
        example = self.example
        if example is None and other.example is not None:
            example = (other.example[0], other.example[1] + self.rows)
        return Tally(
            self.kinds & other.kinds,
            self.has_codes or other.has_codes,
            self.cells + other.cells,
            self.numbers + other.numbers,
            example,
            self.rows + other.rows,
        )

    @property
    def mostly_numbers(self) -> bool:
        """Whether so many cells are numbers that the other ones may be errors."""
        return self.numbers >= max(LEAST_NUMBERS, NUMBERS_SHARE * self.cells) and self.numbers < self.cells


@dataclass
class Tallies:
    """The tallies of all columns of a file, while it is read; several threads may look at chunks at once."""

    dialect: TypedDialect
    path: str
    columns: dict[str, Tally] = field(default_factory=dict)

    def of_chunk(self, chunk: tuple[int, bytes]) -> tuple[dict[str, Tally], int]:
        """Return the tallies of one chunk and its number of rows."""
        pc = load_pyarrow("pyarrow.compute", "A CSV file")
        found, rows = {}, 0
        for name, cells in self.dialect.cells(chunk[1], self.path, chunk[0]).items():
            before, rows = self.columns.get(name, Tally()), len(cells)
            known = cells.drop_null()
            known = known.combine_chunks() if hasattr(known, "combine_chunks") else known
            kinds, has_codes = possible(known, before.kinds)
            tally = Tally(kinds, has_codes, len(known), rows=rows)
            if kinds & {"integer", "number"}:
                tally.numbers = len(known)
            elif len(known) and before.numbers >= NUMBERS_SHARE * before.cells:
                # So far numbers only, or nearly so: it may be that few cells are wrong.
                numeric = pc.fill_null(looks_numeric(cells), True)
                tally.numbers = len(known) - int(pc.sum(pc.invert(numeric)).as_py())
                if tally.numbers < len(known):
                    at = pc.index(numeric, False).as_py()
                    tally.example = (cells[at].as_py(), at)
            found[name] = tally
        return found, rows

    def add(self, found: dict[str, Tally]) -> None:
        """Add the tallies of the next chunk."""
        self.columns = {name: self.columns[name] + one if name in self.columns else one for name, one in found.items()}


def open_csv_table(source: Any, *, header: bool | None = None, **chosen: Any) -> TableSource:
    """Open CSV files as a table; `chosen` are the arguments of `choose_columns`."""
    pa = load_pyarrow("pyarrow", "A CSV file")
    paths = find_files(source, TABLE_ENDS)
    first: tuple[str, ...] | None = None
    delimiter: str | None = None
    records: list[Records | GzipRecords] = []
    for path in paths:
        compressed = path.name.lower().endswith(GZIP)
        with reading(str(path), "CSV"):
            (check_file if compressed else check_text)(path)
            names, start, delimiter = first_line(path, delimiter, header)
            if first is not None and names != first:
                msg = f"{path} has the columns {listed(names)}, but {paths[0]} has {listed(first)}."
                raise DataError(msg)
            first = names
            records += (
                [GzipRecords(str(path), start, delimiter)] if compressed else record_ranges(str(path), start, delimiter)
            )
    assert first is not None
    assert delimiter is not None
    index = [""] if first[0] == "" else []  # the index that pandas writes
    columns = choose_columns(first, str(paths[0]), index=index, **chosen)
    strings = TypedDialect(delimiter, first, tuple((name, "string") for name in columns.names))
    tallies, counts = _tallies(records, strings)
    kinds = {name: _kind(name, tallies, columns.targets, delimiter) for name in columns.names}
    _warn_about(paths, tallies, kinds)
    if not sum(counts):
        msg = f"{paths[0]} has no rows after its first line."
        raise DataError(msg)
    dialect = TypedDialect(delimiter, first, tuple(kinds.items()))
    schema = pa.schema([(name, arrow_type(kinds.get(name, "string"))) for name in first])
    plan = TypedPlan.of([(str(paths[0]), schema)], index=index, **chosen)
    return plan.source(
        [CsvRecords(one, dialect, plan, rows) for one, rows in zip(records, counts, strict=True) if rows]
    )


def _tallies(records: Sequence[Records | GzipRecords], dialect: TypedDialect) -> tuple[dict[str, Tally], list[int]]:
    """Read all records once; return the tallies of the columns, and the number of rows of each element of records."""
    total: dict[str, Tally] = {}
    counts = []
    with ThreadPoolExecutor(min(MOST_THREADS, os.cpu_count() or 1)) as pool:
        for one in records:
            tallies, rows = Tallies(dialect, one.path, total), 0
            with reading(str(one), "CSV"):
                for found, count in _in_order(pool, tallies.of_chunk, one.chunks()):
                    tallies.add(found)
                    rows += count
            total = tallies.columns
            counts.append(rows)
    return total, counts


def _in_order(pool: ThreadPoolExecutor, function: Callable[[T], S], items: Iterable[T]) -> Iterator[S]:
    """Yield ``function(item)`` in order, evaluated by threads, with few items in memory."""
    waiting: deque[Future[S]] = deque()
    try:
        for item in items:
            waiting.append(pool.submit(partial(function, item)))
            if len(waiting) > MOST_THREADS // 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        for future in waiting:
            future.cancel()


def _kind(name: str, tallies: dict[str, Tally], targets: Sequence[str], delimiter: str) -> str:
    """Return the kind of a column."""
    tally = tallies.get(name, Tally())
    if not tally.cells:
        return "missing"
    only = TARGET_KINDS if name in targets else KINDS
    if delimiter == ",":
        only = tuple(kind for kind in only if kind != "comma")
    return best_kind(tally.kinds, has_codes=tally.has_codes, only=only)


def _warn_about(paths: Sequence[Path], tallies: dict[str, Tally], kinds: dict[str, str]) -> None:
    """Warn about strings that are nearly all numbers, and about dates with an unknown order of day and month."""
    where = str(paths[0]) if len(paths) == 1 else f"{len(paths)} files"
    for name, kind in kinds.items():
        tally = tallies.get(name, Tally())
        if kind == "string" and tally.mostly_numbers and tally.example is not None:
            cell, row = tally.example
            msg = (
                f"{where}: column {name!r} is read as strings, because {tally.cells - tally.numbers:,} of its "
                f"{tally.cells:,} cells are not numbers, the first {shown(cell)} in row {row} (counted from 0). "
                "If they denote missing values, write NA instead."
            )
            warn(msg, MercerWarning, stacklevel=5)
        if kind.startswith("%") and ambiguous_dates(tally.kinds):
            msg = (
                f"{where}: the dates of column {name!r} are read as month/day/year, but could be day/month/year, too. "
                "Write dates as 2024-12-31."
            )
            warn(msg, MercerWarning, stacklevel=5)


def _plural(kind: str) -> str:
    """Return the name of a kind in a message."""
    names = {"integer": "integers", "number": "numbers", "comma": "numbers", "missing": "no values"}
    return names.get(kind, "booleans" if kind.startswith("boolean") else "dates")
