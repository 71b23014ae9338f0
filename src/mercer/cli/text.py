"""Results of workflows as lines of text."""

from __future__ import annotations

from typing import Any

from mercer.report.numbers import percent, seconds, significant

__all__ = ["bytes_text", "evaluate_lines", "export_lines", "fit_lines", "predict_lines", "table_lines"]

SHARES = ("accuracy",)


def bytes_text(n_bytes: int | None) -> str:
    """Return a number of bytes as text.

    Examples
    --------
    >>> bytes_text(85_200), bytes_text(312_400_000), bytes_text(2_340_000_000), bytes_text(None)
    ('85 kB', '312 MB', '2.34 GB', '-')
    """
    if n_bytes is None:
        return "-"
    if n_bytes >= 1e9:
        return f"{n_bytes / 1e9:.2f} GB"
    return f"{n_bytes / 1e6:.0f} MB" if n_bytes >= 1e6 else f"{n_bytes / 1e3:.0f} kB"


def score_text(name: str, value: float) -> str:
    """Return the value of a score as text."""
    if name in SHARES:
        return percent(value)
    return significant(value) if name in ("RMSE", "MAE") else f"{value:.3f}"


def table_lines(header: list[str], rows: list[list[str]]) -> list[str]:
    """Return a table as lines: the first column is left-justified, the others are right-justified."""
    widths = [max(len(row[j]) for row in [header, *rows]) for j in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def fit_lines(result: Any) -> list[str]:
    """Return the scores of all models, and what was chosen."""
    first = result.contenders[0]
    head = first.scores[0]
    others = [score.name for score in first.scores[1:]]
    header = ["", head.name, f"{head.level:.0%} interval", *others, "fit", "predict", "memory"]
    rows, notes = [], []
    for one in result.contenders:
        by_name = {score.name: score for score in one.scores}
        score = by_name.get(head.name, one.scores[0])
        rows.append(
            [
                one.name,
                score_text(score.name, score.value),
                f"{score_text(score.name, score.low)} to {score_text(score.name, score.high)}",
                *(score_text(name, by_name[name].value) if name in by_name else "-" for name in others),
                seconds(one.fit_seconds),
                seconds(one.predict_seconds),
                bytes_text(one.peak_bytes),
            ]
        )
        if one.note:
            notes.append(f"{one.name}: {one.note}.")
    lines = ["", *table_lines(header, rows), *notes]
    if result.coverage is not None:
        lines.append(f"90 % intervals of mercer contain {percent(result.coverage)} of the targets of test rows.")
    shown = [one for one in result.importances if one.permutation is not None]
    if shown:
        best = sorted(shown, key=lambda one: -one.permutation)[:5]
        most = ", ".join(f"{one.column} ({score_change(head.name, one.permutation)})" for one in best)
        lines.append(f"Columns that matter most, by the loss of {head.name} if they are shuffled: {most}.")
    if result.explanation:
        lines += ["", *result.explanation.splitlines()]
    return lines


def score_change(name: str, value: float) -> str:
    """Return a difference of scores as text."""
    return percent(value) if name in SHARES else f"{value:.3f}"


def evaluate_lines(result: Any) -> list[str]:
    """Return the scores of an evaluation."""
    rows = [
        [
            one.name,
            score_text(one.name, one.value),
            f"{score_text(one.name, one.low)} to {score_text(one.name, one.high)}",
        ]
        for one in result.scores
    ]
    level = f"{result.scores[0].level:.0%} interval"
    lines = [
        f"{result.model} on {result.source}: {result.n_rows:,} rows, target {result.target!r}",
        "",
        *table_lines(["", "value", level], rows),
    ]
    if result.coverage is not None:
        lines.append(f"90 % intervals contain {percent(result.coverage)} of the targets.")
    lines.append(f"{seconds(result.seconds)}, peak memory {bytes_text(result.peak_bytes)}.")
    return lines + unseen_lines(result.unseen)


def predict_lines(result: Any, what: str) -> list[str]:
    """Return what was written."""
    names = ", ".join(result.columns[:6]) + (", ..." if len(result.columns) > 6 else "")
    lines = [
        f"{result.output}: {what} of {result.n_rows:,} rows ({names}), {seconds(result.seconds)}, peak memory "
        f"{bytes_text(result.peak_bytes)}."
    ]
    return lines + unseen_lines(result.unseen)


def export_lines(result: Any) -> list[str]:
    """Return what was exported, and how it compares with the model."""
    outputs = ", ".join(repr(name) for name in result.outputs)
    lines = [
        f"{result.path}: {bytes_text(result.size)}, {'outputs' if len(result.outputs) > 1 else 'output'} {outputs}."
    ]
    if result.largest_difference is None:
        return [*lines, f"It was not compared with the model: {result.skipped}"]
    rows = {"given": "given rows", "model": "rows that the model has stored", "random": "random rows"}
    text = (
        f"Compared on {result.n_rows_checked:,} {rows.get(result.rows_from, 'rows')}: largest difference "
        f"{result.largest_difference:.2g}, relative to the largest result {result.relative_difference:.2g}"
    )
    if result.n_labels_different:
        text += f"; {result.n_labels_different:,} rows have another label"
    return [*lines, f"{text}."]


def unseen_lines(unseen: dict[str, int]) -> list[str]:
    """Return how many cells have categories that did not occur in training."""
    if not unseen:
        return []
    shown = ", ".join(f"{column} ({count:,} rows)" for column, count in unseen.items())
    return [f"Categories that did not occur in training: {shown}."]
