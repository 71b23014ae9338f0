"""Damaged files and what independent readers read from them: what the tests and the benchmark of the readers share.

A case is a file of one format, damaged in a way that its number determines. It is read in a child process, first by
mercer and then by an independent reader, and the verdict compares what they return:

``equal``
    Both read the file, to the same rows.
``both refuse``
    mercer raises one of its own errors, and the independent reader any error.
``mercer refuses``
    Only the independent reader reads the file. This is allowed for every format but svmlight, where mercer follows
    scikit-learn. The rules, which are all of them of the kind that a file is refused rather than guessed:

    - a table without rows, without the columns that are asked for, or with two columns of one name;
    - in CSV, rows of unequal length, which pandas fills; a quote that is not closed at the end of the file, which
      Python's csv module closes; an empty number; numbers with underscores or digits that are not ASCII, which
      ``float`` accepts; a first line that may be a row or names;
    - in svmlight, a file without rows;
    - in Arrow and Parquet, a missing value in a feature, and features that are not numbers;
    - in npy, arrays that are not matrices of numbers, and several arrays in one file.
``mercer alone reads``, ``other rows``, ``raw error``, ``crash``, ``hang``
    Faults: the independent reader refuses what mercer reads, the rows differ, mercer raises an error that is not its
    own, the process ends, or it takes more than the limit.
"""

import contextlib
import csv
import fractions
import io
import json
import math
import os
import random
import re
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

import mercer
import mercer.io.formats.csv
import mercer.io.formats.lines
import mercer.io.source

KINDS = ("csv", "svm", "npy", "arrow", "feather", "parquet")
FAULTS = ("mercer alone reads", "other rows", "raw error", "crash", "hang")
LIMIT = 20.0  # seconds
MEMORY = 8 * 2**30  # bytes of address space of a child
READY, READ = "ready", "read"  # what a child writes when it has started, and when mercer is done with a case


@dataclass(frozen=True)
class Outcome:
    """What became of one case."""

    kind: str
    number: int
    reader: str  # "read", or the name of a planted fault
    verdict: str
    detail: str
    seconds: float  # that mercer took


class Refused(Exception):
    """Raised by an independent reader for a file that is read, but is no table as it was asked for."""


# ---- files before they are damaged --------------------------------------------------------------


def table_of(rng, rows):
    """Return columns of numbers, strings and codes, some of them with missing values."""
    names = ["red", "green", "blue", "größe", ""]
    return {
        "a": rng.normal(size=rows),
        "b": rng.integers(-5, 100, size=rows).astype(float) / 4,
        "count": rng.integers(0, 9, size=rows),
        "kind": [names[i] for i in rng.integers(0, 5, size=rows)],
    }


def csv_files():
    """Return CSV files with the options to open them."""
    rng = np.random.default_rng(0)
    named, plain = {"target": "kind", "columns": ["a", "b"], "header": True}, {"target": -1, "header": False}
    files = []
    for rows, delimiter, end, quote in (
        (12, ",", "\n", csv.QUOTE_MINIMAL),
        (40, ";", "\r\n", csv.QUOTE_ALL),
        (25, "\t", "\r", csv.QUOTE_NONNUMERIC),
    ):
        values = table_of(rng, rows)
        values["note"] = [
            ("plain", 'a "quoted" word', "two\nlines", "a, b; c\td", "three\r\n1,2,3\r\nlines", "1.5,2,red")[i % 6]
            for i in range(rows)
        ]
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=delimiter, lineterminator=end, quoting=quote)
        writer.writerow(values)
        writer.writerows(zip(*(np.asarray(column).tolist() for column in values.values()), strict=True))
        files.append((text.getvalue().encode(), named))
        files.append((b"\xef\xbb\xbf" + text.getvalue().encode(), {"columns": ["a", "b"], "header": None}))
    numbers = "".join(f"{x!r},{i},{x:+.3e}\n" for i, x in enumerate(rng.normal(size=30).tolist()))
    files.append((numbers.encode(), plain))
    files.append((numbers.rstrip("\n").encode(), {"header": None}))
    files.append(
        (b'a,b\n5" tube,1\n6" tube,2\n"7"" tube",3\n"8"9,4\n', {"columns": ["b"], "target": 0, "header": True})
    )
    return files


