"""Systems of the neighbors of queries against dense solves, and their gradients against finite differences."""

import mpmath
import numpy as np
import pytest
import scipy.linalg
from scipy.spatial.distance import cdist

from mercer.errors import ParameterError
from mercer.linalg import dispatch, local_systems, numpy_kernels
from mercer.linalg.local_systems import PROFILES, metric_gradient, solve_given, solve_local

try:
    from mercer.linalg import _native
except ImportError:
    SETS = {}
else:
    SETS = {name: getattr(_native, name) for name in _native.supported()}
SETS["numpy"] = numpy_kernels

FORMULAS = {
    "gaussian": lambda r: np.exp(-(r**2) / 2),
    "matern12": lambda r: np.exp(-r),
    "matern32": lambda r: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
    "matern52": lambda r: (1 + 5**0.5 * r + 5 * r**2 / 3) * np.exp(-(5**0.5) * r),
}
# Rounding errors of a solution relative to its size, for systems with a condition number of about 100.
TOLERANCE = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-12}

profiles = pytest.mark.parametrize("profile", PROFILES)
pytestmark = pytest.mark.covering(2)


@pytest.fixture(params=list(SETS))
def implementation(request, monkeypatch):
    """Let the public functions use one implementation."""
    monkeypatch.setattr(dispatch, "kernels", SETS[request.param])
    return request.param


def problem(dtype, n=120, m=7, k=20, d=3, t=2, seed=0):
    rng = np.random.default_rng(seed)
    rows, queries = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)
    indices = np.argsort(cdist(queries, rows), axis=1)[:, :k]
    return rows, indices, queries, rng.normal(size=(n, t)).astype(dtype)


def dense(rows, chosen, query, profile, noise, targets, features=None, query_feature=None):
    """Weights, variance and solutions for the targets of one query, in double precision."""
    N, x = rows[chosen].astype(float), query[None].astype(float)
    K, cross, prior = FORMULAS[profile](cdist(N, N)), FORMULAS[profile](cdist(N, x))[:, 0], 1.0
    if features is not None:
        F, f = features[chosen].astype(float), query_feature.astype(float)
        K, cross, prior = K - F @ F.T, cross - F @ f, prior - f @ f
    factor = scipy.linalg.cho_factor(K + np.diag(np.broadcast_to(noise, len(N)).astype(float)))
    weights = scipy.linalg.cho_solve(factor, cross)
    return weights, prior - cross @ weights, scipy.linalg.cho_solve(factor, targets[chosen].astype(float))


def assert_solves(solution, i, positions, expected, tolerance):
    weights, variance, solved = expected
    np.testing.assert_allclose(solution.weights[i, positions], weights, rtol=0, atol=tolerance)
    np.testing.assert_allclose(solution.variance[i], variance, rtol=0, atol=tolerance)
    np.testing.assert_allclose(solution.targets[i, positions], solved, rtol=0, atol=20 * tolerance)
    absent = np.setdiff1d(np.arange(solution.weights.shape[1]), positions)
    assert not solution.weights[i, absent].any()
    assert not solution.targets[i, absent].any()


@profiles
@pytest.mark.parametrize(("k", "d", "t"), [(1, 1, 1), (2, 3, 0), (5, 70, 3), (20, 3, 9), (33, 130, 1), (64, 8, 17)])
def test_solutions_equal_dense_ones(implementation, dtype, profile, k, d, t):
    rows, indices, queries, targets = problem(dtype, k=k, d=d, t=t)
    solution = solve_local(rows, indices, queries, profile, 0.1, targets=targets)
    assert solution.weights.dtype == solution.targets.dtype == dtype
    assert solution.variance.dtype == solution.jitter.dtype == np.float64
    assert not solution.jitter.any()
    for i in range(len(queries)):
        expected = dense(rows, indices[i], queries[i], profile, 0.1, targets)
        assert_solves(solution, i, np.arange(k), expected, TOLERANCE[dtype])


def test_solutions_without_targets_are_the_same(implementation, dtype):
    rows, indices, queries, targets = problem(dtype)
    solution = solve_local(rows, indices, queries, "matern32", 0.1)
    assert solution.targets is None
    reference = solve_local(rows, indices, queries, "matern32", 0.1, targets=targets)
    np.testing.assert_allclose(solution.weights, reference.weights, atol=TOLERANCE[dtype])
    np.testing.assert_allclose(solution.variance, reference.variance, atol=TOLERANCE[dtype])


