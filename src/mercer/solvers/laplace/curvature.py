"""Second derivatives of the losses of all rows at the mode, summed block by block, and their inverse roots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mercer.engines import Accumulator, Block, Workers
from mercer.errors import DataError
from mercer.io import storable
from mercer.linalg.cholesky import factorize
from mercer.solvers.laplace.evidence import INTERCEPT_DEVIATION, curvature_coupling, probabilities
from mercer.solvers.losses.losses import Problem
from mercer.statistics.moments import GramSum

__all__ = ["Curvatures", "HessianSum", "inverse_roots"]

Array = np.ndarray
# Each latent function has its own matrix if all matrices together have at most this many entries (512 MB).
MOST_ENTRIES = 2**26
# Sum of the curvatures of rows that are left out, relative to that of the prior density.
NEGLIGIBLE = 1e-3


@storable
@dataclass(frozen=True)
class Curvatures:
    """Second derivatives of the losses, summed over rows, one matrix per latent function, or one for all of them.

    Only the upper triangles are defined. The last row and column are those of the intercept.
    """

    loss: float  # sum of the losses
    grams: Array  # (k, D + 1, D + 1)

    def __add__(self, other: Curvatures) -> Curvatures:
        return Curvatures(self.loss + other.loss, self.grams + other.grams)


class HessianSum(Accumulator[Curvatures]):
    """Accumulator of the diagonal blocks of the Hessian of the losses, for features multiplied by an amplitude.

    Parameters
    ----------
    problem : Problem
        Features, loss, labels and weights of labels.
    coef : ndarray of shape (D + 1, columns)
        The mode, of features without amplitude; the last row is the intercept.
    variance : float
        Squared amplitude.
    fit_intercept : bool
        Whether there is an intercept.
    weight : float
        Total weight of the rows, for the bound on curvatures that are left out.
    """

    def __init__(self, problem: Problem, coef: Array, variance: float, fit_intercept: bool, weight: float) -> None:
        self._problem, self._coef = problem, coef
        self._variance, self._constant = variance, float(fit_intercept)
        self._weight = weight
        order, columns = coef.shape
        self._shared = columns * order**2 > MOST_ENTRIES
        self._sums = [GramSum(order) for _ in range(1 if self._shared else columns)]
        self._loss = 0.0

    def add(self, block: Block, workers: Workers) -> None:
        root, coef = np.sqrt(self._variance), self._coef
        coupling = curvature_coupling(len(self._problem.labels))
        for Z, codes, weight in self._problem.tiles(block):
            rows = np.column_stack([root * Z.astype(np.float64), np.full(len(Z), self._constant)])
            F = Z @ coef[:-1] + coef[-1]
            losses, _ = self._problem.loss.value_and_slopes(F, codes)
            self._loss += float(weight @ losses.sum(axis=1))
            P = probabilities(F)
            curvatures = coupling * weight[:, None] * P * (1 - P)
            if self._shared:
                curvatures = curvatures.mean(axis=1, keepdims=True)
            # The matrices of rows without curvature add up to at most NEGLIGIBLE times the identity.
            least = NEGLIGIBLE * weight / (self._weight * np.square(rows).sum(axis=1))
            for curvature, total in zip(curvatures.T, self._sums, strict=True):
                used = curvature > least
                total.add(rows[used] * np.sqrt(curvature[used, None]), workers)

    def result(self) -> Curvatures:
        return Curvatures(self._loss, np.stack([total.result() for total in self._sums]))

    def restore(self, state: Curvatures) -> None:
        self._loss = state.loss
        for total, gram in zip(self._sums, state.grams, strict=True):
            total.restore(gram)


def inverse_roots(curvatures: Curvatures) -> tuple[Array, float]:
    """Return R (k, D + 1, D + 1) with R R' = H^-1 for the Hessians with the prior density, and their log determinants.

    The sum of the log determinants is normalized so that it is zero without rows.
    """
    # In the layout that a stored model is read in: products with transposed matrices are rounded in another way.
    roots, total = np.empty(curvatures.grams.shape), 0.0
    for root, gram in zip(roots, curvatures.grams, strict=True):
        H = gram.copy()
        H[np.diag_indices_from(H)] += 1.0
        H[-1, -1] += INTERCEPT_DEVIATION**-2 - 1.0
        if not factorize(H):
            msg = "The Hessian of the losses is not finite, or rounding makes it indefinite. Scale the features down."
            raise DataError(msg)
        total += 2 * float(np.log(np.diagonal(H)).sum() + np.log(INTERCEPT_DEVIATION))
        lower = H.T  # of which only the lower triangle is read
        inverse, _ = scipy.linalg.lapack.dtrtri(lower, lower=1)
        root[...] = np.tril(inverse).T
    return roots, total
