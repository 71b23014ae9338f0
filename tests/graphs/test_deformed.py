"""Deformed features against the exact deformed kernel of the literature, in every form that it is known in."""

import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
import scipy.linalg
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import mercer
from mercer import (
    DataError,
    Deformed,
    DeformedKernel,
    DotProduct,
    FeatureGraph,
    Gaussian,
    KernelRidge,
    Matern,
    MercerWarning,
    NeighborGraph,
    NoClosedFormError,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    SumMap,
    ThresholdFeatures,
    UnsupportedKernelError,
    audit,
    compare,
)
from mercer.engines import MemoryEngine
from mercer.graphs import neighbor_graph as graphs

GRAPH = NeighborGraph(6)
POWERS = [0, 1, 2, 3]


def rows(n=120, d=3, seed=0, unit=False):
    X = np.random.default_rng(seed).normal(0.4, 1.0, size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) if unit else X


def fitted(X, power=2, alpha=3.0, width=60, **more):
    return Deformed(RandomFourier(Gaussian(1.2), width, random_state=0), GRAPH, alpha=alpha, power=power, **more).fit(X)


def penalty(X, power=2, alpha=3.0):
    return alpha * GRAPH.laplacian(X).power(power)


# ---- identities -------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("power", POWERS)
def test_proposition_2(power, unit):
    X = rows(unit=unit)
    model = fitted(X, power)
    K, M = model.feature_map_.gram(X), penalty(X, power)
    eye = np.eye(len(X))
    expected = K - K @ np.linalg.solve(eye + M @ K, M @ K)
    np.testing.assert_allclose(model.gram(X), expected, atol=1e-8)
    assert np.abs(model.gram(X) - K).max() > 0.05  # there is something to see


@pytest.mark.parametrize("power", POWERS)
def test_out_of_sample(power):
    X, new, other = rows(), rows(20, seed=1), rows(15, seed=2)
    model = fitted(X, power)
    k, M = model.feature_map_.gram, penalty(X, power)
    correction = np.linalg.solve(np.eye(len(X)) + M @ k(X), M)
    expected = k(new, other) - k(new, X) @ correction @ k(X, other)
    np.testing.assert_allclose(model.gram(new, other), expected, atol=1e-8)


def test_the_kernel_itself_has_the_same_formulas():
    X, new = rows(), rows(20, seed=1)
    kernel, M = Gaussian(1.2), penalty(X)
    deformed = DeformedKernel(kernel, X, M)
    K = kernel(X)
    np.testing.assert_allclose(deformed(X), K @ np.linalg.inv(np.eye(len(X)) + M @ K), atol=1e-8)
    jitter = K + 1e-9 * np.eye(len(X))
    inverse = np.linalg.inv(np.linalg.inv(jitter) + M)
    np.testing.assert_allclose(deformed(X), inverse, atol=1e-6)
    correction = np.linalg.solve(np.eye(len(X)) + M @ K, M)
    expected = kernel(new) - kernel(new, X) @ correction @ kernel(X, new)
    np.testing.assert_allclose(deformed(new), expected, atol=1e-8)


def manifold_ridge(K, M, labeled, y, ridge):
    """Return f on all rows that minimizes the squares on the labeled ones + ridge (f'K^-1 f + f'M f), with f = K a.

    Stationarity after division by K: (J K + ridge (I + M K)) a = J'y, which needs no inverse of K.
    """
    J = np.zeros((len(K), len(K)))
    J[labeled, labeled] = 1.0
    right = np.zeros(len(K))
    right[labeled] = y
    return K @ np.linalg.solve(J @ K + ridge * (np.eye(len(K)) + M @ K), right)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_ridge_with_the_deformed_kernel_is_ridge_with_the_penalty(power):
    X = rows()
    labeled = np.arange(0, len(X), 8)
    y = np.sin(2 * X[labeled, 0])
    model = fitted(X, power)
    Z = model.transform(X)
    coef = np.linalg.solve(Z[labeled].T @ Z[labeled] + 0.1 * np.eye(Z.shape[1]), Z[labeled].T @ y)
    expected = manifold_ridge(model.feature_map_.gram(X), penalty(X, power), labeled, y, 0.1)
    np.testing.assert_allclose(Z @ coef, expected, atol=1e-8)


