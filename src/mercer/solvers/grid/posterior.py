"""The posterior of a Gaussian process on a grid: mean, variance and samples of the function at rows."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from mercer.errors import MercerWarning
from mercer.features import features_of
from mercer.linalg.nonuniform import series_values
from mercer.maps.fourier.frequency_grids import GridFeatures, GridPart
from mercer.solvers.grid.systems import (
    DenseGram,
    Preconditioner,
    System,
    ToeplitzGram,
    conjugate_gradients,
    dense_factor,
    inverse_of,
)
from mercer.solvers.grid.variance import Convergence, LocalVariances, RowVariances

__all__ = ["MOST_DENSE", "GridPosterior", "coefficients_of"]

Array = np.ndarray
# Largest number of components for which the evidence is computed, by a factorization.
MOST_DENSE = 8000
# Number of components of largest weights whose posterior covariance is computed by a factorization.
VARIANCE_COMPONENTS = 4000
# If there are more components: number of rows of the fit up to which they are stored, for the variances of the exact
# process; otherwise, number of rows up to which all variances are solved for, and number of rows by which the
# approximation for more rows is scaled.
MOST_STORED, MOST_SOLVED, SCALED_BY = 5000, 2000, 32
# Number of components up to which a factorization takes less time than conjugate gradients, and the number of lowest
# components whose block is the preconditioner.
FEW, BLOCK = 1500, 1000
# Relative decrease of the preconditioned residual at which conjugate gradients stop: the root mean square error of the
# posterior mean at the rows is at most about this share of its root mean square.
STOP = 1e-5
# Relative error of values of series.
SERIES_EPS = 1e-11
PANEL = 256
# Variance that is added to covariances of samples, in units of the prior variance.
JITTER = 1e-10
# Values of more than this many functions are products with the features of rows, if these have few entries.
MANY_COLUMNS, FEW_ENTRIES = 8, 2**24


def coefficients_of(system: System, roots: Array, noise: float) -> tuple[Array, int]:
    """Return the posterior means b of the coefficients (M, t), and the number of steps; zero for a factorization."""
    right = roots[:, None] * system.cross
    M = system.gram.size
    if M > FEW and isinstance(system.gram, ToeplitzGram):
        columns, steps = [], 0
        precondition = Preconditioner.of(system.gram, roots, noise, BLOCK)
        for column in right.T:
            b, count, converged = conjugate_gradients(system.gram, roots, noise, column, precondition, tolerance=STOP)
            columns.append(b)
            steps = max(steps, count) if converged else -count
        return np.stack(columns, axis=1), steps
    factor = dense_factor(system.gram, roots, noise)
    if factor is None:
        msg = "The second moments of the grid are not positive definite to rounding. Raise the noise."
        raise np.linalg.LinAlgError(msg)
    half = scipy.linalg.solve_triangular(factor, right, trans="T", check_finite=False)
    return scipy.linalg.solve_triangular(factor, half, check_finite=False), 0


@dataclass(frozen=True, eq=False)
class GridPosterior:
    """The posterior of a process, in the unit of the targets.

    The function is offset + size * sum_m d_m b_m z_m(x), with unweighted features z. The variance is that of this sum,
    plus what the kernel leaves of it: the weights of the frequencies that were left out, and for rows out of reach of
    the box of a part the variance of that part.
    """

    features: GridFeatures  # with the weights of the kernel, without the amplitude
    system: System
    coef: Array  # (M, t), the means b
    amplitude: float  # in the unit of scaled targets
    noise: float
    size: Array  # (t,)
    offset: Array  # (t,)
    rows: RowVariances | None = None  # the rows of the fit, if they are few and the grid is large

    def __getstate__(self) -> dict[str, Any]:
        # Without the factorization, which can be computed again.
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def roots(self) -> Array:
        """Standard deviations d_m of the coefficients, with the amplitude."""
        return self.amplitude * self.features.roots()

    # ---- mean ---------------------------------------------------------------------------------

    def mean(self, X: Any) -> Array:
        """Return the posterior mean (n, t) at rows."""
        return self.offset + self.size * self.values(X, self.roots[:, None] * self.coef)

    def values(self, X: Any, coef: Array) -> Array:
        """Return sum_m coef_m z_m(x) (n, t) for unweighted features z."""
        if coef.shape[1] > MANY_COLUMNS and X.shape[0] * len(coef) <= FEW_ENTRIES:
            return features_of(self.features.unweighted(), X) @ coef
        out = np.zeros((X.shape[0], coef.shape[1]))
        start = 0
        if self.features.constant:
            out += coef[0]
            start = 1
        for part in self.features.parts:
            stop = start + part.n_components
            angles, near = part.angles(X)
            gram = box_of_part(part)
            for j in range(coef.shape[1]):
                series = gram.expanded(coef[start:stop, j])
                out[:, j] += np.where(near, series_values(angles, series, SERIES_EPS).real, 0.0)
            start = stop
        return out

    # ---- variance -----------------------------------------------------------------------------

    @property
    def dense(self) -> bool:
        """Whether variances are computed from the features of rows, as for sums over groups of columns."""
        return isinstance(self.system.gram, DenseGram)

    @property
    def factorized(self) -> bool:
        """Whether the posterior covariance of all components is computed by a factorization."""
        return self.dense or self.system.gram.size <= VARIANCE_COMPONENTS

    def prepare_variance(self) -> None:
        """Factorize the system, before several threads use it."""
        if self.factorized:
            _ = self.covariance if self.dense else self.variance_series
        elif self.rows is not None:
            _ = self.rows.factor

    @cached_property
    def solved(self) -> LocalVariances:
        """Variances by conjugate gradients."""
        roots, gram = self.roots, self.system.gram
        return LocalVariances(self.features, gram, roots, self.noise, Preconditioner.of(gram, roots, self.noise, BLOCK))

    @cached_property
    def index(self) -> Array:
        """Indices of the components whose posterior covariance is computed, those of largest weights."""
        return self.system.gram.low(VARIANCE_COMPONENTS)

    @property
    def block_noise(self) -> float:
        """Standard deviation of the noise for these components: what is not known of the others is noise to them."""
        return float(np.sqrt(self.noise**2 + self.rest.sum()))

    @cached_property
    def factor(self) -> Array:
        """Upper Cholesky factor of the block of A of these components."""
        factor = dense_factor(self.system.gram, self.roots, self.block_noise, self.index)
        if factor is None:
            msg = "The second moments of the grid are not positive definite to rounding. Raise the noise."
            raise np.linalg.LinAlgError(msg)
        return factor

    @cached_property
    def covariance(self) -> Array:
        """Posterior covariance of the coefficients of unweighted features, for the components of largest weights."""
        C = inverse_of(self.factor.copy())
        roots = self.roots[self.index]
        C *= self.block_noise**2
        C *= roots
        C *= roots[:, None]
        return C

    @cached_property
    def rest(self) -> Array:
        """Posterior variances of the other components, for the average density of rows around a row.

        They are those of rows that are spread evenly: d^2 / (1 + r V d^2 / s^2) for r rows per volume, with V the
        volume of one period of the features.
        """
        squares = np.square(self.roots)
        squares[self.index] = 0.0
        if self.dense:
            return squares
        sums, taper = self.system.gram.sums, self._taper
        crowd = float((np.square(np.abs(sums)) * taper).sum()) / max(self.system.weight, 1e-300)
        return squares / (1 + crowd * squares / self.noise**2)

    @cached_property
    def _taper(self) -> Array:
        """Fourier coefficients of a Gaussian window of one lengthscale, by which the density of rows is smoothed."""
        (part,) = self.features.parts
        axes = [np.arange(-2 * m, 2 * m + 1) * h for m, h in zip(part.highest, part.spacing, strict=True)]
        square = sum(np.square(a) for a in np.meshgrid(*axes, indexing="ij", sparse=True))
        return np.exp(-2 * np.pi**2 * square)

    @cached_property
    def _rest_of_crowd(self) -> tuple[Array, Array]:
        """Logarithms of numbers of rows, and the sum of the variances of the other components for each of them."""
        squares = np.square(self.roots)
        squares[self.index] = 0.0
        squares = squares[squares > 0]
        crowds = np.linspace(-10, np.log(max(self.system.weight, 1.0)) + 10, 80)
        return crowds, np.array([(squares / (1 + np.exp(c) * squares / self.noise**2)).sum() for c in crowds])

    def crowd(self, angles: tuple[Array, ...]) -> Array:
        """Return the number of rows of the fit in a Gaussian window around rows, in units of a density of one."""
        return np.maximum(series_values(angles, self.system.gram.sums * self._taper, 1e-6).real, 1e-5)

    @cached_property
    def variance_series(self) -> Array:
        """Coefficients of the variance of the sum over a part as a trigonometric series."""
        (part,) = self.features.parts
        first = int(self.features.constant > 0)
        C = self.covariance
        part = part.truncated((len(C) - 1 - first) // 2)
        p, m = len(part.index), np.array(part.highest)
        shape = tuple(4 * m + 1)
        strides = np.array([int(np.prod(shape[a + 1 :])) for a in range(len(shape))])
        middle, k = int(2 * m @ strides), part.index @ strides
        total = int(np.prod(shape))
        cosines, sines = np.zeros(total), np.zeros(total)
        # The components 1 and, if there is one, the constant.
        zero = slice(0, first + 1)
        cosines[middle] += C[zero, zero].sum()
        crossed = 2 * np.sqrt(2) * C[zero].sum(axis=0)
        cosines += np.bincount(middle + k, crossed[first + 1 : first + 1 + p], total)
        sines += np.bincount(middle + k, crossed[first + 1 + p :], total)
        cc = C[first + 1 : first + 1 + p, first + 1 : first + 1 + p]
        ss = C[first + 1 + p :, first + 1 + p :]
        cs = C[first + 1 : first + 1 + p, first + 1 + p :]
        for start in range(0, p, PANEL):
            rows = slice(start, start + PANEL)
            minus, plus = (middle + k[rows, None] + sign * k for sign in (-1, 1))
            cosines += np.bincount(minus.ravel(), (cc[rows] + ss[rows]).ravel(), total)
            cosines += np.bincount(plus.ravel(), (cc[rows] - ss[rows]).ravel(), total)
            sines += np.bincount(plus.ravel(), 2 * cs[rows].ravel(), total)
            sines -= np.bincount(minus.ravel(), 2 * cs[rows].ravel(), total)
        return (cosines - 1j * sines).reshape(shape)

    def variance(self, X: Any) -> Array:
        """Return the posterior variance of the function (n, t) at rows."""
        if self.rows is not None:
            return self.amplitude**2 * self.rows.variances(X)[:, None] * np.square(self.size)
        out = np.zeros(X.shape[0])
        for part in self.features.parts:
            _, near = part.angles(X)
            mass = part.summand.mass
            out += self.amplitude**2 * np.where(near, max(mass - part.mass, 0.0), mass)
        if self.dense:
            Z = features_of(self.features.unweighted(), X)
            out += np.einsum("ij,ij->i", Z @ self.covariance, Z)
        elif self.factorized:
            (part,) = self.features.parts
            angles, near = part.angles(X)
            series = series_values(angles, self.variance_series, SERIES_EPS).real
            alone = self.covariance[0, 0] if self.features.constant else 0.0
            out += np.where(near, np.maximum(series, 0.0), alone)
        else:
            record = Convergence()
            solved = self.solved_variances(X, record) if X.shape[0] <= MOST_SOLVED else None
            out += self.scaled_variances(X, record) if solved is None else solved
            record.warn("Variances")
        return out[:, None] * np.square(self.size)

    def solved_variances(self, X: Any, record: Convergence) -> Array | None:
        """Return the variances of the sum over a part, by conjugate gradients; None if that takes too many systems."""
        (part,) = self.features.parts
        angles, near = part.angles(X)
        out = np.zeros(X.shape[0])
        if near.any():
            points = np.stack(angles, axis=1)[near] / (2 * np.pi * np.array(part.spacing))
            solved = self.solved.variances(X[near], points, self.crowd(angles)[near], record)
            if solved is None:
                return None
            out[near] = solved
        if self.features.constant and not near.all():  # the other features of these rows are zero
            out[~near] = self.solved.covariances(X[~near][:1], record)[0, 0]
        return out

    def scaled_variances(self, X: Any, record: Convergence) -> Array:
        """Return the variances of the sum over a part for many rows, and warn of their error.

        Variances of the components of largest weights, and those of the others by the density of rows, are multiplied
        by the number at which they have the right mean at some of the rows.
        """
        (part,) = self.features.parts
        angles, near = part.angles(X)
        series = np.maximum(series_values(angles, self.variance_series, SERIES_EPS).real, 0.0)
        series += np.interp(np.log(self.crowd(angles)), *self._rest_of_crowd)
        some = np.flatnonzero(near)
        some = some[np.linspace(0, len(some) - 1, min(len(some), SCALED_BY)).astype(int)]
        if len(some):
            solved = self.solved_variances(X[some], record)
            assert solved is not None  # there are fewer rows than systems
            ratio = np.sqrt(solved / np.maximum(series[some], np.finfo(float).tiny))
            factor = float(np.exp(np.log(np.maximum(ratio, 1e-6)).mean()))
            error = float(np.sqrt(np.mean(np.square(ratio / factor - 1))))
            series *= factor**2
            msg = (
                f"Standard deviations of {X.shape[0]} rows on a grid of {self.system.gram.size} components are "
                f"approximate: by {len(some)} of the rows, their relative error is {error:.0%} (root mean square). "
                "Predict fewer rows at a time, or lower max_components."
            )
            warnings.warn(msg, MercerWarning, stacklevel=2)
        alone = self.covariance[0, 0] if self.features.constant else 0.0
        return np.where(near, series, alone)

    def covariances(self, X: Any) -> Array:
        """Return the posterior covariance of the function (n, n, t) at rows."""
        if self.rows is not None:
            return self.amplitude**2 * self.rows.covariances(X)[..., None] * np.square(self.size)
        if self.factorized:
            Z = features_of(self.features.unweighted(), X)[:, self.index]
            out = Z @ self.covariance @ Z.T
        else:
            record = Convergence()
            out = self.solved.covariances(X, record)
            record.warn("Covariances")
        for part in self.features.parts:
            _, near = part.angles(X)
            out[np.diag_indices(len(out))] += np.where(near, self._left_out(part), 0.0)
            far = np.flatnonzero(~near)
            if len(far):
                out[np.ix_(far, far)] += self.prior(part, X[far])
        return out[..., None] * np.square(self.size)

    def prior(self, part: GridPart, X: Any) -> Array:
        """Return the prior covariance of a part at rows, in the unit of scaled targets."""
        u = part.summand.coordinates(X)
        gap = np.sqrt(np.square(u[:, None] - u).sum(axis=2))
        unit = part.summand.kernel
        return self.amplitude**2 * part.summand.mass * unit.profile(np.minimum(gap, unit.largest_distance))

    # ---- samples ------------------------------------------------------------------------------

    def samples(self, X: Any, count: int, rng: np.random.Generator) -> Array:
        """Return samples of the function (n, t, count) at rows.

        At rows out of reach of the box of a part, samples of that part are samples of the prior, joint for these rows.
        """
        n, t = X.shape[0], self.coef.shape[1]
        if self.rows is not None and n <= MOST_SOLVED:
            spread = self.rows.covariances(X)
            spread[np.diag_indices(n)] += JITTER * self.rows.kernel.diag(X)
            root = scipy.linalg.cholesky(spread, lower=True, overwrite_a=True, check_finite=False)
            draws = self.amplitude * (root @ rng.standard_normal((n, t * count))).reshape(n, t, count)
            return self.mean(X)[..., None] + self.size[:, None] * draws
        if self.factorized:
            draws = rng.standard_normal((len(self.index), t * count))
            draws = self.noise * scipy.linalg.solve_triangular(self.factor, draws, check_finite=False)
            steps = np.empty_like(draws)
            steps[self.index] = self.roots[self.index, None] * draws
        elif n <= min(t * count, MOST_SOLVED):  # fewer systems for the covariances of rows than for samples
            return self._samples_of_rows(X, count, rng)
        else:
            record = Convergence()
            steps = self.solved.sample(t * count, rng, record)
            if record.failed and n <= MOST_SOLVED:  # a root converges later than a solution
                return self._samples_of_rows(X, count, rng)
            record.warn("Samples")
        out = self.values(X, np.repeat(self.roots[:, None] * self.coef, count, axis=1) + steps)
        for part in self.features.parts:
            _, near = part.angles(X)
            left = self._left_out(part)
            out[near] += np.sqrt(left) * rng.standard_normal((np.count_nonzero(near), t * count))
            if not near.all():
                prior = self.prior(part, X[~near])
                root = np.linalg.cholesky(prior + JITTER * prior[0, 0] * np.eye(len(prior)))
                out[~near] += root @ rng.standard_normal((len(prior), t * count))
        return self.offset[:, None] + self.size[:, None] * out.reshape(n, t, count)

    def _samples_of_rows(self, X: Any, count: int, rng: np.random.Generator) -> Array:
        """Return samples (n, t, count) by a root of the covariances of the rows."""
        n, t = X.shape[0], self.coef.shape[1]
        values, vectors = scipy.linalg.eigh(self.covariances(X)[..., 0] / self.size[0] ** 2)
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        draws = (root @ rng.standard_normal((n, t * count))).reshape(n, t, count)
        return self.mean(X)[..., None] + self.size[:, None] * draws

    def _left_out(self, part: GridPart) -> float:
        """Return the variance of a part at frequencies that are not on the grid, independent between rows."""
        return float(self.amplitude**2 * max(part.summand.mass - part.mass, 0.0))


def box_of_part(part: GridPart) -> ToeplitzGram:
    """Return an operator without sums, for the layout of the frequencies of a part."""
    return ToeplitzGram(np.broadcast_to(np.complex128(0), tuple(4 * m + 1 for m in part.highest)), part.index)
