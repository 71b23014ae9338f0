"""The test of conditional independence: level, power, invariances, backends, inputs."""

import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import binom

from mercer import DataError, MercerWarning, ParameterError, conditional_independence_test, open_rows
from mercer.hypothesis_tests.given import independence
from mercer.hypothesis_tests.given.independence import ProductMoments, null_weights


def chain(n, d, seed, effect=0.0):
    """Return x <- z -> y with post-nonlinear functions, and a common noise if `effect` is not zero."""
    rng = np.random.default_rng([seed, n, d])
    functions = [lambda t: t, np.square, lambda t: t**3, np.tanh, lambda t: np.exp(-np.abs(t))]
    z = rng.normal(size=(n, d))
    t, common = z.sum(axis=1) / np.sqrt(d), effect * rng.normal(size=n)
    x, y = (functions[rng.integers(5)](t + common + rng.normal(size=n)) for _ in range(2))
    return x, y, z


@pytest.mark.parametrize("d", [1, 4])
def test_level_at_few_rows(d):
    draws = 60
    rejected = sum(conditional_independence_test(*chain(250, d, seed)).p_value <= 0.05 for seed in range(draws))
    assert rejected <= binom.isf(1e-4, draws, 0.05)
    # The same pairs are dependent if z is not known.
    twin = sum(conditional_independence_test(*chain(250, d, seed)[:2]).p_value <= 0.05 for seed in range(10))
    assert twin >= 6


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 5, 10])
def test_level_does_not_grow_with_the_rows(d):
    draws = 40
    rejected = sum(conditional_independence_test(*chain(10_000, d, seed)).p_value <= 0.05 for seed in range(draws))
    assert rejected <= binom.isf(1e-4, draws, 0.05)


def shaped(name, n, seed, noise=0.3, effect=0.0):
    """Return x and y that depend on z alike, by a function that is rough or that needs several columns."""
    rng = np.random.default_rng([seed, n])
    d = {"sine of many periods": 1, "heavy tails": 1, "product of two": 2, "product of three": 3, "one of five": 5}[
        name
    ]
    z = rng.standard_t(3, size=(n, d)) if name == "heavy tails" else rng.normal(size=(n, d))
    f = {
        "sine of many periods": lambda: np.sin(20 * z[:, 0]),
        "heavy tails": lambda: np.sin(5 * z[:, 0]),
        "product of two": lambda: z[:, 0] * z[:, 1],
        "product of three": lambda: z[:, 0] * z[:, 1] * z[:, 2],
        "one of five": lambda: np.sin(5 * z[:, 2]),
    }[name]()
    common = effect * rng.normal(size=n)
    x, y = (f + noise * (rng.normal(size=n) + common) for _ in range(2))
    return x, y, z


SHAPES = ("sine of many periods", "product of three", "heavy tails", "one of five")


def rejections(name, draws, n=250):
    """Return how many of several samples are rejected at a level of 5 %."""
    return sum(conditional_independence_test(*shaped(name, n, seed)).p_value <= 0.05 for seed in range(draws))


@pytest.mark.parametrize(
    "name", [name if i < 2 else pytest.param(name, marks=pytest.mark.slow) for i, name in enumerate(SHAPES)]
)
def test_level_where_functions_are_rough_or_products(name, monkeypatch):
    draws = 8
    # A test whose level is 10 % at most exceeds this number with a probability below 1e-3.
    allowed = binom.isf(1e-3, draws, 0.1)
    assert rejections(name, draws) <= allowed
    monkeypatch.setattr(independence, "TUNED_UP_TO", 0.0)  # the twin: without tuned kernels
    assert rejections(name, draws) > allowed


@pytest.mark.parametrize("name", ["sine of many periods", "product of two"])
def test_power_where_functions_are_rough_or_products(name):
    rejected = [conditional_independence_test(*shaped(name, 300, s, effect=1.0)).p_value <= 0.05 for s in range(3)]
    assert sum(rejected) >= 2


