"""Arrays, frames, delayed blocks and files become partitions, or a message says what to do."""

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from dask.delayed import delayed

from mercer import (
    DataError,
    Gaussian,
    GaussianProcessRegressor,
    KernelRidge,
    KernelRidgeClassifier,
    MercerWarning,
    RandomFourier,
    on_dask,
    open_rows,
)
from mercer.engines.dask.collections import partitions_of


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


RNG = np.random.default_rng(0)
X = RNG.normal(size=(100, 3))
Y = np.sin(X[:, 0]) + X[:, 1]
W = RNG.uniform(0.1, 2.0, size=100)


def ridge():
    return KernelRidge(RandomFourier(Gaussian(), 20, random_state=0))


def agree(model, weight=None):
    expected = ridge().fit(X, Y, sample_weight=weight).coef_
    np.testing.assert_allclose(model.coef_, expected, rtol=1e-10, atol=1e-10 * abs(expected).max())


def frame(partitions=4):
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    table.insert(1, "target", Y)
    table["weight"] = W
    return dd.from_pandas(table, npartitions=partitions)


# ---- arrays -----------------------------------------------------------------------------------


def test_targets_are_cut_as_the_rows_are():
    agree(ridge().fit(da.from_array(X, chunks=(30, 3)), da.from_array(Y, chunks=41), da.from_array(W, chunks=7)), W)


def test_targets_and_weights_may_be_in_memory():
    agree(ridge().fit(da.from_array(X, chunks=(30, 3)), Y, sample_weight=list(W)), W)


def test_several_targets():
    many = np.column_stack([Y, -Y])
    model = ridge().fit(da.from_array(X, chunks=(30, 3)), da.from_array(many, chunks=(50, 2)))
    np.testing.assert_allclose(model.coef_, ridge().fit(X, many).coef_, rtol=1e-10)


def test_columns_in_pieces_are_put_together_with_a_warning():
    with pytest.warns(MercerWarning, match="X has 3 chunks along its columns"):
        agree(ridge().fit(da.from_array(X, chunks=(30, 1)), Y))


def test_unknown_chunks_are_counted():
    rows = da.from_array(X, chunks=(30, 3))
    some = rows[rows[:, 0] > -10.0]  # all of them, but dask cannot know
    assert np.isnan(some.shape[0])
    assert partitions_of(some).rows == [30, 30, 30, 10]
    agree(ridge().fit(some, Y))
    agree(ridge().fit(some, da.from_array(Y, chunks=30)[rows[:, 0] > -10.0]))


def test_partitions_without_rows_do_not_matter():
    rows = da.from_array(X, chunks=(50, 3))
    few = rows[rows[:, 0] > X[:50, 0].max()]
    kept = X[:, 0] > X[:50, 0].max()
    model = ridge().fit(few, Y[kept])
    assert partitions_of(few).rows[0] == 0
    np.testing.assert_allclose(model.coef_, ridge().fit(X[kept], Y[kept]).coef_, rtol=1e-9)


def test_sparse_blocks():
    sparse = da.from_array(X * (X > 0), chunks=(30, 3)).map_blocks(sp.csr_matrix)
    model = ridge().fit(sparse, Y)
    np.testing.assert_allclose(model.coef_, ridge().fit(sp.csr_matrix(X * (X > 0)), Y).coef_, rtol=1e-9)


def test_float32_stays_float32():
    model = ridge().fit(da.from_array(X.astype(np.float32), chunks=(30, 3)), Y)
    np.testing.assert_allclose(model.coef_, ridge().fit(X.astype(np.float32), Y).coef_, rtol=1e-3)


# ---- frames -----------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [1, 4])
def test_frames_name_their_targets_and_weights(partitions):
    model = ridge().fit(frame(partitions), "target", sample_weight="weight")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    agree(model, W)


