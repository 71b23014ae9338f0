"""A model as a file of plain NumPy: source code, and its arrays beside it."""

from __future__ import annotations

import inspect
import keyword
import re
import textwrap
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.export import runtime
from mercer.export.graph import Value, ordered
from mercer.export.program import Program
from mercer.io.tables.cells import MISSING

__all__ = ["numpy_source"]

Array = np.ndarray
# Longest expression that is written without a name for its parts.
LINE = 100
# Arrays with at most this many entries are written in the code.
FEW = 3
# Operations that are functions of `mercer.export.runtime`, whose source becomes a part of the file.
HELPERS = {
    "squared_distances": "squared_distances",
    "hadamard": "hadamard",
    "butterfly": "butterfly",
    "convolve": "circular_convolution",
    "piecewise_polynomial": "piecewise_polynomial",
    "nearest": "nearest",
    "softmax": "softmax",
    "sigmoid": "sigmoid",
    "pad": "pad",
    "look_up": "look_up",
}
OPERATORS = {"add": ("+", 1), "subtract": ("-", 1), "multiply": ("*", 2), "divide": ("/", 2), "matmul": ("@", 2)}
FUNCTIONS = {name: f"np.{name}" for name in ("exp", "log", "sqrt", "cos", "sin", "arctan", "abs", "sign", "square")}
FUNCTIONS |= {name: f"np.{name}" for name in ("floor", "maximum", "minimum", "where", "isnan")}
FUNCTIONS |= {"solve": "np.linalg.solve", "interpolate": "np.interp", "round": "np.rint"}
ATOM = 9


# Names in the file that are not those of arrays.
NAMES = ("X", "table", "np", "Path", "hashlib", "FEATURE_NAMES", "COLUMNS", "CLASSES")


