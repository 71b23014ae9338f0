"""Products X W of rows X with a dense or structured matrix W of random frequencies. The entries of X W are angles.

A frequency is a column of W. It is a radius times a direction, which is a unit vector. Dense directions are sampled in
the module `directions` and stored as a matrix. Structured directions are sampled in this module. They come in blocks of
P directions, where P >= d is a power of two. A block is a product of sparse factors (Hadamard or butterfly matrices),
which are applied to rows in O(log P) operations per angle without forming W. Radii are quantiles of uniform numbers,
which the functions in `RADII` sample.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from scipy import special

from mercer import linalg
from mercer.errors import DataError

__all__ = [
    "BIASED",
    "RADII",
    "STRUCTURED_DIRECTIONS",
    "STRUCTURED_FROM",
    "STRUCTURED_UP_TO",
    "ButterflyProjection",
    "DenseProjection",
    "HadamardProjection",
    "Projection",
    "Rotations",
    "StructuredProjection",
    "butterfly_rotations",
    "check_range",
    "chi_quantile",
    "draw_structured",
    "hadamard_signs",
]

Array = np.ndarray
# Features of X up to which projecting and writing in one pass beats a matrix product of BLAS (benchmarks/transform.py).
FUSED_UP_TO = 128
# Features of X from which butterflies beat dense projections (benchmarks/transform.py).
STRUCTURED_FROM = 32
# Features of X up to which butterflies are chosen. Sparse rows are converted to dense blocks for them, which pays off
# up to about this width. The choice does not depend on whether rows are sparse: equal seeds have to draw equal maps.
STRUCTURED_UP_TO = 2**15
# Number of factors (Hadamard matrix times random signs) in sign-Hadamard directions. Three make them nearly uniform.
HADAMARD_FACTORS = 3
# Least size of a butterfly matrix. Smaller ones are not faster, and padding narrower rows to this size lowers the
# variance.
BUTTERFLY_WIDTH = 64

#: Names of directions that are products of sparse factors, applied without forming the matrix.
STRUCTURED_DIRECTIONS = ("butterfly", "hadamard")
#: Names of directions that are not exactly uniform on the sphere, and why.
BIASED = {"hadamard": "sign-Hadamard directions are uniform on the sphere only in the limit of many features of X"}


# ---- radii --------------------------------------------------------------------------------------


def plain(m: int, rng: np.random.Generator) -> Array:
    """Return m independent uniform numbers in [0, 1)."""
    return rng.random(m)


def stratified(m: int, rng: np.random.Generator) -> Array:
    """Return m random numbers in random order, one in each interval [i/m, (i + 1)/m).

    Each number is uniform in [0, 1), but the numbers are not independent.
    """
    return (rng.permutation(m) + rng.random(m)) / max(m, 1)


#: Functions that sample the uniform numbers whose quantiles are the radii, by the value of the parameter `radii`.
RADII: dict[str, Callable[[int, np.random.Generator], Array]] = {"plain": plain, "stratified": stratified}


def chi_quantile(uniforms: Array, degrees: int) -> Array:
    """Return the quantiles at `uniforms` of the chi distribution with `degrees` degrees of freedom.

    This is the distribution of the norm of a standard normal vector of R^degrees.
    """
    return np.sqrt(2 * special.gammaincinv(0.5 * degrees, uniforms))


# ---- structured directions ----------------------------------------------------------------------


def hadamard_signs(m: int, d: int, rng: np.random.Generator) -> Array:
    """Return random signs of shape (blocks, HADAMARD_FACTORS, P), which define m sign-Hadamard directions.

    P is the least power of two >= d, and blocks = ceil(m / P).
    """
    ambient = 1 << (d - 1).bit_length()
    blocks = -(-m // ambient)
    return rng.choice(np.array([-1, 1], dtype=np.int8), size=(blocks, HADAMARD_FACTORS, ambient))


@dataclass(frozen=True)
class Rotations:
    """Cosines and sines of the plane rotations of several butterfly matrices of size P x P, one array per level.

    The level that joins matrices of size h, for h = 1, 2, 4, ..., P / 2, has arrays of shape (blocks, P / (2h)), where
    `blocks` is the number of butterfly matrices.
    """

    cosines: tuple[Array, ...]
    sines: tuple[Array, ...]


def butterfly_rotations(m: int, d: int, rng: np.random.Generator) -> tuple[Array, Rotations]:
    """Sample m butterfly directions. Return random signs (2, P), and the rotations of the butterfly matrices.

    P >= d, a power of two, is the size of a butterfly matrix. A butterfly matrix of size 2h joins two butterfly
    matrices of size h by one rotation. If the angle is uniform for h = 1, and the squared cosine has the distribution
    Beta(h/2, h/2) for h > 1, then every column of the matrix is exactly uniform on the sphere. The reason is that the
    two halves of a uniform direction are independent uniform directions times lengths, and the lengths have the
    distribution of this cosine and sine. The rows of the matrix are not uniform, so its transpose is applied to the
    data. (Munkhoeva et al. 2018 use another distribution of the angles, which is biased.)

    Before the butterfly matrices, random signs and one Hadamard transform mix the features of X. All butterfly matrices
    share these signs. This does not change the variance, because each direction is uniform for any given signs.
    """
    widest = 1 << max(0, m.bit_length() - 1)  # largest power of two <= m; a larger matrix would have unused directions
    width = max(1 << (d - 1).bit_length(), min(BUTTERFLY_WIDTH, widest))
    blocks = -(-m // width)
    signs = rng.choice(np.array([-1.0, 1.0]), size=(2, width))
    cosines, sines = [], []
    for level in range(width.bit_length() - 1):
        half = 1 << level
        shape = (blocks, width // (2 * half))
        if level == 0:
            angles = rng.uniform(0, 2 * np.pi, shape)
            cosines.append(np.cos(angles))
            sines.append(np.sin(angles))
        else:
            squares = rng.beta(0.5 * half, 0.5 * half, shape)
            cosines.append(np.sqrt(squares))
            sines.append(np.sqrt(1 - squares))
    if width == 1:
        cosines = sines = [np.zeros((blocks, 0))]
    return signs, Rotations(tuple(cosines), tuple(sines))


# ---- projections --------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DenseProjection:
    """Angles X W of rows X with a dense matrix W of frequencies, one per column."""

    weights: Array  # (d, m)

    @property
    def n_frequencies(self) -> int:
        return self.weights.shape[1]

    @cached_property
    def gain(self) -> float:
        """Largest |angle| of any row x with |x_i| <= 1 for all i. It is the maximum over j of sum_i |W_ij|."""
        return float(np.abs(self.weights).sum(axis=0).max(initial=0.0))

    def astype(self, dtype: Any) -> Self:
        """Return the same projection for rows of another dtype."""
        return replace(self, weights=self.weights.astype(dtype, copy=False))

    def __call__(self, X: Any) -> Array:
        """Return the angles X W."""
        angles = X @ self.weights
        return angles.toarray() if sp.issparse(angles) else angles

    def pairs(self, X: Any, scale: float, out: Array) -> None:
        """Write scale * cos(X W), then scale * sin(X W), into the columns of `out`."""
        if self._is_narrow(X):
            linalg.dense_pairs(np.ascontiguousarray(X), self.weights, scale, out)
        else:
            linalg.sincos_pairs(self(X), scale, out)

    def cosines(self, X: Any, phases: Array, scale: float, out: Array) -> None:
        """Write scale * cos(X W + phases) into `out`."""
        if self._is_narrow(X):
            linalg.dense_cosines(np.ascontiguousarray(X), self.weights, phases, scale, out)
        else:
            angles = self(X)
            linalg.cosines(angles, phases, scale, out)

    def write(self, X: Any, function: linalg.FunctionName, scale: float, out: Array) -> None:
        """Write ``scale * f(X W)`` into `out`, where f is the function whose name is `function`."""
        if self._is_narrow(X):
            linalg.dense(np.ascontiguousarray(X), self.weights, out, function=function, scale=scale)
            return
        if sp.issparse(X):
            out[...] = self(X)
        else:
            np.matmul(X, self.weights, out=out)
        apply_in_place(function, out)
        out *= out.dtype.type(scale)

    def _is_narrow(self, X: Any) -> bool:
        # Without compiled kernels the matrix product of NumPy is the best for every width.
        return not sp.issparse(X) and X.shape[1] <= FUSED_UP_TO and linalg.instruction_set() != "numpy"


class StructuredProjection(ABC):
    """Base class of angles r_j (Q x)_j of rows x, with radii r_j and a structured matrix Q of directions.

    Q is a stack of orthogonal P x P matrices, called blocks. Each block is a product of sparse factors, so that an
    angle takes O(log P) operations. Rows with fewer than P features are padded with zeros.
    """

    radii: Array  # (m,)
    input_scale: Array | None  # (d,), multiplies the features of X before the projection

    @property
    @abstractmethod
    def width(self) -> int:
        """Number P of directions of a block of Q, a power of two."""

    @abstractmethod
    def _project(self, X: Array, out: Array) -> None:
        """Write Q x into `out` for each row x of `X`, which `_prepare` has returned."""

    @abstractmethod
    def _pairs(self, X: Array, scale: float, out: Array) -> None:
        """Write scale * cos(angles), then scale * sin(angles), into the columns of `out`; `X` is from `_prepare`."""

    @abstractmethod
    def _write(self, X: Array, function: linalg.FunctionName, scale: float, out: Array) -> None:
        """Write ``scale * f(angles)`` into `out`, with f named by `function`, for rows returned by `_prepare`."""

    @property
    def n_frequencies(self) -> int:
        return len(self.radii)

    @cached_property
    def gain(self) -> float:
        """Upper bound of |angle| over all angles of all rows x with |x_i| <= 1 for all i."""
        scale = 1.0 if self.input_scale is None else np.abs(self.input_scale).max()
        return float(np.abs(self.radii).max(initial=0.0) * self.width * scale)

    def __call__(self, X: Any) -> Array:
        """Return the matrix of angles, with the entry r_j (Q x)_j for each row x of `X` and each frequency j."""
        X = self._prepare(X)
        angles = np.empty((len(X), self.n_frequencies), X.dtype)
        self._project(X, angles)
        angles *= self.radii
        return angles

    def pairs(self, X: Any, scale: float, out: Array) -> None:
        """Write scale * cos(angles), then scale * sin(angles), into the columns of `out`.

        The angles of all rows are never in memory at once.
        """
        self._pairs(self._prepare(X), scale, out)

    def cosines(self, X: Any, phases: Array, scale: float, out: Array) -> None:
        """Write scale * cos(angles + phases) into `out`."""
        linalg.cosines(self(X), phases, scale, out)

    def write(self, X: Any, function: linalg.FunctionName, scale: float, out: Array) -> None:
        """Write ``scale * f(angles)`` into `out`, where f is the function whose name is `function`.

        The angles of all rows are never in memory at once.
        """
        self._write(self._prepare(X), function, scale, out)

    def _prepare(self, X: Any) -> Array:
        """Return rows as the compiled functions require them: dense, multiplied by `input_scale`, and contiguous."""
        X = X.toarray() if sp.issparse(X) else X
        if self.input_scale is not None:
            X = X * self.input_scale
        return np.ascontiguousarray(X, dtype=self.radii.dtype)


@dataclass(frozen=True, eq=False)
class HadamardProjection(StructuredProjection):
    """Structured angles with blocks Q = H S_3 H S_2 H S_1.

    H is the Hadamard matrix. Each block has its own diagonal matrices S_i of random signs.
    """

    signs: Array  # (blocks, factors, P)
    radii: Array
    input_scale: Array | None = None

    @property
    def width(self) -> int:
        return self.signs.shape[2]

    def astype(self, dtype: Any) -> Self:
        """Return the same projection for rows of another dtype."""
        scale = None if self.input_scale is None else self.input_scale.astype(dtype, copy=False)
        return replace(self, signs=self.signs.astype(dtype), radii=self.radii.astype(dtype), input_scale=scale)

    def _project(self, X: Array, out: Array) -> None:
        linalg.sign_hadamard(X, self.signs, out)

    def _pairs(self, X: Array, scale: float, out: Array) -> None:
        linalg.sign_hadamard_pairs(X, self.signs, self.radii, scale, out)

    def _write(self, X: Array, function: linalg.FunctionName, scale: float, out: Array) -> None:
        linalg.sign_hadamard(X, self.signs, out, radii=self.radii, function=function, scale=scale)


@dataclass(frozen=True, eq=False)
class ButterflyProjection(StructuredProjection):
    """Structured angles with blocks Q = B' S_2 H S_1, each with its own butterfly matrix B.

    All blocks share the diagonal matrices S_i of random signs and the Hadamard matrix H. The rotations that define B
    are O(P) numbers. The compiled functions use O(P log P) coefficients instead, which are computed at first use and
    cached with the object. They are not pickled.
    """

    signs: Array  # (2, P)
    rotations: Rotations
    radii: Array
    input_scale: Array | None = None

    @property
    def width(self) -> int:
        return self.signs.shape[1]

    @cached_property
    def plan(self) -> linalg.ButterflyPlan:
        """Coefficients with which the compiled functions apply the rotations, in the dtype of `radii`."""
        return linalg.butterfly_plan(self.rotations.cosines, self.rotations.sines).astype(self.radii.dtype)

    @cached_property
    def _casts(self) -> dict[np.dtype, Self]:
        return {self.radii.dtype: self}

    def astype(self, dtype: Any) -> Self:
        """Return the same projection for rows of another dtype. The result is cached for each dtype."""
        dtype = np.dtype(dtype)
        if dtype not in self._casts:
            scale = None if self.input_scale is None else self.input_scale.astype(dtype)
            signs, radii = self.signs.astype(dtype), self.radii.astype(dtype)
            self._casts[dtype] = replace(self, signs=signs, radii=radii, input_scale=scale)
        return self._casts[dtype]

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _project(self, X: Array, out: Array) -> None:
        linalg.butterfly(X, self.signs, self.plan, out)

    def _pairs(self, X: Array, scale: float, out: Array) -> None:
        linalg.butterfly_pairs(X, self.signs, self.plan, self.radii, scale, out)

    def _write(self, X: Array, function: linalg.FunctionName, scale: float, out: Array) -> None:
        linalg.butterfly(X, self.signs, self.plan, out, radii=self.radii, function=function, scale=scale)


Projection = DenseProjection | HadamardProjection | ButterflyProjection


def draw_structured(
    name: str,
    m: int,
    d: int,
    draw_radii: Callable[[int], Array],
    rng: np.random.Generator,
    *,
    input_scale: Array | None = None,
) -> HadamardProjection | ButterflyProjection:
    """Sample structured directions and radii, and return the projection on these frequencies.

    Parameters
    ----------
    name : {"butterfly", "hadamard"}
        Kind of the directions.
    m, d : int
        Number of frequencies, and number of features of the rows.
    draw_radii : callable
        Returns m radii, given the dimension P of the space R^P in which the directions are unit vectors.
    rng : Generator
        Source of randomness.
    input_scale : ndarray of shape (d,), default=None
        Numbers by which the features of X are multiplied before the projection. None means 1 for all features.
    """
    if name == "butterfly":
        mixing, rotations = butterfly_rotations(m, d, rng)
        return ButterflyProjection(mixing, rotations, draw_radii(mixing.shape[1]), input_scale)
    signs = hadamard_signs(m, d, rng)
    return HadamardProjection(signs, draw_radii(signs.shape[2]), input_scale)


def apply_in_place(function: linalg.FunctionName, out: Array) -> None:
    """Replace each angle a in `out` by f(a), where f is the function whose name is `function`."""
    if function == "sign":
        np.sign(out, out=out)
    elif function == "abs":
        np.abs(out, out=out)
    elif function == "signed_square":
        out *= np.abs(out)
    elif function == "exp":
        np.exp(out, out=out)
    elif function != "identity":
        np.maximum(out, 0, out=out)
        if function == "relu_squared":
            np.square(out, out=out)


def check_range(projection: Projection, X: Any, power: int = 1) -> None:
    """Raise if an entry of `X` is NaN, or if |angle|^power could overflow for some angle of the rows of `X`."""
    values = X.data if sp.issparse(X) else X
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))  # no array of absolute values
    limit = (float(np.finfo(X.dtype).max) / 4) ** (1 / power) / max(projection.gain, 1.0)
    if not largest <= limit:  # true for NaN as well
        what = "angles" if power == 1 else "features"
        msg = (
            f"X has entries up to {largest:.3g}, whose {what} would overflow {X.dtype}: needed |x| <= {limit:.3g}. "
            "Scale the features first (StandardScaler), or pass float64."
        )
        raise DataError(msg)
