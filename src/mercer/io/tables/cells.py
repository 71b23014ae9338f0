"""What the cells of a column of a CSV file mean: numbers, booleans, dates or strings.

A column has a kind if all its cells that are not missing have this kind, so the kinds that are possible for a file are
those that are possible for each of its chunks. A column that has none is a column of strings.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from mercer.io.source import load_pyarrow

__all__ = ["KINDS", "MISSING", "ambiguous_dates", "arrow_type", "best_kind", "converted", "looks_numeric", "possible"]

#: Cells that are missing, also with spaces around them.
MISSING = (
    "", "?", "NA", "N/A", "n/a", "na", "NaN", "nan", "NAN", "-NaN", "-nan", "NULL", "Null", "null", "None", "<NA>",
    "#N/A", "#NA", "#N/A N/A", "NaT", "1.#IND", "-1.#IND", "1.#QNAN", "-1.#QNAN",
)  # fmt: skip

NUMBER = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:inf|infinity)$"
COMMA_NUMBER = r"^[+-]?[0-9]+,[0-9]+$|^[+-]?[0-9]+$"
# Digits after a leading zero are a code, such as a postal code, and not a number.
CODE = r"^[+-]?0[0-9]+$"
BOOLEANS = (("true", "false"), ("yes", "no"))

# Formats of dates, other than those of ISO 8601, with a regular expression that their cells match: strptime alone
# would accept years of two digits.
_DAYS = {
    "%Y/%m/%d": r"[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}",
    "%m/%d/%Y": r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}",
    "%d/%m/%Y": r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}",
    "%d.%m.%Y": r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}",
    "%d-%m-%Y": r"[0-9]{1,2}-[0-9]{1,2}-[0-9]{4}",
    "%d-%b-%Y": r"[0-9]{1,2}-[A-Za-z]{3}-[0-9]{4}",
    "%d %b %Y": r"[0-9]{1,2} [A-Za-z]{3} [0-9]{4}",
    "%b %d, %Y": r"[A-Za-z]{3} [0-9]{1,2}, [0-9]{4}",
}
_TIMES = {
    "": "",
    " %H:%M": r" [0-9]{1,2}:[0-9]{2}",
    " %H:%M:%S": r" [0-9]{1,2}:[0-9]{2}:[0-9]{2}",
}
FORMATS = {day + time: f"^{of_day}{of_time}$" for day, of_day in _DAYS.items() for time, of_time in _TIMES.items()}
# Both orders of day and month are possible for such cells.
_SWAPPED = {f"%m/%d/%Y{time}": f"%d/%m/%Y{time}" for time in _TIMES}
ISO = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T][0-9]{2}:[0-9]{2}.*)?$"

#: All kinds, those preferred first.
KINDS = ("integer", "number", "comma", "boolean 0", "boolean 1", "iso", "iso utc", *FORMATS)


@cache
def _arrow() -> tuple[Any, Any]:
    return load_pyarrow("pyarrow", "A CSV file"), load_pyarrow("pyarrow.compute", "A CSV file")


def arrow_type(kind: str) -> Any:
    """Return the Arrow type of a column of a kind; "string" and "missing" are kinds, too."""
    pa, _ = _arrow()
    plain = {"integer": pa.int64(), "number": pa.float64(), "comma": pa.float64(), "string": pa.string()}
    if kind in plain:
        return plain[kind]
    if kind == "missing":
        return pa.null()
    if kind.startswith("boolean"):
        return pa.bool_()
    return pa.timestamp("us", "UTC") if kind == "iso utc" else pa.timestamp("us")


def possible(cells: Any, kinds: Iterable[str]) -> tuple[frozenset[str], bool]:
    """Return which of some kinds are possible for cells, and whether one of them is a code such as "01234".

    Parameters
    ----------
    cells : pyarrow.Array of strings
        The cells of a column that are not missing.
    kinds : iterable of str
        Kinds that are possible for other cells of the column.
    """
    asked = frozenset(kinds)
    if not len(cells) or not asked:
        return asked, False
    first = cells[0].as_py()
    plausible = frozenset(kind for kind in asked if _looks(first, kind))
    found = frozenset(kind for kind in plausible if _all_are(cells, kind))
    has_code = "integer" in found and _has_code(cells)
    return found, has_code


def best_kind(kinds: Iterable[str], *, has_codes: bool, only: tuple[str, ...] = KINDS) -> str:
    """Return the kind of a column, given the kinds that are possible for all its cells; "string" if there is none."""
    left = set(kinds)
    if has_codes and "integer" in left:
        left -= {"integer", "number", "comma"}
    return next((kind for kind in only if kind in left), "string")


def ambiguous_dates(kinds: Iterable[str]) -> bool:
    """Return whether both orders of day and month are possible for all cells of a column."""
    left = set(kinds)
    return any(month in left and day in left for month, day in _SWAPPED.items())


def converted(cells: Any, kind: str) -> Any:
    """Return cells, some of which may be null, as an Arrow array of a kind; raise ArrowInvalid if one is not."""
    pa, pc = _arrow()
    if kind == "string":
        return cells
    if kind == "missing":
        if len(cells) > cells.null_count:
            msg = "a cell is not missing"
            raise pa.ArrowInvalid(msg)
        return pa.nulls(len(cells))
    if kind == "comma":
        return pc.replace_substring(cells, ",", ".").cast(pa.float64())
    if kind.startswith("boolean"):
        true, false = BOOLEANS[int(kind[-1])]
        lower = pc.utf8_lower(cells)
        out = pc.equal(lower, true)
        if not pc.all(pc.or_(out, pc.equal(lower, false)), min_count=0).as_py():
            msg = f"a cell is neither {true} nor {false}"
            raise pa.ArrowInvalid(msg)
        return out
    if kind in FORMATS:
        if not pc.all(pc.match_substring_regex(cells, FORMATS[kind]), min_count=0).as_py():
            msg = f"a cell is not a date of the form {kind}"
            raise pa.ArrowInvalid(msg)
        return pc.strptime(cells, format=kind, unit="us")
    return cells.cast(arrow_type(kind))


def looks_numeric(cells: Any) -> Any:
    """Return a boolean array: which cells, some of which may be null, are numbers."""
    return _arrow()[1].match_substring_regex(cells, NUMBER)


def _looks(cell: str, kind: str) -> bool:
    """Return whether a cell may have a kind; False saves the time to look at all cells."""
    pa, pc = _arrow()
    if kind == "string":
        return True
    patterns = {"integer": NUMBER, "number": NUMBER, "comma": COMMA_NUMBER, "iso": ISO, "iso utc": ISO, **FORMATS}
    if kind in patterns:
        return bool(pc.match_substring_regex(pa.array([cell]), patterns[kind])[0].as_py())
    return cell.lower() in BOOLEANS[int(kind[-1])]


def _has_code(cells: Any) -> bool:
    """Return whether one of some integers starts with a zero that is not the number zero."""
    _, pc = _arrow()
    signed = _has_bytes(cells, b"-", b"+")
    zeros = cells if signed else cells.filter(pc.starts_with(cells, "0"))
    return bool(pc.any(pc.match_substring_regex(zeros, CODE)).as_py())


def _has_bytes(cells: Any, *found: bytes) -> bool:
    """Return whether one of some characters may be in the cells; much faster than to search each cell."""
    data = cells.buffers()[-1]
    text = b"" if data is None else data.to_pybytes()
    return any(one in text for one in found)


def _all_are(cells: Any, kind: str) -> bool:
    """Return whether all cells have a kind."""
    pa, pc = _arrow()
    patterns = {"comma": COMMA_NUMBER, "iso": ISO, "iso utc": ISO}
    # Arrow reads integers in base 16, and NaN with a payload.
    if kind == "integer" and _has_bytes(cells, b"x", b"X", b"."):
        return False
    if kind == "number" and _has_bytes(cells, b"(", b"x", b"X"):
        return False
    if kind in patterns and not pc.all(pc.match_substring_regex(cells, patterns[kind]), min_count=0).as_py():
        return False
    try:
        converted(cells, kind)
    except pa.ArrowInvalid:
        return False
    return True
