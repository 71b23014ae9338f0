"""The contract of a feature map: fit draws, transform applies. The only scikit-learn code of this folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar, Protocol, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.engines import Engine, MemoryEngine, RowSample, block_rows_for, empty_rows, fill_rows, is_dask
from mercer.errors import DataError, NoClosedFormError, ParameterError, UnsupportedKernelError
from mercer.io.arrow import BatchStream
from mercer.io.source import RowSource
from mercer.kernels import Gaussian, Kernel
from mercer.kernels.histogram import check_non_negative
from mercer.kernels.spectrum import MEDIAN_ROWS
from mercer.maps.checks import check_count
from mercer.maps.seeds import as_generator, seed_of

__all__ = [
    "BaseMap",
    "Features",
    "FrozenParams",
    "available_if",
    "check_replayable",
    "explicit_map",
    "for_kernel",
    "fresh_copy",
    "maps_for",
]

FLOATS = (np.float64, np.float32)


class Features(Protocol):
    """A drawn map: a pure function of rows, free of scikit-learn."""

    @property
    def n_components(self) -> int:
        """Return the number of columns."""

    def astype(self, dtype: Any) -> Self:
        """Return the same draw for rows of another dtype."""

    def output_dtype(self, dtype: Any) -> np.dtype:
        """Return the dtype of features of rows of this dtype."""

    def __call__(self, X: Any, out: np.ndarray) -> None:
        """Write the features of the rows of `X` into `out`."""


class FrozenParams(BaseEstimator):
    """An estimator some of whose parameters are frozen kernels.

    scikit-learn changes nested parameters in place; a kernel is replaced by a changed copy instead.
    """

    @contextmanager
    def _unchanged_if_it_fails(self) -> Iterator[None]:
        """Undo every change of this object if an error leaves the block: a bad block of rows costs nothing."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__.clear()
            self.__dict__.update(before)
            raise

    def set_params(self, **params: Any) -> Self:
        plain: dict[str, Any] = {}
        nested: dict[str, dict[str, Any]] = {}
        for key, value in params.items():
            name, _, inner = key.partition("__")
            holder = params.get(name, getattr(self, name, None))
            if inner and holder is None and name in self.get_params(deep=False):
                msg = f"{type(self).__name__}: {key} cannot be set while {name} is None. Give a {name} first."
                raise ParameterError(msg)
            if inner and isinstance(holder, Kernel):
                nested.setdefault(name, {})[inner] = value
            else:
                plain[key] = value
        super().set_params(**plain)
        for name, inner_params in nested.items():
            setattr(self, name, getattr(self, name).with_params(**inner_params))
        return self


Estimator = TypeVar("Estimator", bound=FrozenParams)


