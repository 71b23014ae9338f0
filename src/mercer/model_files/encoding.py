"""Objects as a flat list of JSON values and a list of arrays, and back.

Every object is one entry of a list. Entries refer to each other by their index, and only to previous ones, so that
objects that are shared stay shared, cycles do not exist, and reading needs no recursion. A value inside an entry is

- null, a boolean, an integer, a finite number or a string, as in JSON;
- ``[i]``: the object with index i;
- ``{"float": "inf"}``, ``{"scalar": [dtype, hexadecimal bytes]}``, ``{"bytes": ...}``, ``{"complex": ...}``,
  ``{"dtype": ...}``, ``{"function": ...}`` or ``{"class": ...}`` for other values without parts.

An object of a class of the registry is its state, as pickle would store it, and its constructor is not called. Values
of cached properties are left out, because they can be computed again.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import types
from collections.abc import Callable, Mapping
from functools import cache, cached_property, partial
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from mercer.errors import ModelFileError
from mercer.io.archive import ArchiveError
from mercer.io.sealed import dtype_of, layout_of
from mercer.model_files.registry import FUNCTIONS, class_of, name_of

__all__ = ["Encoded", "NotStored", "decode", "encode"]

# Arrays of at most this many bytes are parts of the header; as members of the zip file they would be larger.
INLINE_BYTES = 128
# Largest nesting of objects that is written.
MOST_LEVELS = 200
BIT_GENERATORS = ("MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64")
_FUNCTION_NAMES = {id(function): name for name, function in FUNCTIONS.items()}
_ATOMS = (bool, int, float, complex, str, bytes, type(None), np.generic, np.dtype)


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
        if kind is slice:
            return {"type": "slice", "items": [self.value(one, where) for one in (value.start, value.stop, value.step)]}
        if kind in (np.random.Generator, np.random.RandomState):
            return self._generator(value, where)
        if kind in (np.random.SeedSequence,):
            state = {**value.state, "entropy": value.entropy}
            return {"type": "SeedSequence", "state": self.value(state, where)}
        name = name_of(kind)
        if name is None:
            raise _not_storable(value, where)
        state = state_of(value)
        if isinstance(state, dict):
            state = dict(state)
            if not self.statistics and "statistic_" in state and _is_solved(value):
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
            return {"type": "objects", "items": [self.value(one, where) for one in items], "shape": shape}
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
        if little.dtype.kind not in "OV":
            layout = layout_of(little)
            return {"scalar": [layout.dtype, little.astype(little.dtype.newbyteorder("<")).tobytes().hex()]}
        return _NO_ATOM
    if kind is complex:
        return {"complex": [repr(value.real), repr(value.imag)]}
    if kind is bytes:
        return {"bytes": value.hex()}
    if isinstance(value, np.dtype):
        name = "object" if value.hasobject else value.newbyteorder("<").str
        return {"dtype": name} if value.names is None else _NO_ATOM
    if id(value) in _FUNCTION_NAMES:
        return {"function": _FUNCTION_NAMES[id(value)]}
    if isinstance(value, type) and name_of(value) is not None:
        return {"class": name_of(value)}
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
        return {name: one for name, one in state.items() if name not in _cached_names(cls)}
    return state


@cache
def _cached_names(cls: Any) -> frozenset[str]:
    """Return the names of the cached properties of a class."""
    return frozenset(
        name for base in cls.__mro__ for name, member in vars(base).items() if isinstance(member, cached_property)
    )


def _is_solved(value: Any) -> bool:
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


# ---- decoding -----------------------------------------------------------------------------------------------------


def decode(objects: Any, arrays: list[np.ndarray]) -> Any:
    """Return the last of the objects of a file, after checks of all of them.

    Raises
    ------
    ArchiveError
        If an entry is not one that `encode` writes.
    """
    if not isinstance(objects, list) or not objects:
        msg = "it has no objects"
        raise ArchiveError(msg)
    decoder = _Decoder(arrays)
    for number, entry in enumerate(objects):
        try:
            decoder.done.append(decoder.object(entry))
        except ArchiveError:
            raise
        # What classes that restore their state raise for states that they did not write: more than can be listed.
        except Exception as error:
            msg = f"its object {number} is not what was written ({type(error).__name__}: {error})"
            raise ArchiveError(msg) from error
    return decoder.done[-1]


class _Decoder:
    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays = arrays
        self.done: list[Any] = []

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            [index] = value
            if type(index) is not int or not 0 <= index < len(self.done):
                msg = f"an object refers to {index!r}, which is not a previous object"
                raise ArchiveError(msg)
            return self.done[index]
        if isinstance(value, dict):
            [(kind, content)] = value.items()
            if kind not in _ATOM_DECODERS:
                msg = f"it has a value of the kind {str(kind)[:80]!r}, which this version does not know"
                raise ArchiveError(msg)
            return _ATOM_DECODERS[kind](content)
        return value

    def items(self, entry: Mapping[str, Any]) -> list[Any]:
        return [self.value(one) for one in _checked(entry["items"], list)]

    def object(self, entry: Any) -> Any:
        kind = _checked(entry, dict)["type"]
        decode_kind = self._KINDS.get(kind) if isinstance(kind, str) else None
        if decode_kind is None:
            msg = f"it has an object of the type {str(kind)[:80]!r}, which this version does not know"
            raise ArchiveError(msg)
        return decode_kind(self, entry)

    def _list(self, entry: Any) -> list[Any]:
        return self.items(entry)

    def _tuple(self, entry: Any) -> tuple[Any, ...]:
        return tuple(self.items(entry))

    def _set(self, entry: Any) -> set[Any]:
        return {_key(one) for one in self.items(entry)}

    def _frozenset(self, entry: Any) -> frozenset[Any]:
        return frozenset(self._set(entry))

    def _dict(self, entry: Any) -> dict[Any, Any]:
        pairs = (_checked(pair, list) for pair in _checked(entry["items"], list))
        return {_key(self.value(key)): self.value(one) for key, one in pairs}

    def _slice(self, entry: Any) -> slice:
        return slice(*(_checked(one, int | None) for one in self.items(entry)))

    def _member(self, entry: Any) -> np.ndarray:
        index = _checked(entry["array"], int)
        if not 0 <= index < len(self.arrays):
            msg = f"an object refers to the array {index}, and there are {len(self.arrays)}"
            raise ArchiveError(msg)
        return self.arrays[index]

    def _small_array(self, entry: Any) -> np.ndarray:
        dtype, data = dtype_of(entry["dtype"]), bytes.fromhex(entry["hex"])
        shape = tuple(_checked(n, int) for n in _checked(entry["shape"], list))
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(data):
            msg = f"an array of shape {shape} and type {dtype} does not have {len(data)} bytes"
            raise ArchiveError(msg)
        flat = np.zeros(math.prod(shape), dtype) if not dtype.itemsize else np.frombuffer(data, dtype)
        array = flat.reshape(shape, order="F" if entry["fortran"] is True else "C")
        return array.astype(dtype.newbyteorder("="), order="K")  # a copy that can be written to

    def _strings(self, entry: Any) -> np.ndarray:
        text, lengths = (_checked(self.value(part), np.ndarray) for part in entry["parts"])
        if text.dtype != np.uint8 or lengths.dtype != np.int64 or text.ndim != 1 or lengths.ndim != 1:
            msg = "strings have no lengths"
            raise ArchiveError(msg)
        if (lengths < 0).any() or (lengths > len(text)).any() or sum(lengths.tolist()) != len(text):
            msg = "the lengths of strings do not sum to the length of the text"
            raise ArchiveError(msg)
        data, position, items = text.tobytes(), 0, []
        for length in lengths.tolist():
            items.append(data[position : position + length].decode())
            position += length
        return _objects(items, entry["shape"])

    def _object_array(self, entry: Any) -> np.ndarray:
        return _objects(self.items(entry), entry["shape"])

    def _csr(self, entry: Any) -> Any:
        data, indices, indptr = (_checked(self.value(part), np.ndarray) for part in entry["parts"])
        rows, columns = (_checked(n, int) for n in entry["shape"])
        if any(part.ndim != 1 for part in (data, indices, indptr)) or not {indices.dtype.kind, indptr.dtype.kind} <= {
            "i"
        }:
            msg = "a sparse matrix does not consist of vectors and indices"
            raise ArchiveError(msg)
        if len(indptr) != rows + 1 or len(data) != len(indices):
            msg = f"a sparse matrix of shape ({rows}, {columns}) does not fit its indices"
            raise ArchiveError(msg)
        make = sp.csr_matrix if entry["type"] == "csr_matrix" else sp.csr_array
        matrix = make((data, indices, indptr), shape=(rows, columns))
        matrix.check_format(full_check=True)  # indices outside of the matrix would be read by compiled code
        return matrix

    def _random_state(self, entry: Any) -> np.random.RandomState:
        state = np.random.RandomState(0)
        state.set_state(self.value(entry["state"]))
        return state

    def _generator(self, entry: Any) -> np.random.Generator:
        state, seed = _checked(self.value(entry["state"]), dict), self.value(entry["seed"])
        name = state["bit_generator"]
        if name not in BIT_GENERATORS:
            msg = f"it has a generator {str(name)[:80]!r}, which this version does not know"
            raise ArchiveError(msg)
        bits = getattr(np.random, name)(_checked(seed, np.random.SeedSequence | None) or 0)
        bits.state = state
        return np.random.Generator(bits)

    def _seed_sequence(self, entry: Any) -> np.random.SeedSequence:
        state = _checked(self.value(entry["state"]), dict)
        return np.random.SeedSequence(
            state["entropy"],
            spawn_key=state["spawn_key"],
            pool_size=state["pool_size"],
            n_children_spawned=state["n_children_spawned"],
        )

    def _instance(self, entry: Any) -> Any:
        name = _checked(entry["class"], str)
        cls = class_of(name)
        if cls is None:
            msg = (
                f"it has an object of the class {name[:80]!r}, which this version of mercer does not know: a newer "
                "version wrote it, or it is forged"
            )
            raise ArchiveError(msg)
        if "state" in entry:
            if "__setstate__" not in vars(cls):
                msg = f"the state of {name} has no attributes"
                raise ArchiveError(msg)
            return _restored(cls, self.value(entry["state"]))
        attributes = {key: self.value(one) for key, one in _checked(entry["attributes"], dict).items()}
        for key in attributes:
            _check_attribute(cls, name, key)
        if issubclass(cls, tuple):
            return cls(**attributes)
        value = _restored(cls, attributes)
        _add_defaults(value, name)
        return value

    _KINDS: ClassVar[dict[str, Callable[[_Decoder, Any], Any]]] = {
        "list": _list,
        "tuple": _tuple,
        "set": _set,
        "frozenset": _frozenset,
        "dict": _dict,
        "slice": _slice,
        "array": _member,
        "small array": _small_array,
        "strings": _strings,
        "objects": _object_array,
        "csr_array": _csr,
        "csr_matrix": _csr,
        "RandomState": _random_state,
        "Generator": _generator,
        "SeedSequence": _seed_sequence,
        "object": _instance,
    }


def _checked(value: Any, kind: Any) -> Any:
    """Return a value of a type; raise ArchiveError for any other."""
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        msg = f"it has {str(value)[:80]!r} where {kind} is needed"
        raise ArchiveError(msg)
    return value


def _key(value: Any) -> Any:
    """Return a key of a dictionary or an element of a set; raise ArchiveError for a key of nested parts.

    Hashing a tuple of tuples that are shared would take a time that is exponential in their number.
    """
    parts = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(part, _ATOMS) for part in parts):
        msg = f"it has a key of the type {type(value).__name__}, and keys are numbers, strings, or tuples of these"
        raise ArchiveError(msg)
    return value


def _objects(items: list[Any], shape: Any) -> np.ndarray:
    """Return an array of objects."""
    dimensions = tuple(_checked(n, int) for n in _checked(shape, list))
    if min(dimensions, default=0) < 0 or math.prod(dimensions) != len(items):
        msg = f"an array of shape {dimensions} does not have {len(items)} entries"
        raise ArchiveError(msg)
    array = np.empty(len(items), dtype=object)
    for number, one in enumerate(items):
        array[number] = one
    return array.reshape(dimensions)


def _check_attribute(cls: type, name: str, key: str) -> None:
    """Raise ArchiveError if an attribute would replace a method, a property or anything else that is code."""
    member = inspect.getattr_static(cls, key, None)
    is_field = key in getattr(cls, "__dataclass_fields__", {}) or key in getattr(cls, "_fields", ())
    if (
        not key.isidentifier()
        or key.startswith("__")
        or (not is_field and (callable(member) or hasattr(member, "__get__")))
    ):
        msg = f"it sets {key[:80]!r} of {name}, which is no attribute of the state of this class"
        raise ArchiveError(msg)


def _restored(cls: Any, state: Any) -> Any:
    """Return an instance with a state. Constructors are not called."""
    value = object.__new__(cls)
    # Estimators of scikit-learn define a method, too, which compares versions of pickles.
    own = next((base for base in cls.__mro__ if "__setstate__" in vars(base)), object)
    if own.__module__.startswith("mercer."):
        value.__setstate__(state)
    else:
        vars(value).update(state)
    return value


def _add_defaults(value: Any, name: str) -> None:
    """Set what a previous version did not have to its default; raise ArchiveError if there is no default."""
    missing: list[str] = []
    kind: Any = type(value)
    present = vars(value)
    for key, default in _defaults(kind).items():
        if key not in present:
            if default is None:
                missing.append(key)
            else:
                present[key] = default()
    if missing:
        msg = f"it has no value for {', '.join(missing)} of {name}"
        raise ArchiveError(msg)


@cache
def _defaults(cls: Any) -> dict[str, Callable[[], Any] | None]:
    """Return what every instance has, fields of a dataclass or parameters, with functions that return defaults."""
    found: dict[str, Callable[[], Any] | None] = {}
    if dataclasses.is_dataclass(cls):
        for field in dataclasses.fields(cls):
            if field.default_factory is not dataclasses.MISSING:
                found[field.name] = field.default_factory
            else:
                has_default = field.default is not dataclasses.MISSING
                found[field.name] = partial(_same, field.default) if has_default else None
    elif hasattr(cls, "get_params"):
        for one in list(inspect.signature(cls.__init__).parameters.values())[1:]:
            has_default = one.default is not inspect.Parameter.empty
            found[one.name] = partial(_same, one.default) if has_default else None
    return found


def _same(value: Any) -> Any:
    return value


_ATOM_DECODERS: dict[str, Callable[[Any], Any]] = {
    "float": lambda text: {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}[text],
    "complex": lambda parts: complex(*(float(one) for one in parts)),
    "bytes": bytes.fromhex,
    "scalar": lambda parts: _scalar(*parts),
    "dtype": lambda name: np.dtype(object) if name == "object" else dtype_of(name).newbyteorder("="),
    "function": lambda name: _known(FUNCTIONS.get(name), "function", name),
    "class": lambda name: _known(class_of(name), "class", name),
}


def _scalar(name: str, data: str) -> Any:
    dtype, content = dtype_of(name), bytes.fromhex(data)
    if dtype.itemsize != len(content):
        msg = f"a number of the type {dtype} does not have {len(content)} bytes"
        raise ArchiveError(msg)
    if not content:
        return dtype.type()
    return np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))[0]


def _known(value: Any, what: str, name: object) -> Any:
    if value is None:
        msg = f"it refers to the {what} {str(name)[:80]!r}, which this version of mercer does not know"
        raise ArchiveError(msg)
    return value
