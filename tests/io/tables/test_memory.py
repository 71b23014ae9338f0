import pandas as pd
import pyarrow as pa
import pytest

from mercer import open_table
from mercer.errors import DataError, ParameterError

FRAME = pd.DataFrame({"a": [1.5, None], "b": ["x", None], "y": [0, 1]})


@pytest.mark.parametrize(
    "make",
    [
        lambda: FRAME,
        lambda: pa.Table.from_pandas(FRAME),
        lambda: pa.RecordBatch.from_pandas(FRAME),
        lambda: pa.Table.from_pandas(FRAME).to_batches(),
        lambda: pa.Table.from_pandas(FRAME).to_reader(),
    ],
    ids=["pandas", "table", "batch", "batches", "reader"],
)
def test_tables_in_memory_can_be_read_twice(make):
    source = open_table(make(), target="y")
    for _ in range(2):
        ((table, y),) = source
        assert table.to_pylist() == [{"a": 1.5, "b": "x"}, {"a": None, "b": None}]
        assert y.tolist() == [0, 1]
    assert source.n_rows == 2


def test_polars():
    pl = pytest.importorskip("polars")
    ((table,),) = open_table(pl.DataFrame({"a": [1, None], "b": ["x", "y"]}))
    assert table.to_pylist() == [{"a": 1, "b": "x"}, {"a": None, "b": "y"}]


def test_objects_of_several_types_become_strings():
    ((table,),) = open_table(pd.DataFrame({"m": [1, "a", 2.5, None]}))
    assert table.column("m").to_pylist() == ["1", "a", "2.5", None]


def test_index_and_names_that_are_numbers():
    source = open_table(pd.DataFrame([[1, "a"]], columns=[0, 1], index=["row"]))
    assert source.feature_names == ("0", "1")


def test_fingerprints_tell_tables_apart():
    one, other = open_table(FRAME), open_table(FRAME.assign(a=[1.5, 2]))
    assert one.fingerprint() == open_table(FRAME).fingerprint()
    assert one.fingerprint() != other.fingerprint()


def test_errors():
    with pytest.raises(DataError, match="no rows"):
        open_table(FRAME[:0])
    with pytest.raises(DataError, match="two columns named 'a'"):
        open_table(pd.DataFrame([[1, 2]], columns=["a", "a"]))
    with pytest.raises(ParameterError, match="header applies only to CSV"):
        open_table(FRAME, header=True)
    with pytest.raises(ParameterError, match="format applies only to files"):
        open_table(FRAME, format="csv")
    with pytest.raises(DataError, match="column 'l' contains list"):
        open_table(pa.table({"l": [[1], [2]]}))
