"""The posterior of a Gaussian process on features: its mean, its covariance, and draws from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.linalg

from mercer.features import Features, features_of
from mercer.kernels import Kernel
from mercer.maps import BaseMap
from mercer.solvers.processes.evidence import Scales
from mercer.solvers.ridge.spectrum import Spectrum
from mercer.statistics import RowSample

__all__ = ["Posterior", "Representers"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Representers:
    """Rows through which the exact kernel is conditioned, with a Cholesky factor a column of targets."""

    rows: Any  # (m, d)
    features: Array  # (m, D)
    weight: Array  # (m,)
    factors: tuple[Array, ...]  # of K + alpha / weight, lower

    @classmethod
    def of(cls, feature_map: BaseMap, sample: RowSample, scales: Scales) -> Self:
        """Condition on a sample of rows: all of them with their weights, or some that stand for themselves."""
        weight = np.ones(len(sample.index)) if sample.weight is None or not sample.is_complete else sample.weight
        rows = sample.X[weight > 0].astype(np.float64)
        weight = weight[weight > 0]
        K = feature_map.kernel_(rows)
        # Equal rows beside hardly any noise: what rounding makes of the matrix must stay positive definite.
        least = 10 * len(K) * np.finfo(float).eps * np.diagonal(K).max(initial=0.0)
        noises = (np.maximum(alpha / weight, least) for alpha in scales.alpha)
        factors = tuple(scipy.linalg.cholesky(K + np.diag(noise), lower=True) for noise in noises)
        return cls(rows, features_of(feature_map.features_.astype(np.float64), rows), weight, factors)

    def explained(self, t: int, cross: Array) -> Array:
        """Return B with B'B the part of the kernel that the rows explain; `cross` is k(rows, x)."""
        return scipy.linalg.solve_triangular(self.factors[t], cross, lower=True, check_finite=False)


@dataclass(frozen=True, eq=False)
class Posterior:
    """Gaussian coefficients of features, and what the features leave out of the kernel."""

    features: Features
    spectrum: Spectrum
    scales: Scales
    coef: Array  # (D, t)
    exact: Kernel | None  # where the posterior needs more of the kernel than the features
    leaves_some: bool  # whether the features never exceed the kernel, and the rest is prior uncertainty
    representers: Representers | None

    @classmethod
    def of(cls, feature_map: BaseMap, spectrum: Spectrum, scales: Scales, sample: RowSample | None) -> Self:
        """Return the posterior given moments, noise and amplitude; through the rows of a sample, if there is one."""
        leaves_some = feature_map.residual_is_kernel
        return cls(
            features=feature_map.features_,
            spectrum=spectrum,
            scales=scales,
            coef=spectrum.coef(scales.alpha),
            exact=feature_map.kernel_ if leaves_some or sample is not None else None,
            leaves_some=leaves_some,
            representers=None if sample is None else Representers.of(feature_map, sample, scales),
        )

    @property
    def kernel(self) -> Kernel:
        """The exact kernel; not asked for where the features are all: that of a deformed map may be too large."""
        assert self.exact is not None
        return self.exact

    @property
    def _spread(self) -> Array:
        """Variances (D, t) of the coordinates of the coefficients in the eigenbasis."""
        return np.square(self.scales.noise) / (self.spectrum.values[:, None] + self.scales.alpha)

    def _features(self, X: Any) -> Array:
        return features_of(self.features.astype(X.dtype), X).astype(np.float64, copy=False)

    def variance_into(self, X: Any, out: Array) -> None:
        """Write the variances of the function (n, t) at some rows."""
        amplitude = np.square(self.scales.amplitude)
        if self.representers is not None:
            diagonal = self.kernel.diag(X.astype(np.float64))
            cross = self.kernel(self.representers.rows, X.astype(np.float64))
            for t in range(out.shape[1]):
                explained = np.square(self.representers.explained(t, cross)).sum(axis=0)
                out[:, t] = amplitude[t] * np.maximum(diagonal - explained, 0.0)
            return
        Z = self._features(X)
        np.matmul(np.square(Z @ self.spectrum.vectors), self._spread, out=out)
        if self.leaves_some:
            diagonal = self.kernel.diag(X.astype(np.float64))
            out += np.maximum(diagonal - np.square(Z).sum(axis=1), 0.0)[:, None] * amplitude

    def covariance(self, X: Any) -> Array:
        """Return the covariances of the function (n, n, t) at all pairs of some rows."""
        K = self._kernel_left(X)
        out = np.zeros((*K.shape, len(self.scales.noise)))
        coordinates = self._features(X) @ self.spectrum.vectors
        for t, amplitude in enumerate(np.square(self.scales.amplitude)):
            if self.representers is not None:
                explained = self.representers.explained(t, self.kernel(self.representers.rows, X.astype(np.float64)))
                out[:, :, t] = amplitude * (K - explained.T @ explained)
            else:
                out[:, :, t] = (coordinates * self._spread[:, t]) @ coordinates.T + amplitude * K
        return out

    def _kernel_left(self, X: Any) -> Array:
        """Return the kernel (n, n) that the features do not explain; all of it, if they are not used."""
        if self.representers is not None:
            return self.kernel(X.astype(np.float64))
        if not self.leaves_some:
            return np.zeros((X.shape[0], X.shape[0]))
        Z = self._features(X)
        return self.kernel(X.astype(np.float64)) - Z @ Z.T

    def deviations(self, X: Any, Z: Array, count: int, rng: np.random.Generator) -> Array:
        """Draw deviations from the mean (n, t, count) of the function at some rows of features `Z`."""
        t = len(self.scales.noise)
        normals = rng.normal(size=(Z.shape[1], t, count))
        if self.representers is not None:
            return self._paths(X, Z, normals, rng)
        draws = np.einsum("nd,dtc->ntc", Z @ self.spectrum.vectors, np.sqrt(self._spread)[:, :, None] * normals)
        if self.leaves_some:
            values, vectors = scipy.linalg.eigh(self._kernel_left(X))
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            left = np.einsum("nm,mtc->ntc", root, rng.normal(size=(len(Z), t, count)))
            draws += self.scales.amplitude[:, None] * left
        return draws

    def _paths(self, X: Any, Z: Array, normals: Array, rng: np.random.Generator) -> Array:
        """Draw prior paths from the features and correct them through the representers (Matheron's rule)."""
        known = self.representers
        assert known is not None
        cross = self.kernel(known.rows, X.astype(np.float64))
        noise = rng.normal(size=(len(known.weight), *normals.shape[1:])) / np.sqrt(known.weight)[:, None, None]
        out = np.empty((len(Z), *normals.shape[1:]))
        for t in range(normals.shape[1]):
            a, sigma = self.scales.amplitude[t], self.scales.noise[t]
            prior = a * normals[:, t]
            observed = known.features @ prior + sigma * noise[:, t]
            update = scipy.linalg.cho_solve((known.factors[t], True), observed, check_finite=False)
            out[:, t] = Z @ prior - cross.T @ update
        return out
