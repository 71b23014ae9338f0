"""Drawn Maclaurin features: signs of negative terms, overflow, and the radius of convergence."""

import numpy as np
import pytest

from mercer import (
    DataError,
    DotProduct,
    Gaussian,
    Geometric,
    KernelRidge,
    MercerWarning,
    ParameterError,
    Polynomial,
    RandomMaclaurin,
)

from .maclaurin_designs import PROJECTIONS, SIGNED, fitted, rows


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_components_of_negative_terms_have_negative_signs(projection):
    m = fitted(SIGNED, 15, projection=projection)
    assert set(m.signs_) == {-1.0, 1.0}
    Z = m.transform(rows())
    np.testing.assert_allclose(m.gram(rows()), (Z * m.signs_) @ Z.T)
    assert fitted(Polynomial(2), 9).signs_ is None
    # Real and imaginary parts, exact and random components all represent the one negative term.
    for n in (8, 9, 10):
        assert (fitted(DotProduct([0.0, 0.0, 0.0, -1.0], signed=True), n, projection=projection).signs_ == -1).all()


def test_learners_and_the_plan_degrees_raise_for_negative_coefficients():
    with pytest.raises(ParameterError, match=r"KernelRidge needs a positive definite kernel, .*have signs"):
        KernelRidge(RandomMaclaurin(SIGNED, 9)).fit(rows(), rows()[:, 0])
    with pytest.raises(ParameterError, match=r"plan='degrees' .* needs coefficients of one sign, got a_1 = -1"):
        fitted(SIGNED, 9, plan="degrees")


def test_transform_raises_for_overflow_and_beyond_the_radius_of_convergence():
    X = rows()
    m = fitted(Polynomial(3), 9, X)
    with pytest.raises(DataError, match="features overflow float64"):
        m.transform(1e120 * X)
    with pytest.raises(DataError, match=r"features overflow float32. Scale the rows down"):
        m.transform((1e15 * X).astype(np.float32))
    for anchor in ("auto", None):
        m = fitted(Geometric(scale=0.1), 9, X, anchor=anchor)
        with pytest.raises(DataError, match="converges only below 10"):
            m.transform(20 * X)


def test_distant_rows_of_a_gaussian_kernel_have_zero_features():
    m = fitted(Gaussian(2.0), 20)
    with pytest.warns(MercerWarning, match="some rows are farther than"):
        np.testing.assert_array_equal(m.transform(np.full((2, 3), 1e6)), 0.0)
