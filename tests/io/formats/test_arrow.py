"""Arrow data in memory: tables, batches, data frames, and streams that can be read once."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mercer import DataError, Gaussian, KernelRidge, RandomFourier, open_rows

from ..conftest import joined

NAMES = ["a", "b", "c", "d"]


@pytest.fixture
def arrow(table):
    X, y, weight, labels = table
    return pa.table({**dict(zip(NAMES, X.T, strict=True)), "y": y, "w": weight, "label": labels})


@pytest.mark.usefixtures("small_pieces")
def test_tables_batches_and_data_frames(arrow, table):
    X, y, weight, _ = table
    batches = arrow.to_batches(max_chunksize=170)
    chunked = pa.Table.from_batches(batches)
    for source in (arrow, chunked, batches, arrow.to_pandas(), pd.DataFrame(X, columns=NAMES).assign(y=y, w=weight)):
        rows = open_rows(source, target="y", weight="w", columns=NAMES)
        assert rows.n_rows == len(X)
        assert len(rows.parts()) > 3
        for _ in range(2):
            for got, wanted in zip(joined(rows), (X, y, weight), strict=True):
                assert np.array_equal(got, wanted)
        parts = pickle.loads(pickle.dumps(rows.parts()))
        assert np.array_equal(joined(block for part in parts for block in part)[1], y)
    one = open_rows(batches[0], target="label", columns=NAMES)
    assert one.n_rows == 170


@pytest.mark.usefixtures("small_pieces")
def test_record_batch_reader_can_be_read_once(arrow, table):
    X, y, *_ = table

    def reader():
        return pa.RecordBatchReader.from_batches(arrow.schema, arrow.to_batches(max_chunksize=170))

    rows = open_rows(reader(), target="y", columns=NAMES)
    assert iter(rows) is rows
    assert rows.n_rows is None
    got = list(rows)
    assert len(got) > 18  # large batches are divided
    assert np.array_equal(joined(got)[0], X)
    assert list(rows) == []
    learner = KernelRidge(RandomFourier(Gaussian(), 40, random_state=0))
    streamed = learner.fit(open_rows(reader(), target="y", columns=NAMES)).coef_
    assert np.allclose(streamed, KernelRidge(learner.feature_map).fit(X, y).coef_, atol=1e-10)
    with pytest.raises(DataError, match="can be read only once"):
        KernelRidge(random_state=0).fit(open_rows(reader(), target="y", columns=NAMES))


def test_error_of_a_stream_is_reported(arrow):
    def batches():
        yield arrow.to_batches()[0]
        raise OSError("the line is dead")

    rows = open_rows(pa.RecordBatchReader.from_batches(arrow.schema, batches()), target="y", columns=NAMES)
    with pytest.raises(DataError, match=r"The Arrow stream cannot be read as record batches: .*the line is dead"):
        list(rows)


def test_missing_rows_columns_and_values_raise(arrow):
    with pytest.raises(DataError, match="The Arrow table has no rows"):
        open_rows(arrow.slice(0, 0), columns=NAMES)
    with pytest.raises(DataError, match="The Arrow table has no column 'z'"):
        open_rows(arrow, target="z")
    holes = pa.table({"a": [1.0, None, 3.0]})
    with pytest.raises(DataError, match="The Arrow table: column 'a' has no value in row 1"):
        list(open_rows(holes))


# Reads a file that becomes shorter after its first block, as if another process wrote it again.
SHORTEN = """
import os, sys, mercer, mercer.io.source
import mercer.io.formats.arrow as arrow
mercer.io.source.BLOCK_BYTES = 2**16
if sys.argv[2:]:
    arrow.BATCH_BYTES = int(sys.argv[2])
blocks = iter(mercer.open_rows(sys.argv[1]))
next(blocks)
os.truncate(sys.argv[1], 4096)
try:
    print(sum(len(block[0]) for block in blocks))
except mercer.DataError as error:
    print(error)
"""


@pytest.mark.parametrize(("rows", "limit"), [(50_000, []), (5000, []), (50_000, ["1000"])])
def test_file_that_becomes_shorter_while_it_is_read(rows, limit, tmp_path):
    """A batch in memory is complete; a further one, or a further block of a mapped one, raises."""
    path = tmp_path / "t.arrow"
    table = pa.table({"a": np.arange(50_000.0), "b": np.arange(50_000.0)})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    done = subprocess.run(
        [sys.executable, "-c", SHORTEN, str(path), *limit], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr  # it used to end by the signal SIGBUS
    if rows == 50_000 and not limit:
        assert int(done.stdout) == 50_000 - 4096
    else:
        assert "has become shorter while it was read: 4,096 bytes are left" in done.stdout


def test_only_the_columns_that_are_asked_for_are_read(tmp_path):
    path = tmp_path / "t.arrow"
    table = pa.table({"a": np.arange(40.0), "note": ["text"] * 40, "b": np.arange(40.0)})
    with (
        pa.OSFile(str(path), "wb") as file,
        pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer,
    ):
        writer.write_table(table)
    content = bytearray(path.read_bytes())
    magic = [i for i in range(len(content)) if content[i : i + 4] == b"\x04\x22\x4d\x18"]  # of each compressed buffer
    content[magic[2]] ^= 0xFF  # the strings of the column in the middle
    path.write_bytes(content)
    assert np.array_equal(joined(open_rows(path, columns=["b"], target="a"))[1], np.arange(40.0))
    with pytest.raises(DataError, match=r"t\.arrow, record batch 0 cannot be read as an Arrow file"):
        list(open_rows(path, columns=["a"], target="note"))