def test_all_rows_as_neighbors_give_the_exact_process(implementation):
    # Larger than all caches of the first levels, and than a batch of the NumPy implementation.
    rng = np.random.default_rng(0)
    rows, queries, targets = rng.uniform(size=(1000, 4)), rng.uniform(size=(2, 4)), rng.normal(size=(1000, 1))
    indices = np.stack([rng.permutation(1000), np.arange(1000)])
    solution = solve_local(rows, indices, queries, "matern32", 0.01, targets=targets)
    for i in range(2):
        expected = dense(rows, indices[i], queries[i], "matern32", 0.01, targets)
        assert_solves(solution, i, np.arange(1000), expected, 1e-10)


def test_missing_neighbors_give_smaller_systems(implementation, dtype):
    rows, indices, queries, targets = problem(dtype)
    rng = np.random.default_rng(1)
    indices[rng.random(indices.shape) < 0.4] = -1
    indices[2] = -1
    indices[3, 1:] = -1
    solution = solve_local(rows, indices, queries, "matern12", 0.1, targets=targets)
    assert solution.variance[2] == 1
    for i in set(range(len(queries))) - {2}:
        positions = np.flatnonzero(indices[i] >= 0)
        expected = dense(rows, indices[i, positions], queries[i], "matern12", 0.1, targets)
        assert_solves(solution, i, positions, expected, TOLERANCE[dtype])
    assert not solution.weights[2].any()


def test_own_row_is_left_out(implementation, dtype):
    rows, _, _, targets = problem(dtype)
    indices = np.argsort(cdist(rows, rows), axis=1)[:, :9]
    own = np.arange(len(rows))
    own[5] = -1
    solution = solve_local(rows, indices, rows, "matern12", 0.1, targets=targets, own=own)
    expected = solve_local(rows, indices[:, 1:], rows, "matern12", 0.1, targets=targets)
    left_out = own >= 0
    np.testing.assert_allclose(solution.weights[left_out, 1:], expected.weights[left_out], atol=TOLERANCE[dtype])
    assert not solution.weights[left_out, 0].any()
    assert solution.weights[5, 0] > 0.5


def test_noise_of_each_row_is_on_the_diagonal(implementation, dtype):
    rows, indices, queries, targets = problem(dtype)
    noise = np.random.default_rng(2).uniform(0.05, 3, len(rows))
    noise[indices[:, 4]] = np.inf  # no neighbors
    solution = solve_local(rows, indices, queries, "gaussian", noise, targets=targets)
    for i in range(len(queries)):
        positions = np.flatnonzero(np.isfinite(noise[indices[i]]))
        chosen = indices[i, positions]
        expected = dense(rows, chosen, queries[i], "gaussian", noise[chosen].astype(dtype), targets)
        assert_solves(solution, i, positions, expected, TOLERANCE[dtype])


@profiles
@pytest.mark.parametrize("D", [1, 30, 150])
def test_features_give_the_residual_kernel(implementation, dtype, profile, D):
    rows, indices, queries, targets = problem(dtype)
    # Most of the leading eigenvectors of the kernel, so that the residual kernel is positive definite.
    together = np.concatenate([rows, queries]).astype(float)
    values, vectors = np.linalg.eigh(FORMULAS[profile](cdist(together, together)))
    some = np.zeros((len(together), D))
    some[:, :127] = (0.9 * vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1][:, :D]
    features, query_features = some[: len(rows)].astype(dtype), some[len(rows) :].astype(dtype)
    options = {"features": features, "query_features": query_features}
    solution = solve_local(rows, indices, queries, profile, 0.5, targets=targets, **options)
    for i in range(len(queries)):
        expected = dense(rows, indices[i], queries[i], profile, 0.5, targets, features, query_features[i])
        assert_solves(solution, i, np.arange(indices.shape[1]), expected, 3 * TOLERANCE[dtype])


