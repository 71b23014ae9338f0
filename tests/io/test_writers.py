"""Tables that are written block by block."""

import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

from mercer import DataError, ParameterError
from mercer.io.writers import output_format, writing_table

BLOCKS = [pa.table({"id": ["a", "b,c"], "p": [0.5, 1e-300]}), pa.table({"id": ['d"e', "é"], "p": [float("nan"), -2.0]})]
READERS = {
    "csv": pa.csv.read_csv,
    "tsv": lambda path: pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter="\t")),
    "parquet": pa.parquet.read_table,
    "arrow": pa.feather.read_table,
}


@pytest.mark.parametrize("kind", READERS)
def test_blocks_are_read_again(tmp_path, kind):
    path = tmp_path / f"table.{kind}"
    with writing_table(path) as writer:
        for block in BLOCKS:
            writer.write(block)
        assert not path.exists()
    found = READERS[kind](path)
    assert found["id"].to_pylist() == ["a", "b,c", 'd"e', "é"]
    assert np.array_equal(found["p"].to_numpy(), [0.5, 1e-300, np.nan, -2.0], equal_nan=True)
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_json_lines_have_null_for_numbers_that_json_does_not_have(tmp_path):
    with writing_table(tmp_path / "t.jsonl") as writer:
        for block in BLOCKS:
            writer.write(block)
    lines = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text(encoding="utf-8").splitlines()]
    assert lines[2] == {"id": 'd"e', "p": None}


@pytest.mark.parametrize("width", [1, 3])
def test_npy_files_have_the_number_of_all_rows(tmp_path, width):
    X = np.random.default_rng(0).normal(size=(700, width))
    with writing_table(tmp_path / "x.npy") as writer:
        for rows in np.split(X, [100, 101]):
            writer.write(pa.table({f"f{j}": rows[:, j] for j in range(width)}))
    assert (np.load(tmp_path / "x.npy") == (X[:, 0] if width == 1 else X)).all()


def test_npy_files_refuse_strings(tmp_path):
    with pytest.raises(DataError, match="npy files contain numbers, but the column 'id'"):
        write(tmp_path / "x.npy", BLOCKS[:1])
    assert not list(tmp_path.iterdir())


def write(path, blocks):
    with writing_table(path) as writer:
        for block in blocks:
            writer.write(block)


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_an_error_leaves_the_previous_file(tmp_path, error):
    path = tmp_path / "t.csv"
    path.write_text("previous")
    with pytest.raises(error):
        fail_after_a_block(path, error)
    assert path.read_text() == "previous"
    assert [one.name for one in tmp_path.iterdir()] == ["t.csv"]


def fail_after_a_block(path, error):
    with writing_table(path) as writer:
        writer.write(BLOCKS[0])
        raise error


def test_a_full_disk_names_the_file(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as caught, writing_table(tmp_path / "t.parquet") as writer:
        writer.write(BLOCKS[0])
    assert caught.value.filename == str(tmp_path / "t.parquet")
    assert not list(tmp_path.iterdir())


def test_formats_by_name():
    assert output_format("A.PARQUET") == "parquet"
    assert output_format("x", "csv") == "csv"
    with pytest.raises(ParameterError, match="ends in none of"):
        output_format("x.xlsx")
    with pytest.raises(ParameterError, match="format must be one of"):
        output_format("x", "xlsx")
    with pytest.raises(ParameterError, match="standard output"), writing_table("-", "npy"):
        pass
