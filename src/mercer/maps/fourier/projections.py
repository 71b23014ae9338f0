"""Drawn frequencies, applied to rows: a dense matrix, or products of sparse factors that need none."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
import scipy.sparse as sp

from mercer import linalg
from mercer.errors import DataError
from mercer.maps.fourier.directions import Rotations

__all__ = [
    "ButterflyProjection",
    "DenseProjection",
    "HadamardProjection",
    "Projection",
    "StructuredProjection",
    "check_range",
]

Array = np.ndarray
# Columns of X up to which projecting and writing in one go beats a matrix product of BLAS (benchmarks/transform.py).
FUSED_UP_TO = 128


@dataclass(frozen=True, eq=False)
class DenseProjection:
    """Angles X W of frequencies W, one a column."""

    weights: Array  # (d, m)

    @property
    def n_frequencies(self) -> int:
        return self.weights.shape[1]

    @cached_property
    def gain(self) -> float:
        """Largest |angle| over the largest |entry| of a row."""
        return float(np.abs(self.weights).sum(axis=0).max(initial=0.0))

    def astype(self, dtype: Any) -> Self:
        """Return the same for rows of another dtype."""
        return replace(self, weights=self.weights.astype(dtype, copy=False))

    def __call__(self, X: Any) -> Array:
        """Return the angles of rows."""
        angles = X @ self.weights
        return angles.toarray() if sp.issparse(angles) else angles

    def pairs(self, X: Any, scale: float, out: Array) -> None:
        """Write sine-cosine pairs of the angles of rows."""
        if self._is_narrow(X):
            linalg.dense_pairs(np.ascontiguousarray(X), self.weights, scale, out)
        else:
            linalg.sincos_pairs(self(X), scale, out)

    def cosines(self, X: Any, phases: Array, scale: float, out: Array) -> None:
        """Write cosines of the angles of rows, each column shifted by a phase."""
        if self._is_narrow(X):
            linalg.dense_cosines(np.ascontiguousarray(X), self.weights, phases, scale, out)
        else:
            angles = self(X)
            linalg.cosines(angles, phases, scale, out)

    def write(self, X: Any, function: linalg.FunctionName, scale: float, out: Array) -> None:
        """Write a function of the angles of rows, times a scale."""
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
        # Without compiled kernels the matrix product of NumPy serves every width.
        return not sp.issparse(X) and X.shape[1] <= FUSED_UP_TO and linalg.instruction_set() != "numpy"


class StructuredProjection(ABC):
    """Angles r_j (Q x)_j for blocks of orthogonal Q that are products of sparse factors: O(log d) operations each."""

    radii: Array  # (m,)
    input_scale: Array | None  # (d,), multiplies the rows first

    @property
    @abstractmethod
    def width(self) -> int:
        """Columns of a block, a power of two."""

    @abstractmethod
    def _project(self, X: Array, out: Array) -> None:
        """Write Q x for prepared rows."""

    @abstractmethod
    def _pairs(self, X: Array, scale: float, out: Array) -> None:
        """Write sine-cosine pairs of the angles of prepared rows."""

    @abstractmethod
    def _write(self, X: Array, function: linalg.FunctionName, scale: float, out: Array) -> None:
        """Write a function of the angles of prepared rows."""

    @property
    def n_frequencies(self) -> int:
        return len(self.radii)

    @cached_property
    def gain(self) -> float:
        """Largest |angle| over the largest |entry| of a row, from above."""
        scale = 1.0 if self.input_scale is None else np.abs(self.input_scale).max()
        return float(np.abs(self.radii).max(initial=0.0) * self.width * scale)

    def __call__(self, X: Any) -> Array:
        """Return the angles of rows."""
        X = self._prepare(X)
        angles = np.empty((len(X), self.n_frequencies), X.dtype)
        self._project(X, angles)
        angles *= self.radii
        return angles

    def pairs(self, X: Any, scale: float, out: Array) -> None:
        """Write sine-cosine pairs of the angles of rows, which are never in memory as a whole."""
        self._pairs(self._prepare(X), scale, out)

    def cosines(self, X: Any, phases: Array, scale: float, out: Array) -> None:
        """Write cosines of the angles of rows, each column shifted by a phase."""
        linalg.cosines(self(X), phases, scale, out)

    def write(self, X: Any, function: linalg.FunctionName, scale: float, out: Array) -> None:
        """Write a function of the angles of rows, times a scale; the angles are never in memory as a whole."""
        self._write(self._prepare(X), function, scale, out)

    def _prepare(self, X: Any) -> Array:
        """Return rows ready for the kernels: dense, scaled, contiguous."""
        X = X.toarray() if sp.issparse(X) else X
        if self.input_scale is not None:
            X = X * self.input_scale
        return np.ascontiguousarray(X, dtype=self.radii.dtype)


@dataclass(frozen=True, eq=False)
class HadamardProjection(StructuredProjection):
    """Q = H S_3 H S_2 H S_1 with random signs S_i and Hadamard matrices H."""

    signs: Array  # (blocks, factors, P)
    radii: Array
    input_scale: Array | None = None

    @property
    def width(self) -> int:
        return self.signs.shape[2]

    def astype(self, dtype: Any) -> Self:
        """Return the same for rows of another dtype."""
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
    """Q = B' S_2 H S_1 with a butterfly matrix B for each block, and signs and a Hadamard matrix that all share.

    The draw is O(P) numbers a block, its rotations. What the kernels want, O(P log P), is made at first use and kept
    with the object, but not in its pickle.
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
        """The rotations as multiply-adds, in the dtype of the draw."""
        return linalg.butterfly_plan(self.rotations.cosines, self.rotations.sines).astype(self.radii.dtype)

    @cached_property
    def _casts(self) -> dict[np.dtype, Self]:
        return {self.radii.dtype: self}

    def astype(self, dtype: Any) -> Self:
        """Return the same for rows of another dtype, made once."""
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


def apply_in_place(function: linalg.FunctionName, out: Array) -> None:
    """Replace angles by a function of them."""
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
    """Raise if a power of an angle of these rows could overflow its dtype and turn into NaN, or if an entry is NaN."""
    values = X.data if sp.issparse(X) else X
    largest = max(float(values.max(initial=0.0)), -float(values.min(initial=0.0)))  # no array of absolute values
    limit = (float(np.finfo(X.dtype).max) / 4) ** (1 / power) / max(projection.gain, 1.0)
    if not largest <= limit:  # NaN compares as neither
        what = "angles" if power == 1 else "features"
        msg = (
            f"X has entries up to {largest:.3g}, whose {what} would overflow {X.dtype}: needed |x| <= {limit:.3g}. "
            "Scale the columns first (StandardScaler), or pass float64."
        )
        raise DataError(msg)
