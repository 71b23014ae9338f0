"""Choice of the columns that are features, targets and weights."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mercer import DataError, KernelRidge, open_rows
from mercer.io.formats.columns import choose_columns
from mercer.io.formats.table import index_columns

from ..conftest import joined

INDICES = {
    "shuffled": [3, 1, 0, 2],
    "named": pd.Index([30, 10, 0, 20], name="id"),
    "two": pd.MultiIndex.from_tuples([(1, 2), (1, 3), (2, 2), (2, 3)], names=["i", None]),
    "dates": pd.date_range("2024-01-01", periods=4),
    "strings": list("pqrs"),
}


def opened(kind, frame, folder, **chosen):
    if kind == "frame":
        return open_rows(frame, **chosen)
    getattr(frame, f"to_{kind}")(folder / f"t.{kind}")
    return open_rows(folder / f"t.{kind}", **chosen)


@pytest.mark.parametrize("index", INDICES)
@pytest.mark.parametrize("kind", ["frame", "parquet"])
def test_index_of_a_data_frame_is_not_a_feature(kind, index, tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "y": [5.0, 6, 7, 8]}, index=INDICES[index])
    for target in ("y", -1, 1):
        source = opened(kind, frame, tmp_path, target=target)
        assert source.feature_names == ("a",)
        X, y = joined(source)
        assert X.tolist() == [[1], [2], [3], [4]]
        assert y.tolist() == [5, 6, 7, 8]
    with pytest.raises(DataError, match="has 2 columns, so target=2 is out of range"):
        opened(kind, frame, tmp_path, target=2)


@pytest.mark.parametrize("kind", ["frame", "parquet"])
def test_index_is_read_if_it_is_named(kind, tmp_path):
    frame = pd.DataFrame({"a": [1.0, 2, 3, 4], "y": [5.0, 6, 7, 8]}, index=INDICES["named"])
    X, _ = joined(opened(kind, frame, tmp_path, target="y", columns=["a", "id"]))
    assert X.tolist() == [[1, 30], [2, 10], [3, 0], [4, 20]]
    X, weight = joined(opened(kind, frame, tmp_path, weight="id"))[::2]
    assert X.shape == (4, 2)
    assert weight.tolist() == [30, 10, 0, 20]
    with pytest.raises(DataError, match=r"no column 'ids', which columns asks for\. Did you mean 'id'\?"):
        opened(kind, frame, tmp_path, columns=["ids"])


def test_model_of_a_shuffled_file_equals_that_of_the_data_frame(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(400, 2)), columns=["a", "b"])
    frame["y"] = frame.a + 0.05 * rng.normal(size=400)
    shuffled = frame.sample(frac=1, random_state=0)
    shuffled.to_parquet(tmp_path / "t.parquet")
    from_file = KernelRidge(random_state=0).fit(open_rows(tmp_path / "t.parquet", target="y"))
    from_frame = KernelRidge(random_state=0).fit(shuffled[["a", "b"]], shuffled.y)
    assert np.allclose(from_file.coef_, from_frame.coef_)


@pytest.mark.parametrize("metadata", [None, {}, {b"pandas": b"no json"}, {b"pandas": b"[]"}, {b"pandas": b"{}"}])
def test_tables_not_written_by_pandas_have_no_index(metadata):
    assert index_columns(pa.schema([("a", pa.int8())], metadata=metadata)) == []


def test_range_index_has_no_column():
    about = {"index_columns": [{"kind": "range", "name": None, "start": 0, "stop": 3, "step": 1}, "b"]}
    schema = pa.schema([("a", pa.int8()), ("b", pa.int8())], metadata={b"pandas": json.dumps(about).encode()})
    assert index_columns(schema) == ["b"]
    assert choose_columns(["a", "b"], "t", index=["b", "gone"]).features == ("a",)
    with pytest.raises(DataError, match="no column left for features"):
        choose_columns(["a", "b"], "t", target="a", index=["b"])


class Counted(str):
    """A name that counts how often it is compared."""

    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other):
        Counted.compared += 1
        return str.__eq__(self, other)


def test_columns_are_chosen_without_comparing_all_pairs_of_names():
    n = 2000
    names = [Counted(f"c{i}") for i in range(n)]
    again = [Counted(f"c{i}") for i in range(n - 1)]  # equal, but other objects
    Counted.compared = 0
    assert choose_columns(names, "t", target=f"c{n - 1}", columns=again, index=[names[5]]).features == tuple(names[:-1])
    with pytest.raises(DataError, match="two columns named 'c1'"):
        choose_columns([*names, Counted("c1")], "t")
    assert Counted.compared < 20 * n
