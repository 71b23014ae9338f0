"""Maps of sums: signs of terms, widths, and narrow sums."""

import numpy as np
import pytest

from mercer import (
    ExponentialDotProduct,
    Gaussian,
    KernelRidge,
    Matern,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    SumMap,
    Transformed,
)
from mercer.maps.algebra.copies import MixedFeatures
from mercer.maps.algebra.joined import StackedFeatures
from mercer.maps.algebra.sum_map import share_up_to

from .instances import MIXED_PRODUCT, SIGNED, exact_maps, rows


def test_signs_of_a_term_are_those_of_the_sum():
    X, kernel = rows(), Polynomial(1) + Transformed(SIGNED, columns=(0,))
    m = SumMap(kernel, 7, maps=exact_maps(2), random_state=0).fit(X)
    np.testing.assert_allclose(m.gram(X, rows(1)), kernel(X, rows(1)), atol=1e-12)
    assert sorted(m.signs_) == [-1, 1, 1, 1, 1, 1, 1]
    wrong = m.transform(X) @ m.transform(X).T  # the Gram matrix without the signs
    assert np.abs(wrong - kernel(X)).max() > 0.1
    with pytest.raises(ParameterError, match="needs a positive definite kernel"):
        KernelRidge(m).fit(X, X[:, 0])


def test_components_of_a_narrow_sum_combine_all_terms():
    X = rows()
    kernel = Matern() + ExponentialDotProduct(0.2)
    m = SumMap(kernel, 1, random_state=0).fit(X)
    assert isinstance(m.features_, MixedFeatures)
    assert isinstance(m.features_.features, StackedFeatures)
    np.testing.assert_array_equal(np.abs(m.features_.mixing), 1.0)
    wide = SumMap(kernel, 2, random_state=0).fit(X)
    assert isinstance(wide.features_, StackedFeatures)
    three = SumMap(Matern() + Polynomial(2) + MIXED_PRODUCT, 2, random_state=0).fit(X)
    np.testing.assert_allclose(np.abs(three.features_.mixing), 2**-0.5)


def test_widths_of_a_sum_follow_the_errors_of_its_terms():
    X = rows(n=60)
    heavy = SumMap(9 * Matern(0.5, 0.2) + 0.01 * ExponentialDotProduct(0.1), 200, random_state=0).fit(X)
    assert heavy.maps_[0].n_components > 150
    assert sum(m.n_components for m in heavy.maps_) == 200
    exact = SumMap(Matern() + Polynomial(2), 200, random_state=0).fit(X)
    assert [m.n_components for m in exact.maps_] == [190, 10]
    # The polynomial gets no more components than make it exact, and none is zero.
    wide = SumMap(0.01 * Matern() + Polynomial(3), 30, random_state=0).fit(X)
    assert wide.maps_[1].n_components <= 20
    assert sum(m.n_components for m in wide.maps_) == 30


def test_a_term_that_is_exact_at_a_moderate_width_gets_it():
    # With half of the components exp(0.1 x.y) is nearly exact; in proportion to that error it would get one.
    X = rows(n=60, d=4)
    kernel = Matern() + ExponentialDotProduct(0.1)
    m = SumMap(kernel, 128, random_state=0).fit(X)
    halves = [
        RandomFourier(Matern(), 64, random_state=0),
        RandomMaclaurin(ExponentialDotProduct(0.1), 64, random_state=0),
    ]
    error = np.linalg.norm(m.gram(X) - kernel(X))
    assert error < 1.2 * np.linalg.norm(sum(half.fit(X).gram(X) for half in halves) - kernel(X))


def test_components_are_allocated_up_to_a_limit():
    np.testing.assert_array_equal(share_up_to(np.array([np.inf, np.inf]), np.ones(2), 7), [4, 3])
    np.testing.assert_array_equal(share_up_to(np.array([2, np.inf]), np.array([9.0, 1.0]), 12), [2, 10])
    np.testing.assert_array_equal(share_up_to(np.array([2, 3]), np.ones(2), 12), [2, 3])


def test_terms_are_not_joined_if_rows_are_far_from_their_mean():
    X = np.random.default_rng(0).normal(size=(200, 3))
    X[::20] *= 6
    far = SumMap(Gaussian() + Polynomial(2), 80, random_state=0).fit(X)
    assert [(type(part).__name__, part.n_components) for part in far.maps_] == [
        ("RandomFourier", 70),
        ("RandomMaclaurin", 10),
    ]
    assert np.abs(far.gram(X) - far.kernel_(X)).max() < 1
    assert len(SumMap(Gaussian(30.0) + Polynomial(2), 80, random_state=0).fit(X).maps_) == 1
