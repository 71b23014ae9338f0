"""Tuning within a number of seconds: trials on a subset of the rows, then the largest subset that still fits.

Exact kernel models cost up to the cube of the rows, so that their trials, and often also the last fit, cannot have all
of them. Subsets are doubled, and the seconds of the next size are extrapolated by a power of the number of rows.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import KFold, ShuffleSplit

FIRST_ROWS = 500
#: Up to this many rows, trials are compared by five folds; above, by a fifth of the rows that is left out.
FOLDED_ROWS = 3000
#: Shares of the seconds: the trials may take the first, and the last fit is planned to take the second of what is left.
SEARCH_SHARE, SAFE_SHARE = 0.5, 0.8
#: The power of the number of rows that times grow with, as long as there is one time only, and its limits.
PRIOR_POWER, POWERS = 2.0, (1.0, 3.0)
#: A power between two sizes is not extrapolated further than to this multiple of the larger one, unless it is cheap.
FAR, CHEAP = 4, 0.1


@dataclass(frozen=True)
class Tuned:
    """A fitted model and how it was found."""

    model: Any
    rows: int
    trials: int
    search_rows: int
    #: What limited the rows of the last fit: "all rows", "time" or "memory".
    limit: str
    last_fit_seconds: float


Times = list[tuple[int, float]]


def power(times: Times) -> float:
    """Return the power of the number of rows by which the times grow, from the last two sizes."""
    if len(times) < 2:
        return PRIOR_POWER
    (n0, t0), (n1, t1) = times[-2:]
    return float(np.clip(np.log(max(t1, 1e-3) / max(t0, 1e-3)) / np.log(n1 / n0), *POWERS))


def seconds_for(times: Times, rows: int) -> float:
    """Return the extrapolated time for a number of rows."""
    n, t = times[-1]
    return max(t, 1e-3) * (rows / n) ** power(times)


def rows_for(times: Times, seconds: float) -> int:
    """Return the number of rows whose extrapolated time is `seconds`."""
    n, t = times[-1]
    return int(n * (max(seconds, 0.0) / max(t, 1e-3)) ** (1 / power(times)))


def tune(
    candidates: Sequence[Any],
    X: np.ndarray,
    y: np.ndarray,
    *,
    loss: Callable[[np.ndarray, np.ndarray], float],
    seconds: float,
    seed: int,
    search_rows: int | None = None,
    last_rows: int | None = None,
    folds: int = 5,
    freeze: Callable[[Any], Any] = clone,
) -> Tuned:
    """Try candidates on a subset of the rows, and fit the best to the largest subset that fits in the time.

    Parameters
    ----------
    candidates : sequence of estimators
        The first one is also the one that the size of the subset is found with. Those that the time does not allow are
        left out, from the end.
    X, y : ndarray
        All rows to fit to.
    loss : callable
        A function of targets and predictions.
    seconds : float
        For trials and the last fit together.
    seed : int
        Of the order of the rows.
    search_rows, last_rows : int, optional
        The most rows of trials and of the last fit, by memory.
    folds : int, default=5
        For small subsets; one means a fifth that is left out for all subsets.
    freeze : callable
        From the best candidate, fitted in its trial, to what is fitted last.

    Returns
    -------
    Tuned
    """
    start = time.perf_counter()
    order = np.random.default_rng(seed).permutation(len(X))
    most_search = min(len(X), search_rows or len(X))
    most_last = min(len(X), last_rows or len(X))

    def trial(candidate: Any, rows: int) -> tuple[float, Any]:
        some = order[:rows]
        few = folds > 1 and rows <= FOLDED_ROWS
        cut = KFold(folds) if few else ShuffleSplit(1, test_size=0.2, random_state=seed)
        losses = []
        for fit, left_out in cut.split(some):
            model = quiet(clone(candidate).fit, X[some[fit]], y[some[fit]])
            losses.append(loss(y[some[left_out]], quiet(model.predict, X[some[left_out]])))
        return float(np.mean(losses)), model

    share = SEARCH_SHARE * seconds / len(candidates)
    rows, times = min(FIRST_ROWS, most_search), []
    while True:
        first, taken = timed(trial, candidates[0], rows)
        times.append((rows, taken))
        following = min(2 * rows, most_search)
        if following == rows or seconds_for(times, following) > share:
            break
        rows = following
    found = [(*first, candidates[0])]
    for candidate in candidates[1:]:
        if time.perf_counter() - start > SEARCH_SHARE * seconds:
            break
        found.append((*trial(candidate, rows), candidate))
    best = freeze(min(found, key=lambda one: one[0])[1])

    times, last = [], min(rows, most_last)
    while True:
        model, taken = timed(quiet, clone(best).fit, X[order[:last]], y[order[:last]])
        times.append((last, taken))
        left = SAFE_SHARE * (seconds - (time.perf_counter() - start))
        target = min(most_last, rows_for(times, left))
        if target <= last or (target < 1.2 * last and target < most_last):
            limit = "all rows" if last == len(X) else "memory" if last == most_last else "time"
            return Tuned(model, last, len(found), rows, limit, taken)
        near = target <= FAR * last or seconds_for(times, target) <= CHEAP * left
        last = target if near else FAR * last


def timed(function: Callable[..., Any], *arguments: Any) -> tuple[Any, float]:
    """Return the result of a call and its seconds."""
    start = time.perf_counter()
    result = function(*arguments)
    return result, time.perf_counter() - start


def quiet(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Any:
    """Call a function without its warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return function(*arguments, **keywords)


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Return a random number between two positive ones, uniform in its logarithm."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
