"""Sealed archives: a JSON header and npy arrays in a zip file, with SHA-256 digests of everything.

A sealed archive is read without executing code, and nothing is allocated before the sizes that it declares have been
compared with the size of the file:

- The members are ``header.json`` and ``arrays/0.npy``, ``arrays/1.npy``, ..., in this order, one after another, and not
  compressed. Any other name, order, number, compression or overlap is refused, so that a small file cannot become a
  large one, and no name of a member is used as a path.
- The header lists the dtype, the shape, the memory order and the digest of each array. The npy header of an array must
  be the one that follows from its entry; it is compared, and never parsed.
- The comment of the zip file ends with the digest of all bytes that are not a part of an array: those of the header,
  and of the structure of the zip file. With the digests of the arrays, every byte of the file is covered.

A digest detects damage. It is no signature: the author of a forged file can compute the digests, too. What is read must
therefore be checked as if it came from a stranger, which is done here for the arrays, and by the caller for the header.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from mercer.io.archive import ArchiveError
from mercer.io.files import replacing

__all__ = ["SealedArchive", "check_entries", "dtype_of", "layout_of", "sealed_size", "shape_of", "write_sealed"]

HEADER = "header.json"
# Largest header in bytes. Parsed JSON takes up to 40 times its size in memory.
HEADER_BYTES = 16 * 2**20
# Largest total size of what the zip file needs for one member: two headers with a name and sizes of 64 bits.
MEMBER_BYTES = 400
LOCAL_HEADER = struct.Struct("<4s5H3L2H")
MAX32 = 0xFFFFFFFF
MOST_DIMENSIONS = 32
# Largest dimension of an array without entries, since results that are computed from its shape take memory.
MOST_OF_EMPTY = 2**20
# Arrays of more bytes in total are hashed by several threads.
THREAD_BYTES = 4 * 2**20
# The dtypes of numbers, strings and times. There are no objects, records, or numbers whose size depends on the machine.
DTYPES = re.compile(
    r"\|b1|\|[iu]1|<[iu][248]|<f[248]|<c(8|16)|<U[1-9][0-9]{0,8}|\|S[1-9][0-9]{0,8}|"
    r"<[mM]8(\[[0-9]{0,9}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?"
)


@dataclass(frozen=True)
class Layout:
    """How an array is stored: dtype, shape and memory order, as in the header."""

    dtype: str
    shape: tuple[int, ...]
    fortran: bool

    @property
    def nbytes(self) -> int:
        """Size of the entries in bytes."""
        return dtype_of(self.dtype).itemsize * math.prod(self.shape)

    @property
    def npy_header(self) -> bytes:
        """The bytes of an npy file of version 1.0 before the entries."""
        text = repr({"descr": self.dtype, "fortran_order": self.fortran, "shape": self.shape}).encode("ascii")
        length = -(len(text) + 11) % 64 + len(text) + 1
        return b"\x93NUMPY\x01\x00" + struct.pack("<H", length) + text.ljust(length - 1) + b"\n"


def dtype_of(name: object) -> np.dtype[Any]:
    """Return the dtype of a name in a header; raise ArchiveError if an archive cannot hold it.

    Examples
    --------
    >>> dtype_of("<f8")
    dtype('float64')
    """
    if not isinstance(name, str) or not DTYPES.fullmatch(name):
        msg = f"it has an array of the type {name!r}, and only numbers, booleans, strings and times can be stored"
        raise ArchiveError(msg)
    return np.dtype(name)


def layout_of(array: np.ndarray) -> Layout:
    """Return how an array is stored; raise TypeError if its dtype cannot be."""
    name = array.dtype.newbyteorder("<").str
    if array.dtype.names is not None or not DTYPES.fullmatch(name):
        msg = f"an array of dtype {array.dtype} cannot be stored: only numbers, booleans, strings and times can."
        raise TypeError(msg)
    # The order of a view with gaps is that of its strides, since products of matrices depend on it in the last bits.
    if not array.size and max(array.shape) > MOST_OF_EMPTY:
        msg = f"an array of shape {array.shape} cannot be stored: it has no entries."
        raise TypeError(msg)
    strides = [abs(stride) for stride, n in zip(array.strides, array.shape, strict=True) if n > 1]
    fortran = not array.flags.c_contiguous and len(strides) > 1 and strides == sorted(strides)
    return Layout(name, array.shape, fortran)


def sealed_size(header: object, arrays: Iterable[np.ndarray]) -> int:
    """Return about how many bytes an archive takes."""
    return len(json.dumps(header)) + sum(array.nbytes + 2 * MEMBER_BYTES for array in arrays)


# ---- writing ----------------------------------------------------------------------------------------------------


def write_sealed(path: str | os.PathLike[str], label: str, content: object, arrays: Sequence[np.ndarray]) -> None:
    """Write a sealed archive, which atomically replaces the file at `path`.

    Parameters
    ----------
    path : path-like
        The file to write.
    label : str
        What the archive contains, in ASCII. Only a reader with the same label reads it.
    content : object
        What the header holds beside the entries of the arrays: a JSON value.
    arrays : sequence of ndarray
        Arrays of numbers, booleans, strings or times. The same content and arrays give the same bytes.
    """
    layouts = [layout_of(array) for array in arrays]
    members = [(layout.npy_header, _entries(array, layout)) for array, layout in zip(arrays, layouts, strict=True)]
    entries = [
        {"dtype": layout.dtype, "shape": layout.shape, "fortran": layout.fortran, "sha256": digest}
        for layout, digest in zip(layouts, _digests(members), strict=True)
    ]
    # One line per array and one for the content, so that the header can be read by people.
    lines = ",\n".join(json.dumps(entry, allow_nan=False) for entry in entries)
    header = f'{{"content": {json.dumps(content, allow_nan=False)},\n"arrays": [{lines}]}}\n'.encode("ascii")
    if len(header) > HEADER_BYTES:
        msg = f"the header has {len(header):,} bytes, and at most {HEADER_BYTES:,} can be read again"
        raise ArchiveError(msg)
    structure, end = _zip_structure([(header,), *members])
    mark = _mark(label)
    end += struct.pack("<H", len(mark) + 64) + mark
    digest = hashlib.sha256(structure[0] + header + b"".join(structure[1:]) + end + bytes(64)).hexdigest()
    # Everything is known before the first byte is written, so that an interruption meets no code but the writing.
    with replacing(path) as file:
        for local_header, parts in zip(structure, [(header,), *members], strict=True):
            file.write(local_header)
            for part in parts:
                file.write(part)
        file.write(end + digest.encode())


def _zip_structure(members: Sequence[Sequence[Any]]) -> tuple[list[bytes], bytes]:
    """Return the header of each member of a zip file, and the end of the file up to the length of its comment.

    Members are not compressed, and all sizes have 64 bits. The class `zipfile.ZipFile` would write the same, but runs
    code when it is deleted, in which Python ignores the exception of a signal.
    """
    headers, directory, position = [], b"", 0
    for number, parts in enumerate(members):
        name = (_name(number - 1) if number else HEADER).encode("ascii")
        size, checksum = sum(len(part) for part in parts), 0
        for part in parts:
            checksum = zlib.crc32(part, checksum)
        # Versions, flags, no compression, the first of January 1980; sizes are in the field that follows the name.
        common = struct.pack("<5H3L2H", 45, 0, 0, 0, 33, checksum, MAX32, MAX32, len(name), 20)
        headers.append(b"PK\x03\x04" + common + name + struct.pack("<2H2Q", 1, 16, size, size))
        common = struct.pack("<6H3L2H", 45, 45, 0, 0, 0, 33, checksum, MAX32, MAX32, len(name), 28)
        directory += b"PK\x01\x02" + common + struct.pack("<3H2L", 0, 0, 0, 0, MAX32) + name
        directory += struct.pack("<2H3Q", 1, 24, size, size, position)
        position += len(headers[-1]) + size
    count, length = len(members), len(directory)
    end = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count, length, position)
    end += struct.pack("<4sLQL", b"PK\x06\x07", 0, position + length, 1)
    end += struct.pack("<4s4H2L", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, MAX32, MAX32)
    return headers, directory + end


def _entries(array: np.ndarray, layout: Layout) -> memoryview:
    """Return the bytes of the entries of an array in the order of its layout, without a copy where possible."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    flat = np.ascontiguousarray(little.T if layout.fortran else little).reshape(-1)
    if not flat.size or not flat.itemsize:
        return memoryview(b"")
    return flat.view(np.uint8).data


