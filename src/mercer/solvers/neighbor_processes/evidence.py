r"""Log marginal likelihood of a local model, as a sum of the log densities of rows given their near predecessors.

The rows are in random order, and each is conditioned on its nearest predecessors (Vecchia's approximation [1]_). With
features z, coefficients :math:`w \sim N(0, I)`, conditional variances :math:`v_i` and innovations, which are targets
:math:`e_i` and features :math:`u_i` minus their predictions from the predecessors, the coefficients are integrated out
by the matrix :math:`M = I + \sum_i u_i u_i' / v_i` and the vector :math:`c = \sum_i u_i e_i / v_i`:

.. math:: \log p(y) = -\tfrac12 \Bigl(n \log 2 \pi s + \sum_i \log v_i + \log |M|
    + \frac{1}{s} \bigl(\sum_i e_i^2 / v_i - c' M^{-1} c\bigr)\Bigr)

for the scale s. If each row is conditioned on all predecessors, this is the log marginal likelihood of the exact
process.

References
----------
.. [1] Vecchia (1988), Estimation and model identification for continuous spatial processes, JRSS B 50, 297-312.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg

from mercer.engines import Report, report_step
from mercer.solvers.local.near_model import LEAST_VARIANCE, STEP, NearProblem, near_sums

__all__ = ["log_evidence"]

Array = np.ndarray


def log_evidence(problem: NearProblem, alpha: Array, scale: Array, *, report: Report | None = None) -> Array:
    """Return the log marginal likelihood (t,) of the targets of the rows of a problem.

    Parameters
    ----------
    problem : NearProblem
        Rows, kernel and features. Without features, the targets have mean zero.
    alpha : ndarray of shape (t,)
        Variance of the noise of a row of weight one, in units of the scale.
    scale : ndarray of shape (t,)
        The scale, by which variances of the kernel and of the noise are multiplied.
    report : callable or None, default=None
        Receives the progress.

    Returns
    -------
    ndarray of shape (t,)
        The density is that of the targets as `problem.rows` has them: in its unit, minus its offset.
    """
    values = np.empty(len(scale))
    for noise in np.unique(alpha):
        same = alpha == noise
        values[same] = _of_one_noise(problem, float(noise), scale[same], np.flatnonzero(same), report)
    return values


def _of_one_noise(problem: NearProblem, alpha: float, scale: Array, which: Array, report: Report | None) -> Array:
    """Return the log marginal likelihood of the targets with indices `which`, which have the same noise."""
    rows, n = problem.rows, len(problem.rows)
    D = 0 if problem.row_features is None else problem.row_features.shape[1]
    targets = rows.targets[:, which]
    noise = alpha / rows.weight
    moments, cross = np.eye(D), np.zeros((D, len(which)))
    log_det, squares = 0.0, np.zeros(len(which))
    for start in range(0, n, STEP):
        some = np.arange(start, min(start + STEP, n))
        indices = problem.near(problem.points[some], before=some)
        Z = None if problem.row_features is None else problem.row_features[some]
        solution = problem.solve(indices, problem.points[some], Z, noise)
        least = np.maximum(LEAST_VARIANCE * problem.kernel.diag(rows.X[some]), np.finfo(float).tiny)
        variance = np.maximum(solution.variance + noise[some], least)
        root = 1 / np.sqrt(variance)
        errors = (targets[some] - near_sums(solution.weights, indices, targets)) * root[:, None]
        log_det += float(np.log(variance).sum())
        squares += np.square(errors).sum(axis=0)
        if Z is not None and problem.row_features is not None:
            innovations = (Z - near_sums(solution.weights, indices, problem.row_features)) * root[:, None]
            moments += innovations.T @ innovations
            cross += innovations.T @ errors
        report_step(report, int(some[-1]) + 1, n, unit="rows")
    if D:
        factor = scipy.linalg.cholesky(moments, lower=True, check_finite=False)
        log_det += 2 * float(np.log(np.diagonal(factor)).sum())
        half = scipy.linalg.solve_triangular(factor, cross, lower=True, check_finite=False)
        squares -= np.square(half).sum(axis=0)
    value = -0.5 * (n * np.log(2 * np.pi * scale) + log_det + squares / scale)
    # Copies of a row are one row with a smaller noise, times the density of the differences of their targets.
    repetitions = float((rows.weight - 1).sum())
    value -= 0.5 * (repetitions * np.log(2 * np.pi * scale * alpha) + np.log(rows.weight).sum())
    return np.asarray(value - 0.5 * rows.scatter[:, which].sum(axis=0) / (scale * alpha))
