r"""Validation of the arguments of `mercer.theory`: the domain of each parameter, and the decorator that checks it.

A function of `mercer.theory` declares the domain of every parameter in a `checked` decorator. The decorator converts
the arguments (numbers to float or int, arrays to float64) and raises `ParameterError` for a value outside its domain,
so that the functions compute with validated numbers. Relations between arguments, such as :math:`|k| \le Z`, are
checked by `within`, which clips values that exceed the boundary only by rounding error.

If a bound exceeds the range of float64, or is NaN there, `probability` returns 1 and `upper` returns infinity.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Collection
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, Literal, NoReturn, ParamSpec, TypeVar

import numpy as np

from mercer._docs import PARAGRAPHS, doc
from mercer.errors import ParameterError, UnsupportedKernelError
from mercer.kernels import Kernel
from mercer.kernels.dot_product import DotProductKernel

__all__ = [
    "AMBIENT",
    "AT_LEAST_ZERO",
    "BASE",
    "BOUND",
    "COUNT",
    "DEGREE",
    "DISTANCES",
    "DOT_PRODUCT",
    "FAILURE",
    "FORM",
    "FRACTIONS",
    "KERNEL",
    "MATRIX",
    "NORM",
    "NUMBER",
    "NUMBERS",
    "POSITIVE",
    "SHARE",
    "WEIGHTS",
    "Argument",
    "FormName",
    "at_least",
    "broadcast",
    "checked",
    "choice",
    "components",
    "instance_of",
    "iterable",
    "optional",
    "probability",
    "read_all",
    "refuse",
    "upper",
    "within",
]

Array = np.ndarray
FormName = Literal["pairs", "phase", "complex"]
P = ParamSpec("P")
R = TypeVar("R")

PARAGRAPHS |= {
    "theory_probability": """\
Returns
-------
float
    The bound on the probability, at most one.""",
    "theory_values_of_a_pair": r"""Parameters
----------
k : float or ndarray
    Kernel values :math:`k(\delta)`, in [-mass, mass].
k_double : float or ndarray
    Values :math:`k(2\delta)` of the same kernel. Every positive definite kernel satisfies
    :math:`Z k(2\delta) \ge 2 k(\delta)^2 - Z^2`; values that violate this by more than rounding error raise
    `ParameterError`.
mass : float or ndarray, default=1.0
    Value :math:`Z = k(0)` of the kernel at zero, at least zero.""",
    "theory_bound": """\
Returns
-------
float
    The bound; infinite if it exceeds the range of float64.""",
    "theory_bound_of_series": """\
Returns
-------
float
    The bound; infinite if the series exceeds the range of float64.""",
    "theory_variances": """\
Returns
-------
float or ndarray
    Variances; infinite where they exceed the range of float64.""",
    "theory_number_of_components": """\
Returns
-------
int
    The number of components, to be passed to a map as `n_components`.""",
    "theory_eps": """\
eps : float
    Absolute error of the kernel.""",
    "theory_eps_of_mass": """\
eps : float
    Error of the kernel, in units of k(0).""",
    "theory_delta": """\
delta : float, default=0.05
    Probability of a larger error, in (0, 1).""",
    "theory_independent_features": """\
n_components : int
    Number D of independent features.""",
    "theory_dimension": """\
dimension : int
    Number d of features of the rows.""",
    "theory_diameter": """\
diameter : float
    Largest distance l of two rows.""",
    "theory_n_rules": """\
n_rules : int
    Number n of independent quadrature rules. Each must use all of its points and its constant.""",
    "theory_base": """\
base : float, default=2.0
    Base p > 1 of the distribution (p - 1) / p^(n + 1) of the degree n.""",
    "theory_series_kernel": """\
kernel : DotProductKernel
    A kernel f(x . y) whose power series f has non-negative coefficients.""",
    "theory_outer_and_inner": """\
kernel : DotProductKernel
    The outer kernel, whose power series is f.
inner : InnerConstants
    Bounds of the inner kernel K, of its scalar features and of their gradients.""",
    "theory_form": """\
form : {"pairs", "phase", "complex"}, default="pairs"
    Form of the features: cosine and sine of each frequency, one cosine of random phase per frequency, or one complex
    exponential per frequency.""",
    "theory_penalty_norm": """\
penalty_norm : float
    Spectral norm of the penalty matrix M, or a bound on it, for instance from `theory.penalty_norm`.""",
    "theory_composed": """\
