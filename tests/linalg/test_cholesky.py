"""Cholesky factors in place against NumPy, unblocked and block by block."""

import numpy as np
import pytest

from mercer.linalg import cholesky
from mercer.linalg.cholesky import factorize, inverse_root

block_sizes = pytest.mark.parametrize(
    ("max_unblocked", "block"), [(100, 100), (0, 1), (0, 7), (0, 8), (0, 40), (0, 64)]
)


def positive(n=40, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n + 5))
    return A @ A.T + np.eye(n)


def upper_only(A):
    """Replace the entries below the diagonal by NaN."""
    return np.where(np.tri(len(A), k=-1) > 0, np.nan, A)


@block_sizes
def test_factor_uses_only_the_upper_triangle(max_unblocked, block, monkeypatch):
    monkeypatch.setattr(cholesky, "MAX_UNBLOCKED", max_unblocked)
    monkeypatch.setattr(cholesky, "BLOCK", block)
    A = positive()
    found = upper_only(A)
    assert factorize(found) is True
    np.testing.assert_allclose(np.triu(found), np.linalg.cholesky(A).T, rtol=0, atol=1e-13 * np.abs(A).max())


@block_sizes
@pytest.mark.parametrize("position", [0, 6, 7, 20, 39])
def test_indefinite_matrix_returns_false(max_unblocked, block, position, monkeypatch):
    monkeypatch.setattr(cholesky, "MAX_UNBLOCKED", max_unblocked)
    monkeypatch.setattr(cholesky, "BLOCK", block)
    A = positive()
    R = np.linalg.cholesky(A)
    A[position, position] -= 1.01 * R[position, position] ** 2  # slightly more than the pivot there
    assert factorize(A) is False


@block_sizes
@pytest.mark.parametrize("position", [(0, 0), (20, 20), (39, 39), (3, 30), (38, 39)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_matrix_that_is_not_finite_returns_false(max_unblocked, block, position, value, monkeypatch):
    monkeypatch.setattr(cholesky, "MAX_UNBLOCKED", max_unblocked)
    monkeypatch.setattr(cholesky, "BLOCK", block)
    A = positive()
    A[position] = value
    with np.errstate(invalid="ignore"):
        assert factorize(A) is False


@block_sizes
@pytest.mark.parametrize("n", [1, 2, 40])
def test_inverse_root_is_triangular_and_in_place(max_unblocked, block, n, monkeypatch):
    monkeypatch.setattr(cholesky, "MAX_UNBLOCKED", max_unblocked)
    monkeypatch.setattr(cholesky, "BLOCK", block)
    A = positive(n)
    R = upper_only(A)
    assert factorize(R)
    T = inverse_root(R)
    assert T is R
    np.testing.assert_array_equal(T, np.triu(T))
    np.testing.assert_allclose(T @ T.T, np.linalg.inv(A), rtol=0, atol=1e-12)
