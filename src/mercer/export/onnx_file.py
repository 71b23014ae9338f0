"""A model as an ONNX graph of standard operators."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from mercer.errors import ExportError
from mercer.errors.packages import optional_module
from mercer.export.graph import Value, ordered
from mercer.export.program import Program

if TYPE_CHECKING:
    import onnx

__all__ = ["OPSET", "onnx_model"]

Array = np.ndarray
#: Version of the standard operators.
OPSET = 18
# Version of the file format, which runtimes have read since 2022.
IR_VERSION = 8
# Largest Hadamard matrix that is written as a matrix; larger ones are products of two.
LARGEST_HADAMARD = 128
# Number of equations that are eliminated at a time.
BLOCK = 8
UNARY = {
    "negative": "Neg",
    "exp": "Exp",
    "log": "Log",
    "sqrt": "Sqrt",
    "cos": "Cos",
    "sin": "Sin",
    "abs": "Abs",
    "sign": "Sign",
    "floor": "Floor",
    "round": "Round",
    "sigmoid": "Sigmoid",
    "isnan": "IsNaN",
}
BINARY = {
    "add": "Add",
    "subtract": "Sub",
    "multiply": "Mul",
    "divide": "Div",
    "matmul": "MatMul",
    "maximum": "Max",
    "minimum": "Min",
    "greater_equal": "GreaterOrEqual",
    "greater": "Greater",
}


def arctan_coefficients() -> Array:
    """Return the coefficients of a polynomial p with arctan(x) = x p(x^2) for 0 <= x <= 1, up to rounding."""
    degree = 24
    nodes = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    roots = np.sqrt((nodes + 1) / 2)
    fitted = np.polynomial.chebyshev.chebfit(nodes, np.arctan(roots) / roots, degree)
    return np.polynomial.chebyshev.cheb2poly(fitted)  # in the variable 2 x^2 - 1, in which they decrease


class Writer:
    """Nodes and constants of an ONNX graph, written value by value."""

    def __init__(self, program: Program, dtype: np.dtype, compute: np.dtype) -> None:
        self.onnx: Any = optional_module("onnx", "export_model(to='onnx')", "'mercer[onnx]'")
        self.helper: Any = self.onnx.helper
        self.compute = compute
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._names: dict[int, str] = {}
        self._array_names: dict[tuple[int, str], str] = {}
        self._kept: list[Array] = []
        self._count = 0
        self.domains: set[str] = set()
        self._inputs = program.input_names
        self._taken = {"X", *program.outputs, *self._inputs.values()}
        for value in program.columns:
            self._names[id(value)] = self._column(value, dtype)
        if not program.columns:
            self._names[id(program.rows)] = "X" if dtype == compute else self.cast("X", compute)
        for value in ordered(program.outputs.values()):
            if id(value) not in self._names:
                self._names[id(value)] = self._write(value)

    # ---- names and constants ------------------------------------------------------------------------------

    def name_of(self, value: Value) -> str:
        """Return the name of a value that was written."""
        return self._names[id(value)]

    def fresh(self, hint: str = "t") -> str:
        """Return a new name."""
        self._count += 1
        while f"{hint}_{self._count}" in self._taken:
            self._count += 1
        return f"{hint}_{self._count}"

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output, and return the name of the output."""
        return self.node_of_several(op, inputs, 1, **attributes)[0]

    def node_of_several(self, op: str, inputs: Any, count: int, **attributes: Any) -> list[str]:
        """Add a node with several outputs, and return their names."""
        names = [self.fresh(op.lower()) for _ in range(count)]
        self.nodes.append(self.helper.make_node(op, list(inputs), names, **attributes))
        return names

    def constant(self, array: Any, name: str | None = None) -> str:
        """Add a constant, and return its name; numbers get the dtype of the computation."""
        array = np.asarray(array)
        dtype = self.compute if array.dtype.kind == "f" else array.dtype
        key = (id(array), str(dtype))
        if key not in self._array_names:
            self._kept.append(array)
            self._array_names[key] = self.fresh(name or "c")
            self.constants.append(
                self.onnx.numpy_helper.from_array(np.ascontiguousarray(array, dtype), self._array_names[key])
                if array.ndim
                else self.onnx.numpy_helper.from_array(np.asarray(array, dtype), self._array_names[key])
            )
        return self._array_names[key]

    def integers(self, *values: int) -> str:
        """Add a constant of integers, such as axes or a shape."""
        return self.constant(np.array(values, dtype=np.int64))

    def cast(self, name: str, dtype: Any) -> str:
        """Return a value in another dtype."""
        return self.node("Cast", name, to=self.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def _column(self, value: Value, dtype: np.dtype) -> str:
        """Return a column of a table in the dtype of the computation; strings as they are."""
        name, kind = self._inputs[str(value.options["column"])], value.options["kind"]
        if kind == "category":
            return name
        if kind != "date":
            return name if dtype == self.compute else self.cast(name, self.compute)
        if self.compute != np.float64:
            msg = f"Column {name!r} has dates, which need compute='float64', got {self.compute}."
            raise ExportError(msg)
        gone = self.node("Equal", name, self.constant(np.int64(np.iinfo(np.int64).min)))
        return self.node("Where", gone, self.constant(np.float64(np.nan)), self.cast(name, np.float64))

    def _look_up(self, value: Value, cells: str, keys: str, table: str) -> str:
        del keys
        if value.options["buckets"]:
            msg = (
                f"Column {value.inputs[0].options['column']!r} has more categories than the model stores. They are "
                "distinguished by a hash, for which ONNX has no operator. Use to='python'."
            )
            raise ExportError(msg)
        known = [str(one) for one in value.inputs[1].example]
        strings, indices = [*known], list(range(len(known)))
        if "" not in known:  # a missing cell
            strings, indices = [*strings, ""], [*indices, len(known)]
        self.domains.add("ai.onnx.ml")
        found = self.node(
            "LabelEncoder",
            cells,
            domain="ai.onnx.ml",
            keys_strings=strings,
            values_int64s=indices,
            default_int64=len(known) + 1,
        )
        return self.node("Gather", table, self.node("Squeeze", found, self.integers(1)), axis=0)

    # ---- operations ---------------------------------------------------------------------------------------

    def _write(self, value: Value) -> str:
        if value.is_constant:
            return "" if value.example.dtype.kind == "U" else self.constant(value.example, value.name)
        inputs = [self.name_of(one) for one in value.inputs]
        if value.op in UNARY:
            return self.node(UNARY[value.op], *inputs)
        if value.op in BINARY:
            scaled = self._scaled_product(value)
            return self.node(BINARY[value.op], *inputs) if scaled is None else scaled
        special: Callable[..., str] = getattr(self, f"_{value.op}")
        return special(value, *inputs)

    def _scaled_product(self, value: Value) -> str | None:
        """Return a matrix product with a constant times a number, as a product with another constant; or None.

        onnxruntime would fuse the two operations, and round the number to float32.
        """
        if value.op not in ("multiply", "divide"):
            return None
        left, right = value.inputs
        if value.op == "multiply" and left.is_constant:
            left, right = right, left
        if left.op != "matmul" or not left.inputs[1].is_constant or not right.is_constant or right.example.size != 1:
            return None
        number = right.example.reshape(())
        matrix = left.inputs[1].example * number if value.op == "multiply" else left.inputs[1].example / number
        return self.node("MatMul", self.name_of(left.inputs[0]), self.constant(matrix, left.inputs[1].name))

    def _square(self, value: Value, x: str) -> str:  # noqa: ARG002 - the signature of all operations
        return self.node("Mul", x, x)

    def _where(self, value: Value, condition: str, x: str, y: str) -> str:  # noqa: ARG002
        return self.node("Where", condition, x, y)

    def _sum(self, value: Value, x: str) -> str:
        options = value.options
        return self.node("ReduceSum", x, self.integers(options["axis"]), keepdims=int(options["keepdims"]))

    def _reshape(self, value: Value, x: str) -> str:
        return self.node("Reshape", x, self.integers(-1, *value.options["tail"]))

    def _transpose(self, value: Value, x: str) -> str:
        order = [*range(value.example.ndim - 2), value.example.ndim - 1, value.example.ndim - 2]
        return self.node("Transpose", x, perm=order)

    def _concatenate(self, value: Value, *parts: str) -> str:  # noqa: ARG002
        return self.node("Concat", *parts, axis=-1)

    def _columns(self, value: Value, x: str) -> str:
        start, stop = value.options["start"], value.options["stop"]
        return self.node("Slice", x, self.integers(start), self.integers(stop), self.integers(-1))

    def _take(self, value: Value, x: str) -> str:
        return self.node("Gather", x, self.constant(value.options["indices"], "indices"), axis=-1)

    def _take_rows(self, value: Value, x: str, indices: str) -> str:  # noqa: ARG002
        return self.node("Gather", x, indices, axis=0)

    def _repeat_rows(self, value: Value, x: str, like: str) -> str:
        n = self.node("Shape", like, start=0, end=1)
        shape = self.node("Concat", n, self.integers(*value.inputs[0].shape), axis=0) if value.inputs[0].shape else n
        return self.node("Expand", x, shape)

    def _pad(self, value: Value, x: str) -> str:
        before = value.inputs[0]
        pads = [0] * (2 * before.example.ndim)
        pads[-1] = value.options["width"] - before.width
        return self.node("Pad", x, self.integers(*pads), self.constant(np.float64(0)))

    def _argmax(self, value: Value, x: str) -> str:  # noqa: ARG002
        return self.node("ArgMax", x, axis=-1, keepdims=0)

    def _softmax(self, value: Value, x: str) -> str:  # noqa: ARG002
        return self.node("Softmax", x, axis=-1)

    def _arctan(self, value: Value, x: str) -> str:  # noqa: ARG002
        # Runtimes have no arc tangent in double precision. The argument is >= 0.
        one = self.constant(np.float64(1))
        reduced = self.node("Min", x, self.node("Div", one, self.node("Max", x, self.constant(np.float64(1e-300)))))
        square = self.node("Mul", reduced, reduced)
        u = self.node("Sub", self.node("Add", square, square), one)
        polynomial = self._horner(u, [self.constant(c) for c in arctan_coefficients()])
        small = self.node("Mul", reduced, polynomial)
        large = self.node("Sub", self.constant(np.float64(np.pi / 2)), small)
        return self.node("Where", self.node("Greater", x, one), large, small)

    def _horner(self, x: str, coefficients: list[str]) -> str:
        out = coefficients[-1]
        for one in coefficients[-2::-1]:
            out = self.node("Add", self.node("Mul", out, x), one)
        return out

    def _hadamard(self, value: Value, x: str) -> str:
        width = value.width
        if width <= LARGEST_HADAMARD:
            return self.node("MatMul", x, self.constant(hadamard_matrix(width), "hadamard"))
        # A Kronecker product of two Hadamard matrices: rows of a matrix times one, and its columns times the other.
        right = 1 << (width.bit_length() // 2)
        left = width // right
        tail = value.shape[1:-1]
        square = self.node("Reshape", x, self.integers(-1, *tail, left, right))
        out = self.node("MatMul", square, self.constant(hadamard_matrix(right), "hadamard"))
        out = self.node("MatMul", self.constant(hadamard_matrix(left), "hadamard"), out)
        return self.node("Reshape", out, self.integers(-1, *tail, width))

    def _butterfly(self, value: Value, x: str, cosines: str, sines: str) -> str:  # noqa: ARG002
        _, c, s = value.inputs
        for level in range(len(c.example)):
            other = self.node("Gather", x, self.constant(np.arange(value.width) ^ (1 << level), "pairs"), axis=-1)
            kept = self.node("Mul", x, self.constant(c.example[level], "cosines"))
            x = self.node("Add", kept, self.node("Mul", other, self.constant(s.example[level], "sines")))
        return x

    def _convolve(self, value: Value, x: str, y: str) -> str:
        # By Fourier transforms in two steps: the operator DFT of onnxruntime has the precision of float32 only.
        rows, columns = factors_of(value.width)
        spectra = [self._transform((self._as_matrices(one, rows, columns), None), rows, columns) for one in (x, y)]
        real, _ = self._transform(self._complex_product(*spectra), rows, columns, inverse=True)
        return self.node("Reshape", real, self.integers(-1, value.width))

    def _as_matrices(self, x: str, rows: int, columns: int) -> str:
        return self.node("Reshape", x, self.integers(-1, rows, columns))

    def _transform(
        self, signal: tuple[str, str | None], rows: int, columns: int, *, inverse: bool = False
    ) -> tuple[str, str]:
        """Return the real and imaginary parts of the Fourier transforms of matrices, whose entries are sequences.

        An entry of the result is at index k1 + rows * k2 of the transform for row k1 and column k2. The inverse
        transform starts from there, and the result has the entries in the order of the sequences.
        """
        sign = 1.0 if inverse else -1.0
        n, m = np.arange(rows), np.arange(columns)
        left = np.exp(sign * 2j * np.pi * np.outer(n, n) / rows)
        right = np.exp(sign * 2j * np.pi * np.outer(m, m) / columns)
        twiddles = np.exp(sign * 2j * np.pi * np.outer(n, m) / (rows * columns))
        if inverse:
            left, right = left / rows, right / columns
            signal = self._complex_matmul(signal, right, from_left=False)
            signal = self._complex_product(signal, (self.constant(twiddles.real), self.constant(twiddles.imag)))
            real, imaginary = self._complex_matmul(signal, left, from_left=True)
            return real, imaginary
        found = self._complex_matmul(signal, left, from_left=True)
        found = self._complex_product(found, (self.constant(twiddles.real), self.constant(twiddles.imag)))
        return self._complex_matmul(found, right, from_left=False)

    def _complex_matmul(self, x: tuple[str, str | None], matrix: Array, *, from_left: bool) -> tuple[str, str]:
        a, b = self.constant(np.ascontiguousarray(matrix.real)), self.constant(np.ascontiguousarray(matrix.imag))
        real, imaginary = x

        def times(value: str, constant: str) -> str:
            return self.node("MatMul", constant, value) if from_left else self.node("MatMul", value, constant)

        if imaginary is None:
            return times(real, a), times(real, b)
        return (
            self.node("Sub", times(real, a), times(imaginary, b)),
            self.node("Add", times(real, b), times(imaginary, a)),
        )

    def _complex_product(self, x: tuple[str, str | None], y: tuple[str, str | None]) -> tuple[str, str]:
        (a, b), (c, d) = x, y
        assert b is not None
        assert d is not None
        real = self.node("Sub", self.node("Mul", a, c), self.node("Mul", b, d))
        return real, self.node("Add", self.node("Mul", a, d), self.node("Mul", b, c))

    def _interpolate(self, value: Value, x: str, knots: str, ranks: str) -> str:  # noqa: ARG002
        at, values = (one.example for one in value.inputs[1:])
        if len(at) == 1:
            return self.node("Expand", self.constant(values), self.node("Shape", x))
        # The interval is the number of inner knots that are not above x, which is clipped to the knots.
        clipped = self.node("Max", self.node("Min", x, self.constant(at[-1])), self.constant(at[0]))
        if len(at) > 2:
            passed = self.cast(self.node("GreaterOrEqual", clipped, self.constant(at[None, 1:-1], "knots")), np.int64)
            index = self.node("ReduceSum", passed, self.integers(-1), keepdims=1)
        else:
            index = self.node("Mul", self.cast(clipped, np.int64), self.constant(np.int64(0)))
        slopes = np.diff(values) / np.diff(at)
        start, first, slope = (
            self.node("Gather", self.constant(one, name), index, axis=0)
            for one, name in ((at[:-1], "knots"), (values[:-1], "ranks"), (slopes, "slopes"))
        )
        return self.node("Add", first, self.node("Mul", slope, self.node("Sub", clipped, start)))

    def _piecewise_polynomial(self, value: Value, x: str, table: str) -> str:  # noqa: ARG002
        coefficients, lowest = value.inputs[1].example, value.options["lowest"]
        most = 2.0 ** (lowest + len(coefficients)) * (1 - 1e-15)
        x = self.node(
            "Min", self.node("Max", x, self.constant(np.float64(2.0**lowest))), self.constant(np.float64(most))
        )
        level = self.node("Floor", self.node("Div", self.node("Log", x), self.constant(np.float64(math.log(2)))))
        index = self.cast(self.node("Sub", level, self.constant(np.float64(lowest))), np.int64)
        last = self.constant(np.int64(len(coefficients) - 1))
        index = self.node("Max", self.node("Min", index, last), self.constant(np.int64(0)))
        units = 2.0 ** (1 - lowest - np.arange(len(coefficients), dtype=float))
        t = self.node("Mul", x, self.node("Gather", self.constant(units, "units"), index, axis=0))
        t = self.node("Sub", t, self.constant(np.float64(3)))
        rows = [
            self.node("Gather", self.constant(np.ascontiguousarray(column), "coefficients"), index, axis=0)
            for column in coefficients.T
        ]
        return self._horner(t, rows)

    # ---- distances and kernels of coordinates ---------------------------------------------------------------

    def _in_double(self, *names: str) -> list[str]:
        """Return values in float64, in which distances lose no digits that matter."""
        return list(names) if self.compute == np.float64 else [self.cast(name, np.float64) for name in names]

    def _from_double(self, name: str) -> str:
        return name if self.compute == np.float64 else self.cast(name, self.compute)

    def _double(self, array: Any, name: str = "c") -> str:
        """Add a constant in float64."""
        array = np.asarray(array, dtype=np.float64)
        out = self.fresh(name)
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), out))
        return out

    def _squared_distances(self, value: Value, x: str, y: str) -> str:
        Y = value.inputs[1]
        assert Y.is_constant, "landmarks of an exported model are constants"
        del y
        (x,) = self._in_double(x)
        rows = Y.example
        center = np.median(rows[:: -(-len(rows) // 64)], axis=0)
        centered = rows - center
        z = self.node("Sub", x, self._double(center, "center"))
        squares = self.node("ReduceSum", self.node("Mul", z, z), self.integers(-1), keepdims=1)
        sizes = self.node("Add", squares, self._double(np.square(centered).sum(axis=1), "squares"))
        products = self.node("MatMul", z, self._double(-2 * centered.T, "rows"))
        out = self.node("Add", sizes, products)
        # Where the difference loses digits, it is computed from the differences of the rows.
        few = self.node("LessOrEqual", out, self.node("Mul", sizes, self._double(1e-5)))
        pairs = self.node("Transpose", self.node("NonZero", few), perm=[1, 0])
        i, j = self.node_of_several("Split", [pairs], 2, axis=1, num_outputs=2)
        i, j = (self.node("Reshape", one, self.integers(-1)) for one in (i, j))
        apart = self.node("Sub", self.node("Gather", x, i), self.node("Gather", self._double(rows, "rows"), j))
        # By a matrix product, since sums over an axis of no rows at all keep the axis in some runtimes.
        ones = self._double(np.ones((rows.shape[1], 1)), "ones")
        exact = self.node("Squeeze", self.node("MatMul", self.node("Mul", apart, apart), ones), self.integers(1))
        return self._from_double(self.node("ScatterND", out, pairs, exact))

    def _coordinate_kernel(self, value: Value, x: str, y: str) -> str:
        x, y = self._in_double(x, y)
        name = value.options["name"]
        is_product = name in ("cauchy_products", "products_of_minima")
        X, Y = value.inputs
        # The features come first: they are what the loop runs over. Its state is the sum or the product so far.
        features_first = [
            self.node("Transpose", self.node("Unsqueeze", one, self.integers(axis)), perm=order)
            for one, axis, order in (
                (x, -2, [X.example.ndim, *range(X.example.ndim)]),
                (y, -3 if Y.example.ndim >= 2 else 0, [Y.example.ndim, *range(Y.example.ndim)]),
            )
        ]
        first = [self.node("Gather", one, self.constant(np.int64(0)), axis=0) for one in features_first]
        start = self.node("Mul", self.node("Sub", *first), self._double(0.0))
        start = self.node("Add", start, self._double(1.0)) if is_product else start
        body = self._coordinate_body(name, is_product, value.example.ndim)
        total = self.fresh("total")
        self.nodes.append(
            self.helper.make_node("Scan", [start, *features_first], [total], body=body, num_scan_inputs=2)
        )
        return self._from_double(total)

    def _coordinate_body(self, name: str, is_product: bool, ndim: int) -> Any:
        """Return the graph that adds the term of one feature to a sum, or multiplies a product by it."""
        nodes, constants = self.nodes, self.constants
        self.nodes, self.constants = [], []
        state, x, y = (self.fresh(hint) for hint in ("state", "x", "y"))
        if name in ("squared_differences", "city_block_distances", "cauchy_products"):
            apart = self.node("Sub", x, y)
            if name == "city_block_distances":
                term = self.node("Abs", apart)
            else:
                term = self.node("Mul", apart, apart)
                if name == "cauchy_products":
                    one = self._double(1.0)
                    term = self.node("Div", one, self.node("Add", one, term))
        else:
            term = self.node("Min", x, y)
            if name in ("chi2_sums", "jensen_shannon_sums"):
                tiny, one = self._double(1e-300), self._double(1.0)
                ratio = self.node("Div", term, self.node("Max", self.node("Max", x, y), tiny))
                if name == "chi2_sums":
                    both = self.node("Add", term, term)
                    term = self.node("Div", both, self.node("Add", one, ratio))
                else:
                    ratio = self.node("Max", ratio, tiny)
                    log = self.node("Log", self.node("Add", one, ratio))
                    parts = self.node("Add", self.node("Div", log, ratio), log)
                    parts = self.node("Sub", parts, self.node("Log", ratio))
                    term = self.node("Mul", term, self.node("Mul", parts, self._double(0.5 / math.log(2))))
        out = self.node("Mul" if is_product else "Add", state, term)
        double = self.onnx.TensorProto.DOUBLE
        info = [self.helper.make_tensor_value_info(one, double, [None] * ndim) for one in (state, x, y, out)]
        body = self.helper.make_graph(self.nodes, name, info[:3], info[3:], self.constants)
        self.nodes, self.constants = nodes, constants
        return body

    # ---- near rows --------------------------------------------------------------------------------------------

    def _nearest(self, value: Value, x: str) -> str:
        count = self.integers(value.options["count"])
        return self.node_of_several("TopK", [x, count], 2, axis=-1, largest=0, sorted=0)[1]

    def _solve(self, value: Value, A: str, b: str) -> str:
        # Gauss-Jordan elimination of positive definite matrices, which needs no pivoting: there is no operator that
        # solves systems. Some rows are eliminated at a time, so that most of the time is spent in matrix products.
        A, b = self._in_double(A, b)
        k = value.inputs[0].width
        block = min(BLOCK, k)
        size = -(-k // block) * block
        if size > k:  # further equations x = 0
            A = self.node("Pad", A, self.integers(0, 0, 0, 0, size - k, size - k), self._double(0.0))
            A = self.node("Add", A, self._double(np.diag((np.arange(size) >= k).astype(float)), "ones"))
            b = self.node("Pad", b, self.integers(0, 0, 0, 0, size - k, 0), self._double(0.0))
        system = self.node("Concat", A, b, axis=-1)
        solved = self._eliminate(system, size, block)
        last = self.integers(np.iinfo(np.int64).max)
        right = self.node("Slice", solved, self.integers(size), last, self.integers(-1))
        if size > k:
            right = self.node("Slice", right, self.integers(0), self.integers(k), self.integers(1))
        return self._from_double(right)

    def _eliminate(self, system: str, k: int, block: int) -> str:
        """Return systems [A B] of k equations after elimination, [I A^-1 B], with `block` equations at a time.

        A step subtracts (columns of the block minus unit vectors) times (inverse of the pivot) times (rows of the
        block). For a block of one row the inverse is a division; otherwise it is found by elimination, too.
        """
        nodes, constants = self.nodes, self.constants
        self.nodes, self.constants = [], []
        state, units = self.fresh("state"), self.fresh("units")  # (n, k, k + t) and (block, k)
        across = self.node("Transpose", units, perm=[1, 0])
        left = self.node("Slice", state, self.integers(0), self.integers(k), self.integers(-1))
        columns = self.node("MatMul", left, across)
        rows = self.node("MatMul", units, state)
        pivot = self.node("MatMul", units, columns)
        if block == 1:
            scaled = self.node("Div", rows, pivot)
        else:
            identity = self._double(np.eye(block), "identity")
            n = self.node("Shape", pivot)
            joined = self.node("Concat", pivot, self.node("Expand", identity, n), axis=-1)
            found = self._eliminate(joined, block, 1)
            last = self.integers(2 * block)
            inverse = self.node("Slice", found, self.integers(block), last, self.integers(-1))
            scaled = self.node("MatMul", inverse, rows)
        out = self.node("Sub", state, self.node("MatMul", self.node("Sub", columns, across), scaled))
        double = self.onnx.TensorProto.DOUBLE
        info = [
            self.helper.make_tensor_value_info(one, double, shape)
            for one, shape in ((state, [None, None, None]), (units, [block, k]), (out, [None, None, None]))
        ]
        body = self.helper.make_graph(self.nodes, "eliminate", info[:2], info[2:], self.constants)
        self.nodes, self.constants = nodes, constants
        solved = self.fresh("solved")
        blocks = self._double(np.eye(k).reshape(k // block, block, k), "units")
        self.nodes.append(self.helper.make_node("Scan", [system, blocks], [solved], body=body, num_scan_inputs=1))
        return solved


def factors_of(width: int) -> tuple[int, int]:
    """Return the two factors of a number that are closest to each other.

    Examples
    --------
    >>> factors_of(4096), factors_of(12), factors_of(7)
    ((64, 64), (3, 4), (1, 7))
    """
    first = next(one for one in range(math.isqrt(width), 0, -1) if width % one == 0)
    return first, width // first


def hadamard_matrix(width: int) -> Array:
    """Return the Hadamard matrix of a power of two, in Sylvester's order."""
    out = np.ones((1, 1))
    while len(out) < width:
        out = np.block([[out, out], [out, -out]])
    return out


def onnx_model(program: Program, *, dtype: Any = np.float32, compute: Any = np.float64) -> onnx.ModelProto:
    """Return a model as an ONNX graph of standard operators, with a variable number of rows.

    Parameters
    ----------
    program : Program
        What the model computes.
    dtype : dtype, default=float32
        Dtype of rows and results, float32 or float64.
    compute : dtype, default=float64
        Dtype of the computation.
    """
    dtype, compute = np.dtype(dtype), np.dtype(compute)
    writer = Writer(program, dtype, compute)
    helper: Any = writer.helper
    tensor_type = helper.np_dtype_to_tensor_dtype
    outputs = []
    for name, value in program.outputs.items():
        found, shape = writer.name_of(value), ["n", *value.shape[1:]]
        element = tensor_type(dtype)
        if name == "label":
            found, element = label_values(writer, found, program)
            shape = ["n"]
        elif dtype != compute:
            found = writer.cast(found, dtype)
        writer.nodes.append(helper.make_node("Identity", [found], [name]))
        outputs.append(helper.make_tensor_value_info(name, element, shape))
    inputs = [helper.make_tensor_value_info("X", tensor_type(dtype), ["n", program.n_features])]
    if program.columns:
        types = {"category": writer.onnx.TensorProto.STRING, "date": writer.onnx.TensorProto.INT64}
        inputs = [
            helper.make_tensor_value_info(
                program.input_names[str(one.options["column"])],
                types.get(one.options["kind"], tensor_type(dtype)),
                ["n", 1],
            )
            for one in program.columns
        ]
    nodes, constants = needed(writer.nodes, writer.constants, set(program.outputs))
    graph = helper.make_graph(nodes, program.name, inputs, outputs, constants, program.description)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET), *(helper.make_opsetid(one, 2) for one in writer.domains)],
        ir_version=IR_VERSION,
        producer_name="mercer",
        producer_version=program.version,
        doc_string=program.description,
    )
    metadata = {
        "mercer_version": program.version,
        "model": program.name,
        "feature_names": json.dumps(list(program.feature_names)),
    }
    if program.classes is not None:
        metadata["classes"] = json.dumps(program.classes.tolist())
    helper.set_model_props(model, metadata)
    return model


def needed(nodes: list[Any], constants: list[Any], names: set[str]) -> tuple[list[Any], list[Any]]:
    """Return the nodes and constants that outputs depend on."""
    names, kept = set(names), []
    for node in reversed(nodes):
        if names.intersection(node.output):
            names.update(node.input)
            kept.append(node)
    return kept[::-1], [one for one in constants if one.name in names]


def label_values(writer: Writer, index: str, program: Program) -> tuple[str, int]:
    """Return the labels of indices, and their type; indices themselves if there are no labels."""
    classes, types = program.classes, writer.onnx.TensorProto
    if classes is None:
        return index, types.INT64
    if classes.dtype.kind in "OUS":
        name = writer.fresh("classes")
        strings = [str(one).encode() for one in classes]
        writer.constants.append(writer.helper.make_tensor(name, types.STRING, [len(strings)], strings))
        return writer.node("Gather", name, index, axis=0), types.STRING
    dtype, element = (np.float64, types.DOUBLE) if classes.dtype.kind == "f" else (np.int64, types.INT64)
    name = writer.fresh("classes")
    writer.constants.append(writer.onnx.numpy_helper.from_array(classes.astype(dtype), name))
    return writer.node("Gather", name, index, axis=0), element
