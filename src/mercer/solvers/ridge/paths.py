"""Choice of the ridge penalty on a path, by leave-one-out, evidence or generalized cross-validation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np

from mercer.engines import Engine
from mercer.errors import DataError, MercerWarning
from mercer.features import Features
from mercer.solvers.ridge.leave_one_out import LeftOut
from mercer.solvers.ridge.spectrum import Spectrum

__all__ = ["CRITERIA", "Criterion", "RidgePath", "evidence_path", "gcv_path", "left_out_path"]

Array = np.ndarray
Criterion = Literal["loo", "evidence", "gcv"]
CRITERIA = ("loo", "evidence", "gcv")
# Penalties of a path, relative to the largest eigenvalue.
PATH = np.geomspace(1e-10, 1e1, 89)
# Relative decrease of the score at the end of a path from which on a warning is issued.
STILL_FALLING = 1e-3


@dataclass(frozen=True)
class RidgePath:
    """Scores of a path of penalties, all from one eigendecomposition.

    Attributes
    ----------
    alphas : ndarray of shape (p,)
        Penalties, ascending.
    scores : ndarray of shape (p,)
        Lower is better. "loo": the mean squared leave-one-out error, summed over targets; "gcv": its estimate by
        generalized cross-validation; "evidence": minus the log marginal likelihood per row. Infinite where a score is
        not defined: the model has as many degrees of freedom as rows, or fits some row whatever its target is.
    degrees : ndarray of shape (p,)
        Effective degrees of freedom, with the intercept.
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
    """Score penalties by generalized cross-validation: leave-one-out with the mean leverage for all rows."""
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

    Coefficients have the prior :math:`N(0, \sigma^2 / \alpha)` and targets the noise variance :math:`\sigma^2`, which
    is maximized over, for each column of targets. An intercept has a flat prior and is integrated out.
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
    spectrum: Spectrum, engine: Engine, features: Features, *, fit_intercept: bool, labels: Array | None = None
) -> RidgePath:
    """Score penalties by exact leave-one-out, with one further pass over the rows.

    Parameters
    ----------
    spectrum : Spectrum
        The decomposed moments of all rows.
    engine : Engine
        The same rows.
    features : Features
        The drawn map.
    fit_intercept : bool
        Whether there is an intercept.
    labels : ndarray, default=None
        All labels, sorted, where targets are labels; they are coded as `label_signs` does.
    """
    check_energy(spectrum, "loo")
    alphas = penalties(spectrum)
    _, degrees = shrinkage(spectrum, alphas, fit_intercept=fit_intercept)
    total = engine.sum(LeftOut(features, spectrum, alphas, fit_intercept, labels))
    return best(spectrum, alphas, total / spectrum.weight, degrees, "loo")


def penalties(spectrum: Spectrum) -> Array:
    """Return the penalties of a path, without those below the rounding error of the moments."""
    alphas = PATH * spectrum.largest
    return alphas[np.append(alphas[:-1] > 10 * spectrum.rounding, True)]


def shrinkage(spectrum: Spectrum, alphas: Array, *, fit_intercept: bool) -> tuple[Array, Array]:
    """Return the shrinkage of each direction (p, D), and the effective degrees of freedom (p,)."""
    shrink = spectrum.values / (spectrum.values + alphas[:, None])
    return shrink, shrink.sum(axis=1) + fit_intercept


def check_energy(spectrum: Spectrum, criterion: Criterion) -> None:
    """Raise if the squares of the targets overflow."""
    if not np.isfinite(spectrum.energy.sum()):
        msg = (
            f"alpha={criterion!r} needs targets whose squares add up in float64. "
            "Scale the targets down, or give alpha a number."
        )
        raise DataError(msg)


def best(spectrum: Spectrum, alphas: Array, scores: Array, degrees: Array, criterion: Criterion) -> RidgePath:
    """Return the path with the penalty of the lowest score; raise if no score is finite."""
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
