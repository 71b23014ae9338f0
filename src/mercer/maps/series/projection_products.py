r"""Random components for powers of the inner product: products of random projections.

If :math:`w_1, \dots, w_n` are independent with mean zero and identity covariance, then
:math:`z(x) = \prod_{j \le n} w_j^\top x` satisfies :math:`\mathbb{E}[z(x) z(y)] = (x^\top y)^n` (Kar and Karnick 2012,
Random Feature Maps for Dot Product Kernels, AISTATS). For complex weights, :math:`z(y)` is conjugated, and the real and
the imaginary part of z are two real components. The classes differ in the distribution of the weights. The module
`mercer.theory.products` has the variances, and the module `monomials` has the exact components. "Prepared rows" are
rows after an affine map, with a prefactor for each row; see the module `inputs`.
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
    """Interface of components that are products of random projections of prepared rows."""

    @property
    def n_components(self) -> int:
        """Return the number of real components."""

    def astype(self, dtype: Any) -> Self:
        """Return the same components with the random weights converted to `dtype`, the dtype of the rows."""

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the components of prepared rows, times the prefactors of the rows, into `out`."""


def _rademacher(d: int, m: int, rng: np.random.Generator) -> Array:
    """Return a (d, m) matrix of independent random signs."""
    return rng.integers(0, 2, (d, m), dtype=np.int8) * 2.0 - 1.0


def _gaussian(d: int, m: int, rng: np.random.Generator) -> Array:
    """Return a (d, m) matrix of independent standard normal numbers."""
    return rng.standard_normal((d, m))


def _sphere(d: int, m: int, rng: np.random.Generator) -> Array:
    """Return a (d, m) matrix whose columns are independent and uniform on the sphere of radius sqrt(d)."""
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

    A component of degree n is a scale times the product of the factors w_j . x for j = 0, ..., n - 1. Because of the
    order, the components that have a factor j come first, so that one matrix product computes factor j for all of them.
    """

    # For each factor j, a matrix of shape (d, number of components of degree > j); that of j = 0 includes the scales.
    weights: tuple[Array, ...]
    constants: Array  # values of the components of degree zero, which are the last ones

    @classmethod
    def draw(cls, projection: str, d: int, degrees: Array, scales: Array, rng: np.random.Generator) -> DenseProducts:
        """Sample one component for each entry of `degrees`, which must be in decreasing order.

        Each component is multiplied by its entry of `scales`.
        """
        sizes = [int((degrees > j).sum()) for j in range(int(degrees.max(initial=0)))]
        weights = [WEIGHTS[projection](d, size, rng) for size in sizes]
        if weights:
            weights[0] = weights[0] * scales[: sizes[0]]
        return cls(tuple(weights), scales[sizes[0] if sizes else 0 :])

    @property
    def n_components(self) -> int:
        return len(self.constants) + (self.weights[0].shape[1] if self.weights else 0)

    def astype(self, dtype: Any) -> Self:
        """Return the same components with the random weights converted to `dtype`, the dtype of the rows."""
        return replace(
            self, weights=tuple(w.astype(dtype) for w in self.weights), constants=self.constants.astype(dtype)
        )

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the components of prepared rows, times the prefactors of the rows, into `out`."""
        write_constants(self.constants, rows, out)
        for j, weights in enumerate(self.weights):
            rows.project(weights, out[:, : weights.shape[1]], first=j == 0)


@dataclass(frozen=True, eq=False)
class ComplexProducts:
    """Real and imaginary parts of products of projections on complex weights from {1, -1, i, -i} [1]_.

    A complex product z gives either two real components, Re z and Im z, or one, sqrt(2) Re z. The products are in order
    of decreasing degree.

    References
    ----------
    .. [1] Wacker, Kanagawa, Filippone (2022), Improved Random Features for Dot Product Kernels, arXiv:2201.08712.
    """

    # For each factor j, real and imaginary parts of the weights, of shape (d, number of products of degree > j); those
    # of j = 0 include the scales.
    weights: tuple[tuple[Array, Array], ...]
    constants: Array  # values of the products of degree zero, which are the last ones
    imaginary: Array  # indices of the products whose imaginary part is a component

    @classmethod
    def draw(cls, d: int, degrees: Array, scales: Array, paired: Array, rng: np.random.Generator) -> ComplexProducts:
        """Sample one complex product for each entry of `degrees`, which must be in decreasing order.

        Each product is multiplied by its entry of `scales`. `paired` is True for the products that give two components,
        the real and the imaginary part, and False for those that give only the real part.
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
        """Number of complex products."""
        return len(self.constants) + (self.weights[0][0].shape[1] if self.weights else 0)

    def astype(self, dtype: Any) -> Self:
        """Return the same components with the random weights converted to `dtype`, the dtype of the rows."""
        weights = tuple((re.astype(dtype), im.astype(dtype)) for re, im in self.weights)
        return replace(self, weights=weights, constants=self.constants.astype(dtype))

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the real parts of all products into `out`, then the imaginary parts of those with two components."""
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
    """Write the components of degree zero, which are constants times the prefactors, into the last columns of `out`."""
    start = out.shape[1] - len(constants)
    out[:, start:] = constants
    if rows.prefactor is not None:
        out[:, start:] *= rows.prefactor[:, None]


