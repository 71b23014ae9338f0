"""Second moments of a grid equal those of its features, as blocks, products and diagonals."""

import numpy as np
import pytest

from mercer.solvers.grid.systems import (
    DenseGram,
    Preconditioner,
    conjugate_gradients,
    dense_factor,
    gram_diagonal,
    low_block,
)

from .problems import problem


@pytest.mark.filterwarnings("ignore:GridFourier:mercer.MercerWarning")  # few components for three columns
@pytest.mark.parametrize("constant", [0.0, 0.7])
@pytest.mark.parametrize("d", [1, 2, 3])
def test_moments_are_those_of_the_features(d, constant):
    system, Z, y, weight, _ = problem(d, constant)
    G = Z.T @ (weight[:, None] * Z)
    every = np.arange(system.gram.size)
    assert np.abs(system.gram.block(every) - G).max() < 1e-8
    some = every[::3]
    assert np.abs(system.gram.block(some) - G[np.ix_(some, some)]).max() < 1e-8
    vector = np.random.default_rng(0).normal(size=len(G))
    assert np.abs(system.gram.times(vector) - G @ vector).max() < 1e-8
    assert np.abs(system.gram.block_sums() - weight @ Z).max() < 1e-8
    assert np.abs(system.cross - Z.T @ (weight[:, None] * y)).max() < 1e-8
    assert np.allclose(system.squares, weight @ y**2)
    # Squares of cosines and sines differ from one, whose sum is the sum of weights, by their second harmonics.
    assert gram_diagonal(system.gram)[0] == pytest.approx(weight.sum())


def test_conjugate_gradients_solve_the_system():
    system, Z, _, weight, features = problem(2)
    roots = features.roots()
    A = roots * (Z.T @ (weight[:, None] * Z)) * roots[:, None] + 0.01 * np.eye(len(roots))
    right = roots * system.cross[:, 0]
    precondition = Preconditioner.of(system.gram, roots, 0.1, 21)
    x, steps, converged = conjugate_gradients(system.gram, roots, 0.1, right, precondition, tolerance=1e-9)
    assert converged
    assert 0 < steps < 200
    assert np.abs(x - np.linalg.solve(A, right)).max() < 1e-5 * np.abs(x).max()
    assert conjugate_gradients(system.gram, roots, 0.1, 0 * right, precondition, tolerance=1e-9)[1:] == (0, True)


def test_block_of_lowest_frequencies_is_inverted():
    system, Z, _, weight, features = problem(2)
    roots = features.roots()
    index, inverse = low_block(system.gram, roots, 0.1, 21)
    A = roots * (Z.T @ (weight[:, None] * Z)) * roots[:, None] + 0.01 * np.eye(len(roots))
    assert len(index) == 21
    assert np.abs(inverse @ A[np.ix_(index, index)] - np.eye(21)).max() < 1e-6
    assert dense_factor(DenseGram(-np.eye(3)), np.ones(3), 0.1) is None
