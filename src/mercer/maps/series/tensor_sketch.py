"""Tensor sketches of polynomial kernels: the map `TensorSketch`.

A count sketch is a sparse linear map, and a tensor sketch is the convolution of several count sketches. In contrast to
`PolynomialSketch`, the cost grows with the number of nonzero entries of the rows instead of the number of columns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import scipy.fft
import scipy.sparse as sp

from mercer._docs import doc
from mercer.errors import DataError
from mercer.features import Features
from mercer.kernels import Constant, Kernel, Polynomial, Product, Scaled, Transformed
from mercer.kernels.spectral import Affine
from mercer.maps.base import DrawnMap
from mercer.maps.series.inputs import compose_affine
from mercer.theory import tensor_sketch_variance
from mercer.theory.products import ScaledPairs

__all__ = ["SketchFeatures", "TensorSketch"]

Array = np.ndarray


@doc
class TensorSketch(DrawnMap):
    r"""Tensor sketch of a polynomial kernel, suitable for very wide sparse rows.

    A count sketch adds every entry of a row, with a random sign, to one of D buckets, which is chosen at random. It
    preserves inner products in expectation. For the kernel :math:`(c + s\,x^\top y)^p`, the row x is extended to
    :math:`(\sqrt s\,x, \sqrt c)`. Then p independent count sketches of the extended row are convolved by fast Fourier
    transforms. The result is a count sketch of all products of p entries of the extended row [1]_, so that

    .. math:: \mathbb{E}\,[z(x)^\top z(y)] = (c + s\,x^\top y)^p.

    Parameters
    ----------
    kernel : Kernel, default=None
        A polynomial kernel of any degree, homogeneous or not, optionally scaled or with transformed inputs (centering
        keeps sparse rows sparse), or a product of such kernels. None means ``Polynomial(degree=2)``.
    n_components : int, default=512
        Number of components of the map. Numbers without large prime factors are fastest. An odd number has slightly
        less variance than the even numbers next to it.
    %(random_state)s
    %(n_jobs)s

    Attributes
    ----------
    %(kernel_)s
    features_ : SketchFeatures
        The sampled sketch: a pure function of rows.
    %(n_features_in_)s

    See Also
    --------
    PolynomialSketch : Approximates polynomial kernels with less variance, for rows that are not very wide.
    RandomMaclaurin : Approximates the kernel term by term, which is more accurate if low degrees dominate.

    Notes
    -----
    `transform` takes O(p (nnz + n D log D)) operations for n rows with nnz nonzero entries. The map stores
    O(p (d + D)) numbers, never d D. Hashes and signs are fully independent, so that ``variance(X, Y)`` is exact for
    every degree and number of components (`theory.tensor_sketch_variance`). For similar rows it grows like :math:`3^p`
    with the degree, so that high degrees require many components.

    References
    ----------
    .. [1] Pham, Pagh (2013), Fast and scalable polynomial kernels via explicit feature maps, KDD.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from mercer import Polynomial, TensorSketch
    >>> X = sp.random_array((20, 100_000), density=1e-3, rng=0, format="csr")
    >>> X = X / sp.linalg.norm(X)
    >>> feature_map = TensorSketch(Polynomial(degree=3), n_components=2048, random_state=0).fit(X)
    >>> feature_map.transform(X).shape
    (20, 2048)
    >>> bool(abs(feature_map.gram(X) - Polynomial(degree=3)(X)).max() < 0.2)
    True
    """

    needs: ClassVar[str] = "a polynomial kernel, k(x, y) = (c + s x . y)^p, or a product of such kernels"
    default_kernel: ClassVar[Kernel] = Polynomial(degree=2)
    features_: SketchFeatures

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        form = product_form(kernel)
        return form is not None and len(form.factors) > 0

    @property
    def unbiased(self) -> bool | str:
        return True

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> SketchFeatures:  # noqa: ARG002
        form = product_form(kernel)
        assert form is not None
        d, n_components = X.shape[1], int(self.n_components)
        sketches = [CountSketch.draw(factor, d, n_components, rng) for factor in form.factors]
        # The first sketch is multiplied by the square root of the weight, which saves a pass over the output.
        sketches[0] = sketches[0].times(np.sqrt(form.weight))
        return SketchFeatures(tuple(sketches), n_components)

    def _variance(self, X: Any, Y: Any) -> Array:
        form = product_form(self.kernel_)
        assert form is not None
        # float64, because the variance is computed as a difference of nearly equal numbers.
        X = X.astype(np.float64)
        Y = X if Y is None else Y.astype(np.float64)
        pairs = {factor: factor.pairs(X, Y) for factor in set(form.factors)}
        units = [pairs[factor].directions for factor in form.factors]
        variance = tensor_sketch_variance([(u.inner, u.norms, u.overlap) for u in units], self.n_components)
        # The variance is a product of squared lengths of rows and a number that depends on their directions only.
        log_lengths = sum(pairs[factor].log_left + pairs[factor].log_right for factor in form.factors)
        with np.errstate(over="ignore", under="ignore", divide="ignore"):
            return np.exp(2 * (np.log(form.weight) + log_lengths) + np.log(variance))


# ---- sampled features -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class CountSketch:
    """A count sketch: for each i, entry x_i of a row times ``entries[i]`` is added to component ``buckets[i]``.

    The components have the initial values `offset`.
    """

    buckets: Array  # (d,), int32
    entries: Array  # (d,), a random sign times the scale of the feature
    offset: Array  # (n_components,), the sketch of the constant and of the center of the inputs

    def __post_init__(self) -> None:
        # Products of sparse matrices do not check indices, and would write outside of the result.
        if len(self.buckets) and not 0 <= self.buckets.min() <= self.buckets.max() < len(self.offset):
            msg = f"CountSketch: buckets must be indices of {len(self.offset)} components."
            raise ValueError(msg)

    @classmethod
    def draw(cls, factor: LinearFactor, d: int, n_components: int, rng: np.random.Generator) -> CountSketch:
        """Sample a bucket and a sign for each input feature on which `factor` depends, and for its constant."""
        columns, slopes, shift = compose_affine(factor.inputs, d)
        hashes = rng.integers(n_components, size=len(columns) + 1)
        signs = rng.choice((-1.0, 1.0), size=len(columns) + 1)
        buckets, entries = np.zeros(d, np.int32), np.zeros(d)
        buckets[columns] = hashes[:-1]
        entries[columns] = signs[:-1] * slopes * np.sqrt(factor.scale)
        constants = signs * np.append(-shift * np.sqrt(factor.scale), np.sqrt(factor.coef0))
        return cls(buckets, entries, np.bincount(hashes, weights=constants, minlength=n_components))

    def times(self, number: float) -> CountSketch:
        """Return this sketch multiplied by a number."""
        return replace(self, entries=number * self.entries, offset=number * self.offset)

    def astype(self, dtype: Any) -> CountSketch:
        """Return the same sketch with entries and offset converted to `dtype`, the dtype of the rows."""
        cast = {"entries": self.entries.astype(dtype, copy=False), "offset": self.offset.astype(dtype, copy=False)}
        return replace(self, **cast)

    def __call__(self, X: Any) -> Array:
        """Return the sketches of the rows, a dense array of shape (n, n_components)."""
        shape = (X.shape[0], len(self.offset))
        if sp.issparse(X):
            # The column index of each entry is replaced by its bucket; `toarray` sums entries with equal indices.
            relabeled = (X.data * self.entries[X.indices], self.buckets[X.indices], X.indptr)
            sketch = sp.csr_array(relabeled, shape=shape).toarray()
        else:
            matrix = (self.entries, self.buckets, np.arange(X.shape[1] + 1, dtype=np.int32))
            sketch = np.ascontiguousarray(X @ sp.csr_array(matrix, shape=(X.shape[1], shape[1])))
        nonzero = np.flatnonzero(self.offset)  # a single bucket, that of the constant, unless the inputs are centered
        sketch[:, nonzero] += self.offset[nonzero]
        return sketch


@dataclass(frozen=True, eq=False)
class SketchFeatures(Features):
    """Sampled tensor sketch: an immutable, picklable function from rows to features, independent of scikit-learn."""

    sketches: tuple[CountSketch, ...]
    n_components: int

    def astype(self, dtype: Any) -> Self:
        """Return the same features with the sketches converted to `dtype`, the dtype of the rows."""
        return replace(self, sketches=tuple(sketch.astype(dtype) for sketch in self.sketches))

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`. Both arrays must have the dtype set by `astype`."""
        with np.errstate(over="ignore", invalid="ignore"):
            out[:] = self._convolved(X)
        if not np.isfinite(out).all():
            msg = (
                f"TensorSketch: a product of {len(self.sketches)} factors overflows {out.dtype}. "
                "Scale the rows down, for example to unit norm, or pass float64."
            )
            raise DataError(msg)

    def _convolved(self, X: Any) -> Array:
        """Return, for each row, the circular convolution of its p count sketches."""
        first, *others = self.sketches
        if not others:
            return first(X)
        spectrum = scipy.fft.rfft(first(X), axis=1)
        for sketch in others:
            spectrum *= scipy.fft.rfft(sketch(X), axis=1)
        return scipy.fft.irfft(spectrum, n=self.n_components, axis=1, overwrite_x=True)


