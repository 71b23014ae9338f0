"""
A test that finds a subtle change
=================================

Two samples with the same mean, the same variance of every coordinate and the same correlation. Tests of moments see
nothing. The maximum mean discrepancy compares all moments at once, and its witness function shows where the samples
differ.
"""

# %%
# A normal distribution, and a ring of bumps with the same moments
# ----------------------------------------------------------------

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from mercer import Gaussian, RandomFourier, mmd_test

rng = np.random.default_rng(0)


def before(n):
    """Return rows of a normal distribution."""
    return rng.normal(size=(n, 2))


def after(n):
    """Return rows of eight bumps on a circle, as broad as the normal distribution in both coordinates."""
    angle = 2 * np.pi * rng.integers(0, 8, n) / 8
    return 1.1 * np.column_stack([np.cos(angle), np.sin(angle)]) + np.sqrt(1 - 1.1**2 / 2) * rng.normal(size=(n, 2))


X, Y = before(3000), after(3000)
for column in range(2):
    print(
        f"column {column}: t-test p = {stats.ttest_ind(X[:, column], Y[:, column]).pvalue:.2f}, "
        f"Levene p = {stats.levene(X[:, column], Y[:, column]).pvalue:.2f}"
    )
result = mmd_test(X, Y, Gaussian(0.7), random_state=0)
print(f"mmd_test: p = {result.p_value:.3f}")

# %%
# The witness, and the power
# --------------------------
# The witness is the difference of the mean features as a function: large where the second sample has more rows. The
# power is the share of 40 pairs of samples with p <= 0.05.

feature_map = RandomFourier(Gaussian(0.7), 512, random_state=0).fit(X)
direction = feature_map.transform(Y).mean(axis=0) - feature_map.transform(X).mean(axis=0)
side = np.linspace(-3, 3, 100)
grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
witness = (feature_map.transform(grid) @ direction).reshape(100, 100)

sizes, repeats = [125, 250, 500, 1000, 2000], 40
power = {"mmd_test": [], "Kolmogorov-Smirnov, both columns": []}
for n in sizes:
    pairs = [(before(n), after(n)) for _ in range(repeats)]
    found = [mmd_test(A, B, Gaussian(0.7), n_permutations=99, random_state=0).p_value <= 0.05 for A, B in pairs]
    power["mmd_test"].append(np.mean(found))
    columns = [min(stats.ks_2samp(A[:, i], B[:, i]).pvalue for i in range(2)) <= 0.025 for A, B in pairs]
    power["Kolmogorov-Smirnov, both columns"].append(np.mean(columns))

# %%

figure, panels = plt.subplots(1, 4, figsize=(13, 3.5), gridspec_kw={"width_ratios": [1, 1, 1, 1.3]})
for axes, rows, title in zip(panels, (X, Y), ("before", "after"), strict=False):
    axes.plot(*rows.T, ".", ms=1.2, color="C0" if title == "before" else "C1")
    axes.set(title=title, xlim=(-3, 3), ylim=(-3, 3), xticks=[], yticks=[], aspect="equal")
limit = np.abs(witness).max()
panels[2].contourf(side, side, witness, 21, cmap="RdBu_r", vmin=-limit, vmax=limit)
panels[2].set(title=f"witness, p = {result.p_value:.3f}", xticks=[], yticks=[], aspect="equal")
for name, values in power.items():
    panels[3].semilogx(sizes, values, "o-", label=name)
panels[3].axhline(0.05, color="k", ls="--", lw=0.8)
panels[3].set(title="power at level 5 %", xlabel="rows per sample", ylim=(0, 1.02))
panels[3].set_xticks(sizes, [str(n) for n in sizes])
panels[3].minorticks_off()
panels[3].legend(fontsize=8)
plt.show()
