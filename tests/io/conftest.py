"""A table to write in every format, and sources with small blocks and parts."""

import numpy as np
import pytest

import mercer.io.formats.lines
import mercer.io.source


@pytest.fixture
def small_pieces(monkeypatch):
    """Divide files into many parts and parts into many blocks, as it is done with large files."""
    monkeypatch.setattr(mercer.io.source, "BLOCK_BYTES", 2048)
    monkeypatch.setattr(mercer.io.source, "LEAST_ROWS", 16)
    monkeypatch.setattr(mercer.io.formats.lines, "CHUNK_BYTES", 9000)
    monkeypatch.setattr(mercer.io.formats.lines, "RANGE_BYTES", 20_000)


@pytest.fixture
def table(seed):
    """Rows, a target, weights and labels."""
    rng = np.random.default_rng(seed)
    X = rng.normal(0.3, 1.0, size=(3001, 4))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=3001)
    return X, y, rng.uniform(0.1, 2.0, size=3001), rng.choice(["cat", "dog", "größe"], 3001)


def joined(blocks):
    """Return the concatenation of blocks."""
    columns = list(zip(*blocks, strict=True))
    return tuple(None if column[0] is None else np.concatenate(column) for column in columns)
