"""Results of fits as plain values, for tests of pages, which need no fit."""

from dataclasses import replace

import numpy as np

from mercer.diagnostics.fits import (
    ColumnImportance,
    ColumnSummary,
    Contender,
    CurvePoint,
    FitResult,
    MapAudit,
    Score,
    WidthPoint,
    classification_scores,
    confusion_counts,
    regression_scores,
    reliability,
)


def contender(name, scores, seconds=1.5, n_bytes=150_000_000):
    return Contender(name, tuple(scores), seconds, seconds / 10, n_bytes, "")


def curve_of(score, values, n_train):
    sizes = [n_train // 2**k for k in range(len(values), 0, -1)]
    points = [CurvePoint(n, v, v - 0.02, v + 0.02, 0.5) for n, v in zip(sizes, values, strict=True)]
    return (*points, CurvePoint(n_train, score.value, score.low, score.high, 3.0))


def importances_of(names):
    return tuple(
        ColumnImportance(name, 0.5**j / 2 + 0.5 / len(names), 0.4 / (1 + j) - 0.004, 0.003)
        for j, name in enumerate(names)
    )


AUDIT = MapAudit(
    "Transformed(kernel=Matern(nu=1.5, lengthscale=1.0), lengthscales=(1.0, 2.0))",
    "Nystroem",
    600,
    0.004,
    0.004,
    0.004,
    tuple(WidthPoint(w, 2.4 / w, 2.2 / w, 2.6 / w) for w in (38, 75, 150, 300, 1200)),
    "With 1,200 components the error would be 2.0 times smaller.",
)


def regression(n_test=500, names=("income", "age", "rooms"), seed=0):
    rng = np.random.default_rng(seed)
    true = rng.normal(size=n_test) * 100 + 1000
    std = rng.uniform(10, 40, size=n_test)
    predicted = true + std * rng.normal(size=n_test)
    scores = regression_scores(true, predicted)
    worse = regression_scores(true, true + 60 * rng.normal(size=n_test))
    trial = {"columns": "ranks", "kernel": "Matern 1.5", "metric": "full", "n_rows": 4 * n_test, "part": 0}
    return FitResult(
        task="regression",
        source="houses.csv",
        target="price",
        n_rows=5 * n_test,
        n_train=4 * n_test,
        n_test=n_test,
        n_columns=len(names),
        classes=None,
        split="A random fifth of the rows was held out.",
        headline="R2",
        contenders=(contender("mercer", scores), contender("linear model", worse, 0.01, None)),
        curve=curve_of(scores[0], (0.6, 0.75, 0.83), 4 * n_test),
        columns=tuple(ColumnSummary(name, "number", 0, None, "") for name in names),
        importances=importances_of(names),
        trials=tuple(
            trial | {"name": "ranks, Matern 1.5, full", "loss": 0.3 + i, "weight": w, "seconds": 1.0}
            for i, w in enumerate((1.0, 0.0))
        ),
        explanation="KernelRegressor: 2,000 rows.\nKernels: Matern 1.5.",
        test_true=true,
        test_predicted=predicted,
        test_std=std,
        test_low=predicted - 1.64 * std,
        test_high=predicted + 1.64 * std,
        coverage=0.9,
        reliability=(),
        confusion=None,
        audit=AUDIT,
        timings={"read the file": 0.2, "fit the model": 12.0, "learning curve": 5.0},
        peak_bytes=450_000_000,
        command="mercer fit houses.csv --target price --random-state 7",
        random_state=7,
        version="0.1.0",
        environment={"Python": "CPython 3.11.7", "numpy": "2.1.0"},
        model_path="/home/someone/model.mercer",
    )


def classification(classes=("no", "yes"), n_test=600, names=("income", "age", "rooms"), seed=0):
    rng = np.random.default_rng(seed)
    labels = np.array(classes, dtype=object).astype(str)
    true = rng.integers(len(labels), size=n_test)
    logits = rng.normal(size=(n_test, len(labels)))
    logits[np.arange(n_test), true] += 4.0
    odds = np.exp(logits)
    probabilities = odds / odds.sum(axis=1, keepdims=True)
    best = probabilities.argmax(axis=1)
    scores = classification_scores(true, probabilities, np.arange(len(labels)))
    blurred = 0.3 * probabilities + 0.7 * rng.dirichlet(np.ones(len(labels)), size=n_test)
    worse = classification_scores(true, blurred, np.arange(len(labels)))
    base = regression(n_test, names, seed)
    return replace(
        base,
        task="classification",
        source="people.csv",
        target="answer",
        classes=tuple(labels.tolist()),
        headline="accuracy",
        contenders=(contender("mercer", scores), contender("HistGradientBoosting", worse)),
        curve=curve_of(scores[0], (0.7, 0.8, 0.88), base.n_train),
        test_true=labels[true],
        test_predicted=labels[best],
        test_std=None,
        test_low=None,
        test_high=None,
        coverage=None,
        reliability=reliability(probabilities.max(axis=1), best == true),
        confusion=confusion_counts(true, best, np.arange(len(labels))),
    )


HOSTILE = (
    "<script>alert(1)</script>",
    'a" onload="x',
    "{{ 7 * 7 }}",
    "$\\frac{1}$",
    "größe 高さ ارتفاع 🏠",
    "a_very_long_name_of_a_column_" * 6,
    "</style></title>",
)


def nan_scores(scores):
    return tuple(Score(one.name, float("nan"), float("nan"), float("nan"), 0.95) for one in scores)


CASES = {
    "regression": regression,
    "binary": classification,
    "letters": lambda: classification(tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), 900),
    "many labels": lambda: classification(tuple(f"label {i}" for i in range(80)), 900),
    "hostile": lambda: replace(
        classification(HOSTILE, 300, HOSTILE),
        target=HOSTILE[0],
        source=HOSTILE[5] + HOSTILE[0],
        command="mercer fit '<script>' --target " + HOSTILE[5],
        explanation=HOSTILE[0],
        warnings=HOSTILE,
        columns=tuple(ColumnSummary(name, "category", 3, 12, HOSTILE[0]) for name in HOSTILE),
        environment={"<b>": "</dl><script>"},
        split=HOSTILE[0],
    ),
    "hundred columns": lambda: regression(names=tuple(f"column number {j}" for j in range(100))),
    "three rows": lambda: regression(3),
    "ten labels": lambda: classification(n_test=10),
    "one row": lambda: replace(
        regression(1), contenders=(contender("mercer", nan_scores(regression(3).contenders[0].scores)),), curve=()
    ),
    "nothing else": lambda: replace(
        regression(),
        contenders=regression().contenders[:1],
        curve=(),
        importances=(),
        trials=(),
        explanation="",
        test_std=None,
        test_low=None,
        test_high=None,
        coverage=None,
        audit=None,
        columns=(),
        timings={},
        environment={},
        model_path=None,
    ),
    "only labels": lambda: replace(classification(), reliability=(), confusion=None, audit=None, curve=()),
    "exact": lambda: replace(regression(), audit=replace(AUDIT, rmse=0.0, widths=(), note="The map has no error.")),
    "not shuffled": lambda: replace(
        regression(),
        importances=tuple(ColumnImportance(name, None if j else 0.2, None, None) for j, name in enumerate("ab")),
    ),
    "without metric": lambda: replace(
        regression(), importances=tuple(replace(one, metric=None) for one in regression().importances)
    ),
}
