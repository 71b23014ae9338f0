r"""Variance of tensor sketches with fully independent hashes and signs; see `docs/theory/sketches.md`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from mercer.theory.domains import COUNT, NUMBERS, WEIGHTS, broadcast, checked, iterable, refuse, upper, within

__all__ = ["tensor_sketch_variance"]

Array = np.ndarray
OWNER = "tensor_sketch_variance"


@checked(factors=iterable("an iterable of (t, norms, overlap)"), n_components=COUNT)
def tensor_sketch_variance(factors: Iterable[tuple[Array, Array, Array]], n_components: int) -> Array:
    r"""Return the variance of the estimate of :math:`\prod_j \langle x_j, y_j \rangle` by a tensor sketch.

    The estimate is the inner product :math:`\langle T(x), T(y) \rangle` of two sketches of D = `n_components`
    components. For each factor j, with :math:`t = \langle x_j, y_j \rangle` and
    :math:`S = \sum_i x_{ji}^2 y_{ji}^2`, let :math:`A_j = t^2`,
    :math:`B_j = \|x_j\|^2 \|y_j\|^2 - S` and :math:`C_j = t^2 - S`. With products over the factors j,

    .. math:: \mathrm{Var} = \frac{1}{D} \Bigl[\prod (A + B) + \prod (A + C) - 2 \prod A\Bigr]
        + \frac{g}{D^2} \Bigl[\prod (A + B + C) - \prod (A + B) - \prod (A + C) + \prod A\Bigr],

    where g is 2 for even D and 1 for odd D. One factor gives the variance of a count sketch,
    :math:`(\|x\|^2 \|y\|^2 + t^2 - 2S) / D`. The formula is exact if all hashes and signs are independent and uniform.

    Parameters
    ----------
    factors : iterable of (ndarray, ndarray, ndarray)
        For each factor the triple of :math:`t`, :math:`\|x\|^2 \|y\|^2` and S, as arrays that broadcast with each
        other. They must satisfy :math:`t^2 \le \|x\|^2 \|y\|^2` and :math:`0 \le S \le \|x\|^2 \|y\|^2`.
    n_components : int
        Number of components D.

    %(theory_variances)s

    See Also
    --------
    mercer.TensorSketch : The map.

    Notes
    -----
    The estimate is a sum over pairs (i, i') of index tuples, with one index per factor, such that the hashes of i and
    those of i' have the same sum modulo D. Its square is a sum over two of these pairs, (i, i') and (k, k'). In each
    factor, the mean over the random signs is nonzero for three kinds of indices only:

    - A: i = i' and k = k'. Both hash differences, of i and i' and of k and k', are zero.
    - B: i = k and i' = k', but i != i'. Both hash differences are the same uniform number u.
    - C: i = k' and i' = k, but i != i'. The hash differences are u and -u.

    Both sums of hash differences over the factors must be zero modulo D. If B occurs in some factors and C in none, or
    C in some and B in none, the probability is 1/D. If both occur, and U is the sum of the numbers u over the factors
    of kind B and V over those of kind C, then U + V = U - V = 0 modulo D, which g of the :math:`D^2` outcomes satisfy.

    For hashes that are only pairwise independent, [1]_ has an upper bound on the variance.

    References
    ----------
    .. [1] Pham, Pagh (2013), Fast and Scalable Polynomial Kernels via Explicit Feature Maps, KDD.

    Examples
    --------
    >>> import numpy as np
    >>> t, norms, overlap = np.array(0.5), np.array(1.0), np.array(0.25)
    >>> one = (t, norms, overlap)
    >>> float(tensor_sketch_variance([one], 10))  # (1 + 0.25 - 0.5) / 10
    0.075
    >>> bool(tensor_sketch_variance([one, one], 11) < tensor_sketch_variance([one, one], 10))
    True
    """
    read = [_factor(i, factor) for i, factor in enumerate(factors)]
    broadcast(OWNER, **{f"factors[{i}]": t + norms + overlap for i, (t, norms, overlap) in enumerate(read)})
    # Products over the factors of A, A + B, A + C and A + B + C.
    a = ab = ac = abc = np.ones(())
    with np.errstate(over="ignore", invalid="ignore"):
        for inner, norms, overlap in read:
            square, same, crossed = np.square(inner), norms - overlap, np.square(inner) - overlap
            a, ab, ac = a * square, ab * (square + same), ac * (square + crossed)
            abc = abc * (square + same + crossed)
        once = (ab + ac - 2 * a) / n_components
        twice = (abc - ab - ac + a) / n_components * (math.gcd(2, n_components) / n_components)
        return upper(np.maximum(once + twice, 0.0))  # below zero only by rounding


def _factor(i: int, factor: Any) -> tuple[Array, Array, Array]:
    """Return the validated arrays (t, |x|^2 |y|^2, S) of factor number i, with t = <x, y> and S = sum_k x_k^2 y_k^2."""
    try:
        inner, norms, overlap = factor
    except (TypeError, ValueError):
        refuse(OWNER, f"factors[{i}]", "(t, norms, overlap)", repr(factor))
    inner = NUMBERS(OWNER, f"t of factors[{i}]", inner)
    norms = WEIGHTS(OWNER, f"norms of factors[{i}]", norms)
    overlap = WEIGHTS(OWNER, f"overlap of factors[{i}]", overlap)
    broadcast(
        OWNER, **{f"t of factors[{i}]": inner, f"norms of factors[{i}]": norms, f"overlap of factors[{i}]": overlap}
    )
    root = np.sqrt(norms)
    inner = within(OWNER, f"t of factors[{i}]", inner, -root, root, "in [-sqrt(norms), sqrt(norms)]")
    overlap = within(OWNER, f"overlap of factors[{i}]", overlap, 0.0, norms, "in [0, norms]")
    return inner, norms, overlap
