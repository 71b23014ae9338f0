r"""Predictions of a process from near rows, with a scale that is estimated near each query.

The variance of a process that is the same everywhere is rarely that of data: some regions are smooth, others are not.
The residuals :math:`r_N` of the m near rows of a query show what it is there. With a scale that has an inverse gamma
prior of :math:`\nu_0` degrees of freedom around the scale s of all rows, the scale at the query is

.. math:: s(x) = s\, \frac{\nu_0 + r_N' (K_N + \lambda \Omega_N^{-1})^{-1} r_N / s}{\nu_0 + m},

as in a Student-t process [1]_. The number :math:`\nu_0` maximizes the density of standardized leave-one-out errors
under a Student distribution, whose degrees of freedom are fitted too; infinity, the same scale everywhere, is one of
the choices.

Intervals and log densities use these variances, multiplied by a factor, and the distribution of the errors divided by
their standard deviations, which may have heavy tails. Where some rows are nearly copies of others, the density is
highest if they have hardly any variance, and a few of them that differ have errors of many standard deviations. So
standard deviations by themselves are those of normally distributed errors: the factor, and a variance that is added to
that of every target, maximize the normal density of the left-out errors.

References
----------
.. [1] Shah, Wilson, Ghahramani (2014), Student-t processes as alternatives to Gaussian processes, AISTATS.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import optimize

from mercer.solvers.local.near_fit import LocalFit, weighted_quantile
from mercer.solvers.local.near_model import (
    STEP,
    LeftOut,
    LeftOutSystems,
    NearModel,
    NearProblem,
    near_sums,
)
from mercer.solvers.neighbor_processes.evidence import log_evidence
from mercer.solvers.processes.intervals import StandardizedErrors, fit_student

__all__ = ["NeighborPosterior", "neighbor_posterior"]

Array = np.ndarray
# Degrees of freedom of the prior of local scales that are compared.
PRIOR_DOF = (np.inf, *(2.0**power for power in range(12, -3, -1)))
# Gain in the log density of all left-out targets that a local scale must have, as for one parameter in Akaike's
# criterion.
LEAST_GAIN = 1.0
# Variances that are added to those of all targets at first, as shares of the mean squared error, and their least share.
SHARES, LEAST_SHARE = (1e-4, 1e-2, 0.3), 1e-8
# Least factor, in units of that of the median squared error, and the median of the square of a normal variable.
LEAST_FACTOR, MEDIAN_SQUARE = 1 / 3, 0.4549


@dataclass(frozen=True, eq=False)
class NeighborPosterior:
    """The posterior of a process at rows given their near rows, for one or several columns of targets."""

    fit: LocalFit
    prior_dof: Array  # (t,), degrees of freedom of the prior of local scales; infinity means one scale for all rows
    factor: Array  # (t,), factors at which variances have the mean of squared leave-one-out errors
    errors: StandardizedErrors
    log_density: Array  # (t,), mean log density of left-out targets
    # (2, t), factor and additional variance of the highest normal density; None in files without them
    normal: Array | None = None

    @property
    def normal_variances(self) -> Array:
        """The factors and the additional variances (2, t) of normally distributed errors."""
        return np.stack([self.factor, np.zeros_like(self.factor)]) if self.normal is None else self.normal

    @property
    def noise(self) -> Array:
        """Standard deviation (t,) of the noise of a row of weight one, at a local scale of one."""
        model = self.fit.model
        factor, floor = self.normal_variances
        return self.fit.unit * np.sqrt(model.alpha * model.scale * factor + floor)

    @property
    def amplitude(self) -> Array:
        """Standard deviation (t,) of the function far away from all rows, at a local scale of one."""
        model = self.fit.model
        prior = float(np.mean(model.problem.kernel.diag(model.problem.rows.X[:100])))
        return self.fit.unit * np.sqrt(prior * model.scale * self.normal_variances[0])

    def predict(
        self,
        X: Any,
        *,
        return_std: bool = False,
        with_noise: bool = False,
        normal: bool = True,
        n_jobs: int | None = None,
    ) -> tuple[Array, Array | None]:
        """Return predictions (n, t) for validated rows, and standard deviations (n, t) or None.

        The standard deviations are those of normally distributed errors, or for ``normal=False`` those by which the
        left-out errors of `errors` are divided.
        """
        model, unit = self.fit.model, self.fit.unit
        if not return_std:
            mean, _ = model.predict(X, n_jobs=n_jobs)
            return mean * unit, None
        mean, std = np.empty((X.shape[0], len(self.factor))), np.empty((X.shape[0], len(self.factor)))
        step = STEP
        if model.source is not None and model.problem.is_local:
            step = model.source.queries_per_pass(model.problem.n_neighbors)
        for start in range(0, X.shape[0], step):
            some = slice(start, start + step)
            near = model if model.source is None or not model.problem.is_local else model.near(X[some])
            found = near_predictions(near, X[some], n_jobs)
            variance = found.variance + model.alpha * with_noise
            mean[some] = found.mean
            local = local_scales(found.quadratic / model.scale, found.count, self.prior_dof)
            factor, floor = self.normal_variances if normal else (self.factor, 0.0)
            std[some] = np.sqrt(variance[:, None] * model.scale * factor * local + floor * with_noise)
        return mean * unit, std * unit

    def log_marginal_likelihood(self, noise: Array | None = None, amplitude: Array | None = None) -> float:
        """Return the log marginal likelihood of the rows of the fit, summed over targets; NaN if they are elsewhere.

        Parameters
        ----------
        noise, amplitude : ndarray of shape (t,) or None
            Standard deviations; None means those of the model before local scales.
        """
        model, unit = self.fit.model, self.fit.unit
        if model.source is not None or not model.problem.is_local:
            return np.nan
        s = np.sqrt(model.scale) * unit if amplitude is None else amplitude
        sigma = np.sqrt(model.alpha * model.scale) * unit if noise is None else noise
        problem = model.problem
        value = log_evidence(problem, np.square(sigma / s), np.square(s / unit))
        return float(value.sum()) - problem.rows.weight.sum() * len(s) * float(np.log(unit))


@dataclass(frozen=True, eq=False)
class NearPredictions:
    """Predictions from near rows, with the squares of the residuals of the near rows."""

    mean: Array  # (m, t)
    variance: Array  # (m,), of the function in units of the scale
    quadratic: Array  # (m, t), r_N' (K_N + noise)^-1 r_N
    count: Array  # (m,), number of near rows


def near_predictions(model: NearModel, X: Any, n_jobs: int | None) -> NearPredictions:
    """Return the predictions of a model that has its rows."""
    problem = replace(model.problem, n_jobs=n_jobs)
    points, Z = problem.query_points(X), problem.query_features(X)
    if not problem.is_local:
        mean, variance = model.predict(X, with_variance=True, n_jobs=n_jobs)
        assert variance is not None
        return NearPredictions(mean, variance, np.zeros_like(mean), np.zeros(len(mean)))
    indices = problem.near(points)
    noise = model.alpha / problem.rows.weight
    weights, variance, quadratic = solve_with(problem, indices, points, Z, noise, model.residuals)
    mean = model.part.values(Z) + near_sums(weights, indices, model.residuals)
    spread = model.part.spread(problem.innovations(weights, indices, Z))
    return NearPredictions(mean, variance + spread, quadratic, (indices >= 0).sum(axis=1))


def solve_with(
    problem: NearProblem, indices: Array, points: Any, Z: Array | None, noise: Array, residuals: Array
) -> tuple[Array, Array, Array]:
    """Return the weights (m, k) and variances (m,) of the systems of near rows, and r' (K + noise)^-1 r (m, t)."""
    reduced = None if problem.removed is None else problem.kernel.reduced(Z)
    if problem.removed is not None and reduced is not None:
        reduced = reduced.astype(problem.removed.dtype, copy=False)
    solution = problem.kernel.solve(
        problem.points,
        indices,
        points,
        noise,
        targets=residuals,
        features=problem.removed,
        query_features=reduced,
        n_jobs=problem.n_jobs,
    )
    assert solution.targets is not None
    near = np.where(indices[..., None] >= 0, residuals[np.maximum(indices, 0)], 0.0)
    quadratic = np.einsum("mkt,mkt->mt", near, np.where(indices[..., None] >= 0, solution.targets, 0.0))
    return solution.weights, solution.variance, np.maximum(quadratic, 0.0)


