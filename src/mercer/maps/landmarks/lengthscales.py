"""Derivatives of landmark features of isotropic kernels: with respect to the lengthscales, and to the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.features import Features
from mercer.kernels import Kernel, Transformed
from mercer.kernels.base import dense64
from mercer.kernels.isotropic import IsotropicKernel

__all__ = ["LandmarkGradients", "LandmarkScales", "isotropic_form", "isotropic_terms"]

Array = np.ndarray


def isotropic_form(kernel: Kernel) -> tuple[IsotropicKernel, Array | None] | None:
    """Return an isotropic kernel k and lengthscales l such that the given kernel is k(x / l, y / l).

    The lengthscales l are None if the given kernel is isotropic itself. None is returned instead of the pair (k, l) if
    the kernel does not have this form.
    """
    if isinstance(kernel, Transformed) and kernel.columns is None and kernel.matrix is None:
        inner = isotropic_form(kernel.kernel)
        if inner is None:
            return None
        scales = [np.asarray(s) for s in (kernel.lengthscales, inner[1]) if s is not None]
        return inner[0], np.prod(scales, axis=0) if scales else None
    return (kernel, None) if isinstance(kernel, IsotropicKernel) else None


def isotropic_terms(kernel: Kernel) -> tuple[tuple[float, IsotropicKernel, Array | None], ...] | None:
    """Return a kernel as a weighted sum of kernels k(x / l, y / l) with isotropic k, without its constant terms.

    Each term is a weight, the kernel k, and the lengthscales l, or None if they are one. The result is None if the
    kernel does not have this form.
    """
    terms = []
    for weight, leaf in kernel.summands():
        form = None if leaf is None else isotropic_form(leaf)
        if form is not None:
            terms.append((weight, *form))
        elif leaf is not None:
            return None
    return tuple(terms)


@dataclass(frozen=True, eq=False)
class LandmarkGradients:
    r"""Gradients of functions of the form :math:`f(x) = \sum_s a_s k(x, s)`, over landmarks s, with respect to x.

    For an isotropic kernel with profile p and lengthscale l, the gradient of k(x, s) is
    :math:`-q(r) (x - s) / l^2` with r = |x - s| / l and the slope q(r) = -p'(r) / r.
    """

    terms: tuple[tuple[float, IsotropicKernel, Array | None], ...]
    landmarks: Any  # (S, d)
    weights: Array  # (S, t): the numbers a_s of each of t functions

    def __call__(self, X: Any) -> Iterator[Array]:
        X, landmarks = dense64(X), dense64(self.landmarks)
        center = landmarks.mean(axis=0)  # without it, small distances between rows far from zero would lose digits
        parts = []
        for weight, leaf, scales in self.terms:
            unit = float(leaf.lengthscale) * (1.0 if scales is None else scales)
            rows, points = (X - center) / unit, (landmarks - center) / unit
            squared = np.square(rows).sum(axis=1)[:, None] + np.square(points).sum(axis=1) - 2 * rows @ points.T
            # The gradient of a rough kernel is not defined at a landmark. Its mean over directions is zero.
            near = squared <= 0
            slope = leaf.slope(np.sqrt(np.where(near, 1.0, squared)))
            slope[near] = 0.0
            parts.append((weight / unit, rows, points, slope))
        for column in self.weights.T:
            out = np.zeros_like(X)
            for factor, rows, points, slope in parts:
                shares = slope * column
                out += factor * (shares @ points - shares.sum(axis=1)[:, None] * rows)
            yield out


@dataclass(frozen=True, eq=False)
class LandmarkScales:
    """Derivatives of landmark features with respect to the lengthscales.

    The features are k(x, S) W, with an isotropic kernel k, landmarks S, and W W' the inverse of k(S, S).
    """

    kernel: Kernel
    landmarks: Any  # (S, d)
    whitening: Array  # (S, n_components)
    whiten: Callable[[Kernel], Features]  # returns the features of another kernel at the same landmarks

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:  # noqa: ARG002 - the signature of the contract
        """Return the contribution of a block of rows to the gradient of an objective, with respect to log lengthscales.

        The features are Z = k(X, S) W, and G is the derivative of the objective with respect to Z. Only the dependence
        of k(X, S) on the lengthscales is included; `gradient_of_draw` adds that of k(S, S).
        """
        return kernel_derivative(self.kernel, X, dense64(self.landmarks), G @ self.whitening.T)

    def gradient_of_draw(self, ZG: Array) -> Array:
        """Return the part (d,) of the gradient that is due to the kernel matrix K_ss of the landmarks.

        `ZG` is Z'G over all rows, where Z are the features and G is the derivative of the objective with respect to Z.
        The approximate kernel is K_xs K_ss^-1 K_sx, whatever the root W with W W' = K_ss^-1. The derivative of the
        objective with respect to K_ss is therefore -1/2 W Z'G W', symmetrized.
        """
        weights = -0.5 * self.whitening @ (0.5 * (ZG + ZG.T)) @ self.whitening.T
        landmarks = dense64(self.landmarks)
        return kernel_derivative(self.kernel, landmarks, landmarks, weights)

    def multiplied(self, factors: Array) -> Features:
        """Return the features at the same landmarks with lengthscale i multiplied by factors[i]."""
        return self.whiten(Transformed(self.kernel, lengthscales=tuple(map(float, factors))))


def kernel_derivative(kernel: Kernel, X: Array, Y: Array, weights: Array) -> Array:
    """Return the vector g of shape (d,) with g_c = sum_ij weights_ij dk(x_i, y_j) / d log l_c.

    Here k is the kernel, and l_c is the lengthscale of column c of X.
    """
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
    # sum_ij H_ij (x_ik - y_jk)^2 for every feature k, without one matrix of differences per feature.
    return H.sum(axis=1) @ np.square(X) + H.sum(axis=0) @ np.square(Y) - 2 * np.einsum("ik,ik->k", X, H @ Y)
