"""Tuning of lengthscales: maximization of the log marginal likelihood (evidence) of a seeded sample of rows.

A map whose random parameters do not depend on the lengthscales (`BaseMap.tunes_own_draw`), such as `RandomFourier`, is
tuned by the evidence of its own features. Other maps of an isotropic kernel are tuned by the exact evidence of that
kernel, and maps of other shift-invariant kernels by the evidence of random Fourier features. All of these are smooth
functions of the lengthscales with exact derivatives. They are maximized by L-BFGS-B, which starts from the best of a
few multiples of the lengthscale of the given kernel.

If the kernel divides columns by their scales (`Transformed`), the search sees scaled rows and targets, which are
rounded. So its path, which may be long where the evidence is flat, does not depend on the units of columns and targets.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from scipy import optimize

from mercer.engines import Report, report_step
from mercer.errors import ParameterError
from mercer.features import Features
from mercer.kernels import Kernel, Transformed
from mercer.kernels.spectral import SPACING
from mercer.maps import BaseMap, RandomFourier
from mercer.maps.landmarks.lengthscales import isotropic_form
from mercer.solvers.copies import counted_once
from mercer.solvers.processes.evidence import LARGEST_AMPLITUDE, NO_NOISE
from mercer.solvers.processes.fourier_evidence import FourierEvidence
from mercer.solvers.processes.gram_evidence import GramEvidence
from mercer.solvers.processes.lengthscales import dense
from mercer.statistics import RowSample

__all__ = ["Trial", "Tuning", "tune_lengthscales"]

Array = np.ndarray
# Multiples of the lengthscale of the given kernel that are compared to find a starting point.
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Number of rows on which the multiples are compared, since each takes an eigendecomposition.
FACTOR_ROWS = 500
# Largest factor by which lengthscales, noise and amplitude may move from the starting point.
MAX_FACTOR = 1e3
# Maximal number of random Fourier features, since each evaluation takes an eigendecomposition of their moments.
FOURIER_COMPONENTS = 1024
# Maximal number of features of rows that are treated as a dense matrix.
WIDEST = 2048
# Spacing of targets in the search. Rounding errors of scaling are far smaller, so that they are unlikely to change a
# rounded number.
TARGET_STEP = 2.0**-32


@dataclass(frozen=True)
class Trial:
    """Lengthscales that were tried, and their log marginal likelihood.

    Attributes
    ----------
    lengthscales : tuple of float
        Multiples of the lengthscales of the given kernel.
    log_marginal_likelihood : float
        Log marginal likelihood of the sample, divided by its total weight.
    rows : int
        Number of rows of the sample.
    step : {"factor", "gradient"}
        Whether the lengthscales belong to the coarse scan or to the gradient-based search.
    """

    lengthscales: tuple[float, ...]
    log_marginal_likelihood: float
    rows: int
    step: str


@dataclass(frozen=True)
class Tuning:
    """The result of tuning: tuned kernel, number of rows of the sample, and all lengthscales that were tried.

    The variances of the noise of the targets (t,) are in units of the variance of the function.
    """

    kernel: Kernel
    rows: int
    trials: tuple[Trial, ...]
    evidence: float  # the highest log marginal likelihood
    alpha: Array


def tune_lengthscales(
    feature_map: BaseMap,
    kernel: Kernel,
    sample: RowSample,
    *,
    ard: bool,
    noise: float | None,
    amplitude: float | None,
    centered: bool,
    seed: int,
    steps: int = 60,
    repeated: bool = True,
    report: Report | None = None,
) -> Tuning:
    """Maximize the log marginal likelihood of a sample over lengthscales, noise and amplitude.

    Parameters
    ----------
    feature_map : BaseMap
        The unfitted map of the model.
    kernel : Kernel
        The shift-invariant kernel of the map. The search starts from its lengthscales.
    sample : RowSample
        Rows, targets and weights.
    ard : bool
        Whether every column of the data has its own lengthscale (automatic relevance determination).
    noise, amplitude : float or None
        Fixed standard deviations of noise and function; None means that they are tuned too.
    centered : bool
        Whether the mean of the targets is subtracted.
    seed : int
        Seed of the random features, and of the subset of rows on which starting points are compared.
    steps : int, default=60
        Maximal number of iterations of L-BFGS-B.
    repeated : bool, default=True
        Whether weights are repetitions of rows; otherwise they are precisions of their noise.
    report : callable or None, default=None
        Receives the number of evaluations, whose total is not known.

    Returns
    -------
    Tuning
    """
    X, y, weight = merged(sample) if repeated else weighted_rows(sample)
    inputs, inner, X = scaled_rows(kernel, X)
    inner = inner.resolve(X, weight)
    y = y - weight @ y / weight.sum() if centered else y
    unit = unit_of(y, weight)
    y = np.round(y / unit / TARGET_STEP) * TARGET_STEP
    given_amplitude = amplitude
    noise, amplitude = (None if given is None else given / unit for given in (noise, amplitude))
    evidence = replace(evidence_of(feature_map, inner, X, y, weight, ard=ard, seed=seed), repeated=repeated)
    d, t, n = evidence.rows.shape[1], y.shape[1], len(y)
    total = float(weight.sum()) if repeated else float(n)
    of_unit = float(t * np.log(unit))  # the density of targets is that of scaled targets divided by their unit
    trials: list[Trial] = []
    subset = evidence
    if n > FACTOR_ROWS:
        chosen = np.random.default_rng(seed).permutation(n)[:FACTOR_ROWS]
        subset = replace(evidence, rows=evidence.rows[chosen], targets=y[chosen], weight=weight[chosen])
    starts = []
    for factor in FACTORS:
        value, scales = subset.best(np.full(d, np.log(factor)), noise, amplitude)
        size = float(subset.weight.sum()) if repeated else float(len(subset.targets))
        trials.append(Trial((factor,), value / size - of_unit, len(subset.targets), "factor"))
        starts.append((value, factor, scales))
        report_step(report, len(trials), None, unit="evaluations of the evidence")
    _, factor, scales = max(starts, key=lambda start: start[0])

    width = d if ard else 1
    first = np.concatenate([np.full(width, np.log(factor)), np.log(scales.noise), np.log(scales.amplitude)])
    free = np.concatenate([np.ones(width), np.full(t, noise is None), np.full(t, amplitude is None)]).astype(bool)

    def objective(moved: Array) -> tuple[float, Array]:
        theta = first.copy()
        theta[free] = moved
        log_scales = theta[:width] if ard else np.full(d, theta[0])
        value, *parts = evidence(log_scales, theta[width : width + t], theta[width + t :])
        parts[0] = parts[0] if ard else parts[0].sum(keepdims=True)
        trials.append(Trial(tuple(np.exp(theta[:width]).tolist()), value / total - of_unit, n, "gradient"))
        report_step(report, len(trials), None, f"evidence {value:.6g}", "evaluations of the evidence")
        if not np.isfinite(value):  # rounding makes the covariance matrix indefinite: L-BFGS-B must step back
            return 1e10, np.zeros(free.sum())
        return -value / total, -np.concatenate(parts)[free] / total

    distance = np.log(MAX_FACTOR)
    bounds = [(x - distance, x + distance) for x in first]
    for i in range(width + t, len(first)):  # the targets have root mean square one
        bounds[i] = (bounds[i][0], max(min(bounds[i][1], np.log(LARGEST_AMPLITUDE)), first[i]))
    bounds = [bound for bound, moves in zip(bounds, free, strict=True) if moves]
    found = optimize.minimize(
        objective,
        first[free],
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": steps, "ftol": 1e-10, "gtol": 1e-6},
    )
    factors = np.exp(found.x[:width])
    tuned = rescaled(inner, factors if ard else np.full(X.shape[1], factors[0]), ard=ard)
    theta = first.copy()
    theta[free] = found.x
    alpha = np.exp(2 * (theta[width : width + t] - theta[width + t :]))
    if repeated and noise is None and (alpha <= NO_NOISE**2).any() and (weight > 1).any():
        # Equal measurements make the noise zero: each counts once.
        return tune_lengthscales(
            feature_map, kernel, counted_once(sample), ard=ard, noise=None, amplitude=given_amplitude,
            centered=centered, seed=seed, steps=steps, report=report,
        )  # fmt: skip
    return Tuning(with_inputs(tuned, inputs), n, tuple(trials), -float(found.fun) * total - of_unit * total, alpha)


def unit_of(y: Array, weight: Array) -> float:
    """Return the root mean square of targets, or one if they are zero. Their squares need not be representable."""
    largest = float(np.abs(y).max(initial=0.0))
    if largest == 0:
        return 1.0
    share = weight / weight.sum()
    return largest * float(np.sqrt(share @ np.square(y / largest).mean(axis=1)))


def scaled_rows(kernel: Kernel, X: Any) -> tuple[Transformed | None, Kernel, Any]:
    """Return the input transformation of a kernel, the kernel of transformed rows, and the transformed rows.

    The transformation is None if the kernel has none, or one that mixes columns; the kernel and the rows are then those
    given. Columns that are divided by lengthscales are rounded.
    """
    if not isinstance(kernel, Transformed) or kernel.matrix is not None or X.shape[1] > WIDEST:
        return None, kernel, X
    rows = kernel._apply(X)
    if kernel.lengthscales is not None:
        rows = np.rint(rows / SPACING) * SPACING
    return kernel, kernel.kernel, rows


def with_inputs(tuned: Kernel, inputs: Transformed | None) -> Kernel:
    """Return the kernel of rows whose value is that of `tuned` after a transformation of the rows."""
    if inputs is None:
        return tuned
    lengthscales = inputs.lengthscales
    if isinstance(tuned, Transformed) and tuned.columns is None and tuned.center is None and tuned.matrix is None:
        # One transformation in place of two.
        factors = np.asarray(tuned.lengthscales)
        lengthscales = tuple((factors if lengthscales is None else factors * np.asarray(lengthscales)).tolist())
        tuned = tuned.kernel
    return replace(inputs, kernel=tuned, lengthscales=lengthscales)


def weighted_rows(sample: RowSample) -> tuple[Any, Array, Array]:
    """Return rows, targets and weights of a sample, without rows of weight zero."""
    assert sample.y is not None
    weight = np.ones(len(sample.y)) if sample.weight is None else sample.weight
    return sample.X[weight > 0], sample.y[weight > 0], weight[weight > 0]


def merged(sample: RowSample) -> tuple[Any, Array, Array]:
    """Return rows, targets and weights of a sample, with one row in place of all rows of equal entries and targets.

    The weight of a merged row is the sum of the weights of the rows that it replaces. The result is sorted, so that it
    does not depend on the order of the given rows. Rows with more than `WIDEST` columns are not merged.
    """
    assert sample.y is not None
    y = sample.y
    # If the sample contains all rows, they have their weights. Otherwise rows were sampled with probabilities in
    # proportion to their weights, and each has weight one.
    weight = np.ones(len(y)) if sample.weight is None or not sample.is_complete else sample.weight
    X, y, weight = sample.X[weight > 0], y[weight > 0], weight[weight > 0]
    if X.shape[1] > WIDEST:
        return X, y, weight
    both, index = np.unique(np.hstack([dense(X), y]), axis=0, return_inverse=True)
    return both[:, : X.shape[1]], both[:, X.shape[1] :], np.bincount(index.ravel(), weight)


def evidence_of(
    feature_map: BaseMap, kernel: Kernel, X: Any, y: Array, weight: Array, *, ard: bool, seed: int
) -> GramEvidence | FourierEvidence:
    """Return the log marginal likelihood of rows, as a function of lengthscale factors, noise and amplitude.

    The lengthscale of each column of the data is that of `kernel` times a factor. The result uses random features
    (`FourierEvidence`) or the exact kernel (`GramEvidence`).
    """
    part = isotropic_form(kernel)
    by_features = part is None or feature_map.tunes_own_draw
    wide = X.shape[1] > WIDEST
    if wide and (ard or by_features):
        what = "lengthscale_tuning='ard'" if ard else f"The lengthscale of {feature_map!r}"
        msg = (
            f"{what} is tuned for at most {WIDEST} features of X, got {X.shape[1]}. "
            "Use lengthscale_tuning='shared' with Nystroem and an isotropic kernel, or lengthscale_tuning=None."
        )
        raise ParameterError(msg)
    if by_features:
        return FourierEvidence(fourier_features(feature_map, kernel, X.shape[1], seed), dense(X), y, weight)
    assert part is not None
    leaf, scales = part
    if wide:
        # Distances are all that matters, so the rows are replaced by m coordinates with the same distances.
        products = X @ X.T
        values, vectors = scipy.linalg.eigh(dense(products))
        rows = vectors * np.sqrt(np.maximum(values, 0.0))
    else:
        rows = dense(X)
    if scales is not None:
        rows = rows / scales
    return GramEvidence(leaf, rows / float(leaf.lengthscale), y, weight)


def fourier_features(feature_map: BaseMap, kernel: Kernel, d: int, seed: int) -> Features:
    """Return random features of a kernel whose derivatives with respect to the lengthscales have a closed form.

    These are the features of the map itself if it has at most `FOURIER_COMPONENTS` components and its random parameters
    do not depend on the lengthscales. Otherwise they are random Fourier features with dense frequencies.
    """
    row = np.zeros((1, d))
    if feature_map.tunes_own_draw and feature_map.width <= FOURIER_COMPONENTS:
        drawn = feature_map.with_kernel(kernel).fit(row).features_
        if drawn.lengthscales is not None:
            return drawn
    width = min(feature_map.width, FOURIER_COMPONENTS)
    like = RandomFourier(kernel, width, directions="big_block", random_state=seed % 2**31)
    return like.fit(row).features_


def rescaled(kernel: Kernel, factors: Array, *, ard: bool) -> Kernel:
    """Return the kernel with its lengthscales multiplied by `factors` (d,), one per column of the data."""
    part = isotropic_form(kernel)
    if part is None:
        return Transformed(kernel, lengthscales=rounded(factors))
    leaf, scales = part
    if scales is None and not ard:
        return leaf.with_params(lengthscale=rounded(float(leaf.lengthscale) * factors)[0])
    lengthscales = float(leaf.lengthscale) * factors * (1.0 if scales is None else scales)
    return Transformed(leaf.with_params(lengthscale=1.0), lengthscales=rounded(lengthscales))


def rounded(values: Array) -> tuple[float, ...]:
    """Return numbers rounded to three significant digits.

    Further digits depend on rounding errors of the search, which differ between machines.
    """
    return tuple(float(f"{value:.3g}") for value in values)
