"""One cell of the race: a data set, a split and a method, measured in a process of its own and stored in a file."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import joblib
import machine
import numpy as np
import psutil
from sklearn.metrics import log_loss

import mercer
from race import data
from race.methods import METHODS, Fitted, Options
from race.tuning import quiet, timed

PACKAGES = ("numpy", "scikit-learn", "lightgbm", "xrfm", "torch")
#: The method of cells that compare predictions of ours in other units.
UNITS = "units"
#: The least number of rows that a rate of predictions is measured with.
RATE_ROWS = 5000
#: Seconds between two looks at the memory of a cell.
LOOK = 0.5


@dataclass(frozen=True)
class Cell:
    """What identifies a cell, and its file."""

    name: str
    split: int
    method: str

    def file(self, directory: Path) -> Path:
        """Return the file of the result."""
        return directory / f"{self.name}.{self.split}.{self.method}.json"

    def __str__(self) -> str:
        return f"{self.name}, split {self.split}, {self.method}"


def measure(cell: Cell, directory: Path, options: Options) -> dict[str, Any]:
    """Return the figures of a cell, measured in this process."""
    rows = data.load(directory, cell.name, cell.split)
    start = machine.Clock.read()
    figures = measure_units(rows, options) if cell.method == UNITS else measure_method(cell.method, rows, options)
    load = machine.Load.between(start, machine.Clock.read())
    return {
        **asdict(cell),
        "state": "finished",
        **figures,
        "train rows": len(rows.X),
        "test rows": len(rows.X_test),
        "columns": rows.X.shape[1],
        "peak bytes": machine.peak_bytes(),
        "cores of others": load.others,
        "cores": joblib.cpu_count(),
        "commit": commit(),
        "options": asdict(options),
        "versions": {"mercer": mercer.__version__} | {name: machine.version(name) for name in PACKAGES},
    }


def measure_method(method: str, rows: data.Split, options: Options) -> dict[str, Any]:
    """Fit a method, and return its errors, times and size."""
    before = machine.resident_bytes()
    labels = rows.classes is not None
    fitted, fit_seconds = timed(METHODS[method].fit, rows.X, rows.y, labels, options)
    judge = errors_of_labels if labels else errors_of_values
    figures, predict_seconds = judge(fitted, rows)
    return {
        **figures,
        "fit seconds": fit_seconds,
        "predict seconds": predict_seconds,
        "rows per second": rows_per_second(fitted, rows, predict_seconds),
        "bytes before fit": before,
        "model bytes": pickled_bytes(fitted.model),
        "rows used": fitted.rows,
        "chosen": fitted.chosen,
    }


def errors_of_labels(fitted: Fitted, rows: data.Split) -> tuple[dict[str, Any], float]:
    """Return the test error in % and the logarithmic loss, and the seconds of the predictions.

    Where a model has probabilities, its labels are those of the largest one, so that rows are predicted once.
    """
    loss = None
    if not fitted.has_probabilities:
        predicted, seconds = timed(fitted.predict, rows.X_test)
    else:
        probabilities, seconds = timed(fitted.probabilities, rows.X_test)
        classes = np.asarray(fitted.model.classes_)
        predicted = classes[probabilities.argmax(axis=1)]
        loss = loss_of_probabilities(rows.y_test, probabilities, classes, rows.classes)
    wrong = float(np.mean(predicted != rows.y_test))
    deviation = float(np.sqrt(wrong * (1 - wrong) / len(rows.y_test)))
    return {"score": 100 * wrong, "score error": 100 * deviation, "log loss": loss}, seconds


def loss_of_probabilities(y: np.ndarray, probabilities: np.ndarray, classes: np.ndarray, every: np.ndarray) -> float:
    """Return the logarithmic loss; a class that was not among the rows of the fit has probability zero."""
    complete = np.zeros((len(y), len(every)))
    complete[:, np.searchsorted(every, classes)] = probabilities
    complete /= complete.sum(axis=1, keepdims=True)
    return float(quiet(log_loss, y, complete, labels=every))


def errors_of_values(fitted: Fitted, rows: data.Split) -> tuple[dict[str, Any], float]:
    """Return the relative root mean square error, R2 and the negative log density, and the seconds of predictions."""
    predicted, seconds = timed(fitted.predict, rows.X_test)
    squares = np.square(predicted - rows.y_test)
    variance = float(rows.y_test.var())
    relative = float(np.sqrt(squares.mean() / variance))
    # By the delta method: the error of a root is that of its square, over twice the root.
    deviation = float(squares.std() / np.sqrt(len(squares)) / variance / max(2 * relative, 1e-12))
    both = fitted.deviations(rows.X_test)
    density = None
    if both is not None:
        mean, std = both
        # In units of the targets' deviation, so that it can be compared between data sets.
        z, scale = (rows.y_test - mean) / std, std / np.sqrt(variance)
        density = float(np.mean(0.5 * z**2 + np.log(scale) + 0.5 * np.log(2 * np.pi)))
    return {"score": relative, "score error": deviation, "R2": 1 - relative**2, "log density": density}, seconds


def rows_per_second(fitted: Fitted, rows: data.Split, seconds: float) -> float:
    """Return the rate of predictions; few test rows are repeated, so that the costs of a call do not decide."""
    X = rows.X_test
    if len(X) < RATE_ROWS:
        X = np.resize(X, (RATE_ROWS, X.shape[1]))
        probable = rows.classes is not None and fitted.has_probabilities
        _, seconds = timed(fitted.probabilities if probable else fitted.predict, X)
    return len(X) / max(seconds, 1e-9)


def measure_units(rows: data.Split, options: Options) -> dict[str, Any]:
    """Return the largest relative change of our predictions if columns are multiplied by 1e-6 to 1e6."""
    factors = 10.0 ** np.random.default_rng(0).integers(-6, 7, rows.X.shape[1])
    fit, labels = METHODS["ours"].fit, rows.classes is not None

    def values(factor: np.ndarray | float) -> np.ndarray:
        fitted = fit(rows.X * factor, rows.y, labels, options)
        return fitted.probabilities(rows.X_test * factor) if labels else fitted.predict(rows.X_test * factor)

    plain, scaled = values(1.0), values(factors)
    return {"change": float(np.abs(scaled - plain).max() / plain.std())}


def pickled_bytes(model: Any) -> int | None:
    """Return the size of a pickled model, or None if it cannot be pickled."""
    try:
        return len(pickle.dumps(model, protocol=pickle.HIGHEST_PROTOCOL))
    except Exception:  # classes of other libraries raise what they like
        return None


def commit() -> str | None:
    """Return the commit of this script, or None outside of a repository; mercer is expected to be installed from it."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def store(result: dict[str, Any], file: Path) -> None:
    """Write a result; a file is complete or not there."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps(result, indent=2) + "\n")
    part.replace(file)


def read_all(directory: Path) -> dict[Cell, dict[str, Any]]:
    """Return the results of a folder."""
    return by_cell(file.read_text() for file in sorted(directory.glob("*.json")))


def read_stored(file: Path) -> dict[Cell, dict[str, Any]]:
    """Return the results of a file with one per line, or none if there is no file."""
    return by_cell(file.read_text().splitlines()) if file.exists() else {}


def by_cell(texts: Iterable[str]) -> dict[Cell, dict[str, Any]]:
    """Return results by their cells."""
    results = [json.loads(text) for text in texts]
    return {Cell(one["name"], one["split"], one["method"]): one for one in results}


def write_stored(results: Mapping[Cell, dict[str, Any]], file: Path) -> None:
    """Write results, one per line and sorted, so that a change of one is a change of one line.

    Failed cells are left out: their reasons may name files of this machine, and they are to be run again.
    """
    order = sorted(results, key=lambda cell: (cell.name, cell.method, cell.split))
    lines = [json.dumps(rounded(results[cell])) for cell in order if results[cell]["state"] != "failed"]
    file.write_text("".join(f"{line}\n" for line in lines))


def rounded(value: Any) -> Any:
    """Return a result with six significant digits of each number."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    return float(f"{value:.6g}") if isinstance(value, float) else value


