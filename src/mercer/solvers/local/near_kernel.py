"""Kernels in the form in which the systems of near rows use them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer.kernels import Kernel
from mercer.kernels.base import dense64
from mercer.kernels.isotropic import Gaussian, IsotropicKernel, Matern
from mercer.linalg.local_systems import LocalSolution, solve_given, solve_local
from mercer.linalg.numpy_kernels import ProfileName

__all__ = ["NearKernel"]

Array = np.ndarray
# Number of entries of kernel matrices that are in memory at a time, where they are not computed in compiled code.
ENTRIES = 2**21
# Sparse rows with more features than this stay sparse, and their systems are not computed in compiled code.
MOST_DENSE = 2048
# Profiles of compiled systems by the smoothness of Matern kernels.
MATERN: dict[float, ProfileName] = {0.5: "matern12", 1.5: "matern32", 2.5: "matern52"}


@dataclass(frozen=True, eq=False)
class NearKernel:
    """A kernel, and the points whose distances determine which rows are near.

    If the kernel is ``amplitude * profile(|p - q|)`` for points p and q that are affine functions of the rows, the
    systems are computed from the points. Otherwise they are computed from values of the kernel, and the points are the
    rows themselves, so that rows are near by their Euclidean distance.
    """

    kernel: Kernel
    amplitude: float = 1.0
    isotropic: IsotropicKernel | None = None  # the profile; None if the kernel is known by its values only
    inputs: tuple[Any, ...] = ()  # affine functions of rows that are applied one after another

    @classmethod
    def of(cls, kernel: Kernel) -> Self:
        """Return the form of a kernel whose parameters are numbers."""
        parts = kernel.spectral_parts()
        if parts is None or len(parts) != 1 or len(parts[0].factors) != 1:
            return cls(kernel)
        (factor,) = parts[0].factors
        if not isinstance(factor.kernel, IsotropicKernel) or parts[0].mass <= 0:
            return cls(kernel)
        return cls(kernel, parts[0].mass, factor.kernel, factor.inputs)

    def for_rows(self, X: Any) -> NearKernel:
        """Return the form for rows such as `X`: wide sparse rows are used by values of the kernel only."""
        wide = sp.issparse(X) and X.shape[1] > MOST_DENSE
        return replace(self, isotropic=None, inputs=(), amplitude=1.0) if wide else self

    @property
    def profile(self) -> ProfileName | None:
        """Name of the profile in compiled systems, or None if it has none."""
        if isinstance(self.isotropic, Gaussian):
            return "gaussian"
        return MATERN.get(float(self.isotropic.nu)) if isinstance(self.isotropic, Matern) else None

    def points(self, X: Any) -> Any:
        """Return the points of rows: a float64 array, or the rows themselves if they are wide and sparse."""
        if self.isotropic is None:
            return X.astype(np.float64) if sp.issparse(X) and X.shape[1] > MOST_DENSE else dense64(X)
        out = dense64(X)
        for affine in self.inputs:
            out = affine(out)
        return out / float(self.isotropic.lengthscale)

    def reduced(self, Z: Array | None) -> Array | None:
        """Return features divided by the root of the amplitude, where the systems are computed in its units."""
        return Z if Z is None or self.profile is None or self.amplitude == 1 else Z / math.sqrt(self.amplitude)

    def diag(self, X: Any) -> Array:
        """Return k(x, x) for rows."""
        if self.isotropic is not None:
            return np.full(X.shape[0], self.amplitude)
        return np.asarray(self.kernel.diag(X), dtype=np.float64)

    def solve(
        self,
        rows: Any,
        indices: Array,
        queries: Any,
        noise: Array,
        *,
        targets: Array | None = None,
        features: Array | None = None,
        query_features: Array | None = None,
        n_jobs: int | None = None,
    ) -> LocalSolution:
        """Solve the system of the near rows of each query.

        Parameters
        ----------
        rows : ndarray of shape (n, p) or CSR
            Points of the rows.
        indices : ndarray of shape (m, k)
            Indices of the near rows of each query; -1 means that there is none.
        queries : ndarray of shape (m, p) or CSR
            Points of the queries.
        noise : ndarray of shape (n,)
            Variance of the noise of each row.
        targets : ndarray of shape (n, t), default=None
            Right-hand sides.
        features, query_features : ndarray of shape (n, D) and (m, D), default=None
            Features z as returned by `reduced`, in float32 or float64. If they are given, the kernel is the residual
            k(x, y) - z(x)'z(y).
        n_jobs : int or None, default=None
            Number of threads; None means all cores.

        Returns
        -------
        LocalSolution
        """
        if self.profile is not None:
            solution = solve_local(
                rows,
                indices,
                queries,
                self.profile,
                noise / self.amplitude,
                targets=targets,
                features=features,
                query_features=query_features,
                n_jobs=n_jobs,
            )
            return LocalSolution(
                weights=solution.weights,
                variance=self.amplitude * solution.variance,
                targets=None if solution.targets is None else solution.targets / self.amplitude,
                jitter=self.amplitude * solution.jitter,
            )
        step = max(1, ENTRIES // max(1, indices.shape[1]) ** 2)
        parts = []
        for start in range(0, len(indices), step):
            some = slice(start, start + step)
            near, missing = np.maximum(indices[some], 0), indices[some] < 0
            K, cross, prior = self._values(rows, near, queries[some])
            if features is not None and query_features is not None:
                Z, z = (values.astype(np.float64, copy=False) for values in (features[near], query_features[some]))
                K -= Z @ Z.transpose(0, 2, 1)
                cross -= np.einsum("mkd,md->mk", Z, z)
                prior = np.maximum(prior - np.square(z).sum(axis=1), 0.0)
            sizes = np.where(missing, np.inf, noise[near])
            parts.append(solve_given(K, cross, prior, sizes, None if targets is None else targets[near]))
        return joined(parts)

    def _values(self, rows: Any, near: Array, queries: Any) -> tuple[Array, Array, Array]:
        """Return kernel values of near rows (m, k, k), of near rows and queries (m, k), and of queries (m,)."""
        if self.isotropic is not None:
            N = rows[near] - queries[:, None]  # about the query, so that inner products lose no digits
            squares = np.einsum("mkd,mkd->mk", N, N)
            apart = squares[:, :, None] + squares[:, None] - 2 * N @ N.transpose(0, 2, 1)
            K = self.amplitude * self.isotropic.profile(np.sqrt(np.maximum(apart, 0.0)))
            cross = self.amplitude * self.isotropic.profile(np.sqrt(squares))
            return K, cross, np.full(len(near), self.amplitude)
        K = np.stack([self.kernel(rows[some]) for some in near])
        cross = np.stack([self.kernel(rows[some], queries[i : i + 1])[:, 0] for i, some in enumerate(near)])
        return K, cross, np.asarray(self.kernel.diag(queries), dtype=np.float64)


def joined(parts: list[LocalSolution]) -> LocalSolution:
    """Return the solutions of successive queries as one."""
    if len(parts) == 1:
        return parts[0]
    targets = None if parts[0].targets is None else np.concatenate([part.targets for part in parts])
    return LocalSolution(
        weights=np.concatenate([part.weights for part in parts]),
        variance=np.concatenate([part.variance for part in parts]),
        targets=targets,
        jitter=np.concatenate([part.jitter for part in parts]),
    )