def svm_files():
    """Return svmlight files."""
    rng = np.random.default_rng(1)
    files = []
    for first in (0, 1):
        lines = ["# a comment: 1:2 3:4"]
        for _ in range(25):
            columns = np.flatnonzero(rng.uniform(size=9) < 0.4) + first
            entries = " ".join(f"{column}:{rng.normal():.6g}" for column in columns)
            lines.append(f"{rng.integers(-1, 3)} {entries}{rng.choice(['', '  # note', chr(13)])}")
        files.append(("\n".join(lines) + "\n").encode())
    files.append(b"+1 qid:3 1:0.5 3:-2e1\n-1 qid:4\n\n2 qid:4 2:1 7:1e-3\n1.5 1:1\t2:2  3:inf")
    return [(content, {}) for content in files]


def npy_files():
    """Return npy files, and one of several arrays."""
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(40, 5))
    files = []
    for values, options in (
        (matrix, {"target": -1}),
        (np.asfortranarray(matrix), {"columns": [0, 3]}),
        (matrix.astype(np.float32), {}),
        (rng.integers(-9, 9, size=(30, 3)).astype(np.int16), {"target": 0}),
        (matrix.astype(">f8"), {"weight": 0}),
        (matrix > 0, {"target": [0, 1]}),
    ):
        file = io.BytesIO()
        np.save(file, values)
        files.append((file.getvalue(), options))
    file = io.BytesIO()
    np.savez(file, a=matrix)
    return [*files, (file.getvalue(), {})]


def arrow_table(rng, rows):
    """Return a table with columns of many types."""
    values = table_of(rng, rows)
    kinds = pa.array(values["kind"])
    return pa.table(
        {
            "a": values["a"],
            "b": pa.array(values["b"]).cast(pa.float32()),
            "count": pa.array(values["count"], pa.int16()),
            "flag": pa.array(values["count"] > 3),
            "price": pa.array(values["b"]).cast(pa.decimal128(10, 2)),
            "kind": kinds,
            "large": kinds.cast(pa.large_string()),
            "code": kinds.dictionary_encode(),
            "holes": pa.array([None if i % 7 == 3 else float(i) for i in range(rows)]),
            "names": pa.array([None if i % 5 == 1 else values["kind"][i] for i in range(rows)]),
        }
    )


TABLE_OPTIONS = [
    {"target": target, "columns": columns}
    for target in ("kind", "large", "code", "names", "holes", "count", None)
    for columns in (["a"], ["a", "b", "flag", "price"])
]


