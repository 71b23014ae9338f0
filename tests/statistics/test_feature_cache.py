"""Cached features: equal to computed ones, and cached only for rows in memory that are few enough."""

import pickle
import time

import numpy as np
import pytest

from mercer import Gaussian, RandomFourier
from mercer.engines import Block, MemoryEngine, StreamEngine
from mercer.features import Features
from mercer.solvers.clusters.lloyd import Assign
from mercer.statistics import feature_cache
from mercer.statistics.feature_cache import RowFeatures

X = np.random.default_rng(0).normal(size=(1200, 3))
MAP = RandomFourier(Gaussian(), 16, random_state=0).fit(X)


def in_memory(dtype=np.float64):
    return MemoryEngine(X.astype(dtype), None, np.arange(1200.0), block_rows=700, n_jobs=1, start=7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_cache_holds_the_features_of_all_rows(dtype):
    features = RowFeatures(MAP.features_).cached(in_memory(dtype), 1)
    assert features.cache.dtype == dtype
    np.testing.assert_array_equal(features.cache, MAP.transform(X.astype(dtype)))
    assert features.start == 7


@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiles_cover_every_block_with_its_features(dtype, cached):
    features = RowFeatures(MAP.features_)
    if cached:
        features = features.cached(in_memory(dtype), 1)
    Z = MAP.transform(X.astype(dtype))
    for block in in_memory(dtype).blocks():
        done = 0
        for rows, tile in features.tiles(block):
            assert rows.start == done
            assert tile.dtype == dtype
            np.testing.assert_allclose(
                tile, Z[block.start - 7 :][rows], rtol=0, atol=1e-6 if dtype == np.float32 else 0
            )
            done = rows.stop
        assert done == len(block)


def test_features_of_few_rows_are_in_float64():
    found = RowFeatures(MAP.features_).of(X[:5].astype(np.float32))
    assert found.dtype == np.float64
    np.testing.assert_allclose(found, MAP.transform(X[:5]), atol=1e-6)


def test_sums_are_the_same_with_and_without_a_cache():
    features, engine = RowFeatures(MAP.features_), in_memory()
    centers = MAP.transform(X)[None, :4]
    one, two = (engine.sum(Assign(kind, centers)) for kind in (features, features.cached(engine, 1)))
    np.testing.assert_allclose(one.sums, two.sums, rtol=1e-12, atol=1e-12)
    assert np.array_equal(one.weight, two.weight)


def test_features_are_cached_only_within_the_limit(monkeypatch):
    features, engine = RowFeatures(MAP.features_), in_memory()
    monkeypatch.setattr(feature_cache, "CACHE_BYTES", 1200 * 16 * 8)
    assert features.cached(engine, 1).cache is not None
    monkeypatch.setattr(feature_cache, "CACHE_BYTES", 1200 * 16 * 8 - 1)
    assert features.cached(engine, 1) is features


def test_rows_of_streams_are_not_cached():
    stream = StreamEngine([(X,)], lambda X: (X, None, None), block_rows=lambda _: 32, n_jobs=1)
    features = RowFeatures(MAP.features_)
    assert features.cached(stream, 1) is features


def test_pickles_hold_no_cache():
    cached = RowFeatures(MAP.features_).cached(in_memory(), 1)
    restored = pickle.loads(pickle.dumps(cached))
    assert restored.cache is None
    _, tile = next(restored.tiles(Block(0, X[:3])))
    np.testing.assert_array_equal(tile, MAP.transform(X[:3]))


class Sleeping(Features):
    """One feature, whose computation takes a given time."""

    n_components = 1

    def __init__(self, seconds):
        self.seconds = seconds

    def astype(self, dtype):
        return self

    def __call__(self, X, out):
        time.sleep(self.seconds)
        out[...] = 1.0


def test_features_are_slow_if_they_take_more_time_than_to_store_them(monkeypatch):
    assert RowFeatures(Sleeping(0.001)).is_slow(X)
    assert RowFeatures(Sleeping(0.001)).is_slow(X[:1])
    monkeypatch.setattr(feature_cache, "SECONDS_TO_STORE", 1.0)
    assert not RowFeatures(Sleeping(0.001)).is_slow(X)
