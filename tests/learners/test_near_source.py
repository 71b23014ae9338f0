"""Local corrections whose rows stay in their source, and the size of a model before it is fitted."""

import pickle

import numpy as np
import pytest

from mercer import (
    Checkpoint,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    LocalCorrection,
    Matern,
    Nystroem,
    ParameterError,
    RandomFourier,
    open_rows,
)
from mercer.solvers.local import near_fit

PARTS = ("global", "local", "both", "auto")


@pytest.fixture(autouse=True)
def without_joint_estimates(monkeypatch):
    # Rows that stay in their source have the coefficients of the features alone, as more than 50,000 rows have.
    monkeypatch.setattr(near_fit, "MOST_JOINT_ROWS", 0)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(260, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=260) + 3
    X, y = np.concatenate([X, X[:40]]), np.concatenate([y, y[:40] + 0.3])  # copies are in other blocks
    return X, y, rng.integers(0, 3, 300).astype(float), rng.normal(size=(15, 3))


def regressor(where, parts="auto", alpha="loo", **parameters):
    correction = LocalCorrection(20, parts=parts, rows=where)
    feature_map = Nystroem(Matern(1.5, 1.3), 30, random_state=0)
    return KernelRidge(feature_map, alpha=alpha, neighbors=correction, random_state=0, **parameters)


def blocks_of(*arrays, size=70):
    return [tuple(array[i : i + size] for array in arrays) for i in range(0, len(arrays[0]), size)]


def as_dask(*arrays):
    da = pytest.importorskip("dask.array")
    return [da.from_array(array, chunks=(80, *array.shape[1:])) for array in arrays]


@pytest.mark.parametrize("parts", PARTS)
def test_models_are_those_of_stored_rows_in_memory_from_blocks_and_on_dask(rows, parts):
    X, y, weight, T = rows
    stored = regressor("model", parts).fit(X, y, weight)
    expected = stored.predict(T, return_std=True), stored.predict_interval(T)
    for data in ((X, y, weight), (blocks_of(X, y, weight),), as_dask(X, y, weight)):
        model = regressor("source", parts).fit(*data)
        assert model.local_.parts == stored.local_.parts
        for a, b in zip(model.local_.scores, stored.local_.scores, strict=True):
            np.testing.assert_allclose([a.alpha, a.error, a.loss], [b.alpha, b.error, b.loss], rtol=1e-8)
        np.testing.assert_allclose(model.predict(T, return_std=True), expected[0], rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(model.predict_interval(T), expected[1], rtol=1e-8, atol=1e-8)


def test_fewer_near_rows_are_another_model(rows):
    # The twin of the test above: predictions depend on the rows that are found.
    X, y, _, T = rows
    model = regressor("source", "local", 0.1).fit(X, y)
    fewer = regressor("source", "local", 0.1).set_params(neighbors__n_neighbors=19).fit(X, y)
    assert np.abs(model.predict(T) - fewer.predict(T)).max() > 1e-6


def test_predictions_of_dask_collections_are_lazy(rows):
    X, y, _, T = rows
    model = regressor("source").fit(*as_dask(X, y))
    lazy = model.predict(as_dask(T)[0])
    np.testing.assert_allclose(lazy.compute(scheduler="threads"), model.predict(T), rtol=1e-12)


def test_the_model_has_no_rows_and_can_be_pickled(rows):
    X, y, _, T = rows
    stored = regressor("model", "both").fit(X, y)
    for data in ((blocks_of(X, y),), as_dask(X, y)):
        model = regressor("source", "both").fit(*data)
        assert model.local_.model.n_rows == 300
        assert 5 * model.local_.nbytes < stored.local_.nbytes
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(T), model.predict(T))


def test_files_are_read_again(rows, tmp_path):
    X, y, _, T = rows
    np.save(tmp_path / "table.npy", np.column_stack([X, y]))
    model = regressor("source").fit(open_rows(tmp_path / "table.npy", target=-1))
    np.testing.assert_allclose(model.predict(T), regressor("model").fit(X, y).predict(T), rtol=1e-8, atol=1e-8)


def test_predictions_in_several_passes_are_the_same(rows):
    X, y, _, T = rows
    model = regressor("source", "local").fit(X, y)
    expected = model.predict(T, return_std=True)
    few = model.set_params(neighbors__memory_limit=8 * 20 * 160).fit(X, y)
    assert few.local_.model.source.queries_per_pass(20) < len(T)
    np.testing.assert_allclose(few.predict(T, return_std=True), expected, rtol=1e-10, atol=1e-10)


