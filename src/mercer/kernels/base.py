"""The contract of a kernel: exact values, a diagonal, an algebra and parameters.

A kernel is a frozen dataclass: it has a value, is hashable, and never changes. A concrete kernel
adds two formulas, `_values` and `_diagonal`; blocks, dtypes, sparse rows, symmetry, operators and
scikit-learn's parameter protocol come from here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError, ParameterError

if TYPE_CHECKING:
    from mercer.kernels.algebra import Composed
    from mercer.kernels.power_series import SeriesPart
    from mercer.kernels.spectral import SpectralPart

__all__ = ["Kernel", "as_rows", "check_positive"]

# Rows of one side of a tile of exact values: temporaries stay near 2048**2 * 8 bytes = 32 MiB.
TILE = 2048

Rows = Any  # a 2-d array of floats, or a CSR matrix or array


@dataclass(frozen=True)
class Kernel(ABC):
    """A positive definite function of two rows.

    Kernels add, multiply and scale: ``k1 + k2``, ``k1 * k2``, ``2.0 * k``, ``1 + k``; a dot-product
    kernel composes with any kernel as ``f @ k``, which is f(k(x, y)).
    """

    # NumPy must not spread an operator over the entries of an array: an array times a kernel is a mistake.
    __array_ufunc__ = None

    #: One phrase for error messages: what a map can know about such a kernel.
    structure: ClassVar[str] = "a kernel known by its values only"

    # ---- formulas that a concrete kernel adds -------------------------------------------------

    @abstractmethod
    def _values(self, X: Any, Y: Any) -> np.ndarray:
        """Return k(x, y) for all rows of two small float64 tiles."""

    @abstractmethod
    def _diagonal(self, X: Any) -> np.ndarray:
        """Return k(x, x) for all rows of a small float64 tile."""

    # ---- exact values -------------------------------------------------------------------------

    def __call__(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        """Exact kernel values of all pairs of rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.
        Y : array-like or CSR of shape (m, d), default=None
            Other rows; None means `X`, and then the result is exactly symmetric.

        Returns
        -------
        ndarray of shape (n, m)
            float32 if all rows are float32, else float64. Formulas are evaluated in float64.
        """
        self._check_resolved()
        X = as_rows(self, X)
        other = X if Y is None else as_rows(self, Y)
        if X.shape[1] != other.shape[1]:
            msg = f"{self!r}: X and Y must have equal width, got {X.shape[1]} and {other.shape[1]} columns."
            raise DataError(msg)
        out = np.empty((X.shape[0], other.shape[0]), np.result_type(X.dtype, other.dtype))
        stay_sparse = self.takes_sparse and sp.issparse(X) and sp.issparse(other)
        tile, side = (sparse64, TILE) if stay_sparse else (dense64, tile_side(X.shape[1]))
        for rows in tiles(X.shape[0], side):
            left = tile(X[rows])
            for columns in tiles(other.shape[0], side):
                if Y is None and columns.start < rows.start:
                    out[rows, columns] = out[columns, rows].T
                else:
                    store(self, self._values(left, tile(other[columns])), out[rows, columns])
                if Y is None and columns.start == rows.start:
                    upper = np.triu(out[rows, columns], 1)  # matrix products may round the two halves differently
                    out[rows, columns] = upper + upper.T
        if Y is None:
            np.fill_diagonal(out, self.diag(X))
        return out

    def diag(self, X: Rows) -> np.ndarray:
        """Exact values k(x, x) of all rows, in the dtype of the rows."""
        self._check_resolved()
        X = as_rows(self, X)
        out = np.empty(X.shape[0], X.dtype)
        stay_sparse = self.takes_sparse and sp.issparse(X)
        tile, side = (sparse64, TILE) if stay_sparse else (dense64, tile_side(X.shape[1]))
        for rows in tiles(X.shape[0], side):
            store(self, self._diagonal(tile(X[rows])), out[rows])
        return out

    # ---- structure ----------------------------------------------------------------------------

    @property
    def takes_sparse(self) -> bool:
        """Whether the formulas can work on CSR tiles, at the cost of their entries that are not zero.

        A combination can if all its parts can; a kernel without parts says so itself.
        """
        parts = self._children().values()
        return bool(parts) and all(part.takes_sparse for part in parts)

    @property
    def positive_only(self) -> bool:
        """Whether rows must be >= 0, as for kernels of histograms; a combination takes what all its parts take."""
        return any(part.positive_only for part in self._children().values())

    def summands(self) -> tuple[tuple[float, Kernel | None], ...]:
        """Return the kernel as a sum of weights times kernels that are no sums; None stands for a constant one."""
        return ((1.0, self),)

    def spectral_parts(self) -> tuple[SpectralPart, ...] | None:
        """Return the spectral measure in normal form, or None if the kernel is not shift-invariant."""
        return None

    def series_parts(self) -> tuple[SeriesPart, ...] | None:
        """Return the Maclaurin series in normal form, or None if the kernel has none."""
        return None

    def resolve(self, X: Rows, weight: np.ndarray | None = None) -> Kernel:
        """Return the kernel with every data-dependent parameter replaced by its value on these rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.
        weight : ndarray of shape (n,), default=None
            Weights of the rows; a weight of two equals the row repeated.

        Returns
        -------
        Kernel
        """
        changes = {name: part.resolve(X, weight) for name, part in self._children().items()}
        return replace(self, **changes) if changes else self

    @property
    def needs_rows(self) -> bool:
        """Whether some parameter, such as ``lengthscale="median"``, still waits for rows."""
        return any(part.needs_rows for part in self._children().values())

    def _children(self) -> dict[str, Kernel]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Kernel)}

    def _check_resolved(self) -> None:
        if self.needs_rows:
            msg = (
                f"{self!r} has no values yet: its lengthscale waits for rows. "
                "Call kernel.resolve(X), fit a map, or give the lengthscale as a number."
            )
            raise ParameterError(msg)

    # ---- algebra ------------------------------------------------------------------------------
    # The combinations live in compose.py, which needs this class first: hence the local imports.

    def __add__(self, other: object) -> Kernel:
        from mercer.kernels.algebra import Constant, Sum

        if isinstance(other, Real):
            return Sum(self, Constant(float(other)))
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: object) -> Kernel:
        from mercer.kernels.algebra import Constant, Sum

        return Sum(Constant(float(other)), self) if isinstance(other, Real) else NotImplemented

    def __mul__(self, other: object) -> Kernel:
        from mercer.kernels.algebra import Product, Scaled

        if isinstance(other, Real):
            return Scaled(self, float(other))
        return Product(self, other) if isinstance(other, Kernel) else NotImplemented

    __rmul__ = __mul__

    def __matmul__(self, inner: object) -> Composed:
        if not isinstance(inner, Kernel):
            return NotImplemented
        msg = (
            f"{self!r} @ {inner!r}: the left side of @ must be a dot-product kernel, k(x, y) = f(x . y), "
            f"whose f is applied to the right side; got {self.structure}. "
            "Try ExponentialDotProduct() or Polynomial(degree) on the left, or * for a product."
        )
        raise ParameterError(msg)

    # ---- parameters, in scikit-learn's protocol -----------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; with `deep`, also those of inner kernels as ``name__inner``."""
        params = {field.name: getattr(self, field.name) for field in fields(self)}
        if deep:
            for name, part in self._children().items():
                params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    def with_params(self, **params: Any) -> Self:
        """Return a copy with some parameters replaced; ``inner__name`` reaches into inner kernels."""
        changes: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        names = [field.name for field in fields(self)]
        for key, value in params.items():
            name, _, inner = key.partition("__")
            if name not in names:
                msg = f"{type(self).__name__} has no parameter {name!r}. It has: {', '.join(names)}."
                raise ParameterError(msg)
            if inner:
                nested.setdefault(name, {})[inner] = value
            else:
                changes[name] = value
        for name, inner_params in nested.items():
            part = changes.get(name, getattr(self, name))
            if not isinstance(part, Kernel):
                msg = f"{type(self).__name__}: {name} = {part!r} is not a kernel and has no parameters of its own."
                raise ParameterError(msg)
            changes[name] = part.with_params(**inner_params)
        return replace(self, **changes)

    def __sklearn_clone__(self) -> Self:
        return self  # frozen: a copy would be equal in every respect


