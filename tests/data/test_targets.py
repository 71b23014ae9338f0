"""Codings of targets: which rows have a target, which values of `unlabeled` are valid, kinds of labels."""

import numpy as np
import pandas as pd
import pytest

from mercer import DataError, Gaussian, KernelRidge, KernelRidgeClassifier, ParameterError
from mercer.data.targets import (
    HasTarget,
    Ignored,
    Labels,
    Numbers,
    as_targets,
    check_no_missing_targets,
    check_numeric,
    check_unlabeled_value,
    has_target,
    is_missing,
    known_labels,
    label_codes,
    label_kind,
    label_signs,
    plain_labels,
)
from mercer.engines import Block


@pytest.mark.parametrize(
    ("y", "unlabeled", "known"),
    [
        ([0, -1, 1], -1, [True, False, True]),
        ([0.5, np.nan, 1.0], np.nan, [True, False, True]),
        ([0.5, np.nan, 1.0], 0.5, [False, True, True]),  # then NaN is a target
        ([0.5, -9.0, 1.0], np.float32(-9), [True, False, True]),
        (["a", "?", "b"], "?", [True, False, True]),
        ([True, False, True], -1, [True, True, True]),
    ],
)
def test_rows_with_the_unlabeled_value_have_no_target(y, unlabeled, known):
    assert has_target(np.array(y), unlabeled).tolist() == known
    weight = np.array([1.0, 2.0, 3.0])
    some = HasTarget(unlabeled)(Block(5, np.arange(3.0)[:, None], np.array(y), weight))
    assert some.X[:, 0].tolist() == np.flatnonzero(known).tolist()
    assert some.index.tolist() == (5 + np.flatnonzero(known)).tolist()
    assert some.weight.tolist() == weight[known].tolist()
    assert np.array_equal(some.y, np.array(y)[known], equal_nan=np.array(y).dtype.kind == "f")


def test_nan_matches_every_missing_value_among_objects():
    y = np.array(["a", None, np.nan, pd.NA, np.float32("nan"), 0, "nan"], dtype=object)
    assert has_target(y, np.nan).tolist() == [True, False, False, False, False, True, True]
    assert has_target(y, pd.NA).tolist() == has_target(y, np.nan).tolist()


def test_the_unlabeled_value_is_found_beside_missing_values():
    y = np.array([0, None, "?", pd.NA, np.nan], dtype=object)
    assert has_target(y, "?").tolist() == [True, True, False, True, True]
    assert has_target(y, 0).tolist() == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [([3, np.int8(4)], int), ([0.0, 1], float), ([True, np.False_], bool), (["a", "bc"], object), ([b"a"], object)],
)
def test_numbers_and_booleans_among_objects_get_a_dtype_of_their_own(labels, dtype):
    y = np.array([*labels, "?"], dtype=object)
    some = HasTarget("?")(Block(0, np.zeros((len(y), 1)), y))
    known = known_labels("Learner", y, "?")
    for found in (some.y, known, plain_labels(np.array(labels, dtype=object))):
        assert found.dtype == dtype
        assert found.tolist() == labels


def test_lists_of_strings_and_other_values_are_not_converted():
    assert as_targets(["?", 0, None]).tolist() == ["?", 0, None]
    assert as_targets(("a", np.nan)).dtype == object
    for same in (["a", "b"], [0, 1], [[1, 2], [3, 4]], np.array(["a"]), []):
        assert as_targets(same) is same


