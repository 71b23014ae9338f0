"""Maps of sums and products: the contract, exact cases, parts of kernels, users' maps, mistakes."""

import numpy as np
import pytest
from sklearn.base import clone

from mercer import (
    CompositionMap,
    Constant,
    ExponentialDotProduct,
    Gaussian,
    KernelRidge,
    Laplacian,
    Matern,
    MercerWarning,
    Nystroem,
    ParameterError,
    Polynomial,
    ProductMap,
    RandomFourier,
    RandomMaclaurin,
    SumMap,
    Transformed,
    UnsupportedKernelError,
)
from mercer.maps import default_map, maps_for
from mercer.maps.algebra.product_map import PRODUCTS, factors
from mercer.maps.algebra.sum_map import SUMS
from mercer.maps.registry import explicit_map
from mercer.testing import check_map

from .instances import BACK, FRONT, MIXED_PRODUCT, SIGNED, exact_maps, name_of, rows

MAPS = [
    SumMap(Matern() + Polynomial(3), 30),
    *(
        SumMap(Matern() + Transformed(Laplacian("median"), columns=(1,)) + ExponentialDotProduct(0.2), n)
        for n in (1, 2, 3, 11)
    ),
    SumMap(Matern() + Polynomial(2), 30, maps=[RandomFourier(directions="iid"), RandomMaclaurin(plan="random")]),
    SumMap(Matern() + SIGNED, 40),
    SumMap(Matern() + MIXED_PRODUCT, 20),
    *(ProductMap(Matern() * Polynomial(2), n) for n in (1, 5, 10, 31)),
    *(ProductMap(Matern() * ExponentialDotProduct(0.1), n, method="paired") for n in (1, 7)),
    ProductMap(Matern() * (1 + Laplacian()) * BACK, 40, maps=[RandomFourier(), RandomFourier(), RandomMaclaurin()]),
    ProductMap(Gaussian() * Laplacian(), 24, maps=[RandomFourier(n_components=4)] * 2, method="kronecker"),
    ProductMap((Matern() + Polynomial(2)) * ExponentialDotProduct(0.1), 12),
]


@pytest.mark.covering(0)
@pytest.mark.parametrize("feature_map", MAPS, ids=name_of)
def test_contract(feature_map):
    check_map(feature_map)


@pytest.mark.parametrize("feature_map", MAPS, ids=name_of)
def test_a_failed_fit_leaves_the_map_as_it_was(feature_map):
    m = clone(feature_map).set_params(random_state=0).fit(rows())
    before, Z = dict(vars(m)), m.transform(rows(1))
    with pytest.raises(ValueError, match="NaN"):
        m.fit(np.full((3, 3), np.nan))
    with pytest.raises(ParameterError, match="random_state"):
        m.set_params(random_state=-1).fit(rows(2))
    m.set_params(random_state=0)
    assert vars(m).keys() == before.keys()
    np.testing.assert_array_equal(m.transform(rows(1)), Z)
    assert list(m.get_feature_names_out()) == [f"{type(m).__name__.lower()}{i}" for i in range(m.n_components)]


def test_nested_sums_products_and_scalings_of_exact_maps_are_exact():
    X = rows()
    kernel = 2 * (0.5 * (3 * (FRONT * BACK)) + Polynomial(2) + 0.25 * (BACK + 1))
    inner = ProductMap(maps=exact_maps(2))
    m = SumMap(kernel, 12 + 10 + 2 + 1, maps=[inner, *exact_maps(3)], random_state=0)
    m.fit(X)
    assert [part.n_components for part in m.maps_] == [12, 10, 2, 1]
    assert (m.exact_components(kernel, 3), SumMap().exact_components(Matern() + BACK, 3)) == (25, None)
    assert ProductMap(maps=exact_maps(2), method="paired").exact_components(FRONT * BACK, 3) is None
    np.testing.assert_allclose(m.gram(X, rows(1)), kernel(X, rows(1)), rtol=1e-8, atol=1e-8)