def check_positive(kernel: Kernel, *names: str) -> None:
    """Raise unless each named parameter is a finite number above zero."""
    for name in names:
        value = getattr(kernel, name)
        number = isinstance(value, Real) and not isinstance(value, bool)
        if not (number and 0 < float(value) < np.inf):
            msg = f"{type(kernel).__name__}: {name} must be a finite number > 0, got {value!r}."
            raise ParameterError(msg)


def as_rows(owner: object, X: Rows) -> Rows:
    """Return rows as a finite 2-d float32 or float64 array, or as CSR; otherwise explain."""
    if sp.issparse(X):
        X = X.tocsr()
        values = X.data
    else:
        X = values = np.asarray(X)
    if X.ndim != 2:
        msg = f"{owner!r}: rows must form a 2-d array (n, d), got shape {X.shape}. Try X.reshape(-1, 1) or X[None]."
        raise DataError(msg)
    if values.dtype.kind not in "fiubO":
        msg = f"{owner!r}: rows must be numbers, got dtype {values.dtype}."
        raise DataError(msg)
    if values.dtype not in (np.float32, np.float64):
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError) as error:
            msg = f"{owner!r}: rows must be numbers, got dtype {values.dtype} ({error})."
            raise DataError(msg) from error
        values = X.data if sp.issparse(X) else X
    if not np.isfinite(values).all():
        msg = f"{owner!r}: rows must be finite, got NaN or infinity. Drop or impute them first."
        raise DataError(msg)
    return X


def store(kernel: Kernel, values: np.ndarray, out: np.ndarray) -> None:
    """Write float64 values into an array of maybe less range, or say that they do not fit."""
    with np.errstate(over="ignore"):
        out[...] = values
    if out.dtype != values.dtype and not np.isfinite(out).all():
        largest = np.abs(values).max()
        msg = f"{kernel!r}: values up to {largest:.3g} overflow {out.dtype}. Pass float64, or scale the rows."
        raise DataError(msg)


def dense64(rows: Rows) -> np.ndarray:
    """Return a small tile of rows as a dense float64 array."""
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, dtype=np.float64)


def sparse64(rows: Rows) -> Rows:
    """Return a tile of CSR rows in float64."""
    return rows.astype(np.float64)


def squared_norms(rows: Rows) -> np.ndarray:
    """Return the squared lengths of rows, sparse or dense."""
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows)


def inner_products(X: Rows, Y: Rows) -> np.ndarray:
    """Return the inner products of all pairs of rows, sparse or dense, as a dense array."""
    product = X @ Y.T
    return product.toarray() if sp.issparse(product) else product


def tile_side(d: int) -> int:
    """Return how many rows of width `d` make one side of a tile."""
    return max(1, min(TILE, TILE * TILE // max(1, d)))


def tiles(n: int, side: int) -> Iterator[slice]:
    """Cut range(n) into consecutive slices."""
    return (slice(start, min(start + side, n)) for start in range(0, n, side))
