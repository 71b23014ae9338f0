"""Degree plans as values: which columns of a map stand for which terms of a series, and the error to expect.

A term of degree n can have exact columns (every monomial, no error), a number of sketched columns of that degree, or
share columns whose degree is itself drawn at random, or that sum over degrees.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

__all__ = ["DegreeLaw", "Plan", "Stratum"]

Array = np.ndarray


@dataclass(frozen=True)
class DegreeLaw:
    """The law of a random degree: a table of chances, and a geometric law beyond its end."""

    degrees: Array
    chances: Array
    base: float = 2.0  # beyond the table, each degree is this much less likely than the one before
    rest: float = 0.0  # chance of a degree beyond the table

    @classmethod
    def geometric(cls, p: float, start: int) -> DegreeLaw:
        """Return P[N = n] = (p - 1) / p^(n - start + 1) for n >= start: the source's, normalized (MATHS S0.7)."""
        return cls(np.array([start - 1]), np.array([0.0]), p, 1.0)

    def chance(self, n: Array) -> Array:
        """Return P[N = n]."""
        n = np.asarray(n)
        last = int(self.degrees[-1])
        table = np.zeros(last + 1 if last >= 0 else 1)
        if last >= 0:
            table[self.degrees] = self.chances
        beyond = self.rest * (self.base - 1) * self.base ** -np.maximum(n - last, 1).astype(float)
        return np.where(n > last, beyond, table[np.clip(n, 0, len(table) - 1)])

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Draw degrees."""
        further = self.degrees[-1] + rng.geometric(1 - 1 / self.base, size)
        if self.rest >= 1:
            return further
        table = rng.choice(self.degrees, size, p=self.chances / self.chances.sum())
        return np.where(rng.random(size) < self.rest, further, table)


@dataclass(frozen=True)
class Stratum:
    """Some columns of a map and what they stand for."""

    part: int
    kind: Literal["exact", "sketched", "random", "summed"]
    degrees: tuple[int, ...]  # all degrees that the columns stand for; of a random one, those that matter
    columns: int
    law: DegreeLaw | None = None
    #: Mean over sampled pairs of the squared error that these columns add.
    squared_error: float = 0.0
    #: Of an anchored series: which of its terms the columns stand for; a random one draws among these.
    terms: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """How many columns stand for which degrees of the series, and the error that is to be expected.

    Attributes
    ----------
    strata : tuple of Stratum
        Exact ones first. The columns of a series stand in this order, but its drawn ones by falling degree.
    n_components : int
        Width of the output; columns that no stratum needs stay zero.
    truncation : float
        Root mean square over sampled pairs of the terms left out: a bias; zero for an unbiased plan.
    truncation_bound : float
        Largest absolute value of the terms left out, for rows no longer than the longest of the sample.
    scale : float
        Root mean square of the kernel over the sampled pairs.
    """

    name: str
    strata: tuple[Stratum, ...]
    n_components: int
    truncation: float = 0.0
    truncation_bound: float = 0.0
    scale: float = 1.0

    @property
    def columns_used(self) -> int:
        """Columns that stand for something."""
        return sum(stratum.columns for stratum in self.strata)

    @property
    def predicted_deviation(self) -> float:
        """Root of the mean variance over sampled pairs."""
        return math.sqrt(sum(s.squared_error for s in self.strata))

    @property
    def predicted_rmse(self) -> float:
        """Root mean square error over draws and sampled pairs: variance and bias."""
        return math.hypot(self.predicted_deviation, self.truncation)

    @property
    def predicted_relative_error(self) -> float:
        """Predicted root mean square error in units of the root mean square of the kernel."""
        return self.predicted_rmse / self.scale if self.scale > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain values."""
        return {
            "plan": self.name,
            "n_components": self.n_components,
            "columns_used": self.columns_used,
            "predicted_rmse": self.predicted_rmse,
            "predicted_relative_error": self.predicted_relative_error,
            "truncation": self.truncation,
            "truncation_bound": self.truncation_bound,
            "strata": [
                {
                    "part": s.part,
                    "degrees": list(s.degrees),
                    "kind": s.kind,
                    "columns": s.columns,
                    "predicted_rmse": math.sqrt(s.squared_error),
                }
                for s in self.strata
            ],
        }

    def __str__(self) -> str:
        several = len({s.part for s in self.strata}) > 1
        lines = [f"{'part  ' if several else ''}degree      columns  kind      predicted error"]
        for s in self.strata:
            degree = f"{s.degrees[0]}" if len(s.degrees) == 1 else f"{s.degrees[0]} to {s.degrees[-1]}"
            if s.kind == "random" and s.law is not None and s.law.rest:
                degree = f"{s.degrees[0]} and up"
            part = f"{s.part:>4}  " if several else ""
            lines.append(f"{part}{degree:<10}{s.columns:>9}  {s.kind:<9}{math.sqrt(s.squared_error):>16.3g}")
        lines.append(
            f"{'      ' if several else ''}all       {self.columns_used:>9}  {self.name:<9}{self.predicted_rmse:>16.3g}"
            f"  ({self.predicted_relative_error:.3g} of the kernel)"
        )
        if self.truncation_bound > 0:
            lines.append(
                f"bias by the terms left out: {self.truncation:.3g} on average, at most {self.truncation_bound:.3g}; "
                f"standard deviation of the rest: {self.predicted_deviation:.3g}"
            )
        return "\n".join(lines)
