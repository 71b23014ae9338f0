"""Radii of frequencies: uniform numbers, plain or stratified, and the chi law that they are quantiles of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special

__all__ = ["RADII", "chi_quantile"]


def plain(m: int, rng: np.random.Generator) -> np.ndarray:
    """Independent uniform numbers."""
    return rng.random(m)


def stratified(m: int, rng: np.random.Generator) -> np.ndarray:
    """One uniform number in each of m equal cells, in random order: each is uniform, together they are even."""
    return (rng.permutation(m) + rng.random(m)) / max(m, 1)


RADII: dict[str, Callable[[int, np.random.Generator], np.ndarray]] = {"plain": plain, "stratified": stratified}


def chi_quantile(uniforms: np.ndarray, degrees: int) -> np.ndarray:
    """Quantiles of the length of a standard normal vector of R^degrees."""
    return np.sqrt(2 * special.gammaincinv(0.5 * degrees, uniforms))
