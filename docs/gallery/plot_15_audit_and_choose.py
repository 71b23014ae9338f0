"""
Audit a map, and let one be chosen
==================================

`audit` measures the error of a fitted map with a confidence interval, and predicts it for other numbers of
components. `FeatureMap` tries what is possible for a kernel and your rows, and takes the cheapest map that meets a
tolerance.
"""

# %%
# What is the error, and where?
# -----------------------------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from mercer import FeatureMap, Gaussian, RandomFourier, audit

X = load_digits().data
kernel = Gaussian("median")
feature_map = RandomFourier(kernel, 256, random_state=0).fit(X[:1000])
result = audit(feature_map, X[1000:], widths=[64, 128, 512])
print(result)

# %%
# Let a map be chosen
# -------------------
# The table shows what was tried, with measured errors on rows that were left out.

chosen = FeatureMap(kernel, tol=0.005, random_state=0).fit(X)
print(chosen.choice_)

# %%
# Left: exact and approximate kernel values of the audited map. Middle: its error by distance. Right: the predicted
# error for other numbers of components, and the tolerance.

rows = X[1000:1200]
exact, approximate = feature_map.kernel_(rows), feature_map.gram(rows)
pairs = np.triu_indices(len(rows), 1)
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 3.8))
left.hexbin(exact[pairs], approximate[pairs], gridsize=60, bins="log", cmap="Blues", mincnt=1)
left.plot([0.2, 1], [0.2, 1], "k", lw=0.8)
left.set(xlabel="kernel", ylabel="inner product of features", title="pairs of new rows")
distances = np.sqrt(-2 * np.log(exact[pairs])) * feature_map.kernel_.lengthscale
bins = np.linspace(distances.min(), distances.max(), 13)
interval = np.digitize(distances, bins[1:-1])
squares = np.bincount(interval, (approximate - exact)[pairs] ** 2) / np.maximum(np.bincount(interval), 1)
middle.stairs(np.sqrt(squares), bins, fill=True, color="C1")
middle.set(xlabel="distance of two rows", ylabel="RMSE", title="where the error comes from")
widths = np.geomspace(32, 8192, 30).astype(int)
right.loglog(widths, [result.predict_rmse(int(width)) for width in widths], label="predicted")
right.loglog(256, result.rmse, "o", color="C1", label="measured")
right.axhline(0.005, color="k", ls="--", lw=0.8, label="tolerance")
right.set(xlabel="components", ylabel="RMSE", title=f"{result.components_for(0.005):,} components are needed")
right.legend()
plt.show()
