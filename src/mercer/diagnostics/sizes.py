"""Table of the numbers of components that a kernel error takes: by every bound, and by every map on given rows."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.special import ndtr
from sklearn.utils import check_array

from mercer.errors import DataError, MercerError, MercerWarning, NoClosedFormError, ParameterError
from mercer.kernels import DotProductKernel, IsotropicKernel, Kernel
from mercer.maps import DrawnMap, maps_for
from mercer.maps.base import fresh_copy
from mercer.maps.fourier.random_fourier import is_gaussian
from mercer.maps.fourier.spherical_radial import ambient_of, isotropic_part
from mercer.parameters import Instance, Integer, Interval, check_parameter, known_names
from mercer.statistics.sample import seed_of
from mercer.theory import (
    fourier_uniform_failure,
    maclaurin_components,
    quadrature_rules,
    quadrature_uniform_failure,
    required_components,
)
from mercer.theory.variance import pair_term_variance

__all__ = ["ComponentTable", "Requirement", "component_table"]

Array = np.ndarray
Kind = Literal["guarantee", "estimate"]
Score = Literal["rmse", "quantile"]

# Largest number of rows on whose pairs errors are computed. They are held out from the fits of the maps.
PAIR_ROWS = 400
LEAST_ROWS = 8
# Number of draws over which a measured squared error is averaged.
DRAWS = 2
# Number of components of the narrowest map whose error is computed. Widths are doubled from there.
FIRST_WIDTH = 16
# Widths between a map that suffices and one that does not are tried until their ratio is at most this.
RATIO = 1.1
# Errors that fall more slowly than this power of the number of components are not extrapolated.
LEAST_POWER = 0.1
# Larger numbers of components are reported as unknown.
MOST_COMPONENTS = 2**53
RMSE = "root mean square over rows like these"
RANDOM_PAIR = "a random pair of rows like these"
IID = "RandomFourier(directions='iid')"


@dataclass(frozen=True)
class Requirement:
    """Number of components of one map by one bound.

    Attributes
    ----------
    map : str
        The map, with the parameters for which the number holds.
    bound : str
        How the number is computed.
    holds_for : str
        The pairs of rows whose error is at most eps. For a root mean square the number is that of an expectation over
        draws. For all others, the error is at most eps with probability 1 - delta.
    n_components : int or None
        Number of components. None if no number is known; then `note` gives the reason.
    kind : {"guarantee", "estimate"}
        "guarantee" if a theorem proves the number, "estimate" if it relies on an approximation, or on rows that
        represent others.
    note : str
        Restrictions, and what the number was computed from. May be empty.
    """

    map: str
    bound: str
    holds_for: str
    n_components: int | None
    kind: Kind
    note: str = ""


@dataclass(frozen=True)
class ComponentTable:
    """Numbers of components for one kernel and one error, in increasing order.

    Attributes
    ----------
    kernel : str
        The kernel.
    eps, delta : float
        Largest error, and the probability of a larger one.
    n_rows, n_features : int or None
        Shape of the rows; None if no rows were given.
    rows : tuple of Requirement
        The numbers, the smallest first. Those that are not known are last.
    """

    kernel: str
    eps: float
    delta: float
    n_rows: int | None
    n_features: int | None
    rows: tuple[Requirement, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as a dictionary of built-in types; its entry "rows" is a list of dictionaries."""
        return asdict(self) | {"rows": [asdict(row) for row in self.rows]}

    def __str__(self) -> str:
        given = "" if self.n_rows is None else f", {self.n_rows} rows of {self.n_features} features"
        lines = [f"{self.kernel}, error {self.eps:g}, probability {1 - self.delta:g}{given}"]
        if not self.rows:
            hint = "No bound for any rows is known for this kernel. Pass rows like those of the application: X=..."
            return f"{lines[0]}\n{hint}"
        names = ("components", "kind", "map", "bound", "holds for", "note")
        table = [
            (f"{row.n_components or 'unknown'}", row.kind, row.map, row.bound, row.holds_for, row.note)
            for row in self.rows
        ]
        widths = [max(map(len, column)) for column in zip(names, *table, strict=True)]
        for entries in (names, *table):
            first = entries[0].rjust(widths[0])
            others = [entry.ljust(width) for entry, width in zip(entries[1:], widths[1:], strict=True)]
            lines.append("  ".join([first, *others]).rstrip())
        return "\n".join(lines)


