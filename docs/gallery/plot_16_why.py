"""
Why linear cost matters
=======================

Kernel ridge regression on the same rows with the same kernel: exact, with the matrix of all pairs of rows; with
scikit-learn's random features; and with mercer, alone and with near rows. The exact model stops where its matrix no
longer fits.
"""

# %%
# Time and error against the number of rows
# -----------------------------------------
# The exact model needs eight bytes for each pair of rows: 0.13 GB for 4000 rows and 8 GB for 32,000.

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.kernel_ridge import KernelRidge as ExactKernelRidge
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline

from mercer import Gaussian, KernelRidge, Nystroem

rng = np.random.default_rng(0)
DIMENSION, WIDTH, GAMMA = 4, 500, 0.25


def rows(n):
    """Return rows and noisy values of a function of them."""
    X = rng.normal(size=(n, DIMENSION))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + np.abs(X[:, 2]) + 0.1 * rng.normal(size=n)


def models(n):
    """Return the models that can be fitted to so many rows."""
    landmarks = Nystroem(Gaussian.from_gamma(GAMMA), WIDTH, random_state=0)
    sampler = RBFSampler(gamma=GAMMA, n_components=WIDTH, random_state=0)
    out = {
        "exact": ExactKernelRidge(kernel="rbf", gamma=GAMMA, alpha=0.1),
        "scikit-learn, 500 random features": make_pipeline(sampler, Ridge(alpha=0.1)),
        "mercer, 500 landmarks": KernelRidge(landmarks, alpha=0.1),
        "mercer, 500 landmarks and near rows": KernelRidge(landmarks, alpha="loo", neighbors=64),
    }
    return out if n <= 4000 else {name: model for name, model in out.items() if name != "exact"}


X_test, y_test = rows(3000)
results = {}
for n in (1000, 2000, 4000, 8000, 16000, 32000):
    X, y = rows(n)
    for name, model in models(n).items():
        start = time.perf_counter()
        model.fit(X, y)
        seconds = time.perf_counter() - start
        error = np.sqrt(np.mean((model.predict(X_test) - y_test) ** 2))
        results.setdefault(name, []).append((n, seconds, error))

# %%
# The dotted line continues the exact model with the cube of the rows, by which its time grows in the end.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
for name, color in zip(results, ("k", "C0", "C1", "C2"), strict=True):
    n, seconds, errors = np.array(results[name]).T
    left.loglog(n, seconds, "o-", color=color, label=name)
    right.loglog(n, errors, "o-", color=color, label=name)
    if name == "exact":
        beyond = np.array([4000, 32000])
        left.loglog(beyond, seconds[-1] * (beyond / 4000) ** 3, "k:")
left.set(xlabel="rows", ylabel="seconds of the fit", title="time")
right.axhline(0.1, color="0.6", ls="--", lw=1)
right.text(1000, 0.103, "noise", color="0.5")
right.set(xlabel="rows", ylabel="RMSE on new rows", title="error")
left.legend(fontsize=8)
plt.show()
for name, values in results.items():
    n, seconds, error = values[-1]
    print(f"{name}: {n:.0f} rows in {seconds:.1f} s, error {error:.3f}")
