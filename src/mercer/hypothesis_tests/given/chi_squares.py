"""The distribution of a weighted sum of independent chi-squared variables, by saddle points."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

__all__ = ["WeightedChiSquares"]

Array = np.ndarray
# Weights below this fraction of the largest one contribute nothing that matters.
NEGLIGIBLE = 1e-10
# Within this number of standard deviations of the mean, the tail probability is interpolated: the formula of Lugannani
# and Rice is the difference of two large numbers there.
NEAR_MEAN = 1e-3


class WeightedChiSquares:
    r"""The random variable :math:`\sum_i w_i \chi_i^2` with weights w_i >= 0 and one degree of freedom each.

    Tail probabilities are those of the saddle point approximation of Lugannani and Rice [1]_ [2]_, whose relative error
    stays bounded in the tail, so that small p-values have correct magnitudes.

    Parameters
    ----------
    weights : array-like of shape (k,)
        The weights, in any order. Negative ones, which are rounding errors of eigenvalues, count as zero.

    References
    ----------
    .. [1] Lugannani, Rice (1980), Saddle point approximation for the distribution of the sum of independent random
       variables, Advances in Applied Probability.
    .. [2] Kuonen (1999), Saddlepoint approximations for distributions of quadratic forms in normal variables,
       Biometrika.

    Examples
    --------
    >>> from scipy.stats import chi2
    >>> from mercer.hypothesis_tests.given.chi_squares import WeightedChiSquares
    >>> round(WeightedChiSquares([1.0, 1.0, 1.0]).sf(7.81), 3), round(float(chi2(3).sf(7.81)), 3)
    (0.05, 0.05)
    """

    def __init__(self, weights: Array | list[float]) -> None:
        weights = np.sort(np.asarray(weights, dtype=np.float64))[::-1]
        largest = float(weights[0]) if len(weights) else 0.0
        self.weights = weights[weights > NEGLIGIBLE * largest] if largest > 0 else weights[:0]

    @property
    def mean(self) -> float:
        """The expected value."""
        return float(self.weights.sum())

    @property
    def std(self) -> float:
        """The standard deviation."""
        return float(np.sqrt(2 * np.square(self.weights).sum()))

    def sf(self, value: float) -> float:
        """Return the probability that the variable is at least `value`."""
        return float(np.exp(self.log_sf(value)))

    def log_sf(self, value: float) -> float:
        """Return the natural logarithm of `sf`, which does not underflow."""
        if value <= 0 or not len(self.weights):
            return 0.0 if value <= 0 else -np.inf
        step = (value - self.mean) / self.std
        if abs(step) >= NEAR_MEAN:
            return self._lugannani_rice(value)
        low, high = (self._lugannani_rice(self.mean + side * NEAR_MEAN * self.std) for side in (-1, 1))
        return low + (high - low) * (step + NEAR_MEAN) / (2 * NEAR_MEAN)

    def _lugannani_rice(self, value: float) -> float:
        unit = float(self.weights[0])
        w, q = self.weights / unit, value / unit

        def slope(s: float) -> float:  # derivative of the cumulant generating function, less q
            return float((w / (1 - 2 * s * w)).sum()) - q

        # The largest weight alone bounds the saddle point from above: w_1 / (1 - 2 s w_1) <= q.
        if q > w.sum():
            low, high = 0.0, 0.5 - 0.5 / max(q * (1 + 1e-12), 1.0)
        else:
            low, high = -0.5 * len(w) / q, 0.0
        s = brentq(slope, low, high, xtol=1e-15) if slope(low) * slope(high) < 0 else high
        cumulant = -0.5 * float(np.log1p(-2 * s * w).sum())
        curvature = float((2 * np.square(w / (1 - 2 * s * w))).sum())
        r = np.sign(s) * np.sqrt(2 * max(s * q - cumulant, 0.0))
        u = s * np.sqrt(curvature)
        # log(sf(r) + density(r) (1/u - 1/r)), as a factor of the tail probability, which does not underflow.
        log_tail = float(log_ndtr(-r))
        log_density = -0.5 * r * r - 0.5 * np.log(2 * np.pi)
        factor = 1 + np.exp(log_density - log_tail) * (1 / u - 1 / r)
        return min(0.0, log_tail + float(np.log(max(factor, np.finfo(float).tiny))))

    def isf(self, level: float) -> float:
        """Return the value that is exceeded with probability `level`."""
        if not len(self.weights):
            return 0.0
        target = np.log(level)
        high = self.mean + self.std
        while self.log_sf(high) > target:
            high *= 2
        low = high
        while self.log_sf(low) < target and low > 1e-12 * self.mean:
            low /= 2
        return float(brentq(lambda v: self.log_sf(v) - target, low, high, xtol=1e-12 * high))
