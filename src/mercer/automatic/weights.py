"""Weights of the members of a model, by their predictions of rows that were held out."""

from __future__ import annotations

import numpy as np
from scipy import special
from scipy.optimize import minimize, nnls

__all__ = ["crossed_predictions", "label_weights", "label_weights_and_offsets", "number_weights", "trusted_share"]

Array = np.ndarray
# Strength of the penalty that moves weights towards each other, in units of the least mean squared error.
SHRINKAGE = 0.01
# Factor of the equation by which weights sum to one.
SUM_TO_ONE = 100.0
# Number of shares of the held-out rows, each of which is predicted with weights that were fitted to the others.
CROSS_FOLDS = 5


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


def crossed_predictions(predictions: Array, targets: Array, weight: Array, rows: Array) -> Array:
    """Return weighted means (m, t) of the members, each row by weights of `number_weights` fitted to other rows.

    Parameters
    ----------
    predictions : ndarray of shape (c, m, t)
        Predictions of each member for held-out rows.
    targets : ndarray of shape (m, t)
        Targets of these rows, with a variance near one.
    weight : ndarray of shape (m,)
        Weights of these rows.
    rows : ndarray of shape (m,)
        Indices of the rows, which are in random order. A row that is held out several times is in one share only.
    """
    fold = np.unique(rows, return_inverse=True)[1] % CROSS_FOLDS
    means = np.zeros(targets.shape)
    for one in np.unique(fold):
        here, others = fold == one, fold != one
        # With a single row there are no others.
        some = others if others.any() else here
        factors = number_weights(predictions[:, some], targets[some], weight[some])
        means[here] = np.tensordot(factors, predictions[:, here], 1)
    return means


def trusted_share(gain: Array, truth: Array, weight: Array, rows: Array) -> float:
    """Return the factor in [0, 1] by which a gain is multiplied, so that little is lost if it is due to a few rows.

    The factor of least squared error is b = sum(w u v) / sum(w u^2) for gains u and targets v. It is multiplied by
    the positive part of 1 - (s / b)^2, as by James and Stein, with the jackknife standard error s of b. If one
    target is far from all others, s is about as large as b, and the gain is not trusted.

    Parameters
    ----------
    gain : ndarray of shape (m, t)
        Differences of the predictions of a model and of a simpler one, for held-out rows.
    truth : ndarray of shape (m, t)
        Differences of the targets and of the predictions of the simpler model.
    weight : ndarray of shape (m,)
        Weights of the rows.
    rows : ndarray of shape (m,)
        Indices of the rows. All entries of a row that was held out several times are left out together.
    """
    codes = np.unique(rows, return_inverse=True)[1]
    products = np.bincount(codes, weight * (gain * truth).sum(axis=1))
    squares = np.bincount(codes, weight * np.square(gain).sum(axis=1))
    product, square = products.sum(), squares.sum()
    if not square > 0 or product <= 0:
        return 0.0
    best = product / square
    # If a single row has all of the gain, nothing is known without it.
    without, left = product - products, square - squares
    left_out = np.where(left > 1e-12 * square, without / np.maximum(left, 1e-12 * square), 0.0)
    error = np.square(left_out - best).sum()
    return float(np.clip(best * (1 - error / best**2), 0.0, 1.0))


def label_weights(predictions: Array, indicators: Array, weight: Array, scale: float) -> Array:
    """Return factors >= 0 of members that minimize the logarithmic loss of softmax(sum of factors times predictions).

    Parameters
    ----------
    predictions : ndarray of shape (c, m, K)
        Predictions of the indicators of labels, of each member for held-out rows.
    indicators : ndarray of shape (m, K)
        Indicators of the labels: shares, where equal rows have different labels.
    weight : ndarray of shape (m,)
        Weights of these rows.
    scale : float
        Sum of the factors to start from.

    Returns
    -------
    ndarray of shape (c,)
        They do not sum to one: their sum is the scale of the logits.
    """
    return least_log_loss(predictions, indicators, weight, scale, np.full(len(predictions), scale / len(predictions)))[
        0
    ]


def label_weights_and_offsets(
    predictions: Array, indicators: Array, weight: Array, scale: float
) -> tuple[Array, Array]:
    """Return the factors of `label_weights`, and offsets (K,) of the logits with mean zero.

    Predictions of indicators by squared errors are not symmetric where one label is more frequent than others, which
    offsets correct. They are zero unless they lower the loss by more than they would by accident, according to
    Akaike's criterion.
    """
    m, K = predictions.shape[1:]
    factors = label_weights(predictions, indicators, weight, scale)
    none = np.zeros(K)
    before = log_loss(factors, none, predictions, indicators, weight)
    found, offsets, after = least_log_loss(predictions, indicators, weight, scale, factors, with_offsets=True)
    return (found, offsets) if m * (before - after) > K - 1 else (factors, none)


def log_loss(factors: Array, offsets: Array, predictions: Array, indicators: Array, weight: Array) -> float:
    """Return the weighted mean logarithmic loss of members with factors, and of offsets."""
    logs = special.log_softmax(np.einsum("c,cmk->mk", factors, predictions) + offsets, axis=1)
    return float(-(weight / weight.sum()) @ (indicators * logs).sum(axis=1))


def least_log_loss(
    predictions: Array, indicators: Array, weight: Array, scale: float, start: Array, *, with_offsets: bool = False
) -> tuple[Array, Array, float]:
    """Return factors (c,), offsets (K,), which are zero without `with_offsets`, and the loss without penalties."""
    c, m, K = predictions.shape
    share = weight / weight.sum()
    # One more row, of which each label is as probable, keeps the factors finite where all rows are predicted correctly.
    prior = 1.0 / max(m, 1)

    def loss(parameters: Array) -> tuple[float, Array]:
        factors, offsets = parameters[:c], parameters[c:]
        logits = np.einsum("c,cmk->mk", factors, predictions)
        if with_offsets:
            logits += offsets
        logs = special.log_softmax(logits, axis=1)
        gradient = (np.exp(logs) - indicators) * share[:, None]
        mean = logs.mean(axis=1)
        value = -(share @ (indicators * logs).sum(axis=1)) - prior * (share @ mean)
        gradient += prior * share[:, None] * (np.exp(logs) - 1 / K)
        spread = factors - factors.mean()
        penalty = SHRINKAGE * max(value, 1e-3) / scale**2
        by_factor = np.einsum("mk,cmk->c", gradient, predictions) + 2 * penalty * spread
        by_offset = gradient.sum(axis=0) if with_offsets else np.zeros(0)
        return float(value + penalty * spread @ spread), np.concatenate([by_factor, by_offset])

    first = np.concatenate([start, np.zeros(K if with_offsets else 0)])
    bounds = [(0.0, None)] * c + [(None, None)] * (len(first) - c)
    found = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 200}).x
    factors, offsets = found[:c], found[c:] if with_offsets else np.zeros(K)
    if factors.sum() <= 0:
        factors, offsets = start, np.zeros(K)
    offsets = offsets - offsets.mean()
    return factors, offsets, log_loss(factors, offsets, predictions, indicators, weight)
