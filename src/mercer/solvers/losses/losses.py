"""Classification losses: value, gradient and Hessian products, and their sums over rows.

For a block of rows, `LossTerm` computes values and gradients, and `CurvatureTerm` computes products of the Hessian with
a direction. Features are computed in tiles of a few rows that stay in cache, and are not stored. Products are computed
in float64 for rows of any dtype: near the minimum, a gradient is the small difference of large sums.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy import special

from mercer.data.targets import label_codes, label_signs
from mercer.engines import Block
from mercer.features import Features, features_of
from mercer.io.archive import storable

__all__ = ["CurvatureSum", "CurvatureTerm", "Logistic", "LossSum", "LossTerm", "Problem", "SquaredHinge"]

Array = np.ndarray
# A tile of features of this size stays in the cache of a core while it is multiplied from both sides.
TILE_BYTES = 2**21


class Loss(ABC):
    """A convex loss of a row, as a function of its decision values and its label.

    Decision values `F` have shape (n, K), with one column per label. For two labels there is a single column, K = 1,
    whose values are positive for the second label. `codes` (n,) holds the index of the label of each row.
    """

    #: Whether the loss is a sum over the columns of the decision values, so that the columns are separate problems.
    separable: ClassVar[bool]

    @abstractmethod
    def value_and_slopes(self, F: Array, codes: Array) -> tuple[Array, Array]:
        """Return the loss of each row (n, c) and its derivatives with respect to the decision values (n, K).

        If the loss is separable, c = K, with one value per column. Otherwise c = 1.
        """

    @abstractmethod
    def curved(self, F: Array, codes: Array, V: Array) -> Array:
        """Return H_i v_i for each row i, (n, K), where v_i are the rows of V.

        H_i is the Hessian (K, K) of the loss of row i with respect to its decision values.
        """

    @abstractmethod
    def curvatures(self, F: Array, codes: Array) -> Array:
        """Return the second derivatives of the loss of each row with respect to each of its decision values (n, K)."""


@dataclass(frozen=True)
class Logistic(Loss):
    """The logarithmic loss -log p(label), where p is the logistic function for two labels and the softmax for more."""

    separable = False

    def value_and_slopes(self, F: Array, codes: Array) -> tuple[Array, Array]:
        if F.shape[1] == 1:
            signs = label_signs(codes, 2)
            margins = signs * F
            return np.logaddexp(0.0, -margins), -signs * special.expit(-margins)
        rows = np.arange(len(F))
        top = F.max(axis=1)
        slopes = np.exp(F - top[:, None])
        total = slopes.sum(axis=1)
        slopes /= total[:, None]
        values = np.log(total) + (top - F[rows, codes])
        # p - 1 for the label of the row, as minus the sum of the others: no cancellation where p is near one.
        slopes[rows, codes] = 0.0
        slopes[rows, codes] = -slopes.sum(axis=1)
        return values[:, None], slopes

    def curved(self, F: Array, codes: Array, V: Array) -> Array:
        if F.shape[1] == 1:
            return self.curvatures(F, codes) * V
        P = softmax(F)
        return P * (V - np.einsum("ij,ij->i", P, V)[:, None])

    def curvatures(self, F: Array, codes: Array) -> Array:  # noqa: ARG002, the same for every label
        if F.shape[1] == 1:
            return special.expit(F) * special.expit(-F)
        P = softmax(F)
        return P * (1 - P)


def n_labels(F: Array) -> int:
    """Return the number of labels, given decision values `F`: 2 if `F` has one column, else its number of columns."""
    return max(2, F.shape[1])


def softmax(F: Array) -> Array:
    """Return the softmax of decision values, without the overhead of SciPy on tiles of few rows."""
    P = np.exp(F - F.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    return P


@dataclass(frozen=True)
class SquaredHinge(Loss):
    """The squared hinge loss max(0, 1 - s f)^2 of each column, with s = 1 for its label and s = -1 for all others."""

    separable = True

    def value_and_slopes(self, F: Array, codes: Array) -> tuple[Array, Array]:
        signs = label_signs(codes, n_labels(F))
        missing = np.maximum(1 - signs * F, 0.0)
        return np.square(missing), -2 * signs * missing

    def curved(self, F: Array, codes: Array, V: Array) -> Array:
        return self.curvatures(F, codes) * V

    def curvatures(self, F: Array, codes: Array) -> Array:
        return 2.0 * (label_signs(codes, n_labels(F)) * F < 1)


@dataclass(frozen=True)
class Problem:
    """The problem that a classifier solves: features of rows, loss, labels, and a weight for each label."""

    features: Features
    loss: Loss
    labels: Array  # (L,), sorted; rows of other labels must have no weight
    label_weight: Array  # (L,)

    @property
    def columns(self) -> int:
        """Return the number of decision values of each row: 1 for two labels, otherwise the number of labels."""
        return 1 if len(self.labels) == 2 else len(self.labels)

    def tiles(self, block: Block) -> Iterator[tuple[Array, Array, Array]]:
        """Yield triples for a few rows of a block at a time: features in float64, label codes, weights."""
        features = self.features.astype(block.X.dtype)
        step = max(16, TILE_BYTES // (8 * features.n_components))
        for start in range(0, len(block), step):
            rows = slice(start, start + step)
            codes = label_codes(block.y[rows], self.labels)
            weight = self.label_weight[codes]
            if block.weight is not None:
                weight = weight * block.weight[rows]
            yield features_of(features, block.X[rows]).astype(np.float64, copy=False), codes, weight


@storable
@dataclass(frozen=True)
class LossSum:
    """The values and the gradient of a loss, summed over rows of data.

    The gradient has D rows for the coefficients, and a last row for the intercept.
    """

    values: Array  # (c,): one per column if the loss is separable, otherwise one
    gradient: Array  # (D + 1, K)

    def __add__(self, other: LossSum) -> LossSum:
        return LossSum(self.values + other.values, self.gradient + other.gradient)


@dataclass(frozen=True)
class LossTerm:
    """Function of a block of rows that returns its `LossSum`: value and gradient of the loss at `coef`."""

    problem: Problem
    coef: Array  # (D + 1, K), whose last row is the intercept

    def __call__(self, block: Block) -> LossSum:
        columns = self.coef.shape[1] if self.problem.loss.separable else 1
        values, gradient = np.zeros(columns), np.zeros_like(self.coef)
        for Z, codes, weight in self.problem.tiles(block):
            losses, slopes = self.problem.loss.value_and_slopes(Z @ self.coef[:-1] + self.coef[-1], codes)
            slopes *= weight[:, None]
            values += weight @ losses
            gradient[:-1] += Z.T @ slopes
            gradient[-1] += slopes.sum(axis=0)
        return LossSum(values, gradient)


@storable
@dataclass(frozen=True)
class CurvatureSum:
    """The product of the Hessian of a loss with a direction, where the loss is summed over rows of data.

    The product has the shape (D + 1, K) of the direction: D rows for the coefficients, and a last row for the
    intercept.
    """

    product: Array  # (D + 1, K)

    def __add__(self, other: CurvatureSum) -> CurvatureSum:
        return CurvatureSum(self.product + other.product)


@dataclass(frozen=True)
class CurvatureTerm:
    """Function of a block of rows that returns its `CurvatureSum`: the Hessian at `coef` times `direction`."""

    problem: Problem
    coef: Array  # (D + 1, K), whose last row is the intercept
    direction: Array  # (D + 1, K)

    def __call__(self, block: Block) -> CurvatureSum:
        K = self.coef.shape[1]
        both = np.hstack([self.coef, self.direction])  # one product instead of two
        total = np.zeros_like(self.coef)
        for Z, codes, weight in self.problem.tiles(block):
            values = Z @ both[:-1] + both[-1]
            curved = self.problem.loss.curved(values[:, :K], codes, values[:, K:]) * weight[:, None]
            total[:-1] += Z.T @ curved
            total[-1] += curved.sum(axis=0)
        return CurvatureSum(total)
