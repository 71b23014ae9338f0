"""Derivatives of landmark features of isotropic kernels in the lengthscales of the features of X."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.features import Features
from mercer.kernels import Kernel, Transformed
from mercer.kernels.base import dense64
from mercer.kernels.isotropic import IsotropicKernel

__all__ = ["LandmarkScales", "isotropic_form"]

Array = np.ndarray


def isotropic_form(kernel: Kernel) -> tuple[IsotropicKernel, Array | None] | None:
    """Return a kernel as an isotropic kernel of rows divided by lengthscales (None: by one), or None if it is not."""
    if isinstance(kernel, Transformed) and kernel.columns is None:
        inner = isotropic_form(kernel.kernel)
        if inner is None:
            return None
        scales = [np.asarray(s) for s in (kernel.lengthscales, inner[1]) if s is not None]
        return inner[0], np.prod(scales, axis=0) if scales else None
    return (kernel, None) if isinstance(kernel, IsotropicKernel) else None


@dataclass(frozen=True, eq=False)
class LandmarkScales:
    """Lengthscales of features k(x, S) W of an isotropic kernel k, with landmarks S and W W' the inverse of k(S, S)."""

    kernel: Kernel
    landmarks: Any  # (S, d)
    whitening: Array  # (S, n_components)
    whiten: Callable[[Kernel], Features]  # the features of another kernel at the same landmarks

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:  # noqa: ARG002 - the signature of the contract
        """Return the part of the derivative that goes through kernel values of rows and landmarks."""
        return kernel_derivative(self.kernel, X, dense64(self.landmarks), G @ self.whitening.T)

    def gradient_of_draw(self, ZG: Array) -> Array:
        """Return the part that goes through kernel values of pairs of landmarks.

        The approximate kernel is K_xs K_ss^-1 K_sx for any root W of the inverse, and the derivative in K_ss is minus
        one half of W Z'G W', symmetrized.
        """
        weights = -0.5 * self.whitening @ (0.5 * (ZG + ZG.T)) @ self.whitening.T
        landmarks = dense64(self.landmarks)
        return kernel_derivative(self.kernel, landmarks, landmarks, weights)

    def multiplied(self, factors: Array) -> Features:
        """Return the features at the same landmarks with each lengthscale multiplied by a factor."""
        return self.whiten(Transformed(self.kernel, lengthscales=tuple(map(float, factors))))


def kernel_derivative(kernel: Kernel, X: Array, Y: Array, weights: Array) -> Array:
    """Return sum_ij weights_ij dk(x_i, y_j) / dlog l_k for the lengthscale l_k of every feature of X."""
    form = isotropic_form(kernel)
    assert form is not None
    leaf, scales = form
    unit = float(leaf.lengthscale) * (1.0 if scales is None else scales)
    X, Y = X / unit, Y / unit
    center = Y.mean(axis=0)
    X, Y = X - center, Y - center
    squared = np.square(X).sum(axis=1)[:, None] + np.square(Y).sum(axis=1) - 2 * X @ Y.T
    # Where rows coincide the derivative is zero, though the slope of a rough kernel is not finite there.
    H = np.where(squared > 0, weights * leaf.slope(np.sqrt(np.maximum(squared, 0.0))), 0.0)
    # sum_ij H_ij (x_ik - y_jk)^2, without a matrix for every feature.
    return H.sum(axis=1) @ np.square(X) + H.sum(axis=0) @ np.square(Y) - 2 * np.einsum("ik,ik->k", X, H @ Y)