@profiles
@pytest.mark.parametrize(("k", "D"), [(1, 1), (6, 30), (20, 127), (33, 300), (64, 127)])
def test_features_in_single_precision_change_solutions_by_their_rounding(implementation, profile, k, D):
    rows, indices, queries, targets = problem(np.dtype(float), k=k)
    together = np.concatenate([rows, queries])
    values, vectors = np.linalg.eigh(FORMULAS[profile](cdist(together, together)))
    some = np.zeros((len(together), D), np.float32)
    some[:, :127] = (0.9 * vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1][:, :D]
    features, query_features = some[: len(rows)], some[len(rows) :]
    options = {"features": features, "query_features": query_features}
    solution = solve_local(rows, indices, queries, profile, 0.5, targets=targets, **options)
    # An entry changes by a few roundings of sums below one, and weights by at most k times as much over the noise.
    tolerance = 4 * np.finfo(np.float32).eps * max(k, 4) / 0.5
    for i in range(len(queries)):
        expected = dense(rows, indices[i], queries[i], profile, 0.5, targets, features, query_features[i])
        assert_solves(solution, i, np.arange(k), expected, tolerance)
        without = dense(rows, indices[i], queries[i], profile, 0.5, targets)  # the twin, which differs
        if D > 1:
            assert abs(solution.variance[i] - without[1]) > 10 * tolerance


def test_features_that_are_exact_leave_no_variance(implementation, dtype):
    rows, indices, queries, _ = problem(dtype, d=1, k=5)
    features, query_features = np.zeros((len(rows), 2), dtype), np.zeros((len(queries), 2), dtype)
    features[:, 0], query_features[:, 0] = 1, 1.1
    same = np.ones_like(rows)
    solution = solve_local(same, indices, same[:7], "gaussian", 0.0, features=features, query_features=query_features)
    np.testing.assert_array_equal(solution.variance, 0)
    assert np.isfinite(solution.weights).all()


@profiles
def test_duplicate_rows_without_noise_are_solved_with_jitter(implementation, dtype, profile):
    rng = np.random.default_rng(4)
    few = rng.normal(size=(6, 2)).astype(dtype)
    rows, values = np.repeat(few, 5, axis=0), np.repeat(rng.normal(size=(6, 1)), 5, axis=0).astype(dtype)
    indices = np.stack([rng.permutation(30) for _ in range(8)])
    queries = np.concatenate([few, rng.normal(size=(2, 2)).astype(dtype)])
    solution = solve_local(rows, indices, queries, profile, 0.0, targets=values)
    assert (solution.jitter > 0).all()
    assert (solution.jitter < 1e-2).all()
    mean = (solution.weights * values[indices, 0]).sum(axis=1)
    # The same predictions as from the distinct rows, which differ by the effect of the jitter.
    expected = solve_local(few, np.tile(np.arange(6), (8, 1)), queries, profile, 0.0)
    assert not expected.jitter.any()
    atol = 2e-2 if dtype == np.float32 else 1e-8
    np.testing.assert_allclose(mean, expected.weights @ values[::5, 0], atol=atol)
    np.testing.assert_allclose(solution.variance, expected.variance, atol=atol)


def test_well_conditioned_duplicates_need_no_jitter(implementation, dtype):
    rows = np.zeros((10, 2), dtype)
    solution = solve_local(rows, np.arange(10)[None], rows[:1], "gaussian", 0.01)
    assert not solution.jitter.any()
    np.testing.assert_allclose(solution.weights, 1 / 10.01, rtol=1e-3 if dtype == np.float32 else 1e-12)


def test_rows_far_from_the_origin_retain_their_distances(implementation):
    rows, indices, queries, targets = problem(np.dtype(float))
    offset = np.array([1e6, -2e6, 3e6])
    rows, queries = rows + offset, queries + offset
    solution = solve_local(rows, indices, queries, "matern12", 0.1, targets=targets)
    # The differences of rounded rows are exact, so the origin makes no difference to them.
    centered = solve_local(rows - offset, indices, queries - offset, "matern12", 0.1, targets=targets)
    np.testing.assert_allclose(solution.weights, centered.weights, rtol=0, atol=1e-13)
    np.testing.assert_allclose(solution.variance, centered.variance, rtol=0, atol=1e-13)