def _project_plain(rows: PreparedRows, weights: Array, out: Array) -> None:
    """Set `out` to the projections of the rows on the weights, without the prefactors of the rows."""
    out[:] = 1
    rows.project(weights, out, first=False)


@dataclass(frozen=True, eq=False)
class HadamardProducts:
    """Products of projections on rows of sign-Hadamard matrices, all of one degree [1]_.

    A sign-Hadamard matrix is a P x P Hadamard matrix times a diagonal matrix of random signs, where P is the least
    power of two with P >= d. A projection takes O(log d) operations instead of O(d), and only signs and indices are
    stored. The components are split into groups of P. In each group, factor j of all P products is given by one
    sign-Hadamard matrix with randomly permuted rows. So each component by itself is a product of independent Rademacher
    projections, but the components of the same group depend on each other.

    References
    ----------
    .. [1] Hamid, Xiao, Gittens, DeCoste (2014), Compact Random Feature Maps, ICML.
    """

    signs: Array  # (degree, blocks, 1, P): diagonals of signs
    order: Array  # (degree, n_components): for each factor and component, the index of its projection
    scale: float  # every component is multiplied by this number

    @classmethod
    def draw(cls, d: int, degree: int, m: int, scale: float, rng: np.random.Generator) -> HadamardProducts:
        """Sample m components of one degree for rows with `d` features, each multiplied by `scale`."""
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
        """Return the same components with the random weights converted to `dtype`, the dtype of the rows."""
        return replace(self, signs=self.signs.astype(dtype))

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the components of prepared rows, times the prefactors of the rows, into `out`."""
        _, blocks, _, width = self.signs.shape
        projections = np.empty((rows.shape[0], blocks * width), out.dtype)
        for j, (signs, order) in enumerate(zip(self.signs, self.order, strict=True)):
            X = np.ascontiguousarray(rows.with_prefactor if j == 0 else rows.dense)
            # `sign_hadamard` projects on unit vectors, but weight vectors of signs have the norm sqrt(P).
            factor = np.sqrt(width) * (self.scale if j == 0 else 1.0)
            linalg.sign_hadamard(X, signs, projections, scale=factor)
            chosen = projections[:, order]
            np.copyto(out, chosen) if j == 0 else np.multiply(out, chosen, out=out)


@dataclass(frozen=True, eq=False)
class SummedProducts:
    """Components that are sums over several degrees. Component i is the sum over n of the i-th product of degree n."""

    terms: tuple[ProjectionProducts, ...]  # products of one degree each, equally many for all degrees

    @property
    def n_components(self) -> int:
        return self.terms[0].n_components

    def astype(self, dtype: Any) -> Self:
        """Return the same components with the random weights converted to `dtype`, the dtype of the rows."""
        return replace(self, terms=tuple(term.astype(dtype) for term in self.terms))

    def __call__(self, rows: PreparedRows, out: Array) -> None:
        """Write the components of prepared rows, times the prefactors of the rows, into `out`."""
        self.terms[0](rows, out)
        values = np.empty_like(out)
        for term in self.terms[1:]:
            term(rows, values)
            out += values


def pairing(projection: ProjectionName, m: int) -> tuple[Array, Array]:
    """Return, for each of the products of random projections that give m real components, its kind and its weight.

    With complex weights, a product gives two real components, its real and its imaginary part. If m is odd, only the
    real part of the last product is used. With any other projection, a product gives one component.

    Returns
    -------
    paired : ndarray of bool of shape (n_products,)
        Whether a product gives two components, its real and its imaginary part.
    share : ndarray of float of shape (n_products,)
        Weight of each product in the average over the m components: 2 / m if it gives two components, else 1 / m. The
        weights sum to one.
    """
    halves = projection == "complex"
    paired = np.full(-(-m // 2) if halves else m, halves)
    if halves and m % 2:
        paired[-1] = False
    return paired, np.where(paired, 2.0, 1.0) / m


def draw_products(
    projection: ProjectionName, d: int, degrees: Array, scales: Array, paired: Array, rng: np.random.Generator
) -> ProjectionProducts:
    """Sample products of random projections, for prepared rows with `d` columns.

    Parameters
    ----------
    projection : str
        Distribution of the weights. "srht" is treated as "rademacher" here, because Hadamard matrices require products
        of equal degree.
    d : int
        Number of columns of the prepared rows.
    degrees : ndarray of int of shape (n_products,)
        Degree of each product, in decreasing order.
    scales : ndarray of shape (n_products,)
        Number that each product is multiplied by.
    paired : ndarray of bool of shape (n_products,)
        For "complex": whether a product gives two components, its real and its imaginary part, or only the real part.
    rng : Generator
        Source of random numbers.
    """
    if projection == "complex":
        return ComplexProducts.draw(d, degrees, scales, paired, rng)
    return DenseProducts.draw("rademacher" if projection == "srht" else projection, d, degrees, scales, rng)
