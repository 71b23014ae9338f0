"""Threshold steps, and shifts that give classes their sizes."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import NeighborGraph
from mercer.graphs import GraphLaplacian
from mercer.solvers.few_labels.threshold_steps import Walk, class_shifts, threshold_steps


@pytest.mark.parametrize("sizes", [[0.2, 0.3, 0.5], [0.01, 0.09, 0.9]])
def test_shifts_give_classes_their_sizes(sizes):
    values = np.random.default_rng(0).normal(size=(4000, 3)) * [1.0, 3.0, 0.5]
    shifts = class_shifts(values, np.array(sizes))
    found = np.bincount((values + shifts).argmax(axis=1), minlength=3) / 4000
    assert found == pytest.approx(sizes, abs=0.01)
    again = class_shifts(values, np.array(sizes), start=shifts)
    assert again == pytest.approx(shifts, abs=0.1)
    assert class_shifts(values, None).tolist() == [0.0] * 3
    assert class_shifts(np.ones((5, 3)), np.array(sizes)).tolist() == [0.0] * 3


def test_walk_is_the_power_of_the_transition_matrix_and_loops_and_isolated_rows_count():
    rng = np.random.default_rng(0)
    W = rng.uniform(size=(30, 30)) * (rng.uniform(size=(30, 30)) < 0.2)
    W = W + W.T
    W[7] = W[:, 7] = 0.0
    laplacian = GraphLaplacian.from_weights(sp.csr_array(W))
    walk = Walk(laplacian.matrix, laplacian.degree, 1)
    values = rng.normal(size=(30, 4))
    degree = W.sum(axis=1)
    P = W / np.where(degree > 0, degree, 1.0)[:, None]
    P[7, 7] = 1.0
    before = values.copy()
    assert walk(values, 3) == pytest.approx(np.linalg.matrix_power(P, 3) @ values, abs=1e-5)
    assert np.array_equal(values, before)


def test_steps_move_the_boundary_to_the_gap_between_clusters():
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(150, 2)), rng.normal(size=(150, 2)) + np.array([4.5, 0.0])])
    truth = np.repeat([0, 1], 150)
    laplacian = NeighborGraph(8).laplacian(X)
    walk = Walk(laplacian.matrix, laplacian.degree, 1)
    values = np.column_stack([1.0 - X[:, 0], X[:, 0] - 1.0])  # a boundary within the first cluster
    labeled = np.array([0, 150])
    start = (values.argmax(axis=1) == truth).mean()
    found = threshold_steps(walk, values, labeled, truth[labeled], sizes=np.array([0.5, 0.5]))
    assert (found.codes == truth).mean() > max(0.97, start)
    assert 2 <= found.n_steps <= 13
    assert found.codes[labeled].tolist() == [0, 1]
    assert np.bincount(found.codes).tolist() == pytest.approx([150, 150], abs=6)
