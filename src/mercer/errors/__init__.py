"""Exceptions and warnings of mercer.

::

    MercerError
    ├── ParameterError (ValueError)          a parameter has an invalid value
    │   └── UnknownParameterError (TypeError)    there is no parameter of this name
    ├── DataError (ValueError)               the data cannot be used as they are
    ├── UnsupportedKernelError (TypeError)   the feature map cannot approximate the kernel
    ├── NoClosedFormError (ValueError)       there is no closed form for the requested quantity
    ├── MissingPackageError (ImportError)    an optional package is not installed
    ├── TooLittleMemoryError (MemoryError)   the result does not fit into memory
    ├── CheckpointError (ValueError)         a checkpoint cannot be resumed from, or not be written
    ├── ModelFileError (ValueError)          a model file cannot be read, or not be written
    └── ExportError (ValueError)             a model cannot be expressed in another format, or not be written
    MercerWarning (UserWarning)              the result is valid, but probably not what was intended

The second base class, in parentheses, lets callers catch the standard exception instead. Each message states what was
needed, what was passed and what to try.
"""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "DataError",
    "ExportError",
    "MercerError",
    "MercerWarning",
    "MissingPackageError",
    "ModelFileError",
    "NoClosedFormError",
    "ParameterError",
    "TooLittleMemoryError",
    "UnknownParameterError",
    "UnsupportedKernelError",
]


class MercerError(Exception):
    """Base class of all errors that mercer raises deliberately."""


class ParameterError(MercerError, ValueError):
    """Raised if a parameter has an invalid value."""


class UnknownParameterError(ParameterError, TypeError):
    """Raised if a class or function has no parameter of this name, or takes fewer positional arguments."""


class DataError(MercerError, ValueError):
    """Raised if the data cannot be used as they are, for instance because of NaN or wrong shapes."""


class UnsupportedKernelError(MercerError, TypeError):
    """Raised if a feature map cannot approximate a kernel, because the kernel lacks the structure the map requires."""


class NoClosedFormError(MercerError, ValueError):
    """Raised if there is no closed form for the requested quantity, such as the variance of a feature map."""


class MissingPackageError(MercerError, ImportError):
    """Raised if an optional package is needed but not installed."""


class TooLittleMemoryError(MercerError, MemoryError):
    """Raised if an array or a fit needs more memory than is available."""


class CheckpointError(MercerError, ValueError):
    """Raised if a checkpoint belongs to another fit, is in use by one, is damaged, or cannot be written."""


class ModelFileError(MercerError, ValueError):
    """Raised if a model file is damaged, forged or of a newer version, or if a model cannot be stored or written."""


class ExportError(MercerError, ValueError):
    """Raised if a model cannot be expressed in the format of an export, or if the export cannot be written."""


class MercerWarning(UserWarning):
    """Warns that the result is valid, but probably not what was intended."""