def is_done(cell: Cell, directory: Path) -> bool:
    """Return whether a cell has a result; a cell that failed by an error has none."""
    file = cell.file(directory)
    return file.exists() and json.loads(file.read_text())["state"] != "failed"


def run_apart(cell: Cell, command: list[str], file: Path, *, seconds: float, n_bytes: float) -> dict[str, Any]:
    """Run a command that stores the result of a cell, in a process that is ended above a time or a memory.

    Returns
    -------
    dict
        The stored result: what the process measured, or the state "did not finish" or "failed", with the reason.
    """
    log = file.with_suffix(".log")
    log.parent.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    with log.open("w") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=stream, start_new_session=True)
        reason = None
        try:
            while process.poll() is None and reason is None:
                if time.perf_counter() - start > seconds:
                    reason = f"more than {seconds:g} s"
                elif resident_bytes(process.pid) > n_bytes:
                    reason = f"more than {n_bytes / 1e9:g} GB"
                else:
                    time.sleep(LOOK)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    if reason is None and process.returncode == 0 and file.exists():
        log.unlink()
        return json.loads(file.read_text())
    taken = time.perf_counter() - start
    if reason is None:
        lines = log.read_text().strip().splitlines()
        reason = lines[-1] if lines else f"exit code {process.returncode}"
        result = {**asdict(cell), "state": "failed", "reason": reason, "seconds": taken}
    else:
        result = {**asdict(cell), "state": "did not finish", "reason": reason, "seconds": taken}
    store(result, file)
    return result


def resident_bytes(pid: int) -> int:
    """Return the memory of a process and of those that it started, or 0 if it has ended."""
    try:
        process = psutil.Process(pid)
        return sum(one.memory_info().rss for one in (process, *process.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0
