"""Sentences of the page of a fitted model: what each figure shows, what to do, and descriptions of figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mercer.diagnostics.fits.results import Contender, FitResult, MapAudit, Score
from mercer.report.model.summaries import ErrorBars, LabelShares, Quantiles
from mercer.report.numbers import count, of_one, percent, significant

__all__ = [
    "calibration",
    "columns",
    "comparison",
    "curve",
    "described_curve",
    "described_kernel",
    "described_scores",
    "error_bars",
    "few_rows",
    "headline",
    "interval",
    "kernel",
    "labels",
    "residuals",
    "score_text",
    "spread",
]

# With fewer test rows, the page warns of wide intervals.
FEW_ROWS = 100
# More rows are recommended if doubling them removed at least this share of what is missing to a perfect score.
WORTHWHILE = 0.05
# Median residuals of a group of rows are mentioned above this share of the spread of all residuals.
BIASED = 0.25
# A column matters if the score falls by more than this number of standard errors.
STANDARD_ERRORS = 2.0


def score_text(score: Score, value: float | None = None, digits: int = 2) -> str:
    """Return a score, or another value of it, as text: shares as percentages, R2 as a number, errors with 3 digits.

    R2 has `digits` digits of it, as `of_one` has them.
    """
    value = score.value if value is None else value
    if not math.isfinite(value):
        return "not defined"
    if score.name == "accuracy":
        return percent(value, 1 if value < 0.999 or value == 1 else 2)
    return of_one(value, digits) if score.name == "R2" else significant(value)


def interval(score: Score, digits: int = 2) -> str:
    """Return the interval of a score as text, or an empty string if it has none."""
    if not (math.isfinite(score.low) and math.isfinite(score.high)):
        return ""
    low, high = (_end(score, value, digits) for value in (score.low, score.high))
    return f"{low.removesuffix(' %')} to {high}"


def _end(score: Score, value: float, digits: int) -> str:
    """Return one end of an interval with as many digits as the score has."""
    if score.name == "R2":
        return f"{value:.{len(of_one(score.value, digits).partition('.')[2])}f}"
    return score_text(score, value)


def headline(result: FitResult) -> str:
    """Return the main result in one sentence: the score with its interval, and those of the other models."""
    mercer = result.contenders[0]
    score = mercer.scores[0]
    limits = interval(score)
    level = f"{100 * score.level:.0f} % interval {limits}" if limits else "no interval"
    others = [f"{_with_article(one.name)} {_share(one.scores[0])}" for one in result.contenders[1:] if one.scores]
    beside = f", {', '.join(others)}" if others else ""
    if score.name == "accuracy":
        return f"The model labels {score_text(score)} of new rows correctly ({level}){beside}."
    if score.name != "R2" or not math.isfinite(score.value):
        return f"The {score.name} of the model on new rows is {score_text(score)} ({level})."
    if score.value <= 0:
        return f"The model predicts new rows no better than their mean does (R2 {score_text(score)}, {level}){beside}."
    explained = of_one(score.value, as_percent=True)
    return f"The model explains {explained} of the variance of new rows (R2 {score_text(score)}, {level}){beside}."


def _with_article(name: str) -> str:
    return f"a {name}" if name.startswith("linear") else name


def _share(score: Score) -> str:
    if score.name != "R2" or not math.isfinite(score.value):
        return score_text(score)
    return of_one(score.value, as_percent=True) if score.value > 0 else "none of it"


def comparison(result: FitResult) -> str:
    """Return whether the model is better than the best of the others, by their intervals, and what to do if not."""
    mercer, others = result.contenders[0], [one for one in result.contenders[1:] if one.scores]
    sentences = []
    defined = [one for one in others if math.isfinite(one.scores[0].value)]
    if defined and math.isfinite(mercer.scores[0].value):
        best = max(defined, key=lambda one: one.scores[0].value)
        sentences.append(_against(mercer, best, ", the best of the others" if len(defined) > 1 else ""))
    guess = _most_frequent(result)
    if guess is not None:
        label, share = guess
        sentences.append(f"Always predicting the most frequent label, {label}, would be right for {percent(share)}.")
    return " ".join(sentences)


def _small(value: float) -> str:
    """Return a difference with three digits after the point, or with one significant digit if these are zeros."""
    return f"{value:.3f}" if abs(value) >= 5e-4 or value == 0 else f"{value:.1g}"


def _against(mercer: Contender, best: Contender, which: str) -> str:
    ours, theirs, name = mercer.scores[0], best.scores[0], _with_article(best.name)
    by = f"{score_text(ours, digits=3)} and {score_text(theirs, digits=3)}"
    better, worse, how = ours.low > theirs.high, theirs.low > ours.high, "the two intervals do not overlap"
    if best.difference is not None and math.isfinite(best.difference.low):
        low, high = best.difference.low, best.difference.high
        ends = [f"{100 * end:.1f}" if ours.name == "accuracy" else _small(end) for end in (low, high)]
        points = " points" if ours.name == "accuracy" else ""
        better, worse, how = low > 0, high < 0, f"the difference on the same rows is {ends[0]} to {ends[1]}{points}"
    if better:
        return f"It is better than {name}{which} ({by}; {how})."
    if worse:
        advice = "use that one, or raise the time limit of the fit if it had one"
        return f"It is worse than {name}{which} ({by}; {how}): {advice}."
    how = how.replace("do not overlap", "overlap")
    return f"These test rows do not show whether it is better than {name}{which} ({by}; {how})."


def _most_frequent(result: FitResult) -> tuple[str, float] | None:
    if result.confusion is None or result.classes is None:
        return None
    totals = [sum(row) for row in result.confusion]
    if sum(totals) == 0:
        return None
    i = int(np.argmax(totals))
    return f"“{result.classes[i]}”", totals[i] / sum(totals)


def few_rows(result: FitResult) -> str:
    """Return a warning of wide intervals if there are few test rows, or an empty string."""
    if result.n_test >= FEW_ROWS:
        return ""
    return (
        f"There {'is' if result.n_test == 1 else 'are'} only {result.n_test} test "
        f"{'row' if result.n_test == 1 else 'rows'}, so that all scores on this page are uncertain: see the intervals. "
        "For a firmer result, test on more rows."
    )


def described_scores(result: FitResult) -> str:
    """Return the alternative text of the scores of all models."""
    parts = [f"{one.name} {score_text(one.scores[0])} ({interval(one.scores[0])})" for one in result.contenders]
    return f"{result.headline} of test rows with intervals: {'; '.join(parts)}."


def curve(result: FitResult) -> str:
    """Return what the learning curve says about more rows."""
    points, score = result.curve, result.contenders[0].scores[0]
    fits = (
        "The members of the model were fitted again to fewer rows, with the kernels, metrics and weights that were "
        "learned from all rows: with few rows alone, scores would be lower. Bands are intervals over the test rows."
    )
    last, previous = points[-1], points[-2]
    gain = last.value - previous.value
    if not math.isfinite(gain):
        return fits
    change = f"{100 * gain:.1f} points" if score.name == "accuracy" else f"{gain:.3f}"
    grew = f"From {count(previous.n_rows)} to {count(last.n_rows)} rows, {score.name} rose by {change}."
    missing = 1 - last.value
    if gain < -0.25 * max(last.high - last.low, 0.0):
        return f"With all rows the score is lower than with {count(previous.n_rows)}, which is unusual. {fits}"
    if gain <= 0 or (missing > 0 and gain / missing < WORTHWHILE * math.log2(last.n_rows / previous.n_rows)):
        rose = grew if gain > 0 else f"More rows than {count(previous.n_rows)} did not raise {score.name}."
        return f"{rose} More rows of this kind would change little; better columns would. {fits}"
    return f"{grew} The curve still rises: more rows should help. {fits}"


def described_curve(result: FitResult) -> str:
    """Return the alternative text of the learning curve."""
    score = result.contenders[0].scores[0]
    points = [f"{count(one.n_rows)} rows {score_text(score, one.value)}" for one in result.curve]
    return f"Learning curve, {score.name} by number of training rows: {'; '.join(points)}."


def spread(result: FitResult) -> str:
    """Return what predictions against true values show."""
    true, predicted = np.asarray(result.test_true, float), np.asarray(result.test_predicted, float)
    error = np.abs(true - predicted)
    shown = "" if len(true) == result.n_test else f", a sample of {count(len(true))},"
    return (
        f"Each point is a test row{shown} and a perfect model would have all of them on the dashed line. Half of the "
        f"predictions are off by less than {significant(float(np.median(error)))}, nine of ten by less than "
        f"{significant(float(np.quantile(error, 0.9)))}. Look at the rows far from the line: their values may be wrong."
    )


def residuals(bands: Sequence[Quantiles]) -> str:
    """Return whether residuals depend on the prediction."""
    if len(bands) < 2:
        return "What is left of the target after the prediction. There are too few rows to look for a pattern."
    widths = [one.high - one.low for one in bands]
    typical = float(np.median(widths))
    off = max(bands, key=lambda one: abs(one.middle))
    shows = "What is left of the target after the prediction; lines are quantiles in groups of similar predictions."
    if typical > 0 and abs(off.middle) > BIASED * typical:
        side = "low" if off.middle > 0 else "high"
        shows += f" Around a prediction of {significant(off.predicted)}, predictions are systematically too {side}."
    else:
        shows += " Medians are near zero: there is no systematic error."
    if min(widths) > 0 and max(widths) > 2 * min(widths):
        wide = bands[int(np.argmax(widths))]
        shows += (
            f" Errors are not equally large everywhere: they are largest around {significant(wide.predicted)}, where "
            "predictions deserve less trust."
        )
    return shows


def error_bars(result: FitResult, groups: Sequence[ErrorBars]) -> str:
    """Return whether predicted standard deviations and intervals are right."""
    sentences = ["Rows are grouped by the standard deviation that the model predicts; on the dashed line it is right."]
    if result.coverage is not None:
        sentences.append(f"{percent(result.coverage)} of the test rows are within their 90 % intervals: ")
        off = result.coverage - 0.9
        margin = 2 * math.sqrt(0.9 * 0.1 / max(result.n_test, 1)) + 0.01
        if abs(off) <= margin:
            sentences[-1] += "the intervals hold what they promise."
        elif off < 0:
            sentences[-1] += "they are too short, so treat them as lower limits of the uncertainty."
        else:
            sentences[-1] += "they are longer than necessary, on the safe side."
    if len(groups) > 1 and groups[0].predicted > 0 and groups[-1].predicted > 1.2 * groups[0].predicted:
        ratio = groups[-1].measured / groups[0].measured if groups[0].measured > 0 else math.inf
        if ratio > 1.2:
            factor = f"{ratio:.1f}" if ratio < 100 else "more than 100"
            sentences.append(
                f"Rows with the longest error bars have errors {factor} times as large as those with the shortest: "
                "check these predictions first."
            )
    return " ".join(sentences)


def calibration(result: FitResult) -> str:
    """Return whether predicted probabilities agree with frequencies."""
    bins = result.reliability
    total = sum(one.count for one in bins)
    gap = sum(one.count * (one.predicted - one.observed) for one in bins) / total
    error = sum(one.count * abs(one.predicted - one.observed) for one in bins) / total
    share = sum(one.count * one.observed for one in bins) / total
    text = (
        "Points on the dashed line are calibrated probabilities; bars are 95 % intervals, and larger points are more "
        f"rows. On average, probabilities are off by {100 * error:.1f} points. "
    )
    if abs(gap) <= 2 * math.sqrt(max(share * (1 - share), 1e-4) / total) + 0.005:
        return text + "They can be used as they are, for instance to send doubtful rows to a person."
    if gap > 0:
        return text + "They are too high: require a higher probability than the one that you want."
    return text + "They are too low: the model is more often right than it claims."


def labels(shares: Sequence[LabelShares]) -> str:
    """Return which label is found least often."""
    seen = [one for one in shares if one.found is not None]
    if len(seen) < 2:
        return ""
    worst, best = seen[0], seen[-1]
    assert worst.found is not None
    assert best.found is not None
    if worst.found.value == best.found.value:
        return f"All labels are found equally often, {percent(worst.found.value)}."
    return (
        f"“{worst.label}” is found least often, {percent(worst.found.value)} of its {count(worst.count)} rows, and "
        f"“{best.label}” most often, {percent(best.found.value)}. More training rows of the first would help most."
    )


def columns(result: FitResult) -> str:
    """Return which columns matter, and how many do not."""
    tried = [one for one in result.importances if one.permutation is not None]
    if not tried:
        return "The share of each column in squared distances of the learned metric."
    matter = [one for one in tried if (one.permutation or 0.0) > STANDARD_ERRORS * (one.permutation_deviation or 0.0)]
    unit = "accuracy" if result.headline == "accuracy" else result.headline
    text = (
        f"Shuffled: how much {unit} falls if the values of a column are exchanged between test rows, with its standard "
        "error. Metric: the share of the column in the distances between rows that the model has learned. "
    )
    if not matter:
        return text + "No column by itself makes a difference that these test rows can show."
    first = max(matter, key=lambda one: one.permutation or 0.0)
    text += f"“{first.column}” matters most. "
    idle = len(tried) - len(matter)
    if idle:
        some = "1 column" if idle == 1 else f"{count(idle)} columns"
        text += f"{some} made no difference that these test rows show: try to fit without, which is simpler. "
    text += (
        "Columns that contain the same information share the effect. If a column is unexpectedly strong, check that it "
        "is known before the target is."
    )
    return text


def kernel(audit: MapAudit) -> str:
    """Return what the kernel error means."""
    text = (
        f"{audit.map_name} with {count(audit.width)} components approximates the kernel of the best member of the "
        f"model with a root mean squared error of {significant(audit.rmse)} over pairs of test rows. "
    )
    if audit.rmse == 0:
        return audit.note
    return (text + audit.note).strip()


def described_kernel(audit: MapAudit) -> str:
    """Return the alternative text of the kernel errors."""
    points = [f"{count(one.width)} components {significant(one.error)}" for one in audit.widths]
    points.append(f"chosen: {count(audit.width)} components {significant(audit.rmse)}")
    return f"Kernel error by number of components, on logarithmic axes: {'; '.join(points)}."