@profiles
def test_kernel_values_are_accurate_up_to_underflow(implementation, dtype, profile):
    # With one neighbor and no noise the weight is the kernel of the neighbor and the query.
    rng = np.random.default_rng(5)
    longest = 120 if dtype == np.float32 else 800
    r = np.concatenate([[0.0], 10.0 ** rng.uniform(-8, 0, 60), rng.uniform(0, longest, 240), [1e4, 1e6]]).astype(dtype)
    found = solve_local(r[:, None], np.arange(len(r))[:, None], np.zeros((len(r), 1), dtype), profile, 0.0).weights[
        :, 0
    ]
    with mpmath.workprec(120):
        x = [mpmath.mpf(float(value)) for value in r]
        root = {"matern12": 1, "matern32": mpmath.sqrt(3), "matern52": mpmath.sqrt(5)}.get(profile)
        scaled = [] if root is None else [root * value for value in x]
        exact = {
            "gaussian": lambda: [mpmath.exp(-value * value / 2) for value in x],
            "matern12": lambda: [mpmath.exp(-value) for value in scaled],
            "matern32": lambda: [(1 + value) * mpmath.exp(-value) for value in scaled],
            "matern52": lambda: [(1 + value + value * value / 3) * mpmath.exp(-value) for value in scaled],
        }[profile]()
        exact = np.array([float(value) for value in exact])
    info = np.finfo(dtype)
    # A rounding error of the exponent is a relative error of the result; subnormal results have an absolute one.
    exponent = r.astype(float) ** 2 / 2 if profile == "gaussian" else 2.3 * r.astype(float)
    polynomial = {"matern32": 1 + 2 * r.astype(float), "matern52": (1 + 2 * r.astype(float)) ** 2}.get(profile, 1)
    error = float(info.eps) * (6 + 2 * exponent) * exact + 2 * float(info.smallest_subnormal) * polynomial
    assert (np.abs(found - exact) <= error).all()
    assert found[0] == 1
    np.testing.assert_array_equal(found[-2:], 0)


def test_nan_in_a_row_affects_only_its_queries(implementation, dtype):
    rows, indices, queries, targets = problem(dtype)
    clean = solve_local(rows, indices, queries, "matern12", 0.1, targets=targets)
    rows[indices[3, 6]] = np.nan
    affected = np.isin(indices, indices[3, 6]).any(axis=1)
    solution = solve_local(rows, indices, queries, "matern12", 0.1, targets=targets)
    for part in ("weights", "variance", "targets", "jitter"):
        found, before = getattr(solution, part), getattr(clean, part)
        assert np.isnan(found[affected]).all()
        if part in ("weights", "variance"):
            np.testing.assert_allclose(found[~affected], before[~affected], rtol=1e-6)


def test_matrices_of_the_caller_are_solved(implementation, dtype):
    rng = np.random.default_rng(6)
    m, k, t = 5, 13, 3
    B = rng.normal(size=(m, k, k + 4))
    K = (B @ B.transpose(0, 2, 1)).astype(dtype)
    cross, targets = rng.normal(size=(m, k)).astype(dtype), rng.normal(size=(m, k, t)).astype(dtype)
    noise = rng.uniform(1, 2, (m, k)).astype(dtype)
    noise[rng.random((m, k)) < 0.3] = np.inf
    noise[4] = np.inf
    prior = np.full(m, 500.0)
    spoiled = np.where(np.isinf(noise)[:, :, None] | np.isinf(noise)[:, None], np.nan, K).astype(dtype)
    solution = solve_given(spoiled, np.where(np.isinf(noise), np.nan, cross).astype(dtype), prior, noise, targets)
    for i in range(m):
        there = np.flatnonzero(np.isfinite(noise[i]))
        A = K[i][np.ix_(there, there)].astype(float) + np.diag(noise[i, there].astype(float))
        weights = np.linalg.solve(A, cross[i, there].astype(float))
        expected = weights, 500 - cross[i, there] @ weights, np.linalg.solve(A, targets[i, there].astype(float))
        assert_solves(solution, i, there, expected, 10 * TOLERANCE[dtype])
    assert solution.variance[4] == 500


