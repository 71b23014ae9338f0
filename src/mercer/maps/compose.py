"""Maps of sums and of products of kernels, made from maps of their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mercer.errors import ParameterError
from mercer.kernels import Constant, Exponential, Gaussian, Kernel, Product, Scaled
from mercer.maps.allocation import share_out
from mercer.maps.base import BaseMap, Features, check_choice, explicit_map, for_kernel, maps_for
from mercer.maps.copies import ScaledFeatures, scalar_copies

__all__ = ["ProductMap", "StackedFeatures", "SumMap"]

Array = np.ndarray
# Rows of a pilot draw that tells how far the maps of the parts are off.
PILOT_ROWS = 100


class _PartsMap(BaseMap):
    """What maps of sums and products share: parts, and a map for each."""

    maps: Sequence[BaseMap] | None
    maps_: tuple[BaseMap, ...]

    @staticmethod
    def parts_of(kernel: Kernel) -> tuple[Kernel, ...]:
        """Return the terms or factors of a kernel."""
        raise NotImplementedError

    @staticmethod
    def join(left: Kernel, right: Kernel) -> Kernel:
        """Put two parts together again."""
        raise NotImplementedError

    @classmethod
    def groups_of(cls, kernel: Kernel) -> tuple[Kernel, ...]:
        """Return the parts of a kernel, those joined that one map serves together."""
        groups: list[Kernel] = []
        for part in cls.parts_of(kernel):
            for i, group in enumerate(groups):
                if maps_for(cls.join(group, part), below=cls.preference):
                    groups[i] = cls.join(group, part)
                    break
            else:
                groups.append(part)
        return tuple(groups)

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        if len(cls.parts_of(kernel)) == 1:
            return False
        groups = cls.groups_of(kernel)
        return len(groups) == 1 or all(explicit_map(group) is not None for group in groups)

    @property
    def unbiased(self) -> bool | str:
        biased = [m for m in getattr(self, "maps_", self.maps or ()) if m.unbiased is not True]
        return f"{type(biased[0]).__name__} is biased: {biased[0].unbiased}" if biased else True

    def rows_wanted(self) -> int:
        return max(super().rows_wanted(), PILOT_ROWS, *(m.rows_wanted() for m in self._maps(self._kernel())))

    def _accepted(self, kernel: Kernel) -> Kernel:
        if self.maps is None:
            return super()._accepted(kernel)
        for part_map, part in zip(self._maps(kernel), self.parts_of(kernel), strict=True):
            part_map._accepted(part)
        return kernel

    def _parts(self, kernel: Kernel) -> tuple[Kernel, ...]:
        """Return the kernels that have a map each: with maps of the user's own, one for each part."""
        return self.groups_of(kernel) if self.maps is None else self.parts_of(kernel)

    def _maps(self, kernel: Kernel) -> tuple[BaseMap, ...]:
        """Return an unfitted map for each part."""
        parts = self._parts(kernel)
        if self.maps is None:
            found = tuple(explicit_map(part) for part in parts)
            return tuple(m for m in found if m is not None)  # `accepts` has seen to it that there is one for each
        if len(self.maps) != len(parts) or not all(isinstance(m, BaseMap) for m in self.maps):
            msg = (
                f"{type(self).__name__}: maps must be one mercer map for each of the {len(parts)} parts of {kernel!r}, "
                f"got {self.maps!r}."
            )
            raise ParameterError(msg)
        return tuple(for_kernel(m, part) for m, part in zip(self.maps, parts, strict=True))


