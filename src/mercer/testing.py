"""Checks that kernels, feature maps, learners and engines behave as the package requires, also for your own classes.

Each function raises AssertionError with an explanation if a requirement is not met, and returns None otherwise.

Examples
--------
>>> from mercer import Gaussian, RandomFourier
>>> from mercer.testing import check_kernel, check_map
>>> check_kernel(Gaussian(2.0))
>>> check_map(RandomFourier(Gaussian(2.0), n_components=64))
"""

from __future__ import annotations

import difflib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone, is_classifier, is_clusterer
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags

from mercer.engines import Block, Checkpoint, Engine
from mercer.errors import DataError, NoClosedFormError
from mercer.kernels import (
    DotProductKernel,
    Gaussian,
    HomogeneousKernel,
    IsotropicKernel,
    Kernel,
    SeparableKernel,
    ShiftInvariantKernel,
    ThresholdKernel,
)
from mercer.kernels.histogram import half_density
from mercer.kernels.isotropic import inverse_mixing_density
from mercer.kernels.power_series import PowerSeries
from mercer.kernels.quadrature import UnitDensity
from mercer.learners.base import Learner, Transformer
from mercer.maps import RandomFourier
from mercer.maps.base import BaseMap

__all__ = ["check_engine", "check_engines", "check_kernel", "check_learner", "check_map"]

# Probability that a statistical check fails for a kernel or a map that is correct.
FAILURE = 1e-9
# Number of random frequencies whose distribution is compared with the values of a kernel.
FREQUENCIES = 20_000
# Number of terms of a power series that are summed to compare it with the function of a dot-product kernel.
SERIES_TERMS = 200
# A kernel value k(x, y) is small if it is below this fraction of sqrt(k(x, x) k(y, y)).
SMALL_VALUE = 0.05
# Means of a mixing distribution above this are treated as infinite.
LARGEST_MEAN = 1e3


def expect(condition: Any, sentence: str) -> None:
    """Raise AssertionError with an explanation unless the condition holds, also under ``python -O``."""
    if not condition:
        raise AssertionError(sentence)


