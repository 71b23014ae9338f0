"""Methods of Munkhoeva et al. that are run again: both are unbiased, up to their sampling error."""

import numpy as np
import pytest

from mercer.reproduce.papers.munkhoeva import exact_kernel, in_coordinates, plain, relative_error, their_rule


@pytest.mark.parametrize("kernel", ["RBF", "Arccos 0", "Arccos 1"])
@pytest.mark.parametrize("method", [plain, their_rule])
def test_the_mean_over_draws_is_the_kernel(method, kernel):
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(6, 5)), rng.normal(size=(7, 5))
    draws = np.array([method(kernel, X, Y, 2, seed) for seed in range(600)])
    exact = exact_kernel(kernel, 5)(X, Y)
    z = (draws.mean(axis=0) - exact) / (draws.std(axis=0, ddof=1) / np.sqrt(len(draws)))
    # The largest of 42 standard normal variables exceeds 4.5 with probability 3e-4.
    assert np.abs(z).max() < 4.5
    # The twin: a kernel that is a tenth larger is told apart.
    wrong = (draws.mean(axis=0) - 1.1 * exact) / (draws.std(axis=0, ddof=1) / np.sqrt(len(draws)))
    assert np.abs(wrong).max() > 4.5


def test_coordinates_of_the_span_keep_products():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(3, 50)), rng.normal(size=(4, 50))
    A, B = in_coordinates(X, Y)
    assert A.shape == (3, 7)
    np.testing.assert_allclose(A @ B.T, X @ Y.T, atol=1e-12)
    assert relative_error(A @ B.T, X @ Y.T) < 1e-12
