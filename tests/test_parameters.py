"""Domains of parameters and the error texts of values outside of them."""

import copy
import inspect
import math
import pickle
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest

from mercer import (
    DataError,
    DotProduct,
    Gaussian,
    Matern,
    ParameterError,
    Polynomial,
    Transformed,
    UnknownParameterError,
)
from mercer.parameters import (
    Choice,
    ConstructorSignature,
    Instance,
    Integer,
    Interval,
    check_names,
    check_parameter,
    check_parameters,
    is_number,
    known_names,
    new_of_known_names,
)


class Model(SimpleNamespace):
    pass


@pytest.mark.parametrize("value", [1, 7, np.int64(3), np.uint8(255)])
def test_integers_of_python_and_numpy_belong_to_integer(value):
    assert value in Integer(1)


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True, np.float64(2.0), np.bool_(True)])
def test_other_values_do_not_belong_to_integer(value):
    assert value not in Integer(1)


def test_upper_end_of_integer_belongs_to_it():
    assert 5 in Integer(2, 5)
    assert 6 not in Integer(2, 5)
    assert str(Integer(2, 5)) == "an integer from 2 to 5"


@pytest.mark.parametrize(
    ("closed", "inside", "text"),
    [
        ("left", [1.0, 1.5], "a number >= 1 and < 2"),
        ("right", [1.5, 2.0], "a number > 1 and <= 2"),
        ("both", [1.0, 1.5, 2.0], "a number >= 1 and <= 2"),
        ("neither", [1.5], "a number > 1 and < 2"),
    ],
)
def test_ends_of_an_interval(closed, inside, text):
    interval = Interval(1, 2, closed=closed)
    assert [v for v in (0.9, 1.0, 1.5, 2.0, 2.1) if v in interval] == inside
    assert str(interval) == text


def test_an_interval_without_upper_end_holds_finite_numbers_only():
    assert str(Interval(0.5)) == "a finite number >= 0.5"
    assert all(value in Interval(0) for value in (0, 1e300, np.float32(2), np.int8(3), Fraction(1, 2)))
    assert not any(value in Interval(0) for value in (np.inf, np.nan, True, "1", None, -1, 1j, np.array(1.0)))


def test_options_match_by_type_and_value():
    choice = Choice("auto", None, 1)
    assert "auto" in choice
    assert None in choice
    assert 1 in choice
    assert not any(value in choice for value in (True, 1.0, "none", np.array(["auto"]), []))
    assert str(choice) == "one of 'auto', None, 1"
    assert str(Choice("median")) == "'median'"


def test_an_instance_is_described_by_its_phrase():
    assert {} in Instance(dict, "a dictionary")
    assert [] not in Instance(dict, "a dictionary")
    assert 1 in Instance((int, str), "an integer or a string")


def test_domains_are_joined_in_order():
    domain = Choice("auto") | Interval(0, closed="neither") | Choice(None)
    assert str(domain) == "'auto' or a finite number > 0 or None"
    assert all(value in domain for value in ("auto", 0.1, None))
    assert 0 not in domain


def test_the_first_bad_parameter_is_reported():
    domains = {"width": Integer(1), "tol": Interval(0) | Choice("auto")}
    check_parameters(Model(width=3, tol="auto"), domains)
    with pytest.raises(ParameterError, match=r"^Model: width must be an integer >= 1, got 0\.$"):
        check_parameters(Model(width=0, tol=-1), domains)
    with pytest.raises(ParameterError, match=r"^Model: tol must be a finite number >= 0 or 'auto', got -1\.$"):
        check_parameters(Model(width=0, tol=-1), domains, ["tol"])


def test_a_hint_follows_what_was_got():
    with pytest.raises(ParameterError, match=r"^fit: cv must be an integer >= 2, got 1\. Try cv=5\.$"):
        check_parameter("fit", "cv", 1, Integer(2), hint="Try cv=5.")


def test_booleans_are_not_numbers():
    assert is_number(np.float32(1))
    assert not is_number(True)
    assert not is_number("1")


class Base:
    __new__ = new_of_known_names
    __signature__ = ConstructorSignature()


