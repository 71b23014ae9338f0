r"""Threshold steps on a graph, and shifts of decision values by which classes have given sizes.

A step gives each node the label of its largest decision value, and diffuses these labels along the graph by some steps
of its random walk [1]_, [2]_. Boundaries move to where there are few edges. Labeled nodes keep their labels. If the
sizes of the classes are known, decision values are shifted by one number per class before the threshold, so that each
class gets its size.

.. [1] Merkurjev, Kostic, Bertozzi (2013), An MBO scheme on graphs for classification and image processing, SIAM Journal
   on Imaging Sciences.
.. [2] Calder, Cook, Thorpe, Slepcev (2020), Poisson learning: graph based semi-supervised learning at very low label
   rates, ICML.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from mercer.engines.base import workers
from mercer.linalg import sparse_product

__all__ = ["Steps", "Walk", "class_shifts", "threshold_steps"]

Array = np.ndarray
# Steps of the random walk by which labels are diffused.
WALK_STEPS = 10
# Steps end if fewer than this fraction of the nodes change their label.
LEAST_CHANGE = 1e-3
# Nodes from which shifts are computed; temperatures of the iteration relative to the spread of decision values, and
# iterations at each of them and at the last one. From shifts of a previous step, only the last temperatures are needed.
SHIFT_ROWS = 5000
TEMPERATURES = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015, 0.008)
LAST_TEMPERATURES = 2
ITERATIONS = 6
LAST_ITERATIONS = 30
TASK_ROWS = 4096


class Walk:
    """The random walk on a graph.

    Parameters
    ----------
    laplacian : csr_array of shape (n, n)
        The symmetric normalized Laplacian.
    degree : ndarray of shape (n,)
        The degrees of the nodes.
    n_jobs : int or None, default=None
        Number of threads.
    """

    def __init__(self, laplacian: Any, degree: Array, n_jobs: int | None = None) -> None:
        n = laplacian.shape[0]
        root = np.sqrt(np.where(degree > 0, degree, 1.0))
        row = np.repeat(np.arange(n), np.diff(laplacian.indptr))
        values = -laplacian.data * root[laplacian.indices] / root[row]
        on_diagonal = row == laplacian.indices
        values[on_diagonal] += 1.0
        self.entries = laplacian.indptr.astype(np.int32), laplacian.indices.astype(np.int32), values.astype(np.float32)
        self.isolated = np.flatnonzero(np.diff(laplacian.indptr) == 0)
        self.n_jobs = n_jobs
        self.n_nodes = n

    def __call__(self, values: Array, steps: int = WALK_STEPS) -> Array:
        """Return the mean (n, K) of values at the ends of walks of some steps that start at each node."""
        starts, indices, entries = self.entries
        here, there = np.ascontiguousarray(values, dtype=np.float32), np.empty(values.shape, np.float32)
        alone = here[self.isolated]
        with workers(self.n_jobs) as team:
            for _ in range(steps):

                def apply(start: int, here: Array = here, there: Array = there) -> None:
                    rows = slice(start, min(start + TASK_ROWS, self.n_nodes))
                    sparse_product(starts[rows.start : rows.stop + 1], indices, entries, here, there[rows])

                team.run(apply, range(0, self.n_nodes, TASK_ROWS))
                here, there = there, (there if here is values else here)
                if there is here:
                    there = np.empty(values.shape, np.float32)
        here[self.isolated] = alone  # a walk from a node without an edge stays there
        return here


@dataclass(frozen=True, eq=False)
class Steps:
    """The result of threshold steps.

    Attributes
    ----------
    values : ndarray of shape (n, K)
        Diffused labels of all nodes.
    shifts : ndarray of shape (K,)
        Numbers that are added to them.
    codes : ndarray of shape (n,)
        Indices of the labels of all nodes.
    n_steps : int
        Number of steps.
    """

    values: Array
    shifts: Array
    codes: Array
    n_steps: int


def class_shifts(values: Array, sizes: Array | None, start: Array | None = None, seed: int = 0) -> Array:
    """Return the numbers by which decision values are shifted so that the fractions of the largest ones are `sizes`.

    These are the potentials of an optimal transport of rows to classes. They are computed by Sinkhorn's iteration at
    falling temperatures, from a sample of at most 5000 rows.

    Parameters
    ----------
    values : ndarray of shape (n, K)
        Decision values.
    sizes : ndarray of shape (K,) or None
        Fractions of the classes, > 0; None means no shifts.
    start : ndarray of shape (K,) or None, default=None
        Shifts of similar decision values, from which the iteration starts.
    seed : int, default=0
        Seed of the sample.

    Returns
    -------
    ndarray of shape (K,)

    Examples
    --------
    >>> import numpy as np
    >>> values = np.column_stack([np.linspace(0, 1, 1000), np.full(1000, 0.5)])
    >>> shifts = class_shifts(values, np.array([0.2, 0.8]))
    >>> bool(abs(((values + shifts).argmax(axis=1) == 0).mean() - 0.2) < 0.01)
    True
    """
    K = values.shape[1]
    if sizes is None:
        return np.zeros(K)
    n = len(values)
    if n > SHIFT_ROWS:
        values = values[np.sort(np.random.default_rng(seed).permutation(n)[:SHIFT_ROWS])]
    values = np.asarray(values, dtype=np.float64)
    spread = float(np.abs(values - values.mean(axis=0)).mean())
    if spread == 0:
        return np.zeros(K)
    shifts, target = np.zeros(K) if start is None else start.copy(), np.log(sizes) + np.log(len(values))
    temperatures = TEMPERATURES if start is None else TEMPERATURES[-LAST_TEMPERATURES:]
    for relative in temperatures:
        temperature = relative * spread
        for _ in range(LAST_ITERATIONS if relative == TEMPERATURES[-1] else ITERATIONS):
            share = special.log_softmax((values + shifts) / temperature, axis=1)
            shifts += temperature * (target - special.logsumexp(share, axis=0))
        shifts -= shifts.mean()
    return shifts


def threshold_steps(
    diffuse: Callable[[Array], Array],
    values: Array,
    labeled: Array,
    codes: Array,
    *,
    sizes: Array | None = None,
    n_steps: int = 10,
    seed: int = 0,
) -> Steps:
    """Improve decision values on a graph by threshold steps.

    Parameters
    ----------
    diffuse : callable
        Function that diffuses indicators of labels (n, K) along the graph, such as a `Walk`.
    values : ndarray of shape (n, K)
        Decision values of all nodes.
    labeled : ndarray of shape (m,)
        Nodes whose labels are known.
    codes : ndarray of shape (m,)
        Indices of their labels.
    sizes : ndarray of shape (K,) or None, default=None
        Fractions of the classes, if they are known.
    n_steps : int, default=10
        Largest number of steps, at least one.
    seed : int, default=0
        Seed of samples.

    Returns
    -------
    Steps
    """
    n, K = values.shape

    def labels_of(values: Array, shifts: Array) -> Array:
        found = (values + shifts.astype(values.dtype)).argmax(axis=1)
        found[labeled] = codes
        return found

    now = labels_of(values, class_shifts(values, sizes, seed=seed))
    shifts: Array | None = None
    done = 0
    for done in range(1, n_steps + 1):  # noqa: B007 - reported
        indicators = np.zeros((n, K), np.float32)
        indicators[np.arange(n), now] = 1.0
        values = diffuse(indicators)
        shifts = class_shifts(values, sizes, shifts, seed)
        new = labels_of(values, shifts)
        changed = float(np.mean(new != now))
        now = new
        if changed < LEAST_CHANGE:
            break
    assert shifts is not None
    return Steps(values, shifts, now, done)
