"""Base class of kernels: exact values, the diagonal, operators such as ``k1 + k2``, and parameters.

A kernel is a frozen dataclass: it is compared by value, is hashable, and never changes. A concrete kernel implements
`_values` and `_diagonal`, or the formulas that a more specific base class, such as `IsotropicKernel`, requires instead.
This module implements evaluation in tiles, dtypes, sparse rows, symmetry, operators and scikit-learn's parameter
protocol.

Methods of the base classes are either abstract or final. A formula that a kernel may supply, but need not, is declared
in the base class as a class attribute that is None (`OptionalFormula`); a kernel supplies it by a method of that name.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Self, cast

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError, ParameterError
from mercer.errors.columns import check_rows, explain_rows
from mercer.errors.memory import LARGE, check_memory, explained_memory_errors
from mercer.linalg.dispatch import canonical, native
from mercer.parameters import ConstructorSignature, Interval, check_names, check_parameter, new_of_known_names

if TYPE_CHECKING:
    from mercer.kernels.algebra import Composed
    from mercer.kernels.dot_product import DotProductKernel
    from mercer.kernels.power_series import SeriesPart
    from mercer.kernels.spectral import SpectralPart

__all__ = ["Kernel", "OptionalFormula", "as_rows", "check_positive_parameters"]

# Kernel matrices are computed in tiles of at most this many rows and columns, so that temporary arrays stay near
# 2048**2 * 8 bytes = 32 MiB.
TILE = 2048

FEWER_ROWS = (
    "Pass fewer rows at a time, or use features in place of the matrix: "
    "mercer.maps.default_map(kernel).fit_transform(X)."
)
Rows = Any  # a 2-d array of floats, or a CSR matrix or array
OptionalFormula = Callable[..., Any] | None


@dataclass(frozen=True, eq=False, repr=False)
class Kernel(ABC):
    """Base class of all kernels: a positive definite function of two rows.

    Kernels add, multiply and scale: ``k1 + k2``, ``k1 * k2``, ``2.0 * k``, ``1 + k``. A dot-product kernel composes
    with any kernel as ``f @ k``, which is f(k(x, y)).

    A subclass is a ``@dataclass(frozen=True)`` whose fields are its parameters. It supplies ``_values(X, Y)``, the
    matrix of k(x, y) for the rows of two dense float64 arrays, and ``_diagonal(X)``, the vector of k(x, x). These two
    formulas suffice for landmark features (`mercer.Nystroem`). A kernel with more structure can be approximated by
    other feature maps, too: derive it from one of the base classes under See Also, which require other formulas.

    Attributes
    ----------
    structure : str
        The structure of the kernel in one phrase. Feature maps that do not support it quote it in error messages.
    sparse_formulas : bool
        Whether `_values` and `_diagonal` accept CSR matrices as well as arrays. False by default: sparse rows are then
        converted to dense arrays, a limited number at a time.
    non_negative : bool
        Whether all entries of rows must be >= 0. False by default.

    See Also
    --------
    IsotropicKernel : Base class of kernels ``f(|x - y|)``.
    SeparableKernel : Base class of products over features of f(x_i - y_i).
    ShiftInvariantKernel : Base class of other kernels f(x - y).
    DotProductKernel : Base class of kernels f(x . y).
    HomogeneousKernel : Base class of sums over features of f(x_i, y_i) with f(c x, c y) = c f(x, y), for rows >= 0.
    ThresholdKernel : Base class of sums of products of min(x_i, y_i), for rows >= 0.
    mercer.testing.check_kernel : Checks the formulas and methods of a kernel.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from mercer.kernels import Kernel
    >>> @dataclass(frozen=True)
    ... class Delta(Kernel):
    ...     def _values(self, X, Y):
    ...         return (X[:, None] == Y).all(axis=2).astype(float)
    ...
    ...     def _diagonal(self, X):
    ...         return np.ones(len(X))
    >>> (2.0 * Delta())([[0.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]])
    array([[2., 0.]])
    """

    # An array times a kernel is a mistake: without this, NumPy would multiply the kernel by each entry of the array.
    __array_ufunc__ = None

    structure: ClassVar[str] = "a kernel known by its values only"
    sparse_formulas: ClassVar[bool] = False
    non_negative: ClassVar[bool] = False
    # Whether ``self @ k`` is defined.
    composes: ClassVar[bool] = False
    # Names of parameters that may be a string, such as lengthscale="median". `resolve` replaces it by a number that it
    # computes from rows.
    rules: ClassVar[tuple[str, ...]] = ()
    # Whether `resolve` needs all rows of a fit, in their order, and not only a sample of them.
    all_rows: ClassVar[bool] = False

    __new__ = new_of_known_names
    __signature__ = ConstructorSignature()

    # ---- formulas of a concrete kernel --------------------------------------------------------

    @abstractmethod
    def _values(self, X: Any, Y: Any) -> np.ndarray:
        """Return the matrix of k(x, y) for all rows x of `X` and y of `Y`, which are small and of dtype float64."""

    @abstractmethod
    def _diagonal(self, X: Any) -> np.ndarray:
        """Return the vector of k(x, x) for all rows x of `X`, which is small and of dtype float64."""

    # ---- optional formulas, supplied by more specific base classes and by sums, products, ... -----

    #: () -> tuple of SpectralPart, or None: see `spectral_parts`.
    _spectral_form: ClassVar[OptionalFormula] = None
    #: () -> tuple of SeriesPart, or None: see `series_parts`.
    _series_form: ClassVar[OptionalFormula] = None
    #: () -> tuple of weights and kernels: see `summands`.
    _sum_form: ClassVar[OptionalFormula] = None
    #: (X, weight) -> dict from names in `rules` to numbers.
    _apply_rules: ClassVar[OptionalFormula] = None
    #: (X, weight) -> rows and weights that inner kernels are resolved on, if these differ from X and weight.
    _inner_rows: ClassVar[OptionalFormula] = None
    #: (columns) -> tuple of index arrays: see `lengthscale_columns`.
    _lengthscale_columns: ClassVar[OptionalFormula] = None

    # ---- exact values -------------------------------------------------------------------------

    def __call__(self, X: Rows, Y: Rows | None = None) -> np.ndarray:
        """Return the exact kernel values of all pairs of rows.

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
            msg = f"{self!r}: X and Y must have equal width, got {X.shape[1]} and {other.shape[1]} features."
            raise DataError(msg)
        shape, dtype = (X.shape[0], other.shape[0]), np.result_type(X.dtype, other.dtype)
        if shape[0] * shape[1] * dtype.itemsize > LARGE:
            check_memory(repr(self), f"a matrix of shape {shape}", shape[0] * shape[1] * dtype.itemsize, FEWER_ROWS)
        with explained_memory_errors(repr(self), FEWER_ROWS):
            out = np.empty(shape, dtype)
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
        """Return the exact values k(x, x) for all rows x.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,)
            float32 if the rows are float32, else float64.
        """
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
        """Whether the kernel and all its inner kernels evaluate sparse rows without converting them to dense arrays."""
        return self.sparse_formulas and all(part.takes_sparse for part in self._children().values())

    @property
    def positive_only(self) -> bool:
        """Whether the kernel, or any of its inner kernels, requires all entries of rows to be >= 0."""
        return self.non_negative or any(part.positive_only for part in self._children().values())

    def summands(self) -> tuple[tuple[float, Kernel | None], ...]:
        """Return the kernel as a weighted sum of kernels that are not sums.

        Returns
        -------
        tuple of (float, Kernel or None)
            Weights and kernels. None represents the constant kernel k(x, y) = 1.
        """
        return ((1.0, self),) if self._sum_form is None else self._sum_form()

    def spectral_parts(self) -> tuple[SpectralPart, ...] | None:
        """Return the kernel as a sum of products of shift-invariant kernels, or None if it has no such form.

        The module `mercer.kernels.spectral` defines this form. The result is a tuple with one `SpectralPart` for each
        term of the sum.
        """
        return None if self._spectral_form is None else self._spectral_form()

    def series_parts(self) -> tuple[SeriesPart, ...] | None:
        """Return the kernel as a sum of power series of inner products, or None if it has no such form.

        The module `mercer.kernels.power_series` defines this form. The result is a tuple with one `SeriesPart` for each
        term of the sum.
        """
        return None if self._series_form is None else self._series_form()

    def lengthscale_columns(self, columns: np.ndarray) -> tuple[np.ndarray, ...]:
        """Return the groups of columns that share a lengthscale, one group for each lengthscale of the kernel.

        Dot-product kernels have no lengthscale, and columns with lengthscales of their own are in no group.

        Parameters
        ----------
        columns : ndarray of shape (d,)
            Numbers of the columns of the rows, which the groups consist of.

        Returns
        -------
        tuple of ndarray
        """
        if self._lengthscale_columns is not None:
            return self._lengthscale_columns(columns)
        return tuple(group for part in self._children().values() for group in part.lengthscale_columns(columns))

    def resolve(self, X: Rows, weight: np.ndarray | None = None) -> Self:
        """Return the kernel with parameters such as ``lengthscale="median"`` replaced by numbers computed from rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.
        weight : ndarray of shape (n,), default=None
            Weights of the rows. A row of weight 2 counts as two equal rows.

        Returns
        -------
        Kernel
        """
        if not self.needs_rows:
            return self
        changes: dict[str, Any] = {}
        if self._has_rules():
            assert self._apply_rules is not None, f"{type(self).__name__} names rules but has no _apply_rules"
            changes |= self._apply_rules(X, weight)
        children = self._children()
        if children:
            X, weight = (X, weight) if self._inner_rows is None else self._inner_rows(X, weight)
            changes |= {name: part.resolve(X, weight) for name, part in children.items()}
        return replace(self, **changes)

    @property
    def needs_rows(self) -> bool:
        """Whether some parameter, such as ``lengthscale="median"``, has to be computed from rows by `resolve`."""
        return self._has_rules() or any(part.needs_rows for part in self._children().values())

    @property
    def needs_all_rows(self) -> bool:
        """Whether `resolve` needs all rows of a fit, in their order, since the kernel is the matrix of these rows."""
        own = self.all_rows and self._has_rules()
        return own or any(part.needs_all_rows for part in self._children().values())

    def _has_rules(self) -> bool:
        return any(isinstance(getattr(self, name), str) for name in self.rules)

    def _unresolved(self) -> tuple[str, ...]:
        """Return the names of the parameters that `resolve` computes from rows, also those of inner kernels."""
        own = {name for name in self.rules if isinstance(getattr(self, name), str)}
        return tuple(sorted(own.union(*(part._unresolved() for part in self._children().values()))))

    def _children(self) -> dict[str, Kernel]:
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Kernel)}

    def _check_resolved(self) -> None:
        if self.needs_rows:
            msg = (
                f"{self!r} has no values yet: its {' and '.join(self._unresolved())} is computed from rows. "
                "Call kernel.resolve(X), fit a map, or give its value."
            )
            raise ParameterError(msg)

    # ---- algebra ------------------------------------------------------------------------------
    # The combinations are in algebra.py, which imports this class: hence the local imports.

    def __add__(self, other: object) -> Kernel:
        from mercer.kernels.algebra import Constant, Sum

        if isinstance(other, Real):
            return Sum(self, Constant(as_float(other)))
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: object) -> Kernel:
        from mercer.kernels.algebra import Constant, Sum

        return Sum(Constant(as_float(other)), self) if isinstance(other, Real) else NotImplemented

    def __mul__(self, other: object) -> Kernel:
        from mercer.kernels.algebra import Product, Scaled

        if isinstance(other, Real):
            return Scaled(self, as_float(other))
        return Product(self, other) if isinstance(other, Kernel) else NotImplemented

    __rmul__ = __mul__

    def __matmul__(self, inner: object) -> Composed:
        from mercer.kernels.algebra import Composed

        if not isinstance(inner, Kernel):
            return NotImplemented
        if self.composes:
            return Composed(cast("DotProductKernel", self), inner)
        msg = (
            f"{self!r} @ {inner!r}: the left side of @ must be a dot-product kernel, k(x, y) = f(x . y), "
            f"whose f is applied to the right side; got {self.structure}. "
            "Try ExponentialDotProduct() or Polynomial(degree) on the left, or * for a product."
        )
        raise ParameterError(msg)

    # ---- parameters, in scikit-learn's protocol -----------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether to add the parameters of inner kernels, as ``name__parameter``.

        Returns
        -------
        dict
        """
        params = {field.name: getattr(self, field.name) for field in fields(self)}
        if deep:
            for name, part in self._children().items():
                params |= {f"{name}__{key}": value for key, value in part.get_params().items()}
        return params

    def with_params(self, **params: Any) -> Self:
        """Return a copy with some parameters replaced.

        Parameters
        ----------
        **params : dict
            New values; ``name__parameter`` sets a parameter of the inner kernel `name`.

        Returns
        -------
        Kernel
        """
        changes: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        check_names(type(self).__name__, params, [field.name for field in fields(self)])
        for key, value in params.items():
            name, _, inner = key.partition("__")
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


def check_positive_parameters(kernel: Kernel, *names: str) -> None:
    """Raise ParameterError unless each named parameter of the kernel is a finite number > 0."""
    for name in names:
        check_parameter(type(kernel).__name__, name, getattr(kernel, name), Interval(0, closed="neither"))


def as_float(value: Real) -> float:
    """Return a number as a float; an integer beyond the range of float64 becomes infinite, which kernels refuse."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value == abs(value) else -np.inf


