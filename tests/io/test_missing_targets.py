"""Rows of files with missing targets, which learners accept with `unlabeled=np.nan`."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from mercer import (
    DataError,
    Gaussian,
    KernelKMeans,
    KernelLogisticRegression,
    KernelRidge,
    KernelRidgeClassifier,
    KernelSVC,
    RandomFourier,
    on_dask,
    open_rows,
)

from .conftest import joined

pytestmark = [pytest.mark.usefixtures("small_pieces"), pytest.mark.covering(1)]
FORMATS = ["csv", "parquet", "feather", "table"]
MAP = RandomFourier(Gaussian(1.5), 30, random_state=0)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(1500, 4))
# Blocks in which all, no or some targets are known.
KNOWN = {
    "some": RNG.random(1500) < 0.3,
    "first none": (np.arange(1500) > 400) & (RNG.random(1500) < 0.5),
    "first all": (np.arange(1500) < 400) | (RNG.random(1500) < 0.1),
}
CODES = (X[:, 0] * X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
TARGETS = {
    "numbers": X[:, 0] ** 2,
    "integers": CODES,
    "strings": np.array(["cat", "dog", "nan"])[CODES],  # "nan" is a label like any other
    "booleans": CODES > 0,
}


def opened(kind, folder, y, known, **chosen):
    """Write rows, some without a target, and open them."""
    values = pa.array(y.tolist(), mask=~known)
    table = pa.table({**{name: X[: len(y), i] for i, name in enumerate("abcd")}, "y": values})
    if kind == "table":
        return open_rows(table, target="y", **chosen)
    path = folder / f"t.{kind}"
    if kind == "csv":
        table.to_pandas().to_csv(path, index=False)
    elif kind == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=170)
    else:
        pyarrow.feather.write_feather(table, str(path), chunksize=130)
    return open_rows(path, target="y", **chosen)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("kind", FORMATS)
def test_regression_on_rows_with_missing_targets(kind, known, tmp_path):
    y, known = TARGETS["numbers"], KNOWN[known]
    source = opened(kind, tmp_path, y, known)
    got = joined(source)[1]
    assert got.dtype == np.float64
    assert np.array_equal(got, np.where(known, y, np.nan), equal_nan=True)
    model = KernelRidge(MAP, alpha=0.1, unlabeled=np.nan).fit(source)
    expected = KernelRidge(MAP, alpha=0.1).fit(X[known], y[known])
    assert np.allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("values", ["integers", "strings", "booleans"])
@pytest.mark.parametrize("kind", FORMATS)
def test_classification_on_rows_with_missing_labels(kind, values, known, tmp_path):
    if (kind, values) == ("csv", "booleans"):
        pytest.skip("booleans in CSV are read as strings")
    y, known = TARGETS[values], KNOWN[known]
    if values == "strings":
        y = np.where(y == "nan", "other", y)
    source = opened(kind, tmp_path, y, known)
    model = KernelRidgeClassifier(MAP, unlabeled=np.nan).fit(source)
    expected = KernelRidgeClassifier(MAP).fit(X[known], y[known])
    assert model.classes_.tolist() == expected.classes_.tolist()
    assert np.allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", [KernelLogisticRegression, KernelSVC])
def test_iterative_learners_on_rows_with_missing_labels(kind, tmp_path):
    feature_map = RandomFourier(Gaussian(1.5), 8, random_state=0)
    y, known = np.where(CODES > 0, "dog", "cat")[:200], np.arange(200) > 120
    for source in (opened("parquet", tmp_path, y, known), on_dask(opened("csv", tmp_path, y, known))):
        model = kind(feature_map, tol=1e-22, unlabeled=np.nan, random_state=0).fit(source)
        expected = kind(feature_map, tol=1e-22, random_state=0).fit(X[:200][known], y[known])
        assert model.classes_.tolist() == ["cat", "dog"]
        assert np.allclose(model.coef_, expected.coef_, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("values", TARGETS)
@pytest.mark.parametrize("kind", FORMATS)
def test_missing_targets_raise_without_unlabeled(kind, values, tmp_path):
    source = opened(kind, tmp_path, TARGETS[values], np.arange(1500) != 517)
    learner = KernelRidge(MAP) if values == "numbers" else KernelRidgeClassifier(MAP)
    match = r"(t\.|table).*: y contains NaN or None in 1 of \d+ rows, first in row \d+\..*unlabeled=np.nan"
    with pytest.raises(DataError, match=match):
        learner.fit(source)
    assert not hasattr(learner, "feature_map_")


def test_unsupervised_learners_ignore_missing_targets(tmp_path):
    source = opened("parquet", tmp_path, TARGETS["strings"], KNOWN["some"])
    assert KernelKMeans(MAP, 3, random_state=0).fit(source).cluster_centers_.shape == (3, 30)


def test_several_targets_with_missing_values(tmp_path):
    known = KNOWN["some"]
    y = np.where(known[:, None], np.column_stack([X[:, 0] ** 2, CODES]), np.nan)
    frame = pd.DataFrame(np.column_stack([X, y]), columns=list("abcdyz"))
    frame.to_parquet(tmp_path / "t.parquet")
    model = KernelRidge(MAP, unlabeled=np.nan).fit(open_rows(tmp_path / "t.parquet", target=["y", "z"]))
    expected = KernelRidge(MAP).fit(X[known], y[known])
    assert np.allclose(model.coef_, expected.coef_, rtol=1e-9, atol=1e-9)


def test_column_of_targets_that_are_all_missing(tmp_path):
    """Arrow gives such a column the type null."""
    y = TARGETS["strings"].astype(object)
    for name, targets in (("a", [None] * 1500), ("b", y)):
        columns = {key: X[:, i] for i, key in enumerate("abcd")}
        pyarrow.parquet.write_table(pa.table({**columns, "y": pa.array(targets)}), tmp_path / f"{name}.parquet")
    source = open_rows(tmp_path, target="y")
    assert joined(source)[1].tolist() == [*[None] * 1500, *y]
    with pytest.raises(DataError, match="NaN is the string 'nan'"):
        KernelRidgeClassifier(MAP, unlabeled=np.nan).fit(source)
    source = open_rows(tmp_path / "a.parquet", target="y")
    with pytest.raises(DataError, match="every target is unlabeled=nan"):
        KernelRidge(MAP, unlabeled=np.nan).fit(source)


def test_missing_label_among_127_labels_in_int8_codes():
    """The code of the missing label does not overflow."""
    labels = [f"label {i:03d}" for i in range(127)]
    values = pa.DictionaryArray.from_arrays(pa.array([*range(127), None], pa.int8()), pa.array(labels))
    got = joined(open_rows(pa.table({"a": np.ones(128), "y": values}), target="y"))[1]
    assert got.tolist() == [*labels, None]
    hole = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["u", None, "v"]))
    assert joined(open_rows(pa.table({"a": np.ones(3), "y": hole}), target="y"))[1].tolist() == ["u", None, "v"]