@pytest.mark.parametrize("feature_map", [Nystroem(Polynomial(2), 12), RandomMaclaurin(Polynomial(2), 200)])
@pytest.mark.filterwarnings("ignore::mercer.errors.MercerWarning")
def test_with_exact_features_it_is_exact_laplacian_ridge(feature_map):
    X = rows()
    labeled = np.arange(0, len(X), 6)
    y = X[labeled, 0] * X[labeled, 1]
    model = Deformed(feature_map, GRAPH, alpha=0.5, power=2, random_state=0).fit(X)
    kernel = Polynomial(2)
    np.testing.assert_allclose(model.feature_map_.gram(X), kernel(X), atol=1e-8)
    Z = model.transform(X)
    coef = np.linalg.solve(Z[labeled].T @ Z[labeled] + 0.1 * np.eye(Z.shape[1]), Z[labeled].T @ y)
    expected = manifold_ridge(kernel(X), penalty(X, 2, 0.5), labeled, y, 0.1)
    np.testing.assert_allclose(Z @ coef, expected, atol=1e-8)
    np.testing.assert_allclose(model.gram(X), DeformedKernel(kernel, X, penalty(X, 2, 0.5))(X), atol=1e-8)


def test_any_root_of_the_inverse_has_the_same_kernel():
    X = rows()
    model = fitted(X)
    Phi = model.feature_map_.transform(X)
    U = Phi.T @ penalty(X) @ Phi
    root = scipy.linalg.fractional_matrix_power(np.eye(len(U)) + U, -0.5)
    Z = Phi @ root
    np.testing.assert_allclose(model.gram(X), Z @ Z.T, atol=1e-8)
    # The whitening is a triangle, and shrinks.
    T = model.features_.whitening
    assert np.array_equal(T, np.triu(T))
    assert np.linalg.norm(T, 2) <= 1 + 1e-12


@pytest.mark.parametrize("power", [0.5, 0.8, 1.5, 2.3])
def test_powers_between_whole_numbers(power):
    X, new = rows(), rows(20, seed=1)
    model = fitted(X, power)
    k, M = model.feature_map_.gram, penalty(X, power)
    expected = k(new) - k(new, X) @ np.linalg.solve(np.eye(len(X)) + M @ k(X), M) @ k(X, new)
    # With M off by E, the kernel is off by k~(., X) E k~(X, .).
    assert model.power_error_ < 0.006
    spread = np.linalg.norm(model.gram(new, X), 2) ** 2
    assert np.linalg.norm(model.gram(new) - expected, 2) <= 1.1 * 3.0 * model.power_error_ * spread
    np.testing.assert_allclose(model.gram(new), expected, atol=1e-3)
    np.testing.assert_allclose(model.kernel_.penalty, M, atol=1e-12)


def test_powers_out_of_reach_are_said():
    X = rows()
    with pytest.warns(MercerWarning, match=r"power=0.1 is not within reach.*0.34 of at most 1.1.*0.5 or more"):
        fitted(X, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MercerWarning)
        fitted(X, 0.4)
        Deformed(RandomFourier(Gaussian(1.2), 20), FeatureGraph(30), power=0.1).fit(X)


def test_more_roughness_shrinks_more():
    X = rows()
    traces = [np.trace(fitted(X, alpha=alpha).gram(X)) for alpha in (0.0, 0.1, 10.0, 1e4)]
    assert all(a > b for a, b in pairwise(traces))
    np.testing.assert_allclose(fitted(X, alpha=0.0).gram(X), fitted(X).feature_map_.gram(X), atol=1e-12)


# ---- low rank ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 10, 30])
def test_low_rank_keeps_to_its_error(rank):
    X, new = rows(), rows(20, seed=1)
    full, low = fitted(X), fitted(X, rank=rank)
    for points in (X, new):
        gap = low.gram(points) - full.gram(points)
        assert np.linalg.eigvalsh(gap).min() > -1e-10
        ratio = np.diagonal(gap) / np.diagonal(low.feature_map_.gram(points))
        assert ratio.max() <= low.rank_error_ + 1e-10
    assert 0 < low.rank_error_ < 1
    assert low.transform(X).shape == (len(X), 60)


def test_full_rank_is_no_low_rank():
    X = rows()
    assert fitted(X, rank=60).rank_error_ == fitted(X, rank=1000).rank_error_ == 0.0
    almost = fitted(X, rank=59)
    np.testing.assert_allclose(almost.gram(X), fitted(X).gram(X), atol=2 * almost.rank_error_)


