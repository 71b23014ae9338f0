"""Drawn products of projections: columns whose inner products estimate powers of an inner product."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from mercer import linalg
from mercer.maps.series.inputs import PreparedRows
from mercer.theory.products import ProjectionName

__all__ = [
    "ColumnProducts",
    "ComplexProducts",
    "DenseProducts",
    "HadamardProducts",
    "SummedProducts",
    "draw_products",
    "pairing",
]

Array = np.ndarray


class ColumnProducts(Protocol):
    """Columns that are products of projections of prepared rows."""

    @property
    def n_components(self) -> int:
        """Return the number of columns."""

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the columns of prepared rows, times the factors of the rows."""


def _rademacher(d: int, m: int, rng: np.random.Generator) -> Array:
    return rng.integers(0, 2, (d, m), dtype=np.int8) * 2.0 - 1.0


def _gaussian(d: int, m: int, rng: np.random.Generator) -> Array:
    return rng.standard_normal((d, m))


def _sphere(d: int, m: int, rng: np.random.Generator) -> Array:
    normals = rng.standard_normal((d, m))
    return normals * (np.sqrt(d) / np.linalg.norm(normals, axis=0))


#: Weights (d, m), one vector a column, of mean zero and identity covariance.
WEIGHTS: dict[str, Callable[[int, int, np.random.Generator], Array]] = {
    "rademacher": _rademacher,
    "gaussian": _gaussian,
    "sphere": _sphere,
}


@dataclass(frozen=True, eq=False)
class DenseProducts:
    """Products of projections on dense weights; columns of higher degree stand first, so factors shrink."""

    weights: tuple[Array, ...]  # factor j has weights (d, columns of degree above j), the first one scaled
    constants: Array  # columns of degree zero, at the end

    @classmethod
    def draw(cls, projection: str, d: int, degrees: Array, scales: Array, rng: np.random.Generator) -> DenseProducts:
        """Draw columns of given degrees, highest first, each times a scale."""
        sizes = [int((degrees > j).sum()) for j in range(int(degrees.max(initial=0)))]
        weights = [WEIGHTS[projection](d, size, rng) for size in sizes]
        if weights:
            weights[0] = weights[0] * scales[: sizes[0]]
        return cls(tuple(weights), scales[sizes[0] if sizes else 0 :])

    @property
    def n_components(self) -> int:
        return len(self.constants) + (self.weights[0].shape[1] if self.weights else 0)

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(
            self, weights=tuple(w.astype(dtype) for w in self.weights), constants=self.constants.astype(dtype)
        )

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the columns of prepared rows."""
        out[:, out.shape[1] - len(self.constants) :] = self.constants
        if rows.prefactor is not None:
            out[:, out.shape[1] - len(self.constants) :] *= rows.prefactor[:, None]
        for j, weights in enumerate(self.weights):
            rows.project(weights, out[:, : weights.shape[1]], first=j == 0)


@dataclass(frozen=True, eq=False)
class ComplexProducts:
    """Products of projections on weights +-1 and +-i, written as real and imaginary parts (Wacker et al. 2022).

    Where a complex column has only one real column, that is its real part times the root of two.
    """

    weights: tuple[tuple[Array, Array], ...]  # real and imaginary weights of each factor, shrinking
    constants: Array  # complex columns of degree zero
    imaginary: Array  # the complex columns whose imaginary part is written, too

    @classmethod
    def draw(cls, d: int, degrees: Array, scales: Array, paired: Array, rng: np.random.Generator) -> ComplexProducts:
        """Draw complex columns of given degrees, highest first; the real part of an unpaired one stands alone."""
        sizes = [int((degrees > j).sum()) for j in range(int(degrees.max(initial=0)))]
        weights = []
        for size in sizes:
            quarter = rng.integers(0, 4, (d, size), dtype=np.int8)
            weights.append(((quarter == 0) * 1.0 - (quarter == 2), (quarter == 1) * 1.0 - (quarter == 3)))
        scales = np.where(paired | (degrees == 0), scales, np.sqrt(2) * scales)
        if weights:
            weights[0] = (weights[0][0] * scales[: sizes[0]], weights[0][1] * scales[: sizes[0]])
        return cls(tuple(weights), scales[sizes[0] if sizes else 0 :], np.flatnonzero(paired))

    @property
    def n_components(self) -> int:
        columns = len(self.constants) + (self.weights[0][0].shape[1] if self.weights else 0)
        return columns + len(self.imaginary)

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        weights = tuple((re.astype(dtype), im.astype(dtype)) for re, im in self.weights)
        return replace(self, weights=weights, constants=self.constants.astype(dtype))

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write real parts first, then imaginary parts."""
        columns = self.n_components - len(self.imaginary)
        product = np.zeros((rows.shape[0], columns), np.result_type(out.dtype, np.complex64))
        product[:, columns - len(self.constants) :] = self.constants
        if rows.prefactor is not None:
            product[:, columns - len(self.constants) :] *= rows.prefactor[:, None]
        for j, (re, im) in enumerate(self.weights):
            factor = np.empty((rows.shape[0], re.shape[1]), product.dtype)
            for weights, half in ((re, factor.real), (im, factor.imag)):
                part = np.empty(half.shape, out.dtype)
                rows.project(weights, part, first=True) if j == 0 else _project_plain(rows, weights, part)
                half[:] = part
            if j == 0:
                product[:, : re.shape[1]] = factor
            else:
                product[:, : re.shape[1]] *= factor
        out[:, :columns] = product.real
        out[:, columns:] = product.imag[:, self.imaginary]


