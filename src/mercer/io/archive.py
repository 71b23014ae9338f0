"""Archives of values: zip files of JSON and npy arrays, replaced atomically and read without executing code.

An archive ends with a digest of all its bytes, stored as the comment of the zip file, so that damage of any kind is
detected before anything is read from it. The digest protects against accidents, not against forgery.

Each named value of an archive is a JSON tree and a list of npy arrays; the tree refers to an array by its index in the
list. Numbers, strings, tuples, lists, dictionaries, arrays and CSR matrices can be stored, and the state of instances
of classes that were declared with `storable`. Reading an archive can create objects of these types only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import IO, Any, TypeVar

import numpy as np
import scipy.sparse as sp

from mercer.io.files import replacing

__all__ = [
    "ArchiveError",
    "Stored",
    "check_archive",
    "digest_at_end",
    "read_archive",
    "storable",
    "store",
    "write_archive",
]

C = TypeVar("C", bound=type)
#: The key of a JSON object under which the type of the represented value is stored.
TYPE_KEY = "~"
# The comment of the zip file: a label, and a digest of all bytes before the digest.
LABEL = b"mercer archive, blake2b "
DIGEST_BYTES = 32
# The classes declared with `storable`, by name.
_STORABLE: dict[str, type] = {}


class ArchiveError(ValueError):
    """Raised if a file is not an archive, or is damaged."""


def storable(cls: C) -> C:
    """Class decorator that allows instances of a dataclass to be written to archives, under the name of the class.

    The state of an instance is written and restored as by pickle, with ``__getstate__`` and ``__setstate__`` if the
    class defines them.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @storable
    ... @dataclass(frozen=True)
    ... class ExampleSum:
    ...     total: float
    >>> store(ExampleSum(2.5)).value()
    ExampleSum(total=2.5)
    """
    known = _STORABLE.setdefault(cls.__name__, cls)
    if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
        msg = f"storable: there is another class named {cls.__name__}, in {known.__module__}. Rename one of them."
        raise TypeError(msg)
    _STORABLE[cls.__name__] = cls
    return cls


@dataclass
class Stored:
    """A value encoded for an archive: a JSON tree, and the arrays to which the tree refers by index."""

    tree: Any
    arrays: list[np.ndarray] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Total size of the arrays in bytes."""
        return sum(array.nbytes for array in self.arrays)

    def value(self) -> Any:
        """Return the decoded value."""
        return _decode(self.tree, self.arrays)


def store(value: Any, *, copy: bool = True) -> Stored:
    """Encode a value for an archive. With ``copy=False``, the encoded arrays may share memory with the value."""
    stored = Stored(None)
    stored.tree = _encode(value, stored.arrays, copy)
    return stored


def write_archive(
    path: str | os.PathLike[str], values: Mapping[str, Stored], keep: Iterable[str] = (), old: IO[bytes] | None = None
) -> bytes:
    """Write an archive of named values, which atomically replaces the file at `path`.

    Parameters
    ----------
    path : path-like
        The file to write.
    values : mapping of str to Stored
        The encoded values by name.
    keep : iterable of str, default=()
        Names of values that are copied from the archive `old`.
    old : binary file, default=None
        Archive with the values to keep, open for reading. It is closed when they have been copied, because some
        systems do not replace a file that is open.

    Returns
    -------
    bytes
        The digest at the end of the archive.
    """
    with replacing(path) as file:
        hashed = _Hashed(file)
        with zipfile.ZipFile(hashed, "w") as archive:  # type: ignore[call-overload]
            archive.comment = LABEL + bytes(2 * DIGEST_BYTES)
            if old is not None:
                _copy_values(old, set(keep), archive)
                old.close()
            for name, stored in values.items():
                archive.writestr(f"{name}/value.json", json.dumps(stored.tree))
                for number, array in enumerate(stored.arrays):
                    with archive.open(f"{name}/{number}.npy", "w", force_zip64=True) as member:
                        np.lib.format.write_array(member, array, allow_pickle=False)
        digest = hashed.digest.hexdigest().encode()
        file.seek(-len(digest), os.SEEK_END)
        file.write(digest)
    return digest


class _Hashed:
    """A file for writing from the start to the end, which computes a digest of what is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.blake2b(digest_size=DIGEST_BYTES)

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()


def _copy_values(old: IO[bytes], names: set[str], archive: zipfile.ZipFile) -> None:
    """Copy the values with the given names from the archive `old`, whose checksums are verified again."""
    try:
        with zipfile.ZipFile(old) as source:
            for info in source.infolist():
                if info.filename.split("/")[0] in names:
                    with source.open(info) as member, archive.open(info.filename, "w", force_zip64=True) as copy:
                        shutil.copyfileobj(member, copy, 2**20)
    except (zipfile.BadZipFile, EOFError, ValueError) as error:  # the file was changed in place by another program
        raise ArchiveError(str(error) or type(error).__name__) from error


def read_archive(file: str | os.PathLike[str] | IO[bytes], name: str) -> Any:
    """Return the value stored under `name`, or None if the archive has no such entry."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = set(archive.namelist())
            if f"{name}/value.json" not in names:
                return None
            tree = json.loads(archive.read(f"{name}/value.json"))
            arrays: list[np.ndarray] = []
            while f"{name}/{len(arrays)}.npy" in names:
                with archive.open(f"{name}/{len(arrays)}.npy") as member:
                    arrays.append(np.lib.format.read_array(member, allow_pickle=False))
                    member.read()  # zipfile verifies the checksum at the end of the member
            return _decode(tree, arrays)
    except ArchiveError:
        raise
    except OSError as error:
        if error.errno is not None:
            raise
        raise ArchiveError(str(error)) from error
    # What the parsers of three formats, and the classes that restore their state, raise for bytes that they did not
    # write: more than can be listed.
    except Exception as error:
        msg = f"{type(error).__name__}: {error}"
        raise ArchiveError(msg) from error


