"""Blocks of arrays."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import ParameterError
from mercer.engines import MemoryEngine, block_rows_for, empty_rows, fill_rows
from mercer.engines.base import count_threads


@pytest.mark.parametrize("block_rows", [1, 3, 10, 50])
def test_blocks_cover_the_rows_in_order(block_rows):
    X, y, w = np.arange(20.0).reshape(10, 2), np.arange(10), np.arange(10) / 10
    blocks = list(MemoryEngine(X, y, w, block_rows=block_rows, start=100).blocks())
    np.testing.assert_array_equal(np.concatenate([b.X for b in blocks]), X)
    np.testing.assert_array_equal(np.concatenate([b.y for b in blocks]), y)
    np.testing.assert_array_equal(np.concatenate([b.weight for b in blocks]), w)
    assert [b.start for b in blocks] == list(range(100, 110, block_rows))


def test_sparse_rows_stay_sparse():
    engine = MemoryEngine(sp.csr_array(np.eye(5)), block_rows=2)
    assert all(sp.issparse(block.X) for block in engine.blocks())
    assert engine.sum(lambda block: block.X.sum()) == 5


def test_block_size_depends_on_the_width_alone_and_is_bounded():
    assert block_rows_for(1) == 8192
    assert block_rows_for(4096, 4) == 8192
    assert block_rows_for(8192, 8) == 2048
    assert block_rows_for(10**9) == 256


def test_block_rows_must_be_positive():
    with pytest.raises(ParameterError, match="block_rows must be at least 1, got 0"):
        MemoryEngine(np.zeros((2, 2)), block_rows=0)


@pytest.mark.parametrize("n", [0, 1, 1000, 5000])
@pytest.mark.parametrize("n_jobs", [1, 2, 7])
def test_fill_rows_visits_every_row_once(n, n_jobs):
    X, out = np.arange(2.0 * n).reshape(n, 2), np.zeros((n, 3000))

    def function(rows, target):
        target += rows[:, :1]

    fill_rows(function, X, out, n_jobs=n_jobs)
    np.testing.assert_array_equal(out[:, 7], X[:, 0])


def test_fill_rows_passes_errors_on():
    def function(rows, target):
        raise RuntimeError("stop here")

    with pytest.raises(RuntimeError, match="stop here"):
        fill_rows(function, np.zeros((5000, 2)), np.zeros((5000, 3000)), n_jobs=2)


def test_number_of_threads(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 8)
    assert [count_threads(jobs) for jobs in (None, 1, 3, -1, -2, -100)] == [8, 1, 3, 8, 7, 1]
    with pytest.raises(ParameterError, match="n_jobs must not be 0"):
        count_threads(0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 5), (300, 4096)])
def test_fresh_rows_begin_with_a_cache_line(shape, dtype):
    rows = empty_rows(*shape, dtype)
    assert rows.shape == shape
    assert rows.dtype == dtype
    assert rows.flags.c_contiguous
    assert rows.flags.writeable
    assert rows.ctypes.data % 64 == 0 or rows.size == 0
