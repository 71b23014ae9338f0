"""Local corrections: the exact process as the limit, weights as repetitions, engines, and all kinds of rows."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from mercer import (
    Deformed,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    Laplacian,
    LocalCorrection,
    Matern,
    MercerWarning,
    NeighborGraph,
    Nystroem,
    ParameterError,
    Precomputed,
    RandomFourier,
    RationalQuadratic,
    Transformed,
)
from mercer.learners.local_correction import correction_costs
from mercer.solvers.local import near_model

PARTS = ("global", "local", "both")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=150)
    return X, y, rng.normal(size=(20, 3))


KERNEL = Matern(1.5, 1.3)


def regressor(kernel=KERNEL, n_neighbors=20, parts="auto", alpha="loo", n_components=30, **parameters):
    feature_map = Nystroem(kernel, n_components, random_state=0)
    correction = LocalCorrection(n_neighbors, parts=parts)
    return KernelRidge(feature_map, alpha=alpha, neighbors=correction, random_state=0, **parameters)


def exact_process(kernel, X, y, T, noise, *, intercept):
    """Return mean and standard deviation at T, leave-one-out residuals and variances, by dense matrices.

    The intercept has a flat prior.
    """
    n = len(X)
    P = np.linalg.inv(kernel(X) + noise * np.eye(n))
    one = np.ones(n)
    cross = kernel(T, X)
    constant, more = 0.0, np.zeros(len(T))
    precision = P
    if intercept:
        total = one @ P @ one
        constant = one @ P @ y / total
        more = np.square(1 - cross @ P @ one) / total
        precision = P - np.outer(P @ one, P @ one) / total
    mean = constant + cross @ P @ (y - constant)
    variance = kernel.diag(T) - np.einsum("ij,jk,ik->i", cross, P, cross) + more
    return mean, np.sqrt(variance + noise), precision @ y / np.diag(precision), 1 / np.diag(precision)


KERNELS = [
    Matern(0.5, 2.0),
    Matern(1.5, 1.3),
    Matern(2.5),
    Gaussian(1.2),
    2.5 * Gaussian(0.7),
    RationalQuadratic(1.5, 0.8),
    Transformed(Matern(1.5), lengthscales=(0.5, 1.0, 4.0)),
    3.0 * Transformed(Matern(0.5), columns=(2, 0), lengthscales=(0.5, 2.0)),
    Laplacian(1.4),
    Gaussian(0.7) + 0.5 * Matern(0.5, 2.0),
]


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("intercept", [False, True])
def test_with_all_rows_as_near_rows_both_parts_are_the_exact_process(rows, kernel, intercept):
    X, y, T = rows
    y = y + 3 * intercept
    model = regressor(kernel, len(X), "both", 0.05, fit_intercept=intercept).fit(X, y)
    mean, std = model.predict(T, return_std=True, with_noise=True)
    left_out = model.local_.left_out
    order = left_out.rows.X[left_out.sample]
    index = [int(np.flatnonzero((X == row).all(axis=1))[0]) for row in order]
    expected = exact_process(kernel, X, y, T, 0.05, intercept=intercept)
    np.testing.assert_allclose(mean, expected[0], atol=1e-8)
    np.testing.assert_allclose(std / np.sqrt(model.local_.model.scale), expected[1], atol=1e-8)
    np.testing.assert_allclose(left_out.errors[:, 0], expected[2][index], atol=1e-8)
    np.testing.assert_allclose(left_out.variance, expected[3][index], atol=1e-8)


def test_with_all_rows_as_near_rows_the_local_part_is_the_exact_process(rows):
    X, y, T = rows
    kernel = Matern(1.5, 1.3)
    model = regressor(kernel, len(X), "local", 0.05, fit_intercept=False).fit(X, y)
    mean, std = model.predict(T, return_std=True, with_noise=True)
    expected = exact_process(kernel, X, y, T, 0.05, intercept=False)
    np.testing.assert_allclose(mean, expected[0], atol=1e-8)
    np.testing.assert_allclose(std / np.sqrt(model.local_.model.scale), expected[1], atol=1e-8)


def test_fewer_near_rows_are_not_the_exact_process(rows):
    # The twin of the tests above: 20 of 150 rows give other predictions, so these tests can fail.
    X, y, T = rows
    kernel = Matern(1.5, 1.3)
    model = regressor(kernel, 20, "both", 0.05, fit_intercept=False).fit(X, y)
    expected = exact_process(kernel, X, y, T, 0.05, intercept=False)[0]
    error = np.abs(model.predict(T) - expected).max()
    assert 1e-5 < error < 0.3


def test_of_many_rows_few_predecessors_are_enough(rows, monkeypatch):
    X, y, T = rows
    noise = 0.05
    expected = regressor(n_neighbors=20, parts="both", alpha=noise).fit(X, y).predict(T)
    monkeypatch.setattr(near_model, "FEW_ROWS", 100)
    for count in (20, 16):  # at least as many as near rows, and fewer
        monkeypatch.setattr(near_model, "PREDECESSORS", count)
        model = regressor(n_neighbors=20, parts="both", alpha=noise).fit(X, y)
        change = np.abs(model.predict(T) - expected).max() / y.std()
        assert (change == 0) if count == 20 else (0 < change < 0.05)
    # The coefficients are those of a model with so few near rows, and the predictions use all 20.
    coef = regressor(n_neighbors=16, parts="both", alpha=noise).fit(X, y).local_.model.part.coef
    np.testing.assert_array_equal(model.local_.model.part.coef, coef)
    assert model.local_.model.problem.n_neighbors == 20


def test_features_whose_residual_is_no_kernel_have_the_kernel_as_local_part(rows):
    X, y, T = rows
    feature_map = RandomFourier(Gaussian(1.2), 16, random_state=0)
    model = KernelRidge(feature_map, alpha=0.05, fit_intercept=False, neighbors=LocalCorrection(150, parts="both"))
    model.fit(X, y)

    def kernel(A, B):
        features = model.feature_map_.transform
        return features(A) @ features(B).T + Gaussian(1.2)(A, B)

    expected = kernel(T, X) @ np.linalg.solve(kernel(X, X) + 0.05 * np.eye(len(X)), y)
    np.testing.assert_allclose(model.predict(T), expected, atol=1e-8)


@pytest.mark.parametrize("parts", [*PARTS, "auto"])
@pytest.mark.parametrize("alpha", [0.1, "loo", "evidence"])
def test_integer_weights_are_repetitions(rows, parts, alpha):
    X, y, T = rows
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 4, len(X))
    first = np.repeat(np.arange(len(X)), weight)
    noisy = np.concatenate([y, y + 0.3])  # copies of a row with different targets
    twice = np.concatenate([X, X])
    weighted = regressor(parts=parts, alpha=alpha).fit(twice, noisy, np.concatenate([weight, weight]))
    repeated = regressor(parts=parts, alpha=alpha).fit(
        np.concatenate([X[first], X[first]]), np.concatenate([y[first], y[first] + 0.3])
    )
    for a, b in zip(weighted.predict(T, return_std=True), repeated.predict(T, return_std=True), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(weighted.predict_interval(T), repeated.predict_interval(T), rtol=1e-9, atol=1e-10)


def test_leave_one_out_of_repeated_rows_is_that_of_refits():
    rng = np.random.default_rng(2)
    X = np.repeat(rng.normal(size=(20, 2)), 2, axis=0)
    y = rng.normal(size=40)
    model = regressor(n_neighbors=20, parts="local", alpha=0.3, n_components=5, fit_intercept=False).fit(X, y)
    errors = []
    for i in range(40):
        others = np.arange(40) != i
        refit = regressor(n_neighbors=20, parts="local", alpha=0.3, n_components=5, fit_intercept=False)
        errors.append(y[i] - refit.fit(X[others], y[others]).predict(X[i : i + 1])[0])
    assert model.local_.left_out.squared_error() == pytest.approx(np.mean(np.square(errors)), rel=1e-10)


@pytest.mark.parametrize("parts", [*PARTS, "auto"])
def test_models_of_blocks_are_the_same(rows, parts):
    X, y, T = rows
    expected = regressor(parts=parts).fit(X, y).predict(T)
    blocks = regressor(parts=parts).fit([(X[i : i + 40], y[i : i + 40]) for i in range(0, 150, 40)]).predict(T)
    np.testing.assert_allclose(blocks, expected, rtol=1e-8, atol=1e-9)


def test_units_of_features_do_not_matter_if_lengthscales_have_them(rows):
    X, y, T = rows
    factors = np.array([1e-6, 1.0, 1e6])
    landmarks = X[:30]

    def predictions(scale):
        kernel = Transformed(Matern(1.5), lengthscales=scale)
        feature_map = Nystroem(kernel, 30, landmarks=landmarks * scale)
        model = KernelRidge(feature_map, alpha="loo", neighbors=20, random_state=0).fit(X * scale, y)
        return model.predict(T * scale)

    np.testing.assert_allclose(predictions(factors), predictions(np.ones(3)), rtol=1e-7, atol=1e-8)


def test_models_on_dask_are_the_same(rows):
    da = pytest.importorskip("dask.array")
    X, y, T = rows
    expected = regressor().fit(X, y)
    model = regressor().fit(da.from_array(X, chunks=(50, 3)), da.from_array(y, chunks=50))
    np.testing.assert_allclose(model.predict(T), expected.predict(T), rtol=1e-8, atol=1e-9)
    lazy = model.predict(da.from_array(T, chunks=(7, 3)))
    np.testing.assert_allclose(lazy.compute(), model.predict(T), rtol=1e-12)


def test_an_interrupted_fit_resumes_to_the_same_bits(rows, tmp_path):
    X, y, T = rows
    expected = regressor().fit(X, y).predict(T)
    path = tmp_path / "fit.checkpoint"
    blocks = [(X[i : i + 40], y[i : i + 40]) for i in range(0, 150, 40)]

    class Failing(list):
        reads = 0

        def __iter__(self):
            for block in list.__iter__(self):
                self.reads += 1
                if self.reads == 14:
                    raise InterruptedError
                yield block

    from mercer import Checkpoint

    saving = Checkpoint(path, seconds=0)
    with pytest.raises(InterruptedError):
        regressor().fit(Failing(blocks), checkpoint=saving)
    resumed = regressor().fit(blocks, checkpoint=saving)
    np.testing.assert_allclose(resumed.predict(T), expected, rtol=1e-8, atol=1e-9)
    assert (resumed.predict(T) == regressor().fit(blocks).predict(T)).all()


@pytest.mark.parametrize("parts", ["local", "both"])
def test_far_from_all_rows_the_prediction_is_the_global_part_and_the_variance_the_prior(rows, parts):
    X, y, _ = rows
    model = regressor(parts=parts, alpha=0.05).fit(X, y + 10)
    far = np.full((1, 3), 1e3)
    mean, std = model.predict(far, return_std=True)
    part = model.local_.model.part
    np.testing.assert_allclose(mean, part.intercept, rtol=1e-12)
    prior = np.sqrt(1 + part.spread(np.eye(len(part.root))[-1:])[0] if part.root is not None else 1.0)
    np.testing.assert_allclose(std, prior * np.sqrt(model.local_.model.scale), rtol=1e-9)


def test_the_parts_of_least_left_out_error_are_chosen(rows):
    X, y, _ = rows
    model = regressor().fit(X, y)
    best = min(model.local_.scores, key=lambda score: score.error)
    assert {score.parts for score in model.local_.scores} == set(PARTS)
    assert (model.local_.parts, model.local_.model.alpha) == (best.parts, best.alpha)
    frame = model.local_.to_pandas()
    assert frame["error"].min() == best.error == pytest.approx(model.local_.left_out.squared_error())


def test_a_linear_function_needs_no_near_rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(400, 5))
    y = X[:, 0] + rng.normal(size=400)  # noise rules
    model = regressor(Gaussian(8.0), 16, n_components=20).fit(X, y)
    assert model.local_.parts in ("global", "both")
    local = regressor(Gaussian(8.0), 16, "local", n_components=20).fit(X, y)
    T = rng.normal(size=(500, 5))
    assert np.mean(np.square(model.predict(T) - T[:, 0])) < np.mean(np.square(local.predict(T) - T[:, 0]))


def test_the_number_of_neighbors_is_chosen(rows):
    X, y, _ = rows
    model = regressor(n_neighbors="auto", parts="local").fit(X, y)
    counts = [score.n_neighbors for score in model.local_.scores]
    assert counts == [16, 32, 64, 128]
    best = min(model.local_.scores, key=lambda score: score.error)
    assert model.local_.model.problem.n_neighbors == best.n_neighbors


@pytest.mark.parametrize("coverage", [0.5, 0.9])
def test_intervals_contain_new_targets_with_the_given_probability(coverage):
    # Rows, noise and function are new in each of 8 trials, so the counts are independent. Each trial has a mean
    # coverage that differs from `coverage` by the error of the quantile of 1000 left-out residuals, sd at most
    # sqrt(p (1 - p) / 1000) < 0.016 (their dependence is weak), and the count of 500 new targets adds 0.0224. The mean
    # of 8 trials has a standard deviation below 0.01; five of them are 0.05.
    shares, half = [], []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        X = rng.uniform(size=(1500, 2))
        y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_t(4, size=1500)  # heavy tails
        model = regressor(Matern(1.5, 0.5), 32, "local", n_components=10).fit(X[:1000], y[:1000])
        low, high = model.predict_interval(X[1000:], coverage).T
        shares.append(np.mean((low <= y[1000:]) & (y[1000:] <= high)))
        mean, std = model.predict(X[1000:], return_std=True, with_noise=True)
        half.append(np.mean(np.abs(y[1000:] - mean) < std))
    assert abs(np.mean(shares) - coverage) < 0.05
    # The twin: one standard deviation is not an interval of 50 or 90 percent.
    assert abs(np.mean(half) - coverage) > 0.05


def test_two_columns_of_targets_are_predicted_as_one_at_a_time(rows):
    X, y, T = rows
    both = np.column_stack([y, np.cos(X[:, 1])])
    model = regressor(parts="both", alpha=0.1).fit(X, both)
    mean, std = model.predict(T, return_std=True)
    assert mean.shape == std.shape == (20, 2)
    assert model.predict_interval(T).shape == (20, 2, 2)
    for column in range(2):
        single = regressor(parts="both", alpha=0.1).fit(X, both[:, column])
        expected = single.predict(T, return_std=True)
        np.testing.assert_allclose(mean[:, column], expected[0], rtol=1e-9, atol=1e-10)
        np.testing.assert_allclose(std[:, column], expected[1], rtol=1e-9)


def test_audits_measure_the_distance_from_the_exact_process(rows):
    X, y, T = rows
    model = regressor(Matern(1.5, 1.3), 20, "local", 0.05, fit_intercept=False).fit(X, y)
    audit = model.local_.audit(T)
    exact = exact_process(Matern(1.5, 1.3), X, y, T, 0.05, intercept=False)[0]
    errors = model.local_.left_out.squares.mean()
    assert audit.rmse == pytest.approx(np.sqrt(np.mean(np.square(model.predict(T) - exact)) / errors), rel=1e-6)
    assert audit.low <= audit.rmse <= audit.high
    assert (audit.n_neighbors, audit.n_rows) == (150, 20)
    complete = regressor(Matern(1.5, 1.3), 150, "local", 0.05).fit(X, y)
    assert complete.local_.audit(T).rmse < 1e-12


# ---- classification -----------------------------------------------------------------------------


def classifier(parts="auto", n_neighbors=20, alpha="loo", **parameters):
    feature_map = Nystroem(Matern(0.5, "median"), 40, random_state=0)
    correction = LocalCorrection(n_neighbors, parts=parts)
    return KernelRidgeClassifier(feature_map, alpha=alpha, neighbors=correction, random_state=0, **parameters)


@pytest.fixture(scope="module")
def spirals():
    rng = np.random.default_rng(5)
    arm, t = rng.integers(0, 3, 900), rng.uniform(0.5, 3, 900)
    angle = 3 * t + 2 * np.pi * arm / 3
    X = t[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]) + 0.15 * rng.normal(size=(900, 2))
    return X, np.array(["a", "b", "c"])[arm]


def test_classes_that_features_do_not_separate(spirals):
    X, y = spirals
    model = classifier().fit(X[:600], y[:600])
    plain = clone(model).set_params(neighbors=None).fit(X[:600], y[:600])
    assert 1 - model.score(X[600:], y[600:]) < 0.6 * (1 - plain.score(X[600:], y[600:]))
    probabilities = model.predict_proba(X[600:])
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    truth = probabilities[np.arange(300), np.searchsorted(model.classes_, y[600:])]
    # Calibrated: the log loss is close to the entropy that the model itself states.
    entropy = -np.sum(probabilities * np.log(np.maximum(probabilities, 1e-300)), axis=1).mean()
    assert abs(-np.log(truth).mean() - entropy) < 0.1


def test_two_labels_are_one_column(spirals):
    X, y = spirals
    model = classifier().fit(X[:600], y[:600] == "a")
    assert model.decision_function(X[:5]).shape == (5,)
    assert model.score(X[600:], y[600:] == "a") > 0.9


def test_integer_weights_of_labels_are_repetitions(spirals):
    X, y = spirals
    X, y = X[:200].round(1), y[:200]  # some rows are equal, with different labels
    weight = np.random.default_rng(6).integers(0, 3, 200)
    index = np.repeat(np.arange(200), weight)
    weighted, repeated = classifier().fit(X, y, weight), classifier().fit(X[index], y[index])
    np.testing.assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-7, atol=1e-9)


def test_unlabeled_rows_are_not_near_rows(spirals):
    X, y = spirals
    some = np.where(np.arange(900) % 3 == 0, y, "?")
    model = classifier(unlabeled="?").fit(X, some)
    assert len(model.local_.model.problem.rows) == 300
    assert set(model.predict(X[:50])) <= {"a", "b", "c"}


# ---- all kinds of rows --------------------------------------------------------------------------


def test_equal_rows_without_noise_are_no_singular_system():
    X = np.repeat(np.arange(6.0), 5)[:, None]
    y = X[:, 0] ** 2
    model = regressor(Gaussian(2.0), 30, "local", alpha=0.0, n_components=3, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(model.predict(np.arange(6.0)[:, None]), np.arange(6.0) ** 2, atol=1e-5)


@pytest.mark.parametrize("parts", [*PARTS, "auto"])
def test_nearly_equal_rows_with_contradicting_targets_give_finite_predictions(parts):
    rng = np.random.default_rng(7)
    X = np.concatenate([np.zeros((30, 2)), 1e-13 * rng.normal(size=(30, 2)), rng.normal(size=(30, 2))])
    y = rng.normal(size=90)
    model = regressor(Matern(2.5), 50, parts, n_components=10).fit(X, y)
    mean, std = model.predict(rng.normal(size=(20, 2)), return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert np.abs(mean).max() < 10 * np.abs(y).max()


@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_rows(n):
    rng = np.random.default_rng(8)
    X, y = rng.normal(size=(n, 3)), rng.normal(size=n)
    with np.errstate(all="raise"):
        model = KernelRidge(Nystroem(Gaussian(1.0), 1, random_state=0), alpha=0.1, neighbors=64).fit(X, y)
        assert np.isfinite(model.predict(X)).all()


@pytest.mark.parametrize("parts", ["local", "both"])
def test_sparse_and_single_precision_rows_and_other_orders(rows, parts):
    X, y, T = rows
    X = np.where(np.abs(X) < 0.5, 0.0, X).astype(np.float32).astype(np.float64)
    expected = regressor(parts=parts, alpha=0.1).fit(X, y).predict(T)
    sparse = regressor(parts=parts, alpha=0.1).fit(sp.csr_array(X), y)
    np.testing.assert_allclose(sparse.predict(sp.csr_array(T)), expected, rtol=1e-9, atol=1e-9)
    single = regressor(parts=parts, alpha=0.1).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict(T.astype(np.float32)), expected, atol=2e-4)
    fortran = regressor(parts=parts, alpha=0.1).fit(np.asfortranarray(X), y)
    np.testing.assert_allclose(fortran.predict(np.asfortranarray(T)), expected, rtol=1e-10, atol=1e-10)


def test_wide_sparse_rows_stay_sparse():
    rng = np.random.default_rng(9)
    X = sp.random_array((60, 5000), density=0.01, rng=rng, format="csr")
    y = np.asarray(X.sum(axis=1)).ravel()
    model = regressor(Gaussian(2.0), 10, "local", alpha=0.01, n_components=5).fit(X, y)
    assert sp.issparse(model.local_.model.problem.points)
    dense = regressor(Gaussian(2.0), 10, "local", alpha=0.01, n_components=5).fit(X.toarray(), y)
    np.testing.assert_allclose(model.predict(X), dense.predict(X.toarray()), rtol=1e-8, atol=1e-8)


def test_constant_features_and_constant_targets():
    rng = np.random.default_rng(10)
    X = np.column_stack([rng.normal(size=60), np.full(60, 7.0)])
    model = regressor(n_components=5, alpha=0.1).fit(X, np.full(60, 3.0))
    mean, std = model.predict(X, return_std=True)
    np.testing.assert_allclose(mean, 3.0, rtol=1e-9)
    assert (std >= 0).all()


# ---- memory -------------------------------------------------------------------------------------


def test_above_the_limit_a_sample_of_rows_is_stored(rows):
    X, y, T = rows
    correction = LocalCorrection(10, parts="local", memory_limit=8000)
    model = KernelRidge(Nystroem(Matern(1.5, 1.3), 5, random_state=0), neighbors=correction, random_state=0)
    with pytest.warns(MercerWarning, match="150 rows of the fit need .* sample of 60 rows"):
        model.fit(X, y)
    assert len(model.local_.model.problem.rows) == 60
    assert np.isfinite(model.predict(T)).all()


def test_features_that_do_not_fit_are_not_combined_with_near_rows(rows):
    X, y, _ = rows
    few = LocalCorrection(10, memory_limit=30_000)
    model = KernelRidge(Nystroem(Matern(1.5, 1.3), 40, random_state=0), neighbors=few).fit(X, y)
    assert {score.parts for score in model.local_.scores} == {"global", "local"}
    with pytest.raises(ParameterError, match=r"parts='both' needs .* memory_limit"):
        model.set_params(neighbors__parts="both").fit(X, y)


def test_the_size_of_the_rows_is_an_attribute(rows):
    X, y, _ = rows
    model = regressor(parts="local").fit(X, y)
    assert 150 * 3 * 8 <= model.local_.nbytes < 100_000


# ---- the interface ------------------------------------------------------------------------------


def test_parameters_are_nested_and_checked(rows):
    X, y, _ = rows
    model = KernelRidge(neighbors=LocalCorrection(5))
    assert clone(model).set_params(neighbors__n_neighbors=7).neighbors.n_neighbors == 7
    for wrong in (0, -3, 1.5, "all", True):
        with pytest.raises(ParameterError, match="neighbors must be"):
            KernelRidge(neighbors=wrong).fit(X, y)
    with pytest.raises(ParameterError, match="LocalCorrection: parts must be one of"):
        KernelRidge(neighbors=LocalCorrection(parts="all")).fit(X, y)


def test_models_can_be_pickled(rows):
    X, y, T = rows
    model = regressor().fit(X, y)
    assert (pickle.loads(pickle.dumps(model)).predict(T) == model.predict(T)).all()


def test_blocks_cannot_be_added_and_standard_deviations_need_near_rows(rows):
    X, y, T = rows
    with pytest.raises(AttributeError) as raised:
        KernelRidge(neighbors=5).partial_fit  # noqa: B018
    assert "neighbors= stores the rows" in str(raised.value.__cause__)
    with pytest.raises(ParameterError, match="return_std=True needs a local correction"):
        KernelRidge().fit(X, y).predict(T, return_std=True)
    assert not hasattr(KernelRidge(), "predict_interval")


def test_kernels_of_all_rows_are_refused(rows):
    X, y, _ = rows
    for matrix in (Precomputed(), 2.0 * Precomputed()):
        with pytest.raises(ParameterError, match="a function of two rows"):
            KernelRidge(Nystroem(matrix, 20, random_state=0), neighbors=5).fit(Gaussian(1.0)(X), y)
    model = KernelRidge(Deformed(Nystroem(Gaussian(1.0), 20, random_state=0), NeighborGraph(5)), neighbors=5)
    with pytest.raises(ParameterError, match="a function of two rows"):
        model.fit(X, y)


@pytest.mark.parametrize("parts", [*PARTS, "auto"])
@pytest.mark.parametrize("alpha", [0.1, "loo"])
def test_progress_covers_all_stages(rows, parts, alpha):
    X, y, _ = rows
    stages, fractions = [], []
    model = regressor(parts=parts, alpha=alpha, n_neighbors=10)
    model.set_params(progress=lambda progress: (stages.append(progress.stage), fractions.append(progress.fraction)))
    model.fit(X, y)
    if parts in ("auto", "both"):
        assert "estimate both parts" in stages
    if alpha == "loo":
        assert ("leave rows out" in stages) == (parts != "global")
    assert None not in fractions
    assert fractions == sorted(fractions)
    # Models with near rows end with a fraction of one, and these stages are not zero.
    planned = correction_costs(LocalCorrection(10, parts=parts), alpha, 150, 3, 30)
    assert set(stages) - set(planned) <= {"choose landmarks", "sum over rows", "score penalties", "fit map", "solve"}
    assert all(cost > 0 for cost in planned.values())
    if "estimate both parts" in planned:
        assert fractions[-1] == 1
        assert fractions[stages.index("estimate both parts") - 1] < 1


def test_the_result_is_shown(rows):
    X, y, _ = rows
    model = regressor(parts="local", alpha=0.1).fit(X, y)
    assert repr(model.local_).startswith("LocalFit(parts='local', n_rows=150, nbytes=")
    # Features alone need no rows, so the model does not store them.
    alone = regressor(parts="global", alpha=0.1).fit(X, y)
    assert repr(alone.local_).startswith("LocalFit(parts='global', n_rows=1, ")
    plain = regressor(alpha=0.1).set_params(neighbors=None).fit(X, y)
    np.testing.assert_allclose(alone.predict(X), plain.predict(X), rtol=1e-9, atol=1e-10)


def test_models_that_blocks_were_added_to_have_no_correction(rows):
    X, y, T = rows
    model = regressor(alpha=0.1).fit(X, y).set_params(neighbors=None)
    model.partial_fit(X, y)
    assert model.local_ is None
    added = regressor(alpha=0.1).set_params(neighbors=None).partial_fit(X, y)
    np.testing.assert_allclose(added.predict(T), added._linear(T, added.coef_[:, None], [added.intercept_])[:, 0])
    labels = classifier(alpha=0.1).fit(X, y > 0).set_params(neighbors=None).partial_fit(X, y > 0)
    assert labels.local_ is None


def test_intervals_need_a_fit_with_neighbors(rows):
    X, y, T = rows
    model = regressor().set_params(neighbors=None).fit(X, y).set_params(neighbors=5)
    with pytest.raises(ParameterError, match="predict_interval needs a fit with neighbors"):
        model.predict_interval(T)


# ---- targets and noise of any size --------------------------------------------------------------


@pytest.mark.parametrize("parts", [*PARTS, "auto"])
@pytest.mark.parametrize("size", [1e-200, 1e-160, 1e150, 1e200])
def test_targets_whose_squares_overflow_or_underflow(rows, parts, size):
    X, y, T = rows
    expected = regressor(parts=parts, alpha=0.1).fit(X, y)
    model = regressor(parts=parts, alpha=0.1).fit(X, size * y)
    assert model.local_.parts == expected.local_.parts
    for found, other in zip(model.predict(T, return_std=True), expected.predict(T, return_std=True), strict=True):
        np.testing.assert_allclose(found / size, other, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(model.predict_interval(T) / size, expected.predict_interval(T), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("parts", [*PARTS, "auto"])
def test_targets_with_a_large_mean(rows, parts):
    X, y, T = rows
    expected = regressor(parts=parts).fit(X, y)
    model = regressor(parts=parts).fit(X, y + 1e6)
    # Targets have an error of 1e-10 themselves.
    for found, other in zip(model.predict(T, return_std=True), expected.predict(T, return_std=True), strict=True):
        np.testing.assert_allclose(found - 1e6 * (found.mean() > 1e5), other, atol=3e-9)


@pytest.mark.parametrize("parts", [*PARTS, "auto"])
@pytest.mark.parametrize("value", [0.0, 0.1, 3.0])
def test_intervals_of_constant_targets_are_this_number(rows, parts, value):
    X, _, T = rows
    model = regressor(parts=parts, alpha=0.1).fit(X, np.full(150, value))
    np.testing.assert_allclose(model.predict_interval(T), value, rtol=1e-9)


@pytest.mark.parametrize("parts", [*PARTS, "auto"])
@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("alpha", [0.0, 0.1, "evidence"])
def test_few_rows_with_and_without_noise(rows, parts, n, alpha):
    X, y, T = rows
    model = regressor(parts=parts, alpha=alpha, n_components=n).fit(X[:n], y[:n])
    mean, std = model.predict(T, return_std=True)
    assert np.isfinite(mean).all()
    assert np.isfinite(std).all()
    assert np.isfinite(model.predict_interval(T)).all()


def test_without_noise_the_left_out_error_of_features_is_not_that_of_the_fit(rows):
    X, y, _ = rows
    model = regressor(parts="global", alpha=0.0).fit(X, y)
    Z = np.column_stack([model.feature_map_.transform(X), np.ones(150)])
    H = Z @ np.linalg.pinv(Z)
    left_out = (y - H @ y) / (1 - np.diag(H))
    assert model.local_.scores[0].error == pytest.approx(np.mean(np.square(left_out)), rel=1e-8)
    # The twin: the error of the fit is much smaller.
    assert model.local_.scores[0].error > 2 * np.mean(np.square(y - H @ y))


def test_without_noise_both_parts_are_the_exact_interpolation(rows):
    X, y, T = rows
    kernel = Matern(1.5, 1.3)
    model = regressor(kernel, 150, "both", 0.0).fit(X, y)
    expected = exact_process(kernel, X, y, T, 0.0, intercept=True)
    np.testing.assert_allclose(model.predict(T), expected[0], atol=1e-3)
    left_out = model.local_.left_out
    index = [int(np.flatnonzero((X == row).all(axis=1))[0]) for row in left_out.rows.X[left_out.sample]]
    np.testing.assert_allclose(left_out.errors[:, 0], expected[2][index], atol=1e-3)
    # Landmarks determine their own features, so they have no left-out error.
    assert len(index) == 150 - 30


def test_rows_that_features_fit_exactly_have_no_left_out_error(rows):
    X, y, _ = rows
    model = regressor(alpha=0.0, n_components=150).fit(X, y)
    assert [score.error == np.inf for score in model.local_.scores] == [True, False, True]
    assert model.local_.parts == "local"


# ---- copies of rows -----------------------------------------------------------------------------


def test_intervals_of_repeated_rows_contain_new_targets_with_the_given_probability():
    # 2000 residuals and 4000 new targets: standard deviations 0.0067 and 0.0047, five of both together are 0.041.
    rng = np.random.default_rng(11)
    X, T = (rng.integers(0, 10, size=(n, 1)).astype(float) for n in (2000, 4000))
    y, truth = (np.sin(rows[:, 0]) + rng.normal(size=len(rows)) for rows in (X, T))
    model = regressor(Gaussian(2.0), 10, "local", n_components=5).fit(X, y)
    low, high = model.predict_interval(T, 0.9).T
    assert abs(np.mean((low <= truth) & (truth <= high)) - 0.9) < 0.041
    # The twin: the root mean square of the copies of each row has another distribution.
    left_out = model.local_.left_out
    ratios = np.sqrt(left_out.squares / (left_out.variance[:, None] * left_out.scale()))
    mean, std = model.predict(T, return_std=True, with_noise=True)
    assert np.mean(np.abs(truth - mean) < std * np.quantile(ratios, 0.9)) < 0.8


def test_left_out_errors_of_weights_are_those_of_refitted_models(rows):
    X, y, _ = rows
    X, y, n, noise = X[:40], y[:40] + 5, 40, 0.1
    weight = np.random.default_rng(12).uniform(0.2, 3, n)
    model = regressor(KERNEL, n, "both", noise, n_components=12).fit(X, y, weight)
    left_out = model.local_.left_out
    for i, row in enumerate(left_out.rows.X[left_out.sample]):
        j = int(np.flatnonzero((X == row).all(axis=1))[0])
        remaining = weight.copy()
        remaining[j] = 0  # a weight above one is that of copies with equal targets, which are left out together
        some = remaining > 0
        P = np.linalg.inv(KERNEL(X[some]) + np.diag(noise / remaining[some]))
        constant = P.sum(axis=0) @ y[some] / P.sum()
        predicted = constant + KERNEL(X[j : j + 1], X[some]) @ P @ (y[some] - constant)
        np.testing.assert_allclose(left_out.errors[i, 0], y[j] - predicted[0], atol=1e-9)


def test_left_out_errors_of_copies_are_those_of_refitted_models(rows):
    X, y, _ = rows
    index = np.repeat(np.arange(20), 3)
    X, y = X[index], y[index] + np.random.default_rng(13).normal(size=60)
    model = regressor(KERNEL, 20, "both", 0.1, n_components=12).fit(X, y)
    errors = [exact_process(KERNEL, X, y, X[:1], 0.1, intercept=True)[2]]
    assert model.local_.left_out.squared_error() == pytest.approx(np.mean(np.square(errors)), rel=1e-9)
    ratios, weight = model.local_.left_out.deviations()
    assert weight.sum() == 60
    spread = np.sqrt(model.local_.left_out.variance.max() * model.local_.left_out.scale()[0])
    assert ratios.max() >= np.abs(errors).max() / spread * (1 - 1e-9)


# ---- several targets, and queries of another kind -----------------------------------------------


def test_the_memory_of_all_targets_counts(rows):
    X, y, _ = rows
    correction = LocalCorrection(10, parts="local", memory_limit=20_000)
    model = KernelRidge(Nystroem(Matern(1.5, 1.3), 5, random_state=0), neighbors=correction, random_state=0)
    with pytest.warns(MercerWarning, match="sample of 18 rows"):
        model.fit(X, np.column_stack([y] * 40))


@pytest.mark.parametrize("kernel", [Gaussian(2.0), Gaussian(2.0) + Matern(0.5)], ids=repr)
def test_wide_rows_may_be_dense_in_the_fit_and_sparse_in_predictions(kernel):
    rng = np.random.default_rng(14)
    X = sp.random_array((40, 3000), density=0.01, rng=rng, format="csr")
    y = np.asarray(X.sum(axis=1)).ravel()
    model = regressor(kernel, 10, "local", 0.01, n_components=5)
    sparse = clone(model).fit(X, y)
    dense = clone(model).fit(X.toarray(), y)
    expected = sparse.predict(X)
    for found in (sparse.predict(X.toarray()), dense.predict(X), dense.predict(X.toarray())):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-8)


def test_global_part_of_all_rows_as_landmarks_is_the_exact_process(rows):
    X, y, T = rows
    model = regressor(parts="global", alpha=0.05, n_components=len(X), fit_intercept=False).fit(X, y)
    mean, std = model.predict(T, return_std=True, with_noise=True)
    expected, spread, left_out, variance = exact_process(KERNEL, X, y, T, 0.05, intercept=False)
    assert mean == pytest.approx(expected, abs=1e-6)
    # The scale is that of left-out residuals.
    scale = np.mean(np.square(left_out) / variance)
    assert std == pytest.approx(spread * np.sqrt(scale), rel=1e-4)
