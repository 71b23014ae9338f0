r"""Lengthscales, one per feature, that minimize leave-one-out losses of predictions from near rows.

For a row with target y, near rows with kernel matrix K and noise :math:`\lambda`, and kernel values k, the leave-one-out
error is :math:`e = y - k'K^{-1}y_N` and its variance is :math:`s v` with :math:`v = 1 + \lambda - k'K^{-1}k` and a scale
s. The loss is minus the log density of the targets at the best scale. With :math:`a = K^{-1} y_N` and
:math:`b = K^{-1} k`, the derivatives are :math:`\partial e / \partial K = b a'`, :math:`\partial e / \partial k = -a`,
:math:`\partial v / \partial K = b b'` and :math:`\partial v / \partial k = -2 b`. So the derivative of the loss with
respect to K has rank two, and that with respect to all lengthscales costs as much as the kernel matrix itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.engines import Report, report_step
from mercer.linalg.local_systems import metric_gradient, solve_local
from mercer.neighbors import neighbor_index
from mercer.solvers.local.near_rows import NearRows

__all__ = ["LeftOutLoss", "TunedLengthscales", "left_out_loss", "tune_lengthscales"]

Array = np.ndarray


@dataclass(frozen=True)
class LeftOutLoss:
    """A leave-one-out loss and its derivatives with respect to the logarithms of lengthscales and noise."""

    value: float
    lengthscales: Array  # (d,)
    noise: float


def left_out_loss(
    rows: NearRows,
    points: Array,
    sample: Array,
    indices: Array,
    profile: str,
    noise: float,
    targets: Array,
    *,
    n_jobs: int | None = None,
) -> LeftOutLoss:
    """Return minus the mean log density of left-out targets at the best scale, and its derivatives.

    Parameters
    ----------
    rows : NearRows
        The rows, of which the weights are used.
    points : ndarray of shape (n, d)
        The rows divided by the lengthscales.
    sample : ndarray of shape (m,)
        Indices of the rows that are left out.
    indices : ndarray of shape (m, k)
        Indices of their near rows.
    profile : str
        Name of the profile of the kernel; see `mercer.linalg.local_systems`.
    noise : float
        Variance of the noise, in units of the variance of the process.
    targets : ndarray of shape (n, t)
        Targets minus their mean.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    """
    scaled_noise = noise / rows.weight
    solution = solve_local(points, indices, points[sample], profile, scaled_noise, targets=targets, n_jobs=n_jobs)
    assert solution.targets is not None
    near = np.where(indices[..., None] >= 0, targets[np.maximum(indices, 0)], 0.0)
    error = targets[sample] - np.einsum("mk,mkt->mt", solution.weights, near)
    variance = solution.variance + scaled_noise[sample]
    share = rows.weight[sample] / rows.weight[sample].sum()
    ratio = np.square(error) / variance[:, None]
    scale = np.maximum(share @ ratio, np.finfo(float).tiny)  # (t,)
    t = len(scale)
    value = 0.5 * (np.log(scale).sum() + t * (share @ np.log(variance)))
    by_error = share[:, None] * error / (variance[:, None] * scale)  # (m, t)
    by_variance = 0.5 * share / variance * (t - (ratio / scale).sum(axis=1))  # (m,)
    b = solution.weights.astype(np.float64, copy=False)
    by_error_a = np.einsum("mkt,mt->mk", solution.targets, by_error)
    right = by_error_a + by_variance[:, None] * b
    cross = -by_error_a - 2 * by_variance[:, None] * b
    gradient = metric_gradient(points, indices, points[sample], profile, b, right, cross, n_jobs=n_jobs)
    own = np.where(indices >= 0, scaled_noise[np.maximum(indices, 0)], 0.0)
    by_noise = float(np.sum(b * right * own) + by_variance @ scaled_noise[sample])
    return LeftOutLoss(float(value), gradient, by_noise)


@dataclass(frozen=True, eq=False)
class TunedLengthscales:
    """The result of a search for lengthscales."""

    lengthscales: Array  # (d,)
    noise: float
    losses: Array  # (steps,), loss of each mini-batch


def tune_lengthscales(
    rows: NearRows,
    X: Array,
    profile: str,
    start: Array,
    *,
    noise: float = 0.1,
    n_neighbors: int = 32,
    batch: int = 512,
    steps: int = 100,
    rate: float = 0.1,
    seed: int = 0,
    n_jobs: int | None = None,
    report: Report | None = None,
) -> TunedLengthscales:
    """Minimize the leave-one-out loss over lengthscales and noise, by steps on mini-batches of rows (Adam).

    Parameters
    ----------
    rows : NearRows
        Targets and weights of the rows.
    X : ndarray of shape (n, d)
        The rows.
    profile : str
        Name of the profile of the kernel.
    start : ndarray of shape (d,)
        Lengthscales to start from.
    noise : float, default=0.1
        Variance of the noise to start from.
    n_neighbors : int, default=32
        Number of near rows.
    batch : int, default=512
        Number of rows of a mini-batch.
    steps : int, default=100
        Number of steps.
    rate : float, default=0.1
        Size of the first steps, in logarithms of lengthscales.
    seed : int, default=0
        Seed of the mini-batches.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    report : callable or None, default=None
        Receives the progress.
    """
    n, d = X.shape
    rng = np.random.default_rng(seed)
    targets = rows.targets - rows.weight @ rows.targets / rows.weight.sum()
    theta = np.append(np.log(start), np.log(noise))
    first, second = np.zeros(d + 1), np.zeros(d + 1)
    losses = np.empty(steps)
    mean = np.zeros(d + 1)
    tail = 0
    for step in range(steps):
        points = np.ascontiguousarray(X * np.exp(-theta[:-1]))
        sample = rng.choice(n, min(batch, n), replace=False)
        indices, _ = neighbor_index(points, n_jobs=n_jobs).query(
            points[sample], min(n_neighbors, n - 1), own=sample, n_jobs=n_jobs
        )
        noise = float(np.exp(theta[-1]))
        loss = left_out_loss(rows, points, sample, indices, profile, noise, targets, n_jobs=n_jobs)
        losses[step] = loss.value
        gradient = np.append(loss.lengthscales, loss.noise)
        first = 0.9 * first + 0.1 * gradient
        second = 0.99 * second + 0.01 * np.square(gradient)
        unit = np.sqrt(second / (1 - 0.99 ** (step + 1))) + 1e-12
        decay = 0.5 * (1 + np.cos(np.pi * step / steps))
        theta -= rate * decay * first / (1 - 0.9 ** (step + 1)) / unit
        theta[-1] = np.clip(theta[-1], np.log(1e-6), np.log(1e3))
        if step >= 0.8 * steps:
            mean, tail = mean + theta, tail + 1
        report_step(report, step + 1, steps)
    theta = mean / max(tail, 1)
    return TunedLengthscales(np.exp(theta[:-1]), float(np.exp(theta[-1])), losses)
