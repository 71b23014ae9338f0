"""Features of homogeneous kernels of histograms: cosines and sines of logarithms, times square roots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize_scalar

from mercer import linalg
from mercer.errors import ParameterError
from mercer.features import Features
from mercer.kernels import Chi2, Kernel
from mercer.kernels.base import dense64
from mercer.kernels.histogram import HomogeneousKernel, check_non_negative
from mercer.maps.base import DrawnMap
from mercer.maps.histogram.coordinates import Index, weighted_sum
from mercer.parameters import Choice, Domain, Interval
from mercer.theory.variance import pair_term_variance

__all__ = ["HomogeneousFeatures", "LogarithmicFeatures"]

Array = np.ndarray
Mixture = tuple[tuple[float, HomogeneousKernel], ...]
# Logarithms of ratios at which the error of a grid is looked at; beyond, the smaller value is next to nothing.
LAGS = np.linspace(0.0, 30.0, 1201)


class HomogeneousFeatures(DrawnMap):
    r"""Features for homogeneous kernels of rows >= 0: `Chi2`, `JensenShannon`, `Intersection`, and their sums.

    Such a kernel is a sum over columns of :math:`\sqrt{xy}\,K(\log y / x)`, and K is the Fourier transform of a
    density :math:`\kappa`. So maps each value x to :math:`\sqrt{x}` times cosines and sines of :math:`w_j \log x`, and
    zero to zero [1]_.

    Parameters
    ----------
    kernel : Kernel, default=None
        Kernel to approximate; None means ``Chi2()``.
    n_components : int, default=512
        Width of the output, shared out among the columns of X. With fewer features than columns, some columns of X
        are chosen at random, and stand for all.
    frequencies : {"grid", "random"}, default="grid"
        Multiples of `step`, or drawn from the density. A grid is not unbiased, but with the three or more features a
        column that it likes to have, its error is far smaller.
    step : float or "auto", default="auto"
        Distance of the frequencies of a grid; "auto" takes the one of least `error_bound_`.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an int makes repeated fits identical.
    n_jobs : int or None, default=None
        Threads of `transform`; None means all cores. The result does not depend on it.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel.
    features_ : LogarithmicFeatures
        The drawn map: a pure function of rows.
    error_bound_ : float or None
        For a grid: in no column is the kernel off by more than this times the larger of the two values. None for
        drawn frequencies, and for fewer features than columns.
    signs_ : None
        The approximate kernel is positive semi-definite.
    n_features_in_ : int
        Width of the rows seen in `fit`.

    Notes
    -----
    - "grid": a column of X with 2n + 1 features has :math:`\sqrt{x L \kappa(0)}` and
      :math:`\sqrt{2 x L \kappa(jL)}` times the cosine and the sine of :math:`jL \log x`, j = 1 ... n. For `Chi2` the
      bound is 0.11, 0.031, 0.013, 0.006 for 1, 3, 5, 7 features a column; for `Intersection`, whose density has a
      heavy tail, 0.17, 0.10, 0.08, 0.06, and `ThresholdFeatures` serves better. If the features do not go round in
      twos, the last is zero.
    - "random": unbiased; a frequency adds the variance :math:`xy (1 + K(2\lambda) - 2K(\lambda)^2) / 2` at
      :math:`\lambda = \log y / x`. An odd number of features leaves one cosine unpaired, with a random phase.

    A constant, as in ``1 + Chi2()``, takes one exact column. Time O(n D) for dense rows; for sparse ones in proportion
    to their entries.

    References
    ----------
    .. [1] Vedaldi, Zisserman (2012), Efficient Additive Kernels via Explicit Feature Maps, IEEE PAMI.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Chi2, HomogeneousFeatures
    >>> X = np.random.default_rng(0).dirichlet(np.ones(8), size=100)
    >>> feature_map = HomogeneousFeatures(Chi2(), n_components=56).fit(X)
    >>> bool(abs(feature_map.gram(X) - Chi2()(X)).max() < 0.01)
    True
    """

    needs: ClassVar[str] = "a homogeneous kernel, Chi2(), JensenShannon() or Intersection(), or a sum of such"
    default_kernel: ClassVar[Kernel] = Chi2()
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "frequencies": Choice("grid", "random"),
        "step": Choice("auto") | Interval(0, closed="neither"),
    }
    features_: LogarithmicFeatures
    frequencies_: str
    error_bound_: float | None

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        frequencies: Literal["grid", "random"] = "grid",
        step: float | Literal["auto"] = "auto",
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.frequencies = frequencies
        self.step = step
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        return weighted_sum(kernel, HomogeneousKernel) is not None

    @property
    def unbiased(self) -> bool | str:
        if getattr(self, "frequencies_", self.frequencies) == "grid":
            return "frequencies on a grid are not drawn: a sum of few of them stands for an integral"
        return True

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> LogarithmicFeatures:  # noqa: ARG002
        constant, mixture = constant_and_mixture(kernel)
        width = self.n_components - (constant > 0)
        if width == 0:
            msg = (
                f"HomogeneousFeatures: n_components must be at least 2 for {kernel!r}, one of them for the constant, "
                "got 1."
            )
            raise ParameterError(msg)
        draw = self._draw_grid if self.frequencies == "grid" else self._draw_random
        terms, bound = draw(mixture, width, X.shape[1], rng)
        self.error_bound_, self.frequencies_ = bound, self.frequencies
        return LogarithmicFeatures(*terms, X.shape[1], np.sqrt(constant), self.n_components)

    def _draw_grid(
        self, mixture: Mixture, width: int, d: int, rng: np.random.Generator
    ) -> tuple[tuple[Array, Array, Array, Array], float | None]:
        """Return column, frequency, phase and amplitude of each term, those of frequency zero last, and the bound."""
        if width < d:
            step = self._step(mixture, 0)
            columns = rng.permutation(d)[:width]
            amplitude = np.sqrt(d / width * step * density(mixture, np.zeros(1))[0])
            return (columns, np.zeros(width), np.zeros(width), np.full(width, amplitude)), None
        # One feature a column, then pairs in turn.
        pairs = np.full(d, (width - d) // 2 // d)
        pairs[: (width - d) // 2 % d] += 1
        chosen = {n: self._step(mixture, n) for n in np.unique(pairs).tolist()}
        steps = np.array([chosen[n] for n in pairs.tolist()])
        paired = np.repeat(np.arange(d), pairs)
        harmonic = np.concatenate([np.arange(1, n + 1) for n in pairs])
        columns = np.concatenate([paired, np.arange(d)])
        frequencies = np.concatenate([harmonic * steps[paired], np.zeros(d)])
        twice = np.repeat([2.0, 1.0], [len(paired), d])
        amplitudes = np.sqrt(twice * steps[columns] * density(mixture, frequencies))
        if (width - d) % 2:  # a feature without a partner
            columns, frequencies, amplitudes = (np.append(a, 0) for a in (columns, frequencies, amplitudes))
        bound = max(grid_error(mixture, n, s, fine_lags(n * s)) for n, s in chosen.items())
        return (columns, frequencies, np.zeros(len(columns)), amplitudes), bound

    def _step(self, mixture: Mixture, pairs: int) -> float:
        return best_step(mixture, pairs) if self.step == "auto" else float(self.step)

    def _draw_random(
        self, mixture: Mixture, width: int, d: int, rng: np.random.Generator
    ) -> tuple[tuple[Array, Array, Array, Array], None]:
        """Return column, frequency, phase and amplitude of each term, an unpaired one last; there is no bound."""
        m = -(-width // 2)
        # Every column of X has its share of terms to within one; which ones have one more is drawn.
        counts = np.full(d, m // d)
        counts[rng.permutation(d)[: m % d]] += 1
        columns = rng.permutation(np.repeat(np.arange(d), counts))  # so that any may be the unpaired one
        weights = np.array([weight for weight, _ in mixture])
        total = weights.sum()
        labels = rng.choice(len(mixture), m, p=weights / total) if total > 0 else np.zeros(m, dtype=int)
        frequencies = np.zeros(m)
        for p, (_, leaf) in enumerate(mixture):
            frequencies[labels == p] = leaf.frequencies(int((labels == p).sum()), rng)
        shares = 1 / counts[columns] if m >= d else np.full(m, d / m)
        amplitudes, phases = np.sqrt(total * shares), np.zeros(m)
        if width % 2:
            phases[-1] = rng.uniform(0, 2 * np.pi)
            amplitudes[-1] *= np.sqrt(2)
        return (columns, frequencies, phases, amplitudes), None

    def _variance(self, X: Any, Y: Any) -> Array:
        X = dense64(X)
        Y = X if Y is None else dense64(Y)
        constant, mixture = constant_and_mixture(self.kernel_)
        d, width = X.shape[1], self.features_.n_components - (constant > 0)
        if self.frequencies_ == "grid":
            if width >= d:
                return np.zeros((len(X), len(Y)))
            amplitude = self.features_.amplitudes[0] ** 2 * width / d
            products = amplitude * np.sqrt(X) @ np.sqrt(Y).T
            return choice_variance(products, amplitude**2 * X @ Y.T, width, d)
        m = -(-width // 2)
        total = sum(weight for weight, _ in mixture)
        noise = squares = values = np.zeros((len(X), len(Y)))
        for x, y in zip(X.T[:, :, None], Y.T, strict=True):
            k, k_double, mass = column_values(mixture, x, y)
            noise = noise + pair_term_variance(k, k_double, mass)
            squares, values = squares + np.square(k), values + k
        if width % 2:  # one term in m has a phase, at the price of half the squared mass
            noise = noise + 0.5 * total**2 * (X @ Y.T) / m
        # The mean over columns of one over their number of terms.
        low, more = divmod(m, d)
        spread = d / m if m < d else (1 - more / d) / low + more / d / (low + 1)
        return np.maximum(spread * noise + choice_variance(values, squares, min(m, d), d), 0.0)


def choice_variance(values: Array, squares: Array, n: int, d: int) -> Array:
    """Return the variance from choosing n of d columns without replacement, given sums and sums of squares over all."""
    if n >= d:
        return np.zeros_like(values)
    return np.maximum(d * d / n * (1 - n / d) * (squares - np.square(values) / d) / (d - 1), 0.0)


def column_values(mixture: Mixture, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Return for one column the kernel, sqrt(x y) K(2 log y / x), and sqrt(x y) K(0)."""
    lag = logarithms(y) - logarithms(x)
    root = np.sqrt(x) * np.sqrt(y)
    k = sum(weight * leaf.coordinate(x, y) for weight, leaf in mixture)
    k_double = root * sum(weight * leaf.signature(2 * lag) for weight, leaf in mixture)
    return np.asarray(k), k_double, root * sum(weight for weight, _ in mixture)


