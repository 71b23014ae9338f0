"""Minimization of a penalized classification loss over all rows by preconditioned L-BFGS.

A sample of the rows gives the preconditioner, and the starting point: the loss is minimized first on a part of the
sample, then on the sample, and then on all rows. Each step on all rows is one pass, which sums values and gradients.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.engines import Engine, Report, enter_stage, report_step
from mercer.engines.base import workers
from mercer.engines.passes import Passes
from mercer.features import Features
from mercer.solvers.losses.curvature import SampleCurvature
from mercer.solvers.losses.losses import Problem
from mercer.solvers.losses.objective import Penalized
from mercer.solvers.losses.quasi_newton import Minimum, minimize
from mercer.solvers.losses.sample import Sample
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.label_counts import LabelCounts

__all__ = ["AsGiven", "minimize_on_rows", "sample_size"]

Array = np.ndarray
# Size of the sample that gives the starting point and the preconditioner: the number of rows per coefficient, the least
# number of rows, and the largest number of bytes of their features.
SAMPLE_ROWS_PER_COEFFICIENT, FEWEST_SAMPLE_ROWS, SAMPLE_BYTES = 32, 4096, 2**28
# Tolerance and largest number of steps of the minimizations on samples. They need not be accurate, because the minimum
# on a sample differs from the minimum on all rows by a sampling error.
SAMPLE_TOL, SAMPLE_STEPS = 3e-3, 50
# If the weight C of the losses, times the mean squared norm of the features, is above the first number, it is
# approached from smaller ones, each by the second factor.
LARGEST_FIRST_WEIGHT, WEIGHT_RATIO = 10.0, 10.0
# Below this tolerance, products of float32 features are computed in float64: their rounding errors would matter.
SMALLEST_SINGLE_TOL = 1e-9


def sample_size(n_components: int) -> int:
    """Return the number of rows of the sample, given the number of components of the map."""
    rows = max(FEWEST_SAMPLE_ROWS, SAMPLE_ROWS_PER_COEFFICIENT * (n_components + 1))
    return max(1, min(rows, SAMPLE_BYTES // (8 * n_components)))


@dataclass(frozen=True)
class AsGiven(Features):
    """The identity map: the features of a row are its entries."""

    n_components: int

    def astype(self, dtype: Any) -> Self:  # noqa: ARG002 - the signature of the contract
        return self

    def __call__(self, X: Array, out: Array) -> None:
        out[...] = X


def minimize_on_rows(
    engine: Engine,
    problem: Problem,
    counts: LabelCounts,
    *,
    C: float,
    fit_intercept: bool,
    start: Array | None,
    passes: Passes,
    report: Report | None = None,
    n_jobs: int | None,
    tol: float,
    max_iter: int,
) -> Minimum:
    """Minimize C sum_i w_i loss_i + |W|^2 / 2 over the coefficients W and an intercept, which is not penalized.

    Parameters
    ----------
    engine : Engine
        Rows with labels.
    problem : Problem
        Features, loss, labels and weights of labels.
    counts : LabelCounts
        The total weight of the rows of each label, and a sample of the rows.
    C : float
        Weight of the losses.
    fit_intercept : bool
        Whether there is an intercept.
    start : ndarray of shape (D + 1, K) or None
        Starting point, whose last row is the intercept. None means the minimizer of the loss on the sample.
    passes : Passes
        Counts and reports the passes over the rows.
    report : callable or None, default=None
        Receives the stages of the minimization.
    n_jobs : int or None
        Number of threads for the sample.
    tol, max_iter
        As in `mercer.solvers.losses.quasi_newton.minimize`.
    """
    with workers(1):  # triangular solves with few right-hand sides are faster on one thread
        sample = Sample.of(counts, problem.features, n_jobs)
        total = float(problem.label_weight @ counts.weight)
        problem = replace(problem, in_double=tol < SMALLEST_SINGLE_TOL)
        objective = Penalized(engine, problem, C, fit_intercept, passes, counts.sample.seen, total)
        # The features of the larger sample are computed only if the loss is minimized on it, or if steps are slow.
        first = sample if sample.is_intermediate else sample.small
        curvature = SampleCurvature(first, sample, C, problem, fit_intercept)
        # The blocks of the Hessian that couple the columns of a softmax are missing from its approximation.
        exact = counts.sample.is_complete and (problem.loss.separable or problem.columns == 1)
        constant = np.zeros((problem.features.n_components + 1, problem.columns))
        if fit_intercept:
            constant[-1] = problem.loss.best_constant(problem.label_weight * counts.weight / total)
        labels = np.arange(len(counts.labels))
        losses, _ = problem.loss.value_and_slopes(np.tile(constant[-1], (len(labels), 1)), labels)
        reference = C * (problem.label_weight * counts.weight) @ losses
        if start is None:
            start = constant
            enter_stage(report, "minimize on a sample")
            for number, (part, weaker) in enumerate(stages(sample, C)):
                report_step(report, number, None, f"{len(part.y)} rows", "minimizations")
                on_part = replace(
                    objective,
                    engine=part.engine(),
                    problem=replace(problem, features=RowFeatures(AsGiven(len(start) - 1))),
                    C=weaker,
                    passes=Passes(None),
                )
                curved = replace(curvature, C=weaker)
                newton = exact and part is sample
                start = minimize(on_part, start, curved, tol=SAMPLE_TOL, max_iter=SAMPLE_STEPS, exact=newton).coef
        enter_stage(report, "minimize")
        if problem.features.is_slow(sample.X):
            objective = replace(objective, problem=replace(problem, features=problem.features.cached(engine, n_jobs)))
        return minimize(objective, start, curvature, tol=tol, max_iter=max_iter, exact=exact, reference=reference)


def stages(sample: Sample, C: float) -> Iterator[tuple[Sample, float]]:
    """Yield the samples and the weights of the losses for the minimizations that lead to a starting point.

    A large weight of the losses is approached from smaller ones, on the smallest of the samples. Steps towards a
    minimum with a large weight are slow from far away, because few rows determine it, and others at the start. Weights
    are large compared with the mean squared norm of the features: both have the same effect.
    """
    parts = list(sample.parts())
    first = (parts or [sample])[0]
    weights, square = [C], float(first.squares.mean())
    while LARGEST_FIRST_WEIGHT < weights[0] * square < np.inf:
        weights.insert(0, weights[0] / WEIGHT_RATIO)
    for weaker in weights[:-1]:
        yield first, weaker
    for part in parts:
        yield part, C
