"""Rows, plans and projections for tests of `RandomMaclaurin` and its parts."""

import numpy as np

from mercer import DotProduct, RandomMaclaurin

PLANS = ("optimal", "truncated", "random", "h01", "geometric", "degrees")
PROJECTIONS = ("rademacher", "gaussian", "sphere", "complex", "srht")
DESIGNS = [
    (plan, projection)
    for plan in PLANS
    for projection in PROJECTIONS
    if not (projection == "srht" and plan in ("random", "h01", "geometric"))
]
SIGNED = DotProduct([0.5, -1.0, 0.5, 0.0, -0.25], signed=True)


def rows(n=40, d=3, seed=0):
    return np.random.default_rng(seed).normal(0.2, 0.6, size=(n, d))


def fitted(kernel, n, X=None, **choices):
    return RandomMaclaurin(kernel, n, **{"random_state": 0, **choices}).fit(rows() if X is None else X)
