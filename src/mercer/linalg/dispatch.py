"""Public functions of the floor: they check their arguments and call the best kernels there are.

The kernels are chosen once, at import: compiled ones for the best instruction set that the processor
has, or the NumPy twins when the extension is not installed.
"""

import threading
import warnings
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mercer.linalg import checks, twins
from mercer.linalg.butterfly import ButterflyPlan
from mercer.linalg.twins import FloatArray, FunctionName

__all__ = [
    "butterfly",
    "butterfly_pairs",
    "cosines",
    "dense",
    "dense_cosines",
    "dense_pairs",
    "instruction_set",
    "sign_hadamard",
    "sign_hadamard_pairs",
    "sincos_pairs",
]


class _Kernels(Protocol):
    """A compiled kernel set, or the twins."""

    def sincos_pairs(self, angles: FloatArray, scale: float, out: FloatArray) -> None: ...

    def cosines(self, angles: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> None: ...

    def sign_hadamard(
        self,
        X: FloatArray,
        signs: FloatArray,
        out: FloatArray,
        radii: FloatArray | None = None,
        function: FunctionName = "identity",
        scale: float = 1.0,
        product: bool = False,
    ) -> None: ...

    def sign_hadamard_pairs(
        self, X: FloatArray, signs: FloatArray, radii: FloatArray, scale: float, out: FloatArray
    ) -> None: ...

    def butterfly(
        self,
        X: FloatArray,
        signs: FloatArray,
        order: NDArray[np.int64],
        multipliers: FloatArray,
        factors: FloatArray,
        out: FloatArray,
        radii: FloatArray | None = None,
        function: FunctionName = "identity",
        scale: float = 1.0,
        product: bool = False,
    ) -> None: ...

    def butterfly_pairs(
        self,
        X: FloatArray,
        signs: FloatArray,
        order: NDArray[np.int64],
        multipliers: FloatArray,
        factors: FloatArray,
        radii: FloatArray,
        scale: float,
        out: FloatArray,
    ) -> None: ...

    def dense(
        self,
        X: FloatArray,
        weights: FloatArray,
        out: FloatArray,
        function: FunctionName = "identity",
        scale: float = 1.0,
        product: bool = False,
    ) -> None: ...

    def dense_pairs(self, X: FloatArray, weights: FloatArray, scale: float, out: FloatArray) -> None: ...

    def dense_cosines(
        self, X: FloatArray, weights: FloatArray, phases: FloatArray, scale: float, out: FloatArray
    ) -> None: ...


def _choose() -> tuple[str, _Kernels]:
    try:
        from mercer.linalg import _native
    except ImportError:
        return "numpy", twins
    best = _native.supported()[0]
    return best, getattr(_native, best)


_INSTRUCTION_SET, _KERNELS = _choose()
# Taken by the first use and never given back, so that threads cannot warn twice.
_FIRST_USE = threading.Lock()


def _kernels() -> _Kernels:
    if _INSTRUCTION_SET == "numpy" and _FIRST_USE.acquire(blocking=False):
        warnings.warn(
            "mercer: the compiled kernels are not installed; their NumPy twins serve, with equal results "
            "to rounding but several times slower. Install a C++ compiler and reinstall mercer.",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KERNELS


def instruction_set() -> str:
    """Name the kernels in use.

    Returns
    -------
    str
        "avx512", "avx2" or "baseline" for compiled kernels, "numpy" for their twins.

    Examples
    --------
    >>> instruction_set() in {"avx512", "avx2", "baseline", "numpy"}
    True
    """
    return _INSTRUCTION_SET


def sincos_pairs(angles: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Write the scaled cosines, then the scaled sines, of a matrix of angles.

    Parameters
    ----------
    angles : ndarray of shape (n, m)
        Angles in radians, float32 or float64.
    scale : float
        Factor of every cosine and sine.
    out : ndarray of shape (n, D), m <= D <= 2m
        Filled with `m` columns of cosines and the sines of the first ``D - m`` angles. Has the dtype of
        `angles` and shares no memory with it.

    Returns
    -------
    ndarray of shape (n, D)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> angles = np.array([[0.0, np.pi / 2]])
    >>> sincos_pairs(angles, 2.0, np.empty((1, 3))).round(12)
    array([[2., 0., 0.]])
    """
    name = "sincos_pairs"
    checks.check_array(name, "angles", angles, 2)
    checks.check_out(name, out, angles)
    checks.check_pair_width(name, angles.shape[1], out)
    checks.check_separate(name, "angles", angles, out)
    _kernels().sincos_pairs(angles, float(scale), out)
    return out


def cosines(angles: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Write the scaled cosines of a matrix of angles, each column shifted by a phase.

    Parameters
    ----------
    angles : ndarray of shape (n, m)
        Angles in radians, float32 or float64.
    phases : ndarray of shape (m,)
        Added to every row, in the dtype of `angles`.
    scale : float
        Factor of every cosine.
    out : ndarray of shape (n, m)
        Filled with ``scale * cos(angles + phases)``. Has the dtype of `angles`; it may be `angles`
        itself, but not overlap it in another way.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> angles = np.zeros((1, 2))
    >>> cosines(angles, np.array([0.0, np.pi]), 3.0, out=angles)
    array([[ 3., -3.]])
    """
    name = "cosines"
    checks.check_array(name, "angles", angles, 2)
    checks.check_array(name, "phases", phases, 1, angles.dtype)
    checks.check_out(name, out, angles)
    m = angles.shape[1]
    checks.check_columns(name, "phases", len(phases), m)
    checks.check_columns(name, "out", out.shape[1], m)
    in_place = angles.ctypes.data == out.ctypes.data and angles.strides == out.strides
    if not in_place:
        checks.check_separate(name, "angles", angles, out)
    checks.check_separate(name, "phases", phases, out)
    _kernels().cosines(angles, phases, float(scale), out)
    return out


def sign_hadamard(
    X: FloatArray,
    signs: FloatArray,
    out: FloatArray,
    *,
    radii: FloatArray | None = None,
    function: FunctionName = "identity",
    scale: float = 1.0,
    product: bool = False,
) -> FloatArray:
    r"""Project rows by products of random signs and Hadamard matrices.

    Block :math:`b` of the output is :math:`H D_{b,k} \cdots H D_{b,1} x / P^{k/2}`, for the row
    :math:`x` padded with zeros to length :math:`P`, :math:`H` the Hadamard matrix in Sylvester's order
    and :math:`D_{b,i}` the diagonal of ``signs[b, i - 1]``: an orthogonal map.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    signs : ndarray of shape (blocks, k, P), P a power of two >= d
        Entries +1 or -1, in the dtype of `X`.
    out : ndarray of shape (n, m), (blocks - 1) * P < m <= blocks * P
        Filled with the blocks side by side, the last one cut off at `m`. Has the dtype of `X` and
        shares no memory with it.
    radii : ndarray of shape (m,), optional
        Factor of each projection, in the dtype of `X`; ones by default.
    function : {"identity", "sign", "abs", "relu", "relu_squared", "signed_square", "exp"}
        What to do to the projections times radii: :math:`u`, :math:`\mathrm{sign}\,u` with 0 at 0,
        :math:`|u|`, :math:`\max(u, 0)`, :math:`\max(u, 0)^2`, :math:`u|u|` or :math:`e^u`. NaN stays NaN.
    scale : float
        Factor of the results.
    product : bool
        Whether to multiply `out` by the results instead of writing them there.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> X, signs = np.array([[3.0, 1.0, 0.0]]), np.ones((1, 1, 4))
    >>> sign_hadamard(X, signs, np.empty((1, 4)))
    array([[2., 1., 2., 1.]])
    """
    name = "sign_hadamard"
    checks.check_array(name, "X", X, 2)
    checks.check_signs(name, signs, X)
    checks.check_out(name, out, X)
    blocks, _, width = signs.shape
    checks.check_projection(name, "the columns of out", out.shape[1], blocks, width)
    checks.check_function(name, function)
    _check_radii(name, radii, out)
    for what, array in (("X", X), ("signs", signs)):
        checks.check_separate(name, what, array, out)
    _kernels().sign_hadamard(X, signs, out, radii, function, float(scale), bool(product))
    return out


def sign_hadamard_pairs(
    X: FloatArray, signs: FloatArray, radii: FloatArray, scale: float, out: FloatArray
) -> FloatArray:
    """Write the pairs of `sincos_pairs` at angles ``radii * sign_hadamard(X)``.

    The angles are never in memory as a whole: the cost is near that of writing the output.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    signs : ndarray of shape (blocks, k, P), P a power of two >= d
        Entries +1 or -1, in the dtype of `X`.
    radii : ndarray of shape (m,), (blocks - 1) * P < m <= blocks * P
        Factor of each projection, in the dtype of `X`.
    scale : float
        Factor of every cosine and sine.
    out : ndarray of shape (n, D), m <= D <= 2m
        Filled with `m` columns of cosines and ``D - m`` of sines. Has the dtype of `X` and shares no
        memory with it.

    Returns
    -------
    ndarray of shape (n, D)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> X, signs = np.array([[2.0, 0.0]]), np.ones((1, 2, 2))
    >>> sign_hadamard_pairs(X, signs, np.array([np.pi / 4, 1.0]), 1.0, np.empty((1, 4))).round(12)
    array([[0., 1., 1., 0.]])
    """
    name = "sign_hadamard_pairs"
    checks.check_array(name, "X", X, 2)
    checks.check_signs(name, signs, X)
    checks.check_array(name, "radii", radii, 1, X.dtype)
    checks.check_out(name, out, X)
    blocks, _, width = signs.shape
    checks.check_projection(name, "radii", len(radii), blocks, width)
    checks.check_pair_width(name, len(radii), out)
    for what, array in (("X", X), ("signs", signs), ("radii", radii)):
        checks.check_separate(name, what, array, out)
    _kernels().sign_hadamard_pairs(X, signs, radii, float(scale), out)
    return out


def butterfly(
    X: FloatArray,
    signs: FloatArray,
    plan: ButterflyPlan,
    out: FloatArray,
    *,
    radii: FloatArray | None = None,
    function: FunctionName = "identity",
    scale: float = 1.0,
    product: bool = False,
) -> FloatArray:
    r"""Project rows by random signs, one Hadamard matrix and transposed butterfly matrices.

    Block :math:`b` of the output is :math:`B_b^\top D_2 H D_1 x / \sqrt P`, for the row :math:`x` padded with
    zeros to length :math:`P`, :math:`H` the Hadamard matrix in Sylvester's order, :math:`D_i` the diagonal of
    ``signs[i - 1]`` and :math:`B_b` the butterfly matrices of `plan`: an orthogonal map. Signs and :math:`H`
    are applied once for all blocks.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    signs : ndarray of shape (2, P), P a power of two >= d
        Entries +1 or -1, in the dtype of `X`.
    plan : ButterflyPlan
        Butterfly matrices of size P, in the dtype of `X`: see `butterfly_plan`.
    out : ndarray of shape (n, m), (blocks - 1) * P < m <= blocks * P
        Filled with the blocks side by side, the last one cut off at `m`. Has the dtype of `X` and
        shares no memory with it.
    radii : ndarray of shape (m,), optional
        Factor of each projection, in the dtype of `X`; ones by default.
    function : {"identity", "sign", "abs", "relu", "relu_squared", "signed_square", "exp"}
        What to do to the projections times radii: :math:`u`, :math:`\mathrm{sign}\,u` with 0 at 0,
        :math:`|u|`, :math:`\max(u, 0)`, :math:`\max(u, 0)^2`, :math:`u|u|` or :math:`e^u`. NaN stays NaN.
    scale : float
        Factor of the results.
    product : bool
        Whether to multiply `out` by the results instead of writing them there.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg import butterfly_plan
    >>> plan = butterfly_plan([np.array([[0.8]])], [np.array([[0.6]])])
    >>> X, signs = np.array([[1.0, 1.0]]), np.ones((2, 2))
    >>> np.square(butterfly(X, signs, plan, np.empty((1, 2)))).round(12)
    array([[1.28, 0.72]])
    """
    name = "butterfly"
    checks.check_array(name, "X", X, 2)
    checks.check_plan(name, plan, X)
    checks.check_mixing_signs(name, signs, plan, X)
    checks.check_out(name, out, X)
    checks.check_projection(name, "the columns of out", out.shape[1], *plan.shape)
    checks.check_function(name, function)
    _check_radii(name, radii, out)
    for what, array in (("X", X), ("signs", signs), *_arrays(plan)):
        checks.check_separate(name, what, array, out)
    arrays = plan.order, plan.multipliers, plan.factors
    _kernels().butterfly(X, signs, *arrays, out, radii, function, float(scale), bool(product))
    return out


def butterfly_pairs(
    X: FloatArray, signs: FloatArray, plan: ButterflyPlan, radii: FloatArray, scale: float, out: FloatArray
) -> FloatArray:
    """Write the pairs of `sincos_pairs` at angles ``radii * butterfly(X)``.

    The angles are never in memory as a whole: the cost is near that of writing the output.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    signs : ndarray of shape (2, P), P a power of two >= d
        Entries +1 or -1, in the dtype of `X`.
    plan : ButterflyPlan
        Butterfly matrices of size P, in the dtype of `X`: see `butterfly_plan`.
    radii : ndarray of shape (m,), (blocks - 1) * P < m <= blocks * P
        Factor of each projection, in the dtype of `X`.
    scale : float
        Factor of every cosine and sine.
    out : ndarray of shape (n, D), m <= D <= 2m
        Filled with `m` columns of cosines and ``D - m`` of sines. Has the dtype of `X` and shares no
        memory with it.

    Returns
    -------
    ndarray of shape (n, D)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer.linalg import butterfly_plan
    >>> plan = butterfly_plan([np.array([[1.0]])], [np.array([[0.0]])])
    >>> X, signs, radii = np.array([[2.0, 0.0]]), np.ones((2, 2)), np.array([0.5, 1.0]) * np.pi / 2**0.5
    >>> np.allclose(butterfly_pairs(X, signs, plan, radii, 1.0, np.empty((1, 3))), [[0.0, -1.0, 1.0]])
    True
    """
    name = "butterfly_pairs"
    checks.check_array(name, "X", X, 2)
    checks.check_plan(name, plan, X)
    checks.check_mixing_signs(name, signs, plan, X)
    checks.check_array(name, "radii", radii, 1, X.dtype)
    checks.check_out(name, out, X)
    checks.check_projection(name, "radii", len(radii), *plan.shape)
    checks.check_pair_width(name, len(radii), out)
    for what, array in (("X", X), ("signs", signs), ("radii", radii), *_arrays(plan)):
        checks.check_separate(name, what, array, out)
    _kernels().butterfly_pairs(X, signs, plan.order, plan.multipliers, plan.factors, radii, float(scale), out)
    return out


def dense(
    X: FloatArray,
    weights: FloatArray,
    out: FloatArray,
    *,
    function: FunctionName = "identity",
    scale: float = 1.0,
    product: bool = False,
) -> FloatArray:
    r"""Multiply rows by a matrix, each row alone: its result does not depend on the batch.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    weights : ndarray of shape (d, m)
        Matrix, in the dtype of `X`. It is copied once per call, which is little beside the products from
        some dozen rows on.
    out : ndarray of shape (n, m)
        Filled with ``scale * function(X @ weights)``. Has the dtype of `X` and shares no memory with it.
    function : {"identity", "sign", "abs", "relu", "relu_squared", "signed_square", "exp"}
        What to do to the products: :math:`u`, :math:`\mathrm{sign}\,u` with 0 at 0,
        :math:`|u|`, :math:`\max(u, 0)`, :math:`\max(u, 0)^2`, :math:`u|u|` or :math:`e^u`. NaN stays NaN.
    scale : float
        Factor of the results.
    product : bool
        Whether to multiply `out` by the results instead of writing them there.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> X, weights = np.array([[3.0, 1.0]]), np.array([[1.0, -1.0], [0.0, 1.0]])
    >>> dense(X, weights, np.empty((1, 2)), function="relu")
    array([[3., 0.]])
    """
    name = "dense"
    checks.check_array(name, "X", X, 2)
    checks.check_weights(name, weights, X)
    checks.check_out(name, out, X)
    checks.check_columns(name, "out", out.shape[1], weights.shape[1])
    checks.check_function(name, function)
    for what, array in (("X", X), ("weights", weights)):
        checks.check_separate(name, what, array, out)
    _kernels().dense(X, weights, out, function, float(scale), bool(product))
    return out


def dense_pairs(X: FloatArray, weights: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Write the pairs of `sincos_pairs` at angles ``X @ weights``, which are never in memory as a whole.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    weights : ndarray of shape (d, m)
        Frequencies, in the dtype of `X`; copied once per call.
    scale : float
        Factor of every cosine and sine.
    out : ndarray of shape (n, D), m <= D <= 2m
        Filled with `m` columns of cosines and ``D - m`` of sines. Has the dtype of `X` and shares no
        memory with it.

    Returns
    -------
    ndarray of shape (n, D)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> X, weights = np.array([[1.0, 2.0]]), np.array([[np.pi, 0.0], [0.0, np.pi / 4]])
    >>> dense_pairs(X, weights, 1.0, np.empty((1, 4))).round(12)
    array([[-1.,  0.,  0.,  1.]])
    """
    name = "dense_pairs"
    checks.check_array(name, "X", X, 2)
    checks.check_weights(name, weights, X)
    checks.check_out(name, out, X)
    checks.check_pair_width(name, weights.shape[1], out)
    for what, array in (("X", X), ("weights", weights)):
        checks.check_separate(name, what, array, out)
    _kernels().dense_pairs(X, weights, float(scale), out)
    return out


def dense_cosines(X: FloatArray, weights: FloatArray, phases: FloatArray, scale: float, out: FloatArray) -> FloatArray:
    """Write ``scale * cos(X @ weights + phases)``; the angles are never in memory as a whole.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    weights : ndarray of shape (d, m)
        Frequencies, in the dtype of `X`; copied once per call.
    phases : ndarray of shape (m,)
        Added to every row of angles, in the dtype of `X`.
    scale : float
        Factor of every cosine.
    out : ndarray of shape (n, m)
        Has the dtype of `X` and shares no memory with it.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`.

    Examples
    --------
    >>> import numpy as np
    >>> X, weights = np.array([[1.0]]), np.array([[np.pi, 0.0]])
    >>> dense_cosines(X, weights, np.zeros(2), 2.0, np.empty((1, 2)))
    array([[-2.,  2.]])
    """
    name = "dense_cosines"
    checks.check_array(name, "X", X, 2)
    checks.check_weights(name, weights, X)
    checks.check_array(name, "phases", phases, 1, X.dtype)
    checks.check_out(name, out, X)
    checks.check_columns(name, "phases", len(phases), weights.shape[1])
    checks.check_columns(name, "out", out.shape[1], weights.shape[1])
    for what, array in (("X", X), ("weights", weights), ("phases", phases)):
        checks.check_separate(name, what, array, out)
    _kernels().dense_cosines(X, weights, phases, float(scale), out)
    return out


def _check_radii(name: str, radii: FloatArray | None, out: FloatArray) -> None:
    if radii is None:
        return
    checks.check_array(name, "radii", radii, 1, out.dtype)
    checks.check_columns(name, "radii", len(radii), out.shape[1])
    checks.check_separate(name, "radii", radii, out)


def _arrays(plan: ButterflyPlan) -> list[tuple[str, NDArray[Any]]]:
    return [("plan.order", plan.order), ("plan.multipliers", plan.multipliers), ("plan.factors", plan.factors)]
