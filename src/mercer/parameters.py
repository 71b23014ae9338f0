"""Domains of constructor parameters, declared in one table per class and checked in one place.

A class declares the domain of each parameter as data, and `check_parameters` raises if a value is outside its domain::

    class KernelRidge(...):
        parameter_domains = {
            "alpha": Interval(0, None) | Choice("loo", "evidence", "gcv"),
            "max_iter": Integer(1),
            "tol": Interval(0, None, closed="neither"),
            "rank": Integer(1) | Choice(None),
        }

The message names the object, the parameter, the allowed values and the value that was passed::

    KernelRidge: alpha must be a finite number >= 0 or one of 'auto', 'loo', 'evidence', 'gcv', got -1.

`new_of_known_names` raises for names that a class does not have, with advice what to write instead::

    Gaussian: there is no parameter gamma. scikit-learn's gamma is 1 / (2 lengthscale^2): write
    Gaussian(lengthscale=0.7071) or Gaussian.from_gamma(1).
"""

from __future__ import annotations

import inspect
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, wraps
from inspect import CO_VARARGS, CO_VARKEYWORDS
from math import isfinite
from numbers import Integral, Real
from types import CodeType
from typing import Any, Literal, ParamSpec, TypeVar

from mercer.errors import ParameterError, UnknownParameterError
from mercer.errors.spellings import advice

__all__ = [
    "Choice",
    "Domain",
    "Instance",
    "Integer",
    "Interval",
    "check_names",
    "check_parameter",
    "check_parameters",
    "check_sequence",
    "count_threads",
    "is_finite",
    "is_number",
    "known_names",
    "new_of_known_names",
    "shown",
]

P = ParamSpec("P")
T = TypeVar("T")


class Domain(ABC):
    """A set of allowed values of a parameter, with a description of the set for error messages."""

    @abstractmethod
    def __contains__(self, value: Any) -> bool:
        """Return whether a value belongs to the domain."""

    @abstractmethod
    def __str__(self) -> str:
        """Return the phrase that follows "must be" in an error message."""

    def __or__(self, other: Domain) -> Domain:
        return _Union(self, other)


@dataclass(frozen=True)
class Integer(Domain):
    """Integers >= `low` and, if `high` is not None, <= `high`; booleans are not integers.

    Examples
    --------
    >>> 3 in Integer(1), True in Integer(1), str(Integer(1))
    (True, False, 'an integer >= 1')
    """

    low: int
    high: int | None = None

    def __contains__(self, value: Any) -> bool:
        if not isinstance(value, Integral) or isinstance(value, bool):
            return False
        return self.low <= int(value) and (self.high is None or int(value) <= self.high)

    def __str__(self) -> str:
        return f"an integer >= {self.low}" if self.high is None else f"an integer from {self.low} to {self.high}"


@dataclass(frozen=True)
class Interval(Domain):
    """Finite real numbers from `low` to `high`; booleans are not numbers.

    Parameters
    ----------
    low : float
        Lower end.
    high : float or None, default=None
        Upper end; None means no upper end.
    closed : {"left", "right", "both", "neither"}, default="left"
        Which ends belong to the interval, as in scikit-learn. If `high` is None, only the lower end matters.

    Examples
    --------
    >>> 0 in Interval(0), float("inf") in Interval(0), str(Interval(0, closed="neither"))
    (True, False, 'a finite number > 0')
    >>> str(Interval(0, 1, closed="neither"))
    'a number > 0 and < 1'
    """

    low: float
    high: float | None = None
    closed: Literal["left", "right", "both", "neither"] = "left"

    def __contains__(self, value: Any) -> bool:
        if not is_number(value) or not is_finite(value):
            return False
        above = value >= self.low if self.closed in ("left", "both") else value > self.low
        if self.high is None:
            return above
        return above and (value <= self.high if self.closed in ("right", "both") else value < self.high)

    def __str__(self) -> str:
        low = f"{'>=' if self.closed in ('left', 'both') else '>'} {self.low:g}"
        if self.high is None:
            return f"a finite number {low}"
        return f"a number {low} and {'<=' if self.closed in ('right', 'both') else '<'} {self.high:g}"


