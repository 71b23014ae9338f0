r"""The local model: predictions of a residual process from the near rows of each query.

The targets are modeled as :math:`y = z(x)'w + c + g(x) + \epsilon`, with features z, coefficients w with a standard
normal prior, an intercept c, a Gaussian process g, and noise of variance :math:`\lambda / \omega` for a row of weight
:math:`\omega`; all variances are in units of one unknown scale. If the features are landmark features, g has the
residual kernel k(x, y) - z(x)'z(y), so that the sum of both parts has the kernel k. Given w and c, the process g is
predicted at x from the residuals of the near rows N of x only:

.. math:: \hat g(x) = b' r_N, \qquad b = (K_N + \lambda \Omega_N^{-1})^{-1} k(N, x).

With all rows as near rows this is the exact process. The coefficients are estimated by generalized least squares, with
the precision matrix of the same approximation, in which each row is conditioned on its nearest predecessors in a random
order [1]_, [2]_.

References
----------
.. [1] Vecchia (1988), Estimation and model identification for continuous spatial processes, JRSS B 50, 297-312.
.. [2] Katzfuss, Guinness (2021), A general framework for Vecchia approximations of Gaussian processes, Statistical
   Science 36, 124-141.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy import special

from mercer.data.targets import label_signs
from mercer.engines import Report, fill_rows, linear_values, report_step
from mercer.engines.base import blas_threads_for, count_threads, workers
from mercer.features import Features, parameter_bytes
from mercer.kernels.base import dense64
from mercer.linalg.local_systems import LocalSolution
from mercer.neighbors import NeighborIndex, neighbor_index
from mercer.solvers.copies import remaining
from mercer.solvers.local.near_kernel import NearKernel
from mercer.solvers.local.near_rows import NearRows
from mercer.solvers.local.near_source import RowsInSource
from mercer.solvers.ridge.least_squares import RidgeSolution
from mercer.solvers.ridge.paths import log_loss_scale
from mercer.statistics.moments import pack_upper, unpack_upper
from mercer.statistics.sample import stack

__all__ = ["GlobalPart", "LeftOut", "LeftOutSystems", "NearModel", "NearProblem", "generalized_least_squares"]

Array = np.ndarray
# Number of predecessors on which rows are conditioned to estimate coefficients, if there are more rows than this.
PREDECESSORS, FEW_ROWS = 16, 4000
# Number of rows whose systems are solved at a time, and of those that are the task of one thread in predictions.
STEP, TASK = 4096, 256
# Features of rows are stored in single precision if this changes predictions by less than this share of their standard
# deviation.
ROUNDING_SHARE = 1e-3
# Number of entries of near rows that are gathered at a time, and number of values of a row up to which they are.
GATHERED, FEW_VALUES = 2**20, 32
# Least conditional variance of a row, in units of the prior variance. Without noise, rows that others determine up to
# rounding would have none, and the precision matrix would be infinite.
LEAST_VARIANCE = 1e-12
# A row whose leverage exceeds one minus this bound has no leave-one-out residual, up to rounding.
LEAST_MARGIN = 1e-9


@dataclass(frozen=True, eq=False)
class GlobalPart:
    """Coefficients of the features and the intercept, with their uncertainty."""

    coef: Array  # (D, t); D may be zero
    intercept: Array  # (t,)
    root: Array | None  # (D + 1, D + 1), R with R R' the posterior covariance of coefficients and intercept; or None

    @classmethod
    def of_ridge(cls, solution: RidgeSolution, alpha: float, rows: NearRows) -> GlobalPart:
        """Return the solution of a ridge regression for the variance `alpha` of the noise, for the targets of `rows`.

        The variance is the penalty. Without a penalty it may be any positive number, since the scale follows.
        """
        D = len(solution.coef)
        whitening = solution.whiten(np.eye(D))
        root = np.zeros((D + 1, whitening.shape[1] + 1))
        root[:-1, :-1] = whitening
        root[-1, :-1] = -solution.center @ whitening
        root[-1, -1] = np.sqrt(solution.constant)
        return replace(cls.without_errors(solution, rows), root=np.sqrt(alpha) * root)

    @classmethod
    def without_errors(cls, solution: RidgeSolution, rows: NearRows) -> GlobalPart:
        """Return the solution of a ridge regression, for the targets of `rows`, as if it had no errors."""
        offset = 0.0 if rows.offset is None else rows.offset
        return cls(solution.coef / rows.unit, solution.intercept / rows.unit - offset, None)

    def with_triangle(self) -> GlobalPart:
        """Return the same part with a root that is an upper triangle, of which half is stored."""
        if self.root is None or not np.tril(self.root[:, : len(self.root)], -1).any():
            return self
        size = len(self.root)
        square = np.zeros((size, max(size, self.root.shape[1])))
        square[:, square.shape[1] - self.root.shape[1] :] = self.root
        with blas_threads_for(size):
            triangle = scipy.linalg.rq(square, mode="r", overwrite_a=True, check_finite=False)
        return replace(self, root=np.triu(triangle[:, triangle.shape[1] - size :]))

    def __getstate__(self) -> dict[str, Any]:
        root = self.root
        packed = root is not None and root.shape[0] == root.shape[1] and not np.tril(root, -1).any()
        return {**vars(self), "root": pack_upper(root)} if root is not None and packed else dict(vars(self))

    def __setstate__(self, state: dict[str, Any]) -> None:
        root = state["root"]
        vars(self).update(state, root=unpack_upper(root) if root is not None and root.ndim == 1 else root)

    def values(self, Z: Array | None) -> Array:
        """Return the predictions of the global part, given features; None means that there are none."""
        return self.intercept[None] if Z is None else Z @ self.coef + self.intercept

    def spread(self, innovations: Array) -> Array:
        """Return the variance of the global part, for features and the constant one minus their local predictions."""
        if self.root is None:
            return np.zeros(len(innovations))
        return np.square(innovations @ self.root).sum(axis=1)


@dataclass(frozen=True, eq=False)
class NearProblem:
    """Rows, kernel and neighbors: all that the local systems depend on, except for the noise."""

    kernel: NearKernel
    rows: NearRows
    points: Any  # (n, p), points of the rows
    index: NeighborIndex
    n_neighbors: int
    features: Features | None = None  # the features of the global part
    row_features: Array | None = None  # (n, D), features of the rows
    #: (n, D), features as `NearKernel.reduced` returns them, if the kernel of the local part is k(x, y) - z(x)'z(y).
    removed: Array | None = None
    is_local: bool = True  # whether there is a local part
    #: Whether k(x, x) - z(x)'z(x) is a variance, which the global part alone has in addition: that of what its features
    #: leave.
    residual_is_kernel: bool = False
    n_jobs: int | None = None

    @property
    def n_components(self) -> int:
        """Number of components of the global part."""
        return 0 if self.features is None else self.features.n_components

    def local_part(self) -> NearProblem:
        """Return the problem of the local part alone."""
        return replace(self, features=None, row_features=None, removed=None)

    def global_part(self) -> NearProblem:
        """Return the problem of the global part alone."""
        return replace(self, is_local=False, row_features=None, removed=None)

    def in_least_precision(self, alpha: float) -> NearProblem:
        """Return the same problem with features of rows in single precision, if the variance of the noise permits it.

        Rounding changes each product of features by about half of the machine epsilon times k(x, x). Divided by the
        roots of the noises of its two rows, the matrix of k near rows changes by at most k times as much, divided by
        the mean noise. Predictions change by at most about this number, in units of their standard deviation, which is
        at least that of the noise.
        """
        Z = self.row_features
        if Z is None or not len(Z):
            return self
        largest = max(float(np.einsum("ij,ij->i", some, some).max()) for some in np.array_split(Z, -(-len(Z) // STEP)))
        error = 0.5 * float(np.finfo(np.float32).eps) * self.n_neighbors * largest
        if not error * float(self.rows.weight.mean()) <= ROUNDING_SHARE * alpha:
            return self
        single = Z.astype(np.float32)
        removed = single if self.removed is Z or self.removed is None else self.removed.astype(np.float32)
        return replace(self, row_features=single, removed=None if self.removed is None else removed)

    def with_rows(self, index: Array) -> NearProblem:
        """Return the problem of the global part with some of the rows, since predictions do not depend on rows."""
        points = self.points[index]
        return replace(self, rows=self.rows[index], points=points, index=neighbor_index(points, n_jobs=self.n_jobs))

    def of_rows(self, rows: NearRows) -> NearProblem:
        """Return the same problem for other rows, whose points and features are computed."""
        points = self.kernel.points(rows.X)
        Z = None if self.row_features is None else self.query_features(rows.X)
        return replace(
            self,
            rows=rows,
            points=points,
            index=neighbor_index(points, search="exact", n_jobs=self.n_jobs),
            row_features=Z,
            removed=None if self.removed is None else self.kernel.reduced(Z),
        )

    def near(self, points: Any, *, own: Array | None = None, before: Array | None = None) -> Array:
        """Return the indices (m, k) of the near rows of points; -1 means that there is none."""
        count = min(self.n_neighbors, len(self.rows)) if self.is_local else 0
        if count == 0:
            return np.empty((points.shape[0], 0), dtype=np.intp)
        return self.index.query(points, count, own=own, before=before, n_jobs=self.n_jobs)[0]

    def query_points(self, X: Any) -> Any:
        """Return the points of rows, sparse if those of the model are."""
        points = self.kernel.points(X)
        if sp.issparse(self.points) == sp.issparse(points):
            return points
        return sp.csr_array(points) if sp.issparse(self.points) else dense64(points)

    def query_features(self, X: Any) -> Array | None:
        """Return the features (m, D) of rows in float64, or None if there is no global part."""
        if self.features is None:
            return None
        features = self.features.astype(X.dtype)
        out = np.empty((X.shape[0], features.n_components), features.output_dtype(X.dtype))
        fill_rows(features, X, out, n_jobs=self.n_jobs)
        return out.astype(np.float64, copy=False)

    def left_variance(self, X: Any, Z: Array | None) -> Array | float:
        """Return the variances (m,) of what the features of rows leave, if there is no local part."""
        if self.is_local or not self.residual_is_kernel or Z is None:
            return 0.0
        return np.maximum(self.kernel.diag(X) - np.square(Z).sum(axis=1), 0.0)

    def solve(self, indices: Array, points: Any, Z: Array | None, noise: Array) -> LocalSolution:
        """Solve the systems of the near rows of queries, given the points and features of the queries."""
        if not self.is_local:
            m = len(indices)
            return LocalSolution(np.empty((m, 0)), np.zeros(m), None, np.zeros(m))
        reduced = None
        if self.removed is not None:
            reduced = self.kernel.reduced(Z)
            assert reduced is not None
            reduced = reduced.astype(self.removed.dtype, copy=False)
        return self.kernel.solve(
            self.points,
            indices,
            points,
            noise,
            features=self.removed,
            query_features=reduced,
            n_jobs=self.n_jobs,
        )

    def innovations(self, weights: Array, indices: Array, Z: Array | None) -> Array:
        """Return features and the constant one (m, D + 1) minus their predictions from near rows."""
        out = np.empty((len(weights), self.n_components + 1))
        out[:, -1] = 1 - weights.sum(axis=1)
        if Z is not None:
            out[:, :-1] = Z if self.row_features is None else Z - near_sums(weights, indices, self.row_features)
        return out


@dataclass(frozen=True, eq=False)
class LeftOut:
    """Leave-one-out predictions of some rows.

    All copies of a row are left out if their targets are equal. Otherwise one of them is, and the others remain.
    """

    sample: Array  # (m,), indices of the rows
    errors: Array  # (m, t), mean target of the copies minus their prediction
    variance: Array  # (m,), predictive variance of a target in units of the scale, noise included
    slope: Array  # (m,), derivative of the error with respect to the target of the copy that is left out
    rows: NearRows
    determined: bool = False  # whether each row alone determines its prediction, so that these errors mean nothing

    @property
    def weight(self) -> Array:
        """Weights (m,) of the rows."""
        return self.rows.weight[self.sample]

    @property
    def squares(self) -> Array:
        """Mean squared errors (m, t) over the copies of each row."""
        scatter = self.rows.scatter[self.sample] / self.weight[:, None]
        return np.square(self.errors) + np.square(self.slope)[:, None] * scatter

    def squared_error(self) -> float:
        """Return the weighted mean of the squared errors, summed over targets."""
        return float(self.weight @ self.squares.sum(axis=1) / self.weight.sum())

    def compact(self) -> LeftOut:
        """Return the same predictions with these rows only."""
        return replace(self, sample=np.arange(len(self.sample)), rows=self.rows[self.sample])

    def deviations(self) -> tuple[Array, Array]:
        """Return absolute errors (l, t) divided by their standard deviations, and weights (l,), of all copies."""
        index, errors, weight = np.arange(len(self.sample)), self.errors, self.weight
        rows = self.rows[self.sample]
        if rows.copies is not None:
            row = rows.copies.row
            apart = rows.copies.targets - rows.targets[row]
            alone = np.setdiff1d(index, row)  # rows whose copies have equal targets
            index = np.concatenate([alone, row])
            errors = np.concatenate([errors[alone], errors[row] + self.slope[row, None] * apart])
            weight = np.concatenate([weight[alone], rows.copies.weight])
        spread = np.sqrt(self.variance[index, None] * self.scale())
        return np.divide(np.abs(errors), spread, out=np.zeros_like(errors), where=spread > 0), weight

    def decisions(self) -> tuple[Array, Array, Array]:
        """Return left-out decision values (l, K), the codes of the labels (l,), and their weights (l,).

        The targets are signs of labels, see `mercer.data.targets.label_signs`. Copies of a row with different labels
        are different results.
        """
        means = self.rows.targets[self.sample]
        shares = np.column_stack([1 - means, 1 + means]) / 2 if means.shape[1] == 1 else (1 + means) / 2
        row, code = np.nonzero(shares > 1e-9)
        signs = label_signs(code, shares.shape[1])
        errors = self.errors[row] + self.slope[row, None] * (signs - means[row])
        return signs - errors, code, self.weight[row] * shares[row, code]

    def log_loss(self) -> float:
        """Return the mean logarithmic loss of left-out labels, at the best factor of their decision values."""
        values, codes, weight = self.decisions()
        factor = log_loss_scale(values, codes, weight)
        if values.shape[1] == 1:
            values = values * np.array([-0.5, 0.5])
        losses = -special.log_softmax(factor * values, axis=1)[np.arange(len(codes)), codes]
        return float(weight @ losses / weight.sum())

    def scale(self) -> Array:
        """Return the scale (t,) at which the squared errors have the mean that the variances predict."""
        return self.weight @ (self.squares / self.variance[:, None]) / self.weight.sum()

    def negative_log_density(self) -> float:
        """Return minus the mean log density of the targets at the best scale, up to a constant, summed over targets."""
        share = self.weight / self.weight.sum()
        scale = np.maximum(self.scale(), np.finfo(float).tiny)
        return float(0.5 * (np.log(scale).sum() + len(scale) * (share @ np.log(self.variance))))


def near_sums(weights: Array, indices: Array, values: Array) -> Array:
    """Return the sums over near rows of weights (m, k) times values (n, D), in float64."""
    (m, k), D = indices.shape, values.shape[1]
    if m * k == 0 or not len(values) or not (indices >= 0).any():
        return np.zeros((m, D))
    if indices.max() >= len(values):  # the product of sparse matrices would read outside of the values
        msg = f"The near rows have indices up to {indices.max()}, but there are {len(values)} values of rows."
        raise IndexError(msg)
    if D <= FEW_VALUES or values.dtype != np.float64:  # a sparse product would convert the values of all rows
        out = np.empty((m, D))
        step = max(1, GATHERED // (k * D))
        for start in range(0, m, step):
            some = slice(start, start + step)
            present = np.where(indices[some] < 0, 0.0, weights[some])
            near = values[np.maximum(indices[some], 0)].astype(np.float64, copy=False)
            out[some] = (present[:, None] @ near)[:, 0]
        return out
    present = indices.ravel() >= 0
    counts = np.concatenate([[0], np.cumsum((indices >= 0).sum(axis=1))])
    matrix = sp.csr_array((weights.ravel()[present], indices.ravel()[present], counts), shape=(m, len(values)))
    return np.asarray(matrix @ values)


def generalized_least_squares(
    problem: NearProblem, alpha: float, *, fit_intercept: bool, report: Report | None = None
) -> GlobalPart:
    """Estimate the coefficients of the features, given the kernel of the local part and the noise.

    Each row is conditioned on its nearest predecessors in the order of the rows, which is random. With all predecessors
    this is the exact posterior mean of the coefficients. Of many rows, fewer predecessors are enough: on three tables,
    errors with 16 and with 64 of them differed by less than 0.03 %.

    Parameters
    ----------
    problem : NearProblem
        Rows, features and kernel.
    alpha : float
        Variance of the noise of a row of weight one, in units of the prior variance of the coefficients.
    fit_intercept : bool
        Whether there is an intercept, which is not penalized.
    report : callable or None, default=None
        Receives the progress.
    """
    rows, D, n = problem.rows, problem.n_components, len(problem.rows)
    if n > FEW_ROWS:
        problem = replace(problem, n_neighbors=min(problem.n_neighbors, PREDECESSORS))
    noise = alpha / rows.weight
    moments = np.zeros((D + 1, D + 1))
    cross = np.zeros((D + 1, rows.targets.shape[1]))
    for start in range(0, n, STEP):
        some = np.arange(start, min(start + STEP, n))
        indices = problem.near(problem.points[some], before=some)
        Z = None if problem.row_features is None else problem.row_features[some]
        solution = problem.solve(indices, problem.points[some], Z, noise)
        least = LEAST_VARIANCE * problem.kernel.diag(rows.X[some])
        spread = np.maximum(solution.variance + noise[some], np.maximum(least, np.finfo(float).tiny))
        innovations = problem.innovations(solution.weights, indices, Z)
        targets = rows.targets[some] - near_sums(solution.weights, indices, rows.targets)
        root = 1 / np.sqrt(spread)
        innovations *= root[:, None]
        moments += innovations.T @ innovations
        cross += innovations.T @ (targets * root[:, None])
        report_step(report, int(some[-1]) + 1, n, unit="rows")
    free = np.append(np.ones(D, dtype=bool), fit_intercept)
    moments[np.diag_indices(D)] += 1.0
    factor = factor_of(moments[np.ix_(free, free)])
    solved = np.zeros_like(cross)
    solved[free] = scipy.linalg.cho_solve((factor, True), cross[free], check_finite=False)
    root = np.zeros_like(moments)
    root[np.ix_(free, free)] = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True).T
    return GlobalPart(solved[:-1], solved[-1], root)


def factor_of(moments: Array) -> Array:
    """Return the lower Cholesky factor of a precision matrix, in which the prior may be smaller than rounding errors.

    Without noise the sums over rows are so large that the prior is lost. The diagonal is then increased by the size of
    the rounding errors of the sums.
    """
    try:
        return np.asarray(scipy.linalg.cholesky(moments, lower=True, check_finite=False))
    except scipy.linalg.LinAlgError:
        diagonal = np.diagonal(moments)
        error = 4 * len(moments) * np.finfo(float).eps * diagonal.max()
        return np.asarray(scipy.linalg.cholesky(moments + error * np.eye(len(moments)), lower=True, check_finite=False))


@dataclass(frozen=True, eq=False)
class LeftOutSystems:
    """The near rows of some rows without these rows themselves, which do not depend on the noise."""

    problem: NearProblem  # with further rows: one for each row of the sample of which copies remain
    sample: Array  # (m,)
    indices: Array  # (m, k)
    remaining: Array  # (m,), weight of the copies that remain, none of those with equal targets
    own: Array  # (m,), index of the row of the remaining copies, or -1

    @classmethod
    def of(cls, problem: NearProblem, sample: Array) -> LeftOutSystems:
        """Search the near rows of the rows with indices `sample`."""
        n, rows = len(problem.rows), problem.rows
        found = problem.near(problem.points[sample], own=sample)
        count = found.shape[1]
        left = remaining(rows.weight[sample], rows.scatter[sample].any(axis=1))
        copied = np.flatnonzero(left > 0) if count else np.zeros(0, dtype=int)
        own = np.full(len(sample), -1)
        if len(copied):
            own[copied] = n + np.arange(len(copied))
            with_copies = np.column_stack([own[copied], found[copied, : count - 1]])
            indices = found.copy()
            indices[copied] = with_copies
            extra = sample[copied]
            arrays = {name: getattr(problem, name) for name in ("points", "row_features", "removed")}
            longer = {name: stack(rows, rows[extra]) for name, rows in arrays.items() if rows is not None}
            problem = replace(problem, **longer)
            found = indices
        return cls(problem, sample, found, left, own)

    def left_out(self, alpha: float, part: GlobalPart | None = None) -> LeftOut:
        """Return the leave-one-out predictions for a variance of the noise.

        Parameters
        ----------
        alpha : float
            Variance of the noise of a row of weight one.
        part : GlobalPart, default=None
            The global part, as fitted to all rows; None means that targets have mean zero.
        """
        problem, rows, sample = self.problem, self.problem.rows, self.sample
        copied = self.own >= 0
        noise = np.concatenate([alpha / rows.weight, alpha / self.remaining[copied]])
        if problem.row_features is None:
            Z = problem.query_features(rows.X[sample])
        else:
            Z = problem.row_features[sample]
        solution = problem.solve(self.indices, problem.points[sample], Z, noise)
        errors = rows.targets[sample] - (0.0 if part is None else part.values(Z))
        if problem.is_local:
            residuals = rows.targets
            if part is not None:
                features = None if problem.row_features is None else problem.row_features[: len(rows)]
                residuals = residuals - part.values(features)
            # The mean target of the remaining copies is that of all copies here. The copy left out changes it, which
            # is taken into account by `slope`.
            residuals = np.concatenate([residuals, residuals[sample[copied]]])
            errors = errors - near_sums(solution.weights, self.indices, residuals)
        weight = rows.weight[sample]
        # Without noise, a row that others determine up to rounding has no variance.
        least = np.maximum(LEAST_VARIANCE * problem.kernel.diag(rows.X[sample]), np.finfo(float).tiny)
        found = solution.variance + alpha / (weight - self.remaining)  # that of the mean of the copies left out
        variance = np.maximum(found, least)
        # Errors are those of a single target.
        alone = alpha / np.minimum(weight, 1.0) - alpha / (weight - self.remaining)
        slope = np.ones(len(sample))
        if copied.any():  # the remaining copies are the first of the near rows
            slope[copied] += solution.weights[copied, 0] / self.remaining[copied]
        if part is not None and part.root is not None:
            leverage = part.spread(problem.innovations(solution.weights, self.indices, Z)) / variance
            margin = np.maximum(1 - leverage, LEAST_MARGIN)
            errors, slope = errors / margin[:, None], slope / margin
            variance = variance / margin + alone + problem.left_variance(rows.X[sample], Z)
            # Without noise, features fit some rows exactly (those that are landmarks), or all of them.
            used = (margin > LEAST_MARGIN) & ((found > least) | (not problem.is_local))
            if used.any():
                return LeftOut(sample[used], errors[used], variance[used], slope[used], rows)
            return LeftOut(sample, errors, variance, slope, rows, determined=True)
        return LeftOut(sample, errors, variance + alone, slope, rows)


@dataclass(frozen=True, eq=False)
class NearModel:
    """A fitted model: global part, residuals of the rows, noise and scale."""

    problem: NearProblem
    alpha: float
    part: GlobalPart
    residuals: Array  # (n, t), targets of the rows minus the global part
    scale: Array  # (t,)
    #: The rows, if they are not a part of the model. Then `problem` has one row, as an example of them.
    source: RowsInSource | None = None
    #: Function of targets and values of the global part that returns the residuals of near rows.
    residual: Callable[[Array, Array], Array] = np.subtract

    @classmethod
    def of(cls, problem: NearProblem, alpha: float, part: GlobalPart, scale: Array) -> NearModel:
        """Return the model for a noise and a global part, which predicts the targets of the rows plus their offset."""
        rows = problem.rows
        residuals = np.zeros((0, len(scale)))
        if problem.is_local:
            residuals = rows.targets - part.values(problem.row_features)
        if rows.offset is not None:
            part = replace(part, intercept=part.intercept + rows.offset)
        return cls(replace(problem, rows=replace(rows, copies=None)), alpha, part, residuals, scale)

    def in_source(self, source: RowsInSource) -> NearModel:
        """Return the same model without its rows, which are read from their source for each prediction."""
        if not self.problem.is_local:
            return self
        return replace(self, problem=self.problem.of_rows(self.problem.rows[np.arange(1)]), source=source)

    def near(self, X: Any, report: Report | None = None) -> NearModel:
        """Return the model of the rows near some queries: it predicts these queries as this model does."""
        assert self.source is not None
        rows = self.source.near(self.problem.query_points(X), self.problem.n_neighbors, report=report)
        problem, offset = self.problem.of_rows(rows), rows.offset
        part = self.part if offset is None else replace(self.part, intercept=self.part.intercept - offset)
        values = np.broadcast_to(part.values(problem.row_features), rows.targets.shape)
        residuals = self.residual(rows.targets, values)
        return replace(self, problem=problem, residuals=residuals, source=None)

    @property
    def n_rows(self) -> int:
        """Number of rows among which near rows are searched."""
        return len(self.problem.rows) if self.source is None else self.source.n_rows

    @property
    def nbytes(self) -> int:
        """Size in bytes of the rows and their features."""
        return parameter_bytes((self.problem, self.residuals))

    def predict(self, X: Any, *, with_variance: bool = False, n_jobs: int | None = None) -> tuple[Array, Array | None]:
        """Return the predictions (m, t) for validated rows, and the variances (m,) of the function.

        The variances are in units of the scale, and do not include the noise.
        """
        problem = replace(self.problem, n_jobs=n_jobs)
        if not problem.is_local and not with_variance and problem.features is not None:
            values = linear_values(problem.features, X, self.part.coef, n_jobs=n_jobs)
            return values + self.part.intercept, None
        noise = self.alpha / problem.rows.weight
        mean = np.empty((X.shape[0], len(self.scale)))
        variance = np.empty(X.shape[0]) if with_variance else None
        if self.source is not None:  # in few passes over the rows
            step = self.source.queries_per_pass(problem.n_neighbors)
            for start in range(0, X.shape[0], step):
                some = slice(start, start + step)
                values, spread = self.near(X[some]).predict(X[some], with_variance=with_variance, n_jobs=n_jobs)
                mean[some] = values
                if variance is not None:
                    variance[some] = spread
            return mean, variance
        threads, alone = count_threads(n_jobs), replace(problem, n_jobs=1)

        def fill(start: int, points: Any, indices: Array, first: int) -> None:
            last = min(first + TASK, points.shape[0])
            some, near = slice(start + first, start + last), indices[first:last]
            Z = alone.query_features(X[some])
            solution = alone.solve(near, points[first:last], Z, noise)
            mean[some] = self.part.values(Z)
            if alone.is_local:
                mean[some] += near_sums(solution.weights, near, self.residuals)
            if variance is not None:
                spread = self.part.spread(alone.innovations(solution.weights, near, Z))
                variance[some] = solution.variance + spread + alone.left_variance(X[some], Z)

        # Near rows are searched for many queries together, which is faster. The rest is done by tasks of few rows on
        # all threads, since matrices of few rows are too small for the threads of BLAS.
        for start in range(0, X.shape[0], STEP):
            points = problem.query_points(X[start : start + STEP])
            tasks = range(0, points.shape[0], TASK)
            with workers(min(threads, len(tasks))) as team:
                team.run(partial(fill, start, points, problem.near(points)), tasks)
        return mean, variance
