"""Exact log marginal likelihood (evidence) of a Gaussian process on a sample of rows, and its derivatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg

from mercer.kernels.isotropic import IsotropicKernel
from mercer.solvers.processes.evidence import Evidence, Scales
from mercer.solvers.ridge.least_squares import Spectrum

__all__ = ["GramEvidence"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class GramEvidence:
    """The exact log marginal likelihood of a sample under an isotropic kernel with one lengthscale per input column.

    The value and all derivatives take time O(m^3) for m rows, independently of the number of lengthscales
    (Rasmussen, Williams 2006, Gaussian Processes for Machine Learning, algorithm 2.1 and equation 5.9).
    """

    kernel: IsotropicKernel
    rows: Array  # (m, d), divided by the lengthscale of the kernel
    targets: Array  # (m, t), centered if the model has a mean
    weight: Array  # (m,), > 0, numbers of repetitions
    repeated: bool = True  # whether weights are repetitions of rows; otherwise they are precisions of their noise

    def __call__(self, log_scales: Array, log_noise: Array, log_amplitude: Array) -> tuple[float, Array, Array, Array]:
        """Return the log marginal likelihood and its derivatives.

        Parameters
        ----------
        log_scales : ndarray of shape (d,)
            Logarithms of the lengthscales by which the features of the rows are divided.
        log_noise, log_amplitude : ndarray of shape (t,)
            Logarithms of the standard deviations of noise and function.

        Returns
        -------
        value : float
            Log marginal likelihood, summed over the targets; minus infinity if rounding error makes the
            covariance matrix not positive definite.
        in_log_scales : ndarray of shape (d,)
            Derivatives with respect to `log_scales`.
        in_log_noise, in_log_amplitude : ndarray of shape (t,)
            Derivatives with respect to `log_noise` and `log_amplitude`.
        """
        X = self.rows * np.exp(-log_scales)
        distance = distances(X)
        K, slope = self.kernel.profile(distance), self.kernel.slope(distance)
        value, in_scales = 0.0, np.zeros(X.shape[1])
        in_noise, in_amplitude = np.zeros_like(log_noise), np.zeros_like(log_amplitude)
        repetitions = float((self.weight - 1).sum()) if self.repeated else 0.0
        log_weights = np.log(self.weight).sum()
        for t, y in enumerate(self.targets.T):
            noise, amplitude = np.exp(2 * log_noise[t]), np.exp(2 * log_amplitude[t])
            covariance = amplitude * K
            covariance[np.diag_indices_from(covariance)] += noise / self.weight
            try:
                factor = scipy.linalg.cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
            except scipy.linalg.LinAlgError:
                return -np.inf, in_scales, in_noise, in_amplitude
            solved = scipy.linalg.cho_solve((factor, True), y, check_finite=False)
            # A row repeated w times is equivalent to one row with noise variance / w, times the density of w - 1
            # differences of its targets, which are zero.
            value -= 0.5 * (y @ solved + len(y) * np.log(2 * np.pi) + log_weights)
            value -= np.log(np.diagonal(factor)).sum() + 0.5 * repetitions * np.log(2 * np.pi * noise)
            inverse, _ = scipy.linalg.lapack.dpotri(factor, lower=1)
            # Twice the derivative with respect to the covariance matrix.
            M = np.outer(solved, solved)
            M -= inverse  # lower triangle, zeros above it
            M -= inverse.T
            M[np.diag_indices_from(M)] += np.diagonal(inverse)
            in_noise[t] = noise * (np.diagonal(M) / self.weight).sum() - repetitions
            in_amplitude[t] = amplitude * np.vdot(M, K)
            H = np.where(distance > 0, M * slope, 0.0)  # the slope of a rough kernel is infinite at zero
            in_scales += amplitude * (H.sum(axis=1) @ np.square(X) - np.einsum("ik,ik->k", X, H @ X))
        return float(value), in_scales, in_noise, in_amplitude

    def best(self, log_scales: Array, noise: float | None, amplitude: float | None) -> tuple[float, Scales]:
        """Maximize the log marginal likelihood over noise and amplitude, for fixed lengthscales.

        Parameters
        ----------
        log_scales : ndarray of shape (d,)
            Logarithms of the lengthscales by which the features of the rows are divided.
        noise, amplitude : float or None
            Fixed standard deviation; None maximizes over it.

        Returns
        -------
        value : float
            The maximum, summed over the targets.
        scales : Scales
            The noise and the amplitude that attain it.
        """
        K = self.kernel.profile(distances(self.rows * np.exp(-log_scales)))
        root = np.sqrt(self.weight)
        values, vectors = scipy.linalg.eigh(root[:, None] * K * root, check_finite=False)
        values = np.maximum(values, 0.0)
        # Features whose Gram matrix is the weighted kernel matrix; their second moments are diagonal.
        features = vectors * np.sqrt(values)
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
        ), None if self.repeated else float(len(self.weight)))  # fmt: skip
        scales = evidence.best(noise, amplitude)
        return float(evidence.value(scales).sum()), scales


def distances(X: Array) -> Array:
    """Return the Euclidean distances (n, n) of all pairs of rows."""
    X = X - X.mean(axis=0)
    norms = np.square(X).sum(axis=1)
    squared = np.maximum(norms[:, None] + norms - 2 * X @ X.T, 0.0)
    np.fill_diagonal(squared, 0.0)
    return np.sqrt(squared)
