"""Selection of the columns of a table that are features, targets and weights."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from mercer.errors import DataError, ParameterError

__all__ = ["Column", "Columns", "choose_columns", "listed"]

#: A column by its name or its index; negative indices count from the end.
Column = str | int
# Number of columns up to which an unknown name is compared with all of them, to suggest a similar one.
MOST_COMPARED = 5000


@dataclass(frozen=True)
class Columns:
    """Names of the columns that are features, targets and weights."""

    features: tuple[str, ...]
    targets: tuple[str, ...]  # empty if the rows have no targets
    weight: str | None
    matrix_target: bool  # whether targets have shape (n, t), because they were specified as a list, even of one column

    @property
    def names(self) -> list[str]:
        """Names of all columns that must be read: features, targets and weight."""
        return [*self.features, *self.targets, *([] if self.weight is None else [self.weight])]


def choose_columns(
    names: Sequence[str],
    where: str,
    *,
    target: Column | Sequence[Column] | None = None,
    weight: Column | None = None,
    columns: Sequence[Column] | None = None,
    index: Sequence[str] = (),
) -> Columns:
    """Return the names of the columns that are features, targets and weights.

    By default, all columns except targets, weights and index columns are features.

    Parameters
    ----------
    names : sequence of str
        All columns of the table, in order.
    where : str
        Name of the table, for messages.
    target, weight, columns
        As in `mercer.open_rows`.
    index : sequence of str, default=()
        Names of index columns, which number or name the rows, such as the index of a pandas data frame. They can be
        selected only by name; integer positions do not count them.

    Returns
    -------
    Columns
    """
    # Tables may have 100,000 columns, so names are looked up in sets and dictionaries.
    if len(set(names)) < len(names):
        repeated = min(name for name, count in Counter(names).items() if count > 1)
        msg = f"{where} has two columns named {repeated!r}. Rename one."
        raise DataError(msg)
    # `values` are the columns that are not index columns. Positions and the default select among `values` only, and
    # names among all columns.
    indexed = set(index).intersection(names)
    values = [name for name in names if name not in indexed]
    known = dict.fromkeys([*values, *(name for name in index if name in indexed)])
    is_list = isinstance(target, Sequence) and not isinstance(target, str)
    asked = [] if target is None else list(target) if isinstance(target, Sequence) and is_list else [target]
    targets = tuple(_find(known, values, one, where, "target") for one in asked)
    weights = None if weight is None else _find(known, values, weight, where, "weight")
    taken = {*targets, weights}
    if columns is None:
        features = tuple(name for name in values if name not in taken)
    else:
        if isinstance(columns, str):
            msg = f"columns must be a list of names or indices, got the string {columns!r}. Try columns=[{columns!r}]."
            raise ParameterError(msg)
        features = tuple(_find(known, values, one, where, "columns") for one in columns)
        both = [name for name in features if name in taken]
        if both:
            msg = f"{where}: column {both[0]!r} cannot be both a feature and a target or weight."
            raise ParameterError(msg)
    if not features:
        msg = f"{where} has no column left for features. Its columns are {listed(list(known))}."
        raise DataError(msg)
    return Columns(features, targets, weights, is_list)


def _find(names: dict[str, None], values: Sequence[str], wanted: object, where: str, role: str) -> str:
    """Return the name of the requested column; raise if there is no such column.

    Parameters
    ----------
    names : dict
        All columns, as keys in order.
    values : sequence of str
        The columns that are not index columns, which integer positions count.
    wanted : object
        Name or integer position of the requested column; negative positions count from the end.
    where, role : str
        Names of the table and of the parameter, for messages.
    """
    if isinstance(wanted, Integral) and not isinstance(wanted, bool):
        position = int(wanted)
        if -len(values) <= position < len(values):
            return values[position]
        msg = f"{where} has {len(values)} columns, so {role}={wanted} is out of range."
        raise DataError(msg)
    if not isinstance(wanted, str):
        msg = f"{role} must give columns by name or index, got {wanted!r}."
        raise ParameterError(msg)
    if wanted in names:
        return wanted
    near = [name for name in names if name.lower() == wanted.lower()][:1]
    if not near and len(names) <= MOST_COMPARED:
        near = difflib.get_close_matches(wanted, names, 1, 0.5)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    msg = f"{where} has no column {wanted!r}, which {role} asks for.{hint} Its columns are {listed(list(names))}."
    raise DataError(msg)


def listed(names: Sequence[str], most: int = 12) -> str:
    """Return names for a message, separated by commas: all, or the first `most` followed by the total number."""
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"
