"""
Error bars that open
====================

A Gaussian process knows where it does not know. The noise, the amplitude and the lengthscale are tuned by the
marginal likelihood, and the error bars open in the gap and beyond the rows. The cost is linear in the rows.
"""

# %%
# Rows with a gap
# ---------------

import matplotlib.pyplot as plt
import numpy as np

from mercer import GaussianProcessRegressor

rng = np.random.default_rng(3)
x = np.concatenate([rng.uniform(-4, -1, 300), rng.uniform(1.2, 4, 300)])


def truth(t):
    """Return the function that was measured."""
    return np.sin(1.8 * t) + 0.3 * t


y = truth(x) + 0.25 * rng.normal(size=600)
model = GaussianProcessRegressor(random_state=0).fit(x[:, None], y)
print(f"noise {model.noise_:.3f}, true value 0.25; lengthscale {model.kernel_}")

# %%
# The posterior, and functions drawn from it
# ------------------------------------------
# The darker band contains the function with a probability of 95 %, the lighter one a new measurement.

grid = np.linspace(-6.5, 6.5, 400)
mean, std = model.predict(grid[:, None], return_std=True)
samples = model.sample_y(grid[:, None], n_samples=6, random_state=0)
_, measurement = model.predict(grid[:, None], return_std=True, with_noise=True)

figure, axes = plt.subplots(figsize=(9, 4.4))
for spread, alpha, label in ((measurement, 0.15, "new measurement"), (std, 0.3, "function")):
    axes.fill_between(grid, mean - 1.96 * spread, mean + 1.96 * spread, color="C0", alpha=alpha, lw=0, label=label)
axes.plot(grid, samples, color="C0", lw=0.7, alpha=0.7)
axes.plot(grid, mean, "C0", lw=2, label="mean")
axes.plot(grid, truth(grid), "k--", lw=1, label="truth")
axes.plot(x, y, ".", color="0.35", ms=3)
axes.set(xlabel="x", xlim=(-6.5, 6.5), ylim=(-6, 6), title="600 rows, none of them in the middle")
axes.legend(loc="upper left", ncols=4)
plt.show()
