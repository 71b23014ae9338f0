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

from mercer.engines.base import workers
from mercer.linalg import sparse_product

__all__ = ["Steps", "Walk", "class_shifts", "threshold_steps"]

Array = np.ndarray
# Steps of the random walk by which labels are diffused. Long walks move boundaries, and short ones, after that, find
# their details.
WALK_STEPS = 10
SHORT_WALK_STEPS = 4
MOST_SHORT_WALKS = 3
# Steps end if fewer than this fraction of the nodes change their label.
LEAST_CHANGE = 1e-4
# Nodes from which shifts are computed, first and last. The sizes in a sample have a standard error, which for a class
# of a tenth of 50,000 rows is 1.3 % of its size.
FIRST_ROWS = 5000
SHIFT_ROWS = 50_000
# Temperatures of the iteration relative to the spread of decision values, and iterations at each of them and at the
# last one. From shifts of a previous step, only the last temperatures are needed.
TEMPERATURES = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015, 0.008)
LAST_TEMPERATURES = 2
ITERATIONS = 5
LAST_ITERATIONS = 12
# Last iterations, in which rows are counted by their largest value, and their first step relative to the spread.
COUNTED_ITERATIONS = 15
COUNTED_STEP = 0.05
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
    falling temperatures, from a sample of at most 50,000 rows.

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
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(values)) if len(values) > FIRST_ROWS else np.arange(len(values))
    if start is None:
        start = _potentials(values[order[:FIRST_ROWS]], sizes, np.zeros(K), TEMPERATURES)
        if len(values) <= FIRST_ROWS:
            return start
    return _potentials(values[order[:SHIFT_ROWS]], sizes, start, TEMPERATURES[-LAST_TEMPERATURES:])


def _potentials(values: Array, sizes: Array, shifts: Array, temperatures: tuple[float, ...]) -> Array:
    """Return the shifts by which the mean probabilities of classes at the last temperature are their sizes."""
    spread = float(np.abs(values - values.mean(axis=0)).mean())
    if spread == 0:
        return np.zeros_like(shifts)
    values = np.asarray(values, dtype=np.float32)
    target = np.log(sizes) + np.log(len(values))
    for relative in temperatures:
        temperature = relative * spread
        for _ in range(LAST_ITERATIONS if relative == TEMPERATURES[-1] else ITERATIONS):
            logits = (values + shifts.astype(np.float32)) * np.float32(1 / temperature)
            logits -= logits.max(axis=1, keepdims=True)
            share = np.exp(logits, out=logits)
            share /= share.sum(axis=1, keepdims=True)
            total = np.maximum(share.sum(axis=0, dtype=np.float64), np.finfo(np.float32).tiny)
            shifts = shifts + temperature * (target - np.log(total))
        shifts = shifts - shifts.mean()
    best, least = shifts, np.inf
    for i in range(COUNTED_ITERATIONS):
        counts = np.bincount((values + shifts.astype(np.float32)).argmax(axis=1), minlength=len(sizes)) / len(values)
        gap = float(np.abs(counts - sizes).sum())
        if gap < least:
            best, least = shifts, gap
        ratio = np.clip(np.log(sizes) - np.log(np.maximum(counts, 0.5 / len(values))), -1.0, 1.0)
        shifts = shifts + COUNTED_STEP * spread * 0.9**i * ratio
    return best - best.mean()


def threshold_steps(
    diffuse: Callable[[Array, int], Array],
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
        Function that diffuses indicators of labels (n, K) along the graph by a number of steps, such as a `Walk`.
    values : ndarray of shape (n, K)
        Decision values of all nodes.
    labeled : ndarray of shape (m,)
        Nodes whose labels are known.
    codes : ndarray of shape (m,)
        Indices of their labels.
    sizes : ndarray of shape (K,) or None, default=None
        Fractions of the classes, if they are known.
    n_steps : int, default=10
        Largest number of steps with long walks, at least one; at most three with short walks follow.
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
    for walk, most in ((WALK_STEPS, n_steps), (SHORT_WALK_STEPS, MOST_SHORT_WALKS)):
        for _ in range(most):
            indicators = np.zeros((n, K), np.float32)
            indicators[np.arange(n), now] = 1.0
            values = diffuse(indicators, walk)
            shifts = class_shifts(values, sizes, shifts, seed)
            new = labels_of(values, shifts)
            changed = float(np.mean(new != now))
            now = new
            done += 1
            if changed < LEAST_CHANGE:
                break
    assert shifts is not None
    return Steps(values, shifts, now, done)
