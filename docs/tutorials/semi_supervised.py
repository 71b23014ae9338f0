r"""A handful of labels, and many rows without one: two moons.

Run it with the path of the picture that it is to write::

    python docs/tutorials/semi_supervised.py moons.png

**The idea.** Labels are dear, rows are cheap. If rows lie in clusters or along curves, and labels seldom change inside
of one, then rows without a label say where a label holds: up to where the cluster ends. A kernel alone cannot know
that. It says that near rows are alike, in all directions the same.

So we tell it. Join every row to its nearest neighbors, labeled or not. With the Laplacian L of that graph and values
f of a function at all rows, :math:`f^\top L f` is how much f changes along edges: its roughness. `Deformed` adds
:math:`\alpha f^\top L^c f` to the norm that the kernel gives to functions, and makes features of the kernel of the new
norm [1]_ [2]_. Every learner on top of them then prefers functions that change where there are no rows.

.. [1] Sindhwani, Niyogi, Belkin (2005), Beyond the point cloud: from transductive to semi-supervised learning, ICML.
.. [2] Ionescu, Popa, Sminchisescu (2017), Large-scale data-dependent kernel approximation, AISTATS.
"""

# %%
# Rows, few of them with a label
# ------------------------------
# 600 rows on two moons. In `y` all but a few labels are replaced by -1, and the learner is told that -1 means "not
# known": `unlabeled=-1`. It has to be told, since -1 is a label like any other. For numbers take `unlabeled=np.nan`.

import sys

import numpy as np
from sklearn.datasets import make_moons

from mercer import Deformed, Gaussian, KernelRidgeClassifier, NeighborGraph, Nystroem, tune_deformation

LABELS = (1, 2, 5)  # of each class