def test_jumps_that_are_not_resolved_raise_a_warning():
    rng = np.random.default_rng(1)
    z = rng.normal(size=500)
    jumps = np.sign(np.sin(3 * z))
    x, y = jumps + 0.1 * rng.normal(size=500), jumps + 0.1 * rng.normal(size=500)
    with pytest.warns(MercerWarning, match="still depend on Z"):
        result = conditional_independence_test(x, y, z)
    assert max(result.unresolved) < 0.01
    with warnings.catch_warnings():  # the twin: a dependence that is there, of smooth functions
        warnings.simplefilter("error")
        found = conditional_independence_test(*shaped("product of two", 300, 0, effect=1.0))
    assert found.p_value < 0.05
    assert max(found.unresolved) > 0.01


@pytest.mark.slow
def test_power_where_the_first_regressions_suffice_is_not_lost_to_tuned_kernels(monkeypatch):
    draws, n, d = 8, 500, 10

    def power():
        return sum(conditional_independence_test(*chain(n, d, s, effect=0.6)).p_value <= 0.05 for s in range(draws))

    found = power()
    monkeypatch.setattr(independence, "IMPROVED", -np.inf)  # the twin: residuals of tuned kernels in any case
    assert found > power()
    monkeypatch.setattr(independence, "TUNED_UP_TO", 0.0)
    assert found >= power() - 1


def test_residuals_of_columns_are_tested_where_both_sides_underfit(monkeypatch):
    x, _, z = shaped("sine of many periods", 250, 0, effect=1.0)
    rng = np.random.default_rng(0)
    y = z[:, 0] + x - np.sin(20 * z[:, 0]) + 0.3 * rng.normal(size=250)  # the noise of x, but a smooth function of z
    one_sided = conditional_independence_test(x, y, z)
    assert one_sided.passes == 8
    assert one_sided.p_value < 0.05
    monkeypatch.setattr(independence, "ROUGHER", np.inf)  # by the improvement of the columns alone
    assert conditional_independence_test(*shaped("sine of many periods", 250, 4)).passes == 10


def test_residuals_of_columns_are_tested_where_features_are_rougher_than_columns(monkeypatch):
    variables = shaped("product of three", 250, 5)
    resolved = conditional_independence_test(*variables)
    assert resolved.passes == 9
    assert resolved.p_value > 0.05
    # The twin: the columns are resolved without tuned kernels already, so that their improvement shows nothing.
    monkeypatch.setattr(independence, "ROUGHER", np.inf)
    features_only = conditional_independence_test(*variables)
    assert features_only.passes == 8
    assert features_only.p_value < 0.01


def test_dependence_through_common_noise_is_found():
    assert conditional_independence_test(*chain(1000, 3, 0, effect=1.5)).p_value < 1e-4


def test_dependence_whose_sign_changes_with_z_is_found():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(2000, 2))
    common = rng.normal(size=2000)
    x = z[:, 0] + rng.normal(size=2000) + common
    y = z[:, 0] + rng.normal(size=2000) + np.sign(z[:, 1]) * common
    assert conditional_independence_test(x, y, z).p_value < 1e-4


def test_p_values_do_not_depend_on_units_and_tails():
    x, y, z = chain(300, 2, 1)
    expected = conditional_independence_test(x, y, z)
    other = conditional_independence_test(1e8 * x, 5 - y / 1e6, np.sinh(3 * z))
    assert other.p_value == pytest.approx(expected.p_value, rel=1e-6)
    assert conditional_independence_test(x, y, z, n_jobs=2).p_value == expected.p_value


def test_statistic_and_weights_are_those_of_the_moments():
    rng = np.random.default_rng(0)
    products = rng.normal(size=(50, 3))
    total = ProductMoments(50, products.sum(axis=0), products.T @ products)
    statistic, weights = null_weights(total, 3, 1.1)
    assert statistic == pytest.approx(50 * np.square(products.mean(axis=0)).sum())
    np.testing.assert_allclose(np.sort(weights), np.linalg.eigvalsh(1.1 * products.T @ products / 50))
    # Products with functions of z get half of the variance of the others.
    _, weights = null_weights(total, 2, 1.0)
    assert weights.sum() == pytest.approx(1.5 * np.square(products[:, :2]).sum() / 50)


