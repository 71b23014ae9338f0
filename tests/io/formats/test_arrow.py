"""Arrow data in memory: tables, batches, data frames, and streams that can be read once."""

import pickle

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
