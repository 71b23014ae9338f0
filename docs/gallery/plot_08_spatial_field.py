"""
A spatial field of a million rows
=================================

A million noisy measurements of a field in the plane. Gaussian process regression on Fourier features reads them in
blocks, so memory does not grow with the rows, and returns the field with error bars.
"""

# %%
# Measurements
# ------------
# Positions are denser in the lower left corner. The field has waves of several lengths, and the noise is as large
# as the field.

import time

import matplotlib.pyplot as plt
import numpy as np

from mercer import Gaussian, GaussianProcessRegressor, RandomFourier

rng = np.random.default_rng(0)
waves, phases = 6 * rng.normal(size=(40, 2)), rng.uniform(0, 2 * np.pi, 40)


def field(X):
    """Return the field at some positions."""
    return np.sqrt(2 / 40) * np.cos(X @ waves.T + phases).sum(axis=1)


class Measurements:
    """A million rows in blocks, made as they are read."""

    def __iter__(self):
        for seed in range(20):
            block = np.random.default_rng(seed)
            X = block.beta(1.0, 2.2, size=(50_000, 2))
            yield X, field(X) + block.normal(size=len(X))


# %%
# Fit
# ---
# The lengthscale is fixed, so that one pass is enough.

start = time.perf_counter()
feature_map = RandomFourier(Gaussian(0.15), 384, random_state=0)
model = GaussianProcessRegressor(feature_map, lengthscale_tuning=None).fit(Measurements())
print(f"a million rows in {time.perf_counter() - start:.0f} s; noise {model.noise_:.3f}, true value 1")

# %%
# The field, what was measured, what was found, and the error bars
# ----------------------------------------------------------------

side = np.linspace(0, 1, 120)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
mean, std = model.predict(grid, return_std=True)
X, y = next(iter(Measurements()))
figure, grid_of_panels = plt.subplots(2, 2, figsize=(8.5, 7.5), layout="constrained")
panels = grid_of_panels.ravel()
options = {"cmap": "RdBu_r", "vmin": -2.5, "vmax": 2.5, "rasterized": True}
panels[0].pcolormesh(side, side, field(grid).reshape(120, 120), **options)
panels[1].scatter(*X[:8000].T, c=y[:8000], s=1, **options)
panels[2].pcolormesh(side, side, mean.reshape(120, 120), **options)
drawn = panels[3].pcolormesh(side, side, std.reshape(120, 120), cmap="viridis", norm="log", rasterized=True)
figure.colorbar(drawn, ax=panels[3], shrink=0.8)
names = ("the field", "8000 of a million measurements", "predicted", "standard deviation")
for axes, title in zip(panels, names, strict=True):
    axes.set(title=title, xticks=[], yticks=[], aspect="equal", xlim=(0, 1), ylim=(0, 1))
plt.show()
print(f"root mean square error {np.sqrt(np.mean((mean - field(grid)) ** 2)):.3f}")
