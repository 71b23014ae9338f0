"""Series expanded about a direction: error, copies and dtypes, and completeness of the expansion."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import DotProduct, Polynomial, Transformed
from mercer.maps.series.anchored import AnchoredComponents

from .maclaurin_designs import PROJECTIONS, fitted, rows


def anchored_parts(m):
    return [part for part in m.features_.parts if isinstance(part, AnchoredComponents)]


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_anchored_map_has_less_error_and_the_same_features_for_copies_sparsity_and_dtypes(projection):
    X = 1 + 0.1 * rows(60)
    kernel = Transformed(Polynomial(7), columns=(2, 0), center=(0.1, 0.2), lengthscales=(1.5, 2.0))
    m = fitted(kernel, 12, X, projection=projection)
    assert anchored_parts(m)
    Z = m.transform(X)
    assert np.abs(m.gram(X) - kernel(X)).max() < 0.01 * np.abs(kernel(X)).max()
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).transform(X), Z)
    np.testing.assert_allclose(m.transform(sp.csr_array(X)), Z, atol=1e-10 * np.abs(Z).max())
    np.testing.assert_allclose(m.transform(X.astype(np.float32)), Z, atol=1e-3 * np.abs(Z).max())
    assert m.plan_.predicted_deviation**2 == pytest.approx(m.variance(X).mean(), rel=0.01)
    assert m.plan_.predicted_rmse < fitted(kernel, 12, X, projection=projection, anchor=None).plan_.predicted_rmse


def test_terms_of_an_anchored_series_with_zero_coefficients_sum_to_the_kernel():
    kernel = DotProduct([1.0, 0.0, 0.5, 0.0, 0.25, 0.0, 0.125])
    # Rows of almost equal direction and length, unlike those that the expansion is evaluated on.
    X = np.column_stack([np.full(30, 1.0), np.zeros(30)]) + 1e-4 * rows(30, 2)
    [part] = anchored_parts(fitted(kernel, 9, X))
    Y = rows(20, 2, seed=1)
    orthogonal, functions = part.split(Y)
    powers = (orthogonal.dense @ orthogonal.dense.T)[:, :, None] ** part.degrees
    total = (powers * functions[:, None, :] * functions[None, :, :]).sum(axis=2)
    np.testing.assert_allclose(total, kernel(Y), rtol=1e-9)
