"""
Two moons and four labels
=========================

Four labels and six hundred rows without one. A kernel alone draws its boundary between the labels; a kernel that is
deformed by the graph of all rows draws it where there are no rows.
"""

# %%
# Labels for four rows
# --------------------
# In `y` all labels but four are replaced by -1, and ``unlabeled=-1`` declares what that means.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_moons

from mercer import Deformed, Gaussian, KernelRidgeClassifier, NeighborGraph, Nystroem

X, truth = make_moons(600, noise=0.09, random_state=1)
labeled = np.concatenate([np.flatnonzero(truth == label)[:2] for label in (0, 1)])
y = np.full(len(X), -1)
y[labeled] = truth[labeled]

# %%
# Without and with the graph
# --------------------------
# The strength says how much the graph counts. With more labels `DeformedSearchCV` selects it by leave-one-out.

feature_map = Nystroem(Gaussian(0.3), 300, random_state=0)
plain = KernelRidgeClassifier(feature_map, alpha=1e-3, unlabeled=-1).fit(X, y)
deformed = Deformed(feature_map, NeighborGraph(10), strength=100)
graph = KernelRidgeClassifier(deformed, alpha=1e-3, unlabeled=-1).fit(X, y)

# %%

grid = np.stack(np.meshgrid(np.linspace(-1.6, 2.6, 160), np.linspace(-1.2, 1.7, 120)), axis=-1)
figure, panels = plt.subplots(1, 2, figsize=(10, 4), sharey=True)
for axes, model, title in zip(panels, (plain, graph), ("the kernel alone", "with the graph"), strict=True):
    values = model.decision_function(grid.reshape(-1, 2)).reshape(grid.shape[:2])
    limit = np.abs(values).max()
    axes.contourf(grid[..., 0], grid[..., 1], values, 20, cmap="RdBu_r", vmin=-limit, vmax=limit, alpha=0.7)
    axes.contour(grid[..., 0], grid[..., 1], values, [0], colors="k")
    axes.scatter(*X.T, s=6, c="0.25")
    axes.scatter(*X[labeled].T, s=130, c=truth[labeled], cmap="RdBu_r", edgecolor="k", linewidth=1.5, zorder=3)
    axes.set(title=f"{title}: accuracy {model.score(X, truth):.1%}", xticks=[], yticks=[])
plt.show()