# ---- engines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [NeighborGraph(6), NeighborGraph(6, max_rows=70), FeatureGraph(40)], ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_learners_see_the_same_map_from_blocks(graph, weighted):
    X = rows()
    y = np.sin(2 * X[:, 0])
    weight = np.random.default_rng(3).integers(0, 3, len(X)).astype(float) if weighted else None
    deformed = Deformed(RandomFourier(Gaussian("median"), 40), graph, alpha=2.0, power=2, random_state=0)
    model = KernelRidge(deformed, alpha=0.1)
    memory = clone(model).fit(X, y, sample_weight=weight)
    parts = [slice(0, 1), slice(1, 1), slice(1, 50), slice(50, 120)]
    blocks = [(X[p], y[p]) if weight is None else (X[p], y[p], weight[p]) for p in parts]
    streamed = clone(model).fit(blocks)
    np.testing.assert_allclose(streamed.predict(X), memory.predict(X), atol=1e-8)
    assert streamed.feature_map_.graph_.n_nodes == memory.feature_map_.graph_.n_nodes


@pytest.mark.parametrize("graph", [None, FeatureGraph(40)])
def test_blocks_that_can_be_read_once_are_refused(graph):
    X = rows()
    model = KernelRidge(Deformed(RandomFourier(Gaussian(1.0), 20), graph))
    with pytest.raises(DataError, match=r"^Deformed: the graph is made of all rows.*can be read only once.*open_rows"):
        model.fit(iter([(X, X[:, 0])]))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_dask_collections_are_for_learners(method):
    da = pytest.importorskip("dask.array")
    model = Deformed(RandomFourier(Gaussian(1.0), 20), FeatureGraph(20))
    with pytest.raises(DataError, match=r"got a dask collection.*to a learner"):
        getattr(model, method)(da.from_array(rows(), (60, 3)))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_files_are_for_learners(method):
    source = mercer.open_rows(pd.DataFrame(rows(), columns=list("abc")))
    with pytest.raises(
        DataError, match=r"^Deformed: fit takes rows in memory, got RowSource\. Try to pass the unfitted"
    ):
        getattr(Deformed(RandomFourier(Gaussian(1.0), 20), FeatureGraph(20)), method)(source)


def test_rows_below_zero_are_refused_where_the_map_below_refuses_them():
    X = np.abs(rows())
    X[-1] = -1.0
    with pytest.raises(DataError, match=">= 0"):
        Deformed(ThresholdFeatures(n_components=8, upper=5.0), GRAPH).fit(X)


@pytest.mark.parametrize("below", [{"n_components": 0}, {"n_components": "ten"}])
def test_a_wrong_map_below_is_told_before_rows_are_looked_at(below):
    with pytest.raises(ParameterError, match="RandomFourier: n_components must be an integer >= 1"):
        Deformed(RandomFourier(Gaussian(1.0), **below)).check()
    with pytest.raises(ParameterError, match="RandomFourier: n_components must be an integer >= 1"):
        Deformed(RandomFourier(Gaussian(1.0), **below)).fit(rows())


def test_weights_of_zero_are_no_rows():
    X = rows()
    weight = np.r_[np.zeros(30), np.ones(90)]
    with_zeros = Deformed(RandomFourier(Gaussian(1.0), 20, random_state=0), GRAPH).fit_engine(
        MemoryEngine(X, None, weight, block_rows=50)
    )
    without = Deformed(RandomFourier(Gaussian(1.0), 20, random_state=0), GRAPH).fit(X[30:])
    np.testing.assert_allclose(with_zeros.transform(X), without.transform(X), atol=1e-12)


# ---- sparse rows, dtypes, copies ---------------------------------------------------------------


def test_sparse_and_dense_rows_make_the_same_map():
    X = rows() * (np.random.default_rng(1).uniform(size=(120, 3)) < 0.7)
    for graph in (GRAPH, FeatureGraph(30)):
        model = Deformed(RandomFourier(Gaussian(1.2), 30, random_state=0), graph, alpha=3.0)
        dense, sparse = clone(model).fit(X), clone(model).fit(sp.csr_array(X))
        np.testing.assert_allclose(dense.transform(X), sparse.transform(X), atol=1e-10)