class Writer:
    """Source code of the graph of a model, in which values that are used once are a part of larger expressions."""

    def __init__(self, outputs: dict[str, Value]) -> None:
        self.values = ordered(outputs.values())
        self.outputs = {id(value): name for name, value in outputs.items()}
        self.arrays: dict[str, Array] = {}
        self.helpers: list[str] = []
        self.lines: list[str] = []
        self._uses = Counter(id(one) for value in self.values for one in value.inputs)
        self._text: dict[int, tuple[str, int]] = {}
        self._array_names: dict[int, str] = {}
        self._kept: list[Any] = []  # so that no id is used twice
        self._taken: set[str] = {*NAMES, *runtime.__all__}
        for value in self.values:
            self._write(value)

    def _write(self, value: Value) -> None:
        if value.op == "rows":
            column = value.options.get("column")
            self._text[id(value)] = ("X" if column is None else f"table[{column!r}]", ATOM)
            return
        if value.is_constant:
            self._text[id(value)] = self._constant(value.example, value.name)
            return
        text, level = self._expression(value)
        output = self.outputs.get(id(value))
        once = self._uses[id(value)] == 1 and output is None
        if once and value.note is None and value.name is None and len(text) <= LINE:
            self._text[id(value)] = (text, level)
            return
        if value.op in ("columns", "take") and re.fullmatch(r"\w+\[[^\[\]]*\]", text) and output is None:
            self._text[id(value)] = (text, level)
            return
        name = self._free(output if output is not None and value.name is None else value.name or "t")
        if value.note is not None:
            self.lines.append(f"# {value.note}")
        self.lines.append(f"{name} = {text}")
        self._text[id(value)] = (name, ATOM)

    def name_of(self, value: Value) -> str:
        """Return the code of a value that was written."""
        return self._text[id(value)][0]

    def _free(self, name: str) -> str:
        """Return a name for a variable that is not taken, and take it."""
        name = re.sub(r"\W", "_", name)
        name = name if name.isidentifier() else f"column_{name}"
        name = f"{name}_" if keyword.iskeyword(name) else name
        found, number = name, 2
        while found in self._taken:
            found, number = f"{name}{'_' if name[-1].isdigit() else ''}{number}", number + 1
        self._taken.add(found)
        return found

    def _constant(self, array: Array, name: str | None) -> tuple[str, int]:
        """Return the code of a constant, which is a number or the name of an array."""
        if array.ndim == 0:
            return number(array)
        if array.size <= FEW and name is None and array.ndim == 1:
            return f"np.array([{', '.join(number(one)[0] for one in array)}])", ATOM
        key = id(array)
        if key not in self._array_names:
            self._array_names[key] = self._free((name or "array").upper())
            self._kept.append(array)
            self.arrays[self._array_names[key]] = array
        return self._array_names[key], ATOM

    def _expression(self, value: Value) -> tuple[str, int]:
        """Return the code of an operation, and how tightly its operator binds."""
        op, options = value.op, value.options
        parts = [self._text[id(one)] for one in value.inputs]
        codes = [text for text, _ in parts]
        if op in OPERATORS:
            sign, level = OPERATORS[op]
            left = codes[0] if parts[0][1] >= level else f"({codes[0]})"
            right = codes[1] if parts[1][1] > level else f"({codes[1]})"
            return f"{left} {sign} {right}", level
        if op == "negative":
            return f"-{codes[0]}" if parts[0][1] > 2 else f"-({codes[0]})", 2
        if op in FUNCTIONS:
            return f"{FUNCTIONS[op]}({', '.join(codes)})", ATOM
        if op in ("greater", "greater_equal"):
            return f"{bracketed(parts[0])} {'>' if op == 'greater' else '>='} {bracketed(parts[1])}", 0
        if op in HELPERS or op == "coordinate_kernel":
            helper = HELPERS.get(op) or options["name"]
            if helper not in self.helpers:
                self.helpers.append(helper)
            more = [] if op == "coordinate_kernel" else [repr(one) for one in options.values()]
            return f"{helper}({', '.join([*codes, *more])})", ATOM
        return self._array_expression(value, codes, bracketed(parts[0], 8)), ATOM

    def _array_expression(self, value: Value, codes: list[str], first: str) -> str:
        """Return the code of an operation that moves entries or sums them."""
        op, options = value.op, value.options
        if op == "sum":
            keep = ", keepdims=True" if options["keepdims"] else ""
            return f"{first}.sum(axis={options['axis']}{keep})"
        if op == "reshape":
            return f"{first}.reshape({', '.join(map(str, (-1, *options['tail'])))})"
        if op == "transpose":
            return f"np.swapaxes({codes[0]}, -1, -2)" if value.is_batched else f"{first}.T"
        if op == "concatenate":
            return f"np.concatenate([{', '.join(codes)}], axis=-1)"
        if op == "columns":
            start, stop = options["start"], options["stop"]
            return f"{first}[..., {start or ''}:{stop if stop < value.inputs[0].width else ''}]"
        if op == "take":
            indices = options["indices"]
            few = indices.ndim == 1 and indices.size <= 2 * FEW
            return f"{first}[..., {indices.tolist() if few else self._constant(indices, 'indices')[0]}]"
        if op == "take_rows":
            return f"{first}[{codes[1]}]"
        if op == "repeat_rows":
            shape = value.inputs[0].shape
            return f"np.broadcast_to({codes[0]}, (len({codes[1]}),{''.join(f' {one},' for one in shape)}))"
        if op == "argmax":
            return f"{first}.argmax(axis=-1)"
        raise AssertionError(op)


def number(value: Any) -> tuple[str, int]:
    """Return the code of a number."""
    text = repr(value.item())
    return re.sub("(inf|nan)$", r"np.\1", text), 2 if text.startswith("-") else ATOM


def bracketed(part: tuple[str, int], least: int = 1) -> str:
    """Return code in brackets if its operator binds less tightly than `least`."""
    text, level = part
    return text if level >= least else f"({text})"


# ---- the file -------------------------------------------------------------------------------------------------------

MAIN = '''
def read_rows(path):
    """Read a CSV file of numbers, with or without a line of names; columns are found by their names if it has them."""
    with open(path, encoding="utf-8-sig") as file:
        lines = [line.strip() for line in file if line.strip()]
    names = [name.strip().strip('"') for name in lines[0].split(",")]
    try:
        [float(name) for name in names]
    except ValueError:
        lines = lines[1:]
    else:
        names = None
    X = np.array([[float(cell) for cell in line.split(",")] for line in lines])
    if names is not None and set(FEATURE_NAMES) <= set(names):
        X = X[:, [names.index(name) for name in FEATURE_NAMES]]
    return X


if __name__ == "__main__":
    import sys

    if len(sys.argv) != 2 or sys.argv[1] in ("-h", "--help"):
        print(f"usage: python {Path(__file__).name} ROWS.csv")
        sys.exit(0 if sys.argv[1:] in (["-h"], ["--help"]) else 2)
    for value in {main}(read_rows(sys.argv[1])):
        print(",".join(map(str, value.tolist())) if value.ndim else value)
'''

