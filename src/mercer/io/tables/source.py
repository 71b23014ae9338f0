"""`TableSource`, a table that is read block by block, and the plan by which Arrow data become its blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mercer.errors import DataError, ParameterError
from mercer.io.formats.columns import Columns, choose_columns
from mercer.io.formats.table import TablePlan, index_columns, is_number, is_text
from mercer.io.source import Part, RowSource, load_pyarrow, rows_per_block

__all__ = ["TableSource", "TypedPlan"]

NUMBER_BYTES = 8


class TableSource(RowSource):
    """A table in files or in memory, read block by block, any number of times and always in the same order.

    `open_table` returns one. Iterating it yields blocks ``(table,)``, ``(table, y)`` or ``(table, y, weight)``, in
    which `table` is a `pyarrow.Table` of the features with their types and missing cells. `KernelRegressor`,
    `KernelClassifier` and `TablePreprocessor` accept it; for other learners, ``TablePreprocessor().fit(source)
    .rows(source)`` returns its rows as numbers.

    Attributes
    ----------
    schema : pyarrow.Schema
        Names and types of the features.
    n_rows : int or None
        The number of rows, or None if it is not known before they are read.
    n_features : int
        The number of features.
    feature_names : tuple of str
        Names of the features.
    target_names : tuple of str
        Names of the columns of targets; empty if there are none.

    See Also
    --------
    mercer.io.open_table : Opens files and data frames.
    """

    def __init__(self, parts: Sequence[Part], *, schema: Any, target_names: tuple[str, ...] = ()) -> None:
        super().__init__(parts, n_features=len(schema.names), feature_names=tuple(schema.names))
        self.schema = schema
        self.target_names = target_names

    def as_strings(self, names: Sequence[str]) -> TableSource:
        """Return the source with some columns read as strings, if it reads CSV files, whose cells have no types.

        A file may have only numbers in a column that had other strings in the file of a fit. Other formats have types,
        and are returned unchanged. Names that are not columns are ignored.
        """
        wanted = [name for name in names if name in self.schema.names and str(self.schema.field(name).type) != "string"]
        if not wanted or not all(hasattr(part, "dialect") for part in self._parts):
            return self
        parts: list[Any] = [
            replace(part, dialect=part.dialect.as_strings(wanted), plan=part.plan.as_strings(wanted))  # type: ignore
            for part in self._parts
        ]
        return TableSource(parts, schema=parts[0].plan.schema, target_names=self.target_names)


@dataclass(frozen=True)
class TypedPlan:
    """Describes how Arrow tables become blocks of a `TableSource`, as `TablePlan` does for rows of numbers."""

    columns: Columns
    schema: Any  # pyarrow.Schema of the features
    block_rows: int  # maximum number of rows of a block

    @classmethod
    def of(cls, schemas: Iterable[tuple[str, Any]], *, index: Sequence[str] = (), **chosen: Any) -> TypedPlan:
        """Return the plan for one or several tables; the first one determines the columns.

        Parameters
        ----------
        schemas : iterable of (str, pyarrow.Schema)
            Names, for messages, and schemas of all tables.
        index : sequence of str, default=()
            Names of index columns, besides those that pandas has stored in the schema.
        **chosen
            The arguments `target`, `weight` and `columns` of `choose_columns`.
        """
        pa = load_pyarrow("pyarrow", "A table")
        columns: Columns | None = None
        types: dict[str, tuple[Any, str]] = {}
        for where, schema in schemas:
            if columns is None:
                columns = choose_columns(schema.names, where, index=[*index_columns(schema), *index], **chosen)
                repeated = [name for name in columns.features if columns.features.count(name) > 1]
                if repeated:
                    msg = f"columns must name each feature once, got {repeated[0]!r} twice."
                    raise ParameterError(msg)
            else:
                choose_columns(
                    schema.names, where,
                    target=list(columns.targets), weight=columns.weight, columns=columns.features,
                )  # fmt: skip
            for name in columns.features:
                kind = schema.field(name).type
                _check_type(pa, where, name, kind)
                types[name] = _joined(pa, name, types[name], (kind, where)) if name in types else (kind, where)
            for name in columns.targets:
                kind = schema.field(name).type
                text = is_text(pa, kind)
                if not (is_number(pa, kind) or pa.types.is_null(kind) or (text and not columns.matrix_target)):
                    numbers = "numbers" if columns.matrix_target else "numbers or strings"
                    msg = f"{where}: the target {name!r} contains {kind}, not {numbers}."
                    raise DataError(msg)
            if columns.weight is not None and not is_number(pa, schema.field(columns.weight).type):
                kind = schema.field(columns.weight).type
                msg = f"{where}: the weight {columns.weight!r} contains {kind}, not numbers."
                raise DataError(msg)
        assert columns is not None
        schema = pa.schema([(name, types[name][0]) for name in columns.features])
        return cls(columns, schema, rows_per_block(len(columns.features), NUMBER_BYTES))

    def source(self, parts: Sequence[Part]) -> TableSource:
        """Return a `TableSource` that consists of the given parts, whose tables are converted by this plan."""
        return TableSource(parts, schema=self.schema, target_names=self.columns.targets)

    def as_strings(self, names: Sequence[str]) -> TypedPlan:
        """Return the plan with columns of strings."""
        pa = load_pyarrow("pyarrow", "A table")
        fields = [(one.name, pa.string() if one.name in names else one.type) for one in self.schema]
        return replace(self, schema=pa.schema(fields))

    def checked(self, table: Any) -> Any:
        """Return the columns that are read of a table or record batch; raise ArrowInvalid if they are damaged."""
        table = table.select(self.columns.names)
        table.validate(full=True)
        return table

    def block(self, batch: Any, where: str, start: int) -> tuple[Any, ...]:
        """Return a checked record batch or table as a block ``(table,)``, ``(table, y)`` or ``(table, y, weight)``.

        `where`, the name of the table, and `start`, the index of the first row of the batch, are for messages.
        """
        pa = load_pyarrow("pyarrow", "A table")
        if isinstance(batch, pa.RecordBatch):
            batch = pa.Table.from_batches([batch])
        table = batch.select(self.columns.features).replace_schema_metadata(None)
        if table.schema != self.schema:
            table = table.cast(self.schema)
        y = TablePlan.targets(self.columns, batch, where)
        if self.columns.weight is not None:
            return table, y, TablePlan.numbers(batch, self.columns.weight, where, start)
        return (table,) if y is None else (table, y)

    def blocks(self, table: Any, where: str, start: int) -> Iterator[tuple[Any, ...]]:
        """Yield a table or record batch as blocks of at most `block_rows` rows."""
        table = self.checked(table)
        for i in range(0, table.num_rows, self.block_rows):
            yield self.block(table.slice(i, self.block_rows), where, start + i)


def _check_type(pa: Any, where: str, name: str, kind: Any) -> None:
    """Raise if a column is neither of numbers, strings, booleans, dates, times nor categories."""
    values = kind.value_type if pa.types.is_dictionary(kind) else kind
    t = pa.types
    times = t.is_temporal(values) and not t.is_interval(values)
    if not (is_number(pa, values) or is_text(pa, values) or times or t.is_null(values)):
        msg = (
            f"{where}: column {name!r} contains {kind}, but columns must be numbers, strings, booleans, dates or "
            "categories. Omit it with columns=, or convert it first."
        )
        raise DataError(msg)


def _joined(pa: Any, name: str, one: tuple[Any, str], other: tuple[Any, str]) -> tuple[Any, str]:
    """Return the type of a column that has two types in two files, with the file to name in messages."""
    (a, first), (b, second) = one, other
    if a == b or pa.types.is_null(b):
        return one
    if pa.types.is_null(a):
        return b, first
    if is_text(pa, a) and is_text(pa, b):
        return pa.string(), first
    t = pa.types
    if all(is_number(pa, kind) and not t.is_boolean(kind) for kind in (a, b)):
        return (pa.int64() if t.is_signed_integer(a) and t.is_signed_integer(b) else pa.float64()), first
    if t.is_timestamp(a) and t.is_timestamp(b) and (a.tz is None) == (b.tz is None):
        return pa.timestamp("us", a.tz), first
    msg = (
        f"Column {name!r} contains {a} in {first}, but {b} in {second}. Write the files with one type, or open them "
        "separately."
    )
    raise DataError(msg)