def as_rows(owner: object, X: Rows) -> Rows:
    """Return rows as a 2-d array or CSR matrix of float32 or float64.

    Raise DataError if the rows cannot be converted, or if an entry is not finite.
    """
    given = X
    if sp.issparse(X):
        X = native(X.tocsr())
        values = X.data
    else:
        if not isinstance(X, np.ndarray):
            check_rows(repr(owner), X)
        X = values = native(np.asarray(X))
    if X.ndim != 2:
        msg = f"{owner!r}: rows must form a 2-d array (n, d), got shape {X.shape}. Try X.reshape(-1, 1) or X[None]."
        raise DataError(msg)
    if values.dtype.kind not in "fiubO":
        msg = f"{owner!r}: rows must be numbers, got dtype {values.dtype}."
        raise DataError(msg)
    if values.dtype not in (np.float32, np.float64):
        try:
            X = X.astype(np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            explain_rows(repr(owner), given)
            msg = f"{owner!r}: rows must be numbers, got dtype {values.dtype} ({error})."
            raise DataError(msg) from error
        values = X.data if sp.issparse(X) else X
    if not np.isfinite(values).all():
        msg = f"{owner!r}: rows must be finite, got NaN or infinity. Drop or impute them first."
        raise DataError(msg)
    return canonical(X)


def store(kernel: Kernel, values: np.ndarray, out: np.ndarray) -> None:
    """Copy float64 kernel values into `out`. Raise DataError if a value overflows the dtype of `out`."""
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
    """Return the vector of |x|^2 for all rows x of a sparse or dense matrix."""
    if sp.issparse(rows):
        return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", rows, rows)


def inner_products(X: Rows, Y: Rows) -> np.ndarray:
    """Return the inner products x . y of all rows x of `X` and y of `Y`, sparse or dense, as a dense array."""
    product = X @ Y.T
    return product.toarray() if sp.issparse(product) else product


def tile_side(d: int) -> int:
    """Return how many rows of `d` features to evaluate at once: `TILE`, or fewer if `d` is large."""
    return max(1, min(TILE, TILE * TILE // max(1, d)))


def tiles(n: int, side: int) -> Iterator[slice]:
    """Yield consecutive slices of range(n), each of at most `side` elements."""
    return (slice(start, min(start + side, n)) for start in range(0, n, side))
