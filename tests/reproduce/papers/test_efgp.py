"""The process of the table of large spatial data agrees with the exact process on few rows."""

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import Matern

from mercer.reproduce.papers import efgp
from mercer.reproduce.papers.efgp import LENGTHSCALE, PART, ROWS, function, process, rows
from mercer.reproduce.tables import Trial


def test_the_process_agrees_with_the_exact_one():
    X, y = rows(1500, 0.1, 0)
    new = np.random.default_rng(1).random((300, 2))
    exact = GaussianProcessRegressor(Matern(LENGTHSCALE, nu=1.5), alpha=0.1**2, optimizer=None).fit(X, y)
    found = process(0.1).fit(X, y).predict(new)
    assert np.sqrt(np.mean((found - exact.predict(new)) ** 2)) < 4e-3
    assert np.sqrt(np.mean((found - function(new)) ** 2)) < 0.1


def test_rows_are_made_in_parts_without_gaps():
    n = PART + 1000
    X, y = rows(n, 0.0, 3)
    np.testing.assert_allclose(y, function(X))
    # The mean of n uniform numbers is within five standard errors of a half.
    assert np.all(np.abs(X.mean(axis=0) - 0.5) < 5 / np.sqrt(12 * n))
    assert len(np.unique(X[:, 0])) > n - 10


def test_noise_grows_with_the_largest_number_of_rows():
    n, noise = ROWS["n = 1e8, noise 0.577"]
    assert n == 1e8
    assert round(noise, 3) == 0.577


@pytest.mark.parametrize("installed", [True, False])
def test_the_quick_run_has_fewer_rows_without_finufft(installed, monkeypatch, tmp_path):
    counts = []

    def few_rows(n, noise, seed):
        counts.append(n)
        return rows(2000, noise, seed)

    monkeypatch.setattr(efgp, "has_finufft", lambda: installed)
    monkeypatch.setattr(efgp, "rows", few_rows)
    monkeypatch.setattr(efgp, "SIDE", 20)
    name = "n = 1e7, noise 0.1"
    found = efgp.measure(Trial(tmp_path, name, 0, True, ("ours",)))["ours"]
    assert counts == [10_000_000 if installed else efgp.QUICK_ROWS]
    assert found.facts["transforms"] == ("finufft" if installed else "NumPy")
    assert efgp.TABLE.smaller(name) is not installed
