"""The map of a learner: what its parameter `feature_map` stands for, and whether the fitted one will do."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from mercer.errors import ParameterError
from mercer.features import features_of
from mercer.kernels import Kernel
from mercer.maps import BaseMap, default_map
from mercer.maps.base import fresh_copy

# What kernels are here that have a name there.
SCIKIT_LEARN_KERNELS = {
    "rbf": "Gaussian('median')",
    "linear": "Polynomial(1, coef0=0.0)",
    "poly": "Polynomial(3)",
    "polynomial": "Polynomial(3)",
    "laplacian": "Laplacian()",
    "chi2": "Chi2()",
}

__all__ = ["check_features", "check_grows", "rows_to_features", "unfitted_map"]


def unfitted_map(owner: str, choice: Any, random_state: Any, **options: Any) -> BaseMap:
    """Return an unfitted map for a map, for a kernel, or for None; `options` are for a map that is chosen here."""
    if choice is None or isinstance(choice, Kernel):
        return default_map(choice, random_state=random_state).set_params(**options)
    if not isinstance(choice, BaseMap):
        msg = f"{owner}: feature_map must be a mercer map such as RandomFourier(), a kernel, or None; got {choice!r}."
        raise ParameterError(msg + hint(choice))
    choice.check()
    return fresh_copy(choice)


def hint(choice: Any) -> str:
    """Return what somebody may have meant who thinks of scikit-learn."""
    if isinstance(choice, str):
        kernel = SCIKIT_LEARN_KERNELS.get(choice)
        return f" Did you mean {kernel}?" if kernel else ""
    if isinstance(choice, Integral):
        return f" Numbers have names: n_clusters={choice} for clusters, n_components={choice} for components."
    return ""


def check_features(owner: str, feature_map: BaseMap) -> None:
    """Raise unless a fitted map has real features of a positive definite kernel."""
    if np.issubdtype(feature_map.features_.output_dtype(np.float64), np.complexfloating):
        msg = f"{owner} needs real features, got {feature_map!r}. Use form='pairs': real features of the same kernel."
        raise ParameterError(msg)
    if feature_map.signs_ is not None:
        msg = (
            f"{owner} needs a positive definite kernel, but the features of {feature_map.kernel_!r} "
            f"by {type(feature_map).__name__} have signs: negative coefficients, or a negative constant kept."
        )
        raise ParameterError(msg)


def rows_to_features(features: Any, X: Any) -> np.ndarray:
    """Return the features of rows of any dtype."""
    return features_of(features.astype(X.dtype), X)


def check_grows(model: Any) -> bool:
    """Raise if rows cannot be added to the map of a learner, which then has no `partial_fit`."""
    if isinstance(model.feature_map, BaseMap):
        model.feature_map.check_grows(type(model).__name__)
    return True
