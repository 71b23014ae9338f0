"""What is summed over the rows of a table to encode its columns: counts, extremes, and samples.

All of it is exact, or a sample by hashes of values or of row numbers, so the sum does not depend on how the rows are
divided into blocks, nor on the order in which blocks are added.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from mercer.engines import Block
from mercer.errors import DataError
from mercer.statistics.sample import exponentials, smallest
from mercer.tables.frames import MISSING_DATE, Column, Frame, Kind

__all__ = ["ColumnSums", "Dates", "DistinctValues", "Extremes", "LabelCounts", "RowValues", "TableSums", "hash_of"]

Array = np.ndarray
# Number of different categories of a column up to which all of them are counted.
MOST_COUNTED = 2**15
# Number of hashes by which different values are counted: exact up to this number, and to about 2 % above it.
MOST_HASHES = 4096
# Number of rows of the sample, for quantiles, and the number of its cells.
SAMPLE_ROWS, SAMPLE_CELLS, LEAST_SAMPLE = 10_000, 4_000_000, 1000
SEED = 0x6D65726365720000
DAY = 86_400_000_000  # microseconds


@dataclass(frozen=True, eq=False)
class DistinctValues:
    """Estimate of the number of different values: those of smallest hash (Bar-Yossef et al. 2002)."""

    hashes: Array  # uint64, ascending, at most MOST_HASHES

    @classmethod
    def of(cls, hashes: Array) -> DistinctValues:
        """Return the estimate for hashes of values, in any order."""
        if len(hashes) > 8 * MOST_HASHES:
            # The smallest ones of a part suffice if enough of them are different.
            few = np.unique(np.partition(hashes, 4 * MOST_HASHES)[: 4 * MOST_HASHES])
            if len(few) >= MOST_HASHES:
                return cls(few[:MOST_HASHES])
        return cls(np.unique(hashes)[:MOST_HASHES])

    def __add__(self, other: DistinctValues) -> DistinctValues:
        return DistinctValues(np.union1d(self.hashes, other.hashes)[:MOST_HASHES])

    @property
    def count(self) -> int:
        """The number of different values, which is exact if it is less than `MOST_HASHES`."""
        if len(self.hashes) < MOST_HASHES:
            return len(self.hashes)
        return round((MOST_HASHES - 1) / ((float(self.hashes[-1]) + 1) / 2.0**64))


@dataclass(frozen=True)
class Extremes:
    """Least and largest finite number, and the number of infinite ones."""

    low: float  # inf if there is none
    high: float
    infinite: int

    @classmethod
    def of(cls, values: Array) -> Extremes:
        """Return the extremes of numbers that are not NaN."""
        finite = values[np.isfinite(values)]
        if not len(finite):
            return cls(np.inf, -np.inf, len(values))
        return cls(float(finite.min()), float(finite.max()), len(values) - len(finite))

    def __add__(self, other: Extremes) -> Extremes:
        return Extremes(min(self.low, other.low), max(self.high, other.high), self.infinite + other.infinite)


@dataclass(frozen=True)
class Dates:
    """Earliest and latest date, and which hours and days of the week there are."""

    low: int  # microseconds
    high: int
    hours: int  # bits
    weekdays: int  # bits
    in_day: tuple[int, int]  # earliest and latest time of day

    @classmethod
    def of(cls, values: Array) -> Dates:
        """Return the sums of dates that are not missing."""
        if not len(values):
            return cls(np.iinfo(np.int64).max, MISSING_DATE, 0, 0, (DAY, -1))
        days, rest = np.divmod(values, DAY)
        hours, weekdays = np.unique(rest // (DAY // 24)), np.unique((days + 3) % 7)
        return cls(
            int(values.min()),
            int(values.max()),
            reduce(lambda bits, hour: bits | 1 << int(hour), hours, 0),
            reduce(lambda bits, day: bits | 1 << int(day), weekdays, 0),
            (int(rest.min()), int(rest.max())),
        )

    def __add__(self, other: Dates) -> Dates:
        in_day = (min(self.in_day[0], other.in_day[0]), max(self.in_day[1], other.in_day[1]))
        return Dates(
            min(self.low, other.low),
            max(self.high, other.high),
            self.hours | other.hours,
            self.weekdays | other.weekdays,
            in_day,
        )


@dataclass(frozen=True, eq=False)
class LabelCounts:
    """Numbers of rows of each category, and the sums of their weights, up to `MOST_COUNTED` categories."""

    counts: dict[str, tuple[int, float]]
    complete: bool  # False if there are more, and none is counted

    @classmethod
    def of(cls, column: Column, weight: Array | None) -> LabelCounts:
        """Return the counts of the categories of a column."""
        known = column.values >= 0
        codes = column.values[known]
        rows = np.bincount(codes, minlength=len(column.categories))
        weights = rows if weight is None else np.bincount(codes, weight[known], minlength=len(column.categories))
        if np.count_nonzero(rows) > MOST_COUNTED:
            return cls({}, False)
        return cls(
            {column.categories[i]: (int(rows[i]), float(weights[i])) for i in np.flatnonzero(rows).tolist()}, True
        )

    def __add__(self, other: LabelCounts) -> LabelCounts:
        if not (self.complete and other.complete):
            return LabelCounts({}, False)
        counts = dict(self.counts)
        for category, (rows, weight) in other.counts.items():
            before = counts.get(category, (0, 0.0))
            counts[category] = (before[0] + rows, before[1] + weight)
        return LabelCounts(counts, True) if len(counts) <= MOST_COUNTED else LabelCounts({}, False)


@dataclass(frozen=True, eq=False)
class ColumnSums:
    """Sums over the cells of a column."""

    name: str
    kind: Kind
    dtype: str
    missing: int
    distinct: DistinctValues
    detail: Extremes | Dates | LabelCounts | None  # None if all cells are missing

    @classmethod
    def of(cls, name: str, column: Column, weight: Array | None) -> ColumnSums:
        """Return the sums over the rows of one block."""
        gone = column.is_missing
        missing = int(gone.sum())
        if missing == len(gone):
            kind: Kind = "missing" if column.kind in ("number", "missing") else column.kind
            detail: Extremes | Dates | LabelCounts | None = None if kind == "missing" else Extremes.of(np.zeros(0))
            if kind in ("date", "category"):
                detail = Dates.of(column.values[:0]) if kind == "date" else LabelCounts({}, True)
            return cls(name, kind, column.dtype, missing, DistinctValues(np.zeros(0, np.uint64)), detail)
        if column.kind == "category":
            used = np.unique(column.values)
            hashes = hashes_of(column.categories[used[used >= 0]])
            return cls(name, column.kind, column.dtype, missing, hashes, LabelCounts.of(column, weight))
        known = column.values if not missing else column.values[~gone]
        distinct = DistinctValues.of(mixed(known))
        if column.kind == "date":
            return cls(name, column.kind, column.dtype, missing, distinct, Dates.of(known))
        return cls(name, column.kind, column.dtype, missing, distinct, Extremes.of(known))

    def __add__(self, other: ColumnSums) -> ColumnSums:
        missing, distinct = self.missing + other.missing, self.distinct + other.distinct
        if self.detail is None or other.detail is None:
            one = other if self.detail is None else self
            return replace(one, missing=missing, distinct=distinct)
        kinds = {self.kind, other.kind}
        if len(kinds) > 1 and kinds != {"number", "boolean"}:
            msg = (
                f"Column {self.name!r} has the kind {self.kind} (type {self.dtype}) in one block of rows and "
                f"{other.kind} (type {other.dtype}) in another. Convert it to one type in all blocks."
            )
            raise DataError(msg)
        kind: Kind = "number" if "number" in kinds else self.kind
        return replace(self, kind=kind, missing=missing, distinct=distinct, detail=self.detail + other.detail)  # type: ignore[operator]


@dataclass(frozen=True, eq=False)
class RowValues:
    """A random sample of rows, which does not depend on the division into blocks, see `mercer.statistics.RowSample`."""

    size: int
    seen: int
    index: Array  # (k,), row numbers, ascending
    key: Array  # (k,)
    values: tuple[Array, ...]  # of each column: numbers, or strings with None
    weight: Array | None

    @classmethod
    def of(cls, block: Block, size: int) -> RowValues:
        """Return the sample of the rows of one block, whose weights are positive."""
        index = block.index.astype(np.uint64)
        key = exponentials(index, SEED)
        if block.weight is not None:
            key = key / block.weight
        keep = smallest(key, size)
        weight = None if block.weight is None else block.weight[keep]
        values = tuple(sampled(column, keep) for column in block.X.columns)
        return cls(size, len(block), index[keep], key[keep], values, weight)

    def __add__(self, other: RowValues) -> RowValues:
        key, index = np.concatenate([self.key, other.key]), np.concatenate([self.index, other.index])
        keep = smallest(key, self.size)
        keep = keep[np.argsort(index[keep], kind="stable")]
        weight = None
        if self.weight is not None or other.weight is not None:
            weight = np.concatenate([np.ones(len(s.key)) if s.weight is None else s.weight for s in (self, other)])[
                keep
            ]
        values = tuple(joined(a, b)[keep] for a, b in zip(self.values, other.values, strict=True))
        return RowValues(self.size, self.seen + other.seen, index[keep], key[keep], values, weight)

    @property
    def weights(self) -> Array:
        """Weights of the rows in sums; a sample of a part of the rows was drawn in proportion to the weights."""
        complete = self.seen <= self.size
        return self.weight if self.weight is not None and complete else np.ones(len(self.key))


@dataclass(frozen=True, eq=False)
class TableSums:
    """Sums over the rows of a table."""

    rows: int
    columns: tuple[ColumnSums, ...]
    sample: RowValues

    @classmethod
    def of(cls, block: Block) -> TableSums:
        """Return the sums over the rows of one block, whose `X` is a `Frame`. Rows of weight zero are left out."""
        frame: Frame = block.X
        weight = block.weight
        if weight is not None and not (weight > 0).all():
            used = weight > 0
            block = Block(block.start, frame[used], None, weight[used], block.index[used])
            frame, weight = block.X, block.weight
        size = int(np.clip(SAMPLE_CELLS // max(1, frame.shape[1]), LEAST_SAMPLE, SAMPLE_ROWS))
        columns = tuple(
            ColumnSums.of(name, column, weight) for name, column in zip(frame.names, frame.columns, strict=True)
        )
        return cls(len(frame), columns, RowValues.of(block, size))

    def __add__(self, other: TableSums) -> TableSums:
        columns = tuple(a + b for a, b in zip(self.columns, other.columns, strict=True))
        return TableSums(self.rows + other.rows, columns, self.sample + other.sample)


def sampled(column: Column, rows: Array) -> Array:
    """Return some cells of a column: numbers with NaN, microseconds as floats with NaN, or strings with None."""
    if column.kind != "category":
        values = column.values[rows].astype(np.float64)
        return np.where(column.values[rows] == MISSING_DATE, np.nan, values) if column.kind == "date" else values
    codes = column.values[rows]
    strings = np.concatenate([column.categories, np.array([None], dtype=object)])
    return strings[np.where(codes < 0, len(strings) - 1, codes)]


def joined(one: Array, other: Array) -> Array:
    """Return sampled cells of two blocks; in one of them all may be missing, so that it has another dtype."""
    if one.dtype == other.dtype:
        return np.concatenate([one, other])
    return np.concatenate([np.full(len(a), None, dtype=object) if a.dtype != object else a for a in (one, other)])


def mixed(values: Array) -> Array:
    """Return hashes of 64 bits of numbers, equal for equal numbers."""
    z = (values + 0.0 if values.dtype.kind == "f" else values).view(np.uint64)  # -0.0 is 0.0
    with np.errstate(over="ignore"):
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def hash_of(category: str) -> int:
    """Return a hash of 64 bits of a string, the same in every process and on every machine."""
    return int.from_bytes(hashlib.blake2b(category.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def hashes_of(categories: Array) -> DistinctValues:
    """Return the estimate of the number of different values, for strings that are different."""
    return DistinctValues.of(np.fromiter(map(hash_of, categories), np.uint64, len(categories)))


def kind_name(value: Any) -> str:
    """Return the name of a kind in the plural, for messages."""
    names = {"number": "numbers", "boolean": "booleans", "date": "dates", "category": "categories"}
    return names.get(value, "missing values only")
