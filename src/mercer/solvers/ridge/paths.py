"""Which penalty: leave-one-out, the evidence, and generalized cross-validation, each over a whole path."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mercer.engines import Block, Engine
from mercer.errors import DataError, MercerWarning
from mercer.features import Features, features_of
from mercer.solvers.ridge.spectrum import Spectrum

__all__ = ["CRITERIA", "Criterion", "LeftOut", "RidgePath", "evidence_path", "gcv_path", "left_out_path"]

Array = np.ndarray
Criterion = Literal["loo", "evidence", "gcv"]
CRITERIA = ("loo", "evidence", "gcv")
# Penalties that are tried, relative to the largest eigenvalue.
PATH = np.geomspace(1e-10, 1e1, 89)
# By how much a score must fall at the edge of a path for that to be worth a warning.
STILL_FALLING = 1e-3
# Rows whose coordinates are in memory at a time, and bytes of what is computed of them for all penalties.
SLICE_ROWS = 512
SLICE_BYTES = 2**24


@dataclass(frozen=True)
class RidgePath:
    """Scores of a path of penalties, all from one eigendecomposition.

    Attributes
    ----------
    alphas : ndarray of shape (p,)
        Penalties, ascending.
    scores : ndarray of shape (p,)
        The lower the better. With "loo", the mean squared error of each row when it is left out, summed over targets;
        with "gcv", what generalized cross-validation predicts of it; with "evidence", minus the logarithm of the
        marginal likelihood, a row. Infinite where a score cannot be told: the model has as many degrees of freedom as
        rows, or fits some row whatever its target is.
    degrees : ndarray of shape (p,)
        Effective degrees of freedom, with the intercept.
    alpha : float
        The penalty of the lowest score.
    criterion : {"loo", "evidence", "gcv"}
        What the scores are.
    """

    alphas: Array
    scores: Array
    degrees: Array
    alpha: float
    criterion: Criterion = "gcv"


def gcv_path(spectrum: Spectrum, *, fit_intercept: bool) -> RidgePath:
    """Score penalties by generalized cross-validation: leave-one-out as if all rows had the same leverage."""
    check_energy(spectrum, "gcv")
    alphas, n = penalties(spectrum), spectrum.weight
    total = spectrum.energy.sum()
    shrink, degrees = shrinkage(spectrum, alphas, fit_intercept=fit_intercept)
    # |y - fit|^2 = |y|^2 - sum q^2 (1 - (alpha / (v + alpha))^2) / v with q = V'Z'y; where v = 0 so is q.
    gain = (2 - shrink) / (spectrum.values + alphas[:, None])
    residual = np.maximum(total - gain @ np.square(spectrum.rotated).sum(axis=1), np.finfo(float).eps * total)
    room = 1 - degrees / n
    with np.errstate(divide="ignore", invalid="ignore"):
        scores = np.where(room > 1e-10, residual / n / np.square(room), np.inf)
    return best(spectrum, alphas, scores, degrees, "gcv")


def evidence_path(spectrum: Spectrum, *, fit_intercept: bool) -> RidgePath:
    r"""Score penalties by the marginal likelihood of the targets.

    Coefficients have the prior :math:`N(0, \sigma^2 / \alpha)`, targets the noise :math:`\sigma^2`, a number for each
    column of them, at its best value; an intercept has a flat prior and is integrated out.
    """
    check_energy(spectrum, "evidence")
    alphas, n = penalties(spectrum), spectrum.weight - fit_intercept
    _, degrees = shrinkage(spectrum, alphas, fit_intercept=fit_intercept)
    varies = spectrum.energy > 0  # of the others nothing can be learned
    if varies.any() and n <= 0:
        return best(spectrum, alphas, np.full(len(alphas), np.inf), degrees, "evidence")
    energy = spectrum.energy[varies]
    # |y|^2 - sum q^2 / (v + alpha), a column of targets: twice the exponent, times the noise.
    gain = (1 / (spectrum.values + alphas[:, None])) @ np.square(spectrum.rotated[:, varies])
    exponent = np.maximum(energy - gain, np.finfo(float).eps * energy)
    volume = np.log1p(spectrum.values / alphas[:, None]).sum(axis=1, keepdims=True)
    scores = 0.5 * (n * (np.log(2 * np.pi * exponent / max(n, 1e-300)) + 1) + volume).sum(axis=1)
    return best(spectrum, alphas, scores / spectrum.weight, degrees, "evidence")


def left_out_path(
    spectrum: Spectrum, engine: Engine, features: Features, *, fit_intercept: bool, labels: Array | None = None
) -> RidgePath:
    """Score penalties by leaving out each row, exactly: one more pass over the rows.

    Parameters
    ----------
    spectrum : Spectrum
        The moments of all rows.
    engine : Engine
        The same rows.
    features : Features
        The drawn map.
    fit_intercept : bool
        Whether there is an intercept.
    labels : ndarray, default=None
        Where targets are labels, all of them, sorted: targets are +-1 then, as `LabeledMoments.signed` has them.
    """
    check_energy(spectrum, "loo")
    alphas = penalties(spectrum)
    _, degrees = shrinkage(spectrum, alphas, fit_intercept=fit_intercept)
    total = engine.sum(LeftOut(features, spectrum, alphas, fit_intercept, labels))
    return best(spectrum, alphas, total / spectrum.weight, degrees, "loo")


@dataclass(frozen=True, eq=False)
class LeftOut:
    r"""The squared errors of left-out rows of a block, one sum a penalty.

    A row of leverage :math:`h` and residual :math:`r` would miss its target by :math:`r / (1 - h)` without itself.
    Weights are repetitions, of which one is left out.
    """

    features: Features
    spectrum: Spectrum
    alphas: Array  # (p,)
    fit_intercept: bool
    labels: Array | None = None

    def __call__(self, block: Block) -> Array:
        """Return the sums, infinite for penalties at which a row is fitted whatever its target is."""
        s = self.spectrum
        inverse = 1 / (s.values[:, None] + self.alphas)  # (D, p)
        inverse[~s.kept] = 0.0
        # So many targets at a time: coefficients and fitted values for all penalties would grow with the labels.
        step = max(1, SLICE_BYTES // (8 * len(self.alphas) * max(len(s.values), SLICE_ROWS)))
        # The inverse magnifies the rounding of the moments: what is left of one minus the leverage below this is noise.
        least = 4 * s.rounding / self.alphas
        features = self.features.astype(block.X.dtype)
        total = np.zeros(len(self.alphas))
        for i in range(0, len(block), SLICE_ROWS):
            rows = slice(i, i + SLICE_ROWS)
            Z = features_of(features, block.X[rows])
            weight = np.ones(len(Z)) if block.weight is None else block.weight[rows]
            coordinates = (Z.astype(np.float64, copy=False) - s.center) @ s.vectors
            targets = self._targets(block.y[rows]) - s.offset
            squares = np.zeros((len(targets), len(self.alphas)))
            for j in range(0, targets.shape[1], step):
                columns = slice(j, j + step)
                coef = (s.rotated[:, columns, None] * inverse[:, None, :]).reshape(len(s.values), -1)  # (D, step p)
                missed = (coordinates @ coef).reshape(len(targets), -1, len(self.alphas))
                missed -= targets[:, columns, None]
                squares += np.einsum("ijp,ijp->ip", missed, missed)
            leverage = np.square(coordinates) @ inverse + (1 / s.weight if self.fit_intercept else 0.0)
            room = 1 - np.minimum(weight, 1.0)[:, None] * leverage
            with np.errstate(divide="ignore", invalid="ignore"):
                error = squares / np.square(room)
            error = np.where(room > least, error, np.inf)
            counts = weight > 0
            total += weight[counts] @ error[counts]
        return total

    def _targets(self, y: Any) -> Array:
        if self.labels is None:
            return y
        codes = np.searchsorted(self.labels, y)
        signs = np.where(codes[:, None] == np.arange(len(self.labels)), 1.0, -1.0)
        return signs[:, 1:] if signs.shape[1] == 2 else signs


def penalties(spectrum: Spectrum) -> Array:
    """Return the penalties of a path: below the rounding of the moments a penalty only fits that."""
    alphas = PATH * spectrum.largest
    return alphas[np.append(alphas[:-1] > 10 * spectrum.rounding, True)]


def shrinkage(spectrum: Spectrum, alphas: Array, *, fit_intercept: bool) -> tuple[Array, Array]:
    """Return by how much each direction (p, D) is shrunk, and the degrees of freedom (p,) that are left."""
    shrink = spectrum.values / (spectrum.values + alphas[:, None])
    return shrink, shrink.sum(axis=1) + fit_intercept


def check_energy(spectrum: Spectrum, criterion: Criterion) -> None:
    """Raise if squares of the targets overflow."""
    if not np.isfinite(spectrum.energy.sum()):
        msg = (
            f"alpha={criterion!r} needs targets whose squares add up in float64. "
            "Scale the targets down, or give alpha a number."
        )
        raise DataError(msg)


def best(spectrum: Spectrum, alphas: Array, scores: Array, degrees: Array, criterion: Criterion) -> RidgePath:
    """Return the path with the penalty of the lowest score, or say why there is none."""
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
    """Warn if a path ends where scores are still falling."""
    if len(alphas) < 2 or chosen not in (0, len(alphas) - 1):
        return
    beside = scores[1] if chosen == 0 else scores[-2]
    # Evidence is a logarithm, of which a difference counts; the others are squares, of which a share does.
    unit = 1.0 if criterion == "evidence" else scores[chosen]
    if not np.isfinite(beside) or not beside - scores[chosen] > STILL_FALLING * unit:
        return
    if chosen == 0:
        edge, hint = "smallest", "more features, a shorter lengthscale, or alpha=0 where targets have no noise"
    else:
        edge, hint = "largest", "another kernel or lengthscale: these features tell next to nothing of the targets"
    msg = f"alpha={criterion!r} chose the {edge} penalty that it tries, {alphas[chosen]:.2g}. Try {hint}."
    warnings.warn(msg, MercerWarning, stacklevel=2)
