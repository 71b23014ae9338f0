"""Allocation of columns: whole numbers in the best proportion, laws without gaps, plans against brute force."""

import math
from itertools import product

import numpy as np
import pytest

from mercer import Constant, ExponentialDotProduct, Gaussian, ParameterError, Polynomial
from mercer.maps.series.allocation import BEYOND, _best_law, draw_up, optimal_strata, share_out, truncation_degree
from mercer.maps.series.terms import Terms

from .sampled_series import rows, sampled


def plan(name, kernel, X, n, p=2.0, eps=1e-3):
    part = sampled(kernel, X)
    return draw_up(name, [part], n, mean_square=float(np.square(kernel(X)).mean()), p=p, eps=eps)


@pytest.mark.parametrize("columns", [3, 7, 20, 101])
@pytest.mark.parametrize(
    "weights", [[1.0, 1.0, 1.0], [5.0, 1.0, 0.01], [0.0, 2.0, 0.0], [0.0, 0.0, 0.0], [1e9, 1.0, 1e-9]]
)
def test_shares_are_whole_positive_and_all(weights, columns):
    share = share_out(np.array(weights), columns)
    assert share.sum() == columns
    assert share.min() >= 1
    assert (np.diff(share[np.argsort(weights)]) >= (0 if len(set(weights)) == 3 else -1)).all()


def test_shares_are_as_good_as_any_up_to_a_few_per_cent():
    rng = np.random.default_rng(0)
    for _ in range(20):
        variances = rng.uniform(0.01, 3.0, size=3) ** 2
        share = share_out(np.sqrt(variances), 15)
        best = min(
            variances[0] / a + variances[1] / b + variances[2] / (15 - a - b)
            for a, b in product(range(1, 14), repeat=2)
            if a + b < 15
        )
        assert (variances / share).sum() <= 1.1 * best


def test_infinite_weights_share_what_there_is():
    np.testing.assert_array_equal(share_out(np.array([np.inf, 1.0, np.inf]), 9), [4, 1, 4])
    assert len(share_out(np.zeros(0), 5)) == 0


@pytest.mark.parametrize("size", [0.0, 1e-9, 1.0])
@pytest.mark.parametrize("kernel", [Polynomial(3), Polynomial(3, 0.0), ExponentialDotProduct(), Gaussian()], ids=repr)
def test_every_degree_of_a_law_has_a_chance(kernel, size):
    part = sampled(kernel, rows(size=size))
    degrees = [n for n in range(len(part.coefficients)) if part.coefficients[n] != 0]
    law = _best_law(part, degrees)
    chances = law.chance(np.arange(300))
    assert chances.sum() == pytest.approx(1)
    assert (chances[degrees] > 0).all()
    assert law.rest == (BEYOND if part.endless else 0)
    assert law.chance(np.array(299)) > 0 or not part.endless
    if size == 1.0:
        weights = np.sqrt(part.second[degrees])
        np.testing.assert_allclose(chances[degrees], weights / weights.sum(), rtol=0.01, atol=2 * BEYOND)


def test_a_law_with_nothing_left_goes_on_beyond_the_table():
    part = sampled(ExponentialDotProduct(), rows(size=0.1))
    last = len(part.coefficients)
    chances = _best_law(part, []).chance(np.arange(300))
    assert (chances[:last] == 0).all()
    assert chances[last:].sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("eps", [1e-1, 1e-3, 1e-6])
def test_the_truncation_degree_is_the_least_whose_tail_is_small(eps):
    X = rows(size=1.5)
    part = sampled(ExponentialDotProduct(), X)
    r2 = 2.25
    k = truncation_degree(part, eps)

    def tail(k):
        return math.exp(r2) - sum(r2**n / math.factorial(n) for n in range(k + 1))

    assert tail(k) <= eps * math.exp(r2) < tail(k - 1)
    drawn_up = plan("truncated", ExponentialDotProduct(), X, 200, eps=eps)
    assert drawn_up.truncation_bound == pytest.approx(tail(k), rel=1e-6)
    exact = np.exp(X @ X.T)
    kept = sum((X @ X.T) ** n / math.factorial(n) for n in range(k + 1))
    assert drawn_up.truncation == pytest.approx(math.sqrt(np.square(exact - kept).mean()), rel=1e-3, abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 20, 60])
