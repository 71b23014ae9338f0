"""How the columns of a Maclaurin map are shared out over the terms of a series.

Minimizing the sum of a_n^2 V_n / m_n over m_n columns of degree n gives m_n in proportion to a_n sqrt(V_n), with V_n
the variance of one column, estimated on sampled pairs of rows (MATHS C.1). Exact columns cost one a monomial and leave
no error; degrees too light for a column of their own share columns of random degree, which keep the map unbiased.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from mercer.errors import ParameterError
from mercer.maps.series.plans import DegreeLaw, Plan, Stratum
from mercer.maps.series.terms import MOST_DEGREES, SampledPart, Terms
from mercer.theory.products import summed_variance

__all__ = ["PLANS", "PlanName", "draw_up", "optimal_strata", "share_out"]

Array = np.ndarray
PlanName = Literal["optimal", "truncated", "random", "h01", "geometric", "degrees"]
PLANS: tuple[PlanName, ...] = ("optimal", "truncated", "random", "h01", "geometric", "degrees")
# Terms that would get less than this part of a column always share.
HALF_A_COLUMN = 0.5
# Chance that a random degree lies beyond the table: so the map is unbiased for rows unlike the sample, too.
BEYOND = 2.0**-10
# The slowest fall of chances beyond the table.
SLOWEST = 1.05


def draw_up(
    name: PlanName, parts: list[SampledPart], n_components: int, *, mean_square: float, p: float, eps: float
) -> Plan:
    """Return the plan of a name, for a kernel that is a sum of series, of a known mean square on the pairs."""
    scale = math.sqrt(mean_square)
    if name == "optimal":
        return Plan(name, optimal_strata(parts, n_components), n_components, scale=scale)
    if len(parts) > 1:
        msg = (
            f"plan={name!r} serves one power series, but the kernel is a sum of {len(parts)}, of different inputs or "
            "decays. Use plan='optimal'."
        )
        raise ParameterError(msg)
    [part] = parts
    if name == "truncated":
        last = truncation_degree(part, eps)
        return Plan(name, _truncated(part, n_components, last, eps), n_components, *_left_out(part, last), scale)
    if name == "random":
        degrees = [n for n in range(len(part.coefficients)) if part.coefficients[n] != 0]
        wanted = bool(degrees) or part.endless
        strata = (_random(part, 0, _best_law(part, degrees), degrees, n_components),) if wanted else ()
        return Plan(name, strata, n_components, scale=scale)
    if name == "degrees":
        last = truncation_degree(part, eps) if part.endless else len(part.coefficients) - 1
        return Plan(name, _summed(part, n_components, last), n_components, *_left_out(part, last), scale)
    return Plan(name, _geometric(part, n_components, p, exact=2 if name == "h01" else 0), n_components, scale=scale)


# ---- the strata of a plan, with their predicted errors --------------------------------------------------------------


def _exact(part: Terms, index: int, degrees: Any) -> list[Stratum]:
    return [Stratum(index, "exact", (n,), int(part.cost(n))) for n in degrees if part.cost(n)]


def _sketched(part: Terms, index: int, n: int, columns: int) -> Stratum:
    return Stratum(index, "sketched", (n,), columns, squared_error=part.sketch_error(n, columns))


def _random(part: Terms, index: int, law: DegreeLaw, degrees: list[int], columns: int) -> Stratum:
    second = float(np.sum(part.shared[degrees] / law.chance(np.array(degrees)))) if degrees else 0.0
    mean = part.halves * part.mean_square(degrees)
    # With nothing left that matters on the sample, the columns are there for rows unlike it.
    shown = tuple(degrees) or (len(part.coefficients),)
    return Stratum(index, "random", shown, columns, law, max(second - mean, 0.0) / columns)


def _best_law(part: Terms, degrees: list[int]) -> DegreeLaw:
    """Return the law of least variance over some degrees: chances in proportion to a_n sqrt(E z^2)."""
    last = len(part.coefficients) - 1
    sizes = np.sqrt(part.second[-2:])
    # Beyond the table chances go on falling as the terms did at its end: faster, and the variance would be infinite.
    base = float(np.clip(sizes[0] / sizes[-1], SLOWEST, 2.0)) if sizes.all() else 2.0
    if not degrees:
        return DegreeLaw.geometric(base, last + 1)
    weights = np.sqrt(part.shared[degrees])
    # No chance is zero: a degree that the sample says nothing of has to be drawn for other rows.
    weights = np.maximum(weights, BEYOND / len(degrees) * weights.sum()) if weights.any() else np.ones(len(degrees))
    if not part.endless:
        return DegreeLaw(np.array(degrees), weights / weights.sum())
    table = np.zeros(last + 1)
    table[degrees] = (1 - BEYOND) * weights / weights.sum()
    return DegreeLaw(np.arange(last + 1), table, base, BEYOND)


# ---- plans ----------------------------------------------------------------------------------------------------------


def _geometric(part: SampledPart, n_components: int, p: float, exact: int) -> tuple[Stratum, ...]:
    """Random degrees by the source's law, above some exact ones."""
    strata = _exact(part, 0, range(min(exact, len(part.coefficients))))
    degrees = [n for n in range(exact, len(part.coefficients)) if part.coefficients[n] != 0]
    used = sum(s.columns for s in strata)
    # An endless series keeps its tail even where nothing of it matters on the sample, for rows unlike that.
    tail = bool(degrees) or part.endless
    if used + tail > n_components:
        msg = (
            f"plan='h01' needs a column for the constant, {part.pairs.width} for the linear term and one for the "
            f"rest: n_components >= {used + tail}, got {n_components}. Use plan='optimal'."
        )
        raise ParameterError(msg)
    if tail:
        strata.append(_random(part, 0, DegreeLaw.geometric(p, exact), degrees, n_components - used))
    return tuple(strata)


