"""Columns of tables as graphs of array operations: what a `TablePreprocessor` does with each of them.

A missing number or date is NaN in a graph, and dates are microseconds since 1970. Categories are strings: an exported
model looks them up in a table of constants.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from mercer.automatic.tables import numeric_model
from mercer.errors import ExportError
from mercer.export import graph as g
from mercer.export.graph import Value
from mercer.tables import TablePreprocessor
from mercer.tables.encoders import (
    CYCLES,
    MONDAY,
    CategoryColumn,
    DateColumn,
    EncodedColumn,
    NumberColumn,
    ScaledNumbers,
)
from mercer.tables.frames import MISSING_DATE, Column, Frame
from mercer.tables.sums import DAY

__all__ = ["encoded_columns", "encoded_matrix", "frame_columns", "random_frame", "table_of", "takes_matrix"]

Array = np.ndarray


def table_of(model: Any) -> tuple[TablePreprocessor | None, Any]:
    """Return the preprocessor of a model of tables, and the model of its columns of numbers; either may be None."""
    if isinstance(model, TablePreprocessor):
        return model, None
    if isinstance(model, Pipeline):
        first = model.steps[0][1]
        if isinstance(first, TablePreprocessor):
            return first, Pipeline(model.steps[1:]) if len(model.steps) > 1 else None
        return None, model
    preprocessor = vars(model).get("preprocessor_") if hasattr(model, "__dict__") else None
    return preprocessor, model if preprocessor is None else numeric_model(model)


def takes_matrix(preprocessor: TablePreprocessor) -> bool:
    """Return whether a preprocessor was fitted to an array of numbers, some of which are missing."""
    kinds = {one.kind for one in preprocessor.encoders_}
    return kinds <= {"number", "boolean", "missing"} and not hasattr(preprocessor, "feature_names_in_")


def encoded_columns(preprocessor: TablePreprocessor) -> tuple[tuple[Value, ...], Value]:
    """Return the columns that a preprocessor takes, those that it uses only, and its columns of numbers (n, p)."""
    used = [one for one in preprocessor.encoders_ if one.outputs]
    columns = tuple(g.table_column(one.name, one.kind) for one in used)
    parts = [named(one, encoded(one, column)) for one, column in zip(used, columns, strict=True)]
    return columns, g.concatenate(parts).named("numbers", "The columns of the table as numbers.")


def encoded_matrix(preprocessor: TablePreprocessor, X: Value) -> Value:
    """Return the columns of numbers (n, p) of an array of numbers, some of which are missing."""
    columns = enumerate(preprocessor.encoders_)
    parts = [named(one, encoded(one, g.columns(X, i, i + 1))) for i, one in columns if one.outputs]
    return g.concatenate(parts).named("filled", "Missing numbers are filled.")


def named(one: EncodedColumn, value: Value) -> Value:
    """Return the columns of numbers that a column becomes, with its name and what was done in generated code."""
    return value.named(one.name, ", ".join(filter(None, [f"{one.kind} {one.name!r}", one.note])))


@singledispatch
def encoded(one: EncodedColumn, column: Value) -> Value:  # noqa: ARG001 - the signature of all of them
    """Return the columns of numbers that a column becomes."""
    msg = f"Column {one.name!r} cannot be exported: {type(one).__name__} has no formula of array operations here."
    raise ExportError(msg)


@encoded.register
def _(one: NumberColumn, column: Value) -> Value:
    gone = g.is_nan(column).named("gone")
    parts = []
    if not one.constant:
        values = g.where(gone, float(one.fill), column).named("filled")
        values = g.where(g.at_least(values, np.inf), float(one.high), values).named("filled")
        values = g.where(g.at_least(-np.inf, values), float(one.low), values)
        parts.append(scaled(one.scaling, values))
    if one.missing:
        parts.append(g.where(gone, 1.0, 0.0))
    return g.concatenate(parts)


@encoded.register
def _(one: DateColumn, column: Value) -> Value:
    gone = g.is_nan(column).named("gone")
    dates = g.where(gone, float(one.fill), column).named("dates")
    parts = [] if one.constant else [scaled(one.scaling, (dates - float(one.origin)) / float(DAY))]
    for cycle in one.cycles:
        turns = ((dates - float(MONDAY)) / CYCLES[cycle]).named("turns")
        angle = (2 * np.pi * (turns - g.floor(turns))).named("angle")
        parts += [g.where(gone, 0.0, function(angle)) for function in (g.sin, g.cos)]
    if one.missing:
        parts.append(g.where(gone, 1.0, 0.0))
    return g.concatenate(parts)


def scaled(scaling: ScaledNumbers | None, values: Value) -> Value:
    """Return scaled numbers."""
    if scaling is None:
        return values
    if scaling.knots is not None:
        return g.interpolate(values, g.constant(scaling.knots, "knots"), g.constant(scaling.ranks, "ranks"))
    return (values - float(scaling.center)) / float(scaling.spread)


@encoded.register
def _(one: CategoryColumn, column: Value) -> Value:
    keys = [*one.categories, *one.others]
    # What the preprocessor makes of each known category, of a missing cell, and of a category that it does not know.
    categories = np.array([*keys, unknown_category(keys)], dtype=object)
    codes = np.concatenate([np.arange(len(keys)), [-1, len(keys)]])
    table = np.zeros((len(codes), len(one.outputs)))
    one.encode(Column("category", one.dtype, codes, categories), table)
    buckets = int(one.buckets) if one.buckets and not one.complete else 0
    if buckets:  # other categories are distinguished by a hash
        first = len(one.categories)
        rows = np.zeros((buckets, table.shape[1]))
        rows[np.arange(buckets), first + np.arange(buckets)] = 1.0
        table = np.concatenate([table, rows])
    return g.look_up(column, g.constant(np.array(keys, dtype=str), "categories"), g.constant(table, "codes"), buckets)


def unknown_category(known: list[str]) -> str:
    """Return a string that is not a known category."""
    name = "?"
    while name in known:
        name += "?"
    return name


# ---- tables of cells ------------------------------------------------------------------------------------------------


def frame_columns(frame: Frame, columns: tuple[Value, ...]) -> dict[str, Array]:
    """Return the cells of a table as exported models take them, by names: (n, 1), with NaN or None if missing."""
    out = {}
    for value in columns:
        name = str(value.options["column"])
        column = frame.column(name)
        assert column is not None, name
        gone = column.is_missing
        if column.kind == "category":
            cells = np.array([*column.categories, None], dtype=object)[column.values]
        elif column.kind == "date":
            cells = np.where(gone, np.nan, column.values.astype(np.float64))
        else:
            cells = column.values.astype(np.float64)
        if value.options["kind"] == "category" and column.kind != "category":
            cells = np.full(len(frame), None, dtype=object)
        out[name] = cells[:, None]
    return out


def random_frame(preprocessor: TablePreprocessor, n: int) -> Frame:
    """Return a table of random cells that a preprocessor takes, also missing ones and categories that are new."""
    rng = np.random.default_rng(0)
    makers: dict[type, Callable[[Any], Column]] = {
        NumberColumn: lambda one: _random_numbers(one, n, rng),
        DateColumn: lambda one: _random_dates(one, n, rng),
        CategoryColumn: lambda one: _random_categories(one, n, rng),
    }
    columns = []
    for one in preprocessor.encoders_:
        make = makers.get(type(one))
        columns.append(Column("missing", "object", np.full(n, np.nan)) if make is None else make(one))
    return Frame(tuple(one.name for one in preprocessor.encoders_), tuple(columns), n)


def _random_numbers(one: NumberColumn, n: int, rng: np.random.Generator) -> Column:
    if one.kind == "boolean":
        values = rng.integers(0, 2, n).astype(float)
    elif one.scaling is not None and one.scaling.knots is not None:
        values = rng.choice(one.scaling.knots, n) + rng.normal(size=n) * 1e-3 * np.ptp(one.scaling.knots)
    else:
        values = rng.uniform(one.low, one.high, n)
    if one.missing:
        values[rng.random(n) < 0.1] = np.nan
    return Column(one.kind, one.dtype, values)


def _random_dates(one: DateColumn, n: int, rng: np.random.Generator) -> Column:
    values = one.origin + rng.integers(0, 2 * max(one.fill - one.origin, DAY) + 1, n)
    if one.missing:
        values[rng.random(n) < 0.1] = MISSING_DATE
    return Column("date", one.dtype, values)


def _random_categories(one: CategoryColumn, n: int, rng: np.random.Generator) -> Column:
    keys = [*one.categories, *one.others]
    categories = np.array([*keys, unknown_category(keys)], dtype=object)
    least = -1 if one.missing else 0
    return Column("category", one.dtype, rng.integers(least, len(categories), n), categories)