def problem(labels: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, the truth about them, and what we are told of it."""
    X, truth = make_moons(600, noise=0.08, random_state=seed)
    rng = np.random.default_rng(seed)
    y = np.full(len(X), -1)
    for label in (0, 1):
        known = rng.permutation(np.flatnonzero(truth == label))[:labels]  # the first of more labels are those of fewer
        y[known] = label
    return X, truth, y


# %%
# Two maps, one learner
# ---------------------
# A map over a map: `Deformed` takes any map of real features. Nothing else changes. (`Nystroem` it is here because its
# features vanish far from all rows, which makes a quiet picture. With the graph `RandomFourier` is as accurate.)
#
# The knobs:
#
# `n_neighbors` is the one that matters most. A moon must hang together well, and the two moons badly. Too few
#     neighbors, and the graph is a chain with weak links at which labels stop; too many, and edges cross the gap. The
#     30 here were found by trying, as were the rows and the noise of these moons, on which one label is enough. Below
#     is what other numbers of neighbors give.
# `alpha` is the price of roughness. At zero there is no graph; from some value on nothing changes any more, because
#     only the smoothest functions that the features can make are left.
# `power` punishes functions that change from neighbor to neighbor even more, and slow changes even less. Long thin
#     shapes such as moons need slow changes punished: 1. Round clusters in many columns often do better with 2 or 3.

plain = Nystroem(Gaussian(0.3), n_components=200, random_state=0)
deformed = Deformed(plain, NeighborGraph(n_neighbors=30), alpha=100.0, power=1)


def learner(feature_map) -> KernelRidgeClassifier:
    """Return the learner that both maps get."""
    return KernelRidgeClassifier(feature_map, alpha=1e-4, unlabeled=-1)


# %%
# What the graph is worth
# -----------------------
# Accuracy on 2000 new rows from the same moons, over ten seeds that draw the rows and the labels. New rows are no nodes
# of the graph, and need not be: the deformed kernel is a function of any two rows, and `predict` just works.


def fitted(feature_map, labels: int, seed: int) -> tuple[KernelRidgeClassifier, float]:
    """Return a model of few labels, and the share of new rows whose label it predicts."""
    X, _, y = problem(labels, seed)
    X_new, y_new = make_moons(2000, noise=0.08, random_state=1000 + seed)
    model = learner(feature_map).fit(X, y)
    return model, model.score(X_new, y_new)


def show_accuracy(seeds: int = 10) -> None:
    """Print mean and worst accuracy."""
    print(f"accuracy on new rows, mean and worst of {seeds} seeds")
    print("labels a class   without the graph     with the graph")
    for labels in LABELS:
        row = [f"{labels:>14}"]
        for feature_map in (plain, deformed):
            scores = [fitted(feature_map, labels, seed)[1] for seed in range(seeds)]
            row.append(f"{np.mean(scores):>10.3f} {min(scores):>8.3f}")
        print("".join(row))


# %%
# Let the labels choose
# ---------------------
# `tune_deformation` tries many strengths, powers and penalties. It is cheap: the graph is made once, the roughness of
# the features once a power, and the rest needs the labeled rows alone. Rows that are held out stay in the graph, and
# only their labels are hidden. Alpha = 0 is among what it tries: so it tells whether the graph is worth anything.
#
# With ten labels it can say little more than that. Its scores are also optimistic, being the best of many; keep labels
# aside if you need an honest number. And with one label a class nobody can choose but you.


def show_tuning() -> None:
    """Print what the labels say of the graph."""
    X, _, y = problem(5)
    tuned = tune_deformation(learner(deformed), X, y, alphas=(0, 1, 10, 100, 1000, 10_000, 100_000), powers=(1, 2))
    print(f"\n{tuned}")
    X_new, y_new = make_moons(2000, noise=0.08, random_state=1000)
    print(f"accuracy of the best on new rows: {tuned.model.score(X_new, y_new):.3f}")


# %%
# What can go wrong
# -----------------
# *A wrong graph.* If labels do change inside of clusters, the graph misleads, and more alpha misleads more. Then zero
#     wins in the tuning. Distances also have to mean something: scale the columns first, by all rows.
# *Parts without an edge between them.* `graph_.n_parts` counts them. A part with a label in it is all of that label's,
#     which is fine. About a part without any label the graph says nothing, and the kernel has to guess.
# *Too large an alpha.* Only the smoothest functions are left, fewer than there are classes, or turns of the boundary.
#     Also the numbers get large: for float32 rows `Deformed` goes to float64 where it must, and says if that fails too.
# *Too few features.* Functions must be able to change across the gap. A map of few columns cannot, however large alpha
#     is; nor can a kernel whose lengthscale is much wider than the gap.


def show_pitfalls() -> None:
    """Print how accuracy with one label a class depends on the graph."""
    print("\none label a class, mean of 5 seeds")
    for neighbors in (5, 10, 30, 100):
        found = [fitted(Deformed(plain, NeighborGraph(neighbors), alpha=100.0), 1, seed) for seed in range(5)]
        mean = np.mean([score for _, score in found])
        parts = [model.feature_map_.graph_.n_parts for model, _ in found]
        print(f"{neighbors:>4} neighbors: accuracy {mean:.3f}, parts of the graph {parts}")


# %%
# What it costs
# -------------
# `fit` sums :math:`\Phi^\top L^c \Phi`, at the cost of the second moments of the features that ridge regression needs
# anyway: O(n D^2), and one Cholesky factorization. Never a matrix of all pairs of rows. New rows cost O(D^2) each
# instead of O(D), or O(D rank) with `rank=`. The search for neighbors is the rest: exact it is quadratic in the rows,
# approximate nearly linear (`pip install '.[graph]'`). `FeatureGraph` needs no search at all, and takes rows in blocks.

# %%
# The picture
# -----------
# Color is what is predicted, and the line is where the prediction changes. Grey rows have no label.


def draw(path: str, seed: int = 0) -> None:
    """Write the picture: decision regions without and with the graph."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.colors import LinearSegmentedColormap

    first, second = "#0b6e99", "#d1662f"
    colors = LinearSegmentedColormap.from_list("sides", ["#9cc9de", "#e4f0f6", "#ffffff", "#fbe9df", "#efb899"])
    figure, axes = plt.subplots(2, 3, figsize=(10.5, 6.0), sharex=True, sharey=True, layout="constrained")
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
            count = f"{labels} label{'s' if labels > 1 else ''} a class"
            ax.set_title(f"{count}, {name}: {score:.1%}", fontsize=10, loc="left")
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
    if len(sys.argv) > 1:
        draw(sys.argv[1])
