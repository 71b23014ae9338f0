"""What a `random_state` stands for: generators of draws, and seeds of samples apart from them."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from mercer.errors import ParameterError

__all__ = ["as_generator", "seed_of"]


def as_generator(random_state: Any) -> np.random.Generator:
    """Return a generator for a seed, a Generator, a legacy RandomState, or None.

    A seed is keyed: data that somebody made with ``default_rng(0)`` must not be the very numbers that a map with
    ``random_state=0`` draws.
    """
    if isinstance(random_state, Integral) and int(random_state) >= 0:
        return np.random.default_rng([int(random_state), *b"mercer"])
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        msg = f"random_state must be None, an integer >= 0, or a numpy Generator or RandomState, got {random_state!r}."
        raise ParameterError(msg) from error


def seed_of(random_state: Any, purpose: str) -> int:
    """Return a seed for a sample of rows, apart from whatever else is drawn from the same state.

    Samples for different purposes must not coincide: an audit on the rows that a map was made from would flatter it.
    """
    if isinstance(random_state, Integral) and int(random_state) >= 0:
        return int(np.random.default_rng([int(random_state), *b"mercer", *purpose.encode()]).integers(2**63))
    return int(as_generator(random_state).integers(2**63))