def arrow_files():
    """Return Arrow files of several record batches, plain and compressed."""
    rng = np.random.default_rng(3)
    files = []
    for i, options in enumerate(TABLE_OPTIONS):
        table, file = arrow_table(rng, 40), io.BytesIO()
        compression = (None, None, "lz4", "zstd")[i % 4]
        with pa.ipc.new_file(file, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_table(table, max_chunksize=(40, 15)[i % 2])
        files.append((file.getvalue(), options))
    return files


def feather_files():
    """Return Feather files, with the index of a data frame."""
    rng = np.random.default_rng(4)
    files = []
    for i, options in enumerate(TABLE_OPTIONS[::3]):
        frame = arrow_table(rng, 30).to_pandas().set_index("holes")
        options = {**options, "target": "count"} if options["target"] == "holes" else options
        table, file = pa.Table.from_pandas(frame.drop(columns="price")), io.BytesIO()
        pa.feather.write_feather(table, file, compression=("uncompressed", "lz4")[i % 2], chunksize=11)
        files.append((file.getvalue(), {**options, "columns": ["a", "b"]}))
    return files


def parquet_files():
    """Return Parquet files of several row groups, with and without dictionaries, compression and checksums."""
    rng = np.random.default_rng(5)
    files = []
    for i, options in enumerate(TABLE_OPTIONS):
        file = io.BytesIO()
        pa.parquet.write_table(
            arrow_table(rng, 40),
            file,
            row_group_size=(100, 15)[i % 2],
            compression=("none", "snappy", "zstd")[i % 3],
            use_dictionary=i % 4 < 2,
            write_page_checksum=i % 5 == 0,
        )
        files.append((file.getvalue(), options))
    return files


MAKERS = {
    "csv": csv_files,
    "svm": svm_files,
    "npy": npy_files,
    "arrow": arrow_files,
    "feather": feather_files,
    "parquet": parquet_files,
}
_FILES = {}


def files_of(kind):
    """Return the files of a format that are not damaged, with the options to open them."""
    if kind not in _FILES:
        _FILES[kind] = MAKERS[kind]()
    return _FILES[kind]


# ---- damages ------------------------------------------------------------------------------------

WORDS = [
    "nan",
    "-inf",
    "Infinity",
    "1e400",
    "-1e-400",
    "+5",
    "1_0",
    "0x10",
    "nan(1)",
    "",
    " ",
    "\u0661",
    "007",
    "1.",
    ".5",
]
WORDS += ["9223372036854775808", "-0", "1,5", "4000000000000", "2147483648", "1e5", "\x00", "\xa01", "5:5", "''", '""']
TEXT = ["\n", "\r", "\r\n", '"', '""', ",", ";", "\t", ":", "#", " ", "\x00", "\ufeff", "\x0b", "\x1c", "\u2028", "-"]
INTEGERS = [-1, 0, 1, 2, 7, 8, 127, 128, 255, 2**15, 2**16, 2**31 - 1, -(2**31), 2**32, 2**40, 2**62, 2**63 - 1, -8]


def place(rng, content):
    """Return a position in a file, often near its start or its end, where headers are."""
    if not content:
        return 0
    where = rng.random()
    if where < 0.25:
        return rng.randrange(min(len(content), 160))
    if where < 0.5:
        return len(content) - 1 - rng.randrange(min(len(content), 800))
    return rng.randrange(len(content))


def flip_bits(rng, content, _):
    out = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 8])):
        if out:
            out[place(rng, out)] ^= 1 << rng.randrange(8)
    return bytes(out)


def truncate(rng, content, _):
    return content[: place(rng, content)]


def delete(rng, content, _):
    i = place(rng, content)
    return content[:i] + content[i + rng.choice([1, 1, 2, 4, 8, 64, 300]) :]


def insert(rng, content, _):
    i = place(rng, content)
    return content[:i] + rng.randbytes(rng.choice([1, 1, 2, 4, 8, 64])) + content[i:]


def repeat(rng, content, _):
    i, n = place(rng, content), rng.choice([1, 4, 8, 60, 500])
    return content[: i + n] + content[i:]


def blank(rng, content, _):
    i, n = place(rng, content), rng.choice([1, 2, 4, 8, 60])
    return content[:i] + rng.choice([b"\x00", b"\xff"]) * len(content[i : i + n]) + content[i + n :]


def splice(rng, content, kind):
    other = rng.choice(files_of(kind))[0]
    return content[: place(rng, content)] + other[place(rng, other) :]


def put_integer(rng, content, _):
    """Overwrite an aligned integer, such as a length, an offset or a code."""
    code = rng.choice("bhiq")
    size = struct.calcsize(code)
    i = place(rng, content) // size * size
    value = rng.choice([*INTEGERS, len(content), rng.randrange(len(content) + 1)])
    return content[:i] + (value % 256**size).to_bytes(size, "little") + content[i + size :]


def put_text(rng, content, _):
    i = place(rng, content)
    return content[:i] + rng.choice(TEXT).encode() + content[i:]


def break_line(rng, content, _):
    """Insert a line break, or join two lines."""
    breaks = [match.start() for match in re.finditer(rb"\n", content)]
    if breaks and rng.random() < 0.3:
        i = rng.choice(breaks)
        return content[:i] + rng.choice([b"", b" ", b"\r"]) + content[i + 1 :]
    i = place(rng, content)
    return content[:i] + rng.choice([b"\n", b"\r\n", b"\r"]) + content[i:]


