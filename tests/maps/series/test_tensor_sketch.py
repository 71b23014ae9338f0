"""Tensor sketches: exact moments over all draws, accepted kernels, sparse and wide rows, overflow."""

import tracemalloc
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import (
    DataError,
    ExponentialDotProduct,
    Gaussian,
    Polynomial,
    TensorSketch,
    Transformed,
    UnsupportedKernelError,
)
from mercer.maps.series.tensor_sketch import LinearFactor, product_form


def rows(seed, n=30, d=4):
    return np.random.default_rng(seed).normal(0.3, 1.0, size=(n, d))


def fixed_generator(buckets, signs):
    """Return a substitute for a generator that returns these buckets and signs, factor by factor."""
    buckets, signs = iter(buckets), iter(signs)

    class FixedGenerator:
        def integers(self, high, size):
            return np.array(next(buckets))

        def choice(self, values, size):
            return np.array(next(signs), dtype=float)

    return FixedGenerator()


def all_estimates(kernel, x, y, width):
    """Return the approximate k(x, y) of every possible draw, without the draws of an unused constant."""
    X = np.array([x, y], dtype=float)
    factors = product_form(kernel).factors
    choices = []
    for factor in factors:
        columns = X.shape[1] + (factor.coef0 > 0)
        filler = (0,) * (X.shape[1] + 1 - columns)
        choices.append(
            [
                (h + filler, s + (1,) * len(filler))
                for h in product(range(width), repeat=columns)
                for s in product((-1, 1), repeat=columns)
            ]
        )
    estimates = []
    for draw in product(*choices):
        features = TensorSketch(kernel, width)._draw(kernel, X, None, fixed_generator(*zip(*draw, strict=True)))
        Z = np.empty((2, width))
        features(X, Z)
        estimates.append(Z[0] @ Z[1])
    return np.array(estimates)


@pytest.mark.parametrize(
    ("kernel", "x", "y", "width"),
    [
        (Polynomial(1, 0.0), (1.0, 2.0, -0.5), (0.5, -1.0, 3.0), 3),
        (Polynomial(1, 0.7), (1.0, 2.0), (0.5, -1.0), 4),
        (Polynomial(2, 0.0), (1.0, 2.0), (0.5, 1.5), 2),
        (Polynomial(2, 0.0), (1.0, 2.0), (0.5, 1.5), 3),
        (2.5 * Polynomial(2, 0.7), (1.5,), (0.5,), 2),
        (Polynomial(2, 2.0, scale=0.3), (-1.5,), (0.5,), 3),
        (Polynomial(3, 0.0), (1.0, 2.0), (0.5, 1.0), 2),
        (Polynomial(3, 0.0) * 3, (1.0, -0.4), (0.5, 1.0), 1),
        (Transformed(Polynomial(2, 0.0), columns=(1, 0), lengthscales=(0.5, 3.0)), (1.0, 2.0), (0.5, 1.0), 2),
        (Polynomial(1, 0.0) * Transformed(Polynomial(1, 0.0), lengthscales=(2.0, 5.0)), (1.0, 2.0), (3.0, 1.0), 3),
    ],
    ids=repr,
)
def test_mean_and_variance_over_all_draws_are_exact(kernel, x, y, width):
    estimates = all_estimates(kernel, x, y, width)
    X, Y = np.array([x]), np.array([y])
    fitted = TensorSketch(kernel, width, random_state=0).fit(X)
    assert fitted.unbiased is True
    np.testing.assert_allclose(estimates.mean(), kernel(X, Y)[0, 0], rtol=1e-12)
    np.testing.assert_allclose(estimates.var(), fitted.variance(X, Y)[0, 0], rtol=1e-10)


def test_sketch_is_the_count_sketch_of_all_products_of_features():
    X, width = rows(0), 7
    m = TensorSketch(Polynomial(3, 0.0), width, random_state=1).fit(X)
    a, b, c = m.features_.sketches
    expected = np.zeros((len(X), width))
    for i, j, k in product(range(X.shape[1]), repeat=3):
        bucket = (a.buckets[i] + b.buckets[j] + c.buckets[k]) % width
        expected[:, bucket] += a.entries[i] * b.entries[j] * c.entries[k] * X[:, i] * X[:, j] * X[:, k]
    np.testing.assert_allclose(m.transform(X), expected, rtol=0, atol=1e-12 * np.abs(expected).max())


