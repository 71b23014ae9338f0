"""Which map for which kernel, and for the parameter `feature_map` of a learner."""

import numpy as np
import pytest
from sklearn.base import clone

import mercer
from mercer import (
    Deformed,
    FeatureGraph,
    Gaussian,
    KernelRidge,
    Laplacian,
    LearnedMetric,
    NeighborGraph,
    Nystroem,
    ParameterError,
    Polynomial,
    PolynomialSketch,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    ResampledFourier,
    ScaledColumns,
    SphericalRadial,
    TensorSketch,
)
from mercer.kernels import Kernel
from mercer.maps import default_map, maps_for, why
from mercer.maps.registry import (
    check_grows,
    explicit_map,
    map_width,
    seeded,
    table,
    unfitted_map,
)


def test_every_map_is_in_the_table_once_and_landmarks_are_last():
    public = {getattr(mercer.maps, name) for name in mercer.maps.__all__}
    maps = {m for m in public if isinstance(m, type) and not m.__abstractmethods__}
    listed = [entry.map for entry in table()]
    assert len(listed) == len(set(listed))
    # A grid is for processes of few columns, which ask for it.
    assert set(listed) == maps - {mercer.GridFourier}
    kinds = [entry.kind for entry in table()]
    assert kinds == sorted(kinds, key=["direct", "composed", "any"].index)
    assert listed[-1] is Nystroem


def test_maps_are_listed_in_order_of_preference():
    assert maps_for(Gaussian()) == [RandomFourier, SphericalRadial, ResampledFourier, RandomMaclaurin, Nystroem]
    assert maps_for(Polynomial()) == [RandomMaclaurin, TensorSketch, PolynomialSketch, Nystroem]
    assert maps_for(Laplacian()) == [RandomFourier, ResampledFourier, Nystroem]
    assert isinstance(default_map(Gaussian()), RandomFourier)
    assert isinstance(default_map(None), RandomFourier)
    assert isinstance(default_map(1 + Polynomial()), RandomMaclaurin)


def test_direct_maps_leave_out_composed_maps_and_landmarks():
    kernel = Gaussian() * Laplacian()
    assert maps_for(kernel) == [RandomFourier, ResampledFourier, ProductMap, Nystroem]
    assert maps_for(kernel, direct=True) == [RandomFourier, ResampledFourier]
    mixed = Laplacian() * Polynomial(2)
    assert maps_for(mixed) == [ProductMap, Nystroem]
    assert maps_for(mixed, direct=True) == []
    assert explicit_map(mixed, direct=True) is None
    assert isinstance(explicit_map(mixed), ProductMap)


def test_reasons_are_given_in_the_same_order():
    lines = why(Gaussian()).splitlines()
    assert [line.split(":")[0] for line in lines] == [m.__name__ for m in maps_for(Gaussian())]
    assert all(len(line.split(": ", 1)[1]) > 10 for line in lines)


def test_a_map_is_copied_and_not_fitted():
    X = np.random.default_rng(0).normal(size=(20, 3))
    given = RandomFourier(Gaussian(2.0), 30, random_state=3).fit(X)
    found = unfitted_map("Learner", given, random_state=7, n_components=99)
    assert found is not given
    assert not hasattr(found, "features_")
    assert found.get_params() == given.get_params()  # its own seed and width


def test_parts_without_a_seed_get_one():
    assert seeded(RandomFourier(), None).random_state is None
    feature_map = ProductMap(Gaussian() * Gaussian(), 20)
    one, two = seeded(feature_map, 3).random_state, seeded(ProductMap(Gaussian() * Gaussian(), 20), 4).random_state
    assert isinstance(one, int)
    assert one != two
    assert seeded(ProductMap(Gaussian() * Gaussian(), 20), 3).random_state == one
    assert seeded(RandomFourier(Gaussian(), random_state=7), 3).random_state == 7


def test_a_seed_that_is_given_anywhere_in_a_nested_map_is_not_replaced():
    X = np.random.default_rng(0).normal(size=(30, 2))
    for wrapper, options in ((Deformed, {}), (ScaledColumns, {}), (LearnedMetric, {"rounds": 1})):
        outer = wrapper(RandomFourier(Gaussian(), 20), random_state=3, **options)
        inner = wrapper(RandomFourier(Gaussian(), 20, random_state=3), **options)
        for model in (outer, inner):
            drawn = [seeded(clone(model), seed).fit(X, X[:, 0]).transform(X) for seed in (0, 1)]
            assert np.array_equal(*drawn)
            assert np.array_equal(drawn[0], clone(model).fit(X, X[:, 0]).transform(X))
    free = seeded(Deformed(RandomFourier(Gaussian(), 20), FeatureGraph(random_state=None)), 3)
    assert isinstance(free.random_state, int)
    assert isinstance(free.graph.random_state, int)
    assert free.random_state != free.graph.random_state  # draws of their own


def test_a_kernel_or_none_gets_its_default_map():
    found = unfitted_map("Learner", Gaussian(2.0), random_state=7, n_components=99)
    assert (found.kernel, found.n_components, found.random_state) == (Gaussian(2.0), 99, 7)
    found = unfitted_map("Learner", None, random_state=7)
    assert found.fit(np.random.default_rng(0).normal(size=(50, 3))).kernel_.lengthscale > 0
    assert unfitted_map("Learner", Polynomial(2), random_state=0).accepts(Polynomial(2))


def test_other_objects_are_refused():
    with pytest.raises(ParameterError, match=r"Learner: feature_map must be a mercer map .*, a kernel, or None; got 3"):
        unfitted_map("Learner", 3, None)
    with pytest.raises(ParameterError, match=r"Numbers have names: n_clusters=3"):
        unfitted_map("Learner", 3, None)
    with pytest.raises(ParameterError, match=r"n_components must be an integer >= 1, got 0"):
        unfitted_map("Learner", RandomFourier(Gaussian(), 0), None)


@pytest.mark.parametrize("name", ["rbf", "linear", "poly", "polynomial", "laplacian", "matern"])
def test_names_of_kernels_of_scikit_learn_are_translated(name):
    with pytest.raises(ParameterError, match="Kernels are objects: write feature_map=") as raised:
        unfitted_map("Learner", name, None)
    meant = str(raised.value).split("write feature_map=")[1].removesuffix(".")
    assert isinstance(eval(meant, {"mercer": mercer}), Kernel)


def test_other_names_do_not_exist():
    with pytest.raises(ParameterError, match=r'got \'other\'\. Kernels and maps are objects, .*none named "other"'):
        unfitted_map("Learner", "other", None)


def test_the_width_of_a_map_is_known_without_a_copy(monkeypatch):
    monkeypatch.setattr("sklearn.base.clone", None)
    monkeypatch.setattr("mercer.maps.base.clone", None)
    assert map_width("Learner", None) == 512
    assert map_width("Learner", Polynomial(2)) == 512
    assert map_width("Learner", RandomFourier(Gaussian(), 30)) == 30
    assert map_width("Learner", Deformed(RandomFourier(Gaussian(), 30), NeighborGraph())) == 30
    with pytest.raises(ParameterError, match="Learner: feature_map must be a mercer map"):
        map_width("Learner", "rbf")


def test_maps_that_cannot_take_more_rows_are_refused():
    assert check_grows(KernelRidge(RandomFourier()))
    assert check_grows(KernelRidge(Gaussian()))
    with pytest.raises(
        ParameterError, match="KernelRidge: partial_fit needs a map to which rows can be added, but the"
    ):
        check_grows(KernelRidge(Deformed(RandomFourier(), NeighborGraph())))