def test_same_p_value_in_memory_from_blocks_files_and_dask(tmp_path):
    da = pytest.importorskip("dask.array")
    x, y, z = chain(400, 3, 2)
    rows = np.column_stack([z, x, y])
    expected = conditional_independence_test(x, y, z).p_value
    assert conditional_independence_test(3, -1, [0, 1, 2], data=rows).p_value == pytest.approx(expected, abs=0.2)
    expected = conditional_independence_test(3, -1, [0, 1, 2], data=rows).p_value
    np.save(tmp_path / "rows.npy", rows)
    blocks = [(rows[:150],), (rows[150:],)]
    for data in (open_rows(tmp_path / "rows.npy"), blocks, da.from_array(rows, chunks=(100, 5))):
        found = conditional_independence_test(3, -1, [0, 1, 2], data=data).p_value
        assert found == pytest.approx(expected, rel=1e-6)


def test_columns_of_a_data_frame_by_name():
    pd = pytest.importorskip("pandas")
    x, y, z = chain(200, 1, 3)
    frame = pd.DataFrame({"z": z[:, 0], "x": x, "y": y})
    by_name = conditional_independence_test("x", ["y"], "z", data=frame)
    assert by_name.p_value == conditional_independence_test(1, 2, 0, data=frame.to_numpy()).p_value
    with pytest.raises(ParameterError, match="must name columns of data, got 'w'"):
        conditional_independence_test("x", "w", data=frame)


def test_categories_ties_constants_and_sparse_rows():
    rng = np.random.default_rng(0)
    group = rng.integers(5, size=400)
    x, y = group % 2 + rng.integers(3, size=400), (group > 2) + rng.integers(2, size=400)
    hot = np.eye(5)[group]
    for z in (group, hot, sp.csr_array(hot), np.column_stack([hot, hot, np.ones(400)]), group.astype("f4")):
        assert conditional_independence_test(x, y, z).p_value > 1e-3
    assert conditional_independence_test(x, y, np.zeros((400, 0))).n_features == (1, 1, 0)
    assert conditional_independence_test(x, y, np.ones((400, 2))).components[2] == 0
    constant = conditional_independence_test(np.ones(400), y, group)
    assert (constant.p_value, constant.statistic) == (1.0, 0.0)
    assert "p = 1" in repr(constant)


def test_unordered_categories_as_integers_are_resolved():
    rng = np.random.default_rng(0)
    group = rng.integers(30, size=2000)
    effect = rng.normal(size=30)[group]
    x, y = effect + 0.5 * rng.normal(size=2000), effect + 0.5 * rng.normal(size=2000)
    assert conditional_independence_test(x, y, group).p_value > 1e-3
    assert conditional_independence_test(x, y, group // 3).p_value < 1e-6


def test_function_of_z_leaves_nothing_to_test():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 1))
    assert conditional_independence_test(z[:, 0], z[:, 0] + rng.normal(size=500), z).p_value > 1e-3
    assert conditional_independence_test(z, np.exp(z), z).p_value == 1.0


def test_result_prints_and_converts():
    result = conditional_independence_test(*chain(200, 1, 4))
    assert "\n" not in repr(result)
    assert "z explains" in repr(result)
    assert json.loads(json.dumps(result.to_dict()))["p_value"] == result.p_value
    assert (result.statistic > result.threshold(0.05)) == (result.p_value < 0.05)
    assert result.passes == 4


def test_plot_shows_the_null_distribution():
    pytest.importorskip("matplotlib")
    assert conditional_independence_test(*chain(200, 1, 4)).plot().axes[0].get_xlabel() == "statistic"


def test_invalid_input_is_refused():
    x, y, z = chain(100, 1, 0)
    with pytest.raises(DataError, match="equal length, got 100, 99, 100"):
        conditional_independence_test(x, y[:-1], z)
    with pytest.raises(DataError, match="at least 20 rows, got 5"):
        conditional_independence_test(x[:5], y[:5], z[:5])
    with pytest.raises(DataError, match="got None"):
        conditional_independence_test(x, None, z)
    with pytest.raises(ValueError, match="NaN"):
        conditional_independence_test(x, y, np.where(z > 0, np.nan, z))
    with pytest.raises(ParameterError, match="indices of the 3 columns"):
        conditional_independence_test(0, 3, data=np.zeros((50, 3)))
    with pytest.raises(ParameterError, match="at least one column"):
        conditional_independence_test(0, [], data=np.zeros((50, 3)))
