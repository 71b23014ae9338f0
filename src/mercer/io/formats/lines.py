"""Text files divided into ranges of bytes, which can be read independently.

A line belongs to the range in which it starts, even if it ends in the next range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mercer.errors import DataError
from mercer.io.paths import check_file, open_bytes, shortened

__all__ = ["Lines", "check_text", "count_lines", "line_number", "line_ranges"]

# Number of bytes that are parsed at a time.
CHUNK_BYTES = 8 * 2**20
# Number of bytes of one part.
RANGE_BYTES = 32 * 2**20
# First bytes of files compressed with gzip, bzip2, zip, zstd and xz.
COMPRESSED = (b"\x1f\x8b", b"BZh", b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00")


@dataclass(frozen=True)
class Lines:
    """The lines of a text file that start in the range of bytes from `start` to `end` (exclusive)."""

    path: str
    start: int
    end: int

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield ``(offset, text)``: chunks of complete lines, and their positions in the file in bytes."""
        with open(self.path, "rb") as file:
            if self.start:
                file.seek(self.start - 1)
                file.readline()  # skip the end of a line that starts before the range
            while (offset := file.tell()) < self.end:
                wanted = min(CHUNK_BYTES, self.end - offset)
                text = file.read(wanted)
                if len(text) < wanted:
                    raise shortened(self.path)
                if not text.endswith(b"\n"):
                    text += file.readline()
                yield offset, text

    def __str__(self) -> str:
        return f"{self.path}, bytes {self.start} to {self.end - 1}"


def line_ranges(path: Path, start: int = 0) -> list[Lines]:
    """Divide a text file into ranges of `RANGE_BYTES` bytes, from the byte `start` on."""
    size = path.stat().st_size
    return [Lines(str(path), i, min(i + RANGE_BYTES, size)) for i in range(start, size, RANGE_BYTES)]


def line_number(path: str, offset: int) -> int:
    """Return the number, counted from 1, of the line that starts at the byte `offset`.

    The file is read up to this offset.
    """
    number = 1
    with open_bytes(path) as file:
        while offset > 0 and (text := file.read(min(CHUNK_BYTES, offset))):
            number += count_lines(text)
            offset -= len(text)
    return number


def count_lines(text: bytes) -> int:
    """Return the number of ends of lines: line feeds, carriage returns, or both together."""
    return text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")


def check_text(path: Path) -> Path:
    """Return the path of a text file; raise if it does not exist, is empty, compressed, or in another encoding."""
    check_file(path)
    with path.open("rb") as file:
        start = file.read(8)
    if start.startswith(COMPRESSED):
        msg = f"{path} is compressed, so it cannot be read by ranges of bytes. Decompress it first, or use Parquet."
        raise DataError(msg)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        msg = f"{path} is text in UTF-16. Save it in UTF-8."
        raise DataError(msg)
    return path
