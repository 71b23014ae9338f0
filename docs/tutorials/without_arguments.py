r"""A table, and no argument: what the automatic models choose, what it is worth, and how to take it apart.

Run it with the path of the figure to write::

    python docs/tutorials/without_arguments.py trials.png

**The idea.** A kernel method needs a scaling of the columns, a kernel, a metric, a penalty, and a decision whether
predictions come from landmarks, from near rows or from both. None of these is known when a table arrives.
`KernelRegressor` and `KernelClassifier` try them on rows that they hold out, and keep a weighted mean of what predicts
these rows best. The columns may have any units: a column times a million gives the same model.
"""

# %%
# Three tables with raw columns
# -----------------------------
# They come with scikit-learn. The columns of `diabetes` are ages, pressures and blood values; those of `wine` range
# from tenths to thousands. Nothing is scaled here.

import sys
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import RidgeClassifierCV, RidgeCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from mercer import KernelClassifier, KernelRegressor

TABLES = {
    "diabetes": load_diabetes(return_X_y=True, scaled=False),
    "wine": load_wine(return_X_y=True),
    "breast cancer": load_breast_cancer(return_X_y=True),
}


def split(name: str) -> list[np.ndarray]:
    """Return training and test rows, and their targets."""
    return train_test_split(*TABLES[name], random_state=0)


# %%
# The race
# --------
# Beside them: trees, a support vector machine, and random features of scikit-learn. The latter two get standardized
# columns, since they do badly without, and the ridge after the random features chooses its penalty.


def models(labels: bool) -> dict[str, Any]:
    """Return unfitted models by name."""
    sampler = RBFSampler(gamma="scale", n_components=512, random_state=0)
    alphas = np.logspace(-6, 3, 10)
    if labels:
        return {
            "mercer": KernelClassifier(random_state=0),
            "trees": HistGradientBoostingClassifier(random_state=0),
            "SVC": make_pipeline(StandardScaler(), SVC()),
            "RBFSampler": make_pipeline(StandardScaler(), sampler, RidgeClassifierCV(alphas)),
        }
    return {
        "mercer": KernelRegressor(random_state=0),
        "trees": HistGradientBoostingRegressor(random_state=0),
        "SVR": make_pipeline(StandardScaler(), SVR()),
        "RBFSampler": make_pipeline(StandardScaler(), sampler, RidgeCV(alphas)),
    }


def show_race() -> dict[str, Any]:
    """Print the scores of all models, and return those of mercer by table."""
    ours = {}
    for name in TABLES:
        X, X_test, y, y_test = split(name)
        fitted = {title: model.fit(X, y) for title, model in models(name != "diabetes").items()}
        scores = {title: model.score(X_test, y_test) for title, model in fitted.items()}
        kind = "R2" if name == "diabetes" else "accuracy"
        print(f"{name}, {kind}: " + ", ".join(f"{title} {score:.3f}" for title, score in scores.items()))
        ours[name] = fitted["mercer"]
    return ours


# %%
# What was chosen
# ---------------
# `explain()` says it in five lines, and `trials_` is the whole table: each scaling of columns, kernel and metric that
# was tried, its loss on held-out rows, and its weight in the model. Test scores of tables this small differ by chance:
# with 111 test rows of `diabetes`, R2 has a standard error of about 0.05.
#
# Three scalings are tried: columns divided by their "spread"; "ranks", which appends the ranks of skewed columns; and
# "ramps", piecewise linear functions of single columns, through which a line is a sum of curves.


def show_choice(model: Any) -> None:
    """Print what a model has chosen."""
    print(model.explain())
    tried = sorted(model.trials_, key=lambda trial: -trial.weight)[:5]
    for trial in tried:
        print(f"  weight {trial.weight:.2f}: {trial.name}, loss {trial.loss:.3f}")


# %%
# Error bars, and the parts
# -------------------------
# `predict(return_std=True)` and `predict_interval` are part of every regression. `best_estimator_` is the member of
# largest weight, a pipeline of a `ColumnScaler` and a learner, which can be used, saved and tuned by itself.


def show_intervals(model: Any) -> None:
    """Print how many test targets intervals of 90 % contain, and the member of largest weight."""
    _, X_test, _, y_test = split("diabetes")
    low, high = model.predict_interval(X_test, 0.9).T
    print(f"intervals of 90 % contain {np.mean((low <= y_test) & (y_test <= high)):.0%} of the test targets")
    member = model.best_estimator_
    print(f"best member: {member['columns'].method}, R2 {member.score(X_test, y_test):.3f}")


# %%
# Other units
# -----------
# Columns in other units give the same predictions, since scaled columns are rounded far below what a model can resolve.


def show_units(model: Any) -> None:
    """Print the largest change of predictions if columns are in other units."""
    X, X_test, y, _ = split("diabetes")
    units = 10.0 ** np.arange(-5, 5)
    other = KernelRegressor(random_state=0).fit(X * units, y)
    change = np.abs(other.predict(X_test * units) - model.predict(X_test)).max()
    print(f"columns times 1e-5 to 1e4: predictions change by at most {change:.1e}")


def draw(model: Any, path: str) -> None:
    """Write the figure of all trials."""
    axes = model.trials_.plot()
    axes.set_title("diabetes: what was tried; large markers have large weights", loc="left", fontsize=10)
    axes.figure.savefig(path, dpi=130)


if __name__ == "__main__":
    found = show_race()
    show_choice(found["diabetes"])
    show_intervals(found["diabetes"])
    show_units(found["diabetes"])
    if len(sys.argv) > 1:
        draw(found["diabetes"], sys.argv[1])