def optimal_strata(parts: Sequence[Terms], n_components: int) -> tuple[Stratum, ...]:
    """Exact through the degree that pays, the rest by variance, with a tail of random degrees: unbiased."""
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
                # Between equals, more exact columns: they are fewer.
                key = (math.inf if found is None else found.error, -sum(depths))
                if found is not None and key < best_key:
                    best, best_key, chosen, improved = found, key, trial, True
    if best is None:
        msg = f"a sum of {len(parts)} series needs a column for each, got n_components={n_components}."
        raise ParameterError(msg)
    depths = [options[i][c][0] for i, c in enumerate(chosen)]
    exact = [s for i, part in enumerate(parts) for s in _exact(part, i, range(depths[i] + 1))]
    return (*exact, *best.strata(parts))


def _truncated(part: SampledPart, n_components: int, last: int, eps: float) -> tuple[Stratum, ...]:
    """Terms through degree k(eps, R), exact or allocated by variance; nothing beyond."""
    best: list[Stratum] | None = None
    for depth, used in _exact_depths(part, n_components, last):
        degrees = [n for n in range(depth + 1, last + 1) if part.coefficients[n] != 0]
        if len(degrees) > n_components - used:
            continue
        share = share_out(np.sqrt(part.variances[degrees]), n_components - used)
        strata = _exact(part, 0, range(depth + 1))
        strata += [_sketched(part, 0, n, int(m)) for n, m in zip(degrees, share, strict=True)]
        # Between equals, more exact columns: a constant is never sketched.
        if best is None or sum(s.squared_error for s in strata) <= sum(s.squared_error for s in best):
            best = strata
    if best is None:
        msg = (
            f"plan='truncated' keeps the degrees up to {last} for eps={eps:g} and needs a column for each, got "
            f"n_components={n_components}. Give it more columns, or a larger eps."
        )
        raise ParameterError(msg)
    return tuple(best)


def _summed(part: SampledPart, n_components: int, last: int) -> tuple[Stratum, ...]:
    """Every column a sum over degrees (MATHS S4.6); the constant apart, because it needs no drawing."""
    strata = _exact(part, 0, [0]) if n_components > 1 or last == 0 else []
    degrees = [n for n in range(len(strata), last + 1) if part.coefficients[n] != 0]
    columns = n_components - len(strata)
    if degrees:
        a = np.where(np.isin(np.arange(last + 1), degrees), part.coefficients[: last + 1], 0.0)
        variance = summed_variance(part.projection, part.pairs, a, columns) * np.square(part.prefactors)
        strata.append(Stratum(0, "summed", tuple(degrees), columns, squared_error=part.mean(variance)))
    return tuple(strata)


def truncation_degree(part: SampledPart, eps: float) -> int:
    """Return the least k whose terms above sum, as |a_n| R^2n, to at most eps of all (MATHS S0.14)."""
    allowed = eps * part.tail(-1)
    return next(k for k in range(MOST_DEGREES) if part.tail(k) <= allowed or k == len(part.coefficients) - 1)


def _left_out(part: SampledPart, last: int) -> tuple[float, float]:
    """Return the root mean square and the bound of the terms above a degree."""
    beyond = list(range(last + 1, len(part.coefficients)))
    return math.sqrt(max(part.mean_square(beyond), 0.0)), part.tail(last)


