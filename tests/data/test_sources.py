"""What `fit` takes for rows, and the engine that it gets for them."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from mercer import DataError, Gaussian, KernelRidge, ParameterError, RandomFourier
from mercer.data.sources import bytes_of, is_blocks
from mercer.engines import MemoryEngine, StreamEngine

X = np.random.default_rng(0).normal(size=(30, 3))
y = X[:, 0]


class Frame:
    """A table that says no more than that it is one."""

    def __dataframe__(self):
        raise NotImplementedError

    def __iter__(self):
        return iter("ab")


@pytest.mark.parametrize(
    ("rows", "answer"),
    [
        (X, False),
        (X.tolist(), False),
        (tuple(map(tuple, X.tolist())), False),
        (sp.csr_array(X), False),
        (pd.DataFrame(X), False),
        (Frame(), False),
        ([], False),
        ([()], False),
        ("text", False),
        (b"bytes", False),
        ({"a": 1}, False),
        (3, False),
        ([X, X], True),  # rows alone
        ([(X, y)], True),
        ([[X, y]], True),
        (((X, y), (X, y)), True),
        ([sp.csr_array(X)], True),
        (((X, y) for _ in range(2)), True),
        (iter([X]), True),
    ],
)
def test_what_is_a_sequence_of_blocks(rows, answer):
    assert is_blocks(rows) is answer


def test_bytes_of_arrays():
    sparse = sp.csr_array(np.eye(5))
    assert bytes_of(None) == 0
    assert bytes_of(X) == 30 * 3 * 8
    assert bytes_of(sparse) == 5 * 8 + sparse.indices.nbytes + sparse.indptr.nbytes


def fresh(**options):
    return KernelRidge(RandomFourier(Gaussian(), 20, random_state=0), **options)


def test_rows_in_memory_and_blocks_have_engines_of_their_own():
    weight = np.ones(30)
    engine = fresh(block_size=7)._engine(X, y, weight)
    assert isinstance(engine, MemoryEngine)
    assert engine.block_rows == 7
    assert engine.replayable
    blocks = [(X[:10], y[:10]), (X[10:], y[10:], np.ones(20))]
    engine = fresh()._engine(blocks, None, None)
    assert isinstance(engine, StreamEngine)
    assert engine.replayable
    assert not fresh()._engine(iter(blocks), None, None).replayable
    assert engine.sum(lambda block: len(block.X)) == 30


def test_dask_rows_are_checked_by_a_copy_that_learned_nothing():
    da = pytest.importorskip("dask.array")
    model = fresh(progress=print)
    engine = model._engine(da.from_array(X, chunks=(10, 3)), da.from_array(y, chunks=10), None)
    assert type(engine).__name__ == "DaskEngine"
    check = model._later_check()
    assert check.__self__ is not model
    assert check.__self__.progress is False  # who wants to know cannot travel
    rows, targets, weight = check(X, y)
    assert np.array_equal(rows, X)
    assert targets.shape == (30, 1)
    assert weight is None
    with pytest.raises(ValueError, match="X has 2 features, but KernelRidge is expecting 3"):
        check(X[:, :2], y)
    with pytest.raises(DataError, match="y must keep its shape"):
        check(X, np.column_stack([y, y]))


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "many"])
def test_block_sizes_are_counts(size):
    with pytest.raises(ParameterError, match=r"KernelRidge: block_size must be None or an integer >= 1, got "):
        fresh(block_size=size).fit(X, y)


def test_blocks_by_default_are_smaller_the_wider_the_features_are():
    narrow, wide = (
        KernelRidge(RandomFourier(Gaussian(), D, random_state=0))._engine(X, y, None).block_rows for D in (20, 20_000)
    )
    assert narrow > wide >= 1


def test_weights_of_zero_and_weights_beside_blocks_are_refused():
    with pytest.raises(DataError, match="at least one non-zero number, got zeros only"):
        fresh().fit(X, y, np.zeros(30))
    with pytest.raises(DataError, match=r"blocks carry their own weights: pass tuples \(X, y, weight\)"):
        fresh().fit([(X, y)], None, np.ones(30))


def test_empty_blocks_are_passed_over():
    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield X[:0], y[:0]
        yield X, y
        yield X[:0], y[:0]

    np.testing.assert_array_equal(fresh().fit(blocks()).coef_, fresh().fit(X, y).coef_)
