"""Mini-batches: cut by row index whatever the blocks, centers that are running means."""

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Gaussian, RandomFourier
from mercer.engines import MemoryEngine, StreamEngine
from mercer.solvers.clusters.lloyd import Assign, RowFeatures
from mercer.solvers.clusters.mini_batch import RunningMeans, batches_of, by_batches

pytestmark = pytest.mark.covering(1)


def problem(n=230, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2)) + 4 * rng.integers(0, 2, size=(n, 2))
    draw = RowFeatures(RandomFourier(Gaussian(1.5), 16, random_state=0).fit(X).features_)
    return X, draw


@pytest.mark.parametrize("size", [1, 7, 50, 230, 1000])
@pytest.mark.parametrize("cuts", [[], [3, 3, 100], list(range(1, 230))])
@pytest.mark.parametrize("sparse", [False, True])
def test_batches_are_cut_by_row_index(size, cuts, sparse):
    X, _ = problem()
    ends = [0, *cuts, len(X)]
    blocks = [(X[a:b], None, np.arange(a, b, dtype=float)) for a, b in pairwise(ends)]
    if sparse:
        blocks = [(sp.csr_array(x), y, w) for x, y, w in blocks]
    found = list(batches_of(StreamEngine(blocks, lambda *parts: parts), size))
    assert [batch.start for batch in found] == list(range(0, 230, size))
    assert all(len(batch) == size for batch in found[:-1])
    rows = [batch.X.toarray() if sparse else batch.X for batch in found]
    assert np.array_equal(np.concatenate(rows), X)
    assert np.array_equal(np.concatenate([batch.weight for batch in found]), np.arange(230))


def test_rows_without_weights_count_once_beside_those_with():
    X, _ = problem(6)
    engine = StreamEngine([(X[:4], None, np.full(4, 3.0)), (X[4:], None, None)], lambda *parts: parts)
    assert next(batches_of(engine, 6)).weight.tolist() == [3, 3, 3, 3, 1, 1]


def test_centers_are_means_of_all_rows_that_came():
    X, draw = problem()
    Z = draw.of(X)
    state = RunningMeans.starting_at(Z[:3])
    came = [[] for _ in range(3)]
    for start in range(0, 230, 40):
        rows = slice(start, start + 40)
        labels = np.square(Z[rows][:, None] - state.centers).sum(axis=2).argmin(axis=1)
        for r in range(3):
            came[r].extend(Z[rows][labels == r])
        state = state.after(MemoryEngine(X[rows], block_rows=9).sum(Assign(draw, state.centers[None])))
    np.testing.assert_allclose(state.centers, [np.mean(z, axis=0) for z in came], rtol=1e-10, atol=1e-13)
    assert state.weight.tolist() == [len(z) for z in came]
    assert state.rows == 230


def test_a_center_without_rows_stays():
    X, draw = problem()
    far = np.full((1, 16), 50.0)
    state = RunningMeans.starting_at(np.concatenate([draw.of(X[:1]), far]))
    state = state.after(MemoryEngine(X, block_rows=99).sum(Assign(draw, state.centers[None])))
    assert np.array_equal(state.centers[1:], far)
    assert state.weight.tolist() == [230, 0]


@pytest.mark.slow
def test_passes_end_when_centers_rest():
    X, draw = problem()
    options = dict(batch_size=23, block_rows=lambda _: 10)
    engine = MemoryEngine(X, block_rows=31)
    told = []
    state, passes = by_batches(
        engine, draw, draw.of(X[:4]), max_iter=500, tol=1e-6, report=lambda *p: told.append(p), **options
    )
    assert 1 < passes < 500
    assert told == [(230, i + 1) for i in range(passes)]
    assert state.rows == 230 * passes
    _, most = by_batches(engine, draw, draw.of(X[:4]), max_iter=2, tol=0.0, **options)
    assert most == 2
    kept = MemoryEngine(X, draw.of(X), block_rows=31)
    same, _ = by_batches(kept, draw, draw.of(X[:4]), max_iter=500, tol=1e-6, **options)
    np.testing.assert_allclose(same.centers, state.centers, rtol=1e-10, atol=1e-13)
