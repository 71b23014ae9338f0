"""Marks of targets that are not known: which rows have them, and which marks cannot be."""

import numpy as np
import pandas as pd
import pytest

from mercer import DataError, KernelRidge, ParameterError
from mercer.data.targets import (
    HasTarget,
    as_targets,
    check_no_missing_targets,
    check_numeric,
    check_unlabeled_value,
    has_target,
    is_missing,
    known_labels,
    label_kind,
    no_targets,
    plain,
)
from mercer.engines import Block


@pytest.mark.parametrize(
    ("y", "mark", "known"),
    [
        ([0, -1, 1], -1, [True, False, True]),
        ([0.5, np.nan, 1.0], np.nan, [True, False, True]),
        ([0.5, np.nan, 1.0], 0.5, [False, True, True]),  # NaN is then a target like any other
        ([0.5, -9.0, 1.0], np.float32(-9), [True, False, True]),
        (["a", "?", "b"], "?", [True, False, True]),
        ([True, False, True], -1, [True, True, True]),
    ],
)
def test_rows_with_the_mark_have_no_target(y, mark, known):
    assert has_target(np.array(y), mark).tolist() == known
    weight = np.array([1.0, 2.0, 3.0])
    some = HasTarget(mark)(Block(5, np.arange(3.0)[:, None], np.array(y), weight))
    assert some.X[:, 0].tolist() == np.flatnonzero(known).tolist()
    assert some.index.tolist() == (5 + np.flatnonzero(known)).tolist()
    assert some.weight.tolist() == weight[known].tolist()
    assert np.array_equal(some.y, np.array(y)[known], equal_nan=np.array(y).dtype.kind == "f")


def test_in_objects_all_that_is_missing_is_one_mark():
    y = np.array(["a", None, np.nan, pd.NA, np.float32("nan"), 0, "nan"], dtype=object)
    assert has_target(y, np.nan).tolist() == [True, False, False, False, False, True, True]
    assert has_target(y, pd.NA).tolist() == has_target(y, np.nan).tolist()


def test_of_objects_the_mark_is_found_beside_what_is_missing():
    y = np.array([0, None, "?", pd.NA, np.nan], dtype=object)
    assert has_target(y, "?").tolist() == [True, True, False, True, True]
    assert has_target(y, 0).tolist() == [False, True, True, True, True]


@pytest.mark.parametrize(
    ("labels", "dtype"),
    [([3, np.int8(4)], int), ([0.0, 1], float), ([True, np.False_], bool), (["a", "bc"], object), ([b"a"], object)],
)
def test_numbers_and_truth_values_among_marks_get_arrays_of_their_own(labels, dtype):
    y = np.array([*labels, "?"], dtype=object)
    some = HasTarget("?")(Block(0, np.zeros((len(y), 1)), y))
    known = known_labels(KernelRidge(unlabeled="?"), y)
    for found in (some.y, known, plain(np.array(labels, dtype=object))):
        assert found.dtype == dtype
        assert found.tolist() == labels


def test_lists_of_texts_and_other_things_stay_what_they_are():
    assert as_targets(["?", 0, None]).tolist() == ["?", 0, None]
    assert as_targets(("a", np.nan)).dtype == object
    for same in (["a", "b"], [0, 1], [[1, 2], [3, 4]], np.array(["a"]), []):
        assert as_targets(same) is same


@pytest.mark.parametrize(
    ("y", "mark", "message"),
    [
        (
            [0, 1, None],
            -1,
            r"in 1 of 3 rows, which is not the mark, unlabeled=-1\. Put the mark .* say unlabeled=np\.nan",
        ),
        ([0.0, np.nan, np.nan], -1, "in 2 of 3 rows, which is not the mark"),
        (["a", pd.NA], "?", r"in 1 of 2 rows, which is not the mark, unlabeled='\?'"),
        ([0, "b", "?"], "?", r"all truth values, but for the mark, unlabeled='\?'; got int 0 and str 'b'\. Try texts"),
        ([True, 2], None, r"all truth values; got bool True and int 2\. Try texts"),
        ([(1,), (2,)], "?", r"got tuple \(1,\)\. Try|got tuple \(1,\) and"),
    ],
)
def test_labels_of_several_kinds_are_refused(y, mark, message):
    values = np.array(y) if isinstance(y[0], float) else np.empty(len(y), object)
    values[:] = y
    with pytest.raises(DataError, match=message):
        known_labels(KernelRidge(unlabeled=mark), values)


def test_rows_without_targets_are_unlabeled_if_there_is_a_mark():
    assert no_targets(KernelRidge(unlabeled=-1), 3).tolist() == [-1, -1, -1]
    assert no_targets(KernelRidge(unlabeled="?"), 2).tolist() == ["?", "?"]
    for mark in (np.nan, pd.NA):
        assert np.isnan(no_targets(KernelRidge(unlabeled=mark), (2, 3))).all()
    with pytest.raises(DataError, match=r"KernelRidge requires y to be passed, but .* such as unlabeled=np\.nan"):
        no_targets(KernelRidge(), 3)


