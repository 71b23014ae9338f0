"""Rows that are copies of others with equal targets, and weights above one, which mean the same.

Two equal measurements are infinitely more likely without noise than with it. As soon as the features can pass through
all other targets, the likelihood of copies has no bound as the noise decreases, and error bars would be far too small.
Copies then count as one row, so that a table that is repeated gives the same process as the table itself.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mercer.solvers.processes.evidence import Scales
from mercer.statistics import RowSample, row_hashes

__all__ = ["NO_NOISE", "copies_in", "counted_once", "is_degenerate"]

# Noise over amplitude up to which the noise counts as zero.
NO_NOISE = 1e-6


def is_degenerate(scales: Scales) -> bool:
    """Return whether the noise of any target is estimated as zero."""
    return bool((scales.noise <= NO_NOISE * scales.amplitude).any())


def copies_in(sample: RowSample) -> float:
    """Return the weight of a sample beyond one per distinct row, and so the number of copies of other rows."""
    _, copy_of = distinct(sample)
    total = np.bincount(copy_of, weight_of(sample))
    return float((total - 1)[total > 1].sum())


def counted_once(sample: RowSample) -> RowSample:
    """Return the distinct rows of a sample, with weights of at most one."""
    first, copy_of = distinct(sample)
    total = np.minimum(np.bincount(copy_of, weight_of(sample)), 1.0)
    order = np.argsort(first)
    rows = first[order]
    assert sample.y is not None
    return replace(
        sample,
        index=sample.index[rows],
        key=sample.key[rows],
        seen=len(rows),
        X=sample.X[rows],
        y=sample.y[rows],
        weight=total[order],
    )


def weight_of(sample: RowSample) -> np.ndarray:
    """Return the weights of the rows of a sample. Rows that were sampled by their weights have weight one."""
    if sample.weight is None or not sample.is_complete:
        return np.ones(len(sample.index))
    return sample.weight


def distinct(sample: RowSample) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the first of all rows of equal entries and targets, and which of them each row equals."""
    assert sample.y is not None
    keys = np.column_stack([row_hashes(sample.X), row_hashes(sample.y.reshape(len(sample.y), -1))])
    _, first, copy_of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return first, copy_of.ravel()
