"""A kernel and a metric by the left-out errors of predictions from near rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.data.targets import label_codes
from mercer.engines import Report
from mercer.errors import ParameterError
from mercer.kernels import Gaussian, Kernel, Matern
from mercer.kernels.base import dense64
from mercer.linalg.numpy_kernels import ProfileName
from mercer.metric.inputs import MetricInputs
from mercer.metric.rounds import MetricRound, MetricRounds
from mercer.solvers.local.metric_search import MetricTrial, search_metric
from mercer.solvers.local.near_rows import NearRows
from mercer.statistics import RowSample

__all__ = ["NearMetric", "learn_from_near_rows", "profiles_of"]

Array = np.ndarray
# Smoothness of the Matern kernels that are compared by default, and of those whose systems are compiled.
SMOOTHNESS: dict[ProfileName, float] = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
# Widest rows for which a full metric is tried unless it is requested.
FULL_UP_TO = 128


@dataclass(frozen=True, eq=False)
class NearMetric:
    """The result: scaled columns in the metric, and the kernel of these with its lengthscale."""

    inputs: MetricInputs
    kernel: Kernel
    rounds: MetricRounds


def profiles_of(kernel: Kernel | None) -> tuple[ProfileName, ...]:
    """Return the names of the kernels that are compared: three Matern kernels, or the given one."""
    if kernel is None:
        return tuple(SMOOTHNESS)
    if isinstance(kernel, Gaussian):
        return ("gaussian",)
    if isinstance(kernel, Matern):
        names = [name for name, nu in SMOOTHNESS.items() if nu == kernel.nu]
        if names:
            return tuple(names)
    msg = (
        "LearnedMetric: method='neighbors' needs a Gaussian kernel or a Matern kernel with nu 0.5, 1.5 or 2.5, got "
        f"{kernel!r}. Use one of these, feature_map=None, or method='gradients'."
    )
    raise ParameterError(msg)


def learn_from_near_rows(
    sample: RowSample,
    inputs: MetricInputs,
    target_scale: Array | None,
    kernel: Kernel | None,
    *,
    full: bool,
    seed: int,
    n_jobs: int | None,
    report: Report | None,
) -> NearMetric:
    """Return the metric in which near rows predict left-out targets best.

    Parameters
    ----------
    sample : RowSample
        Rows with targets.
    inputs : MetricInputs
        The scaling of columns.
    target_scale : ndarray of shape (t,) or None
        Standard deviations of numeric targets; None if targets are labels.
    kernel : Kernel or None
        The kernel, of which the lengthscale is ignored; None compares several kernels.
    full : bool
        Whether a full metric is tried after the diagonal one.
    seed : int
        Seed of the mini-batches.
    n_jobs : int or None
        Number of threads; None means all cores.
    report : callable or None
        Receives the progress.
    """
    weight = sample.weight if sample.is_complete else None
    targets = numeric(sample.y, target_scale)
    rows = NearRows.of(sample.X, targets, weight, sample.seen, is_complete=sample.is_complete)
    X = np.ascontiguousarray(dense64(inputs(rows.X)))
    found = search_metric(
        X,
        rows.targets,
        rows.weight,
        profiles_of(kernel),
        labels=target_scale is None,
        full=full,
        seed=seed,
        n_jobs=n_jobs,
        report=report,
    )
    matrix = found.tuned.matrix
    metric = np.square(matrix) if matrix.ndim == 1 else matrix @ matrix.T
    total = float(metric.sum() if metric.ndim == 1 else np.trace(metric))
    # The metric has a trace of its number of columns, as that of gradients has, and the kernel the lengthscale.
    factor = inputs.width / total
    kept = found.trials[found.chosen]
    rounds = tuple(
        MetricRound(i, shown_error(trial, target_scale), np.nan, trial.noise, trial is kept, name_of(trial))
        for i, trial in enumerate(found.trials)
    )
    return NearMetric(
        inputs.with_metric(metric * factor), kernel_of(found.profile, float(np.sqrt(factor))), MetricRounds(rounds)
    )


def numeric(y: Any, target_scale: Array | None) -> Array:
    """Return targets divided by their scale, or indicators of labels with one column per label."""
    if target_scale is not None:
        return y / target_scale
    labels = np.unique(y)
    return (label_codes(y, labels)[:, None] == np.arange(len(labels))).astype(np.float64)


def kernel_of(profile: ProfileName, lengthscale: float) -> Kernel:
    """Return the kernel with the name of a compiled profile."""
    return Gaussian(lengthscale) if profile == "gaussian" else Matern(SMOOTHNESS[profile], lengthscale)


def shown_error(trial: MetricTrial, target_scale: Array | None) -> float:
    """Return the error of a trial for the table: relative root mean square, or logarithmic loss of labels."""
    return trial.error if target_scale is None else float(np.sqrt(trial.error / len(target_scale)))


def name_of(trial: MetricTrial) -> str:
    """Return the kernel and the kind of metric of a trial, for the table."""
    nu: dict[str, str] = {name: f"Matern {value:g}" for name, value in SMOOTHNESS.items()}
    return f"{nu.get(trial.profile, 'Gaussian')}, {trial.metric}"