def test_indefinite_matrices_are_solved_with_jitter_and_nan_is_reported(implementation, dtype):
    K = np.array([[[1.0, 2.0], [2.0, 1.0]], [[1.0, np.nan], [np.nan, 1.0]], [[1.0, 0.5], [0.5, 1.0]]], dtype)
    solution = solve_given(K, np.ones((3, 2), dtype), np.ones(3), np.zeros((3, 2), dtype))
    assert solution.jitter[0] > 1
    assert np.isfinite(solution.weights[0]).all()
    assert np.isnan(solution.weights[1]).all()
    assert np.isnan(solution.variance[1])
    assert np.isnan(solution.jitter[1])
    np.testing.assert_allclose(solution.weights[2], 2 / 3, rtol=1e-6)


# ---- gradients -------------------------------------------------------------------------------------------------------


def squared_errors(rows, indices, queries, profile, targets, goals):
    """Half the squared error of predictions plus their variance, summed, and the factors of its derivatives."""
    solution = solve_local(rows, indices, queries, profile, 0.2, targets=targets)
    b, a = solution.weights, solution.targets[..., 0]
    cross = np.where(indices >= 0, targets[indices, 0], 0)
    errors = goals - (b * cross).sum(axis=1)
    loss = 0.5 * (errors**2).sum() + solution.variance.sum()
    return loss, [(errors[:, None] * b, a, -errors[:, None] * a), (b, b, -2 * b)]


@profiles
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("d", [3, 70])
def test_gradients_equal_finite_differences(implementation, profile, full, d):
    rows, indices, queries, targets = problem(np.dtype(float), k=11, d=d)
    rows, queries = rows * (2 / d) ** 0.5 + 50, queries * (2 / d) ** 0.5 + 50
    queries[0] = rows[indices[0, 0]]  # two equal rows
    indices[1, 4:] = -1
    indices[2] = -1
    rng = np.random.default_rng(7)
    goals = rng.normal(size=len(queries))
    _, factors = squared_errors(rows, indices, queries, profile, targets, goals)
    gradient = -0.5 * sum(metric_gradient(rows, indices, queries, profile, *parts, full=full) for parts in factors)
    assert gradient.dtype == np.float64
    assert gradient.shape == ((d, d) if full else (d,))
    for _ in range(3):
        direction = rng.normal(size=(d, d)) if full else np.diag(rng.normal(size=d))
        direction = (direction + direction.T) / d**0.5
        step = 1e-5
        losses = []
        for sign in (-1, 1):
            # Rows times I + h S / 2 have the metric I + h S up to second order.
            moved = np.eye(d) + sign * step * direction / 2
            losses.append(squared_errors(rows @ moved, indices, queries @ moved, profile, targets, goals)[0])
        numeric = (losses[1] - losses[0]) / (2 * step)
        exact = np.sum(gradient * (direction if full else np.diag(direction)))
        np.testing.assert_allclose(exact, numeric, rtol=1e-6, atol=1e-6)
    if full:
        np.testing.assert_allclose(gradient, gradient.T, rtol=1e-12, atol=1e-12)
        diagonal = -0.5 * sum(metric_gradient(rows, indices, queries, profile, *parts) for parts in factors)
        np.testing.assert_allclose(np.diag(gradient), diagonal, rtol=1e-9, atol=1e-9)


@profiles
def test_gradients_in_single_precision_agree_with_double(implementation, profile):
    rows, indices, queries, _ = problem(np.dtype(np.float32), k=18, d=5)
    rows[indices[0, 1]] = rows[indices[0, 0]] + np.float32(1e-6)  # nearly equal: a large slope
    rng = np.random.default_rng(8)
    factors = [rng.normal(size=indices.shape).astype(np.float32) for _ in range(3)]
    for full in (False, True):
        found = metric_gradient(rows, indices, queries, profile, *factors, full=full)
        wide = [part.astype(float) for part in factors]
        exact = metric_gradient(rows.astype(float), indices, queries.astype(float), profile, *wide, full=full)
        np.testing.assert_allclose(found, exact, rtol=1e-4, atol=1e-4)


# ---- implementations and threads -------------------------------------------------------------------------------------