Returns
-------
float
    The bound; infinite if the series exceeds the range of float64.

See Also
--------
composed_failure : Bound on the probability of a large error.

References
----------
.. [1] Kar, Karnick (2012), Random Feature Maps for Dot Product Kernels, AISTATS, supplementary material.""",
    "theory_per_pair": """\
Returns
-------
ndarray
    One value per pair.""",
    "theory_supplement": """\
References
----------
.. [1] Kar, Karnick (2012), Random Feature Maps for Dot Product Kernels, AISTATS, supplementary material.""",
    "theory_kar_karnick": """\
References
----------
.. [1] Kar, Karnick (2012), Random Feature Maps for Dot Product Kernels, AISTATS.""",
    "theory_munkhoeva": """\
References
----------
.. [1] Munkhoeva, Kapushev, Burnaev, Oseledets (2018), Quadrature-based Features for Kernel Approximation, NeurIPS.""",
    "theory_tropp": """\
References
----------
.. [1] Tropp (2015), An Introduction to Matrix Concentration Inequalities, Theorem 1.6.2.""",
}
PARAGRAPHS["theory_bound_in_a_ball"] = "\n".join(
    [
        "Parameters\n----------",
        PARAGRAPHS["theory_series_kernel"],
        "radius : float\n    Radius R of the l1 ball.",
        PARAGRAPHS["theory_base"],
    ]
)

# Values that exceed a boundary by at most this fraction of it are attributed to rounding, also in float32, and clipped.
ROUNDING = 1e-6
# Absolute tolerance near zero, because subnormal numbers have no relative precision.
TINY = 16 * float(np.finfo(float).tiny)


class OutsideError(Exception):
    """Raised when a value lies outside its domain; the message describes the value."""


@dataclass(frozen=True)
class Argument:
    """The domain of one argument: validates a value and converts it.

    Unlike `mercer.parameters.Domain`, which only tests membership, an `Argument` converts numbers to float or int and
    lists to arrays. It clips values that exceed a boundary only by rounding error.

    Attributes
    ----------
    needs : str
        Description of valid values, which completes "must be ..." in an error message.
    read : callable
        Function that returns the converted value, or raises `OutsideError` with a description of the value.
    hint : str
        Last sentence of the error message, which says what to try.
    """

    needs: str
    read: Callable[[Any], Any]
    hint: str = ""

    def __call__(self, owner: str, name: str, value: Any) -> Any:
        """Return the converted value; raise `ParameterError` for parameter `name` of function `owner` if invalid."""
        try:
            return self.read(value)
        except OutsideError as error:
            refuse(owner, name, self.needs, str(error), self.hint)


def refuse(owner: str, name: str, needs: str, got: str, hint: str = "") -> NoReturn:
    """Raise `ParameterError` with the message "{owner}: {name} must be {needs}, got {got}. {hint}"."""
    msg = f"{owner}: {name} must be {needs}, got {got}.{' ' if hint else ''}{hint}"
    raise ParameterError(msg) from None


def read_all(owner: str, domains: dict[str, Argument], values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of all parameters in `domains`, each validated and converted by its domain."""
    return {name: domain(owner, name, values[name]) for name, domain in domains.items()}


def checked(**domains: Argument) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that validates and converts every argument of a function by its domain.

    Every parameter of the function must have a domain, in the order of the signature. The decorator also inserts the
    shared paragraphs of the docstring (`mercer._docs`).
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(function)
        if list(domains) != list(signature.parameters):
            msg = f"{function.__name__}: domains of {list(domains)} for parameters {list(signature.parameters)}"
            raise TypeError(msg)

        @functools.wraps(doc(function))
        def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            bound.arguments.update(read_all(function.__name__, domains, bound.arguments))
            return function(*bound.args, **bound.kwargs)

        return wrapper

    return decorate


# ---- numbers ---------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    """Return a short representation of a value for an error message."""
    if isinstance(value, np.ndarray) and value.ndim:
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    text = repr(value)
    return text if len(text) <= 60 and "\n" not in text else type(value).__name__


def real(value: Any) -> float:
    """Return a real number as a float; raise `OutsideError` for booleans, NaN and integers beyond float64."""
    if not isinstance(value, Real) or isinstance(value, bool):
        raise OutsideError(shown(value))
    try:
        number = float(value)
    except OverflowError:
        number = math.nan
    if math.isnan(number):
        raise OutsideError(shown(value))
    return number


