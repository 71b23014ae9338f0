"""Nystroem features: exact on their landmarks, never above the kernel, for any kernel and any rows."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from mercer import (
    ExponentialDotProduct,
    Gaussian,
    Laplacian,
    Matern,
    MercerWarning,
    Nystroem,
    ParameterError,
    Polynomial,
    Transformed,
)
from mercer.maps.landmarks import nystroem
from mercer.statistics import row_hashes

LANDMARKS = ("pivoted", "uniform")
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


@pytest.mark.parametrize("landmarks", ["pivoted", "uniform"])
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


def test_features_are_sorted_by_the_size_of_their_eigenvalue():
    m = Nystroem(Gaussian(), 10, random_state=0).fit(rows(0))
    powers = np.square(m.transform(m.features_.landmarks)).sum(axis=0)
    assert (np.diff(powers) <= 1e-12).all()


@each_choice
@pytest.mark.parametrize("kernel", ANY, ids=[type(kernel).__name__ for kernel in ANY])
def test_many_landmarks_have_a_triangular_root(kernel, landmarks, monkeypatch):
    few = Nystroem(kernel, 12, landmarks=landmarks, random_state=0).fit(rows(0))
    monkeypatch.setattr(nystroem, "MANY", 12)
    many = clone(few).fit(rows(0))
    assert many.features_.triangular
    assert not few.features_.triangular
    np.testing.assert_array_equal(np.tril(many.features_.whitening, -1), 0.0)
    Y = rows(1)
    np.testing.assert_allclose(many.gram(Y), few.gram(Y), rtol=0, atol=1e-9 * kernel.diag(Y).max())
    assert pickle.loads(pickle.dumps(many)).gram(Y).tobytes() == many.gram(Y).tobytes()


@pytest.mark.parametrize("kernel", [Gaussian(50.0), Polynomial(1)], ids=["near one", "of rank four"])
def test_ill_conditioned_landmarks_have_no_triangular_root(kernel, monkeypatch):
    monkeypatch.setattr(nystroem, "MANY", 12)
    m = Nystroem(kernel, 12, random_state=0).fit(rows(0))
    assert not m.features_.triangular
    S = m.features_.landmarks
    np.testing.assert_allclose(m.gram(S), kernel(S), rtol=0, atol=1e-8 * kernel.diag(S).max())


def test_a_triangular_root_needs_as_many_rows_as_components(monkeypatch):
    monkeypatch.setattr(nystroem, "MANY", 5)
    with pytest.warns(MercerWarning, match="the last 3 components are zero"):
        m = Nystroem(Gaussian(), 8, random_state=0).fit(rows(0, n=5))
    assert not m.features_.triangular
    np.testing.assert_array_equal(m.transform(rows(1))[:, 5:], 0.0)


def test_float32_features_lose_no_more_than_their_rounding():
    X = rows(0)
    kernel = Gaussian(5.0)  # smooth: the whitening is large
    m = Nystroem(kernel, 30, random_state=0).fit(X)
    Z = m.transform(X.astype(np.float32))
    assert Z.dtype == np.float32
    np.testing.assert_allclose(Z @ Z.T, kernel(X), atol=1e-4)


def test_unknown_landmarks_are_refused():
    with pytest.raises(ParameterError, match="Nystroem: landmarks must be one of 'pivoted', 'uniform', got 'kmeans'"):
        Nystroem(Gaussian(), 4, landmarks="kmeans").fit(rows(0))


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
    monkeypatch.setattr(nystroem, "POOL_MINIMUM", 30)
    pool = m.fit(X).fitted_rows_
    assert len(pool) == 30
    assert set(row_hashes(m.features_.landmarks)) <= set(pool) < set(row_hashes(X))
