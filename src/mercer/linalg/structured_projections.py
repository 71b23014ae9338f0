"""Projections that are products of sparse factors: sign-Hadamard and butterfly, alone or with a function on top."""

from typing import Any

from numpy.typing import NDArray

from mercer.linalg import arguments
from mercer.linalg.butterfly import ButterflyPlan
from mercer.linalg.dispatch import kernels
from mercer.linalg.twins import FloatArray, FunctionName

__all__ = ["butterfly", "butterfly_pairs", "sign_hadamard", "sign_hadamard_pairs"]


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
    arguments.check_array(name, "X", X, 2)
    arguments.check_signs(name, signs, X)
    arguments.check_out(name, out, X)
    blocks, _, width = signs.shape
    arguments.check_projection(name, "the columns of out", out.shape[1], blocks, width)
    arguments.check_function(name, function)
    _check_radii(name, radii, out)
    for what, array in (("X", X), ("signs", signs)):
        arguments.check_separate(name, what, array, out)
    kernels().sign_hadamard(X, signs, out, radii, function, float(scale), bool(product))
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
    arguments.check_array(name, "X", X, 2)
    arguments.check_signs(name, signs, X)
    arguments.check_array(name, "radii", radii, 1, X.dtype)
    arguments.check_out(name, out, X)
    blocks, _, width = signs.shape
    arguments.check_projection(name, "radii", len(radii), blocks, width)
    arguments.check_pair_width(name, len(radii), out)
    for what, array in (("X", X), ("signs", signs), ("radii", radii)):
        arguments.check_separate(name, what, array, out)
    kernels().sign_hadamard_pairs(X, signs, radii, float(scale), out)
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
    arguments.check_array(name, "X", X, 2)
    arguments.check_plan(name, plan, X)
    arguments.check_mixing_signs(name, signs, plan, X)
    arguments.check_out(name, out, X)
    arguments.check_projection(name, "the columns of out", out.shape[1], *plan.shape)
    arguments.check_function(name, function)
    _check_radii(name, radii, out)
    for what, array in (("X", X), ("signs", signs), *_arrays(plan)):
        arguments.check_separate(name, what, array, out)
    arrays = plan.order, plan.multipliers, plan.factors
    kernels().butterfly(X, signs, *arrays, out, radii, function, float(scale), bool(product))
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
    arguments.check_array(name, "X", X, 2)
    arguments.check_plan(name, plan, X)
    arguments.check_mixing_signs(name, signs, plan, X)
    arguments.check_array(name, "radii", radii, 1, X.dtype)
    arguments.check_out(name, out, X)
    arguments.check_projection(name, "radii", len(radii), *plan.shape)
    arguments.check_pair_width(name, len(radii), out)
    for what, array in (("X", X), ("signs", signs), ("radii", radii), *_arrays(plan)):
        arguments.check_separate(name, what, array, out)
    kernels().butterfly_pairs(X, signs, plan.order, plan.multipliers, plan.factors, radii, float(scale), out)
    return out


def _check_radii(name: str, radii: FloatArray | None, out: FloatArray) -> None:
    if radii is None:
        return
    arguments.check_array(name, "radii", radii, 1, out.dtype)
    arguments.check_columns(name, "radii", len(radii), out.shape[1])
    arguments.check_separate(name, "radii", radii, out)


def _arrays(plan: ButterflyPlan) -> list[tuple[str, NDArray[Any]]]:
    return [("plan.order", plan.order), ("plan.multipliers", plan.multipliers), ("plan.factors", plan.factors)]
