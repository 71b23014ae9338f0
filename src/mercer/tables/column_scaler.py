"""A transformer that brings columns to comparable scales."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import TransformerMixin

from mercer._docs import doc
from mercer.data.results import rowwise
from mercer.data.sources import Reader, source_of
from mercer.data.targets import Ignored, validate_rows
from mercer.maps.base import Estimator
from mercer.parameters import Choice, Domain, Integer
from mercer.statistics import RowSample
from mercer.statistics.sample import seed_of
from mercer.tables.column_functions import (
    ColumnFunction,
    PlainColumns,
    RampColumns,
    RankedColumns,
    principal_components,
)

__all__ = ["ColumnScaler", "Scaling", "scaled_columns"]

Array = np.ndarray
Scaling = Literal["spread", "ranks", "components", "ramps"]
# Number of rows from which spreads, ranks and components are computed, and the number of their entries if dense.
SAMPLE_ROWS = 10_000
SAMPLE_ENTRIES = 20_000_000


@doc
class ColumnScaler(TransformerMixin, Estimator):
    """Scale columns so that their units do not matter.

    Columns are centered at their median and divided by a spread that few large values do not affect. Columns that are
    constant are dropped. Skewed columns can be given as ranks, too, so that a metric can use either.

    Parameters
    ----------
    method : {"spread", "ranks", "components", "ramps"}, default="spread"
        "spread" divides columns by their standard deviation after values beyond the quantiles 0.01 and 0.99 were moved
        to these; the spread of a column that is mostly zero is its largest absolute value. "ranks" appends the ranks of
        columns whose distribution is far from uniform. "components" returns principal components of columns that are
        divided by their range, which suits images. "ramps" replaces a column by piecewise linear functions of it, so
        that a line through them is a sum of functions of single columns; sparse rows become dense.
    n_components : int, default=50
        Largest number of principal components.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sample of 10,000 rows from which the scales are computed, if there are more.

    Attributes
    ----------
    columns_ : ColumnFunction
        The fitted function from rows to scaled columns.
    n_features_in_ : int
        Number of columns of `X`.

    See Also
    --------
    sklearn.preprocessing.RobustScaler : Divides by the range between quartiles.
    sklearn.preprocessing.QuantileTransformer : Ranks of all columns.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import ColumnScaler
    >>> rng = np.random.default_rng(0)
    >>> X = np.column_stack([rng.uniform(size=1000), rng.lognormal(sigma=3, size=1000), np.ones(1000)])
    >>> scaler = ColumnScaler(method="ranks").fit(X)
    >>> scaler.get_feature_names_out().tolist()
    ['x0', 'x1', 'x1 rank']
    >>> bool(np.abs(scaler.transform(X)[:, 2]).max() < 2)
    True
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "method": Choice("spread", "ranks", "components", "ramps"),
        "n_components": Integer(1),
    }
    columns_: ColumnFunction

    def __init__(self, method: Scaling = "spread", *, n_components: int = 50, random_state: Any = None) -> None:
        self.method = method
        self.n_components = n_components
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Compute the scales of columns.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), iterable of blocks, files, or Dask collection
            Rows.
        y : ignored
            Present for compatibility with pipelines.
        sample_weight : array-like of shape (n,), default=None
            Weights >= 0 of the rows; a weight of 2 is equivalent to repeating the row.

        Returns
        -------
        self : object
            The fitted object.
        """
        self._check_domains()
        del y
        reader = Reader(self, Ignored(), width=1)
        engine = source_of(X, None, sample_weight, owner="ColumnScaler").engine(reader)
        first = engine.first().X
        size = SAMPLE_ROWS if sp.issparse(first) else min(SAMPLE_ROWS, max(1000, SAMPLE_ENTRIES // first.shape[1]))
        seed = seed_of(self.random_state, "columns")
        sample = engine.sum(partial(RowSample.of, size=size, seed=seed, by_weight=True, targets=False))
        weight = sample.weight if sample.is_complete else None
        self.columns_ = scaled_columns(self.method, sample.X, weight, n_components=self.n_components)
        return self

    @rowwise
    def transform(self, X: Any) -> Any:
        """Return the scaled columns of rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), files, or Dask collection
            Rows. For a Dask collection the result is a Dask array that is not computed yet.

        Returns
        -------
        ndarray or CSR of shape (n, p)
        """
        return self.columns_(validate_rows(self, X, reset=False))

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the scaled columns: the name of a column, and of its ranks with " rank" appended.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the columns of `X`; None means those of `fit`, or x0, x1, ...

        Returns
        -------
        ndarray of str
        """
        from sklearn.utils.validation import _check_feature_names_in

        names = _check_feature_names_in(self, input_features)
        return np.array(
            [f"{'' if j is None else names[j]} {what}".strip() for j, what in self.columns_.names], dtype=object
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def scaled_columns(method: Scaling, X: Any, weight: Array | None, *, n_components: int = 50) -> ColumnFunction:
    """Return the scaling of columns by the rows of a sample, with weights (n,) or None."""
    if method == "components":
        return principal_components(X.toarray() if sp.issparse(X) else X, weight, n_components)
    if method == "ramps":
        return RampColumns.of(X.toarray() if sp.issparse(X) else X, weight)
    return RankedColumns.of(X, weight) if method == "ranks" else PlainColumns.of(X, weight)
