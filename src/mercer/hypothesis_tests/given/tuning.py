"""Kernels of the conditioning variables that are tuned by marginal likelihood, for x and for y separately."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from mercer.engines import Engine, Report, enter_stage
from mercer.engines.base import blas_threads_for
from mercer.features import features_of
from mercer.hypothesis_tests.frequencies import standard_frequencies
from mercer.hypothesis_tests.given.conditioning import (
    BothTargets,
    Codings,
    ConditioningFeatures,
    FirstRegression,
    JoinedTargets,
    NormalScores,
    ZFeatures,
    first_regressions,
    median_distance,
    waves,
)
from mercer.kernels import Gaussian, IsotropicKernel, Matern
from mercer.metric.inputs import column_spreads
from mercer.solvers.processes.gram_evidence import GramEvidence, distances
from mercer.solvers.ridge.least_squares import Spectrum

__all__ = [
    "ScaledColumnsOf",
    "TunedFeatures",
    "TunedRegression",
    "TunedSide",
    "dependence_of_neighbors",
    "tuned_regression",
    "tuned_sides",
]

Array = np.ndarray
# Number of rows of the sample by which lengthscales are tuned: this multiple of the root of the number of all rows,
# within these bounds. Starting points are compared on fewer.
PER_ROOT, ROWS, START_ROWS = 6.0, (256, 1000), 224
# Starting points: multiples of the median distance as the lengthscale of all columns, and of one column where the
# others hardly matter.
FACTORS, SINGLE_FACTORS, FLAT = (2.0, 1.0, 0.5, 0.25, 0.1, 0.04), (0.5, 0.15, 0.04), 8.0
# Most columns that are tried alone.
MOST_SINGLE = 12
# Variances of the noise relative to that of the function, for starting points.
NOISES = (1.0, 0.03)
# Most steps of L-BFGS, its least change of the log likelihood per row and least gradient before it ends, and the
# largest change of a lengthscale.
STEPS, LEAST_GAIN, LEAST_SLOPE, LARGEST_CHANGE = 15, 1e-5, 1e-3, 1e3
# Largest number of columns of x or of y by which the kernel is tuned: leading principal components, if there are more.
MOST_TARGETS = 3
# Number of components of each tuned kernel, a multiple of the root of the number of rows, within these bounds.
COMPONENTS_PER_ROOT, COMPONENTS = 4.0, (200, 600)
# Lengthscales of the components relative to the tuned ones, and their shares.
SPREAD = ((1.0, 0.7), (0.5, 0.3))
# Number of rows whose residuals are compared with those of their nearest rows.
NEIGHBOR_ROWS = 1000
KERNELS: tuple[IsotropicKernel, ...] = (Gaussian(1.0), Matern(1.5, 1.0))


@dataclass(frozen=True, eq=False)
class ScaledColumnsOf:
    """Columns of rows, less their median, divided by a robust spread. Constant columns are dropped."""

    columns: Array
    center: Array
    scale: Array

    @classmethod
    def of(cls, sample: Array, columns: tuple[int, ...]) -> Self:
        """Return the scaling of some columns by a sample (n, d)."""
        chosen = np.array(columns, dtype=int)
        center, spread = column_spreads(sample[:, chosen], None)
        kept = spread > 0
        return cls(chosen[kept], center[kept], spread[kept])

    def __call__(self, X: Array) -> Array:
        return (X[:, self.columns] - self.center) / self.scale


Coding = ScaledColumnsOf | NormalScores


@dataclass(frozen=True, eq=False)
class TunedSide:
    """How x or y is coded, and the kernel on the conditioning variables by which it is regressed."""

    targets: Codings
    inputs: Coding
    kernel: IsotropicKernel
    lengthscales: Array  # (d,)

    def frequencies(self, count: int, rng: np.random.Generator) -> Array:
        """Return frequencies (d, count) of the kernel, and of shorter lengthscales."""
        d, parts = len(self.lengthscales), []
        for relative, share in SPREAD:
            size = max(2, round(count * share))
            W = standard_frequencies(size, d, rng).T / (relative * self.lengthscales[:, None])
            if isinstance(self.kernel, Matern):  # a Student distribution with 2 nu degrees of freedom
                dof = 2 * self.kernel.nu
                W = W / np.sqrt(rng.chisquare(dof, size) / dof)
            parts.append(W)
        return np.concatenate(parts, axis=1)


def tuned_sides(
    sample: Array, sides: Sequence[tuple[int, ...]], columns: tuple[int, ...], n_rows: int
) -> tuple[TunedSide, ...]:
    """Return the tuned regressions of x and y on the conditioning variables.

    Parameters
    ----------
    sample : ndarray of shape (m, d)
        Joint rows in random order, of which the first ones are used.
    sides : sequence of tuple of int
        The columns of x and of y.
    columns : tuple of int
        The conditioning variables.
    n_rows : int
        Number of all rows, of which the number of rows of the sample that are used is a function.
    """
    rows = sample[: int(np.clip(PER_ROOT * np.sqrt(n_rows), *ROWS))]
    codings: list[Coding] = [ScaledColumnsOf.of(sample, columns), NormalScores.of(sample, columns)]
    inputs = [coding(rows) for coding in codings]
    sided = [codings_of(sample, side) for side in sides]
    targets = [leading(coding(rows)) for side in sided for coding in side.functions]
    starts = best_starts([U[:START_ROWS] for U in inputs], [T[:START_ROWS] for T in targets])
    found = []
    for number, side in enumerate(sided):
        best = 2 * number + side.best([start.left_out for start in starts[2 * number : 2 * number + 2]])
        start = tuned_lengthscales(starts[best], inputs[starts[best].coding], targets[best])
        found.append(TunedSide(side, codings[start.coding], start.kernel, start.lengthscales))
    return tuple(found)


def left_out(L: Array, T: Array) -> tuple[Array, Array]:
    """Return leave-one-out errors (m, t), and the targets divided by A, given the Cholesky factor of A = K + r I."""
    solved = scipy.linalg.cho_solve((L, True), T, check_finite=False)
    inverse, _ = scipy.linalg.lapack.dpotri(L, lower=1)
    return solved / np.diagonal(inverse)[:, None], solved


def codings_of(sample: Array, columns: tuple[int, ...]) -> Codings:
    """Return the codings of columns by their values and by normal scores, given a sample (n, d)."""
    functions: tuple[Coding, ...] = (ScaledColumnsOf.of(sample, columns), NormalScores.of(sample, columns))
    slopes = tuple(mean_log_slope(coding, sample) for coding in functions)
    return Codings(functions, tuple(len(coding.columns) for coding in functions), slopes)


def mean_log_slope(coding: Coding, sample: Array) -> float:
    """Return the mean over rows and columns of the logarithm of the derivative of a coding, divided by its deviation.

    A derivative is the slope between two values of the sample, so many places before and after in their order that
    noise averages out.
    """
    slopes = []
    for column, coded in zip(coding.columns, coding(sample).T, strict=True):
        values, index, counts = np.unique(sample[:, column], return_index=True, return_counts=True)
        scores, place, reach = coded[index] / coded.std(), np.arange(len(values)), max(1, round(len(values) ** 0.5 / 2))
        low, high = np.maximum(place - reach, 0), np.minimum(place + reach, len(values) - 1)
        with np.errstate(over="ignore"):
            slope = (scores[high] - scores[low]) / (values[high] - values[low])
        finite = np.clip(slope, np.finfo(float).tiny, np.finfo(float).max)
        slopes.append(np.average(np.log(finite), weights=counts))
    return float(np.mean(slopes)) if slopes else 0.0


def leading(T: Array) -> Array:
    """Return columns of mean zero and variance one: all, or the leading principal components if there are many."""
    T = T - T.mean(axis=0)
    if T.shape[1] > MOST_TARGETS:
        T = T @ np.linalg.svd(T, full_matrices=False)[2][:MOST_TARGETS].T
    spread = T.std(axis=0)
    return T / np.where(spread > 0, spread, 1.0)


@dataclass(frozen=True, eq=False)
class Start:
    """A starting point of the search for lengthscales."""

    value: float  # log marginal likelihood, up to a constant
    coding: int
    kernel: IsotropicKernel
    lengthscales: Array
    ratio: float  # variance of the noise relative to that of the function
    amplitude: Array  # (t,), variances of the functions
    left_out: float  # mean squared leave-one-out error


def best_starts(inputs: Sequence[Array], targets: Sequence[Array]) -> list[Start]:
    """Return the starting point of the largest marginal likelihood for each array of targets."""
    # Candidates are compared in single precision, in which the variance of the noise is far above rounding error.
    m, T = len(targets[0]), np.concatenate(targets, axis=1)
    ends = np.cumsum([0, *(part.shape[1] for part in targets)])
    best: list[Any] = [None] * len(targets)
    rough = T.astype(np.float32)
    for number, U in enumerate(inputs):
        for kernel, scales, distance in candidates(U):
            K = kernel.profile(distance).astype(np.float32)
            for ratio in NOISES:
                A = K.copy()
                A[np.diag_indices(m)] += np.float32(ratio)
                L = scipy.linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
                V = scipy.linalg.solve_triangular(L, rough, lower=True, check_finite=False)
                mean = np.maximum(np.square(V).mean(axis=0), 1e-30)
                values = -0.5 * m * np.log(mean) - np.log(np.diagonal(L)).sum()
                for i in range(len(targets)):
                    value = float(values[ends[i] : ends[i + 1]].sum())
                    if best[i] is None or value > best[i][0]:
                        best[i] = (value, number, kernel, scales, ratio)
    out = []
    for (value, number, kernel, scales, ratio), F in zip(best, targets, strict=True):
        A = kernel.profile(distances(inputs[number] / scales)) + ratio * np.eye(m)
        L = scipy.linalg.cholesky(A, lower=True, overwrite_a=True, check_finite=False)
        errors, solved = left_out(L, F)
        amplitude = np.maximum((F * solved).mean(axis=0), 1e-300)
        error = float(np.square(errors).mean()) if errors.size else 0.0  # a coding may have no column
        out.append(Start(value, number, kernel, scales, ratio, amplitude, error))
    return out


def candidates(U: Array) -> Iterator[tuple[IsotropicKernel, Array, Array]]:
    """Yield kernels, lengthscales (d,), and the scaled distances (m, m) of all pairs of rows."""
    d, median = U.shape[1], median_distance(U)
    distance = distances(U)
    for factor in FACTORS:
        scaled = distance / (factor * median)
        for kernel in KERNELS:
            yield kernel, np.full(d, factor * median), scaled
    if d == 1:
        return
    flat = np.square(distance / (FLAT * median))
    for column in range(min(d, MOST_SINGLE)):
        one = median_distance(U[:, [column]])
        difference = np.square(U[:, column, None] - U[:, column])
        for factor in SINGLE_FACTORS:
            scales = np.full(d, FLAT * median)
            scales[column] = factor * one
            more = scales[column] ** -2 - (FLAT * median) ** -2
            yield KERNELS[0], scales, np.sqrt(np.maximum(flat + more * difference, 0.0))


def tuned_lengthscales(start: Start, U: Array, T: Array) -> Start:
    """Return lengthscales (d,) of the largest marginal likelihood, with noise and amplitudes, from a starting point."""
    d, t = U.shape[1], T.shape[1]
    evidence = GramEvidence(start.kernel, U, T, np.ones(len(U)))
    log_amplitude = 0.5 * np.log(start.amplitude)
    first = np.concatenate([np.log(start.lengthscales), log_amplitude + 0.5 * np.log(start.ratio), log_amplitude])

    def objective(theta: Array) -> tuple[float, Array]:
        value, *parts = evidence(theta[:d], theta[d : d + t], theta[d + t :])
        if not np.isfinite(value):
            return 1e10, np.zeros(len(theta))
        return -value / len(U), -np.concatenate(parts) / len(U)

    change = np.log(LARGEST_CHANGE)
    bounds = [(x - change, x + change) for x in first]
    options = {"maxiter": STEPS, "ftol": LEAST_GAIN, "gtol": LEAST_SLOPE}
    found = minimize(objective, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
    noise, amplitude = np.exp(2 * found.x[d : d + t]), np.exp(2 * found.x[d + t :])
    ratio = float(np.exp(np.log(noise / amplitude).mean()))
    return replace(start, lengthscales=np.exp(found.x[:d]), ratio=ratio, amplitude=amplitude)


@dataclass(frozen=True, eq=False)
class TunedFeatures(ZFeatures):
    """Features of the conditioning variables: given ones, and waves of the tuned kernels of x and of y."""

    base: ConditioningFeatures
    parts: tuple[tuple[Coding, Array], ...]

    @property
    def n_components(self) -> int:
        return self.base.n_components + sum(2 * W.shape[1] for _, W in self.parts)

    def __call__(self, X: Any, out: Array) -> None:
        X = X.toarray() if hasattr(X, "toarray") else X
        end = self.base.n_components
        out[:, :end] = features_of(self.base, X)
        for coding, W in self.parts:
            out[:, end : end + 2 * W.shape[1]] = waves(coding(X), W)
            end += 2 * W.shape[1]

    def modulation(self, X: Array) -> Array:
        return self.base.modulation(X)


@dataclass(frozen=True, eq=False)
class TunedRegression:
    """Regressions of the coded columns of x and y on features of z with tuned kernels.

    Attributes
    ----------
    first : FirstRegression
        The regression on all features.
    before : FirstRegression
        The regression on the features that are not tuned.
    spectrum : Spectrum
        Moments of all features and of the components of x and y.
    unresolved : tuple of float
        P-values of `dependence_of_neighbors` for the residuals of x and of y, in both codings.
    """

    first: FirstRegression
    before: FirstRegression
    spectrum: Spectrum
    unresolved: tuple[float, float]


def tuned_regression(
    engine: Engine,
    sample: Array,
    sides: Sequence[tuple[int, ...]],
    components: BothTargets,
    base: ConditioningFeatures,
    n_rows: int,
    rng: np.random.Generator,
    report: Report | None = None,
) -> TunedRegression:
    """Return the regression of x and y on given features, joined with those of tuned kernels.

    Parameters
    ----------
    engine : Engine
        Joint rows.
    sample : ndarray of shape (m, d)
        A sample of them, in random order.
    sides : sequence of tuple of int
        The columns of x, y and z.
    components : BothTargets
        The components of x and y.
    base : ConditioningFeatures
        Features of z.
    n_rows : int
        Number of all rows, of which the number of components is a function.
    rng : Generator
        Draws the frequencies.
    report : callable or None, default=None
        Receives the progress.
    """
    enter_stage(report, "tune kernels")
    with blas_threads_for(1):
        tuned = tuned_sides(sample, sides[:2], sides[2], n_rows)
    count = int(np.clip(COMPONENTS_PER_ROOT * np.sqrt(n_rows), *COMPONENTS)) // 2
    features = TunedFeatures(base, tuple((side.inputs, side.frequencies(count, rng)) for side in tuned))
    targets = JoinedTargets((tuned[0].targets, tuned[1].targets), components)
    enter_stage(report, "regress")
    first, other, before, spectrum = first_regressions(engine, targets, features, base, report)
    rows = sample[:NEIGHBOR_ROWS]
    # A jump may show in the residuals of one coding only.
    halves = [np.split(one(rows), [one.widths[0]], axis=1) for one in (first, other)]
    left = [np.concatenate(parts, axis=1) for parts in zip(*halves, strict=True)]
    with blas_threads_for(1):
        p = [
            dependence_of_neighbors(side.inputs(rows) / side.lengthscales, part)
            for side, part in zip(tuned, left, strict=True)
        ]
    return TunedRegression(first, before, spectrum, (p[0], p[1]))


def dependence_of_neighbors(U: Array, R: Array) -> float:
    """Return a p-value of the hypothesis that the residuals of nearest rows are uncorrelated.

    Residuals that still depend on z have equal signs at rows that are near each other. The residuals are replaced by
    normal scores. The sum over rows of the product with the residual of the nearest row is compared with its standard
    deviation, where pairs of rows that are nearest to each other count twice. In-sample residuals of a regression
    correlate negatively, which makes the p-value conservative.

    Parameters
    ----------
    U : ndarray of shape (m, d)
        Conditioning variables in the tuned metric.
    R : ndarray of shape (m, t)
        Residuals. With several columns, the least p-value is multiplied by their number.
    """
    squares = np.square(distances(U))
    np.fill_diagonal(squares, np.inf)
    nearest = squares.argmin(axis=1)
    mutual = nearest[nearest] == np.arange(len(U))
    scores = ndtri((R.argsort(axis=0).argsort(axis=0) + 0.5) / len(R))
    products = scores * scores[nearest]
    spread = np.sqrt((1 + mutual) @ np.square(products))
    return float(min(1.0, R.shape[1] * ndtr(-(products.sum(axis=0) / spread)).min()))
