r"""Semi-supervised learning on two moons: a few labels, and many rows without one.

Run it with the path of the figure to write::

    python docs/tutorials/semi_supervised.py moons.png

**The idea.** Labels are expensive and rows are cheap. If rows form clusters or lie along curves, and labels seldom
change within one of them, then the rows without a label show how far a label extends: to the end of its cluster. A
kernel alone cannot know that, because it treats all directions alike.

A graph of the rows adds this knowledge. Connect every row to its nearest neighbors, labeled or not. With the
Laplacian L of this graph and the values f of a function at all rows, :math:`f^\top L f` measures how much f changes
along the edges: its roughness. `Deformed` adds :math:`\alpha f^\top L^c f` to the norm of functions that belongs to
the kernel, and computes features of the kernel of the new norm [1]_ [2]_. A learner on these features then prefers
functions that change where there are no rows.

.. [1] Sindhwani, Niyogi, Belkin (2005), Beyond the point cloud: from transductive to semi-supervised learning, ICML.
.. [2] Ionescu, Popa, Sminchisescu (2017), Large-scale data-dependent kernel approximation, AISTATS.
"""

# %%
# Rows, few of them with a label
# ------------------------------
# There are 600 rows on two moons. In `y` all but a few labels are replaced by -1, and the parameter `unlabeled=-1` of
# the learner declares that this value means "not known", since -1 could be a label like any other. For regression use
# `unlabeled=np.nan`.

import sys

import numpy as np
from sklearn.datasets import make_moons

from mercer import (
    Deformed,
    DeformedSearchCV,
    FewLabelClassifier,
    Gaussian,
    KernelRidgeClassifier,
    NeighborGraph,
    Nystroem,
)

LABELS = (1, 2, 5)  # per class