def test_components_beyond_an_exact_map_are_zero_with_a_warning():
    X = rows()
    with pytest.warns(MercerWarning, match=r"SumMap: 8 components make the map exact; the last 12 of n_components=20"):
        m = SumMap(FRONT + BACK, 20, maps=exact_maps(2), random_state=0).fit(X)
    out = np.full((len(X), 20), np.nan)
    m.transform(X, out=out)
    np.testing.assert_array_equal(out[:, 8:], 0.0)
    np.testing.assert_allclose(out @ out.T, (FRONT + BACK)(X), rtol=1e-8, atol=1e-8)
    with pytest.warns(MercerWarning, match=r"ProductMap: 12 components make the map exact; the last 8 of"):
        m = ProductMap(FRONT * BACK, 20, maps=exact_maps(2), random_state=0).fit(X)
    out[:] = np.nan
    m.transform(X, out=out)
    np.testing.assert_array_equal(out[:, 12:], 0.0)
    np.testing.assert_allclose(out @ out.T, (FRONT * BACK)(X), rtol=1e-8, atol=1e-8)


def test_parts_that_one_map_can_approximate_together_are_joined():
    a, b = Transformed(Gaussian(), columns=(0,)), Transformed(Laplacian(), columns=(1,))
    assert SUMS.groups_of(b + Polynomial(2) + a) == (b + a, Polynomial(2))
    assert SUMS.groups_of(2 * (a + 3 * b)) == (2.0 * a + 6.0 * b,)
    assert SUMS.split(2 * (a + 3 * b) + 1) == (2.0 * a, 6.0 * b, Constant(1.0))
    assert PRODUCTS.groups_of(a * BACK * b) == (a * b, BACK)
    assert PRODUCTS.split(2 * (3 * (a * b))) == (6.0 * a, b)
    assert PRODUCTS.split((2 * a) * (3 * b)) == (2.0 * a, 3.0 * b)
    assert list(factors(2 * a)) == [2.0 * a]


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [
        (Gaussian() + Laplacian(), RandomFourier),
        (Gaussian() + Polynomial(2), RandomMaclaurin),
        (Matern() + Polynomial(2), SumMap),
        (3 * (2 * (Matern() + Polynomial(2))), SumMap),
        (Matern() * Polynomial(2), ProductMap),
        (3 * (2 * (Matern() * Polynomial(2))), ProductMap),
        ((Matern() + Polynomial(2)) * ExponentialDotProduct(), ProductMap),
        (ExponentialDotProduct() @ Matern(), RandomFourier),
        (ExponentialDotProduct(0.1) @ (Matern() + Polynomial(2)), CompositionMap),
        (2 * (2 * (ExponentialDotProduct(0.1) @ (Matern() + Polynomial(2)))), CompositionMap),
        (Polynomial(2) + 2 * (ExponentialDotProduct(0.1) @ (Matern() + Polynomial(2))), SumMap),
        (BACK * (Polynomial(2) @ (Matern() + Polynomial(1))), ProductMap),
    ],
    ids=lambda value: "".join(repr(value).split()),
)
def test_every_kernel_of_the_algebra_has_a_default_map_that_learners_take(kernel, kind):
    assert maps_for(kernel)[0] is kind
    assert maps_for(kernel)[-1] is Nystroem
    assert isinstance(default_map(kernel), kind)
    assert isinstance(explicit_map(kernel), kind)
    X = 0.3 * rows(n=20)
    model = KernelRidge(feature_map=kernel, alpha=1e-2, random_state=0).fit(X, X[:, 0])
    assert isinstance(model.feature_map_, kind)
    assert np.isfinite(model.predict(X)).all()


