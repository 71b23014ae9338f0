"""Butterfly matrices: a tree of plane rotations, and its form with one multiply-add per column and level."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mercer.linalg.twins import FloatArray

__all__ = ["ButterflyPlan", "butterfly_plan"]


@dataclass(frozen=True, eq=False)
class ButterflyPlan:
    """Transposed butterfly matrices, ready to apply.

    Row ``x`` becomes ``y = x[order]``, then ``y[i] + multipliers[level, i] * y[i ^ 2**level]`` at each
    level in turn, then ``factors * y``.

    Parameters
    ----------
    order : ndarray of int64 of shape (blocks, P), P a power of two
        Permutation of the columns.
    multipliers : ndarray of shape (blocks, log2 P, P)
        What each level adds of the other column of a pair.
    factors : ndarray of shape (blocks, P)
        Factor of each result.
    """

    order: NDArray[np.int64]
    multipliers: FloatArray
    factors: FloatArray

    @property
    def shape(self) -> tuple[int, int]:
        """The number of blocks and their width."""
        blocks, width = self.order.shape
        return blocks, width

    def astype(self, dtype: DTypeLike) -> "ButterflyPlan":
        """Return the plan with multipliers and factors rounded to `dtype`."""
        return ButterflyPlan(self.order, self.multipliers.astype(dtype), self.factors.astype(dtype))


def butterfly_plan(cosines: Sequence[FloatArray], sines: Sequence[FloatArray]) -> ButterflyPlan:
    r"""Turn the rotations of butterfly matrices into multiply-adds.

    The matrix of size :math:`2h` is :math:`B_{2h} = \mathrm{diag}(B_h, \hat B_h) R`, with two matrices of size
    :math:`h` and :math:`R = \begin{pmatrix} cI & -sI \\ sI & cI \end{pmatrix}`; :math:`B_1 = 1`. The plan
    applies its transpose: halves :math:`a, b` that are done become :math:`ca + sb` and :math:`cb - sa`.

    Parameters
    ----------
    cosines, sines : sequences of ndarrays of shape (blocks, P / (2h)), for h = 1, 2, 4, ..., P / 2
        The :math:`c` and :math:`s` of each node, from left to right. Matrices of size 1 have no levels; write
        that as one array of shape (blocks, 0).

    Returns
    -------
    ButterflyPlan
        In float64.

    Notes
    -----
    The larger of cosine and sine is taken out of each rotation and the rest divided by it, which leaves
    ones in the place of the former. Where that is the sine, the ones stand off the diagonal; to bring them back,
    the two halves are exchanged, with all that was done to them: in the end that is a permutation of the columns
    of the input. Factors that were taken out go into the multipliers of the next levels; a column owes at least
    ``P ** -0.5`` in the end, so what is computed on the way is at most ``P ** 0.5`` times what it stands for.

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
        msg = f"butterfly_plan: cosines**2 + sines**2 must be 1, got a root of it that is {worst:.3g} away"
        raise ValueError(msg)
    blocks = len(c[0])
    levels = len(c) if c[0].shape[1] else 0

    # From the top down: which node of the tree, or in the end which column, comes where.
    there = np.zeros((blocks, 1), np.int64)
    turned = []
    for level in reversed(range(levels)):
        c[level], s[level] = (np.take_along_axis(a[level], there, axis=1) for a in (c, s))
        turned.append(np.abs(s[level]) > np.abs(c[level]))
        children = 2 * there[:, :, None] + (np.arange(2) ^ turned[-1][:, :, None])
        there = children.reshape(blocks, -1)
    turned.reverse()

    # From the bottom up: multipliers, and the factors that are owed to each column.
    width = 1 << levels
    multipliers = np.empty((blocks, levels, width))
    factors = np.ones((blocks, width))
    for level in range(levels):
        kept = np.where(turned[level], s[level], c[level])
        added = np.where(turned[level], c[level], s[level]) / kept
        signs = np.where(turned[level], -1.0, 1.0)
        owed = factors.reshape(blocks, -1, 2, 1 << level)
        first, second = owed[:, :, 0], owed[:, :, 1]
        pairs = multipliers[:, level].reshape(owed.shape)
        pairs[:, :, 0] = added[:, :, None] * second / first
        pairs[:, :, 1] = -added[:, :, None] * first / second
        owed *= np.stack([kept, kept * signs], axis=2)[..., None]
    return ButterflyPlan(there, multipliers, factors)


def _nodes(name: str, values: Sequence[Any]) -> list[NDArray[np.float64]]:
    """Check the shapes of the levels and return them in float64."""
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
