"""Maps of f @ k: plans, exact terms, the user's inner map, domains, learners and errors."""

import numpy as np
import pytest
from sklearn.base import clone

from mercer import (
    CompositionMap,
    DataError,
    DotProduct,
    ExponentialDotProduct,
    Gaussian,
    Geometric,
    KernelRidge,
    Laplacian,
    Matern,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    SumMap,
    Transformed,
    UnsupportedKernelError,
)
from mercer.maps import maps_for
from mercer.maps.algebra import composition
from mercer.maps.algebra.composition import composition_of
from mercer.testing import check_map

INNER = 0.3 * Matern() + 0.1 * Polynomial(1)  # no spectrum and no series: only a composition map accepts it
MAPS = [
    *(CompositionMap(ExponentialDotProduct() @ Gaussian(), n) for n in (1, 2, 3, 40)),
    *(CompositionMap(ExponentialDotProduct() @ Gaussian("median"), n, plan="geometric", p=3.0) for n in (1, 12)),
    CompositionMap(2 * (Polynomial(3) @ (Laplacian() + 0.5)), 25),
    CompositionMap(ExponentialDotProduct() @ INNER, 25),
    CompositionMap(Polynomial(2) @ Polynomial(2), 30),
    CompositionMap(
        ExponentialDotProduct() @ Gaussian(), 30, inner_map=RandomFourier(directions="orthogonal", n_components=20)
    ),
    CompositionMap(Polynomial(2) @ Gaussian(2.0), 12, inner_map=RandomMaclaurin(n_components=16)),
    CompositionMap(Polynomial(2) @ Gaussian(), 12, inner_map=Nystroem(n_components=6)),
    CompositionMap(ExponentialDotProduct() @ (ExponentialDotProduct(0.1) @ Laplacian()), 20),
]


def name_of(feature_map):
    return "".join(repr(feature_map).split())


def rows(seed=0, n=40, d=3):
    return np.random.default_rng(seed).normal(0.2, 0.7, size=(n, d))


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
    with pytest.raises(ParameterError, match="p must be a finite number > 1, got 1"):
        m.set_params(p=1).fit(rows(2))
    m.set_params(p=feature_map.p)
    assert vars(m).keys() == before.keys()
    assert m.plan_ is before["plan_"]
    np.testing.assert_array_equal(m.transform(rows(1)), Z)
    assert list(m.get_feature_names_out()) == [f"compositionmap{i}" for i in range(m.n_components)]


# ---- plans ----------------------------------------------------------------------------------------------------------


def test_the_constant_is_exact_and_the_linear_term_a_complete_map():
    X = rows()
    m = CompositionMap(ExponentialDotProduct(0.5) @ Gaussian(), 400, random_state=0).fit(X)
    kinds = {s.degrees[0]: s.kind for s in m.plan_.strata}
    assert (kinds[0], kinds[1]) == ("exact", "sketched")
    assert m.plan_.n_components_used == 400
    np.testing.assert_array_equal(m.transform(X)[:, 0], 1.0)
    width = m.plan_.strata[1].n_components
    linear = m.transform(X)[:, 1 : 1 + width]
    # Cosines and sines together have an exact diagonal; scalar copies would not.
    np.testing.assert_allclose(np.square(linear).sum(axis=1), 0.5, rtol=2 / width if width % 2 else 1e-12)


def test_the_linear_term_is_exact_if_few_components_suffice():
    X = 0.3 * rows()
    m = CompositionMap(Polynomial(2) @ Polynomial(1), 200, random_state=0).fit(X)
    kinds = {s.degrees: (s.kind, s.n_components) for s in m.plan_.strata}
    assert kinds[(0,)] == ("exact", 1)
    assert kinds[(1,)] == ("exact", 4)  # four monomials
    np.testing.assert_allclose(m.transform(X)[:, 1:5] @ m.transform(X)[:, 1:5].T, 2 * Polynomial(1)(X), atol=1e-9)


def test_a_series_of_degree_one_is_the_inner_map():
    X = rows()
    m = CompositionMap(Polynomial(1, coef0=0.0, scale=2.0) @ Polynomial(2), 10, random_state=0).fit(X)
    np.testing.assert_allclose(m.gram(X), 2 * Polynomial(2)(X), rtol=1e-8, atol=1e-8)


