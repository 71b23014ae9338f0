"""Means over splits of the stored cells, and the targets of the race beside them.

Scores are errors: less is better. Where our method did not finish a split, it has lost the data set. A figure of which
cells are missing is shown, with the sets that it has, but without its target.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from harness import Check

from race import data
from race.cell import UNITS
from race.methods import METHODS

OURS, LIMITED = "ours", "ours-limited"
#: Methods whose results change with our code.
OF_OURS = (OURS, LIMITED, UNITS)
EXACT = ("svm", "gpr", "kernel-ridge")
CLIP = (0.5, 2.0)
#: Rows from which on the times of xRFM are compared.
LARGE = 20_000
#: The time of the default fit: 60 s up to so many rows and columns, and linear in both from there.
FIT_SECONDS = 60.0
UNIT_SETS = ("energy", "ccpp")
#: Why we lose a data set to a method, as far as it is known, by data set or by data set and method.
REASONS: dict[str | tuple[str, str], str] = {}


@dataclass(frozen=True)
class Summary:
    """The cells of a data set and a method, over all splits that were run."""

    cells: tuple[dict[str, Any], ...]

    @property
    def finished(self) -> tuple[dict[str, Any], ...]:
        """The cells with figures."""
        return tuple(cell for cell in self.cells if cell["state"] == "finished")

    @property
    def settled(self) -> tuple[dict[str, Any], ...]:
        """The cells that finished, or did not within the limits."""
        return tuple(cell for cell in self.cells if cell["state"] != "failed")

    @property
    def unfinished(self) -> tuple[dict[str, Any], ...]:
        """The cells without."""
        return tuple(cell for cell in self.cells if cell["state"] != "finished")

    def scores(self) -> dict[int, float]:
        """Return the scores by split."""
        return {cell["split"]: cell["score"] for cell in self.finished}

    def mean(self, key: str) -> float | None:
        """Return the mean of a figure over the finished splits, or None if there is none."""
        values = [cell[key] for cell in self.finished if cell.get(key) is not None]
        return float(np.mean(values)) if values else None

    def error(self) -> float | None:
        """Return the standard error of the mean score: over splits, or over the test rows of a single split."""
        values = [cell["score"] for cell in self.finished]
        if len(values) > 1:
            return float(np.std(values, ddof=1) / np.sqrt(len(values)))
        return self.finished[0]["score error"] if values else None

    def seconds(self) -> float | None:
        """Return the mean seconds of a fit; a cell that did not finish counts with the seconds until its end."""
        values = [cell["fit seconds"] for cell in self.finished]
        values += [cell["seconds"] for cell in self.unfinished if cell["state"] == "did not finish"]
        return float(np.mean(values)) if values else None


Table = Mapping[str, Mapping[str, Summary]]


def summarize(cells: Iterable[dict[str, Any]]) -> dict[str, dict[str, Summary]]:
    """Return summaries by data set and method, in the order of the race."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for cell in cells:
        groups[cell["name"], cell["method"]].append(cell)
    return {
        name: {
            method: Summary(tuple(sorted(groups[name, method], key=lambda cell: cell["split"])))
            for method in (*METHODS, UNITS)
            if (name, method) in groups
        }
        for name in data.NAMES
        if any(name == of for of, _ in groups)
    }


def clipped_geometric_mean(ratios: Sequence[float]) -> float:
    """Return the geometric mean of ratios that are clipped to [0.5, 2], so that no data set decides alone."""
    return float(np.exp(np.mean(np.log(np.clip(ratios, *CLIP)))))


def ratio(ours: Summary, theirs: Summary, key: str = "score") -> float | None:
    """Return our mean over theirs on their common splits; infinite if we did not finish, None without figures."""
    if ours.unfinished:
        return np.inf
    mine = {cell["split"]: cell.get(key) for cell in ours.finished}
    others = {cell["split"]: cell.get(key) for cell in theirs.finished}
    common = [split for split in mine if mine[split] is not None and others.get(split) is not None]
    if not common:
        return None
    above, below = (float(np.mean([values[split] for split in common])) for values in (mine, others))
    if below == 0:
        return 1.0 if above == 0 else np.inf
    return above / below


def standard_errors_behind(ours: Summary, theirs: Summary) -> float | None:
    """Return by how many standard errors our mean score is above theirs, negative if it is below.

    The standard error is that of the mean difference over common splits, or for one split that of our score over
    its test rows.
    """
    if ours.unfinished:
        return np.inf
    mine, others = ours.scores(), theirs.scores()
    differences = np.array([mine[split] - others[split] for split in mine if split in others])
    if not len(differences):
        return None
    mean = float(differences.mean())
    if len(differences) > 1:
        error = float(differences.std(ddof=1) / np.sqrt(len(differences)))
    else:
        error = float(ours.finished[0]["score error"])
    if error == 0:
        return 0.0 if mean == 0 else float(np.copysign(np.inf, mean))
    return mean / error


