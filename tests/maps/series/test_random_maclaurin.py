"""Random Maclaurin features: exactness, plans, copies, degenerate rows and errors."""

import itertools
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
    Laplacian,
    MercerWarning,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    Transformed,
    UnsupportedKernelError,
)
from mercer.maps.series.components import SeriesComponents, draw_series
from mercer.maps.series.random_maclaurin import fourier_error

from .maclaurin_designs import DESIGNS, PLANS, PROJECTIONS, SIGNED, fitted, rows

pytestmark = pytest.mark.covering(1)

every_design = pytest.mark.parametrize(("plan", "projection"), DESIGNS)


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
def test_map_with_a_component_per_monomial_is_exact(kernel, n, projection):
    m, Y = fitted(kernel, n, projection=projection), rows(seed=1)
    np.testing.assert_allclose(m.gram(rows(), Y), kernel(rows(), Y), atol=1e-12)
    np.testing.assert_allclose(m.variance(rows(), Y), 0.0, atol=1e-12)
    assert m.plan_.predicted_rmse == 0
    assert m.exact_components(kernel, 3) == n
    with pytest.warns(
        MercerWarning, match=rf"{n} components make the map exact; the last 5 of n_components={n + 5} are zero"
    ):
        wider = fitted(kernel, n + 5, projection=projection)
    np.testing.assert_allclose(wider.gram(Y), kernel(Y), atol=1e-12)
    np.testing.assert_array_equal(wider.transform(Y)[:, n:], 0.0)


def test_infinite_series_and_other_plans_have_no_exact_width():
    assert RandomMaclaurin().exact_components(ExponentialDotProduct(), 3) is None
    assert RandomMaclaurin(plan="random").exact_components(Polynomial(2), 3) is None
    assert RandomMaclaurin().exact_components(Laplacian(), 3) is None


def test_many_components_are_close_to_the_kernel():
    for kernel in (Gaussian(2.0), ExponentialDotProduct(0.5), Geometric(scale=0.1), Gaussian(2.0) + Polynomial(2)):
        m = fitted(kernel, 400)
        assert np.abs(m.gram(rows()) - kernel(rows())).max() < 1e-3
        assert m.plan_.predicted_relative_error < 1e-3


# ---- copies, dtypes, batches ----------------------------------------------------------------------------------------


@every_design
def test_features_do_not_depend_on_copies_sparsity_batches_and_threads(plan, projection):
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
def test_any_number_of_components(plan, projection, n):
    if plan == "h01" and n < 5:
        pytest.skip("too few components for the linear term")
    X = rows()
    m = fitted(ExponentialDotProduct(0.5), n, plan=plan, projection=projection, eps=0.5 if n < 9 else 0.1)
    assert m.transform(X).shape == (40, n)
    assert np.isfinite(m.transform(X)).all()


@pytest.mark.parametrize("plan", ["optimal", "random", "geometric", "degrees"])
@pytest.mark.parametrize("projection", ["rademacher", "gaussian", "sphere"])
def test_single_component(plan, projection):
    assert fitted(Polynomial(3), 1, plan=plan, projection=projection).transform(rows()).shape == (40, 1)


# ---- plans ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plan", "state"), [*((plan, 3) for plan in PLANS), *(("random", s(3)) for s in (default_rng, RandomState))]
)
def test_preview_equals_the_plan_of_fit(plan, state):
    X = rows(300)
    m = RandomMaclaurin(ExponentialDotProduct(0.3), 9, plan=plan, eps=0.05, random_state=state)
    preview = m.preview(X)
    assert not hasattr(m, "plan_")
    assert str(preview) == str(m.fit(X).plan_)
    assert preview.to_dict() == m.plan_.to_dict()


def test_preview_does_not_advance_the_generator():
    state = np.random.default_rng(3)
    RandomMaclaurin(Gaussian(2.0), 9, random_state=state).preview(rows(500))
    assert state.integers(2**60) == np.random.default_rng(3).integers(2**60)


def test_integer_weights_equal_repeated_rows():
    X, weight = rows(20), np.random.default_rng(1).integers(1, 4, 20)
    for kernel in (Gaussian(2.0), Polynomial(6), Gaussian("median")):
        one = RandomMaclaurin(kernel, 20, random_state=0).fit_sample(X, weight.astype(float))
        two = RandomMaclaurin(kernel, 20, random_state=0).fit_sample(np.repeat(X, weight, axis=0))
        if kernel != Gaussian("median"):  # whose lengthscale is a median over sampled pairs
            np.testing.assert_allclose(one.gram(X), two.gram(X), rtol=1e-6)
        assert [s.n_components for s in one.plan_.strata] == [s.n_components for s in two.plan_.strata]


def test_unbiased_gives_the_reason_for_a_bias():
    for plan in ("optimal", "random", "h01", "geometric"):
        assert RandomMaclaurin(plan=plan).unbiased is True
    for plan in ("truncated", "degrees"):
        assert "may be truncated" in RandomMaclaurin(plan=plan).unbiased
        assert (
            "the series is truncated: the omitted terms sum to at most"
            in fitted(ExponentialDotProduct(), 20, plan=plan).unbiased
        )
    assert fitted(Polynomial(3), 9, plan="degrees").unbiased is True


