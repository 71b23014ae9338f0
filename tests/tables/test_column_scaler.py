"""Scaled columns: units, ranks, components, ramps, weights, sparse rows and blocks."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import rankdata
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge

from mercer import ColumnScaler, ParameterError
from mercer.tables.column_functions import rank_curve

METHODS = ("spread", "ranks", "components", "ramps")


@pytest.fixture(scope="module")
def X():
    rng = np.random.default_rng(0)
    return np.column_stack(
        [rng.uniform(size=500), rng.lognormal(sigma=2, size=500), rng.normal(size=500), rng.integers(0, 2, 500)]
    )


@pytest.mark.parametrize("method", METHODS)
def test_units_and_offsets_of_columns_do_not_matter(X, method):
    factors, offsets = np.array([1e-6, 1e6, 1.0, 1e3]), np.array([0.0, 5.0, -3.0, 0.0])
    plain = ColumnScaler(method).fit_transform(X)
    other = ColumnScaler(method).fit_transform(X * factors + offsets * factors)
    assert other == pytest.approx(plain, rel=1e-8, abs=1e-8)


@pytest.mark.parametrize("method", METHODS)
def test_grids_in_other_units_are_the_same_to_the_last_bit(method):
    # Among rows of a grid many distances are equal, and rounding errors would decide which of them are the least ones.
    grid = np.stack(np.meshgrid(np.arange(7) * 0.1, np.arange(5) * 3.7 + 0.9, [0.0, 1.0, 8.5]), axis=-1).reshape(-1, 3)
    plain = ColumnScaler(method).fit_transform(grid)
    for factors in ([3e-6, 7e5, 1.1], [1e6, 1e-6, 1e3]):
        assert (ColumnScaler(method).fit_transform(grid * np.array(factors)) == plain).all()


def test_lines_through_ramps_are_sums_of_functions_of_columns(X):
    y = np.sin(4 * X[:, 0]) + np.log1p(X[:, 1]) + X[:, 2] ** 2 + X[:, 3]
    ramps = ColumnScaler("ramps").fit_transform(X)
    residuals = y - Ridge(1e-3).fit(ramps[:400], y[:400]).predict(ramps)
    assert residuals[400:].std() < 0.1 * y.std()


def test_rare_values_of_a_column_have_ramps():
    rng = np.random.default_rng(4)
    x = np.where(rng.uniform(size=2000) < 0.95, 0.0, rng.lognormal(size=2000))
    (knots,) = ColumnScaler("ramps").fit(x[:, None]).columns_.knots
    assert len(knots) > 20
    assert knots[0] == 0
    assert ColumnScaler("ramps").fit_transform(sp.csr_array(x[:, None])) == pytest.approx(
        ColumnScaler("ramps").fit_transform(x[:, None])
    )


def test_skewed_columns_have_ranks(X):
    scaler = ColumnScaler("ranks").fit(X)
    assert scaler.get_feature_names_out(["a", "b", "c", "d"]).tolist() == ["a", "b", "c", "d", "b rank"]
    ranks = (rankdata(X[:, 1]) - 0.5) / len(X)
    found = scaler.transform(X)[:, 4] / np.sqrt(12) + 0.5
    assert found == pytest.approx(ranks, abs=1 / 255)  # interpolated between 256 points
    assert found.std() == pytest.approx(12**-0.5, rel=0.01)


def test_equal_values_have_the_mean_of_their_ranks():
    x = np.repeat([0.0, 1.0, 10.0, 1000.0], [70, 15, 10, 5])
    values, ranks = rank_curve(x, np.full(100, 0.01))
    expected = [(rankdata(x)[x == value][0] - 0.5) / 100 for value in values]
    assert ranks / np.sqrt(12) + 0.5 == pytest.approx(expected)


@pytest.mark.parametrize("method", METHODS)
def test_weights_are_repetitions(X, method):
    repeats = np.random.default_rng(1).integers(0, 3, len(X))
    repeated = ColumnScaler(method).fit(np.repeat(X, repeats, axis=0)).transform(X)
    weighted = ColumnScaler(method).fit(X, sample_weight=repeats).transform(X)
    assert weighted == pytest.approx(repeated, rel=1e-8, abs=1e-8)


def test_constant_columns_are_dropped(X):
    more = np.column_stack([X, np.full(len(X), 7.0)])
    for method in METHODS:
        assert ColumnScaler(method).fit_transform(more) == pytest.approx(ColumnScaler(method).fit_transform(X))


def test_components_are_those_of_columns_over_their_range():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 8)) @ rng.normal(size=(8, 8))
    ranged = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    oracle = PCA(3).fit(ranged)
    found = ColumnScaler("components", n_components=3).fit_transform(X)
    expected = oracle.transform(ranged)
    expected *= np.sign((expected * found).sum(axis=0))
    assert found / found.std() == pytest.approx(expected / expected.std(), abs=1e-6)
    assert np.square(found - found.mean(axis=0)).mean() == pytest.approx(1)


def test_components_of_more_columns_than_rows():
    X = np.random.default_rng(3).normal(size=(20, 100))
    found = ColumnScaler("components").fit_transform(X)
    assert found.shape == (20, 19)
    assert np.isfinite(found).all()


def test_blocks_give_the_same_scales(X):
    blocks = [(X[i : i + 77],) for i in range(0, len(X), 77)]
    for method in METHODS:
        assert (ColumnScaler(method).fit(blocks).transform(X) == ColumnScaler(method).fit(X).transform(X)).all()


def test_sparse_rows_stay_sparse(X):
    rare = sp.random_array((300, 50), density=0.05, rng=0, format="csr")
    scaled = ColumnScaler("ranks").fit_transform(rare)
    assert sp.issparse(scaled)
    assert scaled.toarray() == pytest.approx(rare.toarray() / rare.toarray().max(axis=0), abs=1e-8)


def test_unknown_method_is_named():
    with pytest.raises(ParameterError, match="method must be"):
        ColumnScaler("robust").fit(np.ones((3, 2)))


def test_values_that_differ_by_rounding_have_no_ramp_between_them():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 12, 400) / 10
    noisy = x * (1 + 4e-16 * rng.integers(-1, 2, 400))
    assert len(np.unique(noisy)) > 20
    scaler = ColumnScaler("ramps").fit(noisy[:, None])
    assert scaler.transform(noisy[:, None]) == pytest.approx(scaler.transform(x[:, None]), abs=1e-6)
    assert len(scaler.get_feature_names_out()) == 11
