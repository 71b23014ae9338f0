"""Closed-form variances of Maclaurin features."""

from itertools import combinations_with_replacement

import mpmath as mp
import numpy as np
import pytest

from mercer import (
    ExponentialDotProduct,
    Gaussian,
    Geometric,
    NoClosedFormError,
    Polynomial,
    PolynomialSketch,
    RandomMaclaurin,
    TensorSketch,
    audit,
)

from .maclaurin_designs import DESIGNS, fitted, rows


@pytest.mark.parametrize(("plan", "projection"), [cell for cell in DESIGNS if cell != ("degrees", "srht")])
def test_predicted_error_is_the_mean_variance_on_the_sample(plan, projection):
    X = rows()
    m = fitted(ExponentialDotProduct(0.5), 12, X, plan=plan, projection=projection, eps=0.05, anchor=None)
    # The prediction neglects degrees beyond the table and single real parts of complex components.
    tolerance = 0.01 if plan in ("optimal", "random") else 1e-5
    assert m.plan_.predicted_deviation**2 == pytest.approx(m.variance(X).mean(), rel=tolerance, abs=1e-12)


def test_sums_of_hadamard_products_have_no_closed_form():
    with pytest.raises(NoClosedFormError, match="No closed form is known for the variance of plan='degrees'"):
        fitted(Polynomial(3), 9, plan="degrees", projection="srht").variance(rows())


def factor_moment(projection, u, v):
    """Return E[(w . u)^2 (w . v)^2] for one projection, in arbitrary precision."""
    t2 = mp.fsum(a * b for a, b in zip(u, v, strict=True)) ** 2
    norms = mp.fsum(a * a for a in u) * mp.fsum(b * b for b in v)
    if projection == "gaussian":
        return norms + 2 * t2
    return norms + 2 * t2 - 2 * mp.fsum((a * b) ** 2 for a, b in zip(u, v, strict=True))


def exact_variance(fitted_map, x, y):
    """Return the variance of a plan for a Gaussian kernel, term by term in arbitrary precision."""
    n_terms = 900
    [part] = fitted_map.kernel_.series_parts()
    rate, shift = mp.mpf(part.decay), fitted_map.features_.parts[0].prepare.shift
    u, v = ([mp.mpf(float(a)) for a in row - shift] for row in (x, y))
    moment = factor_moment(fitted_map.projection, u, v)
    t = mp.fsum(a * b for a, b in zip(u, v, strict=True))
    decay = mp.exp(-rate * (mp.fsum(a * a for a in u) + mp.fsum(b * b for b in v)))
    total = mp.mpf(0)
    for stratum in fitted_map.plan_.strata:
        if stratum.kind == "sketched":
            n = stratum.degrees[0]
            total += (rate**n / mp.factorial(n)) ** 2 * (moment**n - t ** (2 * n)) / stratum.n_components
        elif stratum.kind == "random":
            likely = stratum.distribution.probability(np.arange(n_terms))
            second, mean = [], []
            coefficient = moment_power = t_power = mp.mpf(1)
            for n in range(n_terms):
                if likely[n]:
                    second.append(coefficient**2 / mp.mpf(float(likely[n])) * moment_power)
                    mean.append(coefficient * t_power)
                coefficient, moment_power, t_power = coefficient * rate / (n + 1), moment_power * moment, t_power * t
            total += (mp.fsum(second) - mp.fsum(mean) ** 2) / stratum.n_components
    return decay * total


@pytest.mark.parametrize("plan", ["optimal", "random", "geometric"])
@pytest.mark.parametrize("projection", ["rademacher", "gaussian"])
def test_variance_of_far_rows_is_the_exact_sum(plan, projection):
    # Up to 12 lengthscales from the mean, coefficients underflow, powers overflow and prefactors are tiny.
    X = np.random.default_rng(0).normal(size=(40, 3))
    m = RandomMaclaurin(Gaussian(2.0), 60, plan=plan, projection=projection, random_state=0).fit(X)
    Y = np.array([[0.3, -0.2, 0.1], [8.0, 0.0, 0.0], [9.0, 9.0, 9.0], [-12.0, 10.0, 3.0], [0.0, 0.0, 24.0]])
    variance = m.variance(Y)
    with mp.workdps(60):
        for i, j in combinations_with_replacement(range(len(Y)), 2):
            expected = exact_variance(m, Y[i], Y[j])
            for value in (variance[i, j], variance[j, i]):
                assert float(abs(value - expected)) <= 1e-9 * float(expected) + 1e-15


def test_variance_is_infinite_but_never_nan_beyond_float64():
    X = np.random.default_rng(0).normal(size=(100, 3))
    far = np.vstack([X[:5], 1e3 * X[:5], 1e40 * X[:5], 1e160 * X[:5]])
    for plan in ("optimal", "truncated", "random", "h01", "geometric", "degrees"):
        for projection in ("rademacher", "complex"):
            m = RandomMaclaurin(Gaussian(2.0), 60, plan=plan, projection=projection, random_state=0).fit(X)
            variance = m.variance(far)
            assert not np.isnan(variance).any()
            assert (variance >= 0).all()
    anchored = RandomMaclaurin(ExponentialDotProduct(0.5), 40, random_state=0).fit(X + 1)
    sketches = [PolynomialSketch(Polynomial(3), 9), TensorSketch(Polynomial(3), 9)]
    for m in (anchored, *(sketch.set_params(random_state=0).fit(X) for sketch in sketches)):
        variance = m.variance(np.vstack([X[:5], 1e160 * X[:5]]))
        assert np.isfinite(variance[:5, :5]).all()
        assert np.isinf(np.diagonal(variance)[5:]).all()


@pytest.mark.filterwarnings("ignore:RandomMaclaurin. the predicted error")
def test_variance_of_a_series_with_a_finite_radius_may_be_infinite():
    # a_n = 1 and E[(w . x)^2 (w . y)^2] = 3 |x|^2 |y|^2 for x = y: the second moments grow if |x|^4 > 1 / (3 p).
    X = 0.9 * np.eye(4)[:, :2][[0, 1, 0, 1]]
    m = RandomMaclaurin(Geometric(), 8, plan="geometric", projection="gaussian", random_state=0).fit(X)
    variance = m.variance(np.array([[0.9, 0.0], [0.2, 0.0]]))
    assert variance[0, 0] == np.inf
    expected = (sum(2.0 ** (n + 1) * (3 * 0.2**4) ** n for n in range(99)) - (1 / (1 - 0.04)) ** 2) / 8
    assert variance[1, 1] == pytest.approx(expected, rel=1e-12)


@pytest.mark.filterwarnings("ignore:RandomMaclaurin. some rows are farther")
def test_predicted_error_of_an_audit_is_finite_with_a_row_far_away():
    X = np.random.default_rng(0).normal(size=(300, 8))
    Y = np.vstack([X[:50], np.eye(8)[:1] * 30, np.full((1, 8), 30 / 8**0.5)])
    m = RandomMaclaurin(Gaussian(3.8), 256, random_state=0).fit(X)
    assert np.isfinite(audit(m, Y).predicted_rmse)
