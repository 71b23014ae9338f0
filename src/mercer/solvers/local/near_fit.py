"""Choice of the noise and of the parts of a local model by leave-one-out errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from mercer.engines import Report, enter_stage, report_step
from mercer.errors.packages import data_frame
from mercer.solvers.local.near_model import (
    LEAST_VARIANCE,
    GlobalPart,
    LeftOut,
    LeftOutSystems,
    NearModel,
    NearProblem,
    generalized_least_squares,
)
from mercer.solvers.ridge.least_squares import RidgeSolution
from mercer.solvers.ridge.paths import Criterion, log_loss_scale
from mercer.statistics import exponentials

__all__ = ["LocalFit", "PartScore", "Parts", "fit_near"]

Array = np.ndarray
Parts = Literal["global", "local", "both"]
# Number of rows that are left out, one at a time, to choose the noise and the parts.
LEFT_OUT_ROWS = 2000
# Number of these rows by which the noise is chosen.
NOISE_ROWS = 1000
# Variances of the noise that are tried, in units of the prior variance.
NOISES = np.geomspace(1e-6, 1e2, 17)
# Number of steps by which the noise is refined between two values of this list.
REFINEMENTS = 4
# Number of variances for which errors are computed.
N_NOISES = len(NOISES) + 2 + REFINEMENTS
# Largest number of rows for which the coefficients of both parts are estimated jointly. For more rows, the coefficients
# of the global part alone are used, which hardly differ then.
MOST_JOINT_ROWS = 50_000


@dataclass(frozen=True)
class PartScore:
    """The leave-one-out error of one choice of parts.

    Attributes
    ----------
    parts : {"global", "local", "both"}
        The parts of the model.
    n_neighbors : int
        Number of near rows.
    alpha : float
        Variance of the noise in units of the prior variance; the penalty of the global part.
    error : float
        Mean squared leave-one-out error, summed over targets; for labels, that of their codes +1 and -1.
    loss : float
        What the choice minimizes: the squared error, minus the mean log density of left-out targets up to a constant
        (``alpha="evidence"``), or the logarithmic loss of left-out labels. For logistic regression and support vector
        machines, the number of factors and variances that were fitted to these labels, divided by their weight, is
        added to it, as in Akaike's criterion.
    """

    parts: Parts
    n_neighbors: int
    alpha: float
    error: float
    loss: float


@dataclass(frozen=True)
class NearAudit:
    """What it costs to use few near rows.

    Attributes
    ----------
    rmse : float
        Root mean square of the differences between the predictions and those with `n_neighbors` near rows, divided by
        the root mean square of leave-one-out errors. A value of 0.1 increases squared errors by about 1 % if the
        difference is independent of the error.
    low, high : float
        Confidence interval of 95 %, by the normal approximation of the mean square.
    n_neighbors : int
        Number of near rows of the reference.
    n_rows : int
        Number of rows that were predicted.
    """

    rmse: float
    low: float
    high: float
    n_neighbors: int
    n_rows: int


@dataclass(frozen=True, eq=False)
class LocalFit:
    """A fitted local model, the choices that were compared, and leave-one-out predictions of the chosen one.

    Attributes
    ----------
    model : NearModel
        The fitted model.
    parts : {"global", "local", "both"}
        Whether the model uses the features, near rows, or both.
    scores : tuple of PartScore
        The leave-one-out errors of the choices that were compared.
    left_out : LeftOut
        Leave-one-out predictions of a sample of rows.
    unit : float
        The model predicts targets divided by this number: 1, unless squares of the targets overflow or underflow.
    """

    model: NearModel
    parts: Parts
    scores: tuple[PartScore, ...]
    left_out: LeftOut
    unit: float = 1.0

    def predict(
        self, X: Any, *, return_std: bool = False, with_noise: bool = False, n_jobs: int | None = None
    ) -> tuple[Array, Array | None]:
        """Return predictions (n, t) for validated rows, and standard deviations (n, t) or None."""
        mean, variance = self.model.predict(X, with_variance=return_std, n_jobs=n_jobs)
        mean *= self.unit
        if variance is None:
            return mean, None
        variance = variance + self.model.alpha * with_noise
        return mean, self.unit * np.sqrt(variance[:, None] * self.model.scale)

    def compact(self) -> LocalFit:
        """Return a smaller model, whose predictions are the same up to rounding errors of the features of its rows.

        It has no columns of rows, of which predictions use the points only, and features of rows in single precision if
        that changes predictions by less than 0.1 % of their standard deviation (`NearProblem.in_least_precision`).
        """
        model, left_out = self.model, self.left_out
        if model.source is not None:
            return self
        problem = model.problem.in_least_precision(model.alpha)
        problem = replace(problem, rows=problem.rows.without_inputs())
        left_out = replace(left_out, rows=left_out.rows.without_inputs())
        model = replace(model, problem=problem, part=model.part.with_triangle())
        return replace(self, model=model, left_out=left_out)

    def quantile(self, coverage: float) -> Array:
        """Return the factors (t,) of standard deviations at which intervals contain this share of the targets."""
        ratios, weight = self.left_out.deviations()
        # One more residual than there are would be as likely to have any rank. Weights are numbers of residuals.
        level = min(coverage * (1 + 1 / max(len(ratios), weight.sum())), 1.0)
        return np.array([weighted_quantile(column, weight, level) for column in ratios.T])

    def probability_scale(self) -> float:
        """Return the factor of decision values that minimizes the logarithmic loss of left-out labels."""
        return log_loss_scale(*self.left_out.decisions())

    def audit(self, X: Any, n_neighbors: int = 1024, *, n_rows: int = 200, n_jobs: int | None = None) -> NearAudit:
        """Measure how predictions differ from those with many more near rows, which are close to the exact process.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            Rows to predict, which the fit has not seen.
        n_neighbors : int, default=1024
            Number of near rows of the reference. A row costs O(n_neighbors^3). With all rows of the fit, the reference
            is the exact process, given the coefficients of the global part.
        n_rows : int, default=200
            Number of rows of `X` that are used, evenly spaced.
        n_jobs : int or None, default=None
            Number of threads; None means all cores.

        Returns
        -------
        NearAudit
        """
        X = X[np.linspace(0, X.shape[0] - 1, min(n_rows, X.shape[0])).round().astype(int)]
        near, _ = self.model.predict(X, n_jobs=n_jobs)
        problem = self.model.problem
        more = replace(self.model, problem=replace(problem, n_neighbors=max(n_neighbors, problem.n_neighbors)))
        reference, _ = more.predict(X, n_jobs=n_jobs)
        spread = np.sqrt(np.maximum(self.left_out.squares.mean(axis=0), np.finfo(float).tiny))
        squares = np.square((near - reference) / spread).mean(axis=1)
        error = float(squares.std(ddof=1) / np.sqrt(len(squares))) if len(squares) > 1 else np.inf
        mean = float(squares.mean())
        low, high = np.sqrt(np.maximum(mean + np.array([-1.96, 1.96]) * error, 0.0)).tolist()
        return NearAudit(np.sqrt(mean), low, high, min(more.problem.n_neighbors, self.model.n_rows), len(squares))

    @property
    def nbytes(self) -> int:
        """Size in bytes of the rows of the model and their features."""
        return self.model.nbytes

    def to_pandas(self) -> Any:
        """Return `scores` as a data frame."""
        return data_frame([vars(score) for score in self.scores], "LocalFit.to_pandas")

    def __repr__(self) -> str:
        return f"LocalFit(parts={self.parts!r}, n_rows={self.model.n_rows}, nbytes={self.nbytes})"


def fit_near(
    problem: NearProblem,
    ridge: RidgeSolution,
    alpha: float | Criterion,
    *,
    parts: Sequence[Parts],
    neighbors: Sequence[int],
    fit_intercept: bool,
    labels: bool = False,
    seed: int,
    sample: Array | None = None,
    mean: Array | None = None,
    report: Report | None = None,
) -> LocalFit:
    """Fit a local model, and choose its noise, its parts and the number of near rows by leave-one-out.

    Parameters
    ----------
    problem : NearProblem
        Rows, kernel, neighbors, and the features of the global part.
    ridge : RidgeSolution
        The global part alone.
    alpha : float or criterion
        Variance of the noise in units of the prior variance. For a criterion it is chosen: by the squared error for
        "loo" and "gcv", by the density for "evidence", and by the logarithmic loss for labels.
    parts : sequence of {"global", "local", "both"}
        The choices that are compared.
    neighbors : sequence of int
        Numbers of near rows that are compared, at least one.
    fit_intercept : bool
        Whether there is an intercept.
    labels : bool, default=False
        Whether targets are codes of labels. Choices are then made by the logarithmic loss.
    seed : int
        Seed of the sample of rows that are left out.
    sample : ndarray of shape (m,), default=None
        Indices of these rows, if they are chosen before; the problem may then have no rows but these and those near
        them.
    mean : ndarray of shape (t,), default=None
        Weighted mean of the targets of all rows; None means that of the rows of the problem.
    report : callable or None, default=None
        Receives the progress.
    """
    rows = problem.rows
    sample = sample_of(len(rows), seed) if sample is None else sample
    loss_of: Callable[[LeftOut], float] = LeftOut.squared_error
    if labels:
        loss_of = LeftOut.log_loss
    elif alpha == "evidence":
        loss_of = LeftOut.negative_log_density
    found: list[tuple[PartScore, NearProblem, GlobalPart, LeftOut]] = []

    def add(name: Parts, some: NearProblem, part: GlobalPart, penalty: float, left_out: LeftOut) -> None:
        count = some.n_neighbors if some.is_local else 0
        error, loss = left_out.squared_error(), loss_of(left_out)
        if left_out.determined:
            error = loss = np.inf
        found.append((PartScore(name, count, penalty, error, loss), some, part, left_out))

    if "global" in parts:
        alone = problem.global_part()
        noise = ridge.alpha if ridge.alpha > 0 else LEAST_VARIANCE * prior_variance(alone)
        part = GlobalPart.of_ridge(ridge, noise, rows)
        add("global", alone, part, noise, LeftOutSystems.of(alone, sample).left_out(noise, part))
    if not fit_intercept:
        mean = np.zeros(rows.targets.shape[1])
    elif mean is None:
        mean = weighted_mean(problem)
    constant = GlobalPart(np.zeros((0, len(mean))), mean, None)
    local_alpha = ridge.alpha if isinstance(alpha, str) else float(alpha)
    for count in () if tuple(parts) == ("global",) else neighbors:
        enter_stage(report, "leave rows out")
        near = replace(problem, n_neighbors=count)
        local = near.local_part()
        systems = LeftOutSystems.of(local, sample)
        if isinstance(alpha, str):
            some = LeftOutSystems.of(local, sample[:NOISE_ROWS])
            errors = partial(some.left_out, part=constant)
            local_alpha = best_noise(errors, prior_variance(local), loss_of, report)
        if "local" in parts:
            add("local", local, constant, local_alpha, systems.left_out(local_alpha, constant))
        if "both" in parts:
            enter_stage(report, "estimate both parts")
            for penalty in both_noises(local_alpha, ridge.alpha, alpha):
                joint = len(rows) <= MOST_JOINT_ROWS and rows.is_complete
                part = (
                    generalized_least_squares(near, penalty, fit_intercept=fit_intercept, report=report)
                    if joint
                    else GlobalPart.without_errors(ridge, rows)
                )
                add("both", near, part, penalty, LeftOutSystems.of(near, sample).left_out(penalty, part))
    score, chosen, part, left_out = min(found, key=lambda entry: entry[0].loss)
    if not chosen.is_local:
        chosen = chosen.with_rows(left_out.sample[:1])
    model = NearModel.of(chosen, score.alpha, part, left_out.scale())
    scores = tuple(replace(entry[0], error=entry[0].error * rows.unit * rows.unit) for entry in found)
    return LocalFit(model, score.parts, scores, left_out.compact(), rows.unit)


def both_noises(local: float, alone: float, alpha: float | Criterion) -> tuple[float, ...]:
    """Return the variances of the noise that are tried for both parts together."""
    if not isinstance(alpha, str):
        return (float(alpha),)
    middle = float(np.sqrt(max(local, 1e-12) * max(alone, 1e-12)))
    return (local,) if 0.3 < local / max(middle, 1e-300) < 3 else (local, middle)


def sample_of(n: int, seed: int) -> Array:
    """Return the indices of the rows that are left out, in random order."""
    keys = exponentials(np.arange(n, dtype=np.uint64), seed)
    size = min(n, LEFT_OUT_ROWS)
    chosen = np.argpartition(keys, size - 1)[:size]
    return chosen[np.argsort(keys[chosen], kind="stable")]


def prior_variance(problem: NearProblem) -> float:
    """Return the mean of k(x, x) over some rows."""
    return float(np.mean(problem.kernel.diag(problem.rows.X[:100])))


def weighted_quantile(values: Array, weight: Array, level: float) -> float:
    """Return the least value such that values up to it have at least this share of the weight."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    return float(values[order[min(np.searchsorted(below, level * below[-1] * (1 - 1e-12)), len(values) - 1)]])


