"""Gaussian process regression on features: predictions with an error bar, from one pass over the rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Real
from typing import Any, Literal

import numpy as np

from mercer.engines import Engine, Progress, fill_rows
from mercer.errors import DataError, ParameterError
from mercer.features import Features, features_of
from mercer.kernels import Kernel
from mercer.learners.one_pass import OnePassRegressor
from mercer.maps import BaseMap, DrawnMap, Nystroem
from mercer.maps.parameters import check_choice, check_count
from mercer.solvers.processes.evidence import Evidence, Scales
from mercer.solvers.processes.lengthscales import LengthscaleGradient
from mercer.solvers.processes.posterior import Posterior
from mercer.solvers.processes.tuning import Trial, tune_lengthscales
from mercer.solvers.ridge.spectrum import Spectrum
from mercer.statistics import RowSample
from mercer.statistics.process_moments import ProcessMoments, ProcessSum
from mercer.statistics.sample import as_generator, seed_of

__all__ = ["GaussianProcessRegressor"]

Array = np.ndarray
# Features of the default map, if there are that many rows.
DEFAULT_COMPONENTS = 1024


class GaussianProcessRegressor(OnePassRegressor):
    r"""Gaussian process regression at linear cost.

    The function is :math:`f(x) = a\, z(x)^\top w` with features z of a map, :math:`w \sim N(0, I)` and amplitude a, and
    targets are :math:`f(x)` plus a mean and noise. Time O(n D^2), memory O(D^2 + block), never O(n^2).

    Parameters
    ----------
    feature_map : BaseMap, Kernel or None, default=None
        A map; or a kernel, for which `Nystroem` takes up to 1024 landmarks: its error bars grow away from the rows as
        those of the exact process do. None means a Gaussian kernel.
    noise : float or "tune", default="tune"
        Standard deviation of the noise, in the unit of the targets; "tune" takes that of highest evidence.
    amplitude : float or "tune", default="tune"
        Standard deviation of the function, for a kernel with k(x, x) = 1.
    lengthscale : {"tune", "ard", "keep"}, default="tune"
        Whether to multiply the lengthscale of the kernel by the factor of highest evidence; or to give every column a
        lengthscale of its own; or to keep what the kernel has. Kernels that are not shift-invariant keep theirs.
    normalize_y : bool, default=True
        Whether the mean of the targets is subtracted, and added to predictions; otherwise the mean is zero. The scale
        of the targets never matters: noise and amplitude are in their unit.
    variance : {"weight-space", "pathwise"}, default="weight-space"
        How uncertainty is told; see Notes. "pathwise" is for random features.
    tune_rows : int, default=1000
        Rows of the seeded sample that lengthscales are tuned on, and that "pathwise" keeps.
    unlabeled : float or None, default=None
        What `y` holds for rows whose target is not known, such as ``np.nan``: the map learns from these rows too, the
        model only from the others, and `score` passes over them. None means that every row has one.
    block_size : int or None, default=None
        Rows that are worked on at a time; None chooses by width. It changes the result by rounding only.
    n_jobs : int or None, default=None
        Threads; None means all cores. The result does not depend on it, to the bit.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the sample, and of the map where `feature_map` is a kernel or None.
    progress : bool or callable, default=False
        True shows rows done and time left on a terminal; a callable gets a `Progress` after each block.

    Attributes
    ----------
    kernel_ : Kernel
        The kernel of the features, without the amplitude.
    noise_, amplitude_ : float or ndarray of shape (t,)
        The standard deviations used.
    log_marginal_likelihood_value_ : float
        Evidence of all rows, summed over targets.
    tuning_ : tuple of Trial
        Lengthscales that were tried, as factors of those that the kernel came with, and the evidence of each.
    coef_ : ndarray of shape (D,) or (t, D)
        Posterior mean of the coefficients of the features, with the amplitude.
    feature_map_ : BaseMap
        The fitted map.
    statistic_ : ProcessMoments
        What was learned from the rows; `partial_fit` adds to it.

    Notes
    -----
    Noise and amplitude cost no pass over the rows: the evidence is a function of the second moments, from one
    eigendecomposition. Several columns of targets share the kernel; each has a noise and an amplitude of its own.
    Weights are repetitions of rows.

    Lengthscales are tuned on a sample of rows, with exact gradients: a `RandomFourier` map by its own evidence (of 1024
    features at most), other maps of isotropic kernels by the exact evidence of the kernel on the sample, and maps of
    other shift-invariant kernels by that of random features. `partial_fit` tunes on its first rows.

    *Variance starvation.* A map of D random features has no more than D degrees of freedom. Where there are more rows
    than that, they settle all coefficients, and then the model is sure of itself everywhere, also far from the rows,
    where the exact process knows nothing. `Nystroem` does not do that: what the landmarks leave of the kernel,
    :math:`k(x, x) - |z(x)|^2`, is added to the variance, so that error bars go back to the amplitude. For random
    features, ``variance="pathwise"`` tells the variance of the exact process given a sample of `tune_rows` rows (all of
    them, if there are no more): never too small by the choice of features, too large where rows that were left out
    matter. Its samples are paths, a prior path from the features and an update through the kernel of the sample [1]_.

    References
    ----------
    .. [1] Wilson et al. (2020), Efficiently Sampling Functions from Gaussian Process Posteriors, ICML.

    See Also
    --------
    sklearn.gaussian_process.GaussianProcessRegressor : The exact process, in time O(n^3) and memory O(n^2).

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, GaussianProcessRegressor
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(500, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=500)
    >>> model = GaussianProcessRegressor(Gaussian(), random_state=0).fit(X, y)
    >>> bool(0.09 < model.noise_ < 0.11)
    True
    >>> mean, std = model.predict([[0.0], [30.0]], return_std=True)
    >>> bool(std[0] < 0.05 and abs(std[1] / model.amplitude_ - 1) < 1e-6)  # far away it knows nothing
    True
    """

    statistic_: ProcessMoments
    _posterior: Posterior
    _tuned: tuple[Kernel, tuple[Trial, ...]] | None = None  # the kernel with new lengthscales, and what was tried
    _most: int | None = None  # rows that there are, where that is known: no more landmarks than that

    def __init__(
        self,
        feature_map: BaseMap | Kernel | None = None,
        *,
        noise: float | Literal["tune"] = "tune",
        amplitude: float | Literal["tune"] = "tune",
        lengthscale: Literal["tune", "ard", "keep"] = "tune",
        normalize_y: bool = True,
        variance: Literal["weight-space", "pathwise"] = "weight-space",
        tune_rows: int = 1000,
        unlabeled: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Callable[[Progress], None] = False,
    ) -> None:
        self.feature_map = feature_map
        self.noise = noise
        self.amplitude = amplitude
        self.lengthscale = lengthscale
        self.normalize_y = normalize_y
        self.variance = variance
        self.tune_rows = tune_rows
        self.unlabeled = unlabeled
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    # ---- fitting ------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        for name in ("noise", "amplitude"):
            value = getattr(self, name)
            number = isinstance(value, Real) and not isinstance(value, bool)
            if not (value == "tune" if isinstance(value, str) else number and 0 < float(value) < np.inf):
                msg = f"{type(self).__name__}: {name} must be a finite number > 0 or 'tune', got {value!r}."
                raise ParameterError(msg)
        check_choice(self, "lengthscale", ("tune", "ard", "keep"))
        check_choice(self, "variance", ("weight-space", "pathwise"))
        check_count(self, "tune_rows")

    def _given(self, name: str) -> float | None:
        value = getattr(self, name)
        return None if isinstance(value, str) else float(value)

    def _forget(self) -> None:
        super()._forget()
        self._tuned = self._most = None

    def _prototype(self) -> BaseMap:
        choice = self.feature_map
        if choice is None or isinstance(choice, Kernel):
            width = DEFAULT_COMPONENTS if self._most is None else min(self._most, DEFAULT_COMPONENTS)
            feature_map: BaseMap = Nystroem(choice, width, random_state=self.random_state)
        else:
            feature_map = super()._prototype()
        return feature_map if self._tuned is None else feature_map.with_kernel(self._tuned[0])

    def _fit_map(self, engine: Engine) -> None:
        self._check_parameters()
        self._tuned, self._most = None, engine.n_rows
        if self.lengthscale != "keep":
            self._tune(engine)
        super()._fit_map(engine)
        if self.variance == "pathwise" and self.feature_map_.unbiased is not True:
            msg = (
                f"{type(self).__name__}: variance='pathwise' needs unbiased random features for its prior, got "
                f"{type(self.feature_map_).__name__}: {self.feature_map_.unbiased}. Use variance='weight-space'."
            )
            raise ParameterError(msg)

    def _tune(self, engine: Engine) -> None:
        prototype = self._prototype()
        kernel = prototype._kernel()
        # A map that changes its kernel, such as a deformed one, is not drawn for it.
        changed = not (isinstance(prototype, DrawnMap) and prototype.accepts(kernel))
        if changed or kernel.spectral_parts() is None:
            if self.lengthscale == "ard":
                what = f"{type(prototype).__name__} of {kernel!r}" if changed else f"{kernel!r}: {kernel.structure}"
                msg = (
                    f"{type(self).__name__}: lengthscale='ard' needs a shift-invariant kernel, got {what}. Use "
                    "lengthscale='keep'; or Transformed(kernel, lengthscales=...) by hand."
                )
                raise ParameterError(msg)
            return
        if not engine.replayable:
            msg = (
                f"{type(self).__name__}: lengthscale={self.lengthscale!r} looks at rows first, but the blocks can be "
                "read only once. Pass an iterable that can be read again (a list, or an object whose __iter__ starts "
                "over), or use lengthscale='keep' and give the kernel its lengthscale."
            )
            raise DataError(msg)
        seed = seed_of(self.random_state, "tune")
        sample = self._labeled(engine).sum(partial(RowSample.of, size=self.tune_rows, seed=seed, by_weight=True))
        if not len(sample.index):
            msg = "All sample weights are zero: there is nothing to fit."
            raise DataError(msg)
        tuning = tune_lengthscales(
            prototype,
            kernel,
            sample,
            ard=self.lengthscale == "ard",
            noise=self._given("noise"),
            amplitude=self._given("amplitude"),
            centered=self.normalize_y,
            seed=seed,
        )
        self._tuned = tuning.kernel, tuning.trials

    def _accumulator(self, features: Features) -> ProcessSum:
        keep = self.tune_rows if self.variance == "pathwise" else 0
        return ProcessSum(features, keep, seed_of(self.random_state, "representers"))

    def _solve(self) -> None:
        self._check_parameters()
        moments = self.statistic_.moments
        offset = moments.targets.target_mean if self.normalize_y else None
        spectrum = Spectrum.of(moments, centered=False, offset=offset)
        scales = Evidence(spectrum).best(self._given("noise"), self._given("amplitude"))
        representers = self.statistic_.sample if self.variance == "pathwise" else None
        self._posterior = Posterior.of(self.feature_map_, spectrum, scales, representers)
        self._solved = True

    # ---- what was found -----------------------------------------------------------------------

    def _fitted(self) -> Posterior:
        self._ensure_solved()
        return self._posterior

    def _one_or_all(self, values: Array) -> Any:
        return values if self._target_shape else float(values[0])

    @property
    def kernel_(self) -> Kernel:
        self._fitted()
        return self.feature_map_.kernel_

    @property
    def noise_(self) -> Any:
        return self._one_or_all(self._fitted().scales.noise)

    @property
    def amplitude_(self) -> Any:
        return self._one_or_all(self._fitted().scales.amplitude)

    @property
    def coef_(self) -> Array:
        coef = self._fitted().coef
        return coef.T if self._target_shape else coef[:, 0]

    @property
    def tuning_(self) -> tuple[Trial, ...]:
        self._fitted()
        return () if self._tuned is None else self._tuned[1]

    @property
    def log_marginal_likelihood_value_(self) -> float:
        posterior = self._fitted()
        return float(Evidence(posterior.spectrum).value(posterior.scales).sum())

    def log_marginal_likelihood(
        self, noise: Any = None, amplitude: Any = None, *, eval_gradient: bool = False
    ) -> float | tuple[float, Array]:
        """Return the log marginal likelihood of all rows seen, from their moments: no pass over them.

        Parameters
        ----------
        noise, amplitude : float or ndarray of shape (t,), default=None
            Standard deviations; None means those of the model.
        eval_gradient : bool, default=False
            Whether to return the derivatives in log noise and log amplitude, too.

        Returns
        -------
        value : float
            Summed over targets.
        gradient : ndarray of shape (2,) or (2, t)
            If `eval_gradient`. For lengthscales see `lengthscale_gradient`.
        """
        posterior = self._fitted()
        count = len(posterior.scales.noise)
        given = [posterior.scales.noise if noise is None else noise, posterior.scales.amplitude]
        given[1] = given[1] if amplitude is None else amplitude
        for name, value in zip(("noise", "amplitude"), given, strict=True):
            numbers = np.asarray(value, dtype=float)
            if numbers.shape not in ((), (1,), (count,)) or not (np.isfinite(numbers) & (numbers > 0)).all():
                msg = f"{name} must be a finite number > 0, or one for each of {count} targets; got {value!r}."
                raise ParameterError(msg)
        scales = Scales(*(np.broadcast_to(np.asarray(v, dtype=float), (count,)) for v in given))
        evidence = Evidence(posterior.spectrum)
        value = float(evidence.value(scales).sum())
        if not eval_gradient:
            return value
        gradient = np.stack(evidence.gradient(scales))
        return value, gradient if self._target_shape else gradient[:, 0]

    def lengthscale_gradient(self, X: Any, y: Any = None, sample_weight: Any = None) -> Array:
        """Return the derivatives of the log marginal likelihood in the log of the lengthscale of every column.

        Exact, through the features of the model, with the draw or the landmarks kept: one pass over the rows, which
        must be those of `fit`. The sum is the derivative in the log of a common lengthscale.

        Parameters
        ----------
        X, y, sample_weight
            The rows of the fit, as arrays or as blocks.

        Returns
        -------
        ndarray of shape (d,)
        """
        posterior = self._fitted()
        term = LengthscaleGradient(self.feature_map_.features_, posterior.spectrum, posterior.scales)
        engine = self._engine_again(X, y, sample_weight)
        return term.whole(self._labeled(engine).sum(term))

    def _engine_again(self, X: Any, y: Any, sample_weight: Any) -> Engine:
        if y is None:
            return self._stream(X)
        return self._memory(*self._checked(X, y, sample_weight, reset=False))

    # ---- predicting ---------------------------------------------------------------------------

    def predict(self, X: Any, return_std: bool = False, return_cov: bool = False, *, with_noise: bool = False) -> Any:
        """Return the posterior mean, and how uncertain it is.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.
        return_std : bool, default=False
            Whether to return standard deviations, too.
        return_cov : bool, default=False
            Whether to return the covariance of all pairs of rows, too.
        with_noise : bool, default=False
            Whether the uncertainty is that of a new target rather than that of the function.

        Returns
        -------
        mean : ndarray of shape (n,) or (n, t)
        std : ndarray of shape (n,) or (n, t)
            If `return_std`.
        cov : ndarray of shape (n, n) or (n, n, t)
            If `return_cov`.
        """
        posterior = self._fitted()
        if return_std and return_cov:
            msg = "return_std and return_cov: at most one of them can be asked for."
            raise ParameterError(msg)
        mean = self._linear(X, posterior.coef, posterior.spectrum.offset)
        mean = mean if self._target_shape else mean[:, 0]
        if not (return_std or return_cov):
            return mean
        X = self.feature_map_.check_rows(X)
        if return_cov:
            spread = posterior.covariance(X)
            if with_noise:
                spread[np.diag_indices(len(spread))] += np.square(posterior.scales.noise)
        else:
            variance = np.empty((X.shape[0], len(posterior.scales.noise)))
            width = self.feature_map_.features_.n_components
            fill_rows(posterior.variance_into, X, variance, n_jobs=self.n_jobs, width=width)
            spread = np.sqrt(variance + np.square(posterior.scales.noise) * with_noise)
        return mean, spread if self._target_shape else spread[..., 0]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> Array:
        """Return functions drawn from the posterior, at some rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows. With `Nystroem`, what the landmarks leave of the kernel is drawn jointly for all of them, in time
            O(n^3).
        n_samples : int, default=1
            How many functions.
        random_state : int, Generator, RandomState or None, default=0
            Seed; the same seed gives the same functions.

        Returns
        -------
        ndarray of shape (n, n_samples) or (n, t, n_samples)
        """
        posterior = self._fitted()
        X = self.feature_map_.check_rows(X)
        mean = self._linear(X, posterior.coef, posterior.spectrum.offset)
        Z = features_of(self.feature_map_.features_.astype(X.dtype), X).astype(np.float64, copy=False)
        draws = mean[:, :, None] + posterior.deviations(X, Z, int(n_samples), as_generator(random_state))
        return draws if self._target_shape else draws[:, 0]
