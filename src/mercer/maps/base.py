"""Base classes of feature maps: `fit` samples the random parameters, `transform` computes the features of rows.

No other module of `maps` uses scikit-learn.
"""

from __future__ import annotations

import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from mercer._docs import doc
from mercer.data.sources import DaskRows, source_of
from mercer.data.targets import Coding, as_floats
from mercer.engines import Engine, MemoryEngine, Report, block_rows_for, empty_rows, enter_stage, fill_rows
from mercer.errors import DataError, MercerWarning, NoClosedFormError, ParameterError, UnsupportedKernelError
from mercer.errors.memory import LARGE, check_memory, explained_memory_errors
from mercer.errors.spellings import object_hint
from mercer.features import Features
from mercer.kernels import Gaussian, Kernel
from mercer.kernels.histogram import check_non_negative
from mercer.kernels.spectral import MEDIAN_ROWS
from mercer.parameters import ConstructorSignature, Domain, Integer, check_names, check_parameters, new_of_known_names
from mercer.statistics import RowSample, row_hashes
from mercer.statistics.sample import as_generator, column_scales, most_different, seed_of

__all__ = [
    "BaseMap",
    "DrawnMap",
    "Estimator",
    "available_if",
    "check_features",
    "check_replayable",
    "drawn_for",
    "fresh_copy",
    "given_kernel",
    "replace_params",
    "unchanged_if_it_fails",
    "warn_of_scales",
]

Array = np.ndarray
# Cost of the median distance of a sample of rows, in the unit of `fit_costs`.
MEDIAN_COST = 1e9
LOWER = "Lower n_components of the map, block_size or n_jobs."
FEWER_ROWS = "Pass fewer rows at a time, or lower n_components. Learners process rows in blocks by themselves."
# A warning is issued if the scales of columns with a common lengthscale differ by this factor. Of the squared distance
# of two rows, the column of the smaller scale then contributes about one millionth of what the other one contributes.
MOST_DIFFERENT = 1e3
# Number of rows from which scales are computed: at most, at least, and at most by the number of their entries.
SCALE_ROWS = 1000
LEAST_SCALE_ROWS = 20
SCALE_ENTRIES = 1_000_000


@contextmanager
def unchanged_if_it_fails(estimator: BaseEstimator) -> Iterator[None]:
    """Context manager that restores all attributes of an estimator if the body of the ``with`` statement raises.

    A MemoryError is replaced by `TooLittleMemoryError`, which says what to lower.
    """
    before = dict(vars(estimator))
    try:
        yield
    except BaseException as error:
        vars(estimator).clear()
        vars(estimator).update(before)
        if isinstance(error, MemoryError):
            with explained_memory_errors(type(estimator).__name__, LOWER):
                raise
        raise


def replace_params(estimator: BaseEstimator, params: Mapping[str, Any]) -> None:
    """Set parameters of an estimator, including nested ones such as ``kernel__lengthscale``.

    scikit-learn changes nested parameters in place. A kernel is immutable, so it is replaced by a changed copy.
    """
    check_names(type(estimator).__name__, params, estimator.get_params(deep=False))
    plain: dict[str, Any] = {}
    nested: dict[str, dict[str, Any]] = {}
    for key, value in params.items():
        name, _, inner = key.partition("__")
        holder = params.get(name, getattr(estimator, name, None))
        if inner and holder is None and name in estimator.get_params(deep=False):
            msg = f"{type(estimator).__name__}: {key} cannot be set while {name} is None. Give a {name} first."
            raise ParameterError(msg)
        if inner and isinstance(holder, Kernel):
            nested.setdefault(name, {})[inner] = value
        else:
            plain[key] = value
    BaseEstimator.set_params(estimator, **plain)
    for name, inner_params in nested.items():
        setattr(estimator, name, getattr(estimator, name).with_params(**inner_params))


