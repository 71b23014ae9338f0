"""Maps that are drawn from a sample of rows, or from their width alone: all of a kernel's own, and how one is found."""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Any, Self

import numpy as np

from mercer.engines import Engine
from mercer.errors import DataError, UnsupportedKernelError
from mercer.features import Features
from mercer.kernels import Kernel
from mercer.kernels.spectral import MEDIAN_ROWS
from mercer.maps.base import BaseMap
from mercer.maps.seeds import as_generator, seed_of
from mercer.statistics import RowSample

__all__ = ["DrawnMap", "check_replayable", "drawn_for", "explicit_map", "maps_for"]


class DrawnMap(BaseMap):
    """A map that is a draw for its kernel, from few rows: it can be a part of other maps.

    A concrete map adds `accepts`, `unbiased`, `_draw`, and `_variance` where a closed form exists.
    """

    @abstractmethod
    def _draw(self, kernel: Kernel, X: Any, weight: np.ndarray | None, rng: np.random.Generator) -> Features:
        """Draw the map for a kernel without open parameters and for rows like those of `X`, of these weights."""

    def with_independent_columns(self, kernel: Kernel, n_components: int) -> DrawnMap | None:  # noqa: ARG002
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

    def rows_wanted(self) -> int:
        """Return how many rows `fit` looks at: one if it needs only their width."""
        self.check()
        return MEDIAN_ROWS if self._kernel().needs_rows else 1

    def sample_seed(self) -> int:
        """Return the seed of the sample of rows that `fit` looks at, if there are more than it wants."""
        return seed_of(self.random_state, "map")

    def needs_rows(self) -> bool:
        return self.rows_wanted() > 1

    def fit_engine(self, engine: Engine) -> Self:
        return self.fit_sample(*self._sample(engine))

    def _sample(self, engine: Engine) -> tuple[Any, np.ndarray | None]:
        """Return as many checked rows as the draw looks at, and their weights: all of them, or a seeded sample."""
        wanted, seed = self.rows_wanted(), self.sample_seed()
        if wanted == 1:
            return engine.first().X[:1], None
        check_replayable(self, engine)
        rows = engine.in_memory
        if rows is not None and len(rows) <= wanted:
            return rows.X, rows.weight
        sample = engine.sum(partial(RowSample.of, size=wanted, seed=seed, by_weight=True, targets=False))
        # Rows drawn in proportion to their weights stand for themselves; all of them still have their weights.
        return sample.X, sample.weight if sample.is_complete else None

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


def maps_for(kernel: Kernel, *, below: float = np.inf) -> list[type[BaseMap]]:
    """Return the maps that can approximate a kernel, the default first; only those of a preference below a number."""
    candidates = (m for m in _concrete(BaseMap) if m.preference < below)
    return sorted((m for m in candidates if m.accepts(kernel)), key=lambda m: m.preference)


def _concrete(base: Any) -> Iterator[Any]:
    for child in base.__subclasses__():
        if not inspect.isabstract(child):
            yield child
        yield from _concrete(child)


def explicit_map(kernel: Kernel, *, below: float = np.inf) -> DrawnMap | None:
    """Return an unfitted unbiased map of a kernel, of a preference below a number, or None if there is none."""
    candidates = (kind(kernel) for kind in maps_for(kernel, below=below) if issubclass(kind, DrawnMap))
    return next((candidate for candidate in candidates if candidate.unbiased is True), None)


def drawn_for(feature_map: BaseMap, kernel: Kernel) -> DrawnMap:
    """Return an unfitted copy with another kernel of a map that is to be a part of another; otherwise explain."""
    part = feature_map.with_kernel(kernel)
    if isinstance(part, DrawnMap):
        return part
    msg = f"{type(feature_map).__name__} cannot be a part of another map.\n  needs: {feature_map.needs}"
    raise UnsupportedKernelError(msg)


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
