"""Whether the parts of an object that was read from a file are of the types that its class declares.

The author of a file can store any value under any name. Values of declared types keep errors at the file that causes
them: without these checks, a string in the place of an array would be found by the first prediction, or by none. That
arrays fit together, which no declaration states, is found by two rows of zeros that a fitted model must predict.
"""

from __future__ import annotations

import inspect
import types
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import scipy.sparse as sp

from mercer.errors import MercerError, ModelFileError
from mercer.io.archive import ArchiveError
from mercer.model_files.encoding import is_solved
from mercer.model_files.registry import FUNCTIONS, name_of

__all__ = ["check_attributes", "check_usable", "fits"]

# The attributes of a pipeline. One with a `memory` would read pickles of a folder that the file names.
PIPELINE = frozenset({"steps", "memory", "verbose", "transform_input"})
# What a model that was read is asked for, as far as it has these methods.
METHODS = ("transform", "predict", "predict_proba", "decision_function")
# Rows of more columns are tried as sparse ones, which take no memory.
DENSE_COLUMNS = 100_000


def check_attributes(cls: type, name: str, attributes: Mapping[str, Any]) -> None:
    """Raise ArchiveError if attributes are not those of an instance of a class.

    An attribute must not replace a method, a property or another attribute that only classes have, and its value must
    have the type that the class declares, if it declares one.

    Parameters
    ----------
    cls : type
        A class of the registry.
    name : str
        Its name in files.
    attributes : mapping of str to object
        The attributes, which have been read from a file.
    """
    hints, fields = _hints(cls), _fields(cls)
    is_estimator = hasattr(cls, "get_params")
    for key, value in attributes.items():
        hint = hints.get(key, Any)
        is_declared = key in fields or (
            _is_data(cls, key, hint)
            # What estimators set themselves has an underscore, so that it cannot look like a method.
            and (key in hints or not is_estimator or key.startswith("_") or key.endswith("_"))
        )
        if not key.isidentifier() or key.startswith("__") or not is_declared:
            msg = f"it sets {key[:80]!r} of {name}, which is no attribute of the state of this class"
            raise ArchiveError(msg)
        if not fits(value, hint):
            kind = type(value).__name__
            msg = f"its {name} has {key}, an object of the type {kind}, where {_text(hint)} is needed"
            raise ArchiveError(msg)
    if name == "Pipeline":
        _check_pipeline(attributes)


def _is_data(cls: type, key: str, hint: Any) -> bool:
    """Return whether instances of a class may have an attribute of this name, which is not a field or parameter."""
    if get_origin(hint) is ClassVar or hint is ClassVar or _is_callable(hint):
        return False
    member = inspect.getattr_static(cls, key, None)
    return not callable(member) and not hasattr(member, "__get__")


def _is_callable(hint: Any) -> bool:
    """Return whether all values of a type are functions, or None: those are methods that a class may define."""
    options = [one for one in _options(hint) if one is not type(None)]
    return bool(options) and all(get_origin(one) is Callable or one is Callable for one in options)


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _check_pipeline(attributes: Mapping[str, Any]) -> None:
    steps = attributes.get("steps")
    are_steps = isinstance(steps, list) and all(
        isinstance(step, tuple)
        and len(step) == 2
        and isinstance(step[0], str)
        and (step[1] in (None, "passthrough") if isinstance(step[1], str | None) else name_of(type(step[1])))
        for step in steps
    )
    if not are_steps or not steps or attributes.get("memory") is not None or not PIPELINE.issuperset(attributes):
        msg = "it has a pipeline that is not a list of named steps, or that has a memory, a folder of other files"
        raise ArchiveError(msg)


@cache
def _hints(cls: Any) -> dict[str, Any]:
    """Return the types that a class declares for its attributes."""
    if not cls.__module__.startswith("mercer."):
        return {}
    try:
        return get_type_hints(cls)
    except NameError:  # of a name that is imported for type checkers only
        return {}