def _digests(members: Sequence[Sequence[Any]]) -> list[str]:
    """Return the digest of each member, a sequence of its parts."""
    if sum(len(part) for parts in members for part in parts) < THREAD_BYTES:
        return [_digest(parts) for parts in members]
    with ThreadPoolExecutor(min(4, os.cpu_count() or 1)) as pool:  # hashing releases the interpreter lock
        return list(pool.map(_digest, members))


def _digest(parts: Sequence[Any]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _mark(label: str) -> bytes:
    return f"{label}, sha256 ".encode("ascii")


def _name(number: int) -> str:
    return f"arrays/{number}.npy"


# ---- reading ----------------------------------------------------------------------------------------------------


class SealedArchive:
    """A sealed archive that is open for reading. The constructor checks all but the contents of the arrays.

    Parameters
    ----------
    file : binary file
        The archive, which must stay open as long as arrays are read.
    label : str
        What the archive must contain, as it was written.

    Attributes
    ----------
    content : object
        The JSON value of the header. It was written by the author of the file: check it before it is used.
    layouts : tuple of Layout
        How the arrays are stored.
    """

    content: Any
    layouts: tuple[Layout, ...]

    def __init__(self, file: IO[bytes], label: str) -> None:
        self._file = file
        size = file.seek(0, os.SEEK_END)
        mark = _mark(label)
        file.seek(max(0, size - len(mark) - 64))
        end = file.read(len(mark) + 64)
        if not end.startswith(mark) or len(end) < len(mark) + 64:
            msg = (
                "it is empty" if not size else f"it does not end as a {label} does: it was cut off, or is another file"
            )
            raise ArchiveError(msg)
        members = self._members(size)
        self._spans = members[1:]
        if self._structure_digest(size) != end[len(mark) :]:
            msg = "its header is not what was written, because its digest differs"
            raise ArchiveError(msg)
        start, length = members[0]
        header = _parsed(self._read(start, length))
        try:
            self.content, entries = header["content"], header["arrays"]
            self.layouts = tuple(
                Layout(entry["dtype"], shape_of(entry["shape"]), entry["fortran"] is True) for entry in entries
            )
            self._sha256 = [str(entry["sha256"]) for entry in entries]
        except (KeyError, TypeError) as error:
            msg = f"its header is incomplete ({type(error).__name__}: {error})"
            raise ArchiveError(msg) from error
        self._check_sizes()

    def _members(self, size: int) -> list[tuple[int, int]]:
        """Return the start and the length of the data of each member, after checks of the zip file."""
        try:
            with zipfile.ZipFile(self._file) as archive:
                infos = archive.infolist()
        except Exception as error:  # zipfile raises many kinds of errors for bytes that it did not write
            msg = f"it is no zip file ({error})"
            raise ArchiveError(msg) from error
        names = [info.orig_filename for info in infos]
        expected = [HEADER, *(_name(number) for number in range(len(infos) - 1))]
        if names != expected:
            raise ArchiveError(_wrong_names(names, expected))
        spans: list[tuple[int, int]] = []
        end = 0
        for info in infos:
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                msg = (
                    f"its member {info.filename} is compressed, and members must not be, so that no file is a zip bomb"
                )
                raise ArchiveError(msg)
            if info.flag_bits & 0x1:
                msg = f"its member {info.filename} is encrypted, and members must not be"
                raise ArchiveError(msg)
            if (info.external_attr >> 16) & 0o170000 not in (0, 0o100000):  # the type of a Unix file
                msg = f"its member {info.filename} is a link or another special file"
                raise ArchiveError(msg)
            if not end <= info.header_offset <= end + MEMBER_BYTES:
                msg = f"its member {info.filename} overlaps another one, or is not where it must be"
                raise ArchiveError(msg)
            local = self._read(info.header_offset, LOCAL_HEADER.size)
            fields = LOCAL_HEADER.unpack(local) if len(local) == LOCAL_HEADER.size else (b"",)
            if fields[0] != b"PK\x03\x04":
                msg = f"its member {info.filename} is not where it must be"
                raise ArchiveError(msg)
            start = info.header_offset + LOCAL_HEADER.size + fields[9] + fields[10]
            end = start + info.file_size
            if end > size:
                msg = f"its member {info.filename} declares {info.file_size:,} bytes, which the file does not have"
                raise ArchiveError(msg)
            spans.append((start, info.file_size))
        if spans[0][1] > HEADER_BYTES:
            msg = f"its header has {spans[0][1]:,} bytes, and at most {HEADER_BYTES:,} are read"
            raise ArchiveError(msg)
        if size - end > MEMBER_BYTES * (len(infos) + 1):
            msg = "it has bytes that do not belong to any member"
            raise ArchiveError(msg)
        return spans

    def _check_sizes(self) -> None:
        """Raise ArchiveError if the arrays that the header declares are not the members of the file."""
        if len(self.layouts) != len(self._spans):
            msg = f"its header lists {len(self.layouts)} arrays, and it has {len(self._spans)}: a member is missing"
            raise ArchiveError(msg)
        for number, (layout, (_, length)) in enumerate(zip(self.layouts, self._spans, strict=True)):
            needed = len(layout.npy_header) + layout.nbytes
            if needed != length:
                msg = (
                    f"its member {_name(number)} has {length:,} bytes, but an array of shape {layout.shape} and type "
                    f"{layout.dtype} has {needed:,}"
                )
                raise ArchiveError(msg)

    def _structure_digest(self, size: int) -> bytes:
        """Return the digest of all bytes outside of arrays; the digest at the end counts as zeros."""
        digest = hashlib.sha256()
        position = 0
        for start, length in [*self._spans, (size - 64, 64)]:
            digest.update(self._read(position, start - position))
            position = start + length
        digest.update(bytes(64))
        return digest.hexdigest().encode()

    def _read(self, start: int, length: int) -> bytes:
        self._file.seek(start)
        return self._file.read(length)

    def arrays(self) -> list[np.ndarray]:
        """Return all arrays, each in new memory, after a comparison with their digests."""
        members = [self._array(number) for number in range(len(self.layouts))]
        digests = _digests([(prefix, buffer) for prefix, buffer, _ in members])
        for number, (found, expected) in enumerate(zip(digests, self._sha256, strict=True)):
            if found != expected:
                msg = f"the content of {_name(number)} is not what was written, because its digest differs"
                raise ArchiveError(msg)
        for _, _, array in members:
            check_entries(array)
        return [array for _, _, array in members]

    def _array(self, number: int) -> tuple[bytes, memoryview, np.ndarray]:
        layout, (start, _) = self.layouts[number], self._spans[number]
        expected = layout.npy_header
        prefix = self._read(start, len(expected))
        if prefix != expected:
            msg = f"{_name(number)} is not the array that the header declares"
            raise ArchiveError(msg)
        dtype = dtype_of(layout.dtype)
        flat = np.empty(math.prod(layout.shape), dtype=dtype)
        buffer = flat.view(np.uint8).data if flat.size and dtype.itemsize else memoryview(bytearray())
        done = 0
        while done < len(buffer):
            count = self._file.readinto(buffer[done:])  # type: ignore[attr-defined]
            if not count:
                msg = f"{_name(number)} was cut off while it was read"
                raise ArchiveError(msg)
            done += count
        array = flat.reshape(layout.shape, order="F" if layout.fortran else "C")
        # On a machine with the other byte order, the bytes are swapped after they have been hashed.
        return prefix, buffer, array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def _wrong_names(names: Sequence[str], expected: Sequence[str]) -> str:
    """Return what is wrong with the names of members."""
    for name in names:
        if name.startswith(("/", "\\")) or ".." in name or "\\" in name or ":" in name:
            return f"it has a member named {name[:80]!r}, which would be a path outside of it"
    counts = Counter(names)
    repeated = next((name for name, count in counts.items() if count > 1), None)
    if repeated is not None:
        return f"it has two members named {repeated[:80]!r}"
    known = set(expected)
    missing = [name for name in expected if name not in counts]
    unknown = [name for name in names if name not in known]
    if unknown:
        return f"it has a member named {unknown[0][:80]!r}, which does not belong to it"
    return f"its member {missing[0]} is missing" if missing else "its members are not in their order"


def shape_of(values: object) -> tuple[int, ...]:
    """Return the shape that a list of a header is; raise ArchiveError if it is none.

    Examples
    --------
    >>> shape_of([2, 3])
    (2, 3)
    """
    is_shape = (
        isinstance(values, list)
        and len(values) <= MOST_DIMENSIONS
        and all(type(n) is int and 0 <= n < 2**48 for n in values)
        and (0 not in values or max(values) <= MOST_OF_EMPTY)
    )
    if not is_shape:
        msg = f"it declares an array of the shape {str(values)[:80]}"
        raise ArchiveError(msg)
    return tuple(values)  # type: ignore[arg-type]


def check_entries(array: np.ndarray) -> None:
    """Raise ArchiveError if an array has bytes that no array of its dtype has.

    NumPy trusts its own arrays: booleans other than 0 and 1 make it count the entries of a mask wrongly, and write
    outside of the result.
    """
    if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
        msg = "it has booleans that are neither 0 nor 1"
        raise ArchiveError(msg)
    if array.dtype.kind == "U" and array.size:
        flat = np.ascontiguousarray(array).reshape(-1)
        if flat.view(np.uint32).max() > 0x10FFFF:
            msg = "it has a string with a character that does not exist"
            raise ArchiveError(msg)


def _parsed(header: bytes) -> Any:
    """Return the JSON value of a header; raise ArchiveError if it is none, or nested too deeply for the parser."""
    try:
        return json.loads(header.decode("ascii"), parse_constant=_no_constant)
    except RecursionError as error:
        msg = "its header is nested too deeply"
        raise ArchiveError(msg) from error
    except ValueError as error:
        msg = f"its header is no JSON ({error})"
        raise ArchiveError(msg) from error


def _no_constant(name: str) -> None:
    msg = f"{name} is not allowed"
    raise ValueError(msg)
