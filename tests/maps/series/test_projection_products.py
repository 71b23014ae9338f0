"""Products of projections: definition of each component, exact moments over all draws, and dtypes."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.linalg import hadamard

from mercer.maps.series.inputs import Preparation
from mercer.maps.series.projection_products import (
    WEIGHTS,
    ComplexProducts,
    DenseProducts,
    HadamardProducts,
    SummedProducts,
)
from mercer.theory.products import Pairs, sketch_variance

X = np.array([[0.7, -1.2, 0.4], [0.3, 0.8, -0.6], [0.0, 0.0, 0.0], [2.0, 0.1, 0.0]])
DEGREES = np.array([3, 3, 2, 1, 0, 0])
SCALES = np.array([0.5, 1.0, 2.0, 3.0, 4.0, 0.0])
PAIRED = np.array([True, False, True, True, True, False])


def components_of(drawn, X=X, decay=0.0, dtype=np.float64):
    Z = np.full((X.shape[0], drawn.n_components), np.nan, dtype)
    drawn(Preparation(None, None, None, decay)(X), Z)
    return Z


def rng():
    return np.random.default_rng(3)


def draws():
    d = X.shape[1]
    dense = DenseProducts.draw("rademacher", d, DEGREES, SCALES, rng())
    return {
        "dense": dense,
        "complex": ComplexProducts.draw(d, DEGREES, SCALES, PAIRED, rng()),
        "hadamard": HadamardProducts.draw(d, 2, 7, 0.3, rng()),
        "summed": SummedProducts((dense, DenseProducts.draw("gaussian", d, DEGREES, SCALES, rng()))),
    }


@pytest.mark.parametrize("projection", list(WEIGHTS))
def test_dense_components_are_products_of_as_many_projections_as_their_degree(projection):
    drawn = DenseProducts.draw(projection, 3, DEGREES, SCALES, rng())
    assert [w.shape for w in drawn.weights] == [(3, 4), (3, 3), (3, 2)]
    Z = components_of(drawn)
    for c, n in enumerate(DEGREES):
        expected = np.prod([X @ drawn.weights[j][:, c] for j in range(n)], axis=0) if n else SCALES[c]
        np.testing.assert_allclose(Z[:, c], expected, atol=1e-13)
    unscaled = DenseProducts.draw(projection, 3, DEGREES, np.ones(6), rng())
    np.testing.assert_allclose(Z, SCALES * components_of(unscaled), atol=1e-13)


def test_weights_have_identity_covariance_and_the_stated_distribution():
    signs, normal, sphere = (WEIGHTS[name](5, 4000, rng()) for name in ("rademacher", "gaussian", "sphere"))
    assert set(signs.ravel()) == {-1.0, 1.0}
    np.testing.assert_allclose(np.linalg.norm(sphere, axis=0), np.sqrt(5))
    assert np.unique(normal).size == normal.size
    for weights in (signs, normal, sphere):
        # Means of 4000 products of variance at most two deviate by 0.2 only at nine standard deviations.
        np.testing.assert_allclose(weights @ weights.T / 4000, np.eye(5), atol=0.2)


def test_complex_components_are_real_and_imaginary_parts_of_products():
    drawn = draws()["complex"]
    Z = components_of(drawn)
    assert drawn.n_components == 10
    for c, n in enumerate(DEGREES):
        weights = [re[:, c] + 1j * im[:, c] for re, im in drawn.weights[:n]]
        factor = SCALES[c] * (np.sqrt(2) if n and not PAIRED[c] else 1)
        if n:
            np.testing.assert_allclose(np.abs(weights[0]), factor)
            assert all(set(w) <= {1, -1, 1j, -1j} for w in weights[1:])
        value = np.prod([X @ w for w in weights], axis=0) if n else np.full(4, factor)
        np.testing.assert_allclose(Z[:, c], np.real(value), atol=1e-13)
        if PAIRED[c]:
            imaginary = 6 + int(PAIRED[:c].sum())
            np.testing.assert_allclose(Z[:, imaginary], np.imag(value), atol=1e-13)


@pytest.mark.parametrize("d", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("m", [1, 4, 9, 20])
def test_hadamard_components_are_distinct_rows_of_sign_hadamard_matrices(d, m):
    rows = np.random.default_rng(0).normal(size=(4, d))
    drawn = HadamardProducts.draw(d, 2, m, 0.3, rng())
    width = 1 << (d - 1).bit_length()
    H, padded = hadamard(width), np.pad(rows, ((0, 0), (0, width - d)))
    expected = np.full((4, m), 0.3)
    for signs, order in zip(drawn.signs, drawn.order, strict=True):
        assert len(set(order)) == m
        assert (order // width == np.arange(m) // width).all()
        values = np.concatenate([(padded * s[0]) @ H.T for s in signs], axis=1)
        expected *= values[:, order]
    np.testing.assert_allclose(components_of(drawn, rows), expected, atol=1e-12)


def test_hadamard_components_have_their_exact_mean_and_variance_over_all_signs_and_orders():
    # All draws of degree one and three components for two rows of width 3: 16 signs times 24 orders of four rows.
    A = X[:2]
    orders = [o for o in product(range(4), repeat=3) if len(set(o)) == 3]
    values = []
    for signs in product((-1.0, 1.0), repeat=4):
        for order in orders:
            drawn = HadamardProducts(np.array(signs).reshape(1, 1, 1, 4), np.array([order]), 3**-0.5)
            Z = components_of(drawn, A)
            values.append(Z[0] @ Z[1])
    pairs = Pairs.all_of(A[:1], A[1:])
    assert np.mean(values) == pytest.approx(A[0] @ A[1])
    assert np.var(values) == pytest.approx(sketch_variance("srht", pairs, 1, 3)[0, 0])


def test_summed_products_are_the_sums_of_their_terms():
    drawn = draws()["summed"]
    np.testing.assert_allclose(components_of(drawn), sum(components_of(term) for term in drawn.terms), atol=1e-13)


@pytest.mark.parametrize("kind", ["dense", "complex", "hadamard", "summed"])
def test_every_component_includes_the_prefactor_of_its_row_once(kind):
    drawn = draws()[kind]
    factor = np.exp(-0.35 * (X**2).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(components_of(drawn, decay=0.7), factor * components_of(drawn), atol=1e-13)


@pytest.mark.parametrize("kind", ["dense", "complex", "hadamard", "summed"])
def test_sparse_and_float32_rows_have_the_same_components(kind):
    drawn = draws()[kind]
    Z = components_of(drawn, decay=0.1)
    np.testing.assert_allclose(components_of(drawn, sp.csr_array(X), decay=0.1), Z, atol=1e-13)
    single = components_of(drawn.astype(np.float32), X.astype(np.float32), decay=0.1, dtype=np.float32)
    np.testing.assert_allclose(single, Z, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["dense", "complex"])
def test_components_of_degree_zero_only_and_empty_draws(kind):
    for degrees in (np.zeros(2, int), np.zeros(0, int)):
        scales, paired = np.arange(1.0, 1 + len(degrees)), np.zeros(len(degrees), bool)
        if kind == "dense":
            drawn = DenseProducts.draw("rademacher", 3, degrees, scales, rng())
        else:
            drawn = ComplexProducts.draw(3, degrees, scales, paired, rng())
        np.testing.assert_array_equal(components_of(drawn), np.tile(scales, (4, 1)))