def sample_rows(n: int = 24, d: int = 3, seed: int = 0, *, positive: bool = False) -> np.ndarray:
    """Return `n` random rows of `d` features, >= 0 if `positive`.

    The rows have a mean other than zero and different norms. The last row is equal to the first.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(0.3, 1.0, size=(n, d)) * rng.uniform(0.2, 1.5, size=(n, 1))
    X[-1] = X[0]
    return np.maximum(X, 0.0) if positive else X


def sample_targets(X: np.ndarray) -> np.ndarray:
    """Return numeric targets (n,), a smooth function of the first two features of the rows."""
    return np.sin(3 * X[:, 0]) + X[:, 1]


def check_kernel(kernel: Kernel, X: np.ndarray | None = None) -> None:
    """Check the values of a kernel on some rows, and that its formulas agree with each other.

    The values must be symmetric and positive semi-definite. They must not depend on how the rows are divided into
    batches, on their dtype or on their sparse format. Getting and setting parameters, pickling, and sums and products
    with other kernels must work. If the kernel has several formulas, they must agree: the profile, which is the kernel
    as a function of the distance, is compared with the mixing or spectral distribution, and each closed form with the
    general formula that it replaces. Random frequencies are compared with the values by a test that fails with
    probability below 1e-9 if the kernel is correct.

    Parameters
    ----------
    kernel : Kernel
        A kernel whose parameters are numbers, not strings such as "median".
    X : ndarray of shape (n, d), default=None
        Rows for the checks; at least 12, the last equal to the first. None means 24 rows of 3 features, which are >= 0
        if the kernel requires it.
    """
    X = sample_rows(positive=kernel.positive_only) if X is None else X
    name = repr(kernel)
    for part in parts_of(kernel):
        check_formulas(part)
    K = kernel(X)
    n = len(X)
    scale = max(1.0, float(np.abs(K).max()))
    expect(K.shape == (n, n), f"{name}: k(X) must be n x n")
    expect(np.array_equal(K, K.T), f"{name}: k(X) must be exactly symmetric")
    expect(np.array_equal(np.diagonal(K), kernel.diag(X)), f"{name}: the diagonal of k(X) must be diag(X)")
    for part in parts_of(kernel):
        for structure, check in STRUCTURES:
            if isinstance(part, structure):
                check(part)
    check_spectrum(kernel, X[:6], X[6:12])
    expect(np.allclose(K, kernel(X, X), rtol=0, atol=1e-12 * scale), f"{name}: k(X) must equal k(X, X)")
    expect(abs(K[0, -1] - K[0, 0]) <= 1e-12 * scale, f"{name}: equal rows must have the value of the diagonal")
    single = np.array([[float(kernel(X[i : i + 1], X[j : j + 1])[0, 0]) for j in range(4)] for i in range(4)])
    expect(np.allclose(K[:4, :4], single, rtol=0, atol=1e-12 * scale), f"{name}: values must not depend on the batch")
    expect(np.linalg.eigvalsh(K).min() >= -1e-9 * n * scale, f"{name}: k(X) must be positive semi-definite")
    K32 = kernel(X.astype(np.float32))
    expect(K32.dtype == np.float32, f"{name}: float32 rows must give float32 values")
    expect(np.allclose(K32, K, rtol=1e-4, atol=1e-4 * scale), f"{name}: float32 must be close to float64")
    expect(np.allclose(kernel(sp.csr_array(X)), K, rtol=0, atol=1e-12 * scale), f"{name}: CSR must equal dense")
    equal = pickle.loads(pickle.dumps(kernel)) == kernel
    expect(equal, f"{name}: a pickled copy must be equal. Is the class a @dataclass(frozen=True)?")
    expect(clone(kernel) is kernel, f"{name}: is frozen, so clone must return it")
    expect(kernel.with_params(**kernel.get_params(deep=False)) == kernel, f"{name}: parameters must round-trip")
    expect(hash(kernel) == hash(kernel.with_params()), f"{name}: equal kernels must have equal hashes")
    doubled = 2.0 * kernel + kernel * kernel
    expect(np.allclose(doubled(X), 2 * K + K * K, rtol=1e-12, atol=1e-12), f"{name}: must work inside the algebra")


def parts_of(kernel: Kernel) -> Iterator[Kernel]:
    """Yield a kernel and, recursively, all kernels among its parameters."""
    yield kernel
    for value in kernel.get_params(deep=False).values():
        if isinstance(value, Kernel):
            yield from parts_of(value)


def check_mass(kernel: IsotropicKernel | SeparableKernel) -> None:
    """Check that profile(0) = 1, which the diagonal and the feature maps of a shift-invariant kernel assume."""
    at_zero = float(kernel.profile(np.zeros(1))[0])
    expect(
        abs(at_zero - 1) <= 1e-12,
        f"{kernel!r}: profile(0) must be 1, is {at_zero:.6g}. For another value at zero, multiply the kernel.",
    )


def check_spectrum(kernel: Kernel, X: np.ndarray, Y: np.ndarray) -> None:
    """Check by sampling that a kernel is the Fourier transform of its spectral measure (Bochner's theorem).

    For row i of `X` and row i of `Y`, x and y, the mean of cos(w . (x - y)) over random frequencies w must be
    k(x, y) / k(x, x), up to sampling error. Nothing is checked if the kernel has no spectral measure.
    """
    parts = kernel.spectral_parts()
    masses = np.array([part.mass for part in parts or ()])
    if parts is None or masses.sum() == 0:
        return
    rng = np.random.default_rng(0)
    d = X.shape[1]
    labels = rng.choice(len(parts), FREQUENCIES, p=masses / masses.sum())
    frequencies = np.zeros((FREQUENCIES, d))
    for p, part in enumerate(parts):
        mine = np.flatnonzero(labels == p)
        for factor in part.factors:
            normals = rng.standard_normal((len(mine), factor.width(d)))
            frequencies[mine] += factor.pull_back(factor.kernel.frequencies(normals, rng.random(len(mine))), d)
    cosines = np.cos(frequencies @ (X - Y).T)
    gap = misfit(cosines, np.diagonal(kernel(X, Y)) / masses.sum(), width=2)
    expect(
        gap <= 1, f"{kernel!r}: frequencies must have the spectral distribution, in dimension {d}; {gap:.1f} radii off"
    )


def check_shift_invariant(kernel: ShiftInvariantKernel) -> None:
    """Check the methods `frequencies` and `power` of a shift-invariant kernel.

    Random `frequencies` are compared with kernel values in 1, 2 and 7 dimensions. The values of `power(n)` are compared
    with k(x, y)^n for n = 2 and 3.
    """
    rng = np.random.default_rng(1)
    for d in (1, 2, 7):
        lags = np.zeros((6, d))
        lags[:3, 0] = [0.5, 1.0, 2.0]
        lags[3:] = rng.normal(size=(3, d))
        lags[3:] *= np.array([0.5, 1.0, 2.0])[:, None] / np.linalg.norm(lags[3:], axis=1, keepdims=True)
        check_spectrum(kernel, float(kernel.lengthscale) * lags, np.zeros((6, d)))
        for n in (2, 3):
            power = kernel.power(n)
            if power is not None:
                same = np.allclose(power(lags), kernel(lags) ** n, rtol=1e-9, atol=1e-12)
                expect(same, f"{kernel!r}: power({n}) must have the values to the power {n}")


def check_formulas(kernel: Kernel) -> None:
    """Check that all optional formulas have names that a base class declares, and that `series` is a `PowerSeries`."""
    name = repr(kernel)
    mine = {key for key in dir(type(kernel)) if key.startswith("closed_")}
    declared = {key for base in type(kernel).__mro__ if base.__module__.startswith("mercer.") for key in vars(base)}
    declared = {key for key in declared if key.startswith("closed_")}
    for key in sorted(mine - declared):
        close = difflib.get_close_matches(key, declared, 1)
        hint = f" Did you mean {close[0]}?" if close else ""
        known = ", ".join(sorted(declared)) or "none"
        expect(False, f"{name}: {key} is never called; the optional formulas of its base classes are: {known}.{hint}")
    if isinstance(kernel, DotProductKernel):
        series = kernel.series
        kind = type(series).__name__
        expect(isinstance(series, PowerSeries), f"{name}: series must be a mercer.kernels.PowerSeries, got {kind}")
        a = series.coefficients(3)
        shape = np.shape(a)
        expect(shape == (3,), f"{name}: series.coefficients(3) must return 3 numbers, got an array of shape {shape}")


def check_isotropic(kernel: IsotropicKernel) -> None:
    """Check `profile`, its derivatives and transform, and means of `mixing` against integrals of `mixing`."""
    name = repr(kernel)
    u = np.linspace(0.0, 1.0, 257)[1:-1]
    tau = np.asarray(kernel.mixing(u))
    expect(
        tau.shape == u.shape, f"{name}: mixing(u) must return an array of the shape of u, {u.shape}, got {tau.shape}"
    )
    wrong = ~(tau >= 0)
    at = f"{u[wrong][0]:.3g} is {tau[wrong][0]:.3g}" if wrong.any() else ""
    expect(not wrong.any(), f"{name}: mixing(u) must be a number >= 0, but mixing({at}")
    mean, numerical = kernel.mean_mixing, UnitDensity.of(kernel.mixing).total
    # Numerical means above LARGEST_MEAN cannot be distinguished from infinite ones.
    known = min(mean, numerical) < LARGEST_MEAN
    agree = abs(mean - numerical) <= 1e-3 * numerical if known else True
    expect(agree, f"{name}: mean_mixing must be the mean of mixing(u), {numerical:.6g}, is {mean:.6g}")
    inverse, numerical = kernel.mean_inverse_mixing, inverse_mixing_density(kernel).total
    known = min(inverse, numerical) < LARGEST_MEAN
    agree = abs(inverse - numerical) <= 1e-3 * numerical if known else True
    expect(agree, f"{name}: mean_inverse_mixing must be the mean of 1 / mixing(u), {numerical:.6g}, is {inverse:.6g}")
    for r in (0.3, 1.0, 3.0):

        def decay(tau: np.ndarray, r: float = r) -> np.ndarray:
            return np.exp(-0.5 * np.minimum(tau, 1e300) * r**2)

        value, slope = (float(f(np.array([r]))[0]) for f in (kernel.profile, kernel.slope))
        expected = UnitDensity.of(lambda u: decay(kernel.mixing(u))).total
        expect(
            abs(value - expected) <= 1e-6,
            f"{name}: profile({r}) must be the mean of exp(-mixing(u) r^2 / 2), {expected:.8g}, is {value:.8g}",
        )
        expected = UnitDensity.of(lambda u: np.minimum(kernel.mixing(u), 1e300) * decay(kernel.mixing(u))).total
        expect(
            abs(slope - expected) <= 1e-5 * expected + 1e-9 / r**2,
            f"{name}: slope({r}) must be -profile'(r) / r, {expected:.8g}, is {slope:.8g}",
        )
        if mean < LARGEST_MEAN:
            biased = mean * UnitDensity.of(lambda u: decay(kernel.size_biased_mixing(u))).total
            expect(
                abs(biased - expected) <= 1e-3 * expected,
                f"{name}: size_biased_mixing must have the density of mixing times tau / mean_mixing",
            )
        if kernel.closed_spectral_density is None:
            continue
        for d in (1, 2, 3):  # the transform of exp(-tau r^2 / 2) is (2 pi / tau)^(d/2) exp(-2 (pi s)^2 / tau)

            def transform(u: np.ndarray, s: float = r / 2, d: int = d) -> np.ndarray:
                tau = np.maximum(kernel.mixing(u), 1e-300)
                return np.exp(d / 2 * np.log(2 * np.pi / tau) - 2 * np.square(np.pi * s) / tau)

            density = float(kernel.closed_spectral_density(np.array([r / 2]), d)[0])
            expected = UnitDensity.of(transform).total
            expect(
                abs(density - expected) <= 1e-3 * expected + 1e-9,
                f"{name}: closed_spectral_density({r / 2}, {d}) must be {expected:.6g}, is {density:.6g}",
            )


def check_separable(kernel: SeparableKernel) -> None:
    """Check that k(x, y) is the product over features of profile(|x_i - y_i| / lengthscale)."""
    X = float(kernel.lengthscale) * sample_rows()
    lags = np.abs(X[:, None] - X) / float(kernel.lengthscale)
    expected = np.prod([kernel.profile(lags[:, :, i]) for i in range(X.shape[1])], axis=0)
    expect(np.allclose(kernel(X), expected, atol=1e-12), f"{kernel!r}: values must be products of profile(lag)")
    u = np.linspace(0.5, 1.0, 33)[1:-1]
    upper, lower = kernel.spectral_quantile(u), kernel.spectral_quantile(1 - u)
    close = np.allclose(upper, -lower, rtol=1e-6, atol=1e-9)
    expect(close, f"{kernel!r}: spectral_quantile(1 - u) must be -spectral_quantile(u): the density is symmetric")


def check_dot_product(kernel: DotProductKernel) -> None:
    """Check the `series` of a dot-product kernel f(x . y), and that `function(t)` is its sum.

    The sum is compared for |t| up to 1 or half the radius of convergence, whichever is less.
    """
    name = repr(kernel)
    series = kernel.series
    a = series.coefficients(SERIES_TERMS)
    expect(a.shape == (SERIES_TERMS,), f"{name}: series.coefficients(n) must return n numbers")
    expect(np.array_equal(series.coefficients(3), a[:3]), f"{name}: coefficients must not depend on their number")
    expect(series.degree is None or not a[series.degree + 1 :].any(), f"{name}: coefficients must end at the degree")
    t = np.linspace(-1.0, 1.0, 9) * min(1.0, 0.5 * series.radius)
    with np.errstate(under="ignore"):
        terms = np.abs(a) * np.abs(t).max() ** np.arange(SERIES_TERMS)
    if terms[-1] <= 1e-12 * terms.sum():  # the terms beyond SERIES_TERMS are negligible
        value, expected = kernel.function(t), np.polynomial.polynomial.polyval(t, a)
        close = np.allclose(value, expected, rtol=0, atol=1e-9 * terms.sum())
        expect(close, f"{name}: function(t) must be the sum of its series")


def check_homogeneous(kernel: HomogeneousKernel) -> None:
    """Check the formulas `coordinate`, `spectral_density`, `frequencies` and `signature` of a homogeneous kernel.

    - ``coordinate(x, y)`` must be symmetric and homogeneous, coordinate(c x, c y) = c coordinate(x, y), with
      coordinate(1, 1) = 1 and coordinate(x, 0) = 0.
    - ``spectral_density(w)`` must have integral one.
    - Random ``frequencies`` w must have the density `spectral_density`, and the mean of cos(w t) must be
      ``signature(t)``. Both are tested by sampling.
    """
    name = repr(kernel)
    x = np.array([1.0, 0.3, 2.0, 1e-3])
    y = np.array([1.0, 2.0, 0.3, 5.0])
    k = kernel.coordinate(x, y)
    expect(abs(k[0] - 1) <= 1e-12, f"{name}: coordinate(1, 1) must be 1, is {k[0]:.6g}")
    expect(np.allclose(k, kernel.coordinate(y, x), rtol=1e-12), f"{name}: coordinate must be symmetric")
    expect(np.allclose(kernel.coordinate(7 * x, 7 * y), 7 * k, rtol=1e-12), f"{name}: coordinate must be homogeneous")
    expect(not kernel.coordinate(x, np.zeros(4)).any(), f"{name}: coordinate(x, 0) must be 0")
    mass = 2 * half_density(kernel).total
    expect(abs(mass - 1) <= 1e-6, f"{name}: the integral of spectral_density must be 1, is {mass:.8g}")
    drawn = kernel.frequencies(FREQUENCIES, np.random.default_rng(0))
    lags = np.array([0.5, 1.0, 2.0, 5.0])
    gap = misfit(np.cos(drawn[:, None] * lags), kernel.signature(lags), width=2)
    expect(gap <= 1, f"{name}: frequencies must have the Fourier transform signature(lag); {gap:.1f} radii off")
    nodes, weights = np.polynomial.legendre.leggauss(64)
    bounds = np.array([0.1, 0.5, 1.0])
    shares = np.array([b * weights @ kernel.spectral_density(0.5 * b * (1 + nodes)) for b in bounds])
    gap = misfit((np.abs(drawn)[:, None] <= bounds).astype(float), shares, width=1)
    expect(gap <= 1, f"{name}: frequencies must have the spectral density; {gap:.1f} radii off")


def check_threshold(kernel: ThresholdKernel) -> None:
    """Check that k(x, y) is the sum over `boxes` (sets of features) of the products of min(x_i, y_i)."""
    X = sample_rows(positive=True)
    minima = np.minimum(X[:, None], X)
    expected = sum(minima[:, :, list(box)].prod(axis=2) for box in kernel.boxes(X.shape[1]))
    expect(np.allclose(kernel(X), expected, rtol=1e-12), f"{kernel!r}: values must be sums over boxes of minima")


#: Base classes of kernels, each with a check of the formulas that it declares.
STRUCTURES: tuple[tuple[type[Kernel], Callable[[Any], None]], ...] = (
    (IsotropicKernel, check_mass),
    (SeparableKernel, check_mass),
    # Exact comparisons first: their messages name the formula that is wrong.
    (IsotropicKernel, check_isotropic),
    (SeparableKernel, check_separable),
    (ShiftInvariantKernel, check_shift_invariant),
    (DotProductKernel, check_dot_product),
    (HomogeneousKernel, check_homogeneous),
    (ThresholdKernel, check_threshold),
)


def bernstein_radius(samples: np.ndarray, *, width: float) -> np.ndarray:
    """Return bounds on |column mean - expectation|, which hold for all columns with probability 1 - `FAILURE`.

    This is the empirical Bernstein bound, two-sided and for all columns at once, by Maurer and Pontil (2009), Empirical
    Bernstein Bounds and Sample Variance Penalization, COLT, Theorem 4.

    Parameters
    ----------
    samples : ndarray of shape (n, m)
        Independent rows.
    width : float
        Length of an interval that contains every value.

    Returns
    -------
    ndarray of shape (m,)
    """
    n, columns = samples.shape
    log = np.log(4 * columns / FAILURE)
    return np.sqrt(2 * samples.var(axis=0, ddof=1) * log / n) + 7 * width * log / (3 * (n - 1))


def misfit(samples: np.ndarray, expected: np.ndarray, *, width: float) -> float:
    """Return the largest |column mean - expected value| / `bernstein_radius` over the columns of `samples`."""
    gap = np.abs(samples.mean(axis=0) - expected)
    return float((gap / bernstein_radius(samples, width=width)).max())


def catoni_misfit(samples: np.ndarray, expected: np.ndarray, variance: np.ndarray) -> float:
    """Return the largest |robust mean - expected value| / radius over the columns, with the radius of Catoni's bound.

    Catoni (2012), Challenging the empirical mean and empirical variance, Annales de l'IHP 48, Proposition 2.4: if the
    variances are at most `variance`, and with no other assumption on the distribution, the robust means of all columns
    are within their radii of the expected values with probability 1 - `FAILURE`.

    Parameters
    ----------
    samples : ndarray of shape (n, m)
        Independent rows, more than about 50.
    expected, variance : ndarray of shape (m,)
        Expected values, and upper bounds of the variances.

    Returns
    -------
    float
    """
    n, columns = samples.shape
    log = np.log(2 * columns / FAILURE)
    radius = np.sqrt(2 * variance * log / (n - 2 * log))
    scale = np.sqrt(2 * log / (n * (variance + np.square(radius))))
    low, high = samples.min(axis=0), samples.max(axis=0)
    for _ in range(100):
        middle = 0.5 * (low + high)
        t = scale * (samples - middle)
        short = (np.sign(t) * np.log1p(np.abs(t) + 0.5 * np.square(t))).sum(axis=0) > 0
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return float((np.abs(0.5 * (low + high) - expected) / radius).max())


def check_map(feature_map: BaseMap, X: np.ndarray | None = None, *, draws: int = 100) -> None:
    """Check the features of a map on some rows, and that the map is unbiased if its `unbiased` is True.

    Features must be finite, the same for any batch, order, sparse format, dtype and number of threads, and determined
    by the seed. If `unbiased` is True, the mean of the approximate kernel over seeds must be the kernel, up to a radius
    that an unbiased map exceeds with probability below 1e-9. The radius depends on the variance of the approximate
    kernel. If the map has no formula for this variance, twice the sample variance over seeds is used. Maps whose
    features have rare and large values may then need more seeds.

    Parameters
    ----------
    feature_map : BaseMap
        An unfitted map.
    X : ndarray of shape (n, d), default=None
        Rows for the checks; None means 24 rows of 3 features, which are >= 0 if the map requires it.
    draws : int, default=100
        Number of seeds over which the approximate kernel is averaged. If it is zero, bias is not checked. More seeds,
        or a wider map, detect a smaller bias.
    """
    X = sample_rows(positive=get_tags(feature_map).input_tags.positive_only) if X is None else X
    y = sample_targets(X) if feature_map.uses_targets else None
    name = repr(feature_map)
    expect(isinstance(getattr(feature_map, "needs", None), str), f"{name}: needs must say what a kernel must have")
    raised = False
    try:
        clone(feature_map).transform(X)
    except NotFittedError:
        raised = True
    expect(raised, f"{name}: transform before fit must raise NotFittedError")
    fitted = clone(feature_map).set_params(random_state=7).fit(X, y)
    before = X.copy()
    Z = fitted.transform(X)
    expect(Z.shape == (len(X), feature_map.width), f"{name}: must have as many components as its width")
    expect(np.isfinite(Z).all(), f"{name}: features must be finite")
    expect(np.array_equal(X, before), f"{name}: transform must not write into its input")
    expect(np.array_equal(Z, fitted.transform(X)), f"{name}: transform must be pure")
    rounding = 1e-11 * max(1.0, float(np.abs(Z).max()))

    def same(A: np.ndarray, B: np.ndarray) -> bool:
        return np.allclose(A, B, rtol=0, atol=rounding)

    parts = np.concatenate([fitted.transform(X[:1]), fitted.transform(X[1:8]), fitted.transform(X[8:])])
    expect(same(Z, parts), f"{name}: features must not depend on the batch")
    order = np.random.default_rng(0).permutation(len(X))
    expect(same(Z[order], fitted.transform(X[order])), f"{name}: must commute with row order")
    for sparse in (sp.csr_matrix(X), sp.csr_array(X)):
        expect(same(Z, fitted.transform(sparse)), f"{name}: CSR must equal dense")
    for jobs in (1, 2, 5):
        expect(np.array_equal(Z, fitted.set_params(n_jobs=jobs).transform(X)), f"{name}: n_jobs must not matter")
    again = clone(feature_map).set_params(random_state=7).fit(X, y)
    expect(np.array_equal(Z, again.transform(X)), f"{name}: equal seeds must give equal features")
    expect(np.array_equal(Z, pickle.loads(pickle.dumps(fitted)).transform(X)), f"{name}: must survive pickle")
    X32 = X.astype(np.float32)
    Z32 = fitted.transform(X32)
    expect(Z32.real.dtype == np.float32, f"{name}: float32 rows must give float32 features")
    gap = np.abs(Z32 - Z).max() / max(1e-30, np.abs(Z).max())
    expect(gap < 1e-3, f"{name}: float32 must be close to float64, is {gap:.1e} away")
    signs = np.ones(Z.shape[1]) if fitted.signs_ is None else fitted.signs_
    gram = ((Z * signs) @ Z.conj().T).real
    expect(same(fitted.gram(X), gram), f"{name}: gram must be Z diag(signs) Z'")
    reason = fitted.unbiased
    expect(reason is True or (isinstance(reason, str) and reason), f"{name}: unbiased must be True or a reason")
    variance = variance_of(fitted, X)
    if variance is not None:
        expect(variance.shape == (len(X), len(X)), f"{name}: variance(X) must be n x n")
        expect((variance >= 0).all(), f"{name}: a variance must not be negative")
    if reason is True and draws:
        check_unbiased(feature_map, X, draws)


def check_unbiased(feature_map: BaseMap, X: np.ndarray, draws: int) -> None:
    """Check that the approximate kernel, averaged over `draws` seeds, is the exact kernel on five rows of `X`."""
    rows = X[:5]
    upper = np.triu_indices(len(rows))
    samples = np.empty((draws, len(upper[0])))
    for seed in range(draws):
        fitted = clone(feature_map).set_params(random_state=seed).fit(X)
        samples[seed] = fitted.gram(rows)[upper]
    K = fitted.kernel_(rows)
    expected = K[upper]
    variance = variance_of(fitted, rows)
    if variance is None:
        # Small kernel values may be due to rare and large features, which a sample variance over few seeds misses.
        diagonal = np.diagonal(K)
        spread = 2 * samples.var(axis=0) + SMALL_VALUE**2 * np.outer(diagonal, diagonal)[upper]
    else:
        spread = variance[upper]
    rounding = 1e-9 * max(1.0, float(np.abs(expected).max()))
    gap = catoni_misfit(samples, expected, spread + rounding**2)
    name = repr(feature_map)
    expect(gap <= 1, f"{name}: claims to be unbiased, but its mean over {draws} seeds is {gap:.1f} radii off")


def variance_of(feature_map: BaseMap, X: np.ndarray) -> np.ndarray | None:
    """Return the variance of each entry of ``feature_map.gram(X)``, over the random parameters of the map.

    The result is None if the map has no closed form for this variance.
    """
    try:
        return feature_map.variance(X)
    except NoClosedFormError:
        return None


class StoppedError(Exception):
    """Raised by `StoppedBlocks` to simulate the interruption of a fit."""


class StoppedBlocks:
    """Iterable over blocks that raises StoppedError after `reads` blocks.

    Blocks are counted over all passes, so that a later pass may raise the error.
    """

    def __init__(self, blocks: Sequence[Any], reads: int) -> None:
        self.blocks = blocks
        self.left = reads

    def __iter__(self) -> Iterator[Any]:
        for block in self.blocks:
            self.left -= 1
            if self.left < 0:
                raise StoppedError
            yield block


def check_learner(learner: Learner, X: np.ndarray | None = None, y: np.ndarray | None = None) -> None:
    """Check that a learner gives the same model in memory, from blocks and by `partial_fit`.

    The model must also be the same for any number of threads, any block size, sparse rows, and after an interrupted fit
    is resumed from a checkpoint. Integer weights must be equivalent to repeated rows.

    Parameters
    ----------
    learner : Learner
        An unfitted learner. If the learner and its map read the rows only once, fits from an iterator and by
        `partial_fit` are checked, too. Otherwise an iterator must be rejected.
    X, y : ndarrays, default=None
        Rows and targets; None means 200 rows of 3 features.
    """
    if X is None or y is None:
        X = sample_rows(200)
        y = sample_targets(X)
        y = np.digitize(y, [-0.5, 0.5]) if is_classifier(learner) else y
    name = repr(learner)

    def outputs(model: Any) -> np.ndarray:
        if is_clusterer(model) or isinstance(model, Transformer):
            return model.transform(X)
        return model.decision_function(X) if is_classifier(model) else model.predict(X)

    seeds = {key: 3 for key in learner.get_params() if key.split("__")[-1] == "random_state"}
    fresh = clone(learner).set_params(**seeds)
    model = clone(fresh).fit(X, y)
    expected = outputs(model)
    expect(np.isfinite(expected).all(), f"{name}: predictions must be finite")
    close = max(1e-7, 10 * getattr(model, "rounding_", 0.0))
    scale = max(1.0, float(np.abs(expected).max()))

    def same(A: np.ndarray, B: np.ndarray) -> bool:
        return np.allclose(A, B, rtol=close, atol=close * scale)

    for jobs in (1, 2, 5):
        threaded = clone(fresh).set_params(n_jobs=jobs).fit(X, y)
        expect(np.array_equal(outputs(threaded), expected), f"{name}: n_jobs={jobs} must give equal bits")
    for size in (1, 7, 64, 10_000):
        other = clone(fresh).set_params(block_size=size).fit(X, y)
        expect(same(outputs(other), expected), f"{name}: block_size={size} must not matter")
    cuts = [0, 1, 1, 90, 150, len(X)]  # the second block is empty
    blocks = [(X[a:b], y[a:b]) for a, b in pairwise(cuts)]
    expect(
        same(outputs(clone(fresh).fit(blocks)), expected),
        f"{name}: blocks must give the model of arrays in memory",
    )
    once = learner._several_passes() is None
    one_pass = fresh
    if learner.feature_map is None and not is_clusterer(learner):
        # The lengthscale of the default map is a median over the rows, which are then read twice.
        one_pass = clone(fresh).set_params(feature_map=RandomFourier(Gaussian(1.0), 64, random_state=3))
    if one_pass.get_params(deep=False).get("alpha") == "auto":
        one_pass = clone(one_pass).set_params(alpha="evidence")  # what "auto" is where rows are read once
    if once and not one_pass._unfitted_map(None).needs_rows():
        complete = outputs(clone(one_pass).fit(X, y))
        expect(
            same(outputs(clone(one_pass).fit(iter(blocks))), complete),
            f"{name}: an iterator must give the same model",
        )
        expect(hasattr(one_pass, "partial_fit"), f"{name}: reads the rows once, so it must have partial_fit")
        partial, continued = clone(one_pass), clone(one_pass).fit(X[:150], y[:150])
        for Xb, yb in blocks:
            if len(Xb):
                partial.partial_fit(Xb, yb)
        expect(same(outputs(partial), complete), f"{name}: partial_fit must equal fit")
        continued.partial_fit(X[150:], y[150:])
        expect(same(outputs(continued), complete), f"{name}: partial_fit must continue a fit")
    if not once or fresh._unfitted_map(None).needs_rows():
        refused = False
        try:
            clone(fresh).fit(iter(blocks))
        except DataError:
            refused = True
        expect(refused, f"{name}: reads rows more than once, so it must refuse an iterator")
        expect(
            once or is_clusterer(learner) or not hasattr(fresh, "partial_fit"),
            f"{name}: reads rows more than once, so it must have no partial_fit",
        )
    streamed = outputs(clone(fresh).fit(blocks))
    with tempfile.TemporaryDirectory() as folder:
        checkpoint = Checkpoint(os.path.join(folder, "fit.checkpoint"), seconds=0)
        for reads in (3, 8, 14, 33):
            with suppress(StoppedError):
                clone(fresh).fit(StoppedBlocks(blocks, reads), checkpoint=checkpoint)
        resumed = clone(fresh).fit(blocks, checkpoint=checkpoint)
        expect(np.array_equal(outputs(resumed), streamed), f"{name}: an interrupted fit must resume to the same bits")
        expect(os.listdir(folder) == [], f"{name}: a successful fit must leave no checkpoint")
    repeats = np.random.default_rng(0).integers(0, 3, len(X))
    repeats[:6] = 1  # every label remains
    weighted = clone(fresh).fit(X, y, sample_weight=repeats)
    repeated = clone(fresh).fit(np.repeat(X, repeats, axis=0), np.repeat(y, repeats, axis=0))
    expect(same(outputs(weighted), outputs(repeated)), f"{name}: weights must equal repetition")
    expect(same(outputs(clone(fresh).fit(sp.csr_array(X), y)), expected), f"{name}: CSR must equal dense")
    expect(np.array_equal(outputs(pickle.loads(pickle.dumps(model))), expected), f"{name}: must survive pickle")
    before = outputs(model)
    try:
        model.fit(np.full((4, X.shape[1]), np.nan), y[:4])
    except ValueError:
        pass
    expect(np.array_equal(outputs(model), before), f"{name}: a failed fit must leave the model as it was")


def check_engines(learner: Learner, X: np.ndarray | None = None, y: np.ndarray | None = None) -> None:
    """Check that a learner gives the same model in memory, from a stream and on Dask, also with weights.

    Results must agree to 1e-10, or to ten times the `rounding_` of the learner if that is more.

    Parameters
    ----------
    learner : Learner
        An unfitted learner.
    X, y : ndarrays, default=None
        Rows of float64 and targets; None means 300 rows of 3 features.
    """
    import dask.array as da

    if X is None or y is None:
        X = sample_rows(300, positive=get_tags(learner).input_tags.positive_only)
        y = sample_targets(X)
        y = np.digitize(y, [-0.5, 0.5]) if is_classifier(learner) else y
    name = repr(learner)
    seeds = {key: 3 for key in learner.get_params() if key.split("__")[-1] == "random_state"}
    fresh = clone(learner).set_params(**seeds)
    n = len(X)
    weight = np.random.default_rng(0).integers(0, 3, n).astype(float)
    weight[:6] = 1  # every label remains
    for w in (None, weight):
        in_memory = clone(fresh).fit(X, y, sample_weight=w)
        expected = results_of(in_memory, X)
        scale, close = float(np.abs(expected).max()), max(1e-10, 10 * getattr(in_memory, "rounding_", 0.0))
        weights = "" if w is None else " with weights"

        def compare(
            model: Any, how: str, expected: np.ndarray = expected, scale: float = scale, close: float = close
        ) -> None:
            gap = float(np.abs(results_of(model, X) - expected).max()) / scale
            expect(gap <= close, f"{name}: {how} must equal the result in memory to {close:.1e}, is {gap:.1e} away")

        for size in (n // 7, n // 2):
            compare(clone(fresh).set_params(block_size=size).fit(X, y, sample_weight=w), f"block_size={size}{weights}")
            rows = [slice(i, i + size) for i in range(0, n, size)]
            blocks = [(X[i], y[i]) if w is None else (X[i], y[i], w[i]) for i in rows]
            compare(clone(fresh).fit(blocks), f"a stream of {size} rows per block{weights}")
            on_dask = [None if a is None else da.from_array(a, chunks=(size, -1)[: a.ndim]) for a in (X, y, w)]
            model = clone(fresh).fit(*on_dask)
            compare(model, f"dask with {size} rows per partition{weights}")
    again = clone(fresh).set_params(n_jobs=3).fit(*on_dask)
    expect(np.array_equal(results_of(again, X), results_of(model, X)), f"{name}: fits on dask must give equal bits")
    lazy = results_of(model, da.from_array(X, chunks=(50, -1)))
    expect(not isinstance(lazy, np.ndarray), f"{name}: results on dask must be lazy")
    gap = float(np.abs(lazy.compute() - results_of(model, X)).max()) / scale
    expect(gap <= 1e-12, f"{name}: results on dask must be those in memory, are {gap:.1e} away")


def results_of(model: Any, X: Any) -> Any:
    """Return decision_function(X), transform(X) or predict(X) of a fitted learner, the first of these that it has."""
    for method in ("decision_function", "transform", "predict"):
        if hasattr(model, method):
            return getattr(model, method)(X)
    msg = f"{model!r} has none of decision_function, transform, predict."
    raise AssertionError(msg)


def check_engine(make_engine: Callable[[Sequence[np.ndarray], int], Engine], *, n: int = 97) -> None:
    """Check that an engine visits every row once, in order, and gives bitwise equal sums for any number of threads.

    Parameters
    ----------
    make_engine : callable
        Takes a sequence of row blocks and a number of threads and returns an engine over their rows.
    n : int, default=97
        Number of rows of the test data.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-8, 8, size=(n, 1))
    blocks = [X[i : i + 10] for i in range(0, n, 10)]

    def total(block: Block) -> np.ndarray:
        return block.X.sum(axis=0)

    def indices(block: Block) -> tuple[int, ...]:
        return tuple(range(block.start, block.start + len(block)))

    first = make_engine(blocks, 1)
    expect(first.sum(indices) == tuple(range(n)), "an engine must visit every row once, in order")
    sums = [make_engine(blocks, jobs).sum(total) for jobs in (1, 2, 7)]
    expect(all(np.array_equal(sums[0], s) for s in sums), "the number of threads must not change a bit")
    expect(np.allclose(sums[0], X.sum(axis=0)), "an engine must add all rows")
    if first.replayable:
        expect(np.array_equal(first.sum(total), sums[0]), "a replayable engine must give the same sum again")

    def fail(block: Block) -> np.ndarray:
        if block.start > 30:
            msg = "stop here"
            raise RuntimeError(msg)
        return block.X

    for jobs in (1, 3):
        raised = False
        try:
            make_engine(blocks, jobs).sum(lambda block: fail(block).sum(axis=0))
        except RuntimeError:
            raised = True
        expect(raised, "an error inside a term must reach the caller")
