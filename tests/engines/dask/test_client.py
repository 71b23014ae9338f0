"""Connections to a Dask scheduler."""

import pytest

from mercer import DataError, ParameterError
from mercer.engines.dask import client


def test_wrong_and_silent_addresses_are_errors(monkeypatch):
    pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    before = dask.config.get("scheduler", "none")
    monkeypatch.setattr(client, "TIMEOUT", 0.2)
    with pytest.raises(DataError, match="There is no Dask scheduler at"), client.connected("tcp://127.0.0.1:1"):
        pass
    with pytest.raises(ParameterError, match="scheduler must be an address"), client.connected("nonsense://x"):
        pass
    assert dask.config.get("scheduler", "none") == before
