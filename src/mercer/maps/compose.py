"""Maps of sums and of products of kernels, made from maps of their parts."""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np

from mercer.errors import MercerWarning, ParameterError
from mercer.kernels import Constant, Kernel, Matern, Polynomial, Product, Scaled
from mercer.maps.allocation import share_out
from mercer.maps.base import BaseMap, Features, explicit_map, for_kernel, maps_for
from mercer.maps.checks import check_choice, check_finite
from mercer.maps.copies import (
    PILOT_ROWS,
    MixedFeatures,
    check_unsigned,
    draw_columns,
    mixed,
    pilot_rows,
    scalar_copies,
)

__all__ = ["KroneckerFeatures", "PairedFeatures", "ProductMap", "StackedFeatures", "SumMap"]

Array = np.ndarray
# Pilot draws of the terms of a sum, each at widths that the one before proposes.
PILOT_ROUNDS = 4


class _PartsMap(BaseMap):
    """What maps of sums and products share: parts, and a map for each."""

    maps: Sequence[BaseMap] | None
    maps_: tuple[BaseMap, ...]

    @staticmethod
    @abstractmethod
    def parts_of(kernel: Kernel) -> tuple[Kernel, ...]:
        """Return the terms or factors of a kernel."""

    @staticmethod
    @abstractmethod
    def join(left: Kernel, right: Kernel) -> Kernel:
        """Put two parts together again."""

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
        if len(groups) == 1:  # one map serves the whole; asking for all maps of it would lead back here
            return any(kind(groups[0]).unbiased is True for kind in maps_for(groups[0], below=cls.preference))
        return all(explicit_map(group) is not None for group in groups)

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

    def _exact_parts(self, kernel: Kernel, n_features: int) -> list[float]:
        """Return how many columns make each part exact, infinitely many if none do."""
        maps, parts = self._maps(kernel), self._parts(kernel)
        return [columns_if_exact(m, part, n_features) for m, part in zip(maps, parts, strict=True)]

    def _warn_of_zeros(self, used: int) -> None:
        if used < self.n_components:
            msg = (
                f"{type(self).__name__}: {used} columns make the map exact; the last {self.n_components - used} of "
                f"n_components={self.n_components} are zero."
            )
            warnings.warn(msg, MercerWarning, stacklevel=5)