@cache
def _fields(cls: Any) -> frozenset[str]:
    """Return the names of the fields and parameters of a class, which functions may be values of."""
    names = [*getattr(cls, "__dataclass_fields__", ()), *getattr(cls, "_fields", ())]
    if hasattr(cls, "get_params"):
        names += list(inspect.signature(cls.__init__).parameters)[1:]
    return frozenset(names)


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is of a declared type, also its parts, as far as the declaration names them.

    Numbers of NumPy are numbers, and integers are real numbers. A protocol is fulfilled by any instance of a class of
    the registry, since protocols cannot be checked.

    Examples
    --------
    >>> fits((1, 2), tuple[int, ...]), fits((1, "2"), tuple[int, ...]), fits(None, int | None)
    (True, False, True)
    """
    origin = get_origin(hint)
    if hint is Any:
        return True
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in get_args(hint))
    if hint in (bool, int, float):
        return _is_number(value, hint)
    if hint is None or hint is type(None):
        return value is None
    if origin is Callable or hint is Callable:
        return any(value is function for function in FUNCTIONS.values()) or (
            not isinstance(value, type) and callable(value) and name_of(type(value)) is not None
        )
    if origin is np.ndarray:
        (scalar,) = get_args(get_args(hint)[1])
        return isinstance(value, np.ndarray) and (scalar is Any or np.issubdtype(value.dtype, scalar))
    if origin is not None:
        return _parts_fit(value, origin, get_args(hint))
    if getattr(hint, "_is_protocol", False):
        return name_of(type(value)) is not None
    return isinstance(value, hint) if isinstance(hint, type) else True


def _is_number(value: Any, hint: type) -> bool:
    if isinstance(value, bool | np.bool_):
        return hint is bool
    return hint is not bool and isinstance(value, Integral if hint is int else Real)


def _parts_fit(value: Any, origin: Any, parts: tuple[Any, ...]) -> bool:
    """Return whether a value is a container of a declared type, with parts of the declared types."""
    if origin is tuple:
        if not isinstance(value, tuple):
            return False
        if len(parts) == 2 and parts[1] is ...:
            return all(fits(one, parts[0]) for one in value)
        return len(value) == len(parts) and all(fits(one, part) for one, part in zip(value, parts, strict=True))
    if origin is dict:
        return isinstance(value, dict) and all(fits(k, parts[0]) and fits(one, parts[1]) for k, one in value.items())
    if origin in (list, Sequence):
        kinds = list if origin is list else (list, tuple, np.ndarray)
        return isinstance(value, kinds) and (isinstance(value, np.ndarray) or all(fits(one, parts[0]) for one in value))
    return isinstance(value, origin)


def _text(hint: Any) -> str:
    """Return the name of a type for messages."""
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "").replace("mercer.", "")


def check_usable(model: Any) -> None:
    """Raise ArchiveError if a fitted model cannot predict two rows of zeros, because its arrays do not fit together.

    A model that rejects these rows with an error of mercer can be used. So can one whose sums have not been solved yet,
    which would take the time of a fit.
    """
    steps = [step for _, step in model.steps] if name_of(type(model)) == "Pipeline" else [model]
    d = next((vars(step)["n_features_in_"] for step in steps if "n_features_in_" in vars(step)), None)
    if d is None or not all(is_solved(step) for step in steps):
        return
    X = np.zeros((2, d)) if d <= DENSE_COLUMNS else sp.csr_array((2, d))
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for name in METHODS:
            _try(model, name, X)


def _try(model: Any, name: str, X: Any) -> None:
    try:
        method = getattr(model, name, None)
        if method is not None:
            _check_width(model, name, method(X))
            if "return_std" in inspect.signature(method).parameters:
                method(X, return_std=True)
    except Exception as error:
        if isinstance(error, MercerError) and not isinstance(error, ModelFileError):
            return  # these rows, or this option, are not for this model
        msg = f"its parts do not fit together: {name} fails ({type(error).__name__}: {error})"
        raise ArchiveError(msg) from error


def _check_width(model: Any, name: str, values: Any) -> None:
    """Raise ValueError if a classifier returns another number of values than it has classes."""
    classes = getattr(model, "classes_", None)
    if classes is None or name not in ("decision_function", "predict_proba"):
        return
    width = values.shape[1] if values.ndim == 2 else 2
    if len(classes) != width:
        msg = f"there are {len(classes)} classes, and values of {width}"
        raise ValueError(msg)
