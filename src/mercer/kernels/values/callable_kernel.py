"""A function of two rows, or of two matrices of rows, as a kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from mercer.errors import DataError, ParameterError
from mercer.kernels.base import Kernel
from mercer.parameters import Choice, check_parameter

__all__ = ["CallableKernel"]

Array = np.ndarray
# Number of rows for which a function of matrices is evaluated to obtain the diagonal: so many values are computed per
# row, and so many times fewer calls are made.
DIAGONAL_ROWS = 32


@dataclass(frozen=True, repr=False)
class CallableKernel(Kernel):
    """A kernel given by a function.

    The function must be symmetric and positive definite, of which only k(x, x) >= 0 is checked. Landmark features
    (`Nystroem`) are the map of such kernels. To pickle the kernel, or a model with it, the function must be one that
    pickle can store, such as a function of a module; a lambda is not.

    Parameters
    ----------
    function : callable
        Function that returns values of the kernel, see `takes`. It is called from several threads at once.
    takes : {"matrices", "rows"}, default="matrices"
        "matrices": ``function(X, Y)`` returns the matrix (n, m) of the values of n rows X and m rows Y, as
        ``sklearn.metrics.pairwise.rbf_kernel`` does. "rows": ``function(x, y)`` returns the value of two rows, which
        are vectors. This is slow, since it is called for every pair of rows. Rows are dense and in float64.
    diagonal : callable or None, default=None
        ``diagonal(X)`` returns the vector of k(x, x) for the rows of X; None means that it is computed by `function`.

    See Also
    --------
    Precomputed : A kernel given by its matrix.
    Kernel : Base class for kernels with parameters, which are written in a few lines, too.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from mercer import CallableKernel, Nystroem
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> Nystroem(CallableKernel(rbf_kernel), n_components=10, random_state=0).fit_transform(X).shape
    (50, 10)
    """

    function: Callable[[Any, Any], Any]
    takes: Literal["matrices", "rows"] = "matrices"
    diagonal: Callable[[Any], Any] | None = None

    structure: ClassVar[str] = "a function, known by its values only"

    def __post_init__(self) -> None:
        check_parameter("CallableKernel", "takes", self.takes, Choice("matrices", "rows"))
        for name in ("function", "diagonal"):
            value = getattr(self, name)
            if not callable(value) and not (name == "diagonal" and value is None):
                msg = f"CallableKernel: {name} must be a function, got {value!r}."
                raise ParameterError(msg)

    def __repr__(self) -> str:
        options = "" if self.takes == "matrices" else f", takes={self.takes!r}"
        return f"CallableKernel({getattr(self.function, '__qualname__', repr(self.function))}{options})"

    def _values(self, X: Array, Y: Array) -> Array:
        if self.takes == "matrices":
            return self._checked(self.function(X, Y), (len(X), len(Y)), "function(X, Y)")
        values = [[self.function(x, y) for y in Y] for x in X]
        return self._checked(values, (len(X), len(Y)), "function(x, y) of all pairs of rows")

    def _diagonal(self, X: Array) -> Array:
        values = self._diagonal_values(X)
        if (values < 0).any():
            msg = (
                f"{self!r}: k(x, x) must be >= 0, got {values.min():g}. The function is not positive definite: a "
                "distance is not a kernel, but a decreasing function of it, such as exp(-distance), can be."
            )
            raise DataError(msg)
        return values

    def _diagonal_values(self, X: Array) -> Array:
        if self.diagonal is not None:
            return self._checked(self.diagonal(X), (len(X),), "diagonal(X)")
        if self.takes == "rows":
            return self._checked([self.function(x, x) for x in X], (len(X),), "function(x, x) of all rows")
        starts = range(0, len(X), DIAGONAL_ROWS)
        tiles = (X[start : start + DIAGONAL_ROWS] for start in starts)
        return np.concatenate([np.zeros(0), *(np.diagonal(self._values(tile, tile)) for tile in tiles)])

    def _checked(self, values: Any, shape: tuple[int, ...], what: str) -> Array:
        """Return values of the function as an array; raise unless they are finite numbers of the given shape."""
        try:
            values = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            msg = f"{self!r}: {what} must be numbers, one for each pair of rows, got {values!r:.80}."
            raise DataError(msg) from error
        if values.shape != shape and values.size:
            hint = " For a function of two single rows, write takes='rows'." if self.takes == "matrices" else ""
            msg = f"{self!r}: {what} must have the shape {shape}, got {values.shape}.{hint}"
            raise DataError(msg)
        if not np.isfinite(values).all():
            msg = f"{self!r}: {what} must be finite, got NaN or infinity."
            raise DataError(msg)
        return values.reshape(shape)
