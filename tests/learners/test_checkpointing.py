"""What must be the same for two fits to be the same: facts, seeds, and the seed that a fit with a checkpoint has."""

from functools import partial

import numpy as np
import pytest

from mercer import (
    Deformed,
    Gaussian,
    KernelLogisticRegression,
    KernelRidge,
    Matern,
    ParameterError,
    ProductMap,
    RandomFourier,
)
from mercer.engines import MemoryEngine
from mercer.learners.checkpointing import check_seeds, facts_of, journalled, seeded

X = np.random.default_rng(0).normal(size=(40, 3))


def ridge(kernel=None, width=20, seed=0, **options):
    return KernelRidge(RandomFourier(kernel or Gaussian(), width, random_state=seed), **options)


def test_facts_tell_models_apart_and_not_how_they_are_computed():
    facts = facts_of(ridge())
    assert facts["learner"] == "KernelRidge"
    assert facts == facts_of(ridge(n_jobs=2, progress=print))
    others = [ridge(Gaussian(2.0)), ridge(Matern()), ridge(width=21), ridge(seed=1), ridge(alpha=2.0)]
    others += [ridge(block_size=7), KernelLogisticRegression(RandomFourier(Gaussian(), 20, random_state=0))]
    assert all(facts != facts_of(other) for other in others)


def test_arrays_are_told_apart_by_their_entries_and_functions_not_by_their_place():
    class Estimator:
        def __init__(self, value):
            self.value = value

        def get_params(self, deep=True):
            return {"value": self.value}

    table = np.arange(6.0)
    assert facts_of(Estimator(table)) == facts_of(Estimator(table.copy()))
    assert facts_of(Estimator(table)) != facts_of(Estimator(table[::-1].copy()))
    assert facts_of(Estimator(table)) != facts_of(Estimator(table.reshape(2, 3)))
    assert facts_of(Estimator(partial(max))) == facts_of(Estimator(partial(max)))
    assert " at 0x" not in facts_of(Estimator(object()))["value"]


def test_seeds_that_are_missing_deep_inside_are_named():
    check_seeds(ridge(seed=None))  # that one can be given
    halves = RandomFourier(Gaussian(), 20, random_state=0), RandomFourier(Gaussian(), 20)
    check_seeds(KernelRidge(ProductMap(Gaussian() * Gaussian(), 20, maps=halves[:1] * 2)))
    with pytest.raises(ParameterError, match=r"feature_map__maps\[1\]\.random_state must be an integer, .* got None"):
        check_seeds(KernelRidge(ProductMap(Gaussian() * Gaussian(), 20, maps=halves)))


@pytest.mark.parametrize("moving", [np.random.default_rng(0), np.random.RandomState(0)], ids=["new", "old"])
def test_generators_are_refused_by_name(moving):
    with pytest.raises(ParameterError, match=rf"feature_map__random_state .* got {type(moving).__name__}\. Try"):
        check_seeds(ridge(seed=moving))


def test_a_seed_is_given_to_parts_that_have_none():
    feature_map = ProductMap(Gaussian() * Gaussian(), 20)
    one, two = seeded(feature_map, 3).random_state, seeded(ProductMap(Gaussian() * Gaussian(), 20), 4).random_state
    assert isinstance(one, int)
    assert one != two
    assert seeded(ProductMap(Gaussian() * Gaussian(), 20), 3).random_state == one
    assert seeded(RandomFourier(Gaussian(), random_state=7), 3).random_state == 7
    nested = seeded(Deformed(RandomFourier(Gaussian(), 20)), 3)
    assert nested.random_state != nested.feature_map.random_state  # draws of their own


def engine():
    return MemoryEngine(X, X[:, :1], None, block_rows=10, n_jobs=1)


def test_without_a_checkpoint_nothing_happens():
    model, source = ridge(seed=None), engine()
    with journalled(model, source, None):
        assert source.journal is None
        assert model._seed is None


def test_a_seed_stands_for_none_only_while_the_fit_runs(tmp_path):
    path = tmp_path / "fit.checkpoint"
    model, source = KernelRidge(Gaussian()), engine()
    with journalled(model, source, path):
        assert model.random_state == model._seed == source.journal.seed
    assert model.random_state is None
    assert model._seed is None
    model = KernelRidge(Gaussian(), random_state=5)
    with pytest.raises(KeyboardInterrupt), journalled(model, engine(), path):
        raise KeyboardInterrupt
    assert model.random_state == 5
    assert model._seed is None


def test_what_a_checkpoint_cannot_know_is_refused(tmp_path):
    warm = KernelLogisticRegression(Gaussian(), warm_start=True)
    with (
        pytest.raises(ParameterError, match="a checkpoint does not know the model that warm_start begins with"),
        journalled(warm, engine(), tmp_path / "fit.checkpoint"),
    ):
        pass
