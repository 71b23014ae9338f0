"""Deformed models that were tried, the best of them, and whether it lies at an end of what was tried."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mercer.errors import MercerWarning
from mercer.solvers.ridge.label_scores import By

__all__ = ["DeformationTrial", "best_of", "warn_of_edges"]

# Scores that differ by less are equal: they are sums of the same numbers in another order.
SAME = 1e-10
# By how much the best must be above the rest for its being at an end of the grid to be worth a warning.
STILL_RISING = 1e-2


@dataclass(frozen=True)
class DeformationTrial:
    """One model that was tried.

    Attributes
    ----------
    alpha, power : float
        Weight of the roughness, and power of the Laplacian.
    penalty : float
        Ridge penalty: `alpha` of the learner.
    score : float
        The higher the better; see `TunedDeformation.by`.
    standard_error : float
        Of the score, over labeled rows as if they were independent; NaN for the evidence.
    squared_error : float
        Mean squared error of held-out targets, those of labels being +-1; NaN for the evidence.
    degrees : float
        Effective degrees of freedom of the model on the labeled rows: the fewer, the smoother.
    """

    alpha: float
    power: float
    penalty: float
    score: float
    standard_error: float
    squared_error: float
    degrees: float


def warn_of_edges(trials: Sequence[DeformationTrial], best: DeformationTrial, by: By) -> None:
    """Warn if the best trial has the least or the largest number of those tried, and others are clearly worse."""
    beside = [trial for trial in trials if (trial.alpha, trial.power) == (best.alpha, best.power)]
    edges = []
    # Where a number cannot be less, or hardly: without a graph its power does not matter.
    for name, least, some in (
        ("alpha", 0.0, trials),
        ("power", 1.0, trials if best.alpha > 0 else ()),
        ("penalty", 0.0, beside),
    ):
        values = sorted({getattr(trial, name) for trial in some if name != "power" or trial.alpha > 0})
        chosen = getattr(best, name)
        if len(values) < 3 or chosen not in (values[0], values[-1]) or chosen <= least:
            continue
        others = best_of([trial for trial in some if getattr(trial, name) != chosen])
        # A logarithm and shares differ by what they differ; squared errors by a part of them.
        unit = abs(best.score) if by == "loo" else 1.0
        if others is not None and best.score - others.score > STILL_RISING * unit:
            edges.append(f"the {'least' if chosen == values[0] else 'largest'} {name}, {chosen:.3g}")
    if edges:
        msg = (
            f"tune_deformation chose {' and '.join(edges)}, of those it tried: there may be better beyond. Try a wider "
            "range of alphas, powers or penalties, and print the result for all scores."
        )
        warnings.warn(msg, MercerWarning, stacklevel=3)


def best_of(trials: Sequence[DeformationTrial]) -> DeformationTrial | None:
    """Return the trial of the highest score; among equals, of the least squared error; then of the fewest degrees."""
    if not trials:
        return None
    top = max(trial.score for trial in trials)
    equal = [trial for trial in trials if trial.score >= top - SAME * max(1.0, abs(top))]
    least = min(trial.squared_error for trial in equal)
    if not np.isnan(least):
        equal = [trial for trial in equal if trial.squared_error <= least * (1 + SAME)]
    return min(equal, key=lambda trial: trial.degrees)