def test_a_kernel_that_only_landmarks_approximate_has_no_explicit_map():
    kernel = Transformed(Matern() + Polynomial(2), columns=(0, 1))
    assert maps_for(kernel) == [Nystroem]
    assert explicit_map(kernel) is None
    for whole in (ExponentialDotProduct() @ kernel, kernel + Polynomial(1), kernel * Polynomial(1)):
        assert isinstance(default_map(whole), Nystroem)


def test_unbiased_names_the_biased_part():
    X = rows()
    kernel = Matern() + Polynomial(2)
    assert SumMap(kernel).unbiased is True
    biased = SumMap(kernel, 30, maps=[Nystroem(), RandomMaclaurin()])
    assert biased.unbiased.startswith("Nystroem is biased: a projection on landmarks")
    assert biased.fit(X).unbiased.startswith("Nystroem is biased")
    hadamard = ProductMap(Matern() * Polynomial(2), 30, maps=[RandomFourier(directions="hadamard"), RandomMaclaurin()])
    assert hadamard.unbiased.startswith("RandomFourier is biased: sign-Hadamard")


def test_parameters_reach_the_kernel_and_copies_do_not_share_state():
    m = SumMap(Matern() + Polynomial(2), 30, random_state=0).set_params(kernel__left__nu=2.5)
    assert m.kernel == Matern(2.5) + Polynomial(2)
    X = rows()
    again = clone(m.fit(X))
    assert not hasattr(again, "maps_")
    np.testing.assert_array_equal(again.fit(X).transform(X), m.transform(X))
    prototypes = [RandomFourier(), RandomMaclaurin()]
    SumMap(Matern() + Polynomial(2), 30, maps=prototypes).fit(X)
    assert [p.kernel for p in prototypes] == [None, None]
    assert [p.n_components for p in prototypes] == [512, 512]


@pytest.mark.parametrize(("kind", "word"), [(SumMap, "sum"), (ProductMap, "product")])
def test_other_kernels_than_sums_or_products_are_refused(kind, word):
    with pytest.raises(UnsupportedKernelError) as error:
        kind(Matern(), 8).fit(rows())
    assert str(error.value).splitlines() == [
        f"{kind.__name__} cannot approximate Matern(nu=1.5, lengthscale=1.0).",
        f"  needs: a {word} of kernels that each have an unbiased map",
        "  got:   an isotropic kernel, k(x, y) = f(|x - y|)",
        f"  try:   {', '.join(m.__name__ for m in maps_for(Matern()))}",
    ]


@pytest.mark.parametrize("maps", [[RandomFourier()], [RandomFourier(), "maps"], [RandomFourier()] * 3])
def test_a_wrong_number_or_kind_of_maps_is_refused(maps):
    with pytest.raises(ParameterError, match=r"SumMap: maps must be one mercer map for each of the 2 parts of .*, got"):
        SumMap(Matern() + Polynomial(2), 30, maps=maps).fit(rows())


def test_maps_that_cannot_approximate_their_part_are_refused():
    with pytest.raises(UnsupportedKernelError, match="RandomMaclaurin cannot approximate Matern"):
        SumMap(Matern() + Polynomial(2), 30, maps=[RandomMaclaurin(), RandomMaclaurin()]).fit(rows())
    with pytest.raises(ParameterError, match=r"has complex features, and cannot be a part of another map"):
        SumMap(Matern() + Polynomial(2), 30, maps=[RandomFourier(form="complex"), RandomMaclaurin()]).fit(rows())


@pytest.mark.parametrize(
    "feature_map",
    [SumMap(Matern() + ExponentialDotProduct(0.2), 40), ProductMap(Matern() * ExponentialDotProduct(0.2), 40)],
    ids=name_of,
)
def test_weights_are_repetitions(feature_map):
    X = rows(n=30)
    repeats = np.random.default_rng(0).integers(0, 3, len(X))
    model = KernelRidge(feature_map.set_params(random_state=0), alpha=0.1)
    y = X[:, 0]
    weighted = clone(model).fit(X, y, sample_weight=repeats)
    repeated = clone(model).fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-7, atol=1e-9)