# ---- degenerate rows ------------------------------------------------------------------------------------------------


@every_design
@pytest.mark.parametrize(
    "kernel", [Polynomial(3), Polynomial(2, 0.0), ExponentialDotProduct(), Gaussian(2.0)], ids=repr
)
@pytest.mark.filterwarnings("ignore:RandomMaclaurin. some rows are farther:mercer.MercerWarning")
def test_degenerate_rows_have_finite_features(plan, projection, kernel):
    for X in (np.zeros((5, 3)), rows(1), np.ones((6, 3)), np.pad(rows(9, 1), ((0, 0), (1, 1)), constant_values=0.5)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MercerWarning)
            m = fitted(kernel, 9, X, plan=plan, projection=projection, eps=0.1)
        assert np.isfinite(m.transform(X)).all()
        assert np.isfinite(m.transform(rows())).all()
        assert np.isfinite(m.plan_.predicted_rmse)


@every_design
def test_rows_with_one_feature(plan, projection):
    X = rows(20, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)
        m = fitted(Polynomial(4), 5, X, plan=plan, projection=projection)
    if plan in ("optimal", "truncated"):  # one monomial per degree
        np.testing.assert_allclose(m.gram(X), Polynomial(4)(X), atol=1e-12)
    assert np.isfinite(m.transform(X)).all()


@pytest.mark.parametrize("plan", PLANS)
def test_rows_with_too_large_norms_raise(plan):
    X = rows()
    with pytest.raises(DataError, match=r"first 400 terms of the series are less than half .* RandomFourier"):
        fitted(Gaussian(), 9, 1e5 * X, plan=plan)
    with pytest.raises(DataError, match="squares of the terms of the kernel overflow"):
        fitted(Gaussian(), 9, 1e160 * X, plan=plan)
    with pytest.raises(DataError, match="squares of the terms of the kernel overflow"):
        fitted(Polynomial(3), 9, 1e40 * X, plan=plan)
    with pytest.raises(DataError, match="converges only below 1"):
        fitted(Geometric(), 9, 0.3 * X / np.linalg.norm(X, axis=1).min(), plan=plan)


# ---- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("choices", "text"),
    [
        ({"plan": "best"}, "plan must be one of 'optimal', .* got 'best'"),
        ({"projection": "normal"}, "projection must be one of 'rademacher', .* got 'normal'"),
        ({"anchor": "mean"}, "anchor must be one of 'auto', None, got 'mean'"),
        *(({"p": p}, "p must be a finite number > 1, got") for p in (1, 0.5, np.nan, np.inf, "2", True, None)),
        *(({"eps": eps}, "eps must be a finite number > 0, got") for eps in (0, -1.0, np.nan, "1", True)),
        ({"projection": "srht", "plan": "random"}, "projection='srht' needs components of fixed degree"),
        ({"projection": "srht", "plan": "h01"}, "projection='srht' needs components of fixed degree"),
        ({"projection": "srht", "plan": "geometric"}, "projection='srht' needs components of fixed degree"),
        ({"projection": "complex", "n_components": 1}, "projection='complex' needs n_components >= 2"),
    ],
)
def test_invalid_parameters_raise_and_leave_the_fitted_map_unchanged(choices, text):
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


def test_numpy_scalars_are_accepted_as_parameters():
    assert (
        fitted(ExponentialDotProduct(), 9, plan="geometric", p=np.float32(3.0)).plan_.strata[0].distribution.base == 3.0
    )


def test_other_kernels_and_sums_of_series_raise():
    with pytest.raises(UnsupportedKernelError, match="needs: a power series of the inner product, or a Gaussian"):
        fitted(Laplacian(), 9)
    for plan in PLANS[1:]:
        with pytest.raises(ParameterError, match="needs a kernel that is one power series, got a sum of 2"):
            fitted(Gaussian() + Polynomial(2), 9, plan=plan)


def test_independent_components_have_random_degree():
    m = RandomMaclaurin(projection="complex").with_independent_components(Polynomial(2), 7)
    assert (m.plan, m.projection, m.n_components, m.kernel) == ("random", "rademacher", 7, Polynomial(2))
    assert RandomMaclaurin().with_independent_components(Gaussian() + Polynomial(2), 7) is None
    assert RandomMaclaurin().with_independent_components(Laplacian(), 7) is None


def far_rows(n=300, d=4):
    """Return rows of which one in thirty is six times as far from the mean as the others."""
    X = np.random.default_rng(0).normal(size=(n, d))
    X[::30] *= 6
    return X


def test_fit_warns_where_random_fourier_features_have_less_error():
    X = far_rows()
    with pytest.warns(MercerWarning, match=r"RandomMaclaurin: the predicted error .* of RandomFourier .* Use RandomF"):
        m = RandomMaclaurin(Gaussian(2.0), 128, random_state=0).fit(X)
    error = np.sqrt(np.mean((RandomFourier(Gaussian(2.0), 128, random_state=0).fit(X).gram(X) - m.kernel_(X)) ** 2))
    assert m.plan_.predicted_rmse > 10 * error
    RandomMaclaurin(Gaussian(20.0), 128, random_state=0).fit(X)  # no warning: the series converges fast


