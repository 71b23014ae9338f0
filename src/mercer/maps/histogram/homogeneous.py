"""Features of additive homogeneous kernels for histograms: the map `HomogeneousFeatures`.

For a value x of a row, the components are sqrt(x) cos(w log x) and sqrt(x) sin(w log x), times constants. The
frequencies w are random or on a regular grid (see the module `frequency_grid`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp

from mercer import linalg
from mercer._docs import doc
from mercer.errors import ParameterError
from mercer.features import Features
from mercer.kernels import Chi2, Kernel
from mercer.kernels.base import dense64
from mercer.kernels.histogram import HomogeneousKernel, check_non_negative
from mercer.maps.base import DrawnMap
from mercer.maps.histogram.coordinates import CoordinateIndex
from mercer.maps.histogram.frequency_grid import Mixture, best_step, density, fine_lags, grid_error
from mercer.maps.summands import weighted_sum
from mercer.parameters import Choice, Domain, Interval
from mercer.theory.variance import pair_term_variance

__all__ = ["HomogeneousFeatures", "LogarithmicFeatures"]

Array = np.ndarray


@doc
class HomogeneousFeatures(DrawnMap):
    r"""Features for additive homogeneous kernels of non-negative rows.

    These kernels are `Chi2`, `JensenShannon`, `Intersection` and their sums. Each is a sum over features of
    :math:`\sqrt{xy}\,K(\log(y / x))`, where K is the Fourier transform of a density :math:`\kappa`. A value x is mapped
    to :math:`\sqrt{x}` times cosines and sines of :math:`w_j \log x`, and zero is mapped to zero [1]_.

    Parameters
    ----------
    kernel : Kernel, default=None
        Kernel to approximate; None means ``Chi2()``.
    n_components : int, default=512
        Number of components of the map, distributed over the features of X. With fewer components than features, a
        random subset of the features represents all of them.
    frequencies : {"grid", "random"}, default="grid"
        "grid": multiples of `step`. "random": sampled from the density :math:`\kappa`. A grid is biased, but
        with three or more components for each feature its error is much smaller.
    step : float or "auto", default="auto"
        Distance between the frequencies of a grid; "auto" means the step with the least `error_bound_`.
    %(random_state)s
    %(n_jobs)s

    Attributes
    ----------
    error_bound_ : float or None
        For a grid, a bound of the absolute error: it is at most `error_bound_` times the sum over features of the
        larger of the two values. None for random frequencies, and for fewer components than features.
    features_ : LogarithmicFeatures
        The sampled features: a function from rows to features.
    %(kernel_)s
    %(signs_none)s
    %(n_features_in_)s

    See Also
    --------
    ThresholdFeatures : Approximates `Intersection` and other kernels of minima more accurately.
    sklearn.kernel_approximation.AdditiveChi2Sampler : The grid for the chi-squared kernel.

    Notes
    -----
    - "grid": a feature of X with 2n + 1 components has :math:`\sqrt{x L \kappa(0)}` and
      :math:`\sqrt{2 x L \kappa(jL)}` times the cosine and the sine of :math:`jL \log x` for j = 1, ..., n, where L is
      the step. For `Chi2` the error bound is 0.11, 0.031, 0.013, 0.006 for 1, 3, 5, 7 components per feature. For
      `Intersection`, whose density has a heavy tail, it is 0.17, 0.10, 0.08, 0.06, and `ThresholdFeatures` is more
      accurate. If one component is left over, it is zero.
    - "random": unbiased. A frequency adds the variance :math:`xy (1 + K(2\lambda) - 2K(\lambda)^2) / 2` with
      :math:`\lambda = \log(y / x)`. For an odd number of components, the last one is a cosine with a random phase.

    A constant, as in ``1 + Chi2()``, takes one exact component. `transform` takes O(n D) operations for dense rows. For
    sparse rows the cost is proportional to the number of nonzero entries.

    References
    ----------
    .. [1] Vedaldi, Zisserman (2012), Efficient Additive Kernels via Explicit Feature Maps, IEEE Transactions on Pattern
       Analysis and Machine Intelligence 34(3).

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
            return "frequencies on a grid are not random: a finite sum approximates the Fourier integral"
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
        """Return the parameters of cosines with frequencies on a regular grid, and the error bound or None.

        The parameters are four arrays: coordinate i (column of X), frequency w, phase p and amplitude a of the cosines
        a sqrt(x_i) cos(w log x_i + p). The cosines of frequency zero, which have no sine, are last.
        """
        if width < d:
            step = self._step(mixture, 0)
            coordinates = rng.permutation(d)[:width]
            amplitude = np.sqrt(d / width * step * density(mixture, np.zeros(1))[0])
            return (coordinates, np.zeros(width), np.zeros(width), np.full(width, amplitude)), None
        # One component of frequency zero for each feature of X; the others are pairs, distributed evenly.
        pairs = np.full(d, (width - d) // 2 // d)
        pairs[: (width - d) // 2 % d] += 1
        chosen = {n: self._step(mixture, n) for n in np.unique(pairs).tolist()}
        steps = np.array([chosen[n] for n in pairs.tolist()])
        paired = np.repeat(np.arange(d), pairs)
        harmonic = np.concatenate([np.arange(1, n + 1) for n in pairs])
        coordinates = np.concatenate([paired, np.arange(d)])
        frequencies = np.concatenate([harmonic * steps[paired], np.zeros(d)])
        twice = np.repeat([2.0, 1.0], [len(paired), d])
        amplitudes = np.sqrt(twice * steps[coordinates] * density(mixture, frequencies))
        if (width - d) % 2:  # one component is left over: it is zero
            coordinates, frequencies, amplitudes = (np.append(a, 0) for a in (coordinates, frequencies, amplitudes))
        bound = max(grid_error(mixture, n, s, fine_lags(n * s)) for n, s in chosen.items())
        return (coordinates, frequencies, np.zeros(len(coordinates)), amplitudes), bound

    def _step(self, mixture: Mixture, pairs: int) -> float:
        return best_step(mixture, pairs) if self.step == "auto" else float(self.step)

    def _draw_random(
        self, mixture: Mixture, width: int, d: int, rng: np.random.Generator
    ) -> tuple[tuple[Array, Array, Array, Array], None]:
        """Return the parameters of cosines with random frequencies, and None instead of an error bound.

        The parameters are four arrays: coordinate i (column of X), frequency w, phase p and amplitude a of the cosines
        a sqrt(x_i) cos(w log x_i + p). If `width` is odd, the last cosine has a random phase and no sine.
        """
        m = -(-width // 2)
        # Features of X have m // d frequencies or one more. Which of them have one more is random.
        counts = np.full(d, m // d)
        counts[rng.permutation(d)[: m % d]] += 1
        coordinates = rng.permutation(np.repeat(np.arange(d), counts))  # any may be the unpaired one
        weights = np.array([weight for weight, _ in mixture])
        total = weights.sum()
        labels = rng.choice(len(mixture), m, p=weights / total) if total > 0 else np.zeros(m, dtype=int)
        frequencies = np.zeros(m)
        for p, (_, leaf) in enumerate(mixture):
            frequencies[labels == p] = leaf.frequencies(int((labels == p).sum()), rng)
        shares = 1 / counts[coordinates] if m >= d else np.full(m, d / m)
        amplitudes, phases = np.sqrt(total * shares), np.zeros(m)
        if width % 2:
            phases[-1] = rng.uniform(0, 2 * np.pi)
            amplitudes[-1] *= np.sqrt(2)
        return (coordinates, frequencies, phases, amplitudes), None

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
            k, k_double, mass = coordinate_values(mixture, x, y)
            noise = noise + pair_term_variance(k, k_double, mass)
            squares, values = squares + np.square(k), values + k
        if width % 2:  # one of the m cosines has a random phase, which adds half of the squared mass
            noise = noise + 0.5 * total**2 * (X @ Y.T) / m
        # The mean over the features of X of the reciprocal number of frequencies.
        low, more = divmod(m, d)
        spread = d / m if m < d else (1 - more / d) / low + more / d / (low + 1)
        return np.maximum(spread * noise + choice_variance(values, squares, min(m, d), d), 0.0)


def choice_variance(values: Array, squares: Array, n: int, d: int) -> Array:
    """Return the variance of (d / n) * sum_{i in S} v_i, where S is a random subset of n of the indices 1, ..., d.

    Parameters
    ----------
    values, squares : ndarray
        The sum of v_i and the sum of v_i^2, over all i = 1, ..., d.
    n, d : int
        Number of indices in the subset, and of all indices.
    """
    if n >= d:
        return np.zeros_like(values)
    return np.maximum(d * d / n * (1 - n / d) * (squares - np.square(values) / d) / (d - 1), 0.0)


def coordinate_values(mixture: Mixture, x: Array, y: Array) -> tuple[Array, Array, Array]:
    """Return sqrt(x y) K(lag), sqrt(x y) K(2 lag) and sqrt(x y) K(0) for values x, y, where lag = log(y / x)."""
    lag = logarithms(y) - logarithms(x)
    root = np.sqrt(x) * np.sqrt(y)
    k = sum(weight * leaf.coordinate(x, y) for weight, leaf in mixture)
    k_double = root * sum(weight * leaf.signature(2 * lag) for weight, leaf in mixture)
    return np.asarray(k), k_double, root * sum(weight for weight, _ in mixture)


def constant_and_mixture(kernel: Kernel) -> tuple[float, Mixture]:
    """Return the constant c and the pairs (w_i, k_i) of a kernel c + sum_i w_i k_i with homogeneous kernels k_i."""
    parts = weighted_sum(kernel, HomogeneousKernel)
    assert parts is not None
    return parts[0], tuple(parts[1])


@dataclass(frozen=True, eq=False)
class LogarithmicFeatures(Features):
    """Features a sqrt(x_i) cos(w log(x_i) + p) and a sqrt(x_i) sin(w log(x_i) + p) of rows x.

    Each cosine has its own column i of X, frequency w, phase p and amplitude a. The constant comes first, if it is not
    zero, then m cosines, then the sines of the first angles, up to `n_components` components in total. The object is
    immutable and picklable, and does not depend on scikit-learn.
    """

    coordinates: Array  # (m,): the feature of the rows that each cosine depends on
    frequencies: Array  # (m,)
    phases: Array  # (m,): zero for cosines that have a sine
    amplitudes: Array  # (m,)
    d: int  # number of features of the rows
    constant: float  # value of an exact first component; zero means no such component
    n_components: int

    @cached_property
    def index(self) -> CoordinateIndex:
        return CoordinateIndex(self.coordinates, self.d)

    def astype(self, dtype: Any) -> Self:
        """Return the same features for rows of another dtype."""
        if self.frequencies.dtype == dtype:
            return self
        names = ("frequencies", "phases", "amplitudes")
        return replace(self, **{name: getattr(self, name).astype(dtype) for name in names})

    def __call__(self, X: Any, out: Array) -> None:
        """Write the features of the rows of `X` into `out`; both have the dtype that was passed to `astype`."""
        check_non_negative("HomogeneousFeatures", X)
        if self.constant:
            out[:, 0] = self.constant
            out = out[:, 1:]
        if sp.issparse(X):
            self._write_entries(X, out)
            return
        m = len(self.coordinates)
        angles = np.take(logarithms(X), self.coordinates, axis=1)
        angles *= self.frequencies
        angles += self.phases
        linalg.sincos_pairs(angles, 1.0, out)
        scale = np.take(np.sqrt(X), self.coordinates, axis=1)
        scale *= self.amplitudes
        out[:, :m] *= scale
        out[:, m:] *= scale[:, : out.shape[1] - m]

    def _write_entries(self, X: Any, out: Array) -> None:
        """Write the components of sparse rows, computed from their nonzero entries only."""
        out[:] = 0.0
        rows, terms, values = self.index.entries(X)
        angles = self.frequencies[terms] * logarithms(values) + self.phases[terms]
        waves = linalg.sincos_pairs(angles[None], 1.0, np.empty((1, 2 * len(angles)), angles.dtype))
        scale = np.sqrt(values) * self.amplitudes[terms]
        cosines, sines = np.split(waves[0], 2)
        out[rows, terms] = scale * cosines
        m = len(self.coordinates)
        paired = terms < out.shape[1] - m
        out[rows[paired], m + terms[paired]] = (scale * sines)[paired]


def logarithms(values: Array) -> Array:
    """Return log(values), with 0 where a value is 0. The factor sqrt(value) makes the features zero there."""
    return np.log(values, out=np.zeros_like(values), where=values > 0)