def test_constant_is_one_more_feature():
    X = rows(0)
    m = TensorSketch(Polynomial(2, 0.25), 5, random_state=1).fit(X)
    wider = TensorSketch(Polynomial(2, 0.0), 5, random_state=1).fit(np.column_stack([X, X[:, :1]]))
    first, second = m.features_.sketches
    for sketch in (first, second):
        assert np.count_nonzero(sketch.offset) == 1
        assert abs(sketch.offset).max() == 0.5
    # The same buckets and signs on rows with an explicit feature of 0.5.
    entries = [np.append(s.entries, 2 * s.offset.sum()) for s in (first, second)]
    buckets = [np.append(s.buckets, np.flatnonzero(s.offset)).astype(np.int32) for s in (first, second)]
    for sketch, e, b in zip(wider.features_.sketches, entries, buckets, strict=True):
        sketch.entries[:], sketch.buckets[:] = e, b
    extended = np.column_stack([X, np.full(len(X), 0.5)])
    np.testing.assert_allclose(m.transform(X), wider.transform(extended), rtol=0, atol=1e-13)


def test_affine_input_map_equals_transforming_the_rows():
    X = rows(0)
    center, lengthscales = (0.3, -1.0, 2.0), (0.5, 2.0, 1.5)
    kernel = Transformed(Polynomial(3, 0.8), columns=(3, 0, 1), center=center, lengthscales=lengthscales)
    moved = (X[:, [3, 0, 1]] - center) / lengthscales
    outer = TensorSketch(kernel, 16, random_state=2).fit(X)
    inner = TensorSketch(Polynomial(3, 0.8), 16, random_state=2).fit(moved)
    np.testing.assert_allclose(outer.transform(X), inner.transform(moved), rtol=0, atol=1e-11)
    np.testing.assert_allclose(outer.transform(sp.csr_array(X)), inner.transform(moved), rtol=0, atol=1e-11)
    np.testing.assert_allclose(outer.variance(X), inner.variance(moved), rtol=1e-10)
    twice = Transformed(kernel, lengthscales=(2.0,) * 4)
    np.testing.assert_allclose(
        TensorSketch(twice, 16, random_state=2).fit(X).transform(2 * X), outer.transform(X), rtol=0, atol=1e-11
    )


def test_weight_of_the_kernel_scales_features_by_its_square_root():
    X = rows(0)
    plain = TensorSketch(Polynomial(2), 8, random_state=0).fit(X)
    scaled = TensorSketch(2.0 * (Polynomial(2) * 4.5), 8, random_state=0).fit(X)
    np.testing.assert_allclose(scaled.transform(X), 3 * plain.transform(X), rtol=1e-12)
    np.testing.assert_allclose(scaled.variance(X), 81 * plain.variance(X), rtol=1e-12)
    np.testing.assert_array_equal(TensorSketch(0 * Polynomial(2), 8).fit_transform(X), 0.0)


def test_product_form_of_kernels():
    linear = LinearFactor(coef0=1.0, scale=1.0)
    assert product_form(Polynomial(3)).factors == (linear,) * 3
    both = product_form(2.0 * Polynomial(1) * (Polynomial(2, 0.0) * 3.0))
    assert both.weight == 6.0
    assert both.factors == (linear, LinearFactor(0.0, 1.0), LinearFactor(0.0, 1.0))
    for kernel in (
        Gaussian(),
        ExponentialDotProduct(),
        Polynomial() + Polynomial(),
        Polynomial() * Gaussian(),
        1 + Polynomial(),
    ):
        assert product_form(kernel) is None
        assert not TensorSketch.accepts(kernel)


