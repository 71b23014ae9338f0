"""Text files by ranges of bytes: whoever reads a range gets the lines that begin in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from mercer.errors import DataError
from mercer.io.paths import check_file

__all__ = ["Lines", "check_text", "line_ranges"]

# Text that is parsed at a time, and text of one part.
CHUNK_BYTES = 8 * 2**20
RANGE_BYTES = 32 * 2**20


@dataclass(frozen=True)
class Lines:
    """The lines of a text file that begin in a range of bytes."""

    path: str
    begin: int
    end: int

    def chunks(self) -> Iterator[tuple[int, bytes]]:
        """Yield runs of whole lines, each with the place of its first byte in the file."""
        with open(self.path, "rb") as file:
            if self.begin:
                file.seek(self.begin - 1)
                file.readline()  # the rest of a line that begins before the range
            while (place := file.tell()) < self.end:
                text = file.read(min(CHUNK_BYTES, self.end - place))
                if not text.endswith(b"\n"):
                    text += file.readline()
                if not text:  # the file is shorter than it was
                    return
                yield place, text

    def __str__(self) -> str:
        return f"{self.path}, bytes {self.begin} to {self.end - 1}"


def line_ranges(path: Path, begin: int = 0) -> list[Lines]:
    """Cut a text file from some byte on into ranges of fixed size."""
    size = path.stat().st_size
    return [Lines(str(path), i, min(i + RANGE_BYTES, size)) for i in range(begin, size, RANGE_BYTES)]


def line_number(path: str, place: int) -> int:
    """Return the number of the line, counted from 1, that begins at a byte of a file; it reads all before."""
    number = 1
    with open(path, "rb") as file:
        while place > 0 and (text := file.read(min(CHUNK_BYTES, place))):
            number += text.count(b"\n")
            place -= len(text)
    return number


def check_text(path: Path) -> Path:
    """Return the path of a file that is there, not empty, and not compressed."""
    check_file(path)
    with path.open("rb") as file:
        begin = file.read(4)
    if begin[:2] in (b"\x1f\x8b", b"BZ", b"PK") or begin in (b"\x28\xb5\x2f\xfd", b"\xfd7zX"):
        msg = f"{path} is compressed, so it cannot be read by ranges of bytes. Decompress it first, or use Parquet."
        raise DataError(msg)
    return path
