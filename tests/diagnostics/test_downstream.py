"""Effects of the error of a kernel: on the spectrum of its matrix, and on ridge predictions."""

import numpy as np
import pytest
from scipy.stats import binom
from sklearn.kernel_ridge import KernelRidge

from mercer import DataError, Gaussian, Nystroem, ParameterError, Polynomial, RandomFourier, SphericalRadial, audit
from mercer.diagnostics.downstream import _penalty, ridge_effect
from mercer.diagnostics.subject import Subject


def rows(n=200, seed=0):
    return np.random.default_rng(seed).normal(size=(n, 3))


def fitted(n_components=48, **parameters):
    return RandomFourier(Gaussian(2.0), n_components, random_state=0, **parameters).fit(rows())


def loewner(A, B):
    """Return the least eigenvalue of B - A."""
    return np.linalg.eigvalsh(B - A)[0]


@pytest.mark.parametrize("feature_map", [fitted(), Nystroem(Gaussian(2.0), 20, random_state=0).fit(rows(seed=1))])
def test_spectral_errors_are_those_of_the_matrices(feature_map):
    X = rows(60)
    result = audit(feature_map, X).spectral(penalty=0.3)
    K, A, shift = Gaussian(2.0)(X), feature_map.gram(X), 0.3 * np.eye(60)
    assert (result.n_rows, result.all_rows, result.penalty) == (60, True, 0.3)
    assert result.relative_error == pytest.approx(np.linalg.norm(A - K, 2) / np.linalg.norm(K, 2))
    for epsilon, holds in ((result.epsilon * 1.001, True), (result.epsilon * 0.99, False)):
        lower, upper = (1 - epsilon) * (K + shift), (1 + epsilon) * (K + shift)
        assert (loewner(lower, A + shift) > 0 and loewner(A + shift, upper) > 0) == holds


def test_rows_of_spectral_errors_are_limited():
    result = audit(fitted(), rows()).spectral(50)
    assert (result.n_rows, result.all_rows) == (50, False)
    low, high = result.relative_error_interval
    assert f"(for all rows between {low:.3g} and {high:.3g})" in str(result)
    assert "on a random sample of 50 rows" in str(result)
    assert result.to_dict()["n_rows"] == 50


@pytest.mark.parametrize("n_rows", [100, 300])
@pytest.mark.parametrize(
    "feature_map",
    [fitted(), Nystroem(Polynomial(2), 4, random_state=0).fit(rows(seed=1))],
    ids=["fourier", "landmarks"],
)
def test_interval_of_the_spectral_error_covers_that_of_all_rows(feature_map, n_rows):
    X = rows(300)
    K, A = feature_map.kernel_(X), feature_map.gram(X)
    truth = np.linalg.norm(A - K, 2) / np.linalg.norm(K, 2)
    assert audit(feature_map, X).spectral().relative_error_interval == pytest.approx((truth, truth))
    for seed in range(2):
        result = audit(feature_map, X, n_rows=n_rows, random_state=seed).spectral(40)
        low, high = result.relative_error_interval
        assert low <= truth <= high
        # The ends are bounds, not estimates; they are not trivial.
        assert 0.02 * truth < low < result.relative_error
        assert high < 5 * truth


