r"""Choice of the ridge penalty on a path, by leave-one-out, evidence or generalized cross-validation.

A row with leverage :math:`h` and residual :math:`r` has the residual :math:`r / (1 - h)` under the model that is fitted
to all other rows. Exact leave-one-out errors therefore cost one pass over the rows. The factor of the decision values
in the probabilities of a ridge classifier is chosen by the same formula.

A row of weight w counts as w copies, of which one is left out; if w < 1, the row is left out completely. With the
leverage h of a single copy, the divisor of the residual is then :math:`1 - \min(w, 1) h`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import optimize, special

from mercer.data.targets import label_codes, label_signs
from mercer.engines import Block, Engine, Report, enter_stage
from mercer.errors import DataError, MercerWarning
from mercer.features import Features, features_of

if TYPE_CHECKING:
    from mercer.solvers.ridge.least_squares import Spectrum

__all__ = [
    "CRITERIA",
    "Criterion",
    "LeftOut",
    "RidgePath",
    "calibrated_scale",
    "evidence_path",
    "gcv_path",
    "left_out_margin",
    "left_out_path",
    "log_loss_scale",
    "margin_of_one_copy",
]

Array = np.ndarray
# Number of rows whose coordinates are in memory at a time, and bytes of the coefficients or predictions for all
# penalties.
SLICE_ROWS = 512
SLICE_BYTES = 2**24
# If the divisor 1 - min(w, 1) h of a row is below this bound, the model fits the row for any target, and the row has no
# usable leave-one-out residual.
LEAST_MARGIN = 1e-6


def left_out_margin(leverage: Array, weight: Array | None = None) -> Array:
    """Return 1 - min(w, 1) h, the divisor of leave-one-out residuals.

    A row with residual r has the residual r / (1 - min(w, 1) h) under the model that is fitted without it. A weight w
    counts as w copies of the row, one of which is left out; if w < 1, the row is left out completely.

    Parameters
    ----------
    leverage : ndarray of shape (n,) or (n, p)
        Leverages h of one copy of each row (for each of p penalties).
    weight : ndarray of shape (n,), default=None
        Weights w >= 0; None means that all weights are 1.

    Returns
    -------
    ndarray of the shape of `leverage`
    """
    if weight is None:
        return 1 - leverage
    removed = np.minimum(weight, 1.0)
    return 1 - (removed if leverage.ndim == 1 else removed[:, None]) * leverage


def margin_of_one_copy(margin: Array, weight: Array) -> Array:
    """Return 1 - min(w, 1) h, the divisor of leave-one-out residuals, computed from 1 - w h without cancellation.

    A weight w counts as w copies of the row, one of which is left out; if w < 1, the row is left out completely. This
    is the result of `left_out_margin`, for solvers that know 1 - w h more accurately than h.

    Parameters
    ----------
    margin : ndarray of shape (n,)
        The numbers 1 - w h, with the leverages h of one copy of each row.
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
    """Function of a block of rows that returns the sum of their squared leave-one-out errors, for each penalty."""

    features: Features
    spectrum: Spectrum
    alphas: Array  # (p,)
    fit_intercept: bool
    labels: Array | None = None  # all labels, sorted, where targets are labels

    def __call__(self, block: Block) -> Array:
        """Return the sum over the rows of the squared leave-one-out errors, for each penalty (p,).

        It is infinite for penalties at which some row is fitted exactly whatever its target.
        """
        s = self.spectrum
        inverse = 1 / (s.values[:, None] + self.alphas)  # (D, p)
        inverse[~s.retained] = 0.0
        # Number of columns of targets that are processed at a time, which bounds the memory for many labels.
        step = max(1, SLICE_BYTES // (8 * len(self.alphas) * max(len(s.values), SLICE_ROWS)))
        # The inverse magnifies the rounding error of the moments: a divisor below this bound may be rounding error.
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
    """Return the factor a of the decision values of a ridge classifier that minimizes the leave-one-out log loss.

    The probabilities of the labels are softmax(a f) for decision values f.

    Parameters
    ----------
    fitted : ndarray of shape (n, 1) or (n, K)
        Decision values of training rows.
    codes : ndarray of shape (n,)
        Indices of their labels.
    n_labels : int
        Number of labels K.
    leverage : ndarray of shape (n,)
        Leverages of one copy of each row, as for `left_out_margin`.
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

    Labels are smoothed as if one row were added whose label is uniformly distributed. This keeps the factor finite if
    the decision values separate the labels without error. The factor then grows with the number of rows. The loss is
    convex, so its minimum is the root of the derivative, or an end of the interval [1e-3, 1e3].

    Parameters
    ----------
    values : ndarray of shape (n, 1) or (n, K)
        Decision values; one column for two labels.
    codes : ndarray of shape (n,)
        Indices of the labels.
    weight : ndarray of shape (n,)
        Weights of the rows.
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
    """Return exp(x) for the root x of an increasing function in the interval [low, high].

    If there is no root in the interval, the result is 1e-3 (if the function is positive) or 1e3 (if it is negative).
    """
    if slope(low) >= 0:
        return 1e-3
    if slope(high) <= 0:
        return 1e3
    return float(np.exp(optimize.brentq(slope, low, high, xtol=1e-14)))


Criterion = Literal["loo", "evidence", "gcv"]
CRITERIA = ("loo", "evidence", "gcv")
# Penalties of a path, relative to the largest eigenvalue.
PATH = np.geomspace(1e-10, 1e1, 89)
# A warning is issued if the best penalty is at an end of the path and its score is better than that of its neighbor by
# more than this (relative) difference.
STILL_FALLING = 1e-3


@dataclass(frozen=True)
class RidgePath:
    """Scores of an ascending list (path) of ridge penalties, all computed from one eigendecomposition.

    Attributes
    ----------
    alphas : ndarray of shape (p,)
        Penalties, ascending.
    scores : ndarray of shape (p,)
        Lower is better. "loo": the mean squared leave-one-out error, summed over targets; "gcv": its estimate by
        generalized cross-validation; "evidence": minus the log marginal likelihood per row. Infinite if the score is
        not defined, because the model has as many degrees of freedom as rows, or fits some row exactly whatever its
        target.
    degrees : ndarray of shape (p,)
        Effective degrees of freedom, including the intercept.
    alpha : float
        The penalty of the lowest score.
    criterion : {"loo", "evidence", "gcv"}
        The criterion of the scores.
    """

    alphas: Array
    scores: Array
    degrees: Array
    alpha: float
    criterion: Criterion = "gcv"


def gcv_path(spectrum: Spectrum, *, fit_intercept: bool) -> RidgePath:
    """Score penalties by generalized cross-validation: leave-one-out with all leverages replaced by their mean."""
    check_energy(spectrum, "gcv")
    alphas, n = penalties(spectrum), spectrum.weight
    total = spectrum.energy.sum()
    shrink, degrees = shrinkage(spectrum, alphas, fit_intercept=fit_intercept)
    # |y - fit|^2 = |y|^2 - sum q^2 (1 - (alpha / (v + alpha))^2) / v with q = V'Z'y; where v = 0 so is q.
    gain = (2 - shrink) / (spectrum.values + alphas[:, None])
    residual = np.maximum(total - gain @ np.square(spectrum.rotated).sum(axis=1), np.finfo(float).eps * total)
    margin = 1 - degrees / n
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.where(margin > 1e-10, residual / n / np.square(margin), np.inf)
    return best(spectrum, alphas, scores, degrees, "gcv")


def evidence_path(spectrum: Spectrum, *, fit_intercept: bool) -> RidgePath:
    r"""Score penalties by the marginal likelihood of the targets.

    Coefficients have the prior :math:`N(0, \sigma^2 / \alpha)`, and targets have noise of variance :math:`\sigma^2`.
    The likelihood is maximized over :math:`\sigma` for each column of targets. An intercept has a flat prior and is
    integrated out.
    """
    check_energy(spectrum, "evidence")
    alphas, n = penalties(spectrum), spectrum.weight - fit_intercept
    _, degrees = shrinkage(spectrum, alphas, fit_intercept=fit_intercept)
    varies = spectrum.energy > 0  # constant targets carry no information
    if varies.any() and n <= 0:
        return best(spectrum, alphas, np.full(len(alphas), np.inf), degrees, "evidence")
    energy = spectrum.energy[varies]
    # |y|^2 - sum q^2 / (v + alpha) for each column of targets: twice the exponent, times the noise variance.
    gain = (1 / (spectrum.values + alphas[:, None])) @ np.square(spectrum.rotated[:, varies])
    exponent = np.maximum(energy - gain, np.finfo(float).eps * energy)
    volume = np.log1p(spectrum.values / alphas[:, None]).sum(axis=1, keepdims=True)
    scores = 0.5 * (n * (np.log(2 * np.pi * exponent / max(n, 1e-300)) + 1) + volume).sum(axis=1)
    return best(spectrum, alphas, scores / spectrum.weight, degrees, "evidence")


def left_out_path(
    spectrum: Spectrum,
    engine: Engine,
    features: Features,
    *,
    fit_intercept: bool,
    labels: Array | None = None,
    report: Report | None = None,
) -> RidgePath:
    """Score penalties by exact leave-one-out, with one further pass over the rows.

    Parameters
    ----------
    spectrum : Spectrum
        The eigendecomposition of the moments of all rows.
    engine : Engine
        The same rows.
    features : Features
        The features of the fitted map.
    fit_intercept : bool
        Whether there is an intercept.
    labels : ndarray, default=None
        All labels, sorted, if targets are labels; None for numeric targets. Labels are coded as +1 and -1 by
        `label_signs`.
    report : callable or None, default=None
        Receives the progress.
    """
    check_energy(spectrum, "loo")
    enter_stage(report, "score penalties")
    alphas = penalties(spectrum)
    _, degrees = shrinkage(spectrum, alphas, fit_intercept=fit_intercept)
    total = engine.sum(LeftOut(features, spectrum, alphas, fit_intercept, labels), report)
    return best(spectrum, alphas, total / spectrum.weight, degrees, "loo")


def penalties(spectrum: Spectrum) -> Array:
    """Return the penalties of a path, ascending. Penalties below the rounding error of the moments are left out."""
    alphas = PATH * spectrum.largest
    return alphas[np.append(alphas[:-1] > 10 * spectrum.rounding, True)]


def shrinkage(spectrum: Spectrum, alphas: Array, *, fit_intercept: bool) -> tuple[Array, Array]:
    """Return v / (v + alpha) for all penalties and eigenvalues v (p, D), and the effective degrees of freedom (p,)."""
    shrink = spectrum.values / (spectrum.values + alphas[:, None])
    return shrink, shrink.sum(axis=1) + fit_intercept


def check_energy(spectrum: Spectrum, criterion: Criterion) -> None:
    """Raise an error if the sum of squares of the targets overflows or underflows."""
    spectrum.check_squares(f"alpha={criterion!r}", ", or give alpha a number")


def best(spectrum: Spectrum, alphas: Array, scores: Array, degrees: Array, criterion: Criterion) -> RidgePath:
    """Return a `RidgePath` whose `alpha` has the lowest score; raise `DataError` if no score is finite."""
    if not np.isfinite(scores).any():
        msg = (
            f"alpha={criterion!r} needs more weight than degrees of freedom, got a total weight of "
            f"{spectrum.weight:g}. Weights count as repetitions of rows: rescale them to a mean of one, add rows, or "
            "give alpha as a number."
        )
        raise DataError(msg)
    chosen = int(np.argmin(scores))
    warn_of_edge(alphas, scores, chosen, criterion)
    return RidgePath(alphas, scores, degrees, float(alphas[chosen]), criterion)


def warn_of_edge(alphas: Array, scores: Array, chosen: int, criterion: Criterion) -> None:
    """Warn if the best penalty is at an end of the path and the score still decreases there."""
    if len(alphas) < 2 or chosen not in (0, len(alphas) - 1):
        return
    beside = scores[1] if chosen == 0 else scores[-2]
    # Differences of log evidence are compared with one, those of squared errors with the squared error.
    unit = 1.0 if criterion == "evidence" else scores[chosen]
    if not np.isfinite(beside) or not beside - scores[chosen] > STILL_FALLING * unit:
        return
    if chosen == 0:
        edge, hint = "smallest", "more features, a shorter lengthscale, or alpha=0 where targets have no noise"
    else:
        edge, hint = "largest", "another kernel or lengthscale: these features explain next to nothing of the targets"
    msg = f"alpha={criterion!r} chose the {edge} penalty of its path, {alphas[chosen]:.2g}. Try {hint}."
    warnings.warn(msg, MercerWarning, stacklevel=2)
