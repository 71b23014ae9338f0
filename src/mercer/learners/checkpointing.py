"""Fits with a checkpoint: a file with the progress of a fit, from which an interrupted fit is resumed.

A fit is resumed only by a learner with the same fingerprint, which consists of its class and its parameters. Seeds are
stored in the file, so that a resumed fit gives the same model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.engines import Checkpoint, CheckpointedEngine, Engine
from mercer.errors import ParameterError
from mercer.io.digests import digest_of

__all__ = ["checkpointed", "fingerprint_of"]

# Parameters that change no bit of the result.
WITHOUT_EFFECT = ("n_jobs", "progress", "verbose")


@contextmanager
def checkpointed(
    learner: Any, engine: Engine, checkpoint: str | PathLike[str] | Checkpoint
) -> Iterator[tuple[CheckpointedEngine, Any]]:
    """Context manager that yields an engine which saves its sums to a file, and the `random_state` of the fit.

    If `random_state` of the learner is None, it is replaced by a seed that is stored in the file. The file is removed
    if the fit succeeds.
    """
    if learner.get_params(deep=False).get("warm_start"):
        msg = f"{type(learner).__name__}: checkpoint and warm_start cannot be combined. Use one of them."
        raise ParameterError(msg)
    check_seeds(learner)
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = Checkpoint(checkpoint)
    with CheckpointedEngine(engine, checkpoint, fingerprint_of(learner)) as saving:
        yield saving, saving.seed if learner.random_state is None else learner.random_state
        saving.remove()


def fingerprint_of(estimator: Any) -> dict[str, str]:
    """Return the class name and all parameters of an estimator, including nested ones, as strings."""
    out = {"learner": type(estimator).__name__}
    for name, value in sorted(estimator.get_params(deep=True).items()):
        if name.split("__")[-1] not in WITHOUT_EFFECT:
            out[name] = _as_string(value)
    return out


def _as_string(value: Any) -> str:
    if hasattr(value, "get_params"):
        return type(value).__name__  # its parameters follow
    if sp.issparse(value) or (hasattr(value, "__array__") and np.ndim(value)):
        return f"{type(value).__name__} of shape {value.shape}, {digest_of([value])}"
    # For containers not the repr, which may abbreviate.
    if isinstance(value, tuple | list):
        return f"({', '.join(map(_in_full, value))})"
    inside = _inside("", value)
    if inside:
        return f"{type(value).__name__}({', '.join(f'{key} = {_in_full(one)}' for key, one in inside)})"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _in_full(value: Any) -> str:
    """Return a value inside a container as a string. For an estimator, the string includes its parameters."""
    if not hasattr(value, "get_params"):
        return _as_string(value)
    inner = ", ".join(f"{key} = {string}" for key, string in fingerprint_of(value).items())
    return f"{type(value).__name__}({inner})"


def check_seeds(learner: Any) -> None:
    """Raise `ParameterError` if another process could not reproduce a `random_state` of the learner.

    Two values cannot be reproduced: a random generator, and None in an estimator that is inside a container such as a
    list. In all other places, None is replaced by a seed that is stored in the checkpoint.
    """
    for name, value in learner.get_params(deep=True).items():
        for key, one in [(name, value), *_all_inside(name, value)]:
            is_moving = isinstance(one, np.random.Generator | np.random.RandomState | np.random.BitGenerator)
            # None elsewhere is replaced by a seed that is stored in the checkpoint.
            if is_moving or (one is None and key.endswith(".random_state")):
                msg = (
                    f"{type(learner).__name__}: with a checkpoint, {key} must be an integer, so that the fit can be "
                    f"resumed; got {'None' if one is None else type(one).__name__}. Try {key}=0."
                )
                raise ParameterError(msg)


def _all_inside(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of all items inside the value of a parameter, at any depth."""
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