def test_unlabeled_rows_and_checkpoints(rows, tmp_path):
    X, y, _, T = rows
    some = np.where(np.arange(300) % 3 == 0, np.nan, y)
    known = np.isfinite(some)
    expected = regressor("source", unlabeled=np.nan).fit(X, some).predict(T)

    class Failing(list):
        reads = 0

        def __iter__(self):
            for block in list.__iter__(self):
                self.reads += 1
                if self.reads == 24:  # in the search for the rows near the sample
                    raise InterruptedError
                yield block

    blocks, saving = blocks_of(X, some), Checkpoint(tmp_path / "fit.checkpoint", seconds=0)
    with pytest.raises(InterruptedError):
        regressor("source", unlabeled=np.nan).fit(Failing(blocks), checkpoint=saving)
    model = regressor("source", unlabeled=np.nan).fit(blocks, checkpoint=saving)
    np.testing.assert_allclose(model.predict(T), expected, rtol=1e-8, atol=1e-8)
    assert model.local_.model.n_rows == known.sum()


def test_more_rows_than_are_left_out(monkeypatch, rows):
    # Other rows are left out than among stored rows, but predictions at a given noise are the same.
    X, y, _, T = rows
    monkeypatch.setattr("mercer.learners.local_correction.LEFT_OUT_ROWS", 50)
    monkeypatch.setattr(near_fit, "LEFT_OUT_ROWS", 50)
    for parts in ("local", "both"):
        expected = regressor("model", parts, 0.1).fit(X, y).predict(T)
        model = regressor("source", parts, 0.1).fit(blocks_of(X, y))
        np.testing.assert_allclose(model.predict(T), expected, rtol=1e-8, atol=1e-8)
        assert len(model.local_.left_out.sample) == 50


def test_labels_and_audits(rows):
    X, y, _, T = rows
    labels = np.digitize(y, [2.5, 3.5])
    fits = []
    for where in ("model", "source"):
        correction = LocalCorrection(20, rows=where)
        feature_map = RandomFourier(Gaussian(1.3), 40, random_state=0)
        model = KernelRidgeClassifier(feature_map, alpha="loo", neighbors=correction, random_state=0).fit(X, labels)
        fits.append(model)
    np.testing.assert_allclose(fits[1].predict_proba(T), fits[0].predict_proba(T), rtol=1e-7, atol=1e-8)
    audits = [regressor(where, "local", 0.1).fit(X, y).local_.audit(T, 100) for where in ("model", "source")]
    assert audits[1].rmse == pytest.approx(audits[0].rmse, rel=1e-6)


# ---- the size of a model ------------------------------------------------------------------------


@pytest.mark.parametrize(("parts", "n_components"), [("local", 0), ("both", 30)])
@pytest.mark.parametrize("t", [1, 3])
def test_the_size_before_a_fit_is_that_of_the_model(parts, n_components, t):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(1000, 5)), rng.normal(size=(1000, t))
    correction = LocalCorrection(8, parts=parts)
    model = KernelRidge(Nystroem(Gaussian(1.0), 30, random_state=0), neighbors=correction).fit(X, y)
    size = correction.size(1000, 5, t, n_components)
    assert size == pytest.approx(model.local_.nbytes, rel=0.05)
    assert correction.stored_rows(1000, 5, t) == model.local_.model.n_rows


def test_the_size_is_bounded_by_the_memory_limit():
    correction = LocalCorrection(memory_limit=100_000)
    stored = correction.stored_rows(10**6, 10)
    assert 100 < stored < 1000
    assert 0.99 * 100_000 < correction.size(10**6, 10) <= 100_000
    assert correction.size(10**6, 10, n_components=64) == correction.size(10**6, 10)  # both parts are not tried
    assert LocalCorrection(rows="source").size(10**6, 10) == 0
    with pytest.raises(ParameterError, match="LocalCorrection: n_features must be"):
        correction.size(10, 0)
    with pytest.raises(ParameterError, match="LocalCorrection: rows must be"):
        LocalCorrection(rows="disk").size(10, 2)


def test_the_size_is_reported_before_rows_are_collected(rows):
    X, y, _, _ = rows
    for where, text in (("model", "the model stores 300 rows, "), ("source", "rows stay in their source")):
        lines = []
        regressor(where, "local", progress=lines.append).fit(X, y)
        notes = [line.note for line in lines if line.stage == "collect rows"]
        assert notes[0].startswith(text)
