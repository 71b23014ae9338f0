"""Degree plans: the number and kind of components for each term of a power series, with the predicted error.

A term a_n (x . y)^n can have components of its own, which are "exact" (all monomials of degree n) or "sketched"
(products of n random projections). Alternatively, it shares components with other terms. Shared components are "random"
(each has a random degree) or "summed" (each is a sum over several degrees). A stratum is a group of components of one
of these four kinds, together with the terms that they represent. The module `allocation` chooses the plan, and the
module `components` samples the components.
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
    """Distribution of a random degree N: a table of probabilities, with a geometric tail above its last degree L.

    The tail is P[N = n] = tail * (base - 1) / base^(n - L) for n > L.
    """

    degrees: Array  # degrees in the table, ascending
    probabilities: Array  # P[N = n] for the degrees n in the table
    base: float = 2.0  # P[N = n] / P[N = n + 1] for n > L
    tail: float = 0.0  # P[N > L]

    @classmethod
    def geometric(cls, p: float, start: int) -> DegreeDistribution:
        """Return the geometric distribution P[N = n] = (p - 1) / p^(n - start + 1) for n >= start.

        Kar and Karnick (2012, AISTATS) use 1 / p^(n + 1), which is normalized only for p = 2.
        """
        return cls(np.array([start - 1]), np.array([0.0]), p, 1.0)

    def probability(self, n: Array) -> Array:
        """Return P[N = n] for each degree n of an array."""
        n = np.asarray(n)
        last = int(self.degrees[-1])
        table = np.zeros(last + 1 if last >= 0 else 1)
        if last >= 0:
            table[self.degrees] = self.probabilities
        beyond = self.tail * (self.base - 1) * self.base ** -np.maximum(n - last, 1).astype(float)
        return np.where(n > last, beyond, table[np.clip(n, 0, len(table) - 1)])

    def draw(self, size: int, rng: np.random.Generator) -> Array:
        """Return `size` independent samples of the degree N."""
        further = self.degrees[-1] + rng.geometric(1 - 1 / self.base, size)
        if self.tail >= 1:
            return further
        table = rng.choice(self.degrees, size, p=self.probabilities / self.probabilities.sum())
        return np.where(rng.random(size) < self.tail, further, table)


@dataclass(frozen=True)
class Stratum:
    """A group of components of a map, and the terms of the power series that they represent.

    The kinds are "exact" (all monomials of one degree), "sketched" (random products of one degree), "random" (random
    products of random degrees) and "summed" (sums of random products over all degrees of the stratum).
    """

    part: int  # index of the power series, for a kernel that is a sum of several
    kind: Literal["exact", "sketched", "random", "summed"]
    degrees: tuple[int, ...]  # degrees of the terms; for kind "random", those of the significant terms
    n_components: int
    # For kind "random": distribution of the degree or, if `terms` is not empty, of the index of the term.
    distribution: DegreeDistribution | None = None
    #: Predicted squared error due to these components: their variance, as a mean over sampled pairs of rows.
    squared_error: float = 0.0
    #: Indices of the represented terms, for an anchored expansion (see `anchored`); otherwise empty.
    terms: tuple[int, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Assignment of components to the terms of a power series, with the predicted error.

    The plan was chosen on a sample of rows. "Sampled pairs" are all pairs of these rows.

    Attributes
    ----------
    name : str
        Name of the plan.
    strata : tuple of Stratum
        Groups of components, exact ones first. The components of a series are in this order, with one exception: those
        of the kinds "sketched" and "random" are merged and sorted by decreasing degree. With projection="srht", only
        those of the kind "random" are sorted.
    n_components : int
        Number of components of the map. Components that no stratum uses are zero.
    truncation : float
        Size of the bias: root mean square, over the sampled pairs, of the sum of the omitted terms. It is zero for an
        unbiased plan.
    truncation_bound : float
        Upper bound for the absolute value of the sum of the omitted terms, over all rows whose norms are at most the
        largest norm in the sample.
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
        """Number of components that represent a term. All other components of the map are zero."""
        return sum(stratum.n_components for stratum in self.strata)

    @property
    def predicted_deviation(self) -> float:
        """Predicted standard deviation of the approximate kernel: root of its variance averaged over sampled pairs."""
        return math.sqrt(sum(s.squared_error for s in self.strata))

    @property
    def predicted_rmse(self) -> float:
        """Predicted root mean square error of the approximate kernel, over random draws and sampled pairs.

        It includes variance and bias.
        """
        return math.hypot(self.predicted_deviation, self.truncation)

    @property
    def predicted_relative_error(self) -> float:
        """Predicted root mean square error, divided by the root mean square of the kernel."""
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