def test_other_kernels_raise():
    with pytest.raises(UnsupportedKernelError, match="TensorSketch cannot approximate Gaussian") as error:
        TensorSketch(Gaussian()).fit(rows(0))
    lines = str(error.value).splitlines()
    assert lines[1] == "  needs: a polynomial kernel, k(x, y) = (c + s x . y)^p, or a product of such kernels"
    assert lines[3].startswith("  try:   ")
    assert "RandomFourier" in lines[3]


def test_default_kernel_has_degree_two():
    assert TensorSketch(n_components=4).fit(rows(0)).kernel_ == Polynomial(degree=2)


@pytest.mark.parametrize("width", [1, 2, 3, 8, 13])
@pytest.mark.parametrize("degree", [1, 2, 5])
def test_any_number_of_components_and_degree_in_both_dtypes(width, degree):
    X = rows(0) / 3
    m = TensorSketch(Polynomial(degree), width, random_state=0).fit(X)
    Z, Z32 = m.transform(X), m.transform(X.astype(np.float32))
    assert Z.shape == Z32.shape == (30, width)
    assert (Z.dtype, Z32.dtype) == (np.float64, np.float32)
    np.testing.assert_allclose(Z32, Z, rtol=0, atol=1e-5 * np.abs(Z).max())


def test_many_components_are_close_to_the_kernel():
    X = rows(0) / 2
    kernel = Polynomial(2)
    m = TensorSketch(kernel, 1 << 14, random_state=0).fit(X)
    # Ten standard deviations of every value; by Chebyshev's inequality at most one value in a hundred is beyond.
    assert (np.abs(m.gram(X) - kernel(X)) <= 10 * np.sqrt(m.variance(X)) + 1e-12).all()
    assert np.sqrt(m.variance(X)).max() < 0.1 * kernel(X).max()


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csr_array])
def test_sparse_rows_have_the_features_and_the_variance_of_dense_rows(make):
    X = rows(0) * (rows(1) > 0.3)
    for kernel in (Polynomial(3), Transformed(Polynomial(2), center=(1.0, 0.0, 2.0, 3.0))):
        m = TensorSketch(kernel, 10, random_state=0).fit(X)
        np.testing.assert_allclose(m.transform(make(X)), m.transform(X), rtol=0, atol=1e-12 * kernel(X).max())
        np.testing.assert_allclose(m.variance(make(X)), m.variance(X), rtol=1e-10)
        np.testing.assert_allclose(m.variance(make(X), X), m.variance(X), rtol=1e-10)


def test_duplicate_entries_of_sparse_rows_are_summed():
    twice = sp.csr_array((np.array([1.0, 2.0, 5.0]), np.array([3, 3, 0]), np.array([0, 3])), shape=(1, 4))
    m = TensorSketch(Polynomial(2), 6, random_state=0).fit(rows(0))
    np.testing.assert_allclose(m.transform(twice.copy()), m.transform(twice.toarray()), rtol=0, atol=1e-13)


def test_memory_for_wide_sparse_rows_is_that_of_the_sketch():
    d, n, width = 130_107, 64, 4096
    X = sp.random_array((n, d), density=1e-3, rng=0, format="csr", dtype=np.float32)
    kernel = Polynomial(3)
    m = TensorSketch(kernel, width, random_state=0, n_jobs=1)
    tracemalloc.start()
    Z = m.fit(X).transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert Z.dtype == np.float32
    drawn = 3 * (d * 12 + width * 8)
    # The draw with its temporaries and its float32 copy, and a few blocks of features. A d x D matrix would take two
    # gigabytes, and dense rows 33 megabytes.
    assert peak < 3 * drawn + 8 * Z.nbytes < 30e6


def test_overflow_raises():
    X = np.full((3, 4), 1e6, np.float32)
    m = TensorSketch(Polynomial(7), 8, random_state=0).fit(X.astype(np.float64))
    assert np.isfinite(m.transform(X.astype(np.float64))).all()
    with pytest.raises(DataError, match=r"TensorSketch: a product of 7 factors overflows float32. Scale the rows down"):
        m.transform(X)
