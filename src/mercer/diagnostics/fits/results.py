"""Results of a fit: plain values, which pages are drawn from and which are printed as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

import numpy as np

__all__ = [
    "ColumnImportance",
    "ColumnSummary",
    "Contender",
    "CurvePoint",
    "FitResult",
    "MapAudit",
    "ReliabilityBin",
    "Score",
    "WidthPoint",
]

Array = np.ndarray


def json_value(value: Any) -> Any:
    """Return a value as built-in types that the standard module ``json`` writes; numbers that are not finite are None.

    Examples
    --------
    >>> json_value({"scores": (Score("R2", 0.5, 0.4, float("nan"), 0.95),)})
    {'scores': [{'name': 'R2', 'value': 0.5, 'low': 0.4, 'high': None, 'level': 0.95}]}
    """
    if isinstance(value, np.generic):
        value = value.item()
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: json_value(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): json_value(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        return json_value(value.tolist())
    if isinstance(value, list | tuple):
        return [json_value(one) for one in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if value is None or isinstance(value, bool | int | str):
        return value
    return str(value)


class Result:
    """Base class of results, which are frozen dataclasses of plain values."""

    def to_dict(self) -> dict[str, Any]:
        """Return the result as a dictionary that can be written as JSON."""
        return json_value(self)


@dataclass(frozen=True)
class Score(Result):
    """A score of predictions, with an interval over the test rows.

    Attributes
    ----------
    name : str
        What is measured, such as "R2" or "accuracy".
    value : float
        The score of all test rows.
    low, high : float
        Ends of the interval.
    level : float
        Probability with which the interval contains the score of new rows of the same kind.
    """

    name: str
    value: float
    low: float
    high: float
    level: float


@dataclass(frozen=True)
class Contender(Result):
    """A model and what it achieved on the test rows.

    Attributes
    ----------
    name : str
        "mercer", "linear model" or "HistGradientBoosting".
    scores : tuple of Score
        The headline score first.
    fit_seconds, predict_seconds : float
        Time of the fit, and of the predictions of all test rows.
    peak_bytes : int or None
        What the fit added to the resident memory of the process, at its largest.
    note : str
        What differs from the other contenders, for instance that a sample of the rows was used; may be empty.
    difference : Score or None
        Headline score of the first contender minus that of this one, on the same rows; None if it was not computed.
    """

    name: str
    scores: tuple[Score, ...]
    fit_seconds: float
    predict_seconds: float
    peak_bytes: int | None
    note: str
    difference: Score | None = None


@dataclass(frozen=True)
class CurvePoint(Result):
    """A point of a learning curve: the headline score on the test rows after a fit on `n_rows` training rows."""

    n_rows: int
    value: float
    low: float
    high: float
    seconds: float


@dataclass(frozen=True)
class ColumnImportance(Result):
    """How much a column matters.

    Attributes
    ----------
    column : str
        Name of the column.
    metric : float or None
        Share of the column in the squared distances of the learned metric; None if no metric was learned.
    permutation : float or None
        How much worse the headline score is if the column is shuffled over the test rows: the decrease of R2 or of the
        accuracy. None if it was not measured, because the time was over.
    permutation_deviation : float or None
        Standard error of this, over test rows.
    """

    column: str
    metric: float | None
    permutation: float | None
    permutation_deviation: float | None


@dataclass(frozen=True)
class ReliabilityBin(Result):
    """Test rows of similar predicted probability: its mean, and the share of correct labels with an interval."""

    predicted: float
    observed: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class WidthPoint(Result):
    """Kernel error (RMSE) of maps of a number of components: the mean over draws, the least and the largest."""

    width: int
    error: float
    low: float
    high: float


@dataclass(frozen=True)
class MapAudit(Result):
    """Error of the feature map of the best member of the model.

    Attributes
    ----------
    kernel, map_name : str
        The kernel, and the class of the map.
    width : int
        Number of components of the map.
    rmse, low, high : float
        Root mean square error of the approximate kernel over pairs of rows, and an interval.
    widths : tuple of WidthPoint
        The same for other numbers of components.
    note : str
        What the figures do not show; may be empty.
    """

    kernel: str
    map_name: str
    width: int
    rmse: float
    low: float
    high: float
    widths: tuple[WidthPoint, ...]
    note: str


@dataclass(frozen=True)
class ColumnSummary(Result):
    """What the preprocessor did with a column of the table.

    Attributes
    ----------
    name, kind : str
        The column, and what it was read as, such as "number", "category" or "date".
    missing : int
        Number of missing cells of the training rows.
    distinct : int or None
        Number of categories, where they were counted.
    note : str
        What was done, such as "dropped: constant"; may be empty.
    """

    name: str
    kind: str
    missing: int
    distinct: int | None
    note: str


@dataclass(frozen=True, eq=False)
class FitResult(Result):
    """A fitted model, and everything that was measured about it.

    Attributes
    ----------
    task : {"regression", "classification"}
        What was learned.
    source, target : str
        The file, and the name of the column of targets.
    n_rows, n_train, n_test, n_columns : int
        Numbers of rows in the file, of rows for training and testing, and of columns without the target.
    classes : tuple of str or None
        The labels, as text; None for regression.
    split : str
        How the test rows were chosen, as a sentence.
    headline : str
        Name of the headline score.
    contenders : tuple of Contender
        mercer first.
    curve : tuple of CurvePoint
        Learning curve of the model.
    columns : tuple of ColumnSummary
        The columns of the table.
    importances : tuple of ColumnImportance
        How much each column matters.
    trials : tuple of dict
        What was tried, with its loss and weight.
    explanation : str
        What was chosen and why, in about five lines.
    test_true, test_predicted : ndarray
        Targets and predictions of at most 2,000 test rows; labels as strings.
    test_std, test_low, test_high : ndarray or None
        Standard deviations and ends of 90 % intervals of these rows; None for classification.
    coverage : float or None
        Share of all test rows whose target is within its interval.
    reliability : tuple of ReliabilityBin
        Calibration of the probabilities of the predicted labels; empty for regression.
    confusion : tuple of tuple of int or None
        Numbers of test rows by true label (rows) and predicted label (columns); None for regression.
    audit : MapAudit or None
        Error of the feature map; None if there is none to be measured.
    timings : dict of str to float
        Seconds per stage.
    peak_bytes : int
        Peak resident memory of the process.
    command : str
        The command or call.
    random_state : int
        The seed.
    version : str
        Version of mercer.
    environment : dict of str to str
        Versions and processor.
    warnings : tuple of str
        Warnings that were raised.
    model_path : str or None
        The model file, if one was written.
    """

    task: Literal["regression", "classification"]
    source: str
    target: str
    n_rows: int
    n_train: int
    n_test: int
    n_columns: int
    classes: tuple[str, ...] | None
    split: str
    headline: str
    contenders: tuple[Contender, ...]
    curve: tuple[CurvePoint, ...]
    columns: tuple[ColumnSummary, ...]
    importances: tuple[ColumnImportance, ...]
    trials: tuple[dict[str, Any], ...]
    explanation: str
    test_true: Array
    test_predicted: Array
    test_std: Array | None
    test_low: Array | None
    test_high: Array | None
    coverage: float | None
    reliability: tuple[ReliabilityBin, ...]
    confusion: tuple[tuple[int, ...], ...] | None
    audit: MapAudit | None
    timings: dict[str, float]
    peak_bytes: int
    command: str
    random_state: int
    version: str
    environment: dict[str, str]
    warnings: tuple[str, ...] = ()
    model_path: str | None = None
