"""Random Maclaurin features: the map `RandomMaclaurin`.

From a sample of the rows, the map chooses a degree plan, that is, the number and kind of components for each term of
the power series (modules `terms`, `anchored` and `allocation`). Then it samples the components (module `components`).
The module `variance` has the variance of the approximate kernel.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from mercer._docs import doc
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.kernels import Kernel
from mercer.kernels.power_series import SeriesPart
from mercer.kernels.spectral import width_of
from mercer.maps.base import DrawnMap
from mercer.maps.series.allocation import PLANS, make_plan, optimal_strata
from mercer.maps.series.anchored import MAX_WIDTH, AnchoredComponents, AnchoredTerms
from mercer.maps.series.components import MaclaurinFeatures, SeriesComponents, draw_anchored, draw_series
from mercer.maps.series.inputs import Preparation, PreparedRows
from mercer.maps.series.plans import Plan
from mercer.maps.series.terms import MAX_TERMS, SampledTerms, pair_weights
from mercer.maps.series.variance import anchored_variance, reach_of, stratum_variance
from mercer.parameters import Choice, Domain, Interval
from mercer.statistics.sample import as_generator
from mercer.theory.products import PROJECTIONS
from mercer.theory.variance import pair_term_variance

__all__ = ["RandomMaclaurin"]

Array = np.ndarray
# Number of rows in the sample. The moments of the terms of the series are means over all pairs of sampled rows.
PLAN_ROWS = 200
# Last degree of an anchored expansion (see `anchored`). The number of terms is proportional to its square.
ANCHORED_DEGREES = 24
# If the predicted error, relative to the kernel, is at most this, an anchored expansion is not tried.
ROUNDING = 1e-14


@doc
class RandomMaclaurin(DrawnMap):
    r"""Random Maclaurin features for dot-product kernels and for the Gaussian kernel.

    A dot-product kernel :math:`k(x, y) = \sum_n a_n (x^\top y)^n` is approximated term by term. A term of low degree
    can be represented without error by all monomials of this degree. Any other term is estimated by products
    :math:`z(x) = \prod_{j \le n} w_j^\top x` of n independent random projections, which satisfy
    :math:`\mathbb{E}[z(x) z(y)] = (x^\top y)^n` [1]_. The Gaussian kernel is a dot-product kernel of the centered rows,
    times a factor for each row. On smooth kernels, whose series converges fast on the data, this map needs many times
    fewer components than random Fourier features for the same error.

    Parameters
    ----------
    %(kernel)s
    %(n_components)s
    plan : {"optimal", "truncated", "random", "h01", "geometric", "degrees"}, default="optimal"
        How the components are allocated to the terms of the series; see Notes.
    projection : {"rademacher", "gaussian", "sphere", "complex", "srht"}, default="rademacher"
        Distribution of the weights of the projections. "rademacher": random signs. "gaussian": standard normal.
        "sphere": uniform on the sphere of radius :math:`\sqrt d`. "complex": uniform on :math:`\{\pm 1, \pm i\}`,
        written as real and imaginary parts, which has less variance at high degrees [2]_. "srht": rows of sign-Hadamard
        matrices, which take :math:`O(\log d)` instead of :math:`O(d)` operations each [3]_.
    anchor : {"auto", None}, default="auto"
        Whether the plan "optimal" may use an anchor, that is, components that are exact along the leading principal
        direction of the rows; see Notes. This helps if the rows are not centered. "auto" means that an anchor is used
        if the predicted error is lower with it. None means that no anchor is used.
    p : float, default=2.0
        Base of the geometric distribution of degrees in the plans "geometric" and "h01", greater than 1.
    eps : float, default=1e-3
        Upper bound for the sum of the omitted terms, relative to the largest value of the kernel on the sample. Only
        the plan "truncated" and, for infinite series, the plan "degrees" omit terms.
    %(random_state)s
    %(n_jobs)s

    Attributes
    ----------
    plan_ : Plan
        The terms with the kind and number of their components and the predicted error; ``print(feature_map.plan_)``
        shows a table. `preview` returns the plan without fitting the map.
    %(kernel_)s
    features_ : MaclaurinFeatures
        The sampled features: a pure function of rows.
    signs_ : None or ndarray of +-1
        Sign of each component if the kernel has negative coefficients, otherwise None.
    %(n_features_in_)s

    See Also
    --------
    PolynomialSketch : Approximates a polynomial kernel as one product instead of term by term.
    TensorSketch : Approximates polynomial kernels of wide sparse rows.
    RandomFourier : Approximates shift-invariant kernels.
    CompositionMap : Approximates power series of other kernels.

    Notes
    -----
    Plans:

    - "optimal": all terms up to some degree, which is chosen for the least predicted error, have exact components. The
      next terms have numbers of random components in proportion to :math:`a_n \sqrt{V_n}`, where :math:`V_n` is the
      variance of one component on pairs of sampled rows. All smaller terms share components of random degree. Unbiased.
    - "truncated": as "optimal", but terms above degree k are omitted instead of sharing components, where k is the
      least degree such that the omitted terms sum to at most `eps`. The bias is in `plan_`.
    - "random": all components have a random degree n, with probabilities in proportion to :math:`|a_n|` times the root
      mean square of a component of degree n, which minimizes the variance. Unbiased.
    - "h01": exact constant and linear terms, and components of random degree :math:`n \ge 2` with probability
      :math:`(p-1)/p^{n-1}`, the H0/1 heuristic of [1]_. Unbiased.
    - "geometric": components of random degree n with probability :math:`(p-1)/p^{n+1}`, Algorithm 1 of [1]_. (The
      probabilities :math:`1/p^{n+1}` printed there sum to one only for p = 2.) Unbiased.
    - "degrees": every component is a sum of one product of random projections for each degree. Unbiased for
      polynomials.

    An anchor is a unit vector c, the leading principal direction of the rows. With an anchor, rows are split into their
    parts along c and orthogonal to c. Functions of the parts along c are exact, and only powers of the inner products
    of the orthogonal parts are estimated at random. On counts, one-hot encodings or features scaled to [0, 1] this
    reduces the error by factors of 3 to 200. The map stays unbiased. Anchors are used for rows with up to 2048 features
    only.

    For n rows with d features and D components, `transform` takes O(n d D) operations for each degree, and the map
    stores O(d D) numbers for each degree. The series of the Gaussian kernel is centered at the mean of the rows. Rows
    several lengthscales away from the mean need many degrees; `RandomFourier` is more accurate then.

    References
    ----------
    .. [1] Kar, Karnick (2012), Random Feature Maps for Dot Product Kernels, AISTATS.
    .. [2] Wacker, Kanagawa, Filippone (2022), Improved Random Features for Dot Product Kernels, arXiv:2201.08712.
    .. [3] Hamid, Xiao, Gittens, DeCoste (2014), Compact Random Feature Maps, ICML.

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
            return f"the series is truncated: the omitted terms sum to at most {self.plan_.truncation_bound:.3g}"
        return "the series may be truncated: the omitted terms sum to at most eps"

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

    @doc
    def preview(self, X: Any) -> Plan:
        """Return the plan that `fit` would choose for these rows, without fitting the map.

        Parameters
        ----------
        %(X)s

        Returns
        -------
        plan : Plan
            The terms with the kind and number of their components and the predicted error.
        """
        unfitted = self.with_kernel(self._kernel())
        rows, weight = unfitted._sample(unfitted._in_memory(X))
        kernel = unfitted._accepted(unfitted._kernel()).resolve(rows, weight)
        return unfitted._plan(kernel, rows, weight, as_generator(unfitted.random_state)).plan

    def _draw(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> MaclaurinFeatures:
        planned = self._plan(kernel, X, weight, rng)
        self.plan_ = planned.plan
        unused = self.n_components - self.plan_.n_components_used
        if unused:
            msg = (
                f"RandomMaclaurin: {self.plan_.n_components_used} components make the map exact; the last {unused} of "
                f"n_components={self.n_components} are zero."
            )
            warnings.warn(msg, MercerWarning, stacklevel=5)
        components: list[SeriesComponents | AnchoredComponents] = []
        signs = []
        for index, prepare in enumerate(planned.preparations):
            strata = [s for s in self.plan_.strata if s.part == index]
            if index == 0 and planned.anchored is not None:
                components.append(draw_anchored(planned.anchored, strata, self.projection, prepare, rng))
                signs.append(np.ones(components[-1].n_components))
                continue
            # Part 0 of an anchored plan is the expansion up to some degree; part 1 has the terms of higher degree.
            part = planned.parts[0 if planned.anchored is not None else index]
            drawn, sign = draw_series(part, strata, self.projection, prepare.width(X.shape[1]), rng)
            random = [s for s in strata if s.kind != "exact"]
            closed = self.projection != "srht" or all(s.kind != "summed" for s in random)
            reach = reach_of(part, random, self.projection, prepare(some_rows(X))) if closed else np.inf
            components.append(SeriesComponents(part.series.radius, prepare, tuple(drawn), reach))
            signs.append(sign)
        all_signs = np.concatenate([*signs, np.ones(unused)])
        return MaclaurinFeatures(tuple(components), self.n_components, all_signs if (all_signs < 0).any() else None)

    def _predicted_error(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> float:
        return self._plan(kernel, X, weight, rng).plan.predicted_rmse

    def _doubts(self, X: Any) -> str | None:
        """Compare the predicted error with that of `RandomFourier`, and with the size of the kernel."""
        error, kernel = self.plan_.predicted_rmse, self.kernel_
        fourier = fourier_error(kernel, X, self.n_components)
        parts = kernel.series_parts() or ()
        # A Gaussian factor makes values of the kernel small where its power series has large terms. Without one, only
        # few components can have such an error.
        decays = len(parts) == 1 and parts[0].decay > 0
        size = self.plan_.scale if decays else float(np.abs(kernel(some_rows(X))).max())
        # The other plans are known to have more error. They are chosen to compare them, or for their degrees.
        worse = fourier is not None and error > fourier and self.plan in ("optimal", "truncated")
        if not worse and error <= size:
            return None
        text = f"the predicted error (root mean square over pairs of sampled rows) is {error:.3g}"
        if fourier is not None:
            return (
                f"{text}, and that of RandomFourier with the same {self.n_components} components is {fourier:.3g}. A "
                "power series needs rows that are close to their mean in units of the lengthscale. Use "
                f"RandomFourier({kernel!r}, {self.n_components}), or a larger lengthscale."
            )
        from mercer.maps.registry import maps_for  # imported here, since `registry` imports this module

        others = ", ".join(m.__name__ for m in maps_for(kernel) if m is not type(self))
        return (
            f"{text}, more than the {'root mean square' if decays else 'largest value'} of the kernel on these rows, "
            f"{size:.3g}. Use more components than {self.n_components}, rows of smaller norm, or another map: {others}."
        )

    def _plan(self, kernel: Kernel, X: Any, weight: Array | None, rng: np.random.Generator) -> _PlannedKernel:
        """Choose the plan for a kernel on at most `PLAN_ROWS` of the rows `X`.

        If the anchored expansion is allowed and has a lower predicted error than the plain power series, the plan is
        for the anchored expansion. Otherwise it is for the plain power series.
        """
        parts = kernel.series_parts()
        assert parts is not None
        if X.shape[0] > PLAN_ROWS:
            chosen = np.sort(rng.choice(X.shape[0], PLAN_ROWS, replace=False))
            X, weight = X[chosen], None if weight is None else weight[chosen]
        weight = np.ones(X.shape[0]) if weight is None else weight
        preparations = [Preparation.of(part, X, weight) for part in parts]
        sampled = [
            self._sample_terms(part, prepare, X, weight) for part, prepare in zip(parts, preparations, strict=True)
        ]
        mean_square = sampled[0].mean(np.square(kernel(X.astype(np.float64))[np.triu_indices(X.shape[0])]))
        every_term = list(range(len(sampled[0].coefficients)))
        if len(sampled) == 1 and sampled[0].mean_square(every_term) < 0.25 * mean_square:
            msg = (
                f"RandomMaclaurin: the first {MAX_TERMS} terms of the series are less than half of the kernel on these "
                "rows, which are too far from the origin, or from their mean, in units of the lengthscale. Scale the "
                "rows down, or use another map, such as RandomFourier for a Gaussian kernel."
            )
            raise DataError(msg)
        options = {"mean_square": mean_square, "p": float(self.p), "eps": float(self.eps)}
        plan = make_plan(self.plan, sampled, self.n_components, **options)
        plain = _PlannedKernel(plan, parts, preparations)
        rows = preparations[0](X.astype(np.float64))
        if not self._can_anchor(parts, rows) or plan.predicted_rmse <= ROUNDING * plan.scale:
            return plain
        anchored = self._plan_anchored(sampled[0], preparations[0], rows, weight, plan.scale)
        return plain if anchored is None or plan.predicted_rmse <= anchored.plan.predicted_rmse else anchored

    def _can_anchor(self, parts: tuple[SeriesPart, ...], rows: PreparedRows) -> bool:
        """Return whether an anchored expansion is allowed and implemented for this kernel and these rows."""
        return (
            self.anchor == "auto"
            and self.plan == "optimal"
            and len(parts) == 1
            and parts[0].decay == 0
            and 1 < rows.shape[1] <= MAX_WIDTH
        )

    def _plan_anchored(
        self, sampled: SampledTerms, prepare: Preparation, rows: PreparedRows, weight: Array, scale: float
    ) -> _PlannedKernel | None:
        """Return the plan for the anchored expansion along the leading principal direction of the rows.

        None is returned if a coefficient of the series is negative, all rows are zero, or n_components is too small.
        """
        if (sampled.coefficients < 0).any() or not rows.squared_norms.any():
            return None
        last = min(len(sampled.coefficients) - 1, ANCHORED_DEGREES)
        terms = AnchoredTerms.of(rows.dense, weight, sampled.part.series, last, self.projection)
        beyond = np.arange(len(sampled.coefficients)) > last
        tail = [replace(sampled, coefficients=np.where(beyond, sampled.coefficients, 0.0))]
        if not (sampled.infinite or beyond.any()):
            tail = []
        if self.n_components <= len(tail):
            return None
        strata = [terms.by_degree(s) if s.part == 0 else s for s in optimal_strata([terms, *tail], self.n_components)]
        plan = Plan("optimal", tuple(strata), self.n_components, scale=scale)
        return _PlannedKernel(plan, (sampled.part,), [prepare] * (1 + len(tail)), terms)

    def _check(self) -> None:
        if self.projection == "srht" and self.plan in ("random", "geometric", "h01"):
            msg = (
                f"RandomMaclaurin: projection='srht' needs components of fixed degree, but plan={self.plan!r} draws a "
                "random degree for each. Use plan='optimal' or projection='rademacher'."
            )
            raise ParameterError(msg)
        if self.projection == "complex" and self.n_components == 1:
            msg = "RandomMaclaurin: projection='complex' needs n_components >= 2, for real and imaginary parts, got 1."
            raise ParameterError(msg)

    def _sample_terms(self, part: SeriesPart, prepare: Preparation, X: Any, weight: Array) -> SampledTerms:
        """Return the terms of one power series of the kernel, with their moments over all pairs of the rows of `X`."""
        rows = prepare(X.astype(np.float64))
        upper, weights = pair_weights(weight)
        return SampledTerms.of(part, rows.pairs(rows).at(*upper), weights, self.projection)

    def _variance(self, X: Any, Y: Any) -> Array:
        parts = self.kernel_.series_parts()
        assert parts is not None
        X, Y = X.astype(np.float64), None if Y is None else Y.astype(np.float64)
        total = np.zeros((X.shape[0], X.shape[0] if Y is None else Y.shape[0]))
        for index, components in enumerate(self.features_.parts):
            strata = [s for s in self.plan_.strata if s.part == index and s.kind != "exact"]
            if isinstance(components, AnchoredComponents):
                total += anchored_variance(components, strata, self.projection, X, Y)
                continue
            part = parts[min(index, len(parts) - 1)]
            left = components.prepare(X)
            right = left if Y is None else components.prepare(Y)
            pairs = left.pairs(right)
            for stratum in strata:
                total += stratum_variance(part, stratum, self.projection, pairs)
        return total


def fourier_error(kernel: Kernel, X: Any, n_components: int) -> float | None:
    """Return the root mean square error of random Fourier features with independent frequencies on pairs of rows.

    The mean is over all pairs of at most `PLAN_ROWS` rows. None is returned if the kernel is not shift-invariant.
    """
    parts = kernel.spectral_parts()
    if parts is None:
        return None
    X = some_rows(X)
    constant = sum(part.mass for part in parts if not part.factors)
    mass = sum(part.mass for part in parts if part.factors)
    variance = pair_term_variance(kernel(X) - constant, kernel(2 * X) - constant, mass)
    # A pair of components is the cosine and the sine of one frequency.
    return math.sqrt(max(float(variance.mean()), 0.0) * 2 / n_components)


def some_rows(X: Any) -> Any:
    """Return at most `PLAN_ROWS` of the rows, in float64."""
    return X[np.unique(np.linspace(0, X.shape[0] - 1, PLAN_ROWS).astype(int))].astype(np.float64)


@dataclass(frozen=True)
class _PlannedKernel:
    """A plan for a kernel, together with the power series whose sum is the kernel, and the input map of each series."""

    plan: Plan
    parts: tuple[SeriesPart, ...]
    preparations: list[Preparation]  # one for each value of `Stratum.part`
    # The terms of the anchored expansion, which is part 0 of the plan; None for a plain power series.
    anchored: AnchoredTerms | None = None