class BaseMap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, FrozenParams, ABC):
    """A map from rows to features whose inner products approximate a kernel.

    A concrete map adds `accepts`, `_draw`, `unbiased`, and `_variance` where a closed form exists.
    """

    #: One phrase: the structure that a kernel must have for this map.
    needs: ClassVar[str]
    #: Where several maps can approximate a kernel, the one of the least number is the default.
    preference: ClassVar[int] = 50
    #: The kernel that None stands for.
    default_kernel: ClassVar[Kernel] = Gaussian(lengthscale="median")
    #: Whether the features themselves raise DataError for entries that are not finite, because they look at all anyway.
    features_check_entries: ClassVar[bool] = False

    kernel: Kernel | None
    n_components: int
    random_state: Any
    n_jobs: int | None

    #: None, or +-1 a column where the approximate kernel is indefinite.
    signs_: np.ndarray | None
    kernel_: Kernel
    features_: Features

    @classmethod
    @abstractmethod
    def accepts(cls, kernel: Kernel) -> bool:
        """Return whether this map can approximate the kernel."""

    @abstractmethod
    def _draw(self, kernel: Kernel, X: Any, weight: np.ndarray | None, rng: np.random.Generator) -> Features:
        """Draw the map for a kernel without open parameters and for rows like those of `X`, of these weights."""

    @property
    @abstractmethod
    def unbiased(self) -> bool | str:
        """True if the mean of the approximate kernel over draws is the kernel, else the reason why not."""

    def with_independent_columns(self, kernel: Kernel, n_components: int) -> BaseMap | None:  # noqa: ARG002
        """Return a map like this one whose columns are drawn independently and alike, or None if there is none.

        A column chosen at random, times the root of their number, is then an unbiased map of the kernel. The map may
        put its columns in an order.
        """
        return None

    def fewest_columns(self, kernel: Kernel) -> int:  # noqa: ARG002
        """Return the least width at which this map can be drawn."""
        return 1

    def exact_columns(self, kernel: Kernel, n_features: int) -> int | None:  # noqa: ARG002
        """Return how many columns make this map exact for rows of a width, or None if it never is."""
        return None

    def variance(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return the variance over draws of each value of ``gram(X, Y)``, where a closed form exists.

        Parameters
        ----------
        X, Y : array-like or CSR of shapes (n, d) and (m, d)
            Rows; None for `Y` means `X`.

        Returns
        -------
        ndarray of shape (n, m)

        Raises
        ------
        NoClosedFormError
            If no formula is known for this design; `mercer.audit` measures the error then.
        """
        check_is_fitted(self, "features_")
        return self._variance(self.check_rows(X), None if Y is None else self.check_rows(Y))

    def check_rows(self, X: Any) -> Any:
        """Return rows as an array or CSR matrix that this fitted map can take; otherwise explain."""
        check_is_fitted(self, "features_")
        return validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False)

    def _variance(self, X: Any, Y: Any) -> np.ndarray:  # noqa: ARG002 - the signature of the contract
        msg = (
            f"{type(self).__name__} has no closed form for its variance. Try mercer.audit(feature_map, X): it measures."
        )
        raise NoClosedFormError(msg)

    def rows_wanted(self) -> int:
        """Return how many rows `fit` looks at: one if it needs only their width."""
        check_count(self, "n_components")
        return MEDIAN_ROWS if self._kernel().needs_rows else 1

    def sample_seed(self) -> int:
        """Return the seed of the sample of rows that `fit` looks at, if there are more than it wants."""
        return seed_of(self.random_state, "map")

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn's signature
        """Draw the map.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows. Only their width matters, unless a parameter is learned from a sample of them.
        y : ignored
            For pipelines.

        Returns
        -------
        self
        """
        with self._unchanged_if_it_fails():
            return self.fit_sample(self._sample(X))

    def _validated(self, X: Any, *, reset: bool = True) -> Any:
        """Return rows as an array or CSR matrix to fit on."""
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=reset)
        if self._kernel().positive_only:
            check_non_negative(type(self).__name__, X)  # all rows, of which the map may see few
        return X

    def _check_fitted(self) -> None:
        check_is_fitted(self, "features_")

    def _sample(self, X: Any) -> Any:
        """Return checked rows, or a seeded sample of as many as `fit` looks at."""
        refuse_files(self, X, "fit")
        if is_dask(X):
            msg = (
                f"{type(self).__name__}: fit takes rows in memory, got a dask collection. Try a sample of its rows, or "
                "pass the unfitted map to a learner, which finds one by itself."
            )
            raise DataError(msg)
        X = self._validated(X)
        wanted, seed = self.rows_wanted(), self.sample_seed()
        if X.shape[0] <= wanted:
            return X
        if wanted == 1:
            return X[:1]
        engine = MemoryEngine(X, block_rows=block_rows_for(X.shape[1]), n_jobs=self.n_jobs)
        return engine.sum(lambda block: RowSample.of(block, size=wanted, seed=seed)).X

    def fit_engine(self, engine: Engine) -> Self:
        """Draw the map from the checked rows of an engine, wherever they are: what a learner calls.

        Parameters
        ----------
        engine : Engine
            A source of rows. A map that looks at more than their width needs one that can be read more than once.

        Returns
        -------
        self
        """
        wanted, seed = self.rows_wanted(), self.sample_seed()
        if wanted == 1:
            return self.fit_sample(engine.first().X[:1])
        check_replayable(self, engine)
        sample = engine.sum(partial(RowSample.of, size=wanted, seed=seed, by_weight=True))
        # Rows drawn in proportion to their weights stand for themselves; all of them still have their weights.
        return self.fit_sample(sample.X, sample.weight if sample.is_whole else None)

    def fit_sample(self, X: Any, weight: np.ndarray | None = None) -> Self:
        """Draw the map from checked rows, all of which it may look at.

        Parameters
        ----------
        X : ndarray or CSR of shape (n, d)
            At most `rows_wanted` rows.
        weight : ndarray of shape (n,), default=None
            Weights of the rows; those of zero are passed over.

        Returns
        -------
        self
        """
        if weight is not None:
            X, weight = X[weight > 0], weight[weight > 0]
        kernel = self._accepted(self._kernel())
        kernel = kernel.resolve(X, weight)
        kernel.diag(X[:1])  # a kernel that cannot take such rows says so here
        features = self._draw(kernel, X, weight, as_generator(self.random_state))
        self.n_features_in_ = X.shape[1]
        self.kernel_ = kernel
        self.features_ = features
        self.signs_ = getattr(features, "signs", None)
        self._n_features_out = self.features_.n_components
        return self

    def transform(self, X: Any, *, out: np.ndarray | None = None) -> np.ndarray:
        """Return the features of the rows, float32 if they are float32.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), or dask array or dataframe
            Rows; of a dask collection the result is a dask array that is not computed yet.
        out : ndarray of shape (n, n_components), default=None
            Where to write them; a buffer that is used again saves the cost of fresh memory, which can be half of all.

        Returns
        -------
        ndarray of shape (n, n_components)
            ``transform(X) @ transform(Y).conj().T`` approximates ``kernel_(X, Y)``.
        """
        if is_dask(X):
            from mercer.engines.dask_collections import lazy_rows

            check_is_fitted(self, "features_")
            return lazy_rows(self.transform, X)
        refuse_files(self, X, "transform")
        if not self.features_check_entries:
            return self.apply(self.check_rows(X), out)
        check_is_fitted(self, "features_")
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=False, ensure_all_finite=False)
        try:
            return self.apply(X, out)
        except DataError:
            self.check_rows(X)  # says which entries are not finite in the words of scikit-learn
            raise

    def apply(self, X: Any, out: np.ndarray | None = None) -> np.ndarray:
        """Return the features of checked rows; `transform` without the checks."""
        features = self.features_.astype(X.dtype)
        shape, dtype = (X.shape[0], features.n_components), features.output_dtype(X.dtype)
        if out is None:
            out = empty_rows(*shape, dtype, recycled=True)
        elif not (
            isinstance(out, np.ndarray)
            and (out.shape, out.dtype, out.strides[-1]) == (shape, dtype, dtype.itemsize)
            and out.flags.writeable
        ):
            got = f"shape {out.shape} and dtype {out.dtype}" if isinstance(out, np.ndarray) else type(out).__name__
            msg = (
                f"{type(self).__name__}: out must be a writable array of shape {shape} and dtype {dtype} with "
                f"contiguous rows, got {got}."
            )
            raise ParameterError(msg)
        fill_rows(features, X, out, n_jobs=self.n_jobs)
        return out

    def with_kernel(self, kernel: Kernel) -> BaseMap:
        """Return an unfitted copy of this map with another kernel."""
        return clone(self).set_params(kernel=kernel)

    def gram(self, X: Any, Y: Any = None) -> np.ndarray:
        """Return the approximate kernel of all pairs of rows of `X` and `Y` (None: of `X`)."""
        left = self.apply(self.check_rows(X))
        right = left if Y is None else self.apply(self.check_rows(Y))
        return self.inner_products(left, right)

    def inner_products(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the approximate kernel of all pairs of features."""
        if np.iscomplexobj(left):
            # The imaginary part has mean zero: real kernels have symmetric spectra.
            return left.real @ right.real.T + left.imag @ right.imag.T
        return left @ right.T if self.signs_ is None else (left * self.signs_) @ right.T

    def _kernel(self) -> Kernel:
        if self.kernel is None:
            return self.default_kernel
        if not isinstance(self.kernel, Kernel):
            msg = f"{type(self).__name__}: kernel must be a mercer kernel such as Gaussian(), got {self.kernel!r}."
            raise ParameterError(msg)
        return self.kernel

    def _accepted(self, kernel: Kernel) -> Kernel:
        if self.accepts(kernel):
            return kernel
        msg = (
            f"{type(self).__name__} cannot approximate {kernel!r}.\n"
            f"  needs: {self.needs}\n"
            f"  got:   {kernel.structure}\n"
            f"  try:   {', '.join(m.__name__ for m in maps_for(kernel))}"
        )
        raise UnsupportedKernelError(msg)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        kernel = self.default_kernel if self.kernel is None else self.kernel
        tags.input_tags.positive_only = isinstance(kernel, Kernel) and kernel.positive_only
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def fresh_copy(of: Estimator, /, **changes: Any) -> Estimator:
    """Return an unfitted copy of a map or learner with some parameters changed."""
    return clone(of).set_params(**changes)


