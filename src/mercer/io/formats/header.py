"""The first line of a CSV file: names of columns, or a row."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mercer.errors import DataError

__all__ = ["first_line", "is_number", "is_whole"]

DELIMITERS = (",", ";", "\t", "|")


def first_line(path: Path, delimiter: str | None, header: bool | None) -> tuple[tuple[str, ...], int, str]:
    """Return the names of the columns, the byte where rows begin, and the delimiter."""
    with path.open("rb") as file:
        line = _next_line(file)
        after = file.tell()
        second = _next_line(file)
    mark = b"\xef\xbb\xbf"
    text = line.removeprefix(mark).decode("utf-8", "replace").rstrip("\r\n")
    if delimiter is None:
        delimiter = max(DELIMITERS, key=text.count)
    cells = next(csv.reader([text], delimiter=delimiter), [])
    if not cells:
        msg = f"{path} is empty: it has only blank lines."
        raise DataError(msg)
    if header is None:
        why = _why_unclear(cells, second.decode("utf-8", "replace").split(delimiter))
        if why is not None:
            msg = (
                f"{path}: is the first line, {_shown(text)}, a row or the names of the columns? {why} Pass header=True "
                "if it holds names, header=False if it is a row."
            )
            raise DataError(msg)
        header = not any(map(is_number, cells))
    if header:
        return tuple(cell.strip() for cell in cells), after, delimiter
    begin = after - len(line) + (len(mark) if line.startswith(mark) else 0)
    return tuple(str(i) for i in range(len(cells))), begin, delimiter


def _next_line(file: Any) -> bytes:
    line = file.readline()
    while line and not line.strip():
        line = file.readline()
    return line


def _why_unclear(cells: Sequence[str], below: Sequence[str]) -> str | None:
    """Return why it cannot be told whether the first line holds names, given the next one, or None if it can."""
    said = [cell.strip() for cell in cells if cell.strip()]
    numbers = list(filter(is_number, said))
    if 0 < len(numbers) < len(said):
        word = next(cell for cell in said if not is_number(cell))
        return f"It has the word {word!r} among numbers."
    if numbers == [str(i) for i in range(len(numbers))] and numbers:
        return "Counted from 0, as the names that pandas writes for columns that have none."
    # Such as years; of a row of whole numbers the next one would hold whole numbers, too.
    whole = all(map(is_whole, numbers)) and len(set(numbers)) == len(numbers)
    if numbers and whole and any(is_number(cell) and not is_whole(cell) for cell in below):
        return "It has whole numbers, no two the same, and the line below has others."
    return None


def _shown(text: str, most: int = 60) -> str:
    return repr(text if len(text) <= most else f"{text[:most]}...")


def is_number(cell: str) -> bool:
    """Return whether a cell holds a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def is_whole(cell: str) -> bool:
    """Return whether a cell holds a whole number that int64 can take."""
    digits = cell.strip().removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 19