@known_names
def component_table(
    kernel: Kernel,
    eps: float,
    delta: float = 0.05,
    X: Any = None,
    *,
    max_components: int = 1024,
    random_state: Any = 0,
) -> ComponentTable:
    """Return how many components a kernel error of `eps` takes, for every map of the kernel and by every bound.

    Guarantees for any rows are far larger than what rows of an application need: they hold for the worst pair of rows,
    and for independent components. Pass rows to see both.

    Parameters
    ----------
    kernel : Kernel
        The kernel. Parameters that depend on the data, such as a median lengthscale, need `X`.
    eps : float
        Largest error, in the units of the kernel.
    delta : float, default=0.05
        Probability of a larger error, in (0, 1). It does not matter for root mean square errors.
    X : array-like or CSR of shape (n, d), default=None
        Rows like those that the map will be used for; at least 8. Half of them, but at most 400, are held out from the
        fits of the maps, and errors are computed for their pairs. None means bounds for any rows only.
    max_components : int, default=1024
        Largest number of components of a map that is fitted. Larger numbers are extrapolated.
    random_state : int, default=0
        Seed of the rows that are held out, and of the maps.

    Returns
    -------
    ComponentTable
        The numbers, the smallest first.

    See Also
    --------
    required_components : The guarantee for independent Fourier features and any rows, as a single number.
    compare : Errors and times of all maps at one number of components.
    audit : Measures the error of a fitted map.

    Notes
    -----
    An error is computed from the variance of a map where it has a closed form and the map is unbiased, and measured
    otherwise, over two draws. Every map is fitted with 16, 32, 64, ... components until its error is at most `eps`, and
    then with numbers in between. Numbers above `max_components` are extrapolated, with the power of the number by which
    the error decreased last.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian
    >>> from mercer.diagnostics import component_table
    >>> X = np.random.default_rng(0).normal(size=(300, 4))
    >>> table = component_table(Gaussian(4.0), 0.01, X=X, max_components=256)
    >>> numbers = {(row.map, row.bound): row.n_components for row in table.rows}
    >>> numbers["RandomFourier(directions='iid')", "Hoeffding"]
    147556
    >>> numbers["RandomMaclaurin", "variance"] < 100
    True
    """
    check_parameter("component_table", "kernel", kernel, Instance(Kernel, "a mercer kernel such as Gaussian()"))
    check_parameter("component_table", "eps", eps, Interval(0, closed="neither"))
    check_parameter("component_table", "delta", delta, Interval(0, 1, closed="neither"))
    check_parameter("component_table", "max_components", max_components, Integer(1))
    if X is None:
        rows = list(_for_any_rows(kernel, eps, delta))
        return ComponentTable(repr(kernel), eps, delta, None, None, _sorted(rows))
    X, held_out, fitted = _split(X, random_state)
    kernel = kernel.resolve(X)
    rows = [
        *_for_any_rows(kernel, eps, delta),
        *_for_far_rows(kernel, eps, delta, X),
        *_for_these_pairs(kernel, eps, delta, held_out),
        *_for_maps(kernel, eps, delta, fitted, held_out, max_components, random_state),
    ]
    return ComponentTable(repr(kernel), eps, delta, X.shape[0], X.shape[1], _sorted(rows))


def _sorted(rows: list[Requirement]) -> tuple[Requirement, ...]:
    return tuple(sorted(rows, key=lambda row: (row.n_components is None, row.n_components)))