def test_targets_may_be_series_or_arrays():
    table = frame()
    agree(ridge().fit(table[["a", "b", "c"]], table["target"], table["weight"]), W)
    agree(ridge().fit(table[["a", "b", "c"]], table["target"].to_dask_array()))
    agree(ridge().fit(table[["a", "b", "c"]], Y))


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of dask, to pandas
def test_frames_of_files_count_one_column(tmp_path):
    table = frame(1).compute()
    table[:60].to_parquet(tmp_path / "0.parquet", index=False)
    table[60:].to_parquet(tmp_path / "1.parquet", index=False)
    assert partitions_of(dd.read_parquet(tmp_path), "target").rows == [60, 40]
    files = dd.read_parquet(tmp_path)
    agree(ridge().fit(files, "target", sample_weight="weight"), W)
    agree(ridge().fit(files[["a", "b", "c"]], files["target"], files["weight"]), W)
    agree(ridge().fit(files[["a", "b", "c", "target"]], "target", files["weight"]), W)


def test_labels_that_are_text():
    table = frame()
    table["label"] = table["target"].map_partitions(lambda t: np.where(t > 0, "high", "low"), meta=("label", object))
    model = KernelRidgeClassifier(RandomFourier(Gaussian(), 20, random_state=0), random_state=0)
    model.fit(table[["a", "b", "c", "label"]], "label")
    assert model.classes_.tolist() == ["high", "low"]


# ---- delayed blocks and files -----------------------------------------------------------------


def test_delayed_blocks():
    cuts = [slice(0, 40), slice(40, 40), slice(40, 100)]
    agree(ridge().fit([delayed((X[i], Y[i])) for i in cuts]))
    agree(ridge().fit([delayed((X[i], Y[i], W[i])) for i in cuts]), W)


@pytest.mark.parametrize("end", ["npy", "parquet", "csv"])
def test_files(tmp_path, end):
    path = tmp_path / f"table.{end}"
    table = pd.DataFrame(np.column_stack([X, Y]), columns=["a", "b", "c", "target"])
    write = {"npy": lambda: np.save(path, table.to_numpy()), "parquet": lambda: table.to_parquet(path)}
    write.get(end, lambda: table.to_csv(path, index=False))()
    rows = on_dask(open_rows(path, target=-1))
    assert sum(rows.rows) == 100
    agree(ridge().fit(rows))


def test_many_files_are_many_partitions(tmp_path):
    for i in range(0, 100, 25):
        np.save(tmp_path / f"{i:02}.npy", np.column_stack([X, Y])[i : i + 25])
    rows = on_dask(open_rows(str(tmp_path / "*.npy"), target=-1))
    assert rows.rows == [25] * 4
    agree(ridge().fit(rows))


# ---- what is refused --------------------------------------------------------------------------

ARRAY = da.from_array(X, chunks=(30, 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((ARRAY, Y[:99]), "X has 100 rows, but y has 99"),
        ((ARRAY, Y, W[:99]), "X has 100 rows, but sample_weight has 99"),
        ((ARRAY, "target"), "y='target' is the name of a column, but X is not a data frame"),
        ((ARRAY[0], Y), r"X must be two-dimensional, got a Dask array of shape \(3,\)"),
        ((X, da.from_array(Y, chunks=30)), "y is a Dask collection but X is not"),
        ((X, Y, da.from_array(W, chunks=30)), "sample_weight is a Dask collection but X is not"),
        ((frame(), "price"), "no column 'price'. Its columns are a, target, b, c, weight"),
        ((frame()[["target"]], "target"), "no columns except those"),
        ((frame(3)[["a"]], frame(4)["target"]), "X has 3 partitions, but y has 4"),
        ((delayed(X), Y), "got Delayed"),
        (([delayed((X, Y))], Y), "carry their own targets"),
        (([delayed((X, Y)), (X, Y)],), "must be Delayed or Future, but block 1 is tuple"),
        (([delayed(3)],), r"A delayed block must be X, \(X, y\) or \(X, y, weight\)"),
        (([delayed((X, Y, W, W))],), "got .ndarray, ndarray, ndarray, ndarray."),
        (([delayed((Y, Y))],), "a two-dimensional array X"),
    ],
)
def test_what_cannot_be_used_is_explained(arguments, message):
    with pytest.raises(DataError, match=message):
        ridge().fit(*arguments)


