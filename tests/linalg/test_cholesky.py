"""Factors in place against NumPy's, whole and by blocks."""

import numpy as np
import pytest

from mercer.linalg import cholesky
from mercer.linalg.cholesky import factorize, inverse_root

blocks = pytest.mark.parametrize(("whole", "block"), [(100, 100), (0, 1), (0, 7), (0, 8), (0, 40), (0, 64)])


def positive(n=40, seed=0):
    A = np.random.default_rng(seed).normal(size=(n, n + 5))
    return A @ A.T + np.eye(n)


def upper_only(A):
    """Hide what stands below the diagonal."""
    return np.where(np.tri(len(A), k=-1) > 0, np.nan, A)


@blocks
def test_is_the_factor_of_the_upper_triangle(whole, block, monkeypatch):
    monkeypatch.setattr(cholesky, "WHOLE", whole)
    monkeypatch.setattr(cholesky, "BLOCK", block)
    A = positive()
    found = upper_only(A)
    assert factorize(found) is True
    np.testing.assert_allclose(np.triu(found), np.linalg.cholesky(A).T, rtol=0, atol=1e-13 * np.abs(A).max())


@blocks
@pytest.mark.parametrize("place", [0, 6, 7, 20, 39])
def test_says_where_there_is_none(whole, block, place, monkeypatch):
    monkeypatch.setattr(cholesky, "WHOLE", whole)
    monkeypatch.setattr(cholesky, "BLOCK", block)
    A = positive()
    R = np.linalg.cholesky(A)
    A[place, place] -= 1.01 * R[place, place] ** 2  # as much as the pivot there, and a little more
    assert factorize(A) is False


@blocks
@pytest.mark.parametrize("place", [(0, 0), (20, 20), (39, 39), (3, 30), (38, 39)])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_has_none(whole, block, place, value, monkeypatch):
    monkeypatch.setattr(cholesky, "WHOLE", whole)
    monkeypatch.setattr(cholesky, "BLOCK", block)
    A = positive()
    A[place] = value
    with np.errstate(invalid="ignore"):
        assert factorize(A) is False


@blocks
@pytest.mark.parametrize("n", [1, 2, 40])
def test_inverse_roots_are_triangles(whole, block, n, monkeypatch):
    monkeypatch.setattr(cholesky, "WHOLE", whole)
    monkeypatch.setattr(cholesky, "BLOCK", block)
    A = positive(n)
    R = upper_only(A)
    assert factorize(R)
    T = inverse_root(R)
    assert T is R
    np.testing.assert_array_equal(T, np.triu(T))
    np.testing.assert_allclose(T @ T.T, np.linalg.inv(A), rtol=0, atol=1e-12)
