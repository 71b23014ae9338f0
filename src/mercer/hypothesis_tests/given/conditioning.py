"""Regressions on the conditioning variables of a test: normal scores, a learned metric, features, and residuals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy.spatial.distance import pdist
from scipy.special import ndtri

from mercer.engines import Block, Engine, Report
from mercer.features import Features, features_of
from mercer.maps.fourier.projections import DenseProjection
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.statistics import MomentSum, exponentials

__all__ = ["ConditioningFeatures", "NormalScores", "Residuals", "SideFeatures", "conditioning_features", "residuals"]

Array = np.ndarray
# Multiples of the median distance that are tried as lengthscales, and rounds in which the metric is learned.
FACTORS, METRIC_ROUNDS = (2.0, 1.0, 0.5, 0.25), 2
# Bounds of the number of rows, and of components, of the regressions by which the metric is learned. They grow with the
# number of rows, and are small for few rows, where they would take most of the time.
METRIC_ROWS, METRIC_COMPONENTS = (1000, 4000), (100, 200)
# Share of the identity in a learned metric, so that a variable that seemed irrelevant is never dropped.
IDENTITY = 0.05
# Shares of components by metric: the identity, and the learned metric.
ISOTROPIC = 0.4
# Lengthscales of the final features, relative to the chosen one.
SPREAD = (1.0, 0.5)
# The number of components is this multiple of the root of the number of rows, within these bounds.
PER_ROOT, FEWEST, MOST = 3.0, 40, 1200
# Penalties that are compared by leave-one-out, relative to the largest eigenvalue.
PENALTIES = np.geomspace(1e-9, 1.0, 13)
# Those of the regression of columns, which may have little noise.
FINE_PENALTIES = np.geomspace(1e-12, 1e3, 61)
# Those of the regressions of components of its residuals, of which z explains little.
LARGE_PENALTIES = np.geomspace(1e-6, 1e4, 21)
# Largest number of degrees of freedom of that regression, relative to the number of rows.
LARGEST_SHARE = 0.9
# A conditioning variable is also treated as a category if it has at most this number of distinct values, each of which
# occurs this number of times on average. All categories together have at most a share of the rows as components.
MOST_LEVELS, ROWS_PER_LEVEL, LEVEL_SHARE = 64, 8, 8
# Scores that differ by less are those of equal values.
SAME_SCORE = 1e-9
# Largest leverage of a row in leave-one-out errors: that of a row which is fitted exactly is one, up to rounding.
LARGEST_LEVERAGE = 0.99
# Number of rows whose leave-one-out errors are compared, at random; all of them if there are fewer.
SCORED_ROWS = 20_000
# Components of x and y before and after the projection on principal components, and the share of the variance that the
# latter explain.
RAW_COMPONENTS, MOST_COMPONENTS, EXPLAINED = 64, 10, 0.99
# Largest number of directions of z along which products of residuals may vary, and the number of leading residuals of
# each side in these products.
MODULATORS, MODULATED = 6, 2


@dataclass(frozen=True, eq=False)
class NormalScores:
    """Columns of rows, each transformed to normal scores by the ranks of a sample of its values.

    Conditional independence does not change under one-to-one transformations of a variable. Normal scores have no heavy
    tails and no units. Equal values have equal scores, and values between those of the sample are interpolated. Columns
    that are constant in the sample are dropped.
    """

    columns: tuple[int, ...]
    values: tuple[Array, ...]  # distinct values of the sample, ascending, one array per column
    scores: tuple[Array, ...]

    @classmethod
    def of(cls, sample: Array, columns: tuple[int, ...]) -> Self:
        """Return the transformation of some columns by the ranks of their values in a sample (n, d)."""
        chosen, values, scores = [], [], []
        for column in columns:
            distinct, counts = np.unique(sample[:, column], return_counts=True)
            if len(distinct) > 1:
                middle = (np.cumsum(counts) - 0.5 * counts) / len(sample)
                chosen.append(column)
                values.append(distinct.astype(np.float64))
                scores.append(ndtri(middle))
        return cls(tuple(chosen), tuple(values), tuple(scores))

    def __call__(self, X: Any) -> Array:
        if sp.issparse(X):
            X = X.toarray()
        out = np.empty((len(X), len(self.columns)))
        for j, column in enumerate(self.columns):
            out[:, j] = interpolated(np.asarray(X[:, column], dtype=np.float64), self.values[j], self.scores[j])
        return out


def interpolated(x: Array, values: Array, scores: Array) -> Array:
    """Return scores of x (n,), linear between ascending values, also where differences of values are subnormal."""
    with np.errstate(over="ignore", invalid="ignore"):
        out = np.interp(x, values, scores)
    rest = np.flatnonzero(~np.isfinite(out))  # the slope between two values has overflowed
    if len(rest):
        low = np.clip(np.searchsorted(values, x[rest], side="right") - 1, 0, len(values) - 2)
        part = (x[rest] - values[low]) / (values[low + 1] - values[low])
        out[rest] = scores[low] + part * (scores[low + 1] - scores[low])
    return out


def median_distance(U: Array) -> float:
    """Return the median of the distances between distinct rows among the first 200 rows."""
    U = U[:200]
    squares = pdist(U, "sqeuclidean")
    squares = squares[squares > 1e-9 * max(float(np.square(U).sum(axis=1).max(initial=0.0)), 1e-300)]
    return float(np.sqrt(np.median(squares))) if len(squares) else 1.0


def waves(U: Array, W: Array) -> Array:
    """Return cosines, then sines, of U @ W, whose squares add up to one."""
    out = np.empty((len(U), 2 * W.shape[1]))
    if out.size:
        DenseProjection(np.ascontiguousarray(W)).pairs(np.ascontiguousarray(U), 1 / np.sqrt(W.shape[1]), out)
    return out


@dataclass(frozen=True, eq=False)
class SideFeatures:
    """Principal components of the Fourier features of one side, x or y, given the joint rows."""

    scores: NormalScores
    frequencies: Array  # (d, J)
    center: Array  # (2 J,)
    directions: Array  # (2 J, k)

    @classmethod
    def of(cls, sample: Array, columns: tuple[int, ...], rng: np.random.Generator) -> Self:
        """Return features of a Gaussian kernel of median lengthscale on normal scores, given a sample of rows."""
        scores = NormalScores.of(sample, columns)
        U = scores(sample)
        W = rng.standard_normal((U.shape[1], RAW_COMPONENTS // 2)) / median_distance(U)
        Z = waves(U, W)
        center = Z.mean(axis=0)
        values, vectors = np.linalg.eigh((Z - center).T @ (Z - center))
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        total = float(values.sum())
        if not scores.columns or total <= 0:
            return cls(scores, W, center, vectors[:, :0])
        k = 1 + int(np.searchsorted(np.cumsum(values), EXPLAINED * total))
        return cls(scores, W, center, np.ascontiguousarray(vectors[:, : min(k, MOST_COMPONENTS)]))

    @property
    def n_components(self) -> int:
        return self.directions.shape[1]

    def __call__(self, X: Array) -> Array:
        return (waves(self.scores(X), self.frequencies) - self.center) @ self.directions


class ZFeatures(Features):
    """Features of the conditioning variables, with factors of products of residuals."""

    def astype(self, dtype: Any) -> Self:  # noqa: ARG002 - sums are in float64, whatever the rows are
        return self

    def output_dtype(self, dtype: Any) -> np.dtype:  # noqa: ARG002
        return np.dtype(np.float64)

    @abstractmethod
    def modulation(self, X: Array) -> Array:
        """Return factors (n, m) of products of residuals, functions of z whose squares add up to one."""


@dataclass(frozen=True, eq=False)
class ConditioningFeatures(ZFeatures):
    """Features of the conditioning variables: their normal scores, and waves of several metrics and lengthscales."""

    scores: NormalScores
    frequencies: Array  # (d, J)
    amplitudes: Array  # (J,)
    modulators: Array  # (d, m), frequencies of the factors of products of residuals
    levels: tuple[tuple[int, Array], ...] = ()  # columns with few distinct values, and the scores of these values

    @property
    def n_components(self) -> int:
        indicators = sum(len(values) for _, values in self.levels)
        return len(self.scores.columns) + indicators + 2 * self.frequencies.shape[1]

    def __call__(self, X: Any, out: Array) -> None:
        U = self.scores(X)
        d = U.shape[1]
        out[:, :d] = 0.5 * U
        for column, values in self.levels:
            out[:, d : d + len(values)] = 0.5 * (np.abs(U[:, column, None] - values) < SAME_SCORE)
            d += len(values)
        Z = waves(U, self.frequencies)
        np.multiply(Z, np.sqrt(len(self.amplitudes)) * np.tile(self.amplitudes, 2), out=out[:, d:])

    def modulation(self, X: Array) -> Array:
        return waves(self.scores(X), self.modulators)


@dataclass(frozen=True, eq=False)
class _Fit:
    """A ridge regression of a sample, with the penalty of each target by generalized cross-validation."""

    frequencies: Array
    factor: float
    coef: Array  # (d + 2 J, t)
    error: float  # sum over targets of the relative errors


def _best_fit(U: Array, F: Array, metric: Array, factors: Sequence[float], rng: np.random.Generator) -> _Fit:
    """Return the regression with the lowest error, among several multiples of the median distance as lengthscales."""
    median = median_distance(U @ metric)
    return min((_fit(U, F, metric, factor, factor * median, rng) for factor in factors), key=lambda fit: fit.error)


def _fit(U: Array, F: Array, metric: Array, factor: float, lengthscale: float, rng: np.random.Generator) -> _Fit:
    n, d = U.shape
    J = int(np.clip(PER_ROOT * np.sqrt(n), *METRIC_COMPONENTS)) // 2
    W = metric @ (rng.standard_normal((d, J)) / lengthscale)
    Z = np.concatenate([0.5 * U, waves(U, W)], axis=1)
    Z -= Z.mean(axis=0)
    values, vectors = np.linalg.eigh(Z.T @ Z)
    kept = values > 1e-11 * values[-1]
    values, vectors = values[kept], vectors[:, kept]
    rotated = vectors.T @ (Z.T @ F)
    energy = np.square(F).sum(axis=0)
    alphas = PENALTIES[::2] * values[-1]
    shrink = values / (values + alphas[:, None])  # (p, D)
    explained = (2 * shrink - np.square(shrink)) @ (np.square(rotated) / values[:, None])
    scores = (energy - explained) / np.square(1 - np.minimum((1 + shrink.sum(axis=1)) / n, 0.99))[:, None]
    best = scores.argmin(axis=0)
    coef = vectors @ (rotated / (values[:, None] + alphas[best]))
    return _Fit(W, factor, coef, float((scores.min(axis=0) / np.maximum(energy, 1e-300)).sum()))


def _gradient_metric(U: Array, fit: _Fit) -> Array:
    """Return the symmetric root of the mean outer product of the gradients of the regressions, plus a share of I."""
    d, J = fit.frequencies.shape
    angles = U @ fit.frequencies
    sine, cosine = np.sin(angles), np.cos(angles)
    M = np.zeros((d, d))
    for coef in fit.coef.T:
        slopes = (cosine * coef[d + J :] - sine * coef[d : d + J]) / np.sqrt(J)
        G = slopes @ fit.frequencies.T + 0.5 * coef[:d]
        M += G.T @ G
    trace = float(np.trace(M))
    M = np.eye(d) if trace <= 0 else M * (d / trace)
    values, vectors = np.linalg.eigh((1 - IDENTITY) * M + IDENTITY * np.eye(d))
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def conditioning_features(
    sample: Array, columns: tuple[int, ...], targets: Array, n_rows: int, rng: np.random.Generator
) -> ConditioningFeatures:
    """Return features of the conditioning variables, by a metric that is learned from a sample.

    The functions of z that x and y depend on vary in few directions as a rule. The metric is the mean outer product of
    the gradients of a first regression, as in recursive feature machines (Radhakrishnan and others 2024); it stretches
    these directions, so that the same number of components resolves them more finely. A part of the components has the
    metric of the normal scores.

    Parameters
    ----------
    sample : ndarray of shape (m, d)
        Joint rows in random order, of which the first ones are used.
    columns : tuple of int
        The conditioning variables.
    targets : ndarray of shape (m, t)
        Components of x and y for the sample.
    n_rows : int
        Number of all rows, of which the number of components is a function.
    rng : Generator
        Draws the frequencies.
    """
    scores = NormalScores.of(sample, columns)
    rows = int(np.clip(n_rows // 4, *METRIC_ROWS))
    U, F = scores(sample[:rows]), targets[:rows]
    F = F - F.mean(axis=0)
    d = U.shape[1]
    J = int(min(max(FEWEST, PER_ROOT * np.sqrt(n_rows)), MOST, max(n_rows // 4, 4))) // 2
    if d == 0:
        return ConditioningFeatures(scores, np.zeros((0, 0)), np.zeros(0), np.zeros((0, 0)))
    identity = np.eye(d)
    fits = [_best_fit(U, F, identity, FACTORS, rng)]
    metrics = [identity]
    for _ in range(METRIC_ROUNDS if d > 1 else 0):
        metrics.append(_gradient_metric(U, fits[-1]))
        near = [f for f in FACTORS if 0.4 < f / fits[-1].factor < 2.5]
        fits.append(_best_fit(U, F, metrics[-1], near, rng))
    shares = [(0, 1.0)]
    if d > 1:
        learned = 1 + int(np.argmin([fit.error for fit in fits[1:]]))
        shares = [(0, ISOTROPIC), (learned, 1 - ISOTROPIC)]
    frequencies, amplitudes = [], []
    for number, share in shares:
        median = median_distance(U @ metrics[number])
        for relative in SPREAD:
            count = max(2, round(J * share / len(SPREAD)))
            scale = relative * fits[number].factor * median
            frequencies.append(metrics[number] @ (rng.standard_normal((d, count)) / scale))
            amplitudes.append(np.full(count, np.sqrt(share / len(SPREAD) / count)))
    # A dependence may vary along variables that neither x nor y depends on: all of them, or random directions.
    modulators = identity if d <= MODULATORS else np.linalg.qr(rng.standard_normal((d, MODULATORS)))[0]
    levels, left = [], n_rows // LEVEL_SHARE
    for column, values in enumerate(scores.scores):
        if 2 < len(values) <= min(MOST_LEVELS, left, len(sample) // ROWS_PER_LEVEL):
            levels.append((column, values))
            left -= len(values)
    return ConditioningFeatures(
        scores, np.concatenate(frequencies, axis=1), np.concatenate(amplitudes), modulators, tuple(levels)
    )


# ---- regressions -------------------------------------------------------------------------------


@dataclass(frozen=True)
class BothTargets:
    """Rule that returns the components of x and y of a block of joint rows as targets of a regression."""

    x: SideFeatures
    y: SideFeatures
    before: FirstRegression | None = None  # if given, the components are those of its residuals

    def __call__(self, block: Block) -> tuple[Array, None]:
        rows = block.X if self.before is None else self.before(block.X)
        return np.concatenate([self.x(rows), self.y(rows)], axis=1), None


@dataclass(frozen=True)
class CodedTargets:
    """Rule that returns the columns of x and y of a block of joint rows, coded, as targets of a regression."""

    x: Callable[[Array], Array]
    y: Callable[[Array], Array]

    def __call__(self, block: Block) -> tuple[Array, None]:
        X = block.X.toarray() if sp.issparse(block.X) else block.X
        return np.concatenate([self.x(X), self.y(X)], axis=1), None


@dataclass(frozen=True, eq=False)
class FirstRegression:
    """Regression of the coded columns of x and y on the conditioning variables; its values are the residuals."""

    targets: CodedTargets
    features: ZFeatures
    spectrum: Spectrum
    coef: Array  # (D, t)
    alphas: tuple[float, float]
    degrees: tuple[float, float]  # effective degrees of freedom, without the intercept
    explained: tuple[float, float]  # share of the variance of the coded columns that z explains
    widths: tuple[int, int]  # number of columns of x and of y

    def __call__(self, X: Array) -> Array:
        F, _ = self.targets(Block(0, X))
        return F - self.spectrum.offset - (features_of(self.features, X) - self.spectrum.center) @ self.coef


@dataclass(frozen=True)
class Codings:
    """Several codings of the columns of x or of y.

    Attributes
    ----------
    functions : tuple of callable
        The codings.
    widths : tuple of int
        Their numbers of columns.
    log_slopes : tuple of float
        Mean logarithms of the derivatives of the standardized codings.
    """

    functions: tuple[Callable[[Array], Array], ...]
    widths: tuple[int, ...]
    log_slopes: tuple[float, ...]

    def best(self, left: Sequence[float]) -> int:
        """Return the coding under which the columns are most likely, given the shares of variance that are left.

        The density of a column is that of the normal noise of its coding, times the derivative of the coding. So a
        coding of which z explains much is not preferred if it only stretches a tail, where the noise grows with it.
        """
        gains = [slope - 0.5 * np.log(max(share, 1e-12)) for slope, share in zip(self.log_slopes, left, strict=True)]
        return max(range(len(gains)), key=lambda i: (self.widths[i], gains[i]))


@dataclass(frozen=True)
class JoinedTargets:
    """Rule that returns the columns of x and y in all codings, then their components, as targets of regressions."""

    codings: tuple[Codings, Codings]  # of x and of y
    components: BothTargets

    def __call__(self, block: Block) -> tuple[Array, None]:
        X = block.X.toarray() if sp.issparse(block.X) else block.X
        columns = [coding(X) for side in self.codings for coding in side.functions]
        return np.concatenate([*columns, self.components(block)[0]], axis=1), None


def first_regressions(
    engine: Engine,
    targets: JoinedTargets,
    features: ZFeatures,
    base: ZFeatures,
    report: Report | None = None,
) -> tuple[FirstRegression, FirstRegression, FirstRegression, Spectrum]:
    """Regress coded columns on features of z and on some of these features, in one pass.

    There is one penalty per side, by generalized cross-validation. Of the codings of a side, the one under which it is
    most likely, given all features, is used.

    Parameters
    ----------
    engine : Engine
        Joint rows.
    targets : JoinedTargets
        The columns of x and y in several codings, and the components of x and y.
    features : ZFeatures
        Features of z.
    base : ZFeatures
        The first of these features.
    report : callable or None, default=None
        Receives the progress.

    Returns
    -------
    tuple
        The regressions on all features, of the columns in the most likely codings and in the other ones, the regression
        on the first features, and the moments of all features and the components.
    """
    moments = engine.accumulate(MomentSum(features, targets, double=True, centered=True, n_rows=engine.n_rows), report)
    few = base.n_components
    leading = replace(
        moments,
        gram=moments.gram[:few, :few].copy(),
        targets=replace(
            moments.targets, feature_sum=moments.targets.feature_sum[:few], cross=moments.targets.cross[:few]
        ),
        shift=None if moments.shift is None else moments.shift[:few],
    )
    joint, part = Spectrum.of(moments), Spectrum.of(leading)
    end = 0
    sides: list[list[tuple[Callable[[Array], Array], Array]]] = []
    for codings in targets.codings:
        columns = [np.arange(i, j) for i, j in pairwise(end + np.cumsum([0, *codings.widths]))]
        left = [
            1 - cross_validated(joint, slice(c[0], c[-1] + 1), FINE_PENALTIES)[1] if len(c) else 1.0 for c in columns
        ]
        best = codings.best(left)
        both = list(zip(codings.functions, columns, strict=True))
        sides.append([both.pop(best), *both])
        end += sum(codings.widths)

    def regression(features: ZFeatures, spectrum: Spectrum, rank: int) -> FirstRegression:
        (x, columns_x), (y, columns_y) = (side[rank] for side in sides)
        chosen = of_targets(spectrum, np.concatenate([columns_x, columns_y]))
        return _regression_of(CodedTargets(x, y), features, chosen, (len(columns_x), len(columns_y)))

    found = (regression(features, joint, 0), regression(features, joint, 1))
    return *found, regression(base, part, 0), of_targets(joint, slice(end, None))


def _regression_of(
    targets: CodedTargets, features: ZFeatures, spectrum: Spectrum, widths: tuple[int, int]
) -> FirstRegression:
    sides = (slice(0, widths[0]), slice(widths[0], None))
    (one, first), (two, second) = (cross_validated(spectrum, side, FINE_PENALTIES) for side in sides)
    coef, alphas = spectrum.coef(np.repeat([one, two], widths)), (one, two)
    return FirstRegression(
        targets, features, spectrum, coef, alphas, degrees_of(spectrum, alphas), (first, second), widths
    )


def of_targets(spectrum: Spectrum, side: slice | Array) -> Spectrum:
    """Return the moments of some of the targets."""
    return replace(
        spectrum, rotated=spectrum.rotated[:, side], offset=spectrum.offset[side], energy=spectrum.energy[side]
    )


def degrees_of(spectrum: Spectrum, alphas: tuple[float, float]) -> tuple[float, float]:
    """Return the effective degrees of freedom of two regressions, without the intercept."""
    values = spectrum.values[spectrum.retained]
    one, two = (float((values / (values + a)).sum()) for a in alphas)
    return one, two


def cross_validated(spectrum: Spectrum, side: slice, penalties: Array) -> tuple[float, float]:
    """Return the penalty of the least score of generalized cross-validation, and the share of the variance explained.

    Parameters
    ----------
    spectrum : Spectrum
        Moments of features and targets.
    side : slice
        The columns of the targets.
    penalties : ndarray
        Penalties that are compared, relative to the largest eigenvalue.
    """
    n, values = spectrum.weight, spectrum.values
    alphas = penalties * spectrum.largest
    alphas = alphas[alphas > 10 * spectrum.rounding]
    shrink = values / (values + alphas[:, None])  # (p, D)
    margin = 1 - (1 + shrink.sum(axis=1)) / n
    gain = (2 - shrink) / (values + alphas[:, None])
    energy = float(spectrum.energy[side].sum())
    left = np.maximum(energy - gain @ np.square(spectrum.rotated[:, side]).sum(axis=1), 1e-14 * energy)
    scores = np.where(margin > 1 - LARGEST_SHARE, left / np.square(margin), np.inf)
    best = int(np.argmin(scores))
    return float(alphas[best]), max(0.0, 1 - float(scores[best]) / energy) if energy > 0 else 0.0


def residual_targets(first: FirstRegression, sample: Array, rng: np.random.Generator) -> BothTargets:
    """Return the rule of components of the residuals of a regression, given a sample of joint rows."""
    R, k = first(sample), first.widths[0]
    x = SideFeatures.of(R, tuple(range(k)), rng)
    return BothTargets(x, SideFeatures.of(R, tuple(range(k, R.shape[1])), rng), first)


@dataclass(frozen=True, eq=False)
class CrossMoments:
    """Function of a block that returns sums of products of features and targets, of targets, and of their squares."""

    features: Features
    center: Array
    targets: BothTargets

    def __call__(self, block: Block) -> Array:
        F, _ = self.targets(block)
        Z = features_of(self.features, block.X) - self.center
        return np.concatenate([Z.T @ F, [F.sum(axis=0)], [np.square(F).sum(axis=0)]])


@dataclass(frozen=True)
class _Given(Features):
    """Features of rows that are features already."""

    n_components: int

    def astype(self, dtype: Any) -> Self:  # noqa: ARG002
        return self

    def __call__(self, X: Any, out: Array) -> None:
        out[...] = X


def scored(block: Block, share: float) -> Block:
    """Return a share of the rows of a block, chosen by a hash of their indices."""
    if share >= 1:
        return block
    return Block(block.start, block.X[np.exp(-exponentials(block.index.astype(np.uint64), seed=0)) < share])


@dataclass(frozen=True, eq=False)
class SidesLeftOut:
    """Function of a block that returns the sums of squared leave-one-out errors (2, p) for x and y."""

    features: ZFeatures
    targets: BothTargets
    spectrum: Spectrum
    alphas: Array
    share: float  # of the rows, chosen by a hash of their indices

    def __call__(self, block: Block) -> Array:
        block = scored(block, self.share)
        F, _ = self.targets(block)
        s, k = self.spectrum, self.targets.x.n_components
        P = (features_of(self.features, block.X) - s.center) @ s.vectors[:, s.retained]
        inverse = 1 / (s.values[s.retained, None] + self.alphas)  # (D, p)
        missed = (P @ (s.rotated[s.retained, :, None] * inverse[:, None]).reshape(len(inverse), -1)).reshape(
            len(P), -1, len(self.alphas)
        )
        missed -= (F - s.offset)[:, :, None]
        margin = 1 - 1 / s.weight - np.square(P) @ inverse
        # The inverse magnifies the rounding error of the moments: a smaller divisor may be rounding error.
        known = margin > 4 * s.rounding / self.alphas
        squares = np.where(known, 1 / np.square(np.where(known, margin, 1.0)), np.inf)
        return np.stack([
            (np.einsum("ijp,ijp->ip", part, part) * squares).sum(axis=0) for part in (missed[:, :k], missed[:, k:])
        ])  # fmt: skip


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals of the components of x and y after regression on the conditioning variables."""

    targets: BothTargets
    features: ZFeatures | None  # None if there is nothing to condition on
    offset: Array
    coef: Array  # (D, t)
    center: Array  # (D,)
    alphas: tuple[float, float]
    degrees: tuple[float, float]  # effective degrees of freedom of the regressions, without the intercept
    explained: tuple[float, float]  # share of the variance of the components that z explains, by leave-one-out
    inflation: float  # factor by which products of residuals underestimate the variance of their mean

    def __call__(self, X: Array) -> tuple[Array, Array]:
        F, _ = self.targets(Block(0, X))
        F = F - self.offset
        if self.features is not None:
            F -= (features_of(self.features, X) - self.center) @ self.coef
        k = self.targets.x.n_components
        return F[:, :k], F[:, k:]


