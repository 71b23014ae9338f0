"""A monitor of a stream of rows, whose probability of ever raising a false alarm is bounded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.engines import Block, Report, reported, stages_of
from mercer.engines.base import workers
from mercer.errors import DataError
from mercer.features import features_of
from mercer.hypothesis_tests.frequencies import SharedFrequencies, pooled_rows, shared_frequencies
from mercer.hypothesis_tests.groups import check_same_names, combine_scales, sample_engine
from mercer.parameters import Integer, Interval, check_parameter
from mercer.statistics.sample import RowSample, seed_of, stack

__all__ = ["DriftMonitor", "DriftState"]

Array = np.ndarray
# Number of components, and of rows that are used for the scales and lengthscales only.
N_COMPONENTS, FEATURE_ROWS = 400, 2000
# Bounds of the number of rows per group, and the largest number of stored groups and of groups of a batch.
MOST_ROWS_PER_GROUP, MOST_GROUPS, MOST_BATCH_GROUPS = 16, 1500, 1000
# Number of groups of the reference that is aimed at.
AIM_GROUPS = 1000
# Exponents of the bets k p^(k - 1): small ones gain by few small p-values, large ones by many that are slightly small.
BETS = np.array([0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.85])
# Differences of scores up to this number are ties.
TIE = 1e-9


@dataclass(frozen=True)
class DriftState:
    """What is known after a batch of a stream; see `DriftMonitor`.

    Attributes
    ----------
    batch : int
        Number of batches so far.
    rows : int
        Number of rows so far.
    p_value : float
        Of this batch, compared with the reference and all earlier batches; 1 if the batch was too small to be tested
        and is added to the next one. Without drift, the p-values of different batches are independent and uniform.
    evidence : float
        Evidence against the absence of drift so far: a factor by which a fair bet would have multiplied its stake.
    alarm : bool
        Whether the evidence has ever reached 1 / alpha.
    first_alarm : int or None
        Number of the batch of the first alarm.
    """

    batch: int
    rows: int
    p_value: float
    evidence: float
    alarm: bool
    first_alarm: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the state as plain Python values."""
        return {
            "batch": self.batch,
            "rows": self.rows,
            "p_value": self.p_value,
            "evidence": self.evidence,
            "alarm": self.alarm,
            "first_alarm": self.first_alarm,
        }

    def __repr__(self) -> str:
        what = f"ALARM since batch {self.first_alarm}" if self.alarm else "no alarm"
        return f"batch {self.batch}: {what}, evidence {self.evidence:.3g}, p = {self.p_value:.3g}; {self.rows:,} rows"


