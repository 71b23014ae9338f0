"""Frozen dataclasses that hold the results of the demo."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mercer.diagnostics.audit import Audit
from mercer.diagnostics.environment import Environment

__all__ = ["Bin", "Contender", "Demo", "ErrorCurve", "Mistake", "Pairs", "PenaltyPath", "Race", "Runner", "Split"]


@dataclass(frozen=True)
class Split:
    """Name of the data, and its numbers of training rows, test rows, features and classes."""

    data: str
    n_train: int
    n_test: int
    n_features: int
    n_classes: int


@dataclass(frozen=True)
class Pairs:
    """Exact kernel values of a sample of pairs of test rows, and the errors of the approximation by a map.

    `deviation` is the predicted standard deviation of each error over the random parameters of the map, or None if
    there is no closed form for it.
    """

    exact: tuple[float, ...]
    error: tuple[float, ...]
    deviation: tuple[float, ...] | None


@dataclass(frozen=True)
class Contender:
    """Measurements of one feature map with its classifier.

    Attributes
    ----------
    name, library, classifier : str
        Names of the map, of the library it belongs to, and of the classifier.
    accuracy : float
        Fraction of test rows that are classified correctly.
    accuracy_error : float
        Binomial standard error of `accuracy`.
    alpha : float
        Penalty of the classifier, selected on the training rows.
    audit : Audit
        Error of the kernel, measured on pairs of test rows.
    fit_seconds, fit_seconds_slowest : float
        Shortest and longest time to fit the map and the classifier on the training rows, on one thread.
    transform_seconds : float
        Shortest time to transform all training and test rows, on one thread.
    peak_bytes : int
        Peak memory during a fit, as measured by tracemalloc.
    pairs : Pairs
        Kernel values and errors of a sample of pairs of test rows, for a figure.
    """

    name: str
    library: str
    classifier: str
    accuracy: float
    accuracy_error: float
    alpha: float
    audit: Audit
    fit_seconds: float
    fit_seconds_slowest: float
    transform_seconds: float
    peak_bytes: int
    pairs: Pairs

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary of built-in types, without the pairs, which are only for the figure."""
        return {key: value for key, value in asdict(self).items() if key != "pairs"}


@dataclass(frozen=True)
class ErrorCurve:
    """Measured kernel errors (RMSE) of one map for several widths (numbers of components) and seeds.

    `predicted` has the predicted error for each width, or is None if the variance of the map has no closed form.
    """

    name: str
    widths: tuple[int, ...]
    rmse: tuple[tuple[float, ...], ...]  # one tuple per width, with one error per seed
    predicted: tuple[float, ...] | None


@dataclass(frozen=True)
class PenaltyPath:
    """Penalties that a classifier tried, each with its generalized cross-validation score and degrees of freedom.

    A score of None means infinity. `alpha` is the selected penalty.
    """

    alphas: tuple[float, ...]
    scores: tuple[float | None, ...]
    degrees: tuple[float, ...]
    alpha: float


@dataclass(frozen=True)
class Bin:
    """One bin of a reliability diagram, for the predicted probabilities in one fifth of [0, 1].

    It holds the number and the mean of these probabilities, the observed frequency of the labels, and a 95 % confidence
    interval for that frequency.
    """

    count: int
    predicted: float
    observed: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Mistake:
    """A misclassified test row, with its true label, its predicted label and the probability of the predicted label.

    `pixels` are the 8 x 8 pixels of the image, row by row, with values from 0 to 16.
    """

    pixels: tuple[int, ...]
    label: int
    predicted: int
    probability: float


@dataclass(frozen=True)
class Runner:
    """One model of a race.

    Attributes
    ----------
    name, library : str
        Names of the model and of its library.
    score : float
        Accuracy, or R2, on the test rows.
    error : float
        Standard error of `score`.
    fit_seconds : float
        Time of the fit.
    rows_per_second : float
        Number of test rows that are predicted per second.
    explanation : str or None
        What a model of mercer has chosen.
    """

    name: str
    library: str
    score: float
    error: float
    fit_seconds: float
    rows_per_second: float
    explanation: str | None


@dataclass(frozen=True)
class Race:
    """Models without arguments on one data set: its name, what scores are ("accuracy" or "R2"), and its size."""

    data: str
    kind: str
    n_train: int
    n_test: int
    n_features: int
    runners: tuple[Runner, ...]


@dataclass(frozen=True)
class Demo:
    """All results of the demo.

    Attributes
    ----------
    n_components : int
        Number of components of every map.
    random_state : int
        Seed of the split into training and test rows, of the maps, and of the samples of pairs.
    kernel : str
        The kernel that all maps approximate.
    lengthscale : float
        Lengthscale of the kernel, which is the median distance of training rows.
    split : Split
        Name and size of the data.
    contenders : tuple of Contender
        Measurements of each feature map with its classifier, in the order of the table.
    chosen : str
        Name of the contender, among those of mercer, with the lowest score of generalized cross-validation on the
        training rows.
    curves : tuple of ErrorCurve
        Kernel errors of each map of mercer for several numbers of components.
    path : PenaltyPath
        Penalties and scores of the chosen contender.
    reliability : tuple of Bin
        Calibration of the probabilities that the chosen contender predicts, for all labels of all test rows.
    mistakes : tuple of Mistake
        At most 12 misclassified test rows of the chosen contender, in decreasing order of confidence.
    races : tuple of Race
        Models without arguments, on several data sets.
    environment : Environment
        Versions, compiled kernels and threads of the process.
    seconds : float
        Total wall-clock time.
    """

    n_components: int
    random_state: int
    kernel: str
    lengthscale: float
    split: Split
    contenders: tuple[Contender, ...]
    chosen: str
    curves: tuple[ErrorCurve, ...]
    path: PenaltyPath
    reliability: tuple[Bin, ...]
    mistakes: tuple[Mistake, ...]
    races: tuple[Race, ...]
    environment: Environment
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the results as a dictionary of built-in types.

        The pixels of mistakes and the sampled pairs, which are only for figures, are omitted.
        """
        plain = asdict(self)
        plain["contenders"] = [contender.to_dict() for contender in self.contenders]
        plain["environment"] = self.environment.to_dict()
        for mistake in plain["mistakes"]:
            del mistake["pixels"]
        return plain