@pytest.mark.parametrize(
    ("y", "unlabeled", "message"),
    [
        (
            [0, 1, None],
            -1,
            r"in 1 of 3 rows, which is not the value of unlabeled=-1\. Replace it .* set unlabeled=np\.nan",
        ),
        ([0.0, np.nan, np.nan], -1, "in 2 of 3 rows, which is not the value of unlabeled=-1"),
        (["a", pd.NA], "?", r"in 1 of 2 rows, which is not the value of unlabeled='\?'"),
        ([0, "b", "?"], "?", r"all booleans, except for unlabeled='\?'; got int 0 and str 'b'\. Try strings"),
        ([True, 2], None, r"all booleans; got bool True and int 2\. Try strings"),
        ([(1,), (2,)], "?", r"got tuple \(1,\)\. Try|got tuple \(1,\) and"),
    ],
)
def test_labels_of_several_kinds_raise(y, unlabeled, message):
    values = np.array(y) if isinstance(y[0], float) else np.empty(len(y), object)
    values[:] = y
    with pytest.raises(DataError, match=message):
        known_labels("Learner", values, unlabeled)


ROWS = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(("unlabeled", "expected"), [(-1, [-1, -1, -1]), ("?", ["?", "?", "?"])])
def test_rows_without_y_are_unlabeled(unlabeled, expected):
    _, y, coding = Labels(unlabeled).validate(KernelRidgeClassifier(), ROWS, None, reset=True)
    assert y.tolist() == expected
    assert coding.kind is None
    with pytest.raises(DataError, match=r"KernelRidge requires y to be passed, but .* such as unlabeled=np\.nan"):
        Numbers().validate(KernelRidge(), ROWS, None, reset=True)


@pytest.mark.parametrize("unlabeled", [np.nan, pd.NA])
def test_numbers_of_rows_without_y_are_missing_and_take_the_shape_of_later_blocks(unlabeled):
    model = KernelRidge()
    _, y, coding = Numbers(unlabeled).validate(model, ROWS, None, reset=True)
    assert y.shape == (3, 1)
    assert np.isnan(y).all()
    assert not coding.settled
    _, y, coding = coding.validate(model, ROWS, ROWS, reset=False)
    assert (coding.settled, coding.shape) == (True, (2,))
    _, y, _ = coding.validate(model, ROWS, None, reset=False)
    assert y.shape == (3, 2)


def test_the_first_block_settles_the_coding():
    _, y, coding = Numbers().validate(KernelRidge(), ROWS, [1, 2, 3], reset=True)
    assert (y.dtype, y.shape, coding.shape) == (np.float64, (3, 1), ())
    with pytest.raises(DataError, match=r"y must have the same shape in every block: needed \(n,\), got \(3, 2\)"):
        coding.validate(KernelRidge().fit(ROWS, [1, 2, 3]), ROWS, ROWS, reset=False)
    assert coding.validate(KernelRidge(), ROWS, ROWS, reset=True)[2].shape == (2,)
    model = KernelRidgeClassifier()
    _, _, coding = Labels().validate(model, ROWS, ["a", "b", "a"], reset=True)
    assert coding.kind == "strings"
    with pytest.raises(DataError, match="labels of the same kind in every block: needed strings, got numbers"):
        coding.validate(model, ROWS, [0, 1, 0], reset=False)
    assert coding.validate(model, ROWS, [0, 1, 0], reset=True)[2].kind == "numbers"


def test_ignored_targets_may_be_anything():
    X, y, coding = Ignored().validate(KernelRidge(), ROWS, "not targets", reset=True)
    assert np.array_equal(X, ROWS)
    assert y is None
    assert coding.settled


def test_known_labels_of_a_coding():
    assert Labels(-1).known([2, -1, 1]).tolist() == [2, 1]
    assert Labels(np.nan).known(["a", None, "b"]).tolist() == ["a", "b"]
    assert Labels("?").known(["?", 1, 0]).dtype.kind == "i"
    assert Labels().known(["b", "a"]).tolist() == ["b", "a"]


def test_codes_and_signs_of_labels():
    labels = np.array(["a", "b", "d"])
    codes = label_codes(np.array(["d", "a", "b"]), labels)
    assert codes.tolist() == [2, 0, 1]
    assert label_signs(codes, 3).tolist() == [[-1, -1, 1], [1, -1, -1], [-1, 1, -1]]
    assert label_signs(np.array([0, 1]), 2).tolist() == [[-1.0], [1.0]]
    assert label_codes(np.array(["z"]), labels).tolist() == [2]  # an unknown label has a valid code


