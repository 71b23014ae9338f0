"""Data and models of the demo: the digits, classifiers on three maps of mercer, and a counterpart in scikit-learn.

In this module, scikit-learn provides the data and is itself measured. It is imported inside the functions that need it,
because the other modules of mercer depend only on base classes of scikit-learn.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mercer.diagnostics.peers import Peer
from mercer.kernels import Gaussian
from mercer.learners import KernelRidgeClassifier
from mercer.maps import BaseMap, Nystroem, RandomFourier

__all__ = ["Entrant", "Rows", "entrants", "load_rows", "maps_of_width"]

Array = np.ndarray
# Penalties that scikit-learn's classifier tries: one per decade, over about the range that mercer tries on these data.
# A finer grid hardly changes the accuracy and takes longer, because each penalty requires a pass over the rows.
PEER_ALPHAS = np.logspace(-8, 3, 12)


@dataclass(frozen=True)
class Rows:
    """Training and test rows of the demo, with their labels."""

    X_train: Array
    X_test: Array
    y_train: Array
    y_test: Array


@dataclass(frozen=True)
class Entrant:
    """One model of the comparison: a classifier on a feature map.

    `map_of` and `penalty_of` are functions of the fitted model that return its feature map and its selected penalty.
    """

    name: str
    library: str
    classifier: str
    model: Any
    map_of: Callable[[Any], Any]
    penalty_of: Callable[[Any], float]


def load_rows(random_state: int) -> Rows:
    """Return the digits data with pixels scaled to [0, 1]. A quarter of the rows of each class are test rows."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    X, y = load_digits(return_X_y=True)
    return Rows(*train_test_split(X / 16, y, test_size=0.25, stratify=y, random_state=random_state))


def maps_of_width(kernel: Gaussian, width: int, seed: int) -> dict[str, BaseMap]:
    """Return the three unfitted maps of mercer by name, each with `width` components for the kernel."""
    shared: dict[str, Any] = {"random_state": seed, "n_jobs": 1}
    return {
        "Fourier, independent": RandomFourier(kernel, width, directions="iid", **shared),
        "Fourier, orthogonal": RandomFourier(kernel, width, directions="big_block", **shared),
        "Nyström, pivoted": Nystroem(kernel, width, landmarks="pivoted", **shared),
    }


def entrants(kernel: Gaussian, width: int, seed: int) -> list[Entrant]:
    """Return the unfitted models of the comparison, in the order of the table; each map has `width` components."""
    ours = [
        Entrant(
            name=name,
            library="mercer",
            classifier="KernelRidgeClassifier(alpha='gcv')",
            model=KernelRidgeClassifier(feature_map, alpha="gcv", random_state=seed, n_jobs=1),
            map_of=lambda model: model.feature_map_,
            penalty_of=lambda model: model.alpha_,
        )
        for name, feature_map in maps_of_width(kernel, width, seed).items()
    ]
    return [*ours, _peer(kernel, width, seed)]


def _peer(kernel: Gaussian, width: int, seed: int) -> Entrant:
    """Return the model of scikit-learn: RBFSampler with `width` components, and RidgeClassifierCV."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.pipeline import make_pipeline

    gamma = 1 / (2 * float(kernel.lengthscale) ** 2)
    sampler = RBFSampler(gamma=gamma, n_components=width, random_state=seed)
    return Entrant(
        name="RBFSampler",
        library="scikit-learn",
        classifier=f"RidgeClassifierCV({len(PEER_ALPHAS)} alphas)",
        model=make_pipeline(sampler, RidgeClassifierCV(alphas=PEER_ALPHAS)),
        map_of=lambda model: Peer(model[0], kernel, width),
        penalty_of=lambda model: model[-1].alpha_,
    )
