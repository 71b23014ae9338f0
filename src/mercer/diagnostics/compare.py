"""Comparison of feature maps for the same kernel and rows: errors, times and memory, by number of components."""

from __future__ import annotations

import pickle
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import check_array

from mercer.diagnostics.audit import Audit, audit, measure
from mercer.diagnostics.peers import Peer, peers_for
from mercer.diagnostics.subject import Subject
from mercer.engines import Report, enter_stage, report_step, reported, stages_of
from mercer.errors import DataError, ParameterError
from mercer.errors.packages import data_frame
from mercer.features import parameter_bytes
from mercer.kernels import Kernel
from mercer.maps import BaseMap, maps_for
from mercer.parameters import Instance, Integer, check_parameter, check_sequence, known_names
from mercer.statistics.sample import seed_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["Compared", "Comparison", "Skipped", "compare"]

# Fraction of the rows that are held out from the fits, and on which errors are measured; and the least number of rows,
# of which two are then held out, so that there is a pair of them.
HELD_OUT = 0.25
LEAST_ROWS = 5
# Number of rows of which all pairs are compared, as in `audit`.
AUDITED_ROWS = 1000
DEFAULT_WIDTH = 512
FLOATS = [np.float64, np.float32]


@dataclass(frozen=True)
class Compared:
    """Errors, times and memory of several draws of one map with one number of components.

    Attributes
    ----------
    name, library : str
        Name of the map, and the library that it belongs to: "mercer" or "scikit-learn".
    audits : tuple of Audit
        Errors on the held-out rows, one per draw.
    fit_times, transform_times : tuple of float
        Seconds to fit the map, and to transform all rows, one per draw.
    n_bytes : int
        Size of the fitted parameters of the map.
    """

    name: str
    library: str
    audits: tuple[Audit, ...]
    fit_times: tuple[float, ...]
    transform_times: tuple[float, ...]
    n_bytes: int

    @property
    def audit(self) -> Audit:
        """Errors of the first draw."""
        return self.audits[0]

    @property
    def n_components(self) -> int:
        """Number of components."""
        return self.audit.n_components

    @property
    def rmse(self) -> float:
        """Root of the mean over draws of the mean squared error."""
        return _root_mean_square([one.rmse for one in self.audits])

    @property
    def rmse_range(self) -> tuple[float, float]:
        """Least and largest RMSE of the draws."""
        errors = [one.rmse for one in self.audits]
        return min(errors), max(errors)

    @property
    def relative_error(self) -> float:
        """Root of the mean over draws of the squared relative error in the Frobenius norm."""
        return _root_mean_square([one.relative_error for one in self.audits])

    @property
    def fit_seconds(self) -> float:
        """Median over draws of the seconds of a fit."""
        return float(np.median(self.fit_times))

    @property
    def transform_seconds(self) -> float:
        """Median over draws of the seconds to transform all rows."""
        return float(np.median(self.transform_times))

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of built-in types."""
        return asdict(self) | self._row()

    def _row(self) -> dict[str, Any]:
        """Return the row of a table."""
        (low, high), times = self.rmse_range, self.transform_times
        return {
            "name": self.name,
            "library": self.library,
            "n_components": self.n_components,
            "n_draws": len(self.audits),
            "rmse": self.rmse,
            "rmse_low": low,
            "rmse_high": high,
            "relative_error": self.relative_error,
            "max_error": max(one.max_error for one in self.audits),
            "fit_seconds": self.fit_seconds,
            "fit_seconds_low": min(self.fit_times),
            "fit_seconds_high": max(self.fit_times),
            "transform_seconds": self.transform_seconds,
            "transform_seconds_low": min(times),
            "transform_seconds_high": max(times),
            "n_bytes": self.n_bytes,
        }


class Skipped(NamedTuple):
    """A map that could not be measured with a number of components, and the reason."""

    name: str
    n_components: int
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Errors, times and memory of several maps for one kernel, for one or several numbers of components.

    Attributes
    ----------
    kernel : str
        The kernel that all maps approximate.
    n_rows : int
        Number of rows.
    n_held_out : int
        Number of the rows that the maps were not fitted to. The errors were measured on these rows.
    maps : tuple of Compared
        The results in the order of `widths` and, for each of them, in increasing order of the root mean squared errors.
    skipped : tuple of Skipped
        Maps that could not be measured, and why.
    n_draws : int
        Number of draws of each map.
    """

    kernel: str
    n_rows: int
    n_held_out: int
    maps: tuple[Compared, ...]
    skipped: tuple[Skipped, ...] = ()
    n_draws: int = 1

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of built-in types."""
        sizes = {"kernel": self.kernel, "n_rows": self.n_rows, "n_held_out": self.n_held_out, "n_draws": self.n_draws}
        skipped = [one._asdict() for one in self.skipped]
        return sizes | {"maps": [m.to_dict() for m in self.maps], "skipped": skipped}

    def to_pandas(self) -> Any:
        """Return the results as a pandas DataFrame, one row per map and number of components."""
        return data_frame([one._row() for one in self.maps], "Comparison.to_pandas")

    def plot(self) -> Figure:
        """Return a Matplotlib figure: the error against the number of components, the time and the memory.

        Bands are from the least to the largest error of the draws, and lines of maps of scikit-learn are dashed.
        Matplotlib is needed: ``pip install "mercer[report]"``.
        """
        from mercer.diagnostics.plots import comparison_figure

        return comparison_figure(self)

    def __str__(self) -> str:
        width = max(len(m.name) for m in self.maps)
        draws = f", {self.n_draws} draws" if self.n_draws > 1 else ""
        least = "     least   largest" if self.n_draws > 1 else ""
        lines = [
            f"{self.kernel}, {self.n_rows} rows, errors on {self.n_held_out} of them that are held out from the fits"
            + draws,
            f"{'map':<{width}}  components      RMSE{least}  relative    fit s  transform s        bytes",
        ]
        for m in self.maps:
            ends = "".join(f"  {end:>8.2e}" for end in m.rmse_range) if self.n_draws > 1 else ""
            lines.append(
                f"{m.name:<{width}}  {m.n_components:>10}  {m.rmse:>8.2e}{ends}  {m.relative_error:>8.2e}  "
                f"{m.fit_seconds:>7.3f}  {m.transform_seconds:>11.4f}  {m.n_bytes:>11,}"
            )
        lines += [f"not measured: {one.name} with {one.n_components} components: {one.reason}" for one in self.skipped]
        return "\n".join(lines)


@known_names
def compare(
    kernel: Kernel,
    X: Any,
    *,
    widths: Sequence[int] | None = None,
    n_components: int | None = None,
    maps: Mapping[str, BaseMap] | None = None,
    n_draws: int = 3,
    repeats: int = 3,
    random_state: Any = 0,
    progress: bool | Report = False,
) -> Comparison:
    """Compare the errors, times and memory of several maps for the same kernel and rows.

    The maps are fitted to three quarters of the rows. Errors are measured on the other rows: on the rows of the fit,
    those of landmarks would be too small.

    Parameters
    ----------
    kernel : Kernel
        The kernel. If its lengthscale is "median", the lengthscale is estimated once, from X, for all maps.
    X : array-like or CSR of shape (n, d)
        Rows, at least 5. Transform times are measured on all of them.
    widths : sequence of int, default=None
        Numbers of components, for example ``(64, 128, 256)``. None means `n_components` alone or, for maps that are
        passed as `maps`, the number that each of them has.
    n_components : int, default=None
        A single number of components, instead of `widths`. If both are None, it is 512.
    maps : dict of str to BaseMap, default=None
        Unfitted maps by name. The parameter `kernel` of each is replaced by the given kernel. None means all maps that
        accept the kernel, with their default parameters, and those of scikit-learn that approximate it:
        `RBFSampler` and `Nystroem` for the Gaussian kernel, `PolynomialCountSketch` and `Nystroem` for polynomials,
        `Nystroem` for the Laplacian and `AdditiveChi2Sampler` for the additive chi-squared kernel.
    n_draws : int, default=3
        Number of maps, with different seeds, for each number of components. The first of them has the seed
        `random_state`, or that of a map of `maps`.
    repeats : int, default=3
        How often the transform of each map is timed. The shortest time of each draw counts.
    random_state : int, default=0
        Seed of the rows that are held out, of the pairs of rows on which errors are measured, and of the maps if `maps`
        is None.
    progress : bool or callable, default=False
        True displays the progress. A callable is called with a `Progress` before each draw of a map, whose attribute
        `stage` has the name and the number of components.

    Returns
    -------
    Comparison
        One result per map and number of components. It can be printed, plotted and converted to pandas.

    See Also
    --------
    audit : Measures one fitted map.
    maps_for : The maps that accept a kernel.

    Notes
    -----
    Each of the draws of each map with each number of components costs a fit, `repeats` transforms of all rows, and an
    audit of the held-out rows. A map that cannot have a number of components is listed in `Comparison.skipped`.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, compare
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> result = compare(Gaussian("median"), X, widths=(32, 64), n_draws=2)
    >>> sorted({m.name for m in result.maps})  # doctest: +NORMALIZE_WHITESPACE
    ['Nystroem', 'RandomFourier', 'RandomMaclaurin', 'ResampledFourier', 'SphericalRadial', 'sklearn Nystroem',
     'sklearn RBFSampler']
    >>> result.to_pandas()["n_components"].unique().tolist()
    [32, 64]
    """
    if not isinstance(kernel, Kernel):
        msg = f"compare: kernel must be a mercer kernel such as Gaussian('median'), got {kernel!r}."
        raise ParameterError(msg)
    if maps is not None and not isinstance(maps, Mapping):
        msg = f"compare: maps must be a dictionary of unfitted maps by name, like {{'mine': Nystroem()}}, got {maps!r}."
        raise ParameterError(msg)
    for name, given in (maps or {}).items():
        check_parameter("compare", f"maps[{name!r}]", given, Instance(BaseMap, "a mercer map such as RandomFourier()"))
    if maps is not None and not maps:
        msg = f"compare: at least one map is needed, got maps={maps!r}."
        raise ParameterError(msg)
    if widths is not None and n_components is not None:
        msg = f"compare: pass either widths or n_components, got widths={widths!r} and n_components={n_components!r}."
        raise ParameterError(msg)
    check_parameter("compare", "repeats", repeats, Integer(1))
    check_parameter("compare", "n_draws", n_draws, Integer(1))
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    if n_rows < LEAST_ROWS:
        msg = (
            f"compare: X must have at least {LEAST_ROWS} rows, since errors are measured on a quarter of them that the "
            f"maps are not fitted to, got {n_rows}. To measure the error on the rows of the fit, use audit."
        )
        raise DataError(msg)
    report = stages_of("compare", progress)
    kernel = kernel.resolve(X)
    # scikit-learn takes seeds of 32 bits.
    fitted_rows, others = train_test_split(X, test_size=HELD_OUT, random_state=seed_of(random_state, "compare") % 2**32)
    rows = _Rows(X, fitted_rows, others, repeats, random_state)
    seeds = [random_state, *(seed_of(random_state, f"draw {i}") % 2**31 for i in range(1, n_draws))]
    candidates = _candidates(kernel, rows, _widths(widths, n_components, maps), maps, seeds)
    if report is not None:
        report.plan({one.stage: float(one.width) for one in candidates})
    results, skipped, errors = [], [], []
    with reported(report), _each_warning_once():
        for one in candidates:
            enter_stage(report, one.stage)
            try:
                results.append((one.width, _measured(one, n_draws, report)))
            except ValueError as error:
                if maps is not None:
                    raise
                skipped.append(Skipped(one.name, one.width, str(error).splitlines()[0]))
                errors.append(error)
        if not results:  # the rows, not the maps, are the reason
            raise errors[0]
    order = {width: i for i, width in enumerate(dict.fromkeys(one.width for one in candidates))}
    results.sort(key=lambda pair: ((0 if widths is None else order[pair[0]]), pair[1].rmse))
    n_held_out = others.shape[0] if hasattr(others, "shape") else len(others)
    found = tuple(result for _, result in results)
    return Comparison(repr(kernel), n_rows, n_held_out, found, tuple(skipped), n_draws)


# ---- candidates -----------------------------------------------------------------------------------


class _Rows(NamedTuple):
    """All rows, those of the fits and those that are held out, and how they are measured."""

    X: Any
    fitted: Any
    others: Any
    repeats: int
    random_state: Any


class _Draw(NamedTuple):
    """Measurements of one draw."""

    audit: Audit
    fit_seconds: float
    transform_seconds: float
    n_bytes: int


@dataclass(frozen=True)
class _Candidate:
    """A map with a number of components, and the function that measures its i-th draw."""

    name: str
    library: str
    width: int
    draw: Callable[[int], _Draw]

    @property
    def stage(self) -> str:
        return f"{self.name}, {self.width} components"


def _widths(
    widths: Sequence[int] | None, n_components: int | None, maps: Mapping[str, BaseMap] | None
) -> list[int] | None:
    """Return the numbers of components; None means that each of the given maps has its own."""
    if widths is None and n_components is None and maps is not None:
        return None
    chosen = [DEFAULT_WIDTH if n_components is None else n_components]
    if widths is not None:
        chosen = list(check_sequence("compare", "widths", widths, "numbers of components, such as (64, 128)"))
    if not chosen:
        msg = "compare: widths must contain at least one number of components, got none."
        raise ParameterError(msg)
    for width in chosen:
        check_parameter("compare", "n_components" if widths is None else "widths", width, Integer(1))
    return [int(width) for width in chosen]


def _candidates(
    kernel: Kernel, rows: _Rows, widths: list[int] | None, maps: Mapping[str, BaseMap] | None, seeds: list[Any]
) -> list[_Candidate]:
    """Return all maps with all numbers of components."""
    found = []
    if maps is not None:
        for name, given in maps.items():
            own = given.with_kernel(kernel)
            for width in [None] if widths is None else widths:
                one = own if width is None else own.with_kernel(kernel).set_params(n_components=width)
                draw = _drawer(one, kernel, rows, [None, *seeds[1:]])  # the first draw has the seed of the given map
                found.append(_Candidate(name, "mercer", one.width, draw))
        return found
    n_features = np.shape(rows.X[:1] if hasattr(rows.X, "shape") else rows.X[0])[-1]
    for width in widths or []:
        for kind in maps_for(kernel):
            feature_map = kind(kernel, n_components=width)
            found.append(_Candidate(kind.__name__, "mercer", width, _drawer(feature_map, kernel, rows, seeds)))
        for name, make in peers_for(kernel, n_features).items():
            found.append(_Candidate(name, "scikit-learn", width, _peer_drawer(make, kernel, width, rows, seeds)))
    return found


def _drawer(feature_map: BaseMap, kernel: Kernel, rows: _Rows, seeds: list[Any]) -> Callable[[int], _Draw]:
    """Return the function that fits and measures the draws of a map of mercer; None is the seed that the map has."""

    def draw(number: int) -> _Draw:
        fitted = feature_map.with_kernel(kernel)
        if seeds[number] is not None:
            # A map that wraps another map has the seed of that one.
            names = [name for name in fitted.get_params() if name.rpartition("__")[2] == "random_state"]
            fitted.set_params(**{min(names, key=len): seeds[number]})
        fit_seconds = _seconds(fitted.fit, rows.fitted)
        seconds = min(_seconds(fitted.transform, rows.X) for _ in range(rows.repeats))
        measured = audit(fitted, rows.others, n_rows=AUDITED_ROWS, random_state=rows.random_state)
        return _Draw(measured, fit_seconds, seconds, _bytes_of(fitted.features_))

    return draw


def _peer_drawer(
    make: Callable[[int, int], Any], kernel: Kernel, width: int, rows: _Rows, seeds: list[Any]
) -> Callable[[int], _Draw]:
    """Return the function that fits and measures the draws of a map of scikit-learn."""

    def draw(number: int) -> _Draw:
        transformer = make(width, seed_of(seeds[number], "compare") % 2**32)
        if isinstance(transformer, str):
            raise ParameterError(transformer)
        X, fitted_rows, others = (check_array(part, accept_sparse="csr", dtype=FLOATS) for part in rows[:3])
        fit_seconds = _seconds(transformer.fit, fitted_rows)
        seconds = min(_seconds(transformer.transform, X) for _ in range(rows.repeats))
        peer = Peer.of(transformer, kernel, others)
        name, seed = type(transformer).__name__, seed_of(rows.random_state, "audit")
        measured = measure(Subject(name, peer, others, None, AUDITED_ROWS, seed))
        return _Draw(measured, fit_seconds, seconds, _bytes_of(transformer))

    return draw


def _measured(candidate: _Candidate, n_draws: int, report: Report | None) -> Compared:
    """Return the measurements of all draws of a map."""
    draws = []
    for number in range(n_draws):
        report_step(report, number, n_draws, unit="draws")
        draws.append(candidate.draw(number))
    return Compared(
        name=candidate.name,
        library=candidate.library,
        audits=tuple(one.audit for one in draws),
        fit_times=tuple(one.fit_seconds for one in draws),
        transform_times=tuple(one.transform_seconds for one in draws),
        n_bytes=max(one.n_bytes for one in draws),
    )


def _seconds(call: Callable[[Any], Any], X: Any) -> float:
    """Return the duration of call(X) in seconds."""
    start = time.perf_counter()
    call(X)
    return time.perf_counter() - start


def _bytes_of(parameters: Any) -> int:
    """Return the size of an object with all that it refers to, as it would be pickled; arrays are not copied."""
    arrays: list[pickle.PickleBuffer] = []
    try:
        rest = pickle.dumps(parameters, protocol=5, buffer_callback=arrays.append)
    except (pickle.PicklingError, AttributeError, TypeError):  # such as a kernel that is a lambda
        return parameter_bytes(parameters)
    return len(rest) + sum(array.raw().nbytes for array in arrays)


def _root_mean_square(values: Sequence[float]) -> float:
    largest = max(values)
    return largest * float(np.sqrt(np.mean(np.square(np.array(values) / largest)))) if largest > 0 else 0.0


@contextmanager
def _each_warning_once() -> Iterator[None]:
    """Context manager that issues each different warning of its body once, at its end."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in {str(one.message): one for one in caught}.values():
        warnings.warn(str(warning.message), warning.category, stacklevel=5)
