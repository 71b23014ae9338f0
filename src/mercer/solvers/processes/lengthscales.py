r"""Gradient of the log marginal likelihood with respect to the lengthscales, through the features, block by block.

With penalty :math:`\alpha`, coefficients c, residuals r and :math:`B = (Z^\top Z + \alpha I)^{-1}`, the derivative of
the log marginal likelihood with respect to the features is :math:`G = -Z B + r c^\top / \sigma^2`, summed over the
columns of targets. The chain rule continues through the features: `mercer.features.Features.lengthscales` implements
their derivatives where these have a closed form. Examples are random Fourier features, whose sampled frequencies are
divided by the lengthscales, and kernel values at fixed landmarks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines import Block
from mercer.errors import ParameterError
from mercer.features import Features, Lengthscales, rows_to_features
from mercer.solvers.processes.evidence import Scales
from mercer.solvers.ridge.least_squares import Spectrum

__all__ = ["LengthscaleGradient", "dense"]

Array = np.ndarray
# Number of rows whose features and derivatives are in memory at a time.
SLICE_ROWS = 512


@dataclass(frozen=True, eq=False)
class LengthscaleGradient:
    """Function of a block of rows that returns its part of the gradient of the log marginal likelihood.

    The gradient (d,) is with respect to the log lengthscale of each column of the data. The parts of all blocks are
    added, and `complete` adds a last part, which does not depend on single rows.
    """

    features: Features
    spectrum: Spectrum
    scales: Scales

    @cached_property
    def _lengthscales(self) -> Lengthscales:
        found = self.features.lengthscales
        if found is not None:
            return found
        msg = (
            "No closed form is known for the derivative of these features with respect to the lengthscale.\n"
            "  needs: RandomFourier with dense directions, such as 'big_block', or Nystroem of an isotropic kernel\n"
            f"  got:   {type(self.features).__name__}"
        )
        raise ParameterError(msg)

    def __post_init__(self) -> None:
        _ = self._lengthscales  # raises if the features have no closed form

    def __call__(self, block: Block) -> Array:
        """Return the part (d,) of the gradient through the features of the rows of a block."""
        total = np.zeros(block.X.shape[1])
        for i in range(0, len(block), SLICE_ROWS):
            rows = slice(i, i + SLICE_ROWS)
            X = block.X[rows].toarray() if sp.issparse(block.X) else block.X[rows]
            Z = rows_to_features(self.features, X).astype(np.float64, copy=False)
            X = np.asarray(X, dtype=np.float64)
            weight = None if block.weight is None else block.weight[rows]
            G = self._in_features(Z, block.y[rows], weight)
            total += self._lengthscales.gradient(X, Z, G)
        return total

    def _in_features(self, Z: Array, y: Array, weight: Array | None) -> Array:
        """Return the derivative (n, D) of the log marginal likelihood with respect to the features of some rows."""
        s = self.spectrum
        out = np.zeros_like(Z)
        coordinates = Z @ s.vectors
        coef = s.coef(self.scales.alpha)
        for t, (alpha, noise) in enumerate(zip(self.scales.alpha, self.scales.noise, strict=True)):
            residual = y[:, t] - s.offset[t] - Z @ coef[:, t]
            out += np.outer(residual / noise**2, coef[:, t]) - (coordinates / (s.values + alpha)) @ s.vectors.T
        return out if weight is None else out * weight[:, None]

    def complete(self, total: Array) -> Array:
        """Return the gradient (d,), given the sum of the parts of all blocks.

        The sum lacks the derivative through parameters that all rows share, such as the kernel values of pairs of
        landmarks. This derivative is added here. It depends on the rows only through Z'G, which is a function of the
        moments.
        """
        s, scales = self.spectrum, self.scales
        moments = (s.vectors * s.values) @ s.vectors.T
        right = s.vectors @ s.rotated
        ZG = np.zeros_like(moments)
        coef = s.coef(scales.alpha)
        for t, (alpha, noise) in enumerate(zip(scales.alpha, scales.noise, strict=True)):
            left = right[:, t] - moments @ coef[:, t]
            ZG += np.outer(left / noise**2, coef[:, t]) - (s.vectors * (s.values / (s.values + alpha))) @ s.vectors.T
        return total + self._lengthscales.gradient_of_draw(ZG)


def dense(rows: Any) -> Array:
    """Return rows as a dense float64 array."""
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)
