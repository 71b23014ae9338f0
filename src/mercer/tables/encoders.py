"""Fitted columns of a `TablePreprocessor`: what becomes of the cells of each column.

Attributes are plain values and arrays, so that model files can store them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from mercer.metric.inputs import column_spreads
from mercer.tables.column_functions import rank_curve
from mercer.tables.frames import Column, Kind
from mercer.tables.sums import DAY, ColumnSums, Dates, Extremes, LabelCounts, RowValues, hash_of

__all__ = [
    "CategoryColumn",
    "DateColumn",
    "DroppedColumn",
    "EncodedColumn",
    "NumberColumn",
    "ScaledNumbers",
    "encoded_column",
]

Array = np.ndarray
Scale = Literal["quantiles", "spread"] | None
# A column of strings is an identifier if more than this share of its strings, and this number, are different.
DISTINCT_SHARE, LEAST_DISTINCT = 0.95, 10
YEAR = 365.2425 * DAY
# Lengths of cycles in microseconds. Dates must span more than one cycle, which otherwise is the date itself.
CYCLES = {"hour of day": float(DAY), "day of week": 7.0 * DAY, "day of year": YEAR}
# A Monday, so that weeks start there; the year that starts with it is as good as any.
MONDAY = 4 * DAY
# Largest number of different unseen categories of a column that are counted.
MOST_UNSEEN = 1000


@dataclass(frozen=True, eq=False)
class ScaledNumbers:
    """Numbers minus a center, divided by a spread, or their ranks."""

    center: float
    spread: float
    knots: Array | None  # values between which ranks are interpolated
    ranks: Array | None

    @classmethod
    def of(cls, values: Array, weight: Array, scale: Scale) -> ScaledNumbers | None:
        """Return the scaling of sampled values, which have no NaN; None if there is none."""
        if scale is None:
            return None
        if scale == "quantiles":
            curve = rank_curve(values, weight / weight.sum())
            if curve is not None:
                return cls(0.0, 1.0, *curve)
        center, spread = column_spreads(values[:, None], weight)
        return cls(float(center[0]), float(spread[0]) or 1.0, None, None)

    def __call__(self, values: Array) -> Array:
        """Return scaled values."""
        if self.knots is not None and self.ranks is not None:
            return np.interp(values, self.knots, self.ranks)
        return (values - self.center) / self.spread


@dataclass(frozen=True, eq=False)
class EncodedColumn(ABC):
    """Base class of fitted columns."""

    name: str
    kind: Kind
    dtype: str  # type in the table of the fit, for messages
    missing: int  # number of missing cells
    distinct: int  # number of different values, an estimate if it is large
    note: str  # what was done with the column

    @property
    @abstractmethod
    def outputs(self) -> tuple[str, ...]:
        """Names of the columns of numbers that this column becomes."""

    @abstractmethod
    def encode(self, column: Column, out: Array) -> Counter[str]:
        """Fill the zeros `out` of shape (n, p) with the encoded cells; return the categories that are new."""


@dataclass(frozen=True, eq=False)
class DroppedColumn(EncodedColumn):
    """A column that is left out."""

    @property
    def outputs(self) -> tuple[str, ...]:
        return ()

    def encode(self, column: Column, out: Array) -> Counter[str]:  # noqa: ARG002 - the signature of the contract
        return Counter()


@dataclass(frozen=True, eq=False)
class NumberColumn(EncodedColumn):
    """A column of numbers or booleans, with an indicator of missing cells if the fit had some."""

    fill: float  # what a missing cell becomes
    low: float  # what minus infinity becomes
    high: float
    constant: bool  # whether only the indicator varies
    scaling: ScaledNumbers | None

    @property
    def outputs(self) -> tuple[str, ...]:
        value = () if self.constant else (self.name,)
        return (*value, f"{self.name} (missing)") if self.missing else value

    def encode(self, column: Column, out: Array) -> Counter[str]:
        gone = column.is_missing
        if not self.constant:
            values = np.where(gone, self.fill, column.values)
            if not np.isfinite(values).all():
                values = np.nan_to_num(values, posinf=self.high, neginf=self.low)
            out[:, 0] = values if self.scaling is None else self.scaling(values)
        if self.missing:
            out[:, -1] = gone
        return Counter()


@dataclass(frozen=True, eq=False)
class DateColumn(EncodedColumn):
    """A column of dates: days since the first one, cycles, and an indicator of missing dates."""

    fill: int  # microseconds
    origin: int
    constant: bool
    cycles: tuple[str, ...]
    scaling: ScaledNumbers | None

    @property
    def outputs(self) -> tuple[str, ...]:
        value = () if self.constant else (self.name,)
        cycles = tuple(f"{self.name} ({cycle}, {part})" for cycle in self.cycles for part in ("sin", "cos"))
        return (*value, *cycles, f"{self.name} (missing)") if self.missing else (*value, *cycles)

    def encode(self, column: Column, out: Array) -> Counter[str]:
        gone = column.is_missing
        if column.kind == "missing":
            dates = np.full(len(gone), self.fill, dtype=np.int64)
        else:
            dates = np.where(gone, self.fill, column.values)
        at = 0
        if not self.constant:
            days = (dates - self.origin) / DAY
            out[:, 0] = days if self.scaling is None else self.scaling(days)
            at = 1
        for cycle in self.cycles:
            angle = 2 * np.pi * np.mod(dates - MONDAY, CYCLES[cycle]) / CYCLES[cycle]
            # A missing date is at the center of the circle.
            out[:, at] = np.where(gone, 0.0, np.sin(angle))
            out[:, at + 1] = np.where(gone, 0.0, np.cos(angle))
            at += 2
        if self.missing:
            out[:, -1] = gone
        return Counter()


@dataclass(frozen=True, eq=False)
class CategoryColumn(EncodedColumn):
    """A column of categories: indicators of frequent ones, and a summary of the others.

    Categories without an indicator of their own are in one column if they are few, and otherwise in columns by a hash,
    with the logarithm of their frequency. Cells that are missing have an indicator, if the fit had some. A category
    that the fit did not see has zeros everywhere, as no other category has. Two categories need one column only: they
    are 0 and 1, and a new one is in the middle.
    """

    categories: tuple[str, ...]  # with indicators, most frequent first
    others: dict[str, int]  # the other ones that are known, with their numbers of rows
    buckets: int  # number of columns by hash; 0 if others are in one column
    complete: bool  # whether all categories of the fit are known

    @property
    def binary(self) -> bool:
        """Whether one column is enough."""
        return len(self.categories) + bool(self.others) + bool(self.missing) == 2 and not self.buckets

    @property
    def outputs(self) -> tuple[str, ...]:
        return self._outputs

    @cached_property
    def _outputs(self) -> tuple[str, ...]:
        names = [f"{self.name}={category}" for category in self.categories]
        if self.buckets:
            names += [f"{self.name} (bucket {i})" for i in range(self.buckets)]
        elif self.others:
            names.append(f"{self.name} (other)")
        if self.missing:
            names.append(f"{self.name} (missing)")
        if self.binary:
            names = names[1:]
        if self.buckets and self.others:
            names.append(f"{self.name} (frequency)")
        return tuple(names)

    @cached_property
    def _index(self) -> dict[str, int]:
        """Position of each known category among the indicators."""
        first = len(self.categories)
        index = {category: i for i, category in enumerate(self.categories)}
        index.update((one, first + hash_of(one) % self.buckets if self.buckets else first) for one in self.others)
        return index

    def encode(self, column: Column, out: Array) -> Counter[str]:
        n, new = len(column.values), Counter[str]()
        first = len(self.categories)
        gone = first + (self.buckets or bool(self.others)) if self.missing else -1
        if column.kind == "missing":
            codes, names = np.full(n, -1), []
        else:
            codes, names = column.values, column.categories.tolist()
        index = self._index
        unseen = first + len(self.outputs) + 1  # beyond all columns
        at = np.full(len(names) + 1, unseen)
        at[-1] = gone if self.missing else unseen
        used = np.unique(codes)
        for code in used[used >= 0].tolist():
            position = index.get(names[code])
            if position is None and self.buckets and not self.complete:
                position = first + hash_of(names[code]) % self.buckets
            elif position is None:
                continue
            at[code] = position
        positions = at[codes]
        if self.complete:
            is_new = (positions == unseen) & (codes >= 0)
            if is_new.any():
                counts = np.bincount(codes[is_new], minlength=len(names))
                new.update({names[i]: int(counts[i]) for i in np.argsort(-counts, kind="stable") if counts[i]})
        width = len(self.outputs) - bool(self.buckets and self.others)
        if self.binary:
            out[:, 0] = np.where(positions == unseen, 0.5, positions)
        else:
            rows = np.flatnonzero(positions < width)
            out[rows, positions[rows]] = 1.0
        if self.buckets and self.others:
            rare = np.array([np.log1p(self.others.get(name, 0)) for name in [*names, ""]])
            out[:, -1] = np.where(positions >= first, rare[codes] * (codes >= 0), 0.0)
        return new


# ---- fitting --------------------------------------------------------------------------------------------------------


def encoded_column(
    sums: ColumnSums,
    sample: RowValues,
    values: Array,
    rows: int,
    *,
    scale: Scale,
    max_categories: int,
    min_frequency: int,
    n_buckets: int,
) -> EncodedColumn:
    """Return the fitted column for sums over all rows.

    Parameters
    ----------
    sums : ColumnSums
        Sums over the cells of the column.
    sample : RowValues
        The sample of rows, for its weights.
    values : ndarray
        The cells of the column in the sample.
    rows : int
        Number of rows.
    scale, max_categories, min_frequency, n_buckets
        Parameters of `TablePreprocessor`.
    """
    distinct = min(sums.distinct.count, rows - sums.missing)
    about = (sums.name, sums.kind, sums.dtype, sums.missing, distinct)
    if sums.missing == rows:
        return DroppedColumn(*about, "left out: all cells are missing")
    if distinct == 1 and not sums.missing:
        return DroppedColumn(*about, "left out: constant")
    known = np.array([value is not None for value in values]) if values.dtype == object else ~np.isnan(values)
    weight = sample.weights[known]
    if isinstance(sums.detail, LabelCounts):
        return _categories(
            sums, about, values[known], rows - sums.missing,
            max_categories=max_categories, min_frequency=min_frequency, n_buckets=n_buckets,
        )  # fmt: skip
    numbers = values[known].astype(np.float64)
    note = "" if not sums.missing else "missing cells filled"
    if isinstance(sums.detail, Dates):
        return _dates(sums.detail, about, numbers, weight, scale, note)
    assert isinstance(sums.detail, Extremes)
    low, high = sums.detail.low, sums.detail.high
    if low > high:
        return DroppedColumn(*about, "left out: no finite number")
    if sums.detail.infinite:
        note = f"{note}, " * bool(note) + f"{sums.detail.infinite:,} infinite cells limited"
    numbers = np.nan_to_num(numbers, posinf=high, neginf=low)
    if sums.kind == "boolean":
        return NumberColumn(*about, note, 0.5, low, high, distinct == 1, None)
    fill = _median(numbers, weight) if len(numbers) else low
    scaling = ScaledNumbers.of(numbers, weight, scale) if len(numbers) and low < high else None
    if scaling is not None and scaling.knots is not None:
        note = f"{note}, " * bool(note) + "ranks"
    return NumberColumn(*about, note, fill, low, high, low == high, scaling)


def _dates(
    dates: Dates, about: tuple[str, Kind, str, int, int], values: Array, weight: Array, scale: Scale, note: str
) -> DateColumn:
    span = dates.high - dates.low
    cycles = []
    if dates.in_day[0] < dates.in_day[1] and span > DAY:
        cycles.append("hour of day")
    if dates.weekdays.bit_count() > 1 and span > 7 * DAY:
        cycles.append("day of week")
    if span > YEAR:
        cycles.append("day of year")
    fill = round(_median(values, weight)) if len(values) else dates.low
    days = (values - dates.low) / DAY
    scaling = ScaledNumbers.of(days, weight, scale) if len(days) and span else None
    note = ", ".join(filter(None, [note, *cycles]))
    return DateColumn(*about, note, fill, dates.low, not span, tuple(cycles), scaling)


def _categories(
    sums: ColumnSums,
    about: tuple[str, Kind, str, int, int],
    sampled: Array,
    known: int,
    *,
    max_categories: int,
    min_frequency: int,
    n_buckets: int,
) -> EncodedColumn:
    assert isinstance(sums.detail, LabelCounts)
    distinct = about[-1]
    complete = sums.detail.complete
    if distinct >= max(LEAST_DISTINCT, DISTINCT_SHARE * known):
        return DroppedColumn(*about, f"left out: {distinct:,} different strings in {known:,} rows, like an identifier")
    if complete:
        counts = sums.detail.counts
    else:
        # More categories than are counted: the frequent ones among the rows of the sample.
        in_sample = Counter(sampled.tolist())
        counts = {
            name: (round(count * known / max(1, len(sampled))), float(count)) for name, count in in_sample.items()
        }
        min_frequency = max(min_frequency, round(min_frequency * known / max(1, len(sampled))))
    # Sums of weights that are equal up to rounding are ordered by name.
    ordered = sorted(counts, key=lambda name: (-float(f"{counts[name][1]:.10e}"), name))
    frequent = [name for name in ordered if counts[name][0] >= min_frequency]
    chosen = frequent[:max_categories]
    # Categories that are as rare as one another have no order.
    taken = set(chosen)
    others = {name: counts[name][0] for name in sorted(counts) if name not in taken} if complete else {}
    many = len(frequent) > max_categories or not complete
    buckets = n_buckets if many else 0
    if len(chosen) + bool(others) + bool(sums.missing) < 2 and not buckets:
        if len(counts) > 1 and complete:  # all are rare: without indicators nothing would be left
            chosen, others = ordered[:max_categories], {name: counts[name][0] for name in ordered[max_categories:]}
        else:
            return DroppedColumn(*about, "left out: constant")
    note = f"{len(chosen)} indicators"
    if others or buckets:
        rest = distinct - len(chosen)
        note += f", {rest:,} other categories in " + (f"{buckets} columns by hash" if buckets else "one column")
    return CategoryColumn(*about, note, tuple(chosen), others, buckets, complete)


def _median(values: Array, weight: Array) -> float:
    """Return the weighted median, which for weights that are integers is that of repeated values."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order])
    half = 0.5 * below[-1]
    left = int(np.searchsorted(below, half * (1 - 1e-12)))
    right = min(int(np.searchsorted(below, half * (1 + 1e-12), side="right")), len(order) - 1)
    return float(0.5 * values[order[left]] + 0.5 * values[order[right]])