def test_strings_are_not_numeric_targets():
    for y in (["1", "2e3"], np.array(["1", None], dtype=object), [1.0, 2.0], np.array([[1, None]], dtype=object)):
        check_numeric("Learner", y)
    for y in ([1.0, "?"], np.array([[0.5, "?"]], dtype=object), np.array(["?"])):
        with pytest.raises(
            DataError, match=r"Learner: targets must be numbers, got the string '\?'.* unlabeled=np\.nan"
        ):
            check_numeric("Learner", y)


def test_a_row_is_unlabeled_if_all_its_columns_are():
    y = np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]])
    assert has_target(y, np.nan).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("value", "missing"),
    [(np.nan, True), (None, True), (pd.NA, True), (0.0, False), (np.inf, False), ("nan", False), ("", False)],
)
def test_missing_values_are_recognized(value, missing):
    assert is_missing(value) is missing


def test_unlabeled_values_that_cannot_occur_raise():
    check_unlabeled_value("Learner", np.array([1, 2]), -1)
    check_unlabeled_value("Learner", np.array(["a"]), "?")
    check_unlabeled_value("Learner", np.array(["a", 1], dtype=object), -1)
    for wrong in (True, np.False_):
        with pytest.raises(
            ParameterError,
            match=r"unlabeled must be the value in y of rows without a target.*, got (np\.)?(True|False)",
        ):
            check_unlabeled_value("Learner", np.array([1, 2]), wrong)
    with pytest.raises(
        DataError, match=r"Learner: unlabeled='\?' is a string but y holds numbers\. Use a value of the kind"
    ):
        check_unlabeled_value("Learner", np.array([1, 2]), "?")
    with pytest.raises(DataError, match=r"unlabeled=-1 is a number but y holds strings\. Use a value of the kind"):
        check_unlabeled_value("Learner", np.array(["a"]), -1)
    with pytest.raises(
        DataError, match=r"In an array of strings NaN is the string 'nan': make y an array of dtype object"
    ):
        check_unlabeled_value("Learner", np.array(["a", np.nan]), np.nan)
    check_unlabeled_value("Learner", np.array(["a"]), np.nan)  # nothing is missing
    with pytest.raises(
        DataError, match=r"In an array of strings -1 is the string '-1': make y an array of dtype object"
    ):
        check_unlabeled_value("Learner", np.array(["a", -1]), -1)
    with pytest.raises(DataError, match=r"is a string but y holds numbers\. Use a number, such as np\.nan"):
        check_unlabeled_value("Learner", np.array([1.0]), "?")
    for unlabeled in (0, 1.0):
        with pytest.raises(DataError, match="equals one of the booleans of y"):
            check_unlabeled_value("Learner", np.array([True, False]), unlabeled)
    check_unlabeled_value("Learner", np.array([True, False]), -1)


def test_a_block_of_the_kind_of_earlier_labels_may_be_completely_labeled():
    check_unlabeled_value("Learner", np.array(["a"]), -1, "strings")
    check_unlabeled_value("Learner", np.array([1, 2]), "?", "numbers")
    with pytest.raises(DataError, match=r"In an array of strings -1 is the string '-1'"):
        check_unlabeled_value("Learner", np.array(["a", "-1"]), -1, "strings")
    for y, unlabeled, learned in (
        (np.array(["a"]), -1, "numbers"),
        (np.array([1]), "?", "strings"),
        (np.zeros(0), "?", None),
    ):
        with pytest.raises(DataError, match=r"is a (string|number) but y holds"):
            check_unlabeled_value("Learner", y, unlabeled, learned)


