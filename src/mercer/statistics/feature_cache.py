"""Features of rows in memory that are kept from pass to pass, where there is room for them."""

from __future__ import annotations

from typing import TypeGuard

from mercer.engines import Engine, MemoryEngine, empty_rows, fill_rows
from mercer.solvers.clusters.lloyd import Draw

__all__ = ["is_memory", "keeping_features"]

# Features are kept if they take no more than this.
KEPT_BYTES = 512 * 2**20


def is_memory(engine: Engine) -> TypeGuard[MemoryEngine]:
    """Return whether all rows are in memory."""
    return isinstance(engine, MemoryEngine)


def keeping_features(engine: Engine, draw: Draw, n_jobs: int | None) -> Engine:
    """Return an engine whose blocks have their features with them, in the place of targets, if these are small."""
    if not is_memory(engine):
        return engine
    features = draw(engine.X.dtype)
    shape, dtype = (engine.X.shape[0], features.n_components), features.output_dtype(engine.X.dtype)
    if shape[0] * shape[1] * dtype.itemsize > KEPT_BYTES:
        return engine
    Z = empty_rows(*shape, dtype)
    fill_rows(features, engine.X, Z, n_jobs=n_jobs)
    kept = MemoryEngine(engine.X, Z, engine.weight, block_rows=engine.block_rows, n_jobs=n_jobs, start=engine.start)
    kept.journal = engine.journal
    return kept
