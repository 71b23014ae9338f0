"""Random pairs of rows, drawn where errors of a map can be large, and confidence intervals for means over all pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

__all__ = ["BLOCKS", "PairSample", "mean_interval", "ratio_interval", "row_probabilities", "sample_pairs"]

Array = np.ndarray
# Number of independent blocks of pairs. An interval needs many, and the cost of features decreases with their number,
# since a block of b rows and b other rows has b^2 pairs.
BLOCKS = 256
# Share of the rows that are drawn uniformly.
UNIFORM_SHARE = 0.02


@dataclass(frozen=True)
class PairSample:
    """Independent blocks of random pairs of rows. Each block consists of all pairs of a left row and a right row.

    All rows are drawn independently, row i with the probability `probability[i]`. The mean over the pairs of a block of
    f(i, j) / (p_i p_j) is thus an unbiased estimate of the sum of f(i, j) over all ordered pairs, and the estimates of
    different blocks are independent.
    """

    left: Array  # (blocks, side), indices of rows
    right: Array  # (blocks, side), indices of rows
    probability: Array  # (n,), with sum one

    @property
    def n_pairs(self) -> int:
        """Number of pairs of all blocks."""
        return self.left.size * self.left.shape[1]

    def sums(self, block: int, *values: Array) -> list[float]:
        """Return estimates of sums over all ordered pairs of rows, one for each matrix of values of a block of pairs.

        Parameters
        ----------
        block : int
            Number of the block.
        *values : ndarray of shape (side, side)
            Values f(i, j), one row for each left row and one column for each right row of the block. Where i = j, they
            are taken to be zero: the sum is over pairs of different rows.
        """
        left, right = self._weights(block)
        different = self.left[block][:, None] != self.right[block]
        return [float(left @ (value * different) @ right) for value in values]

    def weights(self, block: int) -> Array:
        """Return the weights (side, side) with which the values of a block are added by `sums`."""
        left, right = self._weights(block)
        return np.outer(left, right) * (self.left[block][:, None] != self.right[block])

    def sum_of_squares(self, block: int, values: Array) -> float:
        """Return an estimate of the sum over rows i of r_i^2, where r_i is the sum of f(i, j) over the other rows j.

        The square is estimated without bias by products of the values of row i for two different positions of the
        block. Both the left and the right rows are used.
        """
        left, right = self._weights(block)
        values = values * (self.left[block][:, None] != self.right[block])
        side = len(left)
        rows = np.square(values @ right) - np.square(values) @ np.square(right)
        columns = np.square(left @ values) - np.square(left) @ np.square(values)
        # The weights contain a factor 1 / side for the mean over the block; a pair of positions needs side (side - 1).
        return float((left @ rows + right @ columns) / 2 * side / (side - 1))

    def _weights(self, block: int) -> tuple[Array, Array]:
        """Return 1 / (p_i side) for the left and for the right rows of a block."""
        side = self.left.shape[1]
        return 1 / (self.probability[self.left[block]] * side), 1 / (self.probability[self.right[block]] * side)


def row_probabilities(size: Array, residual: Array) -> Array:
    """Return probabilities of rows for a sample of pairs that contains the pairs of large errors more often.

    Parameters
    ----------
    size : ndarray of shape (n,)
        Exact plus approximate k(x, x) of each row, finite and >= 0. The squared error of a pair is at most
        ``2 size[i] size[j]``, by the inequality of Cauchy and Schwarz.
    residual : ndarray of shape (n,)
        Absolute error of k(x, x) of each row. The squared error of a pair is at most ``residual[i] residual[j]`` if
        the kernel minus the approximate kernel is positive semi-definite, as for landmarks.

    Returns
    -------
    ndarray of shape (n,)
        Half proportional to `size`, half to `residual`, but for a share of `UNIFORM_SHARE` that is uniform, so that
        squared errors divided by the probabilities of their pairs are at most 8.4 times the squared sum of `size`, and
        for landmarks 4.2 times that of `residual`. Without the uniform share, a single row may have all of the
        probability, and no pair of two different rows would be drawn.
    """
    uniform = np.full(len(size), 1 / len(size))
    parts = [part / part.max() for part in (size, residual) if part.max() > 0]
    if not parts:  # all errors are zero
        return uniform
    return (1 - UNIFORM_SHARE) * sum(part / part.sum() for part in parts) / len(parts) + UNIFORM_SHARE * uniform


def sample_pairs(probability: Array, n_rows: int, rng: np.random.Generator) -> PairSample:
    """Draw about `n_rows`^2 pairs of rows in 256 blocks, given the probability of each row."""
    shape = (BLOCKS, max(2, int(n_rows / BLOCKS**0.5)))
    left, right = (rng.choice(len(probability), size=shape, p=probability) for _ in range(2))
    return PairSample(left, right, probability)


def mean_interval(values: Array, level: float = 0.95, *, skewed: bool = True) -> tuple[float, float]:
    """Return a confidence interval for the mean of the distribution of independent values, which may be skewed.

    Hall's transformation [1]_ removes the skewness of the t statistic: with the mean m of n values, its standard error
    s and the skewness g of the values divided by sqrt(n), T + g T^2 / 3 + g^2 T^3 / 27 + g / 6 with T = (m - mu) / s is
    nearly normal. It increases with T, so that it can be inverted. If `skewed` is False, the interval is that of
    Student. It covers more often for values of both signs with heavy tails, whose estimated skewness is mostly noise.

    References
    ----------
    .. [1] P. Hall, "On the removal of skewness by transformation", Journal of the Royal Statistical Society B 54(1),
       221-228, 1992.
    """
    n = len(values)
    mean = float(values.mean())
    deviations = values - mean
    spread = float(np.abs(deviations).max())
    if spread == 0:
        return mean, mean
    deviations /= spread  # cubes of tiny numbers would underflow
    variance = np.square(deviations).mean()
    error = spread * np.sqrt(variance / (n - 1))
    skewness = float((deviations**3).mean() / variance**1.5 / np.sqrt(n)) if skewed else 0.0
    quantile = stdtrit(n - 1, (1 + level) / 2)
    low, high = (_inverse_of_hall(x, skewness) for x in (quantile, -quantile))
    return mean - error * low, mean - error * high


def ratio_interval(
    numerators: Array, denominators: Array, level: float = 0.95, *, skewed: bool = True
) -> tuple[float, float]:
    """Return a confidence interval for the ratio of the means of two values that are observed together.

    The i-th numerator and the i-th denominator may depend on each other; different ones are independent. Let n and d be
    the two means over the observations, and r = n / d. The ratio of the expected values is then, up to terms of second
    order in the deviations of n and d, the expected value of r + (numerator - r denominator) / d, and `mean_interval`
    is applied to these numbers. The mean of the denominators must be positive.
    """
    size = float(denominators.mean())
    ratio = float(numerators.mean()) / size
    return mean_interval(ratio + (numerators - ratio * denominators) / size, level, skewed=skewed)


def _inverse_of_hall(x: float, g: float) -> float:
    """Return the T for which Hall's transformation T + g T^2 / 3 + g^2 T^3 / 27 + g / 6 is x."""
    x -= g / 6
    if abs(g) < 1e-8:  # the formula below would lose all digits; the omitted terms are of order g
        return x
    return 3 * (float(np.cbrt(1 + g * x)) - 1) / g
