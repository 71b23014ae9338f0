"""Functions from rows to features, with fixed parameters: the result of fitting a map.

`Features` is the base class. A user's own features subclass it, usually as a frozen dataclass, and add `n_components`,
`astype` and `__call__`; everything else has a default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from mercer.errors import DataError

__all__ = [
    "Features",
    "Lengthscales",
    "LinearForm",
    "RowGradients",
    "check_finite",
    "features_of",
    "parameter_bytes",
    "rows_to_features",
]

Array = np.ndarray


class Lengthscales(Protocol):
    """Base class for derivatives of an objective with respect to the lengthscales, one lengthscale per column of X.

    The objective, such as a marginal likelihood, is a function of the approximate kernel matrix Z Z', where Z are the
    features of all rows. It therefore has the same value for Z and Z Q with an orthogonal matrix Q. The random numbers
    of the map are fixed.
    """

    def gradient(self, X: Array, Z: Array, G: Array) -> Array:
        """Return the contribution of a block of rows to the gradient of the objective.

        The gradient is with respect to the logarithms of the lengthscales.

        Parameters
        ----------
        X : ndarray of shape (n, d)
            Rows, in float64.
        Z : ndarray of shape (n, n_components)
            Features of these rows.
        G : ndarray of shape (n, n_components)
            Derivative of the objective with respect to Z.

        Returns
        -------
        ndarray of shape (d,)
            One derivative per lengthscale. The gradient is the sum over all blocks plus `gradient_of_draw`.
        """

    def gradient_of_draw(self, ZG: Array) -> Array:
        """Return the part (d,) of the gradient that is due to fitted parameters, which depend on the lengthscales.

        An example is the kernel matrix of the landmarks of Nystroem features. The part is zero if no fitted parameter
        depends on the lengthscales. `ZG` is the matrix Z'G over all rows, where Z are the features and G is the
        derivative of the objective with respect to Z.
        """

    def multiplied(self, factors: Array) -> Features:
        """Return features with the same random numbers, and with the lengthscale of column i of X times factors[i]."""


@dataclass(frozen=True, eq=False)
class LinearForm:
    """Features Z written as C W, with features C that take less time than Z, and a matrix W.

    Sums over rows that are linear or quadratic in Z can be computed for C and multiplied by W afterwards.

    Attributes
    ----------
    inner : Features
        The features C. They can be written into an array of float64, whatever the dtype of the rows.
    matrix : ndarray of shape (inner.n_components, n_components)
        The matrix W.
    share : float
        Smallest squared singular value of W, divided by the largest one, or less. The relative rounding error of second
        moments of C is multiplied by up to 1 / share if they are transformed to second moments of Z.
    triangular : bool
        Whether W is upper triangular, so that products take half of the time.
    """

    inner: Features
    matrix: Array
    share: float
    triangular: bool = False


#: Picklable function of rows (n, d), dense or CSR, that yields the gradients (n, d) of several functions at these rows,
#: one function after the other. The gradients are with respect to the rows, in float64.
RowGradients = Callable[[Any], Iterator[Array]]


class Features(ABC):
    """Base class of functions from rows to features.

    The parameters of such a function are fixed, and it does not refer to the map that created it. A subclass has an
    attribute or property `n_components`, the number of components.
    """

    if TYPE_CHECKING:
        # Subclasses declare these as fields of a dataclass, as class attributes or as properties.
        @property
        def n_components(self) -> int: ...

        @property
        def signs(self) -> Array | None: ...

        @property
        def is_complex(self) -> bool: ...

        @property
        def lengthscales(self) -> Lengthscales | None: ...

        @property
        def linear_form(self) -> LinearForm | None: ...

        @property
        def landmark_residuals(self) -> tuple[Any, Array] | None: ...

    else:
        #: None if the approximate kernel is positive semi-definite, else the sign +1 or -1 of each component.
        signs = None
        #: Whether the features are complex numbers, of the precision of the rows.
        is_complex = False
        #: Derivatives with respect to the lengthscales, or None if they have no closed form.
        lengthscales = None
        #: The features as linear functions of features that take less time, or None.
        linear_form = None
        #: Rows at which the features represent the kernel k exactly, and for each of them what the features without it
        #: would leave of k(x, x); None if there are no such rows.
        landmark_residuals = None

    #: Optional method ``gradients(coef) -> RowGradients or None``: the gradients of the functions z(x)'c with respect
    #: to x, for the features z(x) and each column c of `coef` (n_components, t); None if there is no closed form.
    gradients: Callable[[Array], RowGradients | None] | None = None

    @abstractmethod
    def astype(self, dtype: Any) -> Self:
        """Return the same features for rows of another dtype, float32 or float64."""

    @abstractmethod
    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`; `X` has the dtype that was passed to `astype`."""

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of the features, given the dtype of the rows."""
        return np.result_type(dtype, np.complex64) if self.is_complex else np.dtype(dtype)


def features_of(features: Features, X: Any) -> Array:
    """Return the features of the rows `X` as a new array; `X` must have the dtype passed to ``features.astype``."""
    out = np.empty((X.shape[0], features.n_components), features.output_dtype(X.dtype))
    features(X, out)
    return out


def rows_to_features(features: Features, X: Any) -> Array:
    """Return the features of float32 or float64 rows `X`, after converting `features` to the dtype of `X`."""
    return features_of(features.astype(X.dtype), X)


def parameter_bytes(features: Any) -> int:
    """Return the memory in bytes of the arrays that fitted features consist of. An array that occurs twice counts once.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, RandomFourier
    >>> feature_map = RandomFourier(Gaussian(1.0), 100, random_state=0).fit(np.zeros((1, 5)))
    >>> parameter_bytes(feature_map.features_)  # 50 frequencies of 5 features, and 50 phases
    2400
    """
    arrays: dict[int, int] = {}
    seen: set[int] = set()
    left = [features]
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, np.ndarray):
            base = value if value.base is None else value.base
            arrays[id(base)] = min(value.nbytes, getattr(base, "nbytes", value.nbytes))
        elif isinstance(value, Mapping):
            left += value.values()
        elif isinstance(value, list | tuple | set | frozenset):
            left += value
        elif hasattr(value, "__dict__") and not isinstance(value, type) and not callable(getattr(value, "fit", None)):
            left += vars(value).values()
    return sum(arrays.values())


def check_finite(owner: str, out: Array) -> None:
    """Raise if features have overflowed, that is, if an entry of `out` is infinite or NaN."""
    # One pass over values that are in cache: a sum of finite numbers is finite, unless all are near overflow.
    with np.errstate(over="ignore", invalid="ignore"):
        total = out.sum()
    if not np.isfinite(total) and not np.isfinite(out).all():
        msg = f"{owner}: features overflow {out.dtype}. Scale the rows down, or pass float64."
        raise DataError(msg)
