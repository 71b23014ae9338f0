"""Search over ridge penalties and over strengths and powers of a deformation, with one graph for all candidates.

The roughness of the features is the matrix U = strength Phi' L^power Phi, for the features Phi of all rows and the
Laplacian L of the graph. It is proportional to the strength, so it is computed once per power, for the largest
strength. Every strength then costs a Cholesky factorization and the deformed features of the labeled rows. Further
penalties cost hardly anything.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg

from mercer.engines import Report, enter_stage, report_step
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.graphs.base import Measure, Penalty, Roughness
from mercer.graphs.deformed import MAX_POWER
from mercer.graphs.whitening import roughest_directions
from mercer.linalg.cholesky import factorize
from mercer.parameters import Interval, is_number
from mercer.solvers.ridge.label_scores import LabeledRows, LabelScorer, SearchCriterion
from mercer.solvers.ridge.smoother import Smoother

__all__ = ["Candidate", "DeformationGrid", "best_of", "search_deformations", "warn_at_ends"]

Array = np.ndarray
# Default ridge penalties, relative to the largest eigenvalue of the kernel matrix of the labeled rows: with smaller
# ones, rounding errors are fitted.
PENALTIES = np.geomspace(1e-7, 10.0, 17)
# Scores with a smaller relative difference are equal, since they are sums of the same numbers in another order.
SAME = 1e-10
# A best candidate at an end of the grid issues a warning if its score exceeds those of the others by more than this.
STILL_RISING = 1e-2


@dataclass(frozen=True)
class Candidate:
    """One model of a search.

    Attributes
    ----------
    strength, power : float
        Parameters of the deformation.
    penalty : float
        Ridge penalty.
    score : float
        The score by the criterion of the search; higher is better.
    standard_error : float
        Standard error of the score, as if the labeled rows were independent; NaN for "evidence".
    squared_error : float
        Mean squared error of held-out targets; NaN for "evidence".
    degrees : float
        Effective degrees of freedom on the labeled rows.
    """

    strength: float
    power: float
    penalty: float
    score: float
    standard_error: float
    squared_error: float
    degrees: float


@dataclass(frozen=True)
class DeformationGrid:
    """The values of strength, power and ridge penalty that a search combines, each ascending and without repetitions.

    If `penalties` is None, the penalties are multiples of the largest eigenvalue of the kernel matrix of the labeled
    rows.
    """

    strengths: tuple[float, ...]
    powers: tuple[float, ...]
    penalties: tuple[float, ...] | None

    @classmethod
    def of(cls, owner: str, strengths: Any, powers: Any, penalties: Any) -> Self:
        """Return the grid; raise `ParameterError` if a list is empty or a number lies outside its domain."""
        return cls(
            numbers(owner, "strengths", strengths, Interval(0)),
            numbers(owner, "powers", powers, Interval(0, MAX_POWER, closed="both")),
            None if penalties is None else numbers(owner, "penalties", penalties, Interval(0, closed="neither")),
        )

    @property
    def largest(self) -> float:
        """The strength for which the roughness is computed: the largest of the grid, or 1 if that is zero."""
        return self.strengths[-1] or 1.0

    def penalties_for(self, smoother: Smoother) -> tuple[float, ...]:
        """Return the ridge penalties of the grid, or default penalties computed from the eigenvalues of a smoother."""
        if self.penalties is not None:
            return self.penalties
        largest = float(smoother.values.max(initial=0.0))
        return tuple((PENALTIES * (largest if largest > 0 else 1.0)).tolist())

    def deformed(self, power: float, Z: Array, roughness: Array, rank: int | None) -> Iterator[tuple[float, Array]]:
        """Yield pairs of a strength and the deformed features of the labeled rows, for one power.

        Parameters
        ----------
        power : float
            Power of the Laplacian.
        Z : ndarray of shape (n, D)
            Features of the inner map.
        roughness : ndarray of shape (D, D)
            Roughness of the features for the strength `largest`.
        rank : int or None
            Number of directions that are shrunk; None means all.
        """
        low = None if rank is None or rank >= len(roughness) else roughest_directions(roughness, rank)[:2]
        for strength in self.strengths_for(power):
            share = strength / self.largest
            if strength == 0:
                yield strength, Z
            elif low is None:
                yield strength, whitened(Z, roughness, share)
            else:
                basis, shrinkage = low
                shrinkage = 1 - (1 + share * ((1 - shrinkage) ** -2 - 1)) ** -0.5
                yield strength, Z - ((Z @ basis) * shrinkage) @ basis.T

    def strengths_for(self, power: float) -> tuple[float, ...]:
        """Return the strengths that are compared for a power. Zero, for which powers do not matter, has the first."""
        return tuple(strength for strength in self.strengths if strength > 0 or power == self.powers[0])


def numbers(owner: str, name: str, values: Any, domain: Interval) -> tuple[float, ...]:
    """Return a parameter of a search as a tuple of distinct numbers, ascending.

    Parameters
    ----------
    owner, name : str
        Names of the search and of the parameter, for error messages.
    values : float or iterable of float
        The value of the parameter: one number or several.
    domain : Interval
        Numbers that are allowed.

    Raises
    ------
    ParameterError
        If `values` is empty, or a number is not in the domain.
    """
    values = [values] if is_number(values) else list(values)
    wrong = [value for value in values if value not in domain]
    if wrong or not values:
        got = f"{wrong[0]!r} among them" if wrong else "an empty list"
        msg = f"{owner}: every number of {name} must be {domain}, got {got}."
        raise ParameterError(msg)
    return tuple(sorted({float(value) for value in values}))


def whitened(Z: Array, roughness: Array, share: float) -> Array:
    """Return features with the Gram matrix Z (I + share U)^-1 Z', for the matrix U = `roughness`.

    Only the upper triangle of U is read.
    """
    A = roughness * share
    A[np.diag_indices_from(A)] += 1.0
    if not factorize(A):
        msg = (
            "DeformedSearchCV: I + Phi' M Phi is not positive definite because of rounding. Leave out the largest of "
            "strengths, or pass float64 rows."
        )
        raise DataError(msg)
    return scipy.linalg.solve_triangular(A.T, Z.T, lower=True, check_finite=False).T


def search_deformations(
    measure: Measure,
    rows: LabeledRows,
    scorer: LabelScorer,
    grid: DeformationGrid,
    *,
    fit_intercept: bool,
    rank: int | None,
    report: Report | None = None,
) -> tuple[list[Candidate], int, Roughness]:
    """Score the ridge models for all combinations of strength, power and penalty of a grid.

    Parameters
    ----------
    measure : callable
        Function from a `Penalty` to the roughness of the features on the graph of all rows.
    rows : LabeledRows
        The labeled rows, with the features of the inner map.
    scorer : LabelScorer
        Computes the score of a model.
    grid : DeformationGrid
        Strengths, powers and penalties.
    fit_intercept : bool
        Whether there is an intercept.
    rank : int or None
        The parameter `rank` of the `Deformed` map.
    report : callable or None, default=None
        Receives the progress: stages are the roughness of each power, and the candidates of each power.

    Returns
    -------
    candidates : list of Candidate
    best : int
        Index of the best candidate.
    roughness : Roughness
        The roughness for the strength and power of the best candidate.
    """
    candidates: list[Candidate] = []
    best, retained = None, None
    for power in grid.powers:
        enter_stage(report, measuring(power))
        found = measure(Penalty(grid.largest, power))
        if not np.isfinite(np.diagonal(found.matrix)).all():
            msg = "DeformedSearchCV: the roughness of the features overflows. Scale the rows or strengths down."
            raise DataError(msg)
        enter_stage(report, comparing(power))
        for number, (strength, Z) in enumerate(grid.deformed(power, rows.Z, found.matrix, rank), 1):
            smoother = Smoother.of(Z, fit_intercept=fit_intercept, weight=rows.weight)
            for penalty in grid.penalties_for(smoother):
                scores = scorer.score(smoother, penalty)
                candidates.append(Candidate(strength, power, penalty, *scores, smoother.degrees(penalty)))
            report_step(report, number, len(grid.strengths_for(power)), unit="strengths")
        better = best_of(candidates)
        if better is not best:
            best, retained = better, found
    assert best is not None
    assert retained is not None
    share = best.strength / grid.largest
    return candidates, candidates.index(best), replace(retained, matrix=retained.matrix * share)


def measuring(power: float) -> str:
    """Return the name of the stage that measures the roughness for a power."""
    return f"measure roughness of power {power:g}"


def comparing(power: float) -> str:
    """Return the name of the stage that compares the candidates of a power."""
    return f"compare candidates of power {power:g}"


def search_costs(grid: DeformationGrid, n: int, m: int, D: int) -> dict[str, float]:
    """Return the stages of a search and their costs, for n rows, m of them with targets, and D components."""
    costs: dict[str, float] = {}
    # A strength costs a Cholesky factorization, a triangular system, and an eigendecomposition of the smaller side.
    strength = 0.3 * D**3 + m * D**2 + 3 * min(m, D) ** 3 + m * min(m, D) * D
    for power in grid.powers:
        costs |= {
            measuring(power): (0.8 + 0.1 * power) * n * D**2,
            comparing(power): len(grid.strengths_for(power)) * strength,
        }
    return costs


def best_of(candidates: Sequence[Candidate]) -> Candidate | None:
    """Return the candidate of highest score, or None if `candidates` is empty.

    Among candidates of equal score, the one of least squared error is returned; among those of equal squared error, the
    one of fewest degrees of freedom.
    """
    if not candidates:
        return None
    top = max(candidate.score for candidate in candidates)
    equal = [candidate for candidate in candidates if candidate.score >= top - SAME * max(1.0, abs(top))]
    least = min(candidate.squared_error for candidate in equal)
    if not np.isnan(least):
        equal = [candidate for candidate in equal if candidate.squared_error <= least * (1 + SAME)]
    return min(equal, key=lambda candidate: candidate.degrees)


def warn_at_ends(candidates: Sequence[Candidate], best: Candidate, criterion: SearchCriterion) -> None:
    """Warn if the best candidate has the least or largest value of a parameter, and other values are clearly worse."""
    beside = [c for c in candidates if (c.strength, c.power) == (best.strength, best.power)]
    ends = []
    # The last entry of each line is a value at which no warning is issued, since there is nothing to try below it.
    # Without a graph the power has no effect.
    for name, some, lowest in (
        ("strength", candidates, 0.0),
        ("power", candidates if best.strength > 0 else (), 1.0),
        ("penalty", beside, 0.0),
    ):
        values = sorted({getattr(c, name) for c in some if name != "power" or c.strength > 0})
        chosen = getattr(best, name)
        if len(values) < 3 or chosen not in (values[0], values[-1]) or chosen <= lowest:
            continue
        others = best_of([c for c in some if getattr(c, name) != chosen])
        # Squared errors are compared by ratios, accuracies and logarithms by differences.
        unit = abs(best.score) if criterion == "loo" else 1.0
        if others is not None and best.score - others.score > STILL_RISING * unit:
            ends.append(f"the {'smallest' if chosen == values[0] else 'largest'} {name}, {chosen:.3g}")
    if ends:
        msg = (
            f"DeformedSearchCV chose {' and '.join(ends)}, of those it tried. There may be better values beyond: try a "
            "wider range of strengths, powers or penalties, and print summary() for all scores."
        )
        warnings.warn(msg, MercerWarning, stacklevel=3)
