"""Lengthscales of highest evidence, on a seeded sample of rows.

A random Fourier map is tuned by its own evidence on the sample: its frequencies are divided by the lengthscales while
the draw stays. Other maps of an isotropic kernel are tuned by the exact evidence of that kernel, and maps of other
shift-invariant kernels by that of random Fourier features. All are smooth, with exact derivatives: L-BFGS climbs, from
the best of a few factors of the lengthscale that the kernel came with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from scipy import optimize

from mercer.errors import ParameterError
from mercer.features import Features
from mercer.kernels import Kernel, Transformed
from mercer.maps import BaseMap, RandomFourier
from mercer.maps.landmarks.lengthscales import isotropic_form
from mercer.solvers.processes.fourier_evidence import FourierEvidence
from mercer.solvers.processes.gram_evidence import GramEvidence
from mercer.solvers.processes.lengthscales import dense
from mercer.statistics import RowSample

__all__ = ["Trial", "Tuning", "tune_lengthscales"]

Array = np.ndarray
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
# Rows on which the factors are compared: each costs an eigendecomposition.
FACTOR_ROWS = 500
# How far from the start lengthscales, noise and amplitude may go, as a factor.
FARTHEST = 1e3
# Random features that evidence is told from, at most: each try costs an eigendecomposition of so many.
FOURIER_COMPONENTS = 1024
WIDEST = 2048


@dataclass(frozen=True)
class Trial:
    """One try: lengthscales, and the log marginal likelihood of the rows it was tried on, a row."""

    lengthscales: tuple[float, ...]  # as factors of those that the kernel came with
    log_marginal_likelihood: float
    rows: int
    step: str  # "factor" of a coarse scan, or "gradient"


@dataclass(frozen=True)
class Tuning:
    """What was found, and all that was tried."""

    kernel: Kernel
    rows: int
    trials: tuple[Trial, ...]


def tune_lengthscales(
    feature_map: BaseMap,
    kernel: Kernel,
    sample: RowSample,
    *,
    ard: bool,
    noise: float | None,
    amplitude: float | None,
    centered: bool,
    seed: int,
    steps: int = 60,
) -> Tuning:
    """Maximize the evidence of a sample in the lengthscales, and in noise and amplitude where they are not given.

    Parameters
    ----------
    feature_map : BaseMap
        The unfitted map of the model.
    kernel : Kernel
        Its shift-invariant kernel: the start.
    sample : RowSample
        Rows, targets and weights.
    ard : bool
        Whether every column has a lengthscale of its own.
    noise, amplitude : float or None
        Standard deviations, where they are given.
    centered : bool
        Whether the mean of the targets is subtracted.
    seed : int
        Seed of random features, for kernels that are not isotropic.
    steps : int, default=60
        Steps of L-BFGS at most.
    """
    X, y, weight = merged(sample)
    kernel = kernel.resolve(X, weight)
    y = y - weight @ y / weight.sum() if centered else y
    evidence = evidence_of(feature_map, kernel, X, y, weight, ard=ard, seed=seed)
    d, t, n, total = evidence.rows.shape[1], y.shape[1], len(y), float(weight.sum())
    trials: list[Trial] = []
    few = evidence
    if n > FACTOR_ROWS:
        chosen = np.random.default_rng(seed).permutation(n)[:FACTOR_ROWS]
        few = replace(evidence, rows=evidence.rows[chosen], targets=y[chosen], weight=weight[chosen])
    starts = []
    for factor in FACTORS:
        value, scales = few.best(np.full(d, np.log(factor)), noise, amplitude)
        trials.append(Trial((factor,), value / float(few.weight.sum()), len(few.targets), "factor"))
        starts.append((value, factor, scales))
    _, factor, scales = max(starts, key=lambda start: start[0])

    width = d if ard else 1
    spread = np.full(width, np.log(factor)), np.log(scales.noise), np.log(scales.amplitude)
    first = np.concatenate(spread)
    free = np.concatenate([np.ones(width), np.full(t, noise is None), np.full(t, amplitude is None)]).astype(bool)

    def objective(moved: Array) -> tuple[float, Array]:
        theta = first.copy()
        theta[free] = moved
        log_scales = theta[:width] if ard else np.full(d, theta[0])
        value, *parts = evidence(log_scales, theta[width : width + t], theta[width + t :])
        parts[0] = parts[0] if ard else parts[0].sum(keepdims=True)
        trials.append(Trial(tuple(np.exp(theta[:width]).tolist()), value / total, n, "gradient"))
        if not np.isfinite(value):  # a covariance that rounding makes indefinite: no way to go
            return 1e10, np.zeros(free.sum())
        return -value / total, -np.concatenate(parts)[free] / total

    far = np.log(FARTHEST)
    bounds = [(x - far, x + far) for x in first[free]]
    found = optimize.minimize(
        objective,
        first[free],
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options={"maxiter": steps, "ftol": 1e-10, "gtol": 1e-6},
    )
    factors = np.exp(found.x[:width])
    return Tuning(
        rescaled(kernel, factors if ard else np.full(sample.X.shape[1], factors[0]), ard=ard), n, tuple(trials)
    )


def merged(sample: RowSample) -> tuple[Any, Array, Array]:
    """Return rows, targets and weights of a sample, in an order of their own; equal ones are one of more weight."""
    assert sample.y is not None
    y = sample.y
    # Rows drawn in proportion to their weights stand for themselves; all of them still have their weights.
    weight = np.ones(len(y)) if sample.weight is None or not sample.is_complete else sample.weight
    X, y, weight = sample.X[weight > 0], y[weight > 0], weight[weight > 0]
    if X.shape[1] > WIDEST:
        return X, y, weight
    both, place = np.unique(np.hstack([dense(X), y]), axis=0, return_inverse=True)
    return both[:, : X.shape[1]], both[:, X.shape[1] :], np.bincount(place.ravel(), weight)


def evidence_of(
    feature_map: BaseMap, kernel: Kernel, X: Any, y: Array, weight: Array, *, ard: bool, seed: int
) -> GramEvidence | FourierEvidence:
    """Return the evidence of rows as a function of factors of the lengthscales of their columns."""
    part = isotropic_form(kernel)
    by_fourier = part is None or feature_map.tunes_own_draw
    wide = X.shape[1] > WIDEST
    if wide and (ard or by_fourier):
        what = "lengthscale_tuning='ard'" if ard else f"The lengthscale of {feature_map!r}"
        msg = (
            f"{what} is tuned on at most {WIDEST} columns, got {X.shape[1]}. "
            "Use lengthscale_tuning='shared' with Nystroem and an isotropic kernel, or lengthscale_tuning=None."
        )
        raise ParameterError(msg)
    if by_fourier:
        return FourierEvidence(fourier_features(feature_map, kernel, X.shape[1], seed), dense(X), y, weight)
    assert part is not None
    leaf, scales = part
    if wide:
        # Fewer coordinates with the same distances.
        products = X @ X.T
        values, vectors = scipy.linalg.eigh(dense(products))
        rows = vectors * np.sqrt(np.maximum(values, 0.0))
    else:
        rows = dense(X)
    if scales is not None:
        rows = rows / scales
    return GramEvidence(leaf, rows / float(leaf.lengthscale), y, weight)


def fourier_features(feature_map: BaseMap, kernel: Kernel, d: int, seed: int) -> Features:
    """Return the draw of a random Fourier map, or one like it, with frequencies that are a dense matrix."""
    row = np.zeros((1, d))
    if feature_map.tunes_own_draw and feature_map.n_components <= FOURIER_COMPONENTS:
        drawn = feature_map.with_kernel(kernel).fit(row).features_
        if drawn.lengthscales is not None:
            return drawn
    width = min(feature_map.n_components, FOURIER_COMPONENTS)
    like = RandomFourier(kernel, width, directions="big_block", random_state=seed % 2**31)
    return like.fit(row).features_


def rescaled(kernel: Kernel, factors: Array, *, ard: bool) -> Kernel:
    """Return a kernel whose lengthscales are multiplied by factors, one a column."""
    part = isotropic_form(kernel)
    if part is None:
        return Transformed(kernel, lengthscales=rounded(factors))
    leaf, scales = part
    if scales is None and not ard:
        return leaf.with_params(lengthscale=rounded(float(leaf.lengthscale) * factors)[0])
    lengthscales = float(leaf.lengthscale) * factors * (1.0 if scales is None else scales)
    return Transformed(leaf.with_params(lengthscale=1.0), lengthscales=rounded(lengthscales))


def rounded(values: Array) -> tuple[float, ...]:
    """Return numbers of three digits: more would be those of the rounding of the search, and change by machine."""
    return tuple(float(f"{value:.3g}") for value in values)
