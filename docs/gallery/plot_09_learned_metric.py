"""
A learned metric for rentals of bikes
=====================================

A kernel with one lengthscale treats all columns alike. `LearnedMetric` learns from the targets which columns
matter, and the error falls. The table is synthetic, made after the pattern of hourly bike rentals: hours and
weather decide, and some columns mean nothing.
"""

# %%
# Hours, weather, and columns that mean nothing
# ---------------------------------------------

import matplotlib.pyplot as plt
import numpy as np

from mercer import Gaussian, KernelRidge, LearnedMetric, Nystroem, ScaledColumns

rng = np.random.default_rng(0)
n = 4000
hour, temperature, rain = rng.integers(0, 24, n), rng.normal(14, 8, n), rng.exponential(0.6, n) * (rng.random(n) < 0.3)
workday, wind = rng.integers(0, 7, n) < 5, rng.gamma(4, 3, n)
commute = np.exp(-((hour - 8) ** 2) / 2) + np.exp(-((hour - 17.5) ** 2) / 4)
leisure = np.exp(-((hour - 14) ** 2) / 18)
demand = np.where(workday, 320 * commute + 60 * leisure, 210 * leisure) * np.exp(-(((temperature - 22) / 14) ** 2) / 2)
rentals = demand * np.exp(-0.9 * rain) * (1 - 0.006 * wind) + 8 * rng.normal(size=n)
names = ["hour", "temperature", "workday", "rain", "wind", *(f"nothing {i}" for i in range(1, 6))]
X = np.column_stack([hour, temperature, workday, rain, wind, rng.normal(size=(n, 5))]).astype(float)
train, test = slice(0, 3000), slice(3000, None)

# %%
# One lengthscale, a learned metric, and near rows
# ------------------------------------------------

landmarks = Nystroem(Gaussian("median"), 400, random_state=0)
models = {
    "one lengthscale": KernelRidge(ScaledColumns(landmarks), alpha="loo"),
    "learned metric": KernelRidge(LearnedMetric(landmarks, random_state=0), alpha="loo"),
    "learned metric\nand near rows": KernelRidge(
        LearnedMetric(landmarks, method="neighbors", metric="diagonal", random_state=0), alpha="loo", neighbors=64
    ),
}
scores = {}
for name, model in models.items():
    prediction = model.fit(X[train], rentals[train]).predict(X[test])
    scores[name] = np.sqrt(np.mean((prediction - rentals[test]) ** 2))

# %%
# Left: the root mean square error on new hours; the noise has a standard deviation of 8. Right: the importances of
# the columns. The last panel predicts a dry day of 20 degrees.

day = np.column_stack(
    [np.arange(24), np.full(24, 20.0), np.ones(24), np.zeros(24), np.full(24, 10.0), np.zeros((24, 5))]
)
figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 4), gridspec_kw={"width_ratios": [1, 1, 1.3]})
left.bar(list(scores), list(scores.values()), color=["C0", "C1", "C2"])
left.axhline(8, color="k", ls="--", lw=1)
left.tick_params(axis="x", labelsize=8)
left.set(title="error on new rows (dashed: noise)", ylabel="bikes")
importances = models["learned metric\nand near rows"].feature_map_.importances_
middle.barh(names[::-1], importances[::-1], color="C2")
middle.set(title="importances of the columns")
for color, (name, model) in zip(("C0", "C1", "C2"), models.items(), strict=True):
    right.plot(np.arange(24), model.predict(day), color=color, label=name.replace("\n", " "))
hours = np.arange(24)
peaks = 320 * (np.exp(-((hours - 8) ** 2) / 2) + np.exp(-((hours - 17.5) ** 2) / 4)) + 60 * np.exp(
    -((hours - 14) ** 2) / 18
)
right.plot(hours, peaks * np.exp(-((2 / 14) ** 2) / 2) * 0.94, "k--", lw=1, label="truth")
right.set(title="a dry working day", xlabel="hour", ylabel="bikes", ylim=(-60, 430))  # with space for the legend
right.legend(fontsize=8, loc="upper left")
plt.show()
print({name.replace("\n", " "): round(float(score), 1) for name, score in scores.items()})
