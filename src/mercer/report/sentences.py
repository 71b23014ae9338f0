"""Sentences that summarize the demo and the environment, for both the terminal output and the HTML page."""

from __future__ import annotations

from mercer.diagnostics.demo import Demo
from mercer.diagnostics.environment import Environment
from mercer.report.numbers import percent, seconds, significant

__all__ = ["caveat", "compiled_note", "headline", "kernels_in_use", "race_headline"]

# If repeated times of the same fit differ by more than this factor, other load on the machine has affected them.
BUSY = 2
NUMBERS = {2: "two", 3: "three", 4: "four"}
NOT_COMPILED = "not compiled; NumPy is used instead, with equal results but several times slower"
HOW_TO_COMPILE = "Install a C++ compiler and reinstall mercer: pip install --force-reinstall --no-cache-dir mercer"


def headline(demo: Demo) -> str:
    """Return a sentence with the range of the accuracies and the range of the kernel errors of the maps in the demo."""
    accuracies = [contender.accuracy for contender in demo.contenders]
    errors = [contender.audit.rmse for contender in demo.contenders]
    low, high = percent(min(accuracies)), percent(max(accuracies))
    reach = low if low == high else f"{low[:-2]} to {high}"
    return (
        f"With {demo.n_components} components each, all {NUMBERS[len(accuracies)]} maps classify {reach} of "
        f"{demo.split.n_test} test digits correctly; their kernel errors differ by a factor of "
        f"{max(errors) / min(errors):.0f}, from {significant(min(errors), 2)} to "
        f"{significant(max(errors), 2)}."
    )


def race_headline(demo: Demo) -> str:
    """Return a sentence on how often mercer's models have the highest score of the race, and their times."""
    leads = [race.data for race in demo.races if race.runners[0].score >= max(one.score for one in race.runners)]
    slowest = max(race.runners[0].fit_seconds for race in demo.races)
    others = max(one.fit_seconds for race in demo.races for one in race.runners[1:])
    which = f" ({', '.join(leads)})" if 0 < len(leads) < len(demo.races) else ""
    return (
        f"Without arguments, mercer has the highest score, alone or with others, on {len(leads)} of {len(demo.races)} "
        f"data sets{which}; differences below two standard errors are not significant. Its fits take up to "
        f"{seconds(slowest)}, those of scikit-learn up to {seconds(others)}."
    )


def caveat(demo: Demo) -> str:
    """Return sentences on the limits of the demo: standard errors of accuracies, few rows, and unreliable times."""
    error = max(contender.accuracy_error for contender in demo.contenders)
    text = (
        f"The standard error of the accuracies is up to {percent(error)}, so differences of that order are not "
        f"significant. With only {demo.split.n_train} training rows, times and memory are mostly overhead."
    )
    if any(contender.fit_seconds_slowest > BUSY * contender.fit_seconds for contender in demo.contenders):
        text += " Times of equal fits varied more than twofold, because the machine was busy, so do not compare them."
    return text


def kernels_in_use(environment: Environment) -> str:
    """Return a phrase that says whether compiled kernels are in use, and for which instruction set."""
    return f"compiled, {environment.instruction_set}" if environment.compiled else NOT_COMPILED


def compiled_note(environment: Environment) -> str | None:
    """Return a sentence on how to install the compiled kernels, or None if they are installed."""
    return None if environment.compiled else HOW_TO_COMPILE
