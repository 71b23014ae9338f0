"""Numbers of components by every bound: each is checked against its formula, or against draws of that width."""

import json
import math

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import stats

from mercer import (
    ArcCosine,
    DataError,
    Gaussian,
    Laplacian,
    Matern,
    Nystroem,
    ParameterError,
    Polynomial,
    RandomFourier,
    RandomMaclaurin,
    component_table,
    required_components,
)
from mercer.diagnostics.sizes import normal_quantile
from mercer.theory import fourier_uniform_failure, maclaurin_components, quadrature_uniform_failure

FAILURE = 1e-9
X = np.random.default_rng(0).normal(size=(240, 4))
FRESH = np.random.default_rng(1).normal(size=(150, 4))
IID = "RandomFourier(directions='iid')"


def numbers(table):
    return {(row.map, row.bound): row for row in table.rows}


def rmse(feature_map, rows):
    error = (feature_map.gram(rows) - feature_map.kernel_(rows))[np.triu_indices(len(rows), 1)]
    return math.sqrt(np.square(error).mean())


def least_probability(hits, n):
    """Return what the probability of a hit exceeds, except with probability `FAILURE` (Clopper and Pearson)."""
    return stats.beta.ppf(FAILURE, hits, n - hits + 1) if hits else 0.0


@pytest.fixture(scope="module")
def gaussian():
    return component_table(Gaussian(3.0), 0.05, X=X, max_components=256)


def test_the_worst_case_and_the_rows_are_side_by_side(gaussian):
    found = numbers(gaussian)
    assert found[IID, "Hoeffding"].n_components == required_components(Gaussian(3.0), 0.05)
    assert found[IID, "Hoeffding"].kind == "guarantee"
    assert found["RandomMaclaurin", "variance"].n_components * 50 < found[IID, "Hoeffding"].n_components
    sizes = [row.n_components for row in gaussian.rows]
    assert sizes == sorted(sizes)
    lines = str(gaussian).splitlines()
    assert lines[0] == "Gaussian(lengthscale=3.0), error 0.05, probability 0.95, 240 rows of 4 features"
    assert len(lines) == 2 + len(gaussian.rows)
    values = json.loads(json.dumps(gaussian.to_dict()))
    assert values["rows"][0]["n_components"] == sizes[0]


def test_without_rows_there_is_the_worst_case_only():
    (row,) = component_table(Gaussian("median"), 0.1, 0.01).rows
    assert (row.n_components, row.holds_for) == (2120, "each pair of any rows")
    assert component_table(Polynomial(2), 0.1).rows == ()


def test_every_map_of_a_kernel_has_its_estimates(gaussian):
    measured = {row.map for row in gaussian.rows if row.kind == "estimate"}
    assert {"RandomFourier", "SphericalRadial", "RandomMaclaurin", "Nystroem"} <= measured


