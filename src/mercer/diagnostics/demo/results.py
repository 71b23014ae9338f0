"""What the demo measured, as frozen results."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from mercer.diagnostics.audit import Audit
from mercer.diagnostics.environment import Environment

__all__ = ["Bin", "Contender", "Demo", "ErrorCurve", "Mistake", "Pairs", "PenaltyPath", "Split"]


@dataclass(frozen=True)
class Split:
    """The rows: how many to learn from and to judge by, how wide, of how many classes."""

    data: str
    n_train: int
    n_test: int
    n_columns: int
    n_classes: int


@dataclass(frozen=True)
class Pairs:
    """Kernel values of a sample of pairs of test rows: exact, and the error of the approximation.

    `deviation` is the standard deviation of the error over draws that theory predicts, or None.
    """

    exact: tuple[float, ...]
    error: tuple[float, ...]
    deviation: tuple[float, ...] | None


@dataclass(frozen=True)
class Contender:
    """One feature map with its classifier.

    Attributes
    ----------
    name, library, classifier : str
        What was run.
    accuracy : float
        Share of test rows whose label is right.
    accuracy_error : float
        Binomial standard error of `accuracy`.
    alpha : float
        Penalty of the classifier, chosen on the training rows.
    audit : Audit
        Error of the kernel, measured on pairs of test rows.
    fit_seconds, fit_seconds_slowest : float
        Best and worst time to fit map and classifier on the training rows, on one thread.
    transform_seconds : float
        Best time to map all rows, on one thread.
    peak_bytes : int
        Most memory held at once during a fit, as tracemalloc counts it.
    pairs : Pairs
        Kernel values to draw.
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
        """Return the result as plain Python values, without the pairs that are only drawn."""
        return {key: value for key, value in asdict(self).items() if key != "pairs"}


@dataclass(frozen=True)
class ErrorCurve:
    """Measured error of one map at several widths, for several seeds; and what theory predicts, or None."""

    name: str
    widths: tuple[int, ...]
    rmse: tuple[tuple[float, ...], ...]  # one tuple of seeds a width
    predicted: tuple[float, ...] | None


@dataclass(frozen=True)
class PenaltyPath:
    """Generalized cross-validation over penalties; where a score is infinite, it is None."""

    alphas: tuple[float, ...]
    scores: tuple[float | None, ...]
    degrees: tuple[float, ...]
    alpha: float


@dataclass(frozen=True)
class Bin:
    """Predicted probabilities in one fifth of [0, 1], and how often they came true, with a 95 % interval."""

    count: int
    predicted: float
    observed: float
    interval: tuple[float, float]


@dataclass(frozen=True)
class Mistake:
    """A test row that was given the wrong label: its 8 x 8 pixels, 0 to 16, row by row."""

    pixels: tuple[int, ...]
    label: int
    predicted: int
    probability: float


@dataclass(frozen=True)
class Demo:
    """All that the demo measured.

    Attributes
    ----------
    n_components, random_state : int
        Width of every map; seed of everything random.
    kernel : str
        The kernel that all maps approximate.
    lengthscale : float
        Its lengthscale: the median distance of training rows.
    split : Split
        The data.
    contenders : tuple of Contender
        In the order of the table.
    chosen : str
        The contender of mercer with the lowest score of generalized cross-validation: test rows have no say.
    curves : tuple of ErrorCurve
        Error against width.
    path : PenaltyPath
        Of the chosen one.
    reliability : tuple of Bin
        Probabilities of the chosen one, of all labels of all test rows.
    mistakes : tuple of Mistake
        Of the chosen one, the most confident first.
    environment : Environment
        What it ran on.
    seconds : float
        Wall time of all of it.
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
        """Return the result as plain Python values, without pixels and pairs that are only drawn."""
        plain = asdict(self)
        plain["contenders"] = [contender.to_dict() for contender in self.contenders]
        plain["environment"] = self.environment.to_dict()
        for mistake in plain["mistakes"]:
            del mistake["pixels"]
        return plain
