"""Conversion of Arrow tables: what is damaged is refused before it is used."""

import decimal
import struct
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from mercer import DataError, open_rows

from ..conftest import joined


def write(path, table, **options):
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, **options)
    return path


@pytest.mark.parametrize("in_file", [True, False])
@pytest.mark.parametrize("code", [-1, 3, 100, -128])
def test_dictionary_codes_out_of_range_raise(code, in_file, tmp_path):
    codes = pa.array(np.array([0, 1, 2, code], dtype=np.int8))
    labels = pa.DictionaryArray.from_arrays(codes, pa.array(["red", "green", "blue"]), safe=False)
    table = pa.table({"a": np.arange(4.0), "y": labels})
    source = open_rows(write(tmp_path / "t.arrow", table) if in_file else table, target="y")
    with pytest.raises(DataError, match=rf"Value at position 3 out of bounds: {code}"):
        list(source)


def test_codes_of_missing_labels_are_not_checked():
    codes = pa.array(np.array([0, 1, -1]), mask=np.array([False, False, True]))
    labels = pa.DictionaryArray.from_arrays(codes, pa.array(["red", "green"]), safe=False)
    _, y = joined(open_rows(pa.table({"a": np.arange(3.0), "y": labels}), target="y"))
    assert y.tolist() == ["red", "green", None]


# Prints the error of reading a file, in a process of its own: damaged offsets used to end it.
READ = """
import sys, mercer
try:
    print(sum(len(y) for _, y in mercer.open_rows(sys.argv[1], target="y")))
except mercer.DataError as error:
    print(error)
"""


def test_damaged_offsets_of_strings_raise(tmp_path):
    path = write(tmp_path / "t.arrow", pa.table({"a": np.arange(300.0), "y": ["red", "green", "blue"] * 100}))
    content = bytearray(path.read_bytes())
    offsets = content.find(struct.pack("<8i", *np.cumsum([0, 3, 5, 4, 3, 5, 4, 3])))
    content[offsets + 4 * 5 + 3] ^= 0x40
    path.write_bytes(content)
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "t.arrow, record batch 0 cannot be read as an Arrow file" in done.stdout
    assert "out of bounds" in done.stdout


def test_labels_that_numpy_would_merge_raise(tmp_path):
    table = pa.table({"a": np.arange(3.0), "y": ["red", "red\0", "blue"]})
    with pytest.raises(DataError, match="a label of the target 'y' ends with a zero character"):
        list(open_rows(table, target="y"))
    pa.parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"t\.parquet: a label of the target 'y' ends with a zero character"):
        list(open_rows(tmp_path / "t.parquet", target="y"))


def test_columns_that_are_not_read_are_not_checked():
    damaged = pa.DictionaryArray.from_arrays(pa.array([0, 7]), pa.array(["red"]), safe=False)
    table = pa.table({"a": [1.0, 2.0], "note": damaged})
    assert joined(open_rows(table, columns=["a"]))[0].tolist() == [[1], [2]]


def test_feature_that_is_selected_twice():
    assert joined(open_rows(pa.table({"a": [1.0, 2.0]}), columns=["a", 0]))[0].tolist() == [[1, 1], [2, 2]]


@pytest.mark.parametrize(("precision", "scale"), [(10, 2), (15, 3), (38, 10), (38, -3)])
def test_decimals_are_rounded_to_the_nearest_number(precision, scale):
    """0.69 is 0.69, as in Python; Arrow converts it to 0.6900000000000001."""
    integers = np.random.default_rng(0).integers(-(10**9), 10**9, size=500).tolist()
    values = [decimal.Decimal(one).scaleb(-scale) for one in (69, *integers)]
    table = pa.table({"a": pa.array(values, pa.decimal128(precision, scale))})
    assert joined(open_rows(table))[0].ravel().tolist() == list(map(float, values))
