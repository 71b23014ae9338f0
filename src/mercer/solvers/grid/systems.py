"""Second moments of features of a grid, as operators, and the linear systems of Gaussian processes with them.

A process f(x) = sum_m d_m b_m z_m(x), with unweighted features z, weights d_m^2 > 0 and b ~ N(0, I), has the posterior
mean b = A^-1 D c with A = D G D + s^2 I, where G are the second moments of z, c their products with the targets, and D
the diagonal matrix of the d_m. Components are in the order of `GridFeatures`: for each part a constant, cosines and
sines. Vectors are real.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.fft
import scipy.linalg

from mercer.linalg.cholesky import factorize
from mercer.statistics.grid_sums import GridSums, TargetScale
from mercer.statistics.moments import Moments, symmetric

__all__ = [
    "DenseGram",
    "Gram",
    "Preconditioner",
    "System",
    "ToeplitzGram",
    "conjugate_gradients",
    "dense_factor",
    "inverse_of",
    "inverse_root_product",
    "low_block",
]

Array = np.ndarray
# Number of rows of a block of second moments that are gathered at a time.
PANEL = 256
# Largest number of steps of conjugate gradients.
MOST_STEPS = 2000
# Largest number of steps of the iteration for roots, whose vectors are stored, and number of steps after which its
# convergence is checked again.
MOST_BASIS, CHECKED = 400, 5


class Gram(ABC):
    """Second moments G of unweighted features: a symmetric matrix that is applied to vectors."""

    size: int

    @abstractmethod
    def block(self, index: Array) -> Array:
        """Return the rows and columns of G with the given indices, as a new array."""

    @abstractmethod
    def times(self, vector: Array) -> Array:
        """Return G times a vector."""

    @abstractmethod
    def low(self, size: int) -> Array:
        """Return the indices of about `size` components of largest weights."""


@dataclass(frozen=True)
class DenseGram(Gram):
    """Second moments as a matrix, for sums over groups of columns."""

    matrix: Array  # (D, D)

    @property
    def size(self) -> int:  # type: ignore[override]
        return len(self.matrix)

    def block(self, index: Array) -> Array:
        return self.matrix[np.ix_(index, index)]

    def times(self, vector: Array) -> Array:
        return self.matrix @ vector

    def low(self, size: int) -> Array:  # noqa: ARG002 - systems with a matrix are solved by a factorization
        return np.arange(self.size)


@dataclass(frozen=True)
class ToeplitzGram(Gram):
    """Second moments of one part of a grid, which depend on differences of frequencies only.

    The sums t_k of w exp(-i k . t) over rows, for |k| <= 2 m along each axis, hold them. A product with a vector is a
    convolution: two fast Fourier transforms.
    """

    sums: Array  # complex, (4 m_1 + 1, ...)
    index: Array  # (p, d), one of each pair of frequencies
    constant: bool = False  # whether there is a first component that is one for all rows

    @property
    def size(self) -> int:  # type: ignore[override]
        return 2 * len(self.index) + 1 + self.constant

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def _highest(self) -> Array:
        return (np.array(self.sums.shape) - 1) // 4

    @cached_property
    def _flat(self) -> tuple[Array, Array, Array, int]:
        """Real and imaginary parts of the sums, positions of the frequencies relative to zero, and that of zero."""
        strides = np.array([int(np.prod(self.sums.shape[a + 1 :])) for a in range(self.sums.ndim)])
        middle = int(2 * self._highest @ strides)
        return (
            np.ascontiguousarray(self.sums.real).ravel(),
            np.ascontiguousarray(self.sums.imag).ravel(),
            (self.index @ strides),
            middle,
        )

    def low(self, size: int) -> Array:
        p, first = len(self.index), int(self.constant)
        pairs = np.arange(min(p, max(1, (size - 1) // 2)))
        return np.concatenate([np.arange(first + 1), first + 1 + pairs, first + 1 + p + pairs])

    def block(self, index: Array) -> Array:
        real, imaginary, at, middle = self._flat
        p, first = len(self.index), int(self.constant)
        offset = index - first
        frequency = np.where(offset <= p, offset - 1, offset - 1 - p)  # -1 for constants
        k = np.where(offset > 0, at[frequency] if p else 0, 0)
        sine, plain = offset > p, offset <= 0
        factor = np.where(plain, 1 / np.sqrt(2), 1.0)  # the components are 1, sqrt(2) cos a and sqrt(2) sin a
        out = np.empty((len(index), len(index)))
        for start in range(0, len(index), PANEL):
            rows = slice(start, start + PANEL)
            minus, plus = middle + k[rows, None] - k, middle + k[rows, None] + k
            s, t = sine[rows, None], sine[None, :]
            # 2 cos a cos b = C- + C+, 2 sin a sin b = C- - C+, 2 sin a cos b = S+ + S-, 2 cos a sin b = S+ - S-. Sums
            # of exp(-i k . t) have the real part C and the imaginary part -S.
            mixed = s != t
            part = np.where(mixed, -imaginary[plus], real[minus])
            other = np.where(mixed, -imaginary[minus], real[plus])
            out[rows] = part + np.where(t, -1.0, 1.0) * other
            out[rows] *= factor[rows, None] * factor
        return out

    def block_sums(self) -> Array:
        """Return the sums of the components over rows."""
        inner = tuple(slice(m, 3 * m + 1) for m in self._highest)
        sums = self.contracted(self.sums[inner])
        return np.concatenate([sums[:1], sums]) if self.constant else sums

    def times(self, vector: Array) -> Array:
        first = int(self.constant)
        unit = vector[first:].copy() if first else vector
        if first:  # the constant component equals that of frequency zero
            unit[0] += vector[0]
        m, at, mirrored, shape = self._half_box
        p = len(self.index)
        # The function with these coefficients is real, so that half of its Fourier coefficients determine it.
        half = np.zeros((*(2 * m[:-1] + 1), m[-1] + 1), complex)
        value = (unit[1 : p + 1] - 1j * unit[p + 1 :]) / np.sqrt(2)
        flat = half.reshape(-1)
        flat[at] = value
        flat[mirrored[1]] = np.conj(value[mirrored[0]])
        middle = tuple(m[:-1])
        half[(*middle, 0)] = unit[0]
        for axis in range(len(m) - 1):
            half = scipy.fft.ifft(wrapped(half, axis, shape[axis]), axis=axis, norm="forward", overwrite_x=True)
        function = scipy.fft.irfft(half, shape[-1], axis=-1, norm="forward", overwrite_x=True)
        function *= self._density
        half = scipy.fft.rfft(function, axis=-1, norm="forward", overwrite_x=True)[..., : m[-1] + 1]
        for axis in reversed(range(len(m) - 1)):
            half = unwrapped(scipy.fft.fft(half, axis=axis, norm="forward"), axis, m[axis])
        value = half.reshape(-1)[at] * np.sqrt(2)
        zero = [half[(*middle, 0)].real]
        return np.concatenate([zero, zero, value.real, -value.imag] if first else [zero, value.real, -value.imag])

    @cached_property
    def _half_box(self) -> tuple[Array, Array, tuple[Array, Array], list[int]]:
        """Layout of the coefficients whose last index is not negative.

        The highest frequencies m, the positions of the frequencies, those of the mirror images of frequencies whose
        last index is zero, and the shape of a grid of points on which products of functions are exact.
        """
        m = self._highest
        shape = (*(2 * m[:-1] + 1), m[-1] + 1)
        offset = np.append(m[:-1], 0)
        at = np.ravel_multi_index(tuple((self.index + offset).T), shape)
        level = np.flatnonzero(self.index[:, -1] == 0)
        mirror = np.ravel_multi_index(tuple((offset - self.index[level]).T), shape)
        return m, at, (level, mirror), [scipy.fft.next_fast_len(int(n), real=True) for n in self.sums.shape]

    @cached_property
    def _density(self) -> Array:
        """The density of rows on the points of the grid: the real function whose coefficients are the sums."""
        box, shape = self.sums, self._half_box[-1]
        for axis, size in enumerate(shape):
            box = wrapped(box, axis, size)
        return scipy.fft.ifftn(box, norm="forward").real

    def expanded(self, vector: Array) -> Array:
        """Return the coefficients a_j of a sum of components as a series sum_j a_j exp(i j . t), in a centered box."""
        m, p = self._highest, len(self.index)
        box = np.zeros(tuple(2 * m + 1), complex)
        value = (vector[1 : p + 1] - 1j * vector[p + 1 :]) / np.sqrt(2)
        box[tuple((m + self.index).T)] = value
        box[tuple((m - self.index).T)] = np.conj(value)
        box[tuple(m)] = vector[0]
        return box

    def contracted(self, box: Array) -> Array:
        """Return the products of components with sums of exp(-i j . t), given these sums for |j| <= m."""
        m = self._highest
        value = box[tuple((m + self.index).T)] * np.sqrt(2)
        return np.concatenate([[box[tuple(m)].real], value.real, -value.imag])


def wrapped(box: Array, axis: int, size: int) -> Array:
    """Return centered frequencies along an axis, from -m to m, in the order of a transform of `size` points."""
    m = box.shape[axis] // 2
    box = np.moveaxis(box, axis, 0)
    out = np.zeros((size, *box.shape[1:]), box.dtype)
    out[: m + 1] = box[m:]
    out[size - m :] = box[:m]
    return np.moveaxis(out, 0, axis)


def unwrapped(box: Array, axis: int, m: int) -> Array:
    """Return the centered frequencies from -m to m along an axis, of the result of a transform."""
    box = np.moveaxis(box, axis, 0)
    return np.moveaxis(np.concatenate([box[len(box) - m :], box[: m + 1]]), 0, axis)


@dataclass(frozen=True, eq=False)
class System:
    """Sums over rows that determine a process: second moments, products with targets, and moments of targets.

    Targets are scaled: the mean (or zero) is subtracted, and they are divided by their size.
    """

    gram: Any  # Gram
    cross: Array  # (D, t)
    squares: Array  # (t,), sums of w y^2
    weight: float  # sum of w

    @classmethod
    def of_grid(cls, sums: GridSums, index: Array, scale: TargetScale, offset: Array, *, constant: bool) -> System:
        """Return the system of a grid with one part; `offset` is what is subtracted from targets."""
        gram = ToeplitzGram(sums.weights, index, constant)
        shift = (offset - scale.center) / scale.size
        m = gram._highest
        inner = tuple(slice(a, 3 * a + 1) for a in m)
        cross = [gram.contracted(u - s * sums.weights[inner]) for u, s in zip(sums.targets, shift, strict=True)]
        if constant:
            cross = [np.concatenate([c[:1], c]) for c in cross]
        squares = sums.target_squares - 2 * shift * sums.target_sum + np.square(shift) * sums.weight
        return cls(gram, np.stack(cross, axis=1), np.maximum(squares, 0.0), sums.weight)

    @classmethod
    def of_moments(cls, moments: Moments, scale: TargetScale, offset: Array) -> System:
        """Return the system of second moments of unweighted features."""
        targets = moments.targets
        shift = targets.target_mean - offset
        cross = (targets.cross + np.outer(targets.feature_sum, shift)) / scale.size
        squares = (targets.target_scatter + targets.weight * np.square(shift)) / np.square(scale.size)
        return cls(DenseGram(symmetric(moments.about(None))), cross, squares, targets.weight)


def dense_factor(gram: Gram, roots: Array, noise: float, index: Array | None = None) -> Array | None:
    """Return the Cholesky factor R of A = D G D + s^2 I = R'R, or of a block of A; None if it does not exist."""
    index = np.arange(gram.size) if index is None else index
    A = np.ascontiguousarray(gram.block(index))
    A *= roots[index]
    A *= roots[index, None]
    A[np.diag_indices_from(A)] += noise**2
    return np.triu(A) if factorize(A) else None


