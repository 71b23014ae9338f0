"""Gaussian processes on grids of frequencies: accuracy, speed, memory, and other libraries, in one command.

    python benchmarks/grid.py [--parts exact sums parquet bits sobol ski evidence] [--rows 1e8] [--folder DIR]

- exact: mean, standard deviation and samples beside scikit-learn's exact process, n = 5000, one and two columns,
- sums: rows per second of the sums of a fit in memory, on all threads,
- parquet: a fit to `--rows` rows of a Parquet file, which is written to `--folder` first, in a process of its own,
- bits: sums are equal to the bit for any number of threads, from blocks, from a file and on Dask,
- sobol: the time of a fit to a million rows beside `GaussianProcessRegressor` with 1024 Sobol features,
- ski: the time of the mean of 1e5 rows beside KISS-GP (needs gpytorch),
- evidence: the evidence and its gradient beside scikit-learn's exact process, up to 8000 components.

Rows are uniform on the unit square, targets a cosine plus noise of 0.1, the lengthscale is 0.1. Everything is fixed, so
that times are those of the fit alone. Seconds are processor seconds of all threads, which other programs on the machine
do not change much, unless they are called seconds of the clock. Set OMP_NUM_THREADS=1: threads of BLAS that wait count,
too.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mercer import (
    Gaussian,
    GaussianProcessRegressor,
    GridFourier,
    GridGaussianProcessRegressor,
    Kernel,
    Matern,
    RandomFourier,
    open_rows,
)

NOISE, SCALE = 0.1, 0.1
KERNELS = {"Gaussian": Gaussian(SCALE), "Matern 3/2": Matern(1.5, SCALE), "Matern 5/2": Matern(2.5, SCALE)}
PARTS = ("exact", "sums", "parquet", "bits", "sobol", "ski", "evidence")


def truth(X: np.ndarray) -> np.ndarray:
    """Return the function without noise."""
    return np.cos(2 * np.pi * X @ np.array([4.0, 3.0, 2.0])[: X.shape[1]] + 1.3)


def rows(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and targets."""
    rng = np.random.default_rng(seed)
    X = rng.random((n, d))
    return X, truth(X) + NOISE * rng.standard_normal(n)


def process(kernel: Kernel, d: int = 2, **options: Any) -> GridGaussianProcessRegressor:
    """Return a process of fixed hyperparameters, which reads the rows once."""
    feature_map = GridFourier(kernel, bounds=(np.zeros(d), np.ones(d)))
    given = {"noise": NOISE, "amplitude": 1.0, "lengthscale_tuning": None, "normalize_y": False}
    return GridGaussianProcessRegressor(feature_map, **{**given, **options})


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a function, and its processor seconds."""
    start = time.process_time()
    return function(), time.process_time() - start


def rms(values: np.ndarray) -> float:
    """Return the root mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


def exact_kernel(name: str) -> Any:
    """Return the kernel of scikit-learn."""
    from sklearn.gaussian_process import kernels

    return kernels.RBF(SCALE) if name == "Gaussian" else kernels.Matern(SCALE, nu=float(name[7]) / 2)


def exact() -> None:
    """Compare with the exact process."""
    from sklearn.gaussian_process import GaussianProcessRegressor as Exact

    for d in (1, 2):
        X, y = rows(5000, d)
        new = np.random.default_rng(5).random((1000, d))
        for name, kernel in KERNELS.items():
            model, seconds = timed(lambda k=kernel, X=X, y=y, d=d: process(k, d).fit(X, y))
            mean, more = timed(lambda m=model, new=new: m.predict(new))
            peer = Exact(exact_kernel(name), alpha=NOISE**2, optimizer=None)
            _, theirs = timed(lambda p=peer, X=X, y=y: p.fit(X, y))
            expected, also = timed(lambda p=peer, new=new: p.predict(new))
            _, deviation = peer.predict(new, return_std=True)
            (_, std), variance = timed(lambda m=model, new=new: m.predict(new, return_std=True))
            samples = model.sample_y(new[:200], 500)
            print(
                f"exact d={d} {name}: {model.width_} components, mean rms {rms(mean - expected):.1e} max "
                f"{np.abs(mean - expected).max():.1e} (target 2e-3); std rms {rms(std / deviation - 1):.1e} max "
                f"{np.abs(std / deviation - 1).max():.1e}; std of 500 samples / std rms "
                f"{rms(samples.std(axis=1) / deviation[:200] - 1):.3f} (0.032 expected); seconds {seconds + more:.2f}, "
                f"scikit-learn {theirs + also:.2f}, ratio {(seconds + more) / (theirs + also):.3f} (target 0.1); "
                f"std {variance:.1f} s",
                flush=True,
            )


