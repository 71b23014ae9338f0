"""Minimization of a penalized classification loss over all rows by Newton-CG.

A sample of the rows gives the starting point and the preconditioner. Each gradient and each Hessian product is then a
sum over all rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from mercer.data.targets import label_codes
from mercer.engines import Engine, MemoryEngine, block_rows_for
from mercer.engines.passes import Passes
from mercer.features import Features, features_of
from mercer.solvers.losses.curvature import SampleCurvature
from mercer.solvers.losses.losses import Problem
from mercer.solvers.losses.newton import Minimum, minimize
from mercer.solvers.losses.objective import Penalized
from mercer.statistics.label_counts import LabelCounts

__all__ = ["AsGiven", "minimize_on_rows", "sample_size"]

Array = np.ndarray
# Size of the sample that gives the starting point and the preconditioner: the number of rows per coefficient, the least
# number of rows, and the largest number of bytes of their features.
SAMPLE_ROWS_PER_COEFFICIENT, FEWEST_SAMPLE_ROWS, SAMPLE_BYTES = 32, 4096, 2**28
# Tolerance and limits of the minimization on the sample. It need not be accurate, because the minimum on the sample
# differs from the minimum on all rows by a sampling error.
SAMPLE_TOL, SAMPLE_STEPS, SAMPLE_PRODUCTS = 1e-2, 50, 20


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
    n_jobs : int or None
        Number of threads for the sample.
    tol, max_iter
        As in `mercer.solvers.losses.newton.minimize`.
    """
    sample, weight, features = counts.sample, counts.sample_weight(), problem.features
    D = features.n_components
    Z = features_of(features.astype(sample.X.dtype), sample.X).astype(np.float64, copy=False)
    codes = label_codes(np.asarray(sample.y), counts.labels)
    curvature = SampleCurvature(
        Z,
        codes,
        C * weight * problem.label_weight[codes],
        problem.loss,
        fit_intercept=fit_intercept,
        n_jobs=n_jobs,
    )
    total = float(problem.label_weight @ counts.weight)
    objective = Penalized(engine, problem, C, fit_intercept, passes, sample.seen, total)
    if start is None:
        rows = MemoryEngine(Z, sample.y, weight, block_rows=block_rows_for(D), n_jobs=n_jobs)
        on_sample = replace(objective, engine=rows, problem=replace(problem, features=AsGiven(D)), passes=Passes(None))
        start = minimize(
            on_sample,
            np.zeros((D + 1, problem.columns)),
            curvature,
            tol=SAMPLE_TOL,
            max_iter=SAMPLE_STEPS,
            many_products=SAMPLE_PRODUCTS,
        ).coef
    return minimize(objective, start, curvature, tol=tol, max_iter=max_iter)
