"""The objective of classifiers with a penalized loss: the sum of the losses over the rows, and an L2 penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.engines import Engine
from mercer.engines.passes import Passes
from mercer.solvers.losses.losses import LossTerm, Problem

__all__ = ["Penalized"]

Array = np.ndarray


@dataclass(frozen=True)
class Penalized:
    """The function C sum_i w_i loss_i(W) + |W|^2 / 2 of the coefficients W, summed over the rows i of an engine.

    It implements `mercer.solvers.losses.quasi_newton.Objective`. The intercept, which is the last row of the
    coefficients, is not penalized. Without an intercept, the last row of gradients is zero.
    """

    engine: Engine
    problem: Problem
    C: float
    fit_intercept: bool
    passes: Passes
    rows: int = 0  # number of rows of a pass, for progress reports
    weight: float = 1.0  # total weight of the rows, for the mean loss in progress reports

    @property
    def separable(self) -> bool:
        return self.problem.loss.separable

    def values_and_gradient(self, W: Array) -> tuple[Array, Array]:
        total = self.engine.sum(LossTerm(self.problem, W), self.passes.within)
        squares = np.square(W[:-1]).sum(axis=0)
        values = self.C * total.values + 0.5 * (squares if self.separable else squares.sum())
        self.passes.done(self.rows, f"loss {float(values.sum()) / (self.C * self.weight):.6g}")
        gradient = self.C * total.gradient
        gradient[:-1] += W[:-1]
        if not self.fit_intercept:
            gradient[-1] = 0.0
        return values, gradient
