"""Components of random neurons against their definitions, layout by layout."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import ArcCosine, DataError, RandomNeurons
from mercer.maps.neurons.expansion import Expansion
from mercer.maps.neurons.random_neurons import exact_width

ORDERS = (0, 1, 2)
EVEN_OR_ODD = (np.sign, np.abs, lambda u: u * np.abs(u))


def rows(seed, n=7, d=4):
    return np.random.default_rng(seed).normal(0.2, 1.0, size=(n, d)) * np.linspace(0.3, 3.0, n)[:, None]


def angles(m, X):
    return m.features_.projection(X)


def polynomial(order, X, Y):
    """Return the part of the kernel that the parity layout represents exactly."""
    t = X @ Y.T
    lengths = np.outer((X**2).sum(1), (Y**2).sum(1))
    return (np.full(t.shape, 0.5), 0.5 * t, 0.5 * lengths + t**2)[order]


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("order", ORDERS)
def test_parity_components_are_the_polynomial_and_functions_of_projections(order, d, seed):
    X, Y = rows(seed, d=d), rows(seed + 1, d=d)
    m = RandomNeurons(3.0 * ArcCosine(order), 40, layout="parity", random_state=seed).fit(X)
    count = 40 - exact_width("parity", order, 0.0, d)
    Z, W = m.transform(X), m.transform(Y)
    np.testing.assert_allclose(Z[:, :-count] @ W[:, :-count].T, 3 * polynomial(order, X, Y), rtol=1e-12, atol=1e-12)
    expected = np.sqrt(3 / (2 * count)) * EVEN_OR_ODD[order](angles(m, X))
    np.testing.assert_allclose(Z[:, -count:], expected, atol=1e-12)


@pytest.mark.parametrize("directions", ["orthogonal", "big_block", "butterfly"])
@pytest.mark.parametrize(("order", "d"), list(product(ORDERS, (1, 2, 5))))
def test_residual_components_are_the_exact_polynomial_and_the_remainder_of_the_neurons(order, d, directions, seed):
    X, Y = rows(seed, d=d), rows(seed + 1, d=d)
    x, y = (np.linalg.norm(A, axis=1, keepdims=True) for A in (X, Y))
    m = RandomNeurons(ArcCosine(order), 60, layout="residual", directions=directions, random_state=seed).fit(X)
    count = m.features_.projection.n_frequencies
    p0, p1 = m.features_.exact.polynomial

    def residual(A):
        u = angles(m, A)
        return EVEN_OR_ODD[order](u) - (p0 + p1 * u**2 if order == 1 else p1 * u)

    random = (x @ y.T) ** order * (residual(X / x) @ residual(Y / y).T) / (2 * count)
    ambient = {"orthogonal": d, "big_block": count, "butterfly": 1}[directions]
    if directions == "butterfly":
        ambient = m.features_.projection.width
    exact = Expansion.of("residual", order, ambient)
    t = (X @ Y.T) / (x @ y.T)
    polynomial = exact.constant + exact.lengths + (exact.linear or 0) * t + (exact.quadratic or 0) * t**2
    np.testing.assert_allclose(m.gram(X, Y), (x @ y.T) ** order * polynomial + random, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_relu_components_are_neurons_of_both_signs(order, n, seed):
    X = rows(seed)
    m = RandomNeurons(ArcCosine(order), n, layout="relu", random_state=seed).fit(X)
    u = angles(m, X)
    both = np.hstack([u, -u])[:, :n]
    neurons = 0.5 * (1 + np.sign(both)) if order == 0 else np.maximum(both, 0) ** order
    np.testing.assert_allclose(m.transform(X), np.sqrt(2 / n) * neurons, atol=1e-12)


@pytest.mark.parametrize(("order", "layout"), list(product(ORDERS, ("residual", "parity", "relu", "single"))))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_zeros_have_the_exact_kernel(order, layout, dtype):
    X = np.zeros((2, 3), dtype)
    m = RandomNeurons(ArcCosine(order), 20, layout=layout).fit(X)
    tolerance = 1e-6 if dtype == np.float32 else 1e-14
    np.testing.assert_allclose(m.gram(X), ArcCosine(order)(X), rtol=0, atol=tolerance)
    np.testing.assert_allclose(m.transform(sp.csr_array(X)), m.transform(X), rtol=0, atol=0)


@pytest.mark.parametrize("order", ORDERS)
def test_overflow_and_nonfinite_entries_raise(order):
    m = RandomNeurons(ArcCosine(order), 30).fit(np.ones((1, 3)))
    most = np.finfo(np.float32).max ** (1 / max(1, order))
    assert np.isfinite(m.transform(np.full((1, 3), most * 1e-3, np.float32))).all()
    with pytest.raises(DataError, match="would overflow float32"):
        m.transform(np.full((1, 3), most * 0.9, np.float32))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="Input X contains"):
            m.transform([[1.0, bad, 0.0]])


def test_wide_dense_and_sparse_rows_have_the_same_features(seed):
    X = rows(seed, d=150)
    for order, layout in product(ORDERS, ("parity", "relu", "single")):
        width = 20 + exact_width(layout, order, 0.0, 150)
        m = RandomNeurons(ArcCosine(order), width, layout=layout, directions="iid", random_state=seed).fit(X)
        np.testing.assert_allclose(m.transform(X), m.transform(sp.csr_array(X)), rtol=1e-11, atol=1e-11)
    u = angles(m, X)
    np.testing.assert_allclose(m.transform(X), np.sqrt(2 / 20) * np.maximum(u, 0) ** 2, rtol=1e-10)
