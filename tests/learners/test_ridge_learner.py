"""What the two ridge estimators share: the penalty, by number or by a criterion, and what it needs of the rows."""

import numpy as np
import pytest

from mercer import DataError, Gaussian, KernelRidge, KernelRidgeClassifier, ParameterError, RandomFourier

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
y = np.sin(2 * X[:, 0]) + 0.3 * RNG.normal(size=60)
BOTH = [(KernelRidge, y), (KernelRidgeClassifier, (y > 0).astype(int))]


def fresh(kind, **options):
    return kind(RandomFourier(Gaussian(), 20, random_state=0), **options)


@pytest.mark.parametrize(("kind", "targets"), BOTH)
@pytest.mark.parametrize("alpha", [-1.0, np.inf, np.nan, True, "aic", None])
def test_penalties_that_cannot_be_are_refused(kind, targets, alpha):
    with pytest.raises(ParameterError, match=rf"{kind.__name__}: alpha must be a finite number >= 0 or one of '.*got "):
        fresh(kind, alpha=alpha).fit(X, targets)


@pytest.mark.parametrize(("kind", "targets"), BOTH)
@pytest.mark.parametrize("alpha", [0, 0.5, np.float32(2.0)])
def test_a_number_is_taken_as_it_is(kind, targets, alpha):
    model = fresh(kind, alpha=alpha).fit(X, targets)
    assert model.alpha_ == alpha
    assert model.path_ is None


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_leaving_one_out_chooses_by_models_that_were_refitted(fit_intercept):
    model = fresh(KernelRidge, alpha="loo", fit_intercept=fit_intercept).fit(X, y)

    def missed(alpha):
        errors = []
        for i in range(60):
            rest = np.arange(60) != i
            other = fresh(KernelRidge, alpha=float(alpha), fit_intercept=fit_intercept).fit(X[rest], y[rest])
            errors.append(float(other.predict(X[i : i + 1])[0] - y[i]) ** 2)
        return np.mean(errors)

    best = missed(model.alpha_)
    assert best <= 1.001 * missed(model.alpha_ / 3)
    assert best <= 1.001 * missed(model.alpha_ * 3)


@pytest.mark.parametrize(("kind", "targets"), BOTH)
def test_leaving_one_out_reads_the_rows_twice(kind, targets):
    blocks = [(X[:20], targets[:20]), (X[20:], targets[20:])]
    found = fresh(kind, alpha="loo").fit(blocks)
    assert found.alpha_ == pytest.approx(fresh(kind, alpha="loo").fit(X, targets).alpha_, rel=1e-6)
    with pytest.raises(DataError, match=rf"{kind.__name__}: alpha='loo' reads the rows twice, but .* alpha='gcv'"):
        fresh(kind, alpha="loo").fit(iter(blocks))
    # It is no learner of rows that come one block at a time.
    assert not hasattr(fresh(kind, alpha="loo"), "partial_fit")
    assert hasattr(fresh(kind, alpha="gcv"), "partial_fit")


@pytest.mark.parametrize(("kind", "targets"), BOTH)
@pytest.mark.parametrize("alpha", ["evidence", "gcv"])
def test_other_criteria_need_one_pass_and_can_go_on(kind, targets, alpha):
    parts = fresh(kind, alpha=alpha).partial_fit(X[:20], targets[:20]).partial_fit(X[20:], targets[20:])
    whole = fresh(kind, alpha=alpha).fit(X, targets)
    assert parts.alpha_ == pytest.approx(whole.alpha_, rel=1e-5)
    assert whole.path_ is not None


@pytest.mark.parametrize(("alpha", "double"), [(0, True), (1.0, False), ("gcv", True), ("loo", True)])
def test_small_eigenvalues_count_where_penalties_are_small(alpha, double):
    assert fresh(KernelRidge, alpha=alpha)._needs_double() is double


def read_by(model, rows):
    """Return how often the rows are summed in a fit."""
    told = []
    model.set_params(progress=told.append).fit(rows, y)
    return sum(one.rows == one.total for one in told)


def test_penalties_below_the_rounding_of_float32_are_solved_in_float64():
    rows = X.astype(np.float32)
    coarse, fine = (fresh(KernelRidge, alpha=alpha) for alpha in (1.0, 1e-6))
    assert (read_by(coarse, rows), read_by(fine, rows)) == (1, 2)
    assert coarse.statistic_.roundoff == np.finfo(np.float32).eps
    assert fine.statistic_.roundoff == np.finfo(np.float64).eps
    Z = fine.feature_map_.transform(rows).astype(float)
    centered = Z - Z.mean(axis=0)
    gram = centered.T @ centered + 1e-6 * np.eye(20)
    np.testing.assert_allclose(fine.coef_, np.linalg.solve(gram, centered.T @ (y - y.mean())), rtol=1e-4, atol=1e-4)
    assert read_by(fresh(KernelRidge, alpha=1e-6), X) == 1


def test_rounding_is_told_beside_the_penalty():
    model = fresh(KernelRidge, alpha=0.5).fit(X, y)
    assert model.rounding_ == pytest.approx(model.statistic_.rounding / 0.5)
    # Without a penalty, directions within so many times the rounding are left out.
    assert fresh(KernelRidge, alpha=0).fit(X, y).rounding_ == pytest.approx(1 / 20)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_left_out_scores_are_those_of_refitted_models(fit_intercept):
    path = fresh(KernelRidge, alpha="loo", fit_intercept=fit_intercept).fit(X[:25], y[:25]).path_
    place = len(path.alphas) * 3 // 4
    errors = []
    for i in range(25):
        rest = np.arange(25) != i
        model = fresh(KernelRidge, alpha=float(path.alphas[place]), fit_intercept=fit_intercept)
        errors.append(float(model.fit(X[:25][rest], y[:25][rest]).predict(X[i : i + 1])[0] - y[i]) ** 2)
    assert path.scores[place] == pytest.approx(np.mean(errors), rel=1e-6)
