"""Weights of the members of a model, by their predictions of rows that were held out."""

from __future__ import annotations

import numpy as np
from scipy import special
from scipy.optimize import minimize, nnls

__all__ = ["label_weights", "number_weights"]

Array = np.ndarray
# Strength of the penalty that moves weights towards each other, in units of the least mean squared error.
SHRINKAGE = 0.01
# Factor of the equation by which weights sum to one.
SUM_TO_ONE = 100.0


def number_weights(predictions: Array, targets: Array, weight: Array) -> Array:
    """Return weights >= 0 of members, which sum to one and minimize the squared error of their mean.

    Parameters
    ----------
    predictions : ndarray of shape (c, m, t)
        Predictions of each member for held-out rows.
    targets : ndarray of shape (m, t)
        Targets of these rows, with a variance near one.
    weight : ndarray of shape (m,)
        Weights of these rows.

    Returns
    -------
    ndarray of shape (c,)
    """
    c = len(predictions)
    root = np.sqrt(weight / weight.sum() / targets.shape[1])[:, None]
    members = (predictions * root).reshape(c, -1).T
    truth = (targets * root).ravel()
    least = np.square(members - truth[:, None]).sum(axis=0).min()
    shrink = np.sqrt(SHRINKAGE * max(least, np.finfo(float).tiny))
    unit = SUM_TO_ONE * np.sqrt(max(np.square(truth).sum(), least))
    system = np.vstack([members, shrink * np.eye(c), np.full((1, c), unit)])
    found, _ = nnls(system, np.concatenate([truth, np.full(c, shrink / c), [unit]]))
    return found / found.sum()


def label_weights(predictions: Array, codes: Array, weight: Array, scale: float) -> Array:
    """Return factors >= 0 of members that minimize the logarithmic loss of softmax(sum of factors times predictions).

    Parameters
    ----------
    predictions : ndarray of shape (c, m, K)
        Predictions of the indicators of labels, of each member for held-out rows.
    codes : ndarray of shape (m,)
        Indices of the labels.
    weight : ndarray of shape (m,)
        Weights of these rows.
    scale : float
        Sum of the factors to start from.

    Returns
    -------
    ndarray of shape (c,)
        They do not sum to one: their sum is the scale of the logits.
    """
    c, m, _ = predictions.shape
    share, rows = weight / weight.sum(), np.arange(m)
    # One more row, of which each label is as probable, keeps the factors finite where all rows are predicted correctly.
    prior = 1.0 / max(m, 1)

    def loss(factors: Array) -> tuple[float, Array]:
        logits = np.einsum("c,cmk->mk", factors, predictions)
        logs = special.log_softmax(logits, axis=1)
        gradient = np.exp(logs) * share[:, None]
        gradient[rows, codes] -= share
        mean = logs.mean(axis=1)
        value = -(share @ logs[rows, codes]) - prior * (share @ mean)
        gradient += prior * share[:, None] * (np.exp(logs) - 1 / logs.shape[1])
        spread = factors - factors.mean()
        penalty = SHRINKAGE * max(value, 1e-3) / scale**2
        by_factor = np.einsum("mk,cmk->c", gradient, predictions)
        return float(value + penalty * spread @ spread), by_factor + 2 * penalty * spread

    start = np.full(c, scale / c)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=[(0.0, None)] * c, options={"maxiter": 200})
    return found.x if found.x.sum() > 0 else start
