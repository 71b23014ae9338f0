"""Rows, and what all their pairs say about the terms of a series."""

import numpy as np

from mercer.maps.series.terms import SampledPart
from mercer.theory.products import Pairs


def rows(n=12, d=4, size=1.0, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return size * X / np.linalg.norm(X, axis=1, keepdims=True)


def sampled(kernel, X, projection="rademacher", weight=None):
    [part] = kernel.series_parts()
    upper = np.triu_indices(len(X))
    weight = np.ones(len(X)) if weight is None else weight
    weights = (np.outer(weight, weight) * (2 - np.eye(len(X))))[upper]
    factor = np.exp(-0.5 * part.decay * (X**2).sum(axis=1))
    pairs = Pairs.all_of(X, X).at(*upper)
    return SampledPart.of(part, pairs, np.outer(factor, factor)[upper], weights / weights.sum(), projection)
