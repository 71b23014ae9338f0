"""The exact evidence of a Gaussian process on few rows, by their Gram matrix, with all its derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mercer.kernels.isotropic import IsotropicKernel
from mercer.solvers.processes.evidence import Evidence, Scales
from mercer.solvers.ridge.spectrum import Spectrum

__all__ = ["GramEvidence"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class GramEvidence:
    """The log marginal likelihood of some rows under an isotropic kernel of columns divided by lengthscales.

    Time O(m^3) for m rows, whatever the number of lengthscales.
    """

    kernel: IsotropicKernel
    rows: Array  # (m, d), in units of the kernel's lengthscale
    targets: Array  # (m, t), less their mean
    weight: Array  # (m,), > 0: repetitions

    def __call__(self, log_scales: Array, log_noise: Array, log_amplitude: Array) -> tuple[float, Array, Array, Array]:
        """Return the value and its derivatives.

        Parameters
        ----------
        log_scales : ndarray of shape (d,)
            Logarithms of the factors that columns are divided by.
        log_noise, log_amplitude : ndarray of shape (t,)
            Logarithms of standard deviations.

        Returns
        -------
        value : float
            Summed over targets; minus infinity if the matrix is not positive definite to rounding.
        in_log_scales, in_log_noise, in_log_amplitude : ndarrays
        """
        X = self.rows * np.exp(-log_scales)
        distance = distances(X)
        K, slope = self.kernel.profile(distance), self.kernel.slope(distance)
        value, in_scales = 0.0, np.zeros(X.shape[1])
        in_noise, in_amplitude = np.zeros_like(log_noise), np.zeros_like(log_amplitude)
        spare = float((self.weight - 1).sum())
        for t, y in enumerate(self.targets.T):
            noise, amplitude = np.exp(2 * log_noise[t]), np.exp(2 * log_amplitude[t])
            covariance = amplitude * K
            covariance[np.diag_indices_from(covariance)] += noise / self.weight
            try:
                factor = scipy.linalg.cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
            except scipy.linalg.LinAlgError:
                return -np.inf, in_scales, in_noise, in_amplitude
            solved = scipy.linalg.cho_solve((factor, True), y, check_finite=False)
            # Rows repeated w times are one of noise / w, and w - 1 differences that are zero.
            value -= 0.5 * (y @ solved + len(y) * np.log(2 * np.pi) + np.log(self.weight).sum())
            value -= np.log(np.diagonal(factor)).sum() + 0.5 * spare * np.log(2 * np.pi * noise)
            inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1)
            M = np.outer(solved, solved) - np.tril(inverse) - np.tril(inverse, -1).T  # twice the derivative
            in_noise[t] = noise * (np.diagonal(M) / self.weight).sum() - spare
            in_amplitude[t] = amplitude * np.vdot(M, K)
            H = np.where(distance > 0, M * slope, 0.0)  # a rough kernel has no finite slope at zero
            in_scales += amplitude * (H.sum(axis=1) @ np.square(X) - np.einsum("ik,ik->k", X, H @ X))
        return float(value), in_scales, in_noise, in_amplitude

    def best(self, log_scales: Array, noise: float | None, amplitude: float | None) -> tuple[float, Scales]:
        """Return the value at the best noise and amplitude, where they are not given, and these."""
        K = self.kernel.profile(distances(self.rows * np.exp(-log_scales)))
        root = np.sqrt(self.weight)
        values, vectors = scipy.linalg.eigh(root[:, None] * K * root, check_finite=False)
        values = np.maximum(values, 0.0)
        features = vectors * np.sqrt(values)  # whose Gram matrix this is; their moments are diagonal
        count = self.targets.shape[1]
        evidence = Evidence(Spectrum(
            values=values,
            vectors=np.eye(len(values)),
            rotated=features.T @ (root[:, None] * self.targets),
            center=np.zeros(len(values)),
            offset=np.zeros(count),
            energy=self.weight @ np.square(self.targets),
            weight=float(self.weight.sum()),
            roundoff=float(np.finfo(float).eps),
        ))  # fmt: skip
        scales = evidence.best(noise, amplitude)
        return float(evidence.value(scales).sum()), scales


def distances(X: Array) -> Array:
    """Return the Euclidean distances of all pairs of rows."""
    X = X - X.mean(axis=0)
    norms = np.square(X).sum(axis=1)
    squared = np.maximum(norms[:, None] + norms - 2 * X @ X.T, 0.0)
    np.fill_diagonal(squared, 0.0)
    return np.sqrt(squared)
