"""
A stream that drifts
====================

Batches of rows arrive, and a model is in use that was fitted to earlier rows. Have the rows changed? A test after each
batch is wrong sooner or later. `DriftMonitor` bounds the probability of any false alarm by `alpha`, however long it
runs.
"""

# %%
# Streams with and without drift
# ------------------------------
# Two columns are correlated. From batch 21 on, the correlation has the other sign: each column by itself is as before.

import matplotlib.pyplot as plt
import numpy as np

from mercer import DriftMonitor

rng = np.random.default_rng(0)
BATCHES, CHANGE = 40, 20


def rows(n, sign=1):
    """Return rows with a correlation of the given sign."""
    X = rng.normal(size=(n, 2))
    X[:, 1] = sign * 0.4 * X[:, 0] + np.sqrt(1 - 0.4**2) * X[:, 1]
    return X


def watch(change, seed):
    """Return the states of a monitor after each batch."""
    monitor = DriftMonitor(rows(1000), alpha=0.05, random_state=seed)
    for batch in range(BATCHES):
        monitor.update(rows(80, -1 if batch >= change else 1))
    return monitor.history_


quiet = [watch(BATCHES, seed) for seed in range(8)]
drifting = [watch(CHANGE, seed) for seed in range(8)]

# %%
# Alarms
# ------
# Each batch also has a p-value of its own. An alarm at the first one of at most 0.05 would be a false alarm in most
# streams.

false = sum(states[-1].alarm for states in quiet)
every = sum(min(state.p_value for state in states) <= 0.05 for states in quiet)
print(f"8 streams without drift: {false} with an alarm, {every} with a p-value of at most 0.05")
first = [states[-1].first_alarm for states in drifting]
right = [batch for batch in first if batch is not None and batch > CHANGE]
print(f"8 streams with drift: {len(right)} alarms after the change, after {np.median(right) - CHANGE:.0f} batches")

# %%
# The evidence is what a fair bet against the absence of drift would have multiplied its stake by.

figure, panels = plt.subplots(1, 2, figsize=(10, 3.6), sharey=True)
for axes, streams, title in zip(panels, (quiet, drifting), ("without drift", "with drift"), strict=True):
    for states in streams:
        axes.semilogy([state.batch for state in states], [state.evidence for state in states], color="C0", lw=0.8)
    axes.axhline(20, color="C3", ls="--", lw=1)
    axes.set(title=title, xlabel="batch", ylim=(1e-2, 1e7))
panels[0].text(2, 28, "alarm at 1 / alpha = 20", color="C3")
panels[0].set_ylabel("evidence of drift")
panels[1].axvline(CHANGE + 0.5, color="0.6", lw=1)
panels[1].text(CHANGE - 0.5, 2e4, "change", color="0.4", ha="right")
plt.show()
