"""The variance of a tensor sketch equals the mean over hashes of moments whose signs are averaged exactly."""

import numpy as np
import pytest

from mercer import ParameterError
from mercer.theory import tensor_sketch_variance

from ..calibrated.calibrated import bernstein_radius, misfit, pairs_of_rows

DRAWS = 5000


def with_constant(rows, coef0):
    """Return the rows with the root of the constant as one more feature."""
    return np.column_stack([rows, np.full(len(rows), np.sqrt(coef0))])


def moments(x, y):
    return x @ y, (x @ x) * (y @ y), np.square(x * y).sum()


def squares_given_hashes(x, y, degree, width, n, rng):
    """Return the mean square of the estimate over all signs, for n draws of the hashes; and the width of its range.

    The pairs of hash differences of one factor make a measure on Z_D x Z_D: see `tensor_sketch_variance`. Its Fourier
    transform at (k, l) is A + b(k + l) + c(k - l); those of independent factors multiply, and the mean over all (k, l)
    is the mass at (0, 0).
    """
    off = ~np.eye(len(x), dtype=bool)
    same, crossed = np.outer(x**2, y**2)[off], np.outer(x * y, x * y)[off]
    k, l = np.ogrid[:width, :width]  # noqa: E741 - frequencies
    squares = np.empty(n)
    for draw in range(n):
        transform = np.ones((width, width), complex)
        for _ in range(degree):
            hashes = rng.integers(width, size=len(x))
            differences = np.subtract.outer(hashes, hashes)[off] % width
            b, c = (np.fft.fft(np.bincount(differences, weights=w, minlength=width)) for w in (same, crossed))
            transform *= (x @ y) ** 2 + b[(k + l) % width] + c[(k - l) % width]
        squares[draw] = transform.real.mean()
    # The mean over signs is t^degree, so a mean square is at least the square of that.
    most = ((x @ y) ** 2 + same.sum() + np.abs(crossed).sum()) ** degree
    return squares, most - (x @ y) ** (2 * degree)


CELLS = [
    # d, unit norm, degree, coef0, width
    (2, True, 1, 0.0, 4),
    (2, False, 2, 0.5, 3),
    (2, True, 3, 1.0, 2),
    (5, False, 1, 2.0, 7),
    (5, True, 2, 0.0, 4),
    (5, False, 3, 1.0, 3),
    (17, True, 1, 1.0, 5),
    (17, False, 2, 0.0, 8),
    (17, True, 3, 0.3, 4),
    (17, False, 3, 0.0, 5),
]


@pytest.mark.covering(0)
@pytest.mark.parametrize(("d", "unit_norm", "degree", "coef0", "width"), CELLS)
def test_the_formula_is_the_mean_over_hashes(d, unit_norm, degree, coef0, width, seed):
    X, Y = (with_constant(rows, coef0) for rows in pairs_of_rows(d, seed, unit_norm=unit_norm))
    rng, resolved = np.random.default_rng(seed), 0
    for x, y in zip(X[:3], Y[:3], strict=True):
        squares, width_of_squares = squares_given_hashes(x, y, degree, width, DRAWS, rng)
        variance = tensor_sketch_variance([moments(x, y)] * degree, width)
        sampled = squares[:, None] - (x @ y) ** (2 * degree)
        assert misfit(sampled, variance, width=width_of_squares) <= 1
        # Where the tolerance is below a third of the variance, claims off by two thirds must be seen.
        if bernstein_radius(sampled, width=width_of_squares) <= 0.33 * variance:
            resolved += 1
            assert misfit(sampled, 0.3 * variance, width=width_of_squares) > 1
            assert misfit(sampled, 1.7 * variance, width=width_of_squares) > 1
    assert resolved >= 1


@pytest.mark.slow
@pytest.mark.parametrize(("width", "wrong"), [(2, 1), (3, 2)])
def test_the_check_above_distinguishes_even_from_odd_widths(width, wrong, seed):
    # The smallest widths, where g / D^2 weighs most.
    x, y = np.array([1.0, 0.7, 0.4]), np.array([0.8, -0.5, 0.9])
    squares, bound = squares_given_hashes(x, y, 3, width, 4 * DRAWS, np.random.default_rng(seed))
    factors = [moments(x, y)] * 3
    variance = tensor_sketch_variance(factors, width)
    t, norms, overlap = moments(x, y)
    a, b, c = t**2, norms - overlap, t**2 - overlap
    both = (a + b + c) ** 3 - (a + b) ** 3 - (a + c) ** 3 + a**3
    other = variance + (wrong - (2 if width % 2 == 0 else 1)) * both / width**2
    sampled = squares[:, None] - t**6
    assert misfit(sampled, variance, width=bound) <= 1
    assert misfit(sampled, other, width=bound) > 1


def test_one_factor_is_a_count_sketch():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 9))
    t, norms, overlap = moments(x, y)
    expected = (norms + t**2 - 2 * overlap) / 6
    np.testing.assert_allclose(tensor_sketch_variance([(t, norms, overlap)], 6), expected, rtol=1e-13)


def test_one_bucket_is_a_product_of_sign_projections():
    # E[(w.x)^2 (w.y)^2] = |x|^2 |y|^2 + 2 (t^2 - S) for random signs w, to the power of the degree.
    x, y = np.random.default_rng(1).normal(size=(2, 5))
    t, norms, overlap = moments(x, y)
    expected = (norms + 2 * (t**2 - overlap)) ** 3 - t**6
    np.testing.assert_allclose(tensor_sketch_variance([(t, norms, overlap)] * 3, 1), expected, rtol=1e-12)


def test_rows_with_one_entry_have_no_variance_where_it_is_shared():
    x = np.array([0.0, 2.0, 0.0])
    np.testing.assert_array_equal(tensor_sketch_variance([moments(x, x)] * 4, 3), 0.0)


def test_zero_components_are_refused():
    with pytest.raises(ParameterError, match="tensor_sketch_variance: n_components must be an integer >= 1, got 0"):
        tensor_sketch_variance([], 0)
