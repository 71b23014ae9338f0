"""Fits with a checkpoint: fingerprints of learners, and the seeds that a resumed fit has."""

from functools import partial

import numpy as np
import pytest

from mercer import (
    Gaussian,
    KernelLogisticRegression,
    KernelRidge,
    Matern,
    ParameterError,
    ProductMap,
    RandomFourier,
)
from mercer.engines import MemoryEngine
from mercer.learners.checkpointing import check_seeds, checkpointed, fingerprint_of

X = np.random.default_rng(0).normal(size=(40, 3))


def ridge(kernel=None, width=20, seed=0, **options):
    return KernelRidge(RandomFourier(kernel or Gaussian(), width, random_state=seed), **options)


def test_fingerprints_differ_for_other_models_and_not_for_other_threads():
    fingerprint = fingerprint_of(ridge())
    assert fingerprint["learner"] == "KernelRidge"
    assert fingerprint == fingerprint_of(ridge(n_jobs=2, progress=print))
    others = [ridge(Gaussian(2.0)), ridge(Matern()), ridge(width=21), ridge(seed=1), ridge(alpha=2.0)]
    others += [ridge(block_size=7), KernelLogisticRegression(RandomFourier(Gaussian(), 20, random_state=0))]
    assert all(fingerprint != fingerprint_of(other) for other in others)


def test_fingerprints_of_arrays_depend_on_entries_and_those_of_objects_not_on_addresses():
    class Estimator:
        def __init__(self, value):
            self.value = value

        def get_params(self, deep=True):
            return {"value": self.value}

    table = np.arange(6.0)
    assert fingerprint_of(Estimator(table)) == fingerprint_of(Estimator(table.copy()))
    assert fingerprint_of(Estimator(table)) != fingerprint_of(Estimator(table[::-1].copy()))
    assert fingerprint_of(Estimator(table)) != fingerprint_of(Estimator(table.reshape(2, 3)))
    assert fingerprint_of(Estimator(partial(max))) == fingerprint_of(Estimator(partial(max)))
    assert " at 0x" not in fingerprint_of(Estimator(object()))["value"]


def test_missing_seeds_inside_of_parameters_raise():
    check_seeds(ridge(seed=None))  # which is set from the checkpoint
    halves = RandomFourier(Gaussian(), 20, random_state=0), RandomFourier(Gaussian(), 20)
    check_seeds(KernelRidge(ProductMap(Gaussian() * Gaussian(), 20, maps=halves[:1] * 2)))
    with pytest.raises(ParameterError, match=r"feature_map__maps\[1\]\.random_state must be an integer, .* got None"):
        check_seeds(KernelRidge(ProductMap(Gaussian() * Gaussian(), 20, maps=halves)))


@pytest.mark.parametrize("moving", [np.random.default_rng(0), np.random.RandomState(0)], ids=["new", "old"])
def test_generators_raise(moving):
    with pytest.raises(ParameterError, match=rf"feature_map__random_state .* got {type(moving).__name__}\. Try"):
        check_seeds(ridge(seed=moving))


def engine():
    return MemoryEngine(X, X[:, :1], None, block_rows=10, n_jobs=1)


def test_parameters_do_not_change_during_a_fit(tmp_path):
    seen = []
    model = KernelRidge(Gaussian(1.0), alpha=1.0, block_size=10)
    model.set_params(progress=lambda _: seen.append((model.random_state, model.get_params()["random_state"])))
    model.fit(X, X[:, 0], checkpoint=tmp_path / "fit.checkpoint")
    assert seen == [(None, None)] * 4


def test_the_seed_of_a_fit_without_one_is_that_of_its_checkpoint(tmp_path):
    path = tmp_path / "fit.checkpoint"
    model = KernelRidge(Gaussian())

    def interrupted():
        with checkpointed(model, engine(), path) as (saving, seed):
            seeds.append((seed, saving.seed))
            raise KeyboardInterrupt

    seeds = []
    with pytest.raises(KeyboardInterrupt):
        interrupted()
    [(first, saved)] = seeds
    assert first == saved
    with checkpointed(model, engine(), path) as (saving, seed):
        assert seed == saving.seed == first
    assert not path.exists()
    with checkpointed(KernelRidge(Gaussian(), random_state=5), engine(), path) as (saving, seed):
        assert (seed, saving.seed != first) == (5, True)


def test_a_checkpoint_and_a_warm_start_cannot_be_combined(tmp_path):
    warm = KernelLogisticRegression(Gaussian(), warm_start=True)
    with pytest.raises(ParameterError, match="KernelLogisticRegression: checkpoint and warm_start cannot be combined"):
        warm.fit(X, X[:, 0] > 0, checkpoint=tmp_path / "fit.checkpoint")
    assert not (tmp_path / "fit.checkpoint").exists()