def constant_and_mixture(kernel: Kernel) -> tuple[float, Mixture]:
    """Return the constant of a kernel and its weighted homogeneous kernels."""
    parts = weighted_sum(kernel, HomogeneousKernel)
    assert parts is not None
    return parts[0], tuple(parts[1])


def density(mixture: Mixture, frequencies: Array) -> Array:
    """Return the spectral density of a weighted sum of kernels."""
    return np.sum([weight * leaf.spectral_density(frequencies) for weight, leaf in mixture], axis=0)


def fine_lags(highest: float) -> Array:
    """Return lags close enough to see every ripple of frequencies up to the highest."""
    return np.linspace(LAGS[0], LAGS[-1], int(np.clip(20 * highest * LAGS[-1], len(LAGS), 20_001)))


def grid_error(mixture: Mixture, pairs: int, step: float, lags: Array = LAGS) -> float:
    """Return the largest error of a grid for two values of which the larger is one."""
    frequencies = step * np.arange(pairs + 1)
    weights = step * density(mixture, frequencies) * np.where(frequencies > 0, 2.0, 1.0)
    exact = sum(weight * leaf.signature(lags) for weight, leaf in mixture)
    # The values are exp(-lag) and one: the root of their product is exp(-lag / 2).
    return float((np.exp(-0.5 * lags) * np.abs(np.cos(np.multiply.outer(lags, frequencies)) @ weights - exact)).max())