def ridge_rows(result, n_rows):
    drawn = result._subject("ridge").some_rows(n_rows, "ridge")
    return drawn[: n_rows // 2], drawn[n_rows // 2 :]


def test_penalty_has_the_least_error_of_all_leave_one_out_fits():
    X = rows(30)
    y = np.stack([np.sin(2 * X[:, 0]), X[:, 1]], axis=1) + 0.7 * rows(30, seed=1)[:, :2]
    K = Gaussian(1.0)(X)
    penalty = _penalty(K, y, 0.1)

    def error(alpha):
        total, centered = 0.0, y - y.mean(axis=0)
        for i in range(30):
            rest = np.arange(30) != i
            weights = np.linalg.solve(K[np.ix_(rest, rest)] + alpha * np.eye(29), centered[rest])
            total += np.square(K[i, rest] @ weights - centered[i]).sum()
        return total

    assert error(penalty) < min(error(penalty / 1.7), error(penalty * 1.7))


def test_ridge_errors_of_given_targets_equal_those_of_scikit_learn():
    X = rows(120)
    y = np.sin(2 * X[:, 0]) + 3
    feature_map = fitted()
    audited = audit(feature_map, X, y)
    result = audited.ridge(80)
    assert (result.targets, result.n_train, result.n_test) == ("y", 40, 40)
    train, test = ridge_rows(audited, 80)
    K, A = Gaussian(2.0)(X), feature_map.gram(X)
    for matrix, error in ((K, result.exact_error), (A, result.approximate_error)):
        model = KernelRidge(alpha=result.penalty, kernel="precomputed")
        model.fit(matrix[np.ix_(train, train)], y[train] - y[train].mean())
        predicted = model.predict(matrix[np.ix_(test, train)]) + y[train].mean()
        assert error == pytest.approx(np.square(predicted - y[test]).mean(), rel=1e-6)
    assert result.excess == pytest.approx(result.approximate_error - result.exact_error)
    assert result.relative_excess == pytest.approx(result.excess / result.exact_error)
    assert "ridge predictions of y: squared error" in str(result)
    assert audit(feature_map, X, np.stack([y, y], axis=1)).ridge(80).excess == pytest.approx(result.excess)


def test_ridge_errors_without_targets_are_means_over_functions_of_the_kernel():
    X, feature_map, n_functions = rows(60), fitted(), 4000
    audited = audit(feature_map, X)
    result = audited.ridge(60, noise=0.2)
    train, test = ridge_rows(audited, 60)
    assert (result.targets, result.penalty) == ("random functions", pytest.approx(0.2))
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(Gaussian(2.0)(X) + 1e-10 * np.eye(60))
    functions = root @ rng.normal(size=(60, n_functions))
    y = functions[train] + np.sqrt(0.2) * rng.normal(size=(30, n_functions))
    for matrix, error in ((Gaussian(2.0)(X), result.exact_error), (feature_map.gram(X), result.approximate_error)):
        weights = np.linalg.solve(matrix[np.ix_(train, train)] + 0.2 * np.eye(30), y)
        errors = np.square(matrix[np.ix_(test, train)] @ weights - functions[test]).mean(axis=0)
        margin = 5 * errors.std(ddof=1) / np.sqrt(n_functions)
        assert abs(errors.mean() - error) < margin
        # The test has power: the error with another penalty is outside of the margin.
        assert abs(errors.mean() - audited.ridge(60, noise=0.4).approximate_error) > margin
    assert result.excess > 0


@pytest.mark.slow
def test_excess_interval_covers_that_of_all_other_rows():
    # The interval is for the expected excess on other rows, given the map and the training rows.
    X, feature_map = rows(800), fitted(32)
    K, A = Gaussian(2.0)(X), feature_map.gram(X)
    covered = {1.0: 0, 0.1: 0}
    for seed in range(40):
        subject = Subject("map", feature_map, X, None, 100, seed)
        result = ridge_effect(subject, 200, 0.1)
        train = subject.some_rows(200, "ridge")[:100]
        others = np.setdiff1d(np.arange(800), train)
        exact, changed = (
            np.linalg.solve(M[np.ix_(train, train)] + result.penalty * np.eye(100), M[np.ix_(train, others)])
            for M in (K, A)
        )
        change = changed - exact
        shifted = K[np.ix_(train, train)] + result.penalty * np.eye(100)
        truth = np.einsum("in,ij,jn->n", change, shifted, change, optimize=True).mean()
        for shrink in covered:
            low, high = (result.excess + shrink * (end - result.excess) for end in result.excess_interval)
            covered[shrink] += low <= truth <= high
    # With a true coverage of 0.90 or more, fewer are covered once in a million runs.
    assert covered[1.0] >= binom.ppf(1e-6, 40, 0.90)
    assert covered[0.1] < binom.ppf(1e-6, 40, 0.90)


def test_exact_maps_cost_nothing():
    X = rows(100)
    feature_map = Nystroem(Polynomial(2), 20, random_state=0).fit(rows(seed=1))
    result = audit(feature_map, X, X[:, 0] * X[:, 1])
    assert result.spectral().relative_error < 1e-10
    assert result.spectral(penalty=0.1).epsilon < 1e-8
    assert abs(result.ridge().excess) < 1e-8
    assert abs(audit(feature_map, X).ridge().excess) < 1e-8


def test_kernels_that_are_not_positive_definite_have_ridge_errors():
    X = rows(100)
    feature_map = SphericalRadial(Gaussian(2.0), 16, constant="signed", random_state=2).fit(X)
    assert feature_map.signs_ is not None
    assert np.isfinite(audit(feature_map, X).ridge().excess)


def test_invalid_arguments_raise():
    X, feature_map = rows(40), fitted()
    result = audit(feature_map, X)
    with pytest.raises(
        DataError, match="ridge predictions need at least 20 rows, half of them to be predicted, got 10"
    ):
        result.ridge(10)
    with pytest.raises(ParameterError, match=r"^Audit\.spectral: penalty must be"):
        result.spectral(penalty=0)
    with pytest.raises(ParameterError, match=r"^Audit\.ridge: noise must be"):
        result.ridge(noise=-1)
    for y in (X[:10, 0], ["a"] * 40, np.full(40, np.nan), np.ones((40, 1, 1))):
        with pytest.raises(DataError, match="audit: y must contain finite numbers, one or one row of them for each"):
            audit(feature_map, X, y)
