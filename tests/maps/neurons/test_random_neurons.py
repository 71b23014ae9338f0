"""Random neurons: exactness, choice of layout and directions, and errors."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    ArcCosine,
    CompositionMap,
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
from mercer.maps.fourier.directions import DIRECTIONS
from mercer.maps.fourier.projections import BIASED
from mercer.maps.neurons.random_neurons import exact_width

ORDERS = (0, 1, 2)


def rows(seed, n=7, d=4):
    return np.random.default_rng(seed).normal(0.2, 1.0, size=(n, d)) * np.linspace(0.3, 3.0, n)[:, None]


@pytest.mark.parametrize("order", ORDERS)
def test_complete_blocks_of_relu_pairs_equal_the_parity_layout(order, seed):
    # The sum of (w . x)(w . y) over a complete orthogonal block is exact.
    X, d = rows(seed, d=4), 4
    pairs = RandomNeurons(ArcCosine(order), 2 * d, layout="relu", directions="orthogonal", random_state=seed).fit(X)
    width = d + exact_width("parity", order, 0.0, d)
    parity = RandomNeurons(ArcCosine(order), width, layout="parity", directions="orthogonal", random_state=seed).fit(X)
    if order < 2:
        np.testing.assert_allclose(pairs.gram(X), parity.gram(X), rtol=1e-11, atol=1e-12)
    else:  # fourth moments are not exact
        assert np.abs(pairs.gram(X) - parity.gram(X)).max() > 1e-3


@pytest.mark.parametrize("directions", ["orthogonal", "simplex", "big_block"])
@pytest.mark.parametrize("order", [0, 1])
def test_parity_layout_with_complete_blocks_has_an_exact_diagonal(order, directions, seed):
    X = rows(seed, d=4)
    blocks = 10 if directions == "simplex" else 8
    width = exact_width("parity", order, 0.0, 4) + blocks
    m = RandomNeurons(ArcCosine(order), width, layout="parity", directions=directions).fit(X)
    np.testing.assert_allclose(np.diagonal(m.gram(X)), ArcCosine(order).diag(X), rtol=1e-12)


@pytest.mark.parametrize("constant", [0.0, 0.5])
@pytest.mark.parametrize("order", ORDERS)
def test_rows_with_one_feature_are_exact(order, constant, seed):
    X = np.vstack([rows(seed, d=1), -rows(seed + 1, d=1), np.zeros((1, 1))])
    kernel = 2.0 * ArcCosine(order) if constant == 0 else constant + 2.0 * ArcCosine(order)
    for layout in ("auto", "parity", "relu"):
        m = RandomNeurons(kernel, layout=layout)
        m.set_params(n_components=m.exact_components(kernel, 1))
        np.testing.assert_allclose(m.fit(X).gram(X), kernel(X), rtol=1e-12, atol=1e-12)
    assert RandomNeurons(kernel).exact_components(kernel, 2) is None
    wide = RandomNeurons(kernel, 30, layout="residual").fit(X)
    np.testing.assert_allclose(wide.gram(X), kernel(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("order", "d", "n", "constant", "layout"),
    [
        (1, 4, 21, 0.0, "residual"),  # 14 of 21 components are exact
        (1, 4, 20, 0.0, "parity"),
        (1, 4, 6, 0.0, "parity"),
        (1, 4, 5, 0.0, "relu"),
        (1, 4, 1, 0.0, "relu"),
        (1, 4, 1, 1.0, "single"),  # no component left for the constant
        (0, 4, 8, 0.0, "residual"),
        (0, 4, 7, 1.0, "parity"),
        (0, 4, 2, 0.0, "parity"),
        (2, 4, 21, 0.0, "residual"),
        (2, 4, 15, 0.0, "parity"),
        (1, 5000, 512, 0.0, "relu"),
    ],
)
def test_auto_layout_leaves_a_third_of_the_components_to_neurons(order, d, n, constant, layout):
    kernel = constant + ArcCosine(order) if constant else ArcCosine(order)
    m = RandomNeurons(kernel, n).fit(sp.csr_array((1, d)))
    assert m.layout_ == layout
    assert m.transform(sp.csr_array((1, d))).shape == (1, n)


def test_auto_directions_are_butterflies_for_wide_rows_and_complete_blocks_where_possible():
    X = np.ones((1, 40))
    assert RandomNeurons(n_components=100).fit(X).directions_ == "butterfly"
    assert RandomNeurons(n_components=100).fit(sp.csr_array(X)).directions_ == "butterfly"
    assert RandomNeurons(n_components=100).fit(X[:, :5]).directions_ == "orthogonal"  # with the residual layout
    for n, directions in ((5 + 94, "big_block"), (5 + 95, "orthogonal"), (5 + 96, "simplex")):
        assert RandomNeurons(n_components=n, layout="parity").fit(X[:, :5]).directions_ == directions
    assert RandomNeurons(ArcCosine(2), 100, layout="relu").fit(X[:, :5]).directions_ == "orthogonal"


def test_unbiased_depends_on_the_directions():
    for name in DIRECTIONS:
        m = RandomNeurons(n_components=30, directions=name)
        assert m.unbiased == m.fit(np.ones((1, 3))).unbiased == BIASED.get(name, True)


def test_too_few_components_and_invalid_choices_raise():
    X = np.ones((1, 4))
    with pytest.raises(ParameterError, match=r"layout='parity' has 4 exact components .* got 4\. Try layout='auto'"):
        RandomNeurons(n_components=4, layout="parity").fit(X)
    with pytest.raises(ParameterError, match="layout must be one of 'auto', 'residual'"):
        RandomNeurons(layout="pairs").fit(X)
    with pytest.raises(ParameterError, match="directions must be one of 'auto', 'iid'"):
        RandomNeurons(directions="random").fit(X)
    with pytest.raises(UnsupportedKernelError, match="needs: an arc-cosine kernel"):
        RandomNeurons(Gaussian()).fit(X)
    assert not RandomNeurons.accepts(ArcCosine(0) + ArcCosine(1))
    assert RandomNeurons.accepts(1 + ArcCosine(1) + 2.0 * ArcCosine(1))


def test_variance_without_closed_form_raises(seed):
    X = rows(seed)
    for choices in ({}, {"directions": "iid", "layout": "residual"}, {"layout": "parity"}):
        with pytest.raises(NoClosedFormError, match="try: "):
            RandomNeurons(n_components=100, **choices).fit(X).variance(X)


def test_default_maps_of_kernels_with_arc_cosine_parts():
    assert isinstance(default_map(ArcCosine(1)), RandomNeurons)
    assert isinstance(default_map(1 + 0.5 * ArcCosine(0)), RandomNeurons)
    assert isinstance(default_map(neural_tangent_kernel()), SumMap)
    assert isinstance(default_map(ArcCosine(0) * Gaussian()), ProductMap)
    assert isinstance(default_map(Polynomial(2) @ ArcCosine(1)), CompositionMap)


def test_map_of_the_neural_tangent_kernel_is_close(seed):
    X = rows(seed, n=40)
    m = SumMap(neural_tangent_kernel(), 400, random_state=seed).fit(X)
    assert m.unbiased is True
    assert [type(part) for part in m.maps_] == [RandomNeurons, ProductMap]
    assert np.abs(m.gram(X) - neural_tangent_kernel()(X)).mean() < 0.05 * neural_tangent_kernel().diag(X).mean()
