"""Files of data sets: parts are joined, and a missing file is named with its origin."""

import numpy as np
import pytest

from mercer.errors import DataError
from mercer.reproduce.datasets import load, missing, whole


def test_parts_are_joined(tmp_path):
    np.savez(tmp_path / "letter.npz", X_train=np.ones((3, 2)), y_train=[0, 1, 0], X_test=np.zeros((1, 2)), y_test=[1])
    X, y = whole(tmp_path, "letter")
    assert X.shape == (4, 2)
    assert y.tolist() == [0, 1, 0, 1]


def test_missing_files_are_named(tmp_path):
    assert missing(tmp_path, ("letter",)) == ("letter",)
    with pytest.raises(DataError, match="UCI 59"):
        load(tmp_path, "letter")
