"""Sources of rows: which values are blocks, the engine of each source, and the validation of blocks."""

import pickle
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from mercer import DataError, Gaussian, KernelRidge, ParameterError, RandomFourier, on_dask, open_rows
from mercer.data.sources import (
    ArrayRows,
    BlockRows,
    DaskRows,
    FileRows,
    Reader,
    bytes_of,
    check_feature_names,
    is_blocks,
    is_dask,
    source_of,
)
from mercer.data.targets import Numbers
from mercer.engines import MemoryEngine, StreamEngine

X = np.random.default_rng(0).normal(size=(30, 3))
y = X[:, 0]


class Frame:
    """A table that has the dataframe protocol only."""

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
def test_iterables_of_blocks_are_recognized(rows, answer):
    assert is_blocks(rows) is answer


def test_bytes_of_arrays():
    sparse = sp.csr_array(np.eye(5))
    assert bytes_of(None) == 0
    assert bytes_of(X) == 30 * 3 * 8
    assert bytes_of(sparse) == 5 * 8 + sparse.indices.nbytes + sparse.indptr.nbytes


def fresh(**options):
    return KernelRidge(RandomFourier(Gaussian(), 20, random_state=0), **{"alpha": 1.0, **options})


def reader_of(model=None, *, width=20, **options):
    return Reader(fresh() if model is None else model, Numbers(), width=width, **options)


def test_every_kind_of_rows_has_its_source(tmp_path):
    da = pytest.importorskip("dask.array")
    np.save(tmp_path / "rows.npy", X)
    files = open_rows(tmp_path / "rows.npy")
    for rows, kind in (
        (X, ArrayRows),
        (X.tolist(), ArrayRows),
        (pd.DataFrame(X), ArrayRows),
        ([(X, y)], BlockRows),
        (iter([X]), BlockRows),
        (files, FileRows),
        (da.from_array(X), DaskRows),
        (on_dask(files), DaskRows),
    ):
        assert type(source_of(rows, owner="Learner")) is kind
    assert type(source_of([X, X], y, owner="Learner")) is ArrayRows  # blocks have their own targets
    assert is_dask([da.from_array(X)])
    assert not is_dask([X])


@pytest.mark.parametrize("name", ["y", "sample_weight"])
def test_dask_targets_of_other_rows_raise(name):
    da = pytest.importorskip("dask.array")
    values = {"y": y, name: da.from_array(y)}
    with pytest.raises(DataError, match=f"Learner: {name} is a Dask collection but X is not. Pass X from Dask too"):
        source_of(X, **values, owner="Learner")