def residuals(
    engine: Engine,
    targets: BothTargets,
    features: ZFeatures,
    report: Report | None = None,
    spectrum: Spectrum | None = None,
) -> Residuals:
    """Regress the components of x and y on features of z, with one penalty per side.

    This takes two passes over the rows, one for the moments and one for the leave-one-out errors, by which penalties
    are chosen; without conditioning variables it takes one. The moments may be given. If the targets are components of
    the residuals of another regression, the other moments are those of that regression, and penalties are chosen by
    generalized cross-validation, in one pass.
    """
    k = targets.x.n_components
    n = engine.n_rows
    if features.n_components == 0:
        total = engine.sum(_MeanTargets(targets), report)
        rows, mean = total[-1], total[:-1] / total[-1]
        nothing = (np.zeros((0, len(mean))), np.zeros(0))
        return Residuals(targets, None, mean, *nothing, (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), rows / (rows - 1))
    before = targets.before
    sides = (slice(0, k), slice(k, None))
    if before is not None:
        spectrum = before.spectrum
        total = engine.sum(CrossMoments(features, spectrum.center, targets), report)
        offset = total[-2] / spectrum.weight
        spectrum = replace(
            spectrum,
            rotated=spectrum.vectors.T @ total[:-2],
            offset=offset,
            energy=total[-1] - spectrum.weight * np.square(offset),
        )
        chosen, explained = map(list, zip(*(cross_validated(spectrum, s, LARGE_PENALTIES) for s in sides), strict=True))
    else:
        if spectrum is None:
            moments = engine.accumulate(MomentSum(features, targets, double=True, centered=True, n_rows=n), report)
            spectrum = Spectrum.of(moments)
        alphas = PENALTIES * spectrum.largest
        alphas = alphas[alphas > 10 * spectrum.rounding]
        share = min(1.0, SCORED_ROWS / spectrum.weight)
        errors = engine.sum(SidesLeftOut(features, targets, spectrum, alphas, share), report) / share
        chosen = [float(alphas[int(np.argmin(e))]) for e in errors]
        energy = [float(spectrum.energy[side].sum()) for side in sides]
        explained = [max(0.0, 1 - float(e.min()) / v) if v > 0 else 0.0 for e, v in zip(errors, energy, strict=True)]
    n_rows = spectrum.weight
    per_target = np.repeat(chosen, [k, len(spectrum.offset) - k])
    coef = spectrum.coef(per_target)
    values = spectrum.values[spectrum.retained]
    left = [np.square(a / (values + a)) for a in chosen]  # squared eigenvalues of I - H in the span of the features
    if before is not None:
        left = [e * np.square(a / (values + a)) for e, a in zip(left, before.alphas, strict=True)]
    rest = max(n_rows - 1 - len(values), 0.0)
    traces = [rest + float(e.sum()) for e in left]
    inflation = n_rows * (rest + float((left[0] * left[1]).sum())) / (traces[0] * traces[1])
    both = (chosen[0], chosen[1])
    return Residuals(
        targets,
        features,
        spectrum.offset,
        coef,
        spectrum.center,
        both,
        degrees_of(spectrum, both) if before is None else before.degrees,
        (explained[0], explained[1]),
        inflation,
    )