# ---- structure of the kernel ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LinearFactor:
    """One factor coef0 + scale * (u . v) of a polynomial kernel, where u and v are rows after affine input maps."""

    coef0: float
    scale: float
    inputs: tuple[Affine, ...] = ()

    def pairs(self, X: Any, Y: Any) -> ScaledPairs:
        """Return all pairs of extended rows of `X` and `Y`.

        The extended rows are the rows after the affine input maps, times sqrt(scale), with sqrt(coef0) appended.
        """
        return ScaledPairs.all_of(self._extended(X), self._extended(Y), np.zeros(X.shape[0]), np.zeros(Y.shape[0]))

    def _extended(self, X: Any) -> Any:
        for affine in self.inputs:
            X = affine(X)
        X = X * np.sqrt(self.scale)
        column = np.full((X.shape[0], 1), np.sqrt(self.coef0))
        return sp.hstack([X, sp.csr_array(column)], format="csr") if sp.issparse(X) else np.hstack([X, column])


@dataclass(frozen=True)
class ProductForm:
    """A kernel of the form weight * product of linear factors coef0 + scale * (u . v)."""

    weight: float
    factors: tuple[LinearFactor, ...] = ()


def product_form(kernel: Kernel) -> ProductForm | None:
    """Return the kernel as a product of linear factors, or None if it does not have this form."""
    if isinstance(kernel, Polynomial):
        factor = LinearFactor(float(kernel.coef0), float(kernel.scale))
        return ProductForm(1.0, (factor,) * int(kernel.degree))
    if isinstance(kernel, Constant):
        return ProductForm(float(kernel.value))
    if isinstance(kernel, Product):
        left, right = product_form(kernel.left), product_form(kernel.right)
        if left is None or right is None:
            return None
        return ProductForm(left.weight * right.weight, left.factors + right.factors)
    if not isinstance(kernel, Scaled | Transformed):
        return None
    inner = product_form(kernel.kernel)
    if inner is None:
        return None
    if isinstance(kernel, Scaled):
        return replace(inner, weight=float(kernel.weight) * inner.weight)
    outer = kernel._inputs()
    if outer.matrix is not None:  # a sketch takes each feature by itself
        return None
    return replace(inner, factors=tuple(replace(f, inputs=(outer, *f.inputs)) for f in inner.factors))
