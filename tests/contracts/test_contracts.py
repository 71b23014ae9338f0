"""Every instance of every axis keeps its contract, and no public class is missing from the lists."""

import dask
import dask.array as da
import numpy as np
import pytest

import mercer
from mercer import Kernel
from mercer.engines import MemoryEngine, StreamEngine
from mercer.engines.base import START
from mercer.engines.dask.collections import partitions_of
from mercer.engines.dask.engine import DaskEngine
from mercer.learners.base import Learner
from mercer.maps import BaseMap
from mercer.testing import check_engine, check_engines, check_kernel, check_learner, check_map

from .instances import KERNELS, LEARNERS, MAPS


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernel(kernel):
    check_kernel(kernel)


@pytest.mark.parametrize("feature_map", MAPS, ids=repr)
def test_map(feature_map):
    check_map(feature_map)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_learner(learner):
    check_learner(learner)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_learner_on_every_engine(learner):
    with dask.config.set(scheduler="synchronous"):
        check_engines(learner)


def test_memory_engine():
    check_engine(lambda blocks, jobs: MemoryEngine(np.concatenate(blocks), block_rows=10, n_jobs=jobs))


@pytest.mark.parametrize("wrap", [list, iter], ids=["list", "iterator"])
def test_stream_engine(wrap):
    def make(blocks, jobs):
        return StreamEngine(wrap([(X,) for X in blocks]), lambda X: (X, None, None), n_jobs=jobs)

    check_engine(make)


@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_dask_engine(scheduler):
    def make(blocks, jobs):
        rows = da.from_array(np.concatenate(blocks), chunks=(10, -1))
        return DaskEngine(partitions_of(rows), lambda X, y, weight: (X, y, weight), block_rows=3)

    with dask.config.set(scheduler=scheduler):
        check_engine(make)


@pytest.mark.parametrize(("base", "instances"), [(Kernel, KERNELS), (BaseMap, MAPS), (Learner, LEARNERS)])
def test_no_public_class_is_missing_from_the_lists(base, instances):
    public = [getattr(mercer, name) for name in mercer.__all__]
    concrete = {c for c in public if isinstance(c, type) and issubclass(c, base) and c is not Kernel}
    assert concrete - {type(instance) for instance in instances} == set()
    assert concrete


# ---- the checks see what they are for ---------------------------------------------------------


def test_check_kernel_sees_an_indefinite_kernel():
    class Indefinite(mercer.Gaussian):
        def profile(self, r):
            return np.cos(3 * r)  # positive definite on a line, not in space

    with pytest.raises(AssertionError, match="positive semi-definite"):
        check_kernel(Indefinite())


def test_check_map_sees_a_map_that_depends_on_the_batch():
    class Centered(mercer.Nystroem):
        def transform(self, X):
            Z = super().transform(X)
            return Z - Z.mean(axis=0)

    with pytest.raises(AssertionError, match="must not depend on the batch"):
        check_map(Centered(mercer.Gaussian(), 5))


def test_check_learner_sees_a_learner_that_ignores_weights():
    class Unweighted(mercer.KernelRidge):
        def _checked(self, X, y, weight, *, reset):
            return super()._checked(X, y, None, reset=reset)

    with pytest.raises(AssertionError, match="weights must equal repetition"):
        check_learner(Unweighted(mercer.RandomFourier(mercer.Gaussian(0.7), 20)))


def test_check_engine_sees_an_engine_that_drops_a_block():
    class Lossy(MemoryEngine):
        def blocks(self, since=START):
            return (block for block in super().blocks(since) if block.start != 20)

    with pytest.raises(AssertionError, match="every row once"):
        check_engine(lambda blocks, jobs: Lossy(np.concatenate(blocks), block_rows=10, n_jobs=jobs))


def test_check_engines_sees_a_learner_that_leaves_weights_behind():
    class Forgetful(mercer.KernelRidge):
        def _dask(self, X, y, weight):
            return super()._dask(X, y, None)

    with pytest.raises(AssertionError, match=r"dask with .* with weights must equal memory"):
        check_engines(Forgetful(mercer.RandomFourier(mercer.Gaussian(0.7), 20)))