class DriftMonitor:
    r"""Compare a stream of rows with a reference, batch by batch, with a bounded probability of any false alarm.

    If the rows of the stream are drawn independently from the distribution of the reference, the probability that the
    monitor ever raises an alarm is at most `alpha`, however long it runs, whatever the distribution and the sizes of
    the batches. This is exact, not asymptotic.

    Parameters
    ----------
    reference : array-like or CSR, data frame, iterable of blocks, result of `open_rows`, or Dask collection
        Rows without drift, at least 40. Of a large reference, a random sample is used, of at most 26,000 rows.
    alpha : float, default=0.05
        Bound on the probability of a false alarm over the complete run.
    transform : callable or None, default=None
        Function that is applied to rows first, such as the `transform` of a fitted vectorizer of documents. It must
        return numbers, one row per row.
    n_permutations : int, default=999
        Number B of permutations per batch. With fewer than about 999, no single batch can raise an alarm at 0.05.
    n_jobs : int or None, default=None
        Number of threads that read the reference; None means all cores.
    random_state : int, Generator, RandomState or None, default=None
        Seed of frequencies, groups and permutations.
    progress : bool or callable, default=False
        Progress of reading the reference.

    Attributes
    ----------
    history_ : list of DriftState
        The states after all batches so far.
    rows_per_group_ : int
        Rows are tested in groups of this size; rows that fill no group wait for the next batch.

    See Also
    --------
    mmd_test : One comparison of two samples.

    Notes
    -----
    A part of the reference determines the features and is not used again. All other rows are divided at random into
    groups. The groups of a batch are compared with those of the reference and of all earlier batches by a permutation
    test over ten kernels. The p-values, with ties broken at random, are ranks in a growing exchangeable sequence, so
    that without drift they are independent and uniform [1]_. Bets :math:`k p^{k-1}` on small p-values, averaged over
    exponents k, multiply to a martingale for each possible start s of the drift; their mean with weights
    1 / (s (s + 1)) is a martingale with mean one, and reaches 1 / alpha with a probability of at most alpha by Ville's
    inequality [2]_. Old groups are removed at random if there are more than 1500, so that memory is bounded.

    Since batches join the reference, a monitor gets used to a new distribution in the long run; the alarm remains. A
    time series whose rows depend on each other is not exchangeable, and may raise an alarm without drift.

    References
    ----------
    .. [1] Vovk, Gammerman, Shafer (2005), Algorithmic learning in a random world, Springer.
    .. [2] Ramdas, Gruenwald, Vovk, Shafer (2023), Game-theoretic statistics and safe anytime-valid inference,
       Statistical Science.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import DriftMonitor
    >>> rng = np.random.default_rng(0)
    >>> monitor = DriftMonitor(rng.normal(size=(1000, 3)), random_state=0)
    >>> any(monitor.update(rng.normal(size=(100, 3))).alarm for _ in range(5))
    False
    >>> any(monitor.update(rng.normal(size=(100, 3)) + [0.7, 0, 0]).alarm for _ in range(5))
    True
    """

    def __init__(
        self,
        reference: Any,
        *,
        alpha: float = 0.05,
        transform: Callable[[Any], Any] | None = None,
        n_permutations: int = 999,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Report = False,
    ) -> None:
        check_parameter("DriftMonitor", "alpha", alpha, Interval(0, 1, closed="neither"))
        check_parameter("DriftMonitor", "n_permutations", n_permutations, Integer(1))
        self.alpha = alpha
        self.n_permutations = n_permutations
        self._transform = transform
        self._rng = np.random.default_rng(seed_of(random_state, "drift"))
        engine, self._names = sample_engine("DriftMonitor: reference", reference, n_jobs=n_jobs, transform=transform)
        report = stages_of("DriftMonitor", progress)
        with reported(report):
            drawn = engine.sum(
                _Draw(FEATURE_ROWS + MOST_ROWS_PER_GROUP * MOST_GROUPS, int(self._rng.integers(2**62))), report
            )
        n = len(drawn.key)
        if n < 40:
            msg = f"DriftMonitor: reference must have at least 40 rows, got {n}."
            raise DataError(msg)
        X = drawn.X[self._rng.permutation(n)]
        first = min(FEATURE_ROWS, n // 4)
        # These rows are never permuted: features may depend on them only if the test is to be exact.
        self._features = _frequencies(X[:first], self._rng)
        self.n_features_in_ = X.shape[1]
        self.rows_per_group_ = int(np.clip((n - first) // AIM_GROUPS, 1, MOST_ROWS_PER_GROUP))
        self._groups, _ = self._grouped(X[first:])
        self._groups = self._groups[:MOST_GROUPS]
        self._waiting: Any = None
        self._rows = 0
        self._capital = np.zeros(len(BETS))
        self._first_alarm: int | None = None
        self._tests = 0
        self.history_: list[DriftState] = []

    @property
    def state_(self) -> DriftState:
        """The state after the latest batch."""
        if not self.history_:
            return DriftState(0, 0, 1.0, 1.0, False)
        return self.history_[-1]

    def update(self, batch: Any) -> DriftState:
        """Compare the next rows of the stream with the reference and all earlier rows.

        Parameters
        ----------
        batch : array-like or CSR of shape (m, d), or data frame
            The next rows, any number of them.

        Returns
        -------
        DriftState
        """
        engine, names = sample_engine("DriftMonitor: batch", batch, n_jobs=1, transform=self._transform)
        check_same_names("DriftMonitor", self._names, names)
        X = engine.sum(_rows_of).X
        if X.shape[1] != self.n_features_in_:
            msg = (
                f"DriftMonitor: the batch must have the {self.n_features_in_} features of the reference, "
                f"got {X.shape[1]}."
            )
            raise DataError(msg)
        self._rows += X.shape[0]
        if self._waiting is not None and self._waiting.shape[0]:
            X = stack(self._waiting, X)
        groups, self._waiting = self._grouped(X[self._rng.permutation(X.shape[0])])
        p_value = 1.0
        if len(groups):
            p_value = self._test(groups[:MOST_BATCH_GROUPS])
            self._bet(p_value)
        # Capital of drifts that would start later is not bet yet: sum over s > t of 1 / (s (s + 1)).
        evidence = float(self._capital.mean()) + 1 / (self._tests + 1)
        number = len(self.history_) + 1
        if self._first_alarm is None and evidence >= 1 / self.alpha:
            self._first_alarm = number
        state = DriftState(number, self._rows, p_value, evidence, self._first_alarm is not None, self._first_alarm)
        self.history_.append(state)
        return state

    def plot(self) -> Any:
        """Return a Matplotlib figure of the evidence and of the p-values over time.

        Returns
        -------
        matplotlib.figure.Figure
            It has a method ``savefig(path)``.
        """
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4), layout="constrained")
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
        batches = [s.batch for s in self.history_]
        top.plot(batches, [s.evidence for s in self.history_], drawstyle="steps-post")
        top.axhline(1 / self.alpha, color="C3", linestyle="--", label=f"alarm at {1 / self.alpha:.3g}")
        top.set(yscale="log", ylabel="evidence of drift")
        top.legend(frameon=False)
        bottom.plot(batches, [s.p_value for s in self.history_], ".", color="0.3")
        bottom.set(yscale="log", xlabel="batch", ylabel="p-value")
        return figure

    def __repr__(self) -> str:
        return f"DriftMonitor(alpha={self.alpha:g}): {self.state_!r}"

    def _grouped(self, X: Any) -> tuple[Array, Any]:
        """Return the mean features of groups of consecutive rows, and the rows that fill no group."""
        s = self.rows_per_group_
        count = X.shape[0] // s
        used = X[: count * s]
        features = self._features.astype(X.dtype)
        means = np.empty((count, features.n_components))
        for start in range(0, count, 512):
            Z = features_of(features, used[start * s : (start + 512) * s]).astype(np.float64, copy=False)
            means[start : start + 512] = Z.reshape(-1, s, Z.shape[1]).mean(axis=1)
        return means, X[count * s :]

    def _test(self, batch: Array) -> float:
        """Return the p-value of groups against the stored ones, with random ties, and store them."""
        rng, g = self._rng, len(batch)
        groups = np.concatenate([batch, self._groups])
        total = groups.sum(axis=0)
        chosen = np.zeros((1 + self.n_permutations, len(groups)))
        chosen[:, :g] = 1.0
        rng.permuted(chosen[1:], axis=1, out=chosen[1:])
        with workers(1):
            inside = chosen @ groups
            differences = inside / g - (total - inside) / (len(groups) - g)
            M = self._features.statistics(differences)
        scores = combine_scales(M, self._features.collection.mean_squares, rule="largest").scores
        margin = TIE * (1 + abs(float(scores[0])))
        larger = int(np.count_nonzero(scores > scores[0] + margin))
        equal = int(np.count_nonzero(np.abs(scores - scores[0]) <= margin))
        # A random subset of exchangeable groups is exchangeable, so that removing groups does not affect the level.
        keep = rng.permutation(len(groups))[:MOST_GROUPS]
        self._groups = groups[keep]
        return (larger + float(rng.random()) * equal) / len(scores)

    def _bet(self, p_value: float) -> None:
        """Multiply the capital by the payoff of the bets, and start the bets on a drift from this batch on."""
        self._tests += 1
        start = 1 / (self._tests * (self._tests + 1))
        payoff = BETS * max(p_value, 1e-12) ** (BETS - 1)
        self._capital = (self._capital + start) * payoff


@dataclass(frozen=True)
class _Draw:
    """Function of a block that returns a random sample of its rows."""

    size: int
    seed: int

    def __call__(self, block: Block) -> RowSample:
        return RowSample.of(block, size=self.size, seed=self.seed)


@dataclass(frozen=True)
class _Rows:
    """All rows of a batch; a value that supports ``+``."""

    X: Any

    def __add__(self, other: _Rows) -> _Rows:
        return _Rows(stack(self.X, other.X))


def _rows_of(block: Block) -> _Rows:
    return _Rows(block.X)


def _frequencies(X: Any, rng: np.random.Generator) -> SharedFrequencies:
    """Return features for ten kernels, from rows."""
    engine, _ = sample_engine("DriftMonitor: reference", X, n_jobs=1)
    pool = pooled_rows(engine, int(rng.integers(2**62)))
    return shared_frequencies(pool, rng, n_components=N_COMPONENTS, keep_constant=True)