def interval(
    low: float, high: float, needs: str, *, closed: tuple[bool, bool] = (False, False), hint: str = ""
) -> Argument:
    """Return the domain of real numbers between `low` and `high`; `closed` says whether each end is included."""

    def read(value: Any) -> float:
        number = real(value)
        above = number >= low if closed[0] else number > low
        below = number <= high if closed[1] else number < high
        if not (above and below):
            raise OutsideError(shown(value))
        return number

    return Argument(needs, read, hint)


def at_least(least: int, *, hint: str = "") -> Argument:
    """Return the domain of integers >= `least`; floats of integral value, such as 1e6, count as integers."""

    def read(value: Any) -> int:
        number = real(value)
        if not (least <= number < math.inf and (isinstance(value, Integral) or number.is_integer())):
            raise OutsideError(shown(value))
        return int(value)

    return Argument(f"an integer >= {least}", read, hint)


POSITIVE = interval(0, math.inf, "a finite number > 0")
AT_LEAST_ZERO = interval(0, math.inf, "a finite number >= 0", closed=(True, False))
NUMBER = interval(-math.inf, math.inf, "a finite number")
# Domains of bounds that another function computed, which may be infinite.
BOUND = interval(0, math.inf, "a number > 0, or inf", closed=(False, True))
NORM = interval(0, math.inf, "a number >= 0, or inf", closed=(True, True))
FAILURE = interval(0, 1, "in (0, 1)")
SHARE = interval(0, 1, "in (0, 1]", closed=(False, True))
BASE = interval(
    1,
    math.inf,
    "a finite number > 1",
    hint="The degree distribution is (base - 1) / base^(n + 1); try 2.",
)
COUNT = at_least(1)
DEGREE = at_least(0)
AMBIENT = at_least(2)


# ---- choices and objects ---------------------------------------------------------------------------


def choice(names: Collection[str]) -> Argument:
    """Return the domain of the strings in `names`."""

    def read(value: Any) -> str:
        if not (isinstance(value, str) and value in names):
            raise OutsideError(shown(value))
        return value

    return Argument(f"one of {', '.join(names)}", read)


FORM = choice(("pairs", "phase", "complex"))


def instance_of(kind: type, needs: str) -> Argument:
    """Return the domain of the instances of a class."""

    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise OutsideError(shown(value))
        return value

    return Argument(needs, read)


def optional(domain: Argument) -> Argument:
    """Return a domain that accepts None in addition to the values of `domain`."""
    return Argument(f"None or {domain.needs}", lambda value: None if value is None else domain.read(value), domain.hint)


def iterable(needs: str) -> Argument:
    """Return the domain of iterables other than strings, which are converted to lists."""

    def read(value: Any) -> list[Any]:
        if isinstance(value, str | bytes):
            raise OutsideError(shown(value))
        try:
            return list(value)
        except TypeError:
            raise OutsideError(shown(value)) from None

    return Argument(needs, read)


KERNEL = instance_of(Kernel, "a mercer kernel such as Gaussian()")


@dataclass(frozen=True)
class DotProductArgument(Argument):
    """The domain of dot-product kernels.

    Other kernels raise `UnsupportedKernelError`, because they have no Maclaurin features; other objects raise
    `ParameterError`.
    """

    def __call__(self, owner: str, name: str, value: Any) -> Any:
        if isinstance(value, Kernel) and not isinstance(value, DotProductKernel):
            msg = (
                f"{owner}: {value!r} has no Maclaurin features.\n"
                f"  needs: {DotProductKernel.structure}\n"
                f"  got:   {value.structure}\n"
                f"  try:   mercer.required_components, for shift-invariant kernels"
            )
            raise UnsupportedKernelError(msg)
        return super().__call__(owner, name, value)


DOT_PRODUCT = DotProductArgument(
    "a dot-product kernel such as Polynomial()", instance_of(DotProductKernel, "a dot-product kernel").read
)


# ---- arrays ----------------------------------------------------------------------------------------


def numbers(value: Any) -> Array:
    """Return a number, list or array of real numbers as a float64 array; raise `OutsideError` for other values."""
    try:
        array = np.asarray(value)
    except (ValueError, TypeError, OverflowError):  # for instance nested lists of different lengths
        raise OutsideError(type(value).__name__) from None
    if array.dtype.kind not in "fiu":
        raise OutsideError(type(value).__name__ if array.ndim else shown(value))
    with np.errstate(over="ignore"):
        return array.astype(np.float64)


