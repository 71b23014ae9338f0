"""
Thompson sampling
=================

Where should an expensive function be evaluated next? Draw a function from the posterior and go to its maximum: the
draw explores where error bars are wide, and exploits where the mean is high.
"""

# %%
# A function that is expensive, in principle
# ------------------------------------------

import matplotlib.pyplot as plt
import numpy as np

from mercer import Gaussian, GaussianProcessRegressor, Nystroem

grid = np.linspace(0, 10, 250)[:, None]


def expensive(X):
    """Return the function that is to be maximized."""
    t = X[:, 0]
    return np.sin(t) + 0.6 * np.sin(3 * t - 1) * (t / 10)


def model_of(X, y):
    """Return the posterior given what was evaluated."""
    landmarks = Nystroem(Gaussian(1.0), landmarks=grid[::4])
    return GaussianProcessRegressor(landmarks, noise=0.02, amplitude=1.0, lengthscale_tuning=None).fit(X, y)


# %%
# Draw, go to the maximum, evaluate, repeat
# -----------------------------------------

rng = np.random.default_rng(0)
X = np.array([[1.0], [4.0], [9.5]])
y = expensive(X)
states = {}
for step in range(1, 17):
    model = model_of(X, y)
    draw = model.sample_y(grid, n_samples=1, random_state=step)[:, 0]
    best = grid[np.argmax(draw)]
    states[step] = (X.copy(), y.copy(), model.predict(grid, return_std=True), draw, best)
    X, y = np.vstack([X, best]), np.append(y, expensive(best[None])[0])
print(f"best value {y.max():.3f} at {X[np.argmax(y), 0]:.2f}; maximum {expensive(grid).max():.3f}")

# %%

figure, panels = plt.subplots(2, 3, figsize=(12, 5.6), sharex=True, sharey=True)
for axes, step in zip(panels.ravel(), (1, 2, 4, 7, 11, 16), strict=True):
    seen, values, (mean, std), draw, best = states[step]
    axes.fill_between(grid[:, 0], mean - 2 * std, mean + 2 * std, color="C0", alpha=0.2, lw=0)
    axes.plot(grid, mean, "C0", lw=1.5, label="posterior")
    axes.plot(grid, expensive(grid), "k--", lw=0.8, label="function")
    axes.plot(grid, draw, "C1", lw=1, label="draw")
    axes.plot(seen[:, 0], values, "ko", ms=4)
    axes.axvline(best[0], color="C1", lw=0.8, ls=":")
    axes.set_title(f"after {len(values)} evaluations", fontsize=10)
panels[0, 0].legend(fontsize=8)
plt.show()
