"""The data sets of the race, their splits, and the sets that each target is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

CLASSIFICATION = ("letter", "usps", "mnist", "adult", "spambase", "covtype", "nursery", "ijcnn1")
REGRESSION = (
    "ccpp", "kin8nm", "cal_housing", "protein", "bike", "superconduct76", "concrete", "energy", "naval", "wine_red",
)  # fmt: skip
#: 50,000 rows of 50 columns to fit to, for the time of the default fit only.
SYNTHETIC = "synthetic"
NAMES = (*CLASSIFICATION, *REGRESSION, SYNTHETIC)
#: Sets on which the best exact kernel model of scikit-learn must not be better.
AGAINST_EXACT = tuple(name for name in (*CLASSIFICATION, *REGRESSION) if name not in ("nursery", "ijcnn1"))
#: Sets with an official split, which is their only one.
OFFICIAL = ("mnist",)
ROWS, COLUMNS = 50_000, 50


@dataclass(frozen=True)
class Split:
    """Rows to fit to and rows to test on, with raw columns."""

    name: str
    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray
    classes: np.ndarray | None

    @property
    def n_rows(self) -> int:
        """Rows of the data set."""
        return len(self.X) + len(self.X_test)


def is_classification(name: str) -> bool:
    """Return whether the targets of a data set are labels."""
    return name in CLASSIFICATION


def splits_of(name: str, splits: int) -> range:
    """Return the numbers of the splits of a data set."""
    return range(1 if name in OFFICIAL else splits)


def load(directory: Path, name: str, split: int) -> Split:
    """Return a data set with 80 % of its rows to fit to, or with its official split."""
    if name == SYNTHETIC:
        X, y = synthetic(split)
        return _split(name, X, y, split)
    with np.load(directory / f"{name}.npz", allow_pickle=False) as file:
        # Other arrays of the files, such as names of columns, are not read.
        data = {key: file[key] for key in ("X", "y", "X_train", "y_train", "X_test", "y_test") if key in file.files}
    for key in [key for key in data if key.startswith("X")]:
        data[key] = data[key].astype(np.float64)
    if name in OFFICIAL:
        arrays = (data["X_train"], data["y_train"], data["X_test"], data["y_test"])
        return Split(name, *arrays, np.unique(np.concatenate(arrays[1::2])))
    if "X" not in data:
        data["X"] = np.concatenate([data.pop("X_train"), data.pop("X_test")])
        data["y"] = np.concatenate([data["y_train"], data["y_test"]])
    return _split(name, data["X"], data["y"], split)


def _split(name: str, X: np.ndarray, y: np.ndarray, split: int) -> Split:
    X_fit, X_test, y_fit, y_test = train_test_split(X, y, test_size=0.2, random_state=split)
    return Split(name, X_fit, y_fit, X_test, y_test, np.unique(y) if is_classification(name) else None)


def synthetic(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows whose columns have units from 1e-3 to 1e3, and a smooth function of three of them with noise."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(ROWS * 5 // 4, COLUMNS))
    y = np.sin(2 * Z[:, 0]) + Z[:, 1] * Z[:, 2] + 0.3 * rng.normal(size=len(Z))
    return Z * 10.0 ** rng.integers(-3, 4, COLUMNS), y
