"""Rows that are not numbers: the message names the column, its type, and what to write."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from mercer import (
    DataError,
    Gaussian,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    RandomFourier,
    mmd_test,
    open_rows,
)
from mercer.errors.columns import check_rows, explain_rows

n = 30
a = np.random.default_rng(0).normal(size=n)
y = np.sin(a)
SMALL = RandomFourier(Gaussian(), 8, random_state=0)
FITS = {
    "KernelRidge": lambda X: KernelRidge(SMALL).fit(X, y),
    "KernelRidge, unlabeled": lambda X: KernelRidge(SMALL, unlabeled=np.nan).fit(X, y),
    "KernelRidge, blocks": lambda X: KernelRidge(SMALL).fit([(X, y)]),
    "KernelRidgeClassifier": lambda X: KernelRidgeClassifier(SMALL).fit(X, y > 0),
    "KernelPCA": lambda X: KernelPCA(SMALL).fit(X),
    "RandomFourier": lambda X: RandomFourier(Gaussian(), 8).fit(X),
    "RandomFourier, transform": lambda X: RandomFourier(Gaussian(), 8).fit(table(a)).transform(X),
    "KernelRidge, predict": lambda X: KernelRidge(SMALL).fit(table(a), y).predict(X),
    "Gaussian": lambda X: Gaussian()(X),
    "X": lambda X: mmd_test(X, X, SMALL, n_permutations=19),
}


def table(column):
    return pd.DataFrame({"a": a, "c": column})


COLUMNS = {
    "category": (pd.Categorical(list("xyz") * 10), "column 'c' of X is of type category, but rows must be numbers."),
    "category of numbers": (
        pd.Categorical([1, 2, 3] * 10),
        "If its numbers are meant as numbers, write X['c'] = X['c'].astype(float).",
    ),
    "strings": (list("xyz") * 10, "with strings such as 'x', but rows must be numbers. Encode categories with scikit"),
    "objects": (np.array(list("xyz") * 10, dtype=object), "with strings such as 'x', but rows must be numbers."),
    "numbers and a string": (
        ["1", "?", "2"] * 10,
        "has numbers and the string '?', in row 1. If it denotes a missing value, write X['c'] = pandas.to_numeric(X",
    ),
    "Int64 with NA": (
        pd.array([1, None] * 15, dtype="Int64"),
        "column 'c' of X (type Int64) has 15 missing values, first in row 1. Fill them in, X = X.fillna(X.median())",
    ),
    "boolean with NA": (pd.array([True, None] * 15, dtype="boolean"), "(type boolean) has 15 missing values"),
    "Float64 with NA": (pd.array([1.0, None] * 15, dtype="Float64"), "(type Float64) has 15 missing values"),
    "datetime": (
        pd.date_range("2020", periods=n, unit="ns"),
        "column 'c' of X has type datetime64[ns], but rows must be numbers. Turn times into numbers, such as days: "
        "X['c'] = (X['c'] - X['c'].min()) / pandas.Timedelta('1D').",
    ),
    "datetime with zone": (pd.date_range("2020", periods=n, tz="UTC"), "X['c'] = (X['c'] - X['c'].min()) / pandas"),
    "timedelta": (pd.to_timedelta(np.arange(n), "h"), "such as days: X['c'] = X['c'] / pandas.Timedelta('1D')."),
    "period": (
        pd.period_range("2020", periods=n, freq="D"),
        "(type period[D]) must have numbers, got Period '2020-01-01' in row 0. Turn it into numbers, or leave it out: "
        "X.drop(columns=['c']).",
    ),
}


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
@pytest.mark.parametrize(("column", "words"), COLUMNS.values(), ids=COLUMNS)
def test_columns_that_are_not_numbers_are_named(fit, column, words):
    with pytest.raises(DataError, match=re.escape(words)):
        fit(table(column))


@pytest.mark.parametrize(
    "column",
    [
        [True, False] * 15,
        pd.array([1, 2] * 15, dtype="Int64"),
        pd.array([True, False] * 15, dtype="boolean"),
        np.array([1, 2.5] * 15, dtype=object),
        ["1", "2.5"] * 15,
        np.arange(n, dtype=np.uint8),
    ],
)
def test_columns_of_numbers_and_booleans_are_accepted(column):
    X = table(column)
    expected = np.column_stack([a, np.asarray(X["c"].astype(float))])
    assert np.array_equal(SMALL.fit(X).transform(X), SMALL.fit(expected).transform(expected))


def test_the_suggested_pipeline_runs():
    X = pd.DataFrame({"a": a, "c": pd.Categorical(list("xyz") * 10), "s": list("uv") * 15})
    with pytest.raises(DataError, match="KernelRidge: column 'c' of X is of type category") as raised:
        KernelRidge().fit(X, y)
    names = {"make_pipeline": make_pipeline, "make_column_transformer": make_column_transformer}
    line = re.search(r"with scikit-learn: (.*)\.$", str(raised.value))[1]
    assert "['c']" in line
    line = line.replace("['c']", "['c', 's']")
    eval(line, names | {"OneHotEncoder": OneHotEncoder, "KernelRidge": KernelRidge}).fit(X, y)
    with pytest.raises(DataError, match=r"column 'c' of X \(and 1 more\) is .*\['c', 's'\]"):
        KernelRidge().fit(X.astype({"c": str}), y)


def test_the_suggested_conversion_of_times_runs():
    X = table(pd.date_range("2020", periods=n))
    with pytest.raises(DataError) as raised:
        KernelRidge().fit(X, y)
    exec(re.search(r"such as days: (.*)\.$", str(raised.value))[1], {"X": X, "pandas": pd})
    assert X["c"].tolist() == list(range(n))


@pytest.mark.parametrize("dtype", ["datetime64[D]", "timedelta64[s]"])
@pytest.mark.parametrize("fit", [FITS["KernelRidge"], FITS["RandomFourier"]])
def test_arrays_of_times_are_not_converted_in_silence(fit, dtype):
    X = np.arange(n).astype(dtype)[:, None]
    with pytest.raises(DataError, match=re.escape(f"X has type {dtype}, but rows must be numbers.")) as raised:
        fit(X)
    scope = {"X": X, "numpy": np}
    exec(re.search(r"such as days: (.*)\.$", str(raised.value))[1], scope)
    assert scope["X"].dtype == float


@pytest.mark.parametrize("fit", FITS.values(), ids=FITS)
def test_a_path_in_place_of_rows(fit):
    if fit is FITS["KernelRidge, blocks"]:
        pytest.skip("a block of paths is no case")
    for X in ("rows.csv", Path("rows.csv"), b"rows.csv"):
        with pytest.raises(DataError, match=r"X must be rows, got the path 'rows\.csv'\. Open the file first: X = "):
            fit(X)


def test_the_suggested_line_opens_the_file(tmp_path):
    path = tmp_path / "rows.csv"
    np.savetxt(path, np.column_stack([a, a**2, y]), delimiter=",")
    with pytest.raises(DataError) as raised:
        KernelRidge(SMALL).fit(path)
    line = re.search(r"first: X = mercer\.(.*), where target", str(raised.value))[1]
    assert np.array_equal(
        KernelRidge(SMALL).fit(eval(line, {"open_rows": open_rows})).coef_,
        KernelRidge(SMALL).fit(np.column_stack([a, a**2]), y).coef_,
    )
    with pytest.raises(DataError, match=r"a list of paths 'a\.csv'.*open_rows\(\['a\.csv', \.\.\.\], target=-1\)"):
        KernelRidge(SMALL).fit(["a.csv", "b.csv"])
    with pytest.raises(DataError, match=r"open_rows\('a\.svm'\)\.$"):  # such files contain their targets
        KernelRidge(SMALL).fit("a.svm")


def test_a_missing_y_is_asked_for():
    with pytest.raises(DataError, match=r"KernelRidge requires y .* open_rows\(path, target=\.\.\.\)"):
        KernelRidge(SMALL).fit(np.column_stack([a, a]))


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (None, "X must be rows, a 2-d array or a table, got None."),
        ({"a": a}, "got a dict. Try pandas.DataFrame(X)."),
        (np.zeros(n, dtype=[("a", float)]), "got a structured array. Try pandas.DataFrame(X)."),
        ([["a", 1.0]] * n, "rows must be numbers, got strings such as 'a'. Encode them"),
        (np.array([["a", 1.0]] * n, dtype=object), "rows must be numbers, got strings such as 'a'. Encode them"),
        (np.array([[[1, 2], [3]]] * n, dtype=object), "got a list as an entry. Are all rows of equal length?"),
    ],
)
def test_other_objects_in_place_of_rows(X, words):
    with pytest.raises(DataError, match=re.escape(words)):
        KernelRidge(SMALL).fit(X, y)


def test_one_column_as_a_series_is_still_an_error_of_scikit_learn():
    with pytest.raises(ValueError, match="Expected a 2-dimensional container"):
        KernelRidge(SMALL).fit(pd.Series(a), y)


def test_arrow_tables():
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(DataError, match="column 'c' of X has type timestamp"):
        KernelRidge(SMALL).fit(pa.table({"a": a, "c": pd.date_range("2020", periods=n)}), y)
    with pytest.raises(DataError, match="column 'c' of X is of type dictionary"):
        KernelRidge(SMALL).fit(pa.table({"a": a, "c": pa.array(list("xyz") * 10).dictionary_encode()}), y)
    KernelRidge(SMALL).fit(pa.table({"a": a, "c": a}), y)


def test_polars_tables_by_their_schema():
    class Table(SimpleNamespace):
        def __getitem__(self, name):
            return self.values[name]

    X = Table(schema={"a": "Float64", "c": "Categorical(ordering='physical')"}, values={"a": a, "c": list("xyz") * 10})
    with pytest.raises(DataError, match="column 'c' of X is of type Categorical"):
        check_rows("KernelRidge", X)
    X = Table(schema={"a": "Float64", "c": "Duration(time_unit='us')"}, values={"a": a, "c": a})
    with pytest.raises(DataError, match=r"column 'c' of X has type Duration.* X\['c'\] = X\['c'\] / "):
        check_rows("KernelRidge", X)
    X = Table(schema={"a": "Float64", "c": "String"}, values={"a": a, "c": list("xyz") * 10})
    check_rows("KernelRidge", X)  # strings may be numbers: the conversion will show it
    with pytest.raises(DataError, match="column 'c' of X is of type String, with strings such as 'x'"):
        explain_rows("KernelRidge", X)


def test_dask_data_frames():
    dd = pytest.importorskip("dask.dataframe")
    X = table(pd.Categorical(list("xyz") * 10)).assign(y=y)
    with pytest.raises(DataError, match="KernelRidge: column 'c' of X is of type category"):
        KernelRidge(SMALL).fit(dd.from_pandas(X, npartitions=2), "y")


def test_an_error_of_another_kind_stays_as_it_is():
    model = KernelRidge(SMALL).fit(table(a), y)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(table(a).rename(columns={"c": "b"}))
    explain_rows("KernelRidge", table(a))  # nothing to explain
