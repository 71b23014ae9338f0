"""`ScaledColumns`: a map of rows whose columns are divided by their spread."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    DataError,
    FeatureMap,
    Gaussian,
    KernelRidge,
    LearnedMetric,
    Matern,
    Nystroem,
    ParameterError,
    Precomputed,
    RandomFourier,
    ScaledColumns,
    Transformed,
)
from mercer.metric.inputs import column_spreads

RNG = np.random.default_rng(0)
X = RNG.normal((0.0, 3.0, -1.0, 0.0), size=(300, 4))
UNITS = np.array([1e-6, 1.0, 1e6, 1e3])
INNER = (RandomFourier(Gaussian("median"), 20, random_state=0), Nystroem(Matern(1.5, "median"), 20, random_state=0))


@pytest.mark.parametrize("inner", INNER, ids=["fourier", "landmarks"])
def test_it_is_the_inner_map_on_rows_divided_by_their_spread(inner):
    model = ScaledColumns(inner).fit(X * UNITS)
    center, spread = column_spreads(X * UNITS, None)
    scaled = (X * UNITS - center) / spread
    expected = inner.__class__(**inner.get_params(deep=False)).fit(scaled)
    np.testing.assert_allclose(model.transform(X * UNITS), expected.transform(scaled), atol=1e-10)
    np.testing.assert_array_equal(model.scales_, spread)
    assert isinstance(model.kernel_, Transformed)
    np.testing.assert_allclose(model.kernel_(X * UNITS), expected.kernel_(scaled), atol=1e-12)


CHOSEN = FeatureMap(Gaussian(1.0), 12, method="RandomFourier", random_state=0)


@pytest.mark.parametrize("inner", [*INNER, CHOSEN], ids=["fourier", "landmarks", "chosen"])
def test_units_do_not_matter(inner):
    plain, other = ScaledColumns(inner).fit(X), ScaledColumns(inner).fit(X * UNITS)
    np.testing.assert_allclose(other.gram(X * UNITS), plain.gram(X), atol=1e-9)
    assert np.abs(type(inner)(**inner.get_params(deep=False)).fit(X).gram(X * UNITS) - plain.gram(X)).max() > 0.1


def test_columns_that_are_mostly_equal_are_divided_by_their_range():
    # The deviation of the values within the quantiles is a rounding error here, and rare values would become 1e14.
    column = np.where(np.arange(3000) % 200 == 0, 1.0, -1.0 / 3)
    _, spread = column_spreads(np.column_stack([column, X[:, 0].repeat(10)]), None)
    assert spread[0] == pytest.approx(4 / 3, rel=1e-12)


def test_constant_columns_are_dropped_unless_all_are():
    rows = np.column_stack([X, np.full(300, 7.0)])
    model = ScaledColumns(INNER[0]).fit(rows)
    assert model.scales_[-1] == 0
    np.testing.assert_array_equal(model.transform(rows), model.transform(rows + np.array([0, 0, 0, 0, 100.0])))
    np.testing.assert_allclose(model.transform(rows), ScaledColumns(INNER[0]).fit(X).transform(X))
    equal = ScaledColumns(RandomFourier(Gaussian(1.0), 8)).fit(np.ones((5, 2)))
    assert equal.scales_.tolist() == [1.0, 1.0]


def test_sparse_rows_give_the_kernel_of_dense_ones():
    rows = X * (RNG.random(X.shape) < 0.4) * UNITS
    dense, sparse = (ScaledColumns(INNER[0]).fit(each) for each in (rows, sp.csr_array(rows)))
    np.testing.assert_allclose(sparse.gram(sp.csr_array(rows)), dense.gram(rows), atol=1e-10)
    assert sparse.kernel_.center is None


def test_weights_equal_repetition():
    repeats = RNG.integers(0, 3, len(X))
    weighted = KernelRidge(ScaledColumns(INNER[1]), alpha=0.1).fit(X, X[:, 0], repeats)
    repeated = KernelRidge(ScaledColumns(INNER[1]), alpha=0.1).fit(X.repeat(repeats, axis=0), X[:, 0].repeat(repeats))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), atol=1e-8)


def test_its_seed_is_that_of_an_inner_map_without_one():
    one, two, other = (ScaledColumns(RandomFourier(), random_state=seed).fit(X).transform(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, two)
    assert not np.allclose(one, other)


def test_variances_are_those_of_the_inner_map():
    model = ScaledColumns(RandomFourier(Gaussian(1.0), 20, random_state=0)).fit(X * UNITS)
    scaled = model.features_.inputs(X[:5] * UNITS)
    np.testing.assert_allclose(model.variance(X[:5] * UNITS), model.feature_map_.variance(scaled))


@pytest.mark.parametrize(
    ("feature_map", "message"),
    [
        ("fourier", "ScaledColumns: feature_map must be a mercer map such as Nystroem"),
        (LearnedMetric(), "must be a map that does not scale columns itself, got LearnedMetric"),
        (ScaledColumns(), "must be a map that does not scale columns itself, got ScaledColumns"),
        (Nystroem(Precomputed()), "must have a kernel of rows with columns, got Precomputed"),
    ],
)
def test_bad_inner_maps_have_clear_errors(feature_map, message):
    with pytest.raises(ParameterError, match=message):
        ScaledColumns(feature_map).fit(X)


def test_rows_must_be_readable_twice():
    with pytest.raises(DataError, match="read only once"):
        KernelRidge(ScaledColumns(INNER[0])).fit(iter([(X, X[:, 0])]))
