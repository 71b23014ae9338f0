"""
Kernel k-means on rings
=======================

K-means separates clusters by straight lines. On kernel features it separates rings, in time linear in the rows, and
the same seed gives the same clusters in memory, out of core and on Dask.
"""

# %%
# Two rings
# ---------

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from mercer import Gaussian, KernelKMeans, KernelPCA

rng = np.random.default_rng(0)
angle, ring = rng.uniform(0, 2 * np.pi, 3000), rng.integers(0, 2, 3000)
radius = np.array([0.5, 3.0])[ring] + 0.12 * rng.normal(size=3000)
X = radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])

# %%
# Lines, and the kernel
# ---------------------
# Ten starts each; the best one counts.

plain = KMeans(2, n_init=10, random_state=0).fit(X)
kernel = KernelKMeans(Gaussian(1.0), n_clusters=2, n_init=10, random_state=0).fit(X)
components = KernelPCA(Gaussian(1.0), n_components=2, random_state=0).fit_transform(X)

# %%
# The last panel shows why: the two leading principal components of the kernel pull the rings apart.

figure, panels = plt.subplots(1, 3, figsize=(11, 3.8))
for axes, labels, title in zip(panels, (plain.labels_, kernel.labels_), ("k-means", "kernel k-means"), strict=False):
    axes.scatter(*X.T, c=np.array(["C0", "C1", "C2"])[labels], s=4)
    axes.set(title=f"{title}: agreement {adjusted_rand_score(ring, labels):.2f}", xticks=[], yticks=[], aspect="equal")
panels[2].scatter(*components.T, c=np.array(["C0", "C1", "C2"])[kernel.labels_], s=4)
panels[2].set(title="principal components of the kernel", xticks=[], yticks=[])
plt.show()
