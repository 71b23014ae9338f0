"""Trials: candidates that are fitted with some number of components, with their measured errors and costs."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mercer.choice.candidates import Candidate
from mercer.choice.held_out import HeldOut
from mercer.choice.rates import seconds_of_moments, seconds_per_row
from mercer.engines import Report
from mercer.engines.base import report_step
from mercer.errors import MercerError, MercerWarning, TooLittleMemoryError
from mercer.features import parameter_bytes
from mercer.maps.base import DrawnMap

__all__ = ["Trial", "Trials"]

Array = np.ndarray


@dataclass(frozen=True)
class Trial:
    """A candidate with a number of components: what was measured.

    Attributes
    ----------
    name : str
        The map, with the parameters that differ from its defaults.
    n_components : int
        Number of components.
    error : float
        Error on the rows held out; infinite if the map could not be fitted.
    upper : float
        Upper confidence bound of the error on further such rows.
    fit_seconds : float
        Time to fit the map.
    row_seconds : float
        Time to transform one row; with ``for_learner=True``, the time of the second moments of its features is
        included. NaN if it was not needed.
    n_bytes : int
        Memory of the parameters of the map.
    note : str
        Why the map could not be fitted, or the warning that its fit issued; empty otherwise.
    trial_seconds : float
        Time of the fit and of all measurements.
    """

    name: str
    n_components: int
    error: float
    upper: float
    fit_seconds: float = math.nan
    row_seconds: float = math.nan
    n_bytes: int = 0
    note: str = ""
    trial_seconds: float = 0.0
    feature_map: DrawnMap | None = field(default=None, repr=False, compare=False)


@dataclass(eq=False)
class Trials:
    """Fits candidates to rows, measures them on the rows held out, and remembers all results.

    Attributes
    ----------
    X : ndarray or CSR of shape (n, d)
        Rows to fit to, in random order.
    weight : ndarray of shape (n,) or None
        Weights of the rows.
    held_out : HeldOut
        Rows to measure errors on.
    seed : int
        Seed of all maps.
    for_learner : bool
        Whether costs include the second moments of the features.
    timed : bool
        Whether the transform is timed.
    report : callable or None
        Receives the progress.
    """

    X: Any
    weight: Array | None
    held_out: HeldOut
    seed: int
    for_learner: bool = False
    timed: bool = False
    report: Report | None = None
    clock: Callable[[], float] = time.perf_counter
    done: dict[tuple[str, int], Trial] = field(default_factory=dict)

    def run(self, candidate: Candidate, n_components: int) -> Trial:
        """Return the trial of a candidate with a number of components; it is computed at the first call."""
        key = candidate.name, n_components
        if key not in self.done:
            report_step(self.report, len(self.done), None, f"{candidate.name}, {n_components} components", "maps")
            self.done[key] = self._run(candidate, n_components)
        return self.done[key]

    def fit_cost(self, candidate: Candidate, n_components: int) -> float:
        """Return about how many operations the fit of a candidate takes, as far as it is known."""
        costs = candidate.at(n_components, self.seed).fit_costs(*self.X.shape)
        return sum(cost for cost in costs.values() if cost is not None)

    def of(self, candidate: Candidate) -> list[Trial]:
        """Return the successful trials of a candidate by increasing number of components."""
        trials = [t for t in self.done.values() if t.name == candidate.name and t.feature_map is not None]
        return sorted(trials, key=lambda trial: trial.n_components)

    def _run(self, candidate: Candidate, n_components: int) -> Trial:
        failed = Trial(candidate.name, n_components, math.inf, math.inf)
        if n_components > candidate.most_components:
            return _replaced(failed, note=f"tried up to {candidate.most_components} components")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", MercerWarning)
            start = self.clock()
            try:
                feature_map = candidate.at(n_components, self.seed)
                feature_map.fit_sample(*self._rows(feature_map.rows_wanted()))
                fit_seconds = self.clock() - start
                feature_map.n_features_in_ = self.X.shape[1]
                measured = self.held_out.measure(feature_map)
            except (MercerError, MemoryError, np.linalg.LinAlgError) as error:
                if isinstance(error, TooLittleMemoryError | MemoryError):
                    return _replaced(failed, note="too little memory")
                return _replaced(failed, note=str(error).splitlines()[0])
        if feature_map.signs_ is not None or feature_map.features_.is_complex:
            return _replaced(failed, note="its components have signs, or are complex; learners need real features")
        messages = [str(w.message) for w in caught if issubclass(w.category, MercerWarning)]
        row_seconds = self._row_seconds(feature_map) if self.timed else math.nan
        return Trial(
            candidate.name,
            feature_map.features_.n_components,
            measured.error,
            measured.upper,
            fit_seconds,
            row_seconds,
            parameter_bytes(feature_map.features_),
            messages[0].splitlines()[0] if messages else "",
            self.clock() - start,
            feature_map,
        )

    def _rows(self, wanted: int) -> tuple[Any, Array | None]:
        """Return as many rows as a map wants, which are random since the order of the rows is."""
        weight = None if self.weight is None else self.weight[:wanted]
        return self.X[:wanted], weight

    def _row_seconds(self, feature_map: DrawnMap) -> float:
        seconds = seconds_per_row(feature_map, self.X)
        if self.for_learner:
            seconds += seconds_of_moments(feature_map.features_.n_components, self.X.dtype)
        return seconds


def _replaced(trial: Trial, note: str) -> Trial:
    return Trial(trial.name, trial.n_components, trial.error, trial.upper, note=note)