@profiles
@pytest.mark.parametrize("name", [name for name in SETS if name != "numpy"])
def test_compiled_results_match_the_numpy_kernels(monkeypatch, dtype, profile, name):
    rng = np.random.default_rng(9)
    for k, d in ((1, 2), (7, 9), (24, 65)):
        rows, indices, queries, targets = problem(dtype, k=k, d=d)
        indices[rng.random(indices.shape) < 0.1] = -1
        features, query_features = (rng.normal(size=(len(a), 10)).astype(dtype) / 8 for a in (rows, queries))
        factors = [rng.normal(size=indices.shape).astype(dtype) for _ in range(3)]
        results = []
        for kernels in (SETS[name], numpy_kernels):
            monkeypatch.setattr(dispatch, "kernels", kernels)
            options = {"targets": targets, "features": features, "query_features": query_features}
            solution = solve_local(rows, indices, queries, profile, 0.1, **options)
            gradients = [metric_gradient(rows, indices, queries, profile, *factors, full=f) for f in (False, True)]
            results.append([solution.weights, solution.variance, solution.targets, solution.jitter, *gradients])
        for found, expected in zip(*results, strict=True):
            np.testing.assert_allclose(found, expected, rtol=0, atol=30 * TOLERANCE[dtype])


def test_results_do_not_depend_on_threads_or_on_other_queries(monkeypatch, implementation, dtype):
    monkeypatch.setattr(local_systems, "BLOCK", 10)
    rows, indices, queries, targets = problem(dtype, m=45, k=9)
    one = solve_local(rows, indices, queries, "matern52", 0.1, targets=targets, n_jobs=1)
    gradients = {
        full: metric_gradient(rows, indices, queries, "matern52", *[one.weights] * 3, full=full, n_jobs=1)
        for full in (False, True)
    }
    for n_jobs in (2, 5, None):
        many = solve_local(rows, indices, queries, "matern52", 0.1, targets=targets, n_jobs=n_jobs)
        for part in ("weights", "variance", "targets", "jitter"):
            np.testing.assert_array_equal(getattr(many, part), getattr(one, part))
        for full, expected in gradients.items():
            found = metric_gradient(rows, indices, queries, "matern52", *[one.weights] * 3, full=full, n_jobs=n_jobs)
            np.testing.assert_array_equal(found, expected)
    if implementation != "numpy":
        alone = solve_local(rows, indices[17:18], queries[17:18], "matern52", 0.1, targets=targets)
        np.testing.assert_array_equal(alone.weights[0], one.weights[17])
        np.testing.assert_array_equal(alone.targets[0], one.targets[17])


def test_memory_layout_does_not_matter(implementation, dtype):
    rows, indices, queries, targets = problem(dtype)
    expected = solve_local(rows, indices, queries, "gaussian", 0.1, targets=targets)
    strided = np.repeat(queries, 2, axis=0)[::2]
    found = solve_local(
        np.asfortranarray(rows),
        np.asfortranarray(indices.astype(np.int32)),
        strided,
        "gaussian",
        np.full((len(rows), 2), 0.1)[:, 0],
        targets=np.asfortranarray(targets),
    )
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.targets, expected.targets)


def test_nothing_to_solve(implementation, dtype):
    rows, indices, queries, targets = problem(dtype)
    none = solve_local(rows, indices[:0], queries[:0], "gaussian", 0.1, targets=targets)
    assert none.weights.shape == (0, 20)
    assert none.targets.shape == (0, 20, 2)
    no_neighbors = solve_local(rows, indices[:, :0], queries, "gaussian", 0.1)
    assert no_neighbors.weights.shape == (7, 0)
    np.testing.assert_array_equal(no_neighbors.variance, 1)
    empty = np.zeros((7, 0), dtype)
    assert not metric_gradient(rows, indices[:, :0], queries, "gaussian", empty, empty, empty).any()
    assert not metric_gradient(rows, indices[:0], queries[:0], "gaussian", *[np.zeros((0, 20), dtype)] * 3).any()


