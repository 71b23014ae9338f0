"""Tuning of lengthscales and amplitude of a classifier: maximization of the Laplace evidence of a sample of rows.

The evidence is that of features: of landmarks among the rows of the sample for isotropic kernels, of the map itself if
its random parameters do not depend on the lengthscales, such as `RandomFourier`, and of random Fourier features for
other shift-invariant kernels. All are smooth functions of the lengthscales with exact derivatives, which L-BFGS-B
maximizes from the best of a few multiples of the given lengthscale. For kernels without lengthscales, only the
amplitude is tuned, on the features of the fitted map.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from scipy import optimize

from mercer.engines import Report, report_step
from mercer.errors import ParameterError
from mercer.features import Features, features_of
from mercer.kernels import Kernel
from mercer.maps import BaseMap
from mercer.maps.landmarks.features import whitened
from mercer.maps.landmarks.lengthscales import isotropic_form
from mercer.solvers.laplace.evidence import LabeledFeatures
from mercer.solvers.processes.lengthscales import dense
from mercer.solvers.processes.tuning import (
    MAX_FACTOR,
    WIDEST,
    Trial,
    fourier_features,
    rescaled,
    rounded,
    scaled_rows,
    with_inputs,
)
from mercer.statistics import RowSample

__all__ = ["LabelTuning", "LabeledSample", "tune_amplitude", "tune_labels"]

Array = np.ndarray
# Multiples of the given lengthscale that are compared to find a starting point, and the number of rows and of landmarks
# on which they are compared.
FACTORS = (0.5, 1.0, 2.0, 4.0)
FACTOR_ROWS, FACTOR_LANDMARKS = 500, 128
# Number of landmarks of the search.
LANDMARKS = 256
# Squared amplitude at which the search starts, for features of mean squared norm one, and its bounds.
FIRST_VARIANCE, LEAST_VARIANCE, LARGEST_VARIANCE = 10.0, 1e-4, 1e8
# Largest numbers of iterations of L-BFGS-B: for the amplitude alone, for a common lengthscale, for one per column.
AMPLITUDE_STEPS, SHARED_STEPS, COLUMN_STEPS = 12, 20, 40


@dataclass(frozen=True)
class LabeledSample:
    """Distinct rows of a sample with the indices of their labels, in an order that does not depend on that given."""

    X: Any  # (m, d)
    codes: Array  # (m,)
    weight: Array  # (m,), > 0
    n_labels: int
    fit_intercept: bool

    @classmethod
    def of(cls, sample: RowSample, labels: Array, label_weight: Array, *, fit_intercept: bool) -> LabeledSample:
        """Return a sample with merged rows.

        If the sample contains all rows, they have their weights. Otherwise rows were sampled in proportion to their
        weights, and each has weight one. Rows with more than `WIDEST` columns are not merged.

        Copies of a row whose labels never differ are no evidence of labels without noise: unless some equal rows have
        different labels, no merged row has a weight above one.
        """
        codes = np.searchsorted(labels, np.asarray(sample.y))
        weight = np.ones(len(codes)) if sample.weight is None or not sample.is_complete else sample.weight
        X, codes, weight = sample.X[weight > 0], codes[weight > 0], weight[weight > 0]
        if X.shape[1] <= WIDEST:
            both, index = np.unique(np.column_stack([dense(X), codes]), axis=0, return_inverse=True)
            X, codes, weight = both[:, :-1], both[:, -1].astype(np.intp), np.bincount(index.ravel(), weight)
            if not (X[1:] == X[:-1]).all(axis=1).any():  # the rows are sorted
                weight = np.minimum(weight, 1.0)
        return cls(X, codes, weight * label_weight[codes], len(labels), fit_intercept)

    def part(self, size: int, seed: int) -> LabeledSample:
        """Return a random subset of at most `size` rows."""
        if size >= len(self.codes):
            return self
        chosen = np.sort(np.random.default_rng(seed).permutation(len(self.codes))[:size])
        return replace(self, X=self.X[chosen], codes=self.codes[chosen], weight=self.weight[chosen])

    def with_features(self, Z: Array) -> LabeledFeatures:
        """Return features of the rows with their labels."""
        return LabeledFeatures(Z, self.codes, self.weight, self.n_labels, self.fit_intercept)


@dataclass(frozen=True)
class LabelTuning:
    """The result of tuning: the tuned kernel, the squared amplitude, and all lengthscales that were tried."""

    kernel: Kernel
    variance: float
    trials: tuple[Trial, ...]


class Objective:
    """Minus the evidence per weight of a row, as a function of log lengthscale factors and the log squared amplitude.

    Each mode is found from the one before.
    """

    def __init__(self, sample: LabeledSample, features: Features, *, ard: bool, variance: float | None) -> None:
        assert features.lengthscales is not None
        self.sample = sample
        self.lengthscales = features.lengthscales
        self.width = sample.X.shape[1] if ard else 1
        self.variance = variance  # None if it is tuned
        self.total = float(sample.weight.sum())
        self.trials: list[tuple[Array, float]] = []
        self._start: Array | None = None

    def __call__(self, theta: Array) -> tuple[float, Array]:
        d = self.sample.X.shape[1]
        factors = np.exp(theta[: self.width])
        features = self.lengthscales.multiplied(np.broadcast_to(factors, (d,)))
        scales = features.lengthscales
        assert scales is not None
        Z = features_of(features, self.sample.X)
        variance = float(np.exp(theta[-1])) if self.variance is None else self.variance
        start = None if self._start is None or len(self._start) != Z.shape[1] + 1 else self._start
        found = self.sample.with_features(Z).evidence(variance, start)
        self._start = found.coef
        self.trials.append((factors, found.value / self.total))
        # A common lengthscale is the sum over columns; whitening has the derivative of the landmarks apart.
        slopes = scales.gradient(self.sample.X, Z, found.in_features) + scales.gradient_of_draw(Z.T @ found.in_features)
        gradient = slopes if self.width == d and self.width > 1 else slopes.sum(keepdims=True)
        if self.variance is None:
            gradient = np.append(gradient, found.in_log_variance)
        return -found.value / self.total, -gradient / self.total


def tune_labels(
    feature_map: BaseMap,
    kernel: Kernel,
    sample: LabeledSample,
    *,
    ard: bool,
    variance: float | None,
    seed: int,
    report: Report | None = None,
) -> LabelTuning:
    """Maximize the Laplace evidence of a sample over lengthscales and amplitude.

    Parameters
    ----------
    feature_map : BaseMap
        The unfitted map of the model.
    kernel : Kernel
        The shift-invariant kernel of the map. The search starts from its lengthscales.
    sample : LabeledSample
        Rows, labels and weights.
    ard : bool
        Whether every column of the data has its own lengthscale (automatic relevance determination).
    variance : float or None
        Squared amplitude; None means that it is tuned too.
    seed : int
        Seed of the landmarks, of the random features, and of subsets of the rows.
    report : callable or None, default=None
        Receives the number of evaluations, whose total is not known.
    """
    inputs, inner, X = scaled_rows(kernel, sample.X)
    if X.shape[1] > WIDEST:
        msg = (
            f"Lengthscales of a classifier are tuned for at most {WIDEST} features of X, got {X.shape[1]}. Use "
            "lengthscale_tuning=None, with the lengthscale 'median' or a number."
        )
        raise ParameterError(msg)
    sample = replace(sample, X=dense(X))
    inner = inner.resolve(sample.X, sample.weight)
    trials: list[Trial] = []

    def minimized(part: LabeledSample, first: Array, count: int, steps: int, *, free: bool) -> tuple[float, Array]:
        """Return the highest evidence and its point, from a start; only the amplitude moves if not `free`."""
        features = features_to_tune(feature_map, inner, part, count, seed)
        objective = Objective(part, features, ard=ard and free, variance=variance)
        distance = np.log(MAX_FACTOR)
        moved = len(first) if variance is not None else len(first) - 1
        low, high = np.log(LEAST_VARIANCE), np.log(LARGEST_VARIANCE)
        bounds = [(x - distance, x + distance) if free else (x, x) for x in first[:moved]]
        bounds += [(low, high)] * (len(first) - moved)
        if not free and variance is not None:
            value = objective(first)[0]
            point = first
        else:
            options = {"maxiter": steps, "ftol": 1e-6 if free else 1e-4, "gtol": 1e-5}
            found = optimize.minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
            value, point = float(found.fun), found.x
        for factors, evidence in objective.trials:
            step = "gradient" if free else "factor"
            trials.append(Trial(tuple(factors.tolist()), evidence, len(part.codes), step))
        report_step(report, len(trials), None, f"evidence {-value:.6g}", "evaluations of the evidence")
        return value, point

    def start(factor: float, log_variance: float) -> Array:
        return np.array([np.log(factor)] + ([] if variance is not None else [log_variance]))

    subset = sample.part(FACTOR_ROWS, seed)
    found, log_variance = [], np.log(FIRST_VARIANCE)
    for factor in FACTORS:
        value, point = minimized(subset, start(factor, log_variance), FACTOR_LANDMARKS, AMPLITUDE_STEPS, free=False)
        log_variance = point[-1] if variance is None else log_variance
        found.append((value, factor, log_variance))
    _, factor, log_variance = min(found)
    first = start(factor, log_variance)
    d = sample.X.shape[1]
    if ard:
        first = np.concatenate([np.full(d, first[0]), first[1:]])
    _, best = minimized(sample, first, LANDMARKS, COLUMN_STEPS if ard else SHARED_STEPS, free=True)
    factors = np.broadcast_to(np.exp(best[: d if ard else 1]), (d,))
    tuned = with_inputs(rescaled(inner, factors, ard=ard), inputs)
    chosen = rounded(np.exp(best[-1:]))[0] if variance is None else variance
    return LabelTuning(tuned, chosen, tuple(trials))


def features_to_tune(feature_map: BaseMap, kernel: Kernel, sample: LabeledSample, count: int, seed: int) -> Features:
    """Return features of a kernel whose derivatives with respect to the lengthscales have a closed form."""
    if feature_map.tunes_own_draw or isotropic_form(kernel) is None:
        return fourier_features(feature_map, kernel, sample.X.shape[1], seed)
    distinct = np.unique(sample.X, axis=0)  # rows may have several labels
    order = np.random.default_rng(seed).permutation(len(distinct))[: min(count, feature_map.width)]
    landmarks = distinct[np.sort(order)]
    return whitened(kernel, landmarks, len(landmarks))


def tune_amplitude(features: Features, sample: LabeledSample) -> float:
    """Return the squared amplitude of highest evidence, for the features of a fitted map."""
    Z = features_of(features.astype(sample.X.dtype), sample.X).astype(np.float64, copy=False)
    m, D = Z.shape
    if D > m:  # fewer coordinates with the same products
        Z = scipy.linalg.qr(Z.T, mode="r", check_finite=False)[0][:m].T.copy()
    labeled, total = sample.with_features(Z), float(sample.weight.sum())
    # The effect of an amplitude is that of its product with the norm of the features.
    unit = float(sample.weight @ np.square(Z).sum(axis=1)) / total
    unit = unit if 0 < unit < np.inf else 1.0
    coef: list[Array | None] = [None]

    def objective(theta: Array) -> tuple[float, Array]:
        found = labeled.evidence(float(np.exp(theta[0])) / unit, coef[0])
        coef[0] = found.coef
        return -found.value / total, np.array([-found.in_log_variance / total])

    bounds = [(np.log(LEAST_VARIANCE), np.log(LARGEST_VARIANCE))]
    options = {"maxiter": AMPLITUDE_STEPS, "ftol": 1e-8, "gtol": 1e-6}
    first = np.array([np.log(FIRST_VARIANCE)])
    best = optimize.minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    return rounded(np.exp(best.x[:1]) / unit)[0]
