r"""Samples of the posterior of a process as functions of x: pathwise samples, with gradients.

A path is a linear function of features, :math:`f(x) = m + z(x)^\top w` with coefficients w drawn from their posterior,
plus what the posterior has beyond the features:

- With landmarks, the residual of the kernel, :math:`k(x, y) - z(x)^\top z(y)`, is the covariance of
  :math:`g(x) - k(x, S) K_{SS}^{-1} g(S)` for a path g of the process with kernel k and landmarks S. The path g is a
  linear function of random Fourier features, so that this part has the correlations of the residual up to their error.
  The difference of two nearly equal numbers has a larger relative error than each of them, so it is multiplied by the
  function of x at which its variance is that of the residual.
- With representers, a prior path of the features is updated through the exact kernel, by Matheron's rule [1]_.

References
----------
.. [1] Wilson et al. (2020), Efficiently Sampling Functions from Gaussian Process Posteriors, ICML.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg

from mercer.errors import DataError, ParameterError
from mercer.features import Features, features_of
from mercer.kernels import Kernel
from mercer.maps import BaseMap, RandomFourier
from mercer.maps.landmarks.features import LandmarkFeatures
from mercer.solvers.processes.posterior import Posterior

__all__ = ["PathPart", "SamplePaths", "sample_paths"]

Array = np.ndarray
# Number of random Fourier features of a prior path: covariances of paths have errors of about sqrt(2 / this number).
PRIOR_COMPONENTS = 4096
# Number of rows whose features are in memory at a time, and whose gradients are computed at a time.
ROWS = 1024
GRADIENT_ROWS = 64
# Residual relative to the kernel that is rounding error.
ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class PathPart:
    """Linear functions of features, a part of sampled paths."""

    features: Features
    coef: Array  # (D, t * c), for t targets and c paths

    def values(self, X: Any) -> Array:
        """Return the values (n, t * c) at rows."""
        return features_of(self.features.astype(X.dtype), X).astype(np.float64, copy=False) @ self.coef

    def gradients(self, X: Any) -> Array:
        """Return the gradients (n, d, t * c) at rows."""
        return gradients_of(self.features, self.coef, X).transpose(0, 2, 1)

    def some(self, columns: slice) -> PathPart:
        """Return some of the functions."""
        return PathPart(self.features, self.coef[:, columns])


@dataclass(frozen=True, eq=False)
class ResidualPart:
    """Paths of the residual process of landmarks, with the variance of the residual at every row."""

    prior: Features  # features of the kernel, of which prior paths are linear functions
    landmarks: LandmarkFeatures
    removed: Array  # (D, p), coefficients of the landmarks that predict each of the p prior features
    coef: Array  # (p, t * c)

    def values(self, X: Any) -> Array:
        """Return the values (n, t * c) at rows."""
        return self.basis(X) @ self.coef

    def basis(self, X: Any) -> Array:
        """Return functions (n, p) of rows of which the paths are linear functions."""
        rest, variance, square = self._rest(X)
        return rest * np.sqrt(variance / square)[:, None]

    def _rest(self, X: Any) -> tuple[Array, Array, Array]:
        """Return the prior features (n, p) minus their predictions, the residual, and their squared norms (n,)."""
        Z = features_of(self.landmarks, X.astype(np.float64))
        rest = features_of(self.prior, X.astype(np.float64)) - Z @ self.removed
        diagonal = self.landmarks.kernel.diag(X.astype(np.float64))
        variance = np.maximum(diagonal - np.square(Z).sum(axis=1), 0.0) + ROUNDING * diagonal
        return rest, variance, np.square(rest).sum(axis=1) + ROUNDING * diagonal

    def gradients(self, X: Any) -> Array:
        """Return the gradients (n, d, t * c) at rows."""
        return np.concatenate([self._gradients(X[i : i + GRADIENT_ROWS]) for i in range(0, X.shape[0], GRADIENT_ROWS)])

    def _gradients(self, X: Any) -> Array:
        rest, variance, square = self._rest(X)
        Z = features_of(self.landmarks, X.astype(np.float64))
        n, size = len(rest), self.coef.shape[1]
        # Gradients of the paths, and of the squares of the features at each row, whose coefficients are its features.
        of_prior = gradients_of(self.prior, np.hstack([self.coef, rest.T]), X)
        through = np.hstack([self.removed @ self.coef, self.removed @ rest.T, Z.T])
        of_landmarks = gradients_of(self.landmarks, through, X)
        of_rest = of_prior - of_landmarks[:, : size + n]
        own = np.arange(n)
        in_square = 2 * of_rest[own, size + own]  # (n, d)
        in_variance = -2 * of_landmarks[own, size + n + own]
        relative = 0.5 * (in_variance / variance[:, None] - in_square / square[:, None])
        slopes = of_rest[:, :size] + (rest @ self.coef)[:, :, None] * relative[:, None]
        return (slopes * np.sqrt(variance / square)[:, None, None]).transpose(0, 2, 1)

    def some(self, columns: slice) -> ResidualPart:
        """Return some of the functions."""
        return replace(self, coef=self.coef[:, columns])


def gradients_of(features: Features, coef: Array, X: Any) -> Array:
    """Return the gradients (n, c, d) of z(x)'c at rows, for the columns c of `coef`."""
    found = None if features.gradients is None else features.gradients(coef)
    if found is None:
        msg = (
            "The paths have no gradient, since no closed form is known for that of the features.\n"
            "  needs: RandomFourier with real features, or Nystroem with an isotropic kernel of all columns\n"
            f"  got:   {type(features).__name__}\n"
            "  try:   differences of path(X), or one of these maps"
        )
        raise ParameterError(msg)
    return np.stack(list(found(X)), axis=1)


