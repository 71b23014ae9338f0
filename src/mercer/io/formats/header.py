"""The first record of a CSV file, which contains either the names of the columns or the first row."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from pathlib import Path

from mercer.errors import DataError
from mercer.io.formats.records import MOST_BYTES
from mercer.io.paths import open_bytes

__all__ = ["first_line", "is_integer", "is_number", "shown"]

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

DELIMITERS = (",", ";", "\t", "|")


def first_line(path: Path, delimiter: str | None, header: bool | None) -> tuple[tuple[str, ...], int, str]:
    """Return the names of the columns of a CSV file, the byte offset of its first row, and its delimiter.

    Parameters
    ----------
    path : Path
        The file.
    delimiter : str or None
        The delimiter; None means the most frequent of `DELIMITERS` in the first line.
    header : bool or None
        Whether the first line contains the names; None infers it, and raises if the first line is ambiguous.
    """
    with open_bytes(path) as file:
        mark = len(BYTE_ORDER_MARK) if file.read(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else 0
    if delimiter is None:
        with closing(_lines(path)) as lines:
            delimiter = _most_frequent(next(filter(str.strip, lines), ""))
    with closing(_records(path, delimiter)) as records:
        cells, start, after = next(records, ([], 0, 0))
        below, _, _ = next(records, ([], 0, 0))
    if not cells:
        msg = f"{path} is empty; it has only blank lines."
        raise DataError(msg)
    if header is None:
        why = _ambiguity(cells, below)
        if why is not None:
            line = shown(delimiter.join(cells))
            msg = (
                f"{path}: is the first line, {line}, a row or the names of the columns? {why} Pass header=True "
                "if it has names, header=False if it is a row."
            )
            raise DataError(msg)
        header = not any(map(is_number, cells))
    if header:
        return tuple(cell.strip() for cell in cells), mark + after, delimiter
    return tuple(str(i) for i in range(len(cells))), mark + start, delimiter


def _lines(path: Path) -> Generator[str]:
    """Yield the lines of a file, without a byte order mark; they end with a line feed, a carriage return, or both."""
    with (
        open_bytes(path) as binary,
        io.TextIOWrapper(binary, encoding="utf-8-sig", errors="surrogateescape", newline="") as file,
    ):
        while line := file.readline(MOST_BYTES):
            if len(line) == MOST_BYTES:
                msg = f"{path} has a line of more than {MOST_BYTES >> 20} MiB. Is it a CSV file?"
                raise DataError(msg)
            yield line


def _most_frequent(line: str) -> str:
    """Return the most frequent of `DELIMITERS` in a line, outside quotes."""
    return max(DELIMITERS, key=re.sub(r'"[^"]*"', "", line).count)


def _records(path: Path, delimiter: str) -> Generator[tuple[list[str], int, int]]:
    """Yield the records of a file that are not blank, each with its start and end in bytes."""
    start = end = 0
    blank = True

    def lines() -> Iterator[str]:
        nonlocal end, blank
        for line in _lines(path):
            end += len(line.encode("utf-8", "surrogateescape"))
            blank = blank and not line.strip()
            yield line

    for cells in csv.reader(lines(), delimiter=delimiter):
        if not blank:
            # Names are valid text, also if the file is not.
            yield [cell.encode("utf-8", "surrogateescape").decode("utf-8", "replace") for cell in cells], start, end
        start, blank = end, True


def _ambiguity(cells: Sequence[str], below: Sequence[str]) -> str | None:
    """Return why it is unclear whether the first line contains names or a row, or None if this is clear.

    `cells` are the values of the first line, and `below` those of the next line.
    """
    filled = [cell.strip() for cell in cells if cell.strip()]
    numbers = list(filter(is_number, filled))
    if 0 < len(numbers) < len(filled):
        word = next(cell for cell in filled if not is_number(cell))
        return f"It has the word {word!r} among numbers."
    if numbers == [str(i) for i in range(len(numbers))] and numbers:
        return "It counts from 0, like the names that pandas writes for columns without names."
    # Distinct integers may be names, such as years, if the next line has other numbers. If they were a row, the next
    # line would have integers too.
    distinct_integers = all(map(is_integer, numbers)) and len(set(numbers)) == len(numbers)
    if numbers and distinct_integers and any(is_number(cell) and not is_integer(cell) for cell in below):
        return "It has distinct integers, and the line below has numbers that are not integers."
    return None


def shown(text: str, most: int = 60) -> str:
    """Return a string in quotes for a message, shortened to `most` characters."""
    return repr(text if len(text) <= most else f"{text[:most]}...")


def is_number(cell: str) -> bool:
    """Return whether the text of a cell is a number, in ASCII and without underscores; spaces around it are ignored."""
    digits = cell.strip(" \t")
    try:
        float(digits)
    except ValueError:
        return False
    return digits.isascii() and "_" not in digits and digits == digits.strip()


def is_integer(cell: str) -> bool:
    """Return whether the text of a cell is an integer of at most 18 digits, which int64 can represent."""
    digits = cell.strip().removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19