class Estimator(BaseEstimator):
    """Base class of maps and graphs. It checks parameters against declared domains.

    `set_params` also takes parameters of a kernel, such as ``kernel__lengthscale``: the kernel, which is immutable, is
    replaced by a changed copy.
    """

    #: Allowed values of each parameter, checked before a fit; see `mercer.parameters`.
    parameter_domains: ClassVar[Mapping[str, Domain]] = {}

    __new__ = new_of_known_names
    __signature__ = ConstructorSignature()

    def _check_domains(self) -> None:
        """Raise for the first parameter that lies outside its declared domain."""
        check_parameters(self, self.parameter_domains)

    def set_params(self, **params: Any) -> Self:
        replace_params(self, params)
        return self


SomeEstimator = TypeVar("SomeEstimator", bound=BaseEstimator)


def fresh_copy(of: SomeEstimator, /, **changes: Any) -> SomeEstimator:
    """Return an unfitted copy of a map or learner with some parameters changed."""
    return clone(of).set_params(**changes)


def _transformed(feature_map: BaseMap, X: Any) -> Array:
    return feature_map.transform(X)


class BaseMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Estimator, ABC):
    """Base class of maps from rows x to features z(x) whose inner products z(x)'z(y) approximate a kernel k(x, y).

    A map whose `fit` samples parameters for a kernel, and uses at most a sample of the rows, subclasses `DrawnMap`. A
    map that is fitted to all rows, such as `Deformed`, subclasses this class directly.
    """

    #: The property of a kernel that this map requires, as a phrase for error messages.
    needs: ClassVar[str]
    #: Whether `features_` raises DataError for entries that are NaN or infinite. If so, `transform` does not check
    #: them first.
    features_check_entries: ClassVar[bool] = False
    #: Whether the kernel minus the approximate kernel is positive semi-definite. A Gaussian process then adds this
    #: residual kernel to its variance.
    residual_is_kernel: ClassVar[bool] = False
    #: Whether the sampled parameters do not depend on the lengthscales, so that lengthscales can be tuned with the
    #: features of the fitted map.
    tunes_own_draw: ClassVar[bool] = False
    #: Whether the map divides the columns of the rows by scales of its own, so that their units do not matter.
    scales_columns: ClassVar[bool] = False
    #: Optional method ``_target_coding(y) -> Coding`` of a map that learns from targets: how the targets `y` that `fit`
    #: receives are validated.
    _target_coding: Callable[[Any], Coding] | None = None
    #: Optional method ``_fit_labeled(engine, labeled, report) -> self`` of a map that learns from targets: see
    #: `fit_engines`.
    _fit_labeled: Callable[[Engine, Engine, Report | None], Any] | None = None
    #: Optional method ``_variance(X, Y)``: the closed form of `variance` for validated rows; None for `Y` means `X`.
    _variance: Callable[[Any, Any], Array] | None = None

    if TYPE_CHECKING:
        # Most maps have these as plain attributes; a map that wraps another map has them as properties.
        @property
        def kernel(self) -> Kernel | None: ...

        @property
        def kernel_(self) -> Kernel: ...

        @property
        def built_from_rows(self) -> bool: ...

        @property
        def fitted_rows_(self) -> Array | None: ...

    else:
        #: Whether the features are built from rows of the fit, such as landmarks, so that the error is smaller on them.
        built_from_rows = False
        #: Hashes of the rows that the features of a fitted map were built from; None if `built_from_rows` is False.
        fitted_rows_ = None

    random_state: Any
    n_jobs: int | None
    #: None if the approximate kernel is positive semi-definite, else the sign +1 or -1 of each component.
    signs_: Array | None
    features_: Features

    # ---- what a map adds ----------------------------------------------------------------------

    @property
    @abstractmethod
    def unbiased(self) -> bool | str:
        """True if the mean of the approximate kernel over random draws is the kernel, else the reason why not."""

    @abstractmethod
    def fit_engine(self, engine: Engine, report: Report | None = None) -> Self:
        """Fit the map to the validated rows of an engine. Learners call this method.

        Parameters
        ----------
        engine : Engine
            Source of the rows. If the map uses the values of the rows, and not only the number of features d, the
            engine must be able to read the rows more than once.
        report : callable or None, default=None
            Receives the progress.

        Returns
        -------
        self
        """

    @abstractmethod
    def check(self) -> None:
        """Raise if a parameter lies outside its domain, as far as this can be checked without data."""

    @abstractmethod
    def needs_rows(self) -> bool:
        """Return True if `fit` uses the values of the rows, False if it uses only the number of features d."""

    @abstractmethod
    def with_kernel(self, kernel: Kernel) -> Self:
        """Return an unfitted copy of this map with another kernel."""

    @abstractmethod
    def _kernel(self) -> Kernel:
        """Return the parameter `kernel`, or the default kernel if it is None."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Number of components that the map has after `fit`. For most maps this is the parameter `n_components`."""

    @property
    @abstractmethod
    def refuses_rows(self) -> str | None:
        """None if the fitted map can be updated with further rows, else the error message that explains why not."""

    @abstractmethod
    def grown(self, engine: Engine) -> tuple[Self, Array | None]:
        """Return the map updated with the rows of an engine, and the matrix T with Z_new = Z_old @ T.

        Z_old and Z_new are the features of the same rows before and after the update. T is None if the update does not
        change the features.
        """

    #: Optional method ``_fit_costs(n, d)``: see `fit_costs`.
    _fit_costs: Callable[[int, int], dict[str, float]] | None = None

    # ---- fitting ------------------------------------------------------------------------------

    def fit_costs(self, n: int, d: int) -> Mapping[str, float | None]:
        """Return the stages of `fit_engine` in their order, and their costs, for `n` rows of `d` features.

        A cost is roughly the number of multiplications and additions; None means that it is not known. Stages are those
        that `fit_engine` enters by `mercer.engines.enter_stage`. Displays of progress use the costs.
        """
        return {"fit map": None} if self._fit_costs is None else self._fit_costs(n, d)

    @property
    def uses_targets(self) -> bool:
        """Whether the map learns from the targets of the rows."""
        return self._fit_labeled is not None

    def fit_engines(self, engine: Engine, labeled: Engine, report: Report | None = None) -> Self:
        """Fit the map to all rows of `engine`; the targets of the rows of `labeled` are known. Learners call this.

        Parameters
        ----------
        engine : Engine
            All rows.
        labeled : Engine
            Those of them whose targets are known.
        report : callable or None, default=None
            Receives the progress.

        Returns
        -------
        self
        """
        return (
            self.fit_engine(engine, report) if self._fit_labeled is None else self._fit_labeled(engine, labeled, report)
        )

    @doc
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the map.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows, labeled or not. Most maps use only the number of features d, unless a parameter, such as
            ``lengthscale="median"``, is estimated from a sample of the rows.
        y : array-like of shape (n,) or (n, t), default=None
            Targets, for maps that learn from them, such as `LearnedMetric`. Other maps ignore them.

        Returns
        -------
        self
        """
        with unchanged_if_it_fails(self):
            engine = self._in_memory(X, y)
            if not self.scales_columns:
                warn_of_scales(self, self._kernel(), engine)
            return self.fit_engine(engine)

    def _in_memory(self, X: Any, y: Any = None, *, reset: bool = True) -> MemoryEngine:
        """Validate the rows, and the targets if the map uses them, and return an engine over them."""
        owner = f"{type(self).__name__}: fit"
        hint = "Try a sample of the rows, or pass the unfitted map to a learner, which reads what it needs."
        X = source_of(X, owner=owner).array(owner, hint)
        if self._target_coding is None:
            X, y = as_floats(self, X, reset=reset), None
        else:
            X, y, _ = self._target_coding(y).validate(self, X, y, reset=reset)
        self.check()
        if self._kernel().positive_only:
            check_non_negative(type(self).__name__, X)  # all rows, since the map may see only a sample
        rows = block_rows_for(max(self.width, X.shape[1]), X.dtype.itemsize)
        return MemoryEngine(X, y, block_rows=rows, n_jobs=self.n_jobs)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "features_")

    # ---- applying -----------------------------------------------------------------------------

    @doc
    def transform(self, X: Any, *, out: Array | None = None) -> Array:
        """Return the features of the rows, in single precision if the rows are float32.

        Parameters
        ----------
        %(X_or_dask)s
        out : ndarray of shape (n, n_components), default=None
            Array to write the features into. Reusing an array saves memory allocation, which can take half of the time.

        Returns
        -------
        ndarray of shape (n, n_components)
            ``transform(X) @ transform(Y).conj().T`` approximates ``kernel_(X, Y)``.
        """
        self._check_fitted()
        owner = f"{type(self).__name__}: transform"
        source = source_of(X, owner=owner)
        if isinstance(source, DaskRows):
            return source.row_results(self, "transform", _transformed)
        X = source.array(owner, "Try one block after another: for X, *_ in rows.")
        if not self.features_check_entries:
            return self.apply(self.check_rows(X), out)
        rows = as_floats(self, X, reset=False, ensure_all_finite=False)
        try:
            return self.apply(rows, out)
        except DataError:
            self.check_rows(X)  # raises scikit-learn's error for entries that are not finite
            raise

    def check_rows(self, X: Any) -> Any:
        """Return rows as a validated array or CSR matrix for this fitted map; raise if they are invalid."""
        self._check_fitted()
        return as_floats(self, X, reset=False)

    def apply(self, X: Any, out: Array | None = None) -> Array:
        """Return the features of validated rows: `transform` without validation."""
        features = self.features_.astype(X.dtype)
        shape, dtype = (X.shape[0], features.n_components), features.output_dtype(X.dtype)
        if out is None:
            needed, owner = shape[0] * shape[1] * dtype.itemsize, type(self).__name__
            if needed > LARGE:
                check_memory(owner, f"an array of features of shape {shape}", needed, FEWER_ROWS)
                with explained_memory_errors(owner, FEWER_ROWS):
                    out = empty_rows(*shape, dtype, recycled=True)
            else:
                out = empty_rows(*shape, dtype, recycled=True)
        elif not (
            isinstance(out, np.ndarray)
            and (out.shape, out.dtype, out.strides[-1]) == (shape, dtype, dtype.itemsize)
            and out.flags.writeable
            and out.flags.aligned
        ):
            got = f"shape {out.shape} and dtype {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
            msg = (
                f"{type(self).__name__}: out must be a writable, aligned array of shape {shape} and dtype {dtype} with "
                f"contiguous rows, got {got}."
            )
            raise ParameterError(msg)
        fill_rows(features, X, out, n_jobs=self.n_jobs)
        return out

    def gram(self, X: Any, Y: Any = None) -> Array:
        """Return the approximate kernel matrix (n, m) of n rows `X` and m rows `Y`. None for `Y` means `X`."""
        left = self.apply(self.check_rows(X))
        right = left if Y is None else self.apply(self.check_rows(Y))
        needed = len(left) * len(right) * left.dtype.itemsize
        if needed > LARGE:
            shape = (len(left), len(right))
            check_memory(type(self).__name__, f"a matrix of shape {shape}", needed, "Pass fewer rows at a time.")
        return self.inner_products(left, right)

    def inner_products(self, left: Array, right: Array) -> Array:
        """Return the approximate kernel matrix (n, m), given the features `left` of n rows and `right` of m rows."""
        if np.iscomplexobj(left):
            # The imaginary part has mean zero: real kernels have symmetric spectra.
            return left.real @ right.real.T + left.imag @ right.imag.T
        return left @ right.T if self.signs_ is None else (left * self.signs_) @ right.T

    def variance(self, X: Any, Y: Any = None) -> Array:
        """Return the variance of each entry of ``gram(X, Y)`` over random draws of the map, if a closed form is known.

        Parameters
        ----------
        X, Y : array-like or CSR of shapes (n, d) and (m, d)
            Rows; None for `Y` means `X`.

        Returns
        -------
        ndarray of shape (n, m)
            Variances; infinite where they exceed the range of float64.

        Raises
        ------
        NoClosedFormError
            If no formula is known for this map and its parameters. `mercer.audit` measures the error in this case.
        """
        return self.known_variance(self.check_rows(X), None if Y is None else self.check_rows(Y))

    def known_variance(self, X: Any, Y: Any = None) -> Array:
        """Return the variance of the approximate kernel for validated rows: `variance` without validation."""
        if self._variance is None:
            name = type(self).__name__
            msg = f"{name} has no closed form for its variance. Try mercer.audit(feature_map, X): it measures."
            raise NoClosedFormError(msg)
        with np.errstate(over="ignore", invalid="ignore"):
            variance = self._variance(X, Y)
        # A difference of moments that both exceed the range of float64 is NaN.
        return np.where(np.isnan(variance), np.inf, variance)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = self.uses_targets
        try:
            kernel = self._kernel()
        except ParameterError:  # `fit` raises it
            kernel = Gaussian()
        tags.input_tags.positive_only = kernel.positive_only
        tags.input_tags.pairwise = kernel.needs_all_rows
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class DrawnMap(BaseMap):
    """Base class of maps whose `fit` samples parameters for a kernel, and uses at most a sample of the rows.

    These maps can be parts of other maps, for example of `SumMap`. A subclass has the parameters `kernel`,
    `n_components`, `random_state` and `n_jobs`, and defines `accepts`, `unbiased`, `_draw` and the phrase `needs`. The
    methods that are None in this class (`_check`, `_rows_to_draw`, ...) are optional.
    """

    #: The kernel that is used if the parameter `kernel` is None.
    default_kernel: ClassVar[Kernel] = Gaussian(lengthscale="median")

    #: Whether `_draw` takes a long time, and has a parameter `report` that receives the progress.
    draw_reports: ClassVar[bool] = False

    kernel: Kernel | None
    kernel_: Kernel
    fitted_rows_: Array | None
    n_components: int

    # ---- what a map adds ----------------------------------------------------------------------

    @classmethod
    @abstractmethod
    def accepts(cls, kernel: Kernel) -> bool:
        """Return whether this map can approximate the kernel."""

    @abstractmethod
    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> Features:
        """Sample the random parameters, and return the function from rows to features that they define.

        Parameters
        ----------
        kernel : Kernel
            The kernel, with a number for every parameter.
        X : ndarray or CSR of shape (n, d)
            A sample of the rows. It is a single row unless the kernel or the map needs more rows; see `rows_wanted`.
        weight : ndarray of shape (n,) or None
            Weights > 0 of these rows.
        rng : Generator
            Source of randomness.

        Returns
        -------
        Features
        """

    # ---- optional hooks -----------------------------------------------------------------------

    #: ``_check()``: raise if parameters are incompatible with each other, though each lies in its domain.
    _check: Callable[[], None] | None = None
    #: ``_rows_to_draw() -> int``: number of rows that `_draw` needs. If undefined, only the number of features matters.
    _rows_to_draw: Callable[[], int] | None = None
    #: ``_draw_costs(n) -> dict``: further stages of a fit that `_draw` enters, and their costs for n rows.
    _draw_costs: Callable[[int], dict[str, float]] | None = None
    #: ``_bytes_to_draw(n, d) -> int``: least number of bytes that `_draw` allocates for n rows of d features.
    _bytes_to_draw: Callable[[int, int], int] | None = None
    #: ``_width() -> int``: number of components after `fit`. If undefined, it is the parameter `n_components`.
    _width: Callable[[], int] | None = None
    #: ``_independent(kernel) -> dict or None``: parameters for which all D components are independent and identically
    #: distributed, or None if this is impossible. Then sqrt(D) times a randomly chosen component is an unbiased map.
    _independent: Callable[[Kernel], dict[str, Any] | None] | None = None
    #: ``_exact_at(kernel, n_features) -> int or None``: least number of components for which the map is exact.
    _exact_at: Callable[[Kernel, int], int | None] | None = None
    #: ``_least_components(kernel) -> int``: least number of components that the map can have. If undefined, it is one.
    _least_components: Callable[[Kernel], int] | None = None
    #: ``_predicted_error(kernel, X, weight, rng) -> float``: predicted root mean square error of the approximate kernel
    #: on pairs of the rows X, for a map whose error depends on the rows so much that it may exceed the kernel itself.
    _predicted_error: Callable[[Kernel, Any, Array | None, np.random.Generator], float] | None = None
    #: ``_doubts(X) -> str or None``: why the map that was drawn with the rows X is a poor choice for its kernel and
    #: these rows, and what to use instead. `fit` issues it as a warning.
    _doubts: Callable[[Any], str | None] | None = None
    #: ``_parts_accept(kernel) -> bool``: replaces `accepts` if the user passed maps for the parts of the kernel.
    #: Raises if one of these maps does not accept its part, and returns False if the user passed no maps.
    _parts_accept: Callable[[Kernel], bool] | None = None

    # ---- the contract of BaseMap --------------------------------------------------------------

    def check(self) -> None:
        check_parameters(self, {"n_components": Integer(1)})
        self._check_domains()
        if self._check is not None:
            self._check()

    def needs_rows(self) -> bool:
        return self.rows_wanted() > 1

    def with_kernel(self, kernel: Kernel) -> Self:
        return fresh_copy(self, kernel=kernel)

    def _kernel(self) -> Kernel:
        return given_kernel(self, self.kernel, self.default_kernel)

    @property
    def width(self) -> int:
        return self.n_components if self._width is None else self._width()

    @property
    def refuses_rows(self) -> str | None:
        return None

    def grown(self, engine: Engine) -> tuple[Self, Array | None]:  # noqa: ARG002 - the features do not change
        return self, None

    # ---- drawing ------------------------------------------------------------------------------

    def rows_wanted(self) -> int:
        """Return the number of rows that `fit` uses at most. It is 1 if `fit` uses only the number of features d."""
        self.check()
        if self._kernel().needs_all_rows:
            return sys.maxsize
        for_kernel = MEDIAN_ROWS if self._kernel().needs_rows else 1
        return for_kernel if self._rows_to_draw is None else max(for_kernel, self._rows_to_draw())

    def sample_seed(self) -> int:
        """Return the seed with which `fit` samples rows if there are more than `rows_wanted()` rows."""
        return seed_of(self.random_state, "map")

    def _fit_costs(self, n: int, d: int) -> dict[str, float]:
        sampling = float(n * d) if self.needs_rows() else 0.0
        median = MEDIAN_COST if self._kernel().needs_rows else 0.0
        return {"fit map": sampling + median, **({} if self._draw_costs is None else self._draw_costs(n))}

    def fit_engine(self, engine: Engine, report: Report | None = None) -> Self:
        enter_stage(report, "fit map")
        return self.fit_sample(*self._sample(engine, report), report)

    def _sample(self, engine: Engine, report: Report | None = None) -> tuple[Any, Array | None]:
        """Return the rows, and their weights or None, that `fit_engine` passes to `fit_sample`.

        If `rows_wanted()` is 1, only the first row of the engine is returned, with None for the weights. If the engine
        has at most `rows_wanted()` rows, all rows and their weights are returned. Otherwise `rows_wanted()` rows are
        sampled with the seed `sample_seed()` and with probabilities in proportion to their weights. The weights
        returned are then None, because the sample already accounts for them.
        """
        wanted, seed = self.rows_wanted(), self.sample_seed()
        if wanted == 1:
            return engine.first().X[:1], None
        check_replayable(self, engine)
        rows = engine.in_memory
        if rows is not None and len(rows) <= wanted:
            return rows.X, rows.weight
        if self._kernel().needs_all_rows:
            msg = f"{type(self).__name__}: {self._kernel()!r} needs all rows of the fit in memory, as one array."
            raise DataError(msg)
        sample = engine.sum(partial(RowSample.of, size=wanted, seed=seed, by_weight=True, targets=False), report)
        # A sample in proportion to the weights must not be weighted again; a complete set of rows keeps its weights.
        return sample.X, sample.weight if sample.is_complete else None

    def fit_sample(self, X: Any, weight: Array | None = None, report: Report | None = None) -> Self:
        """Fit the map to validated rows, without sampling from them first.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            At most `rows_wanted()` rows.
        weight : ndarray of shape (n,), default=None
            Weights of the rows. Rows of weight zero are ignored. None means that all weights are 1.
        report : callable or None, default=None
            Receives the progress.

        Returns
        -------
        self
        """
        if weight is not None:
            X, weight = X[weight > 0], weight[weight > 0]
        kernel = self._accepted(self._kernel())
        kernel = kernel.resolve(X, weight)
        kernel.diag(X[:1])  # raises if the kernel is not defined for these rows
        self._check_memory(*X.shape)
        options = {"report": report} if self.draw_reports else {}
        features = self._draw(kernel, X, weight, as_generator(self.random_state), **options)
        if not isinstance(features, Features):
            msg = (
                f"{type(self).__name__}: _draw must return a function from rows to features, an instance of "
                f"mercer.features.Features, got {type(features).__name__}."
            )
            raise ParameterError(msg)
        self.n_features_in_ = X.shape[1]
        self.kernel_ = kernel
        self.features_ = features
        self.fitted_rows_ = row_hashes(X) if self.built_from_rows else None
        self.signs_ = features.signs
        self._n_features_out = features.n_components
        doubts = None if self._doubts is None else self._doubts(X)
        if doubts is not None:
            warnings.warn(f"{type(self).__name__}: {doubts}", MercerWarning, stacklevel=4)
        return self

    def _check_memory(self, n: int, d: int) -> None:
        """Raise if the parameters of the map do not fit into memory; `n` and `d` are the shape of the rows."""
        # Every component has at least one number, in all maps.
        needed = 8 * self.n_components if self._bytes_to_draw is None else self._bytes_to_draw(n, d)
        if needed > LARGE:
            what = f"a map of n_components={self.n_components} components"
            check_memory(type(self).__name__, what, needed, "Lower n_components.")

    def _accepted(self, kernel: Kernel) -> Kernel:
        """Return `kernel` itself; raise if this map cannot approximate it."""
        if self._parts_accept is not None and self._parts_accept(kernel):
            return kernel
        if self.accepts(kernel):
            return kernel
        from mercer.maps.registry import maps_for  # imported here, since `registry` imports this module

        msg = (
            f"{type(self).__name__} cannot approximate {kernel!r}.\n"
            f"  needs: {self.needs}\n"
            f"  got:   {kernel.structure}\n"
            f"  try:   {', '.join(m.__name__ for m in maps_for(kernel))}"
        )
        raise UnsupportedKernelError(msg)

    # ---- as a part of another map -------------------------------------------------------------

    def with_independent_components(self, kernel: Kernel, n_components: int) -> Self | None:
        """Return an unfitted copy of this map whose components are independent and identically distributed.

        The copy has the given kernel and number of components. None is returned if the components of this map cannot
        be independent and identically distributed, whatever its parameters.
        """
        parameters = None if self._independent is None else self._independent(kernel)
        if parameters is None:
            return None
        return fresh_copy(self, kernel=kernel, n_components=n_components, **parameters)

    def exact_components(self, kernel: Kernel, n_features: int) -> int | None:
        """Return the least number of components for which the features of this map represent `kernel` exactly.

        The rows have `n_features` features. None is returned if this map is not exact for any number of components.
        """
        return None if self._exact_at is None else self._exact_at(kernel, n_features)

    def least_components(self, kernel: Kernel) -> int:
        """Return the least number of components that this map can have for a kernel."""
        return 1 if self._least_components is None else self._least_components(kernel)


def given_kernel(owner: BaseMap, kernel: Any, default: Kernel) -> Kernel:
    """Return the parameter `kernel` of a map, or the default kernel if it is None. Raise if it is not a kernel."""
    if kernel is None:
        return default
    if not isinstance(kernel, Kernel):
        msg = f"{type(owner).__name__}: kernel must be a mercer kernel such as Gaussian(), got {kernel!r}."
        raise ParameterError(f"{msg} {object_hint(kernel, 'kernel')}".rstrip())
    return kernel


def drawn_for(feature_map: BaseMap, kernel: Kernel) -> DrawnMap:
    """Return an unfitted copy of a map with another kernel. Raise if the map is not a `DrawnMap`."""
    part = feature_map.with_kernel(kernel)
    if isinstance(part, DrawnMap):
        return part
    msg = f"{type(feature_map).__name__} cannot be a part of another map.\n  needs: {feature_map.needs}"
    raise UnsupportedKernelError(msg)


def check_features(owner: str, feature_map: BaseMap) -> None:
    """Raise if the features of a fitted map are complex, or if some components have the sign -1 (see `signs_`)."""
    if feature_map.features_.is_complex:
        msg = f"{owner} needs real features, got {feature_map!r}. Use form='pairs': real features of the same kernel."
        raise ParameterError(msg)
    if feature_map.signs_ is not None:
        msg = (
            f"{owner} needs a positive definite kernel, but the features of {feature_map.kernel_!r} by "
            f"{type(feature_map).__name__} have signs, because of negative coefficients or a negative constant. Use a "
            "map without signs, such as RandomFourier for shift-invariant kernels, or Nystroem."
        )
        raise ParameterError(msg)


def warn_of_scales(estimator: BaseEstimator, kernel: Kernel, engine: Engine) -> None:
    """Warn if columns that share a lengthscale of the kernel have scales that differ by `MOST_DIFFERENT` or more.

    The scales are those of some of the rows in memory, or of the first block; see `column_scales`. Dot-product kernels
    and kernels of histograms do not warn: they have no lengthscale, and weigh columns by their magnitude on purpose.
    """
    block = engine.first() if engine.in_memory is None else engine.in_memory
    n, d = block.X.shape
    groups = [group for group in kernel.lengthscale_columns(np.arange(d)) if len(group) > 1]
    if not groups:
        return
    wanted = min(SCALE_ROWS, max(LEAST_SCALE_ROWS, SCALE_ENTRIES // d))
    rows = block.X[np.arange(0, n, max(1, -(-n // wanted)))]
    if rows.shape[0] < LEAST_SCALE_ROWS:
        return
    scales = column_scales(rows)
    for group in groups:
        factor, low, high = most_different(scales[:, group])
        if factor < MOST_DIFFERENT:
            continue
        names = getattr(estimator, "feature_names_in_", np.arange(d)).tolist()
        owner, chosen = type(estimator).__name__, getattr(estimator, "feature_map", estimator)
        wrapped = f"{type(chosen).__name__}(...)" if isinstance(chosen, BaseMap) else "mercer.Nystroem(kernel)"
        small, large = (f"{scales[1, group[i]]:.2g} of column {names[group[i]]!r}" for i in (low, high))
        msg = (
            f"{owner}: columns of X with one lengthscale have scales that differ by a factor of {factor:.1g}: {small}, "
            f"{large}. The kernel hardly depends on columns of small scale. Divide columns by their spread with "
            f"mercer.ScaledColumns({wrapped}), or give one lengthscale per column: mercer.Transformed(kernel, "
            "lengthscales=[...])."
        )
        warnings.warn(msg, MercerWarning, stacklevel=2)
        return


FIXED_LENGTHSCALE = ", or give the lengthscale as a number (for thresholds, upper)"


def check_replayable(feature_map: BaseMap, engine: Engine, instead: str = FIXED_LENGTHSCALE) -> None:
    """Raise unless the rows of an engine can be read more than once; `instead` is what else the user can do."""
    if engine.replayable:
        return
    msg = (
        f"{feature_map!r} learns from rows before it can be used on them, but the blocks can be read only once. Pass "
        f"an iterable that can be read again (a list, or an object whose __iter__ starts over){instead}."
    )
    raise DataError(msg)
