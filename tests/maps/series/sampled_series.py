"""Rows on a sphere, and the moments of the terms of a series on all their pairs."""

import numpy as np

from mercer.maps.series.terms import SampledTerms, pair_weights
from mercer.theory.products import ScaledPairs


def rows(n=12, d=4, size=1.0, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return size * X / np.linalg.norm(X, axis=1, keepdims=True)


def sampled(kernel, X, projection="rademacher", weight=None):
    [part] = kernel.series_parts()
    upper, weights = pair_weights(np.ones(len(X)) if weight is None else weight)
    log_factor = -0.5 * part.decay * (X**2).sum(axis=1)
    pairs = ScaledPairs.all_of(X, X, log_factor, log_factor).at(*upper)
    return SampledTerms.of(part, pairs, weights, projection)
