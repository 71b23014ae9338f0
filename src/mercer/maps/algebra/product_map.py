"""Maps of products of kernels: products of the features of the factors."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from mercer.errors import ParameterError
from mercer.kernels import Kernel, Matern, Polynomial, Product, Scaled
from mercer.maps.algebra.copies import check_unsigned, draw_columns, scalar_copies
from mercer.maps.algebra.joined import KroneckerFeatures, PairedFeatures
from mercer.maps.algebra.parts import _PartsMap
from mercer.maps.base import BaseMap
from mercer.maps.parameters import check_choice

__all__ = ["ProductMap"]

Array = np.ndarray


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


def factors(kernel: Kernel, weight: float = 1.0) -> Iterator[Kernel]:
    """Yield the factors of a product; a weight in front belongs to the first."""
    if isinstance(kernel, Product):
        yield from factors(kernel.left, weight)
        yield from factors(kernel.right)
    elif isinstance(kernel, Scaled):
        yield from factors(kernel.kernel, weight * kernel.weight)
    else:
        yield kernel if weight == 1 else weight * kernel