def low_block(gram: Gram, roots: Array, noise: float, size: int) -> tuple[Array, Array]:
    """Return the indices of about `size` components of largest weights, and the inverse of their block of A.

    The inverse is in float64: an inverse in float32 of a block of condition 1e6 is no preconditioner.
    """
    index = gram.low(size)
    factor = dense_factor(gram, roots, noise, index)
    if factor is None:
        msg = "The block of lowest frequencies is not positive definite to rounding. Raise the noise."
        raise np.linalg.LinAlgError(msg)
    return index, inverse_of(factor)


def inverse_of(factor: Array) -> Array:
    """Return the inverse of A = R'R, given the upper triangular matrix R, which may be overwritten."""
    inverse, _ = scipy.linalg.lapack.dpotri(factor.T, lower=1, overwrite_c=1)
    inverse = np.tril(inverse)
    return inverse + np.tril(inverse, -1).T


@dataclass(frozen=True, eq=False)
class Preconditioner:
    """The inverse of the exact block of A of the lowest frequencies, and of the diagonal of the others."""

    diagonal: Array  # (M,)
    index: Array  # (k,), components of the block
    inverse: Array  # (k, k)

    @classmethod
    def of(cls, gram: Gram, roots: Array, noise: float, size: int) -> Self:
        """Return the preconditioner with a block of about `size` components."""
        return cls(gram_diagonal(gram) * np.square(roots) + noise**2, *low_block(gram, roots, noise, size))

    def __call__(self, r: Array) -> Array:
        z = r / self.diagonal
        z[self.index] = self.inverse @ r[self.index]
        return z

    @cached_property
    def _root(self) -> Array:
        """Root of the inverse of the block. Any regular matrix would do, so the inverse may have rounding errors."""
        try:
            return np.asarray(scipy.linalg.cholesky(self.inverse, lower=True, check_finite=False))
        except np.linalg.LinAlgError:
            values, vectors = scipy.linalg.eigh(self.inverse, check_finite=False)
            return np.asarray(vectors * np.sqrt(np.maximum(values, np.finfo(float).eps * values[-1])))

    def root(self, v: Array, *, transposed: bool = False) -> Array:
        """Return R v or R'v for a root R of the preconditioner, which is RR'."""
        z = v / np.sqrt(self.diagonal)
        z[self.index] = (self._root.T if transposed else self._root) @ v[self.index]
        return z