def weighted_mean(problem: NearProblem) -> Array:
    """Return the weighted mean (t,) of the targets."""
    return problem.rows.weight @ problem.rows.targets / problem.rows.weight.sum()


def best_noise(
    left_out: Callable[[float], LeftOut], prior: float, loss_of: Callable[[LeftOut], float], report: Report | None
) -> float:
    """Return the variance of the noise with the least leave-one-out loss: on a grid, then between its neighbors."""

    def loss(log_alpha: float) -> float:
        value = loss_of(left_out(float(np.exp(log_alpha))))
        return value if np.isfinite(value) else np.inf

    logs = np.log(NOISES * max(prior, np.finfo(float).tiny))
    losses = []
    for log in logs:
        losses.append(loss(log))
        report_step(report, len(losses), len(logs) + REFINEMENTS)
    best = int(np.argmin(losses))
    low, high = logs[max(best - 1, 0)], logs[min(best + 1, len(logs) - 1)]
    # Golden section, for a loss that has one minimum between the two neighbors of the best point of the grid.
    ratio = (np.sqrt(5) - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = loss(left), loss(right)
    for step in range(REFINEMENTS):
        report_step(report, len(logs) + step + 1, len(logs) + REFINEMENTS)
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = loss(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = loss(right)
    candidates = [(losses[best], logs[best]), (at_left, left), (at_right, right)]
    return float(np.exp(min(candidates)[1]))
