import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mercer.errors import DataError
from mercer.tables.frames import MISSING_DATE, frame_of

DAY = 86_400_000_000


def cells(column):
    """The cells of a column as Python values, None for missing ones."""
    if column.kind == "category":
        return [None if code < 0 else column.categories[code] for code in column.values]
    missing = column.is_missing
    return [None if gone else value for value, gone in zip(column.values.tolist(), missing, strict=True)]


TABLE = {
    "number": ([1.5, None, 2.0], "number", [1.5, None, 2.0]),
    "category": (["a", None, "a"], "category", ["a", None, "a"]),
    "boolean": ([True, None, False], "boolean", [1.0, None, 0.0]),
    "date": ([dt.datetime(1970, 1, 2), None, dt.datetime(1969, 12, 31)], "date", [DAY, None, -DAY]),
    "nothing": ([None, None, None], "missing", [None, None, None]),
}


@pytest.mark.parametrize("make", ["pandas", "arrow", "polars", "objects"])
def test_all_libraries_give_the_same_cells(make):
    columns = {name: values for name, (values, _, _) in TABLE.items()}
    if make == "pandas":
        X = pd.DataFrame(columns)
    elif make == "arrow":
        X = pa.table(columns)
    elif make == "polars":
        X = pytest.importorskip("polars").DataFrame(columns)
    else:
        X = np.array(list(zip(*columns.values(), strict=True)), dtype=object)
    frame, named = frame_of(X, "test")
    assert named == (make != "objects")
    assert frame.shape == (3, 5)
    for column, (_, kind, expected) in zip(frame.columns, TABLE.values(), strict=True):
        assert column.kind == kind
        assert cells(column) == expected


@pytest.mark.parametrize(
    ("series", "kind", "expected"),
    [
        (pd.array([1, None], dtype="Int64"), "number", [1.0, None]),
        (pd.array([True, None], dtype="boolean"), "boolean", [1.0, None]),
        (pd.array(["a", None], dtype="string"), "category", ["a", None]),
        (pd.Categorical([3, None]), "category", ["3", None]),
        (pd.to_timedelta([90, None], unit="s"), "number", [90.0, None]),
        (pd.to_datetime(["1970-01-01 01:00+01:00", None]), "date", [0, None]),
        (pd.period_range("1970-01", periods=2, freq="D"), "date", [0, DAY]),
        (np.array([Decimal("1.5"), None], dtype=object), "number", [1.5, None]),
        (np.array([dt.date(1970, 1, 2), None], dtype=object), "date", [DAY, None]),
        (np.array([1, "a"], dtype=object), "category", ["1", "a"]),
        (np.array([2**63, 1], dtype=np.uint64), "number", [2.0**63, 1.0]),
        (np.array([np.inf, np.nan]), "number", [np.inf, None]),
    ],
    ids=str,
)
def test_columns_of_pandas(series, kind, expected):
    (column,) = frame_of(pd.DataFrame({"a": series}), "test")[0].columns
    assert column.kind == kind
    assert cells(column) == expected


@pytest.mark.parametrize(
    ("array", "kind", "expected"),
    [
        (pa.array(["a", None, "b"]).dictionary_encode(), "category", ["a", None, "b"]),
        (pa.DictionaryArray.from_arrays([0, 1, 0], pa.array(["a", None])), "category", ["a", None, "a"]),
        (pa.DictionaryArray.from_arrays([0, 1, None], pa.array(["a", "a"])), "category", ["a", "a", None]),
        (pa.array([Decimal("0.69"), None]), "number", [0.69, None]),
        (pa.array([dt.date(1970, 1, 2), None]), "date", [DAY, None]),
        (pa.array([dt.time(0, 1), None]), "number", [60.0, None]),
        (pa.array([dt.timedelta(minutes=1), None]), "number", [60.0, None]),
        (pa.array([1, None], pa.int8()), "number", [1.0, None]),
        (pa.chunked_array([["a"], [None, "b"]]), "category", ["a", None, "b"]),
        (pa.array([0, None], pa.timestamp("ns", "UTC")), "date", [0, None]),
    ],
    ids=str,
)
def test_columns_of_arrow(array, kind, expected):
    (column,) = frame_of(pa.table({"a": array}), "test")[0].columns
    assert column.kind == kind
    assert cells(column) == expected


def test_slices():
    frame, _ = frame_of(pd.DataFrame({"a": [1, 2, 3], "c": list("xyx")}), "test")
    assert cells(frame[1:].column("c")) == ["y", "x"]
    assert cells(frame[np.array([True, False, True])].column("a")) == [1.0, 3.0]
    assert len(frame[:0]) == 0
    assert frame.column("b") is None


@pytest.mark.parametrize(
    ("X", "what"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "several columns of the name 'a'"),
        (pd.DataFrame(index=[0]), "no columns"),
        (np.zeros(3), "Expected 2D array"),
        (np.zeros((2, 2), complex), "Complex data not supported"),
        ({"a": [1]}, "pandas.DataFrame"),
        (None, "got None"),
        ("table.csv", "Open the file first"),
    ],
)
def test_what_is_no_table(X, what):
    with pytest.raises(DataError, match=what):
        frame_of(X, "test")


def test_entries_that_are_lists():
    with pytest.raises(TypeError, match="column 'a' has entries of type list"):
        frame_of(pd.DataFrame({"a": [[1], [2]]}), "test")


def test_missing_date_is_no_date():
    assert MISSING_DATE == np.datetime64("NaT", "us").astype(np.int64)
