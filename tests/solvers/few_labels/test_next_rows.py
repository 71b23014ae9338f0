"""Rows to label next, against variances by brute force."""

import numpy as np
import pytest

from mercer.solvers.few_labels.next_rows import next_rows, posterior_covariance


def variances(Z, labeled, noise):
    """Return the variances of a Gaussian process with the kernel Z Z' after observations at some rows."""
    K = Z @ Z.T
    if len(labeled):
        some = K[np.ix_(labeled, labeled)] + noise * np.eye(len(labeled))
        K = K - K[:, labeled] @ np.linalg.solve(some, K[labeled])
    return np.diagonal(K).copy()


@pytest.mark.parametrize("labeled", [[], [3, 8]])
def test_rows_are_those_of_the_greatest_reduction_by_brute_force(labeled):
    Z = np.random.default_rng(0).normal(size=(25, 6)) * np.linspace(1.0, 0.2, 6)
    found, gains = next_rows(Z, Z.T @ Z / 25, Z[labeled], 4, noise=0.3)
    known = list(labeled)
    for row, gain in zip(found, gains, strict=True):
        before = variances(Z, known, 0.3).mean()
        after = [variances(Z, [*known, i], 0.3).mean() for i in range(25)]
        best = min((value, i) for i, value in enumerate(after) if i not in known[len(labeled) :])
        assert row == best[1]
        assert gain == pytest.approx(before - best[0])
        known.append(row)


def test_largest_variance():
    Z = np.random.default_rng(0).normal(size=(25, 6))
    found, gains = next_rows(Z, np.eye(6), Z[:2], 2, noise=0.3, criterion="largest")
    first = variances(Z, [0, 1], 0.3)
    assert found[0] == first.argmax()
    assert gains[0] == pytest.approx(first.max())
    second = variances(Z, [0, 1, found[0]], 0.3)
    second[found[0]] = -np.inf
    assert found[1] == second.argmax()


def test_covariance_without_labels_is_the_prior():
    assert posterior_covariance(np.zeros((0, 3)), 0.1, 3).tolist() == np.eye(3).tolist()
