"""Preconditioners for losses on features: the curvature of a sample of the rows, factorized."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mercer.engines.base import workers
from mercer.errors import DataError
from mercer.linalg.cholesky import factorize
from mercer.solvers.losses.losses import Loss
from mercer.statistics import GramSum

__all__ = ["Factors", "SampleCurvature"]

Array = np.ndarray
# Rows whose weighted features are in memory at a time.
CHUNK_ROWS = 1024
# Each column has a factor of its own as long as all together have no more entries than this: 512 MB.
MOST_ENTRIES = 2**26
# Rows that have together no more than this share of the curvature are left out, and more rows a column are too many.
NEGLIGIBLE, MOST_ROWS_A_COLUMN = 0.01, 8


@dataclass(frozen=True)
class Factors:
    """Cholesky factors of about the second derivative, one for each column of coefficients or one for all."""

    lower: tuple[Array, ...]
    centered: bool  # whether columns add up to zero

    def __call__(self, gradient: Array) -> Array:
        """Return about the step that would remove the gradient."""
        if len(self.lower) == 1:
            steps = scipy.linalg.cho_solve((self.lower[0], True), gradient, check_finite=False)
        else:
            columns = zip(self.lower, gradient.T, strict=True)
            steps = np.column_stack([scipy.linalg.cho_solve((L, True), g, check_finite=False) for L, g in columns])
        return steps - steps.mean(axis=1, keepdims=True) if self.centered else steps


@dataclass(frozen=True)
class SampleCurvature:
    """The second derivative of the penalized loss on a sample, column by column, at any coefficients.

    What ties the columns of a softmax together is left out, but for this: a step that changes all decision values of a
    row alike changes no loss, so steps of all columns add up to zero.
    """

    features: Array  # (m, D)
    codes: Array  # (m,)
    weight: Array  # (m,), such that the sample stands for all rows
    loss: Loss
    fit_intercept: bool
    n_jobs: int | None

    def __call__(self, W: Array) -> Factors:
        """Return the factors at some coefficients, whose last row is the intercept."""
        curvatures = self.loss.curvatures(self.features @ W[:-1] + W[-1], self.codes) * self.weight[:, None]
        order, columns = W.shape
        if columns * order**2 > MOST_ENTRIES:
            curvatures = curvatures.mean(axis=1, keepdims=True)
        elif np.allclose(curvatures, curvatures[:, :1]):  # as at the origin
            curvatures = curvatures[:, :1]
        factors = tuple(self._factor(column) for column in curvatures.T)
        return Factors(factors, centered=columns > 1 and not self.loss.separable)

    def _factor(self, curvature: Array) -> Array:
        order = self.features.shape[1] + 1
        rows, curvature = those_that_count(curvature, MOST_ROWS_A_COLUMN * order)
        # Half the digits are half the work, and enough as long as their rounding is small beside the penalty of one.
        bound = float(np.square(self.features[rows]).sum(axis=1) @ curvature + curvature.sum())
        digits = np.float32 if bound * np.finfo(np.float32).eps < 1e-2 else np.float64
        total = GramSum(order)
        with workers(self.n_jobs) as team:
            for start in range(0, len(rows), CHUNK_ROWS):
                chunk = slice(start, start + CHUNK_ROWS)
                root = np.sqrt(curvature[chunk])[:, None]
                Z = self.features[rows[chunk]] * root
                total.add(np.hstack([Z, root if self.fit_intercept else 0 * root]).astype(digits), team)
            A = total.result()
            # The penalty is one; also for the intercept, where no row may be left that is curved.
            A[np.diag_indices_from(A)] += 1.0
            if not factorize(A):
                msg = "The curvature of the loss overflows or is lost in rounding: scale the features down."
                raise DataError(msg)
            return A.T  # of which only the lower triangle is read


def those_that_count(curvature: Array, most: int) -> tuple[Array, Array]:
    """Return rows that have nearly all of the curvature, at most so many, and their share of it."""
    ascending = np.argsort(curvature, kind="stable")
    total = np.cumsum(curvature[ascending])
    rows = np.sort(ascending[np.searchsorted(total, NEGLIGIBLE * total[-1], side="right") :])
    step = -(-len(rows) // most) if len(rows) else 1
    return rows[::step], curvature[rows[::step]] * step
