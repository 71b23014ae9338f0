r"""How the evidence changes with the lengthscales: exact derivatives through the features, block by block.

With penalty :math:`\alpha`, coefficients c, residuals r and :math:`B = (Z^\top Z + \alpha I)^{-1}`, the derivative of
the log marginal likelihood in the features is :math:`G = -Z B + r c^\top / \sigma^2`, summed over columns of targets.
Features of a shift-invariant kernel depend on a lengthscale in two ways that have a closed form: the frequencies of a
random Fourier map are divided by it, with the same draw; and values at landmarks are profiles of distances in its unit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block
from mercer.errors import ParameterError
from mercer.features import Features, features_of
from mercer.kernels import Kernel, Transformed
from mercer.kernels.isotropic import IsotropicKernel
from mercer.maps.fourier.projections import DenseProjection
from mercer.maps.fourier.random_fourier import TrigFeatures
from mercer.maps.landmarks.nystroem import LandmarkFeatures
from mercer.solvers.processes.evidence import Scales
from mercer.solvers.ridge.spectrum import Spectrum

__all__ = ["LengthscaleGradient", "isotropic_part", "landmark_gradient"]

Array = np.ndarray
SLICE_ROWS = 512


def isotropic_part(kernel: Kernel) -> tuple[IsotropicKernel, Array | None] | None:
    """Return a kernel as an isotropic one of rows divided by lengthscales (None: by one), or None if it is no such."""
    if isinstance(kernel, Transformed) and kernel.columns is None:
        inner = isotropic_part(kernel.kernel)
        if inner is None:
            return None
        scales = [np.asarray(s) for s in (kernel.lengthscales, inner[1]) if s is not None]
        return inner[0], np.prod(scales, axis=0) if scales else None
    return (kernel, None) if isinstance(kernel, IsotropicKernel) else None


@dataclass(frozen=True, eq=False)
class LengthscaleGradient:
    """The derivative of the evidence of the rows of a block in the log of the lengthscale of every column."""

    features: Features
    spectrum: Spectrum
    scales: Scales

    def __post_init__(self) -> None:
        f = self.features
        if isinstance(f, TrigFeatures) and isinstance(f.projection, DenseProjection):
            return
        if isinstance(f, LandmarkFeatures) and isotropic_part(f.kernel) is not None:
            return
        msg = (
            "No closed form is known for the derivative of these features in the lengthscale.\n"
            "  needs: RandomFourier with dense directions, such as 'big_block', or Nystroem of an isotropic kernel\n"
            f"  got:   {type(f).__name__}"
        )
        raise ParameterError(msg)

    def __call__(self, block: Block) -> Array:
        """Return the derivatives (d,)."""
        f = self.features
        total = np.zeros(block.X.shape[1])
        for i in range(0, len(block), SLICE_ROWS):
            rows = slice(i, i + SLICE_ROWS)
            X = block.X[rows].toarray() if sp.issparse(block.X) else block.X[rows]
            Z = features_of(f.astype(X.dtype), X).astype(np.float64, copy=False)
            X = np.asarray(X, dtype=np.float64)
            weight = None if block.weight is None else block.weight[rows]
            G = self._in_features(Z, block.y[rows], weight)
            if isinstance(f, LandmarkFeatures):
                total += landmark_rows(f, X, G)
            else:
                assert isinstance(f, TrigFeatures)
                total += fourier_gradient(f, X, Z, G)
        return total

    def _in_features(self, Z: Array, y: Array, weight: Array | None) -> Array:
        """Return the derivative (n, D) of the evidence in the features of some rows."""
        s = self.spectrum
        out = np.zeros_like(Z)
        coordinates = Z @ s.vectors
        coef = s.coef(self.scales.alpha)
        for t, (alpha, noise) in enumerate(zip(self.scales.alpha, self.scales.noise, strict=True)):
            residual = y[:, t] - s.offset[t] - Z @ coef[:, t]
            out += np.outer(residual / noise**2, coef[:, t]) - (coordinates / (s.values + alpha)) @ s.vectors.T
        return out if weight is None else out * weight[:, None]

    def whole(self, total: Array) -> Array:
        """Return the derivative over all rows, given the sum over blocks: landmarks have a part of their own."""
        if not isinstance(self.features, LandmarkFeatures):
            return total
        return total + landmark_gradient(self.features, self.spectrum, self.scales)


def fourier_gradient(f: TrigFeatures, X: Array, Z: Array, G: Array) -> Array:
    """Return the derivative for features cos and sin of angles: in the angles, then in the frequencies."""
    weights = np.asarray(f.projection.weights, dtype=np.float64)  # type: ignore[union-attr]
    start = int(f.constant > 0)
    Z, G, m = Z[:, start:], G[:, start:], weights.shape[1]
    if f.form == "phase":
        in_angles = -G * f.amplitude * np.sin(X @ weights + f.phases)
    else:
        paired = Z.shape[1] - m
        in_angles = np.empty((len(Z), m))
        in_angles[:, :paired] = G[:, m:] * Z[:, :paired] - G[:, :paired] * Z[:, m:]
        if paired < m:  # the cosine without its sine
            angle = X @ weights[:, -1] + f.phases[-1]
            in_angles[:, -1] = -G[:, m - 1] * f.amplitude * np.sin(angle)
    return -(weights * (X.T @ in_angles)).sum(axis=1)


def landmark_rows(f: LandmarkFeatures, X: Array, G: Array) -> Array:
    """Return the part of the derivative that goes through kernel values of rows at landmarks."""
    return kernel_derivative(f.kernel, X, dense(f.landmarks), G @ f.whitening.T)


def landmark_gradient(f: LandmarkFeatures, s: Spectrum, scales: Scales) -> Array:
    """Return the part that goes through kernel values among landmarks.

    The approximate kernel is K_xs K_ss^-1 K_sx, whatever root of the inverse whitens; the derivative in K_ss is minus a
    half of W Z'G W', and Z'G is a function of the moments.
    """
    moments = (s.vectors * s.values) @ s.vectors.T
    right = s.vectors @ s.rotated
    inner = np.zeros_like(moments)
    coef = s.coef(scales.alpha)
    for t, (alpha, noise) in enumerate(zip(scales.alpha, scales.noise, strict=True)):
        left = right[:, t] - moments @ coef[:, t]
        inner += np.outer(left / noise**2, coef[:, t]) - (s.vectors * (s.values / (s.values + alpha))) @ s.vectors.T
    weights = -0.5 * f.whitening @ (0.5 * (inner + inner.T)) @ f.whitening.T
    landmarks = dense(f.landmarks)
    return kernel_derivative(f.kernel, landmarks, landmarks, weights)


def kernel_derivative(kernel: Kernel, X: Array, Y: Array, weights: Array) -> Array:
    """Return sum_ij weights_ij dk(x_i, y_j) / dlog l_k for the lengthscale l_k of every column."""
    part = isotropic_part(kernel)
    assert part is not None
    leaf, scales = part
    unit = float(leaf.lengthscale) * (1.0 if scales is None else scales)
    X, Y = X / unit, Y / unit
    center = Y.mean(axis=0)
    X, Y = X - center, Y - center
    squared = np.square(X).sum(axis=1)[:, None] + np.square(Y).sum(axis=1) - 2 * X @ Y.T
    # Where rows coincide the derivative is zero, though the slope of a rough kernel is not finite there.
    H = np.where(squared > 0, weights * leaf.slope(np.sqrt(np.maximum(squared, 0.0))), 0.0)
    # sum_ij H_ij (x_ik - y_jk)^2, without a matrix for every column.
    return H.sum(axis=1) @ np.square(X) + H.sum(axis=0) @ np.square(Y) - 2 * np.einsum("ik,ik->k", X, H @ Y)


def dense(rows: Any) -> Array:
    """Return rows as a dense float64 array."""
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
