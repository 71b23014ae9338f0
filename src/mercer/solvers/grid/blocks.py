"""Evidence of blocks of near rows by their kernel matrices, where a grid would be too large.

The sum of the evidence of blocks is that of a process whose blocks are independent. Each block has the exact evidence
of its rows, so that its expected derivative is zero at the hyperparameters that the rows come from (Varin, Reid, Firth
2011, An overview of composite likelihood methods, Statistica Sinica 21).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mercer.maps.fourier.frequency_grids import Summand
from mercer.solvers.processes.gram_evidence import distances

__all__ = ["BlockEvidence", "blocks_of"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class BlockEvidence:
    """Evidence of blocks, summed over blocks and targets, and its derivatives with respect to logarithms."""

    value: float
    by_lengthscale: Array  # one for each coordinate of each summand
    by_mass: Array  # with respect to the root of the mass of each summand
    by_noise: float

    @classmethod
    def of(
        cls, summands: Sequence[Summand], rows: Sequence[Array], y: Array, weight: Array | None, noise: float
    ) -> BlockEvidence | None:
        """Return the evidence of one block; None if its matrix is not positive definite.

        Parameters
        ----------
        summands : sequence of Summand
            The kernel of the process. Rows of weight w have the noise variance s^2 / w.
        rows : sequence of ndarrays of shape (n, d)
            Coordinates of the rows, one per summand, in lengthscales.
        y, weight
            Targets (n, t) and weights (n,).
        noise : float
            Standard deviation s of the noise.
        """
        n, t = y.shape
        w = np.ones(n) if weight is None else weight
        apart = [distances(u) for u in rows]
        matrices = [
            summand.mass * summand.kernel.with_params(lengthscale=1.0).profile(r)
            for summand, r in zip(summands, apart, strict=True)
        ]
        K = np.sum(matrices, axis=0)
        K[np.diag_indices(n)] += noise**2 / w
        try:
            factor = scipy.linalg.cholesky(K, lower=True, overwrite_a=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            return None
        solved = scipy.linalg.cho_solve((factor, True), y, check_finite=False)
        # A row of weight w counts as w rows, whose differences are zero.
        more = float((w - 1).sum())
        value = -0.5 * float((y * solved).sum()) - t * float(np.log(np.diagonal(factor)).sum())
        value -= 0.5 * t * (n * np.log(2 * np.pi) + float(np.log(w).sum()) + more * np.log(2 * np.pi * noise**2))
        inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1)
        M = solved @ solved.T - t * (np.tril(inverse) + np.tril(inverse, -1).T)
        slopes, masses = [], []
        for summand, u, r, matrix in zip(summands, rows, apart, matrices, strict=True):
            masses.append(float(np.vdot(M, matrix)))
            slope = summand.kernel.with_params(lengthscale=1.0).slope(r)
            H = summand.mass * np.where(r > 0, M * slope, 0.0)
            slopes.append(H.sum(axis=1) @ np.square(u) - np.einsum("ik,ik->k", u, H @ u))
        by_noise = noise**2 * float((np.diagonal(M) / w).sum()) - t * more
        return cls(value, np.concatenate(slopes), np.array(masses), by_noise)

    def __add__(self, other: BlockEvidence) -> BlockEvidence:
        return BlockEvidence(
            self.value + other.value,
            self.by_lengthscale + other.by_lengthscale,
            self.by_mass + other.by_mass,
            self.by_noise + other.by_noise,
        )


def blocks_of(u: Array, size: int) -> list[Array]:
    """Return a partition of rows into blocks of near rows, at most `size` each: halves along the widest coordinate."""
    done, left = [], [np.arange(len(u))]
    while left:
        index = left.pop()
        if len(index) <= size:
            done.append(index)
            continue
        axis = int(np.argmax(np.subtract(*np.quantile(u[index], (0.9, 0.1), axis=0))))
        order = index[np.argsort(u[index, axis], kind="stable")]
        left += [np.sort(order[len(order) // 2 :]), np.sort(order[: len(order) // 2])]
    return done
