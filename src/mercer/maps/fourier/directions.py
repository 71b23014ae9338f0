"""Dense directions of frequencies: unit vectors that are independent, orthogonal, or of low discrepancy.

A frequency is a radius times a direction. A map is unbiased if each single direction is uniformly distributed on a
sphere, whatever their joint distribution. With orthogonal directions its variance is smaller (Yu et al. 2016).
The sphere may be that of R^P for any P >= d: the first d coordinates of a uniform direction of R^P, times a radius from
the chi distribution with P degrees of freedom, are N(0, I_d).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy import special
from scipy.stats import qmc

from mercer.errors import ParameterError
from mercer.maps.fourier.projections import STRUCTURED_DIRECTIONS

__all__ = [
    "DENSE_DIRECTIONS",
    "DIRECTIONS",
    "Directions",
    "haar",
    "simplex_products",
    "sobol_normals",
]

Array = np.ndarray

SOBOL_BITS = 52
SOBOL_MAX_DIMENSION = 21201


@dataclass(frozen=True)
class Directions:
    """Matrix whose rows are the first d coordinates of unit vectors of R^ambient."""

    vectors: Array  # (m, d)
    ambient: int
    blocks: tuple[int, ...]  # sizes of groups of orthogonal directions, or of vertices of one simplex


def iid(m: int, d: int, rng: np.random.Generator) -> Directions:
    """Return m independent directions, uniform on the unit sphere of R^d."""
    vectors = rng.standard_normal((m, d))
    return Directions(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), d, (1,) * m)


def orthogonal(m: int, d: int, rng: np.random.Generator) -> Directions:
    """Return m directions of R^d: independent groups of d orthonormal directions each (Yu et al. 2016).

    The last group has fewer than d directions if m is not a multiple of d.
    """
    sizes = tuple(min(d, m - start) for start in range(0, m, d))
    return Directions(np.concatenate([haar(d, size, rng).T for size in sizes]), d, sizes)


def big_block(m: int, d: int, rng: np.random.Generator) -> Directions:
    """Return the first d coordinates of m orthonormal directions of R^m.

    For m < d, return m orthonormal directions of R^d.
    """
    if m < d:
        return Directions(haar(d, m, rng).T, d, (m,))
    return Directions(haar(m, d, rng), m, (m,))


def simplex(m: int, d: int, rng: np.random.Generator) -> Directions:
    """Return m directions of R^d in groups, each of which is the d + 1 vertices of a regular simplex.

    Each group has its own random rotation. The last group has fewer vertices if m is not a multiple of d + 1.
    """
    sizes = tuple(min(d + 1, m - start) for start in range(0, m, d + 1))
    vectors = [simplex_products(haar(d, d, rng))[:, :size].T for size in sizes]
    return Directions(np.concatenate(vectors), d, sizes)


def simplex_products(X: Array) -> Array:
    """Return the inner products (n, d + 1) of rows (n, d) with the vertices of a regular simplex, in O(n d).

    The first j coordinates of vertex j are -c_0, ..., -c_(j-1), the next is (d - j) c_j, and the others are zero
    (Munkhoeva et al. 2018), so that one running sum of c_i x_i is enough for all vertices.
    """
    d = X.shape[1]
    i = np.arange(d)
    scaled = X * np.sqrt((d + 1) / (d * (d - i) * (d - i + 1.0)))
    before = np.concatenate([np.zeros((len(X), 1)), np.cumsum(scaled, axis=1)], axis=1)
    products = -before
    products[:, :d] += (d - i) * scaled
    return products


DENSE_DIRECTIONS: dict[str, Callable[[int, int, np.random.Generator], Directions]] = {
    "iid": iid,
    "orthogonal": orthogonal,
    "big_block": big_block,
    "simplex": simplex,
}
#: Values of the parameter `directions` of maps, besides "auto".
DIRECTIONS = (*DENSE_DIRECTIONS, "sobol", *STRUCTURED_DIRECTIONS)


def haar(n: int, d: int, rng: np.random.Generator) -> Array:
    """Return d <= n columns (n, d) of a random n x n orthogonal matrix with the uniform (Haar) distribution."""
    normals = rng.standard_normal((n, d))
    if n >= 2 * d:
        # Q = N R^-1 with R'R = N'N, by matrix products only. A tall normal matrix is well conditioned (here below 6),
        # so no digits are lost, and R has the positive diagonal that makes Q uniform.
        factor = np.linalg.cholesky(normals.T @ normals)
        return scipy.linalg.solve_triangular(factor, normals.T, lower=True, overwrite_b=True).T
    q, r = np.linalg.qr(normals)
    # LAPACK chooses the signs of R in its own way; only with a positive diagonal is Q uniform.
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)


def sobol_normals(m: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return standard normal numbers (m, d) and uniform numbers (m,), made from m scrambled Sobol points.

    The points have d + 1 coordinates. The normal quantile function is applied to the first d. The last one is returned
    as it is.
    """
    if d + 1 > SOBOL_MAX_DIMENSION:
        msg = (
            f"directions='sobol' takes rows of at most {SOBOL_MAX_DIMENSION - 1} features, got {d}. "
            "Try directions='orthogonal': Sobol points pay off in low dimension only."
        )
        raise ParameterError(msg)
    engine = qmc.Sobol(d + 1, scramble=True, bits=SOBOL_BITS, rng=rng)
    # A power of two points keeps the set balanced; the midpoint of a cell keeps the quantiles finite.
    points = engine.random_base2(int(np.ceil(np.log2(max(m, 1)))))[:m] + 0.5 ** (SOBOL_BITS + 1)
    return special.ndtri(points[:, :d]), points[:, d]
