import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from mercer import KernelRidge, TablePreprocessor, on_dask, open_rows, open_table
from mercer.errors import DataError, MercerWarning, ParameterError


def table(n=300, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "tail": rng.lognormal(sigma=2, size=n),
            "category": rng.choice(["u", "v", "w", "rare"], n, p=[0.5, 0.3, 0.19, 0.01]),
            "date": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D"),
            "flag": rng.choice([True, False], n),
            "constant": 7,
            "größe ä": rng.choice([f"k{i}" for i in range(50)], n),
        }
    )
    frame.loc[::7, "number"] = np.nan
    frame.loc[::11, "category"] = None
    if n > 5:
        frame.loc[5, "date"] = pd.NaT
    return frame


@pytest.fixture(scope="module")
def fitted():
    frame = table()
    return TablePreprocessor(min_frequency=4).fit(frame), frame


def files(folder, frame):
    frame.assign(y=range(len(frame))).to_csv(folder / "t.csv", index=False)
    frame.assign(y=range(len(frame))).to_parquet(folder / "t.parquet", row_group_size=77)


@pytest.mark.parametrize(
    "what", ["arrow", "polars", "blocks", "generator", "csv", "parquet", "csv on dask", "dask", "shuffled blocks"]
)
def test_every_source_gives_the_same_numbers(fitted, tmp_path, what):
    reference, frame = fitted
    expected = reference.transform(frame)
    other = clone(reference)
    X = frame
    if what == "arrow":
        X = pa.Table.from_pandas(frame)
    elif what == "polars":
        X = pytest.importorskip("polars").from_pandas(frame)
    if what in ("arrow", "polars"):
        found = other.fit(X).transform(X)
    elif "blocks" in what or what == "generator":
        blocks = [frame[:1], frame[1:100], frame[100:290], frame[290:]]
        if what == "shuffled blocks":
            blocks[1] = blocks[1][frame.columns[::-1]]
        found = other.fit(iter(blocks) if what == "generator" else blocks).transform(frame)
    elif what == "dask":
        dd = pytest.importorskip("dask.dataframe")
        collection = dd.from_pandas(frame.assign(y=1.0), npartitions=3)
        with warnings.catch_warnings():
            warnings.simplefilter("error", MercerWarning)
            found = other.fit(collection, "y").transform(collection).compute()
    else:
        files(tmp_path, frame)
        source = open_table(tmp_path / f"t.{what.split()[0]}", target="y")
        other.fit(on_dask(source) if "dask" in what else source)
        found = other.transform(source)
        ((first, y), *_) = other.rows(source)
        assert np.array_equal(first, expected[: len(first)])
        assert y.tolist() == list(range(len(y)))
    assert np.array_equal(found, expected)
    assert other.schema_ == reference.schema_
    assert other.columns_[:-1] == reference.columns_[:-1] or what in (
        "arrow",
        "polars",
        "csv",
        "parquet",
        "csv on dask",
    )
    assert list(other.feature_names_in_) == list(frame.columns)


def test_files_of_numbers(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 3))
    X[3, 1] = np.nan
    np.save(tmp_path / "x.npy", X)
    found = TablePreprocessor().fit(open_rows(tmp_path / "x.npy"))
    np.testing.assert_array_equal(found.transform(X), TablePreprocessor().fit(X).transform(X))
    pd.DataFrame(np.nan_to_num(X), columns=list("abc")).to_parquet(tmp_path / "x.parquet")
    named = TablePreprocessor().fit(open_rows(tmp_path / "x.parquet"))
    assert list(named.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_array_equal(
        named.transform(open_rows(tmp_path / "x.parquet")),
        named.transform(pd.DataFrame(np.nan_to_num(X), columns=list("abc"))),
    )


def test_columns_are_found_by_name(fitted):
    preprocessor, frame = fitted
    other = frame[frame.columns[::-1]].drop(columns="constant").assign(extra="x")
    assert np.array_equal(preprocessor.transform(other), preprocessor.transform(frame))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda t: t.drop(columns=["number", "flag"]), r"lacks columns 'number', 'flag', which the fit had"),
        (lambda t: t.rename(columns={"number": "numbers"}), r"Did you rename 'number' to 'numbers'\?"),
        (lambda t: t.assign(number=t.number.astype(str)), r"'number' must have numbers .* got categories .*to_numeric"),
        (lambda t: t.assign(date=t.date.astype(str)), r"'date' must have dates .* pandas.to_datetime"),
        (lambda t: t.assign(category=1), r"'category' must have categories .* got numbers \(type int64\)"),
        (lambda t: t.assign(flag=2), r"'flag' must have booleans"),
        (lambda t: t.assign(number=t.date), r"'number' must have numbers .* got dates"),
        (lambda t: t[:0], "0 sample"),
        (lambda t: t.to_numpy(), None),
    ],
)
def test_other_tables_are_errors(fitted, change, what):
    preprocessor, frame = fitted
    if what is None:
        with pytest.warns(UserWarning, match="does not have valid feature names"):
            preprocessor.transform(change(frame))
        return
    with pytest.raises(DataError, match=what):
        preprocessor.transform(change(frame))


def test_types_that_mean_the_same(fitted):
    preprocessor, frame = fitted
    expected = preprocessor.transform(frame.assign(number=2.0))
    assert np.array_equal(preprocessor.transform(frame.assign(number=2)), expected)
    assert np.array_equal(
        preprocessor.transform(frame.assign(flag=frame.flag.astype(int))), preprocessor.transform(frame)
    )
    empty = preprocessor.transform(frame[:3].assign(number=None, category=None, date=None, flag=None))
    assert np.isfinite(empty).all()


