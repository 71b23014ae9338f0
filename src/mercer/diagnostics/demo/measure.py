"""Measurements of the demo: times in interleaved rounds, memory by tracemalloc, and kernel errors by `audit`."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.diagnostics.audit import Audit, audit
from mercer.diagnostics.audit import measure as measure_map
from mercer.diagnostics.demo.contenders import Entrant, Rows, maps_of_width
from mercer.diagnostics.demo.results import Contender, ErrorCurve, Pairs
from mercer.diagnostics.peers import Peer
from mercer.diagnostics.subject import Subject
from mercer.errors import NoClosedFormError
from mercer.kernels import Gaussian
from mercer.maps import BaseMap

__all__ = ["Times", "error_curves", "measure", "peak_bytes_of_fit", "time_in_turns"]

Array = np.ndarray
Announce = Callable[[str], None]

ROUNDS = 3  # number of rounds of timing; each round fits every contender once
TRANSFORMS = 5  # number of timed transforms per contender and round
SEEDS = 5  # number of maps, with different seeds, for each number of components in the error curves
DRAWN_PAIRS = 400


@dataclass(frozen=True)
class Times:
    """Measured times of fits and of transforms, in seconds."""

    fit: tuple[float, ...]
    transform: tuple[float, ...]

    def __add__(self, other: Times) -> Times:
        return Times(self.fit + other.fit, self.transform + other.transform)


def time_in_turns(entrants: Sequence[Entrant], rows: Rows, announce: Announce) -> list[Times]:
    """Fit all contenders and return their times, one `Times` per contender.

    The times are measured in rounds. Each round fits every contender once, so that other load on the machine affects
    all contenders alike.
    """
    everything = np.concatenate([rows.X_train, rows.X_test])
    times = [Times((), ())] * len(entrants)
    for turn in range(ROUNDS):
        announce(f"timing, round {turn + 1} of {ROUNDS}")
        for i, entrant in enumerate(entrants):
            fit = _seconds(entrant.model.fit, rows.X_train, rows.y_train)
            transform = entrant.map_of(entrant.model).transform
            times[i] += Times((fit,), tuple(_seconds(transform, everything) for _ in range(TRANSFORMS)))
    return times


def _seconds(call: Callable[..., Any], *arguments: Any) -> float:
    """Return the duration of call(*arguments) in seconds."""
    start = time.perf_counter()
    call(*arguments)
    return time.perf_counter() - start


def measure(entrant: Entrant, rows: Rows, peak_bytes: int, times: Times, seed: int) -> Contender:
    """Return all measurements of one contender, given its fitted model, peak memory and times.

    `seed` selects the pairs of test rows that are shown in a figure.
    """
    fitted = entrant.map_of(entrant.model)
    accuracy = float(np.mean(entrant.model.predict(rows.X_test) == rows.y_test))
    return Contender(
        name=entrant.name,
        library=entrant.library,
        classifier=entrant.classifier,
        accuracy=accuracy,
        accuracy_error=float(np.sqrt(accuracy * (1 - accuracy) / len(rows.y_test))),
        alpha=float(entrant.penalty_of(entrant.model)),
        audit=_audit(fitted, rows.X_test),
        fit_seconds=min(times.fit),
        fit_seconds_slowest=max(times.fit),
        transform_seconds=min(times.transform),
        peak_bytes=peak_bytes,
        pairs=_pairs(fitted, rows.X_test, seed),
    )


def peak_bytes_of_fit(entrant: Entrant, rows: Rows) -> int:
    """Fit the model of a contender, and return the peak number of bytes that Python and NumPy allocated in the fit."""
    started_here = not tracemalloc.is_tracing()
    if started_here:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        entrant.model.fit(rows.X_train, rows.y_train)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        if started_here:
            tracemalloc.stop()


def _audit(fitted: BaseMap | Peer, X: Array) -> Audit:
    """Return the `Audit` of a fitted map of mercer or a fitted transformer of scikit-learn on the rows of X."""
    if isinstance(fitted, BaseMap):
        return audit(fitted, X)
    return measure_map(Subject(type(fitted.transformer).__name__, fitted, X, None, len(X), 0))


def _pairs(fitted: BaseMap | Peer, X: Array, seed: int) -> Pairs:
    """Return the exact kernel values of a random sample of 400 pairs of rows of X, and the errors of a fitted map."""
    left, right = np.triu_indices(len(X), 1)
    drawn = np.random.default_rng(seed).choice(len(left), DRAWN_PAIRS, replace=False)
    at = left[drawn], right[drawn]
    exact = fitted.kernel_(X)[at]
    deviation = None
    if isinstance(fitted, BaseMap):  # the variance of scikit-learn's features is not known
        with suppress(NoClosedFormError):
            deviation = tuple(np.sqrt(fitted.variance(X)[at]).tolist())
    return Pairs(tuple(exact.tolist()), tuple((fitted.gram(X)[at] - exact).tolist()), deviation)


def error_curves(
    kernel: Gaussian, widths: Sequence[int], seed: int, rows: Rows, announce: Announce
) -> tuple[ErrorCurve, ...]:
    """Return the measured and predicted errors of each map of mercer for several widths (numbers of components).

    For each width, five maps with the seeds `seed`, `seed` + 1, ... are fitted to the training rows and measured on the
    test rows.
    """
    audits: dict[str, list[list[Audit]]] = {name: [] for name in maps_of_width(kernel, 1, seed)}
    for width in widths:
        announce(f"error at width {width}")
        drawn = [maps_of_width(kernel, width, seed + i) for i in range(SEEDS)]
        for name, results in audits.items():
            results.append([audit(maps[name].fit(rows.X_train), rows.X_test) for maps in drawn])
    return tuple(_curve(name, widths, results) for name, results in audits.items())


def _curve(name: str, widths: Sequence[int], results: list[list[Audit]]) -> ErrorCurve:
    """Return the error curve of one map, given its audits as results[width index][seed index]."""
    # The prediction is a mean over the random parameters of the map, so it is the same for all seeds of a width.
    predicted = [seeds[0].predicted_rmse for seeds in results]
    known = tuple(value for value in predicted if value is not None)
    rmse = tuple(tuple(one.rmse for one in seeds) for seeds in results)
    return ErrorCurve(name, tuple(widths), rmse, known if len(known) == len(predicted) else None)
