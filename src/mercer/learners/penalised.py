"""The function that classifiers of a loss minimise: losses summed over the rows of an engine, and a penalty."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from mercer.engines import Engine
from mercer.learners.losses import CurvatureTerm, LossTerm, Problem

__all__ = ["Penalised"]

Array = np.ndarray


@dataclass(frozen=True)
class Penalised:
    """C times the sum of the losses over the rows of an engine, plus half the squared coefficients."""

    engine: Engine
    problem: Problem
    C: float
    fit_intercept: bool
    tell: Callable[[float | None], None]  # called after each pass, with the value if it was one

    @property
    def separable(self) -> bool:
        return self.problem.loss.separable

    def values_and_gradient(self, W: Array) -> tuple[Array, Array]:
        total = self.engine.sum(LossTerm(self.problem, W))
        squares = np.square(W[:-1]).sum(axis=0)
        values = self.C * total.values + 0.5 * (squares if self.separable else squares.sum())
        self.tell(float(values.sum()))
        return values, self._with_penalty(total.gradient, W)

    def curvature(self, W: Array, V: Array) -> Array:
        total = self.engine.sum(CurvatureTerm(self.problem, W, V))
        self.tell(None)
        return self._with_penalty(total.product, V)

    def _with_penalty(self, total: Array, W: Array) -> Array:
        total = self.C * total
        total[:-1] += W[:-1]
        if not self.fit_intercept:
            total[-1] = 0.0
        return total
