"""Polynomial sketches: exact moments over all draws, accepted kernels, sparse rows, overflow."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    DataError,
    ExponentialDotProduct,
    Gaussian,
    ParameterError,
    Polynomial,
    PolynomialSketch,
    UnsupportedKernelError,
)


def rows(seed, n=30, d=4):
    return np.random.default_rng(seed).normal(0.3, 1.0, size=(n, d))


def fixed_generator(draws):
    """Return a substitute for a generator that returns these arrays of integers one after another."""
    draws = iter(draws)

    class FixedGenerator:
        def integers(self, low, high, size, dtype):
            values = np.array(next(draws), dtype=dtype).reshape(size)
            assert low <= values.min()
            assert values.max() < high
            return values

    return FixedGenerator()


@pytest.mark.parametrize(
    ("projection", "values", "width"),
    [("rademacher", 2, 1), ("rademacher", 2, 2), ("complex", 4, 1), ("complex", 4, 2)],
)
@pytest.mark.parametrize(
    "kernel",
    [
        Polynomial(1, 0.0),
        Polynomial(2, 0.0),
        3.0 * Polynomial(2, 0.0, scale=0.5),
        Polynomial(1, 0.7, scale=2.0),
    ],
    ids=repr,
)
def test_mean_and_variance_over_all_draws_are_exact(kernel, projection, values, width):
    X = np.array([[1.0, 2.0], [0.5, -1.5]])
    [(_, polynomial)] = kernel.summands()
    d, p = 2 + (polynomial.coef0 > 0), int(polynomial.degree)
    # The two parts of a complex component are one draw; two real components are two.
    draws = 1 if projection == "complex" else width
    if values ** (d * p * draws) > 5000:
        pytest.skip("too many draws to enumerate")
    m = PolynomialSketch(kernel, width, projection=projection)
    found = []
    for flat in product(range(values), repeat=d * p * draws):
        features = m._draw(kernel, X, None, fixed_generator(np.array(flat).reshape(p, d, draws)))
        Z = np.empty((2, width))
        features(X, Z)
        found.append(Z[0] @ Z[1])
    claimed = m.fit(X).variance(X)[0, 1]
    assert np.mean(found) == pytest.approx(kernel(X)[0, 1], rel=1e-12)
    assert np.var(found) == pytest.approx(claimed, rel=1e-12)


@pytest.mark.parametrize("projection", ["rademacher", "gaussian", "sphere", "complex", "srht"])
@pytest.mark.parametrize("kernel", [Polynomial(3, 0.5), 2.0 * Polynomial(2, 0.0, scale=0.25)], ids=repr)
def test_error_decreases_with_the_number_of_components_as_predicted(kernel, projection):
    X = rows(0, n=12)
    errors, predicted = [], []
    for width in (64, 4096):
        m = PolynomialSketch(kernel, width, projection=projection, random_state=1).fit(X)
        errors.append(np.square(m.gram(X) - kernel(X)).mean())
        predicted.append(m.variance(X).mean())
    assert predicted[0] / predicted[1] == pytest.approx(64, rel=0.5)
    # The mean over 144 entries of one draw has no guarantee, but a wrong power of the width is a factor of 64.
    assert errors[0] / errors[1] > 8


def test_components_have_one_projection_per_degree():
    X = rows(1)
    m = PolynomialSketch(Polynomial(5, 1.0), 6, projection="rademacher", random_state=0).fit(X)
    assert [w.shape for w in m.features_.products.weights] == [(5, 6)] * 5  # the constant is one more feature
    homogeneous = PolynomialSketch(Polynomial(5, 0.0), 6, projection="rademacher", random_state=0).fit(X)
    assert [w.shape for w in homogeneous.features_.products.weights] == [(4, 6)] * 5
    assert np.allclose(homogeneous.transform(2 * X), 32 * homogeneous.transform(X))


@pytest.mark.parametrize(
    "kernel", [ExponentialDotProduct(), Gaussian(), Polynomial(2) + Polynomial(3), Polynomial(2) * Gaussian()]
)
def test_other_kernels_raise(kernel):
    assert not PolynomialSketch.accepts(kernel)
    with pytest.raises(UnsupportedKernelError, match="polynomial kernel"):
        PolynomialSketch(kernel).fit(rows(0))


def test_unknown_projection_raises_and_lists_the_choices():
    with pytest.raises(ParameterError, match=r"rademacher.*srht"):
        PolynomialSketch(projection="uniform").fit(rows(0))


@pytest.mark.parametrize("projection", ["rademacher", "complex", "srht"])
def test_wide_sparse_rows_have_the_features_of_dense_rows(projection):
    X = sp.random_array((20, 3000), density=0.01, rng=np.random.default_rng(0), format="csr")
    m = PolynomialSketch(Polynomial(3, 0.5), 40, projection=projection, random_state=0).fit(X)
    assert np.allclose(m.transform(X), m.transform(X.toarray()), rtol=0, atol=1e-10)


def test_overflow_raises():
    m = PolynomialSketch(Polynomial(3), 8, random_state=0).fit(rows(0))
    for large in (1e110, 1e300):
        with pytest.raises(DataError, match="PolynomialSketch"):
            m.transform(np.full((3, 4), large))
    with pytest.raises(DataError, match=r"overflow\. Scale the rows down"):
        Polynomial(3)(np.full((3, 4), 1e300))


def test_independent_columns_for_products_of_maps():
    for projection, expected in [("complex", "rademacher"), ("srht", "rademacher"), ("sphere", "sphere")]:
        other = PolynomialSketch(projection=projection).with_independent_components(Polynomial(3), 7)
        assert (other.projection, other.n_components, other.kernel) == (expected, 7, Polynomial(3))
