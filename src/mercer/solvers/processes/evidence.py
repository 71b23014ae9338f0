r"""The evidence of a Gaussian process on features: noise and amplitude, from the moments alone.

Targets are :math:`y = a\, z^\top w + \sigma \varepsilon` with :math:`w \sim N(0, I)`. In the eigenbasis of the second
moments of the features, with eigenvalues v, rotated cross moments q and :math:`\alpha = \sigma^2 / a^2`,

.. math:: \log p(y) = -\tfrac{n}{2} \log 2\pi\sigma^2 - \tfrac12 \sum_j \log(1 + v_j / \alpha)
    - \frac{1}{2 \sigma^2} \Bigl(|y|^2 - \sum_j \frac{q_j^2}{v_j + \alpha}\Bigr).

Given :math:`\alpha` the best :math:`\sigma` is known, so every search is in one dimension. Sums run over the directions
that some row has, and the misfit is the part that no function of the features explains plus
:math:`\sum_j q_j^2 \alpha / (v_j (v_j + \alpha))`, which unlike the difference above has its digits for the smallest
:math:`\alpha`, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import optimize

from mercer.errors import DataError
from mercer.solvers.ridge.spectrum import Spectrum

__all__ = ["Evidence", "Scales"]

Array = np.ndarray
# Ratios alpha that are looked at, relative to the largest eigenvalue: from hardly any noise to hardly anything else.
RATIOS = np.geomspace(1e-20, 1e6, 105)


@dataclass(frozen=True)
class Scales:
    """Standard deviations of noise and of the function, one a column of targets."""

    noise: Array  # (t,)
    amplitude: Array  # (t,)

    @property
    def alpha(self) -> Array:
        """The penalty that ridge regression would call it."""
        return np.square(self.noise / self.amplitude)


@dataclass(frozen=True)
class Evidence:
    """The log marginal likelihood of targets as a function of noise and amplitude."""

    spectrum: Spectrum

    def __post_init__(self) -> None:
        if not np.isfinite(self.spectrum.energy).all():
            msg = "The squares of the targets overflow. Scale the targets down."
            raise DataError(msg)

    @cached_property
    def _kept(self) -> tuple[Array, Array, Array]:
        """Eigenvalues of the directions that some row has, cross moments there, and the energy that is in no direction.

        Rounding must not make the last zero.
        """
        s = self.spectrum
        values, rotated = s.values[s.retained, None], s.rotated[s.retained]
        rest = s.energy - (np.square(rotated) / values).sum(axis=0)
        return values, rotated, np.maximum(rest, s.roundoff * s.energy)

    def value(self, scales: Scales) -> Array:
        """Return the log marginal likelihood of each column of targets."""
        (values, _, _), alpha, variance = self._kept, scales.alpha, np.square(scales.noise)
        volume = np.log1p(values / alpha).sum(axis=0)
        return -0.5 * (self.spectrum.weight * np.log(2 * np.pi * variance) + volume + self._misfit(alpha) / variance)

    def gradient(self, scales: Scales) -> tuple[Array, Array]:
        """Return its derivatives in the logarithms of noise and of amplitude, of each column of targets."""
        (values, rotated, _), alpha, variance = self._kept, scales.alpha, np.square(scales.noise)
        pull = np.square(rotated / (values + alpha)).sum(axis=0) * alpha / variance
        in_log_alpha = 0.5 * ((values / (values + alpha)).sum(axis=0) - pull)
        in_log_variance = 0.5 * (self._misfit(alpha) / variance - self.spectrum.weight)
        return 2 * (in_log_variance + in_log_alpha), -2 * in_log_alpha

    def best(self, noise: float | None = None, amplitude: float | None = None) -> Scales:
        """Return the scales of highest evidence; one that is given stays."""
        count = len(self.spectrum.energy)
        if noise is not None and amplitude is not None:
            return Scales(np.full(count, float(noise)), np.full(count, float(amplitude)))
        found = [self._best_of(t, noise, amplitude) for t in range(count)]
        return Scales(np.array([f[0] for f in found]), np.array([f[1] for f in found]))

    def _best_of(self, t: int, noise: float | None, amplitude: float | None) -> tuple[float, float]:
        s = self.spectrum
        column = Evidence(Spectrum(
            s.values, s.vectors, s.rotated[:, t : t + 1], s.center, s.offset[t : t + 1], s.energy[t : t + 1], s.weight,
            s.roundoff,
        ))  # fmt: skip

        def scales(log_alpha: float) -> Scales:
            alpha = np.exp(log_alpha)
            if noise is not None:
                sigma = np.array([float(noise)])
            elif amplitude is not None:
                sigma = np.array([float(amplitude) * np.sqrt(alpha)])
            else:
                sigma = np.sqrt(column._misfit(alpha) / s.weight)
            return Scales(sigma, sigma / np.sqrt(alpha))

        def slope(log_alpha: float) -> float:
            in_noise, in_amplitude = column.gradient(scales(log_alpha))
            return float(in_noise[0] if noise is None and amplitude is not None else -in_amplitude[0])

        if s.energy[t] <= 0:  # targets that do not vary: any noise above zero explains them the better the smaller
            least = np.finfo(float).eps * (1.0 + abs(float(s.offset[t])))
            return noise or least, amplitude or least
        grid = np.log(s.largest) + np.log(RATIOS)
        result = scales(highest(lambda x: float(column.value(scales(x))[0]), slope, grid))
        return float(result.noise[0]), float(result.amplitude[0])

    def _misfit(self, alpha: float | Array) -> Array:
        """Return |y|^2 - sum q^2 / (v + alpha)."""
        values, rotated, rest = self._kept
        return rest + (np.square(rotated) * alpha / (values * (values + alpha))).sum(axis=0)


def highest(function: Callable[[float], float], slope: Callable[[float], float], grid: Array) -> float:
    """Return where a function of one number is highest: near the best of a grid, where its slope is zero.

    The root of the slope has all digits; near its top the function itself has half of them.
    """
    i = int(np.argmax([function(x) for x in grid]))
    low, high = grid[max(i - 1, 0)], grid[min(i + 1, len(grid) - 1)]
    if slope(low) <= 0 or slope(high) >= 0:  # an end of the grid
        return float(grid[i])
    return float(optimize.brentq(slope, low, high, xtol=1e-14, rtol=1e-14))