class SumMap(_PartsMap):
    """Features of a sum of kernels: the features of its terms, side by side.

    Parameters
    ----------
    kernel : Sum, default=None
        Kernel to approximate; None means ``Matern(lengthscale="median") + Polynomial(2)``.
    n_components : int, default=512
        Width of the output, from 1 up; of fewer columns than there are terms, each sums up all terms.
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
    default_kernel: ClassVar[Kernel] = Matern(lengthscale="median") + Polynomial(2)
    features_: StackedFeatures | MixedFeatures

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

    def exact_columns(self, kernel: Kernel, n_features: int) -> int | None:
        columns = sum(self._exact_parts(kernel, n_features))
        return None if math.isinf(columns) else int(columns)

    def _draw(
        self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator
    ) -> StackedFeatures | MixedFeatures:
        maps, parts = self._maps(kernel), self._parts(kernel)
        narrow = self.n_components < len(parts)
        widths = np.ones(len(parts), dtype=int) if narrow else self._widths(kernel, maps, X, weight, rng)
        self.maps_ = tuple(m.set_params(n_components=int(w)) for m, w in zip(maps, widths, strict=True))
        drawn = [
            draw_columns(m, part, X, weight, m.n_components, rng) for m, part in zip(self.maps_, parts, strict=True)
        ]
        if narrow:
            for part_map, features in zip(self.maps_, drawn, strict=True):
                check_unsigned(part_map, features)
            stacked = StackedFeatures(tuple(drawn), len(parts))
            return mixed(self, stacked, self.n_components, rng, scale=self.n_components**-0.5)
        self._warn_of_zeros(int(widths.sum()))
        return StackedFeatures(tuple(drawn), self.n_components)

    def _widths(
        self, kernel: Kernel, maps: Sequence[BaseMap], X: Any, weight: Array | None, rng: np.random.Generator
    ) -> Array:
        """Return how many columns each term has: those that make it exact, if they are few, else by variance."""
        parts = self._parts(kernel)
        exact = np.array(self._exact_parts(kernel, X.shape[1]))
        fair = self.n_components // len(parts)
        small = np.where(exact <= fair, exact, 0).astype(int)
        drawn = np.flatnonzero(exact > fair).tolist()
        free = self.n_components - int(small.sum())
        share = share_up_to(exact[drawn], np.ones(len(drawn)), free)
        best, least = share, np.inf
        for _ in range(PILOT_ROUNDS if len(drawn) > 1 else 0):  # a single one takes what there is
            error = np.array(
                [self._error(maps[i], parts[i], int(m), X, weight, rng) for i, m in zip(drawn, share, strict=True)]
            )
            if error.sum() >= least:
                break
            best, least = share, float(error.sum())
            # The best if errors fall as one over the width; maps of exact columns may ask for another round.
            share = share_up_to(exact[drawn], np.sqrt(error * share), free)
        small[drawn] = best
        return small

    @staticmethod
    def _error(
        part_map: BaseMap, part: Kernel, width: int, X: Any, weight: Array | None, rng: np.random.Generator
    ) -> float:
        """Return the mean square error of a pilot draw."""
        pilot, pair_weights = pilot_rows(X, weight, rng)
        features = draw_columns(part_map, part, X, weight, width, rng)
        Z = np.empty((pilot.shape[0], width))
        features.astype(np.float64)(pilot, Z)
        signs = getattr(features, "signs", None)
        gram = (Z if signs is None else Z * signs) @ Z.T
        return float(np.sum(pair_weights * np.square(gram - part(pilot))))


class ProductMap(_PartsMap):
    r"""Features of a product of kernels, from independent maps of its factors.

    Either each column multiplies one scalar map of each factor, drawn independently ("paired"), or each column of one
    map meets all columns of another map ("kronecker"): the product of the approximate kernels then.

    Parameters
    ----------
    kernel : Product, default=None
        Kernel to approximate; None means ``Matern(lengthscale="median") * Polynomial(2)``.
    n_components : int, default=512
        Width of the output.
    maps : sequence of BaseMap, default=None
        An unfitted map for each factor; None takes the default map of each. Their widths matter for "kronecker" only,
        and there not those of exact maps, nor of the last one drawn, which takes the columns that are left.
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
    default_kernel: ClassVar[Kernel] = Matern(lengthscale="median") * Polynomial(2)
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

    def exact_columns(self, kernel: Kernel, n_features: int) -> int | None:
        columns = math.prod(self._exact_parts(kernel, n_features))
        return None if math.isinf(columns) or self.method == "paired" else int(columns)

    def _draw(
        self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator
    ) -> PairedFeatures | KroneckerFeatures:
        check_choice(self, "method", ("auto", "paired", "kronecker"))
        maps, parts = self._maps(kernel), self._parts(kernel)
        # Exact factors first, the narrowest in front: the last map takes the columns that are left.
        exact = self._exact_parts(kernel, X.shape[1])
        order = sorted(range(len(parts)), key=lambda i: exact[i])
        fits = math.prod(exact[i] for i in order[:-1]) <= self.n_components
        self.method_ = ("kronecker" if fits else "paired") if self.method == "auto" else self.method
        self.maps_ = maps
        if self.method_ == "paired":
            drawn = [
                scalar_copies(m, part, X, weight, self.n_components, rng) for m, part in zip(maps, parts, strict=True)
            ]
            return PairedFeatures(tuple(drawn), self.n_components)
        return self._draw_kronecker(kernel, order, exact, X, weight, rng)

    def _draw_kronecker(
        self,
        kernel: Kernel,
        order: list[int],
        exact: list[float],
        X: Any,
        weight: Array | None,
        rng: np.random.Generator,
    ) -> KroneckerFeatures:
        maps, parts = self.maps_, self._parts(kernel)
        widths = [maps[i].n_components if math.isinf(exact[i]) else int(exact[i]) for i in order[:-1]]
        count = math.prod(widths)
        if count > self.n_components:
            msg = (
                f"ProductMap: Kronecker products of maps of {' x '.join(map(str, widths))} columns need at least "
                f"n_components={count}, got {self.n_components}. Give maps of fewer columns, or use method='paired'."
            )
            raise ParameterError(msg)
        last = order[-1]
        shares = np.diff(np.linspace(0, self.n_components, count + 1).astype(int))
        shares = np.minimum(shares, exact[last]).astype(int)
        self._warn_of_zeros(int(shares.sum()))
        drawn = [
            draw_columns(maps[i], parts[i], X, weight, m, rng)
            for i, m in [*zip(order[:-1], widths, strict=True), *((last, int(m)) for m in shares)]
        ]
        for features in drawn:
            check_unsigned(self, features)
        return KroneckerFeatures(tuple(drawn[: len(widths)]), self.n_components, tuple(drawn[len(widths) :]))


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

    @property
    def signs(self) -> Array | None:
        signs = np.ones(self.n_components)
        start = 0
        for part in self.parts:
            of_part = getattr(part, "signs", None)
            signs[start : start + part.n_components] = 1.0 if of_part is None else of_part
            start += part.n_components
        return signs if (signs < 0).any() else None

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        start = 0
        for part in self.parts:
            part(X, out[:, start : start + part.n_components])
            start += part.n_components
        out[:, start:] = 0


