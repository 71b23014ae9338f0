"""Draws for use within another map: any number of components, mixed with signs, shuffled, or refused."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    DotProduct,
    ExponentialDotProduct,
    Gaussian,
    Laplacian,
    Matern,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    SumMap,
    TensorSketch,
    Transformed,
)
from mercer.maps.algebra.copies import (
    PILOT_ROWS,
    MixedFeatures,
    Sample,
    ShuffledFeatures,
    draw_components,
    scalar_copies,
)

SIGNED = DotProduct([1.0, -0.5, 0.3], signed=True)
TWO_SERIES = Transformed(ExponentialDotProduct(), columns=(0,)) + Transformed(ExponentialDotProduct(), columns=(1, 2))


def rows(seed=0, n=30, d=3):
    return np.random.default_rng(seed).normal(0.2, 0.7, size=(n, d))


def features_of(drawn, X):
    Z = np.empty((X.shape[0], drawn.n_components), drawn.output_dtype(X.dtype))
    drawn.astype(X.dtype)(X, Z)
    return Z


def rng():
    return np.random.default_rng(5)


@pytest.mark.parametrize(
    ("prototype", "kernel", "kind"),
    [
        (RandomFourier(), Gaussian(), ShuffledFeatures),
        (RandomFourier(directions="hadamard"), Matern(), ShuffledFeatures),
        (RandomFourier(form="complex"), Matern(), ShuffledFeatures),  # cosines of random phase are real
        (RandomFourier(n_components=8), 0.5 + Gaussian(), MixedFeatures),
        (RandomMaclaurin(), ExponentialDotProduct(), ShuffledFeatures),
        (RandomMaclaurin(projection="complex"), Polynomial(2), ShuffledFeatures),
        (RandomMaclaurin(n_components=8), TWO_SERIES, MixedFeatures),
        (TensorSketch(n_components=8), Polynomial(2), MixedFeatures),
        (Nystroem(n_components=8), ExponentialDotProduct() @ Laplacian(), MixedFeatures),
        (SumMap(n_components=8), Matern() + Polynomial(2), MixedFeatures),
    ],
    ids=lambda value: "".join(repr(value).split()),
)
def test_copies_are_mixed_where_single_components_are_biased(prototype, kernel, kind):
    X = rows()
    drawn = scalar_copies(prototype, kernel, Sample(X, None, rng()), 7)
    assert isinstance(drawn, kind)
    assert drawn.n_components == 7
    Z = features_of(drawn, X)
    assert Z.shape == (30, 7)
    np.testing.assert_allclose(features_of(drawn, sp.csr_array(X)), Z, atol=1e-11)
    assert features_of(drawn, X.astype(np.float32)).dtype == np.float32
    np.testing.assert_array_equal(features_of(scalar_copies(prototype, kernel, Sample(X, None, rng()), 7), X), Z)
    assert not hasattr(prototype, "features_")  # the prototype itself is left alone
    assert prototype.kernel is None


def test_the_mean_over_all_signs_of_a_mixture_is_the_map():
    # All of 2^5 signs: an identity, not an estimate.
    X = rows()
    features = RandomFourier(0.5 + Laplacian(), 5, random_state=0).fit(X).features_
    Z = features_of(features, X)
    signs = np.array(list(product([-1.0, 1.0], repeat=5))).T
    W = features_of(MixedFeatures(features, signs), X)
    np.testing.assert_allclose(W @ W.T / 32, Z @ Z.T, atol=1e-12)
    # With equal signs cross terms remain.
    W = features_of(MixedFeatures(features, np.abs(signs)), X)
    assert np.abs(W @ W.T / 32 - Z @ Z.T).max() > 0.1


def test_a_shuffle_only_changes_the_order_and_the_scale():
    X = rows()
    features = RandomMaclaurin(ExponentialDotProduct(), 9, plan="random", random_state=0).fit(X).features_
    order = np.random.default_rng(0).permutation(9)
    np.testing.assert_array_equal(
        features_of(ShuffledFeatures(features, order, 3.0), X), 3 * features_of(features, X)[:, order]
    )


def test_copies_are_in_random_order():
    # A map may put high degrees first; its copies are in random order.
    X = rows()
    orders = [
        scalar_copies(RandomMaclaurin(), ExponentialDotProduct(), Sample(X, None, rng()), 20).order for _ in range(2)
    ]
    np.testing.assert_array_equal(orders[0], orders[1])
    assert sorted(orders[0]) == list(range(20))
    assert (orders[0] != np.arange(20)).any()


@pytest.mark.parametrize("count", [1, 2, 3, 50])
@pytest.mark.parametrize(
    ("prototype", "kernel"),
    [
        (RandomFourier(), Gaussian()),
        (RandomMaclaurin(), TWO_SERIES),
        (RandomMaclaurin(projection="complex"), ExponentialDotProduct()),
        (SumMap(), Matern() + Polynomial(3)),
    ],
    ids=lambda value: "".join(repr(value).split()),
)
def test_every_number_of_components_can_be_drawn(prototype, kernel, count):
    X = rows()
    drawn = draw_components(prototype, kernel, Sample(X, None, rng()), count)
    assert drawn.n_components == count
    assert np.isfinite(features_of(drawn, X)).all()


def test_a_map_below_its_least_width_is_drawn_wider_and_mixed():
    X = rows()
    assert RandomMaclaurin().least_components(TWO_SERIES) == 2
    assert RandomMaclaurin(projection="complex").least_components(ExponentialDotProduct()) == 2
    assert RandomFourier().least_components(Gaussian()) == 1
    drawn = draw_components(RandomMaclaurin(), TWO_SERIES, Sample(X, None, rng()), 1)
    assert isinstance(drawn, MixedFeatures)
    Z = features_of(drawn.features, X)
    np.testing.assert_allclose(np.square(features_of(drawn, X)[:, 0]), np.square(Z @ drawn.mixing[:, 0]))
    np.testing.assert_array_equal(np.abs(drawn.mixing), 1.0)


def test_complex_features_and_features_with_signs_are_refused():
    X = rows()
    with pytest.raises(ParameterError, match=r"has complex features, and cannot be a part .* Use form='pairs'"):
        draw_components(RandomFourier(form="complex"), Gaussian(), Sample(X, None, rng()), 8)
    with pytest.raises(ParameterError, match="has complex features"):
        scalar_copies(RandomFourier(form="complex"), 1 + Gaussian(), Sample(X, None, rng()), 8)
    for prototype in (RandomMaclaurin(), RandomMaclaurin(plan="random")):
        with pytest.raises(ParameterError, match=r"has features with signs, .* Use kernels with coefficients >= 0"):
            scalar_copies(prototype, SIGNED, Sample(X, None, rng()), 8)
    assert draw_components(RandomMaclaurin(), SIGNED, Sample(X, None, rng()), 10).signs.min() == -1


def test_pilot_rows_are_a_uniform_sample_and_weights_are_repetitions():
    X = np.arange(1000.0)[:, None]
    pilot, pair_weights = Sample(X, None, rng()).pilot()
    assert pilot.shape == (PILOT_ROWS, 1)
    assert pilot.max() > 900  # rows may be sorted
    np.testing.assert_allclose(pair_weights, PILOT_ROWS**-2.0)
    repeats = np.array([1, 3, 2])
    weighted, weights = Sample(X[:3], repeats.astype(float), rng()).pilot()
    repeated, equal = Sample(np.repeat(X[:3], repeats, axis=0), None, rng()).pilot()
    assert np.sum(weights * (weighted @ weighted.T)) == pytest.approx(np.sum(equal * (repeated @ repeated.T)))
    assert weights.sum() == pytest.approx(1)