@pytest.mark.slow
@pytest.mark.parametrize("kind", [RandomFourier, RandomMaclaurin, Nystroem])
def test_estimates_are_met_on_fresh_rows_and_are_not_much_too_large(gaussian, kind):
    name = kind.__name__
    row = next(row for row in gaussian.rows if row.map == name and row.holds_for.startswith("root mean square"))
    assert row.note in ("", "or fewer")

    def typical(n):
        draws = [rmse(kind(Gaussian(3.0), n, random_state=seed).fit(X), FRESH) for seed in range(5)]
        return math.sqrt(np.square(draws).mean())

    # The largest deviations come from other rows, and from five draws; an error of another order would be found.
    assert typical(row.n_components) < 1.4 * 0.05
    assert typical(max(2, row.n_components // 3)) > 0.05


@pytest.mark.slow
def test_extrapolated_numbers_reach_the_error():
    row = numbers(component_table(Gaussian(3.0), 0.01, X=X, max_components=128))["RandomFourier", "variance"]
    assert row.note == "extrapolated from 128"
    assert row.n_components > 256
    variance = RandomFourier(Gaussian(3.0), row.n_components, random_state=0).fit(X).variance(FRESH)
    assert math.sqrt(variance[np.triu_indices(len(FRESH), 1)].mean()) == pytest.approx(0.01, rel=0.2)


def test_variances_of_independent_frequencies_are_inverted():
    # The rows that are held out are all that the numbers depend on: here all rows are equal to one of two.
    rows = np.repeat([[0.0, 0.0], [1.0, 2.0]], 8, axis=0)
    kernel, eps, delta = 2.0 * Laplacian(2.0), 0.2, 0.1
    found = numbers(component_table(kernel, eps, delta, X=np.tile(rows, (30, 1)), max_components=16))
    n = found[IID, "variance"].n_components
    several = np.tile(rows, (13, 1))
    means = [
        RandomFourier(kernel, width, directions="iid", random_state=0).fit(rows).variance(several).mean()
        for width in (n, n // 2)
    ]
    # Half of the pairs are equal rows, with no error; the share among the rows that are held out is random.
    assert means[0] == pytest.approx(eps**2, rel=0.1)
    assert means[1] > 1.5 * eps**2
    assert found[IID, "Chebyshev"].n_components == pytest.approx(n / delta, rel=0.01)
    assert found[IID, "variance, normal errors"].n_components < found[IID, "Chebyshev"].n_components


def test_bernstein_holds_in_simulation_and_a_tenth_of_it_does_not():
    eps, delta, draws = 0.3, 0.1, 2000
    table = numbers(component_table(Matern(1.5, 2.0), eps, delta, X=X, max_components=16))
    n = table[IID, "Bernstein"].n_components
    assert n < table[IID, "Hoeffding"].n_components
    assert table[IID, "Bernstein, union"].n_components > n
    pair = np.array([[0.0, 0.0, 0.0, 0.0], [6.0, 0.0, 0.0, 0.0]])  # far: about the largest variance
    exact = Matern(1.5, 2.0)(pair)[0, 1]
    rng = np.random.default_rng(2)

    def failures(width):
        draw = RandomFourier(Matern(1.5, 2.0), 2 * (width // 2) * draws, directions="iid", random_state=rng).fit(pair)
        cosines = np.cos(draw.features_.projection(pair[1:] - pair[:1])[0]).reshape(draws, -1)
        return int((np.abs(cosines.mean(axis=1) - exact) > eps).sum())

    assert least_probability(failures(n), draws) <= delta
    assert least_probability(failures(n // 10), draws) > delta


def test_normal_quantile_of_mixed_variances():
    variance = np.array([1.0, 4.0, 0.0, 0.0])
    q = normal_quantile(variance, 0.1)
    assert (2 * stats.norm.sf(q) + 2 * stats.norm.sf(q / 2)) / 4 == pytest.approx(0.1, rel=1e-9)
    assert normal_quantile(np.zeros(3), 0.1) == 0.0


def test_uniform_numbers_are_the_least_of_their_bounds(gaussian):
    found = numbers(gaussian)
    diameter = 2 * np.linalg.norm(X - X.mean(axis=0), axis=1).max()
    assert diameter >= np.linalg.norm(X[:, None] - X, axis=2).max()
    n = found[IID, "Bernstein on a net"].n_components
    options = {"dimension": 4, "diameter": diameter, "spread": 2 / 3.0, "variance": 0.5}
    assert fourier_uniform_failure(0.05, n, **options) <= 0.05 < fourier_uniform_failure(0.05, n - 1, **options)
    (rules,) = {row.n_components for row in gaussian.rows if row.bound == "Hoeffding on a net"}
    rules = (rules - 1) // 10  # five points of a simplex, with two components each
    options = {"dimension": 4, "diameter": diameter / 3.0}
    assert (
        quadrature_uniform_failure(0.05, rules, **options)
        <= 0.05
        < quadrature_uniform_failure(0.05, rules - 1, **options)
    )


def test_dot_product_kernels_have_exact_features_and_the_bounds_of_their_series():
    kernel = Polynomial(3)
    found = numbers(component_table(kernel, 0.5, X=X, max_components=64))
    assert found["RandomMaclaurin", "exact features"].n_components == 35
    radius = np.abs(X).sum(axis=1).max()
    name = "RandomMaclaurin(plan='geometric')"
    assert found[name, "Hoeffding"].n_components == maclaurin_components(kernel, 0.5, radius=radius)
    uniform = maclaurin_components(kernel, 0.5, radius=radius, dimension=4)
    assert found[name, "Hoeffding on a net"].n_components == uniform


def test_kernels_of_infinite_mean_square_frequency_have_no_uniform_bound():
    row = numbers(component_table(Matern(0.5, 2.0), 0.2, X=X, max_components=16))[IID, "Bernstein on a net"]
    assert row.n_components is None
    assert row.note == "frequencies have no finite mean square"
    assert "unknown" in str(component_table(Matern(0.5, 2.0), 0.2, X=X, max_components=16))


@pytest.mark.slow
def test_variances_beyond_float64_have_no_number():
    far = 400.0 * X
    rows = component_table(Gaussian(30.0), 0.1, X=far, max_components=32).rows
    found = [row for row in rows if row.map == "RandomMaclaurin"]
    assert [row.n_components for row in found] == [None, None]
    assert all(row.note for row in found)


def test_sparse_rows_are_accepted():
    rows = np.where(np.abs(X) > 1, X, 0.0)
    dense, sparse = (
        component_table(Gaussian(2.0), 0.2, X=given, max_components=32) for given in (rows, sp.csr_array(rows))
    )
    assert [row.n_components for row in dense.rows] == [row.n_components for row in sparse.rows]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((Gaussian(), 0), "component_table: eps must be"),
        ((Gaussian(), 0.1, 1.0), "component_table: delta must be"),
        (("rbf", 0.1), "component_table: kernel must be a mercer kernel"),
    ],
)
def test_wrong_arguments_are_refused(arguments, says):
    with pytest.raises(ParameterError, match=says):
        component_table(*arguments)


def test_too_few_rows_are_refused():
    with pytest.raises(DataError, match="component_table: X must have at least 8 rows"):
        component_table(Gaussian(), 0.1, X=X[:7])


def test_no_map_needs_more_components_than_it_has_when_exact():
    rows = 5 * np.random.default_rng(0).normal(size=(60, 6))
    table = component_table(Polynomial(2), 1e-3, X=rows, max_components=16)
    numbers = {(row.bound, row.holds_for): row.n_components for row in table.rows if row.map == "RandomMaclaurin"}
    assert set(numbers.values()) == {28}


def test_a_kernel_without_bounds_for_any_rows_says_what_to_pass():
    assert "Pass rows like those of the application" in str(component_table(ArcCosine(1), 0.1))
