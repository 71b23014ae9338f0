"""Directions of frequencies: rows of unit vectors, independent, orthogonal, or of low discrepancy.

A frequency is a radius times a direction. For an exact map the law of each single direction must be uniform on a
sphere; how the directions of one map lean on each other is free, and orthogonal ones waste less (MATHS C.2).
Padding is free too: the first d coordinates of a uniform direction of R^P, times a chi_P radius, are N(0, I_d).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from scipy import special
from scipy.stats import qmc

from mercer.errors import ParameterError

__all__ = [
    "BIASED",
    "DENSE_DIRECTIONS",
    "DIRECTIONS",
    "STRUCTURED_DIRECTIONS",
    "STRUCTURED_FROM",
    "Directions",
    "Rotations",
    "butterfly_rotations",
    "haar",
    "hadamard_signs",
    "simplex_products",
    "sobol_normals",
]

Array = np.ndarray

# Products of signs and a Hadamard matrix: three make the directions of one block nearly uniform.
HADAMARD_FACTORS = 3
# Narrower butterflies cost as much, so rows of fewer columns are padded to this, which lowers the variance.
BUTTERFLY_WIDTH = 64
# Columns of X from which butterflies beat dense projections (benchmarks/transform.py).
STRUCTURED_FROM = 32
SOBOL_BITS = 52
SOBOL_MAX_DIMENSION = 21201


@dataclass(frozen=True)
class Directions:
    """Rows that are the first d coordinates of unit vectors of R^ambient."""

    vectors: Array  # (m, d)
    ambient: int
    blocks: tuple[int, ...]  # sizes of the groups of directions drawn together, orthogonal or vertices of a simplex


def iid(m: int, d: int, rng: np.random.Generator) -> Directions:
    """Independent directions, uniform on the sphere of R^d."""
    vectors = rng.standard_normal((m, d))
    return Directions(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), d, (1,) * m)


def orthogonal(m: int, d: int, rng: np.random.Generator) -> Directions:
    """Independent blocks of d orthonormal directions (Yu et al. 2016); the last block may be cut."""
    sizes = tuple(min(d, m - start) for start in range(0, m, d))
    return Directions(np.concatenate([haar(d, size, rng).T for size in sizes]), d, sizes)


def big_block(m: int, d: int, rng: np.random.Generator) -> Directions:
    """One block of m orthonormal directions of R^m, of which the first d coordinates matter.

    With m < d it is a part of one block of R^d.
    """
    if m < d:
        return Directions(haar(d, m, rng).T, d, (m,))
    return Directions(haar(m, d, rng), m, (m,))


def simplex(m: int, d: int, rng: np.random.Generator) -> Directions:
    """Blocks of the d + 1 vertices of a regular simplex, turned at random; the last block may be cut."""
    sizes = tuple(min(d + 1, m - start) for start in range(0, m, d + 1))
    vectors = [simplex_products(haar(d, d, rng))[:, :size].T for size in sizes]
    return Directions(np.concatenate(vectors), d, sizes)


def source_butterfly(m: int, d: int, rng: np.random.Generator) -> Directions:
    """Blocks of simplex vertices turned by the butterfly matrices of Munkhoeva et al. (2018): not uniform.

    Their angles are those between neighboring coordinates of a uniform direction, and widths that are no power of two
    have truncated factors, mixed by (B P)^3 with one B and one permutation P, as in the authors' code (MATHS S1.13 and
    S1.14).
    """
    sizes = tuple(min(d + 1, m - start) for start in range(0, m, d + 1))
    vectors = []
    for size in sizes:
        matrix = truncated_butterfly(d, rng)
        if d & (d - 1):
            matrix = np.linalg.matrix_power(matrix[:, rng.permutation(d)], 3)
        vectors.append(simplex_products(matrix)[:, :size].T)
    return Directions(np.concatenate(vectors), d, sizes)


def truncated_butterfly(d: int, rng: np.random.Generator) -> Array:
    """Return a butterfly matrix with the source's angles, its factors cut to size d."""
    uniform = rng.standard_normal(d + 1)
    angles = np.arctan2(uniform[:-1], uniform[1:])
    matrix, half, used = np.eye(d), 1, 0
    while half < d:
        factor = np.eye(d)
        for start in range(0, d, 2 * half):
            # A node without all of its second half keeps ones where the partner is cut off.
            first = np.arange(start, min(start + half, d - half)) if start + half < d else np.arange(0)
            c, s = np.cos(angles[used]), np.sin(angles[used])
            factor[first, first] = factor[first + half, first + half] = c
            factor[first, first + half], factor[first + half, first] = -s, s
            used += len(first) > 0
        matrix, half = matrix @ factor, 2 * half
    return matrix


