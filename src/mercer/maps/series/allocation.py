r"""Choice of a degree plan: the number of components for each term of a power series.

The kernel is a power series :math:`\sum_n a_n (x^\top y)^n`, and the map has D components. Suppose that term n is
estimated by the average over :math:`m_n` independent random components, each of variance :math:`a_n^2 V_n`. The total
variance is then :math:`\sum_n a_n^2 V_n / m_n`. Subject to :math:`\sum_n m_n = D`, it is minimal for
:math:`m_n \propto |a_n| \sqrt{V_n}`. This is Neyman's optimal allocation in stratified sampling (Neyman 1934, JRSS),
which Wacker et al. (2022, arXiv:2201.08712) apply to dot-product kernels.

This module extends the allocation in two ways. A term of low degree can be represented without error by exact
components, one for each monomial. Terms that are too small for a component of their own share components of random
degree, so that no term is omitted and the map is unbiased.

Names in this module:

- A stratum (`plans.Stratum`) is a group of components together with the terms that they represent.
- A plan (`plans.Plan`) is a sequence of strata. Most functions here return the strata of a plan.
- "Sketched" components are random components of one fixed degree.
- The sample is a set of rows. All variances and moments are means over pairs of these rows, from the module `terms`.
- The argument `index` is the position of a power series in a kernel that is a sum of several power series.
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
    """Return the plan called `name` for a kernel that is a sum of power series.

    Parameters
    ----------
    name : str
        One of `PLANS`.
    parts : list of SampledTerms
        For each series, its terms and their moments on the sample.
    n_components : int
        Number of components of the map.
    mean_square : float
        Mean square of the kernel over pairs of sampled rows.
    p : float
        Base of the geometric distribution of degrees in the plans "geometric" and "h01".
    eps : float
        For the plans "truncated" and "degrees": upper bound for the sum of the omitted terms, relative to the largest
        value of the kernel on the sample.
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
    """Return one stratum of exact components for each degree n in `degrees` with a nonzero coefficient a_n."""
    return [Stratum(index, "exact", (n,), int(part.exact_cost(n))) for n in degrees if part.exact_cost(n)]


def _sketched(part: Terms, index: int, n: int, m: int) -> Stratum:
    """Return the stratum of m random components of degree n, which estimate term n, with its predicted error."""
    return Stratum(index, "sketched", (n,), m, squared_error=part.sketch_error(n, m))


def _random(part: Terms, index: int, distribution: DegreeDistribution, degrees: list[int], m: int) -> Stratum:
    """Return the stratum of m components whose random degree N has the given distribution, with its predicted error.

    The components estimate the sum S of the terms with the given `degrees`. If the distribution has a tail, they also
    estimate all terms above the last significant one. The predicted squared error is

        (sum over n in degrees of shared_moments[n] / P[N = n] - c * (mean square of S)) / m,

    where c is `Terms.components_per_draw`, the number of real components per sampled product.
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
    n by one component. For an infinite series, the degrees above the last term of `part` are geometrically distributed
    and have the total probability `TAIL_PROBABILITY`.
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

    The random degree N satisfies P[N = n] / P[N = n + 1] = p. With `exact` = 2 this is the H0/1 heuristic of Kar and
    Karnick (2012, AISTATS). With `exact` = 0 it is Algorithm 1 in the same paper.
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
    """Return the strata of the unbiased plan with the least predicted variance for a sum of power series.

    In each series, all terms up to some degree are exact; coordinate descent over the series finds this degree. Each
    other term of large variance has random components of its own, and their number is proportional to the square root
    of the variance. The terms of small variance share components of random degree.
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
    """Return strata in which each term up to degree `last` has its own components, and higher terms are omitted.

    The terms up to a degree k are exact. The terms of degree k + 1 to `last` have random components, in proportion to
    the square roots of their variances. The degree k is chosen for the least predicted error.
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

    Terms above degree `last` are omitted. If n_components >= 2, the constant term has one exact component.
    """
    strata = _exact(part, 0, [0]) if n_components > 1 or last == 0 else []
    degrees = [n for n in range(len(strata), last + 1) if part.coefficients[n] != 0]
    m = n_components - len(strata)
    if degrees:
        a = np.where(np.isin(np.arange(last + 1), degrees), part.coefficients[: last + 1], 0.0)
        # Negative coefficients are refused when the components are sampled.
        error = part.mean(summed_variance(part.projection, part.pairs, np.abs(a), m))
        strata.append(Stratum(0, "summed", tuple(degrees), m, squared_error=error))
    return tuple(strata)


