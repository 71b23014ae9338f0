"""Grids of frequencies: kernels, groups of columns, boxes and far rows."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    DataError,
    Gaussian,
    GaussianProcessRegressor,
    GridFourier,
    KernelRidge,
    Laplacian,
    Matern,
    MercerWarning,
    ParameterError,
    RationalQuadratic,
    ScaledColumns,
    Transformed,
    UnsupportedKernelError,
)


def rows(n=80, d=2, seed=0):
    return np.random.default_rng(seed).uniform(size=(n, d))


@pytest.mark.parametrize(
    ("kernel", "n_components", "error"),
    [
        (Gaussian(0.3), 201, 1e-5),
        (2.0 * Gaussian(0.3) + 0.5, 201, 2e-5),
        (Matern(2.5, 0.5), 1501, 1e-4),
        (Transformed(Gaussian(), lengthscales=(0.2, 0.6)), 401, 1e-5),
        (Transformed(Gaussian(0.3), matrix=[[1.0, 0.5], [-0.3, 1.0]]), 401, 1e-5),
        (0.5 * Transformed(Gaussian(0.2), columns=(1,)) + Transformed(Matern(1.5), columns=(0,)), 301, 1e-4),
        (Transformed(Matern(0.5, 0.5), columns=(0,)), 801, 5e-3),
    ],
    ids=repr,
)
def test_kernel_is_approximated_on_rows_that_the_fit_has_not_seen(kernel, n_components, error):
    feature_map = GridFourier(kernel, n_components, bounds=None).fit(np.concatenate([rows(seed=1), [[0, 0], [1, 1]]]))
    new = rows(40, seed=2)
    assert np.abs(feature_map.gram(new) - kernel(new)).max() < min(error, feature_map.error_bound_ * (1 + 1e-6))


def test_column_groups_are_the_mean_of_the_kernel_over_groups():
    X = rows(60, 4)
    feature_map = GridFourier(Gaussian(0.4), 400, column_groups=[(0, 2), (3,)]).fit(X)
    expected = 0.5 * Gaussian(0.4)(X[:, [0, 2]]) + 0.5 * Gaussian(0.4)(X[:, [3]])
    assert np.abs(feature_map.gram(X) - expected).max() < 1e-4
    assert np.allclose(feature_map.kernel_(X), expected)
    each = GridFourier(Gaussian(0.4), 200, column_groups="each").fit(X)
    assert np.allclose(each.kernel_(X), sum(Gaussian(0.4)(X[:, [i]]) for i in range(4)) / 4)
    assert np.abs(each.gram(X) - each.kernel_(X)).max() < 1e-4


@pytest.mark.parametrize(
    ("kernel", "d", "reason"),
    [
        (Matern(0.5), 2, "decays too slowly"),
        (Matern(1.0), 3, "decays too slowly"),
        (Gaussian(), 4, "a kernel of 4 columns"),
        (RationalQuadratic(), 1, "closed form"),
        (Laplacian(), 1, "closed form"),
        (Gaussian() * Matern(), 1, "product of kernels"),
    ],
)
def test_kernels_out_of_reach_are_refused_with_a_reason(kernel, d, reason):
    with pytest.raises(UnsupportedKernelError, match=reason) as caught:
        GridFourier(kernel).fit(rows(30, d))
    assert "needs:" in str(caught.value)
    assert "try:" in str(caught.value)


def test_far_rows_have_zero_features_and_near_ones_those_of_the_kernel():
    X = rows(100, 1)
    kernel = Gaussian(0.1)
    feature_map = GridFourier(kernel, 101).fit(X)
    period = 1 / feature_map.features_.parts[0].spacing[0] * 0.1
    outside = np.array([[1.05], [1.15], [-0.2]])
    assert np.abs(feature_map.gram(outside, X) - kernel(outside, X)).max() < 1e-2
    far = np.array(
        [[1 + period / 2], [0.5 + period], [1e6], [-1e300]]
    )  # the second is a periodic image of a row inside
    assert np.abs(feature_map.transform(far)).max() == 0
    jump = np.linspace(1.0, 2.0, 201)[:, None]
    assert np.abs(feature_map.gram(jump, X) - kernel(jump, X)).max() < 0.02


def test_features_of_any_dtype_and_layout():
    X = rows(50, 3)
    feature_map = GridFourier(Gaussian(1.0), 200, bounds=(np.zeros(3), np.ones(3))).fit(X)
    Z = feature_map.transform(X)
    assert np.array_equal(Z, feature_map.transform(np.asfortranarray(X)))
    assert np.array_equal(Z, feature_map.transform(sp.csr_array(X)))
    single = feature_map.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    assert np.abs(single - Z).max() < 1e-5
    assert np.abs(Z[:, -1]).max() == 0  # an even number of components leaves one over


def test_one_row_duplicates_and_constant_columns():
    for X in (rows(1, 2), np.repeat(rows(1, 2), 5, axis=0), rows(20, 2) * [1.0, 0.0]):
        feature_map = GridFourier(Gaussian(0.5), 301).fit(X)
        assert np.abs(feature_map.gram(X) - Gaussian(0.5)(X)).max() < 1e-3


def test_bounds_and_parameters_are_checked():
    X = rows(20, 2)
    for bounds in ((0, 1), ([0.0], [1.0]), ([1.0, 1.0], [0.0, 2.0]), ([0.0, np.nan], [1.0, 1.0]), "box"):
        with pytest.raises(ParameterError, match="bounds must be"):
            GridFourier(Gaussian(), bounds=bounds).fit(X)
    for groups in ([], [()], [(0, 0)], [(0, 1, 2, 3)], [(-1,)], [(0.5,)], 3):
        with pytest.raises(ParameterError, match="column_groups must be"):
            GridFourier(Gaussian(), column_groups=groups).fit(X)
    with pytest.raises(ParameterError, match="column_groups"):
        GridFourier(Gaussian(), column_groups="all").fit(X)
    with pytest.raises(DataError, match="column_groups has the index 7"):
        GridFourier(Gaussian(), column_groups=[(7,)]).fit(X)
    with pytest.warns(MercerWarning, match="Raise n_components"):  # the second group has no component
        one = GridFourier(Gaussian(), 1, column_groups="each").fit(X)
    assert one.transform(X).shape == (20, 1)
    assert np.abs(one.gram(X) - one.kernel_(X)).max() <= one.error_bound_
    with pytest.raises(ValueError, match="NaN"):
        GridFourier(Gaussian()).fit([[np.nan, 1.0]])


def test_too_few_components_warn():
    with pytest.warns(MercerWarning, match="Raise n_components"):
        GridFourier(Gaussian(0.01), 11).fit(rows(50, 2))


def test_map_in_other_learners():
    rng = np.random.default_rng(3)
    X = rng.uniform(size=(600, 2))
    y = np.sin(6 * X[:, 0]) * np.cos(4 * X[:, 1]) + 0.1 * rng.normal(size=600)
    feature_map = GridFourier(Gaussian(0.3), 201)
    for model in (
        KernelRidge(feature_map, alpha="evidence"),
        KernelRidge(feature_map, alpha="loo"),
        GaussianProcessRegressor(feature_map, lengthscale_tuning=None),
        KernelRidge(ScaledColumns(GridFourier(Gaussian(1.0), 201)), alpha="evidence"),
    ):
        assert model.fit(X[:500], y[:500]).score(X[500:], y[500:]) > 0.9


def test_ridge_of_sums_on_a_grid_is_ridge_of_matrix_products(monkeypatch):
    from mercer.learners import ridge

    rng = np.random.default_rng(4)
    X, y = rng.uniform(size=(500, 2)), rng.normal(1e3, 1, size=(500, 2))
    weight = rng.integers(0, 3, 500)
    model = KernelRidge(GridFourier(0.5 + Gaussian(0.3), 60), alpha=1e-3).fit(X, y, sample_weight=weight)
    monkeypatch.setattr(ridge, "sums_on_grid", lambda features: False)
    slow = KernelRidge(GridFourier(0.5 + Gaussian(0.3), 60), alpha=1e-3).fit(X, y, sample_weight=weight)
    assert np.abs(model.predict(X) - slow.predict(X)).max() < 1e-6


def test_rows_outside_of_given_bounds_are_refused_in_a_fit():
    X = rows(50, 1)
    model = KernelRidge(GridFourier(Gaussian(0.3), 31, bounds=([0.0], [0.5])), alpha=0.1)
    with pytest.raises(DataError, match="must lie in the box"):
        model.fit(X, X[:, 0])


def test_partial_fit_within_bounds_is_fit():
    X = rows(100, 1)
    y = np.sin(5 * X[:, 0])
    feature_map = GridFourier(Gaussian(0.3), 31, bounds=([0.0], [1.0]))
    one = KernelRidge(feature_map, alpha=0.1).fit(X, y)
    two = KernelRidge(feature_map, alpha=0.1).partial_fit(X[:40], y[:40]).partial_fit(X[40:], y[40:])
    assert np.allclose(one.predict(X), two.predict(X), atol=1e-9)
    with pytest.raises(DataError, match="Give bounds="):
        two.partial_fit([[3.0]], [1.0])
