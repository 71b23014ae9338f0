r"""Variance of tensor sketches with fully random hashes and signs; see `docs/theory/sketches.md`."""

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
    r"""Return the variance of the product of inner products that a tensor sketch estimates.

    The estimate is :math:`\langle T(x), T(y) \rangle` of D = `n_components` components for
    :math:`\prod_j \langle x_j, y_j \rangle`. With :math:`t = \langle x_j, y_j \rangle` and
    :math:`S = \sum_i x_{ji}^2 y_{ji}^2`, let :math:`A_j = t^2`,
    :math:`B_j = \|x_j\|^2 \|y_j\|^2 - S` and :math:`C_j = t^2 - S`. Then

    .. math:: \mathrm{Var} = \frac{1}{D} \Bigl[\prod (A + B) + \prod (A + C) - 2 \prod A\Bigr]
        + \frac{g}{D^2} \Bigl[\prod (A + B + C) - \prod (A + B) - \prod (A + C) + \prod A\Bigr],

    where g is 2 for even D and 1 for odd D. One factor gives the variance of a count sketch,
    :math:`(\|x\|^2 \|y\|^2 + t^2 - 2S) / D`. The formula is exact for fully random hashes and signs.

    Parameters
    ----------
    factors : iterable of (ndarray, ndarray, ndarray)
        For each factor :math:`t`, :math:`\|x\|^2 \|y\|^2` and S, as arrays that broadcast, with
        :math:`t^2 \le \|x\|^2 \|y\|^2` and :math:`0 \le S \le \|x\|^2 \|y\|^2`.
    n_components : int
        Number of components D.

    %(theory_variances)s

    See Also
    --------
    mercer.TensorSketch : The map.

    Notes
    -----
    The square of the estimate is a sum over four tuples of indices (i, i') and (k, k'), one pair per inner product,
    with the indicator that the sums of hashes of i and i' agree modulo D, and those of k and k'. The mean over the
    signs of one factor leaves three kinds of index quadruples: i = i' and k = k' (of weight A, hash differences 0 and
    0), i = k and i' = k' but i != i' (B: the same uniform difference u in both sums), and i = k' and i' = k but
    i != i' (C: u in one sum, -u in the other). If only kinds A and B, or A and C, occur, both sums of differences
    vanish with probability 1/D. If B and C occur, with totals U and V, then U + V = U - V = 0 is needed: U = V and
    2U = 0 modulo D, which g of the :math:`D^2` outcomes fulfill.

    Hashes that are only pairwise independent have a bound instead of a formula [1]_.

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
    """Return the inner product, the product of squared norms and the overlap of one factor, checked."""
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