def problem(labels: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, their true labels, and the labels that the learner is given."""
    X, truth = make_moons(600, noise=0.08, random_state=seed)
    rng = np.random.default_rng(seed)
    y = np.full(len(X), -1)
    for label in (0, 1):
        # The first labels are the same for every number of them.
        known = rng.permutation(np.flatnonzero(truth == label))[:labels]
        y[known] = label
    return X, truth, y


# %%
# Two maps, one learner
# ---------------------
# `Deformed` takes any map with real features as its inner map, and nothing else changes. (The inner map here is
# `Nystroem`, because its features vanish far from all rows, which gives a clearer figure. With the graph,
# `RandomFourier` is as accurate.)
#
# The parameters:
#
# `n_neighbors` matters most. Each moon must be well connected, and the two moons must not be. With too few neighbors
#     the graph is a chain with weak links at which labels stop; with too many, edges cross the gap. The value 30 was
#     found by trying, as were the number of rows and the noise, so that one label per class is enough. The section
#     "What can go wrong" shows the accuracy for other numbers of neighbors.
# `strength` is the weight of the roughness. At zero the graph has no effect. Above some value nothing changes any more,
#     because only the smoothest functions in the span of the features are left.
# `power` increases the penalty on functions that change from neighbor to neighbor, relative to slow changes. Long thin
#     shapes such as moons need a penalty on slow changes: use 1. Round clusters in many dimensions often do better
#     with 2 or 3.

plain = Nystroem(Gaussian(0.3), n_components=200, random_state=0)
deformed = Deformed(plain, NeighborGraph(n_neighbors=30), strength=100.0, power=1)


def learner(feature_map) -> KernelRidgeClassifier:
    """Return the learner that is used with both maps."""
    return KernelRidgeClassifier(feature_map, alpha=1e-4, unlabeled=-1)


# %%
# The gain from the graph
# -----------------------
# This is the accuracy on 2000 new rows from the same moons, over ten seeds that draw the rows and the labels. The new
# rows are not nodes of the graph and need not be: the deformed kernel is a function of any two rows, and `predict`
# takes any row.


def fitted(feature_map, labels: int, seed: int) -> tuple[KernelRidgeClassifier, float]:
    """Return a model that is trained on few labels, and its accuracy on new rows."""
    X, _, y = problem(labels, seed)
    X_new, y_new = make_moons(2000, noise=0.08, random_state=1000 + seed)
    model = learner(feature_map).fit(X, y)
    return model, model.score(X_new, y_new)


def show_accuracy(seeds: int = 10) -> None:
    """Print the mean and the worst accuracy."""
    print(f"accuracy on new rows, mean and worst of {seeds} seeds")
    print("labels per class  without the graph     with the graph")
    for labels in LABELS:
        row = [f"{labels:>14}"]
        for feature_map in (plain, deformed):
            scores = [fitted(feature_map, labels, seed)[1] for seed in range(seeds)]
            row.append(f"{np.mean(scores):>10.3f} {min(scores):>8.3f}")
        print("".join(row))


# %%
# Selecting the parameters with the labels
# ----------------------------------------
# `DeformedSearchCV` tries many strengths, powers and ridge penalties. This is cheap: the graph is built once, the
# roughness of the features is computed once per power, and the rest needs the labeled rows only. Held-out rows remain
# nodes of the graph, and only their labels are hidden. A strength of zero is among the candidates, so the result shows
# whether the graph helps at all.
#
# Ten labels cannot decide much more than that. The best score is also optimistic, because it is the best of many: keep
# some labels aside for an unbiased estimate. With one label per class, nothing can be held out.


def show_tuning() -> None:
    """Print the scores of all candidates, and the accuracy of the best."""
    X, _, y = problem(5)
    strengths = (0, 1, 10, 100, 1000, 10_000, 100_000)
    search = DeformedSearchCV(learner(deformed), strengths=strengths, powers=(1, 2)).fit(X, y)
    print(f"\n{search.summary()}")
    X_new, y_new = make_moons(2000, noise=0.08, random_state=1000)
    print(f"accuracy of the best on new rows: {search.score(X_new, y_new):.3f}")


# %%
# What can go wrong
# -----------------
# *A wrong graph.* If labels change within clusters, the graph misleads, and more so with a larger strength. Then zero
#     has the best score. Distances also have to be meaningful: scale the features first, using all rows.
# *Disconnected components.* `graph_.n_connected_components` is their number. If a component contains a label, the label
#     extends to all of it, which is usually right. If it contains none, the graph is of no use there, and the kernel
#     extrapolates.
# *Too large a strength.* Only the smoothest functions are left, fewer than there are classes or turns of the boundary.
#     Also, rounding increases: for float32 rows `Deformed` switches to float64 where necessary, and raises an error if
#     that is not enough.
# *Too few components.* The functions must be able to change across the gap. A map of few components cannot do that at
#     any strength, nor can a kernel whose lengthscale is much wider than the gap.


def show_pitfalls() -> None:
    """Print how the accuracy with one label per class depends on the graph."""
    print("\none label per class, mean of 5 seeds")
    for neighbors in (5, 10, 30, 100):
        found = [fitted(Deformed(plain, NeighborGraph(neighbors), strength=100.0), 1, seed) for seed in range(5)]
        mean = np.mean([score for _, score in found])
        components = [model.feature_map_.graph_.n_connected_components for model, _ in found]
        print(f"{neighbors:>4} neighbors: accuracy {mean:.3f}, connected components {components}")


# %%
# Which rows to label next
# ------------------------
# `FewLabelClassifier` uses the graph alone: its features are the smoothest eigenvectors of the graph (`GraphBasis`),
# and a Gaussian process on them has a variance at every row. `suggest_labels` returns the rows whose labels would
# reduce the sum of these variances the most, each as if the rows before it were labeled. They are spread over the
# moons, away from the labels that are known and from each other. `relabel` fits the model to the new labels, with the
# same graph.


def suggestions(count: int = 8, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the rows, the labels that are known, and the rows to label next."""
    X, truth, y = problem(1, seed)
    model = FewLabelClassifier(NeighborGraph(n_neighbors=10), n_components=30, random_state=0).fit(X, y)
    rows = model.suggest_labels(count)
    before = np.mean(model.transduction_ == truth)
    asked = y.copy()
    asked[rows] = truth[rows]
    after = np.mean(model.relabel(asked).transduction_ == truth)
    print(f"\none label per class: accuracy {before:.3f}; with {count} suggested labels {after:.3f}")
    return X, y, rows


# %%
# Cost
# ----
# `fit` computes :math:`\Phi^\top L^c \Phi`, at the cost of the second moments of the features that ridge regression
# needs in any case, O(n D^2), and one Cholesky factorization. No matrix of all pairs of rows is formed. Features of
# new rows cost O(D^2) per row instead of O(D), or O(D rank) with `rank=`. The rest is the search for neighbors: an
# exact search is quadratic in the number of rows, and an approximate one (`pip install '.[graph]'`) is nearly linear.
# `FeatureGraph` needs no search at all, and can be built block by block.

# %%
# The figure
# ----------
# The color shows the decision function, and the line is the decision boundary. Gray rows have no label. The last row
# shows the rows to label next, in their order.


def draw(path: str, seed: int = 0) -> None:
    """Write the figure of decision regions without and with the graph."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import LinearSegmentedColormap

    first, second = "#0b6e99", "#d1662f"
    colors = LinearSegmentedColormap.from_list("sides", ["#9cc9de", "#e4f0f6", "#ffffff", "#fbe9df", "#efb899"])
    figure, axes = plt.subplots(3, 3, figsize=(10.5, 9.0), sharex=True, sharey=True, layout="constrained")
    x, y_axis = np.meshgrid(np.linspace(-1.6, 2.6, 240), np.linspace(-1.15, 1.65, 160))
    grid = np.column_stack([x.ravel(), y_axis.ravel()])
    for row, (name, feature_map) in enumerate((("without the graph", plain), ("with the graph", deformed))):
        for ax, labels in zip(axes[row], LABELS, strict=True):
            X, _, y = problem(labels, seed)
            model, score = fitted(feature_map, labels, seed)
            values = model.decision_function(grid).reshape(x.shape)
            ax.imshow(
                np.tanh(2 * values),
                extent=(-1.6, 2.6, -1.15, 1.65),
                origin="lower",
                cmap=colors,
                vmin=-1,
                vmax=1,
                aspect="auto",
                interpolation="bilinear",
            )
            ax.contour(x, y_axis, values, levels=[0.0], colors="#333333", linewidths=1.2)
            ax.scatter(*X[y < 0].T, s=7, color="#7a7a7a", alpha=0.55, linewidths=0)
            for label, color, marker in ((0, first, "o"), (1, second, "s")):
                style = {"s": 85, "color": color, "marker": marker, "edgecolors": "white", "linewidths": 1.4}
                ax.scatter(*X[y == label].T, zorder=3, label=f"label {label}", **style)
            count = f"{labels} label{'s' if labels > 1 else ''} per class"
            ax.set_title(f"{count}, {name}: {score:.1%}", fontsize=10, loc="left")
            ax.set(xticks=[], yticks=[])
            for side in ax.spines.values():
                side.set_color("#bbbbbb")
    for ax, count in zip(axes[2], (3, 6, 12), strict=True):
        X, y, rows = suggestions(count, seed)
        ax.scatter(*X[y < 0].T, s=7, color="#7a7a7a", alpha=0.55, linewidths=0)
        for label, color, marker in ((0, first, "o"), (1, second, "s")):
            style = {"s": 85, "color": color, "marker": marker, "edgecolors": "white", "linewidths": 1.4}
            ax.scatter(*X[y == label].T, zorder=3, **style)
        ax.scatter(*X[rows].T, s=120, facecolors="white", edgecolors="#333333", linewidths=1.2, zorder=4)
        for number, row in enumerate(rows, 1):
            ax.annotate(str(number), X[row], fontsize=7, ha="center", va="center", zorder=5)
        ax.set_title(f"{count} rows to label next", fontsize=10, loc="left")
        ax.set(xticks=[], yticks=[])
        for side in ax.spines.values():
            side.set_color("#bbbbbb")
    axes[0, 0].legend(loc="lower left", fontsize=8, frameon=True, framealpha=0.9, edgecolor="#dddddd")
    figure.suptitle("Two moons: 600 rows, few labels; accuracy on 2000 new rows", fontsize=12)
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    show_accuracy()
    show_tuning()
    show_pitfalls()
    suggestions()
    if len(sys.argv) > 1:
        draw(sys.argv[1])
