"""The function `run_demo`, which runs the demo and returns its results."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from numbers import Integral
from typing import Any

from threadpoolctl import threadpool_limits

from mercer.diagnostics.demo.chosen import mistakes, penalty_path, reliability
from mercer.diagnostics.demo.contenders import Entrant, Rows, entrants, load_rows
from mercer.diagnostics.demo.measure import ROUNDS, error_curves, measure, peak_bytes_of_fit, time_in_turns
from mercer.diagnostics.demo.race import DATA_SETS, check_names, run_races
from mercer.diagnostics.demo.results import Contender, Demo, Split
from mercer.diagnostics.environment import describe_environment
from mercer.errors import ParameterError
from mercer.kernels import Gaussian

__all__ = ["run_demo"]

Progress = Callable[[int, int, str], None]

# Limits of the number of components: below, maps are too inaccurate; above, there may be more landmarks than rows.
NARROWEST, WIDEST = 16, 1024


def run_demo(
    *,
    n_components: int = 512,
    random_state: int = 0,
    data_sets: Sequence[str] = tuple(DATA_SETS),
    progress: Progress | None = None,
) -> Demo:
    """Run models without arguments beside those of scikit-learn, and compare feature maps on the digits.

    Parameters
    ----------
    n_components : int, default=512
        Number of components of every map, from 16 to 1024.
    random_state : int, default=0
        Seed of the split into training and test rows, of the maps, and of the samples of pairs.
    data_sets : sequence of {"breast_cancer", "diabetes", "digits", "wine"}, default=all of them
        Data of scikit-learn for the race of models without arguments.
    progress : callable, default=None
        Called at the start of each step with the number of completed steps, the total number of steps and the name of
        the step.

    Returns
    -------
    Demo
        Scores and times of the race; accuracies, kernel errors, times and memory of all maps, and details of the
        selected one.
    """
    _check_integer("n_components", n_components, NARROWEST, WIDEST)
    _check_integer("random_state", random_state, 0, 2**32 - 1)  # scikit-learn takes no larger seed
    check_names(data_sets)
    started = time.perf_counter()
    widths = [2**p for p in range(4, 11) if n_components / 16 <= 2**p <= 2 * n_components]
    announce = _counter(4 * len(data_sets) + 1 + 4 + ROUNDS + 4 + len(widths), progress)
    races = run_races(data_sets, random_state, announce)
    # All contenders use one thread, so that times are comparable and depend less on other processes.
    with threadpool_limits(1):
        announce("loading the digits")
        rows = load_rows(random_state)
        kernel = Gaussian("median").resolve(rows.X_train)
        runners = entrants(kernel, n_components, random_state)
        contenders = _contenders(runners, rows, random_state, announce)
        curves = error_curves(kernel, widths, random_state, rows, announce)
        ours = [runner for runner in runners if runner.library == "mercer"]
        chosen = min(ours, key=lambda runner: runner.model.path_.scores.min())
        probabilities = chosen.model.predict_proba(rows.X_test)
    n_features, n_classes = rows.X_test.shape[1], probabilities.shape[1]
    return Demo(
        n_components=int(n_components),
        random_state=int(random_state),
        kernel=repr(kernel),
        lengthscale=float(kernel.lengthscale),
        split=Split("digits", len(rows.y_train), len(rows.y_test), n_features, n_classes),
        contenders=contenders,
        chosen=chosen.name,
        curves=curves,
        path=penalty_path(chosen.model),
        reliability=reliability(probabilities, rows.y_test),
        mistakes=mistakes(probabilities, rows),
        races=races,
        environment=describe_environment(),
        seconds=time.perf_counter() - started,
    )


def _contenders(
    runners: list[Entrant], rows: Rows, random_state: int, announce: Callable[[str], None]
) -> tuple[Contender, ...]:
    """Return the measurements of all models of the demo; `announce` is called with the name of each step."""
    # Memory is measured first, because these fits also warm up imports and caches for the timed fits.
    peaks = []
    for runner in runners:
        announce(f"memory of {runner.name}")
        peaks.append(peak_bytes_of_fit(runner, rows))
    times = time_in_turns(runners, rows, announce)
    contenders = []
    for runner, peak, seconds in zip(runners, peaks, times, strict=True):
        announce(f"error of {runner.name}")
        contenders.append(measure(runner, rows, peak, seconds, random_state))
    return tuple(contenders)


def _counter(total: int, progress: Progress | None) -> Callable[[str], None]:
    """Return a function that reports the start of a named step to `progress`.

    It calls `progress` with the number of steps started before, the total number of steps, and the name of the step.
    """
    started = 0

    def announce(name: str) -> None:
        nonlocal started
        if progress is not None:
            progress(started, total, name)
        started += 1

    return announce


def _check_integer(name: str, value: Any, least: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) <= most:
        msg = f"run_demo: {name} must be an integer from {least} to {most}, got {value!r}."
        raise ParameterError(msg)
