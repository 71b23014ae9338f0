"""Posterior of a Gaussian process on features: mean, covariance, and samples of the function.

There are two methods. In weight space, the coefficients of the features have a Gaussian posterior. If the residual of
the kernel, k(x, y) - z(x)'z(y) with features z, is itself a kernel, it is added to the covariance as prior uncertainty.
In function space, a process with the exact kernel is conditioned on a sample of rows (`Representers`). Its samples are
paths by Matheron's rule [1]_: a prior path is computed from the features and updated through the exact kernel.

References
----------
.. [1] Wilson et al. (2020), Efficiently Sampling Functions from Gaussian Process Posteriors, ICML.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg

from mercer.features import Features, features_of
from mercer.kernels import Kernel
from mercer.maps import BaseMap
from mercer.solvers.processes.evidence import Scales
from mercer.solvers.processes.intervals import StandardizedErrors
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.statistics import RowSample

__all__ = ["Posterior", "Representers"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Representers:
    """Rows on which a process with the exact kernel is conditioned, with one Cholesky factor per column of targets."""

    rows: Any  # (m, d)
    features: Array  # (m, D)
    weight: Array  # (m,)
    factors: tuple[Array, ...]  # lower Cholesky factors of K + diag(alpha / weight)

    @classmethod
    def of(cls, feature_map: BaseMap, sample: RowSample, scales: Scales, *, repeated: bool = True) -> Self:
        """Return the representers of a sample of rows, for given noise and amplitude.

        If the sample contains all rows, each row has its sample weight. Otherwise rows were sampled with probabilities
        proportional to their sample weights, and each sampled row has weight 1. If `repeated` is False, weights are
        precisions of the noise, and rows always have theirs.
        """
        known = sample.weight is not None and (sample.is_complete or not repeated)
        weight = sample.weight if known and sample.weight is not None else np.ones(len(sample.index))
        rows = sample.X[weight > 0].astype(np.float64)
        weight = weight[weight > 0]
        K = feature_map.kernel_(rows)
        # With repeated rows and very little noise, rounding could make the matrix indefinite.
        least = 10 * len(K) * np.finfo(float).eps * np.diagonal(K).max(initial=0.0)
        noises = (np.maximum(alpha / weight, least) for alpha in scales.alpha)
        factors = tuple(scipy.linalg.cholesky(K + np.diag(noise), lower=True) for noise in noises)
        return cls(rows, features_of(feature_map.features_.astype(np.float64), rows), weight, factors)

    def explained(self, t: int, cross: Array) -> Array:
        """Return B = F^-1 cross, where F is the Cholesky factor for column `t` of the targets.

        If `cross` is k(rows, X), the posterior covariance at X is k(X, X) - B'B, times the squared amplitude.
        """
        return scipy.linalg.solve_triangular(self.factors[t], cross, lower=True, check_finite=False)

    def left_out_variance(self, scales: Scales) -> Array:
        """Return the posterior variances (m, t) of the function at each representer, given all others."""
        out = np.empty((len(self.weight), len(self.factors)))
        for t, factor in enumerate(self.factors):
            root = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False)
            with_noise = 1 / np.square(root).sum(axis=0)
            out[:, t] = scales.amplitude[t] ** 2 * np.maximum(with_noise - scales.alpha[t] / self.weight, 0.0)
        return out


@dataclass(frozen=True, eq=False)
class Posterior:
    """The posterior of a Gaussian process on features, for one or several columns of targets."""

    features: Features
    spectrum: Spectrum
    scales: Scales
    coef: Array  # (D, t), posterior mean
    exact: Kernel | None  # the exact kernel, where the posterior depends on it
    adds_residual: bool  # whether the residual of the kernel is a kernel, and is added as prior uncertainty
    representers: Representers | None  # the rows to condition on in function space; None in weight space
    # Noise and amplitude of the model of the features; None means `scales`. Those of `scales` are calibrated: its noise
    # is that of new targets, and its amplitude is that of the residual function.
    feature_scales: Scales | None = None
    errors: StandardizedErrors | None = None  # leave-one-out errors of a sample of the rows

    @classmethod
    def of(
        cls,
        feature_map: BaseMap,
        spectrum: Spectrum,
        scales: Scales,
        sample: RowSample | None,
        calibrated: Scales | None = None,
        *,
        repeated: bool = True,
    ) -> Self:
        """Return the posterior for given moments, noise and amplitude.

        Parameters
        ----------
        feature_map : BaseMap
            The fitted map.
        spectrum : Spectrum
            Eigendecomposition of the moments.
        scales : Scales
            Noise and amplitude.
        sample : RowSample or None
            Rows to condition on with the exact kernel, in function space; None computes the posterior in weight space.
        calibrated : Scales or None, default=None
            Noise of new targets and amplitude of the residual function, where these are not `scales`.
        repeated : bool, default=True
            Whether weights are repetitions of rows; otherwise they are precisions of their noise.
        """
        adds_residual = feature_map.residual_is_kernel
        return cls(
            features=feature_map.features_,
            spectrum=spectrum,
            scales=scales if calibrated is None else calibrated,
            coef=spectrum.coef(scales.alpha),
            exact=feature_map.kernel_ if adds_residual or sample is not None else None,
            adds_residual=adds_residual,
            representers=None if sample is None else Representers.of(feature_map, sample, scales, repeated=repeated),
            feature_scales=None if calibrated is None else scales,
        )

    @property
    def fitted_scales(self) -> Scales:
        """Noise and amplitude of the model of the features, whose noise includes what the features do not represent."""
        return self.scales if self.feature_scales is None else self.feature_scales

    @property
    def kernel(self) -> Kernel:
        """The exact kernel. It must not be read if the posterior does not depend on the exact kernel.

        In that case the kernel is not stored, since a deformed kernel may be large.
        """
        assert self.exact is not None
        return self.exact

    @property
    def _coef_variance(self) -> Array:
        """Posterior variances (D, t) of the coefficients, in the eigenbasis of the second moments of the features."""
        scales = self.fitted_scales
        return np.square(scales.noise) / (self.spectrum.values[:, None] + scales.alpha)

    def _features(self, X: Any) -> Array:
        return features_of(self.features.astype(X.dtype), X).astype(np.float64, copy=False)

    def variance_into(self, X: Any, out: Array) -> None:
        """Write the posterior variances of the function at some rows into `out` (n, t)."""
        amplitude = np.square(self.scales.amplitude)
        if self.representers is not None:
            diagonal = self.kernel.diag(X.astype(np.float64))
            cross = self.kernel(self.representers.rows, X.astype(np.float64))
            for t in range(out.shape[1]):
                explained = np.square(self.representers.explained(t, cross)).sum(axis=0)
                out[:, t] = amplitude[t] * np.maximum(diagonal - explained, 0.0)
            return
        Z = self._features(X)
        np.matmul(np.square(Z @ self.spectrum.vectors), self._coef_variance, out=out)
        if self.adds_residual:
            diagonal = self.kernel.diag(X.astype(np.float64))
            out += np.maximum(diagonal - np.square(Z).sum(axis=1), 0.0)[:, None] * amplitude

    def covariance(self, X: Any) -> Array:
        """Return the posterior covariances of the function at all pairs of rows, of shape (n, n, t) for t targets."""
        K = self._prior_covariance(X)
        out = np.zeros((*K.shape, len(self.scales.noise)))
        coordinates = self._features(X) @ self.spectrum.vectors
        for t, amplitude in enumerate(np.square(self.scales.amplitude)):
            if self.representers is not None:
                explained = self.representers.explained(t, self.kernel(self.representers.rows, X.astype(np.float64)))
                out[:, :, t] = amplitude * (K - explained.T @ explained)
            else:
                out[:, :, t] = (coordinates * self._coef_variance[:, t]) @ coordinates.T + amplitude * K
        return out

    def _prior_covariance(self, X: Any) -> Array:
        """Return the part of the kernel matrix (n, n) that is not represented by posterior coefficients.

        This is k(X, X) in function space. In weight space it is the residual k(X, X) - Z Z' if that is a kernel, and
        zero otherwise.
        """
        if self.representers is not None:
            return self.kernel(X.astype(np.float64))
        if not self.adds_residual:
            return np.zeros((X.shape[0], X.shape[0]))
        Z = self._features(X)
        return self.kernel(X.astype(np.float64)) - Z @ Z.T

    def deviations(self, X: Any, Z: Array, count: int, rng: np.random.Generator) -> Array:
        """Return `count` samples of the function minus its posterior mean, (n, t, count), at rows with features `Z`."""
        t = len(self.scales.noise)
        normals = rng.normal(size=(Z.shape[1], t, count))
        if self.representers is not None:
            return self._paths(X, Z, normals, rng)
        coordinates = np.sqrt(self._coef_variance)[:, :, None] * normals
        draws = np.einsum("nd,dtc->ntc", Z @ self.spectrum.vectors, coordinates)
        if self.adds_residual:
            values, vectors = scipy.linalg.eigh(self._prior_covariance(X))
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            residual = np.einsum("nm,mtc->ntc", root, rng.normal(size=(len(Z), t, count)))
            draws += self.scales.amplitude[:, None] * residual
        return draws

    def _paths(self, X: Any, Z: Array, normals: Array, rng: np.random.Generator) -> Array:
        """Return samples of the function minus its posterior mean (n, t, count), by Matheron's rule.

        Prior paths are computed from the features with the coefficients `normals` (D, t, count), and updated through
        the exact kernel to the representers.
        """
        given = self.representers
        assert given is not None
        cross = self.kernel(given.rows, X.astype(np.float64))
        noise = rng.normal(size=(len(given.weight), *normals.shape[1:])) / np.sqrt(given.weight)[:, None, None]
        out = np.empty((len(Z), *normals.shape[1:]))
        for t in range(normals.shape[1]):
            a, sigma = self.scales.amplitude[t], self.scales.noise[t]
            prior = a * normals[:, t]
            observed = given.features @ prior + sigma * noise[:, t]
            update = scipy.linalg.cho_solve((given.factors[t], True), observed, check_finite=False)
            out[:, t] = Z @ prior - cross.T @ update
        return out
