"""Exceptions and warnings of mercer.

::

    MercerError
    ├── ParameterError (ValueError)          a parameter lies outside its domain
    ├── DataError (ValueError)               these rows cannot be used as they are
    ├── UnsupportedKernelError (TypeError)   a map was given a kernel without the structure it samples from
    ├── NoClosedFormError (ValueError)       the quantity asked for has no known formula here
    ├── MissingPackageError (ImportError)    an optional package is needed that is not installed
    └── CheckpointError (ValueError)         a checkpoint that this fit cannot go on from
    MercerWarning (UserWarning)              the result is right, but probably not what was wanted

Each message says what was needed, what was got and what to try.
"""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "DataError",
    "MercerError",
    "MercerWarning",
    "MissingPackageError",
    "NoClosedFormError",
    "ParameterError",
    "UnsupportedKernelError",
]


class MercerError(Exception):
    """Base class of every error that mercer raises on purpose."""


class ParameterError(MercerError, ValueError):
    """A parameter lies outside its domain."""


class DataError(MercerError, ValueError):
    """The rows given cannot be used as they are."""


class UnsupportedKernelError(MercerError, TypeError):
    """A map was given a kernel without the structure that it samples from."""


class NoClosedFormError(MercerError, ValueError):
    """The quantity asked for has no known closed form for this design."""


class MissingPackageError(MercerError, ImportError):
    """An optional package is needed that is not installed."""


class CheckpointError(MercerError, ValueError):
    """A checkpoint that this fit cannot go on from: of another fit, or damaged."""


class MercerWarning(UserWarning):
    """The result is right, but probably not what was wanted."""
