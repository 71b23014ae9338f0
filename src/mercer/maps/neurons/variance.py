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
    """Variances over one random direction w, for all pairs of rows, with u = w . x and v = w . y.

    The direction is uniform on the sphere of radius `expansion.radius`, phi is the activation max(., 0)^b and p its odd
    or even part.
    """

    parity: Array  # variance of p(u) p(v)
    pair: Array  # variance of phi(u) phi(v) + phi(-u) phi(-v)
    single: Array  # variance of phi(u) phi(v)
    sum_of_two: Array  # mean of (phi(u) + phi(v))^2

    @classmethod
    def of(cls, order: int, X: Any, Y: Any, d: int) -> NeuronVariances:
        """Return the variances of neurons of order b for all pairs of rows with `d` features."""
        kernel = ArcCosine(order)
        k, x, y = kernel(X, Y), kernel.diag(X)[:, None], kernel.diag(Y)[None, :]
        _, lengths = unit_rows(X)
        _, others = unit_rows(Y)
        zero = (lengths[:, None] == 0) | (others[None, :] == 0)
        # Gaussian weights have E[(uv)^2b; uv > 0] = k_2b, the kernel of order 2b. Weights of the fixed norm have
        # (E chi^2b)^2 / E chi^4b times this value.
        chi = [1.0]
        for i in range(2 * order):
            chi.append(chi[-1] * (d + 2 * i))
        factor = chi[order] ** 2 / chi[2 * order]
        same = factor * arc_cosine_values(2 * order, X, Y)
        if order == 0:
            same = np.where(zero, 0.25, same)  # for a row of zeros, both steps are one half
        every = np.where(zero, 0.0, factor * even_moment(order, X, Y))
        mean = 2 * k - 2 * polynomial_part(order, X, Y)
        single = 0.5 * same
        if order == 0:
            # The step at zero is one half and its square one quarter, independent of the other step.
            halves = np.where(lengths == 0, 0.25, 0.5)[:, None] * np.where(others == 0, 0.25, 0.5)[None, :]
            single = np.where(zero, halves, single)
            x, y = np.where(lengths == 0, 0.5, 1.0)[:, None], np.where(others == 0, 0.5, 1.0)[None, :]
        return cls(every - np.square(mean), same - np.square(k), single - np.square(0.5 * k), 0.5 * x + 0.5 * y + k)


def polynomial_part(order: int, X: Any, Y: Any) -> Array:
    """Return the polynomial in the inner product that the parity layout represents exactly."""
    t, lengths = inner_products(X, Y), np.outer(squared_norms(X), squared_norms(Y))
    return (0.5 + 0 * t, 0.5 * t, 0.5 * lengths + np.square(t))[order]


def even_moment(order: int, X: Any, Y: Any) -> Array:
    """Return E (uv)^2b for Gaussian weights."""
    t2, lengths = np.square(inner_products(X, Y)), np.outer(squared_norms(X), squared_norms(Y))
    return (1 + 0 * t2, lengths + 2 * t2, 9 * lengths**2 + 72 * lengths * t2 + 24 * t2**2)[order]
