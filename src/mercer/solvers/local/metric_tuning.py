r"""Metrics that minimize leave-one-out losses of predictions from near rows.

For a row with target y, near rows with kernel matrix K (noise :math:`\lambda` included) and kernel values k, the
leave-one-out error is :math:`e = y - k'K^{-1}y_N`, and its variance is :math:`s v` with
:math:`v = 1 + \lambda - k'K^{-1}k` and a scale s. With :math:`a = K^{-1} y_N` and :math:`b = K^{-1} k`, the derivatives
are :math:`\partial e / \partial K = b a'`, :math:`\partial e / \partial k = -a`, :math:`\partial v / \partial K = b b'`
and :math:`\partial v / \partial k = -2 b`. So the derivative of the loss with respect to K has rank two, and that with
respect to all lengthscales costs as much as the kernel matrix itself.

Points are rows times a matrix W. The loss changes by :math:`-\mathrm{tr}(H E)` if W is replaced by
:math:`W (I + E)` with a small E, where H is the sum over pairs of near rows of the derivative of the loss with respect
to the kernel, times the slope of the kernel, times the outer product of the difference of their points. Steps are taken
in E, so they do not depend on the units of the rows.

Many targets need one right-hand side instead of one for each of them: the sum of a over targets, times the derivatives
g of the loss with respect to the errors, is :math:`K^{-1} (Y_N g)`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np
from scipy import special

from mercer.engines import Report, report_step
from mercer.engines.base import Workers, workers
from mercer.linalg.local_systems import metric_gradient, solve_local
from mercer.linalg.numpy_kernels import ProfileName
from mercer.neighbors import neighbor_index

__all__ = [
    "ErrorLoss",
    "LeftOutLoss",
    "LogLoss",
    "MetricKind",
    "NumberLoss",
    "TunedMetric",
    "left_out_loss",
    "tune_metric",
]

Array = np.ndarray
MetricKind = Literal["shared", "diagonal", "full"]
# Number of near rows, of rows of a mini-batch, and of steps: for one lengthscale per feature, for those of a further
# kernel, for those of the best kernel after that, for a shared lengthscale, and for a full matrix.
N_NEIGHBORS = 32
BATCH, LEAST_BATCH = 256, 64
STEPS = 120
WARM_STEPS = 40
LAST_STEPS = 60
SHARED_STEPS = 20
FULL_STEPS = 200
# Near rows are searched after this number of steps, and among these candidates in each step.
REFRESH = 8
CANDIDATES = 64
# They are searched in a sample of this number of rows until this share of the steps, and then among all rows.
SEARCHED = 20_000
SAMPLED_SHARE = 0.75
# Number of rows that a thread processes at a time: of a mini-batch, and of those that are multiplied by the metric.
PART = 32
POINTS = 2048
# Number of targets for which the systems are solved at once. For more, they are solved for their sum in a second step.
FEW_TARGETS = 4
# Largest entry of rows that are searched in single precision.
LARGEST_SINGLE = 1e15
# Sizes of the steps in logarithms of lengthscales, and in entries of a full matrix.
RATE = 0.1
FULL_RATE = 0.02
# Bounds of the noise.
LEAST_NOISE, MOST_NOISE = 1e-4, 1e2


class ErrorLoss(ABC):
    """Base class of losses of left-out predictions. They have one parameter, whose logarithm is tuned too."""

    @abstractmethod
    def __call__(
        self, sample: Array, targets: Array, errors: Array, variance: Array, share: Array, parameter: float
    ) -> tuple[float, Array, Array, float]:
        """Return the mean loss, and its derivatives.

        Parameters
        ----------
        sample : ndarray of shape (m,)
            Indices of the rows.
        targets, errors : ndarray of shape (m, t)
            Targets, and targets minus predictions.
        variance : ndarray of shape (m,)
            Variances of the errors, up to a factor.
        share : ndarray of shape (m,)
            Weights of the rows, which sum to one.
        parameter : float
            Positive parameter of the loss.

        Returns
        -------
        value : float
        by_error : ndarray of shape (m, t)
        by_variance : ndarray of shape (m,)
        by_parameter : float
            With respect to the logarithm of the parameter.
        """


@dataclass(frozen=True)
class NumberLoss(ErrorLoss):
    """Minus the log density of normally distributed errors, plus half of the logarithm of their mean square.

    The parameter is the factor of the variance. The density takes into account how reliable predictions are, and the
    mean square what they are worth where the distribution of errors is not normal. On tables of all kinds the sum had
    lower errors than either of them, and than the density of a Student distribution.
    """

    def __call__(
        self,
        sample: Array,  # noqa: ARG002 - the signature of the contract
        targets: Array,
        errors: Array,
        variance: Array,
        share: Array,
        parameter: float,
    ) -> tuple[float, Array, Array, float]:
        t = targets.shape[1]
        spread = parameter * variance
        ratio = np.square(errors).sum(axis=1) / spread
        square = np.maximum(share @ np.square(errors), np.finfo(float).tiny)  # (t,)
        value = share @ (0.5 * (t * np.log(spread) + ratio)) + 0.5 * np.log(square).sum()
        rest = 0.5 * share * (t - ratio)
        by_error = share[:, None] * errors * (1 / spread[:, None] + 1 / square)
        return float(value), by_error, rest / variance, float(rest.sum())


@dataclass(frozen=True, eq=False)
class LogLoss(ErrorLoss):
    """Logarithmic loss of labels, with softmax(a f) for predictions f; the parameter is a."""

    indicators: Array  # (n, K), of the labels of all rows: shares, where equal rows have different labels
    offset: Array  # (K,), added to predictions: the means of the targets

    def __call__(
        self,
        sample: Array,
        targets: Array,
        errors: Array,
        variance: Array,
        share: Array,
        parameter: float,
    ) -> tuple[float, Array, Array, float]:
        values = targets - errors + self.offset
        probabilities = special.softmax(parameter * values, axis=1)
        indicators = self.indicators[sample]
        logs = np.log(np.maximum(probabilities, np.finfo(float).tiny))
        loss = -share @ (indicators * logs).sum(axis=1)
        gradient = share[:, None] * (probabilities - indicators) * parameter
        return float(loss), -gradient, np.zeros_like(variance), float((gradient * values).sum())


@dataclass(frozen=True)
class LeftOutLoss:
    """A leave-one-out loss and its derivatives.

    The metric changes by E as described in the documentation of this module. The noise and the parameter of the loss
    change by their logarithms.
    """

    value: float
    metric: Array  # (p,) or (p, p), minus the derivative with respect to the diagonal of E, or to E
    noise: float
    parameter: float


def left_out_loss(
    loss: ErrorLoss,
    points: Array,
    targets: Array,
    weight: Array,
    sample: Array,
    indices: Array,
    profile: ProfileName,
    noise: float,
    parameter: float,
    *,
    full: bool = False,
    n_jobs: int | None = None,
) -> LeftOutLoss:
    """Return the mean loss of left-out predictions, and its derivatives.

    Parameters
    ----------
    loss : ErrorLoss
        The loss.
    points : ndarray of shape (n, p)
        Points of the rows.
    targets : ndarray of shape (n, t)
        Targets minus their mean.
    weight : ndarray of shape (n,)
        Weights > 0 of the rows.
    sample : ndarray of shape (m,)
        Indices of the rows that are left out.
    indices : ndarray of shape (m, k)
        Indices of their near rows.
    profile : str
        Name of the profile of the kernel; see `mercer.linalg.local_systems`.
    noise : float
        Variance of the noise, in units of the variance of the process.
    parameter : float
        Parameter of the loss.
    full : bool, default=False
        Whether the derivative with respect to the metric is a matrix.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    """
    noises = noise / weight
    few = targets.shape[1] <= FEW_TARGETS
    queries = points[sample]
    solution = solve_local(points, indices, queries, profile, noises, targets=targets if few else None, n_jobs=n_jobs)
    present = indices >= 0
    near = np.maximum(indices, 0)
    b = solution.weights
    near_targets = targets[near]  # (m, k, t); those of missing rows have weight zero
    errors = targets[sample] - np.matmul(b[:, None], near_targets)[:, 0]
    variance = solution.variance + noises[sample]
    share = weight[sample] / weight[sample].sum()
    value, by_error, by_variance, by_parameter = loss(sample, targets[sample], errors, variance, share, parameter)
    if solution.targets is not None:
        by_error_a = np.matmul(solution.targets, by_error[..., None])[..., 0]
    else:
        # The sum over targets of a times the derivatives is the solution for one right-hand side, which is known now.
        total = np.matmul(near_targets, by_error[..., None])[..., 0]
        by_error_a = solve_own(points[near], present, queries, profile, noises[near], total, n_jobs)
    right = by_error_a + by_variance[:, None] * b
    cross = -by_error_a - 2 * by_variance[:, None] * b
    H = metric_gradient(points, indices, points[sample], profile, b, right, cross, full=full, n_jobs=n_jobs)
    own = np.where(present, noises[near], 0.0)
    by_noise = float(np.sum(b * right * own) + by_variance @ noises[sample])
    return LeftOutLoss(value, H, by_noise, by_parameter)


def solve_own(
    near_points: Array,
    present: Array,
    queries: Array,
    profile: ProfileName,
    noises: Array,
    right: Array,
    n_jobs: int | None,
) -> Array:
    """Return the solutions (m, k) of the systems of near rows for right-hand sides (m, k), one for each query."""
    m, k, p = near_points.shape
    own = np.where(present, np.arange(m * k).reshape(m, k), -1)
    solution = solve_local(
        near_points.reshape(m * k, p),
        own,
        queries,
        profile,
        noises.ravel(),
        targets=right.reshape(m * k, 1),
        n_jobs=n_jobs,
    )
    assert solution.targets is not None
    return solution.targets[..., 0]


def batch_size(n: int) -> int:
    """Return the number of rows of a mini-batch, for n rows: a quarter of few rows, at least 64 of them."""
    return min(n, BATCH, max(LEAST_BATCH, n // 4))


def mini_batches(rows: Array, size: int, count: int, rng: np.random.Generator) -> list[Array]:
    """Return `count` mini-batches of `size` rows; a row is used again only after all others."""
    batches: list[Array] = []
    while len(batches) < count:
        order = rng.permutation(rows)
        batches += [order[i : i + size] for i in range(0, len(order) - size + 1, size)]
    return batches[:count]


def nearest(rows: Array, W: Array, sample: Array, candidates: Array, count: int, team: Workers) -> Array:
    """Return the indices (m, count) of the candidates nearest to some rows in a metric; -1 where there are fewer."""
    out = np.empty((len(sample), min(count, candidates.shape[1])), dtype=candidates.dtype)
    W = W.astype(rows.dtype)

    def fill(start: int) -> None:
        some = candidates[start : start + PART]
        apart = rows[np.maximum(some, 0)]
        apart -= rows[sample[start : start + PART], None]
        apart = times(apart.reshape(-1, rows.shape[1]), W)
        squares = np.einsum("ij,ij->i", apart, apart).reshape(some.shape)
        closest = np.argsort(np.where(some >= 0, squares, np.inf), axis=1, kind="stable")[:, : out.shape[1]]
        out[start : start + PART] = np.take_along_axis(some, closest, axis=1)

    team.run(fill, range(0, len(sample), PART))
    return out


@dataclass(frozen=True, eq=False)
class SearchedRows:
    """The rows among which near rows are searched: all of them, or a sample."""

    rows: Array  # (s, d)
    index: Array | None  # (s,), sorted indices of the sample; None means all rows
    position: Array | None  # (n,), position of each row in the sample, or -1

    @classmethod
    def of(cls, rows: Array, index: Array | None) -> Self:
        """Return the rows with these indices, or all rows for None."""
        if index is None:
            return cls(rows, None, None)
        position = np.full(len(rows), -1)
        position[index] = np.arange(len(index))
        return cls(rows[index], index, position)

    def near(self, rows: Array, W: Array, some: Array, count: int, n_jobs: int | None) -> Array:
        """Return the indices (m, count) of the rows nearest to some of all rows, which are not near themselves."""
        W = W.astype(rows.dtype)
        index = neighbor_index(times(self.rows, W), n_jobs=n_jobs)
        own = some if self.position is None else self.position[some]
        found, _ = index.query(times(rows[some], W), count, own=own, n_jobs=n_jobs)
        return found if self.index is None else np.where(found >= 0, self.index[found], -1)


def in_single(X: Array) -> Array:
    """Return rows in single precision, unless it cannot represent their squares, to search near rows.

    Distances need not be exact there, since any near rows will do.
    """
    return X.astype(np.float32) if np.abs(X).max(initial=0.0) < LARGEST_SINGLE else X


def times(X: Array, W: Array) -> Array:
    """Return rows times factors of features (d,) or a matrix (d, p), in C order."""
    return np.ascontiguousarray(X * W if W.ndim == 1 else X @ W)


def move_points(X: Array, W: Array, some: Array, points: Array, team: Workers) -> None:
    """Write the rows with indices `some`, of which -1 is none, times W into `points`."""
    used = np.zeros(len(X) + 1, dtype=bool)
    used[some] = True
    index = np.flatnonzero(used[:-1])

    def move(start: int) -> None:
        part = index[start : start + POINTS]
        points[part] = times(X[part], W)

    team.run(move, range(0, len(index), POINTS))


@dataclass(frozen=True, eq=False)
class TunedMetric:
    """The result of a search for a metric."""

    matrix: Array  # (d,), factors of the features; or (d, p), by which rows are multiplied
    noise: float
    parameter: float  # of the loss
    losses: Array  # (steps,), loss of each mini-batch

    def points(self, X: Array) -> Array:
        """Return the points (n, p) of rows (n, d)."""
        return times(X, self.matrix)


def tune_metric(
    X: Array,
    targets: Array,
    weight: Array,
    profile: ProfileName,
    start: TunedMetric,
    loss: ErrorLoss,
    *,
    kind: MetricKind = "diagonal",
    exclude: Array | None = None,
    steps: int = STEPS,
    seed: int = 0,
    n_jobs: int | None = None,
    report: Report | None = None,
) -> TunedMetric:
    """Minimize the leave-one-out loss over the metric, the noise and its parameter, on mini-batches of rows (Adam).

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows.
    targets : ndarray of shape (n, t)
        Targets minus their mean, with variance near one.
    weight : ndarray of shape (n,)
        Weights > 0 of the rows.
    profile : str
        Name of the profile of the kernel.
    start : TunedMetric
        The metric, noise and parameter of the loss to start from.
    loss : ErrorLoss
        The loss of left-out predictions.
    kind : {"shared", "diagonal", "full"}, default="diagonal"
        "diagonal" changes one lengthscale per feature, "shared" multiplies all of them by the same number, and "full"
        changes a matrix.
    exclude : ndarray of shape (e,), default=None
        Indices of rows that are not left out, so that they can be used to compare results.
    steps : int, default=120
        Number of steps.
    seed : int, default=0
        Seed of the mini-batches.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    report : callable or None, default=None
        Receives the progress.
    """
    with workers(n_jobs) as team:
        return _tune(X, targets, weight, profile, start, loss, kind, exclude, steps, seed, team, report)


def _tune(
    X: Array,
    targets: Array,
    weight: Array,
    profile: ProfileName,
    start: TunedMetric,
    loss: ErrorLoss,
    kind: MetricKind,
    exclude: Array | None,
    steps: int,
    seed: int,
    team: Workers,
    report: Report | None,
) -> TunedMetric:
    """Do what `tune_metric` does, on the threads of a team."""
    n, d = X.shape
    n_jobs = team.threads
    rng = np.random.default_rng(seed)
    W, full = start.matrix, kind == "full"
    if full and W.ndim == 1:
        W = np.diag(W)
    others = np.log([start.noise, start.parameter])
    shape = W.shape if full else (d,)
    first, second = np.zeros(shape), np.zeros(() if full else shape)
    first_of_others, second_of_others = np.zeros(2), np.zeros(2)
    losses = np.empty(steps)
    usable = np.arange(n) if exclude is None or len(exclude) >= n // 2 else np.setdiff1d(np.arange(n), exclude)
    samples = mini_batches(usable, batch_size(len(usable)), steps, rng)
    rows = in_single(X)
    sampled = np.sort(rng.choice(n, SEARCHED, replace=False)) if n > SEARCHED else None
    searched = SearchedRows.of(rows, sampled)
    points = np.empty(X.shape)
    for step, sample in enumerate(samples):
        if step % REFRESH == 0:
            if sampled is not None and kind != "shared" and step >= SAMPLED_SHARE * steps:
                searched, sampled = SearchedRows.of(rows, None), None
            some = np.concatenate(samples[step : step + REFRESH])
            candidates = searched.near(rows, W, some, min(CANDIDATES, n), n_jobs)
        those = candidates[(step % REFRESH) * len(sample) :][: len(sample)]
        indices = nearest(rows, W, sample, those, N_NEIGHBORS, team)
        move_points(X, W, np.append(indices, sample), points, team)
        noise, parameter = np.exp(others).tolist()
        found = left_out_loss(
            loss, points, targets, weight, sample, indices, profile, noise, parameter, full=full, n_jobs=n_jobs
        )
        losses[step] = found.value
        change = np.full(d, found.metric.sum()) if kind == "shared" else found.metric
        warm = min(1.0, (step + 1) / 10)
        fraction = step / steps
        rate = warm * (1.0 if fraction < 0.5 else 0.5 * (1 + np.cos(np.pi * (2 * fraction - 1))) + 0.01)
        bias, bias_of_squares = 1 - 0.9 ** (step + 1), 1 - 0.95 ** (step + 1)
        first = 0.9 * first + 0.1 * change
        squares = np.square(change)
        second = 0.95 * second + 0.05 * (squares.mean() if full else squares)
        change = first / bias / (np.sqrt(second / bias_of_squares) + 1e-12)
        if full:
            W = W + W @ (FULL_RATE * rate * change)
        else:
            W = W * np.exp(RATE * rate * change)
        gradient = np.array([found.noise, found.parameter])
        first_of_others = 0.9 * first_of_others + 0.1 * gradient
        second_of_others = 0.95 * second_of_others + 0.05 * np.square(gradient)
        others -= RATE * rate * first_of_others / bias / (np.sqrt(second_of_others / bias_of_squares) + 1e-12)
        others[0] = np.clip(others[0], np.log(LEAST_NOISE), np.log(MOST_NOISE))
        report_step(report, step + 1, steps)
    return TunedMetric(W, float(np.exp(others[0])), float(np.exp(others[1])), losses)
