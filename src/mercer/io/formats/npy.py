"""Rows of npy files. Each part of a source is a range of rows of a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mercer.errors import DataError, ParameterError
from mercer.io.formats.columns import Column, Columns, choose_columns
from mercer.io.paths import check_file, find_files, shortened
from mercer.io.source import Part, RowSource, reading, rows_per_block, rows_per_part

__all__ = ["open_npy"]

# File name extensions of the format.
ENDS = (".npy",)
# Name of the format, for messages.
WHAT = "an npy file of numbers"


@dataclass(frozen=True)
class Stored:
    """The array of an npy file: its shape and dtype, and where its values are in the file.

    Values are read, not memory-mapped: if another process shortens a mapped file, access to it ends the process.
    """

    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    offset: int  # position of the first value in bytes
    fortran: bool  # whether the first index varies fastest

    @classmethod
    def of(cls, path: Path) -> Stored:
        """Read the header of an npy file; raise if it contains pickled objects or several arrays, or is incomplete."""
        check_file(path)
        with reading(str(path), WHAT):
            # NumPy checks the header, and that the file is long enough. The values are not accessed.
            values = np.load(path, mmap_mode="r", allow_pickle=False)
            if not isinstance(values, np.memmap):
                values.close()
                msg = f"{path} is an npz file of several arrays, which cannot be read by blocks. Save each as npy."
                raise DataError(msg)
            fortran = values.ndim > 1 and values.flags.f_contiguous and not values.flags.c_contiguous
            return cls(str(path), values.shape, values.dtype, values.offset, fortran)

    def rows(self, file: BufferedReader, start: int, stop: int) -> np.ndarray:
        """Return the rows from `start` to `stop` (exclusive) of the array, read from the opened file."""
        shape = (stop - start, *self.shape[1:])
        if not self.fortran:
            values = np.empty(shape, self.dtype)
            self._fill(file, start * values[:1].nbytes, values)
            return values
        # Every column is contiguous in the file.
        columns = np.empty((*shape[:0:-1], shape[0]), self.dtype)
        for number, column in enumerate(columns.reshape(-1, shape[0])):
            self._fill(file, (number * self.shape[0] + start) * self.dtype.itemsize, column)
        return columns.T

    def _fill(self, file: BufferedReader, position: int, values: np.ndarray) -> None:
        """Fill a contiguous array with the bytes at a position, relative to the first value."""
        file.seek(self.offset + position)
        if file.readinto(values.reshape(-1).view(np.uint8).data) != values.nbytes:
            raise shortened(self.path)


@dataclass(frozen=True)
class RowRange(Part):
    """A range of rows of a matrix in an npy file. Targets and weights are columns of the matrix, or other npy files."""

    what: ClassVar[str] = WHAT

    path: str
    start: int
    stop: int
    block_rows: int
    dtype: str  # of the features
    features: tuple[int, ...] | None  # column indices; None means all columns
    target: tuple[int, ...] | str | None  # column indices, or path of an npy file; None means no targets
    matrix_target: bool  # whether targets that are columns have shape (n, t), even for one column
    weight: int | str | None  # column index, or path of an npy file; None means no weights

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        return self.stop - self.start

    def _blocks(self) -> Iterator[tuple[Any, ...]]:
        with ExitStack() as stack:
            opened = {}
            for name in self.files:
                opened[name] = Stored.of(Path(name)), stack.enter_context(open(name, "rb"))
                if opened[name][0].shape[0] < self.stop:
                    msg = f"{name} has fewer rows than when it was opened. Open it again."
                    raise DataError(msg)
            for i in range(self.start, self.stop, self.block_rows):
                rows = (i, min(i + self.block_rows, self.stop))
                yield self._block({name: stored.rows(file, *rows) for name, (stored, file) in opened.items()})

    def _block(self, arrays: dict[str, np.ndarray]) -> tuple[Any, ...]:
        """Return the block of some rows of each file."""
        matrix = arrays[self.path]
        features = matrix if self.features is None else matrix[:, list(self.features)]
        X = np.ascontiguousarray(features, dtype=self.dtype)
        y: Any = None
        if isinstance(self.target, str):
            y = arrays[self.target]
        elif self.target is not None:
            y = matrix[:, list(self.target)] if self.matrix_target else matrix[:, self.target[0]].copy()
        if self.weight is not None:
            weight = arrays[self.weight] if isinstance(self.weight, str) else matrix[:, self.weight].copy()
            return X, y, weight
        return (X,) if y is None else (X, y)

    @property
    def files(self) -> tuple[str, ...]:
        return (self.path, *(name for name in (self.target, self.weight) if isinstance(name, str)))

    def __str__(self) -> str:
        return f"{self.path}, rows {self.start} to {self.stop - 1}"


#: A column or columns of the matrix, or the path of another npy file; for several matrices, one path per matrix.
ColumnOrFile = Column | str | PathLike[str] | Sequence[Any]


def open_npy(
    source: Any,
    *,
    target: ColumnOrFile | None = None,
    weight: ColumnOrFile | None = None,
    columns: Sequence[Column] | None = None,
    dtype: Any = None,
) -> RowSource:
    """Open matrices in npy files, which are read block by block.

    Parameters
    ----------
    source : path, pattern, folder, or a list of these
        The files in order, each with one matrix of numbers. All have the same number of columns.
    target, weight : int, path, sequence or None, default=None
        Index of a column, or a list of columns for `target`; or the path of another npy file with as many rows as the
        matrix. For several matrices, a list with one path per matrix.
    columns, dtype
        As in `mercer.open_rows`.

    Returns
    -------
    RowSource
    """
    paths = find_files(source, ENDS)
    arrays = [Stored.of(path) for path in paths]
    for path, X in zip(paths, arrays, strict=True):
        if len(X.shape) != 2 or X.dtype.kind not in "fiub":
            msg = (
                f"{path} must contain a matrix of numbers, got an array of {len(X.shape)} dimensions and dtype "
                f"{X.dtype}."
            )
            raise DataError(msg)
        if X.shape[1] != arrays[0].shape[1]:
            msg = f"{path} has {X.shape[1]} columns, but {paths[0]} has {arrays[0].shape[1]}."
            raise DataError(msg)
    if not any(X.shape[0] for X in arrays):
        msg = f"{paths[0]} has no rows."
        raise DataError(msg)
    width = arrays[0].shape[1]
    files = {
        role: _files(given, paths, arrays, role) if _is_files(given) else None
        for role, given in (("target", target), ("weight", weight))
    }
    names = [str(i) for i in range(width)]
    chosen: Columns = choose_columns(
        names,
        str(paths[0]),
        target=None if files["target"] else target,  # type: ignore[arg-type]
        weight=None if files["weight"] else weight,  # type: ignore[arg-type]
        columns=columns,
    )
    kind = np.dtype(np.float32 if all(X.dtype in (np.float32, np.float16) for X in arrays) else np.float64)
    kind = kind if dtype is None else np.dtype(dtype)
    features = tuple(map(int, chosen.features))
    rows = rows_per_block(width, kind.itemsize)
    parts = [
        RowRange(
            path=str(path),
            start=i,
            stop=min(i + rows_per_part(rows), X.shape[0]),
            block_rows=rows,
            dtype=kind.str,
            features=None if features == tuple(range(width)) else features,
            target=files["target"][k] if files["target"] else tuple(map(int, chosen.targets)) or None,
            matrix_target=chosen.matrix_target,
            weight=files["weight"][k] if files["weight"] else None if chosen.weight is None else int(chosen.weight),
        )
        for k, (path, X) in enumerate(zip(paths, arrays, strict=True))
        for i in range(0, X.shape[0], rows_per_part(rows))
    ]
    return RowSource(parts, n_features=len(features))


def _is_files(given: Any) -> bool:
    """Return whether a target or weight is specified by paths of npy files rather than by columns."""
    if isinstance(given, Sequence) and not isinstance(given, str):
        return len(given) > 0 and all(_is_files(one) for one in given)
    return isinstance(given, PathLike) or (isinstance(given, str) and given.endswith(".npy"))


def _files(given: Any, paths: Sequence[Path], arrays: Sequence[Stored], role: str) -> list[str]:
    """Return the paths of the npy files with targets or weights, one per matrix.

    Raises unless there are as many files as matrices, and each file has as many rows as its matrix.

    Parameters
    ----------
    given : path or sequence of paths
        Files with targets or weights.
    paths, arrays : sequence
        Files with the matrices, and the matrices.
    role : {"target", "weight"}
        Name of the parameter.
    """
    files = [Path(one) for one in ([given] if isinstance(given, str | PathLike) else given)]
    if len(files) != len(paths):
        msg = f"{role} must be one npy file per matrix, that is {len(paths)} files, got {len(files)}."
        raise ParameterError(msg)
    for path, file, X in zip(paths, files, arrays, strict=True):
        values = Stored.of(file)
        if values.shape[:1] != X.shape[:1]:
            msg = (
                f"{file} has shape {values.shape}, but {path} has {X.shape[0]} rows. They must have equal numbers of "
                "rows."
            )
            raise DataError(msg)
        if values.dtype.kind not in ("fiub" if role == "weight" else "fiubUS"):
            msg = f"{file} contains {values.dtype}, not {'numbers' if role == 'weight' else 'numbers or strings'}."
            raise DataError(msg)
    return list(map(str, files))
