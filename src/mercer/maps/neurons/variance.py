"""Closed-form variances of random neurons with independent directions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.kernels import ArcCosine
from mercer.kernels.arc_cosine import arc_cosine_values, unit_rows
from mercer.kernels.base import inner_products, squared_norms

__all__ = ["NeuronVariances"]

Array = np.ndarray


@dataclass(frozen=True)
class NeuronVariances:
    """Variances of products of neurons over one random direction w, with u = w . x and v = w . y for rows x and y.

    The direction is uniform on the sphere of radius `expansion.radius`, phi(u) = max(u, 0)^b is the activation of order
    b, and p(u) is sgn u, |u| or u|u| for b = 0, 1 or 2. Entry (i, j) of each array is for row i of X and row j of Y.
    """

    parity: Array  # variance of p(u) p(v)
    pair: Array  # variance of phi(u) phi(v) + phi(-u) phi(-v)
    single: Array  # variance of phi(u) phi(v)
    sum_of_two: Array  # mean of (phi(u) + phi(v))^2

    @classmethod
    def of(cls, order: int, X: Any, Y: Any, d: int) -> NeuronVariances:
        """Return the variances of neurons of order `order`, for all pairs of rows of `X` and `Y` with `d` columns."""
        kernel = ArcCosine(order)
        if order == 0:  # the kernel does not depend on the lengths of rows, whose squares may overflow
            X, Y = unit_rows(X)[0], unit_rows(Y)[0]
        k, x, y = kernel(X, Y), kernel.diag(X)[:, None], kernel.diag(Y)[None, :]
        _, lengths = unit_rows(X)
        _, others = unit_rows(Y)
        zero = (lengths[:, None] == 0) | (others[None, :] == 0)
        # For Gaussian weights, the mean of (uv)^2b where uv > 0, and zero elsewhere, is the arc-cosine kernel of order
        # 2b. For weights of fixed norm it is this kernel times (E chi^2b)^2 / E chi^4b.
        chi = [1.0]
        for i in range(2 * order):
            chi.append(chi[-1] * (d + 2 * i))
        factor = chi[order] ** 2 / chi[2 * order]
        same = factor * arc_cosine_values(2 * order, X, Y)
        if order == 0:
            same = np.where(zero, 0.25, same)  # for a row of zeros, u = 0 and phi(u) = phi(-u) = 1/2
        every = np.where(zero, 0.0, factor * even_moment(order, X, Y))
        mean = 2 * k - 2 * polynomial_part(order, X, Y)
        single = 0.5 * same
        if order == 0:
            # For a row of zeros phi(u) is the constant 1/2; for any other row phi(u)^2 has mean 1/2.
            halves = np.where(lengths == 0, 0.25, 0.5)[:, None] * np.where(others == 0, 0.25, 0.5)[None, :]
            single = np.where(zero, halves, single)
            x, y = np.where(lengths == 0, 0.5, 1.0)[:, None], np.where(others == 0, 0.5, 1.0)[None, :]
        return cls(every - np.square(mean), same - np.square(k), single - np.square(0.5 * k), 0.5 * x + 0.5 * y + k)


def polynomial_part(order: int, X: Any, Y: Any) -> Array:
    """Return 1/2, x . y / 2 or |x|^2 |y|^2 / 2 + (x . y)^2 for order 0, 1 or 2: the exact part of the parity layout."""
    t, lengths = inner_products(X, Y), np.outer(squared_norms(X), squared_norms(Y))
    return (0.5 + 0 * t, 0.5 * t, 0.5 * lengths + np.square(t))[order]


def even_moment(order: int, X: Any, Y: Any) -> Array:
    """Return E[(uv)^2b] for all pairs of rows x, y, with u = w . x, v = w . y, standard normal w and the order b."""
    t2, lengths = np.square(inner_products(X, Y)), np.outer(squared_norms(X), squared_norms(Y))
    return (1 + 0 * t2, lengths + 2 * t2, 9 * lengths**2 + 72 * lengths * t2 + 24 * t2**2)[order]
