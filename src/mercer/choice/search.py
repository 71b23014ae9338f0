"""Which map, and how many components: for a given number, for an error, and within a time or a memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mercer.choice.candidates import Candidate
from mercer.choice.trials import Trial, Trials

__all__ = ["Limits", "best_for_learner", "best_of_width", "best_within", "cheapest_for"]

# Maps whose fit takes more operations than this are slow. They are compared with this fraction of the components first,
# if that is at least this number, and only those within this factor of the least error are fitted with all components.
SLOW, PILOT, FEWEST_PILOTS, CLOSE = 1e8, 4, 32, 1.15
# For a learner, all maps are compared with at most this number of components. The best one that is built from rows is
# fitted with all components, and the best other one too if its error with few is within this factor of the least one:
# errors of maps that are built from rows decrease at least as fast as those of others, often faster.
LEARNER_PILOT, RIVAL = 64, 2.0
# Number of components of the first trials of every candidate, where the number is not given.
FIRST = 64
# Largest growth of the number of components from one trial of a candidate to the next.
GROWTH = 4.0
# A trial aims at this share of the tolerance, so that it is not missed by a little.
AIM = 0.93
# A number of components that reaches the tolerance is reduced until it is within this factor of one that does not.
EXCESS = 1.12
# Exponents s of errors C D^-s: those assumed after one trial, and the bounds of those fitted to two trials.
SLOPE, LEAST_SLOPE, MOST_SLOPE = 1.0, 0.3, 6.0
# Share of a time limit that is planned for; the rest is for what the extrapolation of times misses.
PLANNED = 0.9
# Share of a time limit that the features of all rows may take if the fits took longer than planned.
OVERTIME = 0.1


@dataclass(frozen=True)
class Limits:
    """Upper limits: of the number of components, and of a number of seconds and of bytes, if they are not infinite.

    `seconds` and `n_bytes` are for the fit of the map and the features of `n_rows` rows.
    """

    most_components: int
    n_rows: int
    seconds: float = math.inf
    n_bytes: float = math.inf
    row_bytes: Callable[[int], float] = lambda n_components: 0.0  # noqa: ARG005 - a default that is always zero

    @property
    def first_components(self) -> int:
        """Number of components of the first trial: few, and at most as many as a half of the memory allows."""
        first = min(FIRST, self.most_components)
        while first > 1 and self.row_bytes(first) > 0.5 * self.n_bytes:
            first //= 2
        return first

    def bytes_of(self, trial: Trial) -> float:
        """Return the memory of a map and of the features of all rows."""
        return trial.n_bytes + self.row_bytes(trial.n_components)

    def allow(self, trial: Trial, remaining: float) -> bool:
        """Return whether a map keeps the limits, if so many seconds remain for the features of all rows."""
        in_time = math.isinf(self.seconds) or self.n_rows * trial.row_seconds <= max(remaining, 0.0)
        return in_time and self.bytes_of(trial) <= self.n_bytes


def best_of_width(trials: Trials, candidates: Sequence[Candidate], n_components: int) -> Trial | None:
    """Return the trial of least error with a given number of components; None if no candidate can have it."""
    candidates = [candidate for candidate in candidates if n_components <= candidate.most_components]
    slow = [candidate for candidate in candidates if trials.fit_cost(candidate, n_components) > SLOW]
    others = [candidate for candidate in candidates if candidate not in slow]
    if len(slow) > 1 and n_components >= PILOT * FEWEST_PILOTS:
        # Which of them is the best hardly depends on the number of components.
        pilots = [(trials.run(candidate, n_components // PILOT).error, candidate) for candidate in slow]
        least = min(error for error, _ in pilots)
        slow = [candidate for error, candidate in pilots if error <= CLOSE * least]
    found = [trials.run(candidate, n_components) for candidate in [*others, *slow]]
    return min((t for t in found if t.feature_map is not None), key=lambda t: t.error, default=None)


def best_for_learner(trials: Trials, candidates: Sequence[Candidate], n_components: int, n_rows: int) -> Trial | None:
    """Return a trial of small error with a given number of components, found in less time than a learner takes.

    A learner that sums second moments over all rows takes n D^2 multiplications. Candidates whose fit takes longer are
    left out. The others are compared with few components, and one or two of them are fitted with all components.
    """
    allowed = [candidate for candidate in candidates if n_components <= candidate.most_components]
    costs = {candidate.name: trials.fit_cost(candidate, n_components) for candidate in allowed}
    most = max(float(n_rows) * n_components**2, min(costs.values(), default=0.0))
    cheap = [candidate for candidate in allowed if costs[candidate.name] <= most]
    few = min(n_components // PILOT, LEARNER_PILOT)
    if few < FEWEST_PILOTS:
        return best_of_width(trials, cheap, n_components)
    pilots = {candidate.name: trials.run(candidate, few).error for candidate in cheap}
    ranked = sorted(cheap, key=lambda candidate: pilots[candidate.name])  # stable: ties keep their order
    tried: dict[bool, Trial] = {}  # the first successful trial of each kind
    for candidate in ranked:
        kind = candidate.prototype.built_from_rows
        worse = not kind and True in tried and pilots[candidate.name] > RIVAL * pilots[ranked[0].name]
        if kind in tried or worse:
            continue
        trial = trials.run(candidate, n_components)
        if trial.feature_map is not None:
            tried[kind] = trial
    return min(tried.values(), key=lambda trial: trial.error, default=None)


# ---- for an error -----------------------------------------------------------------------------


def cheapest_for(
    trials: Trials, candidates: Sequence[Candidate], tol: float, limits: Limits
) -> tuple[Trial | None, bool]:
    """Return the cheapest trial found whose error is at most `tol`, and whether there is one.

    Each candidate is tried with few components first. From then on, the candidate is tried next that would be the
    cheapest if its error and cost continued to change as they did; until a candidate that has been tried is cheaper
    than what any other one promises. If no candidate reaches the tolerance within the limits, the trial of least error
    is returned.

    The time of the search counts, as in `best_within`: no trial is started whose fit, and the features of all rows,
    would take longer than the time that remains.
    """
    start = trials.clock()

    def remaining() -> float:
        return limits.seconds * PLANNED - (trials.clock() - start)

    runners: list[Runner] = []
    for candidate in candidates:
        if runners and remaining() < 0.5 * limits.seconds:
            break  # the first trials alone take too long
        runners.append(Runner(candidate, trials, tol, limits))
        runners[-1].start()
    while True:
        promising = [runner for runner in runners if runner.promised_cost(remaining()) < math.inf]
        if not promising:
            break
        runner = min(promising, key=lambda runner: runner.promised_cost(remaining()))
        if runner.settled:
            break
        runner.advance()
    left = remaining()
    reached = [r.reached for r in runners if r.reached is not None and limits.allow(r.reached, left)]
    if reached:
        return min(reached, key=lambda trial: trial.row_seconds), True
    done = [t for t in trials.done.values() if t.feature_map is not None and limits.bytes_of(t) <= limits.n_bytes]
    in_time = [trial for trial in done if limits.allow(trial, left)]
    return min(in_time or done, key=lambda trial: trial.error, default=None), False


@dataclass(eq=False)
class Runner:
    """The search for the least number of components for which one candidate reaches a tolerance."""

    candidate: Candidate
    trials: Trials
    tol: float
    limits: Limits
    reached: Trial | None = None
    missed: Trial | None = None  # the trial with most components that does not reach the tolerance
    ended: bool = False

    def start(self) -> None:
        """Try few components."""
        self._try(self.limits.first_components)

    def _try(self, n_components: int) -> None:
        trial = self.trials.run(self.candidate, n_components)
        if trial.feature_map is None or self.limits.bytes_of(trial) > self.limits.n_bytes:
            self.ended = True
        elif trial.upper <= self.tol:
            self.reached = trial
        else:
            if self.missed is not None and trial.n_components <= self.missed.n_components:
                self.ended = True  # more components than this map can have
            self.missed = trial

    @property
    def settled(self) -> bool:
        """Whether fewer components are not worth another trial."""
        if self.reached is None:
            return False
        if self.missed is None:
            return self.ended or self.reached.n_components <= self._fewest()
        return self.ended or self.reached.n_components <= EXCESS * max(self.missed.n_components, self._fewest())

    def _fewest(self) -> int:
        return max(1, FIRST // 8)

    def _next(self) -> int:
        """Return the number of components to try next."""
        if self.reached is not None:
            low = self.missed.n_components if self.missed is not None else self._fewest() / 2
            guess = math.sqrt(low * self.reached.n_components)
            if self.missed is not None:
                guess = min(max(self._needed(), EXCESS**0.5 * low), self.reached.n_components / EXCESS**0.5)
            return max(1, round(guess))
        assert self.missed is not None
        most = min(GROWTH * self.missed.n_components, self.limits.most_components)
        return max(self.missed.n_components + 1, round(min(max(self._needed(), self.missed.n_components * 1.1), most)))

    def _needed(self) -> float:
        """Return the number of components for which the extrapolated upper bound is below the tolerance."""
        found = self.trials.of(self.candidate)
        last = found[-1] if self.missed is None else self.missed
        slope = _slope([t for t in found if t.n_components <= last.n_components], self._log_upper, SLOPE)
        if self.reached is not None and self.missed is not None:
            slope = _slope([self.missed, self.reached], self._log_upper, SLOPE)
        exponent = min(math.log(max(last.upper, 1e-300) / (AIM * self.tol)) / slope, 50.0)
        return last.n_components * math.exp(exponent)

    @staticmethod
    def _log_upper(trial: Trial) -> float:
        return math.log(max(trial.upper, 1e-300))

    def promised_cost(self, remaining: float = math.inf) -> float:
        """Return the cost of a row that this candidate has or promises; infinite if it cannot reach the tolerance.

        It cannot reach it either if the next trial would take longer than the seconds that remain.
        """
        if self.reached is not None and (self.ended or self.settled):
            return self.reached.row_seconds
        if self.ended:
            return math.inf
        if _seconds_at(self.trials, self.candidate, self.limits, self._next()) > remaining:
            self.ended = True  # the time that remains never increases
            return math.inf if self.reached is None else self.reached.row_seconds
        if self.reached is not None:
            return min(self._cost(self._next()), self.reached.row_seconds)
        assert self.missed is not None
        if self.missed.n_components >= self.limits.most_components:
            return math.inf
        return self._cost(max(self._needed(), self.missed.n_components))

    def _cost(self, n_components: float) -> float:
        found = self.trials.of(self.candidate)
        last = found[-1]
        power = -_slope(found, lambda trial: math.log(trial.row_seconds), -1.0, -2.0, 0.0)
        return last.row_seconds * (n_components / last.n_components) ** power

    def advance(self) -> None:
        """Try another number of components."""
        before = self.reached
        self._try(self._next())
        if before is not None and self.ended:
            self.reached = before


def _seconds_at(trials: Trials, candidate: Candidate, limits: Limits, n_components: int) -> float:
    """Return the extrapolated time of the fit of a candidate that has been tried, and of the features of all rows."""
    found = trials.of(candidate)
    factor = n_components / found[-1].n_components
    fit_power = -_slope(found, lambda t: math.log(max(t.trial_seconds, 1e-6)), -2.0, -3.0, -2.0)
    row_power = -_slope(found, lambda t: math.log(max(t.row_seconds, 1e-12)), -1.0, -2.0, 0.0)
    return found[-1].trial_seconds * factor**fit_power + limits.n_rows * found[-1].row_seconds * factor**row_power


def _slope(
    trials: Sequence[Trial],
    log_value: Callable[[Trial], float],
    default: float,
    least: float = LEAST_SLOPE,
    most: float = MOST_SLOPE,
) -> float:
    """Return the exponent s of values C D^-s, from the last two trials."""
    if len(trials) < 2:
        return default
    first, last = trials[-2:]
    if first.n_components == last.n_components:
        return default
    slope = (log_value(first) - log_value(last)) / math.log(last.n_components / first.n_components)
    return min(max(slope, least), most)


# ---- within a time or a memory ----------------------------------------------------------------


def best_within(trials: Trials, candidates: Sequence[Candidate], limits: Limits) -> tuple[Trial | None, bool]:
    """Return the trial of least error that is found within the limits, and whether it keeps them.

    If the first trials take all of the time, the fastest one is returned.

    The time of the search counts. Each candidate is tried with few components first. From then on, the candidate is
    tried next that would have the least error with as many components as the remaining time and memory allow, and the
    number of components grows by at most a factor of four, so that the last trial takes most of the time.
    """
    if math.isinf(limits.seconds):
        return _best_in_memory(trials, candidates, limits), True
    start = trials.clock()

    def remaining() -> float:
        return limits.seconds * PLANNED - (trials.clock() - start)

    tried: list[Candidate] = []
    for candidate in sorted(candidates, key=lambda candidate: not candidate.prototype.built_from_rows):
        # Landmarks first: they are the best map most often.
        if tried and remaining() <= 0.5 * limits.seconds:
            break  # the first trials alone take too long
        trials.run(candidate, limits.first_components)
        tried.append(candidate)
    ended: set[str] = set()
    while True:
        plans = [plan for c in tried if c.name not in ended and (plan := _plan(trials, c, limits, remaining()))]
        # A fit that took longer than planned leaves a little time for the features of all rows nevertheless.
        best = _best_allowed(trials, limits, max(remaining(), OVERTIME * limits.seconds))
        if best is None and not plans:
            found = [t for c in tried for t in trials.of(c) if limits.bytes_of(t) <= limits.n_bytes]
            return min(found, key=lambda trial: trial.row_seconds, default=None), False
        plans = [plan for plan in plans if best is None or plan.error < best.error]
        if not plans:
            return best, True
        plan = min(plans, key=lambda plan: plan.error)
        before = trials.of(plan.candidate)[-1].n_components
        trial = trials.run(plan.candidate, plan.n_components)
        if trial.feature_map is None or trial.n_components <= before or limits.bytes_of(trial) > limits.n_bytes:
            ended.add(plan.candidate.name)


def _best_in_memory(trials: Trials, candidates: Sequence[Candidate], limits: Limits) -> Trial | None:
    """Return the trial of least error if each candidate has as many components as the memory allows."""
    for candidate in candidates:
        first = trials.run(candidate, limits.first_components)
        plan = _plan(trials, candidate, limits, math.inf, growth=math.inf)
        if plan is not None and limits.bytes_of(first) <= limits.n_bytes:
            trials.run(candidate, plan.n_components)
    return _best_allowed(trials, limits, math.inf)


def _best_allowed(trials: Trials, limits: Limits, remaining: float) -> Trial | None:
    allowed = [
        trial for trial in trials.done.values() if trial.feature_map is not None and limits.allow(trial, remaining)
    ]
    return min(allowed, key=lambda trial: trial.error, default=None)


@dataclass(frozen=True)
class Plan:
    """The next trial of a candidate, and the error that it promises with as many components as the limits allow."""

    candidate: Candidate
    n_components: int
    error: float


def _plan(
    trials: Trials, candidate: Candidate, limits: Limits, remaining: float, growth: float = GROWTH
) -> Plan | None:
    """Return the next trial of a candidate, or None if the limits allow no more components than those tried."""
    found = trials.of(candidate)
    if not found:
        return None
    last = found[-1]

    def fits(n_components: int) -> bool:
        n_bytes = last.n_bytes * (n_components / last.n_components) ** 2 + limits.row_bytes(n_components)
        in_time = math.isinf(limits.seconds) or _seconds_at(trials, candidate, limits, n_components) <= remaining
        return in_time and n_bytes <= limits.n_bytes

    low, high = last.n_components, limits.most_components
    if high <= low or not fits(low + 1):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    most = high if fits(high) else low
    slope = _slope(found, lambda t: math.log(max(t.error, 1e-300)), SLOPE)
    promised = last.error * (most / last.n_components) ** -slope
    return Plan(candidate, round(min(growth * last.n_components, most)), promised)
