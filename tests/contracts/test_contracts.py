"""Every instance of every axis keeps its contract, and no public class is missing from the lists."""

import inspect

import dask
import dask.array as da
import numpy as np
import pytest

import mercer
from mercer import Kernel
from mercer.engines import MemoryEngine, StreamEngine
from mercer.engines.dask.collections import partitions_of
from mercer.engines.dask.engine import DaskEngine
from mercer.learners.base import Learner
from mercer.maps import BaseMap
from mercer.testing import check_engine, check_engines, check_kernel, check_learner, check_map

from ..instances import KERNELS, LEARNERS, MAPS


@pytest.mark.covering(1, kernel=type)
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_kernel(kernel):
    check_kernel(kernel)


@pytest.mark.slow
@pytest.mark.parametrize("feature_map", MAPS, ids=repr)
def test_map(feature_map):
    check_map(feature_map)


@pytest.mark.covering(1, learner=type)
@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_learner(learner):
    check_learner(learner)


@pytest.mark.covering(1, learner=type)
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
    modules = (mercer, mercer.kernels, mercer.maps, mercer.graphs, mercer.learners)
    public = [getattr(module, name) for module in modules for name in module.__all__]
    concrete = {c for c in public if isinstance(c, type) and issubclass(c, base) and not inspect.isabstract(c)}
    assert concrete - {type(instance) for instance in instances} == set()
    assert concrete