# ---- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": np.ones((4, 2), int)}, "rows must be float32 or float64, got int64"),
        ({"queries": np.ones((2, 2), np.float32)}, "queries must be float64 as the data, got float32"),
        ({"queries": np.ones((2, 3))}, "as many features as rows, 2, got 3"),
        ({"indices": np.ones((2, 3))}, "indices must be integers, got float64"),
        ({"indices": np.ones((3, 3), int)}, r"shape \(2, k\), one row per query, got \(3, 3\)"),
        ({"indices": np.full((2, 3), 4)}, "0 to 3, or -1 for no neighbor, got 4 to 4"),
        ({"indices": np.full((2, 3), -2)}, "got -2 to -2"),
        ({"profile": "cauchy"}, "profile must be one of gaussian, .*, got 'cauchy'"),
        ({"noise": -0.1}, "noise must be >= 0, got -0.1"),
        ({"noise": np.nan}, "noise must be >= 0, got nan"),
        ({"noise": np.ones(3)}, r"noise must be a number or have shape \(4,\), one per row, got \(3,\)"),
        ({"targets": np.ones((3, 1))}, "targets must have 4 rows, one per row, got 3"),
        ({"features": np.ones((4, 1))}, "must be passed together"),
        ({"features": np.ones((4, 1)), "query_features": np.ones((2, 2))}, "as many components as features, 1, got 2"),
        ({"features": np.ones((4, 1)), "query_features": np.ones((4, 1))}, "query_features must have 2 rows"),
        ({"own": np.ones(3, int)}, "own must be 2 integers, one per query"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
    ],
)
def test_invalid_arguments_raise(change, message):
    arguments = {"rows": np.ones((4, 2)), "indices": np.zeros((2, 3), int), "queries": np.ones((2, 2))}
    arguments |= {"profile": "gaussian", "noise": 0.1}
    with pytest.raises((TypeError, ValueError, ParameterError), match=message):
        solve_local(**(arguments | change))


def test_invalid_matrices_and_factors_raise():
    K, cross, noise = np.ones((2, 3, 3)), np.ones((2, 3)), np.ones((2, 3))
    with pytest.raises(ValueError, match="K must have square matrices"):
        solve_given(K[:, :2], cross, np.ones(2), noise)
    with pytest.raises(ValueError, match=r"cross must have shape \(2, 3\)"):
        solve_given(K, cross[:1], np.ones(2), noise)
    with pytest.raises(ValueError, match=r"prior must have shape \(2,\)"):
        solve_given(K, cross, np.ones(3), noise)
    with pytest.raises(ValueError, match="noise must be >= 0"):
        solve_given(K, cross, np.ones(2), -noise)
    with pytest.raises(ValueError, match="targets must have shape"):
        solve_given(K, cross, np.ones(2), noise, np.ones((2, 2, 1)))
    rows, indices = np.ones((4, 2)), np.zeros((2, 3), int)
    with pytest.raises(ValueError, match=r"left must have shape \(2, 3\), as indices has, got \(2, 2\)"):
        metric_gradient(rows, indices, rows[:2], "gaussian", cross[:, :2], cross, cross)


def test_compiled_kernels_reject_what_would_be_out_of_bounds(kernels, dtype):
    rows, indices, one, out = np.ones((4, 2), dtype), np.zeros((2, 3), np.int64), np.ones(1, dtype), np.zeros((1, 2))
    weights, vector = np.empty((2, 3), dtype), np.empty(2)

    def solve(indices=indices, queries=rows[:2], profile="gaussian", noise=one, targets=None, solved=None, w=weights):
        kernels.solve_local(rows, indices, queries, profile, noise, targets, None, None, w, vector, solved, vector)

    solve()
    for change in (
        {"indices": indices + 4},
        {"indices": np.asfortranarray(np.zeros((2, 3), np.int64))},
        {"queries": rows},
        {"noise": np.ones(3, dtype)},
        {"targets": np.ones((4, 1), dtype)},
        {"targets": np.ones((3, 1), dtype), "solved": np.ones((2, 3, 1), dtype)},
        {"w": np.empty((2, 4), dtype)},
    ):
        with pytest.raises(ValueError, match="shapes or strides do not fit"):
            solve(**change)
    with pytest.raises(ValueError, match="no such profile: cauchy"):
        solve(profile="cauchy")
    with pytest.raises(ValueError, match="shapes or strides do not fit"):
        kernels.metric_gradient(rows, indices, rows[:2], "gaussian", weights, weights, weights, True, out)
