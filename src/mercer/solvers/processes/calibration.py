r"""Noise and residual variance of a process on landmark features, calibrated on leave-one-out errors.

The features z of landmarks leave a residual :math:`r(x) = k(x, x) - |z(x)|^2 \ge 0` of the kernel. The model that is
fitted has no such residual, so its noise s is the standard deviation of all that the features do not represent: of the
noise of the targets, and of the residual function. A variance of new targets :math:`s^2 + a^2 r(x)` would therefore
count the residual twice. Instead, the leave-one-out error of row i has the variance

.. math:: v_i = \sigma^2 + A\, r(x_i) + s^2 \frac{h_i}{1 - h_i},

with the leverage :math:`h_i`, where the last term is the posterior variance of the function of the features without row
i. The variances :math:`\sigma^2` of the noise and A of the residual function maximize the Gaussian log density of the
leave-one-out errors :math:`e_i = (y_i - \hat y_i) / (1 - h_i)` [1]_, times a prior density of :math:`\log A` around the
squared amplitude of the evidence, which matters only where the residual is small beside the noise on all rows.

Rows that are landmarks have no residual, but new rows like them would have. If more than half of the rows are
landmarks, but not all, the other rows are a small and selected part, which does not determine A. Then the residual of a
landmark of which no copy remains is what the other landmarks leave, :math:`r_{-i}`: with the landmark, this part of the
function is one of the features, and its variance :math:`a^2 r_{-i}`, a part of the last term, is subtracted from it.

References
----------
.. [1] Sundararajan, Keerthi (2001), Predictive approaches for choosing hyperparameters in Gaussian processes, Neural
   Computation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize

from mercer.features import features_of
from mercer.maps import BaseMap
from mercer.solvers.processes.evidence import Scales
from mercer.solvers.processes.intervals import StandardizedErrors
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.statistics import RowSample, row_hashes

__all__ = ["LeftOut", "calibrated_scales", "left_out", "standardized_errors"]

Array = np.ndarray
# Mean of the residual variance relative to that of the noise, below which the evidence needs no correction.
NEGLIGIBLE = 1e-3
# Standard deviation of the logarithm of A relative to the squared amplitude of the evidence, in a normal prior. Where
# the residual is small on all rows, they hardly determine A, but the variance far away from them depends on it.
PRIOR_WIDTH = 1.0
# Largest factor by which the amplitude of the residual function may differ from that of the evidence.
MAX_FACTOR = 2.0
# Bounds of the noise variance, relative to that of the model of the features.
LEAST_SHARE, LARGEST_SHARE = 1e-8, 4.0
# Number of rows whose features are computed at a time, to limit memory.
ROWS = 1024
# Share of landmarks among the rows above which their residual is what other landmarks leave.
MOST_LANDMARKS = 0.5
# A row whose leverage is so close to one has a leave-one-out error of rounding errors, and is left out.
LEAST_DISTANCE = 1e-8


@dataclass(frozen=True)
class LeftOut:
    """Leave-one-out errors of rows for one column of targets, and the terms of their variance."""

    squares: Array  # (n,), squared errors
    residual: Array  # (n,), k(x, x) - |z(x)|^2
    posterior: Array  # (n,), posterior variance of the function of the features without the row
    weight: Array  # (n,), numbers of repetitions
    share: Array | float = 1.0  # (n,), factors of the noise variance of the rows

    def density(self, noise: float, residual: float) -> tuple[float, Array]:
        """Return the mean log density of the errors, and its derivatives with respect to the log variances.

        Parameters
        ----------
        noise, residual : float
            Variances of the noise and of the residual function, for a residual of one.
        """
        variance = noise * self.share + residual * self.residual + self.posterior
        share = self.weight / self.weight.sum()
        value = -0.5 * share @ (np.log(2 * np.pi * variance) + self.squares / variance)
        slope = 0.5 * share * (self.squares / variance - 1) / variance
        return float(value), np.array([noise * (slope * self.share).sum(), residual * (slope @ self.residual)])


def calibrated_scales(left_out: list[LeftOut], scales: Scales, *, amplitude_given: bool = False) -> Scales:
    """Return the noise, and the amplitude of the residual function, that maximize the leave-one-out density.

    Parameters
    ----------
    left_out : list of LeftOut
        Leave-one-out errors, for every column of targets.
    scales : Scales
        Noise and amplitude of the model of the features.
    amplitude_given : bool, default=False
        Whether the amplitude is not changed.

    Returns
    -------
    Scales
        Those given, for targets for which the residual is negligible beside the noise, as where all rows are landmarks.
    """
    noise, amplitude = scales.noise.copy(), scales.amplitude.copy()
    for t, errors in enumerate(left_out):
        unit, prior = float(noise[t]) ** 2, float(amplitude[t]) ** 2
        if not len(errors.squares) or not unit > 0:
            continue
        if prior * np.average(errors.residual, weights=errors.weight) <= NEGLIGIBLE * unit:
            continue
        shares = maximize_density(errors, unit, prior, 1.0 if amplitude_given else MAX_FACTOR)
        noise[t] *= np.sqrt(shares[0])
        amplitude[t] *= np.sqrt(shares[1])
    return Scales(noise, amplitude)


def standardized_errors(left_out: list[LeftOut], scales: Scales) -> StandardizedErrors:
    """Return leave-one-out errors divided by their standard deviations, for the noise and amplitude of predictions."""
    ratios = []
    for errors, noise, amplitude in zip(left_out, scales.noise, scales.amplitude, strict=True):
        variance = noise**2 * errors.share + amplitude**2 * errors.residual + errors.posterior
        ratios.append(np.sqrt(np.divide(errors.squares, variance, out=np.zeros(len(variance)), where=variance > 0)))
    return StandardizedErrors.of(ratios, [errors.weight for errors in left_out])


def maximize_density(errors: LeftOut, unit: float, prior: float, max_factor: float) -> Array:
    """Return the factors of the noise variance `unit` and of the residual variance `prior` of highest density."""
    # In units of the noise, since the squares of small targets are small numbers.
    scaled = replace(
        errors,
        squares=errors.squares / unit,
        residual=errors.residual * (prior / unit),
        posterior=errors.posterior / unit,
    )

    pull = 1 / (PRIOR_WIDTH**2 * float(errors.weight.sum()))  # of the prior on the mean over rows

    def objective(log_shares: Array) -> tuple[float, Array]:
        value, gradient = scaled.density(*np.exp(log_shares))
        return 0.5 * pull * log_shares[1] ** 2 - value, np.array([0.0, pull * log_shares[1]]) - gradient

    width = 2 * np.log(max_factor)
    bounds = [(np.log(LEAST_SHARE), np.log(LARGEST_SHARE)), (-width, width)]
    starts = [np.array([np.log(share), max(v, -width)]) for share in (0.01, 0.1, 0.4, 0.9) for v in (-1.0, 0.0)]
    first = min(starts, key=lambda start: objective(start)[0])
    options = {"ftol": 1e-15, "gtol": 1e-10, "maxiter": 200}
    found = optimize.minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return np.exp(found.x)


def left_out(
    feature_map: BaseMap,
    spectrum: Spectrum,
    scales: Scales,
    sample: RowSample,
    variance: Array | None = None,
    *,
    repeated: bool = True,
) -> list[LeftOut]:
    """Return the leave-one-out errors of the rows of a sample, for every column of targets.

    One copy of a row is left out. If the sample contains all rows, they have their weights; otherwise rows were sampled
    in proportion to their weights, and each has weight one.

    Parameters
    ----------
    feature_map : BaseMap
        The fitted map.
    spectrum : Spectrum
        Eigendecomposition of the moments of all rows, which include the sample.
    scales : Scales
        Noise and amplitude of the model of the features.
    sample : RowSample
        Rows and targets.
    variance : ndarray of shape (n, t), default=None
        Posterior variances of the function at the rows of positive weight, without them; None means those of the
        function of the features.
    repeated : bool, default=True
        Whether weights are repetitions of rows; otherwise they are precisions of their noise.
    """
    assert sample.y is not None
    known = sample.weight is not None and (sample.is_complete or not repeated)
    weight = sample.weight if known and sample.weight is not None else np.ones(len(sample.y))
    X, y, weight = sample.X[weight > 0], sample.y[weight > 0], weight[weight > 0]
    kept = spectrum.retained
    alpha, coef = scales.alpha, spectrum.coef(scales.alpha)
    residual = np.empty(len(y))
    leverage, error = np.empty_like(y, dtype=np.float64), np.empty_like(y, dtype=np.float64)
    for start in range(0, len(y), ROWS):
        rows = slice(start, start + ROWS)
        Z, residual[rows] = features_and_residual(feature_map, X[rows])
        squares = np.square(Z @ spectrum.vectors[:, kept])
        leverage[rows] = squares @ (1 / (spectrum.values[kept, None] + alpha))
        error[rows] = y[rows] - spectrum.offset - Z @ coef
    precision = np.ones(len(y))
    if not repeated:
        precision, weight = weight, precision
        leverage *= precision[:, None]
    own = residuals_of_landmarks(feature_map, X, weight)
    share = float(weight[own > 0].sum() / weight.sum()) if len(weight) else 0.0
    if not MOST_LANDMARKS < share < 1:  # where all rows are landmarks, the features represent the kernel on them
        own = np.zeros_like(own)
    out = []
    for t, s in enumerate(scales.noise):
        used = 1 - leverage[:, t] > LEAST_DISTANCE
        h = np.maximum(leverage[used, t], 0.0)
        squares = np.square(error[used, t] / (1 - h))
        posterior = float(s) ** 2 * h / (1 - h) / precision[used] if variance is None else variance[used, t]
        rest = residual[used]
        prior = float(scales.amplitude[t]) ** 2
        if variance is None and own.any() and prior * rest.mean() > NEGLIGIBLE * float(s) ** 2:
            rest = np.maximum(rest, np.minimum(own[used], posterior / prior))
            posterior = posterior - prior * np.maximum(rest - residual[used], 0.0)
        out.append(LeftOut(squares, rest, np.maximum(posterior, 0.0), weight[used], 1 / precision[used]))
    return out


def residuals_of_landmarks(feature_map: BaseMap, X: Any, weight: Array) -> Array:
    """Return, for rows that are landmarks and of which no copy remains, what other landmarks leave; zero for others."""
    found = feature_map.features_.landmark_residuals if feature_map.residual_is_kernel else None
    out = np.zeros(len(weight))
    if found is None:
        return out
    landmarks, residuals = found
    hashes, known = row_hashes(X), row_hashes(landmarks)
    order = np.argsort(known, kind="stable")
    position = order[np.minimum(np.searchsorted(known, hashes, sorter=order), len(known) - 1)]
    _, index, counts = np.unique(hashes, return_inverse=True, return_counts=True)
    alone = (known[position] == hashes) & (counts[index] == 1) & (weight <= 1)
    out[alone] = residuals[position[alone]]
    return out


def features_and_residual(feature_map: BaseMap, X: Any) -> tuple[Array, Array]:
    """Return the features Z of rows, and k(x, x) - |z(x)|^2 for each, which is zero if it is not a kernel."""
    Z = features_of(feature_map.features_.astype(X.dtype), X).astype(np.float64, copy=False)
    if not feature_map.residual_is_kernel:
        return Z, np.zeros(len(Z))
    diagonal = feature_map.kernel_.diag(X.astype(np.float64))
    return Z, np.maximum(diagonal - np.square(Z).sum(axis=1), 0.0)
