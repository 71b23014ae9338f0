"""The choice of a map for a kernel and rows."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.choice.candidates import candidates_for
from mercer.choice.held_out import ErrorName, HeldOut
from mercer.choice.search import Limits, best_for_learner, best_of_width, best_within, cheapest_for
from mercer.choice.table import MapChoice
from mercer.choice.trials import Trial, Trials
from mercer.engines import Report
from mercer.errors import DataError, MercerWarning
from mercer.kernels import Kernel
from mercer.maps.landmarks.nystroem import distinct_rows

__all__ = ["Request", "choose_for_rows", "rows_for"]

Array = np.ndarray
# Number of components if nothing is asked for, and the largest number if it is not given.
DEFAULT_COMPONENTS = 512
MOST_COMPONENTS = 8192
# Rows that are held out: at most this number, and at most this share of the rows.
HELD_OUT_ROWS = 4000
HELD_OUT_SHARE = 0.25
# The same, where only a number of components for a learner is asked for, which has to be fast.
HELD_OUT_FOR_LEARNER = 1000
# The same for each second of a time limit, and at least.
HELD_OUT_PER_SECOND, LEAST_HELD_OUT = 1000, 200
# Rows to fit to: for each component, and at least.
ROWS_PER_COMPONENT = 4
LEAST_FITTED = 2000
# With fewer rows, none are held out, and errors are measured on the rows of the fit.
LEAST_ROWS = 8
# The same, if rows repeat so many times on average, and there are no more distinct rows than components.
REPEATS = 2


@dataclass(frozen=True)
class Request:
    """What is asked of a choice; see `FeatureMap` for the meaning of each field."""

    n_components: int | None = None
    tol: float | None = None
    time_limit: float | None = None
    memory_limit: float | None = None
    error: ErrorName = "rmse"
    confidence: float = 0.95
    for_learner: bool = False
    method: Any = "auto"

    @property
    def limited(self) -> bool:
        """Whether there is a limit of time or memory."""
        return self.time_limit is not None or self.memory_limit is not None

    @property
    def is_fast(self) -> bool:
        """Whether the choice may take only a part of the time of a learner: its number of components is given."""
        return self.for_learner and self.tol is None and not self.limited

    @property
    def n_held_out(self) -> int:
        """The largest number of rows to measure errors on: fewer in a short time."""
        if self.time_limit is not None:
            return int(min(HELD_OUT_ROWS, max(LEAST_HELD_OUT, HELD_OUT_PER_SECOND * self.time_limit)))
        return HELD_OUT_FOR_LEARNER if self.is_fast else HELD_OUT_ROWS

    @property
    def most_components(self) -> int:
        """The largest number of components that can be chosen."""
        if self.n_components is not None:
            return self.n_components
        return MOST_COMPONENTS if self.limited or self.tol is not None else DEFAULT_COMPONENTS

    def __str__(self) -> str:
        parts = []
        if self.tol is not None:
            parts.append(f"error at most {self.tol:g}")
        if self.time_limit is not None:
            parts.append(f"at most {self.time_limit:g} seconds")
        if self.memory_limit is not None:
            parts.append(f"at most {self.memory_limit / 1e6:g} MB")
        most = "at most " if parts else ""
        return ", ".join([*parts, f"{most}{self.most_components} components"])


def rows_for(request: Request) -> int:
    """Return the number of rows that a choice uses at most: those that maps with most components want, and others."""
    return ROWS_PER_COMPONENT * request.most_components + LEAST_FITTED + request.n_held_out


def choose_for_rows(
    kernel: Kernel,
    X: Any,
    weight: Array | None,
    request: Request,
    *,
    n_rows: int,
    seed: int,
    n_jobs: int | None = None,
    report: Report | None = None,
    spent: float = 0.0,
) -> MapChoice:
    """Return the choice for a kernel and a sample of rows.

    Parameters
    ----------
    kernel : Kernel
        The kernel, with a number for every parameter.
    X : ndarray or CSR of shape (n, d)
        A random sample of the rows. A part of it is held out to measure errors.
    weight : ndarray of shape (n,) or None
        Weights > 0 of the rows of the sample.
    request : Request
        What is asked for.
    n_rows : int
        Number of rows that will be transformed, for limits of time and memory.
    seed : int
        Seed of the maps and of the rows held out.
    n_jobs : int or None, default=None
        Number of threads.
    report : callable or None, default=None
        Receives the progress.
    spent : float, default=0.0
        Number of seconds of the time limit that have passed already.
    """
    start = time.perf_counter() - spent
    # Equal rows are merged, and sorted by their contents: the choice depends neither on the order of the rows nor on
    # whether a row is repeated k times or has k times the weight.
    X, weight = distinct_rows(X, weight)
    n, total = X.shape[0], float(weight.sum())
    weight = None if (weight == 1).all() else weight
    order = np.random.default_rng(seed).permutation(n)
    held = min(request.n_held_out, math.ceil(HELD_OUT_SHARE * n))
    # Rows that will be seen again need not be held out, and a map that is exact for them should be.
    repeated = n <= request.most_components and total >= REPEATS * n
    fitted, others = (order, order) if n < LEAST_ROWS or repeated else (order[held:], order[:held])

    def rows(index: Array) -> tuple[Any, Array | None]:
        return X[index], None if weight is None else weight[index]

    held_out = HeldOut(*rows(others), kernel, request.error, request.confidence, seed)
    timed = request.tol is not None or request.time_limit is not None
    trials = Trials(*rows(fitted), held_out, seed, request.for_learner, timed, report)
    candidates = candidates_for(kernel, X.shape[1], method=request.method, n_jobs=n_jobs)
    limits = Limits(
        request.most_components,
        n_rows,
        math.inf if request.time_limit is None else max(request.time_limit - (time.perf_counter() - start), 1e-9),
        request.memory_limit or math.inf,
        lambda D: 16.0 * D**2 if request.for_learner else float(n_rows) * D * X.dtype.itemsize,
    )
    met = True
    if request.tol is not None:
        chosen, met = cheapest_for(trials, candidates, request.tol, limits)
    elif request.limited:
        chosen, met = best_within(trials, candidates, limits)
    elif request.is_fast:
        chosen = best_for_learner(trials, candidates, request.most_components, n_rows)
    else:
        chosen = best_of_width(trials, candidates, request.most_components)
    done = sorted(trials.done.values(), key=lambda trial: (trial.error, trial.n_components))
    if chosen is None:
        reasons = "; ".join(f"{trial.name}: {trial.note or 'exceeds the limits'}" for trial in done)
        msg = f"FeatureMap: no map for {kernel!r} with {request}. {reasons}."
        raise DataError(msg)
    choice = MapChoice(
        kernel=repr(kernel),
        question=str(request),
        error=request.error,
        tol=request.tol,
        met=met,
        reason=_reason(chosen, request, met),
        chosen=chosen,
        trials=tuple(done),
        n_fitted=len(fitted),
        n_held_out=len(others),
    )
    if not met:
        warnings.warn(f"FeatureMap: {choice.reason}", MercerWarning, stacklevel=5)
    return choice


def _reason(chosen: Trial, request: Request, met: bool) -> str:
    name = f"{chosen.name} with {chosen.n_components} components"
    if request.tol is None:
        if met:
            return f"{name} has the least error, {chosen.error:.3g}"
        return f"{request.time_limit:g} seconds are too short for any map. {name} is the fastest. Increase time_limit"
    if met:
        return f"{name} is the cheapest found, with an error of {chosen.error:.3g}, at most {chosen.upper:.3g}"
    return (
        f"no map reaches an error of {request.tol:g} with {request}. {name} has the least error of those tried, "
        f"{chosen.error:.3g}, at most {chosen.upper:.3g}. Increase tol, n_components, time_limit or memory_limit"
    )