def sums() -> None:
    """Measure the sums over rows."""
    n = 4_000_000
    X, y = rows(n, 2)
    for name, kernel in KERNELS.items():
        model = process(kernel).fit(X[:1000], y[:1000])
        fit = fit_of(model, X, y)
        clock = time.perf_counter()
        best = min(timed(lambda f=fit, m=model: f.accumulate(m._statistic(f)))[1] for _ in range(3))
        clock = (time.perf_counter() - clock) / 3
        print(
            f"sums {name}: {model.width_} components, {n / best / 1e6:.1f} million rows per processor second "
            f"(target: 4 on two threads), {n / clock / 1e6:.1f} million per second of the clock on all threads",
            flush=True,
        )


def fit_of(model: GridGaussianProcessRegressor, X: np.ndarray, y: np.ndarray) -> Any:
    """Return the inputs of a fit, without the fit."""
    from mercer.data.sources import source_of

    reader = model._reader(model.feature_map_.width, fresh=False)
    engine = source_of(X, y, owner="benchmark").engine(reader)
    return model._fit_of(engine, model.feature_map_, 0, {})


def write(path: Path, n: int) -> None:
    """Write rows to a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for start in range(0, n, 1_000_000):
        X, y = rows(min(1_000_000, n - start), 2, seed=start + 1)
        table = pa.table({"a": X[:, 0], "b": X[:, 1], "y": y})
        writer = writer or pq.ParquetWriter(path, table.schema, compression="none", use_dictionary=False)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def parquet(n: int, folder: str | None) -> None:
    """Fit to a file, in another process, whose memory is measured."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        path = Path(scratch) / "rows.parquet"
        _, seconds = timed(lambda: write(path, n))
        print(f"parquet: {n:.0e} rows written in {seconds:.0f} s, {path.stat().st_size / 1e9:.1f} GB", flush=True)
        subprocess.run([sys.executable, __file__, "--fit", str(path)], check=True)