class Choice(Domain):
    """The values passed to the constructor, usually strings or None, and no others.

    A value belongs to the set if it is one of these objects, or has the same type as one of them and is equal to it.
    For example, 1 does not belong to ``Choice(True)``, although ``1 == True``.

    Examples
    --------
    >>> "auto" in Choice("auto"), 1 in Choice(True), str(Choice("exact", "approximate"))
    (True, False, "one of 'exact', 'approximate'")
    """

    def __init__(self, *options: Any) -> None:
        self.options = options

    def __contains__(self, value: Any) -> bool:
        return any(value is option or (type(value) is type(option) and value == option) for option in self.options)

    def __str__(self) -> str:
        return repr(self.options[0]) if len(self.options) == 1 else f"one of {', '.join(map(repr, self.options))}"


class Instance(Domain):
    """Instances of the class `kind`, which error messages describe by `phrase`.

    Examples
    --------
    >>> str(Instance(dict, "a dictionary of options"))
    'a dictionary of options'
    """

    def __init__(self, kind: type | tuple[type, ...], phrase: str) -> None:
        self.kind = kind
        self.phrase = phrase

    def __contains__(self, value: Any) -> bool:
        return isinstance(value, self.kind)

    def __str__(self) -> str:
        return self.phrase


class _Union(Domain):
    """Values that belong to at least one of two domains: the result of ``left | right``."""

    def __init__(self, left: Domain, right: Domain) -> None:
        self.left = left
        self.right = right

    def __contains__(self, value: Any) -> bool:
        return value in self.left or value in self.right

    def __str__(self) -> str:
        return f"{self.left} or {self.right}"


def check_parameter(owner: str, name: str, value: Any, domain: Domain, *, hint: str = "") -> None:
    """Raise `ParameterError` unless a value lies in its domain.

    Parameters
    ----------
    owner : str
        Name of a class or function. The message starts with it.
    name : str
        Name of the parameter.
    value : object
        Value of the parameter.
    domain : Domain
        The allowed values.
    hint : str, default=""
        A sentence that is appended to the message and says what to try instead.
    """
    if value not in domain:
        msg = f"{owner}: {name} must be {domain}, got {shown(value)}."
        raise ParameterError(f"{msg} {hint}" if hint else msg)


def check_parameters(owner: Any, domains: Mapping[str, Domain], names: Iterable[str] | None = None) -> None:
    """Raise `ParameterError` for the first attribute of an object that lies outside its domain.

    Parameters
    ----------
    owner : object
        An estimator, whose parameters are attributes of the same names.
    domains : mapping of str to Domain
        The domain of each parameter. Parameters that are not listed are not checked.
    names : iterable of str, default=None
        Check only these parameters; None means all of `domains`.
    """
    for name in domains if names is None else names:
        check_parameter(type(owner).__name__, name, getattr(owner, name), domains[name])


def check_sequence(owner: str, name: str, values: Any, of: str) -> list[Any]:
    """Return the values of an argument as a list. Raise `ParameterError` if it is a single value or text."""
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        msg = f"{owner}: {name} must be a list or tuple of {of}, got {shown(values)}."
        raise ParameterError(msg)
    return list(values)


def is_finite(value: Any) -> bool:
    """Return whether a real number is finite in float64. An integer or a fraction beyond its range is not."""
    try:
        return isfinite(value)
    except OverflowError:
        return False


def shown(value: Any) -> str:
    """Return ``repr(value)``, or a description of an integer that has too many digits for it."""
    try:
        return repr(value)
    except ValueError:
        return f"an integer of more than {sys.get_int_max_str_digits()} digits"


def is_number(value: Any) -> bool:
    """Return whether a value is a real number, of Python or NumPy, and not a boolean."""
    return isinstance(value, Real) and not isinstance(value, bool)


# ---- names ------------------------------------------------------------------------------------


def new_of_known_names(cls: type[T], *args: Any, **kwargs: Any) -> T:
    """Return ``object.__new__(cls)``; raise if the arguments do not fit the constructor of the class.

    A base class sets ``__new__ = new_of_known_names`` and ``__signature__ = ConstructorSignature()``. The constructors
    of its subclasses stay as they are, also those that `dataclass` writes, and so do `inspect.signature`, pickle and
    scikit-learn's `clone`. The check takes microseconds, because it compares names with those of the code of the
    constructor, without a signature.
    """
    # A class without a constructor has that of object, which ignores arguments if there is a `__new__`.
    constructor = _no_parameters if cls.__init__ is object.__init__ else cls.__init__
    code = getattr(constructor, "__code__", None)
    if code is not None:
        _check_call(cls.__name__, code, args, kwargs, skipped=1)
    return object.__new__(cls)


