"""Seeds, threads and Hypothesis settings of the whole suite.

One fixed seed by default, so that a failure repeats; MERCER_TEST_SEEDS=all runs ten, and lets Hypothesis search.
"""

import os

import pytest
import scipy.linalg  # noqa: F401, so that its BLAS is there to be limited
from hypothesis import settings
from threadpoolctl import threadpool_limits

THOROUGH = os.environ.get("MERCER_TEST_SEEDS") == "all"
SEEDS = range(20260, 20270) if THOROUGH else [20260]

# Where processes share the cores, threads of BLAS that wait for each other take them from the others. Tests that are
# about these threads ask for some.
if "PYTEST_XDIST_WORKER" in os.environ:
    threadpool_limits(1, user_api="blas")

settings.register_profile("repeatable", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("thorough" if THOROUGH else "repeatable")


@pytest.fixture(params=SEEDS, ids=lambda seed: f"seed{seed}")
def seed(request):
    return request.param
