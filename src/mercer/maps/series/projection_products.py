r"""Random components for powers of the inner product: products of random projections.

If :math:`w_1, \dots, w_n` are independent with mean zero and identity covariance, then
:math:`z(x) = \prod_{j \le n} w_j^\top x` satisfies :math:`\mathbb{E}[z(x) z(y)] = (x^\top y)^n` (Kar and Karnick 2012,
Random Feature Maps for Dot Product Kernels, AISTATS). The classes differ in the distribution of the weights;
`mercer.theory.products` has the variances. `components` and `polynomial_sketch` draw these products, `monomials` has
the exact components.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from mercer import linalg
from mercer.maps.series.inputs import PreparedRows
from mercer.theory.products import ProjectionName

__all__ = [
    "ComplexProducts",
    "DenseProducts",
    "HadamardProducts",
    "ProjectionProducts",
    "SummedProducts",
    "draw_products",
    "pairing",
]

Array = np.ndarray


class ProjectionProducts(Protocol):
    """Interface of components that are products of projections of prepared rows."""

    @property
    def n_components(self) -> int:
        """Return the number of real components."""

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the components of prepared rows, times the prefactors of the rows."""


def _rademacher(d: int, m: int, rng: np.random.Generator) -> Array:
    return rng.integers(0, 2, (d, m), dtype=np.int8) * 2.0 - 1.0


def _gaussian(d: int, m: int, rng: np.random.Generator) -> Array:
    return rng.standard_normal((d, m))


def _sphere(d: int, m: int, rng: np.random.Generator) -> Array:
    normals = rng.standard_normal((d, m))
    return normals * (np.sqrt(d) / np.linalg.norm(normals, axis=0))


#: Functions that draw a (d, m) matrix of m independent weight vectors with mean zero and identity covariance.
WEIGHTS: dict[str, Callable[[int, int, np.random.Generator], Array]] = {
    "rademacher": _rademacher,
    "gaussian": _gaussian,
    "sphere": _sphere,
}


@dataclass(frozen=True, eq=False)
class DenseProducts:
    """Products of projections on dense real weights, in order of decreasing degree.

    In this order the components with a factor j are always the first ones, so that each factor is one matrix product.
    """

    weights: tuple[Array, ...]  # factor j: (d, number of components of degree > j); the first includes the scales
    constants: Array  # components of degree zero, which are the last ones

    @classmethod
    def draw(cls, projection: str, d: int, degrees: Array, scales: Array, rng: np.random.Generator) -> DenseProducts:
        """Draw one component for each of the degrees, which decrease, and multiply it by its scale."""
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
        """Write the components of prepared rows, times the prefactors of the rows."""
        write_constants(self.constants, rows, out)
        for j, weights in enumerate(self.weights):
            rows.project(weights, out[:, : weights.shape[1]], first=j == 0)