def conjugate_gradients(
    gram: Gram, roots: Array, noise: float, right: Array, precondition: Preconditioner, *, tolerance: float
) -> tuple[Array, int, bool]:
    """Return the solution of A b = right, the number of steps, and whether the iteration has converged.

    The iteration stops when the preconditioned residual, which estimates the error of b in the norm of A, has decreased
    by `tolerance`; the residual itself hardly depends on the low frequencies that matter.
    """
    square = noise**2
    x = np.zeros_like(right)
    r = right.copy()
    z = precondition(r)
    step = z.copy()
    rz = first = float(r @ z)
    if first == 0:
        return x, 0, True
    for count in range(1, MOST_STEPS + 1):
        product = roots * gram.times(roots * step) + square * step
        rate = rz / float(step @ product)
        x += rate * step
        r -= rate * product
        z = precondition(r)
        rz, before = float(r @ z), rz
        if not np.isfinite(rz):
            return x, count, False
        if rz <= tolerance**2 * first:
            return x, count, True
        step = z + (rz / before) * step
    return x, MOST_STEPS, False


def inverse_root_product(
    gram: Gram, roots: Array, noise: float, normals: Array, precondition: Preconditioner, *, tolerance: float
) -> tuple[Array, int, bool]:
    r"""Return a root of the inverse of A times a vector, the number of steps, and whether the iteration has converged.

    For standard normal numbers, the result has the covariance of :math:`A^{-1}`. With a preconditioner
    :math:`R R^\top`, the root is :math:`R (R^\top A R)^{-1/2}`, of which the second factor is that of the tridiagonal
    matrix of a Lanczos iteration [1]_. The iteration stops when the result has changed by less than `tolerance` of its
    norm in `CHECKED` steps.

    References
    ----------
    .. [1] Chow, Saad (2014), Preconditioned Krylov subspace methods for sampling multivariate Gaussian distributions,
       SIAM Journal on Scientific Computing.
    """
    size = float(np.linalg.norm(normals))
    if size == 0:
        return np.zeros_like(normals), 0, True
    basis, diagonal, beside = [normals / size], [], []
    before = np.zeros(0)
    converged = False
    for count in range(1, MOST_BASIS + 1):
        step = precondition.root(basis[-1])
        product = precondition.root(roots * gram.times(roots * step) + noise**2 * step, transposed=True)
        diagonal.append(float(basis[-1] @ product))
        for one in basis:  # rounding errors would make the basis less and less orthogonal
            product -= (one @ product) * one
        beside.append(float(np.linalg.norm(product)))
        last = beside[-1] <= np.finfo(float).eps * max(diagonal)
        if last or count % CHECKED == 0 or count == MOST_BASIS:
            values, vectors = scipy.linalg.eigh_tridiagonal(np.array(diagonal), np.array(beside[:-1]))
            shares = vectors @ (vectors[0] / np.sqrt(np.maximum(values, np.finfo(float).tiny)))
            change = float(np.linalg.norm(shares - np.pad(before, (0, count - len(before)))))
            converged = bool(last or change <= tolerance * float(np.linalg.norm(shares)))
            before = shares
            if converged:
                break
        basis.append(product / beside[-1])
    found = np.zeros_like(normals)
    for share, one in zip(before, basis, strict=False):
        found += size * share * one
    return precondition.root(found), len(before), converged


def gram_diagonal(gram: Gram) -> Array:
    """Return the diagonal of second moments: about the sum of weights for all components of a grid."""
    if isinstance(gram, DenseGram):
        return np.diagonal(gram.matrix).copy()
    assert isinstance(gram, ToeplitzGram)
    return np.full(gram.size, float(gram.sums[tuple((np.array(gram.sums.shape) - 1) // 2)].real))
