"""Memory layouts of rows: arrays and CSR matrices that compiled code can read."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["canonical", "native"]


def native(X: Any) -> Any:
    """Return floats in the byte order of the machine; everything else is returned unchanged.

    Validation would convert floats in another byte order to float64, also those of single precision.
    """
    if (isinstance(X, np.ndarray) or sp.issparse(X)) and X.dtype.kind == "f" and not X.dtype.isnative:
        return X.astype(X.dtype.newbyteorder("="))
    return X


def canonical(X: Any) -> Any:
    """Return an array, or a CSR matrix, that is aligned in memory and has no duplicate or unsorted entries.

    Reading a misaligned number is undefined behavior in C++. An array that is aligned, and a CSR matrix in canonical
    format, are returned without a copy. The argument is not changed.
    """
    if not sp.issparse(X):
        return X if X.flags.aligned else X.copy()
    parts = X.data, X.indices, X.indptr
    if not all(part.flags.aligned for part in parts):
        X = type(X)(tuple(part if part.flags.aligned else part.copy() for part in parts), shape=X.shape)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X