def best_exact(methods: Mapping[str, Summary]) -> str | None:
    """Return the exact kernel model of scikit-learn with the least mean score."""
    scores = {name: methods[name].mean("score") for name in EXACT if name in methods}
    known = {name: score for name, score in scores.items() if score is not None}
    return min(known, key=known.__getitem__) if known else None


class Judge:
    """The targets of the race, for a table of summaries and the number of splits that they need."""

    def __init__(self, table: Table, splits: int) -> None:
        self.table = table
        self.splits = splits

    def complete(self, name: str, *methods: str) -> bool:
        """Return whether all splits of a data set were run by some methods; failed cells have to be run again."""
        needed = len(data.splits_of(name, self.splits))
        found = self.table.get(name, {})
        return all(method in found and len(found[method].settled) >= needed for method in methods)

    def pairs(self, names: Sequence[str], ours: str, theirs: str) -> dict[str, tuple[Summary, Summary]]:
        """Return our summaries and theirs for the sets that both have run."""
        found = {name: self.table.get(name, {}) for name in names}
        return {name: (has[ours], has[theirs]) for name, has in found.items() if ours in has and theirs in has}

    def checks(self) -> list[Check]:
        """Return all checks."""
        return [
            *self.against_exact(),
            *self.against_trees(OURS, "hist", at_most=0.80, wins=8),
            *self.against_trees(LIMITED, "lightgbm-tuned", at_most=0.90, wins=6),
            *self.labels(),
            *self.single_sets(),
            *self.against_xrfm("xrfm"),
            *self.against_xrfm("xrfm-tuned"),
            *self.speed(),
            *self.units(),
        ]

    def against_exact(self) -> list[Check]:
        """Compare with the best exact kernel model on every set, with a tolerance of one standard error."""
        out = []
        for name in data.AGAINST_EXACT:
            methods = self.table.get(name, {})
            best = best_exact(methods)
            value = None
            if best is not None and OURS in methods:
                value = standard_errors_behind(methods[OURS], methods[best])
            needed = [one for one in EXACT if METHODS[one].takes(data.is_classification(name))]
            beside = f" ({METHODS[best].title})" if best else ""
            title = f"{name}: standard errors behind the best of SVC, SVR, GPR, KernelRidge{beside}"
            out.append(judged(title, value, self.complete(name, OURS, *needed), at_most=1.0))
        return out

    def against_trees(self, ours: str, theirs: str, *, at_most: float, wins: int) -> list[Check]:
        """Compare errors with those of trees on the regression sets."""
        pairs = self.pairs(data.REGRESSION, ours, theirs)
        ratios = [value for one in pairs.values() if (value := ratio(*one)) is not None]
        complete = all(self.complete(name, ours, theirs) for name in data.REGRESSION)
        title = f"{METHODS[ours].title} over {METHODS[theirs].title}, {len(ratios)} of {len(data.REGRESSION)} sets"
        mean = clipped_geometric_mean(ratios) if ratios else None
        count = sum(value <= 1 for value in ratios) if ratios else None
        return [
            judged(f"{title}: RMSE, geometric mean", mean, complete, at_most=at_most),
            judged(f"{title}: sets at or below", count, complete, at_least=wins),
        ]

    def labels(self) -> list[Check]:
        """Count the classification sets on which we are at or below histogram trees."""
        pairs = self.pairs(data.CLASSIFICATION, OURS, "hist")
        complete = all(self.complete(name, OURS, "hist") for name in data.CLASSIFICATION)
        out = []
        for key, title, least in (("score", "error", 5), ("log loss", "log loss", 4)):
            ratios = [value for one in pairs.values() if (value := ratio(*one, key)) is not None]
            count = sum(value <= 1 for value in ratios) if ratios else None
            name = f"{title} at or below HistGradientBoosting, {len(ratios)} of {len(data.CLASSIFICATION)} sets"
            out.append(judged(name, count, complete, at_least=least))
        return out

    def single_sets(self) -> list[Check]:
        """Compare errors, times and memory on covtype and MNIST with absolute targets."""
        covtype = {key: one for key, one in self.table.get("covtype", {}).items() if key in (OURS, LIMITED)}
        quick = {key: one for key, one in covtype.items() if (one.seconds() or np.inf) <= 600}
        key = min(quick or covtype, key=lambda key: covtype[key].mean("score") or np.inf, default=OURS)
        found = covtype.get(key)
        complete = self.complete("covtype", key)
        out = [
            judged(f"covtype: error, % ({METHODS[key].title})", found and found.mean("score"), complete, at_most=4.0),
            judged("covtype: seconds of fit", found and found.seconds(), complete, at_most=600.0),
        ]
        found = self.table.get("mnist", {}).get(OURS)
        complete = self.complete("mnist", OURS)
        score = seconds = gigabytes = None
        if found is not None and found.finished:
            score = found.mean("score")
            seconds = found.mean("fit seconds") + found.mean("predict seconds")
            gigabytes = found.mean("peak bytes") / 1e9
        elif found is not None:
            score = seconds = gigabytes = np.inf
        return [
            *out,
            judged("mnist: error, %", score, complete, at_most=1.4),
            judged("mnist: seconds of fit and prediction", seconds, complete, at_most=120.0),
            judged("mnist: peak memory, GB", gigabytes, complete, at_most=4.0),
        ]

    def against_xrfm(self, theirs: str) -> list[Check]:
        """Compare errors with xRFM where both finished, and times on large sets."""
        names = (*data.CLASSIFICATION, *data.REGRESSION)
        pairs = self.pairs(names, OURS, theirs)
        ratios = [value for one in pairs.values() if (value := ratio(*one)) is not None]
        times = {
            name: ours.seconds() / others.seconds()
            for name, (ours, others) in pairs.items()
            if ours.finished and others.seconds() and rows_of(ours) >= LARGE
        }
        complete = all(self.complete(name, OURS, theirs) for name in names)
        title = f"mercer over {METHODS[theirs].title}"
        slowest = max(times, key=times.__getitem__) if times else None
        mean = clipped_geometric_mean(ratios) if ratios else None
        worst = times[slowest] if slowest else None
        return [
            judged(f"{title}: error, geometric mean, {len(ratios)} sets", mean, complete, at_most=1.0),
            judged(
                f"{title}: time of fit from {LARGE:,} rows, largest of {len(times)} ({slowest})",
                worst,
                complete,
                at_most=0.1,
            ),
        ]

    def speed(self) -> list[Check]:
        """Compare the time of the default fit and of predictions with their targets."""
        found = {name: methods[OURS] for name, methods in self.table.items() if OURS in methods}
        shares = {name: one.seconds() / allowed_seconds(one) for name, one in found.items() if one.finished}
        rates = {name: one.mean("rows per second") for name, one in found.items() if one.finished}
        complete = all(self.complete(name, OURS) for name in (*data.CLASSIFICATION, *data.REGRESSION))
        slowest = max(shares, key=shares.__getitem__, default=None)
        least = min(rates, key=rates.__getitem__, default=None)
        synthetic = found.get(data.SYNTHETIC)
        title = f"default fit: {data.ROWS:,} rows of {data.COLUMNS} columns, s"
        return [
            judged(title, synthetic and synthetic.seconds(), self.complete(data.SYNTHETIC, OURS), at_most=FIT_SECONDS),
            judged(
                f"default fit: time over 60 s, linear above 50,000 rows or 50 columns, largest ({slowest})",
                shares[slowest] if slowest else None,
                complete,
                at_most=1.0,
            ),
            judged(
                f"predicted rows per second, least ({least})",
                rates[least] if least else None,
                complete,
                at_least=5000.0,
            ),
        ]

    def units(self) -> list[Check]:
        """Compare predictions of columns in other units."""
        out = []
        for name in UNIT_SETS:
            found = self.table.get(name, {}).get(UNITS)
            value = None if found is None else found.mean("change") if found.finished else np.inf
            out.append(Check(f"{name}: change of predictions in other units", value, at_most=1e-6))
        return out

    def losses(self) -> list[str]:
        """Return a sentence for every set and method that we are behind, with the reason where it is known."""
        out = []
        for name, methods in self.table.items():
            for ours in (OURS, LIMITED):
                for theirs, other in methods.items():
                    if ours not in methods or theirs in (OURS, LIMITED, UNITS):
                        continue
                    value = ratio(methods[ours], other)
                    if value is not None and value > 1:
                        who, whom = METHODS[ours].title, METHODS[theirs].title
                        out.append(f"{name}: {who} has {value:.4g} times the error of {whom}: {reason(name, theirs)}")
        return out


def reason(name: str, method: str) -> str:
    """Return why we lose a data set to a method."""
    return REASONS.get((name, method), REASONS.get(name, "the reason is not known"))


def judged(name: str, value: float | None, complete: bool, **target: float) -> Check:
    """Return a check whose target counts if all cells are there."""
    return Check(name, value, **target) if complete or value is None else Check(f"{name} (cells missing)", value)


def rows_of(summary: Summary) -> int:
    """Return the rows of the data set."""
    cell = summary.finished[0]
    return cell["train rows"] + cell["test rows"]


def allowed_seconds(summary: Summary) -> float:
    """Return the seconds that a default fit may take."""
    cell = summary.finished[0]
    return FIT_SECONDS * max(1.0, cell["train rows"] / data.ROWS) * max(1.0, cell["columns"] / data.COLUMNS)