class ConstructorSignature:
    """Descriptor that gives `inspect.signature` the parameters of the constructor of a class.

    Before Python 3.11.3, `inspect.signature` prefers an inherited ``__new__`` to an inherited ``__init__``.
    """

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        if instance is not None:  # that of a call of the instance, which `inspect` finds itself
            raise AttributeError
        constructor: Any = getattr(owner, "__init__")  # noqa: B009 - an instance may have another
        if constructor is object.__init__:
            return inspect.Signature()
        signature = inspect.signature(constructor)
        return signature.replace(parameters=list(signature.parameters.values())[1:])


def _no_parameters(self: Any) -> None:
    """Do nothing, as a constructor without parameters."""


def known_names(function: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function so that unknown keyword arguments raise with advice what to write instead."""
    code: CodeType = function.__code__

    @wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        _check_call(function.__name__, code, args, kwargs, skipped=0)
        return function(*args, **kwargs)

    return checked


def check_names(owner: str, params: Mapping[str, Any], accepted: Iterable[str]) -> None:
    """Raise `UnknownParameterError` if a name is not among the accepted ones, with advice what to write instead.

    Only the part of a name before ``__`` is compared, since the rest belongs to an inner object.
    """
    names = list(accepted)
    unknown = {name: value for name, value in params.items() if name.partition("__")[0] not in names}
    if unknown:
        what = "is no parameter" if len(unknown) == 1 else "are no parameters"
        msg = f"{owner}: there {what} {', '.join(unknown)}. {advice(owner, unknown, names)}"
        raise UnknownParameterError(msg)


def _check_call(owner: str, code: CodeType, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, skipped: int) -> None:
    """Raise if a call has unknown keyword arguments or too many positional ones.

    `skipped` is the number of leading parameters, such as self, that are not part of the call.
    """
    count = code.co_argcount
    names = code.co_varnames[skipped : count + code.co_kwonlyargcount]
    if not code.co_flags & CO_VARKEYWORDS and not all(map(names.__contains__, kwargs)):
        check_names(owner, {name: value for name, value in kwargs.items() if name not in names}, names)
    if len(args) > count - skipped and not code.co_flags & CO_VARARGS:
        most, extra = names[: count - skipped], args[count - skipped :]
        several = "positional argument" if len(most) == 1 else "positional arguments"
        listed = f" ({', '.join(most)})" if most else ""
        hint = f" Name the others: {', '.join(names[len(most) :])}." if len(names) > len(most) else ""
        msg = (
            f"{owner} takes {len(most)} {several}{listed}, got {len(args)}: "
            f"{', '.join(map(repr, extra))} {'has' if len(extra) == 1 else 'have'} no name.{hint}"
        )
        raise UnknownParameterError(msg)


def count_threads(n_jobs: int | None) -> int:
    """Return the number of threads for `n_jobs`; None means all cores that this process may use.

    Results do not depend on the number of threads, so the default is the fastest choice. Negative values count from
    the number of cores, as in joblib: -1 means all cores, and -2 all cores except 1.
    """
    if n_jobs is None:
        return _cores()
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool):
        msg = f"n_jobs must be None or an integer, got {n_jobs!r}."
        raise ParameterError(msg)
    if n_jobs == 0:
        msg = (
            "n_jobs must not be 0. Use None for all cores, a number of threads, or -1, -2, ... to count from all cores."
        )
        raise ParameterError(msg)
    return max(1, _cores() + 1 + n_jobs) if n_jobs < 0 else int(n_jobs)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    import joblib  # imported here because `mercer.linalg` must import without joblib

    affinity = frozenset(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None
    return _counted(joblib.cpu_count, affinity, os.environ.get("LOKY_MAX_CPU_COUNT"))


@cache
def _counted(count: Callable[[], int], affinity: frozenset[int] | None, limit: str | None) -> int:  # noqa: ARG001
    # joblib reads the limits of containers from files, which takes as long as the prediction of a row. The other
    # arguments are what the number of cores depends on.
    return int(count())