ROWS = '''
def check_rows(X):
    """Return the rows as an array of float64."""
    X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != {width}:
        raise ValueError(f"X must have the shape (n, {width}), got {{X.shape}}")
    if not {finite}.all():
        raise ValueError("X must be finite, got {infinite}")
    return X


def in_blocks(X):
    """Return all results for rows, by names, computed for some rows at a time to limit memory."""
    X = check_rows(X)
    parts = [compute(X[start : start + {block}]) for start in range(0, max(len(X), 1), {block})]
    return {{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}}
'''


TABLE = '''
def read_column(cells, kind):
    """Return cells as an array of shape (n, 1): strings with None, or numbers and microseconds since 1970 with NaN."""
    cells = [None if cell is None or cell != cell or str(cell) in ("", "NaT", "<NA>") else cell for cell in cells]
    if kind == "category":
        return np.array([[None if cell is None else str(cell)] for cell in cells], dtype=object).reshape(-1, 1)
    if kind == "date":
        dates = np.array(["NaT" if cell is None else cell for cell in cells], dtype="datetime64[us]")
        values = np.where(np.isnat(dates), np.nan, dates.astype(np.int64).astype(np.float64))
    else:
        words = {{"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}}
        values = [np.nan if cell is None else words.get(str(cell).strip().lower(), cell) for cell in cells]
    return np.asarray(values, dtype=np.float64).reshape(-1, 1)


def check_table(table):
    """Return the columns of a table: a data frame, or a mapping from names to cells."""
    lacking = [name for name in COLUMNS if name not in table]
    if lacking:
        raise ValueError(f"the table must have the columns {{', '.join(COLUMNS)}}; it lacks {{', '.join(lacking)}}")
    columns = {{}}
    for name, kind in COLUMNS.items():
        try:
            columns[name] = read_column(table[name], kind)
        except ValueError as error:
            raise ValueError(f"the column {{name!r}} must have cells of the kind {{kind}}: {{error}}") from None
    return columns


def in_blocks(table):
    """Return all results for a table, by names, computed for some rows at a time to limit memory."""
    table = check_table(table)
    n = len(next(iter(table.values())))
    starts = range(0, max(n, 1), {block})
    parts = [compute({{name: cells[i : i + {block}] for name, cells in table.items()}}) for i in starts]
    return {{name: np.concatenate([part[name] for part in parts]) for name in parts[0]}}
'''

TABLE_MAIN = '''
def read_rows(path):
    """Read a CSV file with a line of names."""
    import csv

    missing = MISSING_CELLS
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    names = [name for name in (rows[0] if rows else COLUMNS) if name is not None]
    return {name: [None if (row[name] or "").strip() in missing else row[name] for row in rows] for name in names}


if __name__'''