def check_archive(file: IO[bytes]) -> bytes:
    """Return the digest at the end of an archive; raise ArchiveError unless it is that of the content."""
    size = file.seek(0, os.SEEK_END)
    found = digest_at_end(file)
    if found is None:
        msg = "it is empty" if not size else "it does not end with a digest: it was cut off, or is something else"
        raise ArchiveError(msg)
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    file.seek(0)
    left = size - len(found)
    while left and (data := file.read(min(left, 2**20))):
        digest.update(data)
        left -= len(data)
    digest.update(bytes(len(found)))
    if digest.hexdigest().encode() != found:
        msg = "its content is not what was written, because its digest differs"
        raise ArchiveError(msg)
    return found


def digest_at_end(file: IO[bytes]) -> bytes | None:
    """Return the digest with which an archive ends, without a comparison with its content; None if there is none."""
    size = file.seek(0, os.SEEK_END)
    length = len(LABEL) + 2 * DIGEST_BYTES
    file.seek(max(0, size - length))
    end = file.read(length)
    return end[len(LABEL) :] if len(end) == length and end.startswith(LABEL) else None


# ---- encoding of values as trees ------------------------------------------------------------------------------


def _encode(value: Any, arrays: list[np.ndarray], copy: bool) -> Any:
    """Return the JSON tree of a value, and append its arrays to `arrays`."""

    def put(array: np.ndarray) -> int:
        arrays.append(np.array(array, order="K") if copy else array)
        return len(arrays) - 1

    def encoded(part: Any) -> Any:
        return _encode(part, arrays, copy)

    if isinstance(value, np.generic):
        return {TYPE_KEY: "scalar", "array": put(np.asarray(value))}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {TYPE_KEY: "objects", "shape": list(value.shape), "items": [encoded(one) for one in value.ravel()]}
        return {TYPE_KEY: "array", "array": put(value)}
    if sp.issparse(value) and value.format == "csr":
        parts = [put(value.data), put(value.indices), put(value.indptr)]
        kind = "csr_matrix" if isinstance(value, sp.csr_matrix) else "csr_array"
        return {TYPE_KEY: kind, "arrays": parts, "shape": list(value.shape)}
    if isinstance(value, tuple | list):
        return {TYPE_KEY: type(value).__name__, "items": [encoded(one) for one in value]}
    if isinstance(value, dict):
        return {TYPE_KEY: "dict", "items": [[encoded(key), encoded(one)] for key, one in value.items()]}
    if _STORABLE.get(type(value).__name__) is type(value):
        return {TYPE_KEY: "class", "name": type(value).__name__, "state": encoded(value.__getstate__())}
    msg = f"{type(value).__name__} cannot be written to an archive: declare the class with mercer.io.storable."
    raise TypeError(msg)


def _decode(tree: Any, arrays: list[np.ndarray]) -> Any:
    """Return the value that a JSON tree represents, given the arrays that the tree refers to by index."""
    if not isinstance(tree, dict):
        return tree
    kind = tree[TYPE_KEY]
    if kind == "scalar":
        return arrays[tree["array"]][()]
    if kind == "array":
        return arrays[tree["array"]]
    if kind == "objects":
        out = np.empty(len(tree["items"]), dtype=object)
        out[:] = [_decode(one, arrays) for one in tree["items"]]
        return out.reshape(tree["shape"])
    if kind in ("csr_matrix", "csr_array"):
        make = sp.csr_matrix if kind == "csr_matrix" else sp.csr_array
        return make(tuple(arrays[i] for i in tree["arrays"]), shape=tuple(tree["shape"]))
    if kind in ("tuple", "list"):
        items = [_decode(one, arrays) for one in tree["items"]]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        return {_decode(key, arrays): _decode(one, arrays) for key, one in tree["items"]}
    if kind == "class" and tree["name"] in _STORABLE:
        return _rebuilt(_STORABLE[tree["name"]], _decode(tree["state"], arrays))
    msg = f"{tree.get('name', kind)!r} is not a type that an archive can hold"
    raise ArchiveError(msg)


def _rebuilt(cls: Any, state: Any) -> Any:
    """Create an instance of `cls` with the given state, as pickle does: ``__init__`` is not called."""
    value = cls.__new__(cls)
    restore = getattr(value, "__setstate__", None)
    if restore is not None:
        restore(state)
    else:
        vars(value).update(state or {})
    return value
