"""Maps that are drawn: from how many rows, with which seed and weights, and how one is found for a kernel."""

import inspect

import numpy as np
import pytest

import mercer
from mercer import (
    CompositionMap,
    DataError,
    Deformed,
    ExponentialDotProduct,
    Gaussian,
    Intersection,
    Laplacian,
    Matern,
    Nystroem,
    ParameterError,
    Polynomial,
    PolynomialSketch,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    SphericalRadial,
    SumMap,
    TensorSketch,
    ThresholdFeatures,
    UnsupportedKernelError,
)
from mercer.engines import MemoryEngine, StreamEngine
from mercer.maps import BaseMap, DrawnMap, default_map, maps_for
from mercer.maps.drawn import _concrete, explicit_map
from mercer.maps.seeds import as_generator

KINDS = [RandomFourier, Nystroem, RandomMaclaurin]


def rows(seed, n=40, d=3):
    return np.random.default_rng(seed).normal(0.2, 1.0, size=(n, d))


# ---- the contract ------------------------------------------------------------------------------


def test_every_map_keeps_all_that_its_base_asks_for():
    public = {getattr(mercer.maps, name) for name in mercer.maps.__all__}
    maps = {m for m in public if isinstance(m, type) and issubclass(m, BaseMap)}
    assert {m for m in maps if inspect.isabstract(m)} == {BaseMap, DrawnMap}
    assert {m for m in maps if not issubclass(m, DrawnMap)} == {BaseMap}
    assert BaseMap.__abstractmethods__ == {"accepts", "unbiased", "fit_engine"}
    assert DrawnMap.__abstractmethods__ == {"accepts", "unbiased", "_draw"}
    # What is drawn has one way to be fitted, and what is not has no draw.
    assert not [m for m in maps if issubclass(m, DrawnMap) and m.fit_engine is not DrawnMap.fit_engine]
    assert not {"_draw", "fit_sample", "rows_wanted", "sample_seed"} & set(dir(Deformed))


def test_only_whole_classes_are_offered():
    found = set(_concrete(BaseMap))
    assert DrawnMap not in found
    assert not [m for m in found if inspect.isabstract(m)]
    assert {RandomFourier, SumMap, ProductMap, CompositionMap, Deformed} <= found


def test_what_is_no_draw_is_no_part_of_another_map():
    X = rows(0)
    text = r"^Deformed cannot be a part of another map\.\n  needs: to be the outermost map"
    for whole in (
        SumMap(Gaussian() + Matern(), 20, maps=[Deformed(), RandomFourier()]),
        ProductMap(Gaussian() * Matern(), 20, maps=[RandomFourier(), Deformed()]),
        CompositionMap(ExponentialDotProduct() @ Gaussian(), 20, inner_map=Deformed()),
    ):
        with pytest.raises(UnsupportedKernelError, match=text):
            whole.fit(X)


def test_an_explicit_map_is_a_draw():
    class Everything(Deformed):
        preference = -1

        @classmethod
        def accepts(cls, kernel):
            return True

        @property
        def unbiased(self):
            return True

    try:
        assert maps_for(Laplacian())[0] is Everything
        assert isinstance(explicit_map(Laplacian()), RandomFourier)
        assert explicit_map(Laplacian(), below=RandomFourier.preference) is None
    finally:  # subclasses are found as long as they live
        Everything.accepts = classmethod(lambda cls, kernel: False)


@pytest.mark.parametrize(
    "feature_map",
    [
        Nystroem(Gaussian(1.0), 50),
        RandomMaclaurin(Polynomial(1), 50),
        SumMap(Polynomial(1) + Polynomial(1), 50, maps=[RandomMaclaurin(), RandomMaclaurin()]),
    ],
    ids=lambda m: type(m).__name__,
)
def test_warnings_point_to_the_call_of_fit(feature_map):
    with pytest.warns(mercer.MercerWarning, match="are zero") as caught:
        feature_map.fit(rows(0))
    assert {warning.filename for warning in caught} == {__file__}


# ---- from how many rows ------------------------------------------------------------------------


def test_the_width_is_all_that_a_kernel_of_numbers_needs():
    assert not RandomFourier(Gaussian(1.0)).needs_rows()
    assert RandomFourier(Gaussian("median")).needs_rows()
    assert Nystroem(Gaussian(1.0), 1).needs_rows()
    assert Deformed(RandomFourier(Gaussian(1.0))).needs_rows()
    once = StreamEngine(iter([(rows(0),)]), lambda X: (X, None, None))
    assert RandomFourier(Gaussian(1.0), 4).fit_engine(once).n_features_in_ == 3
    once = StreamEngine(iter([(rows(0),)]), lambda X: (X, None, None))
    with pytest.raises(DataError, match=r"RandomFourier.*learns from rows before.*can be read only once"):
        RandomFourier(Gaussian("median"), 4).fit_engine(once)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [40, 3000], ids=["all", "a-sample"])
