"""Allocation of components: apportionment, distributions of degrees, and plans against brute force."""

import math
from itertools import product

import numpy as np
import pytest

from mercer import Constant, ExponentialDotProduct, Gaussian, ParameterError, Polynomial
from mercer.maps.series.allocation import (
    TAIL_PROBABILITY,
    _best_distribution,
    apportion,
    make_plan,
    optimal_strata,
    truncation_degree,
)
from mercer.maps.series.terms import GivenTerms

from .sampled_series import rows, sampled


def plan(name, kernel, X, n, p=2.0, eps=1e-3):
    part = sampled(kernel, X)
    return make_plan(name, [part], n, mean_square=float(np.square(kernel(X)).mean()), p=p, eps=eps)


@pytest.mark.parametrize("total", [3, 7, 20, 101])
@pytest.mark.parametrize(
    "weights", [[1.0, 1.0, 1.0], [5.0, 1.0, 0.01], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1e9, 1.0, 1e-9]]
)
def test_apportioned_integers_are_positive_ordered_and_sum_to_the_total(weights, total):
    share = apportion(np.array(weights), total)
    assert share.sum() == total
    assert share.min() >= 1
    assert (np.diff(share[np.argsort(weights)]) >= (0 if len(set(weights)) == 3 else -1)).all()


def test_apportionment_is_within_ten_percent_of_the_optimal_allocation():
    rng = np.random.default_rng(0)
    for _ in range(20):
        variances = rng.uniform(0.01, 3.0, size=3) ** 2
        share = apportion(np.sqrt(variances), 15)
        best = min(
            variances[0] / a + variances[1] / b + variances[2] / (15 - a - b)
            for a, b in product(range(1, 14), repeat=2)
            if a + b < 15
        )
        assert (variances / share).sum() <= 1.1 * best


def test_infinite_weights_share_the_total_equally():
    np.testing.assert_array_equal(apportion(np.array([np.inf, 1.0, np.inf]), 9), [4, 1, 4])
    assert len(apportion(np.zeros(0), 5)) == 0


@pytest.mark.parametrize("size", [0.0, 1e-9, 1.0])
@pytest.mark.parametrize("kernel", [Polynomial(3), Polynomial(3, 0.0), ExponentialDotProduct(), Gaussian()], ids=repr)
def test_best_distribution_has_positive_probability_for_every_degree(kernel, size):
    part = sampled(kernel, rows(size=size))
    degrees = [n for n in range(len(part.coefficients)) if part.coefficients[n] != 0]
    distribution = _best_distribution(part, degrees)
    probabilities = distribution.probability(np.arange(300))
    assert probabilities.sum() == pytest.approx(1)
    assert (probabilities[degrees] > 0).all()
    assert distribution.tail == (TAIL_PROBABILITY if part.infinite else 0)
    assert distribution.probability(np.array(299)) > 0 or not part.infinite
    if size == 1.0:
        weights = np.sqrt(part.second_moments[degrees])
        expected = weights / weights.sum()
        np.testing.assert_allclose(probabilities[degrees], expected, rtol=0.01, atol=2 * TAIL_PROBABILITY)


def test_distribution_without_significant_degrees_is_the_tail_alone():
    part = sampled(ExponentialDotProduct(), rows(size=0.1))
    last = len(part.coefficients)
    probabilities = _best_distribution(part, []).probability(np.arange(300))
    assert (probabilities[:last] == 0).all()
    assert probabilities[last:].sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-6])
def test_truncation_degree_is_the_least_with_a_small_tail(eps):
    X = rows(size=1.5)
    part = sampled(ExponentialDotProduct(), X)
    r2 = 2.25
    k = truncation_degree(part, eps)

    def tail(k):
        return math.exp(r2) - sum(r2**n / math.factorial(n) for n in range(k + 1))

    assert tail(k) <= eps * math.exp(r2) < tail(k - 1)
    chosen = plan("truncated", ExponentialDotProduct(), X, 200, eps=eps)
    assert chosen.truncation_bound == pytest.approx(tail(k), rel=1e-6)
    exact = np.exp(X @ X.T)
    truncated = sum((X @ X.T) ** n / math.factorial(n) for n in range(k + 1))
    assert chosen.truncation == pytest.approx(math.sqrt(np.square(exact - truncated).mean()), rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 20, 60])