def test_new_categories_are_counted_and_reported_once(fitted, tmp_path):
    preprocessor, frame = fitted
    new = frame.assign(category=["x"] * 3 + ["z"] * (len(frame) - 3))
    new["größe ä"] = new["größe ä"].replace("k1", "k99")
    count = int((new["größe ä"] == "k99").sum())
    with pytest.warns(MercerWarning, match=rf"'category' in 300 rows \('z', 'x'\); 'größe ä' in {count} rows") as found:
        preprocessor.transform(new)
    assert len(found) == 1
    assert preprocessor.unseen_.rows == {"category": 300, "größe ä": count}
    assert preprocessor.unseen_.counts["category"] == {"z": 297, "x": 3}
    new[:100].to_parquet(tmp_path / "1.parquet")
    new[100:].to_parquet(tmp_path / "2.parquet")
    rows = preprocessor.rows(open_table(tmp_path))
    assert len(rows.parts()) == 2
    for _ in range(2):
        with pytest.warns(MercerWarning, match="'category' in 300 rows") as found:
            list(rows)
        assert len(found) == 1
    preprocessor.transform(frame)
    assert preprocessor.unseen_.rows == {}


def test_categories_of_a_file_that_look_like_numbers(tmp_path):
    (tmp_path / "train.csv").write_text("zip,flag,y\n" + "01234,yes,1\n99999,maybe,2\n12345,no,3\n" * 10)
    (tmp_path / "new.csv").write_text("flag,zip\nyes,99999\nno,12345\n")
    preprocessor = TablePreprocessor().fit(open_table(tmp_path / "train.csv", target="y"))
    assert preprocessor.schema_ == {"zip": "category", "flag": "category"}
    found = preprocessor.transform(open_table(tmp_path / "new.csv"))
    expected = preprocessor.transform(pd.DataFrame({"zip": ["99999", "12345"], "flag": ["yes", "no"]}))
    assert np.array_equal(found, expected)


def test_rows_are_numbers_for_any_learner(fitted, tmp_path):
    preprocessor, frame = fitted
    files(tmp_path, frame)
    rows = preprocessor.rows(open_table(tmp_path / "t.csv", target="y"))
    assert rows.n_rows == 300
    assert rows.feature_names == tuple(preprocessor.get_feature_names_out())
    model = KernelRidge(random_state=0).fit(rows)
    in_memory = KernelRidge(random_state=0).fit(preprocessor.transform(frame), np.arange(300.0))
    np.testing.assert_allclose(model.coef_, in_memory.coef_)


def test_weights_are_repeated_rows():
    frame = table(200).drop(columns="größe ä")
    weight = np.random.default_rng(1).integers(0, 4, 200)
    one = TablePreprocessor(min_frequency=1).fit(frame, sample_weight=weight)
    other = TablePreprocessor(min_frequency=1).fit(frame.iloc[np.repeat(np.arange(200), weight)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)
        np.testing.assert_allclose(one.transform(frame), other.transform(frame), rtol=1e-12)
    with pytest.raises(DataError, match="zero"):
        TablePreprocessor().fit(frame, sample_weight=np.zeros(200))


def test_scikit_learn(fitted):
    preprocessor, frame = fitted
    out = clone(preprocessor).set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == list(preprocessor.get_feature_names_out())
    assert out.index.equals(frame.index)
    sparse = clone(preprocessor).set_params(sparse_output=True).fit(frame).transform(frame)
    assert sp.issparse(sparse)
    assert np.array_equal(sparse.toarray(), preprocessor.transform(frame))
    model = make_pipeline(TablePreprocessor(), Ridge()).fit(frame, frame["tail"])
    assert model.predict(frame[frame.columns[::-1]]).shape == (300,)
    again = pickle.loads(pickle.dumps(preprocessor))
    assert np.array_equal(again.transform(frame), preprocessor.transform(frame))
    with pytest.raises(ParameterError, match="scale must be one of"):
        TablePreprocessor(scale="robust").fit(frame)


def test_summary_and_columns(fitted):
    preprocessor, _ = fitted
    by_name = {one.name: one for one in preprocessor.columns_}
    assert by_name["number"].missing == 43
    assert by_name["number"].outputs == ("number", "number (missing)")
    assert by_name["constant"].note == "left out: constant"
    assert by_name["tail"].note == "ranks"
    assert by_name["category"].distinct == 4
    assert len(preprocessor.summary().splitlines()) == 8
    outputs = [name for one in preprocessor.columns_ for name in one.outputs]
    assert outputs == preprocessor.get_feature_names_out().tolist()
    assert [preprocessor.columns_[j].name for j in preprocessor.output_columns_][:2] == ["number", "number"]


def test_names_of_outputs_are_different():
    frame = pd.DataFrame({"a": [1.0, None, 2.0, 3.0, None] * 2, "a (missing)": np.arange(10.0)})
    names = TablePreprocessor().fit(frame).get_feature_names_out()
    assert len(set(names)) == 3


def test_one_row():
    frame = table(1)
    preprocessor = TablePreprocessor().fit(frame)
    assert preprocessor.transform(frame).shape == (1, 0)


def test_blocks_must_have_the_same_columns():
    frame = table(20)
    with pytest.raises(DataError, match="all blocks must have the columns of the first one; this one lacks 'flag'"):
        TablePreprocessor().fit([frame, frame.drop(columns="flag")])