@dataclass(frozen=True, eq=False)
class SamplePaths:
    """Functions drawn from the posterior of a Gaussian process.

    The same object returns values of the same functions at any rows, and ``paths[i]`` is path i alone. Values of a path
    at two rows do not depend on whether they are asked for together.

    Attributes
    ----------
    n_samples : int
        Number of paths.
    """

    feature_map: BaseMap  # fitted
    parts: tuple[PathPart | ResidualPart, ...]
    offset: Array  # (t,)
    n_samples: int
    single: bool  # whether there is a single column of targets

    def __call__(self, X: Any) -> Array:
        """Return the values of all paths.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, n_samples), or (n, t, n_samples) for t columns of targets
        """
        X = self.feature_map.check_rows(X)
        out = np.zeros((X.shape[0], len(self.offset), self.n_samples))
        flat = out.reshape(len(out), -1)
        for start in range(0, len(out), ROWS):
            rows = slice(start, start + ROWS)
            for part in self.parts:
                flat[rows] += part.values(X[rows])
        out += self.offset[:, None]
        return out[:, 0] if self.single else out

    def gradient(self, X: Any) -> Array:
        """Return the gradients of all paths with respect to the rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, d, n_samples), or (n, d, t, n_samples) for t columns of targets
        """
        X = self.feature_map.check_rows(X)
        n, d = X.shape
        out = np.zeros((n, d, len(self.offset) * self.n_samples))
        for start in range(0, n, ROWS):
            rows = slice(start, start + ROWS)
            for part in self.parts:
                out[rows] += part.gradients(X[rows])
        return out if self.single else out.reshape(n, d, len(self.offset), self.n_samples)

    def __len__(self) -> int:
        return self.n_samples

    def __getitem__(self, index: int) -> SamplePaths:
        """Return path `index` alone."""
        if not -self.n_samples <= index < self.n_samples:
            msg = f"SamplePaths: there are {self.n_samples} paths, got the index {index}."
            raise IndexError(msg)
        column = index % self.n_samples
        parts = tuple(part.some(slice(column, None, self.n_samples)) for part in self.parts)
        return replace(self, parts=parts, n_samples=1)

    def __iter__(self) -> Iterator[SamplePaths]:
        return (self[index] for index in range(self.n_samples))


