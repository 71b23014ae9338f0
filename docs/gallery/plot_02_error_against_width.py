"""
Error against width for ten maps
================================

Ten ways to approximate one Gaussian kernel on the handwritten digits. The error is the root mean square over pairs
of rows that the maps have not seen. Random features fall along lines of slope -1/2; maps that look at the rows fall
faster.
"""

# %%
# Measure
# -------
# `audit` compares approximate and exact kernel values. Each point is the mean of two draws.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits

from mercer import Gaussian, Nystroem, RandomFourier, RandomMaclaurin, ResampledFourier, SphericalRadial, audit

X = load_digits().data
train, test = X[:1200], X[1200:1500]
kernel = Gaussian(40.0)
widths = [64, 128, 256, 512]
maps = {
    "independent": RandomFourier(kernel, directions="iid"),
    "Sobol": RandomFourier(kernel, directions="sobol"),
    "sign-Hadamard": RandomFourier(kernel, directions="hadamard"),
    "butterfly": RandomFourier(kernel, directions="butterfly"),
    "big block, stratified radii": RandomFourier(kernel, directions="big_block", radii="stratified"),
    "resampled": ResampledFourier(kernel, pool=4),
    "quadrature": SphericalRadial(kernel),
    "Maclaurin": RandomMaclaurin(kernel),
    "landmarks, pivoted": Nystroem(kernel),
    "landmarks, twice as many": Nystroem(kernel),
}


def error(name, width, seed):
    """Return the measured error of one draw."""
    parameters = {"n_components": width, "random_state": seed}
    if name.endswith("twice as many"):
        parameters["n_landmarks"] = 2 * width
    return audit(maps[name].set_params(**parameters).fit(train), test, n_rows=300).rmse


errors = {name: [np.mean([error(name, width, seed) for seed in range(2)]) for width in widths] for name in maps}

# %%
# Compare
# -------
# The dashed line has slope -1/2.

figure, axes = plt.subplots(figsize=(8, 5))
colors = plt.get_cmap("tab10").colors
for (name, values), color in zip(sorted(errors.items(), key=lambda item: -item[1][-1]), colors, strict=True):
    axes.loglog(widths, values, "o-", color=color, label=name)
start = errors["independent"][0]
axes.loglog(widths, start * np.sqrt(widths[0] / np.array(widths)), "k--", lw=0.8)
axes.set(xlabel="components", ylabel="RMSE of the kernel on new rows", title="Gaussian kernel, digits, 64 features")
axes.set_xticks(widths, [str(width) for width in widths])
axes.minorticks_off()
axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
plt.show()

for name, values in errors.items():
    print(f"{name:28} {values[-1]:.2e}")