def local_scales(squares: Array, count: Array, prior_dof: Array) -> Array:
    """Return local scales (m, t) relative to that of all rows.

    Parameters
    ----------
    squares : ndarray of shape (m, t)
        The squares r' (K + noise)^-1 r of near rows, divided by the scale of all rows.
    count : ndarray of shape (m,)
        Numbers of near rows.
    prior_dof : ndarray of shape (t,)
        Degrees of freedom of the prior; infinity gives ones.
    """
    finite = np.where(np.isfinite(prior_dof), prior_dof, 1.0)
    return np.where(np.isfinite(prior_dof), (finite + squares) / (finite + count[:, None]), 1.0)


def neighbor_posterior(fit: LocalFit, problem: NearProblem, sample: Array, *, given: bool = False) -> NeighborPosterior:
    """Return the posterior of a fitted local model, with local scales and errors of left-out rows.

    Parameters
    ----------
    fit : LocalFit
        The fitted model.
    problem : NearProblem
        The rows to which it was fitted, with the copies that have different targets.
    sample : ndarray of shape (m,)
        Indices of the rows that are left out.
    given : bool, default=False
        Whether noise and amplitude are given, so that they are the same for all rows.
    """
    model, t = fit.model, len(fit.model.scale)
    if model.problem.is_local:
        rows = problem.rows
        part = model.part
        if rows.offset is not None:
            part = replace(part, intercept=part.intercept - rows.offset)
        systems = LeftOutSystems.of(replace(model.problem, rows=rows), sample)
        left_out = systems.left_out(model.alpha, part)
        quadratic, count = left_out_squares(systems, model.alpha, model.residuals)
        position = np.searchsorted(sample, left_out.sample, sorter=np.argsort(sample))
        position = np.argsort(sample)[position]
        quadratic, count = quadratic[position], count[position]
    else:
        left_out = fit.left_out
        quadratic, count = np.zeros((len(left_out.sample), t)), np.zeros(len(left_out.sample))
    index, errors, weight = errors_of_copies(left_out)
    dof, factor, log_std, normal = np.full(t, np.inf), np.empty(t), np.empty(t), np.empty((2, t))
    ratios = []
    for column in range(t):
        squares = quadratic[index, column] / model.scale[column]
        spread = np.maximum(left_out.variance[index] * model.scale[column], np.finfo(float).tiny)
        plain = np.abs(errors[:, column]) / np.sqrt(spread)
        choices = PRIOR_DOF if model.problem.is_local and not given else PRIOR_DOF[:1]
        dof[column] = best_prior(plain, squares, count[index], weight, choices)
        local = local_scales(squares[:, None], count[index], dof[column : column + 1])[:, 0]
        plain = plain / np.sqrt(local)
        if given:
            factor[column], normal[:, column] = 1.0, (1.0, 0.0)
        else:
            factor[column] = weight @ np.square(errors[:, column]) / (weight @ (spread * local))
            normal[:, column] = normal_variance(np.square(errors[:, column]), spread * local, weight)
        ratios.append(plain / np.sqrt(factor[column]) if factor[column] > 0 else plain)
        variance = np.maximum(spread * local * factor[column], np.finfo(float).tiny)
        log_std[column] = 0.5 * weight @ np.log(variance) / weight.sum() + np.log(fit.unit)
    standardized = StandardizedErrors.of(ratios, [weight] * t)
    density = np.array([student.log_density for student in standardized.students]) - log_std
    return NeighborPosterior(fit, dof, factor, standardized, density, normal)


