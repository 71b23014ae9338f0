"""Columns of all kinds of tables are shuffled, and those that matter are found."""

import numpy as np
import pytest
import scipy.sparse as sp

from mercer.diagnostics.fits import metric_shares, permutation_importances
from mercer.diagnostics.fits.tables import column_names, shuffled_column, take_rows
from mercer.errors import DataError


class FirstColumn:
    """A model that predicts the first column of any table."""

    def predict(self, X):
        if hasattr(X, "iloc"):
            return X.iloc[:, 0].to_numpy()
        if hasattr(X, "column_names"):
            return X.column(0).to_numpy()
        if hasattr(X, "with_columns"):
            return X[X.columns[0]].to_numpy()
        return X[:, [0]].toarray().ravel() if sp.issparse(X) else X[:, 0]


def table(kind, X):
    if kind == "pandas":
        pd = pytest.importorskip("pandas")
        # An index that is not that of positions, and a column of categories.
        frame = pd.DataFrame(X, columns=["a", "b"], index=np.arange(len(X)) * 7)
        return frame.assign(b=pd.Categorical(np.where(X[:, 1] > 0, "x", "y")))
    if kind == "polars":
        return pytest.importorskip("polars").DataFrame({"a": X[:, 0], "b": X[:, 1]})
    if kind == "pyarrow":
        pa = pytest.importorskip("pyarrow")
        return pa.table({"a": X[:, 0], "b": X[:, 1]})
    return sp.csr_array(X) if kind == "sparse" else X


KINDS = ["array", "sparse", "pandas", "polars", "pyarrow"]


@pytest.mark.parametrize("kind", KINDS)
def test_the_column_that_is_used_is_found_in_tables_of_all_kinds(kind):
    X = np.random.default_rng(0).normal(size=(400, 2))
    rows = table(kind, X)
    used, unused = permutation_importances(FirstColumn(), rows, X[:, 0])
    # Two independent draws of the same distribution differ by twice the variance.
    assert used.permutation == pytest.approx(2.0, abs=0.3)
    assert 0.02 < used.permutation_deviation < 0.3
    assert (unused.permutation, unused.permutation_deviation) == (0.0, 0.0)
    assert [used.column, unused.column] == (["a", "b"] if kind in KINDS[2:] else ["column 0", "column 1"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_shuffled_column_changes_nothing_else(kind):
    X = np.random.default_rng(1).normal(size=(50, 2))
    rows, order = table(kind, X), np.random.default_rng(2).permutation(50)
    shuffled = shuffled_column(rows, 0, order)
    assert type(shuffled) is type(rows) or sp.issparse(rows)
    np.testing.assert_array_equal(FirstColumn().predict(shuffled), X[order, 0])
    np.testing.assert_array_equal(FirstColumn().predict(rows), X[:, 0])
    assert column_names(shuffled) == column_names(rows)
    if kind == "pandas":
        assert shuffled["b"].equals(rows["b"])
        assert shuffled["b"].dtype == "category"
        assert shuffled_column(rows, 1, order)["b"].dtype == "category"
    np.testing.assert_array_equal(FirstColumn().predict(take_rows(rows, np.array([3, 1]))), X[[3, 1], 0])


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_standard_error_is_at_least_that_of_other_test_rows_and_at_most_twice(share):
    found = []
    for seed in range(60):
        X = np.random.default_rng(seed).normal(size=(300, 2))
        y = share * X[:, 0] + (1 - share) * X[:, 1] + 0.1 * np.random.default_rng(100 + seed).normal(size=300)
        model = FirstColumn()
        model.predict = lambda X: share * X[:, 0] + (1 - share) * X[:, 1]
        found.append(permutation_importances(model, X, y, n_repeats=1, random_state=seed)[0])
    spread = np.std([one.permutation for one in found], ddof=1)
    assert 0.75 * spread < np.mean([one.permutation_deviation for one in found]) < 2 * spread


def test_errors_of_the_model_itself_do_not_count():
    X = np.random.default_rng(0).normal(size=(300, 2))
    _, unused = permutation_importances(FirstColumn(), X, X[:, 0] + np.random.default_rng(1).normal(size=300))
    assert unused.permutation == 0


def test_labels_are_scored_by_accuracy():
    X = np.random.default_rng(0).integers(2, size=(600, 2)).astype(float)
    used, unused = permutation_importances(FirstColumn(), X, X[:, 0], score="accuracy")
    assert used.permutation == pytest.approx(0.5, abs=0.06)
    assert unused.permutation == 0


def test_columns_without_time_are_none_and_the_learned_metric_decides_the_order(monkeypatch):
    clock = iter(np.arange(0.0, 1000.0))
    monkeypatch.setattr("mercer.diagnostics.fits.importances.time.perf_counter", lambda: float(next(clock)))
    model = FirstColumn()
    model.importances_ = np.array([0.1, 0.0, 0.9])
    X = np.random.default_rng(0).normal(size=(100, 3))
    found = permutation_importances(model, X, X[:, 0], time_limit=1.5)
    assert [one.permutation is None for one in found] == [False, True, False]
    assert [one.metric for one in found] == [0.1, 0.0, 0.9]


def test_shares_of_the_metric_are_found_by_name():
    model = FirstColumn()
    assert metric_shares(model, ["a"]) is None
    model.importances_ = np.array([0.1, 0.2, 0.7])
    assert metric_shares(model, ["a", "b"]) is None
    np.testing.assert_array_equal(metric_shares(model, ["a", "b", "c"]), [0.1, 0.2, 0.7])
    model.feature_names_in_ = np.array(["a", "b", "c"])
    np.testing.assert_array_equal(metric_shares(model, ["c", "extra", "b", "a"]), [0.7, 0.0, 0.2, 0.1])


def test_names_and_targets_must_fit_the_table():
    with pytest.raises(DataError, match="one name per column"):
        permutation_importances(FirstColumn(), np.ones((3, 2)), [1.0, 2.0, 3.0], columns=["a"])