class Plain(Base):
    def __init__(self, one=1, *, two=2):
        self.one = one
        self.two = two


@dataclass(frozen=True)
class Data(Base):
    one: int = 1


class Open(Base):
    def __init__(self, *args, **kwargs):
        self.args = args
        self.kwargs = kwargs


class Nothing(Base):
    pass


class Inherited(Plain):
    def __call__(self, x):
        return x


def test_names_are_compared_with_those_of_the_constructor():
    assert Plain(3, two=4).two == 4
    assert Data(one=2).one == 2
    assert Open(1, three=3).kwargs == {"three": 3}
    assert isinstance(Nothing(), Nothing)
    for wrong in (lambda: Plain(three=3), lambda: Data(ones=1), lambda: Plain(1, 2), lambda: Data(1, 2)):
        with pytest.raises(UnknownParameterError):
            wrong()
    with pytest.raises(UnknownParameterError, match="Nothing takes 0 positional arguments, got 1: 7 has no name"):
        Nothing(7)
    with pytest.raises(
        UnknownParameterError, match=r"Nothing: there is no parameter one\. Nothing has no parameters\."
    ):
        Nothing(one=7)


def test_the_check_of_names_is_invisible_to_tools():
    assert str(inspect.signature(Plain)) == "(one=1, *, two=2)"
    assert str(inspect.signature(Data)) == "(one: int = 1) -> None"
    assert str(inspect.signature(Inherited)) == "(one=1, *, two=2)"
    assert str(inspect.signature(Nothing)) == "()"
    assert str(inspect.signature(Inherited())) == "(x)"
    assert pickle.loads(pickle.dumps(Data(5))) == Data(5)
    assert copy.copy(Plain(5)).one == 5
    assert copy.deepcopy(Plain(5)).one == 5


def test_functions_have_names_too():
    @known_names
    def function(a, *, weight=1):
        """Return the sum."""
        return a + weight

    assert function(1, weight=2) == 3
    assert function.__doc__ == "Return the sum."
    assert str(inspect.signature(function)) == "(a, *, weight=1)"
    with pytest.raises(
        UnknownParameterError, match=r"function: there is no parameter weihgt\. Did you mean weight=2\?"
    ):
        function(1, weihgt=2)
    with pytest.raises(
        UnknownParameterError, match=r"function takes 1 positional argument \(a\), got 2: 2 has no name"
    ):
        function(1, 2)


def test_inner_names_are_left_to_the_inner_object():
    check_names("Map", {"kernel__lengthscale": 2}, ["kernel"])
    with pytest.raises(UnknownParameterError, match="Map: there is no parameter kernl__lengthscale"):
        check_names("Map", {"kernl__lengthscale": 2}, ["kernel"])


def test_integers_beyond_float64_are_outside_of_an_interval():
    for value in (10**400, -(10**400), Fraction(10**400, 3)):
        assert value not in Interval(0)
        assert value not in Interval(-math.inf, closed="neither")
    assert 10**300 in Interval(0)
    with pytest.raises(ParameterError, match="Owner: alpha must be a finite number >= 0, got 1000"):
        check_parameter("Owner", "alpha", 10**400, Interval(0))
    # Python refuses to write integers of more than 4300 digits.
    with pytest.raises(
        ParameterError, match=r"alpha must be a finite number >= 0, got an integer of more than \d+ digits"
    ):
        check_parameter("Owner", "alpha", 10**5000, Interval(0))


@pytest.mark.parametrize("big", [10**400, 10**5000], ids=["400", "5000"])
def test_kernels_refuse_integers_beyond_float64(big):
    for make in (
        lambda: Gaussian(big),
        lambda: Matern(big),
        lambda: Gaussian.from_gamma(big),
        lambda: Polynomial(big),
        lambda: Polynomial(2, big),
        lambda: DotProduct([1, big]),
        lambda: big * Gaussian(),
        lambda: Gaussian() + big,
        lambda: Transformed(Gaussian(), lengthscales=(big,)),
    ):
        with pytest.raises(ParameterError):
            make()
    with pytest.raises(DataError, match="rows must be numbers"):
        Gaussian()([[big]])
