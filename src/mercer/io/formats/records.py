"""CSV files divided into chunks of complete records. A line break inside quotes does not end a record.

Whether a line break is inside quotes depends on all quotes before it, so a file that is larger than one chunk is
scanned once from its start when it is opened, for quotes only, at about the speed of reading it. Quotes have the
meaning of Python's csv module, pandas and pyarrow: one at the start of a field opens it, two in an opened field are one
character, and those inside a field that does not start with one are ordinary characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from mercer.errors import DataError
from mercer.io.formats import lines
from mercer.io.paths import shortened

__all__ = ["MOST_BYTES", "Records", "first_records", "last_end", "quoted", "record_ranges"]

# Maximum number of bytes of one record. A quote that is never closed would make a record of the rest of the file.
MOST_BYTES = 2**28

QUOTE, LINE_FEED, CARRIAGE_RETURN = b'"\n\r'


@dataclass(frozen=True)
class Records:
    """Consecutive chunks of complete records of a CSV file.

    Chunk i starts at the byte ``offsets[i]`` and ends before the byte ``offsets[i + 1]``.
    """

    path: str
    offsets: tuple[int, ...]

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield ``(offset, text)``: the chunks, and their positions in the file in bytes."""
        with open(self.path, "rb") as file:
            for start, stop in zip(self.offsets, self.offsets[1:], strict=False):
                file.seek(start)
                text = file.read(stop - start)
                if len(text) < stop - start:
                    raise shortened(self.path)
                yield start, text

    def __str__(self) -> str:
        return f"{self.path}, bytes {self.offsets[0]} to {self.offsets[-1] - 1}"


def record_ranges(path: str, start: int, delimiter: str) -> list[Records]:
    """Divide a CSV file into ranges of about `RANGE_BYTES` bytes, in chunks of complete records, from a record on."""
    per_range = max(1, lines.RANGE_BYTES // lines.CHUNK_BYTES)
    offsets = [start]
    with open(path, "rb") as file:
        size = file.seek(0, 2)
        while offsets[-1] < size:
            text = first_records(file, path, offsets[-1], delimiter, lines.CHUNK_BYTES)
            if not text:  # the file has become shorter
                break
            offsets.append(offsets[-1] + len(text))
    return [Records(path, tuple(offsets[i : i + per_range + 1])) for i in range(0, len(offsets) - 1, per_range)]


def first_records(file: BinaryIO, path: str, start: int, delimiter: str, size: int) -> bytes:
    """Return complete records of an opened file from the byte `start` on: about `size` bytes, and at least one record.

    The last records of the file are returned even if a quote in them is not closed.
    """
    while True:
        file.seek(start)
        text = file.read(size + 1)
        if len(text) <= size:
            return text
        end = last_end(text, delimiter)
        if end:
            return text[:end]
        if size >= MOST_BYTES:
            number = lines.line_number(path, start)
            msg = (
                f"{path}, line {number}: the record that starts here has more than {MOST_BYTES >> 20} MiB. Is a quote "
                "in it not closed?"
            )
            raise DataError(msg)
        size *= 2


def quoted(text: bytes, delimiter: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the starts and ends of the quoted fields of complete records, as positions in bytes.

    The end of a field is the position after its last quote, or ``len(text) + 1`` if it is not closed. A field with
    doubled quotes may be returned in pieces that are adjacent.
    """
    if QUOTE not in text:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    symbols = np.frombuffer(text, np.uint8)
    quotes = np.flatnonzero(symbols == QUOTE)
    starts, ends = quotes[::2], quotes[1::2] + 1
    # If every second quote is at the start of a field or follows a closing quote, then quotes open and close in turn.
    before = symbols[starts[starts > 0] - 1]
    regular = (before == ord(delimiter)) | (before == LINE_FEED) | (before == CARRIAGE_RETURN) | (before == QUOTE)
    if not regular.all():
        # There are quotes that are ordinary characters.
        edge = re.escape(delimiter).encode()
        pattern = rb'"(?:(?<=[%b\r\n]")|(?<=\A"))[^"]*+(?:""[^"]*+)*+("|\Z)' % edge
        found = [(match.start(), match.end() if match[1] else len(text) + 1) for match in re.finditer(pattern, text)]
        starts, ends = np.array(found, dtype=np.int64).reshape(-1, 2).T
    elif len(ends) < len(starts):
        ends = np.append(ends, len(text) + 1)
    return starts, ends


def last_end(text: bytes, delimiter: str) -> int:
    """Return the position after the last line break outside quotes, or 0 if there is none.

    The last byte of the text does not count if it is a carriage return, because a line feed may follow.
    """
    starts, ends = quoted(text, delimiter)
    stop = len(text)
    while True:
        end = max(text.rfind(b"\n", 0, stop), text.rfind(b"\r", 0, min(stop, len(text) - 1)))
        field = int(np.searchsorted(starts, end)) - 1
        if end < 0 or field < 0 or ends[field] <= end:
            return end + 1
        stop = int(starts[field])
