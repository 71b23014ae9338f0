"""Sentences about results that the terminal and the page share."""

from __future__ import annotations

from mercer.diagnostics.demo import Demo
from mercer.diagnostics.environment import Environment
from mercer.report.numbers import percent, significant

__all__ = ["caveat", "compiled_note", "headline", "kernels_in_use"]

# Equal fits whose times differ by more than this factor were disturbed.
BUSY = 2
NUMBERS = {2: "two", 3: "three", 4: "four"}
TWINS = "not compiled: NumPy twins serve, with equal results but several times slower"
TWINS_TRY = "Install a C++ compiler and reinstall mercer: pip install --force-reinstall --no-cache-dir mercer"


def headline(demo: Demo) -> str:
    """Return the result of the demo in one sentence."""
    accuracies = [contender.accuracy for contender in demo.contenders]
    errors = [contender.audit.rmse for contender in demo.contenders]
    low, high = percent(min(accuracies)), percent(max(accuracies))
    reach = low if low == high else f"{low[:-2]} to {high}"
    return (
        f"With {demo.n_components} features each, all {NUMBERS[len(accuracies)]} classify {reach} of "
        f"{demo.split.n_test} unseen digits correctly; their kernel errors differ "
        f"{max(errors) / min(errors):.0f}-fold, from {significant(min(errors), 2)} to "
        f"{significant(max(errors), 2)}."
    )


def caveat(demo: Demo) -> str:
    """Return what the table cannot tell."""
    error = max(contender.accuracy_error for contender in demo.contenders)
    text = (
        f"The standard error of an accuracy here is up to {percent(error)}: differences of that order are "
        f"chance. {demo.split.n_train} training rows are few, so times and memory show overhead more than "
        "growth."
    )
    if any(contender.fit_seconds_slowest > BUSY * contender.fit_seconds for contender in demo.contenders):
        text += " Times of equal fits varied more than twofold: the machine was busy, so do not compare them."
    return text


def kernels_in_use(environment: Environment) -> str:
    """Return which inner loops serve."""
    return f"compiled, {environment.instruction_set}" if environment.compiled else TWINS


def compiled_note(environment: Environment) -> str | None:
    """Return what to do about missing compiled kernels, or None if they are there."""
    return None if environment.compiled else TWINS_TRY