def _split(X: Any, random_state: Any) -> tuple[Any, Any, Any]:
    """Return validated rows, those that are held out from the fits, and the others."""
    X = check_array(X, accept_sparse="csr", dtype=[np.float64, np.float32], estimator="component_table")
    n = X.shape[0]
    if n < LEAST_ROWS:
        msg = f"component_table: X must have at least {LEAST_ROWS} rows, half of which are held out, got {n}."
        raise DataError(msg)
    order = np.random.default_rng(seed_of(random_state, "component_table")).permutation(n)
    size = min(PAIR_ROWS, n // 2)
    return X, X[np.sort(order[:size])], X[np.sort(order[size:])]


# ---- bounds ---------------------------------------------------------------------------------------


def _for_any_rows(kernel: Kernel, eps: float, delta: float) -> Iterator[Requirement]:
    """Yield the numbers that hold for any rows."""
    if kernel.spectral_parts() is not None:
        n = required_components(kernel, eps, delta)
        yield Requirement(IID, "Hoeffding", "each pair of any rows", n, "guarantee")


def _for_far_rows(kernel: Kernel, eps: float, delta: float, X: Any) -> Iterator[Requirement]:
    """Yield the numbers that hold for any rows which are not farther apart, or not longer, than the rows of `X`."""
    d = X.shape[1]
    far = "any rows as far apart as these"
    spread = _spread(kernel, d)
    parts = kernel.spectral_parts()
    mass = sum(part.mass for part in parts or () if part.factors)
    if spread is not None and mass > 0:
        n, note = None, "frequencies have no finite mean square"
        if spread < math.inf:
            variance = 0.5 if _one_gaussian(kernel) else None
            bounds = {"dimension": d, "diameter": _diameter(X), "spread": spread, "variance": variance}
            n, note = _least(lambda n: fourier_uniform_failure(eps / mass, n, **bounds), delta), ""
        yield Requirement(IID, "Bernstein on a net", f"all pairs of {far}", n, "guarantee", note)
    gaussian = _one_gaussian(kernel)
    if gaussian is not None:
        scale, factor, constant = gaussian
        for affine in factor.inputs:
            X = affine(X)
        diameter = _diameter(X) / factor.kernel.lengthscale
        # A rule has one point more than the dimension of the simplex, and each point has two components.
        width = 2 * (ambient_of(factor.width(d)) + 1)
        name = "SphericalRadial(directions='simplex', radii='plain', constant='signed')"
        rules = {
            ("Hoeffding", f"each pair of {far}"): _known(
                lambda: quadrature_rules(eps / scale, delta, diameter=diameter)
            ),
            ("Hoeffding on a net", f"all pairs of {far}"): _least(
                lambda n: quadrature_uniform_failure(eps / scale, n, dimension=factor.width(d), diameter=diameter),
                delta,
            ),
        }
        for (bound, scope), count in rules.items():
            n = None if count is None else width * count + 1 + (constant > 0)
            yield Requirement(name, bound, scope, n, "guarantee")
    if isinstance(kernel, DotProductKernel):
        radius = float(abs(X).sum(axis=1).max())
        name, norms = "RandomMaclaurin(plan='geometric')", "any rows of norms like these"
        sizes = partial(maclaurin_components, kernel, eps, delta, radius=radius)
        yield Requirement(name, "Hoeffding", f"each pair of {norms}", _known(sizes), "guarantee")
        n = _known(partial(sizes, dimension=d))
        yield Requirement(name, "Hoeffding on a net", f"all pairs of {norms}", n, "guarantee")


def _for_these_pairs(kernel: Kernel, eps: float, delta: float, X: Any) -> Iterator[Requirement]:
    """Yield the numbers for the pairs of the rows of `X`, from the variance of independent frequencies."""
    parts = kernel.spectral_parts()
    if parts is None:
        return
    n = X.shape[0]
    constant = sum(part.mass for part in parts if not part.factors)
    mass = sum(part.mass for part in parts if part.factors)
    upper = np.triu_indices(n, 1)
    X = X.astype(np.float64)
    k, doubled = kernel(X)[upper] - constant, kernel(2 * X)[upper] - constant
    variance = np.maximum(pair_term_variance(k, doubled, mass), 0.0)
    largest = mass + np.abs(k)  # of the deviation of one cosine from its mean

    def bernstein(delta: float) -> int | None:
        needed = (2 * variance + 2 / 3 * eps * largest) / eps**2 * math.log(2 / delta)
        return _even(float(needed.max()), constant)

    yield Requirement(IID, "Bernstein", f"each pair of {n} of these rows", bernstein(delta), "guarantee")
    union = bernstein(delta / len(k))
    yield Requirement(IID, "Bernstein, union", f"all pairs of {n} of these rows", union, "guarantee")
    chebyshev = _even(float(variance.mean()) / eps**2 / delta, constant)
    yield Requirement(IID, "Chebyshev", f"a random pair of {n} of these rows", chebyshev, "guarantee")
    normal = _even((normal_quantile(variance, delta) / eps) ** 2, constant)
    yield Requirement(IID, "variance, normal errors", RANDOM_PAIR, normal, "estimate")
    mean = _even(float(variance.mean()) / eps**2, constant)
    yield Requirement(IID, "variance", RMSE, mean, "estimate")


def _even(frequencies: float, constant: float) -> int | None:
    """Return the number of components for a number of frequencies, each with a sine and a cosine."""
    if not frequencies < MOST_COMPONENTS:
        return None
    return 2 * max(1, math.ceil(frequencies)) + (constant > 0)


def normal_quantile(variance: Array, delta: float) -> float:
    """Return the number that |z| exceeds with probability `delta`, where z is normal with one of the variances.

    Each of the variances is equally probable.
    """
    deviations = np.sqrt(variance[variance > 0])
    if not np.isfinite(deviations).all():
        return math.inf
    low, high = 0.0, 40.0 * float(deviations.max(initial=0.0))
    for _ in range(60):
        middle = 0.5 * (low + high)
        exceeds = 2 * float(ndtr(-middle / deviations).sum()) > delta * variance.size
        low, high = (middle, high) if exceeds else (low, middle)
    return high


def _one_gaussian(kernel: Kernel) -> tuple[float, Any, float] | None:
    """Return (mass, factor, constant) if the kernel is mass * Gaussian + constant, else None."""
    found = isotropic_part(kernel)
    return found if found is not None and is_gaussian(found[1].kernel) else None


def _spread(kernel: Kernel, d: int) -> float | None:
    """Return the root mean square norm of a random frequency; None if it is not known in closed form."""
    total, mass = 0.0, 0.0
    for part in kernel.spectral_parts() or ():
        mass += part.mass if part.factors else 0.0
        for factor in part.factors:
            if not isinstance(factor.kernel, IsotropicKernel):
                return None
            scales = factor.pull_back(np.ones((1, factor.width(d))), d)
            total += part.mass * factor.kernel.mean_mixing * float(np.square(scales / factor.kernel.lengthscale).sum())
    return math.sqrt(total / mass) if mass > 0 else None


def _diameter(X: Any) -> float:
    """Return an upper bound of the largest distance of two rows: twice the largest distance to the mean."""
    X = X.astype(np.float64)
    center = np.asarray(X.mean(axis=0)).ravel()
    if sp.issparse(X):  # without a dense copy of the rows
        squares = np.asarray(X.multiply(X).sum(axis=1)).ravel() - 2 * (X @ center) + center @ center
        return 2 * math.sqrt(max(float(squares.max()), 0.0)) or 1.0
    return 2 * float(np.linalg.norm(X - center, axis=1).max()) or 1.0


def _known(number: Callable[[], int]) -> int | None:
    """Return a number of components; None if it exceeds the range of integers."""
    try:
        return number()
    except ParameterError:
        return None


def _least(failure: Callable[[int], float], delta: float) -> int | None:
    """Return the least number for which a decreasing bound of a probability is at most `delta`; None if it is huge."""
    high = 1
    while failure(high) > delta:
        high *= 2
        if high > MOST_COMPONENTS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if failure(middle) <= delta else (middle, high)
    return high


# ---- maps -----------------------------------------------------------------------------------------


def _for_maps(
    kernel: Kernel, eps: float, delta: float, fitted: Any, held_out: Any, max_components: int, random_state: Any
) -> Iterator[Requirement]:
    """Yield the numbers for every map of a kernel, from its errors on pairs of rows that it is not fitted to."""
    d = held_out.shape[1]
    for kind in maps_for(kernel):
        name = kind.__name__
        exact = kind(kernel).exact_components(kernel, d)
        if exact is not None:
            yield Requirement(name, "exact features", "any rows", exact, "guarantee")
        errors = MapErrors(kind(kernel, random_state=random_state), fitted, held_out, delta)
        most = min(max_components, fitted.shape[0]) if errors.map.built_from_rows else max_components
        scores: tuple[tuple[Score, str, str], ...] = (
            ("rmse", "variance", RMSE),
            ("quantile", "variance, normal errors", RANDOM_PAIR),
        )
        for score, bound, scope in scores:
            try:
                n, note = errors.width(score, eps, most)
            except MercerError as error:
                n, note = None, str(error).splitlines()[0]
            if exact is not None and (n is None or n > exact):
                n, note = exact, "exact features"
            yield Requirement(name, bound if errors.closed else "measured", scope, n, "estimate", note)


class MapErrors:
    """Errors of a map on pairs of rows that it is not fitted to, by the number of components.

    They follow from the variance if it has a closed form and the map is unbiased, and are measured otherwise.
    """

    def __init__(self, feature_map: DrawnMap, fitted: Any, held_out: Any, delta: float) -> None:
        self.map = feature_map
        self.fitted = fitted
        self.held_out = held_out
        self.delta = delta
        self.closed = self.unbiased = False
        self.upper = np.triu_indices(held_out.shape[0], 1)
        self.exact = feature_map._kernel()(held_out)[self.upper]
        self.known: dict[int, dict[Score, float]] = {}

    def __call__(self, n_components: int) -> dict[Score, float]:
        """Return the root mean square error ("rmse"), and the error that a pair exceeds with probability delta."""
        if n_components not in self.known:
            self.known[n_components] = self._errors(n_components)
        return self.known[n_components]

    def width(self, score: Score, eps: float, most: int) -> tuple[int | None, str]:
        """Return a number of components for which an error is at most `eps`, and a note on how it was found.

        Maps of at most `most` components are fitted.
        """
        least = self.map.least_components(self.map._kernel())
        high = min(max(FIRST_WIDTH, least), most)
        if self(high)[score] <= eps:
            return high, "or fewer"
        widths = [high]
        while high < most:
            low, high = high, min(2 * high, most)
            if self(high)[score] <= eps:
                return self._between(score, eps, low, high), ""
            widths.append(high)
        # Errors that are measured are noisy: more of them are needed for a power law.
        return self._extrapolated(score, eps, widths[-2:] if self.closed else widths[-4:])

    def _between(self, score: Score, eps: float, low: int, high: int) -> int:
        """Return a number of components that suffices, given a number `low` that does not and `high` that does."""
        while high > RATIO * low + 1:
            middle = round(math.sqrt(low * high))
            low, high = (low, middle) if self(middle)[score] <= eps else (middle, high)
        return high

    def _extrapolated(self, score: Score, eps: float, widths: list[int]) -> tuple[int | None, str]:
        """Return the number of components that follows from a power law, fitted to the errors at some widths."""
        last = widths[-1]
        logs = np.log([self(width)[score] for width in widths])
        if not np.isfinite(logs).all():
            return None, f"more than {last}: the variance exceeds the range of float64"
        power = -float(np.polyfit(np.log(widths), logs, 1)[0]) if len(widths) > 1 else 0.0
        if self.unbiased:
            power = max(power, 0.5)  # the variance of a mean of D components is of order 1 / D, or less
        if power < LEAST_POWER:
            return None, f"more than {last}: the error decreases too slowly to extrapolate"
        needed = math.log(last) + (logs[-1] - math.log(eps)) / power
        if needed > math.log(MOST_COMPONENTS):
            return None, f"more than {MOST_COMPONENTS:.0e}"
        return math.ceil(math.exp(needed)), f"extrapolated from {last}"

    def _errors(self, n_components: int) -> dict[Score, float]:
        fitted = self._fit(n_components, 0)
        self.unbiased = fitted.unbiased is True
        if self.unbiased:
            try:
                variance = fitted.known_variance(self.held_out)[self.upper]
            except NoClosedFormError:
                pass
            else:
                self.closed = True
                return {"rmse": math.sqrt(variance.mean()), "quantile": normal_quantile(variance, self.delta)}
        draws = [fitted, *(self._fit(n_components, draw) for draw in range(1, DRAWS))]
        errors = np.abs([draw.gram(self.held_out)[self.upper] - self.exact for draw in draws])
        rmse = math.sqrt(float(np.square(errors.astype(np.float64)).mean()))
        return {"rmse": rmse, "quantile": float(np.quantile(errors, 1 - self.delta))}

    def _fit(self, n_components: int, draw: int) -> DrawnMap:
        seed = seed_of(self.map.random_state, f"component_table {draw}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MercerWarning)  # of maps that are poor for these rows: the table shows it
            return fresh_copy(self.map, n_components=n_components, random_state=seed).fit(self.fitted)