@lru_cache(maxsize=256)
def best_step(mixture: Mixture, pairs: int) -> float:
    """Return the step of least error: a scan, for it may have several minima, and a refinement."""
    scan = np.geomspace(0.01, 4.0, 40)
    best = int(np.argmin([grid_error(mixture, pairs, step) for step in scan]))
    bounds = scan[max(best - 1, 0)], scan[min(best + 1, len(scan) - 1)]
    return float(minimize_scalar(lambda step: grid_error(mixture, pairs, step), bounds=bounds, method="bounded").x)


@dataclass(frozen=True, eq=False)
class LogarithmicFeatures(Features):
    """Drawn features of logarithms: immutable, picklable, free of scikit-learn.

    The columns are the constant, if there is one, the cosines of all m terms, and the sines of as many as there is
    room for.
    """

    columns: Array  # (m,): which column of the rows a term looks at
    frequencies: Array  # (m,)
    phases: Array  # (m,), zero where sine and cosine are both there
    amplitudes: Array  # (m,)
    d: int
    constant: float  # the value of an exact first column; zero means there is none
    n_components: int

    @cached_property
    def index(self) -> Index:
        return Index(self.columns, self.d)

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""
        if self.frequencies.dtype == dtype:
            return self
        names = ("frequencies", "phases", "amplitudes")
        return replace(self, **{name: getattr(self, name).astype(dtype) for name in names})

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`; both have the dtype of this draw."""
        check_non_negative("HomogeneousFeatures", X)
        if self.constant:
            out[:, 0] = self.constant
            out = out[:, 1:]
        if sp.issparse(X):
            self._write_entries(X, out)
            return
        m = len(self.columns)
        angles = np.take(logarithms(X), self.columns, axis=1)
        angles *= self.frequencies
        angles += self.phases
        linalg.sincos_pairs(angles, 1.0, out)
        scale = np.take(np.sqrt(X), self.columns, axis=1)
        scale *= self.amplitudes
        out[:, :m] *= scale
        out[:, m:] *= scale[:, : out.shape[1] - m]

    def _write_entries(self, X: Any, out: Array) -> None:
        out[:] = 0.0
        rows, terms, values = self.index.entries(X)
        angles = self.frequencies[terms] * logarithms(values) + self.phases[terms]
        waves = linalg.sincos_pairs(angles[None], 1.0, np.empty((1, 2 * len(angles)), angles.dtype))
        scale = np.sqrt(values) * self.amplitudes[terms]
        cosines, sines = np.split(waves[0], 2)
        out[rows, terms] = scale * cosines
        m = len(self.columns)
        paired = terms < out.shape[1] - m
        out[rows[paired], m + terms[paired]] = (scale * sines)[paired]


def logarithms(values: Array) -> Array:
    """Return logarithms, and zero for zero, whose features are zero whatever it is."""
    return np.log(values, out=np.zeros_like(values), where=values > 0)
