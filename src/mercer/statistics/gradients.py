"""Sums of outer products of gradients of functions at rows, from which a metric is learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.engines import Block
from mercer.features import RowGradients
from mercer.io import storable

__all__ = ["GradientProducts", "SumGradientProducts"]

Array = np.ndarray
# Number of entries of the matrices that are computed at a time: few enough to be still in cache when they are used.
SLICE_ENTRIES = 2**19


@storable
@dataclass(frozen=True)
class GradientProducts:
    """Weighted sum over rows of the outer products g g' of the gradients g of one or several functions."""

    rows: int
    weight: float  # sum of w
    products: Array  # (d, d), sum of w g g' over rows and functions; or (d,), only its diagonal

    def __add__(self, other: GradientProducts) -> GradientProducts:
        return GradientProducts(self.rows + other.rows, self.weight + other.weight, self.products + other.products)

    @property
    def mean(self) -> Array:
        """The average outer product of the gradients, or its diagonal."""
        return self.products / self.weight if self.weight > 0 else self.products


@dataclass(frozen=True, eq=False)
class SumGradientProducts:
    """Function of a block of rows that returns their `GradientProducts`.

    Parameters
    ----------
    gradients : RowGradients
        Picklable function of rows that yields the gradients of one function after the other.
    width : int
        Number of columns of the matrices that `gradients` computes, for the number of rows at a time.
    diagonal : bool, default=False
        Whether only the squares of the gradients are summed, which takes no d x d matrix.
    """

    gradients: RowGradients
    width: int
    diagonal: bool = False

    def __call__(self, block: Block) -> GradientProducts:
        n, d = block.X.shape
        weight = np.ones(n) if block.weight is None else block.weight
        products = np.zeros(d if self.diagonal else (d, d))
        step = max(16, SLICE_ENTRIES // max(self.width, d))
        for i in range(0, n, step):
            rows = slice(i, i + step)
            w = weight[rows]
            for gradient in self.gradients(block.X[rows]):
                if self.diagonal:
                    products += w @ np.square(gradient)
                else:
                    products += gradient.T @ (w[:, None] * gradient)
        return GradientProducts(n, float(weight.sum()), products)