class PairedFeatures(_ManyFeatures):
    """Products of one scalar map of each factor a column."""

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        self.parts[0](X, out)
        out *= self.n_components**-0.5
        columns = np.empty(out.shape, out.dtype)
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self.parts[1:]:
                part(X, columns)
                out *= columns
        check_finite("ProductMap", out)


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
        start = 0
        with np.errstate(over="ignore", invalid="ignore"):
            for part in self.parts:
                columns = np.empty((X.shape[0], part.n_components), out.dtype)
                part(X, columns)
                outer = (outer[:, :, None] * columns[:, None, :]).reshape(X.shape[0], -1)
            for i, part in enumerate(self.inner):
                block = out[:, start : start + part.n_components]
                part(X, block)
                block *= outer[:, i : i + 1]
                start += part.n_components
        out[:, start:] = 0
        check_finite("ProductMap", out)


def weighted(kernel: Kernel | None, weight: float) -> Kernel:
    """Return a kernel times a weight; None stands for the constant one."""
    if kernel is None:
        return Constant(weight)
    return kernel if weight == 1 else weight * kernel


def factors(kernel: Kernel, weight: float = 1.0) -> Iterator[Kernel]:
    """Yield the factors of a product; a weight in front belongs to the first."""
    if isinstance(kernel, Product):
        yield from factors(kernel.left, weight)
        yield from factors(kernel.right)
    elif isinstance(kernel, Scaled):
        yield from factors(kernel.kernel, weight * kernel.weight)
    else:
        yield kernel if weight == 1 else weight * kernel


def columns_if_exact(part_map: BaseMap, part: Kernel, n_features: int) -> float:
    """Return how many columns make a map exact, at least one, or infinity if none do."""
    columns = part_map.exact_columns(part, n_features)
    return math.inf if columns is None else max(columns, 1)


def share_up_to(most: Array, weights: Array, columns: int) -> Array:
    """Return whole numbers of columns in proportion to weights, at least one and at most so many each."""
    widths = np.ones(len(most), dtype=int)
    full = np.zeros(len(most), dtype=bool)
    while not full.all():
        widths[~full] = share_out(weights[~full], columns - int(widths[full].sum()))
        over = widths > most
        if not over.any():
            break
        widths[over] = most[over]
        full |= over
    return widths