def for_kernel(feature_map: BaseMap, kernel: Kernel) -> BaseMap:
    """Return an unfitted copy of a map with another kernel."""
    return feature_map.with_kernel(kernel)


def maps_for(kernel: Kernel, *, below: float = np.inf) -> list[type[BaseMap]]:
    """Return the maps that can approximate a kernel, the default first; only those of a preference below a number."""
    candidates = (m for m in _concrete(BaseMap) if m.preference < below)
    return sorted((m for m in candidates if m.accepts(kernel)), key=lambda m: m.preference)


def _concrete(base: Any) -> Iterator[Any]:
    for child in base.__subclasses__():
        if not child.__name__.startswith("_"):
            yield child
        yield from _concrete(child)


def explicit_map(kernel: Kernel) -> BaseMap | None:
    """Return an unfitted unbiased map of a kernel, or None if there is none."""
    candidates = (kind(kernel) for kind in maps_for(kernel))
    return next((candidate for candidate in candidates if candidate.unbiased is True), None)


def check_replayable(feature_map: BaseMap, engine: Engine) -> None:
    """Raise unless the rows can be read more than once."""
    if engine.replayable:
        return
    msg = (
        f"{feature_map!r} learns from rows before it can be used on them, but the blocks can be read only once. Pass "
        "an iterable that can be read again (a list, or an object whose __iter__ starts over), or give the "
        "lengthscale as a number (for thresholds, upper)."
    )
    raise DataError(msg)


def refuse_files(feature_map: BaseMap, X: Any, what: str) -> None:
    """Raise for files as `mercer.open_rows` opens them, whose features may be larger than memory."""
    if isinstance(X, RowSource | BatchStream):
        how = "pass the unfitted map to a learner" if what == "fit" else f"{what} block by block: for X, *_ in rows"
        msg = f"{type(feature_map).__name__}: {what} takes rows in memory, got {type(X).__name__}. Try to {how}."
        raise DataError(msg)