def peak() -> float:
    """Return the peak memory of this process in GB. `ru_maxrss` would include that of the process that started it."""
    status = Path("/proc/self/status").read_text().splitlines()
    return float(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 2**20


def fit_file(path: str) -> None:
    """Fit to a file, and print time and memory."""
    warnings.simplefilter("ignore")
    X, y = rows(1000, 2)
    process(KERNELS["Gaussian"]).fit(X, y)
    source = open_rows(path, target="y")
    before = peak()
    for name in ("Gaussian", "Matern 5/2"):
        clock = time.perf_counter()
        model, seconds = timed(lambda name=name: process(KERNELS[name]).fit(source))
        clock = time.perf_counter() - clock
        new = np.random.default_rng(5).random((10_000, 2))
        error = rms(model.predict(new) - truth(new))
        print(
            f"parquet {name}: {source.n_rows:.0e} rows in {seconds:.1f} processor seconds, {clock:.1f} s of the clock "
            f"(target: 60 for 1e8), {model.width_} components, "
            f"{model.n_steps_} steps, edge {model.edge_:.1g}, rms to the truth {error:.1e}, "
            f"{peak() - before:.2f} GB more than before (target 0.5 beyond a block)",
            flush=True,
        )


def bits() -> None:
    """Compare sums to the bit."""
    import dask.array as da

    X, y = rows(1_000_000, 2)
    size = 131_072
    kernel = KERNELS["Matern 5/2"]

    def of(*data: Any, **options: Any) -> np.ndarray:
        # Without bounds, so that targets are scaled by all rows rather than by the first ones, which differ on Dask.
        given = {"noise": NOISE, "amplitude": 1.0, "lengthscale_tuning": None, "max_components": 2000}
        return GridGaussianProcessRegressor(kernel, **given, **options).fit(*data).statistic_.weights

    warnings.simplefilter("ignore")
    expected = of(X, y, n_jobs=1, block_size=size)
    blocks = [(X[i : i + size], y[i : i + size]) for i in range(0, len(X), size)]
    parts = da.from_array(X, chunks=(size, -1)), da.from_array(y, chunks=size)
    same = {
        "two threads": of(X, y, n_jobs=2, block_size=size),
        "blocks": of(blocks),
        "Dask": of(*parts),
    }
    print("bits:", ", ".join(f"{name} {np.array_equal(value, expected)}" for name, value in same.items()), flush=True)
    # Dask adds the sums of more than a few partitions as a tree: rounding differs from memory, but not from run to run.
    gap = np.abs(same["Dask"] - expected).max() / np.abs(expected).max()
    print(f"bits: Dask again {np.array_equal(of(*parts), same['Dask'])}, {gap:.1e} from memory", flush=True)


def sobol() -> None:
    """Compare with 1024 Sobol features at a million rows."""
    X, y = rows(1_000_000, 2)
    new = np.random.default_rng(5).random((10_000, 2))
    for name in ("Gaussian", "Matern 3/2"):
        kernel = KERNELS[name]
        model, seconds = timed(lambda k=kernel: process(k).fit(X, y))
        other = GaussianProcessRegressor(
            RandomFourier(kernel, 1024, directions="sobol", random_state=0),
            noise=NOISE,
            amplitude=1.0,
            lengthscale_tuning=None,
            normalize_y=False,
        )
        _, theirs = timed(lambda o=other: o.fit(X, y))
        print(
            f"sobol {name}: {seconds:.2f} s with {model.width_} components (rms to the truth "
            f"{rms(model.predict(new) - truth(new)):.1e}), 1024 Sobol features {theirs:.2f} s "
            f"({rms(other.predict(new) - truth(new)):.1e}), ratio {seconds / theirs:.3f} (target 0.1)",
            flush=True,
        )


def ski() -> None:
    """Compare with KISS-GP at 1e5 rows."""
    try:
        import gpytorch
        import torch
    except ImportError:
        print("ski: gpytorch is not installed", flush=True)
        return
    X, y = rows(100_000, 2)
    new = np.random.default_rng(5).random((10_000, 2))
    kernel = KERNELS["Matern 3/2"]
    model, seconds = timed(lambda: process(kernel).fit(X, y))
    mean, more = timed(lambda: model.predict(new))

    class Model(gpytorch.models.ExactGP):  # type: ignore[misc]
        def __init__(self, x: Any, t: Any, likelihood: Any) -> None:
            super().__init__(x, t, likelihood)
            self.mean_module = gpytorch.means.ZeroMean()
            inner = gpytorch.kernels.MaternKernel(nu=1.5)
            grid = gpytorch.kernels.GridInterpolationKernel(
                inner, grid_size=100, num_dims=2, grid_bounds=[(0.0, 1.0)] * 2
            )
            self.covar_module = gpytorch.kernels.ScaleKernel(grid)

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    peer = Model(torch.tensor(X), torch.tensor(y), likelihood).double()
    peer.initialize(
        **{
            "likelihood.noise_covar.noise": torch.tensor(NOISE**2),
            "covar_module.base_kernel.base_kernel.lengthscale": torch.tensor(SCALE),
            "covar_module.outputscale": torch.tensor(1.0),
        }
    )
    peer.eval()

    def predict() -> np.ndarray:
        with torch.no_grad(), gpytorch.settings.skip_posterior_variances(True):
            return peer(torch.tensor(new)).mean.numpy()

    expected, theirs = timed(predict)
    print(
        f"ski Matern 3/2, 1e5 rows: {seconds + more:.2f} s with {model.width_} components (rms to the truth "
        f"{rms(mean - truth(new)):.1e}), KISS-GP with a grid of 100 x 100 {theirs:.1f} s "
        f"({rms(expected - truth(new)):.1e}), ratio {(seconds + more) / theirs:.3f} (target 0.05)",
        flush=True,
    )


def evidence() -> None:
    """Compare the evidence and its gradient with the exact process."""
    from sklearn.gaussian_process import GaussianProcessRegressor as Exact

    for d, n, noise in ((1, 3000, 0.1), (2, 1000, 0.3), (2, 2000, 0.3)):
        X, y = rows(n, d)
        for name, kernel in KERNELS.items():
            model = process(kernel, d, noise=noise).fit(X, y)
            if model.width_ > 8000:
                print(f"evidence d={d} n={n} {name}: {model.width_} components, too many", flush=True)
                continue
            (value, slopes), seconds = timed(lambda m=model: m.log_marginal_likelihood(eval_gradient=True))
            slope = float(model.lengthscale_gradient().sum())
            peer = Exact(exact_kernel(name), alpha=noise**2, optimizer=None).fit(X, y)
            expected, gradient = peer.log_marginal_likelihood(peer.kernel_.theta, eval_gradient=True)
            size = max(abs(float(gradient[0])), float(np.abs(slopes).max()))
            print(
                f"evidence d={d} n={n} {name}: {model.width_} components, {value:.1f}, exact {expected:.1f}, relative "
                f"error {abs(value / expected - 1):.1e}; derivative by log lengthscale {slope:.1f}, exact "
                f"{gradient[0]:.1f}, {abs(slope - gradient[0]) / size:.1e} of the largest derivative (target 0.02); "
                f"{seconds:.1f} s",
                flush=True,
            )


def main() -> None:
    """Run the parts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--folder", help="where the Parquet file is written; a temporary folder by default")
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        fit_file(arguments.fit)
        return
    from mercer.linalg.nonuniform import has_finufft

    print(json.dumps({"finufft": has_finufft()}), flush=True)
    run = {"exact": exact, "sums": sums, "bits": bits, "sobol": sobol, "ski": ski, "evidence": evidence}
    for part in arguments.parts:
        if part == "parquet":
            parquet(int(arguments.rows), arguments.folder)
        else:
            run[part]()


if __name__ == "__main__":
    main()