@dataclass(frozen=True, eq=False)
class ComplexProducts:
    """Products of projections on complex weights from {1, -1, i, -i}, as real and imaginary parts [1]_.

    A complex component has two real ones, its real and its imaginary part, or only one, its real part times the square
    root of two.

    References
    ----------
    .. [1] Wacker, Kanagawa, Filippone (2022), Improved Random Features for Dot Product Kernels, arXiv:2201.08712.
    """

    weights: tuple[tuple[Array, Array], ...]  # real and imaginary weights of each factor, as in `DenseProducts`
    constants: Array  # complex components of degree zero
    imaginary: Array  # indices of the complex components whose imaginary part is written

    @classmethod
    def draw(cls, d: int, degrees: Array, scales: Array, paired: Array, rng: np.random.Generator) -> ComplexProducts:
        """Draw one complex component for each of the degrees, which decrease, and multiply it by its scale.

        `paired` is True for the components that have an imaginary part besides their real part.
        """
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
        return self._n_complex + len(self.imaginary)

    @property
    def _n_complex(self) -> int:
        return len(self.constants) + (self.weights[0][0].shape[1] if self.weights else 0)

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        weights = tuple((re.astype(dtype), im.astype(dtype)) for re, im in self.weights)
        return replace(self, weights=weights, constants=self.constants.astype(dtype))

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the real parts of all complex components, followed by the imaginary parts."""
        product = np.zeros((rows.shape[0], self._n_complex), np.result_type(out.dtype, np.complex64))
        write_constants(self.constants, rows, product)
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
        out[:, : self._n_complex] = product.real
        out[:, self._n_complex :] = product.imag[:, self.imaginary]


def write_constants(constants: Array, rows: PreparedRows, out: Array) -> None:
    """Write components of degree zero, times the prefactors of the rows, at the end of `out`."""
    start = out.shape[1] - len(constants)
    out[:, start:] = constants
    if rows.prefactor is not None:
        out[:, start:] *= rows.prefactor[:, None]


def _project_plain(rows: PreparedRows, weights: Array, out: Array) -> None:
    """Write projections without the prefactors of the rows, which only the first projection of a product has."""
    out[:] = 1
    rows.project(weights, out, first=False)


@dataclass(frozen=True, eq=False)
class HadamardProducts:
    """Products of projections on rows of sign-Hadamard matrices, all of one degree [1]_.

    A projection takes O(log d) operations instead of O(d), and no weights are stored. Every factor has its own signs
    and its own permutation of the rows, so that each component by itself is a product of independent Rademacher
    projections. Components of the same block depend on each other.

    References
    ----------
    .. [1] Hamid, Xiao, Gittens, DeCoste (2014), Compact Random Feature Maps, ICML.
    """

    signs: Array  # (degree, blocks, 1, P), with P the power of two at or above d
    order: Array  # (degree, n_components): which projection each component takes
    scale: float

    @classmethod
    def draw(cls, d: int, degree: int, m: int, scale: float, rng: np.random.Generator) -> HadamardProducts:
        """Draw m components of one degree, each multiplied by `scale`."""
        width = 1 << (d - 1).bit_length()
        blocks = -(-m // width)
        signs = rng.choice(np.array([-1.0, 1.0]), size=(degree, blocks, 1, width))
        order = (
            rng.permuted(np.tile(np.arange(width), (degree, blocks, 1)), axis=2) + width * np.arange(blocks)[:, None]
        )
        return cls(signs, order.reshape(degree, -1)[:, :m], scale)

    @property
    def n_components(self) -> int:
        return self.order.shape[1]

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, signs=self.signs.astype(dtype))

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the components of prepared rows, times the prefactors of the rows."""
        _, blocks, _, width = self.signs.shape
        projections = np.empty((rows.shape[0], blocks * width), out.dtype)
        for j, (signs, order) in enumerate(zip(self.signs, self.order, strict=True)):
            X = np.ascontiguousarray(rows.with_prefactor if j == 0 else rows.dense)
            # `sign_hadamard` projects on unit vectors, but weights with identity covariance have squared norm P.
            factor = np.sqrt(width) * (self.scale if j == 0 else 1.0)
            linalg.sign_hadamard(X, signs, projections, scale=factor)
            chosen = projections[:, order]
            np.copyto(out, chosen) if j == 0 else np.multiply(out, chosen, out=out)


@dataclass(frozen=True, eq=False)
class SummedProducts:
    """Components that are sums of products of several degrees."""

    terms: tuple[ProjectionProducts, ...]  # of equal numbers of components

    @property
    def n_components(self) -> int:
        return self.terms[0].n_components

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, terms=tuple(term.astype(dtype) for term in self.terms))

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the components of prepared rows, times the prefactors of the rows."""
        self.terms[0](rows, out)
        values = np.empty_like(out)
        for term in self.terms[1:]:
            term(rows, values)
            out += values


def pairing(projection: ProjectionName, m: int) -> tuple[Array, Array]:
    """Return how m real components are grouped into draws.

    A complex projection gives a real and an imaginary part for each draw. For odd m, the last draw has only a real
    part. Every other projection gives one component for each draw.

    Returns
    -------
    paired : ndarray of bool
        For each draw, whether it has both a real and an imaginary part.
    share : ndarray of float
        Weight of each draw in the average over the m components; the weights sum to one.
    """
    halves = projection == "complex"
    paired = np.full(-(-m // 2) if halves else m, halves)
    if halves and m % 2:
        paired[-1] = False
    return paired, np.where(paired, 2.0, 1.0) / m


def draw_products(
    projection: ProjectionName, d: int, degrees: Array, scales: Array, paired: Array, rng: np.random.Generator
) -> ProjectionProducts:
    """Draw one product for each of the degrees, which decrease, and multiply it by its scale.

    `paired` is described in `pairing`. Hadamard matrices need components of equal degree, so that "srht" falls back to
    Rademacher weights here.
    """
    if projection == "complex":
        return ComplexProducts.draw(d, degrees, scales, paired, rng)
    return DenseProducts.draw("rademacher" if projection == "srht" else projection, d, degrees, scales, rng)
