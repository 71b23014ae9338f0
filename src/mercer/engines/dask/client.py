"""Connections to a Dask scheduler by its address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mercer.errors import DataError, MissingPackageError, ParameterError

__all__ = ["connected"]

# Seconds to wait for the scheduler.
TIMEOUT = 10


@contextmanager
def connected(address: str) -> Iterator[None]:
    """Let the workers of a Dask scheduler process collections within a with statement.

    Parameters
    ----------
    address : str
        Address of the scheduler, such as ``"tcp://10.0.0.1:8786"``.
    """
    try:
        import dask
        from distributed import Client
    except ImportError as error:
        msg = "A Dask scheduler needs Dask, which is not installed. Try: pip install 'mercer[dask]'"
        raise MissingPackageError(msg) from error
    # A client that cannot connect would remain the scheduler of this process: restore what was configured before.
    with dask.config.set(scheduler=dask.config.get("scheduler", None)):
        try:
            client = Client(address, timeout=TIMEOUT)
        except ValueError as error:
            msg = f"scheduler must be an address such as 'tcp://10.0.0.1:8786', got {address!r}: {error}."
            raise ParameterError(msg) from error
        except OSError as error:
            msg = f"There is no Dask scheduler at {address}, or it did not answer within {TIMEOUT} s. Is it running?"
            raise DataError(msg) from error
        with client:
            if not client.scheduler_info()["workers"]:
                msg = f"The Dask scheduler at {address} has no workers. Start some: dask worker {address}"
                raise DataError(msg)
            yield
