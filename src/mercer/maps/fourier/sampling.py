"""Random samples of fixed size from a finite population, with given probabilities that a unit is in the sample."""

from __future__ import annotations

import numpy as np
import scipy.linalg

__all__ = ["balanced_sample", "inclusion_probabilities", "systematic_sample"]

Array = np.ndarray
# A probability closer than this to 0 or 1 is rounded.
ROUNDING = 1e-9
# Number of updates of a QR decomposition after which it is computed anew, so that rounding errors do not add up.
UPDATES = 200


def inclusion_probabilities(scores: Array, size: int) -> Array:
    """Return probabilities in proportion to positive scores, up to one, whose sum is `size`.

    Probabilities that would exceed one are one, and the others share the rest.
    """
    certain = np.zeros(len(scores), dtype=bool)
    while True:
        share = np.where(certain, 0.0, scores)
        probabilities = np.where(certain, 1.0, (size - certain.sum()) * share / share.sum() if share.any() else 1.0)
        above = (probabilities > 1) & ~certain
        if not above.any():
            return probabilities
        certain |= above


def systematic_sample(probabilities: Array, order: Array, rng: np.random.Generator) -> Array:
    """Return a sample with given probabilities, spread evenly over the units in a given order (Madow 1949).

    Of any consecutive units, the number in the sample differs from the sum of their probabilities by less than one at
    each end.
    """
    size = round(float(probabilities.sum()))
    edges = np.cumsum(probabilities[order])
    edges *= size / edges[-1]
    chosen = np.searchsorted(edges, np.arange(size) + rng.random(), side="right")
    return order[np.minimum(chosen, len(order) - 1)]


def balanced_sample(probabilities: Array, variables: Array, rng: np.random.Generator) -> Array:
    """Return a sample with given probabilities in which sums of some variables are nearly those of the population.

    This is the cube method [1]_, in the fast form of [2]_. With the indicator s_j of unit j, probabilities p_j and
    variables v_j, the sum of s_j v_j is the sum of p_j v_j, but for a last step in which fewer units than variables are
    undecided. From there on the last variables are dropped, one at a time.

    Parameters
    ----------
    probabilities : ndarray of shape (N,)
        Probability of each unit.
    variables : ndarray of shape (N, r)
        Variables of each unit, the most important first. If the first one is constant, the sample has a fixed size.
    rng : Generator
        Source of randomness.

    Returns
    -------
    ndarray of int
        Indices of the units of the sample, in increasing order.

    References
    ----------
    .. [1] Deville, Tille (2004), Efficient balanced sampling: the cube method, Biometrika 91.
    .. [2] Chauvet, Tille (2006), A fast algorithm for balanced sampling, Computational Statistics 21.
    """
    p = probabilities.astype(np.float64)
    waiting = [int(j) for j in rng.permutation(len(p)) if ROUNDING < p[j] < 1 - ROUNDING][::-1]
    size = variables.shape[1] + 1
    if len(waiting) >= size:
        units = np.array([waiting.pop() for _ in range(size)])
        Q, R = scipy.linalg.qr(variables[units])
        updates = 0
        while True:
            p[units] = moved(p[units], Q[:, -1], rng)
            decided = np.flatnonzero((p[units] == 0) | (p[units] == 1))
            if len(waiting) < len(decided):
                break
            for position in decided:
                new = waiting.pop()
                change = variables[new] - variables[units[position]]
                units[position] = new
                updates += 1
                Q, R = scipy.linalg.qr_update(Q, R, np.eye(size)[position], change, check_finite=False)
            if updates > UPDATES:
                (Q, R), updates = scipy.linalg.qr(variables[units]), 0
    undecided = np.flatnonzero((p > 0) & (p < 1))
    while len(undecided):
        known = variables[undecided, : len(undecided) - 1]
        direction = scipy.linalg.qr(known)[0][:, -1] if known.size else np.ones(len(undecided))
        p[undecided] = moved(p[undecided], direction, rng)
        undecided = undecided[(p[undecided] > 0) & (p[undecided] < 1)]
    return np.flatnonzero(p > 0.5)


def moved(p: Array, direction: Array, rng: np.random.Generator) -> Array:
    """Move probabilities along a line, forwards or backwards, until at least one of them is 0 or 1.

    The mean of the result is `p`.
    """
    # The sign of the last column of Q depends on rounding errors.
    direction = direction * np.sign(direction[np.abs(direction).argmax()])
    with np.errstate(divide="ignore", invalid="ignore"):
        to_one, to_zero = (1 - p) / direction, -p / direction
    moves = direction != 0
    forwards = np.maximum(to_one, to_zero)[moves].min()
    backwards = np.minimum(to_one, to_zero)[moves].max()
    step = forwards if rng.random() < -backwards / (forwards - backwards) else backwards
    p = p + step * direction
    return np.where(p < ROUNDING, 0.0, np.where(p > 1 - ROUNDING, 1.0, p))
