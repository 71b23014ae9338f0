"""Rates: measured once, stored in a file, and measured again when they are forgotten."""

import json

import numpy as np
import pytest
import scipy.sparse as sp

from mercer import Gaussian, Matern, Nystroem, RandomFourier, Transformed
from mercer.choice import rates

X = np.random.default_rng(0).normal(size=(50, 3))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MERCER_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(rates, "_known", {})
    return tmp_path


def fitted(lengthscale=1.0, n_components=16):
    return RandomFourier(Gaussian(lengthscale), n_components, random_state=0).fit(X)


def test_a_rate_is_measured_once_and_stored(monkeypatch, cache):
    first = rates.seconds_per_row(fitted(), X)
    assert first > 0
    assert first in json.loads((cache / "rates.json").read_text()).values()
    monkeypatch.setattr(rates, "_transform_seconds", lambda *_: pytest.fail("measured again"))
    assert rates.seconds_per_row(fitted(), X) == first
    assert rates.seconds_per_row(fitted(lengthscale=0.123), X) == first  # the lengthscale does not matter
    monkeypatch.setattr(rates, "_known", {})  # another process
    assert rates.seconds_per_row(fitted(), X) == first


def test_kernels_and_rows_of_other_costs_are_measured(monkeypatch):
    def rate(kernel, rows):
        return rates.seconds_per_row(Nystroem(kernel, 4, random_state=0).fit(rows), rows)

    rate(Matern(0.5, 1.0), X)
    rate(Transformed(Gaussian(1.0), lengthscales=[1.0, 2.0, 3.0]), X)
    monkeypatch.setattr(rates, "_transform_seconds", lambda *_: 123.0)
    assert rate(Matern(0.5, 2.0), X) != 123.0
    assert rate(Transformed(Gaussian(2.0), lengthscales=[3.0, 2.0, 1.0]), X) != 123.0
    assert rate(Matern(3.3, 1.0), X) == 123.0  # Bessel functions
    assert rate(Matern(0.5, 1.0), sp.csr_array(X)) == 123.0


def test_other_sizes_are_measured(monkeypatch):
    rates.seconds_per_row(fitted(), X)
    monkeypatch.setattr(rates, "_transform_seconds", lambda *_: 123.0)
    assert rates.seconds_per_row(fitted(n_components=32), X) == 123.0
    assert rates.seconds_per_row(fitted(), X.astype(np.float32)) == 123.0
    rates.forget_rates()
    assert rates.seconds_per_row(fitted(), X) == 123.0


@pytest.mark.parametrize("content", ["", "[1]", '{"a": "b"}', "{"])
def test_a_damaged_file_is_replaced(cache, content):
    (cache / "rates.json").write_text(content)
    rate = rates.seconds_per_row(fitted(), X)
    assert rate in json.loads((cache / "rates.json").read_text()).values()


def test_a_directory_that_cannot_be_written(monkeypatch, cache):
    (cache / "file").write_text("")
    monkeypatch.setenv("MERCER_CACHE_DIR", str(cache / "file" / "below"))
    assert rates.seconds_per_row(fitted(), X) > 0


def test_moments_grow_with_the_square():
    assert rates.seconds_of_moments(200, np.float32) == pytest.approx(4 * rates.seconds_of_moments(100, np.float32))


def test_files_by_platform(monkeypatch):
    monkeypatch.delenv("MERCER_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    for platform, part in (("linux", "/somewhere/mercer/rates.json"), ("darwin", "Library/Caches/mercer/rates.json")):
        monkeypatch.setattr(rates.sys, "platform", platform)
        assert rates.rates_file().as_posix().endswith(part)