def _project_plain(rows: PreparedRows, weights: Array, out: Array) -> None:
    """Write products with weights, without the factors of the rows, which belong to the first projection only."""
    out[:] = 1
    rows.project(weights, out, first=False)


@dataclass(frozen=True, eq=False)
class HadamardProducts:
    """Products of one degree of rows of sign-Hadamard matrices: O(log d) operations a projection, no weights.

    Each factor has signs and an order of the rows of its own, so that every column by itself is a product of
    independent Rademacher projections.
    """

    signs: Array  # (degree, blocks, 1, P)
    order: Array  # (degree, columns)
    scale: float

    @classmethod
    def draw(cls, d: int, degree: int, columns: int, scale: float, rng: np.random.Generator) -> HadamardProducts:
        """Draw columns of one degree, each times a scale."""
        width = 1 << (d - 1).bit_length()
        blocks = -(-columns // width)
        signs = rng.choice(np.array([-1.0, 1.0]), size=(degree, blocks, 1, width))
        order = (
            rng.permuted(np.tile(np.arange(width), (degree, blocks, 1)), axis=2) + width * np.arange(blocks)[:, None]
        )
        # The kernels project on unit vectors; weights have squared length P.
        return cls(signs, order.reshape(degree, -1)[:, :columns], scale)

    @property
    def n_components(self) -> int:
        return self.order.shape[1]

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, signs=self.signs.astype(dtype))

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the columns of prepared rows."""
        _, blocks, _, width = self.signs.shape
        projections = np.empty((rows.shape[0], blocks * width), out.dtype)
        for j, (signs, order) in enumerate(zip(self.signs, self.order, strict=True)):
            X = np.ascontiguousarray(rows.with_prefactor if j == 0 else rows.dense)
            factor = np.sqrt(width) * (self.scale if j == 0 else 1.0)
            linalg.sign_hadamard(X, signs, projections, scale=factor)
            chosen = projections[:, order]
            np.copyto(out, chosen) if j == 0 else np.multiply(out, chosen, out=out)


@dataclass(frozen=True, eq=False)
class SummedProducts:
    """Columns that each sum products of several degrees."""

    terms: tuple[ColumnProducts, ...]

    @property
    def n_components(self) -> int:
        return self.terms[0].n_components

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, terms=tuple(term.astype(dtype) for term in self.terms))

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the columns of prepared rows."""
        self.terms[0](rows, out)
        term_columns = np.empty_like(out)
        for term in self.terms[1:]:
            term(rows, term_columns)
            out += term_columns


def pairing(projection: ProjectionName, m: int) -> tuple[Array, Array]:
    """Return which columns are real and imaginary parts of one, and the share of each in an estimate by m columns."""
    halves = projection == "complex"
    paired = np.full(-(-m // 2) if halves else m, halves)
    if halves and m % 2:
        paired[-1] = False
    return paired, np.where(paired, 2.0, 1.0) / m


def draw_products(
    projection: ProjectionName, d: int, degrees: Array, scales: Array, paired: Array, rng: np.random.Generator
) -> ColumnProducts:
    """Draw columns of given degrees, highest first, each times a scale; see `pairing`.

    Rows of Hadamard matrices serve columns of one degree only: beside them, "srht" takes random signs.
    """
    if projection == "complex":
        return ComplexProducts.draw(d, degrees, scales, paired, rng)
    return DenseProducts.draw("rademacher" if projection == "srht" else projection, d, degrees, scales, rng)
