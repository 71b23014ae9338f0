"""Results of the demo, as frozen dataclasses."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mercer.diagnostics.audit import Audit
from mercer.diagnostics.environment import Environment

__all__ = ["Bin", "Contender", "Demo", "ErrorCurve", "Mistake", "Pairs", "PenaltyPath", "Split"]


@dataclass(frozen=True)
class Split:
    """Numbers of training rows, test rows, features and classes."""

    data: str
    n_train: int
    n_test: int
    n_features: int
    n_classes: int


@dataclass(frozen=True)
class Pairs:
    """Exact kernel values of a sample of pairs of test rows, and the errors of the approximation.

    `deviation` is the predicted standard deviation of the errors over draws of the map, or None.
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
        Names of the map, of the library and of the classifier.
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
        Shortest time to transform all rows, on one thread.
    peak_bytes : int
        Peak memory during a fit, as measured by tracemalloc.
    pairs : Pairs
        Kernel values and errors for the figure.
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
    """Measured errors of one map at several widths and seeds, and the predicted errors, or None."""

    name: str
    widths: tuple[int, ...]
    rmse: tuple[tuple[float, ...], ...]  # one tuple per width, with one error per seed
    predicted: tuple[float, ...] | None


@dataclass(frozen=True)
class PenaltyPath:
    """Scores of generalized cross-validation by penalty; an infinite score is None."""

    alphas: tuple[float, ...]
    scores: tuple[float | None, ...]
    degrees: tuple[float, ...]
    alpha: float


@dataclass(frozen=True)
class Bin:
    """Mean predicted probability in one fifth of [0, 1], and the observed frequency with its 95 % interval."""

    count: int
    predicted: float
    observed: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Mistake:
    """A misclassified test row; its 8 x 8 pixels have values 0 to 16, row by row."""

    pixels: tuple[int, ...]
    label: int
    predicted: int
    probability: float


@dataclass(frozen=True)
class Demo:
    """All results of the demo.

    Attributes
    ----------
    n_components, random_state : int
        Number of components of every map, and the seed of the split, the maps and the samples.
    kernel : str
        The kernel that all maps approximate.
    lengthscale : float
        Its lengthscale, which is the median distance of training rows.
    split : Split
        The data.
    contenders : tuple of Contender
        In the order of the table.
    chosen : str
        Name of the contender of mercer with the lowest score of generalized cross-validation on the training rows.
    curves : tuple of ErrorCurve
        Errors by width.
    path : PenaltyPath
        Penalties of the chosen contender.
    reliability : tuple of Bin
        Calibration of the probabilities of the chosen contender, for all labels of all test rows.
    mistakes : tuple of Mistake
        Misclassified test rows of the chosen contender, in decreasing order of confidence.
    environment : Environment
        Versions, kernels and threads.
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
    environment: Environment
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return the results as a dictionary of built-in types, without the pixels and pairs of the figures."""
        plain = asdict(self)
        plain["contenders"] = [contender.to_dict() for contender in self.contenders]
        plain["environment"] = self.environment.to_dict()
        for mistake in plain["mistakes"]:
            del mistake["pixels"]
        return plain
