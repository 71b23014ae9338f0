"""Values in a zip of JSON and npy arrays: written whole, read without executing anything.

Each value of an archive is a JSON tree, in which arrays stand as numbers of members of the zip. Numbers, texts, tuples,
lists, dictionaries, arrays and CSR matrices are written as they are; a class only if it was declared `storable`, and
only its data: what a file can bring back is a closed list.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp

from mercer.io.files import replacing

__all__ = ["ArchiveError", "Stored", "read_archive", "storable", "store", "write_archive"]

C = TypeVar("C", bound=type)
#: The key under which everything that JSON has no word for says what it is.
MARK = "~"
_STORABLE: dict[str, type] = {}


class ArchiveError(ValueError):
    """A file is no archive, or a damaged one."""


def storable(cls: C) -> C:
    """Let instances of a dataclass be written to archives, under the name of the class.

    What is written is what pickle would write: ``__getstate__`` and ``__setstate__`` have the say where there are any.

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
        msg = f"There is another storable class of the name {cls.__name__}, in {known.__module__}."
        raise TypeError(msg)
    _STORABLE[cls.__name__] = cls
    return cls


@dataclass
class Stored:
    """A value as it is written: a JSON tree and the arrays it refers to."""

    tree: Any
    arrays: list[np.ndarray] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """The size of its arrays."""
        return sum(array.nbytes for array in self.arrays)

    def value(self) -> Any:
        """Return the value."""
        return _decode(self.tree, self.arrays)


def store(value: Any, *, copy: bool = True) -> Stored:
    """Return a value as it is written; unless `copy`, its arrays may share memory with it."""
    stored = Stored(None)
    stored.tree = _encode(value, stored.arrays, copy)
    return stored


def write_archive(path: str | os.PathLike[str], values: Mapping[str, Stored], keep: Iterable[str] = ()) -> None:
    """Write values under their names, atomically; those of `keep` are taken over from the archive that stood there."""
    with replacing(path) as file, zipfile.ZipFile(file, "w") as archive:
        kept = set(keep)
        if kept:
            with zipfile.ZipFile(path) as old:
                for info in old.infolist():
                    if info.filename.split("/")[0] in kept:
                        with old.open(info) as source, archive.open(info.filename, "w", force_zip64=True) as copy:
                            shutil.copyfileobj(source, copy, 2**20)
        for name, stored in values.items():
            archive.writestr(f"{name}/value.json", json.dumps(stored.tree))
            for number, array in enumerate(stored.arrays):
                with archive.open(f"{name}/{number}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array, allow_pickle=False)


def read_archive(path: str | os.PathLike[str], name: str) -> Any:
    """Return a value of an archive, or None if it has none of that name."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = set(archive.namelist())
            if f"{name}/value.json" not in names:
                return None
            tree = json.loads(archive.read(f"{name}/value.json"))
            arrays: list[np.ndarray] = []
            while f"{name}/{len(arrays)}.npy" in names:
                with archive.open(f"{name}/{len(arrays)}.npy") as member:
                    arrays.append(np.lib.format.read_array(member, allow_pickle=False))
                    member.read()  # to its end, where the check sum is compared
            return _decode(tree, arrays)
    except ArchiveError:
        raise
    except (zipfile.BadZipFile, ValueError, KeyError, IndexError, TypeError, EOFError, NotImplementedError) as error:
        raise ArchiveError(str(error) or type(error).__name__) from error


def check_archive(path: str | os.PathLike[str]) -> None:
    """Raise ArchiveError unless a file is an archive and all of it is as it was written."""
    try:
        with zipfile.ZipFile(Path(path)) as archive:
            bad = archive.testzip()
    except (zipfile.BadZipFile, EOFError, ValueError, NotImplementedError) as error:
        raise ArchiveError(str(error)) from error
    if bad is not None:
        msg = f"the check sum of {bad} is wrong"
        raise ArchiveError(msg)


# ---- values as trees ------------------------------------------------------------------------------


def _encode(value: Any, arrays: list[np.ndarray], copy: bool) -> Any:
    def put(array: np.ndarray) -> int:
        arrays.append(np.array(array, order="K") if copy else array)
        return len(arrays) - 1

    def deeper(part: Any) -> Any:
        return _encode(part, arrays, copy)

    if isinstance(value, np.generic):
        return {MARK: "scalar", "array": put(np.asarray(value))}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return {MARK: "objects", "shape": list(value.shape), "items": [deeper(one) for one in value.ravel()]}
        return {MARK: "array", "array": put(value)}
    if sp.issparse(value) and value.format == "csr":
        parts = [put(value.data), put(value.indices), put(value.indptr)]
        kind = "csr_matrix" if isinstance(value, sp.csr_matrix) else "csr_array"
        return {MARK: kind, "arrays": parts, "shape": list(value.shape)}
    if isinstance(value, tuple | list):
        return {MARK: type(value).__name__, "items": [deeper(one) for one in value]}
    if isinstance(value, dict):
        return {MARK: "dict", "items": [[deeper(key), deeper(one)] for key, one in value.items()]}
    if _STORABLE.get(type(value).__name__) is type(value):
        return {MARK: "class", "name": type(value).__name__, "state": deeper(value.__getstate__())}
    msg = f"{type(value).__name__} cannot be written to an archive: declare the class with mercer.io.storable."
    raise TypeError(msg)


def _decode(tree: Any, arrays: list[np.ndarray]) -> Any:
    if not isinstance(tree, dict):
        return tree
    kind = tree[MARK]
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
    msg = f"{tree.get('name', kind)!r} is nothing that an archive can hold"
    raise ArchiveError(msg)


def _rebuilt(cls: Any, state: Any) -> Any:
    value = cls.__new__(cls)
    restore = getattr(value, "__setstate__", None)
    if restore is not None:
        restore(state)
    else:
        vars(value).update(state or {})
    return value
