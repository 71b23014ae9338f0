r"""Log marginal likelihood (evidence) of a Gaussian process on features, as a function of noise and amplitude.

The model is the weight-space view of a Gaussian process [1]_, :math:`y = a\, z^\top w + \sigma \varepsilon` with
:math:`w \sim N(0, I)`. The moments of the features and targets are a sufficient statistic. In the eigenbasis of the
second moments of the features, with eigenvalues v, rotated cross moments q and :math:`\alpha = \sigma^2 / a^2`,

.. math:: \log p(y) = -\tfrac{n}{2} \log 2\pi\sigma^2 - \tfrac12 \sum_j \log(1 + v_j / \alpha)
    - \frac{1}{2 \sigma^2} \Bigl(|y|^2 - \sum_j \frac{q_j^2}{v_j + \alpha}\Bigr).

Given :math:`\alpha`, the optimal :math:`\sigma` has a closed form, so every maximization is one-dimensional. Sums run
over the eigenvectors whose eigenvalues exceed the rounding error. The term in parentheses is computed as the residual
sum of squares of the least squares fit plus :math:`\sum_j q_j^2 \alpha / (v_j (v_j + \alpha))`, since the difference
above suffers from cancellation for small :math:`\alpha`.

References
----------
.. [1] Rasmussen, Williams (2006), Gaussian Processes for Machine Learning, sections 2.1 and 5.4, MIT Press.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize

from mercer.solvers.ridge.least_squares import Spectrum

__all__ = ["NO_NOISE", "Evidence", "Scales", "is_degenerate"]

Array = np.ndarray
# Grid of the ratio alpha relative to the largest eigenvalue, from hardly any noise to hardly any signal.
RATIOS = np.geomspace(1e-20, 1e6, 105)
# Largest amplitude that is found, relative to the root mean square of the targets. The evidence of nearly linear
# functions is highest for long lengthscales and very large amplitudes, where it is flat and depends on rounding errors.
LARGEST_AMPLITUDE = 100.0
# Noise over amplitude up to which the noise counts as zero.
NO_NOISE = 1e-6


@dataclass(frozen=True)
class Scales:
    """Standard deviation of the noise and of the function (the amplitude), for each column of targets."""

    noise: Array  # (t,)
    amplitude: Array  # (t,)

    @property
    def alpha(self) -> Array:
        """The equivalent penalty of ridge regression: noise^2 / amplitude^2, for each column of targets."""
        return np.square(self.noise / self.amplitude)


def is_degenerate(scales: Scales) -> bool:
    """Return whether the noise of any target is estimated as zero."""
    return bool((scales.noise <= NO_NOISE * scales.amplitude).any())


@dataclass(frozen=True)
class Evidence:
    """The log marginal likelihood of the targets as a function of noise and amplitude."""

    spectrum: Spectrum
    # Number of rows, if weights are precisions of the noise; None if they are repetitions, whose number is the total
    # weight.
    count: float | None = None

    @property
    def _n(self) -> float:
        return self.spectrum.weight if self.count is None else self.count

    def __post_init__(self) -> None:
        self.spectrum.check_squares("The log marginal likelihood", "")

    @cached_property
    def _retained(self) -> tuple[Array, Array, Array]:
        """Eigenvalues v above the rounding error, rotated cross moments q, and least squares residual sum of squares.

        The residual sum of squares is bounded below by the rounding error of the sum of squares of the targets, so that
        it is never zero.
        """
        s = self.spectrum
        values, rotated = s.values[s.retained, None], s.rotated[s.retained]
        residual = s.energy - (np.square(rotated) / values).sum(axis=0)
        return values, rotated, np.maximum(residual, s.roundoff * s.energy)

    def value(self, scales: Scales) -> Array:
        """Return the log marginal likelihood of each column of targets."""
        (values, _, _), alpha, variance = self._retained, scales.alpha, np.square(scales.noise)
        log_det = np.log1p(values / alpha).sum(axis=0)
        return -0.5 * (self._n * np.log(2 * np.pi * variance) + log_det + self._misfit(alpha) / variance)

    def gradient(self, scales: Scales) -> tuple[Array, Array]:
        """Return the derivatives of the log marginal likelihood with respect to log noise (t,) and log amplitude (t,).

        There is one derivative per column of targets.
        """
        (values, rotated, _), alpha, variance = self._retained, scales.alpha, np.square(scales.noise)
        quadratic = np.square(rotated / (values + alpha)).sum(axis=0) * alpha / variance
        in_log_alpha = 0.5 * ((values / (values + alpha)).sum(axis=0) - quadratic)
        in_log_variance = 0.5 * (self._misfit(alpha) / variance - self._n)
        return 2 * (in_log_variance + in_log_alpha), -2 * in_log_alpha

    def best(self, noise: float | None = None, amplitude: float | None = None) -> Scales:
        """Return the noise and the amplitude that maximize the evidence of each column of targets.

        A noise or an amplitude that is not None is held fixed at that value.
        """
        count = len(self.spectrum.energy)
        if noise is not None and amplitude is not None:
            return Scales(np.full(count, float(noise)), np.full(count, float(amplitude)))
        found = [self._best_of(t, noise, amplitude) for t in range(count)]
        return Scales(np.array([f[0] for f in found]), np.array([f[1] for f in found]))

    def _best_of(self, t: int, noise: float | None, amplitude: float | None) -> tuple[float, float]:
        s = self.spectrum
        one = slice(t, t + 1)
        column = Evidence(Spectrum(
            s.values, s.vectors, s.rotated[:, one], s.center, s.offset[one], s.energy[one], s.weight, s.roundoff,
        ), self.count)  # fmt: skip

        def scales(log_alpha: float) -> Scales:
            alpha = np.exp(log_alpha)
            if noise is not None:
                sigma = np.array([float(noise)])
            elif amplitude is not None:
                sigma = np.array([float(amplitude) * np.sqrt(alpha)])
            else:
                sigma = np.sqrt(column._misfit(alpha) / self._n)
            return Scales(sigma, sigma / np.sqrt(alpha))

        def slope(log_alpha: float) -> float:
            in_noise, in_amplitude = column.gradient(scales(log_alpha))
            return float(in_noise[0] if noise is None and amplitude is not None else -in_amplitude[0])

        if s.energy[t] <= 0:  # for constant targets the evidence is unbounded as the noise tends to zero
            least = np.finfo(float).eps * (1.0 + abs(float(s.offset[t])))
            return noise or least, amplitude or least
        grid = np.log(s.largest) + np.log(RATIOS)
        if amplitude is None:
            largest = LARGEST_AMPLITUDE * np.sqrt(s.energy[t] / s.weight)
            grid = bounded_grid(grid, lambda x: float(np.log(scales(x).amplitude[0] / largest)))
        result = scales(maximize(lambda x: float(column.value(scales(x))[0]), slope, grid))
        return float(result.noise[0]), float(result.amplitude[0])

    def _misfit(self, alpha: float | Array) -> Array:
        """Return the penalized residual sum of squares |y|^2 - sum q^2 / (v + alpha), for each column of targets."""
        values, rotated, residual = self._retained
        return residual + (np.square(rotated) * alpha / (values * (values + alpha))).sum(axis=0)


def bounded_grid(grid: Array, excess: Callable[[float], float]) -> Array:
    """Return the grid from its first point on at which a decreasing function is negative, and the zero before it."""
    above = np.array([excess(x) >= 0 for x in grid])
    if not above.any() or above.all():
        return grid[-1:] if above.all() else grid
    last = int(np.flatnonzero(above)[-1])
    if last + 1 == len(grid):
        return grid[-1:]
    start = optimize.brentq(excess, grid[last], grid[last + 1], xtol=1e-14, rtol=1e-14)
    return np.concatenate([[start], grid[last + 1 :]])


def maximize(function: Callable[[float], float], slope: Callable[[float], float], grid: Array) -> float:
    """Return the maximizer of a function of one variable: the zero of its derivative next to the best grid point.

    The zero of the derivative is found to full precision. A comparison of values would give half of the digits only.
    """
    i = int(np.argmax([function(x) for x in grid]))
    low, high = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
    if low == high or slope(low) <= 0 or slope(high) >= 0:  # the maximum is at an end of the grid
        return float(grid[i])
    return float(optimize.brentq(slope, low, high, xtol=1e-14, rtol=1e-14))
