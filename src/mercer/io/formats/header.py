"""The first line of a CSV file, which contains either the names of the columns or the first row."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mercer.errors import DataError

__all__ = ["first_line", "is_integer", "is_number"]

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
    with path.open("rb") as file:
        line = _next_line(file)
        after = file.tell()
        second = _next_line(file)
    byte_order_mark = b"\xef\xbb\xbf"
    text = line.removeprefix(byte_order_mark).decode("utf-8", "replace").rstrip("\r\n")
    if delimiter is None:
        delimiter = max(DELIMITERS, key=text.count)
    cells = next(csv.reader([text], delimiter=delimiter), [])
    if not cells:
        msg = f"{path} is empty; it has only blank lines."
        raise DataError(msg)
    if header is None:
        why = _ambiguity(cells, second.decode("utf-8", "replace").split(delimiter))
        if why is not None:
            msg = (
                f"{path}: is the first line, {_shown(text)}, a row or the names of the columns? {why} Pass header=True "
                "if it has names, header=False if it is a row."
            )
            raise DataError(msg)
        header = not any(map(is_number, cells))
    if header:
        return tuple(cell.strip() for cell in cells), after, delimiter
    start = after - len(line) + (len(byte_order_mark) if line.startswith(byte_order_mark) else 0)
    return tuple(str(i) for i in range(len(cells))), start, delimiter


def _next_line(file: Any) -> bytes:
    """Return the next line that is not blank, or ``b""`` at the end of the file."""
    line = file.readline()
    while line and not line.strip():
        line = file.readline()
    return line


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


def _shown(text: str, most: int = 60) -> str:
    """Return a line in quotes for a message, shortened to `most` characters."""
    return repr(text if len(text) <= most else f"{text[:most]}...")


def is_number(cell: str) -> bool:
    """Return whether the text of a cell is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def is_integer(cell: str) -> bool:
    """Return whether the text of a cell is an integer of at most 18 digits, which int64 can represent."""
    digits = cell.strip().removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19
