"""Fits with a checkpoint: what must be the same for a fit to be the same, so that no other one takes it up."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Any

import numpy as np

from mercer.engines import Checkpoint, Engine, Journal
from mercer.errors import ParameterError
from mercer.maps.base import BaseMap, seed_of

__all__ = ["journalled", "seeded"]

# Parameters that change no bit of the result.
WITHOUT_EFFECT = ("n_jobs", "progress", "verbose")


@contextmanager
def journalled(learner: Any, engine: Engine, checkpoint: str | PathLike[str] | Checkpoint | None) -> Iterator[None]:
    """Let the engine keep a journal of its sums while the block runs."""
    if checkpoint is None:
        yield
        return
    if learner.get_params(deep=False).get("warm_start"):
        msg = f"{type(learner).__name__}: a checkpoint does not know the model that warm_start begins with. Use one."
        raise ParameterError(msg)
    name = unseeded(learner)
    if name is not None:
        msg = f"{type(learner).__name__}: with a checkpoint, {name} must be an integer, or the fit could not go on."
        raise ParameterError(msg)
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    engine.journal = Journal(checkpoint, engine, facts_of(learner))
    given = learner.random_state
    # A fit without a seed gets one, which the journal knows, for as long as it runs.
    learner._seed = engine.journal.seed
    learner.random_state = learner._seed if given is None else given
    try:
        yield
    finally:
        learner.random_state = given
        del learner._seed
    engine.journal.remove()


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


def unseeded(learner: Any) -> str | None:
    """Return the name of a random_state that is None and that `seeded` cannot set, inside a parameter; or None."""
    for name, value in learner.get_params(deep=True).items():
        if not hasattr(value, "get_params"):
            found = _without_seed(name, value)
            if found is not None:
                return found
    return None


def _without_seed(name: str, value: Any) -> str | None:
    if isinstance(value, tuple | list):
        inside = [(f"{name}[{i}]", one) for i, one in enumerate(value)]
    elif hasattr(value, "get_params"):
        inside = [(f"{name}.{key}", one) for key, one in value.get_params(deep=False).items()]
    elif is_dataclass(value) and not isinstance(value, type):
        inside = [(f"{name}.{field.name}", getattr(value, field.name)) for field in fields(value)]
    else:
        return None
    for key, one in inside:
        if key.endswith(".random_state") and one is None:
            return key
        found = _without_seed(key, one)
        if found is not None:
            return found
    return None


def seeded(feature_map: BaseMap, seed: int) -> BaseMap:
    """Give every part of an unfitted map that has no random_state one of its own, drawn from a seed."""
    seeds = {
        name: seed_of(seed, name)
        for name, value in feature_map.get_params().items()
        if name.split("__")[-1] == "random_state" and value is None
    }
    return feature_map.set_params(**seeds)