def numpy_source(program: Program, arrays_name: str) -> tuple[str, dict[str, Array]]:
    """Return the source code of a model, and its arrays.

    Parameters
    ----------
    program : Program
        What the model computes.
    arrays_name : str
        Name of the file of the arrays, in the same folder.

    Returns
    -------
    source : str
    arrays : dict of ndarray
    """
    writer = Writer(program.outputs)
    arrays = dict(writer.arrays)
    if program.classes is not None:
        classes = program.classes
        arrays["CLASSES"] = classes.astype(str) if classes.dtype.kind == "O" else classes
    functions = result_functions(program)
    argument = "table" if program.columns else "X"
    overview = "\n".join(f"    {name}({argument})".ljust(28) + what for name, what, _ in functions)
    largest = max((value.example.size // len(value.example) for value in writer.values if value.is_batched), default=1)
    block = int(np.clip(2**23 // max(1, largest), 1, 4096))
    takes = f"X is an array of shape (n, {program.n_features})."
    if program.columns:
        takes = (
            "A table is a data frame, or a mapping from the names of COLUMNS to cells; missing cells are None or NaN."
        )
    out = [
        f'"""{program.description}.\n\nIt needs NumPy only, and the file {arrays_name} beside it.\n\n{overview}\n\n'
        f'{takes}\n``python FILE ROWS.csv`` prints predictions.\n"""\n',
        ("import hashlib\n" if "look_up" in writer.helpers else "")
        + "from pathlib import Path\n\nimport numpy as np\n",
    ]
    if program.columns:
        kinds = {str(one.options["column"]): str(one.options["kind"]) for one in program.columns}
        out.append("COLUMNS = {\n" + "".join(f"    {name!r}: {kind!r},\n" for name, kind in kinds.items()) + "}\n")
    else:
        out.append(f"FEATURE_NAMES = {wrapped_list(program.feature_names)}\n")
    loads = [f"    {name} = arrays[{name!r}]  # {array.shape}" for name, array in arrays.items()] or ["    pass"]
    opening = f"with np.load(Path(__file__).with_name({arrays_name!r}), allow_pickle=False) as arrays:"
    out.append("\n".join([opening, *loads]) + "\n")
    out += [f"\n{helper_source(name)}\n" for name in writer.helpers]
    body = [f"def compute({argument}):", '    """Return all results for rows in float64, by names."""']
    body += [f"    {line}" for line in writer.lines]
    results = ", ".join(f"{name!r}: {writer.name_of(value)}" for name, value in program.outputs.items())
    out.append("\n" + "\n".join([*body, f"    return {{{results}}}"]) + "\n")
    if program.columns:
        out.append(TABLE.format(block=block))
    else:
        finite = "(~np.isinf(X))" if program.takes_nan else "np.isfinite(X)"
        infinite = "infinity" if program.takes_nan else "NaN or infinity"
        out.append(ROWS.format(width=program.n_features, block=block, finite=finite, infinite=infinite))
    out += [
        f'\ndef {name}({argument}):\n    """Return {what}."""\n    return {code.replace("(X)", f"({argument})")}\n'
        for name, what, code in functions
    ]
    main = MAIN
    if program.columns:
        missing = textwrap.fill(repr(MISSING), 110, subsequent_indent=" " * 8)
        main = TABLE_MAIN.replace("MISSING_CELLS", missing) + MAIN.partition("if __name__")[2]
    out.append(main.replace("{main}", functions[0][0]))
    return "\n".join(out), arrays


def wrapped_list(names: tuple[str, ...]) -> str:
    """Return the code of a list of strings, on several lines if it is long."""
    one = repr(list(names))
    if len(one) <= LINE:
        return one
    return (
        "[\n"
        + textwrap.fill(", ".join(map(repr, names)), LINE, initial_indent="    ", subsequent_indent="    ")
        + ",\n]"
    )


def helper_source(name: str) -> str:
    """Return the source code of a function of `mercer.export.runtime`."""
    function: Callable[..., Any] = getattr(runtime, name)
    return re.sub(r"  # noqa.*", "", inspect.getsource(function)).rstrip()


def result_functions(program: Program) -> list[tuple[str, str, str]]:
    """Return name, meaning and code of the public functions of a file."""
    outputs = program.outputs
    found = []
    if "label" in outputs:
        what = "the labels" if program.classes is not None else "the indices of the nearest centers"
        code = "in_blocks(X)['label']"
        found.append(("predict", f"{what} of rows", f"CLASSES[{code}]" if program.classes is not None else code))
    if "variable" in outputs:
        column = "[:, 0]" if program.is_single else ""
        code = "in_blocks(X)['variable']" + column
        if program.is_complex:
            found.append(("transform", "the complex features of rows", f"{code} @ np.array([1.0, 1.0j])"))
        elif program.is_transformer:
            found.append(("transform", "the transformed rows", code))
        else:
            found.append(("predict", "the predictions of rows", code))
        if "std" in outputs:
            found.append(("predict_std", "the standard deviations of predictions", f"in_blocks(X)['std']{column}"))
    if "probabilities" in outputs:
        found.append(("predict_proba", "the probabilities of all labels", "in_blocks(X)['probabilities']"))
    if "scores" in outputs and program.classes is not None:
        single = "[:, 0]" if outputs["scores"].width == 1 else ""
        found.append(("decision_function", "the decision values of rows", f"in_blocks(X)['scores']{single}"))
    elif "scores" in outputs:
        found.append(("transform", "the distances to all centers", "in_blocks(X)['scores']"))
    return found
