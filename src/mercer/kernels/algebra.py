"""The algebra of kernels: constants, sums, products, multiples, compositions and transformed inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from mercer.errors import DataError, ParameterError
from mercer.kernels.base import Kernel, Rows, as_rows
from mercer.kernels.power_series import PowerSeries, SeriesPart, merge, multiply
from mercer.kernels.spectral import Affine, FrozenMatrix, SpectralFactor, SpectralPart
from mercer.parameters import Interval, shown

if TYPE_CHECKING:
    from mercer.kernels.dot_product import DotProductKernel

T = TypeVar("T")
# Longest sequence of numbers of which a repr shows all entries.
MOST_SHOWN = 12
# Largest number of spectral parts of a composition. With more parts, a map would have too few frequencies per part.
MOST_PARTS = 512
# The highest powers of a series are omitted if their sum is below this fraction of the sum of all powers, which is the
# rounding error of float64.
ROUNDING = 1e-16

__all__ = ["Composed", "Constant", "Product", "Scaled", "Sum", "Transformed"]


@dataclass(frozen=True)
class Constant(Kernel):
    """Constant kernel, k(x, y) = value. ``1 + k`` is the sum of ``Constant(1.0)`` and the kernel `k`.

    Parameters
    ----------
    value : float, default=1.0
        The value, >= 0.

    Examples
    --------
    >>> from mercer import Gaussian
    >>> (1 + Gaussian())([[0.0]], [[0.0]])
    array([[2.]])
    """

    structure = "a constant"
    sparse_formulas = True

    value: float = 1.0

    def __post_init__(self) -> None:
        check_weight(self, "value")

    def _values(self, X: Rows, Y: Rows) -> np.ndarray:
        return np.full((X.shape[0], Y.shape[0]), self.value)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return np.full(X.shape[0], self.value)

    def _sum_form(self) -> tuple[tuple[float, Kernel | None], ...]:
        return ((self.value, None),)

    def _spectral_form(self) -> tuple[SpectralPart, ...]:
        return (SpectralPart(self.value),)

    def _series_form(self) -> tuple[SeriesPart, ...]:
        series = PowerSeries(lambda n: self.value * (np.arange(n) == 0), degree=0)
        return (SeriesPart(series, shift_invariant=True),)

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, repr=False)
class Sum(Kernel):
    """Sum of two kernels, written ``left + right``.

    Parameters
    ----------
    left, right : Kernel
        The summands.
    """

    structure = "a sum of kernels"
    sparse_formulas = True

    left: Kernel
    right: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, "left", "right")

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.left._values(X, Y) + self.right._values(X, Y)

    def _diagonal(self, X: np.ndarray) -> np.ndarray:
        return self.left._diagonal(X) + self.right._diagonal(X)

    def _sum_form(self) -> tuple[tuple[float, Kernel | None], ...]:
        return self.left.summands() + self.right.summands()

    def _spectral_form(self) -> tuple[SpectralPart, ...] | None:
        left, right = self.left.spectral_parts(), self.right.spectral_parts()
        return None if left is None or right is None else left + right

    def _series_form(self) -> tuple[SeriesPart, ...] | None:
        left, right = self.left.series_parts(), self.right.series_parts()
        return None if left is None or right is None else merge(left + right)

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


@dataclass(frozen=True, repr=False)
class Product(Kernel):
    """Pointwise product of two kernels, written ``left * right``.

    Parameters
    ----------
    left, right : Kernel
        The factors.
    """

    structure = "a product of kernels"
    sparse_formulas = True

    left: Kernel
    right: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, "left", "right")

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.left._values(X, Y) * self.right._values(X, Y)

    def _diagonal(self, X: np.ndarray) -> np.ndarray:
        return self.left._diagonal(X) * self.right._diagonal(X)

    def _spectral_form(self) -> tuple[SpectralPart, ...] | None:
        left, right = self.left.spectral_parts(), self.right.spectral_parts()
        if left is None or right is None:
            return None
        return tuple(SpectralPart(a.mass * b.mass, a.factors + b.factors) for a in left for b in right)

    def _series_form(self) -> tuple[SeriesPart, ...] | None:
        left, right = self.left.series_parts(), self.right.series_parts()
        return None if left is None or right is None else multiply(left, right)

    def __repr__(self) -> str:
        return f"{as_operand(self.left)} * {as_operand(self.right)}"


@dataclass(frozen=True, repr=False)
class Scaled(Kernel):
    """Kernel times a non-negative number, written ``2.0 * k``.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    weight : float, default=1.0
        The factor, >= 0.
    """

    structure = "a scaled kernel"
    sparse_formulas = True

    kernel: Kernel
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_kernels(self, "kernel")
        check_weight(self, "weight")

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.weight * self.kernel._values(X, Y)

    def _diagonal(self, X: np.ndarray) -> np.ndarray:
        return self.weight * self.kernel._diagonal(X)

    def _sum_form(self) -> tuple[tuple[float, Kernel | None], ...]:
        return tuple((self.weight * weight, leaf) for weight, leaf in self.kernel.summands())

    def _spectral_form(self) -> tuple[SpectralPart, ...] | None:
        parts = self.kernel.spectral_parts()
        return None if parts is None else tuple(replace(part, mass=self.weight * part.mass) for part in parts)

    def _series_form(self) -> tuple[SeriesPart, ...] | None:
        parts = self.kernel.series_parts()
        return None if parts is None else tuple(replace(p, series=p.series.scaled(self.weight)) for p in parts)

    def __repr__(self) -> str:
        return f"{self.weight!r} * {as_operand(self.kernel)}"


@dataclass(frozen=True, repr=False)
class Composed(Kernel):
    """Composition f(k(x, y)) with the function f of a dot-product kernel, written ``f @ k``.

    It is positive definite because f has a power series with non-negative coefficients, and products, sums and limits
    of kernels are kernels.

    Parameters
    ----------
    outer : DotProductKernel
        The kernel f(x . y).
    inner : Kernel
        The kernel k.

    References
    ----------
    .. [1] Schoenberg (1942), Positive definite functions on spheres, Duke Mathematical Journal 9, 96-108.

    Examples
    --------
    >>> from mercer import ExponentialDotProduct, Gaussian
    >>> (ExponentialDotProduct() @ Gaussian())([[0.0]], [[0.0]]).round(4)
    array([[2.7183]])
    """

    structure = "a composition, k(x, y) = f(k'(x, y))"
    sparse_formulas = True

    outer: DotProductKernel
    inner: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, "outer", "inner")

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.outer._checked(self.inner._values(X, Y))

    def _diagonal(self, X: np.ndarray) -> np.ndarray:
        return self.outer._checked(self.inner._diagonal(X))

    def _series_form(self) -> tuple[SeriesPart, ...] | None:
        parts = self.inner.series_parts()
        if parts is None or len(parts) != 1 or parts[0].decay > 0:
            return None
        if parts[0].series.coefficients(1)[0] >= self.outer.radius:
            return None
        return (replace(parts[0], series=self.outer.series.after(parts[0].series)),)

    def _spectral_form(self) -> tuple[SpectralPart, ...] | None:
        # f(k) = sum_n a_n k^n has the spectral parts of all powers k^n, unless these are more than MOST_PARTS.
        parts = self.inner.spectral_parts()
        if parts is None:
            return None
        constant = sum(part.mass for part in parts if not part.factors)
        others = [part for part in parts if part.factors and part.mass > 0]
        mass = sum(part.mass for part in others)
        if constant + mass >= self.outer.radius:
            return None
        # If k = c + k' with a constant c, the series is centered at c: f(k) = sum_n a_n k'^n has powers of k' only.
        a = powers_that_matter(self.outer, constant, mass)
        if a is None or math.comb(len(a) - 1 + len(others), len(others)) > MOST_PARTS:
            return None
        return tuple(
            SpectralPart(a[n] * weight, factors)
            for n in np.flatnonzero(a).tolist()
            for weight, factors in expanded_power(others, n)
        )

    def __repr__(self) -> str:
        return f"{as_operand(self.outer)} @ {as_operand(self.inner)}"


@dataclass(frozen=True, repr=False)
class Transformed(Kernel):
    """Kernel of transformed inputs, k(Ax, Ay) with Ax = ((x[columns] - center) / lengthscales) @ matrix.

    It is used for automatic relevance determination (one lengthscale per feature), for centering, for kernels on a
    subset of the features, and for kernels in a metric: with a matrix M, squared distances are (x - y)' M M' (x - y).

    Parameters
    ----------
    kernel : Kernel
        The kernel of the transformed rows.
    columns : sequence of int, default=None
        Indices of the features to select, in this order; None selects all.
    center : sequence of float, default=None
        Numbers that are subtracted from the selected features; None subtracts nothing. There is no effect on
        shift-invariant kernels.
    lengthscales : sequence of float, default=None
        Numbers > 0 by which the selected features are divided; None divides by nothing.
    matrix : array-like of shape (d, r), default=None
        Matrix by which the rows are multiplied last, where d is the number of selected features; None means that they
        are not multiplied. It is stored as an immutable copy, of which ``np.asarray`` returns the entries.
    spacing : float, default=None
        Number > 0 to whose multiples the entries of transformed features are rounded, before they are multiplied by
        `matrix`; None does not round. Features in other units differ by rounding errors, which kernel matrices that are
        nearly singular magnify; with a spacing far above these errors, they are the same numbers. Gradients, and maps
        that use frequencies or inner products of rows instead of kernel values, do not round.

    See Also
    --------
    GaussianProcessRegressor : Learns a lengthscale per feature.
    LearnedMetric : Learns a matrix, or a lengthscale per feature.

    Examples
    --------
    >>> from mercer import Gaussian, Transformed
    >>> ard = Transformed(Gaussian(), lengthscales=(1.0, 10.0))
    >>> ard([[0.0, 0.0]], [[1.0, 10.0]]).round(4)
    array([[0.3679]])
    >>> Transformed(Gaussian(), matrix=[[1.0], [2.0]])([[0.0, 0.0]], [[2.0, -1.0]])  # equal projections
    array([[1.]])
    """

    structure = "a kernel of transformed inputs"

    kernel: Kernel
    columns: Sequence[int] | None = None
    center: Sequence[float] | None = None
    lengthscales: Sequence[float] | None = None
    matrix: Any = None
    spacing: float | None = None

    def __post_init__(self) -> None:
        check_kernels(self, "kernel")
        if self.matrix is not None and not isinstance(self.matrix, FrozenMatrix):
            object.__setattr__(self, "matrix", frozen_matrix(self.matrix))
        # Sequences are stored as tuples, which can be hashed and compared.
        for name in ("columns", "center", "lengthscales"):
            value = getattr(self, name)
            if value is None:
                continue
            if name != "columns" and np.asarray(value).dtype.kind not in "biuf":
                msg = f"Transformed: {name} must be None or a sequence of numbers, got {shown(value)}."
                raise ParameterError(msg)
            object.__setattr__(self, name, tuple(np.asarray(value).ravel().tolist()))
        if self.columns is not None and not (
            all(isinstance(c, Integral) and not isinstance(c, bool) and c >= 0 for c in self.columns)
            and len(set(self.columns)) == len(self.columns) > 0
        ):
            msg = f"Transformed: columns must be different integers >= 0, at least one, got {shown(self.columns)}."
            raise ParameterError(msg)
        if self.lengthscales is not None and not all(np.isfinite(s) and s > 0 for s in self.lengthscales):
            msg = f"Transformed: every lengthscale must be a finite number > 0, got {self.lengthscales}."
            raise ParameterError(msg)
        if self.center is not None and not np.isfinite(self.center).all():
            msg = f"Transformed: center must be finite, got {self.center}."
            raise ParameterError(msg)
        number = isinstance(self.spacing, Real) and not isinstance(self.spacing, bool | np.bool_)
        if self.spacing is not None and not (number and np.isfinite(self.spacing) and self.spacing > 0):
            msg = f"Transformed: spacing must be None or a finite number > 0, got {self.spacing!r}."
            raise ParameterError(msg)
        widths = {len(v) for v in (self.columns, self.center, self.lengthscales) if v is not None}
        if len(widths) > 1:
            msg = f"Transformed: columns, center and lengthscales must have equal lengths, got {sorted(widths)}."
            raise ParameterError(msg)
        if self.matrix is not None and widths and widths != {self.matrix.shape[0]}:
            msg = (
                "Transformed: matrix must have one row per selected feature, as columns, center and lengthscales have "
                f"one entry; got shape {self.matrix.shape} and {widths.pop()} entries."
            )
            raise ParameterError(msg)

    def _inputs(self) -> Affine:
        return Affine(
            columns=as_tuple(self.columns),
            center=as_tuple(self.center),
            lengthscales=as_tuple(self.lengthscales),
            matrix=self.matrix,
            spacing=self.spacing,
        )

    def _apply(self, X: Rows) -> np.ndarray:
        d = X.shape[1]
        if self.columns is not None and max(self.columns, default=-1) >= d:
            msg = f"Transformed: columns has the index {max(self.columns)}, but the rows have {d} features."
            raise DataError(msg)
        for name in ("center", "lengthscales"):
            value = getattr(self, name)
            if value is not None and self.columns is None and len(value) != d:
                msg = f"Transformed: {name} has {len(value)} values, but the rows have {d} features."
                raise DataError(msg)
        if self.matrix is not None and self.columns is None and self.matrix.shape[0] != d:
            msg = f"Transformed: matrix has {self.matrix.shape[0]} rows, but the rows of X have {d} features."
            raise DataError(msg)
        return self._inputs()(X)

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.kernel._values(self._apply(X), self._apply(Y))

    def _diagonal(self, X: np.ndarray) -> np.ndarray:
        return self.kernel._diagonal(self._apply(X))

    def _spectral_form(self) -> tuple[SpectralPart, ...] | None:
        parts = self.kernel.spectral_parts()
        if parts is None:
            return None
        outer = self._inputs()
        return tuple(
            SpectralPart(p.mass, tuple(replace(f, inputs=(outer, *f.inputs)) for f in p.factors)) for p in parts
        )

    def _series_form(self) -> tuple[SeriesPart, ...] | None:
        parts = self.kernel.series_parts()
        outer = self._inputs()
        return None if parts is None else tuple(replace(part, inputs=(outer, *part.inputs)) for part in parts)

    def _lengthscale_columns(self, columns: np.ndarray) -> tuple[np.ndarray, ...]:
        if self.lengthscales is not None or self.matrix is not None:
            return ()
        if self.columns is not None:
            columns = columns[[c for c in self.columns if c < len(columns)]]  # others raise when rows are transformed
        return self.kernel.lengthscale_columns(columns)

    def _inner_rows(self, X: Rows, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        return self._apply(as_rows(self, X)), weight

    def __repr__(self) -> str:
        named = {name: getattr(self, name) for name in ("columns", "center", "lengthscales")}
        parts = [f"{name}={brief(values)}" for name, values in named.items()]
        parts += [] if self.matrix is None else [f"matrix={self.matrix!r}"]
        parts += [] if self.spacing is None else [f"spacing={self.spacing!r}"]
        return f"Transformed(kernel={self.kernel!r}, {', '.join(parts)})"


def powers_that_matter(outer: DotProductKernel, about: float, mass: float) -> np.ndarray | None:
    """Return the coefficients a_n of f(about + t) = sum_n a_n t^n that are not negligible at t = `mass`.

    f is the function of the dot-product kernel `outer`, f(x . y). The result is None if more than `MOST_PARTS`
    coefficients are not negligible, if a coefficient is negative, or if the series does not converge to f at
    t = `mass`.
    """
    series = outer.series
    count = MOST_PARTS if series.degree is None else series.degree + 1
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        a = series.about(about, count)
        sizes = a * mass ** np.arange(count)
        total = float(outer.function(np.asarray(about + mass)))
    # The series must have converged to f.
    if not (np.isfinite(total) and (a >= 0).all() and abs(sizes.sum() - total) <= 1e-9 * total):
        return None
    if series.degree is None:
        light = np.flatnonzero(np.cumsum(sizes[::-1])[::-1] <= ROUNDING * total)
        if not len(light):
            return None
        a = a[: light[0]]
    return a


def expanded_power(parts: Sequence[SpectralPart], n: int) -> Iterator[tuple[float, tuple[SpectralFactor, ...]]]:
    """Expand the n-th power of a sum of spectral parts; yield (weight, factors) for each term.

    A spectral part is a mass times a product of kernels (`SpectralFactor`). The n-th power of the sum of the parts is
    the sum of all terms, each of which is `weight` times the product of `factors`.
    """
    if not parts:
        if n == 0:
            yield 1.0, ()
        return
    first, *others = parts
    for k in range(n + 1) if others else (n,):
        factors = tuple(factor for one in first.factors for factor in one.power(k))
        for weight, rest in expanded_power(others, n - k):
            yield math.comb(n, k) * first.mass**k * weight, factors + rest


def frozen_matrix(values: Any) -> FrozenMatrix:
    """Return the parameter `matrix` of `Transformed` as an immutable matrix. Raise unless it has finite entries."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf" or array.ndim != 2 or 0 in array.shape:
        what = f"an array of shape {array.shape} and dtype {array.dtype}"
        msg = f"Transformed: matrix must be None or a matrix of numbers with one row per feature, got {what}."
        raise ParameterError(msg)
    if not np.isfinite(array).all():
        msg = "Transformed: matrix must be finite, got NaN or infinity."
        raise ParameterError(msg)
    return FrozenMatrix(array)