@dataclass(frozen=True, eq=False)
class Improvement:
    """Function of a block that returns sums of differences of squared leave-one-out errors of two regressions.

    The rows of the result are x and y; its columns are the sum over the rows of the block of the error of the first
    regression minus that of the second one, the sum of the squares of this difference, and the number of rows.
    """

    before: FirstRegression
    after: FirstRegression
    share: float

    def __call__(self, block: Block) -> Array:
        X = scored(block, self.share).X
        difference = squared_left_out(self.before, X) - squared_left_out(self.after, X)
        rows = np.full(2, float(len(difference)))
        return np.stack([difference.sum(axis=0), np.square(difference).sum(axis=0), rows], axis=1)


def squared_left_out(regression: FirstRegression, X: Array) -> Array:
    """Return the squared leave-one-out errors (n, 2) of rows, for x and for y."""
    s, k = regression.spectrum, regression.widths[0]
    squares = np.square((features_of(regression.features, X) - s.center) @ s.vectors[:, s.retained])
    R, out = regression(X), []
    for side, alpha in zip((slice(0, k), slice(k, None)), regression.alphas, strict=True):
        leverage = 1 / s.weight + squares @ (1 / (s.values[s.retained] + alpha))
        out.append(np.square(R[:, side]).sum(axis=1) / np.square(1 - np.minimum(leverage, LARGEST_LEVERAGE)))
    return np.stack(out, axis=1)


def improvements(
    engine: Engine, before: FirstRegression, after: FirstRegression, report: Report | None = None
) -> Array:
    """Return by how many standard errors the leave-one-out errors of x and of y decrease between two regressions."""
    share = min(1.0, SCORED_ROWS / after.spectrum.weight)
    total, squares, rows = engine.sum(Improvement(before, after, share), report).T
    spread = np.sqrt(np.maximum(squares - np.square(total) / rows, 0.0))
    return np.where(spread > 0, total / np.where(spread > 0, spread, 1.0), 0.0)


@dataclass(frozen=True)
class _MeanTargets:
    """Function of a block that returns the sums of its targets, and its number of rows."""

    targets: BothTargets

    def __call__(self, block: Block) -> Array:
        return np.append(self.targets(block)[0].sum(axis=0), float(len(block)))