def test_fit_is_the_fit_of_an_engine_whatever_its_blocks(kind, n):
    X = rows(0, n)
    expected = kind(n_components=4, random_state=1).fit(X)
    for engine in (
        MemoryEngine(X, block_rows=17),
        MemoryEngine(X, None, np.ones(n), block_rows=4000),
        StreamEngine([(X[:11],), (X[11:],)], lambda X: (X, None, None)),
    ):
        found = kind(n_components=4, random_state=1).fit_engine(engine)
        assert found.kernel_ == expected.kernel_
        np.testing.assert_array_equal(found.transform(X[:5]), expected.transform(X[:5]))


def test_all_rows_are_taken_as_they_are_and_never_copied():
    X = np.abs(rows(0, 500))
    sample, weight = ThresholdFeatures(Intersection(), 8)._sample(MemoryEngine(X, block_rows=50))
    assert sample is X
    assert weight is None
    assert RandomFourier(Gaussian(1.0))._sample(MemoryEngine(X, block_rows=50))[0].shape == (1, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_fit_changes_nothing(kind):
    X = rows(0)
    m = kind(Gaussian(1.0), 4, random_state=0).fit(X)
    before = m.transform(X)
    with pytest.raises(ParameterError):
        m.set_params(n_components=0).fit(rows(1, d=5))
    np.testing.assert_array_equal(m.transform(X), before)


@pytest.mark.parametrize("kind", KINDS)
def test_a_median_of_one_row_is_refused(kind):
    with pytest.raises(
        ValueError, match="needs at least two different rows to take a median distance, got n_samples=1"
    ):
        kind(Gaussian("median"), 1).fit(rows(0, n=1))
    with pytest.raises(ValueError, match="got n_samples=5 equal rows"):
        kind(n_components=1).fit(np.ones((5, 2)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_median_is_resolved_on_a_sample_that_the_seed_decides(kind):
    X = rows(0, n=3000)
    first, again = (kind(n_components=4, random_state=1).fit(X) for _ in range(2))
    assert first.kernel is None
    assert first.kernel_ == again.kernel_
    # Distances have mean near 2.3 and spread near 0.9; a thousand rows put the median within a twentieth.
    exact = Gaussian("median").resolve(X[:1000]).lengthscale
    assert first.kernel_.lengthscale == pytest.approx(exact, rel=0.05)
    assert kind(n_components=4, random_state=2).fit(X).kernel_ != first.kernel_


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_seed_is_taken(kind):
    X = rows(0)
    for make in (
        lambda: 5,
        lambda: np.random.default_rng(5),
        lambda: np.random.RandomState(5),
        lambda: np.int64(5),
    ):
        one, two = (kind(Gaussian(), 4, random_state=make()).fit_transform(X) for _ in range(2))
        np.testing.assert_array_equal(one, two)
    for wrong in (-1, "seed", 1.5):
        with pytest.raises(
            ParameterError, match="random_state must be None, an integer >= 0, or a numpy Generator or RandomState, got"
        ):
            kind(Gaussian(), 4, random_state=wrong).fit(X)
    assert isinstance(as_generator(None), np.random.Generator)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_weight_zero_are_not_looked_at(kind):
    X, weight = rows(0), np.repeat([1.0, 0.0], 20)
    kept = kind(Gaussian("median"), 4, random_state=0).fit_sample(X[:20])
    weighted = kind(Gaussian("median"), 4, random_state=0).fit_sample(X, weight)
    assert weighted.kernel_ == kept.kernel_
    np.testing.assert_array_equal(weighted.transform(X), kept.transform(X))


def test_maps_are_offered_by_what_the_kernel_is():
    assert maps_for(Gaussian()) == [RandomFourier, SphericalRadial, RandomMaclaurin, Nystroem]
    assert set(maps_for(Polynomial())) == {RandomMaclaurin, TensorSketch, PolynomialSketch, Nystroem}
    assert maps_for(Laplacian()) == [RandomFourier, Nystroem]
    assert isinstance(default_map(Gaussian()), RandomFourier)
    assert isinstance(default_map(None), RandomFourier)
    assert isinstance(default_map(1 + Polynomial()), RandomMaclaurin)
