"""Random Maclaurin features: products of random projections for the terms of a power series."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.kernels import Kernel
from mercer.kernels.power_series import SeriesPart
from mercer.kernels.spectral import width_of
from mercer.maps.base import DrawnMap
from mercer.maps.series.allocation import PLANS, draw_up, optimal_strata
from mercer.maps.series.anchored import WIDEST, AnchoredColumns, AnchoredTerms
from mercer.maps.series.columns import MaclaurinFeatures, PartColumns, draw_anchored, draw_part
from mercer.maps.series.inputs import Preparation, PreparedRows
from mercer.maps.series.plans import Plan
from mercer.maps.series.terms import MOST_DEGREES, SampledPart
from mercer.maps.series.variance import anchored_variance, stratum_variance
from mercer.parameters import Choice, Domain, Interval
from mercer.statistics.sample import as_generator
from mercer.theory.products import PROJECTIONS

__all__ = ["RandomMaclaurin"]

Array = np.ndarray
# Rows, all pairs of which tell how heavy the terms of the series are.
PLAN_ROWS = 200
# Degree up to which a series is expanded about a direction: the number of terms grows with its square.
ANCHORED_DEGREES = 24
# A relative error below which there is nothing to gain.
ROUNDING = 1e-14


class RandomMaclaurin(DrawnMap):
    r"""Random Maclaurin features for dot-product kernels, and for the Gaussian kernel.

    A kernel :math:`\sum_n a_n (x^\top y)^n` has features term by term: all monomials of a low degree, without any
    error, or products of n independent random projections, whose inner products have mean :math:`(x^\top y)^n` [1]_. A
    Gaussian kernel is such a series of the centered rows, times a factor for each row. On smooth kernels, whose series
    is short on the data, this takes many times fewer columns than random Fourier features for the same error.

    Parameters
    ----------
    kernel : Kernel, default=None
        Kernel to approximate; None means ``Gaussian(lengthscale="median")``.
    n_components : int, default=512
        Width of the output, from 1 up.
    plan : {"optimal", "truncated", "random", "h01", "geometric", "degrees"}, default="optimal"
        How columns are shared out over degrees; see Notes.
    projection : {"rademacher", "gaussian", "sphere", "complex", "srht"}, default="rademacher"
        Weights of the projections: random signs; normal; uniform on the sphere; from :math:`\{\pm 1, \pm i\}`, written
        as real and imaginary parts [2]_, with less variance at high degrees; rows of sign-Hadamard matrices, which take
        :math:`O(\log d)` operations each instead of d.
    anchor : {"auto", None}, default="auto"
        Whether the plan "optimal" may expand the series of an inner product about the main direction of the rows, which
        rows that are not centered share; see Notes. "auto" does so where it predicts the lower error.
    p : float, default=2.0
        Base of the law of degrees of the plans "geometric" and "h01"; above one.
    eps : float, default=1e-3
        What the plans "truncated" and, for infinite series, "degrees" may leave out, relative to the largest value of
        the kernel on the sample.
    random_state : int, Generator, RandomState or None, default=None
        Seed; an int makes repeated fits identical.
    n_jobs : int or None, default=None
        Threads of `transform`; None means all cores. The result does not depend on it.

    Attributes
    ----------
    plan_ : Plan
        The degrees, exact or sketched, their columns and the error predicted; ``print(feature_map.plan_)`` shows a
        table. `preview` gives it before anything is drawn.
    kernel_ : Kernel
        The kernel with every parameter a number.
    features_ : MaclaurinFeatures
        The drawn map: a pure function of rows.
    signs_ : None or ndarray of +-1
        A sign a column, if the kernel has negative coefficients.
    n_features_in_ : int
        Width of the rows seen in `fit`.

    Notes
    -----
    Plans:

    - "optimal": exact through the degree that pays, columns for further degrees in proportion to
      :math:`a_n \sqrt{V_n}`, with :math:`V_n` the variance of one column on pairs of sampled rows, and a few columns of
      random degree for the rest of the series. Unbiased.
    - "truncated": the same, but nothing above the degree k from which the terms add up to at most `eps`. Its bias is
      stated by `plan_`.
    - "random": a random degree for each column, with chances in proportion to :math:`a_n` and the root of the mean
      square of a column: the law of least variance. Unbiased.
    - "h01": constant and linear term exact, a random degree :math:`n \ge 2` with chance :math:`(p-1)/p^{n-1}` for each
      other column [1]_. Unbiased.
    - "geometric": a random degree with chance :math:`(p-1)/p^{n+1}` for each column [1]_; the printed chances add up to
      one only for p = 2. Unbiased.
    - "degrees": every column sums one product of each degree. Unbiased for polynomials.

    With an anchor c, rows are split along it and across it, and only powers of the inner products across it are left to
    chance; functions of the parts along it are exact. On counts, one-hot columns or columns scaled to [0, 1] the error
    falls by factors of 3 to 200. Still unbiased. For dense rows of up to 2048 columns.

    Time is O(n d D) for each degree, memory O(d D) for the draw, at most. The Gaussian kernel is expanded about the
    mean of the rows: rows some lengthscales away from it need many degrees, and Fourier features then do better.

    References
    ----------
    .. [1] Kar, Karnick (2012), Random Feature Maps for Dot Product Kernels, AISTATS.
    .. [2] Wacker, Kanagawa, Filippone (2022), Improved Random Features for Dot Product Kernels, arXiv:2201.08712.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, RandomMaclaurin
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> feature_map = RandomMaclaurin(Gaussian(3.0), n_components=128, random_state=0).fit(X)
    >>> bool(abs(feature_map.gram(X) - Gaussian(3.0)(X)).mean() < 0.001)
    True
    >>> [stratum.degrees[0] for stratum in feature_map.plan_.strata if stratum.kind == "exact"]
    [0, 1, 2, 3, 4]
    """

    needs: ClassVar[str] = "a power series of the inner product, or a Gaussian kernel, or sums and products of such"
    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "plan": Choice(*PLANS),
        "projection": Choice(*PROJECTIONS),
        "anchor": Choice("auto", None),
        "p": Interval(1, closed="neither"),
        "eps": Interval(0, closed="neither"),
    }
    features_: MaclaurinFeatures
    plan_: Plan

    def __init__(
        self,
        kernel: Kernel | None = None,
        n_components: int = 512,
        *,
        plan: Literal["optimal", "truncated", "random", "h01", "geometric", "degrees"] = "optimal",
        projection: Literal["rademacher", "gaussian", "sphere", "complex", "srht"] = "rademacher",
        anchor: Literal["auto"] | None = "auto",
        p: float = 2.0,
        eps: float = 1e-3,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.kernel = kernel
        self.n_components = n_components
        self.plan = plan
        self.projection = projection
        self.anchor = anchor
        self.p = p
        self.eps = eps
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel: Kernel) -> bool:
        return kernel.series_parts() is not None

    @property
    def unbiased(self) -> bool | str:
        if self.plan in ("optimal", "random", "h01", "geometric"):
            return True
        if hasattr(self, "plan_"):
            if self.plan_.truncation_bound == 0:
                return True
            return f"the series is truncated: what is left out is at most {self.plan_.truncation_bound:.3g}"
        return "the series may be truncated: what is left out is at most eps"

    def _independent(self, kernel: Kernel) -> dict[str, Any] | None:
        parts = kernel.series_parts()
        if parts is None or len(parts) > 1:
            return None
        projection = "rademacher" if self.projection in ("complex", "srht") else self.projection
        return {"plan": "random", "projection": projection}

    def _exact_at(self, kernel: Kernel, n_features: int) -> int | None:
        parts = kernel.series_parts()
        if parts is None or self.plan != "optimal" or any(part.series.degree is None for part in parts):
            return None
        widths = [width_of(part.inputs, n_features) for part in parts]
        degrees = [np.flatnonzero(part.series.coefficients((part.series.degree or 0) + 1)) for part in parts]
        return sum(math.comb(w + int(n) - 1, int(n)) for w, ns in zip(widths, degrees, strict=True) for n in ns)

    def _least_components(self, kernel: Kernel) -> int:
        return max(len(kernel.series_parts() or ()), 2 if self.projection == "complex" else 1)

    def _rows_to_draw(self) -> int:
        return PLAN_ROWS

    def preview(self, X: Any) -> Plan:
        """Return the plan that `fit` would draw for these rows, without drawing it.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        Plan
        """
        unfitted = self.with_kernel(self._kernel())
        rows, weight = unfitted._sample(unfitted._in_memory(X))
        kernel = unfitted._accepted(unfitted._kernel()).resolve(rows, weight)
        return unfitted._plan(kernel, rows, weight, as_generator(unfitted.random_state)).plan

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> MaclaurinFeatures:
        drawn_up = self._plan(kernel, X, weight, rng)
        self.plan_ = drawn_up.plan
        unused = self.n_components - self.plan_.columns_used
        if unused:
            msg = (
                f"RandomMaclaurin: {self.plan_.columns_used} columns make the map exact; the last {unused} of "
                f"n_components={self.n_components} are zero."
            )
            warnings.warn(msg, MercerWarning, stacklevel=5)
        columns: list[PartColumns | AnchoredColumns] = []
        signs = []
        for index, prepare in enumerate(drawn_up.preparations):
            strata = [s for s in self.plan_.strata if s.part == index]
            if index == 0 and drawn_up.anchored is not None:
                columns.append(draw_anchored(drawn_up.anchored, strata, self.projection, prepare, rng))
                signs.append(np.ones(columns[-1].n_components))
                continue
            # Beside an anchored series, the second stands for its terms beyond those.
            part = drawn_up.parts[0 if drawn_up.anchored is not None else index]
            drawn, sign = draw_part(part, strata, self.projection, prepare.width(X.shape[1]), rng)
            columns.append(PartColumns(part.series.radius, prepare, tuple(drawn)))
            signs.append(sign)
        all_signs = np.concatenate([*signs, np.ones(unused)])
        return MaclaurinFeatures(tuple(columns), self.n_components, all_signs if (all_signs < 0).any() else None)

    def _plan(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> _DrawnUp:
        """Draw up the plan, and prepare rows for each series of the kernel."""
        parts = kernel.series_parts()
        assert parts is not None
        if X.shape[0] > PLAN_ROWS:
            chosen = np.sort(rng.choice(X.shape[0], PLAN_ROWS, replace=False))
            X, weight = X[chosen], None if weight is None else weight[chosen]
        weight = np.ones(X.shape[0]) if weight is None else weight
        preparations = [Preparation.of(part, X, weight) for part in parts]
        sampled = [self._look_at(part, prepare, X, weight) for part, prepare in zip(parts, preparations, strict=True)]
        mean_square = sampled[0].mean(np.square(kernel(X.astype(np.float64))[np.triu_indices(X.shape[0])]))
        if len(sampled) == 1 and sampled[0].mean_square(list(range(len(sampled[0].second)))) < 0.25 * mean_square:
            msg = (
                f"RandomMaclaurin: the first {MOST_DEGREES} terms of the series hold less than half of the kernel on "
                "these rows, which lie too far from the origin, or from their mean, in units of its lengthscale. "
                "Scale the rows down, or use another map, such as RandomFourier for a Gaussian kernel."
            )
            raise DataError(msg)
        options = {"mean_square": mean_square, "p": float(self.p), "eps": float(self.eps)}
        plan = draw_up(self.plan, sampled, self.n_components, **options)
        plain = _DrawnUp(plan, parts, preparations)
        rows = preparations[0](X.astype(np.float64))
        if not self._may_anchor(parts, rows) or plan.predicted_rmse <= ROUNDING * plan.scale:
            return plain
        anchored = self._anchored(sampled[0], preparations[0], rows, weight, plan.scale)
        return plain if anchored is None or plan.predicted_rmse <= anchored.plan.predicted_rmse else anchored

    def _may_anchor(self, parts: tuple[SeriesPart, ...], rows: PreparedRows) -> bool:
        return (
            self.anchor == "auto"
            and self.plan == "optimal"
            and len(parts) == 1
            and parts[0].decay == 0
            and not sp.issparse(rows.rows)
            and 1 < rows.shape[1] <= WIDEST
        )

    def _anchored(
        self, sampled: SampledPart, prepare: Preparation, rows: PreparedRows, weight: Array, scale: float
    ) -> _DrawnUp | None:
        """Return the plan of the series expanded about the main direction of the rows."""
        if (sampled.coefficients < 0).any() or not rows.squared_norms.any():
            return None
        last = min(len(sampled.coefficients) - 1, ANCHORED_DEGREES)
        terms = AnchoredTerms.of(rows.dense, weight, sampled.part.series, last, self.projection)
        beyond = np.arange(len(sampled.coefficients)) > last
        tail = [replace(sampled, coefficients=np.where(beyond, sampled.coefficients, 0.0))]
        if not (sampled.endless or beyond.any()):
            tail = []
        if self.n_components <= len(tail):
            return None
        strata = [terms.by_degree(s) if s.part == 0 else s for s in optimal_strata([terms, *tail], self.n_components)]
        plan = Plan("optimal", tuple(strata), self.n_components, scale=scale)
        return _DrawnUp(plan, (sampled.part,), [prepare] * (1 + len(tail)), terms)

    def _check(self) -> None:
        if self.projection == "srht" and self.plan in ("random", "geometric", "h01"):
            msg = (
                f"RandomMaclaurin: projection='srht' needs columns of known degree, but plan={self.plan!r} draws the "
                "degree of each. Use plan='optimal', or projection='rademacher'."
            )
            raise ParameterError(msg)
        if self.projection == "complex" and self.n_components == 1:
            msg = "RandomMaclaurin: projection='complex' needs n_components >= 2, for real and imaginary parts, got 1."
            raise ParameterError(msg)

    def _look_at(self, part: SeriesPart, prepare: Preparation, X: Any, weight: Array) -> SampledPart:
        """Return what all pairs of sampled rows say about a series."""
        rows = prepare(X.astype(np.float64))
        upper = np.triu_indices(X.shape[0])
        pair_weights = (np.outer(weight, weight) * (2 - np.eye(len(weight))))[upper]
        with np.errstate(over="ignore", invalid="ignore"):
            pairs = rows.pairs(rows).at(*upper)
            prefactor = np.ones(X.shape[0]) if rows.prefactor is None else rows.prefactor
        return SampledPart.of(
            part,
            pairs,
            np.outer(prefactor, prefactor)[upper],
            pair_weights / pair_weights.sum(),
            self.projection,
        )

    def _variance(self, X: Any, Y: Any) -> Array:
        parts = self.kernel_.series_parts()
        assert parts is not None
        X, Y = X.astype(np.float64), None if Y is None else Y.astype(np.float64)
        total = np.zeros((X.shape[0], X.shape[0] if Y is None else Y.shape[0]))
        for index, columns in enumerate(self.features_.parts):
            strata = [s for s in self.plan_.strata if s.part == index and s.kind != "exact"]
            if isinstance(columns, AnchoredColumns):
                total += anchored_variance(columns, strata, self.projection, X, Y)
                continue
            part = parts[min(index, len(parts) - 1)]
            left = columns.prepare(X)
            right = left if Y is None else columns.prepare(Y)
            pairs = left.pairs(right)
            variance = sum((stratum_variance(part, s, self.projection, pairs) for s in strata), np.zeros(total.shape))
            if left.prefactor is not None and right.prefactor is not None:
                variance *= np.square(np.outer(left.prefactor, right.prefactor))
            total += variance
        return total


@dataclass(frozen=True)
class _DrawnUp:
    """A plan, and what it is made from."""

    plan: Plan
    parts: tuple[SeriesPart, ...]
    preparations: list[Preparation]
    anchored: AnchoredTerms | None = None