def test_files_with_separate_targets_raise(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    with pytest.raises(DataError, match="Learner: files carry their own targets and weights: name their columns"):
        source_of(open_rows(tmp_path / "rows.npy"), y, owner="Learner")


def test_arrays_have_a_memory_engine_and_blocks_a_stream():
    engine = source_of(X, y, np.ones(30), owner="Learner").engine(reader_of(block_size=7))
    assert isinstance(engine, MemoryEngine)
    assert engine.block_rows == 7
    assert engine.replayable
    blocks = [(X[:10], y[:10]), (X[10:], y[10:], np.ones(20))]
    engine = source_of(blocks, owner="Learner").engine(reader_of())
    assert isinstance(engine, StreamEngine)
    assert engine.replayable
    assert not source_of(iter(blocks), owner="Learner").engine(reader_of()).replayable
    assert engine.sum(lambda block: len(block.X)) == 30


def test_rows_on_dask_are_validated_by_a_copy_without_fitted_attributes():
    da = pytest.importorskip("dask.array")
    model = fresh(progress=print).fit(X, y)
    reader = reader_of(model)
    engine = source_of(da.from_array(X, chunks=(10, 3)), da.from_array(y, chunks=10), owner="Learner").engine(reader)
    assert type(engine).__name__ == "DaskEngine"
    check = pickle.loads(pickle.dumps(reader.later()))
    assert check.estimator.progress is False  # a report may not survive pickle
    assert [name for name in vars(check.estimator) if name.endswith("_")] == ["n_features_in_"]
    rows, targets, weight = check(X, y)
    assert np.array_equal(rows, X)
    assert targets.shape == (30, 1)
    assert weight is None
    with pytest.raises(ValueError, match="X has 2 features, but KernelRidge is expecting 3"):
        check(X[:, :2], y)
    with pytest.raises(DataError, match="y must have the same shape in every block"):
        check(X, np.column_stack([y, y]))


def test_dask_rows_need_targets_in_the_first_partition():
    dask = pytest.importorskip("dask")
    blocks = [dask.delayed((X[:10], None)), dask.delayed((X[10:], y[10:]))]
    with pytest.raises(DataError, match="KernelRidge: the first partition must have targets, at least for some rows"):
        fresh(unlabeled=np.nan).fit(blocks)


def test_strings_among_rows_raise():
    with pytest.raises(DataError, match=r"KernelRidge: rows must be numbers, got strings such as 'a'\. Encode them"):
        reader_of()(np.array([["a", "b"]]), [1.0])
    X_read, _, _ = reader_of()(np.array([["1", "2"], ["3", "4"]]), [1.0, 2.0])
    assert X_read.tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_names_of_a_source_are_those_of_the_fit():
    model = fresh().fit(pd.DataFrame(X, columns=list("abc")), y)
    check_feature_names(model, ["a", "b", "c"])
    check_feature_names(model, None)
    for names, what in ((["a", "b"], r"lacks \['c'\]"), (list("abcd"), r"also has \['d'\]"), (list("acb"), "another")):
        with pytest.raises(DataError, match=f"KernelRidge: the columns must be those of the fit.*{what}.*columns="):
            check_feature_names(model, names)
    reader = reader_of(fresh())
    reader.set_names(["a", "b", "c"])
    reader(X, y)
    assert reader.estimator.feature_names_in_.tolist() == ["a", "b", "c"]
    with pytest.raises(DataError, match="another order"):
        reader_of(model, fresh=False).set_names(["b", "a", "c"])


def test_rows_are_brought_into_memory(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    files = open_rows(tmp_path / "rows.npy")
    assert np.array_equal(source_of(files, owner="rows").in_memory("rows"), X)
    assert source_of(X, owner="rows").in_memory("rows") is X
    assert source_of(X, owner="rows").array("rows", "Try a sample.") is X
    with pytest.raises(DataError, match=r"rows must be rows in memory, or the result of open_rows, got list"):
        source_of([(X, y)], owner="rows").in_memory("rows")
    with pytest.raises(DataError, match=r"rows takes rows in memory, got .*\. Try a sample\."):
        source_of(files, owner="rows").array("rows", "Try a sample.")


@pytest.mark.parametrize("size", [0, -1, 2.5, True, "many"])
def test_block_sizes_are_positive_integers(size):
    with pytest.raises(ParameterError, match=r"KernelRidge: block_size must be None or an integer >= 1, got "):
        fresh(block_size=size).fit(X, y)


def test_default_blocks_are_smaller_for_wider_features():
    narrow, wide = (reader_of(width=D).block_rows(X) for D in (20, 20_000))
    assert narrow > wide >= 1
    assert reader_of(most_rows=5).block_rows(X) == 5
    assert reader_of(most_rows=5, block_size=9).block_rows(X) == 9


def test_empty_arrays_raise():
    with pytest.raises(ValueError, match=r"Found array with 0 sample"):
        fresh().fit(X[:0], y[:0])
    with pytest.raises(ValueError, match=r"Found array with 0 sample"):
        fresh().fit(X, y).partial_fit(X[:0], y[:0])


def test_weights_of_zero_and_weights_beside_blocks_raise():
    with pytest.raises(DataError, match="at least one non-zero number, got zeros only"):
        fresh().fit(X, y, np.zeros(30))
    with pytest.raises(DataError, match=r"blocks carry their own weights: pass tuples \(X, y, weight\)"):
        fresh().fit([(X, y)], None, np.ones(30))


def test_empty_blocks_are_ignored():
    def blocks() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        yield X[:0], y[:0]
        yield X, y
        yield X[:0], y[:0]

    np.testing.assert_array_equal(fresh().fit(blocks()).coef_, fresh().fit(X, y).coef_)


def test_dask_collections_are_recognized_without_importing_dask():
    assert not any(map(is_dask, [None, 3, "x", np.ones(3), [], [np.ones(3)], [(1, 2)], {"a": 1}]))
    fake = type("Array", (), {"__module__": "dask.array.core"})()
    assert is_dask(fake)
    assert is_dask([fake])
