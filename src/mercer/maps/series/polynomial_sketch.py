"""Sketches of polynomial kernels by products of random projections: the map `PolynomialSketch`.

Every component is a product of p projections, where p is the degree of the kernel. In contrast, the module
`random_maclaurin` expands the kernel into terms of degrees 0 to p. The module `projection_products` samples the
products.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp

from mercer._docs import doc
from mercer.errors import ParameterError
from mercer.features import Features, check_finite
from mercer.kernels import Kernel, Polynomial
from mercer.maps.base import DrawnMap
from mercer.maps.series.inputs import PreparedRows
from mercer.maps.series.projection_products import HadamardProducts, ProjectionProducts, draw_products, pairing
from mercer.parameters import Choice, Domain
from mercer.theory.products import PROJECTIONS, ScaledPairs, sketch_variance

__all__ = ["PolynomialFeatures", "PolynomialSketch"]

Array = np.ndarray


@doc
class PolynomialSketch(DrawnMap):
    r"""Sketch of a polynomial kernel by products of random projections.

    The kernel :math:`(c + s\,x^\top y)^p` is the p-th power of the inner product of the extended rows
    :math:`(\sqrt s\,x, \sqrt c)`. Each component is the product of p independent random projections of the extended row
    [1]_. If the weights are rows of sign-Hadamard matrices, a component takes :math:`O(p \log d)` operations [2]_. If
    the weights are complex, the variance at high degrees is much lower [3]_.

    Parameters
    ----------
    kernel : Kernel, default=None
        A polynomial kernel, or a number times one; None means ``Polynomial(degree=2)``.
    %(n_components)s
    projection : {"rademacher", "gaussian", "sphere", "complex", "srht"}, default="complex"
        Distribution of the weights of the projections, as for `RandomMaclaurin`.
    %(random_state)s
    %(n_jobs)s

    Attributes
    ----------
    features_ : PolynomialFeatures
        The sampled features: a pure function of rows.
    %(kernel_)s
    %(n_features_in_)s

    See Also
    --------
    RandomMaclaurin : Approximates the kernel term by term, which is more accurate if low degrees dominate.
    TensorSketch : Approximates polynomial kernels of wide sparse rows.

    References
    ----------
    .. [1] Kar, Karnick (2012), Random Feature Maps for Dot Product Kernels, AISTATS.
    .. [2] Hamid, Xiao, Gittens, DeCoste (2014), Compact Random Feature Maps, ICML.
    .. [3] Wacker, Kanagawa, Filippone (2022), Improved Random Features for Dot Product Kernels, arXiv:2201.08712.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Polynomial, PolynomialSketch
    >>> X = np.random.default_rng(0).normal(size=(100, 6)) / 6
    >>> feature_map = PolynomialSketch(Polynomial(degree=4), n_components=4096, random_state=0).fit(X)
    >>> bool(abs(feature_map.gram(X) - Polynomial(degree=4)(X)).mean() < 0.1)
    True
    """

    needs: ClassVar[str] = "a polynomial kernel, (c + s x . y)^p, or a number times one"
    default_kernel: ClassVar[Kernel] = Polynomial(degree=2)
    parameter_domains: ClassVar[Mapping[str, Domain]] = {"projection": Choice(*PROJECTIONS)}
    features_: PolynomialFeatures

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        projection: Literal["rademacher", "gaussian", "sphere", "complex", "srht"] = "complex",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.projection = projection
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        summands = kernel.summands()
        return len(summands) == 1 and isinstance(summands[0][1], Polynomial)

    @property
    def unbiased(self) -> bool | str:
        return True

    def _independent(self, kernel: Kernel) -> dict[str, Any] | None:  # noqa: ARG002 - the same for every kernel
        return {"projection": "rademacher" if self.projection in ("complex", "srht") else self.projection}

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> PolynomialFeatures:  # noqa: ARG002
        factor, polynomial = polynomial_of(kernel)
        d, m, p = X.shape[1] + (polynomial.coef0 > 0), self.n_components, int(polynomial.degree)
        if self.projection == "srht":
            products: ProjectionProducts = HadamardProducts.draw(d, p, m, float(np.sqrt(factor / m)), rng)
        else:
            paired, share = pairing(self.projection, m)
            degrees = np.full(len(share), p)
            products = draw_products(self.projection, d, degrees, np.sqrt(factor * share), paired, rng)
        return PolynomialFeatures(products, float(np.sqrt(polynomial.scale)), float(np.sqrt(polynomial.coef0)))

    def _variance(self, X: Any, Y: Any) -> Array:
        factor, polynomial = polynomial_of(self.kernel_)
        left = self.features_.extended(X.astype(np.float64))
        right = left if Y is None else self.features_.extended(Y.astype(np.float64))
        pairs = ScaledPairs.all_of(left, right, np.zeros(left.shape[0]), np.zeros(right.shape[0]))
        p = int(polynomial.degree)
        variance = np.maximum(sketch_variance(self.projection, pairs.directions, p, self.n_components), 0.0)
        with np.errstate(divide="ignore"):  # a kernel times zero
            return pairs.square(variance, (p, p), 2 * np.log(factor))


@dataclass(frozen=True, eq=False)
class PolynomialFeatures(Features):
    """Sampled features of a polynomial kernel v (c + s x . y)^p: an immutable callable that maps rows to features.

    Each row x is extended to (sqrt(s) x, sqrt(c)), which is (slope * x, constant) in the names of the fields. If c = 0,
    the constant is not appended. A feature is a scaled product of p random projections of the extended row.
    """

    products: ProjectionProducts
    slope: float  # number that the rows are multiplied by, sqrt(s) for the kernel (c + s x . y)^p
    constant: float  # number appended to every row, sqrt(c); zero means that nothing is appended

    @property
    def n_components(self) -> int:
        return self.products.n_components

    def astype(self, dtype: Any) -> Self:
        """Return the same features with the random weights converted to `dtype`, the dtype of the rows."""
        return replace(self, products=self.products.astype(dtype))

    def extended(self, X: Any) -> Any:
        """Return the extended rows (slope * x, constant) for the rows x of `X`. A constant of zero is not appended."""
        X = X if self.slope == 1 else X * X.dtype.type(self.slope)
        if not self.constant:
            return X
        column = np.full((X.shape[0], 1), self.constant, X.dtype)
        return sp.hstack([X, sp.csr_array(column)], format="csr") if sp.issparse(X) else np.hstack([X, column])

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`."""
        rows = self.extended(X)
        if not sp.issparse(rows):
            rows = np.ascontiguousarray(rows)
        with np.errstate(over="ignore", invalid="ignore"):
            self.products(PreparedRows(rows, None, 0.0), out)
        check_finite("PolynomialSketch", out)


def polynomial_of(kernel: Kernel) -> tuple[float, Polynomial]:
    """Return (c, q) for a kernel of the form c * q, where c is a number and q is a `Polynomial` kernel."""
    [(factor, polynomial)] = kernel.summands()
    if not isinstance(polynomial, Polynomial):
        msg = f"PolynomialSketch needs a polynomial kernel, got {kernel!r}."
        raise ParameterError(msg)
    return factor, polynomial
