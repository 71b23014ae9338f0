import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mercer import KernelClassifier, KernelRegressor, load_model, on_dask, open_table, save_model
from mercer.errors import DataError, MercerWarning

# Within a millionth of a second there is no search, so that fits are quick.
QUICK = {"time_limit": 1e-6, "random_state": 0}


def table(n=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "size": rng.normal(size=n),
            "kind": rng.choice(["u", "v", "w"], n),
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 1000, n), unit="D"),
            "flag": rng.choice([True, False], n),
            "same": "x",
        }
    )
    y = frame["size"].to_numpy() + 2.0 * (frame.kind == "u").to_numpy() + frame.flag.to_numpy()
    frame.loc[::9, "size"] = np.nan
    frame.loc[::13, "kind"] = None
    return frame, y


@pytest.fixture(scope="module")
def fitted():
    frame, y = table()
    return KernelRegressor(**QUICK).fit(frame, y), frame, y


def test_a_data_frame_is_enough(fitted):
    model, frame, y = fitted
    assert model.score(frame, y) > 0.8
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.n_features_in_ == 5
    assert model.importances_.shape == (5,)
    assert model.importances_[4] == 0
    np.testing.assert_allclose(model.importances_.sum(), 1)
    assert model.preprocessor_.schema_["kind"] == "category"
    assert "left out: 'same'" in model.explain()
    mean, std = model.predict(frame, return_std=True)
    assert mean.shape == std.shape == (120,)
    assert model.predict_interval(frame).shape == (120, 2)


def test_columns_in_another_order_and_further_ones(fitted):
    model, frame, _ = fitted
    other = frame[frame.columns[::-1]].drop(columns="same").assign(more=1)
    assert np.array_equal(model.predict(other), model.predict(frame))
    with pytest.raises(DataError, match="lacks the column 'kind'"):
        model.predict(frame.drop(columns="kind"))


def test_pipelines_of_members_take_the_table(fitted):
    model, frame, _ = fitted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(model.best_estimator_.predict(frame), model.predict(frame))


def test_new_categories_warn_once(fitted):
    model, frame, _ = fitted
    with pytest.warns(MercerWarning, match="'kind' in 120 rows") as found:
        model.predict(frame.assign(kind="new"))
    assert len(found) == 1


@pytest.mark.parametrize("what", ["arrow", "csv", "parquet", "blocks", "csv on dask", "dask"])
def test_every_source_gives_the_same_model(fitted, tmp_path, what):
    model, frame, y = fitted
    expected = model.predict(frame)
    other = KernelRegressor(**QUICK)
    if what == "arrow":
        X = pa.Table.from_pandas(frame)
        other.fit(X, y)
        found, score = other.predict(X), other.score(X, y)
    elif what == "blocks":
        other.fit([(frame[:50], y[:50]), (frame[50:], y[50:])])
        found, score = other.predict(frame), other.score(frame, y)
    elif what == "dask":
        collection = pytest.importorskip("dask.dataframe").from_pandas(frame.assign(y=y), npartitions=2)
        other.fit(collection, "y")
        found, score = other.predict(collection).compute(), other.score(collection, "y")
    else:
        if "csv" in what:
            frame.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
        else:
            frame.assign(y=y).to_parquet(tmp_path / "t.parquet", row_group_size=40)
        source = open_table(tmp_path / f"t.{what.split()[0]}", target="y")
        source = on_dask(source) if "dask" in what else source
        other.fit(source)
        found = np.asarray(other.predict(source))
        score = model.score(frame, y) if "dask" in what else other.score(source)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_allclose(other.best_estimator_.predict(frame), found, atol=1e-9)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert score == pytest.approx(model.score(frame, y), abs=1e-6)
    assert list(other.feature_names_in_) == list(frame.columns)


def test_labels_are_strings(tmp_path):
    frame, y = table()
    labels = np.where(y > 1, "yes", "no")
    frame.assign(label=labels).to_csv(tmp_path / "t.csv", index=False)
    source = open_table(tmp_path / "t.csv", target="label")
    model = KernelClassifier(**QUICK).fit(source)
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(source)) == {"no", "yes"}
    assert model.predict_proba(frame).shape == (120, 2)
    assert model.decision_function(frame).shape == (120,)
    assert model.score(source) > 0.8


def test_missing_targets(tmp_path):
    frame, y = table()
    text = np.where(y > 1, "yes", "no").astype(object)
    text[3] = None
    frame.assign(label=text).to_csv(tmp_path / "t.csv", index=False)
    source = open_table(tmp_path / "t.csv", target="label")
    with pytest.raises(DataError, match=r"y contains NaN or None in 1 of 120 rows, first in row 3. .*unlabeled=np.nan"):
        KernelClassifier(**QUICK).fit(source)
    assert KernelClassifier(unlabeled=np.nan, **QUICK).fit(source).predict(frame).shape == (120,)


def test_arrays_with_nan_are_tables():
    frame, y = table()
    X = np.column_stack([frame["size"], frame.flag, np.arange(120.0)]).astype(float)
    model = KernelRegressor(**QUICK).fit(X, y)
    assert model.preprocessor_ is not None
    assert not hasattr(model, "feature_names_in_")
    assert model.predict(X).shape == (120,)
    with pytest.raises(ValueError, match="2 features"):
        model.predict(X[:, :2])
    plain = KernelRegressor(**QUICK).fit(X[:, 1:], y)
    assert plain.preprocessor_ is None
    with pytest.raises(DataError, match="the fit had no missing numbers"):
        plain.predict(np.full((1, 2), np.nan))
    X[5, 2] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        KernelRegressor(**QUICK).fit(X, y)


def test_tables_without_a_column_that_varies():
    with pytest.raises(DataError, match="no column of the table is left to learn from: 'a' left out: constant"):
        KernelRegressor(**QUICK).fit(pd.DataFrame({"a": ["x"] * 5}), np.arange(5.0))
    constant = KernelRegressor(**QUICK).fit(pd.DataFrame({"a": [1.0] * 5}), np.arange(5.0))
    np.testing.assert_allclose(constant.predict(pd.DataFrame({"a": [1.0]})), 2.0)


def test_model_files(fitted, tmp_path):
    model, frame, _ = fitted
    save_model(model, tmp_path / "model.mercer")
    again = load_model(tmp_path / "model.mercer")
    assert np.array_equal(again.predict(frame), model.predict(frame))
    assert again.preprocessor_.columns_ == model.preprocessor_.columns_
    assert again.best_estimator_[0] is again.preprocessor_


def test_weights_and_importances_with_a_search():
    frame, y = table(200)
    frame["noise"] = np.random.default_rng(1).normal(size=200)
    model = KernelRegressor(random_state=0, time_limit=2).fit(frame, np.sin(3 * y), sample_weight=np.ones(200))
    by_name = dict(zip(model.feature_names_in_, model.importances_, strict=True))
    assert by_name["noise"] < max(by_name["size"], by_name["kind"])
    assert by_name["same"] == 0
