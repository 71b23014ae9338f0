"""Projections of rows by butterfly matrices.

A butterfly matrix of size P, a power of two, is a product of log2(P) orthogonal matrices, called levels. Each level
rotates P / 2 pairs of columns. To multiply a row by a butterfly matrix takes one multiply-add per column and level.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.linalg import dispatch
from mercer.linalg.numpy_kernels import FloatArray, FunctionName

__all__ = ["ButterflyPlan", "butterfly", "butterfly_pairs", "butterfly_plan"]


@dataclass(frozen=True, eq=False)
class ButterflyPlan:
    """Transposed butterfly matrices of size P, in the form in which `butterfly` applies them.

    There are `blocks` matrices. Each of them takes a row ``x`` of length P and starts from ``y = x[order]``. At each
    level in turn, all ``y[i]`` are replaced by ``y[i] + multipliers[level, i] * y[i ^ 2**level]``. The result is
    ``factors * y``.

    Parameters
    ----------
    order : ndarray of int64 of shape (blocks, P), P a power of two
        For each matrix, a permutation of the entries of the input row.
    multipliers : ndarray of shape (blocks, log2 P, P)
        For each level, the multiple of column ``i ^ 2**level`` that is added to column ``i``.
    factors : ndarray of shape (blocks, P)
        Factor of each column of the result.
    """

    order: NDArray[np.int64]
    multipliers: FloatArray
    factors: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """The pair (`blocks`, P): the number of butterfly matrices, and their size."""
        blocks, width = self.order.shape
        return blocks, width

    def astype(self, dtype: DTypeLike) -> "ButterflyPlan":
        """Return the plan with multipliers and factors rounded to `dtype`."""
        return ButterflyPlan(self.order, self.multipliers.astype(dtype), self.factors.astype(dtype))

    @property
    def arrays(self) -> tuple[NDArray[np.int64], FloatArray, FloatArray]:
        """The arrays `order`, `multipliers` and `factors`, in the order in which the compiled functions take them."""
        return self.order, self.multipliers, self.factors


def butterfly_plan(cosines: Sequence[FloatArray], sines: Sequence[FloatArray]) -> ButterflyPlan:
    r"""Return the `ButterflyPlan` of butterfly matrices that are given by the cosines and sines of their rotations.

    The matrix of size :math:`2h` is :math:`B_{2h} = \mathrm{diag}(B_h, \hat B_h) R`, with two butterfly matrices
    :math:`B_h, \hat B_h` of size :math:`h` and :math:`R = \begin{pmatrix} cI & -sI \\ sI & cI \end{pmatrix}`;
    :math:`B_1 = 1`. The plan applies the transpose :math:`B_{2h}^\top`: it transforms the first half of a row to
    :math:`a` by :math:`B_h^\top` and the second half to :math:`b` by :math:`\hat B_h^\top`, and then returns the halves
    :math:`ca + sb` and :math:`cb - sa`.

    Parameters
    ----------
    cosines, sines : sequences of ndarrays of shape (blocks, P / (2h)), for h = 1, 2, 4, ..., P / 2
        The :math:`c` and :math:`s` of the P / (2h) matrices of size 2h in each of the `blocks` matrices of size P, from
        left to right. Matrices of size P = 1 have no rotations; pass one array of shape (blocks, 0) for them.

    Returns
    -------
    ButterflyPlan
        In float64.

    See Also
    --------
    butterfly, butterfly_pairs : Apply the plan to rows.

    Notes
    -----
    The larger of cosine and sine is factored out of each rotation, which leaves ones in its positions. Where that is
    the sine, the ones are off the diagonal. They are moved to the diagonal by exchanging the two halves and, with them,
    the smaller rotations that produce the halves. All exchanges together are one permutation of the columns of the
    input. The cosines and sines that were factored out are absorbed by the multipliers of the next levels and by the
    final factors. The final factor of a column is at least ``P ** -0.5`` in absolute value, so an intermediate value is
    at most ``P ** 0.5`` times the value that it represents.

    References
    ----------
    .. [1] M. Munkhoeva, Y. Kapushev, E. Burnaev and I. Oseledets, "Quadrature-based features for kernel approximation",
       Advances in Neural Information Processing Systems 31, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> plan = butterfly_plan([np.array([[0.6]])], [np.array([[0.8]])])  # a' = 0.6 a + 0.8 b, b' = 0.6 b - 0.8 a
    >>> plan.order
    array([[1, 0]])
    >>> plan.multipliers.round(3), plan.factors
    (array([[[ 0.75, -0.75]]]), array([[ 0.8, -0.8]]))
    """
    c, s = _nodes("cosines", cosines), _nodes("sines", sines)
    if [a.shape for a in c] != [a.shape for a in s]:
        msg = f"butterfly_plan: sines must have the shapes of cosines, got {[a.shape for a in s]}"
        raise ValueError(msg)
    worst = max((float(np.abs(np.hypot(a, b) - 1).max(initial=0)) for a, b in zip(c, s, strict=True)), default=0.0)
    if not worst <= 1e-6:
        msg = f"butterfly_plan: hypot(cosines, sines) must be 1 in every node, got a value that differs by {worst:.3g}"
        raise ValueError(msg)
    blocks = len(c[0])
    levels = len(c) if c[0].shape[1] else 0

    # The matrices of all sizes form a binary tree, whose root has the size P. From the root down: which node of the
    # given tree moves to each node and, in the end, which column of the input moves to each column.
    source = np.zeros((blocks, 1), np.int64)
    exchanged = []
    for level in reversed(range(levels)):
        c[level], s[level] = (np.take_along_axis(a[level], source, axis=1) for a in (c, s))
        exchanged.append(np.abs(s[level]) > np.abs(c[level]))
        children = 2 * source[:, :, None] + (np.arange(2) ^ exchanged[-1][:, :, None])
        source = children.reshape(blocks, -1)
    exchanged.reverse()

    # From the leaves up: the multipliers, and the factors by which each column has yet to be multiplied.
    width = 1 << levels
    multipliers = np.empty((blocks, levels, width))
    factors = np.ones((blocks, width))
    for level in range(levels):
        larger = np.where(exchanged[level], s[level], c[level])
        ratio = np.where(exchanged[level], c[level], s[level]) / larger
        signs = np.where(exchanged[level], -1.0, 1.0)
        pending = factors.reshape(blocks, -1, 2, 1 << level)
        first, second = pending[:, :, 0], pending[:, :, 1]
        pairs = multipliers[:, level].reshape(pending.shape)
        pairs[:, :, 0] = ratio[:, :, None] * second / first
        pairs[:, :, 1] = -ratio[:, :, None] * first / second
        pending *= np.stack([larger, larger * signs], axis=2)[..., None]
    return ButterflyPlan(source, multipliers, factors)


def butterfly(
    X: FloatArray,
    signs: FloatArray,
    plan: ButterflyPlan,
    out: FloatArray,
    *,
    radii: FloatArray | None = None,
    scale: float = 1.0,
    function: FunctionName = "identity",
    product: bool = False,
) -> FloatArray:
    r"""Project rows by random signs, one Hadamard matrix and transposed butterfly matrices.

    The output for a row consists of blocks of length :math:`P`. Block :math:`b` is
    :math:`B_b^\top D_2 H D_1 x / \sqrt P`, where :math:`x` is the row padded with zeros to length :math:`P`, :math:`H`
    the Hadamard matrix in Sylvester's order, :math:`D_i` the diagonal matrix of ``signs[i - 1]`` and :math:`B_b` a
    butterfly matrix of `plan`. Each block is an orthogonal transform of :math:`x`. Signs and :math:`H` are applied once
    for all blocks.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows to project, float32 or float64.
    signs : ndarray of shape (2, P), P a power of two >= d
        Entries +1 or -1, in the dtype of `X`.
    plan : ButterflyPlan
        Butterfly matrices of size P, in the dtype of `X`; see `butterfly_plan`.
    out, radii : ndarrays of shape (n, m) and (m,), (blocks - 1) * P < m <= blocks * P
        `out` is the output, with the blocks side by side and the last block truncated. `radii` are factors of the
        projections, ones by default. Both are as in `sign_hadamard`.
    scale, function, product : float, str and bool
        As in `dense`: `out` is filled with, or multiplied by, ``scale * function(radii * projections)``.

    Returns
    -------
    ndarray of shape (n, m)
        The array `out`, with one block after another.

    See Also
    --------
    sign_hadamard : Products of signs and Hadamard matrices only.

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
    _check_inputs(name, X, signs, plan)
    dispatch.check_out(name, out, X)
    dispatch.check_projections(name, "columns of out", out.shape[1], *plan.shape)
    dispatch.check_function(name, function)
    dispatch.check_radii(name, radii, out)
    dispatch.check_separate(name, out, {"X": X, "signs": signs, **_named(plan)})
    dispatch.kernels.butterfly(X, signs, *plan.arrays, out, radii, function, float(scale), bool(product))
    return out


