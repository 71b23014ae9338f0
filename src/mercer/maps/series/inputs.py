"""Affine preprocessing of the rows before a power series of their inner products is approximated.

A kernel is a sum of parts s(x) s(y) f(z(x) . z(y)), where f is a power series, z is an affine input map and
s(x) = exp(-decay |z(x)|^2 / 2) is a prefactor for each row. `Preparation` computes z and s for a block of rows. The
modules `monomials` and `projection_products` compute components from the resulting `PreparedRows`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer import linalg
from mercer.kernels.base import squared_norms
from mercer.kernels.power_series import SeriesPart
from mercer.kernels.spectral import Affine
from mercer.maps.fourier.projections import FUSED_UP_TO
from mercer.theory.products import ScaledPairs

__all__ = ["Preparation", "PreparedRows", "compose_affine"]

Array = np.ndarray


def compose_affine(inputs: tuple[Affine, ...], d: int) -> tuple[Array, Array, Array]:
    """Return the composition of affine input maps, the first of which is applied first, for rows with `d` features.

    Returns
    -------
    columns, scale, shift : ndarrays of equal length
        The composition is ``x -> x[columns] * scale - shift``.
    """
    columns, scale, shift = np.arange(d), np.ones(d), np.zeros(d)
    for affine in inputs:
        if affine.columns is not None:
            chosen = list(affine.columns)
            columns, scale, shift = columns[chosen], scale[chosen], shift[chosen]
        if affine.center is not None:
            shift = shift + np.asarray(affine.center)
        if affine.lengthscales is not None:
            scale, shift = scale / np.asarray(affine.lengthscales), shift / np.asarray(affine.lengthscales)
    return columns, scale, shift


def compose_matrix(inputs: tuple[Affine, ...], d: int) -> tuple[Array, Array]:
    """Return the composition of affine input maps, of which some have a matrix, for rows with `d` features.

    Returns
    -------
    matrix : ndarray of shape (d, r)
    shift : ndarray of shape (r,)
        The composition is ``x -> x @ matrix - shift``.
    """
    ends = np.vstack([np.zeros((1, d)), np.eye(d)])
    for affine in inputs:
        ends = replace(affine, spacing=None)(ends)
    return ends[1:] - ends[0], -ends[0]


@dataclass(frozen=True, eq=False)
class Preparation:
    """The affine map z = x[columns] * scale - shift with the prefactor exp(-decay |z|^2 / 2).

    If `columns`, `scale` or `shift` is None, this step of the map is skipped. With a matrix, z = x @ matrix - shift.
    """

    columns: Array | None
    scale: Array | None
    shift: Array | None
    decay: float
    matrix: Array | None = None

    @classmethod
    def of(cls, part: SeriesPart, X: Any, weight: Array | None) -> Preparation:
        """Return the preparation of rows for `part`, a part s(x) s(y) f(z(x) . z(y)) of the kernel.

        If the part depends on x - y only and has a decay, z(x) is shifted so that its mean over the rows of `X` is
        zero. The mean is weighted by `weight`; None means equal weights.
        """
        d, centers = X.shape[1], part.shift_invariant and part.decay > 0
        share = np.full(X.shape[0], 1 / X.shape[0]) if weight is None else weight / weight.sum()
        if any(affine.matrix is not None for affine in part.inputs):
            matrix, shift = compose_matrix(part.inputs, d)
            shift = np.asarray(share @ X, dtype=float).ravel() @ matrix if centers else shift
            return cls(None, None, shift if shift.any() else None, part.decay, matrix)
        columns, scale, shift = compose_affine(part.inputs, d)
        if centers:
            # The power series is centered at the origin and needs fewer terms for rows close to it.
            shift = np.asarray(share @ X, dtype=float).ravel()[columns] * scale
        return cls(
            columns if len(columns) < d or (columns != np.arange(d)).any() else None,
            scale if (scale != 1).any() else None,
            shift if shift.any() else None,
            part.decay,
        )

    def width(self, d: int) -> int:
        """Return the number of columns of the prepared rows, if the input rows have `d` columns."""
        if self.matrix is not None:
            return self.matrix.shape[1]
        return d if self.columns is None else len(self.columns)

    def astype(self, dtype: Any) -> Self:
        """Return the same preparation with scale, shift and matrix converted to `dtype`, the dtype of the rows."""
        arrays = (self.scale, self.shift, self.matrix)
        scale, shift, matrix = (None if values is None else values.astype(dtype) for values in arrays)
        return replace(self, scale=scale, shift=shift, matrix=matrix)

    def __call__(self, X: Any) -> PreparedRows:
        """Return the prepared rows z of a block of rows.

        Sparse rows stay sparse, unless there is a matrix: their shift is stored in the result instead of subtracted.
        """
        if self.matrix is not None:
            X = np.asarray(X @ self.matrix)
        if self.columns is not None:
            X = X[:, self.columns]
        if sp.issparse(X):
            X = X.tocsr()
            X = X if self.scale is None else (X @ sp.diags_array(self.scale)).tocsr()
            return PreparedRows(X, self.shift, self.decay)
        if self.scale is not None:
            X = X * self.scale
        if self.shift is not None:
            X = X - self.shift
        return PreparedRows(np.ascontiguousarray(X), None, self.decay)


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """A block of rows after the affine input map, z = rows - shift, with prefactors exp(-decay |z|^2 / 2)."""

    rows: Any  # (n, width), dense, or CSR with the shift not yet subtracted
    shift: Array | None  # None means zero
    decay: float

    @property
    def shape(self) -> tuple[int, int]:
        return self.rows.shape

    @property
    def dtype(self) -> np.dtype:
        return self.rows.dtype

    @cached_property
    def squared_norms(self) -> Array:
        """Squared Euclidean norms |z|^2 of the prepared rows, in their dtype."""
        squares = squared_norms(self.rows)
        if self.shift is None:
            return squares
        return np.maximum(squares - 2 * (self.rows @ self.shift) + self.shift @ self.shift, 0)

    @cached_property
    def prefactor(self) -> Array | None:
        """Prefactor exp(-decay |z|^2 / 2) of each row, or None if all prefactors are one."""
        return None if self.decay == 0 else np.exp(self.log_prefactor)

    @property
    def log_prefactor(self) -> Array:
        """Logarithm -decay |z|^2 / 2 of the prefactor of each row."""
        with np.errstate(over="ignore", invalid="ignore"):
            return -0.5 * self.decay * self.squared_norms if self.decay else np.zeros(self.shape[0], self.dtype)

    @cached_property
    def dense(self) -> Array:
        """The prepared rows z as a dense array, with the shift subtracted and without prefactors."""
        if not sp.issparse(self.rows):
            return self.rows
        rows = self.rows.toarray()
        return rows if self.shift is None else rows - self.shift

    @cached_property
    def with_prefactor(self) -> Array:
        """The prepared rows z as a dense array, each multiplied by its prefactor."""
        return self.dense if self.prefactor is None else self.dense * self.prefactor[:, None]

    def pairs(self, other: PreparedRows) -> ScaledPairs:
        """Return, in float64, all pairs of a row z of this block and a row of `other`, with their prefactors.

        Sparse rows without a shift are not converted to dense arrays.
        """
        left, right = (self.rows, other.rows) if self.shift is None else (self.dense, other.dense)
        return ScaledPairs.all_of(left, right, self.log_prefactor, other.log_prefactor)

    def project(self, weights: Array, out: Array, *, first: bool) -> None:
        """Write the projections ``z @ weights`` into `out`, or multiply `out` by them.

        With `first`, `out` is set to the projections times the prefactors of the rows. Otherwise `out` is multiplied by
        the projections without prefactors. So a product of several projections includes the prefactor of a row once.
        """
        if sp.issparse(self.rows):
            product = self.rows @ weights
            if self.shift is not None:
                product -= self.shift @ weights
            if first and self.prefactor is not None:
                product *= self.prefactor[:, None]
            np.multiply(out, product, out=out) if not first else np.copyto(out, product)
            return
        rows = self.with_prefactor if first else self.rows
        if rows.shape[1] <= FUSED_UP_TO and linalg.instruction_set() != "numpy":
            linalg.dense(rows, weights, out, product=not first)
        elif first:
            np.matmul(rows, weights, out=out)
        else:
            out *= rows @ weights