def normal_variance(squares: Array, variance: Array, weight: Array) -> tuple[float, float]:
    """Return the factor f and the sum s of the highest normal density of errors of variance f v + s.

    The sum is zero unless it increases the log density of all errors by `LEAST_GAIN`.

    Parameters
    ----------
    squares, variance : ndarray of shape (l,)
        Squared errors, and their variances v > 0 up to a factor.
    weight : ndarray of shape (l,)
        Weights.
    """
    total = float(weight.sum())
    alone = float(weight @ (squares / variance)) / total
    size = float(weight @ squares) / total
    if not (size > 0 and alone > 0):
        return alone, 0.0
    scale = size * total / float(weight @ variance)

    def loss(logs: Array) -> tuple[float, Array]:
        factor, floor = scale * np.exp(logs[0]), size * np.exp(logs[1])
        spread = factor * variance + floor
        slope = weight * (1 - squares / spread) / spread
        value = float(weight @ (np.log(spread / size) + squares / spread))
        return value / total, np.array([slope @ variance * factor, slope.sum() * floor]) / total

    starts = [np.array([0.0, np.log(share)]) for share in SHARES]
    first = min(starts, key=lambda start: loss(start)[0])
    # Where variances do not match the errors, as with weights that are no numbers of measurements, a constant variance
    # may have the highest density, and the function would have none. The median is that of most rows.
    typical = LEAST_FACTOR * weighted_quantile(squares / variance, weight, 0.5) / MEDIAN_SQUARE
    least = max(LEAST_SHARE, typical / scale)
    bounds = [(np.log(least), np.log(max(1e3, 2 * least))), (np.log(LEAST_SHARE), np.log(1e3))]
    found = optimize.minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds)
    without = np.log(alone / size) + float(weight @ np.log(variance)) / total + 1
    if 0.5 * total * (without - float(found.fun)) <= LEAST_GAIN:
        return alone, 0.0
    factor, floor = np.exp(found.x)
    return scale * float(factor), size * float(floor)


