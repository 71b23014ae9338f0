"""Results with one row per row: for arrays at once, for files block by block, for Dask collections lazily."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import dump_svmlight_file
from sklearn.exceptions import NotFittedError

import mercer.io.source
from mercer import (
    DataError,
    Gaussian,
    GaussianProcessRegressor,
    KernelKMeans,
    KernelLogisticRegression,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    RandomFourier,
    on_dask,
    open_rows,
)
from mercer.data.results import rowwise
from mercer.data.sources import source_of

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(300, 3)), columns=list("abc"))
X = FRAME.to_numpy()
NUMBERS = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=300)
LABELS = np.where(NUMBERS > 0.2, "high", "low")
WEIGHT = RNG.uniform(0.5, 2, size=300)
MAP = RandomFourier(Gaussian(1.5), 12, random_state=0)
FORMATS = ["csv", "parquet", "npy", "svm", "table"]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(mercer.io.source, "BLOCK_BYTES", 1000)
    monkeypatch.setattr(mercer.io.source, "LEAST_ROWS", 16)
    monkeypatch.setattr(mercer.io.source, "PART_BLOCKS", 3)


def opened(kind, folder, frame=FRAME, y=None, weight=None):
    path = folder / f"t.{kind}"
    if kind == "svm":
        dump_svmlight_file(frame.to_numpy(), np.zeros(len(frame)) if y is None else y, str(path))
        return open_rows(path)
    if kind == "npy":
        np.save(path, frame)
        return open_rows(path)
    extra = {name: values for name, values in (("y", y), ("w", weight)) if values is not None}
    frame = frame.assign(**extra)
    chosen = {"target": "y" if "y" in extra else None, "weight": "w" if "w" in extra else None}
    if kind == "table":
        return open_rows(frame, **chosen)
    frame.to_csv(path, index=False) if kind == "csv" else frame.to_parquet(path, row_group_size=70)
    return open_rows(path, **chosen)


CASES = [
    (KernelRidge(MAP), NUMBERS, ("predict",)),
    (KernelRidge(MAP), np.column_stack([NUMBERS, X[:, 1]]), ("predict",)),
    (KernelRidgeClassifier(MAP), LABELS, ("predict", "predict_proba", "decision_function")),
    (KernelLogisticRegression(MAP), LABELS, ("predict", "predict_proba", "predict_log_proba", "decision_function")),
    (KernelKMeans(MAP, 3, random_state=0), None, ("predict", "transform")),
    (KernelPCA(MAP, 2), None, ("transform",)),
]


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(("learner", "y", "methods"), CASES)
def test_results_for_files_are_those_for_arrays(learner, y, methods, kind, tmp_path):
    learner.fit(X, y)
    source = opened(kind, tmp_path)
    for name in methods:
        wanted, got = getattr(learner, name)(X), getattr(learner, name)(source)
        assert type(got) is np.ndarray
        assert got.dtype == wanted.dtype
        assert got.shape == wanted.shape
        assert np.array_equal(got, wanted) if got.dtype.kind in "Ui" else np.allclose(got, wanted, atol=1e-10)


def test_many_blocks_and_other_columns(tmp_path):
    model = KernelRidge(MAP).fit(FRAME, NUMBERS)
    source = opened("parquet", tmp_path)
    assert len(list(source)) > 5
    assert np.allclose(model.predict(source), model.predict(FRAME), atol=1e-10)  # without a warning about names
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    renamed = FRAME.rename(columns={"a": "z"})
    for other, match in ((FRAME[["b", "a", "c"]], "another order"), (renamed, r"lacks \['a'\]")):
        with pytest.raises(DataError, match=match):
            model.predict(opened("parquet", tmp_path, other))
        with pytest.raises(DataError, match=match):
            model.predict(on_dask(opened("parquet", tmp_path, other)))
    with pytest.raises(DataError, match=r"t\.npy, rows 0 to \d+: X has 2 features, but KernelRidge is expecting 3"):
        KernelRidge(MAP).fit(X, NUMBERS).predict(opened("npy", tmp_path, FRAME[["a", "b"]]))


def test_standard_deviations_are_arrays_too(tmp_path):
    model = GaussianProcessRegressor(MAP).fit(FRAME, NUMBERS)
    source = opened("csv", tmp_path)
    for got, wanted in zip(model.predict(source, return_std=True), model.predict(FRAME, return_std=True), strict=True):
        assert np.allclose(got, wanted, atol=1e-10)
    with pytest.raises(DataError, match="On files only methods can be used whose result for a row does not depend"):
        model.predict(source, return_cov=True)


def test_a_stream_of_batches(tmp_path):
    model = KernelRidge(MAP).fit(FRAME, NUMBERS)
    batches = pa.Table.from_pandas(FRAME).to_reader(max_chunksize=70)
    assert np.allclose(model.predict(open_rows(batches)), model.predict(FRAME), atol=1e-10)


@pytest.mark.parametrize("kind", ["csv", "parquet", "table"])
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_scores(kind, weight, tmp_path):
    for model, y in ((KernelRidge(MAP), NUMBERS), (KernelRidgeClassifier(MAP), LABELS)):
        model.fit(FRAME, y)
        got = model.score(opened(kind, tmp_path, y=y, weight=weight))
        assert np.isclose(got, model.score(FRAME, y, weight), rtol=1e-10)
        assert model.score(FRAME, y) != model.score(FRAME, y, WEIGHT)
    model = KernelKMeans(MAP, 3, random_state=0).fit(FRAME)
    assert np.isclose(model.score(opened(kind, tmp_path, y=NUMBERS, weight=weight)), model.score(FRAME, None, weight))


def test_scores_are_of_rows_whose_target_is_known(tmp_path):
    known = RNG.random(300) < 0.4
    model = KernelRidge(MAP, unlabeled=np.nan).fit(FRAME, NUMBERS)
    y = np.where(known, NUMBERS, np.nan)
    assert np.isclose(model.score(opened("parquet", tmp_path, y=y)), model.score(FRAME[known], NUMBERS[known]))
    with pytest.raises(DataError, match=r"y contains NaN.*unlabeled=np\.nan"):
        KernelRidge(MAP).fit(FRAME, NUMBERS).score(opened("parquet", tmp_path, y=y))


def test_scores_need_targets(tmp_path):
    model = KernelRidge(MAP).fit(FRAME, NUMBERS)
    with pytest.raises(DataError, match=r"score needs targets: name their column, open_rows"):
        model.score(opened("csv", tmp_path))
    with pytest.raises(DataError, match="score needs targets, y, or files opened"):
        model.score(FRAME)
    with pytest.raises(DataError, match="files carry their own targets and weights"):
        model.score(opened("csv", tmp_path, y=NUMBERS), NUMBERS)


def test_rows_that_cannot_be_used_are_named(tmp_path):
    source = opened("parquet", tmp_path, FRAME.assign(b=np.where(np.arange(300) == 200, np.inf, X[:, 1])))
    with pytest.raises(DataError, match=r"t\.parquet, row group.*infinity"):
        KernelRidge(MAP).fit(FRAME, NUMBERS).predict(source)
    with pytest.raises(NotFittedError):
        KernelRidge(MAP).predict(source)


@pytest.mark.parametrize("blocks", [[(X, NUMBERS)], [X], ((X, NUMBERS) for _ in range(2)), iter([X])])
def test_other_iterables_raise_with_advice(blocks):
    model = KernelRidge(MAP).fit(X, NUMBERS)
    with pytest.raises(
        DataError,
        match=r"predict takes rows, or the result of mercer\.open_rows, got .*concatenate\(\[model\.predict\(X\) for",
    ):
        model.predict(blocks)


@pytest.mark.parametrize("kind", ["csv", "parquet", "npy"])
def test_on_dask_results_are_lazy(kind, tmp_path):
    model = KernelRidgeClassifier(MAP).fit(FRAME if kind != "npy" else X, LABELS)
    rows = FRAME if kind != "npy" else X
    for name in ("predict", "predict_proba"):
        got = getattr(model, name)(on_dask(opened(kind, tmp_path)))
        assert isinstance(got, da.Array)
        wanted = getattr(model, name)(rows)
        assert got.shape == wanted.shape
        assert np.array_equal(got.compute(), wanted) if name == "predict" else np.allclose(got.compute(), wanted)
    process = GaussianProcessRegressor(MAP).fit(rows, NUMBERS)
    mean, deviation = process.predict(on_dask(opened(kind, tmp_path)), return_std=True)
    assert np.allclose(mean.compute(), process.predict(rows))
    assert np.allclose(deviation.compute(), process.predict(rows, return_std=True)[1])


@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["", "weighted"])
@pytest.mark.parametrize(("kind", "y"), [(KernelRidge, NUMBERS), (KernelRidgeClassifier, LABELS)])
def test_scores_on_dask_are_those_of_the_arrays(kind, y, weight, tmp_path):
    model = kind(MAP).fit(FRAME, y)
    expected = model.score(FRAME, y, weight)
    frame = FRAME.assign(y=y, w=1.0 if weight is None else weight)
    parts = dd.from_pandas(frame, npartitions=4)
    options = {} if weight is None else {"sample_weight": "w"}
    rows = parts if weight is not None else parts.drop(columns="w")
    assert model.score(rows, "y", **options) == pytest.approx(expected, rel=1e-12)
    files = on_dask(opened("parquet", tmp_path, y=y, weight=weight))
    assert model.score(files) == pytest.approx(expected, rel=1e-12)
    blocks = [dask.delayed((X[a:b], y[a:b], None if weight is None else weight[a:b])) for a, b in ((0, 99), (99, 300))]
    nameless = kind(MAP).fit(X, y)
    assert nameless.score(blocks) == pytest.approx(expected, rel=1e-12)
    chunks = [da.from_array(values, chunks=77) for values in ((y,) if weight is None else (y, weight))]
    assert nameless.score(da.from_array(X, (110, 3)), *chunks) == pytest.approx(expected, rel=1e-12)


def test_scores_on_dask_ignore_unlabeled_rows(tmp_path):
    known = np.where(np.arange(300) % 3, NUMBERS, np.nan)
    model = KernelRidge(MAP, unlabeled=np.nan).fit(FRAME, known)
    files = on_dask(opened("parquet", tmp_path, y=known))
    assert model.score(files) == pytest.approx(model.score(FRAME, known), rel=1e-12)


def test_scores_on_dask_need_targets_and_the_columns_of_the_fit(tmp_path):
    model = KernelRidge(MAP).fit(FRAME, NUMBERS)
    with pytest.raises(DataError, match="KernelRidge requires y to be passed"):
        model.score(on_dask(opened("parquet", tmp_path)))
    with pytest.raises(DataError, match="Files carry their own targets"):
        model.score(on_dask(opened("parquet", tmp_path, y=NUMBERS)), NUMBERS)
    other = dd.from_pandas(FRAME[["b", "a", "c"]].assign(y=NUMBERS), npartitions=2)
    with pytest.raises(DataError, match="in another order"):
        model.score(other, "y")
    with pytest.raises(NotFittedError):
        KernelRidge(MAP).score(other, "y")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


def test_files_can_be_read_into_memory(tmp_path):
    table, sparse = (source_of(opened(kind, tmp_path, y=NUMBERS), owner="rows") for kind in ("csv", "svm"))
    assert np.array_equal(table.in_memory("rows"), X)
    np.testing.assert_allclose(sparse.in_memory("rows").toarray(), X, rtol=1e-12)


class Multiplier(BaseEstimator):
    """Counts the rows that it is given, and multiplies them."""

    def fit(self, X, y=None):
        self.seen_ = []
        return self

    @rowwise
    def predict(self, X, factor=1.0, *, shift=0.0):
        """Multiply rows."""
        self.seen_.append(len(X))
        return X[:, 0] * factor + shift


def test_methods_get_arrays_as_they_are():
    model, rows = Multiplier().fit(X), np.arange(12.0).reshape(6, 2)
    assert np.array_equal(model.predict(rows, 3.0, shift=1.0), 3 * rows[:, 0] + 1)
    assert model.seen_ == [6]
    assert Multiplier.predict.__doc__ == "Multiply rows."
    with pytest.raises(NotFittedError):
        Multiplier().predict(rows)


def test_results_on_dask_are_not_computed_before_they_are_needed():
    model, rows = Multiplier().fit(X), np.arange(120.0).reshape(60, 2)
    lazy = model.predict(da.from_array(rows, chunks=(20, 2)), 3.0, shift=1.0)
    assert isinstance(lazy, da.Array)
    assert sum(model.seen_) < 10  # of a few invented rows, for the shape
    assert lazy.chunks == ((20, 20, 20),)
    assert np.array_equal(lazy.compute(scheduler="sync"), 3 * rows[:, 0] + 1)


@pytest.mark.parametrize(
    "kind", [GaussianProcessRegressor, KernelKMeans, KernelLogisticRegression, KernelPCA, KernelRidge]
)
def test_every_method_with_one_result_per_row_takes_all_sources(kind):
    names = ("decision_function", "predict", "predict_log_proba", "predict_proba", "transform")
    found = [name for name in names if hasattr(kind, name)]
    assert found
    for name in found:
        assert not hasattr(getattr(kind, name).on_arrays, "on_arrays")