def brief(values: Sequence[float] | None) -> str:
    """Return the repr of a sequence of numbers, without most of its entries if there are many.

    Examples
    --------
    >>> brief((1.0, 2.0)), brief(range(784))
    ('(1.0, 2.0)', '(0, 1, ..., 783; 784 numbers)')
    """
    if values is None or len(values) <= MOST_SHOWN:
        return repr(None if values is None else tuple(values))
    return f"({values[0]!r}, {values[1]!r}, ..., {values[-1]!r}; {len(values)} numbers)"


def as_tuple(values: Sequence[T] | None) -> tuple[T, ...] | None:
    """Return the values as a tuple, which is hashable, or None if `values` is None."""
    return None if values is None else tuple(values)


def check_kernels(kernel: Kernel, *names: str) -> None:
    """Raise ParameterError unless each named parameter of the kernel is itself a kernel."""
    for name in names:
        value = getattr(kernel, name)
        if not isinstance(value, Kernel):
            msg = f"{type(kernel).__name__}: {name} must be a kernel such as Gaussian(), got {value!r}."
            raise ParameterError(msg)


def check_weight(kernel: Kernel, name: str) -> None:
    """Raise ParameterError unless the named parameter of the kernel is a finite number >= 0."""
    value = getattr(kernel, name)
    if value not in Interval(0):
        msg = (
            f"{type(kernel).__name__}: {name} must be a finite number >= 0, else the kernel is not positive definite; "
            f"got {shown(value)}."
        )
        raise ParameterError(msg)


def as_operand(kernel: Kernel) -> str:
    """Return the repr of a kernel, in parentheses if it contains operators, for use in a larger expression."""
    return f"({kernel!r})" if isinstance(kernel, Sum | Scaled | Product | Composed) else repr(kernel)
