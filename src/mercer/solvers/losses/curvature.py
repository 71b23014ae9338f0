"""Preconditioners for the minimization of losses: Cholesky factors of the Hessian, computed on a sample of the rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mercer.engines.base import workers
from mercer.errors import DataError
from mercer.linalg.cholesky import factorize
from mercer.solvers.losses.losses import Problem
from mercer.solvers.losses.sample import ROWS_PER_COEFFICIENT, Sample
from mercer.statistics import GramSum

__all__ = ["Factors", "SampleCurvature"]

Array = np.ndarray
# Number of rows whose weighted features are in memory at a time.
CHUNK_ROWS = 1024
# Each column has its own factor if all factors together have at most this many entries (512 MB).
MOST_ENTRIES = 2**26
# Rows that together contribute at most this fraction of the curvature are left out.
NEGLIGIBLE = 0.01


@dataclass(frozen=True)
class Factors:
    """Cholesky factors of an approximate Hessian: one factor per column of coefficients, or one for all columns."""

    lower: tuple[Array, ...]
    centered: bool  # whether the columns of a step add up to zero

    def __call__(self, gradient: Array) -> Array:
        """Return H^-1 @ gradient, for the approximate Hessian H."""
        if len(self.lower) == 1:
            steps = scipy.linalg.cho_solve((self.lower[0], True), gradient, check_finite=False)
        else:
            columns = zip(self.lower, gradient.T, strict=True)
            steps = np.column_stack([scipy.linalg.cho_solve((L, True), g, check_finite=False) for L, g in columns])
        return steps - steps.mean(axis=1, keepdims=True) if self.centered else steps


@dataclass(frozen=True)
class SampleCurvature:
    """Block-diagonal approximation of the Hessian of the penalized loss, computed on a sample of the rows.

    There is one diagonal block per column of coefficients. The off-diagonal blocks, which are nonzero only for the
    softmax, are replaced by zero. The softmax loss does not change if all decision values of a row change by the same
    amount. The approximation retains this property: the columns of a step are centered, so that they add up to zero.
    """

    first: Sample  # the rows for preconditioners that need not be accurate
    whole: Sample  # the rows for accurate ones
    C: float
    problem: Problem
    fit_intercept: bool
    exact: bool = False  # whether products are always those of float64; a preconditioner does not need it

    def __call__(self, W: Array, accurate: bool) -> Factors:
        """Return the Cholesky factors of the diagonal blocks at coefficients `W`, whose last row is the intercept.

        All rows of the whole sample are used if `accurate`. Otherwise rows with little curvature are left out, and at
        most `ROWS_PER_COEFFICIENT` rows are used per row of the Hessian.
        """
        sample = self.whole if accurate else self.first
        loss = self.problem.loss
        curvatures = loss.curvatures(sample.features @ W[:-1].astype(sample.features.dtype) + W[-1], sample.codes)
        weight = self.C * sample.weight * self.problem.label_weight[sample.codes]
        columns, order = W.shape[1], len(W)
        most = None if accurate else ROWS_PER_COEFFICIENT * order
        centered = columns > 1 and not loss.separable
        if (curvatures == curvatures[0]).all():  # for example where all rows have the same decision values
            gram = self._gram(sample, weight, most)
            shared = (curvatures[0] == curvatures[0, 0]).all()
            return Factors(tuple(self._factor(c * gram) for c in curvatures[0, : 1 if shared else None]), centered)
        if columns * order**2 > MOST_ENTRIES:
            curvatures = curvatures.mean(axis=1, keepdims=True)
        grams = (self._gram(sample, column * weight, most) for column in curvatures.T)
        return Factors(tuple(map(self._factor, grams)), centered)

    def _gram(self, sample: Sample, curvature: Array, most: int | None) -> Array:
        """Return the Hessian of the losses for given curvatures of the rows; only its upper triangle is defined."""
        D = sample.features.shape[1]
        rows = np.arange(len(curvature))
        if most is not None:
            rows, curvature = significant_rows(curvature, most)
        # Products in float32 take half the time, and suffice if their rounding error is small compared with the
        # penalty, which is one.
        trace = float((sample.squares[rows] + 1) @ curvature)
        single = not self.exact and trace * np.finfo(np.float32).eps < 1e-2
        dtype = np.dtype(np.float32 if single else np.float64)
        total = GramSum(D + 1)
        with workers(sample.n_jobs) as team:
            for start in range(0, len(rows), CHUNK_ROWS):
                chunk = slice(start, start + CHUNK_ROWS)
                root = np.sqrt(curvature[chunk])[:, None].astype(dtype)
                Z = total.buffer(len(root), dtype)
                Z[:, :D] = sample.features[rows[chunk]]
                Z[:, D] = 1.0 if self.fit_intercept else 0.0
                Z *= root
                total.add(Z, team)
        return total.result()

    def _factor(self, hessian: Array) -> Array:
        """Return the Cholesky factor of the Hessian of the losses plus that of the penalty. The input is overwritten.

        The penalty is one. The intercept gets it too, since possibly no row has a positive curvature.
        """
        hessian[np.diag_indices_from(hessian)] += 1.0
        if not factorize(hessian):
            msg = "The Hessian of the loss overflows, or rounding makes it indefinite. Scale the features down."
            raise DataError(msg)
        return hessian.T  # only its lower triangle is read


def significant_rows(curvature: Array, most: int) -> tuple[Array, Array]:
    """Return the indices of at most `most` rows that contribute nearly all of the curvature, and their curvatures.

    If more than `most` rows contribute, every k-th of these rows is returned, with its curvature multiplied by k.
    """
    ascending = np.argsort(curvature, kind="stable")
    total = np.cumsum(curvature[ascending])
    rows = np.sort(ascending[np.searchsorted(total, NEGLIGIBLE * total[-1], side="right") :])
    step = -(-len(rows) // most) if len(rows) else 1
    return rows[::step], curvature[rows[::step]] * step
