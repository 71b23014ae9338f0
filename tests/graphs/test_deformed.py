"""Deformed features against the exact deformed kernel in the forms of the literature."""

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
from mercer.graphs import laplacian_graph
from mercer.maps.registry import maps_for

pytestmark = pytest.mark.covering(1)

GRAPH = NeighborGraph(6)
POWERS = [0, 1, 2, 3]


def rows(n=120, d=3, seed=0, unit=False):
    X = np.random.default_rng(seed).normal(0.4, 1.0, size=(n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) if unit else X


def fitted(X, power=2, strength=3.0, width=60, **more):
    return Deformed(
        RandomFourier(Gaussian(1.2), width, random_state=0), GRAPH, strength=strength, power=power, **more
    ).fit(X)


def penalty(X, power=2, strength=3.0):
    return strength * GRAPH.laplacian(X).power(power)


# ---- identities -------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("power", POWERS)
def test_kernel_of_graph_rows_is_proposition_2_of_ionescu_et_al(power, unit):
    X = rows(unit=unit)
    model = fitted(X, power)
    K, M = model.feature_map_.gram(X), penalty(X, power)
    eye = np.eye(len(X))
    expected = K - K @ np.linalg.solve(eye + M @ K, M @ K)
    np.testing.assert_allclose(model.gram(X), expected, atol=1e-8)
    assert np.abs(model.gram(X) - K).max() > 0.05  # the deformation is not negligible


@pytest.mark.parametrize("power", POWERS)
def test_kernel_of_new_rows_is_the_out_of_sample_formula(power):
    X, new, other = rows(), rows(20, seed=1), rows(15, seed=2)
    model = fitted(X, power)
    k, M = model.feature_map_.gram, penalty(X, power)
    correction = np.linalg.solve(np.eye(len(X)) + M @ k(X), M)
    expected = k(new, other) - k(new, X) @ correction @ k(X, other)
    np.testing.assert_allclose(model.gram(new, other), expected, atol=1e-8)


def test_exact_kernel_satisfies_the_same_formulas():
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
    """Return the minimizer f = K a of the squared error on labeled rows plus ridge (f'K^-1 f + f'M f), on all rows.

    The stationarity condition, divided by K, is (J K + ridge (I + M K)) a = J'y, which has no inverse of K.
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
def test_exact_features_give_exact_laplacian_regularized_least_squares(feature_map):
    X = rows()
    labeled = np.arange(0, len(X), 6)
    y = X[labeled, 0] * X[labeled, 1]
    model = Deformed(feature_map, GRAPH, strength=0.5, power=2, random_state=0).fit(X)
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
    # The whitening matrix is triangular and a contraction.
    T = model.features_.whitening
    assert np.array_equal(T, np.triu(T))
    assert np.linalg.norm(T, 2) <= 1 + 1e-12


@pytest.mark.parametrize("power", [0.5, 0.8, 1.5, 2.3])
def test_fractional_powers(power):
    X, new = rows(), rows(20, seed=1)
    model = fitted(X, power)
    k, M = model.feature_map_.gram, penalty(X, power)
    expected = k(new) - k(new, X) @ np.linalg.solve(np.eye(len(X)) + M @ k(X), M) @ k(X, new)
    # An error E of M changes the kernel by k~(., X) E k~(X, .) to first order.
    assert model.power_error_ < 0.006
    spread = np.linalg.norm(model.gram(new, X), 2) ** 2
    assert np.linalg.norm(model.gram(new) - expected, 2) <= 1.1 * 3.0 * model.power_error_ * spread
    np.testing.assert_allclose(model.gram(new), expected, atol=1e-3)
    np.testing.assert_allclose(model.kernel_.penalty, M, atol=1e-12)


def test_inaccurate_fractional_powers_warn():
    X = rows()
    with pytest.warns(MercerWarning, match=r"power=0.1 cannot be approximated well.*0.34 of at most 1.1.*0.5 or more"):
        fitted(X, 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", MercerWarning)
        fitted(X, 0.4)
        Deformed(RandomFourier(Gaussian(1.2), 20), FeatureGraph(30), power=0.1).fit(X)


def test_trace_decreases_with_strength():
    X = rows()
    traces = [np.trace(fitted(X, strength=strength).gram(X)) for strength in (0.0, 0.1, 10.0, 1e4)]
    assert all(a > b for a, b in pairwise(traces))
    np.testing.assert_allclose(fitted(X, strength=0.0).gram(X), fitted(X).feature_map_.gram(X), atol=1e-12)


# ---- low rank ---------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 10, 30])
def test_error_bound_of_low_rank(rank):
    X, new = rows(), rows(20, seed=1)
    full, low = fitted(X), fitted(X, rank=rank)
    for points in (X, new):
        gap = low.gram(points) - full.gram(points)
        assert np.linalg.eigvalsh(gap).min() > -1e-10
        ratio = np.diagonal(gap) / np.diagonal(low.feature_map_.gram(points))
        assert ratio.max() <= low.rank_error_ + 1e-10
    assert 0 < low.rank_error_ < 1
    assert low.transform(X).shape == (len(X), 60)


def test_rank_of_all_components_is_exact():
    X = rows()
    assert fitted(X, rank=60).rank_error_ == fitted(X, rank=1000).rank_error_ == 0.0
    almost = fitted(X, rank=59)
    np.testing.assert_allclose(almost.gram(X), fitted(X).gram(X), atol=2 * almost.rank_error_)


# ---- engines ----------------------------------------------------------------------------------


@pytest.mark.parametrize("graph", [NeighborGraph(6), NeighborGraph(6, max_rows=70), FeatureGraph(40)], ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_maps_fitted_on_blocks_are_those_in_memory(graph, weighted):
    X = rows()
    y = np.sin(2 * X[:, 0])
    weight = np.random.default_rng(3).integers(0, 3, len(X)).astype(float) if weighted else None
    deformed = Deformed(RandomFourier(Gaussian("median"), 40), graph, strength=2.0, power=2, random_state=0)
    model = KernelRidge(deformed, alpha=0.1)
    memory = clone(model).fit(X, y, sample_weight=weight)
    parts = [slice(0, 1), slice(1, 1), slice(1, 50), slice(50, 120)]
    blocks = [(X[p], y[p]) if weight is None else (X[p], y[p], weight[p]) for p in parts]
    streamed = clone(model).fit(blocks)
    np.testing.assert_allclose(streamed.predict(X), memory.predict(X), atol=1e-8)
    assert streamed.feature_map_.graph_.n_nodes == memory.feature_map_.graph_.n_nodes


@pytest.mark.parametrize("graph", [None, FeatureGraph(40)])
def test_blocks_that_can_be_read_only_once_raise(graph):
    X = rows()
    model = KernelRidge(Deformed(RandomFourier(Gaussian(1.0), 20), graph))
    with pytest.raises(
        DataError, match=r"^Deformed: the graph is built from all rows.*can be read only once.*open_rows"
    ):
        model.fit(iter([(X, X[:, 0])]))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_dask_collections_raise(method):
    da = pytest.importorskip("dask.array")
    model = Deformed(RandomFourier(Gaussian(1.0), 20), FeatureGraph(20))
    with pytest.raises(DataError, match=r"^Deformed: fit takes rows in memory, got Array\. .* to a learner"):
        getattr(model, method)(da.from_array(rows(), (60, 3)))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_files_raise(method):
    source = mercer.open_rows(pd.DataFrame(rows(), columns=list("abc")))
    with pytest.raises(
        DataError, match=r"^Deformed: fit takes rows in memory, got RowSource\. .* pass the unfitted map to a learner"
    ):
        getattr(Deformed(RandomFourier(Gaussian(1.0), 20), FeatureGraph(20)), method)(source)


def test_negative_rows_raise_if_the_inner_map_needs_nonnegative_rows():
    X = np.abs(rows())
    X[-1] = -1.0
    with pytest.raises(DataError, match=">= 0"):
        Deformed(ThresholdFeatures(n_components=8, upper=5.0), GRAPH).fit(X)


@pytest.mark.parametrize("options", [{"n_components": 0}, {"n_components": "ten"}])
def test_invalid_inner_maps_raise_before_rows_are_read(options):
    with pytest.raises(ParameterError, match="RandomFourier: n_components must be an integer >= 1"):
        Deformed(RandomFourier(Gaussian(1.0), **options)).check()
    with pytest.raises(ParameterError, match="RandomFourier: n_components must be an integer >= 1"):
        Deformed(RandomFourier(Gaussian(1.0), **options)).fit(rows())


def test_rows_with_weight_zero_are_ignored():
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
        model = Deformed(RandomFourier(Gaussian(1.2), 30, random_state=0), graph, strength=3.0)
        dense, sparse = clone(model).fit(X), clone(model).fit(sp.csr_array(X))
        np.testing.assert_allclose(dense.transform(X), sparse.transform(X), atol=1e-10)


def test_float32_rows_make_a_float32_map():
    X = rows()
    wide, narrow = fitted(X), fitted(X.astype(np.float32))
    assert narrow.features_.whitening.dtype == np.float32
    assert narrow.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(narrow.gram(X), wide.gram(X), atol=1e-4)
    assert narrow.transform(X).dtype == np.float64


def test_pickles_of_many_rows_do_not_contain_them(monkeypatch):
    X = rows(400)
    small = len(pickle.dumps(fitted(X)))
    monkeypatch.setattr(laplacian_graph, "EXACT_ROWS", 100)
    model = fitted(X)
    assert len(pickle.dumps(model)) < small / 1.5
    with pytest.raises(NoClosedFormError, match=r"exact deformed kernel of 400 rows.*at most 4000 unweighted rows"):
        audit(model, X)


def test_pipelines_and_feature_names():
    X = rows()
    pipeline = make_pipeline(StandardScaler(), Deformed(RandomFourier(Gaussian(1.0), 8, random_state=0), GRAPH))
    assert pipeline.fit_transform(X).shape == (120, 8)
    assert pipeline[-1].get_feature_names_out()[0] == "deformed0"


# ---- audits -----------------------------------------------------------------------------------


def test_audit_compares_with_the_exact_deformed_kernel():
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


def test_exact_kernel_is_cached_and_not_pickled():
    X = rows()
    model = fitted(X)
    size = len(pickle.dumps(model))
    exact = model.kernel_
    assert model.kernel_ is exact
    assert len(pickle.dumps(model)) == size
    assert pickle.loads(pickle.dumps(model)).kernel_ == exact
    assert model.set_params(strength=5.0).kernel_ == exact  # until it is fitted again
    assert model.fit(X).kernel_ != exact


def test_pickles_contain_rows_only_where_documented():
    X = rows()
    row = X[5].tobytes()
    assert row in pickle.dumps(fitted(X))
    assert row not in pickle.dumps(fitted(X).features_)
    grown = Deformed(RandomFourier(Gaussian(1.0), 20, random_state=0), FeatureGraph(20)).partial_fit(X)
    assert row not in pickle.dumps(grown)
    assert "pickles of the map, and of learners with it, contain the rows" in " ".join(Deformed.__doc__.split())


def test_compare_sets_the_kernel_of_the_inner_map():
    X = rows()
    deformed = Deformed(RandomFourier(n_components=400, random_state=0), GRAPH, strength=3.0)
    result = compare(Gaussian(1.2), X, maps={"deformed": deformed, "default": Deformed(random_state=0)})
    assert {m.name for m in result.maps} == {"deformed", "default"}
    assert all(m.audit.rmse < 0.1 for m in result.maps)
    assert deformed.feature_map.kernel is None  # unchanged


def test_deformed_maps_cannot_be_parts_of_other_maps():
    assert Deformed not in maps_for(Gaussian())
    assert "inverse of the mean" in Deformed().unbiased
    summed = SumMap(Gaussian() + Matern(), 20, maps=[Deformed(), RandomFourier()])
    with pytest.raises(UnsupportedKernelError, match="outermost"):
        summed.fit(rows())


def test_n_jobs_of_the_inner_map_is_retained_unless_given():
    X = rows()
    inner = RandomFourier(Gaussian(1.0), 10, n_jobs=1)
    assert Deformed(inner).fit(X).feature_map_.n_jobs == 1
    assert Deformed(inner, n_jobs=2).fit(X).feature_map_.n_jobs == 2


def test_random_state_of_the_inner_map_is_retained_unless_given():
    X = rows()
    inner = RandomFourier(Gaussian(1.0), 10, random_state=5)
    np.testing.assert_array_equal(Deformed(inner).fit(X).feature_map_.transform(X), inner.fit(X).transform(X))
    other = Deformed(inner, random_state=6).fit(X).feature_map_
    np.testing.assert_array_equal(other.transform(X), clone(inner).set_params(random_state=6).fit(X).transform(X))


def test_width_is_that_of_the_inner_map():
    model = Deformed(RandomFourier(Gaussian(1.0), 10, random_state=0), GRAPH)
    assert model.width == 10
    assert not hasattr(model, "n_components")
    model.set_params(feature_map__n_components=12)
    assert (model.width, model.feature_map.n_components) == (12, 12)
    assert model.fit(rows()).transform(rows()).shape == (120, 12)
    with pytest.raises(ValueError, match="Deformed: there is no parameter n_components"):
        model.set_params(n_components=14)
    assert Deformed().width == Deformed(Deformed()).width == RandomFourier().n_components


# ---- adding rows ------------------------------------------------------------------------------


def test_rows_can_be_added_to_a_feature_graph():
    X = rows(300)
    model = Deformed(RandomFourier(Gaussian(1.2), 30, random_state=0), FeatureGraph(50), strength=2.0, power=1.5)
    grown = clone(model).partial_fit(X[:100]).partial_fit(X[100:])
    assert grown.graph_.n_nodes == 300
    # Computed directly, with the features and the mean of the first block.
    Phi = grown.feature_map_.transform(X)
    positive, mean = grown._moments.positive, grown._moments.mean
    np.testing.assert_allclose(mean, positive(X[:100]).mean(axis=0))
    psi = positive(X)
    Q = psi / np.sqrt(300 * psi @ mean)[:, None]
    values, vectors = np.linalg.eigh(np.eye(300) - Q @ Q.T)
    M = 2.0 * (vectors * np.maximum(values, 0) ** 1.5) @ vectors.T
    expected = Phi @ np.linalg.solve(np.eye(30) + Phi.T @ M @ Phi, Phi.T)
    np.testing.assert_allclose(grown.gram(X), expected, atol=1e-8)
    # A single block gives the same kernel as a fit.
    once = clone(model).partial_fit(X)
    np.testing.assert_allclose(once.gram(X), clone(model).fit(X).gram(X), atol=1e-10)


def test_rows_can_be_added_after_fit():
    X = rows(300)
    model = Deformed(RandomFourier(Gaussian(1.2), 30, random_state=0), FeatureGraph(50), strength=2.0, power=1.5)
    grown = clone(model).fit(X[:100]).partial_fit(X[100:])
    assert grown.graph_.n_nodes == 300
    expected = clone(model).partial_fit(X[:100]).partial_fit(X[100:])
    np.testing.assert_allclose(grown.transform(X), expected.transform(X), atol=1e-12)
    assert grown.fit(X[:100]).graph_.n_nodes == 100  # a fit starts from scratch


def test_invalid_blocks_leave_the_map_unchanged():
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


def test_partial_fit_is_available_for_growing_graphs_only():
    assert not hasattr(Deformed(), "partial_fit")
    assert hasattr(Deformed(graph=FeatureGraph()), "partial_fit")


# ---- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "says"),
    [
        (Deformed(feature_map=Gaussian()), "feature_map must be a mercer map such as RandomFourier"),
        (Deformed(graph="nearest"), "graph must be a Graph such as NeighborGraph.*or the weights.*got str"),
        (Deformed(graph=np.eye(3)), r"SciPy sparse matrix, got ndarray.*csr_array\(W\)"),
        (Deformed(strength=-1.0), "strength must be a finite number >= 0, got -1.0"),
        (Deformed(strength=np.nan), "strength must be a finite number"),
        (Deformed(power=-0.5), "power must be a number >= 0 and <= 100"),
        (Deformed(power=2049.5), "power must be a number >= 0 and <= 100, got 2049.5"),
        (Deformed(max_bytes="all"), "max_bytes must be a finite number >= 0, got 'all'"),
        (Deformed(rank=0), "rank must be an integer >= 1"),
        (Deformed(RandomFourier(n_components=0)), "n_components must be an integer >= 1"),
        (Deformed(RandomFourier(form="complex")), "complex features"),
    ],
)
def test_invalid_parameters_raise(model, says):
    with pytest.raises(ParameterError, match=says):
        model.fit(rows())


def test_features_with_signs_raise():
    with pytest.raises(ParameterError, match="have signs"):
        Deformed(RandomMaclaurin(DotProduct([1.0, -0.5, 0.2], signed=True), 10, random_state=0)).fit(rows())


def test_overflowing_roughness_raises():
    X = rows()
    with pytest.raises(DataError, match="overflows"), np.errstate(over="ignore", invalid="ignore"):
        Deformed(Nystroem(Polynomial(2), 10), GRAPH, strength=1e305).fit(1e3 * X)
