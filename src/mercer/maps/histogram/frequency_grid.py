"""Regular grids of frequencies for homogeneous kernels: the error of a grid and its best step.

A homogeneous kernel is a sum over features of sqrt(x y) K(lag), where lag = log(y / x). A grid of frequencies 0, L, 2L,
..., nL with step L replaces the Fourier integral of K by a sum. The module `homogeneous` uses these grids.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.optimize import minimize_scalar

from mercer.kernels.histogram import HomogeneousKernel

__all__ = ["Mixture", "best_step", "density", "fine_lags", "grid_error"]

Array = np.ndarray
# A weighted sum of kernels: pairs of weight and kernel.
Mixture = tuple[tuple[float, HomogeneousKernel], ...]
# Values of lag = log(y / x) at which the error of a grid is evaluated. Beyond them, x is negligible compared with y.
LAGS = np.linspace(0.0, 30.0, 1201)


def density(mixture: Mixture, frequencies: Array) -> Array:
    """Return the spectral density of a weighted sum of homogeneous kernels at the given frequencies."""
    return np.sum([weight * leaf.spectral_density(frequencies) for weight, leaf in mixture], axis=0)


def fine_lags(highest: float) -> Array:
    """Return equally spaced values of lag = log(y / x), fine enough for cos(w * lag) with all w <= `highest`."""
    return np.linspace(LAGS[0], LAGS[-1], int(np.clip(20 * highest * LAGS[-1], len(LAGS), 20_001)))


def grid_error(mixture: Mixture, pairs: int, step: float, lags: Array = LAGS) -> float:
    """Return the largest absolute error of the approximation of sqrt(x y) K(lag) over values x, y with max(x, y) = 1.

    The frequencies are 0, step, 2 step, ..., pairs * step. The error is evaluated at the given values of
    lag = log(y / x).
    """
    frequencies = step * np.arange(pairs + 1)
    weights = step * density(mixture, frequencies) * np.where(frequencies > 0, 2.0, 1.0)
    exact = sum(weight * leaf.signature(lags) for weight, leaf in mixture)
    # Here x = exp(-lag) and y = 1, so that sqrt(x y) = exp(-lag / 2).
    return float((np.exp(-0.5 * lags) * np.abs(np.cos(np.multiply.outer(lags, frequencies)) @ weights - exact)).max())


@lru_cache(maxsize=256)
def best_step(mixture: Mixture, pairs: int) -> float:
    """Return the step with the least `grid_error`, for a grid with `pairs` positive frequencies.

    The error may have several local minima. The best of 40 steps is therefore found first, and a local search improves
    it.
    """
    scan = np.geomspace(0.01, 4.0, 40)
    best = int(np.argmin([grid_error(mixture, pairs, step) for step in scan]))
    bounds = scan[max(best - 1, 0)], scan[min(best + 1, len(scan) - 1)]
    return float(minimize_scalar(lambda step: grid_error(mixture, pairs, step), bounds=bounds, method="bounded").x)
