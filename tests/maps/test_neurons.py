"""Random neurons: what is exact, what stands in each column, which layout is chosen, and what is refused."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    ArcCosine,
    CompositionMap,
    DataError,
    Gaussian,
    NoClosedFormError,
    ParameterError,
    Polynomial,
    ProductMap,
    RandomNeurons,
    SumMap,
    UnsupportedKernelError,
    neural_tangent_kernel,
)
from mercer.maps import default_map
from mercer.maps.directions import BIASED, DIRECTIONS
from mercer.maps.neurons import Expansion, exact_width, radius

ORDERS = (0, 1, 2)
EVEN_OR_ODD = (np.sign, np.abs, lambda u: u * np.abs(u))


def rows(seed, n=7, d=4):
    return np.random.default_rng(seed).normal(0.2, 1.0, size=(n, d)) * np.linspace(0.3, 3.0, n)[:, None]


def angles(m, X):
    return m.features_.projection(X)


def polynomial(order, X, Y):
    """Return the part of the kernel that is exact by parity."""
    t = X @ Y.T
    lengths = np.outer((X**2).sum(1), (Y**2).sum(1))
    return (np.full(t.shape, 0.5), 0.5 * t, 0.5 * lengths + t**2)[order]


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("order", ORDERS)
def test_parity_columns_are_the_polynomial_and_functions_of_projections(order, d, seed):
    X, Y = rows(seed, d=d), rows(seed + 1, d=d)
    m = RandomNeurons(3.0 * ArcCosine(order), 40, layout="parity", random_state=seed).fit(X)
    count = 40 - exact_width("parity", order, 0.0, d)
    Z, W = m.transform(X), m.transform(Y)
    np.testing.assert_allclose(Z[:, :-count] @ W[:, :-count].T, 3 * polynomial(order, X, Y), rtol=1e-12, atol=1e-12)
    expected = np.sqrt(3 / (2 * count)) * EVEN_OR_ODD[order](angles(m, X))
    np.testing.assert_allclose(Z[:, -count:], expected, atol=1e-12)


@pytest.mark.parametrize("directions", ["orthogonal", "big_block", "butterfly"])
@pytest.mark.parametrize(("order", "d"), list(product(ORDERS, (1, 2, 5))))
def test_residual_columns_are_the_parity_estimate_but_for_harmonics_of_low_degree(order, d, directions, seed):
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


def test_low_degrees_in_high_dimension_are_the_maclaurin_coefficients_of_the_kernels():
    # Hermite polynomials in the limit: coefficients of t in arc-cosine kernels of rows of unit length.
    for order, expected in ((0, (0.5, 1 / np.pi, 0)), (1, (1 / np.pi, 0.5, 0.5 / np.pi)), (2, (0.5, 4 / np.pi, 1))):
        low = Expansion.of("residual", order, 10**7)
        found = (low.constant + low.lengths, low.linear or 0, low.quadratic or 0)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("ambient", [2, 3, 4, 10, 300])
def test_what_is_left_of_the_neurons_is_orthogonal_to_what_was_taken_out(ambient):
    # The law of u / r is that of a coordinate of a uniform direction: Jacobi's weight, by quadrature in its angle.
    angle = (np.arange(200_000) + 0.5) * np.pi / 200_000
    weight = np.sin(angle) ** (ambient - 2)
    weight /= weight.sum()
    for order in ORDERS:
        u = radius(order, ambient) * np.cos(angle)
        p0, p1 = Expansion.of("residual", order, ambient).polynomial
        rest = EVEN_OR_ODD[order](u) - (p0 + p1 * u**2 if order == 1 else p1 * u)
        for power in (1,) if order != 1 else (0, 2):
            assert abs(weight @ (rest * u**power)) < 1e-7


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_pairs_are_neurons_of_both_signs(order, n, seed):
    X = rows(seed)
    m = RandomNeurons(ArcCosine(order), n, layout="relu", random_state=seed).fit(X)
    u = angles(m, X)
    both = np.hstack([u, -u])[:, :n]
    neurons = 0.5 * (1 + np.sign(both)) if order == 0 else np.maximum(both, 0) ** order
    np.testing.assert_allclose(m.transform(X), np.sqrt(2 / n) * neurons, atol=1e-12)


@pytest.mark.parametrize("order", ORDERS)
def test_whole_blocks_of_pairs_equal_the_parity_layout(order, seed):
    # Sums over an orthogonal block of (w . x)(w . y) are exact, so pairs lose nothing there but columns.
    X, d = rows(seed, d=4), 4
    pairs = RandomNeurons(ArcCosine(order), 2 * d, layout="relu", directions="orthogonal", random_state=seed).fit(X)
    width = d + exact_width("parity", order, 0.0, d)
    parity = RandomNeurons(ArcCosine(order), width, layout="parity", directions="orthogonal", random_state=seed).fit(X)
    if order < 2:
        np.testing.assert_allclose(pairs.gram(X), parity.gram(X), rtol=1e-11, atol=1e-12)
    else:  # fourth moments are not
        assert np.abs(pairs.gram(X) - parity.gram(X)).max() > 1e-3


@pytest.mark.parametrize("directions", ["orthogonal", "simplex", "big_block"])
@pytest.mark.parametrize("order", [0, 1])
def test_whole_blocks_by_parity_have_an_exact_diagonal(order, directions, seed):
    X = rows(seed, d=4)
    blocks = 10 if directions == "simplex" else 8
    width = exact_width("parity", order, 0.0, 4) + blocks
    m = RandomNeurons(ArcCosine(order), width, layout="parity", directions=directions).fit(X)
    np.testing.assert_allclose(np.diagonal(m.gram(X)), ArcCosine(order).diag(X), rtol=1e-12)


@pytest.mark.parametrize("constant", [0.0, 0.5])
@pytest.mark.parametrize("order", ORDERS)
def test_rows_of_one_column_are_exact_with_the_columns_said(order, constant, seed):
    X = np.vstack([rows(seed, d=1), -rows(seed + 1, d=1), np.zeros((1, 1))])
    kernel = 2.0 * ArcCosine(order) if constant == 0 else constant + 2.0 * ArcCosine(order)
    for layout in ("auto", "parity", "relu"):
        m = RandomNeurons(kernel, layout=layout)
        m.set_params(n_components=m.exact_columns(kernel, 1))
        np.testing.assert_allclose(m.fit(X).gram(X), kernel(X), rtol=1e-12, atol=1e-12)
    assert RandomNeurons(kernel).exact_columns(kernel, 2) is None
    wide = RandomNeurons(kernel, 30, layout="residual").fit(X)
    np.testing.assert_allclose(wide.gram(X), kernel(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("order", "layout"), list(product(ORDERS, ("residual", "parity", "relu", "single"))))
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_of_zeros_have_the_features_of_a_neuron_at_zero(order, layout, dtype):
    X = np.zeros((2, 3), dtype)
    m = RandomNeurons(ArcCosine(order), 20, layout=layout).fit(X)
    tolerance = 1e-6 if dtype == np.float32 else 1e-14
    np.testing.assert_allclose(m.gram(X), ArcCosine(order)(X), rtol=0, atol=tolerance)
    np.testing.assert_allclose(m.transform(sp.csr_array(X)), m.transform(X), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("order", "d", "n", "constant", "layout"),
    [
        (1, 4, 21, 0.0, "residual"),  # 14 of 21 columns
        (1, 4, 20, 0.0, "parity"),
        (1, 4, 6, 0.0, "parity"),
        (1, 4, 5, 0.0, "relu"),
        (1, 4, 1, 0.0, "relu"),
        (1, 4, 1, 1.0, "single"),  # no room for a constant column
        (0, 4, 8, 0.0, "residual"),
        (0, 4, 7, 1.0, "parity"),
        (0, 4, 2, 0.0, "parity"),
        (2, 4, 21, 0.0, "residual"),
        (2, 4, 15, 0.0, "parity"),
        (1, 5000, 512, 0.0, "relu"),
    ],
)
def test_the_layout_chosen_leaves_a_third_of_the_columns_to_neurons(order, d, n, constant, layout):
    kernel = constant + ArcCosine(order) if constant else ArcCosine(order)
    m = RandomNeurons(kernel, n).fit(sp.csr_array((1, d)))
    assert m.layout_ == layout
    assert m.transform(sp.csr_array((1, d))).shape == (1, n)


def test_directions_chosen_are_butterflies_for_wide_dense_rows_and_whole_blocks_where_there_are_such():
    X = np.ones((1, 40))
    assert RandomNeurons(n_components=100).fit(X).directions_ == "butterfly"
    assert RandomNeurons(n_components=100).fit(sp.csr_array(X)).directions_ == "big_block"
    assert RandomNeurons(n_components=100).fit(X[:, :5]).directions_ == "orthogonal"  # with the residual layout
    for n, directions in ((5 + 94, "big_block"), (5 + 95, "orthogonal"), (5 + 96, "simplex")):
        assert RandomNeurons(n_components=n, layout="parity").fit(X[:, :5]).directions_ == directions
    assert RandomNeurons(ArcCosine(2), 100, layout="relu").fit(X[:, :5]).directions_ == "orthogonal"


def test_every_family_of_directions_is_taken_and_says_whether_it_is_biased():
    for name in DIRECTIONS:
        m = RandomNeurons(n_components=30, directions=name)
        assert m.unbiased == m.fit(np.ones((1, 3))).unbiased == BIASED.get(name, True)


def test_too_few_columns_and_unknown_words_are_refused_with_a_way_out():
    X = np.ones((1, 4))
    with pytest.raises(ParameterError, match=r"layout='parity' has 4 exact columns .* got 4\. Try layout='auto'"):
        RandomNeurons(n_components=4, layout="parity").fit(X)
    with pytest.raises(ParameterError, match="layout must be one of 'auto', 'residual'"):
        RandomNeurons(layout="pairs").fit(X)
    with pytest.raises(ParameterError, match="directions must be one of 'auto', 'iid'"):
        RandomNeurons(directions="random").fit(X)
    with pytest.raises(UnsupportedKernelError, match="needs: an arc-cosine kernel"):
        RandomNeurons(Gaussian()).fit(X)
    assert not RandomNeurons.accepts(ArcCosine(0) + ArcCosine(1))
    assert RandomNeurons.accepts(1 + ArcCosine(1) + 2.0 * ArcCosine(1))


@pytest.mark.parametrize("order", ORDERS)
def test_rows_whose_features_would_overflow_are_refused(order):
    m = RandomNeurons(ArcCosine(order), 30).fit(np.ones((1, 3)))
    most = np.finfo(np.float32).max ** (1 / max(1, order))
    assert np.isfinite(m.transform(np.full((1, 3), most * 1e-3, np.float32))).all()
    with pytest.raises(DataError, match="would overflow float32"):
        m.transform(np.full((1, 3), most * 0.9, np.float32))
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match="Input X contains"):
            m.transform([[1.0, bad, 0.0]])


def test_a_closed_form_is_missing_where_it_says_so(seed):
    X = rows(seed)
    for choices in ({}, {"directions": "iid", "layout": "residual"}, {"layout": "parity"}):
        with pytest.raises(NoClosedFormError, match="try: "):
            RandomNeurons(n_components=100, **choices).fit(X).variance(X)


def test_wide_rows_without_a_fused_kernel_have_the_same_features(seed):
    X = rows(seed, d=150)
    for order, layout in product(ORDERS, ("parity", "relu", "single")):
        width = 20 + exact_width(layout, order, 0.0, 150)
        m = RandomNeurons(ArcCosine(order), width, layout=layout, directions="iid", random_state=seed).fit(X)
        np.testing.assert_allclose(m.transform(X), m.transform(sp.csr_array(X)), rtol=1e-11, atol=1e-11)
    u = angles(m, X)
    np.testing.assert_allclose(m.transform(X), np.sqrt(2 / 20) * np.maximum(u, 0) ** 2, rtol=1e-10)


def test_defaults_of_kernels_made_by_the_algebra():
    assert isinstance(default_map(ArcCosine(1)), RandomNeurons)
    assert isinstance(default_map(1 + 0.5 * ArcCosine(0)), RandomNeurons)
    assert isinstance(default_map(neural_tangent_kernel()), SumMap)
    assert isinstance(default_map(ArcCosine(0) * Gaussian()), ProductMap)
    assert isinstance(default_map(Polynomial(2) @ ArcCosine(1)), CompositionMap)


def test_the_neural_tangent_kernel_takes_its_linear_factor_exactly(seed):
    X = rows(seed, n=40)
    m = SumMap(neural_tangent_kernel(), 400, random_state=seed).fit(X)
    assert m.unbiased is True
    assert [type(part) for part in m.maps_] == [RandomNeurons, ProductMap]
    assert np.abs(m.gram(X) - neural_tangent_kernel()(X)).mean() < 0.05 * neural_tangent_kernel().diag(X).mean()
