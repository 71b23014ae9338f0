"""Search for a kernel and a metric in which near rows predict left-out targets best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from mercer.engines import Report, enter_stage
from mercer.linalg.local_systems import solve_local
from mercer.neighbors import neighbor_index
from mercer.solvers.local.metric_tuning import (
    FULL_STEPS,
    STEPS,
    ErrorLoss,
    LogLoss,
    NormalLoss,
    StudentLoss,
    TunedMetric,
    tune_metric,
)

__all__ = ["MetricSearch", "MetricTrial", "search_metric", "stages_of_search"]

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
# A full metric has d times as many parameters as a diagonal one, and is used if it lowers the error by this share.
LEAST_GAIN = 0.01


@dataclass(frozen=True)
class MetricTrial:
    """One trial of a search.

    Attributes
    ----------
    profile : str
        Name of the kernel; see `mercer.linalg.local_systems`.
    metric : {"diagonal", "full"}
        Whether features have one lengthscale each, or a matrix.
    loss : str
        The loss that was minimized.
    error : float
        Mean squared error of left-out targets, or logarithmic loss of left-out labels.
    noise : float
        Variance of the noise in units of the variance of the process.
    """

    profile: str
    metric: Literal["diagonal", "full"]
    loss: str
    error: float
    noise: float


@dataclass(frozen=True, eq=False)
class MetricSearch:
    """The kernel and the metric of least error, and all trials."""

    profile: str
    tuned: TunedMetric
    trials: tuple[MetricTrial, ...]


def stages_of_search(profiles: Sequence[str], *, full: bool, labels: bool) -> list[str]:
    """Return the names of the stages of a search."""
    names = [f"tune lengthscales of {profile}" for profile in profiles]
    names += [] if labels else ["tune lengthscales for heavy tails"]
    return [*names, "tune a full metric"] if full else names


def search_metric(
    X: Array,
    targets: Array,
    weight: Array,
    profiles: Sequence[str],
    *,
    labels: bool,
    full: bool,
    seed: int,
    n_jobs: int | None = None,
    report: Report | None = None,
) -> MetricSearch:
    """Tune one lengthscale per feature for each kernel, then more for the best of them, and return the best metric.

    Lengthscales minimize the leave-one-out loss of predictions from 32 near rows, on mini-batches. Results are compared
    by the leave-one-out error of further rows, predicted from 64 near rows.

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
        Receives the progress.
    """
    n, d = X.shape
    mean = weight @ targets / weight.sum()
    spread = np.sqrt(np.sum(weight @ np.square(targets - mean)) / weight.sum() / targets.shape[1])
    centered = np.ascontiguousarray((targets - mean) / (spread if spread > 0 else 1.0))
    loss: ErrorLoss = LogLoss(np.argmax(targets, axis=1), mean / (spread or 1.0)) if labels else NormalLoss()
    held = np.sort(np.random.default_rng(seed).choice(n, min(HELD_ROWS, max(1, int(HELD_SHARE * n))), replace=False))
    parameter = LOG_LOSS_SCALE * spread if labels else 1.0
    start = TunedMetric(np.full(d, (2 * d) ** -0.5), NOISE, parameter, np.empty(0))
    found: list[tuple[MetricTrial, TunedMetric]] = []

    def attempt(profile: str, start: TunedMetric, loss: ErrorLoss, *, is_full: bool = False, steps: int) -> None:
        tuned = tune_metric(
            X, centered, weight, profile, start, loss,
            full=is_full, exclude=held, steps=steps, seed=seed, n_jobs=n_jobs, report=report,
        )  # fmt: skip
        error = held_error(X, centered, weight, profile, tuned, loss if labels else None, held, n_jobs)
        name = type(loss).__name__.removesuffix("Loss").lower()
        found.append((MetricTrial(profile, "full" if is_full else "diagonal", name, error, tuned.noise), tuned))

    for profile in profiles:
        enter_stage(report, f"tune lengthscales of {profile}")
        attempt(profile, start, loss, steps=STEPS)
    best = min(found, key=lambda trial: trial[0].error)
    if not labels:
        enter_stage(report, "tune lengthscales for heavy tails")
        attempt(best[0].profile, replace(best[1], parameter=0.5 * best[1].parameter), StudentLoss(), steps=STEPS // 2)
        best = min(found, key=lambda trial: trial[0].error)
    if full and d > 1:
        enter_stage(report, "tune a full metric")
        of_best = loss if best[0].loss != "student" else StudentLoss()
        attempt(best[0].profile, best[1], of_best, is_full=True, steps=FULL_STEPS)
        if found[-1][0].error < (1 - LEAST_GAIN) * best[0].error:
            best = found[-1]
    return MetricSearch(best[0].profile, best[1], tuple(trial for trial, _ in found))


def held_error(
    X: Array,
    targets: Array,
    weight: Array,
    profile: str,
    tuned: TunedMetric,
    loss: ErrorLoss | None,
    held: Array,
    n_jobs: int | None,
) -> float:
    """Return the mean squared error of left-out targets, or their mean loss if a loss is given."""
    points = tuned.points(X)
    indices, _ = neighbor_index(points, n_jobs=n_jobs).query(
        points[held], min(N_NEIGHBORS, len(X)), own=held, n_jobs=n_jobs
    )
    solution = solve_local(points, indices, points[held], profile, tuned.noise / weight, n_jobs=n_jobs)
    near = np.where(indices[..., None] >= 0, targets[np.maximum(indices, 0)], 0.0)
    errors = targets[held] - np.einsum("mk,mkt->mt", solution.weights, near)
    share = weight[held] / weight[held].sum()
    if loss is None:
        return float(share @ np.square(errors).sum(axis=1))
    return loss(held, targets[held], errors, solution.variance, share, tuned.parameter)[0]
