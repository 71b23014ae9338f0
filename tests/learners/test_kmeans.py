"""KernelKMeans: equal clusters in memory, from blocks and on Dask, exact where the map is; clear errors."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from mercer import (
    DataError,
    Gaussian,
    KernelKMeans,
    MercerWarning,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
)
from mercer.engines import Checkpoint, MemoryEngine
from mercer.solvers.clusters.lloyd import Assign
from mercer.statistics import feature_cache

assign = Assign.__call__


def data(n=400, d=3, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)) + 3 * rng.integers(0, 2, size=(n, d))


def model(k=6, **options):
    return KernelKMeans(RandomFourier(Gaussian(1.5), 40, random_state=0), k, **{"random_state": 0} | options)


VARIANTS = [
    {},
    {"init": "k-means||"},
    {"n_init": 4, "tol": 0.0},
    {"batch_size": 90, "max_iter": 5},
    {"init": data(6, seed=9)},
]


# ---- what it computes -------------------------------------------------------------------------


def test_rings_that_no_straight_border_parts():
    rng = np.random.default_rng(0)
    angle, truth = rng.uniform(0, 2 * np.pi, 1000), rng.integers(0, 2, 1000)
    radius = np.where(truth, 3.0, 0.3) + 0.1 * rng.normal(size=1000)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    for options in ({}, {"exact": True}):
        ours = KernelKMeans(Gaussian(1.0), 2, n_init=5, random_state=0, **options).fit(X)
        assert adjusted_rand_score(truth, ours.labels_) > 0.99
    assert adjusted_rand_score(truth, KMeans(2, n_init=5, random_state=0).fit(X).labels_) < 0.5


@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("weighted", [False, True])
def test_with_an_exact_map_it_is_exact_kernel_k_means(k, weighted):
    X = data(300)
    weight = np.random.default_rng(1).uniform(0.2, 2, 300) if weighted else None
    kernel = Polynomial(2, coef0=0.5)
    feature_map = RandomMaclaurin(kernel, 10, random_state=0)
    assert np.allclose(feature_map.fit(X).gram(X), kernel(X))
    ours = KernelKMeans(feature_map, k, tol=0.0, random_state=3).fit(X, sample_weight=weight)
    exact = KernelKMeans(kernel, k, exact=True, tol=0.0, random_state=3).fit(X, sample_weight=weight)
    assert np.array_equal(ours.labels_, exact.labels_)  # the same start, since the same rows are drawn
    np.testing.assert_allclose(ours.inertia_, exact.inertia_, rtol=1e-10)
    np.testing.assert_allclose(ours.inertia_path_, exact.inertia_path_, rtol=1e-10)
    new = data(50, seed=5)
    np.testing.assert_allclose(ours.transform(new), exact.transform(new), rtol=1e-6, atol=1e-6)
    assert np.array_equal(ours.predict(new), exact.predict(new))
    np.testing.assert_allclose(ours.score(new), exact.score(new), rtol=1e-9)


def test_it_is_scikit_learns_k_means_on_its_features():
    X, _ = load_digits(return_X_y=True)
    feature_map = RandomFourier(Gaussian("median"), 100, random_state=0)
    start = X[:10]
    ours = KernelKMeans(feature_map, 10, init=start, tol=0.0).fit(X)
    Z = ours.feature_map_.transform(X)
    peer = KMeans(10, init=ours.feature_map_.transform(start), n_init=1, tol=0).fit(Z)
    assert np.array_equal(ours.labels_, peer.labels_)
    np.testing.assert_allclose(ours.inertia_, peer.inertia_, rtol=1e-10)
    np.testing.assert_allclose(ours.transform(X), peer.transform(Z), atol=1e-7)
    np.testing.assert_allclose(ours.score(X), peer.score(Z), rtol=1e-10)
    np.testing.assert_allclose(ours.cluster_centers_, peer.cluster_centers_, atol=1e-10)


@pytest.mark.parametrize("options", [*VARIANTS, {"exact": True}, {"exact": True, "n_init": 3}], ids=str)
def test_attributes_agree_with_each_other(options):
    X = data()
    weight = np.random.default_rng(0).uniform(0, 2, 400)
    fitted = model(**options).fit(X, sample_weight=weight)
    assert fitted.labels_.dtype == np.int32
    assert np.array_equal(fitted.labels_, fitted.predict(X))
    assert np.array_equal(fitted.labels_, fitted.transform(X).argmin(axis=1))
    np.testing.assert_allclose(fitted.inertia_, -fitted.score(X, sample_weight=weight), rtol=1e-9)
    np.testing.assert_allclose(fitted.inertia_, weight @ np.square(fitted.transform(X).min(axis=1)), rtol=1e-9)
    assert fitted.inertia_path_[-1] == fitted.inertia_
    assert (np.diff(fitted.inertia_path_) <= 1e-12 * fitted.inertia_path_[0]).all()
    assert np.array_equal(model(**options).fit_predict(X, sample_weight=weight), fitted.labels_)
    assert list(fitted.get_feature_names_out()) == [f"kernelkmeans{i}" for i in range(6)]


@pytest.mark.parametrize("exact", [False, True])
def test_more_starts_are_no_worse(exact):
    X = data(300, seed=2)
    few, many = (model(12, exact=exact, n_init=n, tol=0.0).fit(X).inertia_ for n in (1, 12))
    assert many < few


@pytest.mark.parametrize("init", ["k-means++", "k-means||"])
def test_starts_are_better_than_chance(init):
    X = data(2000, d=5, seed=1)
    chance = [model(30, init=X[30 * i : 30 * i + 30], max_iter=1, tol=0.0).fit(X).inertia_path_[0] for i in range(5)]
    ours = [model(30, init=init, random_state=i, max_iter=1, tol=0.0).fit(X).inertia_path_[0] for i in range(5)]
    assert max(ours) < min(chance)


# ---- the same in memory, out of core and on Dask ---------------------------------------------------------------------


@pytest.mark.covering(0)
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_memory_blocks_and_threads_agree(options):
    X = data()
    weight = np.random.default_rng(0).uniform(0, 2, 400)
    whole = model(**options).fit(X, sample_weight=weight)
    for cuts in ([0, 400], [0, 1, 1, 130, 399, 400], list(range(0, 401, 8))):
        blocks = [(X[a:b], None, weight[a:b]) for a, b in pairwise(cuts)]
        streamed = model(**options).fit(blocks)
        np.testing.assert_allclose(streamed.cluster_centers_, whole.cluster_centers_, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(streamed.inertia_, whole.inertia_, rtol=1e-10)
        assert np.array_equal(streamed.predict(X), whole.labels_)
        assert streamed.n_iter_ == whole.n_iter_
    for jobs in (1, 4):
        same = model(**options, n_jobs=jobs).fit(X, sample_weight=weight)
        assert np.array_equal(same.cluster_centers_, whole.cluster_centers_)


@pytest.mark.parametrize("options", [VARIANTS[0], VARIANTS[1], VARIANTS[2], {"exact": True, "tol": 0.0}], ids=str)
def test_order_and_repetition_do_not_matter(options):
    X = data(200)
    repeats = np.random.default_rng(0).integers(0, 4, 200)
    order = np.random.default_rng(1).permutation(repeats.sum())
    weighted = model(**options).fit(X, sample_weight=repeats)
    repeated = model(**options).fit(np.repeat(X, repeats, axis=0)[order])
    np.testing.assert_allclose(repeated.inertia_, weighted.inertia_, rtol=1e-10)
    np.testing.assert_allclose(repeated.transform(X), weighted.transform(X), rtol=1e-7, atol=1e-7)


def test_median_lengthscale_from_blocks():
    X = data()
    whole = KernelKMeans(n_clusters=4, random_state=0).fit(X)
    streamed = KernelKMeans(n_clusters=4, random_state=0).fit([X[:100], X[100:]])
    assert streamed.feature_map_.kernel_ == whole.feature_map_.kernel_
    np.testing.assert_allclose(streamed.cluster_centers_, whole.cluster_centers_, rtol=1e-10, atol=1e-12)


def test_results_do_not_depend_on_the_feature_cache(monkeypatch):
    X = data()
    kept = model().fit(X)
    monkeypatch.setattr(feature_cache, "CACHE_BYTES", 0)
    np.testing.assert_allclose(model().fit(X).cluster_centers_, kept.cluster_centers_, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("options", [{}, {"init": "k-means||"}, {"exact": True}], ids=str)
def test_sparse_rows_and_single_precision(options):
    X = np.maximum(data(), 0.0).astype(np.float32).astype(np.float64)
    dense = model(**options).fit(X)
    sparse = model(**options).fit(sp.csr_array(X))
    assert np.array_equal(sparse.labels_, dense.labels_)
    np.testing.assert_allclose(sparse.transform(sp.csr_array(X)), dense.transform(X), rtol=1e-7, atol=1e-7)
    single = model(**options).fit(X.astype(np.float32))
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(single.inertia_, dense.inertia_, rtol=1e-4)  # the same start: equal entries
    assert (single.labels_ == dense.labels_).mean() > 0.99


def test_the_seed_matters_and_is_enough():
    X = data(seed=4)
    starts = {model(12, random_state=i, max_iter=1).fit(X).inertia_ for i in (0, 0, 1, 2)}
    assert len(starts) == 3


# ---- mini-batches and partial_fit -------------------------------------------------------------


def test_batches_are_partial_fits():
    X = data()
    start = X[:5]
    fitted = model(5, init=start, batch_size=130, max_iter=1).fit(X)
    partial = model(5, init=start)
    for i in range(0, 400, 130):
        partial.partial_fit(X[i : i + 130])
    np.testing.assert_allclose(partial.cluster_centers_, fitted.cluster_centers_, rtol=1e-10, atol=1e-12)
    assert partial.labels_.shape == (10,)
    assert partial.n_iter_ == 4
    np.testing.assert_allclose(partial.inertia_, -partial.score(X[390:]), rtol=1e-9)


def test_batches_come_near_to_lloyd():
    X = data(3000, seed=1)
    whole = model(8, n_init=3).fit(X)
    batches = model(8, n_init=3, batch_size=200).fit(X)
    assert whole.inertia_ <= batches.inertia_ * (1 + 1e-9)
    assert batches.inertia_ < 1.05 * whole.inertia_


def test_partial_fit_goes_on_from_fit():
    X = data()
    fitted = model().fit(X)
    before = fitted.cluster_centers_.copy()
    weight = np.bincount(fitted.labels_, minlength=6)
    new = data(30, seed=8)
    Z, labels = fitted.feature_map_.transform(new), fitted.predict(new)
    fitted.partial_fit(new)
    for r in range(6):
        mean = (weight[r] * before[r] + Z[labels == r].sum(axis=0)) / (weight[r] + (labels == r).sum())
        np.testing.assert_allclose(fitted.cluster_centers_[r], mean, rtol=1e-10, atol=1e-12)


def test_a_new_fit_forgets():
    X = data()
    once = model().fit(X)
    twice = model().fit(data(200, seed=7)).fit(X)
    assert np.array_equal(once.cluster_centers_, twice.cluster_centers_)
    exact = twice.set_params(exact=True).fit(X)
    assert not hasattr(exact, "cluster_centers_")
    assert not hasattr(exact, "partial_fit")


# ---- around it --------------------------------------------------------------------------------


def test_pipelines_tables_and_parameters():
    X = pd.DataFrame(data(), columns=["a", "b", "c"])
    pipeline = make_pipeline(StandardScaler(), KernelKMeans(Gaussian(1.0), 4, random_state=0)).set_output(
        transform="pandas"
    )
    distances = pipeline.fit_transform(X)
    assert list(distances.columns) == [f"kernelkmeans{i}" for i in range(4)]
    assert pipeline.predict(X).shape == (400,)
    changed = clone(model()).set_params(feature_map__kernel__lengthscale=3.0, n_clusters=2).fit(X)
    assert changed.feature_map_.kernel_ == Gaussian(3.0)
    assert list(changed.feature_names_in_) == ["a", "b", "c"]


def test_progress_is_reported_after_each_pass():
    told = []
    fitted = model(progress=told.append).fit(data())
    starts = [p for p in told if p.stage == "choose starts"]
    assert [(p.rows, p.unit) for p in starts] == [(i, "centers") for i in range(2, fitted.n_clusters + 1)]
    told = [p for p in told if p.stage == "move centers"]
    assert [p.rows for p in told][: fitted.n_iter_] == [400 * (i + 1) for i in range(fitted.n_iter_)]
    seconds = [p.seconds for p in told]
    assert seconds == sorted(seconds)
    assert told[-1].rows == told[-1].total == 400 * fitted.n_iter_
    told = []
    model(exact=True, n_init=3, progress=told.append).fit(data())
    assert [p.rows for p in told[:-1]] == [400 * (i + 1) for i in range(len(told) - 1)]
    assert told[-1].total == told[-2].rows


def test_an_interrupted_fit_in_memory_continues(tmp_path, monkeypatch):
    monkeypatch.setattr("mercer.engines.checkpoint.SHARE", 0.0)  # save after every block
    expected = model(12, tol=0.0).fit(data())
    checkpoint = Checkpoint(tmp_path / "fit.checkpoint", seconds=0)

    def stop(progress):
        if progress.rows >= 4 * 400:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model(12, tol=0.0, progress=stop).fit(data(), checkpoint=checkpoint)
    passes = []
    monkeypatch.setattr(Assign, "__call__", lambda self, block: passes.append(1) or assign(self, block))
    resumed = model(12, tol=0.0).fit(data(), checkpoint=checkpoint)
    assert np.array_equal(resumed.cluster_centers_, expected.cluster_centers_)
    assert np.array_equal(resumed.labels_, expected.labels_)
    assert 0 < len(passes) <= expected.n_iter_ - 3  # one block per pass: the first passes were not done again


def test_constant_and_single_columns():
    X = np.column_stack([data(100)[:, 0], np.ones(100)])
    assert model(3).fit(X).inertia_ < model(1).fit(X).inertia_
    assert model(3).fit(X[:, :1]).labels_.shape == (100,)


@pytest.mark.parametrize("options", [{}, {"init": "k-means||"}, {"exact": True}], ids=str)
def test_fewer_distinct_rows_than_clusters(options):
    X = np.repeat(data(3), 30, axis=0)
    with pytest.warns(MercerWarning, match="only 3 rows are distinct for the kernel, fewer than n_clusters=6"):
        fitted = model(**options).fit(X)
    assert fitted.inertia_ == pytest.approx(0, abs=1e-9)
    assert len(np.unique(fitted.labels_)) == 3


@pytest.mark.parametrize("init", ["k-means++", "k-means||", data(6, seed=9)], ids=["k-means++", "k-means||", "array"])
@pytest.mark.parametrize("exact", [False, True])
def test_too_few_rows(init, exact):
    if exact and isinstance(init, str) and init == "k-means||":
        return
    with pytest.raises(DataError, match="n_samples=5 and n_clusters=6"):
        model(init=init, exact=exact).fit(data(5))


@pytest.mark.parametrize("options", [*VARIANTS, {"exact": True}], ids=str)
def test_no_weight(options):
    with pytest.raises(ValueError, match=r"non-zero"):
        model(**options).fit(data(), sample_weight=np.zeros(400))
    with pytest.raises(ValueError, match=r"[Nn]egative"):
        model(**options).fit(data(), sample_weight=np.full(400, -1.0))
    engine = MemoryEngine(data(), None, np.zeros(400), block_rows=100)  # past the check of scikit-learn
    unfitted = model(**options)
    unfitted.n_features_in_ = 3
    fit = unfitted._fit_of(engine, unfitted._unfitted_map(0), 0, {})
    unfitted._set_map(unfitted._fit_map(fit))
    unfitted._coding_ = unfitted._coding()
    with pytest.raises(DataError, match="positive weight"):
        unfitted._solve(None, fit)
    if not unfitted.exact:
        with pytest.raises(DataError, match="positive weight"):
            model(**options).fit([(data(), None, np.zeros(400))])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be an integer >= 1, got 0"),
        ({"n_clusters": 2.5}, "n_clusters must be an integer >= 1, got 2.5"),
        ({"n_init": 0}, "n_init must be an integer >= 1"),
        ({"max_iter": -1}, "max_iter must be an integer >= 1"),
        ({"batch_size": 0}, "batch_size must be None or an integer >= 1, got 0"),
        ({"tol": -1.0}, "tol must be a finite number >= 0, got -1.0"),
        ({"tol": np.nan}, "tol must be a finite number >= 0"),
        ({"tol": "small"}, "tol must be a finite number >= 0"),
        ({"init": "random"}, "init must be one of 'k-means\\+\\+', 'k-means\\|\\|', or an array of 6 rows"),
        ({"init": data(5)}, "one row per cluster: n_clusters=6, got 5 rows"),
        ({"exact": True, "batch_size": 10}, "exact=True takes all rows at once"),
        ({"exact": True, "init": "k-means||"}, "exact=True needs init='k-means\\+\\+'"),
        ({"block_size": 0}, "block_size must be"),
        ({"progress": 3}, "progress must be"),
        ({"random_state": "x"}, "random_state must be"),
    ],
    ids=str,
)
def test_parameters_out_of_their_domain(options, message):
    with pytest.raises(ParameterError, match=message):
        model(**options).fit(data()) if "n_clusters" not in options else model(options["n_clusters"]).fit(data())


def test_rows_it_cannot_use():
    with pytest.raises(ValueError, match="NaN"):
        model().fit(np.full((10, 3), np.nan))
    with pytest.raises(ValueError, match="features"):
        model().fit(data()).predict(data(d=2))
    with pytest.raises(ValueError, match="features"):
        model(init=data(6, d=2)).fit(data())
    with pytest.raises(DataError, match=r"read only once.*partial_fit"):
        model().fit(iter([data()]))
    with pytest.raises(DataError, match="exact=True needs all rows in memory"):
        model(exact=True).fit([data(), data()])
    with pytest.raises(AttributeError, match="no attribute 'partial_fit'") as caught:
        model(exact=True).partial_fit(data())
    assert "exact=True needs all rows at once" in str(caught.value.__cause__)
    with pytest.raises(NotFittedError):
        model().predict(data())
    with pytest.raises(NotFittedError):
        _ = model().labels_
    streamed = model().fit([data(), data(seed=1)])
    with pytest.raises(AttributeError, match=r"stores no labels_ for blocks, files and Dask collections.*predict"):
        _ = streamed.labels_


def test_a_failed_fit_changes_nothing():
    fitted = model().fit(data())
    before, labels = fitted.cluster_centers_.copy(), fitted.labels_.copy()
    for bad in (data(5), np.full((10, 3), np.inf)):
        with pytest.raises(ValueError):  # noqa: PT011
            fitted.fit(bad)
    with pytest.raises(ValueError, match="features"):
        fitted.partial_fit(data(d=4))
    assert np.array_equal(fitted.cluster_centers_, before)
    assert np.array_equal(fitted.labels_, labels)


def test_rows_of_any_size():
    # Rows far from each other in units of the lengthscale, and all the same to it.
    far = KernelKMeans(RandomFourier(Gaussian(1e-3), 64, random_state=0), 3, random_state=0).fit(data(100))
    assert np.isfinite(far.inertia_)
    near = KernelKMeans(RandomFourier(Gaussian(1e3), 64, random_state=0), 3, random_state=0).fit(data(100))
    assert 0 < near.inertia_ < 1e-2
    assert (np.bincount(near.labels_, minlength=3) > 0).all()
