"""
Butterflies
===========

Orthogonal directions can be applied without a matrix. A butterfly is a product of log2(P) sparse factors, each of
which rotates pairs of coordinates. It costs P log2(P) operations where a matrix costs P squared, and with the right
distribution of its angles each of its columns is exactly uniform on the sphere.
"""

# %%
# The factors
# -----------
# At a node that joins two halves of order h, the squared cosine has a Beta(h/2, h/2) distribution. With uniform
# angles the columns would not be uniform, and the kernel would be biased.

import time

import matplotlib.pyplot as plt
import numpy as np

from mercer import Gaussian, RandomFourier

rng = np.random.default_rng(0)


def factors(order):
    """Return the sparse factors of a random butterfly, the first one joining the largest halves."""
    out, half = [], order // 2
    while half:
        matrix = np.zeros((order, order))
        for start in range(0, order, 2 * half):
            cosine = np.sqrt(rng.beta(half / 2, half / 2)) if half > 1 else np.cos(rng.uniform(0, 2 * np.pi))
            sine = np.sqrt(1 - cosine**2)
            first, second = np.arange(start, start + half), np.arange(start + half, start + 2 * half)
            matrix[first, first], matrix[second, second] = cosine, cosine
            matrix[first, second], matrix[second, first] = -sine, sine
        out.append(matrix)
        half //= 2
    return out


parts = factors(32)
product = np.linalg.multi_dot(parts)
print(f"orthogonal up to {np.abs(product @ product.T - np.eye(32)).max():.0e}")

# %%
# The cost
# --------
# The time of `transform` for 1000 rows and as many frequencies as features, for dense and for butterfly directions.

sizes = [128, 256, 512, 1024, 2048]


def seconds(directions, d):
    """Return the least time of three transforms."""
    X = rng.normal(size=(1000, d)).astype(np.float32)
    feature_map = RandomFourier(Gaussian(d**0.5), 2 * d, directions=directions, random_state=0, n_jobs=1).fit(X)
    out, times = np.empty((1000, 2 * d), np.float32), []
    for _ in range(3):
        start = time.perf_counter()
        feature_map.transform(X, out=out)
        times.append(time.perf_counter() - start)
    return min(times)


times = {directions: [seconds(directions, d) for d in sizes] for directions in ("iid", "butterfly")}

# %%

figure, axes = plt.subplots(2, 4, figsize=(11, 5.6), gridspec_kw={"width_ratios": [1, 1, 1, 1.5]})
for axis, part, number in zip([*axes[0, :3], *axes[1, :2]], parts, range(1, 6), strict=True):
    axis.imshow(part, cmap="RdBu", vmin=-1, vmax=1)
    axis.set(xticks=[], yticks=[], title=f"factor {number}")
axes[1, 2].imshow(product, cmap="RdBu", vmin=-0.7, vmax=0.7)
axes[1, 2].set(xticks=[], yticks=[], title="their product")
for axis in axes[:, 3]:
    axis.remove()
cost = figure.add_subplot(axes[0, 3].get_gridspec()[:, 3])
cost.loglog(sizes, 1e3 * np.array(times["iid"]), "o-", label="dense")
cost.loglog(sizes, 1e3 * np.array(times["butterfly"]), "o-", label="butterfly")
cost.set(xlabel="features", ylabel="milliseconds per 1000 rows", title="transform, one thread")
cost.set_xticks(sizes, [str(d) for d in sizes])
cost.minorticks_off()
cost.legend()
plt.show()
