"""What adaptive tests report: lengthscales, the witness function, columns, figures."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from mercer import DataError, Gaussian, ParameterError, hsic_test, mmd_test

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def samples():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(300, 3)), rng.normal(size=(250, 3))
    Y[:, 1] += 1.0
    return X, Y


@pytest.fixture(scope="module")
def result(samples):
    return mmd_test(*samples, n_components=3000, n_permutations=99, random_state=0)


def test_witness_is_the_difference_of_kernel_means(samples, result):
    X, Y = samples
    rows = np.random.default_rng(1).normal(size=(20, 3))  # rows of neither sample
    witness = result.witness
    scaling = witness.features.scaling
    for kernel in (5, 9):
        k = Gaussian(result.scales.lengthscales[0][kernel])
        expected = k(scaling(rows), scaling(X)).mean(axis=1) - k(scaling(rows), scaling(Y)).mean(axis=1)
        np.testing.assert_allclose(witness(rows, kernel=kernel), expected, atol=0.05 * np.abs(expected).max() + 0.005)
    np.testing.assert_array_equal(witness(rows), witness(rows, kernel=result.scales.loudest[0]))
    np.testing.assert_allclose(witness(sp.csr_array(rows)), witness(rows), atol=1e-9)
    assert np.corrcoef(witness(rows), -rows[:, 1])[0, 1] > 0.5
    assert np.abs(witness(X, standardized=True)).max() > 3


def test_columns_that_differ_come_first(samples, result):
    first, *others = result.witness.columns()
    assert (first.column, first.name) == (1, "column 1")
    assert first.share > 0.8
    assert first.z > 10 > max(score.z for score in others)
    frames = [pd.DataFrame(rows, columns=["a", "b", "c"]) for rows in samples]
    named = mmd_test(*frames, n_permutations=19, random_state=0)
    assert named.witness.columns(1)[0].name == "b"
    axes, values = named.witness.on_grid(["b"], n_points=9)
    assert values.shape == (9,)
    assert values[0] > 0 > values[-1]
    assert axes[0][0] < -1
    with pytest.raises(ParameterError, match="a column must be an index from 0 to 2 or one of a, b, c, got 'z'"):
        named.witness.on_grid(["z"])


def test_grid_of_two_columns(result):
    axes, values = result.witness.on_grid(n_points=7)
    assert values.shape == (7, 7)
    row = np.array([[0.0, axes[0][2], 0.0]])
    order = [score.column for score in result.witness.columns(2)]
    row[0, order[1]] = axes[1][3]
    other = ({0, 1, 2} - set(order)).pop()
    row[0, other] = np.median(result.witness.rows[:, other])
    np.testing.assert_allclose(values[2, 3], result.witness(row)[0], atol=1e-9)
    with pytest.raises(ParameterError, match="columns must be one or two columns"):
        result.witness.on_grid([0, 1, 2])


def test_result_is_one_line_a_dictionary_and_a_figure(samples, result, tmp_path):
    assert "\n" not in repr(result)
    assert repr(result).startswith("mmd_test: p = 0.01 (99 permutations), score ")
    assert "loudest at lengthscale" in repr(result)
    found = json.loads(json.dumps(result.to_dict()))
    assert found["columns"][0]["column"] == 1
    assert len(found["scales"]["z"]) == 10
    assert np.argmin(found["scales"]["p_values"]) <= 9
    assert len(result.plot().axes) == 4  # with a color bar
    result.plot().savefig(tmp_path / "test.png")
    one_column = mmd_test(samples[0][:, :1], samples[1][:, 1:2], n_permutations=19, random_state=0)
    assert len(one_column.plot().axes) == 3
    given = mmd_test(*samples, Gaussian(1.0), n_permutations=19, random_state=0)
    assert len(given.plot().axes) == 1
    pairs = hsic_test(samples[0][:250], samples[1], n_permutations=19, random_state=0)
    assert len(pairs.plot().axes) == 3
    assert np.array(json.loads(json.dumps(pairs.to_dict()))["scales"]["z"]).shape == (8, 8)
    again = pickle.loads(pickle.dumps(result))
    np.testing.assert_array_equal(again.witness(samples[0][:5]), result.witness(samples[0][:5]))


def test_rows_of_another_width_raise(result):
    with pytest.raises(DataError, match="Witness: rows must have the 3 features of the samples, got 2"):
        result.witness(np.ones((4, 2)))
