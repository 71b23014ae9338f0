"""Tables and models for the tests of the command line, which are fitted once."""

import shutil
import sys

import numpy as np
import pandas as pd
import pytest

from mercer import cli
from mercer.workflows import fit_file


def table(n, seed):
    rng = np.random.default_rng(seed)
    kind = rng.choice(["red", "green", "blue"], n)
    x = rng.uniform(-2, 2, n)
    y = np.sin(2 * x) + (kind == "red") + 0.1 * rng.normal(size=n)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    frame = pd.DataFrame({"id": np.arange(n), "x": x.round(4), "kind": kind, "day": days.strftime("%Y-%m-%d")})
    frame.loc[::9, "x"] = np.nan
    return frame.assign(y=y.round(4))


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """Return a folder with the tables of the examples of the help, and with models for them."""
    folder = tmp_path_factory.mktemp("files")
    table(90, 0).to_csv(folder / "train.csv", index=False)
    table(40, 1).to_csv(folder / "test.csv", index=False)
    table(50, 2).drop(columns="y").to_csv(folder / "new.csv", index=False)
    labels = table(90, 3)
    labels["y"] = np.where(labels.y > 0.5, "high", "low")
    labels.to_csv(folder / "labels.csv", index=False)
    quick = {"drop": ["id"], "compare": False, "time_limit": 2.0}
    fit_file(folder / "train.csv", "y", output=folder / "model.mercer", **quick)
    fit_file(folder / "labels.csv", "y", output=folder / "labels.mercer", **quick)
    return folder


@pytest.fixture
def folder(files, tmp_path, monkeypatch):
    """Return a copy of the folder, which is the current folder."""
    for path in files.iterdir():
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(monkeypatch, capfdbinary):
    """Return a function that runs the command line in this process: exit code, stdout, stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["mercer", *map(str, arguments)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        out, err = capfdbinary.readouterr()
        return stopped.value.code or 0, out.decode(), err.decode()

    return call
