"""Types of attributes, and models that must be usable."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args, get_type_hints

import numpy as np
import pytest
from numpy.typing import NDArray

from mercer import Gaussian, KernelRidge, RandomFourier
from mercer.features import Features
from mercer.io.archive import ArchiveError
from mercer.kernels import Kernel
from mercer.model_files.checks import check_usable, fits
from mercer.model_files.registry import CLASSES, class_of, name_of

X = np.random.default_rng(0).normal(size=(30, 3))


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (1, int, True),
        (True, int, False),
        (np.int64(1), int, True),
        (1, float, True),
        (np.float32(1), float, True),
        ("1", float, False),
        (True, bool, True),
        (1, bool, False),
        (None, int | None, True),
        ("median", float | Literal["median"], True),
        ("mean", float | Literal["median"], False),
        (np.zeros(2), np.ndarray, True),
        ([0.0], np.ndarray, False),
        (np.zeros(2, np.int64), NDArray[np.int64], True),
        (np.zeros(2), NDArray[np.int64], False),
        ((1, 2), tuple[int, ...], True),
        ((1, "a"), tuple[int, ...], False),
        ((1,), tuple[int, int], False),
        ([1, 2], tuple[int, ...], False),
        ([1, 2], Sequence[int], True),
        ([1, "2"], list[int], False),
        ({"a": 1}, dict[str, int], True),
        ({1: 1}, dict[str, int], False),
        (Gaussian(), Kernel, True),
        (Gaussian, Kernel, False),
        (Gaussian(), Features, False),
        (np.subtract, Callable[[Any], Any], True),
        (print, Callable[[Any], Any], False),
        (Gaussian, Callable[[Any], Any], False),
        (object(), Any, True),
    ],
)
def test_fits(value, hint, expected):
    assert fits(value, hint) is expected


def parts_of(hint):
    yield hint
    for one in get_args(hint):
        yield from parts_of(one)


# Classes that are declared as parts of others, but not stored.
NOT_STORED = {
    "RowsInSource": "rows that stay in their source",
    "Progress": "what callables receive",
    "Engine": "backend",
}


def test_classes_that_are_parts_of_others_are_in_the_registry():
    for name in CLASSES:
        cls = class_of(name)
        if name in ("Pipeline", "Composed"):
            continue
        for hint in get_type_hints(cls).values():
            for part in parts_of(hint):
                is_class = isinstance(part, type) and part.__module__.startswith("mercer.")
                is_abstract = inspect.isabstract(part) or getattr(part, "_is_protocol", False)
                if is_class and not is_abstract and not part.__subclasses__():
                    assert name_of(part) or part.__name__ in NOT_STORED, f"{part} is a part of {name}"


def test_models_that_reject_rows_of_zeros_can_be_used():
    class Strict(RandomFourier):
        def transform(self, X):
            raise error

    model = Strict(Gaussian(), 8, random_state=0).fit(X)
    from mercer import DataError

    error = DataError("rows must be positive")
    check_usable(model)
    error = TypeError("an int is no array")
    with pytest.raises(ArchiveError, match="transform fails"):
        check_usable(model)


def test_models_whose_sums_are_not_solved_are_not_solved_by_the_check():
    model = KernelRidge(RandomFourier(Gaussian(), 8, random_state=0)).partial_fit(X, X[:, 0])
    check_usable(model)
    assert "coef_" not in vars(model)
