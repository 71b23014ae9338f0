"""Representation of a source of rows, and sizes of its blocks and parts."""

import csv
import struct
import zipfile
import zlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

from mercer import DataError, ParameterError, open_rows
from mercer.io.source import (
    BLOCK_BYTES,
    BLOCK_STEP,
    LEAST_ROWS,
    Part,
    RowSource,
    reading,
    rows_per_block,
    rows_per_part,
)


class Some(Part):
    """A given number of rows."""

    what = "rows of a test"

    def __init__(self, n_rows):
        self.n_rows = n_rows

    @property
    def files(self):
        return ()

    def _blocks(self):
        yield (np.zeros((self.n_rows or 7, 1)),)

    def __str__(self):
        return "some rows"


@pytest.mark.parametrize(
    ("sizes", "n_features", "expected"),
    [
        ([1797], 64, "<1,797 rows of 64 features in 1 part>"),
        ([1], 1, "<1 row of 1 feature in 1 part>"),
        ([1000, 1000], 2, "<2,000 rows of 2 features in 2 parts>"),
        ([1000, None], 2000, "<unknown number of rows of 2,000 features in 2 parts>"),
    ],
)
def test_repr_has_the_numbers_of_rows_features_and_parts(sizes, n_features, expected):
    source = RowSource([Some(n) for n in sizes], n_features=n_features)
    assert repr(source) == expected
    assert source.n_rows == (None if None in sizes else sum(sizes))
    assert [len(X) for (X,) in source] == [size or 7 for size in sizes]  # part after part


def test_source_without_rows_raises():
    with pytest.raises(DataError, match="The files have no rows"):
        RowSource([Some(0), Some(0)], n_features=3)


@pytest.mark.parametrize("n_features", [1, 10, 300, 100_000])
@pytest.mark.parametrize("itemsize", [4, 8])
def test_rows_per_block_are_bounded_in_bytes_and_in_rows(n_features, itemsize):
    rows = rows_per_block(n_features, itemsize)
    assert LEAST_ROWS <= rows <= 8 * BLOCK_STEP
    if rows > LEAST_ROWS:
        assert rows * n_features * itemsize <= BLOCK_BYTES
    if rows >= BLOCK_STEP:
        assert rows % BLOCK_STEP == 0
    elif rows > LEAST_ROWS:
        assert (rows + 1) * n_features * itemsize > BLOCK_BYTES  # the largest possible number
    assert rows_per_part(rows) == 4 * rows


@pytest.mark.parametrize(
    "error",
    [
        csv.Error("new-line character seen"),
        OverflowError("int too large"),
        zipfile.BadZipFile("bad magic number"),
        UnicodeDecodeError("utf-8", b"x", 0, 1, "invalid start byte"),
        zlib.error("invalid block type"),
        pa.ArrowInvalid("not an Arrow file"),
        struct.error("unpack requires a buffer"),
        EOFError("no data left"),
        IndexError("out of bounds"),
        RecursionError("too deep"),
        PermissionError(13, "denied"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_readers_name_the_file(error):
    with (
        pytest.raises(DataError, match=r"rows\.csv cannot be read as CSV: .+\. Is the file complete") as caught,
        reading("rows.csv", "CSV"),
    ):
        raise error
    assert caught.value.__cause__ is error


def test_errors_without_text_and_of_memory_and_of_mercer():
    with pytest.raises(DataError, match=r"rows cannot be read as CSV: AssertionError\."), reading("rows", "CSV"):
        raise AssertionError
    with pytest.raises(DataError, match=r"asks for more memory than there is.*columns="), reading("rows", "CSV"):
        raise MemoryError
    with pytest.raises(ParameterError, match="as it is"), reading("rows", "CSV"):
        raise ParameterError("as it is")
    with pytest.raises(KeyboardInterrupt), reading("rows", "CSV"):
        raise KeyboardInterrupt


def test_part_with_another_number_of_rows_than_expected_raises():
    part = Some(None)
    part.n_rows = 8
    part._blocks = lambda: iter([(np.zeros((5, 1)),), (np.zeros((2, 1)),)])
    with pytest.raises(DataError, match="some rows must have 8 rows, as when it was opened, but 7 rows could be read"):
        list(part)


@pytest.mark.parametrize("name", ["t.csv", "t.svm", "t.npy", "t.parquet", "t.arrow"])
def test_files_that_cannot_be_opened_or_disappear_raise(name, tmp_path, monkeypatch):
    path = tmp_path / name
    table = pa.table({"a": [1.0, 2.0], "b": [3.0, 4.0]})
    if name == "t.npy":
        np.save(path, np.ones((3, 2)))
    elif name == "t.parquet":
        pa.parquet.write_table(table, path)
    elif name == "t.arrow":
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_text("a,b\n1,2\n" if name == "t.csv" else "1 1:2\n")
    source = open_rows(path)
    path.unlink()
    for use in (list, RowSource.fingerprint):
        with pytest.raises(DataError, match=rf"{name}.* cannot be "):
            use(source)


def test_data_that_are_no_arrow_table_raise():
    with pytest.raises(DataError, match=r"The source cannot be read as an Arrow table: .*Could not convert"):
        open_rows(pd.DataFrame({"a": [1.0, "two"]}, dtype=object))
    batches = [pa.record_batch({"a": [1.0]}), pa.record_batch({"b": [1.0]})]
    with pytest.raises(DataError, match=r"The source cannot be read as an Arrow table: .*[Ss]chema"):
        open_rows(batches)