def test_texts_are_no_numbers():
    for y in (["1", "2e3"], np.array(["1", None], dtype=object), [1.0, 2.0], np.array([[1, None]], dtype=object)):
        check_numeric("Learner", y)
    for y in ([1.0, "?"], np.array([[0.5, "?"]], dtype=object), np.array(["?"])):
        with pytest.raises(DataError, match=r"Learner: targets must be numbers, got the text '\?'.* unlabeled=np\.nan"):
            check_numeric("Learner", y)


def test_several_columns_must_all_be_marked():
    y = np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]])
    assert has_target(y, np.nan).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("value", "missing"),
    [(np.nan, True), (None, True), (pd.NA, True), (0.0, False), (np.inf, False), ("nan", False), ("", False)],
)
def test_what_is_missing(value, missing):
    assert is_missing(value) is missing


def test_marks_that_could_mark_nothing_are_refused():
    check_unlabeled_value("Learner", np.array([1, 2]), -1)
    check_unlabeled_value("Learner", np.array(["a"]), "?")
    check_unlabeled_value("Learner", np.array(["a", 1], dtype=object), -1)
    for wrong in (True, np.False_):
        with pytest.raises(ParameterError, match=r"unlabeled must be what y holds .*, got (np\.)?(True|False)"):
            check_unlabeled_value("Learner", np.array([1, 2]), wrong)
    with pytest.raises(DataError, match=r"Learner: unlabeled='\?' cannot stand among the numbers of y\. Give a mark"):
        check_unlabeled_value("Learner", np.array([1, 2]), "?")
    with pytest.raises(DataError, match=r"unlabeled=-1 cannot stand among the texts of y\. Give a mark of their kind"):
        check_unlabeled_value("Learner", np.array(["a"]), -1)
    with pytest.raises(DataError, match=r"In an array of texts NaN is the text 'nan': make y an array of dtype object"):
        check_unlabeled_value("Learner", np.array(["a", np.nan]), np.nan)
    check_unlabeled_value("Learner", np.array(["a"]), np.nan)  # nothing is missing
    with pytest.raises(DataError, match=r"In an array of texts -1 is the text '-1': make y an array of dtype object"):
        check_unlabeled_value("Learner", np.array(["a", -1]), -1)
    with pytest.raises(DataError, match=r"among the numbers of y\. Give a number, such as np\.nan"):
        check_unlabeled_value("Learner", np.array([1.0]), "?")
    for mark in (0, 1.0):
        with pytest.raises(DataError, match="would be one of the truth values"):
            check_unlabeled_value("Learner", np.array([True, False]), mark)
    check_unlabeled_value("Learner", np.array([True, False]), -1)


def test_labels_of_the_kind_that_was_learned_need_hold_no_mark():
    check_unlabeled_value("Learner", np.array(["a"]), -1, "texts")
    check_unlabeled_value("Learner", np.array([1, 2]), "?", "numbers")
    with pytest.raises(DataError, match=r"In an array of texts -1 is the text '-1'"):
        check_unlabeled_value("Learner", np.array(["a", "-1"]), -1, "texts")
    for y, mark, learned in ((np.array(["a"]), -1, "numbers"), (np.array([1]), "?", "texts"), (np.zeros(0), "?", None)):
        with pytest.raises(DataError, match="cannot stand among"):
            check_unlabeled_value("Learner", y, mark, learned)


def test_what_is_missing_needs_a_mark():
    model = KernelRidge()
    for y in (np.array([1.0, 2.0]), [1, 2], ["a", "b"], np.array(["a"], dtype=object), None, 3.0, np.array([np.inf])):
        check_no_missing_targets(model, y)
    for y in (
        [0.5, np.nan, None],
        np.array(["a", None, np.nan], dtype=object),
        pd.Series([1, None, None], dtype="Int64"),
        np.array([[1.0, 2.0], [np.nan, 0.0], [0.0, np.nan]]),
    ):
        with pytest.raises(DataError, match=r"y contains NaN, or no value, in 2 of 3 rows, the first in row 1 .*=np"):
            check_no_missing_targets(model, y)


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.array([0, 1]), "numbers"),
        (np.array([0.0, np.nan]), "numbers"),
        (np.array([np.nan, np.nan]), None),
        (np.array([None, 1, 2.0], dtype=object), "numbers"),
        (np.array([b"a", np.nan], dtype=object), "bytes"),
        (np.array(["a"]), "texts"),
        (np.array([None, "a"], dtype=object), "texts"),
        (np.array([True]), "truth values"),
        (np.array([None, np.True_, False], dtype=object), "truth values"),
        (np.array([None, 1, "a"], dtype=object), "objects"),
        (np.array([None, np.nan], dtype=object), None),
    ],
)
def test_what_labels_are_made_of(y, kind):
    assert label_kind(y, np.nan) == kind


def test_without_a_mark_all_that_there_is_counts():
    assert label_kind(np.array([None, "a"], dtype=object), None) == "objects"
    assert label_kind(np.array(["a"], dtype=object), None) == "texts"
    assert label_kind(np.array([np.nan]), None) == "numbers"


@pytest.mark.parametrize("y", [np.full(3, -1), np.array([-1.0]), np.array([-1, -1], dtype=object), np.array([], int)])
def test_of_no_label_the_kind_is_not_known(y):
    assert label_kind(y, -1) is None