@pytest.mark.parametrize("kernel", [ExponentialDotProduct(), Polynomial(3), Polynomial(3, 0.0), Gaussian()], ids=repr)
def test_optimal_plans_have_all_columns_and_stand_for_every_degree_once(kernel, n):
    X = rows()
    part = sampled(kernel, X)
    drawn_up = plan("optimal", kernel, X, n)
    assert drawn_up.columns_used == n or drawn_up.predicted_rmse == 0
    degrees = sorted(d for s in drawn_up.strata for d in s.degrees if d < len(part.coefficients))
    assert degrees == [d for d in range(len(part.coefficients)) if part.coefficients[d] != 0]
    assert all(s.columns >= 1 for s in drawn_up.strata)
    if part.endless:
        assert drawn_up.strata[-1].law.rest > 0


def test_optimal_plans_are_at_least_as_good_as_all_others():
    X = rows(40, 5)
    errors = {
        name: plan(name, ExponentialDotProduct(), X, 60, eps=1e-6).predicted_rmse
        for name in ("optimal", "truncated", "random", "h01", "geometric", "degrees")
    }
    # The truncated plan has no tail to pay for.
    assert all(errors["optimal"] <= 1.02 * error for error in errors.values())
    assert errors["optimal"] < 0.5 * errors["geometric"]


def test_more_columns_are_never_worse():
    errors = [plan("optimal", ExponentialDotProduct(), rows(30), n).predicted_rmse for n in range(1, 60)]
    assert (np.diff(errors) <= 1e-9 + 0.02 * np.array(errors[:-1])).all()


def test_exact_degrees_have_a_column_a_monomial():
    drawn_up = plan("optimal", Polynomial(2), rows(), 15)
    assert [(s.kind, s.degrees, s.columns) for s in drawn_up.strata] == [
        ("exact", (0,), 1),
        ("exact", (1,), 4),
        ("exact", (2,), 10),
    ]
    assert drawn_up.predicted_rmse == 0


def test_a_constant_is_never_sketched():
    for name in ("optimal", "truncated"):
        for size in (0.0, 1e-3, 1.0):
            strata = plan(name, ExponentialDotProduct(), rows(size=size), 12, eps=0.05).strata
            assert not [s for s in strata if s.kind == "sketched" and 0 in s.degrees]


def test_terms_alone_can_be_shared_out():
    terms = Terms(np.array([1.0, 1.0, 0.0, 1.0]), False, np.diag([1.0, 4.0, 0.0, 1.0]), np.array([1.0, 8.0, 0.0, 2.0]))
    strata = optimal_strata([terms], 13)
    assert [(s.kind, s.degrees) for s in strata] == [("exact", (0,)), ("sketched", (1,)), ("sketched", (3,))]
    assert [s.columns for s in strata] == [1, 8, 4]  # as the roots of 4 and 1
    assert strata[1].squared_error == pytest.approx(0.5)


def test_nothing_needs_no_columns():
    for name in ("optimal", "truncated", "random", "h01", "geometric", "degrees"):
        assert plan(name, Constant(0.0), rows(), 5).strata == ()


def test_what_does_not_fit_is_refused():
    X = rows()
    with pytest.raises(ParameterError, match=r"plan='h01' needs .*n_components >= 6, got 5"):
        plan("h01", ExponentialDotProduct(), X, 5)
    with pytest.raises(ParameterError, match=r"plan='truncated' keeps the degrees up to .* a column for each, got"):
        plan("truncated", ExponentialDotProduct(), X, 2)
    with pytest.raises(ParameterError, match="a sum of 2 series needs a column for each, got n_components=1"):
        optimal_strata([sampled(Gaussian(), X), sampled(Gaussian(2.0), X)], 1)
    with pytest.raises(ParameterError, match=r"plan='random' serves one power series, but the kernel is a sum of 2"):
        draw_up("random", [sampled(Gaussian(), X)] * 2, 9, mean_square=1.0, p=2.0, eps=0.1)
