"""The map `ProductMap` for products of kernels: its components are products of features of the factors."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from mercer._docs import doc
from mercer.errors import ParameterError
from mercer.kernels import Kernel, Matern, Polynomial, Product, Scaled
from mercer.maps.algebra.copies import Sample, check_unsigned, draw_components, scalar_copies
from mercer.maps.algebra.joined import KroneckerFeatures, PairedFeatures
from mercer.maps.algebra.parts import Combination, Parts, best_draw, unbiased_parts, warn_of_zeros
from mercer.maps.base import BaseMap, DrawnMap
from mercer.parameters import Choice, Domain

__all__ = ["ProductMap"]

Array = np.ndarray


def factors(kernel: Kernel, weight: float = 1.0) -> Iterator[Kernel]:
    """Yield the factors of `weight` times a product of kernels. Numbers multiply the first factor of their product."""
    if isinstance(kernel, Product):
        yield from factors(kernel.left, weight)
        yield from factors(kernel.right)
    elif isinstance(kernel, Scaled):
        yield from factors(kernel.kernel, weight * kernel.weight)
    else:
        yield kernel if weight == 1 else weight * kernel


PRODUCTS = Combination(lambda kernel: tuple(factors(kernel)), operator.mul)


@doc
class ProductMap(DrawnMap):
    r"""Features of a product of kernels, from independent maps of its factors.

    With ``method="paired"``, each component is a product of independent one-component maps, one for each factor of the
    kernel.

    With ``method="kronecker"``, one factor of the kernel is selected: the one whose map needs the most components to be
    exact. The maps of the other factors are sampled once, and all products of one component from each of them are
    formed. The map of the selected factor is sampled independently for each of these products, and the product is
    multiplied by all components of its sample.

    Parameters
    ----------
    kernel : Product, default=None
        Kernel to approximate; None means ``Matern(lengthscale="median") * Polynomial(2)``.
    %(n_components)s
    maps : sequence of BaseMap, default=None
        An unfitted map for each factor; None means the default maps. The `n_components` of these maps is used only by
        the method "kronecker", and only for maps that cannot be exact. The map of the selected factor is an exception:
        its number of components follows from the `n_components` of the ProductMap.
    method : {"auto", "paired", "kronecker"}, default="auto"
        "auto" means "kronecker" if all factors except the selected one have exact maps, and the product of the numbers
        of components of these exact maps is at most `n_components`. Otherwise "auto" means "paired".
    %(random_state, n_jobs)s

    Attributes
    ----------
    method_ : str
        The method that was used.
    maps_ : tuple of BaseMap
        The maps of the factors, unfitted.
    features_ : PairedFeatures or KroneckerFeatures
        The sampled features: a function from rows to features.
    %(kernel_, n_features_in_)s

    See Also
    --------
    SumMap : Features of a sum of kernels.
    CompositionMap : Features of a power series of a kernel.

    Notes
    -----
    The approximate kernel is unbiased if the maps of all factors are unbiased, because they are sampled independently.
    For two factors, the method "kronecker" has the approximate kernel
    :math:`\sum_i p_i(x)\, p_i(y)\, q_i(x, y)`, where :math:`p_i` are the components of the map of one factor and
    :math:`q_i` are independent approximations of the other factor. Because the :math:`q_i` are independent, their
    errors partly cancel in the sum. They may have different numbers of components, so that `n_components` need not be a
    multiple of the number of :math:`p_i`.

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
    default_kernel: ClassVar[Kernel] = Matern(lengthscale="median") * Polynomial(2)
    parameter_domains: ClassVar[Mapping[str, Domain]] = {"method": Choice("auto", "paired", "kronecker")}
    features_: PairedFeatures | KroneckerFeatures
    maps_: tuple[DrawnMap, ...]
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

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        return PRODUCTS.accepts(kernel)

    @property
    def unbiased(self) -> bool | str:
        return unbiased_parts(getattr(self, "maps_", self.maps))

    @property
    def built_from_rows(self) -> bool:
        return any(part.built_from_rows for part in getattr(self, "maps_", self.maps) or ())

    def _rows_to_draw(self) -> int:
        return PRODUCTS.parts_of(self, self._kernel()).rows_wanted()

    def _parts_accept(self, kernel: Kernel) -> bool:
        return PRODUCTS.check_given(self, kernel)

    def _exact_at(self, kernel: Kernel, n_features: int) -> int | None:
        total = math.prod(PRODUCTS.parts_of(self, kernel).exact_components(n_features))
        return None if math.isinf(total) or self.method == "paired" else int(total)

    def _draw(
        self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator
    ) -> PairedFeatures | KroneckerFeatures:
        parts, sample = PRODUCTS.parts_of(self, kernel), Sample(X, weight, rng)
        separated = None if self.maps is not None else PRODUCTS.separated(parts)
        draw = partial(self._draw_parts, sample=sample)
        parts, features = best_draw(draw, kernel, parts, separated, sample, self.n_components)
        self.maps_ = parts.maps
        self.method_ = "kronecker" if isinstance(features, KroneckerFeatures) else "paired"
        if isinstance(features, KroneckerFeatures):
            warn_of_zeros(self, sum(part.n_components for part in features.inner), stacklevel=5)
        return features

    def _draw_parts(self, parts: Parts, sample: Sample) -> PairedFeatures | KroneckerFeatures:
        """Sample the maps of the factors, and combine them by the parameter `method`."""
        # Sorted by the number of components that makes a factor exact. The last map gets the remaining components.
        exact = parts.exact_components(sample.X.shape[1])
        order = sorted(range(len(exact)), key=lambda i: exact[i])
        fits = math.prod(exact[i] for i in order[:-1]) <= self.n_components
        if self.method == "paired" or (self.method == "auto" and not fits):
            drawn = [
                scalar_copies(m, part, sample, self.n_components)
                for m, part in zip(parts.maps, parts.kernels, strict=True)
            ]
            return PairedFeatures(tuple(drawn), self.n_components)
        return self._draw_kronecker(parts, order, exact, sample)

    def _draw_kronecker(self, parts: Parts, order: list[int], exact: list[float], sample: Sample) -> KroneckerFeatures:
        maps = parts.maps
        widths = [maps[i].n_components if math.isinf(exact[i]) else int(exact[i]) for i in order[:-1]]
        count = math.prod(widths)
        if count > self.n_components:
            msg = (
                f"ProductMap: Kronecker products of maps of {' x '.join(map(str, widths))} components need at least "
                f"n_components={count}, got {self.n_components}. Use maps of fewer components, or method='paired'."
            )
            raise ParameterError(msg)
        last = order[-1]
        shares = np.diff(np.linspace(0, self.n_components, count + 1).astype(int))
        shares = np.minimum(shares, exact[last]).astype(int)
        drawn = [
            draw_components(maps[i], parts.kernels[i], sample, m)
            for i, m in [*zip(order[:-1], widths, strict=True), *((last, int(m)) for m in shares)]
        ]
        for features in drawn:
            check_unsigned(self, features)
        return KroneckerFeatures(tuple(drawn[: len(widths)]), self.n_components, tuple(drawn[len(widths) :]))
