"""
Why orthogonal frequencies
==========================

Random Fourier features average the cosines of random frequencies. Independent frequencies, as in most libraries,
are not the best ones: frequencies with orthogonal directions have the same mean and a fraction of the variance
wherever two rows are not far apart. Nothing is paid for it.
"""

# %%
# Draw the same kernel value many times
# -------------------------------------
# One row stays at the origin, and the other one moves away from it. Every map below is unbiased, so what differs is
# the spread over draws. It is measured over 150 draws of 64 components.

import matplotlib.pyplot as plt
import numpy as np

from mercer import Gaussian, RandomFourier, SphericalRadial

d, n_components, n_draws = 16, 64, 150
distances = np.linspace(0.05, 4, 40)
direction = np.ones(d) / np.sqrt(d)
rows = np.vstack([np.zeros(d), distances[:, None] * direction])
exact = np.exp(-(distances**2) / 2)
maps = {
    "independent": RandomFourier(Gaussian(1.0), n_components, directions="iid"),
    "orthogonal blocks": RandomFourier(Gaussian(1.0), n_components, directions="orthogonal"),
    "one big block": RandomFourier(Gaussian(1.0), n_components, directions="big_block"),
    # One more component, for the constant of the rule.
    "quadrature": SphericalRadial(Gaussian(1.0), n_components + 1, constant="signed"),
}
draws = {
    name: np.array([m.set_params(random_state=s).fit(rows).gram(rows[:1], rows[1:])[0] for s in range(n_draws)])
    for name, m in maps.items()
}

# %%
# The spread by distance, and as a cloud
# --------------------------------------
# Left: the standard deviation of an approximate kernel value. Right: 40 draws of the whole curve, for independent
# and for orthogonal frequencies, around the exact kernel.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
for name, values in draws.items():
    left.semilogy(distances, values.std(axis=0), label=name)
left.set(xlabel="distance / lengthscale", ylabel="standard deviation over draws", title="the same mean, less variance")
left.legend()
right.plot(distances, draws["independent"][:40].T, color="C0", alpha=0.25, lw=0.8)
right.plot(distances, draws["one big block"][:40].T, color="C1", alpha=0.35, lw=0.8)
right.plot(distances, exact, "k", lw=2, label="exact kernel")
right.plot([], color="C0", label="independent")
right.plot([], color="C1", label="one big block")
right.set(xlabel="distance / lengthscale", title="40 draws of 64 components")
right.legend()
plt.show()

# %%
# At half a lengthscale the variance falls by a large factor, which would otherwise take as many times more
# components:

near = int(np.searchsorted(distances, 0.5))
for name in ("orthogonal blocks", "one big block", "quadrature"):
    ratio = draws["independent"][:, near].var() / draws[name][:, near].var()
    print(f"{name}: {ratio:.0f} times less variance than independent frequencies")
