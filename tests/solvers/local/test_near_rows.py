"""Rows of a model: copies are merged, the order is random and fixed, and samples prefer rows that features miss."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Gaussian, Nystroem
from mercer.engines import FilteredEngine, MemoryEngine
from mercer.solvers.local import near_rows
from mercer.solvers.local.near_rows import NearRows, ResidualWeights, collect, unit_of


def by_first_column(rows):
    return np.argsort(rows.X[:, 0])


def test_copies_are_merged():
    X = np.array([[3.0, 1.0], [0.0, 1.0], [3.0, 1.0], [5.0, 0.0], [3.0, 1.0]])
    targets = np.array([[1.0, 0.0], [7.0, 2.0], [4.0, 0.0], [9.0, 9.0], [-2.0, 0.0]])
    weight = np.array([1.0, 2.0, 2.0, 0.0, 0.5])
    rows = NearRows.of(X, targets, weight, 4, is_complete=True)
    order = by_first_column(rows)
    np.testing.assert_array_equal(rows.X[order], [[0, 1], [3, 1]])  # the row of weight zero is left out
    np.testing.assert_allclose(rows.weight[order], [2, 3.5])
    np.testing.assert_allclose(rows.targets[order], [[7, 2], [8 / 3.5, 0]])
    mean = 8 / 3.5
    scatter = (1 - mean) ** 2 + 2 * (4 - mean) ** 2 + 0.5 * (-2 - mean) ** 2
    np.testing.assert_allclose(rows.scatter[order], [[0, 0], [scatter, 0]])
    copies = rows.copies
    assert (rows.X[copies.row] == [3, 1]).all()  # only this row has copies with different targets
    got = sorted(zip(copies.targets[:, 0], copies.weight, strict=True))
    assert got == [(-2.0, 0.5), (1.0, 1.0), (4.0, 2.0)]


def test_copies_with_equal_targets_have_no_scatter():
    targets = np.repeat([[0.1], [0.7], [0.3]], 3, axis=0)  # the mean of three of them is another number
    assert np.bincount(np.zeros(3, int), targets[:3, 0])[0] / 3 != 0.1
    targets[-1] += 1e-9
    rows = NearRows.of(np.repeat([[0.0], [1.0], [2.0]], 3, axis=0), targets, None, 9, is_complete=True)
    order = np.argsort(rows.X[:, 0])
    assert (rows.scatter[order, 0] > 0).tolist() == [False, False, True]
    assert rows.targets[order[:2], 0].tolist() == [0.1, 0.7]


def test_weights_are_divided_by_the_one_that_most_rows_have():
    rows = NearRows.of(np.arange(5.0)[:, None], np.ones((5, 1)), np.array([0.5, 3, 3, 3, 9]), 5, is_complete=True)
    assert rows.repetition == 3
    np.testing.assert_allclose(sorted(rows.repeated(1 / 3).weight), [1 / 6, 1, 1, 1, 3])
    X, y = np.repeat(np.arange(4.0), [4, 1, 1, 1])[:, None], np.arange(7.0)[:, None]
    rows = NearRows.of(X, y, np.r_[np.ones(4), np.full(3, 0.5)], 7, is_complete=True)
    assert rows.repetition == 1  # copies with different targets are observations, and weights below one have a meaning


def test_rows_without_copies_are_unchanged_up_to_their_order():
    X = np.random.default_rng(0).normal(size=(50, 2))
    rows = NearRows.of(X, X[:, :1], None, 50, is_complete=True)
    assert rows.copies is None
    assert not rows.scatter.any()
    order, expected = by_first_column(rows), np.argsort(X[:, 0])
    np.testing.assert_array_equal(rows.X[order], X[expected])
    np.testing.assert_array_equal(rows.targets[order, 0], X[expected, 0])
    assert (rows.X != X).any()
    # The order is always the same, also for sparse rows, repetitions and features in other units.
    index = np.repeat(np.arange(50), np.arange(50) % 3 + 1)
    repeated = NearRows.of(X[index], X[index, :1], None, 99, is_complete=True)
    np.testing.assert_array_equal(repeated.X, rows.X)
    np.testing.assert_array_equal(NearRows.of(1e6 * X, X[:, :1], None, 50, is_complete=True).X, 1e6 * rows.X)
    sparse = NearRows.of(sp.csr_array(X), X[:, :1], None, 50, is_complete=True)
    np.testing.assert_array_equal(sparse.X.toarray(), rows.X)


def test_many_copies_are_a_sample_of_the_same_weight(monkeypatch):
    monkeypatch.setattr(near_rows, "MOST_COPIES", 20)
    rng = np.random.default_rng(1)
    X, targets, weight = np.repeat([[0.0], [1.0]], 500, axis=0), rng.normal(size=(1000, 1)), rng.uniform(1, 2, 1000)
    rows = NearRows.of(X, targets, weight, 1000, is_complete=True)
    assert np.bincount(rows.copies.row).tolist() == [20, 20]
    np.testing.assert_allclose(np.bincount(rows.copies.row, rows.copies.weight), rows.weight)
    some = rows[np.array([1])]
    assert len(some) == 1
    assert set(some.copies.row) == {0}
    np.testing.assert_array_equal(some.copies.targets, rows.copies.targets[rows.copies.row == 1])


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_targets_in_units(size):
    X, y = np.arange(4.0)[:, None], size * np.array([[1.0], [2.0], [3.0], [6.0]])
    rows = NearRows.in_units(X, y, None, 4, is_complete=True, centered=True)
    assert np.isfinite(np.square(rows.targets)).all()
    assert np.square(rows.targets).sum() > 0
    back = (rows.targets + rows.offset) * rows.unit
    np.testing.assert_allclose(back[by_first_column(rows)], y, rtol=1e-15)
    assert (rows.unit == 1) == (size == 1)
    np.testing.assert_allclose(rows.targets.mean(), 0, atol=1e-15)


def test_units_are_powers_of_two():
    assert unit_of(np.array([[0.0]])) == unit_of(np.array([[1e-99]])) == unit_of(np.array([[-1e99]])) == 1
    for value in (1e-320, 1e-200, 1e200, 1.7e308):
        unit = unit_of(np.array([[value]]))
        assert np.frexp(unit)[0] == 0.5
        assert np.isfinite(value / unit)


def test_above_the_limit_rows_that_features_miss_are_more_frequent():
    rng = np.random.default_rng(2)
    # Landmarks are at one place, where features represent the kernel; half of the rows are far from it.
    X = np.concatenate([0.01 * rng.normal(size=(300, 1)), rng.uniform(5, 50, size=(300, 1))])
    feature_map = Nystroem(Gaussian(1.0), 5, landmarks=X[:5]).fit(X)
    engine = MemoryEngine(X, X[:, 0], block_rows=70)
    residuals = ResidualWeights(feature_map.kernel_, feature_map.features_)
    np.testing.assert_allclose(residuals(X[300:]), 1.0, atol=1e-4)
    chosen = collect(engine, 100, 0, lambda y: np.asarray(y)[:, None], centered=True, residuals=residuals)
    assert len(chosen) == 100
    assert not chosen.is_complete
    assert chosen.n_rows == 600
    assert np.mean(chosen.X > 4) > 0.95
    # The twin: a uniform sample has both kinds of rows; five standard deviations of the share are 0.25.
    uniform = collect(engine, 100, 0, lambda y: np.asarray(y)[:, None], centered=True)
    assert abs(np.mean(uniform.X > 4) - 0.5) < 0.25
    all_rows = collect(engine, 600, 0, lambda y: np.asarray(y)[:, None], centered=False)
    assert all_rows.is_complete
    assert len(all_rows) == 600
    assert all_rows.offset is None


def test_features_are_not_computed_where_all_rows_are_stored():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), rng.normal(size=(90, 1))

    def residuals(X):
        raise AssertionError

    engine = FilteredEngine(MemoryEngine(X, y, None, block_rows=20), lambda block: block, "nothing")
    rows = collect(engine, 90, 0, np.asarray, centered=False, residuals=residuals)
    expected = NearRows.of(X, y, None, 90, is_complete=True)
    np.testing.assert_array_equal(rows.X, expected.X)
    np.testing.assert_array_equal(rows.targets, expected.targets)
    assert rows.is_complete
    with pytest.raises(AssertionError):  # there may be more rows than are stored
        collect(engine, 89, 0, np.asarray, centered=False, residuals=residuals)
