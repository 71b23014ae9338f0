"""Search for a kernel and a metric in which near rows predict left-out targets best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer.engines import Report, enter_stage
from mercer.engines.base import OutOfTimeError
from mercer.linalg.local_systems import solve_local
from mercer.linalg.numpy_kernels import ProfileName
from mercer.neighbors import neighbor_index
from mercer.solvers.local.metric_tuning import (
    BATCH,
    FULL_STEPS,
    LAST_STEPS,
    SEARCHED,
    SHARED_STEPS,
    STEPS,
    WARM_STEPS,
    ErrorLoss,
    LogLoss,
    MetricKind,
    NumberLoss,
    TunedMetric,
    in_single,
    tune_metric,
)

__all__ = ["MetricSearch", "MetricTrial", "search_costs", "search_metric"]

Array = np.ndarray
# Number of rows that are used only to compare trials, and their largest share of all rows.
HELD_ROWS = 2000
HELD_SHARE = 0.2
# Number of near rows by which trials are compared.
N_NEIGHBORS = 64
# Variance of the noise to start from.
NOISE = 0.05
# Factor of predictions in the probabilities of labels to start from.
LOG_LOSS_SCALE = 8.0
# Cost of a system of near rows and its gradient, in multiplications and additions of large matrices.
SYSTEM_COST = 1e6
# A metric with more parameters is used if it lowers the error by this share.
LEAST_GAIN = 0.01


@dataclass(frozen=True)
class MetricTrial:
    """One trial of a search.

    Attributes
    ----------
    profile : str
        Name of the kernel; see `mercer.linalg.local_systems`.
    metric : {"shared", "diagonal", "full"}
        Whether all features have the same lengthscale, one each, or a matrix.
    error : float
        Mean squared error of left-out targets, or logarithmic loss of left-out labels.
    noise : float
        Variance of the noise in units of the variance of the process.
    """

    profile: ProfileName
    metric: MetricKind
    error: float
    noise: float


@dataclass(frozen=True, eq=False)
class MetricSearch:
    """All trials, and which of them has the least error."""

    trials: tuple[MetricTrial, ...]
    metrics: tuple[TunedMetric, ...]  # one per trial
    chosen: int  # index of the trial of least error
    held: Array  # (m,), indices of the rows by which trials were compared
    predictions: Array  # (trials, m, t), left-out predictions of these rows

    @property
    def tuned(self) -> TunedMetric:
        """The metric of least error."""
        return self.metrics[self.chosen]

    @property
    def profile(self) -> ProfileName:
        """Name of the kernel of least error."""
        return self.trials[self.chosen].profile


def search_costs(profiles: Sequence[ProfileName], n: int, d: int, *, full: bool) -> dict[str, float]:
    """Return the stages of a search and their costs, for n rows of d features."""
    # A step solves systems, and searches near rows among a sample of the rows and among candidates.
    step = BATCH * (SYSTEM_COST + N_NEIGHBORS**2 * d + min(n, SEARCHED) * d)
    costs = {"tune one lengthscale": float(step * SHARED_STEPS)}
    for number, profile in enumerate(profiles):
        costs[f"tune lengthscales of {profile}"] = float(step * (WARM_STEPS if number else STEPS))
    costs["tune the best kernel"] = float(step * (LAST_STEPS + (SHARED_STEPS if len(profiles) > 1 else 0)))
    return {**costs, "tune a full metric": float(step * FULL_STEPS)} if full else costs


def search_metric(
    X: Array,
    targets: Array,
    weight: Array,
    profiles: Sequence[ProfileName],
    *,
    labels: bool,
    full: bool,
    seed: int,
    n_jobs: int | None = None,
    report: Report | None = None,
) -> MetricSearch:
    """Tune a shared lengthscale, one per feature for each kernel, and a full metric, and return all trials.

    Only the kernel whose lengthscales have the least error takes further steps: for its lengthscales, for a shared one,
    and for a full metric. Lengthscales minimize the leave-one-out loss of predictions from 32 near rows, on
    mini-batches. Results are compared by the leave-one-out error of further rows, predicted from 64 near rows.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows, whose features have a spread near one.
    targets : ndarray of shape (n, t)
        Targets, or indicators of labels with one column per label.
    weight : ndarray of shape (n,)
        Weights > 0 of the rows.
    profiles : sequence of str
        Names of kernels that are compared.
    labels : bool
        Whether the targets are indicators of labels.
    full : bool
        Whether a full metric is tried.
    seed : int
        Seed of the mini-batches.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    report : callable or None, default=None
        Receives the progress. If it raises `OutOfTimeError`, the search ends with the trials that are complete.
    """
    n, d = X.shape
    mean = weight @ targets / weight.sum()
    spread = np.sqrt(np.sum(weight @ np.square(targets - mean)) / weight.sum() / targets.shape[1])
    if not (targets != targets[0]).any():  # the deviation of equal numbers is their rounding error
        mean, spread = targets[0], 1.0
    centered = np.ascontiguousarray((targets - mean) / spread)
    loss: ErrorLoss = LogLoss(targets, mean / spread) if labels else NumberLoss()
    held = np.sort(np.random.default_rng(seed).choice(n, min(HELD_ROWS, max(1, int(HELD_SHARE * n))), replace=False))
    parameter = LOG_LOSS_SCALE * spread if labels else 1.0
    start = TunedMetric(np.full(d, (2 * d) ** -0.5), NOISE, parameter, np.empty(0))
    found: list[tuple[MetricTrial, TunedMetric]] = []
    predictions: list[Array] = []

    def attempt(profile: ProfileName, start: TunedMetric, kind: MetricKind, steps: int) -> TunedMetric:
        tuned = tune_metric(
            X, centered, weight, profile, start, loss,
            kind=kind, exclude=held, steps=steps, seed=seed, n_jobs=n_jobs, report=report,
        )  # fmt: skip
        predicted, variance = left_out_predictions(X, centered, weight, profile, tuned, held, n_jobs)
        errors, share = centered[held] - predicted, weight[held] / weight[held].sum()
        error = float(share @ np.square(errors).sum(axis=1))
        if labels:
            error = loss(held, centered[held], errors, variance, share, tuned.parameter)[0]
        found.append((MetricTrial(profile, kind, error, tuned.noise), tuned))
        predictions.append(predicted * spread + mean)
        return tuned

    try:
        enter_stage(report, "tune one lengthscale")
        shared = diagonal = attempt(profiles[0], start, "shared", SHARED_STEPS)
        for number, profile in enumerate(profiles):
            enter_stage(report, f"tune lengthscales of {profile}")
            # Lengthscales of one kernel are a good start for those of the next one.
            diagonal = attempt(profile, diagonal, "diagonal", WARM_STEPS if number else STEPS)
        # Only the best kernel is worth further steps.
        enter_stage(report, "tune the best kernel")
        trial, diagonal = min(found[1:], key=lambda entry: entry[0].error)
        attempt(trial.profile, diagonal, "diagonal", LAST_STEPS)
        if trial.profile != profiles[0]:
            attempt(trial.profile, shared, "shared", SHARED_STEPS)
        best = best_of(found)
        if full and d > 1:
            enter_stage(report, "tune a full metric")
            attempt(found[best][0].profile, found[best][1], "full", FULL_STEPS)
    except OutOfTimeError:  # raised by `report`
        if not found:
            raise
    best = best_of(found)
    trials, metrics = zip(*found, strict=True)
    return MetricSearch(trials, metrics, best, held, np.stack(predictions))


def best_of(found: Sequence[tuple[MetricTrial, TunedMetric]]) -> int:
    """Return the index of the trial of least error, where more parameters must lower it by `LEAST_GAIN`."""
    order: dict[MetricKind, int] = {"shared": 0, "diagonal": 1, "full": 2}
    penalized = [trial.error * (1 - LEAST_GAIN) ** -order[trial.metric] for trial, _ in found]
    return int(np.argmin(penalized))


def left_out_predictions(
    X: Array,
    targets: Array,
    weight: Array,
    profile: ProfileName,
    tuned: TunedMetric,
    held: Array,
    n_jobs: int | None,
    n_neighbors: int = N_NEIGHBORS,
) -> tuple[Array, Array]:
    """Return predictions (m, t) of some rows from the rows near them, and their variances (m,) up to a factor."""
    points = tuned.points(X)
    single = in_single(points)
    indices, _ = neighbor_index(single, n_jobs=n_jobs).query(
        single[held], min(n_neighbors, len(X)), own=held, n_jobs=n_jobs
    )
    solution = solve_local(points, indices, points[held], profile, tuned.noise / weight, n_jobs=n_jobs)
    near = np.where(indices[..., None] >= 0, targets[np.maximum(indices, 0)], 0.0)
    return np.einsum("mk,mkt->mt", solution.weights, near), solution.variance
