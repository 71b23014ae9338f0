"""Degree plans: the number and kind of components for each term of a power series, with the predicted error.

A term of degree n can have exact components (all monomials of the degree), sketched components (random components of
that degree), or share components with other terms, which have a random degree or sum over all degrees. `allocation`
chooses the plan, `components` draws it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

__all__ = ["DegreeDistribution", "Plan", "Stratum"]

Array = np.ndarray


@dataclass(frozen=True)
class DegreeDistribution:
    """Distribution of a random degree N: a table of probabilities with a geometric tail beyond the last entry.

    For n > L, the last degree of the table, P[N = n] = tail * (base - 1) / base^(n - L).
    """

    degrees: Array  # ascending
    probabilities: Array  # of the degrees in the table
    base: float = 2.0  # ratio of the probabilities of successive degrees in the tail
    tail: float = 0.0  # total probability of the degrees beyond the table

    @classmethod
    def geometric(cls, p: float, start: int) -> DegreeDistribution:
        """Return the geometric distribution P[N = n] = (p - 1) / p^(n - start + 1) for n >= start.

        Kar and Karnick (2012, AISTATS) use 1 / p^(n + 1), which is normalized only for p = 2.
        """
        return cls(np.array([start - 1]), np.array([0.0]), p, 1.0)

    def probability(self, n: Array) -> Array:
        """Return P[N = n]."""
        n = np.asarray(n)
        last = int(self.degrees[-1])
        table = np.zeros(last + 1 if last >= 0 else 1)
        if last >= 0:
            table[self.degrees] = self.probabilities
        beyond = self.tail * (self.base - 1) * self.base ** -np.maximum(n - last, 1).astype(float)
        return np.where(n > last, beyond, table[np.clip(n, 0, len(table) - 1)])

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Draw independent degrees."""
        further = self.degrees[-1] + rng.geometric(1 - 1 / self.base, size)
        if self.tail >= 1:
            return further
        table = rng.choice(self.degrees, size, p=self.probabilities / self.probabilities.sum())
        return np.where(rng.random(size) < self.tail, further, table)


@dataclass(frozen=True)
class Stratum:
    """A group of components of a map and the terms of the series that they represent."""

    part: int  # index of the power series, for a kernel that is a sum of several
    kind: Literal["exact", "sketched", "random", "summed"]
    degrees: tuple[int, ...]  # degrees of the terms; for a random degree, those that are significant
    n_components: int
    distribution: DegreeDistribution | None = None  # of the random degree, or of the random term if `terms` is given
    #: Mean over sampled pairs of the squared error due to these components.
    squared_error: float = 0.0
    #: Indices of the represented terms, for a series expanded about a direction.
    terms: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Assignment of components to the terms of a series, with the predicted error.

    Attributes
    ----------
    name : str
        Name of the plan.
    strata : tuple of Stratum
        Groups of components, exact ones first. The components of a series are in this order, except that random ones
        are sorted by decreasing degree.
    n_components : int
        Number of components of the map. Components that no stratum uses are zero.
    truncation : float
        Root mean square over sampled pairs of the omitted terms, which is a bias. Zero for an unbiased plan.
    truncation_bound : float
        Largest absolute value of the sum of the omitted terms, for rows with norms up to the largest of the sample.
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
    def n_components_used(self) -> int:
        """Number of components that represent a term."""
        return sum(stratum.n_components for stratum in self.strata)

    @property
    def predicted_deviation(self) -> float:
        """Square root of the mean variance over sampled pairs."""
        return math.sqrt(sum(s.squared_error for s in self.strata))

    @property
    def predicted_rmse(self) -> float:
        """Root mean square error over draws and sampled pairs, from variance and bias."""
        return math.hypot(self.predicted_deviation, self.truncation)

    @property
    def predicted_relative_error(self) -> float:
        """Predicted root mean square error relative to the root mean square of the kernel."""
        return self.predicted_rmse / self.scale if self.scale > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as a dictionary of built-in types."""
        return {
            "plan": self.name,
            "n_components": self.n_components,
            "n_components_used": self.n_components_used,
            "predicted_rmse": self.predicted_rmse,
            "predicted_relative_error": self.predicted_relative_error,
            "truncation": self.truncation,
            "truncation_bound": self.truncation_bound,
            "strata": [
                {
                    "part": s.part,
                    "degrees": list(s.degrees),
                    "kind": s.kind,
                    "n_components": s.n_components,
                    "predicted_rmse": math.sqrt(s.squared_error),
                }
                for s in self.strata
            ],
        }

    def __str__(self) -> str:
        several = len({s.part for s in self.strata}) > 1
        lines = [f"{'part  ' if several else ''}degree   components  kind      predicted error"]
        for s in self.strata:
            degree = f"{s.degrees[0]}" if len(s.degrees) == 1 else f"{s.degrees[0]} to {s.degrees[-1]}"
            if s.kind == "random" and s.distribution is not None and s.distribution.tail:
                degree = f"{s.degrees[0]} and up"
            part = f"{s.part:>4}  " if several else ""
            lines.append(f"{part}{degree:<10}{s.n_components:>9}  {s.kind:<9}{math.sqrt(s.squared_error):>16.3g}")
        lines.append(
            f"{'      ' if several else ''}all       {self.n_components_used:>9}  {self.name:<9}"
            f"{self.predicted_rmse:>16.3g}  ({self.predicted_relative_error:.3g} of the kernel)"
        )
        if self.truncation_bound > 0:
            lines.append(
                f"bias due to omitted terms: {self.truncation:.3g} on average, at most {self.truncation_bound:.3g}; "
                f"standard deviation of the rest: {self.predicted_deviation:.3g}"
            )
        return "\n".join(lines)
