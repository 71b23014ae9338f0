"""Mini-batch k-means: centers that move after every batch, as running means of all rows assigned to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Self

import numpy as np

from mercer.engines import Block, Engine, MemoryEngine
from mercer.engines.base import row_blocks
from mercer.solvers.clusters.lloyd import Assign, ClusterSums
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.sample import stack

__all__ = ["RunningMeans", "batches_of", "by_batches"]

Array = np.ndarray


@dataclass(frozen=True)
class RunningMeans:
    """Centers that are running means of the rows assigned to them (MacQueen 1967; Sculley 2010)."""

    centers: Array  # (k, D)
    weight: Array  # (k,), of all rows assigned so far; zero where the center is still the initial one
    rows: int = 0

    @classmethod
    def starting_at(cls, centers: Array) -> Self:
        """Return the state with initial centers (k, D), before any row is assigned to them."""
        return cls(np.array(centers, dtype=np.float64), np.zeros(len(centers)))

    def after(self, found: ClusterSums) -> RunningMeans:
        """Return the updated centers, given the `ClusterSums` of one batch of rows."""
        weight = self.weight + found.weight[0]
        came = weight > 0
        # Means are updated by increments: in growing sums over all rows, the small steps of late batches would be lost
        # to rounding.
        step = (found.sums[0] - found.weight[0][:, None] * self.centers) / np.where(came, weight, 1.0)[:, None]
        return RunningMeans(self.centers + step, weight, self.rows + found.rows)

    def transformed(self, matrix: Array) -> RunningMeans:
        """Return the state after a change of the features to Z_new = Z_old @ matrix."""
        return RunningMeans(self.centers @ matrix, self.weight, self.rows)


def batches_of(engine: Engine, size: int) -> Iterator[Block]:
    """Yield blocks of exactly `size` consecutive rows, independently of the sizes of the blocks of the engine.

    Only the last block may be smaller.
    """
    waiting: list[Block] = []
    rows = 0
    for block in engine.blocks():
        waiting.append(block)
        rows += len(block)
        if rows < size:
            continue
        together = joined(waiting)
        full = rows - rows % size
        waiting = []
        for part in row_blocks(together, size):
            if part.start < together.start + full:
                yield part
            else:
                waiting.append(part)
        rows %= size
    if rows:
        yield joined(waiting)


def joined(blocks: list[Block]) -> Block:
    """Return consecutive blocks as one block, without targets."""
    blocks = [block for block in blocks if len(block)]
    if len(blocks) == 1:
        return blocks[0]
    weight = None
    if any(block.weight is not None for block in blocks):
        weight = np.concatenate([np.ones(len(b)) if b.weight is None else b.weight for b in blocks])
    return Block(blocks[0].start, reduce(stack, [block.X for block in blocks]), None, weight)


def by_batches(
    engine: Engine,
    features: RowFeatures,
    start: Array,
    *,
    batch_size: int,
    block_rows: Callable[[object], int],
    max_iter: int,
    tol: float,
    report: Callable[[int, int], None] = lambda *_: None,
) -> tuple[RunningMeans, int]:
    """Run mini-batch k-means from initial centers `start` (k, D), and return the centers and the number of passes.

    At most `max_iter` passes over the rows are made. Let d_r be the distance that center r has moved in a pass, and w_r
    the total weight of the rows assigned to it in that pass. The iteration ends after a pass with sum_r w_r d_r^2 <=
    `tol` times the inertia, which is the weighted sum over rows of the squared distance to the nearest center. `report`
    is called after each pass with the number of rows and the number of passes.
    """
    state = RunningMeans.starting_at(start)
    for passes in range(1, max_iter + 1):
        before, inertia, rows = state, 0.0, 0
        for batch in batches_of(engine, batch_size):
            found = MemoryEngine(
                batch.X, None, batch.weight, block_rows=block_rows(batch.X), n_jobs=engine.n_jobs, start=batch.start
            ).sum(Assign(features, state.centers[None]))
            state = state.after(found)
            inertia += max(float(found.squares + found.scores[0]), 0.0)
            rows += found.rows
        report(rows, passes)
        came = state.weight - before.weight
        if float(came @ np.square(state.centers - before.centers).sum(axis=1)) <= tol * inertia:
            return state, passes
    return state, max_iter
