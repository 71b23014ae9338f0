"""Sampled features of random neurons: exact components first, then functions of random projections.

Throughout, u = w . x is the projection of a row x on a random direction w, and phi(u) = max(u, 0)^b is the activation
of order b. The layout decides which components there are; see the class `RandomNeurons`. The module `expansion` has the
coefficients of the exact components.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer import linalg
from mercer.features import Features
from mercer.kernels.arc_cosine import unit_rows
from mercer.kernels.base import squared_norms
from mercer.maps.fourier.projections import Projection, apply_in_place, check_range
from mercer.maps.neurons.expansion import Expansion
from mercer.maps.series.inputs import PreparedRows
from mercer.maps.series.monomials import Monomials

__all__ = ["NeuronFeatures"]

Array = np.ndarray
# Twice the part of the activation that is not a polynomial, by order: sgn u, |u| and u|u|.
PARITY: tuple[linalg.FunctionName, ...] = ("sign", "abs", "signed_square")
# The activation, by order: the step, which is computed as (1 + sgn u) / 2, max(u, 0) and max(u, 0)^2.
NEURON: tuple[linalg.FunctionName, ...] = ("sign", "relu", "relu_squared")


@dataclass(frozen=True, eq=False)
class NeuronFeatures(Features):
    """Exact components and random neurons, as an immutable, picklable callable that maps rows to features.

    It does not depend on scikit-learn.
    """

    projection: Projection
    order: int
    layout: str
    n_components: int
    exact: Expansion
    # Value of the constant first component or, in layout "single", the number added to every component; None if the
    # map has no constant.
    constant: float | None
    scale: float  # every neuron is multiplied by this number
    signs_of_neurons: Array | None  # random signs +-1, for layout "single" with a constant; else None
    width: int  # number of features of the rows
    squares: Monomials | None  # the monomials x_i x_j; None if there are no quadratic components

    def astype(self, dtype: Any) -> Self:
        """Return the same features with all parameters converted to `dtype`, the dtype of the rows."""
        signs = None if self.signs_of_neurons is None else self.signs_of_neurons.astype(dtype, copy=False)
        squares = None if self.squares is None else self.squares.astype(dtype)
        return replace(self, projection=self.projection.astype(dtype), signs_of_neurons=signs, squares=squares)

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`. Both arrays must have the dtype set by `astype`."""
        check_range(self.projection, X, max(1, self.order))
        if self.layout == "single":
            self._write_single(X, out)
            return
        if self.constant is not None:
            out[:, 0] = self.constant
            out = out[:, 1:]
        if self.layout == "relu":
            self._write_pairs(X, out)
            return
        lengths = None
        if self.layout == "residual":
            # In this layout rows have fewer features than `out` has columns, so that a dense copy is small.
            X, lengths = unit_rows(X.toarray() if sp.issparse(X) else X)
        count = out.shape[1] - self.projection.n_frequencies
        self._write_exact(X, out[:, :count])
        if self.layout == "residual":
            self._write_residual(X, out[:, count:])
        else:
            self.projection.write(X, PARITY[self.order], self.scale, out[:, count:])
        if lengths is not None and self.order > 0:
            out *= np.power(lengths, self.order, dtype=out.dtype)[:, None]

    def _write_exact(self, X: Any, out: Array) -> None:
        """Write the exact components of the rows: the linear ones, then the quadratic ones.

        Their inner product is a1 x . y + a0 |x|^2 |y|^2 + a2 (x . y)^2, with the coefficients of `self.exact`.
        """
        if not out.shape[1]:
            return
        dense = X.toarray() if sp.issparse(X) else X
        if self.exact.linear is not None:
            linear, out = out[:, : self.width], out[:, self.width :]
            np.multiply(dense, out.dtype.type(np.sqrt(self.exact.linear)), out=linear)
        if self.exact.quadratic is None or self.squares is None:
            return
        # With h = (sqrt(a2 + d a0) - sqrt(a2)) / d, adding h |x|^2 to each of the d components sqrt(a2) x_i^2 adds
        # a0 |x|^2 |y|^2 to the inner product.
        a0, a2 = self.exact.lengths, self.exact.quadratic
        self.squares(PreparedRows(np.ascontiguousarray(dense), None, 0.0), out)
        shift = (np.sqrt(a2 + self.width * a0) - np.sqrt(a2)) / self.width
        first = np.cumsum([0, *range(self.width, 1, -1)])  # indices of the components x_i^2
        out[:, first] += out.dtype.type(shift) * squared_norms(dense)[:, None]

    def _write_residual(self, X: Any, out: Array) -> None:
        """Write the neurons of the residual layout, times `scale`.

        The neurons are sgn u - p1 u for order 0, |u| - p0 - p1 u^2 for order 1, and u|u| - p1 u for order 2, where
        u = w . x is the projection of a row x on a random direction w.
        """
        p0, p1 = self.exact.polynomial
        if self.order == 1:
            self.projection.write(X, "abs", 1.0, out)
            if p1 == 0:
                out -= p0
                out *= self.scale
                return
            # |u| - p0 - p1 u^2 = -p1 ((|u| - c)^2 + p0 / p1 - c^2) with c = 1 / (2 p1).
            out -= 0.5 / p1
            np.square(out, out=out)
            out += p0 / p1 - 0.25 / p1**2
            out *= -p1 * self.scale
            return
        self.projection.write(X, "identity", 1.0, out)
        rest = np.abs(out)
        if self.order == 0:
            rest *= -p1
            rest += 1
            apply_in_place("sign", out)
        else:
            rest -= p1
        out *= rest
        out *= self.scale

    def _write_pairs(self, X: Any, out: Array) -> None:
        """Write the neurons of the layout "relu", times `scale`: phi(u) for all directions w, followed by phi(-u).

        Here u = w . x is the projection of a row x, and phi(u) = max(u, 0)^b is the activation of order b. If `out` has
        an odd number of columns, phi(-u) of the last direction is omitted.
        """
        m = self.projection.n_frequencies
        left, right = out[:, :m], out[:, m:]
        if self.order == 0:
            # A step is (1 + sgn u) / 2, which is one half at zero.
            half = out.dtype.type(0.5 * self.scale)
            self.projection.write(X, "sign", 0.5 * self.scale, left)
            np.subtract(half, left[:, : right.shape[1]], out=right)
            left += half
            return
        self.projection.write(X, "identity", self.scale ** (1 / self.order), left)
        np.negative(left[:, : right.shape[1]], out=right)
        np.maximum(out, 0, out=out)
        if self.order == 2:
            np.square(out, out=out)

    def _write_single(self, X: Any, out: Array) -> None:
        """Write the neurons of the layout "single", times `scale`: phi(u) for all directions w.

        Here u = w . x is the projection of a row x, and phi(u) = max(u, 0)^b is the activation of order b. If the map
        has a constant, each neuron is multiplied by a random sign, and the constant is added to the result.
        """
        self.projection.write(X, NEURON[self.order], self.scale if self.order else 0.5 * self.scale, out)
        if self.order == 0:
            out += 0.5 * self.scale
        if self.signs_of_neurons is not None and self.constant is not None:
            out *= self.signs_of_neurons
            out += self.constant
