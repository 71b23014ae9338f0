"""Fits with a checkpoint: what must be the same for a fit to be the same, so that no other one takes it up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines import Checkpoint, Engine, Journal
from mercer.errors import ParameterError
from mercer.io.digests import digest_of
from mercer.maps.base import BaseMap
from mercer.statistics.sample import seed_of

__all__ = ["facts_of", "journalled", "seeded"]

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
    check_seeds(learner)
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
    if hasattr(value, "get_params"):
        return type(value).__name__  # its parameters follow
    if sp.issparse(value) or (hasattr(value, "__array__") and np.ndim(value)):
        return f"{type(value).__name__} of shape {value.shape}, {digest_of([value])}"
    # Of what is made of parts not the repr, which may leave out what is long.
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_in_full, value))})"
    inside = _inside("", value)
    if inside:
        return f"{type(value).__name__}({', '.join(f'{key} = {_in_full(one)}' for key, one in inside)})"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _in_full(value: Any) -> str:
    """Return a value that is inside another one, whose parameters do not follow."""
    if not hasattr(value, "get_params"):
        return _in_words(value)
    return f"{type(value).__name__}({', '.join(f'{key} = {words}' for key, words in facts_of(value).items())})"


def check_seeds(learner: Any) -> None:
    """Raise for a random_state that another process could not have: a generator, or None where `seeded` sets none."""
    for name, value in learner.get_params(deep=True).items():
        for key, one in [(name, value), *_all_inside(name, value)]:
            is_moving = isinstance(one, np.random.Generator | np.random.RandomState | np.random.BitGenerator)
            # What is None elsewhere gets a seed that the journal knows.
            if is_moving or (one is None and key.endswith(".random_state")):
                msg = (
                    f"{type(learner).__name__}: with a checkpoint, {key} must be an integer, or the fit could not go "
                    f"on; got {'None' if one is None else type(one).__name__}. Try {key}=0."
                )
                raise ParameterError(msg)


def _all_inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield names and values of all that is inside a value of a parameter, at any depth."""
    if hasattr(value, "get_params") and "." not in name and "[" not in name:
        return  # its parameters are parameters of the learner
    for key, one in _inside(name, value):
        yield key, one
        yield from _all_inside(key, one)


def _inside(name: str, value: Any) -> list[tuple[str, Any]]:
    if isinstance(value, tuple | list):
        return [(f"{name}[{i}]", one) for i, one in enumerate(value)]
    if isinstance(value, dict):
        return [(f"{name}[{key!r}]", one) for key, one in value.items()]
    if hasattr(value, "get_params"):
        return [(f"{name}.{key}", one) for key, one in value.get_params(deep=False).items()]
    if is_dataclass(value) and not isinstance(value, type):
        return [(f"{name}.{field.name}", getattr(value, field.name)) for field in fields(value)]
    return []


def seeded(feature_map: BaseMap, seed: int) -> BaseMap:
    """Give every part of an unfitted map that has no random_state one of its own, drawn from a seed."""
    seeds = {
        name: seed_of(seed, name)
        for name, value in feature_map.get_params().items()
        if name.split("__")[-1] == "random_state" and value is None
    }
    return feature_map.set_params(**seeds)
