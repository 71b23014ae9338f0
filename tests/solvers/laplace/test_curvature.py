"""Sums of second derivatives: against a dense computation, in any blocks, and with one matrix for many labels."""

import numpy as np
import pytest
from scipy import special

from mercer.engines import MemoryEngine
from mercer.solvers.laplace import curvature
from mercer.solvers.laplace.curvature import HessianSum, inverse_roots
from mercer.solvers.laplace.evidence import INTERCEPT_DEVIATION, LabeledFeatures
from mercer.solvers.losses.fit import AsGiven
from mercer.solvers.losses.losses import Logistic, Problem
from mercer.statistics.feature_cache import RowFeatures

RNG = np.random.default_rng(0)
N, D, VARIANCE = 700, 5, 4.0
Z = RNG.normal(size=(N, D))
WEIGHT = RNG.uniform(0.5, 2.0, size=N)


def summed(n_labels, block_rows=700):
    y = np.random.default_rng(1).integers(0, n_labels, size=N)
    coef = LabeledFeatures(Z, y, WEIGHT, n_labels, True).mode(VARIANCE)
    problem = Problem(RowFeatures(AsGiven(D)), Logistic(), np.arange(n_labels), np.ones(n_labels))
    into = HessianSum(problem, coef, VARIANCE, True, WEIGHT.sum())
    engine = MemoryEngine(Z, y, WEIGHT, block_rows=block_rows, n_jobs=1)
    return coef, engine.accumulate(into)


@pytest.mark.parametrize("n_labels", [2, 3])
def test_roots_are_those_of_the_dense_hessian(n_labels):
    coef, found = summed(n_labels)
    F = Z @ coef[:-1] + coef[-1]
    P = special.expit(F) if n_labels == 2 else special.softmax(F, axis=1)
    rows = np.column_stack([2.0 * Z, np.ones(N)])
    roots, log_determinant = inverse_roots(found)
    assert roots.flags.c_contiguous  # as pickle restores it: products with another layout have other rounding errors
    c, total = 1.0 if n_labels == 2 else 1.5, 0.0
    for k, root in enumerate(roots):
        H = c * (rows.T * (WEIGHT * P[:, k] * (1 - P[:, k]))) @ rows + np.eye(D + 1)
        H[-1, -1] += INTERCEPT_DEVIATION**-2 - 1
        np.testing.assert_allclose(root @ root.T, np.linalg.inv(H), rtol=1e-8, atol=1e-12)
        assert np.allclose(root, np.triu(root))
        total += np.linalg.slogdet(H)[1] + 2 * np.log(INTERCEPT_DEVIATION)
    assert log_determinant == pytest.approx(total)


def test_blocks_do_not_matter_and_states_can_be_restored():
    _, whole = summed(3)
    _, parts = summed(3, block_rows=90)
    np.testing.assert_allclose(np.triu(parts.grams), np.triu(whole.grams), rtol=1e-12)
    assert parts.loss == pytest.approx(whole.loss)
    both = whole + parts
    np.testing.assert_allclose(np.triu(both.grams), 2 * np.triu(whole.grams), rtol=1e-12)


def test_many_labels_share_the_mean_matrix(monkeypatch):
    _, separate = summed(3)
    monkeypatch.setattr(curvature, "MOST_ENTRIES", 10)
    _, shared = summed(3)
    assert shared.grams.shape == (1, D + 1, D + 1)
    np.testing.assert_allclose(np.triu(shared.grams[0]), np.triu(separate.grams.mean(axis=0)), rtol=1e-3)
