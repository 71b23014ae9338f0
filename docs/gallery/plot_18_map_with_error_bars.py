"""
A map with error bars
=====================

100,000 measurements at positions in the plane, along streets, with a gap where there are none. For rows of one to three
columns, `GridGaussianProcessRegressor` has all frequencies that matter, so that mean and standard deviation are those
of the exact process up to a small fraction.
"""

# %%
# Measurements
# ------------
# Positions scatter around the lines of a coarse network. The noise is half as large as the field.

import time

import matplotlib.pyplot as plt
import numpy as np

from mercer import GridGaussianProcessRegressor

rng = np.random.default_rng(0)
waves, phases = 7 * rng.normal(size=(40, 2)), rng.uniform(0, 2 * np.pi, 40)


def field(X):
    """Return the field at some positions."""
    return np.sqrt(2 / 40) * np.cos(X @ waves.T + phases).sum(axis=1)


n = 120_000
X = rng.uniform(0, 1, size=(n, 2))
along = rng.integers(0, 2, n)
X[np.arange(n), along] = np.clip(rng.choice([0.05, 0.3, 0.6, 0.95], n) + 0.01 * rng.normal(size=n), 0, 1)
X = X[np.hypot(*(X - [0.62, 0.6]).T) > 0.17][:100_000]
y = field(X) + 0.5 * rng.normal(size=len(X))

# %%
# Fit
# ---
# Lengthscale, amplitude and noise maximize the evidence of a sample of the rows.

start = time.perf_counter()
model = GridGaussianProcessRegressor(random_state=0).fit(X, y)
print(f"{len(X):,} rows in {time.perf_counter() - start:.1f} s; {model.coef_.size:,} components")
print(f"noise {model.noise_:.3f}, true value 0.5")

# %%
# The maps
# --------
# The standard deviation is small along the streets and large in the gap. The field is smoother than the default kernel,
# whose intervals are therefore too wide rather than too narrow.

side = np.linspace(0, 1, 100)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
mean, std = model.predict(grid, return_std=True)
truth = field(grid)
inside = np.mean(np.abs(mean - truth) <= 1.645 * std)
print(f"root mean square error {np.sqrt(np.mean((mean - truth) ** 2)):.3f}; 90 % intervals contain {inside:.1%}")

figure, grid_of_panels = plt.subplots(2, 2, figsize=(8.5, 7.5), layout="constrained")
panels = grid_of_panels.ravel()
options = {"cmap": "RdBu_r", "vmin": -2.5, "vmax": 2.5, "rasterized": True}
panels[0].pcolormesh(side, side, truth.reshape(100, 100), **options)
panels[1].scatter(*X[:8000].T, c=y[:8000], s=1, **options)
panels[2].pcolormesh(side, side, mean.reshape(100, 100), **options)
drawn = panels[3].pcolormesh(side, side, std.reshape(100, 100), cmap="viridis", rasterized=True)
figure.colorbar(drawn, ax=panels[3], shrink=0.8)
names = ("the field", f"8000 of {len(X):,} measurements", "mean", "standard deviation")
for axes, title in zip(panels, names, strict=True):
    axes.set(title=title, xticks=[], yticks=[], aspect="equal", xlim=(0, 1), ylim=(0, 1))
plt.show()
