"""The engine over dask: what it adds, how it fails, how it stops; on this process."""

import pickle
from types import SimpleNamespace

import dask
import dask.array as da
import numpy as np
import pytest
from dask.delayed import delayed

from mercer import (
    DataError,
    Deformed,
    FeatureGraph,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    MercerError,
    NeighborGraph,
    RandomFourier,
)
from mercer.engines.base import Position
from mercer.engines.dask.collections import partitions_of
from mercer.engines.dask.engine import DaskEngine, _Watch, active_client


@pytest.fixture(autouse=True)
def _in_this_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


def rows(n=90, d=2, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def engine(X, block_rows=7, **options):
    return DaskEngine(partitions_of(X), lambda X, y, weight: (X, y, weight), block_rows=block_rows, **options)


def ridge(**options):
    return KernelRidge(RandomFourier(Gaussian(), 20, random_state=0), **{"alpha": 1.0, **options})


def test_blocks_come_here_in_order():
    X = rows()
    eng = engine(da.from_array(X, chunks=((20, 0, 50, 20), (2,))))
    blocks = list(eng.blocks())
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), X)
    assert [block.start for block in blocks] == [0, 7, 14, *range(20, 70, 7), 70, 77, 84]
    later = list(eng.blocks(Position(27)))
    assert later[0].start == 27
    np.testing.assert_array_equal(np.concatenate([block.X for block in later]), X[27:])


def test_the_first_block_is_small():
    X = rows(1000)
    np.testing.assert_array_equal(engine(da.from_array(X, chunks=(400, 2))).first().X, X[:256])


def test_no_rows():
    with pytest.raises(DataError, match="no rows"):
        engine(da.zeros((0, 2))).sum(len)
    with pytest.raises(DataError, match="no rows"):
        ridge().fit(da.zeros((0, 2)), da.zeros(0))


def test_a_graph_has_one_layer_more_and_one_task_that_knows_the_work():
    X = da.zeros((64_000, 3), chunks=(1000, 3))
    graph = engine(X)._graph(b"x" * 100_000, "token", None).dask
    assert len(graph.layers) == 2
    ours = dict(next(layer for name, layer in graph.layers.items() if name.startswith("mercer-")))
    assert len(ours) == 1 + 64 + 8 + 1  # the work, the partitions, two levels of sums
    sizes = sorted(len(pickle.dumps(task)) for task in ours.values())
    assert sizes[-1] > 100_000
    assert sizes[-2] < 2_000


def test_progress_counts_each_row_once_and_ends_with_all():
    seen = []
    X = rows(100)
    ridge(progress=seen.append).fit(da.from_array(X, chunks=((30, 0, 30, 40), (2,))), X[:, 0])
    assert sorted(np.diff([0, *(p.rows for p in seen)])) == [30, 30, 40]
    assert {p.total for p in seen} == {100}
    assert seen[-1].fraction > 0.9


def test_a_partition_that_is_worked_on_twice_counts_once():
    seen = []
    watch = _Watch(30, seen.append)
    for number, rows in ((0, 10), (1, 15), (0, 10)):
        watch.done(number, rows)
    watch.finish()  # one event was lost: the end is reported all the same
    assert [p.rows for p in seen] == [10, 25, 30]


def test_the_end_is_reported_where_events_are_lost(monkeypatch):
    monkeypatch.setattr(_Watch, "done", lambda *_: None)
    seen = []
    ridge(progress=seen.append).fit(da.from_array(rows(100), chunks=(30, 2)), rows(100)[:, 0])
    assert [(p.rows, p.total) for p in seen] == [(100, 100)]


def test_an_error_in_a_partition_says_which():
    X = rows(100)
    X[73, 1] = np.nan
    with pytest.raises(DataError, match="Partition 3, rows from 60 on: Input X contains NaN"):
        ridge().fit(da.from_array(X, chunks=(20, 2)), X[:, 0])


def test_a_failed_fit_leaves_the_model_as_it_was():
    X = rows(100)
    model = ridge().fit(X, X[:, 0])
    before = model.predict(X)
    bad = X.copy()
    bad[99] = np.inf
    with pytest.raises(DataError):
        model.fit(da.from_array(bad, chunks=(20, 2)), X[:, 0])
    np.testing.assert_array_equal(model.predict(X), before)


def test_partitions_that_are_not_the_same_twice_are_refused():
    counter = iter(range(1000))
    blocks = [delayed(lambda: (np.ones((3 + next(counter), 2)), np.ones(3)), pure=False)() for _ in range(2)]
    with pytest.raises(DataError, match="was counted to have"):
        KernelRidge(RandomFourier(Gaussian(), 8)).fit(
            [delayed(lambda block: (block[0], np.ones(len(block[0]))))(block) for block in blocks]
        )


def test_a_lack_of_memory_gives_advice():
    def greedy(block):
        raise MemoryError

    with pytest.raises(MercerError, match="Try partitions of half as many rows, 10, and block_size=3"):
        engine(da.from_array(rows(40), chunks=(20, 2))).sum(greedy)


def test_other_errors_are_left_as_they_are():
    def broken(block):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        engine(da.from_array(rows(40), chunks=(20, 2))).sum(broken)


def test_labels_may_appear_in_any_partition():
    X = rows(120)
    y = np.repeat(["a", "b", "c"], 40)
    on_dask = KernelRidgeClassifier(RandomFourier(Gaussian(), 20, random_state=0), random_state=0)
    on_dask.fit(da.from_array(X, chunks=(40, 2)), da.from_array(y, chunks=40))
    model = KernelRidgeClassifier(RandomFourier(Gaussian(), 20, random_state=0), random_state=0).fit(X, y)
    assert on_dask.classes_.tolist() == ["a", "b", "c"]
    np.testing.assert_allclose(on_dask.predict_proba(X), model.predict_proba(X), rtol=1e-9)


def test_samples_do_not_depend_on_partitions():
    """The median lengthscale looks at a sample, which goes by the numbers of the rows."""
    X = rows(3000, 4)
    kernels = {
        KernelRidge(random_state=0).fit(da.from_array(X, chunks=(size, 4)), X[:, 0]).feature_map_.kernel_
        for size in (250, 999, 3000)
    }
    assert kernels == {KernelRidge(random_state=0).fit(X, X[:, 0]).feature_map_.kernel_}


def test_without_a_client_there_is_none():
    assert active_client() is None


@pytest.mark.parametrize("graph", [NeighborGraph(5), NeighborGraph(5, max_rows=40), FeatureGraph(30)], ids=repr)
def test_maps_deformed_by_graphs_are_those_of_memory(graph):
    X = rows()
    y = np.sin(2 * X[:, 0])
    deformed = Deformed(RandomFourier(Gaussian(), 20), graph, strength=2.0, power=2, random_state=0)
    memory = KernelRidge(deformed, alpha=0.1).fit(X, y)
    dask_rows, dask_targets = da.from_array(X, chunks=(25, 2)), da.from_array(y, chunks=25)
    spread = KernelRidge(deformed, alpha=0.1).fit(dask_rows, dask_targets)
    np.testing.assert_allclose(spread.predict(X), memory.predict(X), atol=1e-8)


def test_a_client_that_is_closed_between_two_passes_is_not_replaced_by_this_process():
    client = SimpleNamespace(status="running")
    total = engine(da.from_array(rows(40), chunks=(20, 2)))
    total._client = client
    assert total.sum(len) == 40
    client.status = "closed"
    with pytest.raises(MercerError, match="client or its cluster was closed during the computation"):
        total.sum(len)
