"""Tables that are written to files block by block. A file is replaced atomically when its last block is written."""

from __future__ import annotations

import errno
import json
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from mercer.errors import DataError, ParameterError
from mercer.io.files import replacing
from mercer.io.source import load_pyarrow

__all__ = ["FORMATS", "TableWriter", "output_format", "writing_table"]

#: Formats that can be written, with their file name extensions.
FORMATS: dict[str, tuple[str, ...]] = {
    "csv": (".csv",),
    "tsv": (".tsv",),
    "parquet": (".parquet", ".pq"),
    "arrow": (".arrow", ".feather", ".ipc"),
    "jsonl": (".jsonl", ".ndjson"),
    "npy": (".npy",),
}
# Size of the header of npy files, whose number of rows is written at the end.
NPY_HEADER = 128


def output_format(path: str | os.PathLike[str], format: str | None = None) -> str:
    """Return the format of a file that is to be written, by its name; standard output, "-", has the format CSV.

    Examples
    --------
    >>> output_format("predictions.parquet"), output_format("-")
    ('parquet', 'csv')
    """
    if format is not None:
        if format in FORMATS:
            return format
        msg = f"format must be one of {', '.join(map(repr, FORMATS))} or None, got {format!r}."
        raise ParameterError(msg)
    if path == "-":
        return "csv"
    name = Path(path).name.lower()
    for kind, ends in FORMATS.items():
        if name.endswith(ends):
            return kind
    known = ", ".join(end for ends in FORMATS.values() for end in ends)
    msg = f"{path}: the format cannot be inferred from the name, which ends in none of {known}. Rename the file."
    raise ParameterError(msg)


class TableWriter(ABC):
    """Base class of writers. The first block decides the columns and their types."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.n_rows = 0

    def write(self, table: Any) -> None:
        """Write a block, a pyarrow Table."""
        if not self.n_rows:
            self._start(table.schema)
        self._write(table)
        self.n_rows += table.num_rows

    @abstractmethod
    def _start(self, schema: Any) -> None:
        """Write what comes before the first block."""

    @abstractmethod
    def _write(self, table: Any) -> None:
        """Write a block."""

    @abstractmethod
    def finish(self) -> None:
        """Write what comes after the last block."""


class _ArrowWriter(TableWriter):
    """A writer of pyarrow, which is opened with the schema of the first block."""

    def __init__(self, file: IO[bytes], kind: str) -> None:
        super().__init__(file)
        self._kind = kind
        self._writer: Any = None

    def _start(self, schema: Any) -> None:
        if self._kind == "parquet":
            self._writer = load_pyarrow("pyarrow.parquet", "A Parquet file").ParquetWriter(self._file, schema)
        elif self._kind == "arrow":
            self._writer = load_pyarrow("pyarrow.ipc", "An Arrow file").new_file(self._file, schema)
        else:
            csv = load_pyarrow("pyarrow.csv", "A CSV file")
            options = csv.WriteOptions(delimiter="\t" if self._kind == "tsv" else ",", quoting_style="needed")
            self._writer = csv.CSVWriter(self._file, schema, write_options=options)

    def _write(self, table: Any) -> None:
        self._writer.write_table(table)

    def finish(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _JsonLines(TableWriter):
    def _start(self, schema: Any) -> None:
        pass

    def _write(self, table: Any) -> None:
        for batch in table.to_batches(max_chunksize=10_000):
            lines = [json.dumps(_finite(row), ensure_ascii=False, default=str) for row in batch.to_pylist()]
            self._file.write(("\n".join(lines) + "\n").encode("utf-8"))

    def finish(self) -> None:
        pass


class _Npy(TableWriter):
    """Numbers of all columns as an array of shape (n,) or (n, d)."""

    def _start(self, schema: Any) -> None:
        types = load_pyarrow("pyarrow.types", "A table")
        for field in schema:
            if not (types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)):
                msg = (
                    f"npy files contain numbers, but the column {field.name!r} has the type {field.type}. Write a csv, "
                    "parquet, arrow or jsonl file."
                )
                raise DataError(msg)
        self._width = len(schema)
        self._dtype = np.dtype(np.result_type(*(field.type.to_pandas_dtype() for field in schema)))
        self._file.write(b"\0" * NPY_HEADER)

    def _write(self, table: Any) -> None:
        columns = [column.to_numpy() for column in table.columns]
        self._file.write(np.column_stack(columns).astype(self._dtype, copy=False).tobytes())

    def finish(self) -> None:
        shape = f"({self.n_rows},)" if self._width == 1 else f"({self.n_rows}, {self._width})"
        text = f"{{'descr': {self._dtype.str!r}, 'fortran_order': False, 'shape': {shape}, }}"
        # Version 1.0: the magic string, the length of the rest, and the text, padded by spaces.
        header = b"\x93NUMPY\x01\x00" + (NPY_HEADER - 10).to_bytes(2, "little")
        self._file.seek(0)
        self._file.write(header + text.ljust(NPY_HEADER - 11).encode("ascii") + b"\n")
        self._file.seek(0, os.SEEK_END)


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row without numbers that JSON does not have."""
    return {k: None if isinstance(v, float) and not np.isfinite(v) else v for k, v in row.items()}


@contextmanager
def writing_table(path: str | os.PathLike[str], format: str | None = None) -> Iterator[TableWriter]:
    """Write a table block by block in a with statement, atomically.

    After an error, the file is as before: if it did not exist, it does not exist.

    Parameters
    ----------
    path : path-like
        The file; "-" means standard output.
    format : {"csv", "tsv", "parquet", "arrow", "jsonl", "npy"} or None, default=None
        Format; None infers it from the name.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, pyarrow as pa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with writing_table(f"{folder}/rows.npy") as writer:
    ...         writer.write(pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]}))
    ...     np.load(f"{folder}/rows.npy")
    array([[1., 3.],
           [2., 4.]])
    """
    kind = output_format(path, format)
    if path == "-":
        if kind == "npy":
            msg = "npy files cannot be written to standard output, since their header has the number of rows."
            raise ParameterError(msg)
        sys.stdout.flush()
        with _naming_standard_output():
            writer = _writer(sys.stdout.buffer, kind)
            yield writer
            writer.finish()
            sys.stdout.buffer.flush()
        return
    with replacing(path) as file:
        writer = _writer(file, kind)
        yield writer
        writer.finish()


def _writer(file: IO[bytes], kind: str) -> TableWriter:
    if kind == "jsonl":
        return _JsonLines(file)
    return _Npy(file) if kind == "npy" else _ArrowWriter(file, kind)


@contextmanager
def _naming_standard_output() -> Iterator[None]:
    """Give an error of standard output its name; a pipe that was closed raises BrokenPipeError."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.EPIPE and not isinstance(error, BrokenPipeError):
            raise BrokenPipeError(error.errno, error.strerror) from error
        if error.filename is None and error.errno is not None:
            error.filename = "standard output"
        raise
