"""Objects as a flat list of JSON values and a list of arrays; `mercer.model_files.decoding` reads them.

Every object is one entry of a list. Entries refer to each other by their index, and only to previous ones, so that
objects that are shared stay shared, cycles do not exist, and reading needs no recursion. A value inside an entry is

- null, a boolean, an integer, a finite number or a string, as in JSON;
- ``[i]``: the object with index i;
- ``{"float": "inf"}``, ``{"scalar": [dtype, hexadecimal bytes]}``, ``{"dtype": ...}`` or ``{"function": ...}`` for
  other values without parts.

An object of a class of the registry is its state, as pickle would store it, and its constructor is not called. Values
of cached properties are left out, because they can be computed again.
"""

from __future__ import annotations

import dataclasses
import math
import types
from functools import cache, cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.data.callbacks import CALLBACK_ATTRIBUTES
from mercer.errors import ModelFileError
from mercer.io.sealed import layout_of
from mercer.model_files.registry import FUNCTIONS, name_of

__all__ = ["BIT_GENERATORS", "MOST_LEVELS", "Encoded", "NotStored", "encode", "is_solved"]

# Arrays of at most this many bytes are parts of the header; as members of the zip file they would be larger.
INLINE_BYTES = 128
# Triangular matrices of at least this many bytes are stored without their zeros.
TRIANGLE_BYTES = 2**16
# Largest nesting of objects.
MOST_LEVELS = 200
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_FUNCTION_NAMES = {id(function): name for name, function in FUNCTIONS.items()}


