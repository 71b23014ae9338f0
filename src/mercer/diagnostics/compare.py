"""Comparison of the errors and times of several feature maps for the same kernel, rows and number of components."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sklearn.model_selection import train_test_split

from mercer.diagnostics.audit import Audit, audit
from mercer.errors import DataError, ParameterError
from mercer.kernels import Kernel
from mercer.maps import BaseMap, maps_for
from mercer.parameters import known_names
from mercer.statistics.sample import seed_of

__all__ = ["Compared", "Comparison", "compare"]

# Fraction of the rows that are held out from the fits, and on which errors are measured; and the least number of rows,
# of which two are then held out, so that there is a pair of them.
HELD_OUT = 0.25
LEAST_ROWS = 5


@dataclass(frozen=True)
class Compared:
    """Kernel error, fit time and transform time of one of the maps in a `Comparison`."""

    name: str
    audit: Audit
    fit_seconds: float
    transform_seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of built-in types."""
        times = {"name": self.name, "fit_seconds": self.fit_seconds, "transform_seconds": self.transform_seconds}
        return times | {"audit": self.audit.to_dict()}


@dataclass(frozen=True)
class Comparison:
    """Errors and times of several maps for one kernel; the maps are in increasing order of their RMSE.

    Attributes
    ----------
    kernel : str
        The kernel that all maps approximate.
    n_rows : int
        Number of rows.
    n_held_out : int
        Number of the rows that the maps were not fitted to. The errors were measured on these rows.
    maps : tuple of Compared
        The results, in increasing order of the root mean squared errors.
    """

    kernel: str
    n_rows: int
    n_held_out: int
    maps: tuple[Compared, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of built-in types."""
        sizes = {"kernel": self.kernel, "n_rows": self.n_rows, "n_held_out": self.n_held_out}
        return sizes | {"maps": [m.to_dict() for m in self.maps]}

    def __str__(self) -> str:
        width = max(len(m.name) for m in self.maps)
        lines = [
            f"{self.kernel}, {self.n_rows} rows, errors on {self.n_held_out} of them that are held out from the fits",
            f"{'map':<{width}}  components      RMSE  relative    fit s  transform s",
        ]
        lines += [
            f"{m.name:<{width}}  {m.audit.n_components:>10}  {m.audit.rmse:>8.2e}  {m.audit.relative_error:>8.2e}  "
            f"{m.fit_seconds:>7.3f}  {m.transform_seconds:>11.4f}"
            for m in self.maps
        ]
        return "\n".join(lines)


@known_names
def compare(
    kernel: Kernel,
    X: Any,
    *,
    n_components: int = 512,
    maps: Mapping[str, BaseMap] | None = None,
    repeats: int = 3,
    random_state: Any = 0,
    progress: Callable[[str], None] | None = None,
) -> Comparison:
    """Fit several feature maps for one kernel, and measure the kernel error and the times of each.

    The maps are fitted to three quarters of the rows, and their errors are measured on the others: the error of a map
    that is built from rows, such as `Nystroem`, is smaller on these rows than on other rows.

    Parameters
    ----------
    kernel : Kernel
        The kernel. Parameters that depend on the data, such as a median lengthscale, are computed once from `X`, so
        that all maps approximate the same kernel.
    X : array-like or CSR of shape (n, d)
        Rows; at least 5. A random quarter of them, rounded up, is held out from the fits to measure the errors on. All
        rows are transformed to measure the time.
    n_components : int, default=512
        Number of components of every map, if `maps` is None.
    maps : mapping of str to BaseMap, default=None
        Unfitted maps by name. Each is copied with `kernel` in place of its own kernel. None means all maps that accept
        the kernel, with their default parameters.
    repeats : int, default=3
        How often the transform of each map is timed. The shortest time is reported.
    random_state : int, default=0
        Seed of the rows that are held out, of the pairs of rows on which errors are measured, and of the maps if `maps`
        is None.
    progress : callable, default=None
        Called with the name of each map before it is measured.

    Returns
    -------
    Comparison
        The maps in increasing order of their errors.

    See Also
    --------
    audit : Measures one fitted map.
    maps_for : The maps that accept a kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, compare
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> result = compare(Gaussian("median"), X, n_components=128)
    >>> sorted(m.name for m in result.maps)
    ['Nystroem', 'RandomFourier', 'RandomMaclaurin', 'ResampledFourier', 'SphericalRadial']
    """
    if not isinstance(kernel, Kernel):
        msg = f"compare: kernel must be a mercer kernel such as Gaussian('median'), got {kernel!r}."
        raise ParameterError(msg)
    if repeats < 1 or (maps is not None and not maps):
        msg = f"compare: at least one repeat and one map are needed, got repeats={repeats!r} and maps={maps!r}."
        raise ParameterError(msg)
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_rows < LEAST_ROWS:
        msg = (
            f"compare: X must have at least {LEAST_ROWS} rows, since errors are measured on a quarter of them that the "
            f"maps are not fitted to, got {n_rows}. To measure the error on the rows of the fit, use audit."
        )
        raise DataError(msg)
    kernel = kernel.resolve(X)
    # scikit-learn takes seeds of 32 bits.
    fitted_rows, others = train_test_split(X, test_size=HELD_OUT, random_state=seed_of(random_state, "compare") % 2**32)
    if maps is None:
        chosen = {m.__name__: m(n_components=n_components, random_state=random_state) for m in maps_for(kernel)}
    else:
        chosen = dict(maps)
    results = []
    for name, feature_map in chosen.items():
        if progress is not None:
            progress(name)
        fitted = feature_map.with_kernel(kernel)
        start = time.perf_counter()
        fitted.fit(fitted_rows)
        fit_seconds = time.perf_counter() - start
        seconds = []
        for _ in range(repeats):
            start = time.perf_counter()
            fitted.transform(X)
            seconds.append(time.perf_counter() - start)
        measured = audit(fitted, others, random_state=random_state)
        results.append(Compared(name, measured, fit_seconds, min(seconds)))
    results.sort(key=lambda result: result.audit.rmse)
    n_held_out = others.shape[0] if hasattr(others, "shape") else len(others)
    return Comparison(repr(kernel), n_rows, n_held_out, tuple(results))
