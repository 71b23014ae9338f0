"""The ridge estimators: equal to exact kernel ridge, the same on every engine, and clear errors."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge as ExactKernelRidge
from sklearn.linear_model import RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, train_test_split

from mercer import (
    DataError,
    Gaussian,
    KernelRidge,
    KernelRidgeClassifier,
    Matern,
    Nystroem,
    ParameterError,
    RandomFourier,
)


def data(n=300, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=n)


# ---- against the exact machines ---------------------------------------------------------------


@pytest.mark.parametrize("outputs", [1, 3])
def test_with_an_exact_map_it_is_scikit_learns_kernel_ridge(outputs):
    X, y = data(60)
    Y = y if outputs == 1 else np.column_stack([y, y**2, X[:, 0]])
    X_new, _ = data(20, seed=1)
    kernel = Gaussian(0.8)
    exact = ExactKernelRidge(alpha=0.3, kernel="precomputed").fit(kernel(X), Y)
    feature_map = Nystroem(kernel, n_components=60, landmarks="uniform", random_state=0)
    ours = KernelRidge(feature_map, alpha=0.3, fit_intercept=False).fit(X, Y)
    assert ours.predict(X_new).shape == exact.predict(kernel(X_new, X)).shape
    np.testing.assert_allclose(ours.predict(X_new), exact.predict(kernel(X_new, X)), atol=1e-8)


def test_classifier_is_scikit_learns_ridge_classifier_on_the_same_features():
    X, y = load_digits(return_X_y=True)
    model = KernelRidgeClassifier(RandomFourier(Gaussian(30.0), 100, random_state=0), alpha=0.1).fit(X, y)
    peer = RidgeClassifier(alpha=0.1).fit(model.feature_map_.transform(X), y)
    np.testing.assert_allclose(model.coef_, peer.coef_, rtol=1e-6, atol=1e-8)
    assert np.array_equal(model.predict(X), peer.predict(model.feature_map_.transform(X)))


# ---- the same model in memory, out of core and on Dask ---------------------------------------------------------------


@pytest.mark.parametrize("lengthscale", [1.0, "median"])
def test_memory_blocks_and_memory_map_agree(lengthscale, tmp_path):
    X, y = data(1500)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    fresh = KernelRidge(RandomFourier(Gaussian(lengthscale), 64, random_state=0), alpha=0.01)
    expected = clone(fresh).fit(X, y).predict(X)
    blocks = [(X[i : i + 113], y[i : i + 113]) for i in range(0, 1500, 113)]
    np.testing.assert_allclose(clone(fresh).fit(blocks).predict(X), expected, rtol=0, atol=1e-9)
    assert np.array_equal(clone(fresh).fit(mapped, y).predict(X), expected)


def test_a_generator_is_read_once_and_whole():
    X, y = data(500)
    read = []

    def blocks():
        for i in range(0, 500, 50):
            read.append(i)
            yield X[i : i + 50], y[i : i + 50]

    fresh = KernelRidge(RandomFourier(Gaussian(), 32, random_state=0), alpha=1.0)
    np.testing.assert_allclose(clone(fresh).fit(blocks()).predict(X), clone(fresh).fit(X, y).predict(X), atol=1e-10)
    assert read == list(range(0, 500, 50))


def test_a_generator_cannot_serve_a_median():
    X, y = data(50)
    with pytest.raises(DataError, match=r"can be read only once.*lengthscale as a number"):
        KernelRidge(Gaussian("median")).fit((X, y) for _ in range(2))
    with pytest.raises(DataError, match=r"can be read only once.*RandomFourier with a number as lengthscale"):
        KernelRidge().fit((X, y) for _ in range(2))


def test_blocks_may_carry_weights():
    X, y = data(200)
    w = np.random.default_rng(0).uniform(size=200)
    fresh = KernelRidge(RandomFourier(Gaussian(), 32, random_state=0))
    blocks = [(X[:90], y[:90], w[:90]), (X[90:], y[90:], w[90:])]
    np.testing.assert_allclose(clone(fresh).fit(blocks).predict(X), clone(fresh).fit(X, y, w).predict(X), atol=1e-9)


def test_labels_may_appear_in_any_block():
    X, y = load_digits(return_X_y=True)
    order = np.argsort(y, kind="stable")  # each block brings new labels
    X, y = X[order], np.array([f"digit {label}" for label in y[order]])
    fresh = KernelRidgeClassifier(RandomFourier(Gaussian(30.0), 50, random_state=0), alpha=1.0, random_state=0)
    whole = clone(fresh).fit(X, y)
    parts = clone(fresh)
    for i in range(0, len(X), 100):
        parts.partial_fit(X[i : i + 100], y[i : i + 100])
    assert list(parts.classes_) == [f"digit {label}" for label in range(10)]
    np.testing.assert_allclose(parts.decision_function(X), whole.decision_function(X), atol=1e-9)
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-7)


def test_given_classes_are_kept_and_others_raise():
    X, y = data(40)
    labels = (y > 0).astype(int)
    model = KernelRidgeClassifier(Gaussian(), random_state=0).partial_fit(X, labels, classes=[0, 1, 2])
    assert list(model.classes_) == [0, 1, 2]
    assert model.predict_proba(X).shape == (40, 3)
    with pytest.raises(DataError, match=r"labels \[7\], not among \[0, 1, 2\]"):
        model.partial_fit(X, np.full(40, 7), classes=[0, 1, 2])


def test_partial_fit_continues_from_fit():
    X, y = data(300)
    fresh = KernelRidge(RandomFourier(Gaussian(), 32, random_state=0), alpha=1.0)
    continued = clone(fresh).fit(X[:200], y[:200]).partial_fit(X[200:], y[200:])
    np.testing.assert_allclose(continued.predict(X), clone(fresh).fit(X, y).predict(X), atol=1e-9)


def test_memory_does_not_hold_all_features():
    import tracemalloc

    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60_000, 2)), rng.normal(size=60_000)
    model = KernelRidge(RandomFourier(Gaussian(), 256, random_state=0), block_size=1000, n_jobs=1)
    tracemalloc.start()
    model.fit(X, y).predict(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # All features would be 60000 * 256 * 8 = 123 MB; rows, blocks and moments are a tenth of it.
    assert peak < 20e6


# ---- choosing and judging ---------------------------------------------------------------------


def test_gcv_finds_a_penalty_near_the_best_on_new_rows():
    X, y = data(2000)
    y = y + 0.5 * np.random.default_rng(5).normal(size=2000)
    X_new, y_new = data(2000, seed=1)
    feature_map = RandomFourier(Gaussian(1.0), 300, random_state=0)
    chosen = KernelRidge(feature_map, alpha="gcv").fit(X, y)
    scores = [KernelRidge(feature_map, alpha=a).fit(X, y).score(X_new, y_new) for a in np.geomspace(1e-6, 1e3, 19)]
    assert chosen.score(X_new, y_new) > max(scores) - 0.01
    assert min(scores) < max(scores) - 0.1  # the choice matters here


def test_grid_search_reaches_the_kernel():
    X, y = data(200)
    model = KernelRidge(RandomFourier(Matern(nu=2.5), 50, random_state=0), alpha=0.1)
    search = GridSearchCV(
        model, {"feature_map__kernel__lengthscale": [0.01, 1.0], "feature_map__kernel__nu": [1.5, 2.5]}
    )
    assert search.fit(X, y).best_params_["feature_map__kernel__lengthscale"] == 1.0
    assert search.best_estimator_.feature_map_.kernel_.lengthscale == 1.0
    assert model.feature_map.kernel == Matern(nu=2.5)  # the prototype was not touched


def test_grid_search_reaches_a_bare_kernel():
    X, y = data(200)
    search = GridSearchCV(KernelRidge(Gaussian(), random_state=0), {"feature_map__lengthscale": [0.01, 1.0]}).fit(X, y)
    assert search.best_params_ == {"feature_map__lengthscale": 1.0}


@pytest.mark.parametrize("classes", [2, 4])
def test_probabilities_are_calibrated_on_new_rows(classes):
    X, y = make_classification(6000, 10, n_informative=5, n_classes=classes, flip_y=0.15, class_sep=0.8, random_state=0)
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    model = KernelRidgeClassifier(RandomFourier(Gaussian("median"), 600, random_state=0), alpha="gcv", random_state=0)
    proba = model.fit(X_train, y_train).predict_proba(X_test)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.array_equal(model.classes_[proba.argmax(axis=1)], model.predict(X_test))
    confidence, right = proba.max(axis=1), model.predict(X_test) == y_test
    # Among n rows, mean confidence and accuracy differ by chance of order 0.5 / sqrt(n).
    for low, high in ((0.0, 0.7), (0.7, 0.9), (0.9, 1.01)):
        mine = (confidence >= low) & (confidence < high)
        assert abs(confidence[mine].mean() - right[mine].mean()) < 0.05 + 2 / np.sqrt(mine.sum())
    # The scale is near the best one for the test rows, and no such rule without it is: the twin.
    chosen = log_loss(y_test, proba)
    values = model.decision_function(X_test) if classes > 2 else None
    for factor in (0.2, 5.0):
        model.probability_scale_ *= factor
        assert log_loss(y_test, model.predict_proba(X_test)) > chosen + 0.01
        model.probability_scale_ /= factor
    assert values is None or values.shape == (len(X_test), classes)


def test_the_scale_survives_rows_that_are_fitted_perfectly():
    X, y = data(20)
    model = KernelRidgeClassifier(RandomFourier(Gaussian(0.1), 500, random_state=0), alpha=0).fit(X, y > 0)
    assert np.isfinite(model.predict_proba(X)).all()


# ---- shapes and names -------------------------------------------------------------------------


def test_shapes_of_the_fitted_attributes():
    X, y = data(50)
    feature_map = RandomFourier(Gaussian(), 8, random_state=0)
    one = KernelRidge(feature_map, alpha=1.0).fit(X, y)
    assert one.coef_.shape == (8,)
    assert isinstance(one.intercept_, float)
    assert one.path_ is None
    two = KernelRidge(feature_map).fit(X, np.column_stack([y, y]))
    assert (two.coef_.shape, two.intercept_.shape, two.predict(X).shape) == ((2, 8), (2,), (50, 2))
    binary = KernelRidgeClassifier(feature_map).fit(X, y > 0)
    assert (binary.coef_.shape, binary.decision_function(X).shape) == ((1, 8), (50,))


def test_float32_rows_give_predictions_close_to_float64():
    X, y = data(400)
    model = KernelRidge(RandomFourier(Gaussian(), 64, random_state=0))
    double, single = clone(model).fit(X, y), clone(model).fit(X.astype(np.float32), y)
    np.testing.assert_allclose(single.predict(X.astype(np.float32)), double.predict(X), atol=2e-4)


def test_data_frames_and_their_names():
    X, y = data(50)
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = KernelRidge(Gaussian(), random_state=0).fit(frame, pd.Series(y))
    assert list(model.feature_names_in_) == ["a", "b", "c"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))


# ---- bad input --------------------------------------------------------------------------------

GOOD, TARGET = data(20)
BAD_FITS = {
    "nan": (
        np.where(GOOD > 2, np.nan, GOOD) * np.where(np.arange(20)[:, None] == 3, np.nan, 1),
        TARGET,
        "contains NaN",
    ),
    "inf": (np.where(np.arange(20)[:, None] == 3, np.inf, GOOD), TARGET, "contains infinity"),
    "nan target": (
        GOOD,
        np.where(np.arange(20) == 3, np.nan, TARGET),
        "y contains NaN or None in 1 of 20 rows, first in row 3",
    ),
    "strings": (np.full((20, 3), "a"), TARGET, "rows must be numbers, got strings such as 'a'"),
    "empty": (np.zeros((0, 3)), np.zeros(0), r"0 sample\(s\)"),
    "no columns": (np.zeros((20, 0)), TARGET, r"0 feature\(s\)"),
    "lengths": (GOOD, TARGET[:5], "inconsistent numbers of samples"),
    "no target": (GOOD, None, "requires y to be passed"),
    "one-dimensional": (TARGET, TARGET, "Expected 2D array"),
    "all rows equal": (np.ones((20, 3)), TARGET, "needs at least two different rows"),
    "one row": (GOOD[:1], TARGET[:1], "needs at least two different rows .* n_samples=1"),
}


@pytest.mark.parametrize("case", BAD_FITS)
def test_bad_rows_have_clear_errors(case):
    X, y, message = BAD_FITS[case]
    with pytest.raises(ValueError, match=message):
        KernelRidge().fit(X, y)


def test_one_row_is_enough_where_nothing_is_learned_from_rows():
    model = KernelRidge(Gaussian(1.0), random_state=0).fit(GOOD[:1], TARGET[:1])
    np.testing.assert_allclose(model.predict(GOOD), TARGET[0])


def test_wrong_width_at_prediction():
    model = KernelRidge(Gaussian()).fit(GOOD, TARGET)
    with pytest.raises(ValueError, match="X has 2 features, but KernelRidge is expecting 3"):
        model.predict(GOOD[:, :2])


@pytest.mark.parametrize("model", [KernelRidge(), KernelRidgeClassifier()], ids=repr)
def test_not_fitted(model):
    with pytest.raises(NotFittedError):
        model.predict(GOOD)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            KernelRidge(Gaussian(), alpha=-1),
            r"KernelRidge: alpha must be a finite number >= 0 or one of 'auto', 'loo', 'evidence', 'gcv', got -1",
        ),
        (KernelRidge(Gaussian(), alpha="LOO"), r"got 'LOO'"),
        (KernelRidge(Gaussian(), alpha=np.nan), r"got nan"),
        (KernelRidge(Gaussian(), block_size=0), r"block_size must be None or an integer >= 1, got 0"),
        (KernelRidge(Gaussian(), n_jobs=0), r"n_jobs must not be 0"),
        (
            KernelRidge("rbf"),
            r"feature_map must be a mercer map such as RandomFourier\(\), a kernel, or None; got 'rbf'",
        ),
        (KernelRidge(RandomFourier(Gaussian(), form="complex")), r"needs real features.*form='pairs'"),
        (KernelRidge(RandomFourier(Gaussian(), 0)), r"n_components must be an integer >= 1, got 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bad_parameters_have_clear_errors(model, message):
    with pytest.raises(ParameterError, match=message):
        model.fit(GOOD, TARGET)


def test_labels_must_be_labels_of_two_classes_at_least():
    with pytest.raises(ValueError, match="at least two classes, got one class only"):
        KernelRidgeClassifier().fit(GOOD, np.ones(20))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        KernelRidgeClassifier().fit(GOOD, TARGET)


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        (iter([]), "There are no rows"),
        (iter([(GOOD[:0], TARGET[:0])]), "There are no rows"),
        ([(GOOD, TARGET), (GOOD[:, :2], TARGET)], "Block 1, which starts at row 20: X has 2 features"),
        ([(GOOD, TARGET), (GOOD * np.nan, TARGET)], "Block 1, which starts at row 20: Input X contains NaN"),
        ([(GOOD, TARGET), (GOOD, TARGET[:3])], "Block 1, .*inconsistent numbers"),
        ([(GOOD, TARGET), (GOOD, np.column_stack([TARGET, TARGET]))], "y must have the same shape in every block"),
        ([(GOOD,), (GOOD,)], "Block 0, .*requires y to be passed"),
        (iter([GOOD]), "Block 0, .*requires y to be passed"),
        (iter([GOOD[0]]), "a block is a tuple"),
        (iter([(GOOD, TARGET, TARGET * 0 - 1)]), "Negative values"),
    ],
)
def test_errors_name_the_bad_block(blocks, message):
    with pytest.raises(ValueError, match=message):
        KernelRidge(Gaussian(1.0)).fit(blocks)


def test_a_bad_block_leaves_the_model_unchanged():
    model = KernelRidge(Gaussian(), random_state=0).partial_fit(GOOD, TARGET)
    before = model.predict(GOOD)
    with pytest.raises(ValueError, match="contains NaN"):
        model.partial_fit(GOOD * np.nan, TARGET)
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(GOOD * np.nan, TARGET)
    assert np.array_equal(model.predict(GOOD), before)
    assert model.statistic_.rows == 20


def test_a_block_of_rows_without_weight_changes_nothing():
    weight = np.r_[np.zeros(7), np.ones(13)]
    blocks = [(GOOD[i : i + 7], TARGET[i : i + 7], weight[i : i + 7]) for i in (0, 7, 14)]
    streamed = KernelRidge(Gaussian(1.0), random_state=0).fit(blocks)
    expected = KernelRidge(Gaussian(1.0), random_state=0).fit(GOOD[7:], TARGET[7:])
    assert np.allclose(streamed.coef_, expected.coef_, rtol=1e-10, atol=1e-12)
    for rows in ((GOOD, TARGET, 0 * weight), ([(GOOD, TARGET, 0 * weight)],)):
        with pytest.raises(DataError, match=r"weights"):
            KernelRidge(Gaussian(1.0)).fit(*rows)


@pytest.mark.filterwarnings("ignore:alpha=.* chose the largest")  # labels are random
@pytest.mark.parametrize("alpha", [1.0, "loo"])
def test_labels_without_weight_are_left_out(alpha):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(90, 2)), np.arange(90) % 3
    weight = (y != 2).astype(float)
    fresh = KernelRidgeClassifier(RandomFourier(Gaussian(1.0), 16, random_state=0), alpha=alpha, random_state=0)
    some = y != 2
    expected = clone(fresh).fit(X[some], y[some])
    cuts = [slice(0, 1), slice(2, 3), slice(1, 2), slice(3, 90)]  # the second block has no weight at all
    blocks = [(X[cut], y[cut], weight[cut]) for cut in cuts]
    for model in (clone(fresh).fit(X, y, weight), clone(fresh).fit(blocks)):
        assert model.classes_.tolist() == [0, 1]
        np.testing.assert_allclose(model.decision_function(X), expected.decision_function(X), atol=1e-10)
    with pytest.raises(DataError, match="at least two classes, got one class only: 0"):
        clone(fresh).fit(X, y, (y == 0).astype(float))
    if alpha == 1.0:
        first, rest = blocks[1], (X, y, weight)
        added = clone(fresh).partial_fit(first[0], first[1], sample_weight=first[2])
        with pytest.raises(DataError, match="got no row with a positive weight"):
            added.predict(X)
        added.partial_fit(rest[0], rest[1], sample_weight=rest[2])
        assert added.classes_.tolist() == [0, 1]
        announced = clone(fresh).partial_fit(X, y, classes=[0, 1, 2], sample_weight=weight)
        assert announced.classes_.tolist() == [0, 1, 2]


# ---- penalties --------------------------------------------------------------------------------

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(60, 3))
NUMBERS = np.sin(2 * ROWS[:, 0]) + 0.3 * RNG.normal(size=60)
BOTH = [(KernelRidge, NUMBERS), (KernelRidgeClassifier, (NUMBERS > 0).astype(int))]


def drawn(kind, **options):
    return kind(RandomFourier(Gaussian(), 20, random_state=0), **options)


@pytest.mark.parametrize(("kind", "targets"), BOTH)
@pytest.mark.parametrize("alpha", [-1.0, np.inf, np.nan, True, "aic", None])
def test_invalid_penalties_raise(kind, targets, alpha):
    with pytest.raises(ParameterError, match=rf"{kind.__name__}: alpha must be a finite number >= 0 or one of '.*got "):
        drawn(kind, alpha=alpha).fit(ROWS, targets)


@pytest.mark.parametrize(("kind", "targets"), BOTH)
@pytest.mark.parametrize("alpha", [0, 0.5, np.float32(2.0)])
def test_a_number_is_the_penalty(kind, targets, alpha):
    model = drawn(kind, alpha=alpha).fit(ROWS, targets)
    assert model.alpha_ == alpha
    assert model.path_ is None


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_leave_one_out_chooses_the_penalty_of_refitted_models(fit_intercept):
    model = drawn(KernelRidge, alpha="loo", fit_intercept=fit_intercept).fit(ROWS, NUMBERS)

    def missed(alpha):
        errors = []
        for i in range(60):
            rest = np.arange(60) != i
            other = drawn(KernelRidge, alpha=float(alpha), fit_intercept=fit_intercept).fit(ROWS[rest], NUMBERS[rest])
            errors.append(float(other.predict(ROWS[i : i + 1])[0] - NUMBERS[i]) ** 2)
        return np.mean(errors)

    best = missed(model.alpha_)
    assert best <= 1.001 * missed(model.alpha_ / 3)
    assert best <= 1.001 * missed(model.alpha_ * 3)


@pytest.mark.parametrize(("kind", "targets"), BOTH)
def test_leave_one_out_reads_the_rows_twice(kind, targets):
    blocks = [(ROWS[:20], targets[:20]), (ROWS[20:], targets[20:])]
    found = drawn(kind, alpha="loo").fit(blocks)
    assert found.alpha_ == pytest.approx(drawn(kind, alpha="loo").fit(ROWS, targets).alpha_, rel=1e-6)
    with pytest.raises(
        DataError, match=rf"{kind.__name__}: .* only once, but alpha='loo' reads the rows twice.* alpha='gcv'"
    ):
        drawn(kind, alpha="loo").fit(iter(blocks))
    assert not hasattr(drawn(kind, alpha="loo"), "partial_fit")
    assert hasattr(drawn(kind, alpha="gcv"), "partial_fit")


@pytest.mark.parametrize(("kind", "targets"), BOTH)
@pytest.mark.parametrize("alpha", ["evidence", "gcv"])
def test_other_criteria_need_one_pass_and_have_partial_fit(kind, targets, alpha):
    parts = drawn(kind, alpha=alpha).partial_fit(ROWS[:20], targets[:20]).partial_fit(ROWS[20:], targets[20:])
    whole = drawn(kind, alpha=alpha).fit(ROWS, targets)
    assert parts.alpha_ == pytest.approx(whole.alpha_, rel=1e-5)
    assert whole.path_ is not None


@pytest.mark.parametrize(("alpha", "double"), [(0, True), (1.0, False), ("gcv", True), ("loo", True)])
def test_products_are_in_float64_where_small_eigenvalues_matter(alpha, double):
    model = drawn(KernelRidge, alpha=alpha).fit(ROWS.astype(np.float32), NUMBERS)
    assert model.statistic_.roundoff == np.finfo(np.float64 if double else np.float32).eps


def count_passes(model, rows):
    """Return how often the rows are summed in a fit."""
    reports = []
    model.set_params(progress=reports.append).fit(rows, NUMBERS)
    return sum(one.rows == one.total for one in reports)


def test_penalties_below_the_rounding_of_float32_are_solved_in_float64():
    rows = ROWS.astype(np.float32)
    coarse, fine = (drawn(KernelRidge, alpha=alpha) for alpha in (1.0, 1e-6))
    assert (count_passes(coarse, rows), count_passes(fine, rows)) == (1, 2)
    assert coarse.statistic_.roundoff == np.finfo(np.float32).eps
    assert fine.statistic_.roundoff == np.finfo(np.float64).eps
    Z = fine.feature_map_.transform(rows).astype(float)
    centered = Z - Z.mean(axis=0)
    gram = centered.T @ centered + 1e-6 * np.eye(20)
    np.testing.assert_allclose(
        fine.coef_, np.linalg.solve(gram, centered.T @ (NUMBERS - NUMBERS.mean())), rtol=1e-4, atol=1e-4
    )
    assert count_passes(drawn(KernelRidge, alpha=1e-6), ROWS) == 1


def test_rounding_is_relative_to_the_penalty():
    model = drawn(KernelRidge, alpha=0.5).fit(ROWS, NUMBERS)
    assert model.rounding_ == pytest.approx(model.statistic_.rounding / 0.5)
    # Without a penalty, directions within so many times the rounding error are left out.
    assert drawn(KernelRidge, alpha=0).fit(ROWS, NUMBERS).rounding_ == pytest.approx(1 / 20)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_leave_one_out_scores_are_those_of_refitted_models(fit_intercept):
    path = drawn(KernelRidge, alpha="loo", fit_intercept=fit_intercept).fit(ROWS[:25], NUMBERS[:25]).path_
    index = len(path.alphas) * 3 // 4
    errors = []
    for i in range(25):
        rest = np.arange(25) != i
        model = drawn(KernelRidge, alpha=float(path.alphas[index]), fit_intercept=fit_intercept)
        errors.append(
            float(model.fit(ROWS[:25][rest], NUMBERS[:25][rest]).predict(ROWS[i : i + 1])[0] - NUMBERS[i]) ** 2
        )
    assert path.scores[index] == pytest.approx(np.mean(errors), rel=1e-6)
