"""
Your own map
============

A map is three members: which kernels it accepts, whether it is unbiased, and how its features are drawn.
Validation, sparse rows, threads, pipelines, audits and Dask are inherited. This one projects the square roots of
histograms on random signs.
"""

# %%
# Features, and a map that draws them
# -----------------------------------

from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np

from mercer import Hellinger, audit
from mercer.features import Features
from mercer.maps import DrawnMap


@dataclass(frozen=True, eq=False)
class SignedSums(Features):
    """Sums of the square roots of a row with random signs."""

    signs_of_terms: np.ndarray

    @property
    def n_components(self):
        """Return the number of components."""
        return self.signs_of_terms.shape[1]

    def astype(self, dtype):
        """Return the features in another precision."""
        return replace(self, signs_of_terms=self.signs_of_terms.astype(dtype, copy=False))

    def __call__(self, X, out):
        out[...] = np.sqrt(X) @ self.signs_of_terms
        out /= np.sqrt(self.n_components)


class HellingerSketch(DrawnMap):
    """Random projections of square roots."""

    needs = "the Hellinger kernel"
    unbiased = True

    def __init__(self, kernel=Hellinger(), n_components=512, *, random_state=None, n_jobs=None):
        self.kernel = kernel
        self.n_components = n_components
        self.random_state = random_state
        self.n_jobs = n_jobs

    @classmethod
    def accepts(cls, kernel):
        """Return whether the map approximates a kernel."""
        return isinstance(kernel, Hellinger)

    def _draw(self, kernel, X, weight, rng):
        return SignedSums(rng.choice([-1.0, 1.0], size=(X.shape[1], self.n_components)))


# %%
# Is it unbiased?
# ---------------
# Left: approximate against exact values for one draw, and the mean of 100 draws. Right: the measured error by
# width.

rng = np.random.default_rng(0)
X = np.concatenate([rng.dirichlet(np.full(200, c), 15) for c in (0.02, 0.1, 1.0)])
exact = Hellinger()(X)
draws = np.array([HellingerSketch(n_components=64, random_state=seed).fit(X).gram(X) for seed in range(100)])
widths = [16, 64, 256, 1024]
errors = [audit(HellingerSketch(n_components=width, random_state=0).fit(X), X).rmse for width in widths]
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2))
left.plot(exact.ravel(), draws[0].ravel(), ".", ms=2.5, alpha=0.5, label="one draw of 64 components")
left.plot(exact.ravel(), draws.mean(axis=0).ravel(), ".", ms=2.5, label="mean of 100 draws")
left.plot([0, 1], [0, 1], "k", lw=1)
left.set(xlabel="Hellinger kernel", ylabel="inner product of features", title="unbiased, as it claims")
left.legend(markerscale=4)
right.loglog(widths, errors, "o-", label="measured by audit")
right.loglog(widths, errors[0] * np.sqrt(widths[0] / np.array(widths)), "k--", lw=1, label="slope -1/2")
right.set(xlabel="components", ylabel="RMSE", title="error against width")
right.set_xticks(widths, [str(width) for width in widths])
right.minorticks_off()
right.legend()
plt.show()
