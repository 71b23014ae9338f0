"""The function that classifiers of a loss minimize: losses summed over the rows of an engine, and a penalty."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.engines import Engine
from mercer.engines.passes import Passes
from mercer.solvers.losses.losses import CurvatureTerm, LossTerm, Problem

__all__ = ["Penalized"]

Array = np.ndarray


@dataclass(frozen=True)
class Penalized:
    """C times the sum of the losses over the rows of an engine, plus half the squared coefficients."""

    engine: Engine
    problem: Problem
    C: float
    fit_intercept: bool
    passes: Passes
    rows: int = 0  # of a pass
    weight: float = 1.0  # of all rows, for the mean loss that is told

    @property
    def separable(self) -> bool:
        return self.problem.loss.separable

    def values_and_gradient(self, W: Array) -> tuple[Array, Array]:
        total = self.engine.sum(LossTerm(self.problem, W), self.passes.within)
        squares = np.square(W[:-1]).sum(axis=0)
        values = self.C * total.values + 0.5 * (squares if self.separable else squares.sum())
        self.passes.done(self.rows, f"loss {float(values.sum()) / (self.C * self.weight):.6g}")
        return values, self._with_penalty(total.gradient, W)

    def curvature(self, W: Array, V: Array) -> Array:
        total = self.engine.sum(CurvatureTerm(self.problem, W, V), self.passes.within)
        self.passes.done(self.rows)
        return self._with_penalty(total.product, V)

    def _with_penalty(self, total: Array, W: Array) -> Array:
        total = self.C * total
        total[:-1] += W[:-1]
        if not self.fit_intercept:
            total[-1] = 0.0
        return total