# ---- allocation -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Allocation:
    """Columns for single terms, and for the random degrees of some parts."""

    error: float
    sketched: list[tuple[int, int, int]]  # part, degree, columns
    random: list[tuple[int, list[int], int]]  # part, degrees, columns

    def strata(self, parts: Sequence[Terms]) -> list[Stratum]:
        sketched = [_sketched(parts[i], i, n, m) for i, n, m in sorted(self.sketched)]
        return sketched + [_random(parts[i], i, _best_law(parts[i], left), left, m) for i, left, m in self.random]


def _allocate(parts: Sequence[Terms], depths: list[int], columns: int) -> _Allocation | None:
    """Share out columns over the terms above the exact depths; None if there are too few columns."""
    shared = [_SharedTerms(part, depth) for part, depth in zip(parts, depths, strict=True)]
    terms = [(i, n) for i, rest in enumerate(shared) for n in rest.degrees()]
    variances = [part.variances for part in parts]
    terms.sort(key=lambda term: -variances[term[0]][term[1]])
    total = sum(math.sqrt(variances[i][n]) for i, n in terms)
    best: _Allocation | None = None
    # The heaviest `count` terms have columns of their own, the others share.
    for count in range(len(terms) + 1):
        if count:
            i, n = terms[count - 1]
            shared[i].take_out(n)
            if columns * math.sqrt(variances[i][n]) < HALF_A_COLUMN * total:
                break
        random = [i for i, part in enumerate(parts) if shared[i].any() or part.endless]
        if count + len(random) > columns:
            break
        weights = [variances[i][n] for i, n in terms[:count]] + [shared[i].variance() for i in random]
        share = share_out(np.sqrt(weights), columns)
        error = float(np.sum(np.array(weights) / share)) if len(share) else 0.0
        # Between equals, columns of their own: they may be structured.
        if best is None or error <= best.error * (1 + 1e-12):
            sketched = [(i, n, int(m)) for (i, n), m in zip(terms[:count], share[:count], strict=True)]
            rest = [(i, shared[i].degrees(), int(m)) for i, m in zip(random, share[count:], strict=True)]
            best = _Allocation(error, sketched, rest)
    return best


class _SharedTerms:
    """Terms of one series that share columns of random degree; moments are kept up as terms leave."""

    def __init__(self, part: Terms, depth: int) -> None:
        self.part = part
        self.active = (np.arange(len(part.coefficients)) > depth) & (part.coefficients != 0)
        self.sizes = np.sqrt(part.shared)
        self.products = part.products @ self.active  # of each term with the sum of all
        self.mean_square = float(self.products @ self.active)
        self.size = float(self.sizes @ self.active)

    def take_out(self, n: int) -> None:
        self.active[n] = False
        self.mean_square += float(self.part.products[n, n] - 2 * self.products[n])
        self.products = self.products - self.part.products[:, n]
        self.size -= float(self.sizes[n])

    def any(self) -> bool:
        return bool(self.active.any())

    def degrees(self) -> list[int]:
        return np.flatnonzero(self.active).tolist()

    def variance(self) -> float:
        """Return the variance of one column of random degree under its best law."""
        if not np.isfinite(self.size):
            return math.inf
        second = max(self.size, 0.0) ** 2 / (1 - BEYOND if self.part.endless else 1)
        return max(second - self.part.halves * self.mean_square, 0.0)


def share_out(weights: Array, columns: int) -> Array:
    """Return whole numbers of columns in proportion to weights, at least one each: by largest remainders."""
    share = np.ones(len(weights), dtype=int)
    left = columns - len(weights)
    if not len(weights) or left <= 0:
        return share
    # What the first column of each covers already is taken off. Infinite weights share what there is.
    weights = np.isinf(weights).astype(float) if np.isinf(weights).any() else weights
    total = weights.sum()
    ideal = np.maximum(columns * weights / total - 1, 0) if total > 0 else np.zeros(len(weights))
    ideal = ideal * (left / ideal.sum()) if ideal.sum() > 0 else np.full(len(weights), left / len(weights))
    whole = np.floor(ideal).astype(int)
    whole[np.argsort(whole - ideal, kind="stable")[: left - whole.sum()]] += 1
    return share + whole


def _exact_depths(part: Terms, columns: int, last: int) -> Iterator[tuple[int, int]]:
    """Yield the degrees through which a part can be exact, with the columns that this takes; -1 for none."""
    used = 0.0
    yield -1, 0
    for n in range(last + 1):
        used += part.cost(n)
        if used > columns:
            return
        yield n, int(used)