def test_fourier_error_is_that_of_random_fourier_features():
    X = far_rows(60)
    for kernel in (Gaussian(2.0), 2.0 * Gaussian(1.5) + 3):
        m = RandomFourier(kernel, 63, directions="iid", random_state=0).fit(X)
        width = 63 - ("Sum" in type(kernel).__name__)
        assert fourier_error(kernel, X, width) == pytest.approx(np.sqrt(m.variance(X).mean()), rel=0.01)
    assert fourier_error(Polynomial(2), X, 9) is None


def test_fit_warns_where_the_predicted_error_exceeds_the_kernel():
    with pytest.warns(
        MercerWarning, match=r"more than the root mean square of the kernel on these rows.*ProductMap, Nystroem"
    ):
        RandomMaclaurin(Gaussian() * Polynomial(2), 40, random_state=0).fit(
            np.random.default_rng(0).normal(size=(99, 3))
        )


def test_transform_warns_of_rows_beyond_those_of_the_fit():
    X = np.random.default_rng(0).normal(size=(300, 4))
    m = RandomMaclaurin(Gaussian(4.0), 64, random_state=0).fit(X)
    m.transform(X)
    reach = np.sqrt(m.features_.parts[0].reach)
    row = np.array([[0.5, -0.5, 0.5, 0.5]])
    assert m.variance(1.2 * reach * row)[0, 0] > 1
    m.transform(0.9 * reach * row)
    for far in (1.2 * reach * row, sp.csr_array(1.2 * reach * row)):
        with pytest.warns(MercerWarning, match=r"some rows are farther than .* from their center, beyond the reach"):
            m.transform(far)
    RandomMaclaurin(ExponentialDotProduct(0.1), 40, anchor=None, random_state=0).fit(X).transform(5 * X)  # not bounded


# ---- one component, by enumeration of all draws ---------------------------------------------------------------------


class Scripted:
    """A source of randomness that returns a given degree and given signs, and records the probabilities of degrees."""

    def __init__(self, degree, signs):
        self.degree = degree
        self.signs = list(signs)
        self.probabilities = None

    def geometric(self, p, size):
        return np.ones(size, dtype=int)

    def random(self, size):
        return np.ones(size)  # above the probability of the tail: the degree is one of the table

    def choice(self, degrees, size, p):
        self.probabilities = dict(zip(degrees.tolist(), p.tolist(), strict=True))
        return np.full(size, self.degree)

    def integers(self, low, high, shape, dtype):
        return np.array(self.signs.pop(0), dtype=dtype).reshape(shape)


@pytest.mark.parametrize("shift", [0.0, 0.5, 1.0])
def test_one_component_has_the_mean_and_the_variance_of_all_its_draws(shift):
    # All degrees up to three with all 8^n signs are drawn by the code. The moments of a product of independent
    # projections are powers of those of one projection, which gives the other degrees.
    rng = np.random.default_rng(1)
    X = np.abs(rng.normal(size=(60, 3)) * 0.3 + shift)
    Y = rng.normal(size=(3, 3)) * 0.6 + shift
    kernel = ExponentialDotProduct(0.5)
    m = RandomMaclaurin(kernel, 1, random_state=0).fit(X)
    [part], [stratum] = kernel.series_parts(), m.plan_.strata
    assert (stratum.kind, stratum.n_components) == ("random", 1)
    prepare = m.features_.parts[0].prepare
    patterns = list(itertools.product((0, 1), repeat=3))
    inner, second_factor = np.zeros((3, 3)), np.zeros((3, 3))
    for signs in patterns:
        u = Y @ (2.0 * np.array(signs) - 1)
        inner += np.outer(u, u) / 8
        second_factor += np.square(np.outer(u, u)) / 8
    last = 60
    a = part.series.coefficients(last)
    p = stratum.distribution.probability(np.arange(last))
    mean, second = np.zeros((3, 3)), np.zeros((3, 3))
    for n in range(last):
        if n > 3:
            mean += a[n] * inner**n
            second += a[n] ** 2 / p[n] * second_factor**n
            continue
        draws = list(itertools.product(patterns, repeat=n))
        for signs in draws:
            script = Scripted(n, signs)
            groups, sign = draw_series(part, [stratum], "rademacher", 3, script)
            probability = (1 - stratum.distribution.tail) * script.probabilities[n]
            assert probability == pytest.approx(p[n], rel=1e-12)
            out = np.empty((3, 1))
            SeriesComponents(np.inf, prepare, tuple(groups))(Y, out)
            assert sign == 1
            mean += probability * (out @ out.T) / len(draws)
            second += probability * np.square(out @ out.T) / len(draws)
    np.testing.assert_allclose(mean, kernel(Y), rtol=1e-12)
    np.testing.assert_allclose(second - np.square(mean), m.variance(Y), rtol=1e-9)