def simplex_products(X: Array) -> Array:
    """Return the inner products (n, d + 1) of rows (n, d) with the vertices of a regular simplex, in O(n d).

    Vertex j has coordinates -c_i before the j-th, (d - j) c_j there, and zeros beyond (MATHS S1.2); so a running sum of
    c_i x_i serves all of them.
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
    "source_butterfly": source_butterfly,
}
#: Families whose single directions are not uniform on the sphere, and why.
BIASED = {
    "hadamard": "sign-Hadamard directions are uniform on the sphere only in the limit of many columns of X",
    "source_butterfly": "the butterfly matrices of the source do not turn directions uniformly: kept to reproduce it",
}
#: Products of sparse factors, applied without ever forming the matrix.
STRUCTURED_DIRECTIONS = ("butterfly", "hadamard")
#: Every name that a map takes.
DIRECTIONS = (*DENSE_DIRECTIONS, "sobol", *STRUCTURED_DIRECTIONS)


def haar(n: int, d: int, rng: np.random.Generator) -> Array:
    """Return d <= n columns of a uniformly distributed n x n orthogonal matrix."""
    normals = rng.standard_normal((n, d))
    if n >= 2 * d:
        # Q = N R^-1 with R'R = N'N: matrix products only. A tall normal matrix is well conditioned (here below 6), so
        # nothing is lost, and R has the positive diagonal that makes Q uniform.
        factor = np.linalg.cholesky(normals.T @ normals)
        return scipy.linalg.solve_triangular(factor, normals.T, lower=True, overwrite_b=True).T
    q, r = np.linalg.qr(normals)
    # LAPACK fixes the signs of R in its own way; only with a positive diagonal is Q uniform.
    return q * np.where(np.diagonal(r) < 0, -1.0, 1.0)


def sobol_normals(m: int, d: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Return scrambled Sobol points as standard normal rows (m, d), and one more coordinate as uniforms (m,)."""
    if d + 1 > SOBOL_MAX_DIMENSION:
        msg = (
            f"directions='sobol' reaches up to {SOBOL_MAX_DIMENSION - 1} columns, got {d}. "
            "Try directions='orthogonal': Sobol points only pay off in low dimension."
        )
        raise ParameterError(msg)
    engine = qmc.Sobol(d + 1, scramble=True, bits=SOBOL_BITS, rng=rng)
    # Whole powers of two keep the balance of the set; the middle of a cell keeps the quantiles finite.
    points = engine.random_base2(int(np.ceil(np.log2(max(m, 1)))))[:m] + 0.5 ** (SOBOL_BITS + 1)
    return special.ndtri(points[:, :d]), points[:, d]


def hadamard_signs(m: int, d: int, rng: np.random.Generator) -> Array:
    """Return random signs (blocks, factors, P) for sign-Hadamard directions, with P the power of two >= d."""
    ambient = 1 << (d - 1).bit_length()
    blocks = -(-m // ambient)
    return rng.choice(np.array([-1, 1], dtype=np.int8), size=(blocks, HADAMARD_FACTORS, ambient))


@dataclass(frozen=True)
class Rotations:
    """Plane rotations of butterfly matrices, level by level: (blocks, P / (2h)) at h = 1, 2, 4, ..., P / 2."""

    cosines: tuple[Array, ...]
    sines: tuple[Array, ...]


def butterfly_rotations(m: int, d: int, rng: np.random.Generator) -> tuple[Array, Rotations]:
    """Return what butterfly directions are made of: signs (2, P), and the rotations of each block.

    A butterfly matrix of size 2h joins two of size h by one rotation. With squared cosines from Beta(h/2, h/2), and a
    uniform angle at h = 1, every column is exactly uniform on the sphere: halves of a uniform direction are independent
    uniform directions, times lengths with just this law. The rows are not uniform, so the transpose is applied to the
    data. Signs and one Hadamard transform mix the columns of the data first; blocks share them, at no cost in variance,
    because given the signs each direction is still uniform (MATHS S1.13).
    """
    widest = 1 << max(0, m.bit_length() - 1)  # the power of two <= m: wider blocks would mostly be cut off
    width = max(1 << (d - 1).bit_length(), min(BUTTERFLY_WIDTH, widest))
    blocks = -(-m // width)
    signs = rng.choice(np.array([-1.0, 1.0]), size=(2, width))
    cosines, sines = [], []
    for level in range(width.bit_length() - 1):
        half = 1 << level
        shape = (blocks, width // (2 * half))
        if level == 0:
            angles = rng.uniform(0, 2 * np.pi, shape)
            cosines.append(np.cos(angles))
            sines.append(np.sin(angles))
        else:
            squares = rng.beta(0.5 * half, 0.5 * half, shape)
            cosines.append(np.sqrt(squares))
            sines.append(np.sqrt(1 - squares))
    if width == 1:
        cosines = sines = [np.zeros((blocks, 0))]
    return signs, Rotations(tuple(cosines), tuple(sines))
