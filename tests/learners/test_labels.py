"""Marks of targets that are not known: which rows have them, and which marks cannot be."""

import numpy as np
import pandas as pd
import pytest

from mercer import DataError, KernelRidge, ParameterError
from mercer.engines import Block
from mercer.learners.labels import HasLabel, check_mark, check_none_missing, has_label, is_missing, label_kind


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
    assert has_label(np.array(y), mark).tolist() == known
    assert HasLabel(mark)(Block(0, np.zeros((3, 1)), np.array(y), None)).tolist() == known


def test_in_objects_all_that_is_missing_is_one_mark():
    y = np.array(["a", None, np.nan, pd.NA, np.float32("nan"), 0, "nan"], dtype=object)
    assert has_label(y, np.nan).tolist() == [True, False, False, False, False, True, True]
    assert has_label(y, pd.NA).tolist() == has_label(y, np.nan).tolist()


def test_several_columns_must_all_be_marked():
    y = np.array([[1.0, np.nan], [np.nan, np.nan], [1.0, 2.0]])
    assert has_label(y, np.nan).tolist() == [True, False, True]


@pytest.mark.parametrize(
    ("value", "missing"),
    [(np.nan, True), (None, True), (pd.NA, True), (0.0, False), (np.inf, False), ("nan", False), ("", False)],
)
def test_what_is_missing(value, missing):
    assert is_missing(value) is missing


def test_marks_that_could_mark_nothing_are_refused():
    check_mark("Learner", np.array([1, 2]), -1)
    check_mark("Learner", np.array(["a"]), "?")
    check_mark("Learner", np.array(["a", 1], dtype=object), -1)
    for wrong in (True, np.False_):
        with pytest.raises(ParameterError, match=r"unlabeled must be what y holds .*, got (np\.)?(True|False)"):
            check_mark("Learner", np.array([1, 2]), wrong)
    with pytest.raises(DataError, match=r"Learner: unlabeled='\?' cannot stand among the numbers of y\. Give a mark"):
        check_mark("Learner", np.array([1, 2]), "?")
    with pytest.raises(DataError, match=r"unlabeled=-1 cannot stand among the texts of y\. Give a mark of their kind"):
        check_mark("Learner", np.array(["a"]), -1)
    with pytest.raises(DataError, match=r"In an array of texts NaN is the text 'nan': make y an array of dtype object"):
        check_mark("Learner", np.array(["a", np.nan]), np.nan)
    check_mark("Learner", np.array(["a"]), np.nan)  # nothing is missing


def test_what_is_missing_needs_a_mark():
    model = KernelRidge()
    for y in (np.array([1.0, 2.0]), [1, 2], ["a", "b"], np.array(["a"], dtype=object), None, 3.0, np.array([np.inf])):
        check_none_missing(model, y)
    for y in (
        [0.5, np.nan, None],
        np.array(["a", None, np.nan], dtype=object),
        pd.Series([1, None, None], dtype="Int64"),
        np.array([[1.0, 2.0], [np.nan, 0.0], [0.0, np.nan]]),
    ):
        with pytest.raises(DataError, match=r"y contains NaN, or no value, in 2 of 3 rows, the first in row 1 .*=np"):
            check_none_missing(model, y)


@pytest.mark.parametrize(
    ("y", "kind"),
    [
        (np.array([0, 1]), "numbers"),
        (np.array([0.0, np.nan]), "numbers"),
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
    assert label_kind(y, None) == ("objects" if y.dtype == object else kind)
