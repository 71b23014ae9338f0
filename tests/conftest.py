"""The two tiers of the suite; seeds, threads and Hypothesis settings.

``pytest`` runs the quick tier, ``pytest --all`` runs all tests, and ``pytest -m slow`` runs those that the quick tier
leaves out. Two marks decide:

``@pytest.mark.slow``
    The test is not in the quick tier. For single cases: ``pytest.param(..., marks=pytest.mark.slow)``.
``@pytest.mark.covering(strength, **parts)``
    Of the parametrized cases of the test, the quick tier runs a covering array: few cases that still hold every value
    of every parameter (strength 1) or every pair of values of two parameters (strength 2, the default); strength 0 is
    the first case alone. The other cases are slow. ``covering(1, learner=type)`` covers the classes of the parameter
    `learner` instead of all that its values differ in. As ``pytestmark = pytest.mark.covering(1)`` the mark holds for
    all tests of a file, and a mark at a test takes its place there. See `covering.py`.

``--minutes N`` skips the tests that have not started after N minutes. The order is then that of hashes of the date and
the names, so that other tests are skipped on the next day.

Options that select by marks (``-m``) and tests that are named with ``::`` select from all tests.

The seed is fixed by default, so that a failure repeats; MERCER_TEST_SEEDS=all runs ten seeds, and lets Hypothesis
search.
"""

import gc
import hashlib
import os
import time
from contextlib import contextmanager
from datetime import UTC, datetime

# Where processes share the cores, threads that wait for each other take them from the others. Tests that are about
# threads ask for some. OpenMP reads the variable when it is loaded, here and in the processes that tests start.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import scipy.linalg  # noqa: F401, so that its BLAS is loaded and can be limited
from hypothesis import settings
from threadpoolctl import threadpool_limits

from .covering import cover_parameters

STARTED = time.monotonic()
THOROUGH = os.environ.get("MERCER_TEST_SEEDS") == "all"
SEEDS = range(20260, 20270) if THOROUGH else [20260]

if "PYTEST_XDIST_WORKER" in os.environ:
    threadpool_limits(1, user_api="blas")

settings.register_profile("repeatable", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("thorough" if THOROUGH else "repeatable")


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="run all tests, not only the quick tier")
    parser.addoption(
        "--minutes", type=float, help="skip the tests that have not started by then; the order changes every day"
    )


def pytest_configure(config):
    # Workers start with one half of the tests each, and share what is left at the end: most fixtures of a file are
    # made in one worker only.
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "worksteal"
    named = any("::" in argument for argument in config.args)
    if not (config.option.all or config.option.markexpr or named):
        config.option.markexpr = "not slow"


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect the tests, whose millions of objects stay, without a search for garbage among them then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by marks
def pytest_collection_modifyitems(config, items):
    mark_slow_cases(items)
    if config.option.minutes is not None:
        day = str(datetime.now(UTC).date())
        items.sort(key=lambda item: hashlib.sha256((day + item.nodeid).encode()).digest())


def pytest_runtest_setup(item):
    minutes = item.config.option.minutes
    if minutes is not None and time.monotonic() - STARTED > 60 * minutes:
        pytest.skip(f"not started within {minutes:g} minutes")


def mark_slow_cases(items):
    """Mark the cases as slow that are not in the covering array of their test."""
    tests = {}
    for item in items:
        marked = item.get_closest_marker("covering") and not item.get_closest_marker("slow")
        if marked and hasattr(item, "callspec"):
            tests.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in tests.values():
        mark = cases[0].get_closest_marker("covering")
        quick = cover_parameters([item.callspec.params for item in cases], *mark.args, **mark.kwargs)
        for position in set(range(len(cases))) - set(quick):
            cases[position].add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def little_effort():
    """Return a context in which models without arguments try less; the rules by which members are compared hold."""

    @contextmanager
    def context():
        from mercer.automatic import models
        from mercer.solvers.local import metric_search

        with pytest.MonkeyPatch.context() as patch:
            for name in ("STEPS", "WARM_STEPS", "SHARED_STEPS", "FULL_STEPS", "LAST_STEPS"):
                patch.setattr(metric_search, name, 10)
            patch.setattr(models, "MOST_PARTS", 1)
            patch.setattr(models, "MOST_MEMBERS", 4)
            yield

    return context


@pytest.fixture(params=SEEDS, ids=lambda seed: f"seed{seed}")
def seed(request):
    return request.param
