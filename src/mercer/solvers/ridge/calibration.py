"""The scale that turns decision values into probabilities."""

from __future__ import annotations

import numpy as np
from scipy import optimize, special

__all__ = ["best_scale"]

Array = np.ndarray


def best_scale(values: Array, codes: Array, weight: Array) -> float:
    """Return the factor of the decision values that minimizes the logarithmic loss of their softmax.

    To N rows one is added whose label could be any: so the factor stays finite where the labels can be told apart
    without a mistake, the larger the more rows show it. The loss is convex: its minimum is the root of the derivative,
    or an end of [1e-3, 1e3].
    """
    if values.shape[1] == 1:  # two labels: logits (-f/2, f/2) have the softmax of the logistic function
        values = values * np.array([-0.5, 0.5])
    n = weight.sum()
    wanted = (n * values[np.arange(len(values)), codes] + values.mean(axis=1)) / (n + 1)

    def slope(log_scale: float) -> float:
        mean = np.einsum("ij,ij->i", special.softmax(np.exp(log_scale) * values, axis=1), values)
        return float(weight @ (mean - wanted))

    low, high = np.log(1e-3), np.log(1e3)
    if slope(low) >= 0:
        return 1e-3
    if slope(high) <= 0:
        return 1e3
    return float(np.exp(optimize.brentq(slope, low, high, xtol=1e-14)))
