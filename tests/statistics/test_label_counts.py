"""Labels, their weights and the sample are the same for any blocks, and rows without weight do not count."""

from functools import reduce
from operator import add

import numpy as np
import pytest

from mercer.engines import Block
from mercer.engines.base import row_blocks
from mercer.statistics.label_counts import CountLabels


def block(n=100, weighted=True):
    rng = np.random.default_rng(0)
    y = np.array(["b", "a", "d", "c"])[rng.integers(0, 4, n)]
    weight = rng.integers(0, 3, n).astype(float)
    return Block(0, rng.normal(size=(n, 2)), y, np.where(y == "d", 0.0, weight) if weighted else None)


@pytest.mark.parametrize("size", [1000, 20])
@pytest.mark.parametrize("weighted", [True, False])
def test_parts_add_up_to_the_whole(size, weighted):
    rows = block(weighted=weighted)
    term = CountLabels(size, seed=1)
    whole, parts = term(rows), reduce(add, map(term, row_blocks(rows, 7)))
    assert list(whole.labels) == list(parts.labels) == (["a", "b", "c"] if weighted else ["a", "b", "c", "d"])
    np.testing.assert_array_equal(whole.weight, parts.weight)
    np.testing.assert_array_equal(whole.sample.index, parts.sample.index)
    weight = np.ones(100) if rows.weight is None else rows.weight
    for label, total in zip(whole.labels, whole.weight, strict=True):
        assert total == weight[rows.y == label].sum()


@pytest.mark.parametrize("size", [1000, 20])
def test_the_sample_has_the_weight_of_all(size):
    found = CountLabels(size, seed=1)(block())
    np.testing.assert_allclose(found.sample_weight().sum(), block().weight.sum())
    assert len(found.sample_weight()) == len(found.sample.y) == min(size, np.count_nonzero(block().weight))
