"""Messages for rows, targets and weights with entries that are not finite, or of unequal lengths.

They are made after a validation has failed, and contain the words of scikit-learn's messages, which its checks of
estimators and programs that catch them look for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError

__all__ = ["explain_lengths", "explain_values", "explain_weights"]


def explain_values(owner: str, X: Any, y: Any = None) -> None:
    """Raise an error that names the first entry of rows that is not finite, or the lengths of rows and targets.

    Nothing is raised if neither is the reason for a failure.

    Parameters
    ----------
    owner : str
        Name of the object that takes the rows.
    X, y : object
        What was passed as rows and as targets.
    """
    if np.iscomplexobj(X):
        return
    try:
        values: Any = X.tocsr() if sp.issparse(X) else np.asarray(X, dtype=np.float64)
    except (TypeError, ValueError):
        return
    if values.ndim != 2:
        return
    entries = values.tocoo() if sp.issparse(values) else None
    bad = np.flatnonzero(~np.isfinite(values if entries is None else entries.data))
    if len(bad):
        if entries is None:
            of_bad, columns = np.divmod(bad, values.shape[1])
            value = values[of_bad[0], columns[0]]
        else:
            of_bad, columns, value = entries.row[bad], entries.col[bad], entries.data[bad[0]]
        names, column = getattr(X, "columns", None), int(columns[0])
        where = f"column {column}" if names is None else f"column {names[column]!r}"
        what, try_this = "infinity or a value too large", "Replace such entries, or drop these rows."
        if np.isnan(value):
            what = "NaN"
            try_this = "Fill in missing numbers, for instance with TablePreprocessor, or drop these rows."
        msg = (
            f"Input X contains {what} in {len(np.unique(of_bad))} of {values.shape[0]} rows, first in row "
            f"{int(of_bad[0])}, {where}. {owner} needs a finite number in every entry. {try_this}"
        )
        raise DataError(msg)
    explain_lengths(owner, values, y)


def explain_lengths(owner: str, X: Any, y: Any) -> None:
    """Raise an error with both numbers if there are not as many targets as rows."""
    if y is None or (np.ndim(y) and len(y) == X.shape[0]):
        return
    entries = f"{len(y)} entries" if np.ndim(y) else "one number"
    msg = (
        f"{owner}: X and y have inconsistent numbers of samples: needed one entry of y per row, got "
        f"{X.shape[0]} rows and {entries}. Are both of the same part of the data?"
    )
    raise DataError(msg)


def explain_weights(owner: str, weight: Any, n: int) -> None:
    """Raise an error that says why weights of n rows are no weights, if the reason is found."""
    try:
        values = np.asarray(weight, dtype=np.float64)
    except (TypeError, ValueError):
        return
    needed = f"{owner}: sample_weight needs one finite number >= 0 per row"
    if values.shape not in ((), (n,)):
        msg = f"{needed}, and so the shape ({n},), got {values.shape}. Pass the weights of these rows, or None."
        raise DataError(msg)
    for bad, what in ((np.isnan(values), "NaN"), (np.isinf(values), "infinity"), (values < 0, "Negative values")):
        if bad.any():
            row = "" if values.ndim == 0 else f", first in row {int(np.argmax(bad))}"
            msg = f"{needed}, got {what} in {int(bad.sum())} of {n} rows{row}. Use 0 for rows that are to be left out."
            raise DataError(msg)
