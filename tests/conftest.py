"""Seeds and Hypothesis settings of the whole suite.

One fixed seed by default, so that a failure repeats; MERCER_TEST_SEEDS=all runs ten, and lets Hypothesis search.
"""

import os

import pytest
from hypothesis import settings

THOROUGH = os.environ.get("MERCER_TEST_SEEDS") == "all"
SEEDS = range(20260, 20270) if THOROUGH else [20260]

settings.register_profile("repeatable", deadline=None, max_examples=25, derandomize=True)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("thorough" if THOROUGH else "repeatable")


@pytest.fixture(params=SEEDS, ids=lambda seed: f"seed{seed}")
def seed(request):
    return request.param
