"""Rows, features and pairs that are measured."""

import numpy as np

from mercer import Gaussian, RandomFourier
from mercer.diagnostics.subject import Subject

X = np.random.default_rng(0).normal(size=(150, 3))


def subject(n_rows):
    return Subject("map", RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X), X, None, n_rows, 7)


def test_blocks_of_all_pairs_are_the_matrix_of_errors():
    one = subject(150)
    assert one.all_pairs
    errors = np.concatenate([pairs.error for pairs in one.errors()])
    np.testing.assert_allclose(errors, one.feature_map.gram(X) - Gaussian(2.0)(X), atol=1e-12)


def test_blocks_of_random_pairs_have_the_errors_of_their_rows():
    one = subject(100)
    assert not one.all_pairs
    expected = one.feature_map.gram(X) - Gaussian(2.0)(X)
    for pairs in one.errors():
        np.testing.assert_allclose(pairs.error, expected[np.ix_(pairs.left, pairs.right)], atol=1e-12)
        np.testing.assert_array_equal(pairs.left, one.pairs.left[pairs.block])
    np.testing.assert_array_equal(one.pairs.left, subject(100).pairs.left)


def test_random_rows_of_different_purposes_differ():
    one = subject(100)
    rows = one.some_rows(50, "ridge")
    assert len(np.unique(rows)) == 50
    assert not np.array_equal(rows, one.some_rows(50, "spectral"))
    assert sorted(one.some_rows(1000, "ridge")) == list(range(150))
