"""Classification losses: values, gradients and curvatures, and the sums of values and gradients over rows.

For a block of rows, `LossTerm` computes values and gradients. Features are computed in tiles of a few rows that stay in
cache, or read from a cache of the features of all rows.
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
from mercer.io.archive import storable
from mercer.statistics.feature_cache import RowFeatures

__all__ = ["Logistic", "LossSum", "LossTerm", "Problem", "SquaredHinge"]

Array = np.ndarray


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
    def curvatures(self, F: Array, codes: Array) -> Array:
        """Return the second derivatives of the loss of each row with respect to each of its decision values (n, K)."""

    @abstractmethod
    def best_constant(self, shares: Array) -> Array:
        """Return the decision values (K,), the same for all rows, of the least mean loss.

        `shares` (L,) are the fractions of the rows, by weight, that have each of the L labels. All are positive.
        """


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

    def curvatures(self, F: Array, codes: Array) -> Array:  # noqa: ARG002, the same for every label
        if F.shape[1] == 1:
            return special.expit(F) * special.expit(-F)
        P = softmax(F)
        return P * (1 - P)

    def best_constant(self, shares: Array) -> Array:
        logs = np.log(shares)
        return logs[1:] - logs[0] if len(shares) == 2 else logs - logs.mean()


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

    def curvatures(self, F: Array, codes: Array) -> Array:
        return 2.0 * (label_signs(codes, n_labels(F)) * F < 1)

    def best_constant(self, shares: Array) -> Array:
        return (2 * shares - 1)[-1:] if len(shares) == 2 else 2 * shares - 1


@dataclass(frozen=True)
class Problem:
    """The problem that a classifier solves: features of rows, loss, labels, and a weight for each label."""

    features: RowFeatures
    loss: Loss
    labels: Array  # (L,), sorted; rows of other labels must have no weight
    label_weight: Array  # (L,)
    in_double: bool = False  # whether to compute products in float64 even if the features are float32

    @property
    def columns(self) -> int:
        """Return the number of decision values of each row: 1 for two labels, otherwise the number of labels."""
        return 1 if len(self.labels) == 2 else len(self.labels)

    def tiles(self, block: Block) -> Iterator[tuple[Array, Array, Array]]:
        """Yield triples for a few rows of a block at a time: features, label codes, weights."""
        for rows, Z in self.features.tiles(block):
            codes = label_codes(block.y[rows], self.labels)
            weight = self.label_weight[codes]
            if block.weight is not None:
                weight = weight * block.weight[rows]
            yield (Z.astype(np.float64, copy=False) if self.in_double else Z), codes, weight


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
        coef = self.coef[:-1]
        for Z, codes, weight in self.problem.tiles(block):
            coef = coef.astype(Z.dtype, copy=False)
            # Products are computed in the dtype of the features, and everything else in float64.
            losses, slopes = self.problem.loss.value_and_slopes(Z @ coef + self.coef[-1], codes)
            slopes *= weight[:, None]
            values += weight @ losses
            gradient[:-1] += Z.T @ slopes.astype(Z.dtype, copy=False)
            gradient[-1] += slopes.sum(axis=0)
        return LossSum(values, gradient)