def put_word(rng, content, _):
    """Replace a word by another spelling of a number, or by something that is no number."""
    words = list(re.finditer(rb"[^\s,;:]+", content))
    if not words:
        return content
    word = rng.choice(words)
    return content[: word.start()] + rng.choice(WORDS).encode() + content[word.end() :]


def drop_symbol(rng, content, _):
    """Delete a quote, a delimiter or a line break."""
    symbols = [match.start() for match in re.finditer(rb'["\n\r,;:\t ]', content)]
    if not symbols:
        return content
    i = rng.choice(symbols)
    return content[:i] + content[i + 1 :]


def shuffle_lines(rng, content, _):
    """Repeat, delete or exchange lines."""
    lines = content.splitlines(keepends=True)
    if len(lines) < 3:
        return content
    i, j = rng.sample(range(len(lines)), 2)
    how = rng.randrange(4)
    if how == 0:
        lines[i], lines[j] = lines[j], lines[i]
    elif how == 1:
        del lines[i]
    elif how == 2:
        lines.insert(i, lines[j])
    else:
        lines.insert(i, rng.choice([b"\n", b"\r\n", b" \n", b"\t\n", b",,,,\n", b"#\n"]))
    return b"".join(lines)


def edit_header(rng, content, _):
    """Replace the header of an npy file, or its length."""
    if rng.random() < 0.2:
        return content[:8] + struct.pack("<H", rng.randrange(65536)) + content[10:]
    shape = tuple(rng.choice([0, 1, 3, 5, 8, 40, -1, 2**31, 2**62]) for _ in range(rng.choice([0, 1, 2, 2, 2, 3])))
    descr = rng.choice(["<f8", ">f8", "<f4", "<i2", "|b1", "<U3", "|O", "<c16", "|S0", "|V8", "<M8[s]", "<f2", "<u8"])
    parts = {"descr": descr, "fortran_order": rng.random() < 0.5, "shape": shape}
    found = re.search(rb"'shape': \(([^)]*)\)", content)
    if found and rng.random() < 0.5:
        parts["shape"] = tuple(int(one) for one in found[1].split(b",") if one.strip().isdigit())
    header = repr(parts).ljust(117)[:117].encode() + b"\n"
    return content[:10] + header + content[128:]


