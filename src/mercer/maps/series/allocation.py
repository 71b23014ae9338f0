r"""Choice of a degree plan: the number of components for each term of a power series.

If term n is estimated by :math:`m_n` independent components, each of variance :math:`a_n^2 V_n`, the sum of
:math:`a_n^2 V_n / m_n` subject to :math:`\sum_n m_n = D` is minimal for :math:`m_n \propto |a_n| \sqrt{V_n}`. This is
Neyman's optimal allocation in stratified sampling (Neyman 1934, JRSS), which Wacker et al. (2022, arXiv:2201.08712)
apply to dot-product kernels. The variances are means over pairs of sampled rows (`terms`). Two extensions are made:
terms of low degree can have exact components, one for each monomial, and terms too small for a component of their own
share components of random degree, which keep the map unbiased.

The result is a `Plan`, a sequence of strata. A stratum (`plans.Stratum`) is a group of components together with the
terms that they represent. "Sketched" components are random components of one fixed degree. The sample is the set of
rows that `terms` computes the moments from. Functions with an argument `index` store it in the stratum as the index of
the power series, for a kernel that is a sum of several.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mercer.errors import ParameterError
from mercer.maps.series.plans import DegreeDistribution, Plan, Stratum
from mercer.maps.series.terms import MAX_TERMS, SampledTerms, Terms
from mercer.theory.products import summed_variance

__all__ = ["PLANS", "PlanName", "apportion", "make_plan", "optimal_strata"]

Array = np.ndarray
PlanName = Literal["optimal", "truncated", "random", "h01", "geometric", "degrees"]
PLANS: tuple[PlanName, ...] = ("optimal", "truncated", "random", "h01", "geometric", "degrees")
# Terms whose optimal number of components is smaller than this have no components of their own, but share components
# of random degree with other terms.
LEAST_SHARE = 0.5
# Total probability of the degrees above the last significant term of an infinite series. It is positive, so that the
# map is also unbiased for rows unlike the sample, where these degrees may matter.
TAIL_PROBABILITY = 2.0**-10
# Least ratio P[N = n] / P[N = n + 1] of a random degree N above the last significant term.
LEAST_BASE = 1.05


def make_plan(
    name: PlanName, parts: list[SampledTerms], n_components: int, *, mean_square: float, p: float, eps: float
) -> Plan:
    """Return the plan with this name for a kernel that is a sum of power series.

    Parameters
    ----------
    name : str
        One of `PLANS`.
    parts : list of SampledTerms
        For each series, its terms and their moments on the sample.
    n_components : int
        Number of components of the map.
    mean_square : float
        Mean square of the kernel on the sampled pairs.
    p : float
        Base of the geometric distribution of the plans "geometric" and "h01".
    eps : float
        Bound of the sum of the omitted terms, relative to the largest value of the kernel on the sample, for the plans
        "truncated" and "degrees".
    """
    scale = math.sqrt(mean_square)
    if name == "optimal":
        return Plan(name, optimal_strata(parts, n_components), n_components, scale=scale)
    if len(parts) > 1:
        msg = (
            f"RandomMaclaurin: plan={name!r} needs a kernel that is one power series, got a sum of {len(parts)} power "
            "series with different inputs or decays. Use plan='optimal'."
        )
        raise ParameterError(msg)
    [part] = parts
    if name == "truncated":
        last = truncation_degree(part, eps)
        return Plan(name, _truncated(part, n_components, last, eps), n_components, *_omitted(part, last), scale)
    if name == "random":
        degrees = [n for n in range(len(part.coefficients)) if part.coefficients[n] != 0]
        nonzero = bool(degrees) or part.infinite
        strata = (_random(part, 0, _best_distribution(part, degrees), degrees, n_components),) if nonzero else ()
        return Plan(name, strata, n_components, scale=scale)
    if name == "degrees":
        last = truncation_degree(part, eps) if part.infinite else len(part.coefficients) - 1
        return Plan(name, _summed(part, n_components, last), n_components, *_omitted(part, last), scale)
    return Plan(name, _geometric(part, n_components, p, exact=2 if name == "h01" else 0), n_components, scale=scale)


# ---- strata with their predicted errors -----------------------------------------------------------------------------


def _exact(part: Terms, index: int, degrees: Any) -> list[Stratum]:
    """Return one stratum of exact components for each of the degrees whose coefficient is not zero."""
    return [Stratum(index, "exact", (n,), int(part.exact_cost(n))) for n in degrees if part.exact_cost(n)]


def _sketched(part: Terms, index: int, n: int, m: int) -> Stratum:
    """Return the stratum of m random components that estimate term n alone, with its predicted error."""
    return Stratum(index, "sketched", (n,), m, squared_error=part.sketch_error(n, m))


def _random(part: Terms, index: int, distribution: DegreeDistribution, degrees: list[int], m: int) -> Stratum:
    """Return the stratum of m components whose random degree N has the given distribution, with its predicted error.

    The components estimate the sum of the terms `degrees`, and of all terms beyond the last significant one if the
    distribution has a tail. With c components per sampled product (`Terms.components_per_draw`), their mean variance is
    (sum of shared_moments[n] / P[N = n] over the degrees, minus c times the mean square of the sum of the terms) / m.
    """
    second = (
        float(np.sum(part.shared_moments[degrees] / distribution.probability(np.array(degrees)))) if degrees else 0.0
    )
    mean = part.components_per_draw * part.mean_square(degrees)
    # If no term is left, the components represent the degrees above the last significant term of the sample.
    shown = tuple(degrees) or (len(part.coefficients),)
    return Stratum(index, "random", shown, m, distribution, max(second - mean, 0.0) / m)


def _best_distribution(part: Terms, degrees: list[int]) -> DegreeDistribution:
    """Return the distribution of a random degree N in `degrees` that minimizes the variance of one component.

    P[N = n] is proportional to the square root of ``part.shared_moments[n]``, the mean square of the estimate of term
    n. For an infinite series, the degrees above the last term of `part` have the total probability `TAIL_PROBABILITY`,
    distributed geometrically.
    """
    last = len(part.coefficients) - 1
    sizes = np.sqrt(part.second_moments[-2:])
    # Above the last term the probabilities decrease at the rate of the last two terms. If they decreased faster than
    # the terms, the variance could be infinite.
    base = float(np.clip(sizes[0] / sizes[-1], LEAST_BASE, 2.0)) if sizes.all() else 2.0
    if not degrees:
        return DegreeDistribution.geometric(base, last + 1)
    weights = np.sqrt(part.shared_moments[degrees])
    # No probability is zero, because a term that vanishes on the sample may be nonzero for other rows.
    floor = TAIL_PROBABILITY / len(degrees) * weights.sum()
    weights = np.maximum(weights, floor) if weights.any() else np.ones(len(degrees))
    if not part.infinite:
        return DegreeDistribution(np.array(degrees), weights / weights.sum())
    table = np.zeros(last + 1)
    table[degrees] = (1 - TAIL_PROBABILITY) * weights / weights.sum()
    return DegreeDistribution(np.arange(last + 1), table, base, TAIL_PROBABILITY)


# ---- plans ----------------------------------------------------------------------------------------------------------


def _geometric(part: SampledTerms, n_components: int, p: float, exact: int) -> tuple[Stratum, ...]:
    """Return strata with the first `exact` terms exact and a geometrically distributed degree for all further terms.

    `exact` = 2 is the H0/1 heuristic of Kar and Karnick (2012, AISTATS), `exact` = 0 their Algorithm 1. The parameter p
    is the ratio P[N = n] / P[N = n + 1] of the random degree N.
    """
    strata = _exact(part, 0, range(min(exact, len(part.coefficients))))
    degrees = [n for n in range(exact, len(part.coefficients)) if part.coefficients[n] != 0]
    used = sum(s.n_components for s in strata)
    # The high degrees of an infinite series are included even if they are negligible on the sample: they may matter
    # for other rows.
    tail = bool(degrees) or part.infinite
    if used + tail > n_components:
        msg = (
            f"RandomMaclaurin: plan='h01' needs n_components >= {used + tail}: one for the constant, "
            f"{part.pairs.width} for the linear term and one for the other terms, got {n_components}. "
            "Use plan='optimal'."
        )
        raise ParameterError(msg)
    if tail:
        strata.append(_random(part, 0, DegreeDistribution.geometric(p, exact), degrees, n_components - used))
    return tuple(strata)


def optimal_strata(parts: Sequence[Terms], n_components: int) -> tuple[Stratum, ...]:
    """Return the strata of the unbiased plan of least predicted variance for a sum of power series.

    In each series, all terms up to some degree are exact. Of the other terms, those of large variance have random
    components of their own, in numbers proportional to the square roots of their variances, and those of small variance
    share components of random degree. The degree up to which each series is exact is found by coordinate descent.
    """
    options = [list(_exact_depths(part, n_components, len(part.coefficients) - 1)) for part in parts]
    chosen = [0] * len(parts)
    best = _allocate(parts, [-1] * len(parts), n_components)
    best_key = (math.inf if best is None else best.error, len(parts))
    improved = True
    while improved:
        improved = False
        for i in range(len(parts)):
            for choice in range(len(options[i])):
                trial = [*chosen[:i], choice, *chosen[i + 1 :]]
                depths = [options[j][c][0] for j, c in enumerate(trial)]
                left = n_components - sum(options[j][c][1] for j, c in enumerate(trial))
                found = _allocate(parts, depths, left)
                # Ties go to the plan with more exact terms, which needs fewer components.
                key = (math.inf if found is None else found.error, -sum(depths))
                if found is not None and key < best_key:
                    best, best_key, chosen, improved = found, key, trial, True
    if best is None:
        msg = (
            f"RandomMaclaurin: n_components must be at least {len(parts)} for a sum of {len(parts)} power series, one "
            f"for each, got {n_components}."
        )
        raise ParameterError(msg)
    depths = [options[i][c][0] for i, c in enumerate(chosen)]
    exact = [s for i, part in enumerate(parts) for s in _exact(part, i, range(depths[i] + 1))]
    return (*exact, *best.strata(parts))


def _truncated(part: SampledTerms, n_components: int, last: int, eps: float) -> tuple[Stratum, ...]:
    """Return strata that represent each term up to degree `last` by components of its own, and omit all others.

    The terms up to some degree are exact. The others are sketched, with numbers of components in proportion to the
    square roots of their variances. The degree is chosen for the least predicted error.
    """
    best: list[Stratum] | None = None
    for depth, used in _exact_depths(part, n_components, last):
        degrees = [n for n in range(depth + 1, last + 1) if part.coefficients[n] != 0]
        if len(degrees) > n_components - used:
            continue
        share = apportion(np.sqrt(part.variances[degrees]), n_components - used)
        strata = _exact(part, 0, range(depth + 1))
        strata += [_sketched(part, 0, n, int(m)) for n, m in zip(degrees, share, strict=True)]
        # Ties go to the plan with more exact terms, so that a constant is never sketched.
        if best is None or sum(s.squared_error for s in strata) <= sum(s.squared_error for s in best):
            best = strata
    if best is None:
        msg = (
            f"RandomMaclaurin: plan='truncated' needs a component for each degree up to {last} for eps={eps:g}, got "
            f"n_components={n_components}. Increase n_components or eps."
        )
        raise ParameterError(msg)
    return tuple(best)


def _summed(part: SampledTerms, n_components: int, last: int) -> tuple[Stratum, ...]:
    """Return the strata of the plan "degrees": every random component is a sum of one product for each degree.

    Terms above degree `last` are omitted. The constant term has one exact component if there are at least two
    components.
    """
    strata = _exact(part, 0, [0]) if n_components > 1 or last == 0 else []
    degrees = [n for n in range(len(strata), last + 1) if part.coefficients[n] != 0]
    m = n_components - len(strata)
    if degrees:
        a = np.where(np.isin(np.arange(last + 1), degrees), part.coefficients[: last + 1], 0.0)
        variance = summed_variance(part.projection, part.pairs, a, m) * np.square(part.prefactors)
        strata.append(Stratum(0, "summed", tuple(degrees), m, squared_error=part.mean(variance)))
    return tuple(strata)


def truncation_degree(part: SampledTerms, eps: float) -> int:
    r"""Return the least degree k with :math:`\sum_{n > k} |a_n| R^{2n} \le \varepsilon \sum_n |a_n| R^{2n}`.

    R is the largest norm of a sampled row. Kar and Karnick (2012, AISTATS, supplement) bound the same sum by an
    absolute tolerance.
    """
    allowed = eps * part.tail(-1)
    return next(k for k in range(MAX_TERMS) if part.tail(k) <= allowed or k == len(part.coefficients) - 1)


def _omitted(part: SampledTerms, last: int) -> tuple[float, float]:
    """Return the size of s(x, y), the sum of the terms above degree `last`, which a truncated plan omits.

    Returns
    -------
    rms : float
        Root mean square of s over the sampled pairs of rows.
    bound : float
        Bound of the absolute value of s for rows with norms up to the largest of the sample.
    """
    beyond = list(range(last + 1, len(part.coefficients)))
    return math.sqrt(max(part.mean_square(beyond), 0.0)), part.tail(last)


# ---- allocation -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Allocation:
    """Numbers of random components: for terms with components of their own, and for terms that share components."""

    error: float  # predicted mean squared error
    # (index of the series, degree, number of components) of terms with components of their own
    sketched: list[tuple[int, int, int]]
    # (index of the series, degrees of the terms, number of components) of components of random degree
    random: list[tuple[int, list[int], int]]

    def strata(self, parts: Sequence[Terms]) -> list[Stratum]:
        """Return a stratum for each term with components of its own, and for each series with shared components."""
        sketched = [_sketched(parts[i], i, n, m) for i, n, m in sorted(self.sketched)]
        return sketched + [
            _random(parts[i], i, _best_distribution(parts[i], left), left, m) for i, left, m in self.random
        ]


def _allocate(parts: Sequence[Terms], depths: list[int], n_components: int) -> _Allocation | None:
    """Return the allocation of random components with the least predicted error.

    The components estimate the terms of degree n > ``depths[i]`` of each series ``parts[i]``. The terms up to this
    degree are exact and not considered here. None is returned if there are too few components: every infinite series
    and every series with a nonzero term above its depth needs at least one.
    """
    shared = [_SharedTerms(part, depth) for part, depth in zip(parts, depths, strict=True)]
    terms = [(i, n) for i, rest in enumerate(shared) for n in rest.degrees()]
    variances = [part.variances for part in parts]
    terms.sort(key=lambda term: -variances[term[0]][term[1]])
    total = sum(math.sqrt(variances[i][n]) for i, n in terms)
    best: _Allocation | None = None
    # The `count` terms of largest variance have their own components, all others share components of random degree.
    for count in range(len(terms) + 1):
        if count:
            i, n = terms[count - 1]
            shared[i].remove(n)
            if n_components * math.sqrt(variances[i][n]) < LEAST_SHARE * total:
                break
        random = [i for i, part in enumerate(parts) if shared[i].any() or part.infinite]
        if count + len(random) > n_components:
            break
        weights = [variances[i][n] for i, n in terms[:count]] + [shared[i].variance() for i in random]
        share = apportion(np.sqrt(weights), n_components)
        error = float(np.sum(np.array(weights) / share)) if len(share) else 0.0
        # Ties go to components of fixed degree, which Hadamard matrices can compute fast.
        if best is None or error <= best.error * (1 + 1e-12):
            sketched = [(i, n, int(m)) for (i, n), m in zip(terms[:count], share[:count], strict=True)]
            rest = [(i, shared[i].degrees(), int(m)) for i, m in zip(random, share[count:], strict=True)]
            best = _Allocation(error, sketched, rest)
    return best


class _SharedTerms:
    """Terms of one series above degree `depth` that share components of random degree.

    The moments of their sum are updated as terms are removed.
    """

    def __init__(self, part: Terms, depth: int) -> None:
        self.part = part
        self.active = (np.arange(len(part.coefficients)) > depth) & (part.coefficients != 0)
        self.sizes = np.sqrt(part.shared_moments)
        self.products = part.cross_moments @ self.active  # mean product of each term with the sum of the active ones
        self.mean_square = float(self.products @ self.active)
        self.size = float(self.sizes @ self.active)

    def remove(self, n: int) -> None:
        """Remove term n from the shared terms, and update the moments."""
        self.active[n] = False
        self.mean_square += float(self.part.cross_moments[n, n] - 2 * self.products[n])
        self.products = self.products - self.part.cross_moments[:, n]
        self.size -= float(self.sizes[n])

    def any(self) -> bool:
        """Return whether any term shares components."""
        return bool(self.active.any())

    def degrees(self) -> list[int]:
        """Return the degrees of the terms that share components, that is, of all that were not removed."""
        return np.flatnonzero(self.active).tolist()

    def variance(self) -> float:
        """Return the mean variance of one shared component, for the best distribution of its degree.

        Divided by m, this is the predicted squared error of m components; see `_best_distribution`.
        """
        if not np.isfinite(self.size):
            return math.inf
        second = max(self.size, 0.0) ** 2 / (1 - TAIL_PROBABILITY if self.part.infinite else 1)
        return max(second - self.part.components_per_draw * self.mean_square, 0.0)


def apportion(weights: Array, total: int) -> Array:
    """Split `total` units among the weights: return an integer >= 1 for each weight, with sum `total`.

    Every weight gets one unit. The other units are distributed so that the integers are as proportional to the weights
    as possible, with rounding by the largest-remainder method. If some weights are infinite, these get all the other
    units, in equal parts; if all weights are zero, all are treated as equal. If there are at least `total` weights, the
    result is one for each, and the sum may exceed `total`.

    Parameters
    ----------
    weights : ndarray of shape (n,)
        Weights >= 0, possibly infinite.
    total : int
        Number of units, such as components.

    Returns
    -------
    integers : ndarray of int of shape (n,)
        Number of units of each weight.
    """
    share = np.ones(len(weights), dtype=int)
    left = total - len(weights)
    if not len(weights) or left <= 0:
        return share
    weights = np.isinf(weights).astype(float) if np.isinf(weights).any() else weights
    mass = weights.sum()
    # Every weight has one unit already, which is subtracted from its proportional number of units.
    ideal = np.maximum(total * weights / mass - 1, 0) if mass > 0 else np.zeros(len(weights))
    ideal = ideal * (left / ideal.sum()) if ideal.sum() > 0 else np.full(len(weights), left / len(weights))
    floors = np.floor(ideal).astype(int)
    floors[np.argsort(floors - ideal, kind="stable")[: left - floors.sum()]] += 1
    return share + floors


def _exact_depths(part: Terms, n_components: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the pairs (k, cost) such that `cost` <= n_components components make all terms up to degree k exact.

    The degrees k are -1 (no exact term, at cost 0), 0, 1, ... up to `last` at most.
    """
    used = 0.0
    yield -1, 0
    for n in range(last + 1):
        used += part.exact_cost(n)
        if used > n_components:
            return
        yield n, int(used)