def left_out_squares(systems: LeftOutSystems, alpha: float, residuals: Array) -> tuple[Array, Array]:
    """Return r' (K + noise)^-1 r (m, t) for the near rows of left-out rows, and their numbers (m,)."""
    problem, sample = systems.problem, systems.sample
    copied = systems.own >= 0
    noise = np.concatenate([alpha / problem.rows.weight, alpha / systems.remaining[copied]])
    values = np.concatenate([residuals, residuals[sample[copied]]])
    Z = problem.query_features(problem.rows.X[sample]) if problem.row_features is None else problem.row_features[sample]
    _, _, quadratic = solve_with(problem, systems.indices, problem.points[sample], Z, noise, values)
    return quadratic, (systems.indices >= 0).sum(axis=1)


def errors_of_copies(left_out: LeftOut) -> tuple[Array, Array, Array]:
    """Return, for all copies of left-out rows, the index (l,) of the row, errors (l, t) and weights (l,)."""
    index, errors, weight = np.arange(len(left_out.sample)), left_out.errors, left_out.weight
    rows = left_out.rows[left_out.sample]
    if rows.copies is None:
        return index, errors, weight
    row = rows.copies.row
    apart = rows.copies.targets - rows.targets[row]
    alone = np.setdiff1d(index, row)  # rows whose copies have equal targets
    errors = np.concatenate([errors[alone], errors[row] + left_out.slope[row, None] * apart])
    return np.concatenate([alone, row]), errors, np.concatenate([weight[alone], rows.copies.weight])


def best_prior(plain: Array, squares: Array, count: Array, weight: Array, choices: tuple[float, ...]) -> float:
    """Return the degrees of freedom of the prior of local scales with the highest density of left-out errors.

    Parameters
    ----------
    plain : ndarray of shape (l,)
        Absolute errors divided by their standard deviations with one scale for all rows.
    squares, count : ndarray of shape (l,)
        As in `local_scales`.
    weight : ndarray of shape (l,)
        Weights.
    choices : tuple of float
        Degrees of freedom that are compared; the first one is used unless another has a higher density.
    """
    if not (plain > 0).any():
        return choices[0]
    densities = []
    for dof in choices:
        local = local_scales(squares[:, None], count, np.array([dof]))[:, 0]
        density = fit_student(plain / np.sqrt(local), weight).log_density
        densities.append(density - 0.5 * float(weight @ np.log(local)) / weight.sum())
    best = int(np.argmax(densities))
    return choices[best] if (densities[best] - densities[0]) * weight.sum() > LEAST_GAIN else choices[0]
