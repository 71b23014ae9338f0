"""The data sets of the tables: where their public originals are, and how their files are made. Nothing is downloaded.

Every data set is one file ``NAME.npz`` with the arrays ``X`` and ``y``, or ``X_train``, ``y_train``, ``X_test`` and
``y_test`` where the original comes in two parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mercer.errors import DataError

__all__ = ["DATASETS", "Dataset", "load", "missing", "where"]

Array = np.ndarray


@dataclass(frozen=True)
class Dataset:
    """A public data set, its shape, and how its file is made."""

    title: str
    original: str
    shape: tuple[int, int]
    how: str

    @property
    def text(self) -> str:
        """All of it as one line."""
        return f"{self.title}: {self.original}; {self.shape[0]} rows of {self.shape[1]} columns. {self.how}"


DATASETS = {
    "a9a": Dataset(
        "Adult, LIBSVM's version", "LIBSVM data sets, a9a and a9a.t", (48842, 123), "Dense rows, the parts as they are."
    ),
    "ccpp": Dataset(
        "Combined cycle power plant",
        "UCI 294, Folds5x2_pp.xlsx, first sheet",
        (9568, 4),
        "X is AT, V, AP, RH; y is PE.",
    ),
    "cod_rna": Dataset("Cod-RNA", "LIBSVM data sets, cod-rna", (59535, 8), "X and y of the training file."),
    "covtype": Dataset(
        "Forest cover type", "UCI 31, covtype.data", (581012, 54), "The last column is y; all 54 others are X."
    ),
    "ijcnn1": Dataset(
        "IJCNN 2001", "LIBSVM data sets, ijcnn1 (training and validation rows) and ijcnn1.t", (141691, 22), "Two parts."
    ),
    "letter": Dataset(
        "Letter recognition", "UCI 59, letter-recognition.data", (20000, 16), "16000 training rows, 4000 test rows."
    ),
    "leukemia": Dataset("Leukemia", "Golub et al. (1999)", (72, 7129), "38 training rows and 34 test rows."),
    "mnist": Dataset("MNIST", "LeCun et al. (1998), four idx files", (70000, 784), "Pixels as uint8, two parts."),
    "newsgroups20": Dataset(
        "20 newsgroups, by date",
        "Rennie's bydate version",
        (18846, 130107),
        "Word counts as CSR arrays X_train_data, X_train_indices, X_train_indptr, X_train_shape, likewise X_test; "
        "class_names has the groups.",
    ),
    "nursery": Dataset(
        "Nursery",
        "UCI 76, nursery.data",
        (12960, 27),
        "One 0/1 column per value, feature_names like parents=usual, values in the order of UCI's description.",
    ),
    "protein": Dataset("Protein structure", "UCI 265, CASP.csv", (45730, 9), "X is F1 to F9; y is RMSD."),
    "spambase": Dataset("Spambase", "UCI 94, spambase.data", (4601, 57), "The last column is y."),
    "usps": Dataset(
        "USPS", "zip.train and zip.test of The Elements of Statistical Learning", (9298, 256), "Pixels in [-1, 1]."
    ),
}


def missing(folder: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the data sets whose files are not in a folder."""
    return tuple(name for name in names if not (folder / f"{name}.npz").is_file())


def where(names: tuple[str, ...]) -> str:
    """Return lines that say where data sets come from and how their files are made."""
    return "\n".join(f"{name}.npz - {DATASETS[name].text}" for name in names)


def load(folder: Path, name: str) -> dict[str, Array]:
    """Return the arrays of a data set.

    Parameters
    ----------
    folder : Path
        The folder of the files.
    name : str
        The name of the data set.

    Returns
    -------
    dict of str to ndarray
    """
    path = folder / f"{name}.npz"
    if not path.is_file():
        msg = f"reproduce needs the data set {path}, which does not exist. {where((name,))}"
        raise DataError(msg)
    with np.load(path, allow_pickle=False) as arrays:
        return {key: arrays[key] for key in arrays.files}


def whole(folder: Path, name: str) -> tuple[Array, Array]:
    """Return all rows and targets of a data set; its parts are joined."""
    arrays = load(folder, name)
    if "X" in arrays:
        return arrays["X"], arrays["y"]
    return tuple(np.concatenate([arrays[f"{one}_train"], arrays[f"{one}_test"]]) for one in "Xy")  # type: ignore[return-value]
