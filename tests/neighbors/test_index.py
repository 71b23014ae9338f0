"""Neighbors against distances of all pairs, computed by differences in float64."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import DataError, ParameterError
from mercer.engines.base import StagedReport
from mercer.linalg import dispatch, numpy_kernels
from mercer.linalg.row_search import PANEL_ROWS
from mercer.neighbors import cells, neighbor_index
from mercer.neighbors.dense import SAMPLED_ROWS

WRAPS = {
    "float64": np.asarray,
    "float32": lambda A: A.astype(np.float32),
    "fortran": np.asfortranarray,
    "strided": lambda A: np.repeat(A, 2, axis=0)[::2],
    "csr": sp.csr_array,
}


def as_dense(A):
    return (A.toarray() if sp.issparse(A) else A).astype(np.float64)


def all_squares(rows, X, own=None, before=None):
    """Return the squared distances of all pairs; infinity for rows that do not qualify."""
    rows, X = as_dense(rows), as_dense(X)
    squares = np.stack([np.square(x - rows).sum(axis=1) for x in X]) if len(X) else np.empty((0, len(rows)))
    if own is not None:
        squares[np.arange(len(rows)) == own[:, None]] = np.inf
    if before is not None:
        squares[np.arange(len(rows)) >= before[:, None]] = np.inf
    return squares


def check(rows, X, count, own=None, before=None, seed=0, **options):
    """Compare distances with those of all pairs, and the indices with the distances."""
    index = neighbor_index(rows, search="exact", seed=seed)
    assert (index.n_rows, index.search) == (rows.shape[0], "exact")
    indices, distances = index.query(X, count, own=own, before=before, **options)
    assert indices.shape == distances.shape == (X.shape[0], count)
    assert (indices.dtype, distances.dtype) == (np.intp, np.float64)
    squares = all_squares(rows, X, own, before)
    expected = np.full(indices.shape, np.inf)
    least = np.sort(squares, axis=1)[:, :count]
    expected[:, : least.shape[1]] = np.sqrt(least)
    np.testing.assert_allclose(distances, expected, rtol=1e-13)
    found = indices >= 0
    np.testing.assert_array_equal(found, np.isfinite(distances))
    q, position = np.nonzero(found)
    exact = np.sqrt(squares[q, indices[q, position]])
    np.testing.assert_allclose(distances[q, position], exact, rtol=1e-13)
    np.testing.assert_array_equal(distances[q, position] == 0, exact == 0)
    ordered = np.sort(np.where(found, indices, -np.arange(1, count + 1)), axis=1)
    assert (np.diff(ordered, axis=1) > 0).all(), "a row is its neighbor twice"
    ties = (distances[:, 1:] == distances[:, :-1]) & found[:, 1:]
    assert (np.diff(indices, axis=1)[ties] > 0).all()
    return indices, distances


@pytest.fixture
def small_cells(monkeypatch):
    """Let few rows have several cells and blocks."""
    monkeypatch.setattr(cells, "MIN_ROWS", 100)
    monkeypatch.setattr(cells, "BLOCK_QUERIES", 17)
    monkeypatch.setattr(cells, "BLOCK_ROWS", 50)
    monkeypatch.setattr(cells, "BLOCK_CELLS", 3)


@pytest.fixture(params=["compiled", "numpy"])
def implementation(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(dispatch, "kernels", numpy_kernels)


@pytest.mark.usefixtures("small_cells", "implementation")
@pytest.mark.covering(2)
@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize("limits", ["none", "own", "before", "both"])
@pytest.mark.parametrize(
    ("n", "d", "count"),
    [
        (1, 1, 1),
        (1, 3, 4),
        (7, 2, 12),
        (40, 1, 5),
        (300, 3, 9),
        (400, 10, 64),
        (250, 60, 1),
        (200, 200, 33),
        (120, 5, 125),
    ],
)
def test_neighbors_are_the_nearest_rows(n, d, count, limits, wrap):
    rng = np.random.default_rng(n + d)
    rows, X = rng.normal(size=(n, d)), rng.normal(size=(31, d))
    X[::5] = rows[rng.integers(n, size=len(X[::5]))]
    own = rng.integers(-1, n, size=31) if limits in ("own", "both") else None
    before = rng.integers(0, n + 1, size=31) if limits in ("before", "both") else None
    check(WRAPS[wrap](rows), WRAPS[wrap](X), count, own, before)


@pytest.mark.usefixtures("small_cells", "implementation")
@pytest.mark.parametrize("wrap", ["float64", "float32", "csr"])
def test_duplicates_are_ordered_by_index(wrap):
    rng = np.random.default_rng(1)
    rows = rng.integers(0, 2, size=(600, 4)).astype(float)  # 16 distinct rows
    X, own = rows[:50], np.arange(50)
    indices, _ = check(WRAPS[wrap](rows), WRAPS[wrap](X), 60, own=own)
    squares = all_squares(rows, X, own)
    np.testing.assert_array_equal(indices, np.argsort(squares, axis=1, kind="stable")[:, :60])
    check(WRAPS[wrap](rows), WRAPS[wrap](X), 5, own=own, before=own)
    constant = WRAPS[wrap](np.full((200, 3), 7.25))
    indices, distances = neighbor_index(constant).query(constant[:10], 4, own=np.arange(10))
    np.testing.assert_array_equal(indices[:5], [[1, 2, 3, 4], [0, 2, 3, 4], [0, 1, 3, 4], [0, 1, 2, 4], [0, 1, 2, 3]])
    assert not distances.any()


@pytest.mark.usefixtures("small_cells", "implementation")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 3, 40])
def test_rows_far_from_zero(d, dtype):
    rows = (np.random.default_rng(0).normal(size=(300, d)) + (1e8 if dtype == np.float64 else 1e4)).astype(dtype)
    check(rows, rows[:40], 6, own=np.arange(40))


@pytest.mark.usefixtures("small_cells", "implementation")
@pytest.mark.parametrize("wrap", ["float64", "csr"])
@pytest.mark.parametrize("gap", [1e4, 1e8, 1e12])
@pytest.mark.parametrize("d", [1, 16])
def test_groups_far_apart(d, gap, wrap):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, d))
    rows[150:] += gap
    rows[297:] += 5e3 * gap
    check(WRAPS[wrap](rows), WRAPS[wrap](rows[::4]), 7, own=np.arange(0, 300, 4))


@pytest.mark.usefixtures("small_cells", "implementation")
@pytest.mark.parametrize("scale", [1e-150, 1e-30, 1e30, 1e150])
def test_scales_and_queries_far_from_all_rows(scale):
    rng = np.random.default_rng(0)
    rows, X = rng.normal(size=(200, 5)), rng.normal(size=(12, 5))
    check(rows * scale, X * scale, 9)
    X[::3] *= 1e18
    check(rows * min(scale, 1e130), X * min(scale, 1e130), 9)
    if scale in (1e-30, 1e30):
        check((rows * scale).astype(np.float32), (rng.normal(size=(12, 5)) * scale).astype(np.float32), 9)


@pytest.mark.usefixtures("small_cells")
@pytest.mark.parametrize("wrap", ["float32", "csr"])
def test_results_do_not_depend_on_threads_other_queries_or_the_seed(wrap):
    rng = np.random.default_rng(2)
    rows, X = (WRAPS[wrap](rng.normal(size=(m, 6))) for m in (500, 120))
    expected = check(rows, X, 10, n_jobs=1)
    for options in ({"n_jobs": 3}, {"seed": 5}):
        for a, b in zip(check(rows, X, 10, **options), expected, strict=True):
            np.testing.assert_array_equal(a, b)
    for a, b in zip(check(rows, X[40:55], 10), expected, strict=True):
        np.testing.assert_array_equal(a, b[40:55])


@pytest.mark.usefixtures("small_cells")
def test_all_compiled_kernel_sets_agree_with_numpy():
    native = pytest.importorskip("mercer.linalg._native")
    rng = np.random.default_rng(3)
    rows, X = rng.normal(size=(700, 13)).astype(np.float32), rng.normal(size=(50, 13)).astype(np.float32)
    packed = neighbor_index(rows)._packed
    filled = [np.empty_like(array) for array in packed[4:8]]
    numpy_kernels.pack_rows(rows, *packed[:4], 0, len(packed.centers), *filled)
    for own, other in zip(packed[4:8], filled, strict=True):
        np.testing.assert_allclose(own, other, rtol=1e-6, atol=1e-7)
    homes = rng.integers(len(packed.centers), size=50)
    results = []
    for kernels in [numpy_kernels, *(getattr(native, name) for name in native.supported())]:
        indices, squares = np.full((50, 20), -1), np.full((50, 20), np.inf)
        kernels.nearest_rows(X, homes, *packed, None, None, 2, 1.0, indices, squares)
        results.append((indices, squares))
    for indices, squares in results[1:]:
        np.testing.assert_array_equal(indices, results[0][0])
        np.testing.assert_allclose(squares, results[0][1], rtol=1e-14)
        np.testing.assert_array_equal(squares, results[1][1])


@pytest.mark.usefixtures("small_cells")
def test_most_cells_are_skipped_without_an_effect():
    """Without the triangle inequality all rows would be candidates, so their values are made invalid."""
    pytest.importorskip("mercer.linalg._native")
    rng = np.random.default_rng(4)
    rows = np.concatenate([rng.normal(size=(200, 2)) + 100 * i for i in range(5)])
    index = neighbor_index(rows)
    far = np.sqrt(np.square(index._packed.centers / index._packed.scale).sum(axis=1)) > 60
    assert far.sum() > 5
    expected = index.query(rows[:20], 4)
    for cell in np.flatnonzero(far):
        index._packed.panels[index._packed.starts[cell] : index._packed.starts[cell + 1]] = np.nan
        index._packed.lows[16 * index._packed.starts[cell] : 16 * index._packed.starts[cell + 1]] = -1e30
    for a, b in zip(index.query(rows[:20], 4), expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("small_cells")
def test_approximate_search_finds_nearly_all_neighbors():
    rng = np.random.default_rng(5)
    rows, X = rng.normal(size=(4000, 8)), rng.normal(size=(200, 8))
    exact, approximate = neighbor_index(rows), neighbor_index(rows, search="approximate")
    assert (exact.search, approximate.search) == ("exact", "approximate")
    assert approximate._reach < 1
    found, distances = approximate.query(X, 64)
    np.testing.assert_allclose(distances, np.sqrt(np.take_along_axis(all_squares(rows, X), found, axis=1)), rtol=1e-13)
    shared = np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, exact.query(X, 64)[0], strict=True)]) / 64
    # 98 % of 64 neighbors of 256 sampled rows are found; of 200 others, a few percent less by sampling error.
    assert shared > 0.95
    for a, b in zip(approximate.query(X, 64), neighbor_index(rows, search="approximate").query(X, 64), strict=True):
        np.testing.assert_array_equal(a, b)


def test_auto_is_approximate_for_many_entries(monkeypatch):
    rows = np.random.default_rng(0).normal(size=(50, 2))
    assert neighbor_index(rows).search == "exact"
    monkeypatch.setattr("mercer.neighbors.index.MAX_EXACT_ENTRIES", 99)
    assert neighbor_index(rows).search == "approximate"
    assert neighbor_index(sp.csr_array(rows)).search == "exact"


@pytest.mark.parametrize("wrap", ["float64", "csr"])
def test_index_can_be_pickled(wrap):
    rows = WRAPS[wrap](np.random.default_rng(0).normal(size=(300, 4)))
    index = neighbor_index(rows)
    same = pickle.loads(pickle.dumps(index))
    for a, b in zip(index.query(rows, 5), same.query(rows, 5), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("wrap", ["float64", "csr"])
def test_no_queries_and_no_rows(wrap):
    rows = WRAPS[wrap](np.ones((3, 2)))
    indices, distances = neighbor_index(rows).query(rows[:0], 4)
    assert indices.shape == distances.shape == (0, 4)
    indices, distances = neighbor_index(rows[:0]).query(rows, 2)
    assert (indices == -1).all()
    assert np.isinf(distances).all()


class Steps(StagedReport):
    def __init__(self):
        self.steps = []

    def step(self, done, total, note="", unit="steps"):
        self.steps.append((done, total, unit))

    def plan(self, costs):
        raise NotImplementedError

    __call__ = enter = close = plan


@pytest.mark.usefixtures("small_cells")
@pytest.mark.parametrize("wrap", ["float64", "csr"])
def test_progress_is_reported(wrap):
    rows, report = WRAPS[wrap](np.random.default_rng(0).normal(size=(300, 4))), Steps()
    neighbor_index(rows).query(rows, 5, report=report)
    assert report.steps[-1] == (300, 300, "rows")
    assert report.steps == sorted(report.steps)


@pytest.mark.parametrize("wrap", ["float64", "csr"])
def test_values_whose_distances_overflow_raise(wrap):
    rows = np.ones((5, 3))
    index = neighbor_index(WRAPS[wrap](rows))
    rows[1, 1] = -1e160
    with pytest.raises(DataError, match=r"neighbor_index: .* entries up to 1e\+160 overflow. Scale"):
        neighbor_index(WRAPS[wrap](rows))
    with pytest.raises(DataError, match=r"Index: .* entries up to 1e\+160 overflow. Scale"):
        index.query(WRAPS[wrap](rows), 1)


X = np.ones((2, 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "count must be an integer >= 1, got 0"),
        ({"X": np.ones((2, 4))}, "X must have 3 features, as the rows have, got 4"),
        ({"X": np.ones(3)}, "X must have two dimensions, rows and features, got 1"),
        ({"X": np.ones((2, 3), dtype=int)}, "X must be float32 or float64, got int64"),
        ({"X": np.full((2, 3), np.nan)}, "X must be finite, got NaN or infinity"),
        ({"X": sp.csr_array(X)}, "X must be an array, as the rows are, got a CSR matrix"),
        ({"own": [0]}, r"own must be an array of 2 integers, one per query, got an array of shape \(1,\)"),
        ({"own": [0, 5]}, "own must hold integers from -1 to 4, got 0 to 5"),
        ({"before": [0.0, 1.0]}, "before must be an array of 2 integers"),
        ({"before": [-1, 6]}, "before must hold integers from 0 to 5, got -1 to 6"),
    ],
)
def test_invalid_arguments_of_a_query_raise(arguments, message):
    index = neighbor_index(np.ones((5, 3)))
    with pytest.raises((DataError, ParameterError), match=f"^DenseIndex: {message}"):
        index.query(**{"X": X, "count": 1, **arguments})


def test_invalid_arguments_of_an_index_raise():
    with pytest.raises(ParameterError, match="search must be one of 'auto', 'exact', 'approximate', got 'fast'"):
        neighbor_index(X, search="fast")
    with pytest.raises(DataError, match="rows must have at least one feature, got none"):
        neighbor_index(np.ones((3, 0)))


@pytest.mark.parametrize("d", [3, 30])
def test_cells_within_a_distance_are_those_that_bounds_do_not_exclude(d):
    n = 6000
    X = np.random.default_rng(5).normal(size=(n, d)) + 100.0
    index = neighbor_index(X, search="exact")
    packed = index._packed
    some = np.random.default_rng(0).choice(n, size=SAMPLED_ROWS, replace=False)
    squares = all_squares(X, X[some], own=some)
    reaches = np.sqrt(np.sort(squares, axis=1)[:, 9])
    within = cells.cells_within(packed, X[some], reaches**2)
    cell_of_row = np.empty(n, dtype=int)
    for cell, first in enumerate(packed.starts[:-1]):
        rows = packed.order[PANEL_ROWS * first : PANEL_ROWS * packed.starts[cell + 1]]
        cell_of_row[rows[rows >= 0]] = cell
    centers = packed.centers / packed.scale
    radii = [max(np.linalg.norm(X[cell_of_row == cell] - center, axis=1)) for cell, center in enumerate(centers)]
    for q, reach in enumerate(reaches):
        assert within[q, cell_of_row[squares[q] <= reach**2]].all(), "a cell with a neighbor is excluded"
        gaps = np.linalg.norm(X[some[q]] - centers, axis=1)
        home = gaps.argmin()
        for cell in np.flatnonzero(~within[q]):
            plane = (gaps[cell] ** 2 - gaps[home] ** 2) / (2 * np.linalg.norm(centers[cell] - centers[home]))
            assert max(gaps[cell] - radii[cell], plane) > reach * (1 - 1e-9)
    compared = index.rows_compared(X, 10)
    assert compared == pytest.approx((within @ np.bincount(cell_of_row)).mean())
    assert (compared < n / 2) == (d == 3)
