"""Which columns of a table are features, targets and weights."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

from mercer.errors import DataError, ParameterError

__all__ = ["Column", "Columns", "choose_columns"]

#: A column by its name or by its place; negative places count from the end.
Column = str | int


@dataclass(frozen=True)
class Columns:
    """Names of the columns that are read, by what they are for."""

    features: tuple[str, ...]
    targets: tuple[str, ...]  # none, one, or several
    weight: str | None
    matrix_target: bool  # several targets were asked for, be it a list of one

    @property
    def names(self) -> list[str]:
        """Return all columns that have to be read."""
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
    """Return the columns that are meant, by default all that are neither target nor weight as features.

    Parameters
    ----------
    names : sequence of str
        All columns of the table, in order.
    where : str
        The table, for messages.
    target, weight, columns
        As in `mercer.open_rows`.
    index : sequence of str, default=()
        Columns that number or name the rows: they are meant only by their names, and places do not count them.

    Returns
    -------
    Columns
    """
    twice = sorted({name for name in names if list(names).count(name) > 1}) if len(set(names)) < len(names) else []
    if twice:
        msg = f"{where} has two columns of the name {twice[0]!r}. Rename one."
        raise DataError(msg)
    # By place or by default: columns that are no index; by name: all.
    index = tuple(name for name in index if name in names)
    names = [*(name for name in names if name not in index), *index]
    values = names[: len(names) - len(index)]
    several = isinstance(target, Sequence) and not isinstance(target, str)
    asked = [] if target is None else list(target) if isinstance(target, Sequence) and several else [target]
    targets = tuple(_find(names, values, one, where, "target") for one in asked)
    weights = None if weight is None else _find(names, values, weight, where, "weight")
    taken = {*targets, weights}
    if columns is None:
        features = tuple(name for name in values if name not in taken)
    else:
        if isinstance(columns, str):
            msg = f"columns must be a list of names or places, got the text {columns!r}. Try columns=[{columns!r}]."
            raise ParameterError(msg)
        features = tuple(_find(names, values, one, where, "columns") for one in columns)
        both = [name for name in features if name in taken]
        if both:
            msg = f"{where}: column {both[0]!r} cannot be a feature and a target or weight at once."
            raise ParameterError(msg)
    if not features:
        msg = f"{where} has no column left for features: it has {_listed(names)}."
        raise DataError(msg)
    return Columns(features, targets, weights, several)


def _find(names: Sequence[str], values: Sequence[str], wanted: object, where: str, role: str) -> str:
    if isinstance(wanted, Integral) and not isinstance(wanted, bool):
        place = int(wanted)
        if -len(values) <= place < len(values):
            return values[place]
        msg = f"{where} has {len(values)} columns, so {role}={wanted} is none of them."
        raise DataError(msg)
    if not isinstance(wanted, str):
        msg = f"{role} must name columns by text or by place, got {wanted!r}."
        raise ParameterError(msg)
    if wanted in names:
        return wanted
    near = difflib.get_close_matches(wanted, names, 1, 0.5) or [n for n in names if n.lower() == wanted.lower()][:1]
    hint = f" The nearest is {near[0]!r}." if near else ""
    msg = f"{where} has no column {wanted!r}, asked for as {role}.{hint} It has {_listed(names)}."
    raise DataError(msg)


def _listed(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown}, ... ({len(names)} in all)"
