import operator
from functools import reduce
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mercer.tables.sums as sums
from mercer.engines import Block
from mercer.errors import DataError
from mercer.tables.frames import frame_of
from mercer.tables.sums import DistinctValues, TableSums, mixed

CELLS = st.fixed_dictionaries(
    {
        "number": st.none() | st.floats(allow_nan=True, allow_infinity=True) | st.sampled_from([0.0, -0.0, 1.0]),
        "category": st.none() | st.sampled_from(["a", "b", "", "ü"]) | st.text(max_size=3),
        "boolean": st.none() | st.booleans(),
        "date": st.none() | st.datetimes(pd.Timestamp(1900, 1, 1), pd.Timestamp(2100, 1, 1)),
    }
)


def block_of(rows, start, weight=None):
    table = {
        "number": np.array([np.nan if r["number"] is None else r["number"] for r in rows]),
        "category": np.array([r["category"] for r in rows], dtype=object),
        "boolean": np.array([r["boolean"] for r in rows], dtype=object),
        "date": np.array([r["date"] for r in rows], dtype="M8[us]"),
    }
    frame = pd.DataFrame({name: pd.Series(values, dtype=values.dtype) for name, values in table.items()})
    return Block(start, frame_of(frame, "test")[0], None, weight)


def known(total):
    """Everything in a sum, in a form that can be compared."""
    columns = [
        (
            one.kind,
            one.missing,
            one.distinct.hashes.tolist(),
            one.detail if not isinstance(one.detail, sums.LabelCounts) else (one.detail.counts, one.detail.complete),
        )
        for one in total.columns
    ]
    sample = [[None if v is None or v != v else v for v in values] for values in total.sample.values]
    return total.rows, columns, sample, total.sample.index.tolist(), total.sample.key.tolist()


@settings(max_examples=60, deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=30), st.data())
def test_sums_do_not_depend_on_the_division_into_blocks(rows, data):
    cuts = sorted(data.draw(st.lists(st.integers(1, len(rows)), max_size=4)))
    edges = [0, *dict.fromkeys(cut for cut in cuts if cut < len(rows)), len(rows)]
    blocks = [block_of(rows[a:b], a) for a, b in pairwise(edges)]
    whole = TableSums.of(block_of(rows, 0))
    parts = [TableSums.of(block) for block in blocks]
    left = reduce(operator.add, parts)
    right = reduce(operator.add, reversed(parts))
    assert known(left) == known(whole)
    assert known(right) == known(whole)


def test_sums_with_few_counted_categories_and_small_samples(monkeypatch):
    monkeypatch.setattr(sums, "MOST_COUNTED", 5)
    monkeypatch.setattr(sums, "MOST_HASHES", 8)
    monkeypatch.setattr(sums, "SAMPLE_ROWS", 10)
    monkeypatch.setattr(sums, "LEAST_SAMPLE", 10)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"c": rng.integers(0, 40, 300).astype(str), "d": rng.choice(list("abc"), 300)})
    whole = TableSums.of(Block(0, frame_of(frame, "test")[0]))
    edges = [0, 3, 4, 100, 299, 300]
    parts = [TableSums.of(Block(a, frame_of(frame[a:b], "test")[0])) for a, b in pairwise(edges)]
    assert known(reduce(operator.add, parts)) == known(whole)
    assert not whole.columns[0].detail.complete
    assert whole.columns[1].detail.counts == {k: (v, float(v)) for k, v in frame["d"].value_counts().items()}
    assert len(whole.sample.index) == 10


def test_weights_of_zero_are_no_rows():
    rng = np.random.default_rng(0)
    frame = frame_of(pd.DataFrame({"x": rng.normal(size=50), "c": rng.choice(list("ab"), 50)}), "test")[0]
    weight = rng.integers(0, 2, 50).astype(float)
    some = TableSums.of(Block(0, frame, None, weight))
    assert some.rows == weight.sum()
    assert sum(rows for rows, _ in some.columns[1].detail.counts.values()) == weight.sum()


@pytest.mark.parametrize("count", [10, 4000, 100_000])
def test_number_of_different_values(count):
    values = np.random.default_rng(0).normal(size=count)
    parts = [DistinctValues.of(mixed(part)) for part in np.array_split(np.tile(values, 3), 7)]
    found = reduce(operator.add, parts).count
    # The relative standard deviation is 1 / sqrt(4096); below that number the count is exact.
    assert found == count if count < 4096 else abs(found / count - 1) < 5 / 64


def test_kinds_of_blocks_must_agree():
    one = TableSums.of(Block(0, frame_of(pd.DataFrame({"a": [1.0, 2.0]}), "test")[0]))
    gone = TableSums.of(Block(2, frame_of(pd.DataFrame({"a": [np.nan]}), "test")[0]))
    text = TableSums.of(Block(3, frame_of(pd.DataFrame({"a": ["x"]}), "test")[0]))
    assert (one + gone).columns[0].kind == "number"
    assert (gone + text).columns[0].kind == "category"
    with pytest.raises(DataError, match=r"Column 'a' has the kind number .* and category"):
        one + text
