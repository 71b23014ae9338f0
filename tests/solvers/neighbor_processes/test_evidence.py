"""The evidence of a local model: that of the exact process where all predecessors are near rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from mercer import Matern, Nystroem
from mercer.neighbors import neighbor_index
from mercer.solvers.local.near_kernel import NearKernel
from mercer.solvers.local.near_model import NearProblem
from mercer.solvers.local.near_rows import NearRows
from mercer.solvers.neighbor_processes.evidence import log_evidence

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = np.column_stack([np.sin(X[:, 0]), X[:, 1]]) + 0.2 * RNG.normal(size=(40, 2))
KERNEL = Matern(1.5, 1.3)
ALPHA, SCALE = np.array([0.1, 0.3]), np.array([0.8, 1.7])


def problem_of(X, Y, weight=None, *, features, neighbors=40):
    rows = NearRows.of(X, Y, weight, len(X), is_complete=True)
    near = NearKernel.of(KERNEL)
    points = near.points(rows.X)
    problem = NearProblem(near, rows, points, neighbor_index(points), neighbors)
    if features:
        feature_map = Nystroem(KERNEL, 7, random_state=0).fit(X)
        Z = feature_map.transform(rows.X)
        problem = replace(problem, features=feature_map.features_, row_features=Z, removed=Z, residual_is_kernel=True)
    return problem


def exact(X, y, alpha, scale, weight=None):
    noise = np.diag(alpha / (np.ones(len(X)) if weight is None else weight))
    return stats.multivariate_normal(np.zeros(len(X)), scale * (KERNEL(X) + noise)).logpdf(y)


@pytest.mark.parametrize("features", [False, True])
def test_evidence_with_all_predecessors_is_exact(features):
    found = log_evidence(problem_of(X, Y, features=features), ALPHA, SCALE)
    expected = [exact(X, Y[:, t], ALPHA[t], SCALE[t]) for t in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    few = log_evidence(problem_of(X, Y, features=features, neighbors=2), ALPHA, SCALE)
    assert (np.abs(few / expected - 1) > 1e-3).all()


def test_copies_of_rows_are_counted():
    counts = np.arange(40) % 3 + 1
    rows, targets = np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0)
    targets = targets + 0.1 * RNG.normal(size=targets.shape)
    found = log_evidence(problem_of(rows, targets, features=True), ALPHA, SCALE)
    expected = [exact(rows, targets[:, t], ALPHA[t], SCALE[t]) for t in range(2)]
    np.testing.assert_allclose(found, expected, rtol=1e-8)
