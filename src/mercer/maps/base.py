"""The contract of a feature map: fit learns, transform applies. The only scikit-learn code of this folder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, validate_data

from mercer.engines import Engine, MemoryEngine, block_rows_for, empty_rows, fill_rows
from mercer.engines.dask.partitions import is_dask
from mercer.errors import DataError, NoClosedFormError, ParameterError
from mercer.features import Features
from mercer.io.formats.arrow import BatchStream
from mercer.io.source import RowSource
from mercer.kernels import Gaussian, Kernel
from mercer.kernels.histogram import check_non_negative
from mercer.maps.parameters import check_count

__all__ = [
    "BaseMap",
    "FrozenParams",
    "available_if",
    "for_kernel",
    "fresh_copy",
]

FLOATS = (np.float64, np.float32)


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

    A concrete map adds `accepts`, `unbiased`, `fit_engine`, and `_variance` where a closed form exists. Nearly all are
    drawn from a sample of rows at most: a `DrawnMap` adds `_draw` instead of `fit_engine`.
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

    @property
    @abstractmethod
    def unbiased(self) -> bool | str:
        """True if the mean of the approximate kernel over draws is the kernel, else the reason why not."""

    @abstractmethod
    def fit_engine(self, engine: Engine) -> Self:
        """Fit the map to the checked rows of an engine, wherever they are: what a learner calls.

        Parameters
        ----------
        engine : Engine
            A source of rows. A map that looks at more than their width needs one that can be read more than once.

        Returns
        -------
        self
        """

    def check(self) -> None:
        """Raise if a parameter lies outside its domain, as far as no rows are needed to tell."""
        check_count(self, "n_components")

    def needs_rows(self) -> bool:
        """Return whether `fit` looks at more than the width of the rows."""
        return True

    def check_grows(self, owner: str) -> None:
        """Raise if rows cannot be added to this map, where `partial_fit` of a learner would have to: see `grow`."""

    def grow(self, engine: Engine) -> np.ndarray | None:  # noqa: ARG002 - the signature of the contract
        """Add rows to a fitted map, and return what its features before are to be multiplied by, to be those of now.

        None means that they are what they were: most maps are drawn for their first rows.
        """
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

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 - scikit-learn's signature
        """Fit the map.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows, labeled or not. Of most maps only their width matters, unless a parameter is learned from a sample.
        y : ignored
            For pipelines.

        Returns
        -------
        self
        """
        with self._unchanged_if_it_fails():
            return self.fit_engine(self._in_memory(X))

    def _in_memory(self, X: Any, *, reset: bool = True) -> MemoryEngine:
        """Return an engine over rows to fit on, checked."""
        refuse_files(self, X, "fit")
        if is_dask(X):
            msg = (
                f"{type(self).__name__}: fit takes rows in memory, got a dask collection. Try a sample of its rows, or "
                "pass the unfitted map to a learner, which reads what it needs by itself."
            )
            raise DataError(msg)
        X = validate_data(self, X, accept_sparse="csr", dtype=FLOATS, reset=reset)
        self.check()
        if self._kernel().positive_only:
            check_non_negative(type(self).__name__, X)  # all rows, of which the map may see few
        rows = block_rows_for(max(self.n_components, X.shape[1]), X.dtype.itemsize)
        return MemoryEngine(X, block_rows=rows, n_jobs=self.n_jobs)

    def _check_fitted(self) -> None:
        check_is_fitted(self, "features_")

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
            from mercer.engines.dask.collections import lazy_rows

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

    def with_kernel(self, kernel: Kernel) -> Self:
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        kernel = self.default_kernel if self.kernel is None else self.kernel
        tags.input_tags.positive_only = isinstance(kernel, Kernel) and kernel.positive_only
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


SomeMap = TypeVar("SomeMap", bound=BaseMap)


def fresh_copy(of: Estimator, /, **changes: Any) -> Estimator:
    """Return an unfitted copy of a map or learner with some parameters changed."""
    return clone(of).set_params(**changes)


def for_kernel(feature_map: SomeMap, kernel: Kernel) -> SomeMap:
    """Return an unfitted copy of a map with another kernel."""
    return feature_map.with_kernel(kernel)


def refuse_files(feature_map: BaseMap, X: Any, what: str) -> None:
    """Raise for files as `mercer.open_rows` opens them, whose features may be larger than memory."""
    if isinstance(X, RowSource | BatchStream):
        how = "pass the unfitted map to a learner" if what == "fit" else f"{what} block by block: for X, *_ in rows"
        msg = f"{type(feature_map).__name__}: {what} takes rows in memory, got {type(X).__name__}. Try to {how}."
        raise DataError(msg)
