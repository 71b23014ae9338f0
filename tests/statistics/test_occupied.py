"""Gaps between rows do not depend on blocks, and are those of the sorted coordinates."""

import functools
import operator

import numpy as np
import pytest

from mercer.engines import Block
from mercer.statistics import occupied
from mercer.statistics.occupied import gaps_between, occupied_by_block


def of(X, unit, weight=None):
    block = Block(0, X, None, weight)
    return occupied_by_block(block, coordinates=np.asarray, unit=np.array(unit))


@pytest.mark.parametrize("most", [10**6, 30])
def test_gaps_are_those_of_sorted_rows_in_any_order_of_blocks(monkeypatch, most):
    monkeypatch.setattr(occupied, "MOST_BINS", most)
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(300, 2)), rng.normal(size=(200, 2)) + np.array([100, 0]), [[1e300, -1e300]]])
    parts = [of(X[i : i + 50], [0.25, 0.25]) for i in range(0, len(X), 50)]
    total = functools.reduce(operator.add, parts)
    again = functools.reduce(operator.add, parts[::-1])
    for name in ("axis", "bin", "low", "high"):
        assert np.array_equal(getattr(total, name), getattr(again, name))
    assert len(total.bin) <= most
    if most > len(X):
        for axis in (0, 1):
            assert np.array_equal(total.gaps(axis, 4.0), gaps_between(X[:, axis], 4.0))
        assert len(total.gaps(0, 4.0)) == 2


def test_rows_of_weight_zero_occupy_nothing():
    X = np.array([[0.0], [5.0], [10.0]])
    assert of(X, [1.0], np.array([1.0, 0.0, 1.0])).gaps(0, 6.0).tolist() == [[0.0, 10.0]]
    assert len(of(X, [1.0]).gaps(0, 6.0)) == 0