class SumMap(_PartsMap):
    """Features of a sum of kernels: the features of its terms, side by side.

    Parameters
    ----------
    kernel : Sum, default=None
        Kernel to approximate; None means ``Gaussian(lengthscale="median") + Exponential(0.01)``.
    n_components : int, default=512
        Width of the output, at least one column a term.
    maps : sequence of BaseMap, default=None
        An unfitted map for each term; None takes the default map of each. Widths are chosen for them.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an int makes repeated fits identical.
    n_jobs : int or None, default=None
        Threads of `transform`; None means all cores. The result does not depend on it.

    Attributes
    ----------
    maps_ : tuple of BaseMap
        The maps of the terms, unfitted, with the widths drawn: as many columns as make a term exact, if they are few,
        else in proportion to the root of the variance in a pilot draw, which minimises the sum.
    kernel_ : Kernel
        The kernel with every parameter a number.
    features_ : StackedFeatures
        The drawn map: a pure function of rows.
    n_features_in_ : int
        Width of the rows seen in `fit`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, Polynomial, SumMap, Transformed
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> kernel = Transformed(Gaussian(), columns=(0, 1)) + Transformed(Polynomial(2), columns=(2, 3))
    >>> feature_map = SumMap(kernel, n_components=1024, random_state=0).fit(X)
    >>> bool(abs(feature_map.gram(X) - kernel(X)).max() < 0.2)
    True
    """

    needs: ClassVar[str] = "a sum of kernels that each have an unbiased map"
    preference: ClassVar[int] = 70
    default_kernel: ClassVar[Kernel] = Gaussian("median") + Exponential(0.01)
    features_: StackedFeatures

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        maps: Sequence[BaseMap] | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.maps = maps
        self.random_state = random_state
        self.n_jobs = n_jobs

    @staticmethod
    def parts_of(kernel: Kernel) -> tuple[Kernel, ...]:
        return tuple(weighted(term, weight) for weight, term in kernel.summands())

    @staticmethod
    def join(left: Kernel, right: Kernel) -> Kernel:
        return left + right

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> StackedFeatures:
        maps, parts = self._maps(kernel), self._parts(kernel)
        if self.n_components < len(parts):
            msg = f"SumMap: {len(parts)} terms need a column each, got n_components={self.n_components}."
            raise ParameterError(msg)
        widths = self._widths(maps, parts, X, weight, rng)
        self.maps_ = tuple(m.set_params(n_components=int(w)) for m, w in zip(maps, widths, strict=True))
        drawn = [m._draw(part, X, weight, rng) for m, part in zip(self.maps_, parts, strict=True)]
        return StackedFeatures(tuple(drawn), self.n_components)

    def _widths(
        self,
        maps: Sequence[BaseMap],
        parts: Sequence[Kernel],
        X: Any,
        weight: Array | None,
        rng: np.random.Generator,
    ) -> Array:
        """Return how many columns each term has: those that make it exact, if they are few, else by variance."""
        widths = np.zeros(len(parts), dtype=int)
        fair = self.n_components // len(parts)
        for i, (part_map, part) in enumerate(zip(maps, parts, strict=True)):
            exact = part_map.exact_columns(part, X.shape[1])
            widths[i] = exact if exact is not None and exact <= fair else 0
        rest = [i for i, width in enumerate(widths) if width == 0]
        if rest:
            spread = np.array([self._spread(maps[i], parts[i], fair, X, weight, rng) for i in rest])
            widths[rest] = share_out(spread, self.n_components - int(widths.sum()))
        return widths

    @staticmethod
    def _spread(
        part_map: BaseMap, part: Kernel, width: int, X: Any, weight: Array | None, rng: np.random.Generator
    ) -> float:
        """Return the root mean square error of a pilot draw, times the root of its width."""
        pilot = X[:PILOT_ROWS].astype(np.float64)
        features = for_kernel(part_map, part).set_params(n_components=width)._draw(part, X, weight, rng)
        Z = np.empty((pilot.shape[0], features.n_components))
        features.astype(np.float64)(pilot, Z)
        return float(np.sqrt(width * np.mean(np.square(Z @ Z.T - part(pilot)))))