def array_between(low: float, high: float, needs: str, *, infinite: bool = False) -> Argument:
    """Return the domain of numbers or arrays in [low, high]; values outside only by rounding error are clipped."""

    def read(value: Any) -> Array:
        array = numbers(value)
        right = np.isfinite(array) if not infinite else ~np.isnan(array)
        right &= (array >= low - ROUNDING * abs(low) - TINY) & (array <= high + ROUNDING * abs(high))
        if not right.all():
            raise OutsideError(element(array, ~right))
        return np.clip(array, low, high)

    return Argument(needs, read)


def element(array: Array, wrong: Array) -> str:
    """Return a description of the first element of an array where `wrong` is true: its value and index."""
    if not array.ndim:
        return str(array)
    index = tuple(np.argwhere(wrong)[0].tolist())
    return f"{array[index]} at [{', '.join(map(str, index))}]"


NUMBERS = array_between(-math.inf, math.inf, "finite numbers")
WEIGHTS = array_between(0.0, math.inf, "finite numbers >= 0")
FRACTIONS = array_between(0.0, 1.0, "numbers in [0, 1]")
DISTANCES = array_between(0.0, math.inf, "numbers >= 0, or inf", infinite=True)


def read_matrix(value: Any) -> Array:
    """Return the value as a square float64 array; raise `OutsideError` unless it is square, real and finite."""
    array = numbers(value)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise OutsideError(f"shape {array.shape}" if array.ndim else type(value).__name__)
    if not np.isfinite(array).all():
        raise OutsideError(element(array, ~np.isfinite(array)))
    return array


MATRIX = Argument("a dense square matrix of finite real numbers", read_matrix)


# ---- relations -------------------------------------------------------------------------------------


def broadcast(owner: str, **arrays: Array) -> None:
    """Raise `ParameterError` unless the shapes of all arrays broadcast with each other."""
    shapes = {name: np.shape(array) for name, array in arrays.items()}
    try:
        np.broadcast_shapes(*shapes.values())
    except ValueError:
        last = list(shapes)[-1]
        others = ", ".join(f"{name} {shape}" for name, shape in shapes.items() if name != last)
        refuse(owner, last, f"of a shape that broadcasts with {others}", f"shape {shapes[last]}")


def within(
    owner: str, name: str, value: Array | float, low: Array | float, high: Array | float, needs: str, *, hint: str = ""
) -> Any:
    """Return the value clipped to [low, high]; raise `ParameterError` if it is outside by more than rounding error.

    The tolerance is relative to max(|low|, |high|), where an infinite `high` is ignored. `needs` describes the interval
    in the error message.
    """
    larger = np.where(np.isfinite(high), np.maximum(np.abs(low), np.abs(high)), np.abs(low))
    with np.errstate(over="ignore"):
        wrong = np.asarray((value < low - ROUNDING * larger - TINY) | (value > high + ROUNDING * larger + TINY))
    if wrong.any():
        at = np.broadcast_arrays(wrong, value, low, high)
        index = tuple(np.argwhere(wrong)[0].tolist())
        _, got, bottom, top = (array[index] for array in at)
        refuse(owner, name, needs, f"{got:.6g} where that is [{bottom:.6g}, {top:.6g}]", hint)
    return np.clip(value, low, high)


# ---- results ---------------------------------------------------------------------------------------


def probability(logarithm: float) -> float:
    """Return min(1, exp(logarithm)), a bound on a probability, given its logarithm; return 1 if that is NaN."""
    return math.exp(logarithm) if logarithm < 0 else 1.0


def upper(bound: Any) -> Any:
    """Return an upper bound, or infinity if it is NaN, which results from operations such as inf - inf."""
    bound = np.where(np.isnan(bound), np.inf, bound)
    return bound if bound.ndim else float(bound)


def components(owner: str, number: float, **arguments: Any) -> int:
    """Return a number of components rounded up, at least 1; raise `ParameterError` if it is infinite or NaN.

    The error message names the function `owner` and the `arguments` that led to the number.
    """
    if not number < math.inf:
        given = " and ".join(f"{name}={value!r}" for name, value in arguments.items())
        msg = (
            f"{owner}: eps must be large enough for the bound to need a number of components within float64, got "
            f"{given}. Try a larger eps, or measure the error of a fitted map with mercer.audit."
        )
        raise ParameterError(msg)
    return max(1, math.ceil(number))