def edit_code(rng, content, _):
    """Replace a code of a dictionary, or another small integer of a column."""
    columns = list(re.finditer(rb"(?:[\x00-\x09]\x00\x00\x00){8,}", content))
    if not columns:
        return content
    column = rng.choice(columns)
    i = column.start() + 4 * rng.randrange(len(column[0]) // 4)
    return content[:i] + struct.pack("<i", rng.choice([-1, 4, 5, 7, 100, -(2**31), 2**31 - 1])) + content[i + 4 :]


BYTES = [flip_bits, truncate, delete, insert, repeat, blank, splice, put_integer]
LINES = [put_text, put_text, put_word, put_word, drop_symbol, drop_symbol, shuffle_lines, flip_bits, truncate, splice]
DAMAGES = {
    "csv": [*LINES, break_line, break_line, delete, repeat, blank, insert],
    "svm": [*LINES, break_line, break_line, delete, repeat, blank, insert],
    "npy": [*BYTES, edit_header, edit_header],
    "arrow": [*BYTES, put_integer, flip_bits, edit_code, edit_code],
    "feather": [*BYTES, put_integer, flip_bits, edit_code, edit_code],
    "parquet": [*BYTES, put_integer, flip_bits],
}


def damaged(kind, number):
    """Return the content of a case and the options to open it. The first cases of a format are not damaged."""
    rng = random.Random(f"{kind} {number}")
    files = files_of(kind)
    content, options = files[number % len(files)]
    if number >= len(files):
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            content = rng.choice(DAMAGES[kind])(rng, content, kind)
    return content, options


@contextlib.contextmanager
def small_pieces(number):
    """Let mercer divide small files into many blocks and parts, at positions that depend on the number of the case."""
    rng = random.Random(number)
    settings = [
        (mercer.io.source, "BLOCK_BYTES", rng.choice([64, 500, 2**24])),
        (mercer.io.source, "LEAST_ROWS", rng.choice([1, 5])),
        (mercer.io.formats.lines, "CHUNK_BYTES", rng.choice([1, 30, 200, 2**23])),
        (mercer.io.formats.lines, "RANGE_BYTES", rng.choice([1, 100, 700, 2**25])),
        (mercer.io.formats.csv, "SAMPLE_BYTES", rng.choice([1, 300, 2**20])),
    ]
    before = [(module, name, getattr(module, name)) for module, name, _ in settings]
    try:
        for module, name, value in settings:
            setattr(module, name, value)
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


# ---- readers ------------------------------------------------------------------------------------


def read(path, options):
    """Return rows, targets and weights as mercer reads them."""
    blocks = list(mercer.open_rows(path, **options))
    columns = list(zip(*blocks, strict=True)) if blocks else [()]
    return tuple(map(join, [*columns, [None], [None]][:3]))


def join(parts):
    """Return the concatenation of arrays or sparse matrices; None of parts that are None."""
    if parts[0] is None:
        return None
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def read_csv(path, options):
    """Return what Python's csv module and pandas read; raise if they differ."""
    with open(path, encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
        text = file.read()
    first = next(line for line in re.split("[\r\n]+", text) if line.strip())
    delimiter = max(",;\t|", key=re.sub('"[^"]*"', "", first).count)
    records = [cells for cells in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter) if cells]
    while len(records[0]) == 1 and not records[0][0].strip():
        records.pop(0)
    header = options["header"]
    if header is None:
        numbers = [is_number(cell) for cell in records[0] if cell.strip()]
        if any(numbers) and not all(numbers):
            raise Refused("names or a row")
        header = not any(numbers)
    names = [cell.strip() for cell in records[0]] if header else [str(i) for i in range(len(records[0]))]
    rows = records[header:]
    if any(len(row) != len(names) for row in rows):
        raise Refused("rows of unequal length")
    frame = pd.read_csv(
        path,
        sep=delimiter,
        header=None,
        dtype=object,
        keep_default_na=False,
        encoding="utf-8-sig",
        encoding_errors="surrogateescape",
    )
    if frame.to_numpy().tolist() != records:
        raise Refused("pandas and Python's csv module differ")
    target = options.get("target")
    target = names[target] if isinstance(target, int) else target
    columns = options.get("columns") or [name for name in names if name != target]
    X = [[number(row[names.index(name)]) for name in columns] for row in rows]
    return np.array(X), None if target is None else [row[names.index(target)] for row in rows], None


def is_number(cell):
    """Return whether a cell is a number."""
    try:
        number(cell)
    except ValueError:
        return False
    return True


def number(cell):
    """Return the value of a cell of a CSV file."""
    if "_" in cell or not cell.isascii():
        raise ValueError(cell)
    return float(cell)


def read_svm(path, options):
    """Return what scikit-learn reads."""
    X, y = load_svmlight_file(path)
    return X, y, None


def read_npy(path, options):
    """Return what NumPy reads."""
    values = np.load(path, allow_pickle=False)
    if not isinstance(values, np.ndarray) or values.ndim != 2 or values.dtype.kind not in "fiub":
        raise Refused("no matrix of numbers")
    if not len(values):
        raise Refused("no rows")
    target, weight = options.get("target"), options.get("weight")
    width = range(values.shape[1])
    taken = {width[one] for one in (target if isinstance(target, list) else [target, weight]) if one is not None}
    X = values[:, options.get("columns") or [i for i in width if i not in taken]]
    return X, None if target is None else values[:, target], None if weight is None else values[:, weight]


def read_table(table, options):
    """Return the columns of an Arrow table, converted value by value."""
    target = options["target"]
    table = table.select([*options["columns"], *([] if target is None else [target])])
    table.validate(full=True)
    columns = [values_of(table.column(name)) for name in options["columns"]]
    if any(value is None or isinstance(value, str) for column in columns for value in column):
        raise Refused("a feature is missing")
    X = np.array([[float(value) for value in column] for column in columns]).T
    return X, None if target is None else values_of(table.column(target)), None


def values_of(column):
    """Return the values of a column of an Arrow table."""
    if not pa.types.is_decimal128(column.type):
        return column.to_pylist()
    # Decimals of a damaged scale are no decimals of Python.
    integers = [chunk.slice(i, 1) for chunk in column.chunks for i in range(len(chunk))]
    scale = fractions.Fraction(10) ** -column.type.scale
    return [
        float(int.from_bytes(one.buffers()[1][16 * one.offset : 16 * one.offset + 16], "little", signed=True) * scale)
        if one.is_valid()[0].as_py()
        else None
        for one in integers
    ]


def read_arrow(path, options):
    """Return what pyarrow reads and finds valid. Columns that are not asked for need not be readable."""
    file = pa.py_buffer(Path(path).read_bytes())
    names = pa.ipc.open_file(file).schema.names
    wanted = sorted(names.index(name) for name in (*options["columns"], options["target"]) if name is not None)
    return read_table(pa.ipc.open_file(file, options=pa.ipc.IpcReadOptions(included_fields=wanted)).read_all(), options)


def read_parquet(path, options):
    """Return what pyarrow reads and finds valid."""
    names = [*options["columns"], *([] if options["target"] is None else [options["target"]])]
    return read_table(pa.parquet.read_table(path, columns=names, page_checksum_verification=True), options)


INDEPENDENT = {
    "csv": read_csv,
    "svm": read_svm,
    "npy": read_npy,
    "arrow": read_arrow,
    "feather": read_arrow,
    "parquet": read_parquet,
}


def difference(got, expected):
    """Return how the rows of mercer and of an independent reader differ, or None if they are equal."""
    for name, one, other in zip(("rows", "targets", "weights"), got, expected, strict=True):
        if (one is None) != (other is None):
            return f"{name}: {one} and {other}"
        if one is None:
            continue
        if sp.issparse(one):
            one, other = one.tocsr(), other.tocsr()
            same = one.shape == other.shape and all(
                np.array_equal(getattr(one, part), getattr(other, part), equal_nan=part == "data")
                for part in ("indptr", "indices", "data")
            )
        elif name == "targets" and isinstance(other, list):
            same = len(one) == len(other) and all(map(same_target, one.tolist(), other))
        else:
            with np.errstate(all="ignore"):
                same = one.shape == other.shape and np.array_equal(one, other.astype(one.dtype), equal_nan=True)
        if not same:
            return f"{name}: {np.shape(one)} {str(one)[:200]} and {np.shape(other)} {str(other)[:200]}"
    return None


def same_target(one, other):
    """Return whether a target equals what an independent reader returned; empty and missing targets are the same."""
    missing = one is None or one == "" or (isinstance(one, float) and math.isnan(one))
    if other is None or (isinstance(other, str) and not other.strip()):
        return missing or one == other
    if isinstance(one, str):
        return one == other
    value = number(other) if isinstance(other, str) else float(other)
    return float(one) == value or (math.isnan(value) and missing)


# ---- children -----------------------------------------------------------------------------------


def drop_row(path, options):
    """Planted fault: one row less."""
    return tuple(None if part is None else part[:-1] for part in read(path, options))


def change_number(path, options):
    """Planted fault: one number differs in its last bit."""
    X, *others = read(path, options)
    values = X.data if sp.issparse(X) else X
    values.reshape(-1)[-1:] = np.nextafter(values.reshape(-1)[-1:], np.inf)
    return X, *others


def let_errors_through(path, options):
    """Planted fault: an error of a reader is not converted."""
    try:
        return read(path, options)
    except mercer.DataError as error:
        raise (error.__cause__ or error) from None


def crash(path, options):
    """Planted fault: the process ends."""
    os.kill(os.getpid(), signal.SIGSEGV)


def hang(path, options):
    """Planted fault: no end."""
    time.sleep(3600)


READERS = {reader.__name__: reader for reader in (read, drop_row, change_number, let_errors_through, crash, hang)}


def judge(kind, number, path, reader, say):
    """Return the verdict on a case, and a detail. `say` is called when mercer is done."""
    content, options = damaged(kind, number)
    Path(path).write_bytes(content)
    try:
        with small_pieces(number), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got, why = reader(path, options), None
    except mercer.errors.MercerError as error:
        got, why = None, str(error)
    except Exception as error:
        return "raw error", f"{type(error).__name__}: {error}"
    finally:
        say()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = INDEPENDENT[kind](path, options)
    except Exception as error:
        refused = f"{type(error).__name__}: {error}"
        return ("both refuse", why) if got is None else ("mercer alone reads", refused)
    if got is None:
        return "mercer refuses", why
    found = difference(got, expected)
    return ("equal", "") if found is None else ("other rows", found)


def work():
    """Judge the cases that arrive on standard input, in a child process."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as folder:
        print(READY, flush=True)
        for line in sys.stdin:
            kind, number, reader = json.loads(line)
            path = os.path.join(folder, f"rows.{kind}")
            answer = judge(kind, number, path, READERS[reader], lambda: print(READ, flush=True))
            print(json.dumps(answer), flush=True)


class Child:
    """A child process that judges cases."""

    def __init__(self):
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path))
        self.process = subprocess.Popen(
            [sys.executable, __file__], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.rest = b""
        if self.line(120) != READY:
            msg = f"the child process does not start, exit code {self.process.poll()}"
            raise RuntimeError(msg)

    def line(self, limit):
        """Return the next line of the child; None if it does not come in time, an empty string if the child ended."""
        end = time.monotonic() + limit
        while b"\n" not in self.rest:
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                return None
            more = os.read(self.process.stdout.fileno(), 2**16)
            if not more:
                return ""
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def judge(self, kind, number, reader, limit):
        """Return the outcome of a case, also if the child ends or does not answer."""
        start = time.perf_counter()
        self.process.stdin.write(json.dumps([kind, number, reader]).encode() + b"\n")
        self.process.stdin.flush()
        answer = self.line(limit)
        seconds = time.perf_counter() - start
        by_mercer = answer != READ
        if not by_mercer:
            answer = self.line(limit)
        if answer:
            return Outcome(kind, number, reader, *json.loads(answer), seconds)
        if answer is None:
            verdict, detail = "hang", f"more than {limit:g} s"
        else:
            verdict, detail = "crash", f"exit code {self.process.wait(limit)}"
        self.close()
        # After mercer is done, it is a fault of the independent reader.
        return Outcome(kind, number, reader, verdict if by_mercer else "independent reader fails", detail, seconds)

    def close(self):
        self.process.kill()
        self.process.communicate()


def judge_all(cases, *, limit=LIMIT, workers=1):
    """Return the outcomes of cases ``(format, number)``, or ``(format, number, reader)`` for a planted fault."""
    waiting, outcomes = iter(list(cases)), []
    lock = threading.Lock()

    def run():
        child = Child()
        while True:
            with lock:
                case = next(waiting, None)
            if case is None:
                break
            if child.process.poll() is not None:
                child = Child()
            outcomes.append(child.judge(*case, *(["read"] if len(case) == 2 else []), limit))
        child.close()

    with ThreadPoolExecutor(workers) as pool:
        for future in [pool.submit(run) for _ in range(workers)]:
            future.result()
    return sorted(outcomes, key=lambda outcome: (outcome.kind, outcome.number))


def counts(outcomes):
    """Return the number of outcomes of every verdict, by format."""
    return {kind: dict(Counter(o.verdict for o in outcomes if o.kind == kind)) for kind in KINDS}


if __name__ == "__main__":
    work()
