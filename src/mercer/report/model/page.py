"""The report of a fitted model as one self-contained HTML page, without scripts, external fonts or network access."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from mercer.diagnostics.fits.results import FitResult
from mercer.errors import DataError
from mercer.errors.packages import optional_module
from mercer.report.model import sentences, summaries
from mercer.report.numbers import count, percent, significant
from mercer.report.templates import NEEDED, render

__all__ = ["model_page"]

# Numbers of rows of tables.
SHOWN_COLUMNS, SHOWN_LABELS, SHOWN_TRIALS, SHOWN_CELLS = 20, 12, 10, 30


@dataclass(frozen=True)
class Picture:
    """A figure with its title, the sentence below it and its alternative text."""

    title: str
    text: str
    alt: str
    svg: Any


def model_page(result: FitResult) -> str:
    """Return the report of a fitted model as an HTML page.

    The page needs nothing but itself: styles and figures are parts of it, and it contains no scripts. It has light and
    dark colors, fits phones and paper, and equal results give equal bytes.

    Parameters
    ----------
    result : FitResult
        The result of `mercer.workflows.fit_file`. Parts that are empty or None are left out.

    Returns
    -------
    str
        HTML. All values are escaped, except for the SVG figures, which mercer itself generates.
    """
    for package in NEEDED:
        optional_module(package, "model_page", "'mercer[report]'")
    if not result.contenders or not result.contenders[0].scores:
        msg = "model_page: contenders must contain the model with at least one score, got none."
        raise DataError(msg)
    ranked = summaries.ranked(result.importances)
    shares: list[summaries.LabelShares] = []
    mistakes: list[summaries.Confusion] = []
    if result.confusion and result.classes:
        shares = summaries.label_shares(result.confusion, result.classes)
        mistakes = summaries.frequent_confusions(result.confusion, result.classes)
    trials = sorted(result.trials, key=lambda one: (-float(one.get("weight") or 0.0), float(one.get("loss", np.inf))))
    stages = {name: value for name, value in result.timings.items() if name != "total"}
    return _unbroken(
        render(
            "model.html.j2",
            result=result,
            sentences=sentences,
            score_names=_score_names(result),
            scores=_picture_of_scores(result),
            pictures=_pictures(result),
            ranked=ranked[:SHOWN_COLUMNS],
            other_columns=ranked[SHOWN_COLUMNS:],
            largest=_largest(ranked),
            label_shares=shares[:SHOWN_LABELS],
            label_text=sentences.labels(shares),
            confused=mistakes if len(shares) > 3 else [],
            kernel=_picture_of_kernel(result),
            trials=trials[:SHOWN_TRIALS],
            n_trials=len(trials),
            special=[one for one in result.columns if one.missing or one.note or one.kind != "number"][:SHOWN_CELLS],
            n_special=sum(bool(one.missing or one.note or one.kind != "number") for one in result.columns),
            stages=stages,
            # A page is sent to others, whom the folders of the author do not concern.
            model_file=None if result.model_path is None else PurePath(result.model_path).name,
            total=result.timings.get("total", sum(stages.values())),
            slowest=max(stages.values(), default=0.0),
        )
    )


def _unbroken(page: str) -> str:
    """Return a page in which a number and the percent sign after it stay on one line."""
    return page.replace(" %", "\N{NO-BREAK SPACE}%").replace("{\N{NO-BREAK SPACE}%", "{ %")


def _score_names(result: FitResult) -> list[str]:
    """Return the names of all scores, in the order of their first appearance."""
    return list(dict.fromkeys(score.name for one in result.contenders for score in one.scores))


def _largest(ranked: list[Any]) -> dict[str, float]:
    """Return what the longest bars are for: the largest decrease of the score and the largest share of the metric."""
    return {
        "permutation": max([0.0, *(one.permutation or 0.0 for one in ranked)]) or 1.0,
        "metric": max([0.0, *(one.metric or 0.0 for one in ranked)]) or 1.0,
    }


def _picture_of_scores(result: FitResult) -> Picture:
    from mercer.report.model import figures

    some = [one for one in result.contenders if one.scores and np.isfinite(one.scores[0].value)]
    svg = _markup(figures.contenders(some)) if some else ""
    return Picture("", "", sentences.described_scores(result), svg)


def _picture_of_kernel(result: FitResult) -> Picture | None:
    from mercer.report.model import figures

    audit = result.audit
    if audit is None:
        return None
    svg = _markup(figures.kernel_errors(audit)) if audit.widths else ""
    return Picture("Kernel error by number of components", "", sentences.described_kernel(audit), svg)


def _pictures(result: FitResult) -> list[Picture]:
    """Return the figures of predictions: of numbers or of labels, and the learning curve."""
    from mercer.report.model import figures

    found = _of_numbers(result) if result.task == "regression" else _of_labels(result)
    if len(result.curve) > 1:
        svg = figures.learning_curve(result.curve, result.headline)
        found.append(
            Picture("Learning curve", sentences.curve(result), sentences.described_curve(result), _markup(svg))
        )
    return found


def _of_numbers(result: FitResult) -> list[Picture]:
    from mercer.report.model import figures

    true, predicted = np.asarray(result.test_true, float), np.asarray(result.test_predicted, float)
    if len(true) == 0:
        return []
    bands = summaries.residual_quantiles(true, predicted)
    errors = np.abs(true - predicted)
    found = [
        Picture(
            "Predictions and true values",
            sentences.spread(result),
            f"Scatter plot of {count(len(true))} test rows: predictions against true values from "
            f"{significant(float(true.min()))} to {significant(float(true.max()))}.",
            _markup(figures.predicted_by_true(true, predicted)),
        ),
        Picture(
            "Residuals",
            sentences.residuals(bands),
            f"Scatter plot of residuals against predictions; the largest absolute residual is "
            f"{significant(float(errors.max()))}, the median {significant(float(np.median(errors)))}.",
            _markup(figures.residuals(true, predicted, bands)),
        ),
    ]
    if result.test_std is not None:
        groups = summaries.error_bars(true, predicted, np.asarray(result.test_std, float))
        if len(groups) > 1:
            points = [f"{significant(one.predicted)} and {significant(one.measured)}" for one in groups]
            found.append(
                Picture(
                    "Error bars",
                    sentences.error_bars(result, groups),
                    f"Predicted standard deviations and measured errors of {len(groups)} groups of rows: "
                    f"{'; '.join(points)}.",
                    _markup(figures.error_bars(groups)),
                )
            )
    return found


def _of_labels(result: FitResult) -> list[Picture]:
    from mercer.report.model import figures

    found = []
    if result.reliability:
        points = [
            f"predicted {percent(one.predicted)}, correct {percent(one.observed)} of {count(one.count)}"
            for one in result.reliability
        ]
        svg = _markup(figures.reliability(result.reliability))
        alt = f"Reliability diagram: {'; '.join(points)}."
        found.append(Picture("Calibration of the probabilities", sentences.calibration(result), alt, svg))
    if result.confusion and result.classes and len(result.classes) <= figures.MOST_CELLS:
        most = summaries.frequent_confusions(result.confusion, result.classes, 3)
        named = [f"{one.true} taken for {one.predicted}, {count(one.count)} rows" for one in most]
        text = (
            "Rows are true labels, columns predicted ones. Cells of the diagonal are correct, the others mistakes: the "
            "stronger the color, the larger the share of the rows of that label."
        )
        alt = f"Confusion matrix of {len(result.classes)} labels. Most frequent mistakes: {'; '.join(named) or 'none'}."
        svg = _markup(figures.confusion(result.confusion, result.classes))
        found.append(Picture("Confusion of labels", text, alt, svg))
    return found


def _markup(svg: str) -> Any:
    from markupsafe import Markup

    return Markup(svg)
