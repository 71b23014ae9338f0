"""How much each column matters: by shuffling it over test rows, and in the learned metric."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from mercer.diagnostics.fits.results import ColumnImportance
from mercer.diagnostics.fits.scores import row_losses
from mercer.diagnostics.fits.tables import column_names, row_count, shuffled_column, take_rows
from mercer.errors import DataError
from mercer.parameters import Choice, Integer, Interval, check_parameter

__all__ = ["metric_shares", "permutation_importances"]

Array = np.ndarray
# Numbers of test rows for permutations: as many as fit into the time, between these.
LEAST_ROWS, MOST_ROWS = 200, 5000
# Share of the time that is planned for, because the speed varies.
SAFETY = 0.7


def permutation_importances(
    model: Any,
    X: Any,
    y: Any,
    *,
    columns: Sequence[str] | None = None,
    score: Literal["R2", "accuracy"] = "R2",
    n_repeats: int = 3,
    time_limit: float | None = None,
    random_state: int = 0,
) -> tuple[ColumnImportance, ...]:
    """Return how much worse the predictions are if the values of one column are exchanged between rows.

    The columns are those of the table that the model takes: a column of categories or dates is shuffled as one. Of
    columns that contain the same information, each can be shuffled at little cost, because the model has the other.

    Parameters
    ----------
    model : estimator
        A fitted model with `predict`.
    X : array, CSR matrix, or data frame of pandas, polars or pyarrow, of n rows
        Test rows.
    y : array-like of shape (n,)
        Their targets or labels.
    columns : sequence of str, default=None
        Names of the columns; None means those of the table.
    score : {"R2", "accuracy"}, default="R2"
        The score of which the decrease is returned.
    n_repeats : int, default=3
        Number of permutations per column, or less if there is no time for more.
    time_limit : float or None, default=None
        Number of seconds. If all rows would take longer, a random sample of at least 200 of them is predicted; columns
        with the largest share of the learned metric are first, and those for which there is no time get None. None
        means all rows, at most 5000.
    random_state : int, default=0
        Seed of the permutations and of the sample.

    Returns
    -------
    tuple of ColumnImportance
        One per column, in the order of the table, with the decrease of the score and its standard error over rows. The
        standard error is up to twice too large for columns that decide most of the prediction, because each row is
        counted as if it were the only one that a permutation moves.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge
    >>> X = np.random.default_rng(0).normal(size=(400, 2))
    >>> model = KernelRidge(random_state=0).fit(X[:200], X[:200, 0])
    >>> used, unused = permutation_importances(model, X[200:], X[200:, 0])
    >>> bool(used.permutation > 1.5), bool(abs(unused.permutation) < 0.1)
    (True, True)
    """
    check_parameter("permutation_importances", "score", score, Choice("R2", "accuracy"))
    check_parameter("permutation_importances", "n_repeats", n_repeats, Integer(1))
    check_parameter("permutation_importances", "time_limit", time_limit, Choice(None) | Interval(0, closed="neither"))
    names, y = list(column_names(X) if columns is None else columns), np.asarray(y)
    if len(names) != X.shape[1] or len(y) != row_count(X):
        msg = (
            f"permutation_importances: {len(names)} names and {len(y)} targets were given for {row_count(X)} rows of "
            f"{X.shape[1]} columns. Pass one name per column and one target per row."
        )
        raise DataError(msg)
    start, rng = time.perf_counter(), np.random.default_rng(random_state)
    shares = metric_shares(model, names)
    X, y = _sample(model, X, y, len(names) * n_repeats, time_limit, rng)
    n = len(y)
    before = row_losses(score, y, model.predict(X))
    # R2 is one minus a quotient of means over rows; the accuracy is a mean.
    units = np.ones(n) if score == "accuracy" else np.square(y.astype(np.float64) - np.mean(y.astype(np.float64)))
    unit = float(units.mean())
    order = range(len(names)) if shares is None else np.argsort(-shares, kind="stable").tolist()
    worse, repeats = np.zeros((len(names), n)), np.zeros(len(names), dtype=int)
    # All columns are shuffled once before one is shuffled again, in case the time is not enough.
    for repeat, j in ((repeat, j) for repeat in range(n_repeats) for j in order):
        if repeats.any() and time_limit is not None and time.perf_counter() - start > time_limit:
            break
        # Each permutation has its own stream, so that it does not depend on what was measured before it.
        shuffled = shuffled_column(X, j, np.random.default_rng([random_state, j, repeat]).permutation(n))
        worse[j] += row_losses(score, y, model.predict(shuffled)) - before
        repeats[j] += 1
    found: dict[int, tuple[float, float]] = {}
    for j in np.flatnonzero(repeats).tolist() if unit > 0 else ():
        rows = worse[j] / repeats[j]
        value = float(rows.mean() / unit)
        around = rows - value * units
        found[j] = value, float(around.std(ddof=1) if n > 1 else 0.0) / (unit * n**0.5)
    return tuple(
        ColumnImportance(name, None if shares is None else float(shares[j]), *found.get(j, (None, None)))
        for j, name in enumerate(names)
    )


def _sample(
    model: Any, X: Any, y: Array, n_predictions: int, time_limit: float | None, rng: np.random.Generator
) -> tuple[Any, Array]:
    """Return as many random rows as can be predicted so often within the time."""
    n, most = len(y), min(len(y), MOST_ROWS)
    if time_limit is not None and n > LEAST_ROWS:
        some = take_rows(X, rng.permutation(n)[: min(n, 1000)])
        model.predict(some)  # the first call may be slower
        start = time.perf_counter()
        model.predict(some)
        per_row = (time.perf_counter() - start) / row_count(some)
        most = int(min(most, max(LEAST_ROWS, SAFETY * time_limit / (per_row * n_predictions))))
    if most == n:
        return X, y
    rows = np.sort(rng.permutation(n)[:most])
    return take_rows(X, rows), y[rows]


def metric_shares(model: Any, columns: Sequence[str]) -> Array | None:
    """Return the share of each column of the table in squared distances of the learned metric, or None.

    Parameters
    ----------
    model : estimator
        A fitted model, of which `importances_` has one value per column that it was fitted to.
    columns : sequence of str
        Names of the columns of the table. Where the model has names, they are in any order.

    Returns
    -------
    ndarray of shape (len(columns),) or None
        None if no metric was learned, or if the columns are others.
    """
    values = getattr(model, "importances_", None)
    if values is None:
        return None
    values = np.asarray(values, dtype=np.float64)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return values if len(values) == len(columns) else None
    of_name = dict(zip((str(name) for name in names), values.tolist(), strict=False))
    if len(of_name) != len(values) or not set(of_name) & set(columns):
        return values if len(values) == len(columns) else None
    return np.array([of_name.get(name, 0.0) for name in columns])  # a column that the model does not have is not used
