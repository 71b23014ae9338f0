"""Features of several maps of the same rows, against the features of each map."""

from dataclasses import dataclass

import numpy as np
import pytest

from mercer import DataError
from mercer.features import Features
from mercer.maps.algebra.joined import KroneckerFeatures, PairedFeatures, StackedFeatures

X = np.random.default_rng(0).normal(size=(6, 3))


@dataclass(frozen=True)
class Linear(Features):
    """Features that are linear functions of rows."""

    weights: np.ndarray
    signs: np.ndarray | None = None

    @property
    def n_components(self):
        return self.weights.shape[1]

    def astype(self, dtype):
        return Linear(self.weights.astype(dtype), self.signs)

    def __call__(self, X, out):
        out[...] = X @ self.weights


def linear(width, seed, signs=None):
    return Linear(np.random.default_rng(seed).normal(size=(3, width)), signs)


def columns(features, X=X):
    out = np.full((len(X), features.n_components), np.nan, features.output_dtype(X.dtype))
    features(X, out)
    return out


def test_stacked_features_are_concatenated_and_filled_with_zeros():
    a, b = linear(2, 0), linear(3, 1)
    Z = columns(StackedFeatures((a, b), 7))
    np.testing.assert_array_equal(Z, np.hstack([columns(a), columns(b), np.zeros((6, 2))]))


def test_stacked_signs_are_those_of_the_parts():
    a, b = linear(2, 0), linear(3, 1, np.array([1.0, -1.0, 1.0]))
    assert StackedFeatures((a, a), 5).signs is None
    np.testing.assert_array_equal(StackedFeatures((a, b), 6).signs, [1, 1, 1, -1, 1, 1])


def test_paired_features_are_componentwise_products():
    a, b, c = (linear(5, seed) for seed in range(3))
    Z = columns(PairedFeatures((a, b, c), 5))
    np.testing.assert_allclose(Z, columns(a) * columns(b) * columns(c) / np.sqrt(5), rtol=1e-14)


def test_kronecker_features_are_products_of_all_pairs():
    a, b = linear(2, 0), linear(2, 1)
    inner = tuple(linear(width, 2 + i) for i, width in enumerate((1, 2, 3, 1)))
    Z = columns(KroneckerFeatures((a, b), 9, inner))
    outer = [columns(a)[:, i] * columns(b)[:, j] for i in range(2) for j in range(2)]
    expected = [outer[i][:, None] * columns(one) for i, one in enumerate(inner)]
    np.testing.assert_allclose(Z, np.hstack([*expected, np.zeros((6, 2))]), rtol=1e-14)


@pytest.mark.parametrize("kind", ["stacked", "paired", "kronecker"])
def test_astype_casts_all_parts(kind):
    a, b = linear(4, 0), linear(4, 1)
    features = {
        "stacked": StackedFeatures((a, b), 8),
        "paired": PairedFeatures((a, b), 4),
        "kronecker": KroneckerFeatures((a,), 16, (b,) * 4),
    }[kind]
    single = features.astype(np.float32)
    assert type(single) is type(features)
    assert single.output_dtype(np.float32) == np.float32
    parts = (*single.parts, *getattr(single, "inner", ()))
    assert {part.weights.dtype for part in parts} == {np.dtype(np.float32)}
    np.testing.assert_allclose(columns(single, X.astype(np.float32)), columns(features), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["paired", "kronecker"])
def test_products_that_overflow_are_refused(kind):
    huge = Linear(np.full((3, 1), 1e200))
    features = PairedFeatures((huge, huge), 1) if kind == "paired" else KroneckerFeatures((huge,), 1, (huge,))
    with pytest.raises(DataError, match="ProductMap: features overflow float64"):
        columns(features, np.ones((2, 3)))
