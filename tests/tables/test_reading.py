import numpy as np
import pandas as pd
import pytest

from mercer import TablePreprocessor
from mercer.errors import DataError
from mercer.tables.reading import Tables


def test_first_block_determines_the_columns():
    owner = TablePreprocessor()
    frame, y, coding = Tables().validate(owner, pd.DataFrame({"a": [1], "b": ["x"]}), None, reset=True)
    assert frame.names == coding.columns == ("a", "b")
    assert y is None
    assert coding.named
    other, _, same = coding.validate(owner, pd.DataFrame({"b": ["y"], "a": [2]}), None, reset=False)
    assert other.names == ("a", "b")
    assert same is coding
    with pytest.raises(DataError, match="also has 'c'"):
        coding.validate(owner, pd.DataFrame({"b": ["y"], "a": [2], "c": [1]}), None, reset=False)


def test_arrays_have_no_names():
    frame, _, coding = Tables().validate(TablePreprocessor(), np.zeros((2, 2)), None, reset=True)
    assert frame.names == ("x0", "x1")
    assert not coding.named
