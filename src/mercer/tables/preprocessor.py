"""A transformer that turns tables with columns of any type into numbers."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self
from warnings import warn

import numpy as np
import scipy.sparse as sp
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer._docs import doc
from mercer.data.sources import Reader, is_dask, source_of
from mercer.errors import DataError, MercerWarning
from mercer.io.formats.columns import listed
from mercer.io.source import Part, RowSource
from mercer.io.tables.source import TableSource
from mercer.maps.base import Estimator
from mercer.parameters import Choice, Domain, Integer
from mercer.tables.encoders import EncodedColumn, Scale, encoded_column
from mercer.tables.frames import Column, Frame, frame_of
from mercer.tables.reading import BLOCK_ROWS, Tables
from mercer.tables.sums import TableSums, kind_name

__all__ = ["ColumnSummary", "TablePreprocessor", "UnseenCategories"]

Array = np.ndarray
# Number of names in a message, and of new categories of a column that are remembered.
MOST_NAMES, MOST_UNSEEN = 5, 1000


@dataclass(frozen=True)
class ColumnSummary:
    """What a `TablePreprocessor` did with a column."""

    name: str
    kind: str  # "number", "boolean", "date", "category" or "missing"
    missing: int  # number of missing cells in the fit
    distinct: int  # number of different values, an estimate above 4000
    outputs: tuple[str, ...]  # names of the columns of numbers; empty if the column was left out
    note: str


@dataclass
class UnseenCategories:
    """Categories in the rows of the latest `transform` that the fit did not see, with their numbers of rows."""

    counts: dict[str, dict[str, int]] = field(default_factory=dict)

    @property
    def rows(self) -> dict[str, int]:
        """Number of cells with such a category, by the name of the column."""
        return {name: sum(found.values()) for name, found in self.counts.items()}

    def set(self, found: Mapping[str, Counter[str]]) -> None:
        """Replace the counts, and warn if there are any."""
        self.counts = {name: dict(counts.most_common(MOST_UNSEEN)) for name, counts in found.items() if counts}
        if not self.counts:
            return
        parts = []
        for name, counts in list(self.counts.items())[:MOST_NAMES]:
            examples = ", ".join(repr(one) for one in list(counts)[:3])
            more = ", ..." if len(counts) > 3 else ""
            parts.append(f"{name!r} in {sum(counts.values()):,} rows ({examples}{more})")
        rest = len(self.counts) - len(parts)
        msg = (
            f"There are categories that the fit did not see: {'; '.join(parts)}"
            f"{f'; and {rest} more columns' * bool(rest)}. They are encoded as a category of their own."
        )
        warn(msg, MercerWarning, stacklevel=4)


@doc
class TablePreprocessor(TransformerMixin, Estimator):
    """Turn tables with numbers, categories, dates, booleans and missing cells into numbers.

    Each column becomes one or several columns of numbers, or none:

    - A number is scaled, and minus infinity and infinity become the least and largest number of the fit. A missing
      number becomes the median, and an indicator column says where numbers are missing.
    - A boolean becomes 0 or 1, and a missing one 0.5 with an indicator.
    - A category becomes an indicator, if it is frequent. The other ones share one column, or several columns by a hash
      if there are many. Missing cells are a category of their own, and so are categories that the fit did not see.
    - A date becomes a number of days, and cycles as sine and cosine: the hour of the day, the day of the week and the
      day of the year, as far as they vary and the dates span more than one cycle.
    - A column that is constant or has no values is left out, and so is a column of strings nearly all of which are
      different, like identifiers.

    The columns are remembered: `transform` finds them by name, in any order, and ignores further ones. A column that is
    missing or has another kind is an error.

    Parameters
    ----------
    scale : {"quantiles", "spread"} or None, default="quantiles"
        Scaling of numbers and dates. "spread" subtracts the median and divides by the standard deviation after values
        beyond the quantiles 0.01 and 0.99 were moved to these. "quantiles" does so, too, but replaces the values of
        skewed columns and of those with heavy tails by their ranks. None leaves numbers as they are, for learners that
        scale columns themselves, such as `KernelRegressor`.
    max_categories : int, default=32
        Largest number of categories of a column that get an indicator: the most frequent ones.
    min_frequency : int, default=5
        Number of rows that a category needs for an indicator.
    n_buckets : int, default=8
        Number of columns by hash for the other categories, if more than `max_categories` have `min_frequency` rows.
    sparse_output : bool, default=False
        Whether `transform` returns a CSR matrix.

    Attributes
    ----------
    schema_ : dict
        Kind of each column by its name: "number", "boolean", "date", "category", or "missing" for a column without
        values.
    columns_ : tuple of ColumnSummary
        What was done with each column: `name`, `kind`, `missing`, `distinct`, `outputs` and `note`.
    unseen_ : UnseenCategories
        Categories in the latest `transform` that the fit did not see: ``unseen_.rows`` counts them for each column. The
        latest `transform` also warned about them.
    n_rows_ : int
        Number of rows of the fit.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, if they have names.

    See Also
    --------
    mercer.io.open_table : Opens tables in files.
    ColumnScaler : Scales columns of numbers.

    Notes
    -----
    `fit` needs one pass over the rows. What it sums over them is exact, or a sample by hashes, so the result is the
    same for a table in memory, in blocks, in files and on Dask.

    Examples
    --------
    >>> import pandas as pd
    >>> from mercer import TablePreprocessor
    >>> table = pd.DataFrame({
    ...     "size": [50.0, None, 120.0, 80.0] * 5,
    ...     "heating": ["gas", "oil", None, "gas"] * 5,
    ...     "built": pd.to_datetime(["1990-01-01", "2001-06-30", "2010-10-10", "1990-02-01"] * 5),
    ...     "country": "France",
    ... })
    >>> preprocessor = TablePreprocessor(scale=None).fit(table)
    >>> print(preprocessor.summary())
    column   kind      missing  distinct  outputs
    size     number          5         3  size, size (missing); missing cells filled
    heating  category        5         2  heating=gas, heating=oil, heating (missing); 2 indicators
    built    date            0         4  built, built (day of week, sin), ...; day of week, day of year
    country  category        0         1  left out: constant
    >>> preprocessor.transform(table[["built", "heating", "size"]]).shape
    (20, 10)
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "scale": Choice("quantiles", "spread", None),
        "max_categories": Integer(1),
        "min_frequency": Integer(1),
        "n_buckets": Integer(1),
        "sparse_output": Choice(True, False),
    }
    schema_: dict[str, str]
    columns_: tuple[ColumnSummary, ...]
    unseen_: UnseenCategories
    n_rows_: int
    n_features_in_: int
    encoders_: tuple[EncodedColumn, ...]

    def __init__(
        self,
        *,
        scale: Scale = "quantiles",
        max_categories: int = 32,
        min_frequency: int = 5,
        n_buckets: int = 8,
        sparse_output: bool = False,
    ) -> None:
        self.scale = scale
        self.max_categories = max_categories
        self.min_frequency = min_frequency
        self.n_buckets = n_buckets
        self.sparse_output = sparse_output

    # ---- fitting ------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn what becomes of each column.

        Parameters
        ----------
        X : data frame, array-like, TableSource, RowSource, iterable of blocks, or Dask data frame
            Table: a data frame of pandas or polars, a pyarrow Table, an array, the result of `open_table` or
            `open_rows`, or an iterable of blocks of these.
        y : ignored
            Targets do not matter. For a Dask data frame, the name of their column, which is not a feature.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0 of the rows, by which categories are ordered and medians are computed; rows of weight zero are
            ignored.

        Returns
        -------
        self : object
            The fitted object.
        """
        self._check_domains()
        owner = type(self).__name__
        for name in [name for name in vars(self) if name.endswith("_")]:
            delattr(self, name)
        reader = Reader(self, Tables(), width=1, block_size=BLOCK_ROWS, n_jobs=1)
        targets = y if is_dask(X) and isinstance(y, str) else None
        sums = source_of(X, targets, sample_weight, owner=owner, tables=True).engine(reader).sum(TableSums.of)
        if not sums.rows:
            msg = f"{owner}: all sample weights are zero, so there are no rows to learn from."
            raise DataError(msg)
        assert isinstance(reader.coding, Tables)
        # Blocks of files of numbers are arrays, and the names are those of the file.
        of_file = getattr(self, "feature_names_in_", None)
        columns = sums.columns
        if of_file is not None:
            columns = tuple(replace(one, name=str(name)) for one, name in zip(columns, of_file, strict=True))
        self.encoders_ = tuple(
            encoded_column(
                column, sums.sample, values, sums.rows,
                scale=self.scale, max_categories=self.max_categories,
                min_frequency=self.min_frequency, n_buckets=self.n_buckets,
            )
            for column, values in zip(columns, sums.sample.values, strict=True)
        )  # fmt: skip
        self.schema_ = {one.name: one.kind for one in self.encoders_}
        self.n_features_in_ = len(self.encoders_)
        if reader.coding.named or of_file is not None:
            self.feature_names_in_ = np.array([one.name for one in self.encoders_], dtype=object)
        self.n_rows_ = sums.rows
        self.columns_ = tuple(
            ColumnSummary(one.name, one.kind, one.missing, one.distinct, one.outputs, one.note)
            for one in self.encoders_
        )
        self.unseen_ = UnseenCategories()
        self._warn_about_identifiers()
        return self

    def _warn_about_identifiers(self) -> None:
        found = [one for one in self.columns_ if one.note.endswith("like an identifier")]
        if found:
            names = listed([one.name for one in found], MOST_NAMES)
            one = found[0]
            msg = (
                f"{type(self).__name__}: left out {'column' if len(found) == 1 else 'columns'} {names}, because nearly "
                f"all strings are different: {one.name!r} has {one.distinct:,} different ones in "
                f"{self.n_rows_ - one.missing:,} rows. If such a column has a meaning, turn it into numbers or "
                "categories first; otherwise omit it."
            )
            warn(msg, MercerWarning, stacklevel=3)

    # ---- results ------------------------------------------------------------------------------------

    def transform(self, X: Any) -> Any:
        """Return the columns of numbers of a table.

        Parameters
        ----------
        X : data frame, array-like, TableSource, RowSource, or Dask data frame
            Table with the columns of the fit, in any order; further columns are ignored. Columns of arrays have no
            names, and must be those of the fit.

        Returns
        -------
        ndarray or CSR of shape (n, p)
            In float64. For a Dask data frame, a Dask array that is not computed yet; categories that the fit did not
            see are then not reported.
        """
        check_is_fitted(self)
        if is_dask(X):
            return source_of(X, owner=type(self).__name__, tables=True).row_results(self, "transform", _transformed)
        if isinstance(X, RowSource):
            blocks = [block[0] for block in self.rows(X)]
            return sp.vstack(blocks, format="csr") if self.sparse_output else np.concatenate(blocks)
        frame = self._frame(X)
        out, found = self._encoded(frame)
        self.unseen_.set(found)
        return out

    def rows(self, source: Any) -> RowSource:
        """Return the rows of a source as numbers, for any learner: ``KernelRidge().fit(preprocessor.rows(source))``.

        Parameters
        ----------
        source : TableSource, RowSource, or a table in memory
            The result of `open_table` or `open_rows`, or what `open_table` accepts.

        Returns
        -------
        RowSource
            Blocks ``(X,)``, ``(X, y)`` or ``(X, y, weight)`` of numbers, which are computed each time they are read.
        """
        check_is_fitted(self)
        if not isinstance(source, RowSource):
            from mercer.io.tables import open_table

            source = open_table(source)
        if isinstance(source, TableSource):
            # The cells of a CSV file that look like numbers may be categories.
            source = source.as_strings([one.name for one in self.encoders_ if one.kind == "category"])
        found: dict[int, dict[str, Counter[str]]] = {}
        parts = source.parts()
        encoded = [EncodedPart(part, self, i, len(parts), source.feature_names, found) for i, part in enumerate(parts)]
        names = tuple(self.get_feature_names_out())
        return RowSource(encoded, n_features=len(names), feature_names=names)

    def summary(self) -> str:
        """Return a table of the columns as text: kind, missing cells, different values, and what became of them.

        Returns
        -------
        str
        """
        check_is_fitted(self)
        lines = [("column", "kind", "missing", "distinct", "outputs")]
        for one in self.columns_:
            outputs = ", ".join(one.outputs[:3]) if len(one.outputs) <= 3 else f"{', '.join(one.outputs[:2])}, ..."
            what = "; ".join(filter(None, [outputs, one.note]))
            lines.append((one.name, one.kind, f"{one.missing:,}", f"{one.distinct:,}", what))
        widths = [max(len(line[i]) for line in lines) for i in range(4)]
        return "\n".join(
            f"{line[0]:<{widths[0]}}  {line[1]:<{widths[1]}}  {line[2]:>{widths[2]}}  {line[3]:>{widths[3]}}  {line[4]}"
            for line in lines
        )

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the columns of numbers.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns, which must be those of the fit; None means these.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        if input_features is not None:
            given = [str(name) for name in input_features]
            fitted = getattr(self, "feature_names_in_", None)
            if len(given) != self.n_features_in_:
                msg = (
                    f"input_features should have length equal to number of features ({self.n_features_in_}), got "
                    f"{len(given)}"
                )
                raise ValueError(msg)
            if fitted is not None and given != list(fitted):
                msg = "input_features is not equal to feature_names_in_"
                raise ValueError(msg)
        else:
            given = [one.name for one in self.encoders_]
        names = [
            other + name[len(one.name) :]
            for one, other in zip(self.encoders_, given, strict=True)
            for name in one.outputs
        ]
        taken: set[str] = set()
        for i in range(len(names)):  # a column may be named like an output of another one
            while names[i] in taken:
                names[i] += "'"
            taken.add(names[i])
        return np.array(names, dtype=object)

    @property
    def output_columns_(self) -> Array:
        """Index of the column that each column of numbers comes from."""
        return np.repeat(np.arange(len(self.encoders_)), [len(one.outputs) for one in self.encoders_])

    @property
    def _n_features_out(self) -> int:
        return sum(len(one.outputs) for one in self.encoders_)

    # ---- reading ------------------------------------------------------------------------------------

    def _frame(self, X: Any, names: Sequence[str] | None = None) -> Frame:
        """Return a table as a frame; `names` are those of the columns of an array of a file."""
        owner = type(self).__name__
        frame, named = frame_of(X, owner)
        if names is not None:
            return Frame(tuple(names), frame.columns, len(frame))
        if not named and frame.shape[1] != self.n_features_in_ and not hasattr(X, "columns"):
            msg = f"X has {frame.shape[1]} features, but {owner} is expecting {self.n_features_in_} features as input."
            raise DataError(msg)
        if not named and not hasattr(X, "columns"):
            # Warns if the fit had names.
            validate_data(self, X, reset=False, skip_check_array=True)
            frame = Frame(tuple(self.schema_), frame.columns, len(frame))
        if not len(frame):
            msg = f"{owner}: Found array with 0 sample(s) (shape={frame.shape}) while a minimum of 1 is required."
            raise DataError(msg)
        return frame

    def _encoded(self, frame: Frame) -> tuple[Any, dict[str, Counter[str]]]:
        """Return the columns of numbers of a frame, and its categories that are new."""
        columns = self._columns(frame)
        out = np.zeros((len(frame), self._n_features_out))
        found, at = {}, 0
        for one, column in zip(self.encoders_, columns, strict=True):
            width = len(one.outputs)
            if width and column is not None:
                new = one.encode(column, out[:, at : at + width])
                if new:
                    found[one.name] = new
            at += width
        return sp.csr_matrix(out) if self.sparse_output else out, found

    def _columns(self, frame: Frame) -> list[Column | None]:
        """Return the columns of a frame in the order of the fit; raise if one is missing or of another kind."""
        owner = type(self).__name__
        index = {name: i for i, name in enumerate(frame.names)}
        missing = [one.name for one in self.encoders_ if one.outputs and one.name not in index]
        if missing:
            near = difflib.get_close_matches(missing[0], index, 1, 0.6) if len(index) < 5000 else []
            hint = f" Did you rename {missing[0]!r} to {near[0]!r}?" if near else ""
            msg = (
                f"{owner}: the table lacks {'the column' if len(missing) == 1 else 'columns'} {listed(missing)}, which "
                f"the fit had; its columns are {listed(frame.names)}.{hint} Columns may be in any order, but must have "
                "the names of the fit."
            )
            raise DataError(msg)
        columns = [frame.columns[index[one.name]] if one.name in index else None for one in self.encoders_]
        wrong = [
            _other_kind(one, column)
            for one, column in zip(self.encoders_, columns, strict=True)
            if column is not None and one.outputs and not _fits(one, column)
        ]
        if wrong:
            rest = f" There are {len(wrong) - MOST_NAMES} more such columns." if len(wrong) > MOST_NAMES else ""
            msg = f"{owner}: {' '.join(wrong[:MOST_NAMES])}{rest}"
            raise DataError(msg)
        return columns

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _fits(one: EncodedColumn, column: Column) -> bool:
    """Return whether a column may have the kind of the fit."""
    if column.kind in ("missing", one.kind):
        return True
    if one.kind == "number":
        return column.kind == "boolean"
    if column.is_missing.all():
        return True
    zero_or_one = np.isin(column.values, (0.0, 1.0)) | column.is_missing
    return one.kind == "boolean" and column.kind == "number" and bool(zero_or_one.all())


def _other_kind(one: EncodedColumn, column: Column) -> str:
    """Return a sentence that says that a column has another kind than in the fit, and what to do."""
    name = repr(one.name)
    lines = {
        "number": f"X[{name}] = pandas.to_numeric(X[{name}], errors='coerce')",
        "boolean": f"X[{name}] = X[{name}].map({{'yes': True, 'no': False}})",
        "date": f"X[{name}] = pandas.to_datetime(X[{name}])",
        "category": f"X[{name}] = X[{name}].astype(str)",
    }
    example = ""
    if column.kind == "category" and len(column.categories):
        example = f", such as {str(column.categories[0])[:40]!r}"
    return (
        f"Column {name} must have {kind_name(one.kind)} as in the fit (type {one.dtype}), got "
        f"{kind_name(column.kind)} (type {column.dtype}{example}). Convert it: {lines[one.kind]}."
    )


def _transformed(preprocessor: TablePreprocessor, X: Any) -> Any:
    """Return the columns of numbers of a partition; new categories are not reported, since it may be anywhere."""
    return preprocessor._encoded(preprocessor._frame(X))[0]


@dataclass(frozen=True, eq=False)
class EncodedPart(Part):
    """A part of a source whose tables are encoded as numbers."""

    part: Part
    preprocessor: TablePreprocessor
    number: int
    of: int  # number of parts
    names: tuple[str, ...] | None  # of columns of blocks that are arrays
    found: dict[int, dict[str, Counter[str]]]  # new categories of each part

    @property
    def what(self) -> str:  # type: ignore[override]
        return self.part.what

    @property
    def n_rows(self) -> int | None:  # type: ignore[override]
        return self.part.n_rows

    @property
    def files(self) -> tuple[str, ...]:
        return self.part.files

    def __str__(self) -> str:
        return str(self.part)

    def _blocks(self) -> Iterator[tuple[Any, ...]]:
        new: dict[str, Counter[str]] = {}
        for X, *rest in self.part:
            names = self.names if isinstance(X, np.ndarray) else None
            out, found = self.preprocessor._encoded(self.preprocessor._frame(X, names))
            for name, counts in found.items():
                new.setdefault(name, Counter()).update(counts)
            yield out, *rest
        self.found[self.number] = new
        if self.number == self.of - 1:  # one warning for each pass
            total: dict[str, Counter[str]] = {}
            for part in self.found.values():
                for name, counts in part.items():
                    total.setdefault(name, Counter()).update(counts)
            self.found.clear()
            self.preprocessor.unseen_.set(total)
