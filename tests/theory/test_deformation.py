"""Errors of deformed kernel matrices: identities to rounding, bounds against simulation, and misprints."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from mercer import Gaussian, NeighborGraph, ParameterError, RandomFourier
from mercer.graphs.laplacian import GraphLaplacian
from mercer.theory import (
    deformation_components,
    deformation_error,
    deformation_factor,
    deformation_mean_error,
    graph_truncation_error,
    kernel_matrix_failure,
    kernel_matrix_mean_error,
    matrix_bernstein,
    penalty_norm,
)

from ..calibrated.calibrated import bernstein_radius

N = 30
DRAWS = 2000


def rows(d=3, seed=0, n=N):
    return np.random.default_rng(seed).normal(size=(n, d))


def iid_map(columns, form="pairs", kernel=None):
    return RandomFourier(kernel or Gaussian(1.5), columns, form=form, directions="iid", radii="plain")


def norm(A):
    return np.linalg.norm(A, 2)


def deform(K, M):
    return np.linalg.solve(np.eye(len(K)) + K @ M, K)


def errors(feature_map, X, draws, seed):
    """Return the spectral norms of the errors of independent draws."""
    K, rng = feature_map.kernel(X), np.random.default_rng(seed)
    feature_map.set_params(random_state=rng)
    return np.array([norm(feature_map.fit_sample(X[:1]).gram(X) - K) for _ in range(draws)])


# ---- the identity -----------------------------------------------------------------------------


@pytest.mark.parametrize("power", [1, 2, 1.5])
@pytest.mark.parametrize("alpha", [0.1, 100.0])
def test_the_identity_of_the_error(power, alpha, seed):
    X = rows(seed=seed)
    K, M = Gaussian(1.5)(X), alpha * NeighborGraph(5).laplacian(X).power(power)
    approximate = iid_map(40).set_params(random_state=seed).fit(X).gram(X)
    gap = deform(approximate, M) - deform(K, M)
    np.testing.assert_allclose(deformation_error(K, approximate, M), gap, atol=1e-8)
    eye = np.eye(N)
    swapped = np.linalg.inv(eye + M @ K) @ (approximate - K) @ np.linalg.inv(eye + approximate @ M)
    assert norm(swapped - gap) > 1e-3 * norm(gap)  # the order of the factors counts


@pytest.mark.parametrize("alpha", [0.1, 10.0, 1e4])
def test_the_factor_bounds_every_draw(alpha, seed):
    X = rows(seed=seed)
    K, M = Gaussian(1.5)(X), alpha * NeighborGraph(5).laplacian(X).power(2)
    eye = np.eye(N)
    for i in range(20):
        approximate = iid_map(40).set_params(random_state=i).fit(X).gram(X)
        T, R = norm(np.linalg.solve(eye + M @ K, M @ K)), norm(approximate @ M @ np.linalg.inv(eye + approximate @ M))
        error, gap = norm(approximate - K), norm(deform(approximate, M) - deform(K, M))
        assert gap <= (1 + T) * (1 + R) * error * (1 + 1e-9)
        assert T <= norm(K) * norm(M) * (1 + 1e-9)
        assert R <= norm(approximate) * norm(M) * (1 + 1e-9)
        assert (1 + T) * (1 + R) <= deformation_factor(norm(K), norm(approximate), norm(M)) * (1 + 1e-9)
    assert norm(M) <= penalty_norm(alpha, 2)


def test_the_factor_without_its_ones_fails():
    # One row, almost no penalty: the error is hardly changed, so a factor of T R would be far too small.
    K, approximate, M = np.array([[1.0]]), np.array([[1.5]]), np.array([[1e-3]])
    gap = abs(deformation_error(K, approximate, M)).item()
    assert gap > 1.0 * 1e-3 * 1.5 * 1e-3 * 0.5
    assert gap <= deformation_factor(1.0, 1.5, 1e-3) * 0.5


def test_the_printed_bound_of_the_factor_says_nothing():
    # Through determinants (eqs. 38 to 44): a power of N.
    X = rows(n=60)
    M = NeighborGraph(5).laplacian(X).power(1)
    K = Gaussian(1.5)(X)
    printed = norm(K) * norm(M) * (np.linalg.norm(np.eye(60) + K @ M) / math.sqrt(59)) ** 59
    assert printed > 1e6 * norm(K) * norm(M)


def test_a_positive_definite_penalty_has_a_bound_of_its_own():
    # |K M (I + K M)^-1| <= sqrt(cond M): for M + gamma I, never for a Laplacian, which is singular.
    X = rows()
    L = NeighborGraph(5).laplacian(X).power(1)
    K = Gaussian(1.5)(X)
    for gamma in (1.0, 1e-2):
        M = 50 * (L + gamma * np.eye(N))
        assert norm(K @ M @ np.linalg.inv(np.eye(N) + K @ M)) <= math.sqrt(np.linalg.cond(M)) * (1 + 1e-9)


def test_the_printed_laplacian_is_none():
    # D^(+1/2) on one side: neither symmetric nor positive semi-definite.
    W = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 3.0], [0.0, 3.0, 0.0]])
    root = np.sqrt(W.sum(axis=1))
    printed = np.eye(3) - (1 / root)[:, None] * W * root
    assert not np.allclose(printed, printed.T)
    right = GraphLaplacian.from_weights(sp.csr_array(W)).matrix.toarray()
    np.testing.assert_allclose(right, right.T)
    assert np.linalg.eigvalsh(right).min() > -1e-12
    both = np.eye(3) - root[:, None] * W * root
    assert np.linalg.eigvalsh(both).min() < -1


# ---- expected errors --------------------------------------------------------------------------


def test_bernstein_against_signs():
    # Diagonal matrices of random signs: the norm is the largest of n random walks.
    n, terms = 40, 50
    rng = np.random.default_rng(0)
    signs = rng.integers(0, 2, size=(DRAWS, terms, n)) * 2.0 - 1.0
    norms = np.abs(signs.sum(axis=1)).max(axis=1)
    mean = norms.mean() + bernstein_radius(norms[:, None], width=terms).item()
    bound = matrix_bernstein(terms, 1.0, n)
    assert mean <= bound
    # Its logarithm is needed: without it, the mean is above what would be left.
    assert norms.mean() - bernstein_radius(norms[:, None], width=terms).item() > math.sqrt(2 * terms)
    assert matrix_bernstein(terms, 1.0, n) < math.sqrt(3 * terms * math.log(2 * n)) + math.log(2 * n)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "columns"), [("pairs", 40), ("phase", 40)])
def test_the_mean_error_of_a_kernel_matrix(form, columns):
    X = rows()
    found = errors(iid_map(columns, form), X, DRAWS, 1)
    terms = columns // 2 if form == "pairs" else columns
    K = Gaussian(1.5)(X)
    bound = kernel_matrix_mean_error(norm(K), N, terms, form=form)
    radius = bernstein_radius(found[:, None], width=(2.0 if form == "phase" else 1.0) * N).item()
    assert found.mean() + radius <= bound
    assert found.mean() - radius > bound / 20  # it is no guess


def test_the_printed_logarithm_fails_for_one_row():
    # log N = 0 for N = 1 says that nothing can be off; a phase cosine is.
    X = rows(n=1)
    found = errors(iid_map(4, "phase"), X, 400, 2)
    assert found.mean() > 0.1
    assert found.mean() <= kernel_matrix_mean_error(1.0, 1, 4, form="phase")
    printed = math.sqrt(3 * 1.0 * math.log(1) / 4) + 2 * math.log(1) / 4
    assert printed == 0.0


def test_the_printed_bound_of_a_term_fails_for_phases():
    # |Phi_i|^2 of sqrt(2) cos(w'x + b) reaches 2N; N, as for pairs, is no bound.
    X = np.zeros((N, 2))
    draws = [iid_map(1, "phase").set_params(random_state=i).fit(X).gram(X) for i in range(50)]
    largest = max(norm(draw) for draw in draws)
    assert N < 1.5 * N < largest <= 2 * N * (1 + 1e-12)
    pair = iid_map(2, "pairs").set_params(random_state=0).fit(rows()).gram(rows())
    assert np.trace(pair) == pytest.approx(N)
    assert norm(pair) <= N


def test_the_printed_features_have_half_the_kernel():
    X = rows()
    rng = np.random.default_rng(3)
    w, b = rng.normal(size=(3, 200_000)) / 1.5, rng.uniform(0, 2 * math.pi, 200_000)
    Z = np.cos(X[:5] @ w + b)
    np.testing.assert_allclose(Z @ Z.T / 200_000, Gaussian(1.5)(X[:5]) / 2, atol=0.01)


@pytest.mark.parametrize("form", ["pairs", "phase"])
def test_the_mean_error_of_a_deformed_matrix(form):
    X = rows()
    K, M = Gaussian(1.5)(X), 0.02 * NeighborGraph(5).laplacian(X).power(2)
    feature_map = iid_map(40, form).set_params(random_state=np.random.default_rng(4))
    found = np.array([norm(deform(feature_map.fit(X).gram(X), M) - deform(K, M)) for _ in range(300)])
    terms = 20 if form == "pairs" else 40
    bound = deformation_mean_error(norm(K), norm(M), N, terms, form=form)
    assert found.mean() + bernstein_radius(found[:, None], width=2.0 * N).item() <= bound
    plain = kernel_matrix_mean_error(norm(K), N, terms, form=form)
    assert bound > plain
    assert deformation_mean_error(norm(K), 0.0, N, terms, form=form) == pytest.approx(plain)


@pytest.mark.slow
def test_failures_and_sizes():
    X = rows()
    K, M = Gaussian(1.5)(X), 0.01 * NeighborGraph(5).laplacian(X).power(1)
    eps, delta = 2.0, 0.1
    columns = deformation_components(eps, delta, norm(K), norm(M), N)
    assert columns % 2 == 0
    found = [
        norm(deform(iid_map(columns).set_params(random_state=i).fit(X).gram(X), M) - deform(K, M)) for i in range(30)
    ]
    assert max(found) <= eps
    # A fiftieth of them would not do.
    few = iid_map(max(2, columns // 50 // 2 * 2))
    assert (
        max(norm(deform(few.set_params(random_state=i).fit(X).gram(X), M) - deform(K, M)) for i in range(30)) > eps / 3
    )
    # It is the least number that the bounds allow.
    T = 1 + norm(K) * norm(M)
    error = max(e for e in np.linspace(0, eps, 200_001) if e * T * (T + e * norm(M)) <= eps)
    assert kernel_matrix_failure(error, norm(K), N, columns // 2) <= delta * 1.001
    assert kernel_matrix_failure(error, norm(K), N, columns // 2 - 2) > delta * 0.99
    assert deformation_components(eps, delta, norm(K), norm(M), N, form="phase") > columns // 2


def test_failures_are_frequencies():
    X = rows()
    found = errors(iid_map(60), X, 300, 5)
    K = Gaussian(1.5)(X)
    for eps in (4.0, 8.0, 16.0):
        share, bound = np.mean(found >= eps), kernel_matrix_failure(eps, norm(K), N, 30)
        assert share <= bound + math.sqrt(math.log(1e9) / (2 * 300))
    assert kernel_matrix_failure(1e-3, norm(K), N, 30) == 1.0


def clusters(n):
    """Return n rows at two points of R^3 that are so far apart that the kernel is zero between them."""
    return np.repeat([[0.0, 0.0, 0.0], [6.0, 6.0, 6.0]], n // 2, axis=0)


def deformed_errors(X, M, n_frequencies, draws, seed):
    """Return the spectral norms of errors of deformed kernel matrices of rows at two points, over independent draws."""
    rng = np.random.default_rng(seed)
    deformed = deform(Gaussian(1.5)(X), M)
    found = np.empty(draws)
    for i in range(draws):
        angles = X[[0, -1]] @ rng.standard_normal((3, n_frequencies), np.float32) / 1.5
        points = np.cos(angles[:, None] - angles).mean(axis=2)  # the approximate kernel of the two points
        approximate = np.kron(points, np.ones((len(X) // 2, len(X) // 2)))
        found[i] = norm(deform(approximate, M) - deformed)
    return found


def least_probability(hits, n, failure=1e-9):
    """Return what the probability of a hit exceeds, except with probability `failure` (Clopper and Pearson)."""
    return stats.beta.ppf(failure, hits, n - hits + 1) if hits else 0.0


@pytest.mark.slow
def test_errors_of_deformed_matrices_are_rarer_than_delta():
    X = clusters(100)
    K, M = Gaussian(1.5)(X), 1e-4 * np.diag(np.linspace(0.0, 2.0, 100))
    eps, delta = 1.0, 0.02
    right = deformation_components(eps, delta, norm(K), norm(M), len(X)) // 2
    hits = int((deformed_errors(X, M, right, 30, 0) > eps).sum())
    assert least_probability(hits, 30) <= delta
    # The least norm that a kernel matrix can have, in place of its own, makes too small a number.
    wrong = deformation_components(eps, delta, 1.0, norm(M), len(X)) // 2
    hits = int((deformed_errors(X, M, wrong, 300, 1) > eps).sum())
    assert least_probability(hits, 300) > delta


@pytest.mark.parametrize("eps", [2.5, 3.0, 3.5])
def test_errors_of_kernel_matrices_are_rarer_than_the_bound_in_which_their_norm_counts(eps):
    n, terms, draws = 100, 5000, 2000
    # The error is that of one cosine, times half of the number of rows.
    lag = math.sqrt(3) * 6.0 / 1.5
    rng = np.random.default_rng(2)
    cosines = [
        np.cos(lag * rng.standard_normal(terms, np.float32)).mean() - math.exp(-0.5 * lag**2) for _ in range(draws)
    ]
    errors = n / 2 * np.abs(cosines)
    bound = kernel_matrix_failure(eps, n / 2, n, terms)
    assert least_probability(int((errors >= eps).sum()), draws) <= bound
    # Not that of two standard deviations for the least norm that a kernel matrix can have.
    hits = int((errors >= 1.0).sum())
    assert least_probability(hits, draws) > kernel_matrix_failure(1.0, 1.0, n, terms)
    assert kernel_matrix_failure(1.0, n / 2, n, terms) == 1.0


@pytest.mark.parametrize("form", ["pairs", "phase"])
def test_the_mean_error_of_deformed_matrices_of_clusters(form):
    X = clusters(40)
    K, M = Gaussian(1.5)(X), 1e-3 * np.diag(np.linspace(0.0, 2.0, 40))
    feature_map = iid_map(400, form).set_params(random_state=np.random.default_rng(3))
    found = np.array([norm(deform(feature_map.fit_sample(X[:1]).gram(X), M) - deform(K, M)) for _ in range(100)])
    radius = stats.norm.isf(1e-9) * found.std() / 10  # of a mean of many
    terms = 200 if form == "pairs" else 400
    bound = deformation_mean_error(norm(K), norm(M), len(X), terms, form=form)
    assert found.mean() + radius <= bound
    assert found.mean() - radius > bound / 30  # a thirtieth of it does not hold


def test_mass_and_form():
    assert kernel_matrix_mean_error(20.0, 10, 5, mass=2.0) == pytest.approx(2 * kernel_matrix_mean_error(10.0, 10, 5))
    assert kernel_matrix_mean_error(5.0, 10, 5, form="complex") == kernel_matrix_mean_error(5.0, 10, 5)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: matrix_bernstein(-1.0, 1.0, 5), "variance must be a finite number >= 0, got -1.0"),
        (lambda: matrix_bernstein(1.0, math.inf, 5), "bound must be a finite number >= 0, got inf"),
        (lambda: matrix_bernstein(1.0, 1.0, 0), "n must be an integer >= 1, got 0"),
        (lambda: kernel_matrix_mean_error(1.0, 10, 5, form="cosine"), "form must be one of"),
        (lambda: kernel_matrix_mean_error(1.0, 10, 0), "n_terms must be an integer >= 1, got 0"),
        (lambda: kernel_matrix_failure(0.0, 1.0, 10, 5), "eps must be"),
        (lambda: deformation_components(1.0, 1.0, 1.0, 1.0, 5), r"delta must be in \(0, 1\), got 1.0"),
        (lambda: deformation_factor(-1.0, 1.0, 1.0), "kernel_norm must be a number >= 0, or inf, got -1.0"),
        (lambda: penalty_norm(-1.0, 1.0), "penalty_norm: strength must be a finite number >= 0, got -1.0"),
        (lambda: penalty_norm(1.0, math.nan), "power must be a finite number >= 0, got nan"),
        (lambda: penalty_norm("1", 1.0), "strength must be a finite number >= 0, got '1'"),
        (lambda: deformation_factor(1.0, 1.0, None), "penalty_norm must be a number >= 0, or inf, got None"),
        (lambda: deformation_components(1.0, math.nan, 1.0, 1.0, 5), r"delta must be in \(0, 1\), got nan"),
        (
            lambda: deformation_components(1.0, 0.1, 1.0, -1.0, 5),
            "penalty_norm must be a number >= 0, or inf, got -1.0",
        ),
        (
            lambda: deformation_components(1.0, 0.1, 1e200, 1e200, 5, mass=1e200),
            "eps must be large enough .*got eps=1.0 and kernel_norm=1e\\+200 .*larger eps",
        ),
        (lambda: deformation_components(1e-200, 0.1, 1.0, 1.0, 5), "eps must be large enough .*larger eps"),
        (lambda: kernel_matrix_mean_error(11.0, 10, 5), r"kernel_norm must be in \[mass, n_rows \* mass\].*got 11"),
        (lambda: kernel_matrix_failure(0.1, 0.5, 10, 5), r"kernel_matrix_failure: kernel_norm must be in \[mass"),
        (lambda: deformation_mean_error(11.0, 1.0, 10, 5), "deformation_mean_error: kernel_norm must be in"),
        (lambda: deformation_components("1", 0.1, 1.0, 1.0, 5), "eps must be a finite number > 0, got '1'"),
    ],
)
def test_bad_arguments_are_refused(call, says):
    with pytest.raises(ParameterError, match=says):
        call()


@pytest.mark.parametrize(
    ("matrices", "says"),
    [
        (
            (np.eye(3)[:2], np.eye(3), np.eye(3)),
            r"exact must be a dense square matrix of finite real numbers, got shape \(2, 3\)",
        ),
        (
            (np.ones(3), np.eye(3), np.eye(3)),
            r"exact must be a dense square matrix of finite real numbers, got shape \(3,\)",
        ),
        ((1.0, np.eye(3), np.eye(3)), r"exact must be a dense square matrix of finite real numbers, got float"),
        ((np.eye(3), np.eye(2), np.eye(3)), r"approximate must be of the shape \(3, 3\) of exact, got \(2, 2\)"),
        ((np.eye(3), np.eye(3), np.eye(1)), r"penalty must be of the shape \(3, 3\) of exact, got \(1, 1\)"),
        (
            (np.eye(3), np.eye(3), np.diag([1.0, np.nan, 1.0])),
            r"penalty must be a dense square matrix of finite real numbers, got nan at \[1, 1\]",
        ),
        (
            (np.eye(3), np.diag([1.0, 1.0, np.inf]), np.eye(3)),
            r"approximate must be a dense square matrix of finite real numbers, got inf at \[2, 2\]",
        ),
        (
            (np.eye(3), np.eye(3), sp.eye_array(3)),
            r"penalty must be a dense square matrix of finite real numbers, got dia_array",
        ),
        (
            (np.eye(3), 1j * np.eye(3), np.eye(3)),
            r"approximate must be a dense square matrix of finite real numbers, got ndarray",
        ),
        (
            (np.eye(2), np.eye(2), [["a", "b"], ["c", "d"]]),
            r"penalty must be a dense square matrix of finite real numbers, got list",
        ),
        (
            (np.eye(2), np.eye(2), [[1.0], [1.0, 2.0]]),
            r"penalty must be a dense square matrix of finite real numbers, got list",
        ),
        ((np.eye(2), np.eye(2), -np.eye(2)), r"I \+ K M is singular.*positive semi-definite"),
    ],
)
def test_bad_matrices_are_refused(matrices, says):
    with pytest.raises(ParameterError, match=rf"^deformation_error: {says}"):
        deformation_error(*matrices)


def test_lists_are_matrices():
    np.testing.assert_allclose(deformation_error([[1]], [[1.5]], [[2]]), [[1.5 / 4 - 1 / 3]])


def test_norms_far_apart_have_the_right_product():
    assert penalty_norm(0, 2000) == penalty_norm(0, 1e308) == 0.0
    assert penalty_norm(1, 2000) == penalty_norm(1.7e308, 0.9) == penalty_norm(1, 1e308) == math.inf
    assert penalty_norm(2.0**-1000, 1500) == 2.0**500
    assert penalty_norm(3.0, 0.5) == pytest.approx(3 * math.sqrt(2), rel=1e-15)
    assert penalty_norm(10, 2) == 40.0
    assert penalty_norm(np.float32(0.5), np.int64(3)) == 4.0


def test_errors_out_of_all_range_have_bounds():
    assert kernel_matrix_failure(1e200, 1.0, 10, 5) == 0.0
    assert kernel_matrix_failure(1e-200, 1.0, 10, 5) == 1.0
    assert math.isinf(deformation_factor(1e200, 1e200, 1e200))
    assert math.isinf(deformation_factor(0.0, 0.0, math.inf))
    with pytest.raises(ParameterError, match=r"penalty must be small enough for I \+ K M to be within float64"):
        deformation_error(1e200 * np.eye(2), np.eye(2), 1e200 * np.eye(2))


def test_truncation_of_a_graph_is_the_norm_of_what_is_left_out():
    values = np.array([0.0, 0.1, 0.3, 1.2])
    for k in range(1, 4):
        left_out = 1.0 / (1.0 + 20.0 * values[k:] ** 1.5)
        assert graph_truncation_error(values[k], 20.0, 1.5) == pytest.approx(left_out.max())
    assert graph_truncation_error(np.inf, 20.0, 1.5) == 0.0
    with pytest.raises(ParameterError, match="next_eigenvalue"):
        graph_truncation_error(-0.1, 20.0, 1.5)
