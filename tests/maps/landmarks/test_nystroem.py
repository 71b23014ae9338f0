"""Nystroem features: exact on their landmarks, never above the kernel, for any kernel and any rows."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn import kernel_approximation
from sklearn.base import clone

from mercer import (
    DataError,
    ExponentialDotProduct,
    Gaussian,
    KernelRidge,
    Laplacian,
    Matern,
    MercerWarning,
    Nystroem,
    ParameterError,
    Polynomial,
    Transformed,
)
from mercer.maps.landmarks import features, nystroem, selection
from mercer.statistics import row_hashes

LANDMARKS = ("pivoted", "uniform", "kmeans", "leverage")
ANY = [
    Gaussian(1.5),
    3 * Laplacian() + 1,
    ExponentialDotProduct() @ Matern(),
    Polynomial(2) * Gaussian(),
    Transformed(ExponentialDotProduct(1.5), columns=(0, 2)),
]

each_choice = pytest.mark.parametrize("landmarks", LANDMARKS)


def rows(seed, n=60, d=3):
    return np.random.default_rng(seed).normal(size=(n, d))


@each_choice
@pytest.mark.parametrize("kernel", ANY, ids=repr)
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array])
def test_exact_on_the_landmarks_and_never_above_the_kernel(kernel, landmarks, kind):
    X = kind(rows(0))
    m = Nystroem(kernel, 12, landmarks=landmarks, random_state=0).fit(X)
    S = m.features_.landmarks
    assert S.shape == (12, 3)
    scale = kernel.diag(X).max()
    # The whitening magnifies rounding by the root of the condition number of the landmarks, below 1e5 here.
    np.testing.assert_allclose(m.gram(S), kernel(S), rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(m.gram(X, S), kernel(X, S), rtol=0, atol=1e-10 * scale)
    left_over = kernel(X) - m.gram(X)
    assert np.linalg.eigvalsh(left_over).min() >= -1e-9 * scale
    assert left_over.max() > 1e-4 * scale  # twelve landmarks of sixty are not all of it


@each_choice
@pytest.mark.parametrize("kernel", ANY, ids=repr)
def test_all_rows_as_landmarks_are_exact(kernel, landmarks):
    X = rows(0, n=25)
    m = Nystroem(kernel, 25, landmarks=landmarks, random_state=0).fit(X)
    np.testing.assert_allclose(m.gram(X), kernel(X), rtol=0, atol=1e-8 * kernel.diag(X).max())


@each_choice
@pytest.mark.parametrize(("degree", "rank"), [(1, 4), (2, 10), (3, 20)])
def test_a_kernel_of_finite_rank_is_exact_as_soon_as_the_width_is_its_rank(degree, rank, landmarks):
    kernel, X, Y = Polynomial(degree), rows(0), rows(1)
    for n_components in (rank, rank + 1, 3 * rank):
        m = Nystroem(kernel, n_components, landmarks=landmarks, random_state=1).fit(X[: max(30, n_components)])
        np.testing.assert_allclose(m.gram(X, Y), kernel(X, Y), rtol=0, atol=1e-7 * kernel.diag(X).max())
    short = Nystroem(kernel, rank - 1, landmarks=landmarks, random_state=1).fit(X)
    assert np.abs(short.gram(X) - kernel(X)).max() > 1e-3


@each_choice
def test_components_without_a_landmark_are_zero_with_a_warning(landmarks):
    X = rows(0, n=5)
    m = Nystroem(Gaussian(), 8, landmarks=landmarks, random_state=0)
    text = "n_components=8 landmarks were requested, but there are only 5 rows; the last 3 components are zero"
    with pytest.warns(MercerWarning, match=f"Nystroem: {text}"):
        m.fit(X)
    Z = m.transform(rows(1))
    assert Z.shape == (60, 8)
    np.testing.assert_array_equal(Z[:, 5:], 0.0)
    np.testing.assert_allclose(m.gram(X), Gaussian()(X), atol=1e-9)


@given(seed=st.integers(0, 2**32), repeats=st.integers(1, 6), landmarks=st.sampled_from(LANDMARKS))
def test_repeated_rows_are_one_landmark(seed, repeats, landmarks):
    distinct = rows(seed, n=6)
    X = np.repeat(distinct, repeats, axis=0)
    m = Nystroem(Gaussian(), len(X), landmarks=landmarks, random_state=seed).fit(X)
    assert np.isfinite(m.transform(X)).all()
    np.testing.assert_allclose(m.gram(X), Gaussian()(X), atol=1e-8)


def test_equal_rows_need_one_component():
    X = np.ones((9, 2))
    m = Nystroem(Gaussian(), 4, random_state=0).fit(X)
    np.testing.assert_allclose(m.gram(X), 1.0, rtol=1e-12)
    assert np.count_nonzero(m.transform(X)[0]) == 1


def test_a_kernel_of_zero_has_zero_features():
    np.testing.assert_array_equal(Nystroem(0 * Gaussian(), 3, random_state=0).fit_transform(rows(0)), 0.0)


@each_choice
def test_features_depend_neither_on_the_order_of_rows_nor_on_repetitions_as_weights(landmarks):
    X = rows(0, n=40)
    count = np.random.default_rng(1).integers(0, 4, size=40)
    fresh = Nystroem(Gaussian(), 12, landmarks=landmarks, random_state=0)
    expected = clone(fresh).fit_sample(X, count.astype(float)).features_.landmarks
    copies = np.repeat(X, count, axis=0)
    for some in (copies, copies[np.random.default_rng(2).permutation(len(copies))]):
        found = clone(fresh).fit_sample(some).features_.landmarks
        np.testing.assert_array_equal(found, expected)
    other = clone(fresh).fit_sample(X).features_.landmarks
    assert not np.array_equal(other, expected)


def test_pivoted_landmarks_cover_small_clusters_that_uniform_ones_miss():
    # One cluster of 480 rows and twenty lone rows: uniform landmarks fall into the cluster.
    rng = np.random.default_rng(0)
    X = np.concatenate([0.05 * rng.normal(size=(480, 2)), rng.uniform(-40, 40, size=(20, 2))])
    K = Gaussian()(X)

    def mean_error(landmarks):
        maps = (Nystroem(Gaussian(), 30, landmarks=landmarks, random_state=s).fit(X) for s in range(8))
        return np.mean([np.trace(K - m.gram(X)) for m in maps])

    # Each of the lone rows that is missed costs one unit of the trace; uniform landmarks miss about nineteen.
    assert mean_error("pivoted") < 1.0
    assert mean_error("uniform") > 10.0


def test_pivoted_landmarks_are_in_the_order_of_their_choice():
    # The first components are then those of a map with the first landmarks alone.
    m = Nystroem(Gaussian(), 10, random_state=0).fit(rows(0))
    first = Nystroem(Gaussian(), landmarks=m.features_.landmarks[:4]).fit(rows(0))
    assert first.width == 4
    np.testing.assert_allclose(m.transform(rows(1))[:, :4], first.transform(rows(1)), rtol=1e-9, atol=1e-12)


@each_choice
@pytest.mark.parametrize("kernel", ANY, ids=[type(kernel).__name__ for kernel in ANY])
def test_sorted_landmarks_have_the_same_inner_products(kernel, landmarks, monkeypatch):
    given_order = Nystroem(kernel, 12, landmarks=landmarks, random_state=0).fit(rows(0))
    monkeypatch.setattr(features, "LEAST_SHARE", 1.0)
    by_pivots = clone(given_order).fit(rows(0))
    assert not np.array_equal(given_order.features_.landmarks, by_pivots.features_.landmarks)
    for m in (given_order, by_pivots):
        np.testing.assert_array_equal(np.tril(m.features_.whitening, -1), 0.0)
    Y = rows(1)
    np.testing.assert_allclose(given_order.gram(Y), by_pivots.gram(Y), rtol=0, atol=1e-9 * kernel.diag(Y).max())
    assert pickle.loads(pickle.dumps(by_pivots)).gram(Y).tobytes() == by_pivots.gram(Y).tobytes()


@pytest.mark.parametrize(("kernel", "rank"), [(Gaussian(50.0), 12), (Polynomial(1), 4), (0 * Gaussian(), 1)])
def test_landmarks_in_the_span_of_others_are_left_out(kernel, rank):
    m = Nystroem(kernel, landmarks=rows(0, n=12)).fit(rows(0))
    S = m.features_.landmarks
    assert len(S) == rank
    np.testing.assert_allclose(m.gram(rows(0, n=12)), kernel(rows(0, n=12)), rtol=0, atol=1e-8)
    np.testing.assert_array_equal(m.transform(rows(1))[:, rank:], 0.0)


def test_values_beyond_float64_are_refused():
    with pytest.raises(DataError, match=r"values of .* between landmarks overflow float64"), np.errstate(over="ignore"):
        Nystroem(1e308 * Gaussian() + 1e308 * Gaussian(), landmarks=np.eye(3)).fit(rows(0))


def projected(S, Y):
    """Return inner products of the projections of rows `Y` on landmarks `S`, in extended precision."""
    K, C = (np.exp(-np.square(a[:, None] - S.astype(np.longdouble)).sum(axis=2) / 2) for a in (S, Y))
    L = np.zeros_like(K)
    for j in range(len(K)):
        L[j:, j] = K[j:, j] - L[j:, :j] @ L[j, :j]
        L[j:, j] /= np.sqrt(L[j, j])
    Z = np.zeros_like(C)
    for j in range(len(K)):
        Z[:, j] = (C[:, j] - Z[:, :j] @ L[j, :j]) / L[j, j]
    return Z @ Z.T


@pytest.mark.parametrize(("spread", "as_given"), [(4.0, True), (0.7, True), (0.2, False)])
def test_features_are_exact_projections_up_to_rounding(spread, as_given):
    # Landmarks at small distances are ill-conditioned.
    S, Y = spread * rows(0, n=40), spread * rows(1)
    m = Nystroem(Gaussian(), landmarks=S).fit(Y)
    assert np.array_equal(m.features_.landmarks, S) == as_given
    np.testing.assert_allclose(m.gram(Y), projected(S, Y).astype(float), rtol=0, atol=1e-7)


# ---- landmarks of the user ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, np.ndarray.tolist, np.float32])
def test_given_landmarks_are_used_as_they_are(kind):
    S = rows(5, n=7)
    m = Nystroem(Gaussian(), landmarks=kind(S), random_state=0)
    assert m.width == 7
    m.fit(rows(0))
    assert m.transform(rows(1)).shape == (60, 7)
    assert len(m.get_feature_names_out()) == 7
    np.testing.assert_allclose(m.gram(S), Gaussian()(S), atol=1e-6)
    copy = clone(m)
    assert copy.get_params()["landmarks"] is not m.landmarks
    np.testing.assert_array_equal(copy.fit(rows(0)).transform(rows(1)), m.transform(rows(1)))
    assert m.set_params(landmarks="uniform", n_components=5).fit(rows(0)).width == 5


def test_landmarks_of_scikit_learn_have_its_inner_products():
    X, Y = rows(0, n=200), rows(1)
    for gamma in (0.1, 2.0):
        other = kernel_approximation.Nystroem(gamma=gamma, n_components=30, random_state=0).fit(X)
        ours = Nystroem(Gaussian.from_gamma(gamma), landmarks=other.components_).fit(X)
        expected = other.transform(Y) @ other.transform(Y).T
        np.testing.assert_allclose(ours.gram(Y), expected, rtol=0, atol=1e-6)


def test_fewer_components_than_given_landmarks_are_the_leading_ones():
    S, X = rows(5, n=20), rows(0)
    m = Nystroem(Gaussian(), 6, landmarks=S).fit(X)
    assert m.transform(X).shape == (60, 6)
    complete = Nystroem(Gaussian(), landmarks=S).fit(X).gram(X)
    values, vectors = np.linalg.eigh(complete)
    best = (vectors[:, -6:] * values[-6:]) @ vectors[:, -6:].T
    np.testing.assert_allclose(m.gram(X), best, atol=1e-9)


@pytest.mark.parametrize(
    ("landmarks", "options", "error", "text"),
    [
        (rows(0, n=4, d=2), {}, DataError, "landmarks must have the 3 features of the rows, got 2"),
        (np.zeros((0, 3)), {}, ParameterError, "landmarks must have at least one row"),
        (np.zeros(3), {}, DataError, "Nystroem: landmarks: rows must form a 2-d array"),
        (np.full((4, 3), np.nan), {}, DataError, "Nystroem: landmarks: rows must be finite"),
        (rows(0, n=4), {"n_landmarks": 9}, ParameterError, "n_landmarks must be None or the number of rows"),
        ("random", {}, ParameterError, "landmarks must be one of 'pivoted', 'uniform', 'kmeans', 'leverage', got 'ran"),
        (None, {}, ParameterError, "landmarks must be one of"),
        ("uniform", {"n_landmarks": 3}, ParameterError, "n_landmarks must be at least n_components, 512, got 3"),
        ("uniform", {"n_landmarks": 0}, ParameterError, "n_landmarks must be an integer >= 1 or None, got 0"),
    ],
)
def test_wrong_landmarks_are_refused(landmarks, options, error, text):
    with pytest.raises(error, match=text):
        Nystroem(Gaussian(), landmarks=landmarks, **options).fit(rows(0))


# ---- the best directions of more landmarks ----------------------------------------------------------


@each_choice
def test_leading_directions_have_the_least_error_of_their_number(landmarks):
    X, weight = rows(0), np.random.default_rng(2).integers(1, 4, size=60).astype(float)
    m = Nystroem(Gaussian(), 8, landmarks=landmarks, n_landmarks=20, random_state=0)
    fitted = clone(m).fit_sample(X, weight)
    copies = clone(m).fit_sample(np.repeat(X, weight.astype(int), axis=0))
    np.testing.assert_allclose(fitted.gram(X), copies.gram(X), atol=1e-9)
    assert fitted.transform(X).shape == (60, 8)
    root = np.sqrt(weight)[:, None]
    wide = root * Nystroem(Gaussian(), landmarks=fitted.features_.landmarks).fit(X).transform(X)
    best = np.square(np.linalg.svd(wide, compute_uv=False)[8:]).sum()
    left = np.square(wide).sum() - np.square(root * fitted.transform(X)).sum()
    assert left == pytest.approx(best, rel=1e-9)
    assert np.linalg.eigvalsh(Gaussian()(X) - fitted.gram(X)).min() > -1e-9
    powers = np.square(root * fitted.transform(X)).sum(axis=0)
    assert (np.diff(powers) < 0).all()
    assert fitted.features_.lengthscales is None


@pytest.mark.parametrize("kernel", [Gaussian(1.0), Laplacian(2.0)])
def test_more_landmarks_have_less_error_on_new_rows_for_the_same_number_of_components(kernel):
    X, Y = rows(0, n=600), rows(1, n=200)
    K = kernel(Y)

    def error(n_landmarks):
        maps = (Nystroem(kernel, 20, n_landmarks=n_landmarks, random_state=s).fit(X) for s in range(4))
        return np.mean([np.square(K - m.gram(Y)).mean() for m in maps]) ** 0.5

    assert error(80) < 0.8 * error(None)


def test_more_landmarks_than_rows_are_all_rows():
    m = Nystroem(Gaussian(), 5, n_landmarks=1000, random_state=0).fit(rows(0))
    assert m.features_.landmarks.shape == (60, 3)
    assert m.transform(rows(1)).shape == (60, 5)


def test_float32_features_lose_no_more_than_their_rounding():
    X = rows(0)
    kernel = Gaussian(5.0)  # smooth: the whitening is large
    m = Nystroem(kernel, 30, random_state=0).fit(X)
    Z = m.transform(X.astype(np.float32))
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-4)


def test_unbiased_explains_the_one_sided_error():
    assert "never exceeds the kernel" in Nystroem().unbiased


def test_landmarks_of_float32_rows_stay_in_float64():
    # The whitening of a hundred landmarks on a line would magnify the rounding of landmarks.
    X = np.random.default_rng(0).normal(size=(400, 1))
    m = Nystroem(Gaussian(1.0), 100, random_state=0).fit(X)
    assert abs(m.gram(X.astype(np.float32)) - Gaussian(1.0)(X.astype(np.float32))).max() < 1e-5


def test_fitted_rows_are_those_that_landmarks_were_chosen_from(monkeypatch):
    X = np.random.default_rng(0).normal(size=(100, 3))
    m = Nystroem(Gaussian(1.0), 5, random_state=0).fit(X)
    np.testing.assert_array_equal(m.fitted_rows_, row_hashes(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(m)).fitted_rows_, m.fitted_rows_)
    assert clone(m).fitted_rows_ is None
    pivoted = selection.SELECTIONS["pivoted"]._replace(least=30)
    monkeypatch.setattr(nystroem, "SELECTIONS", {"pivoted": pivoted})
    pool = m.fit(X).fitted_rows_
    assert len(pool) == 30
    assert set(row_hashes(m.features_.landmarks)) <= set(pool) < set(row_hashes(X))


def test_features_are_a_linear_form_of_kernel_values():
    for m in (Nystroem(Gaussian(), 8, random_state=0), Nystroem(Gaussian(), 8, n_landmarks=20, random_state=0)):
        form = m.fit(rows(0)).features_.linear_form
        values = np.empty((60, form.inner.n_components))
        form.inner(rows(1).astype(np.float32), values)
        np.testing.assert_allclose(values, Gaussian()(rows(1), m.features_.landmarks), atol=1e-6)
        np.testing.assert_allclose(values @ form.matrix, m.transform(rows(1)), atol=1e-4)
        squares = np.square(np.linalg.svd(form.matrix, compute_uv=False))
        assert 0 < form.share <= 1.001 * squares[-1] / squares[0]
    assert Nystroem(Gaussian(50.0), landmarks=rows(0, n=12)).fit(rows(0)).features_.linear_form.share == 0


def test_predictions_in_coefficients_of_landmarks_are_those_of_features():
    X, Y = rows(0, n=300), rows(1)
    for kernel in (Gaussian(1.0), Gaussian(8.0)):
        model = KernelRidge(Nystroem(kernel, 40, random_state=0), alpha="loo").fit(X, np.sin(X[:, 0]))
        expected = model.feature_map_.transform(Y) @ model.coef_ + model.intercept_
        np.testing.assert_allclose(model.predict(Y), expected, rtol=0, atol=1e-7)
        np.testing.assert_allclose(model.predict(Y[:1]), expected[:1], rtol=0, atol=1e-7)
        np.testing.assert_allclose(model.predict(Y.astype(np.float32)), expected, rtol=0, atol=1e-3)


def test_pickles_have_no_zeros_of_triangles():
    X = np.random.default_rng(0).normal(size=(300, 4))
    features = Nystroem(Gaussian(2.0), 300, landmarks="uniform", random_state=0).fit(X).features_
    assert features.triangular
    content = pickle.dumps(features)
    assert len(content) < 0.6 * features.whitening.nbytes
    assert (pickle.loads(content).whitening == features.whitening).all()