def truncation_degree(part: SampledTerms, eps: float) -> int:
    r"""Return the least degree k with :math:`\sum_{n > k} |a_n| R^{2n} \le \varepsilon \sum_n |a_n| R^{2n}`.

    R is the largest norm of a sampled row. Kar and Karnick (2012, AISTATS, supplement) bound the same sum by an
    absolute tolerance.
    """
    allowed = eps * part.tail(-1)
    return next(k for k in range(MAX_TERMS) if part.tail(k) <= allowed or k == len(part.coefficients) - 1)


def _omitted(part: SampledTerms, last: int) -> tuple[float, float]:
    """Return two measures of the size of s(x, y), the sum of all terms above degree `last`.

    A plan that is truncated at degree `last` omits s.

    Returns
    -------
    rms : float
        Root mean square of s over the sampled pairs of rows.
    bound : float
        Upper bound for |s(x, y)| over all rows x and y whose norms are at most the largest norm in the sample.
    """
    beyond = list(range(last + 1, len(part.coefficients)))
    return math.sqrt(max(part.mean_square(beyond), 0.0)), part.tail(last)


# ---- allocation -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Allocation:
    """Numbers of random components, both for terms with components of their own and for terms that share components."""

    error: float  # predicted mean squared error
    # (index of the series, degree, number of components) of terms with components of their own
    sketched: list[tuple[int, int, int]]
    # (index of the series, degrees of the terms, number of components) of components of random degree
    random: list[tuple[int, list[int], int]]

    def strata(self, parts: Sequence[Terms]) -> list[Stratum]:
        """Return one stratum per term that has components of its own, and one per series that has shared components."""
        sketched = [_sketched(parts[i], i, n, m) for i, n, m in sorted(self.sketched)]
        return sketched + [
            _random(parts[i], i, _best_distribution(parts[i], left), left, m) for i, left, m in self.random
        ]


def _allocate(parts: Sequence[Terms], depths: list[int], n_components: int) -> _Allocation | None:
    """Return the allocation of random components with the least predicted error.

    In each series ``parts[i]``, the terms up to degree ``depths[i]`` are exact and not considered here. The random
    components estimate the terms of higher degree. Every infinite series, and every finite series with a nonzero term
    above degree ``depths[i]``, needs at least one component. None is returned if `n_components` is too small for this.
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

    The object holds the moments of the sum of these terms, and updates them if a term is removed.
    """

    def __init__(self, part: Terms, depth: int) -> None:
        self.part = part
        self.active = (np.arange(len(part.coefficients)) > depth) & (part.coefficients != 0)
        self.sizes = np.sqrt(part.shared_moments)
        self.products = part.cross_moments @ self.active  # mean product of each term with the sum of the active ones
        self.mean_square = float(self.products @ self.active)
        self.size = float(self.sizes @ self.active)

    def remove(self, n: int) -> None:
        """Remove term n from the terms that share components, and update the moments of their sum."""
        self.active[n] = False
        self.mean_square += float(self.part.cross_moments[n, n] - 2 * self.products[n])
        self.products = self.products - self.part.cross_moments[:, n]
        self.size -= float(self.sizes[n])

    def any(self) -> bool:
        """Return whether at least one term shares components, that is, has not been removed."""
        return bool(self.active.any())

    def degrees(self) -> list[int]:
        """Return the degrees of the terms that share components, that is, of the terms that have not been removed."""
        return np.flatnonzero(self.active).tolist()

    def variance(self) -> float:
        """Return the variance of one component of random degree, as a mean over sampled pairs of rows.

        The degree has the distribution of least variance; see `_best_distribution`. The predicted squared error of m
        components is this variance divided by m.
        """
        if not np.isfinite(self.size):
            return math.inf
        second = max(self.size, 0.0) ** 2 / (1 - TAIL_PROBABILITY if self.part.infinite else 1)
        return max(second - self.part.components_per_draw * self.mean_square, 0.0)


def apportion(weights: Array, total: int) -> Array:
    """Return integers >= 1 with the sum `total` that are as proportional to the weights as possible.

    Every weight gets one unit. The remaining units are distributed in proportion to the weights, with rounding by the
    largest-remainder method. If some weights are infinite, these get all remaining units, in equal parts. If all
    weights are zero, they are treated as equal. If there are at least `total` weights, every integer is 1, and the sum
    may exceed `total`.

    Parameters
    ----------
    weights : ndarray of shape (n,)
        Weights >= 0, possibly infinite.
    total : int
        Number of units, such as components.

    Returns
    -------
    integers : ndarray of int of shape (n,)
        Number of units for each weight.
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
    """Yield pairs (k, cost) for k = -1, 0, 1, ..., `last`, while cost <= n_components.

    The cost is the number of components that represent all terms up to degree k exactly. For k = -1 no term is exact,
    and the cost is 0.
    """
    used = 0.0
    yield -1, 0
    for n in range(last + 1):
        used += part.exact_cost(n)
        if used > n_components:
            return
        yield n, int(used)