def sample_paths(
    posterior: Posterior, feature_map: BaseMap, n_samples: int, rng: np.random.Generator, *, single: bool
) -> SamplePaths:
    """Return functions drawn from a posterior.

    Parameters
    ----------
    posterior : Posterior
        The posterior.
    feature_map : BaseMap
        The fitted map of its features.
    n_samples : int
        Number of functions.
    rng : Generator
        Source of random numbers.
    single : bool
        Whether results omit the axis of targets.
    """
    D, t = posterior.coef.shape
    normals = rng.normal(size=(D, t, n_samples))
    if posterior.representers is not None:
        parts: list[PathPart | ResidualPart] = updated_parts(posterior, normals, rng)
    else:
        deviations = np.sqrt(posterior._coef_variance)[:, :, None] * normals
        drawn = posterior.coef[:, :, None] + np.einsum("de,etc->dtc", posterior.spectrum.vectors, deviations)
        parts = [PathPart(posterior.features, flat(drawn))]
        if posterior.adds_residual:
            parts.append(residual_part(posterior, feature_map, n_samples, rng))
    return SamplePaths(feature_map, tuple(parts), posterior.spectrum.offset, n_samples, single)


def flat(coef: Array) -> Array:
    """Return coefficients (D, t, c) as a matrix."""
    return coef.reshape(len(coef), -1)


def updated_parts(posterior: Posterior, normals: Array, rng: np.random.Generator) -> list[PathPart | ResidualPart]:
    """Return the parts of prior paths that are updated through the exact kernel to the representers."""
    given, scales = posterior.representers, posterior.scales
    assert given is not None
    prior = scales.amplitude[:, None] * normals
    noise = rng.normal(size=(len(given.weight), *normals.shape[1:])) / np.sqrt(given.weight)[:, None, None]
    observed = np.einsum("md,dtc->mtc", given.features, prior) + scales.noise[:, None] * noise
    updates = [
        scipy.linalg.cho_solve((given.factors[t], True), observed[:, t], check_finite=False)
        for t in range(normals.shape[1])
    ]
    update = np.stack(updates, axis=1)
    through = LandmarkFeatures(posterior.kernel, given.rows, -update.reshape(len(update), -1), update[0].size)
    identity = np.eye(update[0].size).reshape(-1, *normals.shape[1:])
    return [PathPart(posterior.features, flat(posterior.coef[:, :, None] + prior)), PathPart(through, flat(identity))]


def residual_part(posterior: Posterior, feature_map: BaseMap, n_samples: int, rng: np.random.Generator) -> ResidualPart:
    """Return paths of the residual process of landmarks: g(x) - z(x)'W'g(S), for prior paths g."""
    kernel, landmarks = posterior.kernel, posterior.features
    if kernel.spectral_parts() is None or not isinstance(landmarks, LandmarkFeatures):
        msg = (
            "Paths of a process on landmarks need a shift-invariant kernel, whose prior paths are drawn from random "
            f"Fourier features, got {kernel!r}. Use sample_y, which samples at given rows, or a map without landmarks."
        )
        raise ParameterError(msg)
    prior = prior_features(kernel, feature_map.n_features_in_, int(rng.integers(2**31)))
    t = len(posterior.scales.amplitude)
    weights = posterior.scales.amplitude[:, None] * rng.normal(size=(prior.n_components, t, n_samples))
    at_landmarks = features_of(prior, landmarks.landmarks.astype(np.float64))
    removed = landmarks.whitening.T @ at_landmarks
    return ResidualPart(prior, landmarks, removed, flat(weights))


def prior_features(kernel: Kernel, d: int, seed: int) -> Features:
    """Return random Fourier features of a kernel, for rows of d features."""
    drawn = RandomFourier(kernel, PRIOR_COMPONENTS, random_state=seed).fit(np.zeros((1, d))).features_
    if drawn.is_complex:
        msg = f"Prior paths of {kernel!r} are complex."
        raise DataError(msg)
    return drawn
