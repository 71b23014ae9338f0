"""Features that are kept: the same numbers, only where there is room, and only of rows in memory."""

import numpy as np
import pytest

from mercer import Gaussian, RandomFourier
from mercer.engines import MemoryEngine, StreamEngine
from mercer.solvers.clusters.lloyd import Assign, RowFeatures
from mercer.statistics import feature_cache as kept_features
from mercer.statistics.feature_cache import is_memory, keeping_features

X = np.random.default_rng(0).normal(size=(100, 3))
MAP = RandomFourier(Gaussian(), 16, random_state=0).fit(X)


def in_memory(dtype=np.float64):
    return MemoryEngine(X.astype(dtype), None, np.arange(100.0), block_rows=32, n_jobs=1, start=7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_carry_their_features(dtype):
    engine = in_memory(dtype)
    engine.journal = object()
    kept = keeping_features(engine, RowFeatures(MAP.features_), 1)
    Z = MAP.transform(X.astype(dtype))
    assert kept.y.dtype == dtype
    assert np.array_equal(kept.y, Z)
    assert kept.X is engine.X
    assert kept.weight is engine.weight
    assert kept.journal is engine.journal
    assert (kept.block_rows, kept.start) == (32, 7)


def test_sums_are_the_same_with_and_without():
    draw = RowFeatures(MAP.features_)
    centers = MAP.transform(X)[None, :4]
    engine = in_memory()
    one, two = (source.sum(Assign(draw, centers)) for source in (engine, keeping_features(engine, draw, 1)))
    np.testing.assert_allclose(one.sums, two.sums, rtol=1e-12, atol=1e-12)
    assert np.array_equal(one.weight, two.weight)


def test_only_what_has_room_is_kept(monkeypatch):
    engine, draw = in_memory(), RowFeatures(MAP.features_)
    monkeypatch.setattr(kept_features, "KEPT_BYTES", 100 * 16 * 8)
    assert keeping_features(engine, draw, 1) is not engine
    monkeypatch.setattr(kept_features, "KEPT_BYTES", 100 * 16 * 8 - 1)
    assert keeping_features(engine, draw, 1) is engine


def test_streams_stay_as_they_are():
    stream = StreamEngine([(X,)], lambda X: (X, None, None), block_rows=lambda _: 32, n_jobs=1)
    assert not is_memory(stream)
    assert keeping_features(stream, RowFeatures(MAP.features_), 1) is stream