def test_every_degree_of_an_infinite_series_has_a_positive_probability():
    # Unbiased also for rows unlike the sample: degrees without components of their own can be drawn.
    m = CompositionMap(ExponentialDotProduct() @ Gaussian(), 100, random_state=0).fit(rows())
    own = {s.degrees[0] for s in m.plan_.strata if s.kind != "random"}
    [distribution] = [s.distribution for s in m.plan_.strata if s.kind == "random"]
    probabilities = distribution.probability(np.arange(40))
    assert all(probabilities[n] > 0 for n in range(40) if n not in own)
    assert all(probabilities[n] == 0 for n in own)
    assert distribution.probability(np.arange(200)).sum() == pytest.approx(1)


@pytest.mark.parametrize("feature_map", [MAPS[3], MAPS[5], MAPS[6]], ids=name_of)
def test_components_are_products_of_as_many_copies_as_their_degree(feature_map):
    X = rows()
    m = clone(feature_map).set_params(random_state=0).fit(X)
    features = m.features_
    widths = [factor.n_components for factor in features.factors]
    assert widths == sorted(widths, reverse=True)  # components of higher degree are first
    start = m.n_components - len(features.scales)
    expected = np.tile(features.scales, (len(X), 1))
    for factor in features.factors:
        columns = np.empty((len(X), factor.n_components))
        factor(X, columns)
        expected[:, : factor.n_components] *= columns
    np.testing.assert_allclose(m.transform(X)[:, start:], expected, rtol=1e-12)


def test_the_predicted_error_is_the_error():
    X = rows(n=100)
    kernel = ExponentialDotProduct() @ Gaussian()
    errors, predicted = [], []
    for seed in range(8):
        m = CompositionMap(kernel, 400, random_state=seed).fit(X)
        errors.append(np.mean(np.square(m.gram(X) - kernel(X))))
        predicted.append(m.plan_.predicted_rmse**2)
    # Eight draws of an error over ten thousand dependent pairs: within a third or so.
    assert np.mean(errors) == pytest.approx(np.mean(predicted), rel=0.5)


def test_an_inner_map_that_is_poor_when_narrow_gets_more_components():
    # With 512 components this inner map is nearly exact; in proportion to that, the linear term would get one.
    X = rows()
    m = CompositionMap(Polynomial(2) @ Gaussian(2.0), 128, inner_map=RandomMaclaurin(), random_state=0).fit(X)
    [linear] = [s.n_components for s in m.plan_.strata if s.degrees == (1,) and s.kind == "sketched"]
    assert linear > 5


def test_huge_moments_of_a_pilot_draw_are_finite():
    X = 3 * rows()
    m = CompositionMap(ExponentialDotProduct() @ (Matern() + Polynomial(3)), 40, random_state=0)
    with pytest.raises(DataError, match="the kernel overflows"):
        m.fit(X)
    assert np.isfinite(m.fit(0.2 * X).transform(0.2 * X)).all()
    assert 0 < m.plan_.predicted_rmse < 1e3 * np.sqrt(composition.HUGE)


# ---- the inner map --------------------------------------------------------------------------------------------------


def test_unbiased_is_that_of_the_inner_map():
    X = rows()
    assert CompositionMap(ExponentialDotProduct() @ Gaussian()).unbiased is True
    assert CompositionMap(ExponentialDotProduct() @ Gaussian(), 20).fit(X).unbiased is True
    m = CompositionMap(ExponentialDotProduct() @ Gaussian(), 20, inner_map=Nystroem(n_components=8))
    for reason in (m.unbiased, m.fit(X).unbiased):
        assert reason.startswith("the inner map is biased: a projection on landmarks")
    hadamard = CompositionMap(ExponentialDotProduct() @ Gaussian(), 20, inner_map=RandomFourier(directions="hadamard"))
    assert "sign-Hadamard" in hadamard.fit(X).unbiased


def test_the_given_inner_map_is_not_changed_and_its_parameters_can_be_set():
    inner = RandomFourier(n_components=32, radii="stratified")
    m = CompositionMap(ExponentialDotProduct() @ Gaussian(), 20, inner_map=inner, random_state=0).fit(rows())
    assert inner.kernel is None
    assert inner.n_components == 32
    assert not hasattr(inner, "features_")
    assert m.inner_map_.kernel == Gaussian()
    m.set_params(inner_map__radii="plain", kernel__outer__scale=2.0, kernel__inner__lengthscale=3.0)
    assert m.inner_map.radii == "plain"
    assert m.kernel == ExponentialDotProduct(2.0) @ Gaussian(3.0)


def test_the_default_inner_map_is_that_of_the_inner_kernel():
    X = rows()
    for kernel, kind in ((Matern(), RandomFourier), (Polynomial(2), RandomMaclaurin), (INNER, SumMap)):
        assert isinstance(CompositionMap(Polynomial(2) @ kernel, 20).fit(X).inner_map_, kind)


