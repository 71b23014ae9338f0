"""Checks of parameters that several classes share."""

from types import SimpleNamespace

import numpy as np
import pytest

from mercer import ParameterError
from mercer.maps.parameters import check_choice, check_count


@pytest.mark.parametrize("value", [1, np.int32(7)])
def test_counts_pass(value):
    check_count(SimpleNamespace(width=value), "width")


@pytest.mark.parametrize("value", [0, -3, 2.0, True, "many", None])
def test_other_values_than_counts_are_refused(value):
    with pytest.raises(ParameterError, match=rf"SimpleNamespace: width must be an integer >= 1, got {value!r}\."):
        check_count(SimpleNamespace(width=value), "width")


def test_choices_are_words_of_a_closed_set():
    check_choice(SimpleNamespace(form="pairs"), "form", {"pairs": 1, "phase": 2})
    with pytest.raises(ParameterError, match=r"SimpleNamespace: form must be one of 'pairs', 'phase', got 'pair'\."):
        check_choice(SimpleNamespace(form="pair"), "form", ("pairs", "phase"))
