"""Directions of frequencies: rows of unit vectors, independent, orthogonal, or of low discrepancy.

A frequency is a radius times a direction. For an exact map the law of each single direction must be uniform on a
sphere; how the directions of one map lean on each other is free, and orthogonal ones waste less (MATHS C.2).
Padding is free too: the first d coordinates of a uniform direction of R^P, times a chi_P radius, are N(0, I_d).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import special
from scipy.stats import qmc

from mercer.errors import ParameterError

__all__ = ["DENSE_DIRECTIONS", "DIRECTIONS", "Directions", "haar", "hadamard_signs", "sobol_normals"]

Array = np.ndarray

# Products of signs and a Hadamard matrix: three make the directions of one block nearly uniform.
HADAMARD_FACTORS = 3
SOBOL_BITS = 52
SOBOL_MAX_DIMENSION = 21201


@dataclass(frozen=True)
class Directions:
    """Rows that are the first d coordinates of unit vectors of R^ambient."""

    vectors: Array  # (m, d)
    ambient: int
    blocks: tuple[int, ...]  # sizes of the groups of mutually orthogonal directions


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


DENSE_DIRECTIONS: dict[str, Callable[[int, int, np.random.Generator], Directions]] = {
    "iid": iid,
    "orthogonal": orthogonal,
    "big_block": big_block,
}
#: Every name that a map takes: the dense ones, Sobol points, and sign-Hadamard products.
DIRECTIONS = (*DENSE_DIRECTIONS, "sobol", "hadamard")


def haar(n: int, d: int, rng: np.random.Generator) -> Array:
    """Return d <= n columns of a uniformly distributed n x n orthogonal matrix."""
    q, r = np.linalg.qr(rng.standard_normal((n, d)))
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