def test_multiples_of_compositions_are_compositions():
    kernel = ExponentialDotProduct() @ INNER
    assert composition_of(2.0 * (3.0 * kernel)) == (kernel, 6.0)
    assert composition_of(Gaussian())[0] is None
    assert maps_for(2.0 * (3.0 * kernel))[0] is CompositionMap
    assert not CompositionMap.accepts(kernel + 1)


# ---- domains and errors ---------------------------------------------------------------------------------------------


def test_rows_outside_the_radius_of_convergence_are_refused():
    kernel = Geometric() @ Transformed(Polynomial(1, 0.0), columns=(0, 1, 2))
    X = 0.2 * rows()
    m = CompositionMap(kernel, 20, random_state=0).fit(X)
    with pytest.raises(DataError, match="inner products must be below the radius of convergence 1"):
        m.transform(10 * X)
    with pytest.raises(DataError, match="radius of convergence"):
        m.fit(10 * X)


def test_features_that_overflow_are_refused():
    m = CompositionMap(Polynomial(8) @ Polynomial(8), 8, plan="geometric", random_state=0).fit(rows())
    with pytest.raises(DataError, match=r"CompositionMap: features overflow float32\. Scale the rows down"):
        m.transform(1e3 * rows().astype(np.float32))


@pytest.mark.parametrize("plan", ["optimal", "geometric"])
def test_negative_coefficients_are_refused(plan):
    kernel = DotProduct([1.0, 0.5, -0.3], signed=True) @ Gaussian()
    with pytest.raises(ParameterError, match="has negative coefficients; there is no signed map"):
        CompositionMap(kernel, 20000, plan=plan, random_state=0).fit(rows())
    with pytest.raises(ParameterError, match="has features with signs"):
        CompositionMap(ExponentialDotProduct() @ DotProduct([1.0, -0.5], signed=True), 20, plan=plan).fit(rows())


def test_complex_inner_maps_are_refused():
    m = CompositionMap(ExponentialDotProduct() @ Gaussian(), 20, inner_map=RandomFourier(form="complex"))
    with pytest.raises(ParameterError, match=r"has complex features, and cannot be a part .* Use form='pairs'"):
        m.fit(rows())


@pytest.mark.parametrize(
    ("kernel", "got"),
    [(Gaussian(), "an isotropic kernel"), (ExponentialDotProduct() @ Gaussian() + 1, "a sum of kernels")],
    ids=repr,
)
def test_kernels_that_are_not_compositions_are_refused(kernel, got):
    with pytest.raises(UnsupportedKernelError) as error:
        CompositionMap(kernel).fit(rows())
    lines = str(error.value).splitlines()
    assert lines[0] == f"CompositionMap cannot approximate {kernel!r}."
    assert lines[1] == "  needs: a composition f @ k of a power series f and a kernel k that has an unbiased map"
    assert lines[2].startswith(f"  got:   {got}")
    assert lines[3].startswith("  try:   RandomFourier")


def test_wrong_parameters_are_refused():
    kernel = ExponentialDotProduct() @ Gaussian()
    for inner in ("fourier", RandomFourier, Gaussian()):
        with pytest.raises(ParameterError, match=r"inner_map must be a mercer map such as RandomFourier\(\), got"):
            CompositionMap(kernel, inner_map=inner).fit(rows())
    with pytest.raises(UnsupportedKernelError, match="RandomMaclaurin cannot approximate Matern"):
        CompositionMap(ExponentialDotProduct() @ Matern(), inner_map=RandomMaclaurin()).fit(rows())
    with pytest.raises(ParameterError, match="CompositionMap: plan must be one of 'optimal', 'geometric', got 'h01'"):
        CompositionMap(kernel, plan="h01").fit(rows())
    for p in (1.0, 0.5, np.inf, np.nan, "2"):
        with pytest.raises(ParameterError, match="CompositionMap: p must be a finite number > 1, got"):
            CompositionMap(kernel, p=p).fit(rows())


def test_weights_are_repetitions():
    X = rows(n=30)
    repeats = np.random.default_rng(0).integers(0, 3, len(X))
    model = KernelRidge(CompositionMap(ExponentialDotProduct() @ Gaussian("median"), 60, random_state=0), alpha=0.1)
    weighted = clone(model).fit(X, X[:, 0], sample_weight=repeats)
    repeated = clone(model).fit(np.repeat(X, repeats, axis=0), np.repeat(X[:, 0], repeats))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-7, atol=1e-9)
    unweighted = clone(model).fit(X, X[:, 0])
    assert np.abs(unweighted.predict(X) - weighted.predict(X)).max() > 1e-3
