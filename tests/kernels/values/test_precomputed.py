"""Kernel matrices in place of rows: as the kernel of the rows themselves, also in scikit-learn's cross-validation."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from mercer import (
    DataError,
    Gaussian,
    KernelRidge,
    MercerWarning,
    Nystroem,
    ParameterError,
    Precomputed,
    audit,
)

rng = np.random.default_rng(0)
X, Y = rng.normal(size=(60, 3)), rng.normal(size=(20, 3))
KERNEL = Gaussian(1.2)
K, NEW = KERNEL(X), KERNEL(Y, X)


def test_a_value_with_a_row_of_the_fit_is_an_entry_of_the_matrix():
    kernel = Precomputed().resolve(K)
    assert kernel == Precomputed(K)
    np.testing.assert_array_equal(kernel(K), K)
    np.testing.assert_array_equal(kernel(NEW, K[5:9]), NEW[:, 5:9])
    np.testing.assert_array_equal(kernel(K[5:9], NEW), NEW[:, 5:9].T)
    np.testing.assert_array_equal(kernel(np.concatenate([NEW, K]), K), np.concatenate([NEW, K]))
    np.testing.assert_array_equal(kernel.diag(K), np.diagonal(K))


def test_the_value_of_two_new_rows_is_that_of_their_projections():
    kernel = Precomputed(K)
    expected = NEW @ np.linalg.lstsq(K, NEW.T, rcond=1e-13)[0]
    np.testing.assert_allclose(kernel(NEW), expected, atol=1e-4)
    np.testing.assert_allclose(kernel.diag(NEW), np.diagonal(expected), atol=1e-4)
    both = kernel(np.concatenate([NEW[:2], K[:2]]), np.concatenate([K[2:4], NEW]))
    np.testing.assert_array_equal(both[:2, :2], NEW[:2, 2:4])
    np.testing.assert_array_equal(both[2:, 2:], NEW[:, :2].T)
    assert np.linalg.eigvalsh(KERNEL(Y) - kernel(NEW)).min() > -1e-4


@pytest.mark.parametrize("landmarks", ["pivoted", "uniform", "leverage"])
@pytest.mark.parametrize("kind", [np.asarray, sp.csr_array, np.float32])
def test_landmark_features_are_those_of_the_rows(landmarks, kind):
    m = Nystroem(Precomputed(), 12, landmarks=landmarks, random_state=0).fit(kind(K))
    S = m.features_.landmarks.toarray() if kind is sp.csr_array else m.features_.landmarks
    chosen = [int(np.abs(K - row).sum(axis=1).argmin()) for row in S]
    same = Nystroem(KERNEL, landmarks=X[chosen]).fit(X)
    tolerance = 1e-3 if kind is np.float32 else 1e-9
    np.testing.assert_allclose(m.gram(kind(NEW), kind(K)), same.gram(Y, X), atol=tolerance)


def test_cross_validation_selects_rows_and_columns():
    y = np.sin(X[:, 0])
    for kernel in (Precomputed(), 2.0 * Precomputed()):
        model = KernelRidge(Nystroem(kernel, 30, random_state=0))
        assert get_tags(model).input_tags.pairwise
        assert cross_val_score(model, K, y, cv=3).min() > 0.5
    pipeline = make_pipeline(Nystroem(Precomputed(), 30, random_state=0), StandardScaler(), Ridge())
    assert get_tags(pipeline).input_tags.pairwise
    assert np.isfinite(cross_val_score(pipeline, K, y, cv=3)).all()
    assert not get_tags(KernelRidge(Nystroem(Gaussian()))).input_tags.pairwise


def test_fitted_maps_are_copied_pickled_and_audited():
    m = Nystroem(Precomputed(), 12, random_state=0).fit(K)
    assert isinstance(clone(m).kernel.matrix, str)
    copy = pickle.loads(pickle.dumps(m))
    np.testing.assert_array_equal(copy.transform(NEW), m.transform(NEW))
    with pytest.warns(MercerWarning, match="built from"):
        found = audit(m, K)
    assert found.max_error == pytest.approx(np.abs(m.gram(K) - K).max(), rel=1e-6)
    assert audit(m, NEW).rmse < 1


@pytest.mark.parametrize(
    ("matrix", "text"),
    [
        (K[:5], "must have one column per row, got shape"),
        (K[np.roll(np.arange(60), 1)], "must be symmetric, with columns in the order of the rows"),
        (-K, "diagonal has negative entries"),
        (np.full((3, 3), np.nan), "must be finite"),
    ],
)
def test_matrices_that_no_kernel_has_are_refused(matrix, text):
    with pytest.raises(DataError, match=text):
        Precomputed(matrix)


def test_rows_of_another_width_and_matrices_out_of_memory_are_refused():
    m = Nystroem(Precomputed(), 5, random_state=0).fit(K)
    with pytest.raises(ValueError, match="60 features"):
        m.transform(NEW[:, :3])
    with pytest.raises(DataError, match="one value per row of the fit, 60, got 3"):
        Precomputed(K)(NEW[:, :3])
    with pytest.raises(ParameterError, match="its matrix is computed from rows"):
        Precomputed()(K)
    with pytest.raises(DataError, match="needs all rows of the fit in memory"):
        KernelRidge(Nystroem(Precomputed(), 5)).fit([(K[:30], X[:30, 0]), (K[30:], X[30:, 0])])
