"""The algebra of kernels: constants, sums, products, scalings, compositions and transformed inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from mercer.errors import DataError, ParameterError
from mercer.kernels.base import Kernel, Rows, as_rows
from mercer.kernels.power_series import PowerSeries, SeriesPart, merge, multiply
from mercer.kernels.spectral import Affine, SpectralFactor, SpectralPart

if TYPE_CHECKING:
    from mercer.kernels.dot_product import DotProductKernel

T = TypeVar("T")
# Parts of the spectrum of a composition: beyond, a map would spend its time on parts of few frequencies each.
MOST_PARTS = 512
# Powers that all together are lighter than this part of the mass are out of sight of float64.
ROUNDING = 1e-16

__all__ = ["Composed", "Constant", "Product", "Scaled", "Sum", "Transformed"]


@dataclass(frozen=True)
class Constant(Kernel):
    """The kernel that is `value` everywhere; ``1 + k`` writes it for you.

    Examples
    --------
    >>> from mercer import Gaussian
    >>> (1 + Gaussian())([[0.0]], [[0.0]])
    array([[2.]])
    """

    structure = "a constant"

    value: float = 1.0

    def __post_init__(self) -> None:
        check_weight(self, "value")

    @property
    def takes_sparse(self) -> bool:
        return True

    def _values(self, X: Rows, Y: Rows) -> np.ndarray:
        return np.full((X.shape[0], Y.shape[0]), self.value)

    def _diagonal(self, X: Rows) -> np.ndarray:
        return np.full(X.shape[0], self.value)

    def summands(self) -> tuple[tuple[float, Kernel | None], ...]:
        return ((self.value, None),)

    def spectral_parts(self) -> tuple[SpectralPart, ...]:
        return (SpectralPart(self.value),)

    def series_parts(self) -> tuple[SeriesPart, ...]:
        series = PowerSeries(lambda n: self.value * (np.arange(n) == 0), degree=0)
        return (SeriesPart(series, shift_invariant=True),)

    def __repr__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, repr=False)
class Sum(Kernel):
    """The sum of two kernels, written ``left + right``."""

    structure = "a sum of kernels"

    left: Kernel
    right: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, "left", "right")

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.left._values(X, Y) + self.right._values(X, Y)

    def _diagonal(self, X: np.ndarray) -> np.ndarray:
        return self.left._diagonal(X) + self.right._diagonal(X)

    def summands(self) -> tuple[tuple[float, Kernel | None], ...]:
        return self.left.summands() + self.right.summands()

    def spectral_parts(self) -> tuple[SpectralPart, ...] | None:
        left, right = self.left.spectral_parts(), self.right.spectral_parts()
        return None if left is None or right is None else left + right

    def series_parts(self) -> tuple[SeriesPart, ...] | None:
        left, right = self.left.series_parts(), self.right.series_parts()
        return None if left is None or right is None else merge(left + right)

    def __repr__(self) -> str:
        return f"{self.left!r} + {self.right!r}"


@dataclass(frozen=True, repr=False)
class Product(Kernel):
    """The pointwise product of two kernels, written ``left * right``."""

    structure = "a product of kernels"

    left: Kernel
    right: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, "left", "right")

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.left._values(X, Y) * self.right._values(X, Y)

    def _diagonal(self, X: np.ndarray) -> np.ndarray:
        return self.left._diagonal(X) * self.right._diagonal(X)

    def spectral_parts(self) -> tuple[SpectralPart, ...] | None:
        left, right = self.left.spectral_parts(), self.right.spectral_parts()
        if left is None or right is None:
            return None
        return tuple(SpectralPart(a.mass * b.mass, a.factors + b.factors) for a in left for b in right)

    def series_parts(self) -> tuple[SeriesPart, ...] | None:
        left, right = self.left.series_parts(), self.right.series_parts()
        return None if left is None or right is None else multiply(left, right)

    def __repr__(self) -> str:
        return f"{in_brackets(self.left)} * {in_brackets(self.right)}"


@dataclass(frozen=True, repr=False)
class Scaled(Kernel):
    """A kernel times a non-negative number, written ``2.0 * k``."""

    structure = "a scaled kernel"

    kernel: Kernel
    weight: float = 1.0

    def __post_init__(self) -> None:
        check_kernels(self, "kernel")
        check_weight(self, "weight")

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.weight * self.kernel._values(X, Y)

    def _diagonal(self, X: np.ndarray) -> np.ndarray:
        return self.weight * self.kernel._diagonal(X)

    def summands(self) -> tuple[tuple[float, Kernel | None], ...]:
        return tuple((self.weight * weight, leaf) for weight, leaf in self.kernel.summands())

    def spectral_parts(self) -> tuple[SpectralPart, ...] | None:
        parts = self.kernel.spectral_parts()
        return None if parts is None else tuple(replace(part, mass=self.weight * part.mass) for part in parts)

    def series_parts(self) -> tuple[SeriesPart, ...] | None:
        parts = self.kernel.series_parts()
        return None if parts is None else tuple(replace(p, series=p.series.scaled(self.weight)) for p in parts)

    def __repr__(self) -> str:
        return f"{self.weight!r} * {in_brackets(self.kernel)}"


@dataclass(frozen=True, repr=False)
class Composed(Kernel):
    """f(k(x, y)) for the function f of a dot-product kernel, written ``f @ k``.

    Positive definite because f has a power series with non-negative coefficients: powers, sums and limits
    of kernels are kernels.

    Examples
    --------
    >>> from mercer import ExponentialDotProduct, Gaussian
    >>> (ExponentialDotProduct() @ Gaussian())([[0.0]], [[0.0]]).round(4)
    array([[2.7183]])
    """

    structure = "a composition, k(x, y) = f(k'(x, y))"

    outer: DotProductKernel
    inner: Kernel

    def __post_init__(self) -> None:
        check_kernels(self, "outer", "inner")

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.outer._checked(self.inner._values(X, Y))

    def _diagonal(self, X: np.ndarray) -> np.ndarray:
        return self.outer._checked(self.inner._diagonal(X))

    def series_parts(self) -> tuple[SeriesPart, ...] | None:
        parts = self.inner.series_parts()
        if parts is None or len(parts) != 1 or parts[0].decay > 0:
            return None
        if parts[0].series.coefficients(1)[0] >= self.outer.radius:
            return None
        return (replace(parts[0], series=self.outer.series.after(parts[0].series)),)

    def spectral_parts(self) -> tuple[SpectralPart, ...] | None:
        """Return the parts of every power of the inner kernel, or None if it has no spectrum or they are too many."""
        parts = self.inner.spectral_parts()
        if parts is None:
            return None
        constant = sum(part.mass for part in parts if not part.factors)
        others = [part for part in parts if part.factors and part.mass > 0]
        mass = sum(part.mass for part in others)
        if constant + mass >= self.outer.radius:
            return None
        # About the constant: its powers are not parts of their own then.
        a = powers_that_matter(self.outer, constant, mass)
        if a is None or math.comb(len(a) - 1 + len(others), len(others)) > MOST_PARTS:
            return None
        return tuple(
            SpectralPart(a[n] * weight, factors)
            for n in np.flatnonzero(a).tolist()
            for weight, factors in products_of(others, n)
        )

    def __repr__(self) -> str:
        return f"{in_brackets(self.outer)} @ {in_brackets(self.inner)}"


@dataclass(frozen=True)
class Transformed(Kernel):
    """A kernel of transformed inputs: k((x[columns] - center) / lengthscales, ...).

    One place for automatic relevance determination (a lengthscale per column), for centering, and for
    kernels that look at some of the columns.

    Parameters
    ----------
    kernel : Kernel
        The kernel of the transformed rows.
    columns : sequence of int, default=None
        Columns to keep, in this order; None keeps all.
    center : sequence of float, default=None
        Subtracted from the kept columns; matters for dot-product kernels only.
    lengthscales : sequence of float, default=None
        Divides the kept columns; each > 0.

    Examples
    --------
    >>> from mercer import Gaussian, Transformed
    >>> ard = Transformed(Gaussian(), lengthscales=(1.0, 10.0))
    >>> ard([[0.0, 0.0]], [[1.0, 10.0]]).round(4)
    array([[0.3679]])
    """

    structure = "a kernel of transformed inputs"

    kernel: Kernel
    columns: Sequence[int] | None = None
    center: Sequence[float] | None = None
    lengthscales: Sequence[float] | None = None

    def __post_init__(self) -> None:
        check_kernels(self, "kernel")
        # Tuples, so that the spec can be hashed and compared.
        for name in ("columns", "center", "lengthscales"):
            value = getattr(self, name)
            if value is None:
                continue
            if name != "columns" and np.asarray(value).dtype.kind not in "biuf":
                msg = f"Transformed: {name} must be None or a sequence of numbers, got {value!r}."
                raise ParameterError(msg)
            object.__setattr__(self, name, tuple(np.asarray(value).ravel().tolist()))
        if self.columns is not None and not (
            all(isinstance(c, Integral) and not isinstance(c, bool) and c >= 0 for c in self.columns)
            and len(set(self.columns)) == len(self.columns) > 0
        ):
            msg = f"Transformed: columns must be different integers >= 0, at least one, got {self.columns}."
            raise ParameterError(msg)
        if self.lengthscales is not None and not all(np.isfinite(s) and s > 0 for s in self.lengthscales):
            msg = f"Transformed: every lengthscale must be a finite number > 0, got {self.lengthscales}."
            raise ParameterError(msg)
        if self.center is not None and not np.isfinite(self.center).all():
            msg = f"Transformed: center must be finite, got {self.center}."
            raise ParameterError(msg)
        widths = {len(v) for v in (self.columns, self.center, self.lengthscales) if v is not None}
        if len(widths) > 1:
            msg = f"Transformed: columns, center and lengthscales must have equal lengths, got {sorted(widths)}."
            raise ParameterError(msg)

    @property
    def takes_sparse(self) -> bool:
        return False  # inputs are transformed as dense rows

    def _inputs(self) -> Affine:
        return Affine(as_tuple(self.columns), as_tuple(self.center), as_tuple(self.lengthscales))

    def _apply(self, X: Rows) -> np.ndarray:
        d = X.shape[1]
        if self.columns is not None and max(self.columns, default=-1) >= d:
            msg = f"Transformed: column {max(self.columns)} was asked for, but the rows have {d} columns."
            raise DataError(msg)
        for name in ("center", "lengthscales"):
            value = getattr(self, name)
            if value is not None and self.columns is None and len(value) != d:
                msg = f"Transformed: {name} has {len(value)} values, but the rows have {d} columns."
                raise DataError(msg)
        return self._inputs()(X)

    def _values(self, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
        return self.kernel._values(self._apply(X), self._apply(Y))

    def _diagonal(self, X: np.ndarray) -> np.ndarray:
        return self.kernel._diagonal(self._apply(X))

    def spectral_parts(self) -> tuple[SpectralPart, ...] | None:
        parts = self.kernel.spectral_parts()
        if parts is None:
            return None
        outer = self._inputs()
        return tuple(
            SpectralPart(p.mass, tuple(replace(f, inputs=(outer, *f.inputs)) for f in p.factors)) for p in parts
        )

    def series_parts(self) -> tuple[SeriesPart, ...] | None:
        parts = self.kernel.series_parts()
        outer = self._inputs()
        return None if parts is None else tuple(replace(part, inputs=(outer, *part.inputs)) for part in parts)

    def resolve(self, X: Rows, weight: np.ndarray | None = None) -> Kernel:
        if not self.needs_rows:
            return self
        return replace(self, kernel=self.kernel.resolve(self._apply(as_rows(self, X)), weight))


def powers_that_matter(outer: DotProductKernel, about: float, mass: float) -> np.ndarray | None:
    """Return the coefficients of f about a point, as many as matter at `mass` from it; None for too many."""
    series = outer.series
    count = MOST_PARTS if series.degree is None else series.degree + 1
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        a = series.about(about, count)
        sizes = a * mass ** np.arange(count)
        total = float(outer.function(np.asarray(about + mass)))
    # The sum of the coefficients looked at must be all of f.
    if not (np.isfinite(total) and (a >= 0).all() and abs(sizes.sum() - total) <= 1e-9 * total):
        return None
    if series.degree is None:
        light = np.flatnonzero(np.cumsum(sizes[::-1])[::-1] <= ROUNDING * total)
        if not len(light):
            return None
        a = a[: light[0]]
    return a


def products_of(parts: Sequence[SpectralPart], n: int) -> Iterator[tuple[float, tuple[SpectralFactor, ...]]]:
    """Yield weight and factors of each product in the n-th power of a sum of parts."""
    if not parts:
        if n == 0:
            yield 1.0, ()
        return
    first, *others = parts
    for k in range(n + 1) if others else (n,):
        factors = tuple(factor for one in first.factors for factor in one.power(k))
        for weight, rest in products_of(others, n - k):
            yield math.comb(n, k) * first.mass**k * weight, factors + rest


def as_tuple(values: Sequence[T] | None) -> tuple[T, ...] | None:
    """Return the values as a tuple, which can be hashed; None stays None."""
    return None if values is None else tuple(values)


def check_kernels(kernel: Kernel, *names: str) -> None:
    """Raise unless each named part is a kernel."""
    for name in names:
        value = getattr(kernel, name)
        if not isinstance(value, Kernel):
            msg = f"{type(kernel).__name__}: {name} must be a kernel such as Gaussian(), got {value!r}."
            raise ParameterError(msg)


def check_weight(kernel: Kernel, name: str) -> None:
    """Raise unless the named parameter is a finite number of at least zero."""
    value = getattr(kernel, name)
    if not (isinstance(value, Real) and 0 <= float(value) < np.inf):
        msg = (
            f"{type(kernel).__name__}: {name} must be a finite number >= 0, else the kernel is not positive definite; "
            f"got {value!r}."
        )
        raise ParameterError(msg)


def in_brackets(kernel: Kernel) -> str:
    """Return the text of a kernel, in brackets where an operator around it would bind tighter."""
    return f"({kernel!r})" if isinstance(kernel, Sum | Scaled | Product | Composed) else repr(kernel)
