"""Fitted local models in less memory: features in single precision, triangles, rows without columns."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from mercer import KernelRidge, LocalCorrection, Matern, Nystroem
from mercer.solvers.local.near_model import ROUNDING_SHARE, GlobalPart, factor_of, near_sums


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(900, 3))
    y = np.sin(3 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.normal(size=900)
    return X[:300], y[:300], X[300:]


def fitted(rows, parts, alpha=0.05, kernel=None):
    feature_map = Nystroem(kernel or Matern(1.5, 1.3), 40, random_state=0)
    model = KernelRidge(feature_map, alpha=alpha, neighbors=LocalCorrection(20, parts=parts), random_state=0)
    return model.fit(rows[0], rows[1]).local_


@pytest.mark.parametrize("parts", ["global", "local", "both"])
def test_compact_models_predict_the_same(rows, parts):
    local = fitted(rows, parts)
    small = local.compact()
    mean, std = local.predict(rows[2], return_std=True, with_noise=True)
    found, spread = small.predict(rows[2], return_std=True, with_noise=True)
    # Rounding errors are below the bound by which single precision was chosen, in units of the standard deviation.
    assert np.abs((found - mean) / std).max() < (ROUNDING_SHARE if parts == "both" else 1e-12)
    assert spread == pytest.approx(std, rel=1e-5 if parts == "both" else 1e-12)
    assert small.quantile(0.9) == pytest.approx(local.quantile(0.9))
    assert small.nbytes < local.nbytes or parts == "global"
    restored = pickle.loads(pickle.dumps(small)).predict(rows[2], return_std=True, with_noise=True)
    assert (restored[0] == found).all()
    assert (restored[1] == spread).all()


@pytest.mark.parametrize(("alpha", "dtype"), [(0.05, np.float32), (1e-4, np.float64)])
@pytest.mark.parametrize("factor", [1.0, 1e4])
def test_the_noise_decides_on_the_precision_in_any_unit(rows, alpha, dtype, factor):
    local = fitted(rows, "both", factor * alpha, factor * Matern(1.5, 1.3))
    problem = local.compact().model.problem
    assert problem.row_features.dtype == dtype
    assert problem.removed.dtype == dtype
    assert (problem.removed is problem.row_features) == (factor == 1)


@pytest.mark.parametrize("parts", ["local", "both"])
def test_rows_are_left_out_with_their_copies_of_equal_targets(parts):
    rng = np.random.default_rng(1)
    X, weight = rng.uniform(-1, 1, size=(60, 2)), rng.choice([0.5, 1.0, 3.0], 60)
    y, alpha, kernel = np.sin(3 * X[:, 0]) + 0.2 * rng.normal(size=60), 0.05, Matern(1.5, 1.3)
    model = KernelRidge(
        Nystroem(kernel, 20, random_state=0),
        alpha=alpha,
        fit_intercept=False,
        neighbors=LocalCorrection(60, parts=parts),
        random_state=0,
    )
    left_out = model.fit(X, y, weight).local_.left_out
    found = {tuple(x): i for i, x in enumerate(X)}
    K, noise = kernel(X), alpha / weight
    for position, x in enumerate(left_out.rows.X[left_out.sample]):
        i = found[tuple(x)]
        others = np.delete(np.arange(60), i)
        solved = np.linalg.solve(K[np.ix_(others, others)] + np.diag(noise[others]), K[others, i])
        assert left_out.errors[position, 0] == pytest.approx(y[i] - solved @ y[others], rel=1e-6, abs=1e-8)
        expected = K[i, i] - solved @ K[others, i] + alpha / min(weight[i], 1.0)
        assert left_out.variance[position] == pytest.approx(expected, rel=1e-6)


def test_without_the_rule_single_precision_would_change_predictions(rows):
    local = fitted(rows, "both", 1e-10)
    problem = local.model.problem
    single = replace(problem, row_features=problem.row_features.astype(np.float32))
    single = replace(single, removed=single.row_features)
    rounded = replace(local, model=replace(local.model, problem=single))
    mean, std = local.predict(rows[2], return_std=True, with_noise=True)
    assert np.abs((rounded.predict(rows[2])[0] - mean) / std).max() > ROUNDING_SHARE
    assert local.compact().predict(rows[2])[0] == pytest.approx(mean, rel=1e-12, abs=1e-12)


def test_sums_over_near_rows_do_not_depend_on_the_type_of_the_values():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 7)).astype(np.float32)
    indices, weights = rng.integers(-1, 50, size=(30, 5)), rng.normal(size=(30, 5))
    expected = np.einsum("mk,mkd->md", np.where(indices < 0, 0, weights), values[indices].astype(float))
    for some in (values, values.astype(float)):
        assert near_sums(weights, indices, some) == pytest.approx(expected, rel=1e-12, abs=1e-12)
    assert near_sums(weights[:, :0], indices[:, :0], values).shape == (30, 7)


@pytest.mark.parametrize("shape", [(6, 6), (6, 4), (4, 6)])
def test_roots_as_triangles_have_the_same_products(shape):
    root = np.random.default_rng(0).normal(size=shape)
    part = GlobalPart(np.ones((shape[0] - 1, 1)), np.ones(1), root)
    triangle = part.with_triangle()
    assert triangle.root @ triangle.root.T == pytest.approx(root @ root.T)
    assert not np.tril(triangle.root, -1).any()
    assert len(triangle.__getstate__()["root"]) == shape[0] * (shape[0] + 1) // 2
    for one in (part, triangle):
        assert (pickle.loads(pickle.dumps(one)).root == one.root).all()


def test_a_prior_below_rounding_errors_does_not_stop_a_factorization():
    # The matrix is positive definite, but its least eigenvalue, one, is lost beside the others.
    rows = np.random.default_rng(0).normal(size=(5, 40)) * 1e10
    moments = rows.T @ rows + np.eye(40)
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(moments)
    factor = factor_of(moments)
    np.testing.assert_allclose(factor @ factor.T, moments, rtol=0, atol=1e-12 * moments.max())
