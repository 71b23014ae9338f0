"""What must be the same for a fit to be the same, so that a checkpoint is never taken up by another one."""

from __future__ import annotations

import hashlib
import re
from typing import Any

import numpy as np

from mercer.maps.base import BaseMap, seed_of

__all__ = ["facts_of", "seeded"]

# Parameters that change no bit of the result.
WITHOUT_EFFECT = ("n_jobs", "progress", "verbose")


def facts_of(learner: Any) -> dict[str, str]:
    """Return the class and the parameters of an estimator and of its parts, in words."""
    facts = {"learner": type(learner).__name__}
    for name, value in sorted(learner.get_params(deep=True).items()):
        if name.split("__")[-1] not in WITHOUT_EFFECT:
            facts[name] = _in_words(value)
    return facts


def _in_words(value: Any) -> str:
    if isinstance(value, np.ndarray):
        digest = hashlib.blake2b(np.ascontiguousarray(value).tobytes(), digest_size=8).hexdigest()
        return f"an array of shape {value.shape} and {value.dtype}, {digest}"
    if hasattr(value, "get_params"):
        return type(value).__name__  # its parameters follow
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def seeded(feature_map: BaseMap, seed: int) -> BaseMap:
    """Give every part of an unfitted map that has no random_state one of its own, drawn from a seed."""
    seeds = {
        name: seed_of(seed, name)
        for name, value in feature_map.get_params().items()
        if name.split("__")[-1] == "random_state" and value is None
    }
    return feature_map.set_params(**seeds)
