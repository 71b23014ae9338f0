"""Arrays that are not computed yet: what a fitted model computes, as a graph of array operations.

A `Value` is the result of an operation on other values. The functions of this module make values, as NumPy's functions
make arrays. The first axis of a value is that of the rows, unless the value does not depend on the rows. What depends
on constants only is computed at once.

Each value has an example: its array for two rows of zeros. So shapes need no rules of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mercer.export import runtime

__all__ = [
    "OPERATIONS",
    "Value",
    "above",
    "absolute",
    "apply",
    "arctan",
    "argmax",
    "at_least",
    "butterfly",
    "clip",
    "columns",
    "concatenate",
    "constant",
    "convolve",
    "coordinate_kernel",
    "cos",
    "exp",
    "floor",
    "hadamard",
    "interpolate",
    "is_nan",
    "log",
    "look_up",
    "matrix_transpose",
    "maximum",
    "minimum",
    "nearest",
    "ordered",
    "pad",
    "parameter",
    "piecewise_polynomial",
    "repeat_rows",
    "reshape",
    "rounded",
    "rows",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "solve",
    "sqrt",
    "square",
    "squared_distances",
    "table_column",
    "take",
    "take_rows",
    "total",
    "where",
]

Array = np.ndarray
# Number of rows of examples. It differs from most numbers of columns, so that a confusion of axes raises.
EXAMPLE_ROWS = 2


@dataclass(frozen=True, eq=False)
class Value:
    """The result of an operation: a node of the graph.

    Attributes
    ----------
    op : str
        Name of the operation, a key of `OPERATIONS`, or "constant", "rows" or "parameter".
    inputs : tuple of Value
        Values that the operation takes.
    options : mapping
        Further arguments of the operation: numbers, strings and arrays of indices.
    example : ndarray
        The array for two rows of zeros; for a constant its array.
    is_batched : bool
        Whether the first axis is that of the rows.
    name : str or None
        Name in generated code.
    note : str or None
        Comment in generated code.
    """

    op: str
    inputs: tuple[Value, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    example: Array = field(default_factory=lambda: np.zeros(0))
    is_batched: bool = False
    name: str | None = None
    note: str | None = None

    @property
    def is_constant(self) -> bool:
        """Whether the value is an array."""
        return self.op == "constant"

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes; those of the rows is that of the example."""
        return self.example.shape

    @property
    def width(self) -> int:
        """Length of the last axis."""
        return self.example.shape[-1]

    def named(self, name: str, note: str | None = None) -> Value:
        """Return the same value with a name, and a comment, in generated code. Rows and parameters keep their names."""
        if self.op in ("rows", "parameter"):
            return self
        return replace(self, name=name, note=note)

    def __add__(self, other: Any) -> Value:
        return self if is_number(other, 0.0) else apply("add", self, other)

    def __radd__(self, other: Any) -> Value:
        return self if is_number(other, 0.0) else apply("add", other, self)

    def __sub__(self, other: Any) -> Value:
        return self if is_number(other, 0.0) else apply("subtract", self, other)

    def __rsub__(self, other: Any) -> Value:
        return apply("subtract", other, self)

    def __mul__(self, other: Any) -> Value:
        return self if is_number(other, 1.0) else apply("multiply", self, other)

    def __rmul__(self, other: Any) -> Value:
        return self if is_number(other, 1.0) else apply("multiply", other, self)

    def __truediv__(self, other: Any) -> Value:
        return self if is_number(other, 1.0) else apply("divide", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return apply("divide", other, self)

    def __matmul__(self, other: Any) -> Value:
        return apply("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Value:
        return apply("matmul", other, self)

    def __neg__(self) -> Value:
        return apply("negative", self)

    # NumPy arrays on the left of an operator leave it to this class.
    __array_ufunc__ = None


def is_number(value: Any, number: float) -> bool:
    """Return whether a value is a number, which adds or multiplies nothing."""
    return isinstance(value, int | float | np.floating | np.integer) and value == number


def _reshape(x: Array, tail: tuple[int, ...]) -> Array:
    return x.reshape(-1, *tail)


#: NumPy functions of the values of the inputs, with the options as keyword arguments.
OPERATIONS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "matmul": np.matmul,
    "negative": np.negative,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "cos": np.cos,
    "sin": np.sin,
    "arctan": np.arctan,
    "abs": np.abs,
    "sign": np.sign,
    "square": np.square,
    "floor": np.floor,
    "round": np.rint,
    "sigmoid": runtime.sigmoid,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "greater_equal": np.greater_equal,
    "greater": np.greater,
    "where": np.where,
    "sum": lambda x, axis, keepdims: x.sum(axis=axis, keepdims=keepdims),
    "reshape": _reshape,
    "transpose": lambda x: np.swapaxes(x, -1, -2),
    "concatenate": lambda *x: np.concatenate(x, axis=-1),
    "columns": lambda x, start, stop: x[..., start:stop],
    "take": lambda x, indices: x[..., indices],
    "take_rows": lambda x, indices: x[indices],
    "repeat_rows": lambda x, like: np.broadcast_to(x, (len(like), *x.shape)),
    "pad": runtime.pad,
    "squared_distances": runtime.squared_distances,
    "coordinate_kernel": lambda x, y, name: getattr(runtime, name)(x, y),
    "hadamard": runtime.hadamard,
    "butterfly": runtime.butterfly,
    "convolve": runtime.circular_convolution,
    "interpolate": runtime.interpolate,
    "piecewise_polynomial": runtime.piecewise_polynomial,
    "nearest": runtime.nearest,
    "solve": runtime.solve,
    "softmax": runtime.softmax,
    "isnan": np.isnan,
    "look_up": runtime.look_up,
    "argmax": lambda x: x.argmax(axis=-1),
    "cholesky_inverse": lambda x: np.linalg.inv(np.linalg.cholesky(x)),
}


def constant(values: Any, name: str | None = None) -> Value:
    """Return a constant array, in float64 if it is not of integers or booleans."""
    array = np.asarray(values)
    if array.dtype.kind == "f":
        array = array.astype(np.float64, copy=False)
    return Value("constant", example=array, name=name)


def rows(width: int, name: str = "X") -> Value:
    """Return the rows (n, width) that a model takes."""
    return Value("rows", example=np.zeros((EXAMPLE_ROWS, width)), is_batched=True, name=name)


def table_column(name: str, kind: str) -> Value:
    """Return a column (n, 1) of a table: strings if its kind is "category", and otherwise numbers with NaN."""
    empty = np.full((EXAMPLE_ROWS, 1), "", dtype=object) if kind == "category" else np.zeros((EXAMPLE_ROWS, 1))
    return Value("rows", options={"column": name, "kind": kind}, example=empty, is_batched=True, name=name)


def parameter(values: Any, name: str) -> Value:
    """Return an array that is not a constant, because it can be trained."""
    return Value("parameter", example=np.asarray(values, dtype=np.float64), name=name)


def as_value(value: Any) -> Value:
    """Return a value, an array or a number as a value; integers of Python become floats."""
    if isinstance(value, Value):
        return value
    return constant(float(value) if type(value) is int else value)


def apply(op: str, *inputs: Any, **options: Any) -> Value:
    """Return the result of an operation; what depends on constants only is a constant."""
    values = tuple(as_value(one) for one in inputs)
    with np.errstate(all="ignore"):
        example = np.asarray(OPERATIONS[op](*(one.example for one in values), **options))
    if all(one.is_constant for one in values):
        return constant(example)
    return Value(op, values, options, example, any(one.is_batched for one in values))


def _unary(op: str) -> Callable[[Any], Value]:
    return lambda x: apply(op, x)


def _binary(op: str) -> Callable[[Any, Any], Value]:
    return lambda x, y: apply(op, x, y)


exp, log, sqrt, cos, sin = (_unary(name) for name in ("exp", "log", "sqrt", "cos", "sin"))
arctan, absolute, sign, square = (_unary(name) for name in ("arctan", "abs", "sign", "square"))
floor, sigmoid, softmax, argmax = (_unary(name) for name in ("floor", "sigmoid", "softmax", "argmax"))
rounded = _unary("round")
hadamard, matrix_transpose, is_nan = _unary("hadamard"), _unary("transpose"), _unary("isnan")
maximum, minimum = _binary("maximum"), _binary("minimum")
at_least, above = _binary("greater_equal"), _binary("greater")
squared_distances_of_matrices, convolve, solve = _binary("squared_distances"), _binary("convolve"), _binary("solve")


def clip(x: Any, low: float, high: float) -> Value:
    """Return the values, at least `low` and at most `high`."""
    return minimum(maximum(x, low), high)


def where(condition: Any, x: Any, y: Any) -> Value:
    """Return the entries of `x` where the condition holds, and those of `y` elsewhere."""
    return apply("where", condition, x, y)


def total(x: Any, axis: int = -1, *, keepdims: bool = False) -> Value:
    """Return the sums along an axis other than that of the rows."""
    return apply("sum", x, axis=axis, keepdims=keepdims)


def reshape(x: Value, *tail: int) -> Value:
    """Return the same entries with axes of other lengths, after the axis of the rows."""
    return apply("reshape", x, tail=tuple(int(length) for length in tail))


def concatenate(parts: Iterable[Value]) -> Value:
    """Join values along the last axis; parts without rows are repeated for all rows."""
    parts = [part for part in parts if part.width]
    like = next((part for part in parts if part.is_batched), None)
    if like is not None:
        parts = [part if part.is_batched else repeat_rows(part, like) for part in parts]
    return parts[0] if len(parts) == 1 else apply("concatenate", *parts)


def repeat_rows(x: Any, like: Value) -> Value:
    """Return a value that does not depend on the rows, once for each row of another value."""
    return apply("repeat_rows", x, like)


def columns(x: Value, start: int, stop: int) -> Value:
    """Return some consecutive entries along the last axis."""
    stop = min(stop, x.width)
    return x if (start, stop) == (0, x.width) else apply("columns", x, start=int(start), stop=int(stop))


def take(x: Value, indices: Any) -> Value:
    """Return the entries with given indices along the last axis."""
    indices = np.asarray(indices, dtype=np.int64)
    if indices.shape == (x.width,) and (indices == np.arange(x.width)).all():
        return x
    return apply("take", x, indices=indices)


def take_rows(x: Any, indices: Value) -> Value:
    """Return the rows of an array (m, ...) with the indices (n, k), of shape (n, k, ...)."""
    return apply("take_rows", x, indices)


def pad(x: Value, width: int) -> Value:
    """Return rows with zeros appended up to a width."""
    return x if x.width == width else apply("pad", x, width=int(width))


def squared_distances(x: Value, y: Value) -> Value:
    """Return the squared distances of all pairs of rows x (..., n, d) and y (..., m, d)."""
    if x.example.ndim == 2 and y.example.ndim == 2 and not y.is_batched:
        return squared_distances_of_matrices(x, y)
    return coordinate_kernel(x, y, "squared_differences")


def coordinate_kernel(x: Value, y: Value, name: str) -> Value:
    """Return a sum or a product over features, by the name of a function of `mercer.export.runtime`."""
    return apply("coordinate_kernel", x, y, name=name)


def butterfly(x: Value, cosines: Any, sines: Any) -> Value:
    """Return rows (n, blocks, P) after the rotations of butterfly matrices."""
    return apply("butterfly", x, cosines, sines)


def interpolate(x: Value, knots: Any, values: Any) -> Value:
    """Return a piecewise linear function of the entries."""
    return apply("interpolate", x, knots, values)


def piecewise_polynomial(x: Value, coefficients: Any, lowest: int) -> Value:
    """Return a piecewise polynomial of the entries; see `mercer.export.runtime.piecewise_polynomial`."""
    return apply("piecewise_polynomial", x, coefficients, lowest=int(lowest))


def look_up(cells: Value, keys: Value, table: Value, buckets: int) -> Value:
    """Return the rows of a table that belong to strings (n, 1); see `mercer.export.runtime.look_up`."""
    return apply("look_up", cells, keys, table, buckets=int(buckets))


def nearest(squares: Value, count: int) -> Value:
    """Return the indices (n, count) of the least entries of each row."""
    return apply("nearest", squares, count=int(count))


def ordered(outputs: Iterable[Value]) -> list[Value]:
    """Return all values that others are computed from, and these, each after its inputs."""
    found: dict[int, Value] = {}
    left = [(value, False) for value in reversed(list(outputs))]
    while left:
        value, is_done = left.pop()
        if id(value) in found:
            continue
        if is_done:
            found[id(value)] = value
        else:
            left.append((value, True))
            left += [(one, False) for one in reversed(value.inputs) if id(one) not in found]
    return list(found.values())
