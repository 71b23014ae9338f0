"""Covering arrays hold what they promise, and the quick tier is made of them."""

import doctest
import os
import shutil
import subprocess
import sys
from itertools import combinations, product
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mercer import Gaussian, KernelRidge, Matern, RandomFourier

from . import covering as module
from .covering import axes_of, cover, cover_parameters, covering

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=5)


def combined(rows, strength):
    """Return all combinations of values of `strength` axes that some row holds."""
    return {held for row in rows for held in combinations(enumerate(row), strength)}


@given(SIZES, st.integers(1, 3))
def test_every_combination_is_covered(sizes, strength):
    axes = [range(size) for size in sizes]
    strength = min(strength, len(axes))
    chosen = covering(*axes, strength=strength)
    assert combined(chosen, strength) == combined(product(*axes), strength)
    assert len(set(chosen)) == len(chosen)
    assert chosen == sorted(chosen)


@given(SIZES)
def test_every_value_once_takes_as_many_cases_as_the_longest_axis(sizes):
    assert len(covering(*map(range, sizes), strength=1)) == max(sizes)


@pytest.mark.parametrize(
    ("sizes", "at_most"),
    [([3] * 4, 12), ([4, 3, 3, 2, 2], 16), ([2] * 10, 12), ([5, 4], 20), ([7], 7), ([8] * 4, 112)],
)
def test_pairs_take_few_cases(sizes, at_most):
    # No array can have fewer cases than the two longest axes have pairs; the greedy one needs little more.
    number = len(covering(*map(range, sizes)))
    assert prod(sorted(sizes)[-2:]) <= number <= at_most


def test_a_combination_that_no_case_holds_is_not_asked_for():
    rows = [row for row in product(range(3), range(3), range(2)) if row[:2] != (2, 2)]
    chosen = [rows[k] for k in cover([dict(enumerate(row)) for row in rows])]
    assert combined(chosen, 2) == combined(rows, 2)
    assert len(chosen) < len(rows)


def test_the_names_of_values_do_not_matter():
    numbers = [dict(enumerate(row)) for row in product(range(3), range(4), range(2))]
    objects = [object() for _ in range(4)]
    renamed = [{f"axis{axis}": objects[value] for axis, value in case.items()} for case in numbers]
    assert cover(numbers) == cover(renamed)


def test_no_cases_no_axes_and_a_strength_of_zero():
    assert cover([]) == []
    assert cover([{}, {}]) == [0]
    assert cover([{0: 0}, {0: 1}], 0) == [0]
    with pytest.raises(ValueError, match="strength must be a non-negative integer, got -1"):
        cover([{0: 0}], -1)


def test_example_in_the_docstring():
    assert doctest.testmod(module).failed == 0


def test_axes_of_tuples_mappings_and_estimators():
    learner = KernelRidge(RandomFourier(Gaussian(), 9), alpha=0.1)
    axes = axes_of({"cell": (3, {"p": 2.0}), "learner": learner})
    assert axes["cell", 0] == (int, 3)
    assert axes["cell", 1, "p"] == (float, 2.0)
    assert axes["learner",] is KernelRidge
    assert axes["learner", KernelRidge, "alpha"] == (float, 0.1)
    assert axes["learner", KernelRidge, "feature_map"] is RandomFourier
    assert axes["learner", KernelRidge, "feature_map", RandomFourier, "kernel"] == (type(Gaussian()), Gaussian())


def test_axes_of_parts_of_parameters():
    assert axes_of({"cell": ("a", 1), "n": 7}, cell=lambda cell: cell[:1]) == {
        ("cell", 0): (str, "a"),
        ("n",): (int, 7),
    }
    assert axes_of({"x": RandomFourier()}, x=type) == {("x",): (type(RandomFourier), RandomFourier)}
    with pytest.raises(ValueError, match=r"the test has no parameters \['m'\], only \['n'\]"):
        axes_of({"n": 7}, m=type)


def test_equal_numbers_of_different_types_are_different_values():
    values = [1, 1.0, True, np.zeros(3), np.ones(3), [0.0], [1.0]]
    assert len({axes_of({"x": value})["x",] for value in values}) == len(values)
    assert axes_of({"x": np.zeros(3)}) == axes_of({"x": np.zeros(3)})


def test_configurations_are_covered_by_their_parameters():
    maps = [
        RandomFourier(kernel, 9, form=form, radii=radii)
        for kernel, form, radii in product(
            [Gaussian(), Matern()], ["pairs", "phase", "complex"], ["plain", "stratified"]
        )
    ]
    chosen = [maps[k] for k in cover_parameters([{"feature_map": m} for m in maps], 1)]
    assert len(chosen) == 3
    assert {m.form for m in chosen} == {"pairs", "phase", "complex"}
    assert {m.radii for m in chosen} == {"plain", "stratified"}
    assert {m.kernel for m in chosen} == {Gaussian(), Matern()}


SUITE = """
import pytest

pytestmark = pytest.mark.covering(strength=1)

@pytest.mark.parametrize("a", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("b", "xyz")
def test_product(a, b):
    pass

@pytest.mark.covering(1, value=type)
@pytest.mark.parametrize("value", [1, 2, 3.0])
def test_types(value):
    pass

@pytest.mark.slow
def test_slow():
    pass

def test_quick():
    pass
"""
QUICK = ["product[x-1]", "product[y-2]", "product[z-1]", "quick", "types[1]", "types[3.0]"]
SLOW = [
    "product[x-2]",
    "product[x-3]",
    "product[y-1]",
    "product[y-3]",
    "product[z-2]",
    "product[z-3]",
    "slow",
    "types[2]",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], QUICK),
        (["--all"], QUICK + SLOW),
        (["-m", "slow"], SLOW),
        (["-m", "slow or not slow"], QUICK + SLOW),
        (["tests/test_it.py::test_slow"], ["slow"]),
    ],
    ids=["quick", "all", "slow", "marks", "named"],
)
def test_tiers(arguments, expected, tmp_path):
    here = Path(__file__).parent
    (tmp_path / "tests").mkdir()
    for name in ("conftest.py", "covering.py"):
        shutil.copy(here / name, tmp_path / "tests")
    shutil.copy(here.parent / "pyproject.toml", tmp_path)
    (tmp_path / "tests" / "test_it.py").write_text(SUITE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *arguments],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    prefix = "PASSED tests/test_it.py::test_"
    ran = [line.removeprefix(prefix) for line in done.stdout.splitlines() if line.startswith(prefix)]
    assert sorted(ran) == sorted(expected)
