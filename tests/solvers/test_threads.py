"""Systems of few rows are solved on one thread of BLAS: others would wait for each other on busy machines."""

import numpy as np
import pytest
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

from mercer.solvers.few_labels.next_rows import posterior_covariance
from mercer.solvers.ridge.smoother import Smoother

Z = np.random.default_rng(0).normal(size=(40, 8))


@pytest.mark.parametrize(
    "solve",
    [
        lambda: Smoother.of(Z, fit_intercept=True).left_out(Z[:, :1], 0.1, np.arange(40) // 10),
        lambda: posterior_covariance(Z, 0.1, 8),
    ],
    ids=["left out", "next rows"],
)
def test_small_systems_are_solved_on_one_thread(monkeypatch, solve):
    seen = []

    def recorded(*args, **kwargs):
        seen.append(max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"))
        return original(*args, **kwargs)

    original = scipy.linalg.solve
    monkeypatch.setattr(scipy.linalg, "solve", recorded)
    with threadpool_limits(2, user_api="blas"):
        solve()
        assert max(one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas") == 2
    assert seen
    assert set(seen) == {1}
