r"""Exact leave-one-out of ridge regression, and what is chosen by it: penalties, and the scale of probabilities.

A row of leverage :math:`h` and residual :math:`r` is predicted with the residual :math:`r / (1 - h)` by the model that
all other rows give. Weights are repetitions of rows, of which one is left out, or all of a weight below one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special

from mercer.data.targets import label_codes, label_signs
from mercer.engines import Block
from mercer.features import Features, features_of
from mercer.solvers.ridge.spectrum import Spectrum

__all__ = ["LeftOut", "calibrated_scale", "left_out_margin", "log_loss_scale", "margin_of_one_copy"]

Array = np.ndarray
# Rows whose coordinates are in memory at a time, and bytes of what is computed of them for all penalties.
SLICE_ROWS = 512
SLICE_BYTES = 2**24
# A row whose margin is below this is fitted whatever its target is, and says nothing about new rows.
LEAST_MARGIN = 1e-6


def left_out_margin(leverage: Array, weight: Array | None = None) -> Array:
    """Return 1 - h, by which the residual of a row is divided to get that of the model without the row.

    Parameters
    ----------
    leverage : ndarray of shape (n,) or (n, p)
        Leverages of rows of weight one.
    weight : ndarray of shape (n,), default=None
        Weights >= 0: repetitions, of which one is left out; None means that all are one.
    """
    if weight is None:
        return 1 - leverage
    removed = np.minimum(weight, 1.0)
    return 1 - (removed if leverage.ndim == 1 else removed[:, None]) * leverage


def margin_of_one_copy(margin: Array, weight: Array) -> Array:
    """Return the margin of a row of which one copy is left out, given its margin if all copies are left out.

    This is `left_out_margin` for solvers that know 1 - w h without the cancellation of a difference of numbers near
    one.

    Parameters
    ----------
    margin : ndarray of shape (n,)
        The numbers 1 - w h, where h is the leverage of a row of weight one.
    weight : ndarray of shape (n,)
        Weights w > 0.

    Returns
    -------
    ndarray of shape (n,)
    """
    share = np.minimum(weight, 1.0) / weight
    return (1 - share) + share * margin


@dataclass(frozen=True, eq=False)
class LeftOut:
    """The sum of squared leave-one-out errors of a block, one per penalty."""

    features: Features
    spectrum: Spectrum
    alphas: Array  # (p,)
    fit_intercept: bool
    labels: Array | None = None  # all labels, sorted, where targets are labels

    def __call__(self, block: Block) -> Array:
        """Return the sums, infinite for penalties at which some row is fitted whatever its target is."""
        s = self.spectrum
        inverse = 1 / (s.values[:, None] + self.alphas)  # (D, p)
        inverse[~s.retained] = 0.0
        # Targets that are processed at a time: coefficients for all penalties would grow with the number of labels.
        step = max(1, SLICE_BYTES // (8 * len(self.alphas) * max(len(s.values), SLICE_ROWS)))
        # The inverse magnifies the rounding of the moments: a smaller margin is rounding.
        least = 4 * s.rounding / self.alphas
        features = self.features.astype(block.X.dtype)
        total = np.zeros(len(self.alphas))
        for i in range(0, len(block), SLICE_ROWS):
            rows = slice(i, i + SLICE_ROWS)
            Z = features_of(features, block.X[rows])
            weight = np.ones(len(Z)) if block.weight is None else block.weight[rows]
            coordinates = (Z.astype(np.float64, copy=False) - s.center) @ s.vectors
            y = block.y[rows]
            if self.labels is not None:
                y = label_signs(label_codes(y, self.labels), len(self.labels))
            targets = y - s.offset
            squares = np.zeros((len(targets), len(self.alphas)))
            for j in range(0, targets.shape[1], step):
                columns = slice(j, j + step)
                coef = (s.rotated[:, columns, None] * inverse[:, None, :]).reshape(len(s.values), -1)  # (D, step p)
                missed = (coordinates @ coef).reshape(len(targets), -1, len(self.alphas))
                missed -= targets[:, columns, None]
                squares += np.einsum("ijp,ijp->ip", missed, missed)
            leverage = np.square(coordinates) @ inverse + (1 / s.weight if self.fit_intercept else 0.0)
            margin = left_out_margin(leverage, weight)
            with np.errstate(divide="ignore", invalid="ignore"):
                error = squares / np.square(margin)
            error = np.where(margin > least, error, np.inf)
            counts = weight > 0
            total += weight[counts] @ error[counts]
        return total


def calibrated_scale(fitted: Array, codes: Array, n_labels: int, leverage: Array, weight: Array | None) -> float:
    """Return the scale of the logits of a ridge classifier that minimizes the leave-one-out logarithmic loss.

    Parameters
    ----------
    fitted : ndarray of shape (n, 1) or (n, K)
        Decision values of training rows.
    codes : ndarray of shape (n,)
        Indices of their labels.
    n_labels : int
        Number of labels K.
    leverage : ndarray of shape (n,)
        Leverages of rows of weight one.
    weight : ndarray of shape (n,) or None
        Weights of the rows.
    """
    weight = np.ones(len(fitted)) if weight is None else weight
    margin = left_out_margin(leverage, weight)
    free = (margin > LEAST_MARGIN) & (weight > 0)
    if not free.any():
        return 2.0  # least squares estimates f = 2p - 1, whose logit is 2f near zero
    signs = label_signs(codes[free], n_labels)
    left_out = signs - (signs - fitted[free]) / margin[free, None]
    return log_loss_scale(left_out, codes[free], weight[free])


def log_loss_scale(values: Array, codes: Array, weight: Array) -> float:
    """Return the factor of the decision values that minimizes the logarithmic loss of their softmax.

    One row is added whose label is each label with equal probability. It keeps the factor finite where the labels are
    separated without error, and larger the more rows show it. The loss is convex, so its minimum is the root of the
    derivative, or an end of [1e-3, 1e3].
    """
    if values.shape[1] == 1:  # two labels: logits (-f/2, f/2) have the softmax of the logistic function
        values = values * np.array([-0.5, 0.5])
    n = weight.sum()
    wanted = (n * values[np.arange(len(values)), codes] + values.mean(axis=1)) / (n + 1)

    def slope(log_scale: float) -> float:
        mean = np.einsum("ij,ij->i", special.softmax(np.exp(log_scale) * values, axis=1), values)
        return float(weight @ (mean - wanted))

    return _root(slope, np.log(1e-3), np.log(1e3))


def _root(slope: Callable[[float], float], low: float, high: float) -> float:
    """Return exp of the root of an increasing function, or of the nearer end of the interval."""
    if slope(low) >= 0:
        return 1e-3
    if slope(high) <= 0:
        return 1e3
    return float(np.exp(optimize.brentq(slope, low, high, xtol=1e-14)))