@pytest.mark.parametrize("kernel", [ExponentialDotProduct(), Polynomial(3), Polynomial(3, 0.0), Gaussian()], ids=repr)
def test_optimal_plan_uses_all_components_and_represents_every_degree_once(kernel, n):
    X = rows()
    part = sampled(kernel, X)
    chosen = plan("optimal", kernel, X, n)
    assert chosen.n_components_used == n or chosen.predicted_rmse == 0
    degrees = sorted(d for s in chosen.strata for d in s.degrees if d < len(part.coefficients))
    assert degrees == [d for d in range(len(part.coefficients)) if part.coefficients[d] != 0]
    assert all(s.n_components >= 1 for s in chosen.strata)
    if part.infinite:
        assert chosen.strata[-1].distribution.tail > 0


def test_optimal_plan_has_the_least_predicted_error_of_all_plans():
    X = rows(40, 5)
    errors = {
        name: plan(name, ExponentialDotProduct(), X, 60, eps=1e-6).predicted_rmse
        for name in ("optimal", "truncated", "random", "h01", "geometric", "degrees")
    }
    # The truncated plan spends no components on the tail.
    assert all(errors["optimal"] <= 1.02 * error for error in errors.values())
    assert errors["optimal"] < 0.5 * errors["geometric"]


def test_predicted_error_does_not_increase_with_the_number_of_components():
    errors = [plan("optimal", ExponentialDotProduct(), rows(30), n).predicted_rmse for n in range(1, 60)]
    assert (np.diff(errors) <= 1e-9 + 0.02 * np.array(errors[:-1])).all()


def test_exact_degrees_have_one_component_per_monomial():
    chosen = plan("optimal", Polynomial(2), rows(), 15)
    assert [(s.kind, s.degrees, s.n_components) for s in chosen.strata] == [
        ("exact", (0,), 1),
        ("exact", (1,), 4),
        ("exact", (2,), 10),
    ]
    assert chosen.predicted_rmse == 0


def test_constant_term_is_never_sketched():
    for name in ("optimal", "truncated"):
        for size in (0.0, 1e-3, 1.0):
            strata = plan(name, ExponentialDotProduct(), rows(size=size), 12, eps=0.05).strata
            assert not [s for s in strata if s.kind == "sketched" and 0 in s.degrees]


def test_optimal_strata_of_given_moments():
    cross, second = np.diag([1.0, 4.0, 0.0, 1.0]), np.array([1.0, 8.0, 0.0, 2.0])
    terms = GivenTerms(np.array([1.0, 1.0, 0.0, 1.0]), False, cross, second)
    strata = optimal_strata([terms], 13)
    assert [(s.kind, s.degrees) for s in strata] == [("exact", (0,)), ("sketched", (1,)), ("sketched", (3,))]
    assert [s.n_components for s in strata] == [1, 8, 4]  # in proportion to the square roots of the variances, 4 and 1
    assert strata[1].squared_error == pytest.approx(0.5)


def test_zero_kernel_has_no_strata():
    for name in ("optimal", "truncated", "random", "h01", "geometric", "degrees"):
        assert plan(name, Constant(0.0), rows(), 5).strata == ()


def test_too_few_components_and_sums_of_series_raise():
    X = rows()
    with pytest.raises(ParameterError, match=r"plan='h01' needs n_components >= 6: .*, got 5"):
        plan("h01", ExponentialDotProduct(), X, 5)
    with pytest.raises(
        ParameterError, match=r"plan='truncated' needs a component for each degree up to .*, got n_components=2"
    ):
        plan("truncated", ExponentialDotProduct(), X, 2)
    with pytest.raises(
        ParameterError, match="n_components must be at least 2 for a sum of 2 power series, one for each, got 1"
    ):
        optimal_strata([sampled(Gaussian(), X), sampled(Gaussian(2.0), X)], 1)
    with pytest.raises(ParameterError, match=r"plan='random' needs a kernel that is one power series, got a sum of 2"):
        make_plan("random", [sampled(Gaussian(), X)] * 2, 9, mean_square=1.0, p=2.0, eps=0.1)