def test_float32_rows_make_a_float32_map():
    X = rows()
    wide, narrow = fitted(X), fitted(X.astype(np.float32))
    assert narrow.features_.whitening.dtype == np.float32
    assert narrow.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(narrow.gram(X), wide.gram(X), atol=1e-4)
    assert narrow.transform(X).dtype == np.float64


def test_pickles_do_not_grow_with_many_rows(monkeypatch):
    X = rows(400)
    small = len(pickle.dumps(fitted(X)))
    monkeypatch.setattr(graphs, "EXACT_ROWS", 100)
    model = fitted(X)
    assert len(pickle.dumps(model)) < small / 1.5
    with pytest.raises(NoClosedFormError, match=r"exact deformed kernel of 400 rows.*at most 4000 rows"):
        audit(model, X)


def test_pipelines_and_names():
    X = rows()
    pipeline = make_pipeline(StandardScaler(), Deformed(RandomFourier(Gaussian(1.0), 8, random_state=0), GRAPH))
    assert pipeline.fit_transform(X).shape == (120, 8)
    assert pipeline[-1].get_feature_names_out()[0] == "deformed0"


# ---- audits -----------------------------------------------------------------------------------


def test_audits_measure_the_distance_to_the_exact_deformed_kernel():
    X = rows()
    model = fitted(X, width=2000)
    exact = DeformedKernel(Gaussian(1.2), X, penalty(X))
    result = audit(model, X)
    gap = model.gram(X) - exact(X)
    off = ~np.eye(len(X), dtype=bool)
    assert result.rmse == pytest.approx(np.sqrt(np.mean(gap[off] ** 2)), rel=1e-6)
    assert result.predicted_rmse is None
    assert audit(fitted(X, width=100), X).rmse > 2 * result.rmse
    assert "DeformedKernel(Gaussian(lengthscale=1.2), 120 rows)" in str(result)


def test_the_exact_kernel_is_made_once_and_not_pickled():
    X = rows()
    model = fitted(X)
    size = len(pickle.dumps(model))
    exact = model.kernel_
    assert model.kernel_ is exact
    assert len(pickle.dumps(model)) == size
    assert pickle.loads(pickle.dumps(model)).kernel_ == exact
    assert model.set_params(alpha=5.0).kernel_ == exact  # until it is fitted again
    assert model.fit(X).kernel_ != exact


def test_rows_are_in_pickles_where_it_is_said_alone():
    X = rows()
    row = X[5].tobytes()
    assert row in pickle.dumps(fitted(X))
    assert row not in pickle.dumps(fitted(X).features_)
    grown = Deformed(RandomFourier(Gaussian(1.0), 20, random_state=0), FeatureGraph(20)).partial_fit(X)
    assert row not in pickle.dumps(grown)
    assert "whoever gets the pickle gets the rows" in " ".join(Deformed.__doc__.split())


def test_compare_gives_the_kernel_to_the_map_below():
    X = rows()
    deformed = Deformed(RandomFourier(n_components=400, random_state=0), GRAPH, alpha=3.0)
    result = compare(Gaussian(1.2), X, maps={"deformed": deformed, "default": Deformed(random_state=0)})
    assert {m.name for m in result.maps} == {"deformed", "default"}
    assert all(m.audit.rmse < 0.1 for m in result.maps)
    assert deformed.feature_map.kernel is None  # left as it was


def test_it_never_stands_in_for_a_map_of_a_kernel():
    assert not hasattr(Deformed, "accepts")
    assert "inverse of the mean" in Deformed().unbiased
    summed = SumMap(Gaussian() + Matern(), 20, maps=[Deformed(), RandomFourier()])
    with pytest.raises(UnsupportedKernelError, match="outermost"):
        summed.fit(rows())


def test_the_threads_of_the_map_below_are_kept_unless_there_are_others():
    X = rows()
    below = RandomFourier(Gaussian(1.0), 10, n_jobs=1)
    assert Deformed(below).fit(X).feature_map_.n_jobs == 1
    assert Deformed(below, n_jobs=2).fit(X).feature_map_.n_jobs == 2


def test_the_seed_of_the_map_below_is_kept_unless_there_is_another():
    X = rows()
    below = RandomFourier(Gaussian(1.0), 10, random_state=5)
    np.testing.assert_array_equal(Deformed(below).fit(X).feature_map_.transform(X), below.fit(X).transform(X))
    other = Deformed(below, random_state=6).fit(X).feature_map_
    np.testing.assert_array_equal(other.transform(X), clone(below).set_params(random_state=6).fit(X).transform(X))