class NotStored:
    """The sum over rows of a model whose file does not hold it. Using it raises a ModelFileError."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        msg = (
            "This model was saved without the sums over its rows, which partial_fit needs, so it can predict, but not "
            "learn from more rows. Save it with save_model(model, path, statistics=True), or call fit."
        )
        raise ModelFileError(msg)

    def __repr__(self) -> str:
        return "<not in the model file>"


@dataclasses.dataclass
class Encoded:
    """Objects as JSON values, and the arrays to which they refer by index. The last object is the model."""

    objects: list[Any]
    arrays: list[np.ndarray]


# ---- encoding -----------------------------------------------------------------------------------------------------


def encode(value: Any, *, statistics: bool = True) -> Encoded:
    """Encode an object of a class of the registry.

    Parameters
    ----------
    value : object
        The object. It is not changed.
    statistics : bool, default=True
        Whether the attributes `statistic_` of solved learners are stored.

    Raises
    ------
    ModelFileError
        If a part of the object cannot be stored; the message has its path.
    """
    encoder = _Encoder(statistics)
    root = encoder.value(value, type(value).__name__)
    if root != [len(encoder.objects) - 1]:
        raise _not_storable(value, type(value).__name__)
    return Encoded(encoder.objects, encoder.arrays)


class _Encoder:
    def __init__(self, statistics: bool) -> None:
        self.statistics = statistics
        self.objects: list[Any] = []
        self.arrays: list[np.ndarray] = []
        self._index: dict[int, int | None] = {}  # of objects by identity; None while their parts are encoded
        self._alive: list[Any] = []  # so that no identity is used twice
        self._level = 0

    def value(self, value: Any, where: str) -> Any:
        """Return the JSON value of `value`, which is at `where`, and append the objects that it needs."""
        atom = _atom(value)
        if atom is not _NO_ATOM:
            return atom
        key = id(value)
        if key in self._index:
            index = self._index[key]
            if index is None:
                msg = f"save_model: {where} refers to an object that contains it, and cycles cannot be stored."
                raise ModelFileError(msg)
            return [index]
        if self._level >= MOST_LEVELS:
            msg = f"save_model: {where[:200]}... is nested more than {MOST_LEVELS} levels deep, which cannot be stored."
            raise ModelFileError(msg)
        self._index[key] = None
        self._alive.append(value)
        self._level += 1
        entry = self._entry(value, where)
        self._level -= 1
        self.objects.append(entry)
        self._index[key] = len(self.objects) - 1
        return [len(self.objects) - 1]

    def _entry(self, value: Any, where: str) -> Any:
        kind = type(value)
        if kind is np.ndarray:
            return self._array(value, where)
        if sp.issparse(value) and kind in (sp.csr_array, sp.csr_matrix):
            parts = [self.value(part, where) for part in (value.data, value.indices, value.indptr)]
            return {"type": kind.__name__, "parts": parts, "shape": [int(n) for n in value.shape]}
        if kind in (list, tuple):
            items = [self.value(one, f"{where}[{i}]") for i, one in enumerate(value)]
            return {"type": kind.__name__, "items": items}
        if kind in (set, frozenset):
            # The order of a set depends on the process; the file must not.
            items = [self.value(one, f"an element of {where}") for one in sorted(value, key=repr)]
            return {"type": kind.__name__, "items": items}
        if kind is dict:
            pairs = [
                [self.value(key, f"a key of {where}"), self.value(one, f"{where}[{key!r}]")]
                for key, one in value.items()
            ]
            return {"type": "dict", "items": pairs}
        if kind in (np.random.Generator, np.random.RandomState):
            return self._generator(value, where)
        if kind in (np.random.SeedSequence,):
            state = {**value.state, "entropy": value.entropy}
            return {"type": "SeedSequence", "state": self.value(state, where)}
        name = name_of(kind)
        if name is None:
            raise _not_storable(value, where)
        state = state_of(value)
        if name == "Pipeline" and state.get("memory") is not None:
            msg = f"save_model: {where} has a memory, a folder outside of the file. Set it by set_params(memory=None)."
            raise ModelFileError(msg)
        if isinstance(state, dict):
            state = dict(state)
            if not self.statistics and "statistic_" in state and is_solved(value):
                state["statistic_"] = NotStored()
            attributes = {key: self.value(one, f"{where}.{key}") for key, one in state.items()}
            return {"type": "object", "class": name, "attributes": attributes}
        return {"type": "object", "class": name, "state": self.value(state, where)}

    def _array(self, array: np.ndarray, where: str) -> Any:
        if array.dtype == object:
            shape = list(array.shape)
            items = array.ravel().tolist()
            if len(items) > 8 and all(type(one) is str for one in items):
                try:
                    encoded = [one.encode() for one in items]
                except UnicodeEncodeError:  # half of a surrogate pair
                    pass
                else:
                    lengths = np.array([len(one) for one in encoded], dtype=np.int64)
                    text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
                    parts = [self.value(text, where), self.value(lengths, where)]
                    return {"type": "strings", "parts": parts, "shape": shape}
            if any(_atom(one) is _NO_ATOM for one in items):
                msg = f"save_model: {where} is an array of objects that are neither numbers nor strings."
                raise ModelFileError(msg)
            return {"type": "objects", "items": [_atom(one) for one in items], "shape": shape}
        try:
            layout = layout_of(array)
        except TypeError as error:
            msg = f"save_model: {where}: {error}"
            raise ModelFileError(msg) from None
        if array.nbytes <= INLINE_BYTES:
            little = array.astype(array.dtype.newbyteorder("<"), copy=False)
            data = little.T.tobytes() if layout.fortran else little.tobytes()
            inline = {"dtype": layout.dtype, "shape": list(array.shape), "hex": data.hex()}
            return {"type": "small array", **inline, "fortran": layout.fortran}
        if _is_triangular(array):
            packed = np.concatenate([row[i:] for i, row in enumerate(array)])
            return {"type": "triangle", "packed": self.value(packed, where), "shape": list(array.shape)}
        self.arrays.append(array)
        return {"type": "array", "array": len(self.arrays) - 1}

    def _generator(self, value: Any, where: str) -> Any:
        if isinstance(value, np.random.RandomState):
            return {"type": "RandomState", "state": self.value(value.get_state(legacy=False), where)}
        bits = value.bit_generator
        if type(bits).__name__ not in BIT_GENERATORS or not type(bits).__module__.startswith("numpy.random"):
            raise _not_storable(value, where)
        seed = bits.seed_seq if isinstance(bits.seed_seq, np.random.SeedSequence) else None
        return {"type": "Generator", "state": self.value(bits.state, where), "seed": self.value(seed, where)}


def _is_triangular(array: np.ndarray) -> bool:
    """Return whether a large matrix has zeros below its diagonal, none of them negative."""
    if array.ndim != 2 or array.nbytes < TRIANGLE_BYTES or not array.flags.c_contiguous or array.dtype != np.float64:
        return False
    rows, columns = array.shape
    bits = array.view(np.uint64)
    return 1 < rows <= columns and not bits[-1, : rows - 1].any() and not any(bits[i, :i].any() for i in range(rows))


_NO_ATOM = object()


def _atom(value: Any) -> Any:
    """Return the JSON value of a value without parts, or `_NO_ATOM` for any other value."""
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, np.generic):
        little = np.asarray(value)
        try:
            layout = layout_of(little)
        except TypeError:  # of more digits than every machine has
            return _NO_ATOM
        return {"scalar": [layout.dtype, little.astype(little.dtype.newbyteorder("<")).tobytes().hex()]}
    if isinstance(value, np.dtype):
        name = "object" if value.hasobject else value.newbyteorder("<").str
        return {"dtype": name} if value.names is None else _NO_ATOM
    if id(value) in _FUNCTION_NAMES:
        return {"function": _FUNCTION_NAMES[id(value)]}
    return _NO_ATOM


def state_of(value: Any) -> Any:
    """Return the state of an object that is stored, mostly a mapping of the names of its attributes to their values."""
    cls: Any = type(value)
    if isinstance(value, tuple):
        return value._asdict()  # type: ignore[attr-defined]
    # The state of estimators of scikit-learn itself has its version, and another one warns of pickles.
    state = dict(vars(value)) if not cls.__module__.startswith("mercer.") else value.__getstate__()
    if state is None:
        return {}
    if isinstance(state, dict):
        left_out = _cached_names(cls) | CALLBACK_ATTRIBUTES
        return {name: one for name, one in state.items() if name not in left_out}
    return state


@cache
def _cached_names(cls: Any) -> frozenset[str]:
    """Return the names of the cached properties of a class."""
    return frozenset(
        name for base in cls.__mro__ for name, member in vars(base).items() if isinstance(member, cached_property)
    )


def is_solved(value: Any) -> bool:
    """Return whether the model was computed from its statistic, which is deferred by `partial_fit`."""
    solved: frozenset[str] = getattr(type(value), "solved", frozenset())
    return any(name in vars(value) for name in solved) if solved else True


def _not_storable(value: Any, where: str) -> ModelFileError:
    """Return the error for a part of a model that no file can hold, with the reason and what to do."""
    kind = type(value)
    name = kind.__name__
    why = f"an object of the class {kind.__module__}.{name}"
    todo = (
        "Model files hold objects of classes of mercer only, so that loading them executes no other code. Save the "
        "model with pickle or joblib if the part is needed, or leave it out."
    )
    if name == "CallableKernel" and kind.__module__.startswith("mercer."):
        why = "a kernel made of a function"
        todo = (
            "A model file holds no code, so that loading it executes none. Write the function as a kernel of mercer if "
            "there is one, pass kernel matrices with Precomputed, or save the model with pickle or joblib."
        )
    elif isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.MethodType) or callable(value):
        why = f"a function ({getattr(value, '__name__', name)})"
        todo = (
            "A model file holds no code, so that loading it executes none. Set the parameter to None or to one of its "
            "names, for example by set_params, or save the model with pickle or joblib."
        )
    elif name == "RowsInSource" and kind.__module__.startswith("mercer."):
        why = "the rows of LocalCorrection(rows='source'), which stay where the fit has read them"
        todo = (
            "A model file must be complete in itself. Fit with LocalCorrection(rows='model'), which stores the rows, "
            "or a sample of them, in the model."
        )
    elif isinstance(value, np.ndarray):
        why = f"an array of the class {name}"
        todo = "Convert it by numpy.asarray."
    elif sp.issparse(value):
        why = f"a sparse matrix of the format {value.format}"
        todo = "Convert it by tocsr()."
    elif kind.__module__.startswith("sklearn."):
        todo = (
            "Of scikit-learn, model files hold pipelines only, of estimators of mercer: use ScaledColumns or "
            "ColumnScaler for columns, or save the model with pickle or joblib."
        )
    return ModelFileError(f"save_model: {where} is {why}, which a model file cannot hold. {todo}")
