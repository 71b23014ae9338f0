"""Objects from a flat list of JSON values and a list of arrays, as `mercer.model_files.encoding` writes them.

Digests show that a file is what its author wrote, not that the author is honest, so every entry is checked as if it
came from a stranger:

- Classes and functions come from the closed table of the registry, and attributes are those that a class declares, with
  values of the declared types (`mercer.model_files.checks`).
- Objects refer to previous ones only. Their nesting, and the number of their parts if shared ones are counted each time
  that they are used, are limited, so that neither recursion nor repetition takes more time than reading the file.
- Arrays that compiled code of NumPy and SciPy does not check itself are checked here: indices of sparse matrices,
  positions of random number generators, booleans that are neither 0 nor 1.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from mercer.features import Features
from mercer.io.archive import ArchiveError
from mercer.io.sealed import check_entries, dtype_of, shape_of
from mercer.model_files.checks import check_attributes
from mercer.model_files.encoding import BIT_GENERATORS, MOST_LEVELS
from mercer.model_files.registry import FUNCTIONS, UPGRADES, class_of

__all__ = ["decode"]

# An object may have this many times as many parts as the file has objects, if shared parts are counted each time. In a
# fitted automatic model it is 3.
MOST_REPEATS = 30
# Largest number of keys of one dictionary that are not strings. Keys of equal hashes, which can be computed for numbers
# but not for strings, take a time that is quadratic in their number.
MOST_NUMBER_KEYS = 1000
# Features may have this number of components even if the file is smaller.
LEAST_COMPONENTS = 2**16
# Largest values of other attributes on which memory or time depend: columns, terms of kernels, threads.
MOST = {"width": 2**24, "d": 2**24, "terms": 2**16, "degree": 2**16, "n_jobs": 2**12}
_ATOMS = (bool, int, float, str, type(None), np.generic)


def decode(objects: Any, arrays: list[np.ndarray], version: int) -> Any:
    """Return the last of the objects of a file, after checks of all of them.

    Parameters
    ----------
    objects : object
        The list of objects, from the header of the file.
    arrays : list of ndarray
        The arrays of the file.
    version : int
        Version of the format of the file.

    Raises
    ------
    ArchiveError
        If an entry is not one that `encode` writes.
    """
    if not isinstance(objects, list) or not objects:
        msg = "it has no objects"
        raise ArchiveError(msg)
    decoder = _Decoder(arrays, version, len(objects))
    for number, entry in enumerate(objects):
        try:
            decoder.append(entry)
        except ArchiveError:
            raise
        # What classes that restore their state raise for states that they did not write: more than can be listed.
        except Exception as error:
            msg = f"its object {number} is not what was written ({type(error).__name__}: {error})"
            raise ArchiveError(msg) from error
    return decoder.done[-1]


class _Decoder:
    def __init__(self, arrays: list[np.ndarray], version: int, n_objects: int) -> None:
        self.arrays = arrays
        self.version = version
        self.done: list[Any] = []
        self._most_parts = MOST_REPEATS * n_objects + 1000
        self._most_components = LEAST_COMPONENTS + sum(array.size for array in arrays)
        # Of each object, its levels and its parts; of the object that is being decoded, those of its parts.
        self._levels: list[int] = []
        self._counts: list[int] = []
        self._level = self._count = 0

    def append(self, entry: Any) -> None:
        """Decode the next object."""
        self._level = self._count = 0
        self.done.append(self._object(entry))
        level, count = self._level + 1, self._count + 1
        if level > MOST_LEVELS:
            msg = f"its objects are nested more than {MOST_LEVELS} levels deep"
            raise ArchiveError(msg)
        if count > self._most_parts:
            msg = f"its objects repeat the same parts more than {self._most_parts:,} times"
            raise ArchiveError(msg)
        self._levels.append(level)
        self._counts.append(count)

    def value(self, value: Any) -> Any:
        if isinstance(value, list):
            [index] = value
            if type(index) is not int or not 0 <= index < len(self.done):
                msg = f"an object refers to {index!r}, which is not a previous object"
                raise ArchiveError(msg)
            self._level = max(self._level, self._levels[index])
            self._count += self._counts[index]
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

    def _object(self, entry: Any) -> Any:
        kind = _checked(entry, dict)["type"]
        decode_kind = self._KINDS.get(kind) if isinstance(kind, str) else None
        if decode_kind is None:
            msg = f"it has an object of the type {str(kind)[:80]!r}, which this version does not know"
            raise ArchiveError(msg)
        return decode_kind(self, entry)

    # ---- containers ---------------------------------------------------------------------------------

    def _list(self, entry: Any) -> list[Any]:
        return self.items(entry)

    def _tuple(self, entry: Any) -> tuple[Any, ...]:
        return tuple(self.items(entry))

    def _set(self, entry: Any) -> set[Any]:
        return set(_keys(self.items(entry)))

    def _frozenset(self, entry: Any) -> frozenset[Any]:
        return frozenset(self._set(entry))

    def _dict(self, entry: Any) -> dict[Any, Any]:
        pairs = [_checked(pair, list) for pair in _checked(entry["items"], list)]
        keys = _keys([self.value(key) for key, _ in pairs])
        return dict(zip(keys, [self.value(one) for _, one in pairs], strict=True))

    # ---- arrays ---------------------------------------------------------------------------------------

    def _member(self, entry: Any) -> np.ndarray:
        index = _checked(entry["array"], int)
        if not 0 <= index < len(self.arrays):
            msg = f"an object refers to the array {index}, and there are {len(self.arrays)}"
            raise ArchiveError(msg)
        return self.arrays[index]

    def _small_array(self, entry: Any) -> np.ndarray:
        dtype, data, shape = dtype_of(entry["dtype"]), bytes.fromhex(entry["hex"]), shape_of(entry["shape"])
        if math.prod(shape) * dtype.itemsize != len(data):
            msg = f"an array of shape {shape} and type {dtype} does not have {len(data)} bytes"
            raise ArchiveError(msg)
        array = np.frombuffer(data, dtype).reshape(shape, order="F" if entry["fortran"] is True else "C")
        check_entries(array)
        return array.astype(dtype.newbyteorder("="), order="K")  # a copy that can be written to

    def _triangle(self, entry: Any) -> np.ndarray:
        packed, shape = _checked(self.value(entry["packed"]), np.ndarray), shape_of(entry["shape"])
        rows, columns = shape
        # With at most as many rows as columns, the matrix has at most twice as many entries as the file.
        if packed.ndim != 1 or rows > columns or len(packed) != rows * columns - rows * (rows - 1) // 2:
            msg = f"a triangular matrix of shape {shape} does not have {packed.size} entries"
            raise ArchiveError(msg)
        matrix = np.zeros(shape, packed.dtype)
        start = 0
        for i, row in enumerate(matrix):
            row[i:] = packed[start : start + columns - i]
            start += columns - i
        return matrix

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
        items = self.items(entry)
        if not all(isinstance(one, _ATOMS) for one in items):
            msg = "it has an array of objects that are neither numbers nor strings"
            raise ArchiveError(msg)
        return _objects(items, entry["shape"])

    def _csr(self, entry: Any) -> Any:
        data, indices, indptr = (_checked(self.value(part), np.ndarray) for part in entry["parts"])
        rows, columns = shape_of(entry["shape"])
        if any(part.ndim != 1 for part in (data, indices, indptr)) or data.dtype.kind not in "biufc":
            msg = "a sparse matrix does not consist of vectors of numbers"
            raise ArchiveError(msg)
        if {indices.dtype, indptr.dtype} - {np.dtype(np.int32), np.dtype(np.int64)}:
            msg = "the indices of a sparse matrix are not integers"
            raise ArchiveError(msg)
        if len(indptr) != rows + 1 or len(data) != len(indices):
            msg = f"a sparse matrix of shape ({rows}, {columns}) does not fit its indices"
            raise ArchiveError(msg)
        make = sp.csr_matrix if entry["type"] == "csr_matrix" else sp.csr_array
        matrix = make((data, indices, indptr), shape=(rows, columns))
        matrix.check_format(full_check=True)  # indices outside of the matrix would be read by compiled code
        return matrix

    # ---- random number generators -----------------------------------------------------------------------

    def _random_state(self, entry: Any) -> np.random.RandomState:
        given = _checked(self.value(entry["state"]), dict)
        _check_positions(given)
        state = np.random.RandomState(0)
        state.set_state(given)
        return state

    def _generator(self, entry: Any) -> np.random.Generator:
        state, seed = _checked(self.value(entry["state"]), dict), self.value(entry["seed"])
        name = state["bit_generator"]
        if name not in BIT_GENERATORS:
            msg = f"it has a generator {str(name)[:80]!r}, which this version does not know"
            raise ArchiveError(msg)
        _check_positions(state)
        bits = getattr(np.random, name)(_checked(seed, np.random.SeedSequence | None) or 0)
        bits.state = state
        return np.random.Generator(bits)

    def _seed_sequence(self, entry: Any) -> np.random.SeedSequence:
        state = _checked(self.value(entry["state"]), dict)
        if not 4 <= _checked(state["pool_size"], int) <= 64:
            msg = f"it has a seed with a pool of {state['pool_size']} words"
            raise ArchiveError(msg)
        return np.random.SeedSequence(
            state["entropy"],
            spawn_key=state["spawn_key"],
            pool_size=state["pool_size"],
            n_children_spawned=state["n_children_spawned"],
        )

    # ---- instances of classes -----------------------------------------------------------------------------

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
            return self._with_array(cls, name, self.value(entry["state"]))
        attributes = {key: self.value(one) for key, one in _checked(entry["attributes"], dict).items()}
        for old in range(self.version, max((format_ for _, format_ in UPGRADES), default=0) + 1):
            if (name, old) in UPGRADES:
                attributes = UPGRADES[name, old](attributes)
        check_attributes(cls, name, attributes)
        if issubclass(cls, tuple):
            return cls(**attributes)
        value = _restored(cls, attributes)
        _add_defaults(value, name)
        if hasattr(value, "__post_init__"):  # the checks of a constructor; what they normalize is normalized already
            value.__post_init__()
        sizes: dict[str, Any] = {
            key: size for key, size in attributes.items() if key in MOST and isinstance(size, Integral)
        }
        if isinstance(value, Features):
            sizes["n_components"] = value.n_components
        for key, size in sizes.items():
            most = MOST.get(key, self._most_components)
            least = -most if key == "n_jobs" else 0  # a negative number of threads counts from the number of cores
            if not least <= _checked(size, Integral) <= most:
                msg = f"its {name} has {key} = {size}, more than a file of this size can need"
                raise ArchiveError(msg)
        return value

    def _with_array(self, cls: Any, name: str, state: Any) -> Any:
        """Return an instance whose state is a matrix."""
        is_matrix = isinstance(state, np.ndarray) and state.ndim == 2 and state.dtype == np.float64
        if "__setstate__" not in vars(cls) or not is_matrix:
            msg = f"the state of {name} is not one of this class"
            raise ArchiveError(msg)
        value = object.__new__(cls)
        value.__setstate__(state)
        return value

    _KINDS: ClassVar[dict[str, Callable[[_Decoder, Any], Any]]] = {
        "list": _list,
        "tuple": _tuple,
        "set": _set,
        "frozenset": _frozenset,
        "dict": _dict,
        "array": _member,
        "small array": _small_array,
        "triangle": _triangle,
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
        msg = f"it has {str(value)[:80]!r} where {getattr(kind, '__name__', kind)} is needed"
        raise ArchiveError(msg)
    return value


def _keys(values: list[Any]) -> Iterable[Any]:
    """Return keys of a dictionary or elements of a set; raise ArchiveError for keys of nested parts, or too many.

    Hashing a tuple of tuples that are shared would take a time that is exponential in their number.
    """
    if sum(not isinstance(value, str) for value in values) > MOST_NUMBER_KEYS:
        msg = f"it has a dictionary of more than {MOST_NUMBER_KEYS:,} keys that are not strings"
        raise ArchiveError(msg)
    for value in values:
        parts = value if isinstance(value, tuple) else (value,)
        if not all(isinstance(part, (*_ATOMS, np.dtype)) for part in parts):
            msg = f"it has a key of the type {type(value).__name__}, and keys are numbers, strings, or tuples of these"
            raise ArchiveError(msg)
    return values


def _objects(items: list[Any], shape: Any) -> np.ndarray:
    """Return an array of objects."""
    dimensions = shape_of(shape)
    if math.prod(dimensions) != len(items):
        msg = f"an array of shape {dimensions} does not have {len(items)} entries"
        raise ArchiveError(msg)
    array = np.empty(len(items), dtype=object)
    for number, one in enumerate(items):
        array[number] = one
    return array.reshape(dimensions)


def _check_positions(state: Mapping[str, Any]) -> None:
    """Raise ArchiveError if a generator would read outside of its buffer: NumPy does not check these numbers."""
    buffer = {"MT19937": ("pos", 624), "Philox": ("buffer_pos", 4)}.get(str(state["bit_generator"]))
    if buffer is not None:
        name, size = buffer
        where = state["state"] if name == "pos" else state
        if not 0 <= _checked(where[name], Integral) <= size:
            msg = f"it has a generator at the position {where[name]} of a buffer of {size} numbers"
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
    "scalar": lambda parts: _scalar(*parts),
    "dtype": lambda name: np.dtype(object) if name == "object" else dtype_of(name).newbyteorder("="),
    "function": lambda name: _function(name),
}


def _scalar(name: str, data: str) -> Any:
    dtype, content = dtype_of(name), bytes.fromhex(data)
    if dtype.itemsize != len(content):
        msg = f"a number of the type {dtype} does not have {len(content)} bytes"
        raise ArchiveError(msg)
    array = np.frombuffer(content, dtype)
    check_entries(array)
    return array.astype(dtype.newbyteorder("="))[0]


def _function(name: object) -> Any:
    if name not in FUNCTIONS:
        msg = f"it refers to the function {str(name)[:80]!r}, which this version of mercer does not know"
        raise ArchiveError(msg)
    return FUNCTIONS[str(name)]