class ProductMap(_PartsMap):
    r"""Features of a product of kernels, from independent maps of its factors.

    Either each column multiplies one scalar map of each factor, drawn independently ("paired"), or each column of one
    map meets all columns of another map ("kronecker"): the product of the approximate kernels then.

    Parameters
    ----------
    kernel : Product, default=None
        Kernel to approximate; None means ``Gaussian(lengthscale="median") * Exponential(0.01)``.
    n_components : int, default=512
        Width of the output.
    maps : sequence of BaseMap, default=None
        An unfitted map for each factor; None takes the default map of each. Their widths matter for "kronecker" only,
        where all but the last are taken as they are.
    method : {"auto", "paired", "kronecker"}, default="auto"
        "auto" takes Kronecker products if all factors but one have exact maps of few columns, and pairs otherwise.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an int makes repeated fits identical.
    n_jobs : int or None, default=None
        Threads of `transform`; None means all cores. The result does not depend on it.

    Attributes
    ----------
    method_ : str
        The method drawn.
    maps_ : tuple of BaseMap
        The maps of the factors, unfitted.
    kernel_ : Kernel
        The kernel with every parameter a number.
    features_ : PairedFeatures or KroneckerFeatures
        The drawn map: a pure function of rows.
    n_features_in_ : int
        Width of the rows seen in `fit`.

    Notes
    -----
    Unbiased if the maps of the factors are: draws are independent. For Kronecker products every column of the first map
    meets a draw of its own of the second, so that any width is used up and errors average out.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, Polynomial, ProductMap, Transformed
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> kernel = Transformed(Gaussian(), columns=(0, 1, 2)) * Transformed(Polynomial(2), columns=(3, 4))
    >>> feature_map = ProductMap(kernel, n_components=3000, random_state=0).fit(X)
    >>> feature_map.method_
    'kronecker'
    >>> bool(abs(feature_map.gram(X) - kernel(X)).mean() < 0.2)
    True
    """

    needs: ClassVar[str] = "a product of kernels that each have an unbiased map"
    preference: ClassVar[int] = 71
    default_kernel: ClassVar[Kernel] = Gaussian("median") * Exponential(0.01)
    features_: PairedFeatures | KroneckerFeatures
    method_: str

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        maps: Sequence[BaseMap] | None = None,
        method: Literal["auto", "paired", "kronecker"] = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.maps = maps
        self.method = method
        self.random_state = random_state
        self.n_jobs = n_jobs

    @staticmethod
    def parts_of(kernel: Kernel) -> tuple[Kernel, ...]:
        return tuple(factors(kernel))

    @staticmethod
    def join(left: Kernel, right: Kernel) -> Kernel:
        return left * right

    def _draw(
        self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator
    ) -> PairedFeatures | KroneckerFeatures:
        check_choice(self, "method", ("auto", "paired", "kronecker"))
        maps, parts = self._maps(kernel), self._parts(kernel)
        # Exact factors first, the narrowest in front: the last map takes the columns that are left.
        exact = [m.exact_columns(part, X.shape[1]) for m, part in zip(maps, parts, strict=True)]
        order = sorted(range(len(parts)), key=lambda i: (exact[i] is None, exact[i] or 0))
        small = [exact[i] for i in order[:-1]]
        fits = all(e is not None for e in small) and np.prod([e for e in small if e is not None]) <= self.n_components
        self.method_ = ("kronecker" if fits else "paired") if self.method == "auto" else self.method
        self.maps_ = maps
        if self.method_ == "paired":
            drawn = [
                scalar_copies(m, part, X, weight, self.n_components, rng) for m, part in zip(maps, parts, strict=True)
            ]
            return PairedFeatures(tuple(drawn), self.n_components)
        widths = [exact[i] or maps[i].n_components for i in order[:-1]]
        fixed = [
            maps[i].set_params(n_components=int(w))._draw(parts[i], X, weight, rng)
            for i, w in zip(order[:-1], widths, strict=True)
        ]
        count = int(np.prod(widths))
        if count > self.n_components:
            msg = (
                f"ProductMap: Kronecker products of maps of {' x '.join(map(str, widths))} columns need at least "
                f"n_components={count}, got {self.n_components}. Give maps of fewer columns, or use method='paired'."
            )
            raise ParameterError(msg)
        last = order[-1]
        shares = np.diff(np.linspace(0, self.n_components, count + 1).astype(int))
        inner = [maps[last].set_params(n_components=int(m))._draw(parts[last], X, weight, rng) for m in shares]
        return KroneckerFeatures(tuple(fixed), self.n_components, tuple(inner))


@dataclass(frozen=True, eq=False)
class _ManyFeatures:
    """Several drawn maps of the same rows."""

    parts: tuple[Features, ...]
    n_components: int

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(self, parts=tuple(part.astype(dtype) for part in self.parts))

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return np.result_type(*(part.output_dtype(dtype) for part in self.parts))


class StackedFeatures(_ManyFeatures):
    """Features of several maps side by side."""

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        start = 0
        for part in self.parts:
            part(X, out[:, start : start + part.n_components])
            start += part.n_components


class PairedFeatures(_ManyFeatures):
    """Products of one scalar map of each factor a column."""

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        ScaledFeatures(self.parts[0], self.n_components**-0.5)(X, out)
        columns = np.empty(out.shape, out.dtype)
        for part in self.parts[1:]:
            part(X, columns)
            out *= columns


@dataclass(frozen=True, eq=False)
class KroneckerFeatures(_ManyFeatures):
    """Products of each column of some maps with all columns of a draw of its own of another."""

    inner: tuple[Features, ...]

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        return replace(super().astype(dtype), inner=tuple(features.astype(dtype) for features in self.inner))

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features of rows of this dtype."""
        return np.result_type(*(features.output_dtype(dtype) for features in (*self.parts, *self.inner)))

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        outer = np.ones((X.shape[0], 1), out.dtype)
        for part in self.parts:
            columns = np.empty((X.shape[0], part.n_components), out.dtype)
            part(X, columns)
            outer = (outer[:, :, None] * columns[:, None, :]).reshape(X.shape[0], -1)
        start = 0
        for i, part in enumerate(self.inner):
            block = out[:, start : start + part.n_components]
            part(X, block)
            block *= outer[:, i : i + 1]
            start += part.n_components


def weighted(kernel: Kernel | None, weight: float) -> Kernel:
    """Return a kernel times a weight; None stands for the constant one."""
    if kernel is None:
        return Constant(weight)
    return kernel if weight == 1 else weight * kernel


def factors(kernel: Kernel) -> Iterator[Kernel]:
    """Yield the factors of a product; a weight in front belongs to the first."""
    if isinstance(kernel, Product):
        yield from factors(kernel.left)
        yield from factors(kernel.right)
    elif isinstance(kernel, Scaled) and isinstance(kernel.kernel, Product):
        first, *others = factors(kernel.kernel)
        yield kernel.weight * first
        yield from others
    else:
        yield kernel
