"""The large spatial data of Greengard, Rachh and Barnett (2022): Gaussian processes on grids of frequencies."""

from __future__ import annotations

import time

import numpy as np

from mercer.kernels import Matern
from mercer.learners import GridGaussianProcessRegressor
from mercer.linalg.nonuniform import has_finufft
from mercer.maps import GridFourier
from mercer.reproduce.tables import Measured, Method, Table, Trial

__all__ = ["TABLE"]

Array = np.ndarray
PROTOCOL = """\
Seconds to fit a Gaussian process of fixed hyperparameters and to predict its mean at the 10^6 points of a grid,
without the time of making the rows: n rows are uniform in the unit square, targets are cos(2 pi (4 x + 3 y) + 1.3) and
noise, the kernel is Matern 3/2 with lengthscale 0.1 and variance 1, as in the authors' code. The seconds of the paper
are those of the authors' computer, so that the comparison is one of magnitudes only. Ours chooses the grid by the rows
and the noise; with 5000 rows its mean is within 2e-3 of that of the exact process as a root mean square
(benchmarks/grid.py), and on these rows the difference from the function without noise is stored beside the seconds.
The Fourier transforms are those of finufft, which mercer[grid] installs; without it NumPy takes ten times the processor
time or more, and the quick run has 10^6 rows instead of 10^7. The billion rows of the paper, 103 to 121 seconds there,
need 24 GB as an array, and are not run."""
#: Number of rows, and standard deviation of the noise.
ROWS = {
    "n = 1e7, noise 0.1": (10_000_000, 0.1),
    "n = 3e7, noise 0.1": (30_000_000, 0.1),
    "n = 1e8, noise 0.577": (100_000_000, 0.1 * (1e8 / 3e6) ** 0.5),
}
LENGTHSCALE, SIDE, PART = 0.1, 1000, 1_000_000
QUICK_ROWS = 1_000_000
METHODS = {"ours": Method("process on a grid", "ours")}


def function(X: Array) -> Array:
    """Return the targets without noise."""
    return np.cos(2 * np.pi * (X @ np.array([4.0, 3.0])) + 1.3)


def rows(n: int, noise: float, seed: int) -> tuple[Array, Array]:
    """Return rows and targets, which are made in parts so that no further array is as large."""
    rng = np.random.default_rng([2022, seed])
    X, y = np.empty((n, 2)), np.empty(n)
    for start in range(0, n, PART):
        part = slice(start, min(start + PART, n))
        rng.random(out=X[part])
        y[part] = function(X[part]) + noise * rng.standard_normal(part.stop - start)
    return X, y


def process(noise: float) -> GridGaussianProcessRegressor:
    """Return the unfitted process."""
    return GridGaussianProcessRegressor(
        GridFourier(Matern(nu=1.5, lengthscale=LENGTHSCALE), bounds=(np.zeros(2), np.ones(2))),
        noise=noise,
        amplitude=1.0,
        lengthscale_tuning=None,
        normalize_y=False,
    )


def measure(trial: Trial) -> dict[str, Measured]:
    """Return the seconds of a fit and of its predictions."""
    n, noise = ROWS[trial.row]
    if trial.quick and not has_finufft():
        n = QUICK_ROWS
    X, y = rows(n, noise, trial.split)
    line = np.linspace(0, 1, SIDE)
    points = np.stack(np.meshgrid(line, line, indexing="ij"), axis=-1).reshape(-1, 2)
    start = time.perf_counter()
    mean = process(noise).fit(X, y).predict(points)
    seconds = time.perf_counter() - start
    error = float(np.sqrt(np.mean((mean - function(points)) ** 2)))
    transforms = "finufft" if has_finufft() else "NumPy"
    return {"ours": Measured(seconds, seconds, {"difference from the function": error, "transforms": transforms})}


TABLE = Table(
    name="efgp",
    protocol=PROTOCOL,
    methods=METHODS,
    rows=lambda quick: tuple(ROWS)[:1] if quick else tuple(ROWS),
    splits=lambda _row, quick: 1 if quick else 3,
    measure=measure,
    datasets=lambda _row: (),
    smaller=lambda _row: not has_finufft(),
)
