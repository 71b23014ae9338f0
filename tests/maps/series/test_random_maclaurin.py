"""Random Maclaurin maps: exact where they can be, plans, copies, odd rows, signs and errors."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.random import RandomState, default_rng
from sklearn.base import clone

from mercer import (
    DataError,
    DotProduct,
    ExponentialDotProduct,
    Gaussian,
    Geometric,
    KernelRidge,
    Laplacian,
    MercerWarning,
    NoClosedFormError,
    ParameterError,
    Polynomial,
    RandomMaclaurin,
    Transformed,
    UnsupportedKernelError,
)
from mercer.maps.series.anchored import AnchoredColumns

PLANS = ("optimal", "truncated", "random", "h01", "geometric", "degrees")
PROJECTIONS = ("rademacher", "gaussian", "sphere", "complex", "srht")
DESIGNS = [
    (plan, projection)
    for plan in PLANS
    for projection in PROJECTIONS
    if not (projection == "srht" and plan in ("random", "h01", "geometric"))
]
every_design = pytest.mark.parametrize(("plan", "projection"), DESIGNS)
SIGNED = DotProduct([0.5, -1.0, 0.5, 0.0, -0.25], signed=True)


def rows(n=40, d=3, seed=0):
    return np.random.default_rng(seed).normal(0.2, 0.6, size=(n, d))


def fitted(kernel, n, X=None, **choices):
    return RandomMaclaurin(kernel, n, **{"random_state": 0, **choices}).fit(rows() if X is None else X)


def anchored(m):
    return any(isinstance(part, AnchoredColumns) for part in m.features_.parts)


# ---- exactness ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("projection", PROJECTIONS)
@pytest.mark.parametrize(
    ("kernel", "n"),
    [
        (Polynomial(2), 10),
        (Polynomial(3, 0.0, scale=0.5), 10),
        (Geometric(3), 10),
        (DotProduct([0.5, 0.0, 1.0]), 7),
        (SIGNED, 1 + 3 + 6 + 15),
        (Polynomial(2) + Transformed(Polynomial(2), columns=(1,), center=(0.3,)), 13),
    ],
    ids=repr,
)
def test_with_a_column_for_every_monomial_the_kernel_is_exact(kernel, n, projection):
    m, Y = fitted(kernel, n, projection=projection), rows(seed=1)
    np.testing.assert_allclose(m.gram(rows(), Y), kernel(rows(), Y), atol=1e-12)
    np.testing.assert_allclose(m.variance(rows(), Y), 0.0, atol=1e-12)
    assert m.plan_.predicted_rmse == 0
    assert m.exact_components(kernel, 3) == n
    with pytest.warns(
        MercerWarning, match=rf"{n} columns make the map exact; the last 5 of n_components={n + 5} are zero"
    ):
        wider = fitted(kernel, n + 5, projection=projection)
    np.testing.assert_allclose(wider.gram(Y), kernel(Y), atol=1e-12)
    np.testing.assert_array_equal(wider.transform(Y)[:, n:], 0.0)


def test_an_endless_series_is_never_exact():
    assert RandomMaclaurin().exact_components(ExponentialDotProduct(), 3) is None
    assert RandomMaclaurin(plan="random").exact_components(Polynomial(2), 3) is None
    assert RandomMaclaurin().exact_components(Laplacian(), 3) is None


def test_many_columns_are_near_the_kernel():
    for kernel in (Gaussian(2.0), ExponentialDotProduct(0.5), Geometric(scale=0.1), Gaussian(2.0) + Polynomial(2)):
        m = fitted(kernel, 400)
        assert np.abs(m.gram(rows()) - kernel(rows())).max() < 1e-3
        assert m.plan_.predicted_relative_error < 1e-3


def test_the_predicted_error_is_the_mean_of_the_variance_on_the_sample():
    X = rows()
    for plan, projection in DESIGNS:
        if (plan, projection) == ("degrees", "srht"):
            continue
        m = fitted(ExponentialDotProduct(0.5), 12, X, plan=plan, projection=projection, eps=0.05, anchor=None)
        # Chances beyond the table, and a real part that stands alone, are not predicted.
        tolerance = 0.01 if plan in ("optimal", "random") else 1e-5
        predicted = m.plan_.predicted_deviation**2
        assert predicted == pytest.approx(m.variance(X).mean(), rel=tolerance, abs=1e-12), (plan, projection)


# ---- copies, dtypes, batches ----------------------------------------------------------------------------------------


@every_design
def test_copies_dtypes_sparsity_and_batches(plan, projection):
    X = rows(60)
    X[X < -0.5] = 0.0
    m = fitted(Gaussian(), 41, X, plan=plan, projection=projection, eps=1e-4)
    Z = m.transform(X)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).transform(X), Z)
    np.testing.assert_array_equal(clone(m).fit(X).transform(X), Z)
    if (plan, projection) != ("degrees", "srht"):
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).variance(X[:3]), m.variance(X[:3]))
    close = {"rtol": 0, "atol": 1e-12}
    np.testing.assert_allclose(m.transform(sp.csr_array(X)), Z, **close)
    np.testing.assert_allclose(clone(m).fit(sp.csr_array(X)).transform(X), Z, **close)
    np.testing.assert_allclose(np.concatenate([m.transform(X[:7]), m.transform(X[7:])]), Z, **close)
    np.testing.assert_array_equal(m.set_params(n_jobs=1).transform(X), m.set_params(n_jobs=4).transform(X))
    single = m.transform(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, Z, rtol=0, atol=1e-5 * np.abs(Z).max())


@every_design
@pytest.mark.parametrize("n", [2, 3, 9])
def test_every_width_has_as_many_columns(plan, projection, n):
    if plan == "h01" and n < 5:
        pytest.skip("too few for the linear term")
    X = rows()
    m = fitted(ExponentialDotProduct(0.5), n, plan=plan, projection=projection, eps=0.5 if n < 9 else 0.1)
    assert m.transform(X).shape == (40, n)
    assert np.isfinite(m.transform(X)).all()


@pytest.mark.parametrize("plan", ["optimal", "random", "geometric", "degrees"])
@pytest.mark.parametrize("projection", ["rademacher", "gaussian", "sphere"])
def test_one_column_will_do(plan, projection):
    assert fitted(Polynomial(3), 1, plan=plan, projection=projection).transform(rows()).shape == (40, 1)


def test_an_anchored_map_keeps_the_contract_too():
    X = 1 + 0.1 * rows(60)
    kernel = Transformed(Polynomial(7), columns=(2, 0), center=(0.1, 0.2), lengthscales=(1.5, 2.0))
    for projection in PROJECTIONS:
        m = fitted(kernel, 12, X, projection=projection)
        assert anchored(m)
        Z = m.transform(X)
        assert np.abs(m.gram(X) - kernel(X)).max() < 0.01 * np.abs(kernel(X)).max()
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).transform(X), Z)
        np.testing.assert_allclose(m.transform(sp.csr_array(X)), Z, atol=1e-10 * np.abs(Z).max())
        np.testing.assert_allclose(m.transform(X.astype(np.float32)), Z, atol=1e-3 * np.abs(Z).max())
        assert m.plan_.predicted_deviation**2 == pytest.approx(m.variance(X).mean(), rel=0.01)
        assert m.plan_.predicted_rmse < fitted(kernel, 12, X, projection=projection, anchor=None).plan_.predicted_rmse


def test_an_anchored_series_with_gaps_is_complete_for_rows_unlike_the_sample():
    kernel = DotProduct([1.0, 0.0, 0.5, 0.0, 0.25, 0.0, 0.125])
    X = np.column_stack([np.full(30, 1.0), np.zeros(30)]) + 1e-4 * rows(30, 2)  # along one direction, and of one length
    terms = fitted(kernel, 9, X)
    assert anchored(terms)
    columns = next(p for p in terms.features_.parts if isinstance(p, AnchoredColumns))
    Y = rows(20, 2, seed=1)
    split, functions = columns.split(Y)
    powers = (split.dense @ split.dense.T)[:, :, None] ** columns.degrees
    total = (powers * functions[:, None, :] * functions[None, :, :]).sum(axis=2)
    np.testing.assert_allclose(total, kernel(Y), rtol=1e-9)


# ---- plans ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "state"), [*((plan, 3) for plan in PLANS), *(("random", s(3)) for s in (default_rng, RandomState))]
)
def test_the_preview_is_the_plan(plan, state):
    X = rows(300)
    m = RandomMaclaurin(ExponentialDotProduct(0.3), 9, plan=plan, eps=0.05, random_state=state)
    preview = m.preview(X)
    assert not hasattr(m, "plan_")
    assert str(preview) == str(m.fit(X).plan_)
    assert preview.to_dict() == m.plan_.to_dict()


def test_the_preview_leaves_the_generator_alone():
    state = np.random.default_rng(3)
    RandomMaclaurin(Gaussian(2.0), 9, random_state=state).preview(rows(500))
    assert state.integers(2**60) == np.random.default_rng(3).integers(2**60)


def test_weights_are_repetitions():
    X, weight = rows(20), np.random.default_rng(1).integers(1, 4, 20)
    for kernel in (Gaussian(2.0), Polynomial(6), Gaussian("median")):
        one = RandomMaclaurin(kernel, 20, random_state=0).fit_sample(X, weight.astype(float))
        two = RandomMaclaurin(kernel, 20, random_state=0).fit_sample(np.repeat(X, weight, axis=0))
        if kernel != Gaussian("median"):  # whose sample is of pairs
            np.testing.assert_allclose(one.gram(X), two.gram(X), rtol=1e-6)
        assert [s.columns for s in one.plan_.strata] == [s.columns for s in two.plan_.strata]


def test_what_is_unbiased_is_said():
    for plan in ("optimal", "random", "h01", "geometric"):
        assert RandomMaclaurin(plan=plan).unbiased is True
    for plan in ("truncated", "degrees"):
        assert "may be truncated" in RandomMaclaurin(plan=plan).unbiased
        assert (
            "the series is truncated: what is left out is at most"
            in fitted(ExponentialDotProduct(), 20, plan=plan).unbiased
        )
    assert fitted(Polynomial(3), 9, plan="degrees").unbiased is True


# ---- odd rows -------------------------------------------------------------------------------------------------------


@every_design
@pytest.mark.parametrize(
    "kernel", [Polynomial(3), Polynomial(2, 0.0), ExponentialDotProduct(), Gaussian(2.0)], ids=repr
)
def test_odd_rows(plan, projection, kernel):
    for X in (np.zeros((5, 3)), rows(1), np.ones((6, 3)), np.pad(rows(9, 1), ((0, 0), (1, 1)), constant_values=0.5)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MercerWarning)
            m = fitted(kernel, 9, X, plan=plan, projection=projection, eps=0.1)
        assert np.isfinite(m.transform(X)).all()
        assert np.isfinite(m.transform(rows())).all()
        assert np.isfinite(m.plan_.predicted_rmse)


@every_design
def test_one_column_of_data(plan, projection):
    X = rows(20, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)
        m = fitted(Polynomial(4), 5, X, plan=plan, projection=projection)
    if plan in ("optimal", "truncated"):  # a monomial a degree
        np.testing.assert_allclose(m.gram(X), Polynomial(4)(X), atol=1e-12)
    assert np.isfinite(m.transform(X)).all()


@pytest.mark.parametrize("plan", PLANS)
def test_rows_too_long_are_refused_in_words(plan):
    X = rows()
    with pytest.raises(DataError, match=r"first 400 terms of the series hold less than half .* RandomFourier"):
        fitted(Gaussian(), 9, 1e5 * X, plan=plan)
    with pytest.raises(DataError, match="squares of the terms of the kernel overflow"):
        fitted(Gaussian(), 9, 1e160 * X, plan=plan)
    with pytest.raises(DataError, match="squares of the terms of the kernel overflow"):
        fitted(Polynomial(3), 9, 1e40 * X, plan=plan)
    with pytest.raises(DataError, match="converges only below 1"):
        fitted(Geometric(), 9, 0.3 * X / np.linalg.norm(X, axis=1).min(), plan=plan)


def test_rows_too_long_for_the_draw_are_refused_by_transform():
    X = rows()
    m = fitted(Polynomial(3), 9, X)
    with pytest.raises(DataError, match="features overflow float64"):
        m.transform(1e120 * X)
    with pytest.raises(DataError, match=r"features overflow float32. Scale the rows down"):
        m.transform((1e15 * X).astype(np.float32))
    for anchor in ("auto", None):
        m = fitted(Geometric(scale=0.1), 9, X, anchor=anchor)
        with pytest.raises(DataError, match="converges only below 10"):
            m.transform(20 * X)


def test_far_rows_of_a_gaussian_kernel_have_no_features():
    m = fitted(Gaussian(2.0), 20)
    np.testing.assert_array_equal(m.transform(np.full((2, 3), 1e6)), 0.0)


# ---- signs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("projection", PROJECTIONS)
def test_negative_terms_have_signs(projection):
    m = fitted(SIGNED, 15, projection=projection)
    assert set(m.signs_) == {-1.0, 1.0}
    Z = m.transform(rows())
    np.testing.assert_allclose(m.gram(rows()), (Z * m.signs_) @ Z.T)
    assert fitted(Polynomial(2), 9).signs_ is None
    # Real and imaginary parts, exact and drawn columns: here all are of the one negative term.
    for n in (8, 9, 10):
        assert (fitted(DotProduct([0.0, 0.0, 0.0, -1.0], signed=True), n, projection=projection).signs_ == -1).all()


def test_learners_refuse_signs_and_one_column_cannot_sum_them():
    with pytest.raises(ParameterError, match=r"KernelRidge needs a positive definite kernel, .*have signs"):
        KernelRidge(RandomMaclaurin(SIGNED, 9)).fit(rows(), rows()[:, 0])
    with pytest.raises(ParameterError, match=r"plan='degrees' sums terms in one column, .* a_1 = -1"):
        fitted(SIGNED, 9, plan="degrees")


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ({"plan": "best"}, "plan must be one of 'optimal', .* got 'best'"),
        ({"projection": "normal"}, "projection must be one of 'rademacher', .* got 'normal'"),
        ({"anchor": "mean"}, "anchor must be one of 'auto', None, got 'mean'"),
        *(({"p": p}, "p must be a finite number > 1, got") for p in (1, 0.5, np.nan, np.inf, "2", True, None)),
        *(({"eps": eps}, "eps must be a finite number > 0, got") for eps in (0, -1.0, np.nan, "1", True)),
        ({"projection": "srht", "plan": "random"}, "projection='srht' needs columns of known degree"),
        ({"projection": "srht", "plan": "h01"}, "projection='srht' needs columns of known degree"),
        ({"projection": "srht", "plan": "geometric"}, "projection='srht' needs columns of known degree"),
        ({"projection": "complex", "n_components": 1}, "projection='complex' needs n_components >= 2"),
    ],
)
def test_wrong_parameters_are_refused_and_change_nothing(choices, text):
    m = fitted(Polynomial(3), 9)
    before, Z = dict(m.__dict__), m.transform(rows())
    changed = clone(m).set_params(**choices)
    with pytest.raises(ParameterError, match=f"RandomMaclaurin: {text}"):
        changed.fit(rows())
    assert not hasattr(changed, "plan_")
    with pytest.raises(ParameterError, match=f"RandomMaclaurin: {text}"):
        m.set_params(**choices).fit(rows())
    assert m.plan_ is before["plan_"]
    np.testing.assert_array_equal(m.transform(rows()), Z)
    with pytest.raises(ParameterError, match=text):
        changed.preview(rows())


def test_numbers_of_other_kinds_are_taken():
    assert fitted(ExponentialDotProduct(), 9, plan="geometric", p=np.float32(3.0)).plan_.strata[0].law.base == 3.0


def test_other_kernels_and_sums_are_refused():
    with pytest.raises(UnsupportedKernelError, match="needs: a power series of the inner product, or a Gaussian"):
        fitted(Laplacian(), 9)
    for plan in PLANS[1:]:
        with pytest.raises(ParameterError, match="serves one power series, but the kernel is a sum of 2"):
            fitted(Gaussian() + Polynomial(2), 9, plan=plan)


def test_no_closed_form_for_sums_of_hadamard_products():
    with pytest.raises(NoClosedFormError, match="No closed form is known for the variance of plan='degrees'"):
        fitted(Polynomial(3), 9, plan="degrees", projection="srht").variance(rows())


def test_independent_columns_are_those_of_random_degree():
    m = RandomMaclaurin(projection="complex").with_independent_components(Polynomial(2), 7)
    assert (m.plan, m.projection, m.n_components, m.kernel) == ("random", "rademacher", 7, Polynomial(2))
    assert RandomMaclaurin().with_independent_components(Gaussian() + Polynomial(2), 7) is None
    assert RandomMaclaurin().with_independent_components(Laplacian(), 7) is None