def test_partial_fit_needs_rows_in_memory():
    with pytest.raises(DataError, match=r"X is a Dask collection, which only fit accepts.* compute"):
        ridge().partial_fit(ARRAY, Y)


def test_files_have_their_own_targets(tmp_path):
    np.save(tmp_path / "a.npy", X)
    with pytest.raises(DataError, match="name their columns in open_rows"):
        ridge().fit(on_dask(open_rows(tmp_path / "a.npy")), Y)
    with pytest.raises(DataError, match=r"needs the result of mercer\.open_rows"):
        on_dask(X)


# ---- results ----------------------------------------------------------------------------------


def test_predictions_are_lazy():
    model = ridge().fit(X, Y)
    lazy = model.predict(ARRAY)
    assert isinstance(lazy, da.Array)
    assert lazy.dtype == np.float64
    assert lazy.chunks == ((30, 30, 30, 10),)
    np.testing.assert_allclose(lazy.compute(), model.predict(X), rtol=1e-10)


def test_predictions_of_frames():
    table = frame()[["a", "b", "c"]]
    model = ridge().fit(frame(), "target", sample_weight="weight")
    np.testing.assert_allclose(model.predict(table).compute(), model.predict(table.compute()), rtol=1e-10)


def test_predictions_of_labels_and_probabilities():
    labels = np.where(Y > 0, "high", "low")
    model = KernelRidgeClassifier(RandomFourier(Gaussian(), 20, random_state=0), random_state=0).fit(X, labels)
    assert model.predict(ARRAY).compute().tolist() == model.predict(X).tolist()
    probability = model.predict_proba(ARRAY)
    assert probability.shape == (100, 2)
    np.testing.assert_allclose(probability.compute(), model.predict_proba(X), rtol=1e-10)


def test_partitions_without_rows_have_no_predictions():
    model = ridge().fit(X, Y)
    none = ARRAY[ARRAY[:, 0] > 100.0]
    assert model.predict(none).compute().shape == (0,)


def test_predictions_of_other_collections_are_refused():
    model = ridge().fit(X, Y)
    with pytest.raises(DataError, match="two-dimensional Dask array or a Dask data frame, got list"):
        model.predict([delayed(X)])


def test_an_unfitted_model_says_so_at_once():
    with pytest.raises(ValueError, match="not fitted"):
        ridge().predict(ARRAY)


def process():
    feature_map = RandomFourier(Gaussian(), 20, random_state=0)
    return GaussianProcessRegressor(feature_map, lengthscale_tuning=None, noise=0.3).fit(X, Y)


@pytest.mark.parametrize("rows", [ARRAY, ARRAY[ARRAY[:, 0] > 1.0], ARRAY[ARRAY[:, 0] > 100.0]])
def test_means_and_deviations_are_lazy(rows):
    model = process()
    lazy = model.predict(rows, return_std=True)
    assert all(isinstance(part, da.Array) for part in lazy)
    computed = rows.compute()
    expected = model.predict(computed, return_std=True) if len(computed) else (np.empty(0), np.empty(0))
    for part, values in zip(lazy, expected, strict=True):
        np.testing.assert_allclose(part.compute(), values, rtol=1e-10)
    mean, std = lazy
    np.testing.assert_allclose((mean + 2 * std).compute(), expected[0] + 2 * expected[1], rtol=1e-10)


def test_covariances_of_all_rows_are_not_lazy():
    with pytest.raises(DataError, match="has an entry for each pair of rows"):
        process().predict(ARRAY, return_cov=True)


def test_features_are_lazy():
    feature_map = RandomFourier(Gaussian(), 20, random_state=0).fit(X)
    lazy = feature_map.transform(ARRAY)
    assert lazy.chunks == ((30, 30, 30, 10), (20,))
    np.testing.assert_allclose(lazy.compute(), feature_map.transform(X), rtol=1e-12)


def test_maps_are_fitted_in_memory():
    with pytest.raises(DataError, match="pass the unfitted map to a learner"):
        RandomFourier(Gaussian(), 20).fit(ARRAY)
    with pytest.raises(ValueError, match="not fitted"):
        RandomFourier(Gaussian(), 20).transform(ARRAY)
