"""Repeated rows, and weights above one, which mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from mercer.solvers.local.near_rows import rank_hashes
from mercer.statistics import row_hashes

__all__ = ["without_copies"]

Array = np.ndarray
# Share of the weight of rows with several copies, all of one target, from which on copies count as one row.
MOSTLY = 0.5


def without_copies(X: Any, targets: Array, weight: Array | None) -> tuple[Array, Array] | None:
    """Return the indices of rows without copies and their weights, if most rows are copies of others.

    A penalty is chosen by predictions of left-out rows. Of a row of weight four, one copy is left out, which the others
    predict without error if their targets are equal. If this is so for most of the weight, the best penalty would be
    zero. Then copies with equal targets count as one row, and weights are divided by their mean, so that a table that
    is repeated, or that has a constant weight, gives the same model as the table itself.

    Parameters
    ----------
    X : ndarray or CSR of shape (n, d)
        Rows.
    targets : ndarray of shape (n, t)
        Numeric targets.
    weight : ndarray of shape (n,) or None
        Weights.

    Returns
    -------
    first : ndarray of shape (m,), int
        Indices of different rows of positive weight. They do not depend on the order of the rows, nor on units.
    weight : ndarray of shape (m,)
        Their weights, with mean one.
    """
    weight = np.ones(len(targets)) if weight is None else weight
    used = np.flatnonzero(weight > 0)
    keys = np.column_stack([row_hashes(X[used]), row_hashes(targets[used])])
    _, first, copy_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    total = np.bincount(copy_of.ravel(), weight[used])
    # Where copies have different targets, each of them tells how well the others predict it.
    _, row, targets_of = np.unique(keys[first, 0], return_inverse=True, return_counts=True)
    repeated = (total > 1) & (targets_of[row] == 1)
    if total[repeated].sum() <= MOSTLY * total.sum():
        return None
    order = np.lexsort((keys[first, 1], rank_hashes(X[used[first]])))
    return used[first[order]], total[order] / total.mean()