def test_missing_targets_raise_if_unlabeled_is_none():
    model = KernelRidge()
    for y in (np.array([1.0, 2.0]), [1, 2], ["a", "b"], np.array(["a"], dtype=object), None, 3.0, np.array([np.inf])):
        check_no_missing_targets(model, y)
    for y in (
        [0.5, np.nan, None],
        np.array(["a", None, np.nan], dtype=object),
        pd.Series([1, None, None], dtype="Int64"),
        np.array([[1.0, 2.0], [np.nan, 0.0], [0.0, np.nan]]),
    ):
        with pytest.raises(DataError, match=r"y contains NaN or None in 2 of 3 rows, first in row 1\..*=np"):
            check_no_missing_targets(model, y)


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.array([0, 1]), "numbers"),
        (np.array([0.0, np.nan]), "numbers"),
        (np.array([np.nan, np.nan]), None),
        (np.array([None, 1, 2.0], dtype=object), "numbers"),
        (np.array([b"a", np.nan], dtype=object), "bytes"),
        (np.array(["a"]), "strings"),
        (np.array([None, "a"], dtype=object), "strings"),
        (np.array([True]), "booleans"),
        (np.array([None, np.True_, False], dtype=object), "booleans"),
        (np.array([None, 1, "a"], dtype=object), "objects"),
        (np.array([None, np.nan], dtype=object), None),
    ],
)
def test_kinds_of_labels(y, kind):
    assert label_kind(y, np.nan) == kind


def test_without_an_unlabeled_value_every_entry_counts():
    assert label_kind(np.array([None, "a"], dtype=object), None) == "objects"
    assert label_kind(np.array(["a"], dtype=object), None) == "strings"
    assert label_kind(np.array([np.nan]), None) == "numbers"


@pytest.mark.parametrize("y", [np.full(3, -1), np.array([-1.0]), np.array([-1, -1], dtype=object), np.array([], int)])
def test_the_kind_of_no_labels_is_not_known(y):
    assert label_kind(y, -1) is None


@pytest.mark.parametrize("kind", ["M8[us]", "m8[s]"])
def test_dates_and_durations_are_no_targets_of_a_regression(kind):
    X, y = np.random.default_rng(0).normal(size=(30, 2)), np.arange(30).astype(kind)
    with pytest.raises(DataError, match=r"targets must be numbers, got (dates|durations) of type .* Pass seconds"):
        KernelRidge().fit(X, y)
    seconds = (y - y.min()) / np.timedelta64(1, "s")  # the advice
    assert np.isfinite(KernelRidge().fit(X, seconds).predict(X)).all()


@pytest.mark.parametrize(
    ("make", "labels"),
    [
        (lambda y: pd.Series(y, dtype="Int64"), [0, 7]),
        (lambda y: pd.array(y, dtype="UInt8"), [0, 7]),
        (lambda y: pd.Series(y, dtype="int64[pyarrow]"), [0, 7]),
        (lambda y: pd.Series([one == 7 for one in y], dtype="boolean"), [False, True]),
    ],
    ids=["Int64", "array", "arrow", "boolean"],
)
def test_nullable_labels_retain_their_type(make, labels):
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), make([0, 0, 7, 7])
    for unlabeled in (None, -1):
        model = KernelRidgeClassifier(Gaussian(1.0), unlabeled=unlabeled).fit(X, y)
        assert model.classes_.dtype == y.dtype.numpy_dtype
        assert model.predict(X[[0, 3]]).tolist() == labels
        assert model.score(X, y) == 1.0
    assert model.partial_fit(X, y).classes_.tolist() == labels


@pytest.mark.parametrize("unlabeled", [np.nan, pd.NA])
def test_nullable_labels_may_be_missing(unlabeled):
    X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), pd.Series([0, None, 7, 7], dtype="Int64")
    model = KernelRidgeClassifier(Gaussian(1.0), unlabeled=unlabeled).fit(X, y)
    assert model.classes_.dtype == np.int64
    assert model.predict(X[[0, 3]]).tolist() == [0, 7]
    assert model.score(X, y) == 1.0
    with pytest.raises(DataError, match=r"y contains NaN or None in 1 of 4 rows, first in row 1\."):
        KernelRidgeClassifier().fit(X, y)