# ---- adding rows ------------------------------------------------------------------------------


def test_rows_can_be_added_to_a_feature_graph():
    X = rows(300)
    model = Deformed(RandomFourier(Gaussian(1.2), 30, random_state=0), FeatureGraph(50), alpha=2.0, power=1.5)
    grown = clone(model).partial_fit(X[:100]).partial_fit(X[100:])
    assert grown.graph_.n_nodes == 300
    # By hand, with the features and the mean of the first block.
    Phi = grown.feature_map_.transform(X)
    positive, mean = grown._moments.positive, grown._moments.mean
    np.testing.assert_allclose(mean, positive(X[:100]).mean(axis=0))
    psi = positive(X)
    Q = psi / np.sqrt(300 * psi @ mean)[:, None]
    values, vectors = np.linalg.eigh(np.eye(300) - Q @ Q.T)
    M = 2.0 * (vectors * np.maximum(values, 0) ** 1.5) @ vectors.T
    expected = Phi @ np.linalg.solve(np.eye(30) + Phi.T @ M @ Phi, Phi.T)
    np.testing.assert_allclose(grown.gram(X), expected, atol=1e-8)
    # A whole first block is a fit.
    once = clone(model).partial_fit(X)
    np.testing.assert_allclose(once.gram(X), clone(model).fit(X).gram(X), atol=1e-10)


def test_rows_can_be_added_to_those_of_a_fit():
    X = rows(300)
    model = Deformed(RandomFourier(Gaussian(1.2), 30, random_state=0), FeatureGraph(50), alpha=2.0, power=1.5)
    grown = clone(model).fit(X[:100]).partial_fit(X[100:])
    assert grown.graph_.n_nodes == 300
    expected = clone(model).partial_fit(X[:100]).partial_fit(X[100:])
    np.testing.assert_allclose(grown.transform(X), expected.transform(X), atol=1e-12)
    assert grown.fit(X[:100]).graph_.n_nodes == 100  # a fit starts anew


def test_a_bad_block_costs_nothing():
    X = rows()
    model = Deformed(RandomFourier(Gaussian(1.2), 10, random_state=0), FeatureGraph(20)).partial_fit(X)
    before = model.transform(X)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.full((3, 3), np.nan))
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((3, 3), np.nan))
    np.testing.assert_array_equal(model.transform(X), before)
    model.partial_fit(X[:5])
    assert model.graph_.n_nodes == 125


def test_a_neighbor_graph_cannot_grow():
    assert not hasattr(Deformed(), "partial_fit")
    assert hasattr(Deformed(graph=FeatureGraph()), "partial_fit")


# ---- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (Deformed(feature_map=Gaussian()), "feature_map must be a mercer map such as RandomFourier"),
        (Deformed(graph="nearest"), "graph must be a NeighborGraph, a FeatureGraph, or the weights.*got str"),
        (Deformed(graph=np.eye(3)), r"SciPy sparse matrix, got ndarray.*csr_array\(W\)"),
        (Deformed(alpha=-1.0), "alpha must be a finite number >= 0, got -1.0"),
        (Deformed(alpha=np.nan), "alpha must be a finite number"),
        (Deformed(power=-0.5), "power must be a finite number >= 0"),
        (Deformed(power=2049.5), "power must be at most 100, got 2049.5"),
        (Deformed(memory="all"), "memory must be a finite number >= 0, got 'all'"),
        (Deformed(rank=0), "rank must be an integer >= 1"),
        (Deformed(RandomFourier(n_components=0)), "n_components must be an integer >= 1"),
        (Deformed(RandomFourier(form="complex")), "complex features"),
    ],
)
def test_bad_parameters_are_refused(model, says):
    with pytest.raises(ParameterError, match=says):
        model.fit(rows())


def test_features_with_signs_are_refused():
    with pytest.raises(ParameterError, match="have signs"):
        Deformed(RandomMaclaurin(DotProduct([1.0, -0.5, 0.2], signed=True), 10, random_state=0)).fit(rows())


def test_a_roughness_too_large_is_said():
    X = rows()
    with pytest.raises(DataError, match="overflows"), np.errstate(over="ignore", invalid="ignore"):
        Deformed(Nystroem(Polynomial(2), 10), GRAPH, alpha=1e305).fit(1e3 * X)