def butterfly_pairs(
    X: FloatArray, signs: FloatArray, plan: ButterflyPlan, radii: FloatArray, scale: float, out: FloatArray
) -> FloatArray:
    """Fill `out` with the scaled cosines and sines of the angles ``radii * butterfly(X)``.

    The angles are never in memory all at once, and the cost is close to that of writing the output.

    Parameters
    ----------
    X, signs, plan : ndarrays of shape (n, d) and (2, P), and ButterflyPlan
        As in `butterfly`.
    radii, scale, out : ndarray of shape (m,), float and ndarray of shape (n, D), m <= D <= 2m
        Factor of each projection, factor of the results, and output for m cosines and D - m sines, as in
        `sign_hadamard_pairs`.

    Returns
    -------
    ndarray of shape (n, D)
        The array `out`, cosines before sines.

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
    _check_inputs(name, X, signs, plan)
    dispatch.check_array(name, "radii", radii, 1, X.dtype)
    dispatch.check_out(name, out, X)
    dispatch.check_projections(name, "radii", len(radii), *plan.shape)
    dispatch.check_pair_width(name, len(radii), out)
    dispatch.check_separate(name, out, {"X": X, "signs": signs, "radii": radii, **_named(plan)})
    dispatch.kernels.butterfly_pairs(X, signs, *plan.arrays, radii, float(scale), out)
    return out


def _check_inputs(function: str, X: FloatArray, signs: FloatArray, plan: ButterflyPlan) -> None:
    """Check the arguments of `butterfly` and `butterfly_pairs`; raise an error that names `function` if one is invalid.

    `X` must be a matrix with d columns. `plan` must have the dtype of `X` and a size P >= d, and `signs` must have the
    shape (2, P).
    """
    dispatch.check_array(function, "X", X, 2)
    if not isinstance(plan, ButterflyPlan):
        msg = f"{function}: plan must be a ButterflyPlan, got {type(plan).__name__}"
        raise TypeError(msg)
    dispatch.check_array(function, "plan.order", plan.order, 2, np.dtype(np.int64))
    dispatch.check_array(function, "plan.multipliers", plan.multipliers, 3, X.dtype)
    dispatch.check_array(function, "plan.factors", plan.factors, 2, X.dtype)
    blocks, width = plan.shape
    if blocks < 1:
        msg = f"{function}: plan must have at least one block, got none"
        raise ValueError(msg)
    dispatch.check_width(function, "plan", width, X)
    shapes = plan.multipliers.shape, plan.factors.shape
    expected = (blocks, width.bit_length() - 1, width), (blocks, width)
    if shapes != expected:
        msg = f"{function}: plan must have multipliers and factors of shapes {expected}, got {shapes}"
        raise ValueError(msg)
    if plan.order.min() < 0 or plan.order.max() >= width:
        msg = f"{function}: plan.order must lie in [0, {width}), got {plan.order.min()} to {plan.order.max()}"
        raise ValueError(msg)
    dispatch.check_array(function, "signs", signs, 2, X.dtype)
    if signs.shape != (2, width):
        msg = f"{function}: signs must have shape {(2, width)}, got {signs.shape}"
        raise ValueError(msg)


def _named(plan: ButterflyPlan) -> dict[str, NDArray[Any]]:
    """Return a dict from names to the arrays of a plan. The names are those in error messages."""
    return {"plan.order": plan.order, "plan.multipliers": plan.multipliers, "plan.factors": plan.factors}


def _nodes(name: str, values: Sequence[Any]) -> list[NDArray[np.float64]]:
    """Return the cosines or sines of each level in float64.

    Raise ValueError unless the arrays have the shapes (blocks, P / (2h)) for h = 1, 2, 4, ..., P / 2, or there is one
    array of shape (blocks, 0).
    """
    arrays = [np.asarray(a, float) for a in values]
    shapes = [a.shape for a in arrays]
    blocks = shapes[0][0] if shapes and shapes[0] else 0
    expected = [(blocks, (1 << len(shapes)) >> (level + 1)) for level in range(len(shapes))]
    if blocks < 1 or shapes not in (expected, [(blocks, 0)]):
        msg = (
            f"butterfly_plan: {name} must have shapes (blocks, P/2), (blocks, P/4), ..., (blocks, 1) "
            f"or be one array of shape (blocks, 0), got {shapes}"
        )
        raise ValueError(msg)
    return arrays
