"""Errors of pairs by distance and by kernel value."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from scipy.stats import binom

from mercer import Gaussian, Nystroem, ParameterError, RandomFourier, audit


def rows(n=300, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


@pytest.mark.parametrize("by", ["distance", "kernel"])
@pytest.mark.parametrize("sparse", [False, True])
def test_bins_of_all_pairs_equal_those_of_the_matrices(by, sparse):
    X = rows(60)
    given = sp.csr_array(X) if sparse else X
    feature_map = RandomFourier(Gaussian(2.0), 32, random_state=0).fit(given)
    table = audit(feature_map, given).by_distance(4, by)
    exact = Gaussian(2.0)(given)  # distances of sparse rows are rounded differently, which matters at the edges
    error, off = feature_map.gram(X) - exact, ~np.eye(60, dtype=bool)
    values = (exact if by == "kernel" else cdist(X, X))[off]
    assert table.all_pairs
    assert (table.by, len(table.bins)) == (by, 4)
    assert table.bins[0].low == pytest.approx(values.min())
    assert table.bins[-1].high == pytest.approx(values.max())
    assert sum(one.n_pairs for one in table.bins) == 60 * 59 // 2
    assert sum(one.share for one in table.bins) == pytest.approx(1)
    for i, one in enumerate(table.bins):
        assert i == 0 or one.low == table.bins[i - 1].high
        inside = (one.low <= values) & (values < one.high if i < 3 else values > 0)
        assert one.share == pytest.approx(inside.mean())
        assert 0.1 < one.share < 0.4
        assert one.center == pytest.approx(values[inside].mean())
        assert one.mean_error == pytest.approx(error[off][inside].mean())
        assert one.rmse == pytest.approx(np.sqrt(np.square(error[off][inside]).mean()))
        assert one.mean_error_interval == (one.mean_error, one.mean_error)
        assert one.rmse_interval == (one.rmse, one.rmse)


@pytest.mark.slow
def test_intervals_of_bins_cover_as_often_as_they_claim():
    X, seeds = rows(300), 15
    feature_map = Nystroem(Gaussian(1.0), 30, random_state=0).fit(rows(300, seed=1))
    covered, count = {1.0: 0, 0.1: 0}, 0
    for seed in range(seeds):
        # The edges depend on the seed, and not on the number of pairs.
        truth = audit(feature_map, X, n_rows=len(X), random_state=seed).by_distance(5).bins
        estimated = audit(feature_map, X, n_rows=100, random_state=seed).by_distance(5).bins
        for true, one in zip(truth, estimated, strict=True):
            assert true.high == one.high or one is estimated[-1]
            for name in ("mean_error", "rmse"):
                middle, count = getattr(one, name), count + 1
                for shrink in covered:
                    low, high = (middle + shrink * (end - middle) for end in getattr(one, f"{name}_interval"))
                    covered[shrink] += low <= getattr(true, name) <= high
    # Intervals of one audit depend on each other: the audits count as independent, and not the 10 intervals of each.
    least = binom.ppf(1e-6, seeds, 0.95) / seeds
    assert count == 10 * seeds
    assert covered[1.0] / count >= least
    # The test has power: intervals of a tenth of the length cover less often.
    assert covered[0.1] / count < least


def test_equal_quantiles_make_fewer_bins():
    X = np.random.default_rng(0).integers(2, size=(200, 2)) * 1.0  # distances are 0, 1 and the root of 2
    feature_map = RandomFourier(Gaussian(2.0), 32, random_state=0).fit(X)
    table = audit(feature_map, X).by_distance(10)
    assert [one.low for one in table.bins] == pytest.approx([0, 1, np.sqrt(2)])
    assert table.bins[0].rmse < 1e-12


def test_table_can_be_printed_and_converted():
    X = rows(40)
    table = audit(RandomFourier(Gaussian(2.0), 32, random_state=0).fit(X), X).by_distance(3)
    assert len(str(table).splitlines()) == 4
    frame = table.to_pandas()
    assert frame["rmse_low"].tolist() == [one.rmse for one in table.bins]
    assert table.to_dict()["bins"][0]["rmse"] == table.bins[0].rmse


def test_invalid_arguments_raise():
    X = rows(40)
    result = audit(RandomFourier(Gaussian(2.0), 32, random_state=0).fit(X), X)
    with pytest.raises(ParameterError, match=r"^Audit\.by_distance: n_bins must be an integer >= 1, got 0"):
        result.by_distance(0)
    with pytest.raises(ParameterError, match=r"^Audit\.by_distance: by must be one of 'distance', 'kernel', got 'x'"):
        result.by_distance(by="x")
