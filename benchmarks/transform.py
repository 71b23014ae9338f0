"""Time of a transform beside its peers and beside a plain copy of its output.

    python benchmarks/transform.py [--quick] [--rounds 7] [--peer-env DIR] [--no-fastfood] [--output DIR]

Rows are standard normal, the kernel is Gaussian of lengthscale sqrt(d). All cases of one dtype and width run in turn,
best of several rounds. "Allocated" cases return a fresh array, as users call them; the others write into one buffer.
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import machine
import numpy as np
import peers
import plots
from harness import Check, Report, Timing, format_table, interleave, parser_for, pick, ratio

from mercer import Gaussian, RandomFourier
from mercer.engines import fill_rows
from mercer.engines.base import count_threads
from mercer.maps.fourier.directions import DIRECTIONS
from mercer.maps.fourier.projections import DenseProjection

ROWS, COLUMNS = 4000, 4096
WIDTHS = (32, 128, 1024)
DTYPES = ("float32", "float64")
STRUCTURED_WIDTHS = (128, 1024)
# Not the seed of the maps: a generator of equal seed would draw the same numbers again, as directions.
DATA_SEED = 20
# Targets: how many times faster than a peer, at equal output.
RBF_SAMPLER = {"float32": {32: 5, 128: 7, 1024: 25}, "float64": {32: 10, 128: 15, 1024: 20}}
XGPR = {128: 4, 1024: 4}
WITHIN_COPY = 1.5
WITHIN_HADAMARD = 1.25

COPY = "copy of the output"
THREADED_COPY = f"copy of the output, {count_threads(None)} threads"
COSINES = "np.cos of the output"
GEMM = "GEMM of the projection"
LIMITS = (COPY, THREADED_COPY, COSINES, GEMM)
DEFAULT = f"mercer, as called ({RandomFourier().directions})"


@dataclass(frozen=True)
class Panel:
    """All timings for one dtype and width of rows."""

    dtype: str
    d: int
    timings: dict[str, Timing]
    errors: dict[str, float]
    #: Structured directions, and whether each is exactly unbiased.
    structured: dict[str, bool]
    fastfood: dict[str, Timing] | None = None

    @property
    def title(self) -> str:
        return f"{self.dtype}, d={self.d}"

    def all_timings(self) -> dict[str, Timing]:
        """Return all timings, Fastfood's own among them."""
        return self.timings | ({} if self.fastfood is None else {"Fastfood": self.fastfood["fastfood"]})

    def relative(self) -> dict[str, float]:
        """Return all times relative to the copy of the output in the same process."""
        found = {name: timing.best / self.timings[COPY].best for name, timing in self.timings.items()}
        if self.fastfood is not None:
            found["Fastfood"] = self.fastfood["fastfood"].best / self.fastfood["copy"].best
        return found

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        fastfood = self.fastfood or {}
        return {
            "dtype": self.dtype,
            "d": self.d,
            "seconds": {name: timing.to_dict() for name, timing in self.timings.items()},
            "fastfood_seconds": {name: timing.to_dict() for name, timing in fastfood.items()},
            "relative_to_copy": self.relative(),
            "relative_kernel_error": self.errors,
        }


def buffered(directions: str) -> str:
    """Return the name of the case that writes into a buffer."""
    return f"mercer, {directions}, into a buffer"


def limits(X: np.ndarray, columns: int, buffer: np.ndarray) -> dict[str, Callable[[], Any]]:
    """Return the cases that no transform can beat, or that a plain one is made of."""
    rng = np.random.default_rng(2)
    angles = rng.standard_normal(buffer.shape).astype(X.dtype)
    frequencies = rng.standard_normal((X.shape[1], columns // 2)).astype(X.dtype)
    product = np.empty((len(X), columns // 2), X.dtype)
    return {
        COPY: lambda: np.copyto(buffer, angles),
        # The same blocks and threads as a transform of ours.
        THREADED_COPY: lambda: fill_rows(lambda rows, out: np.copyto(out, rows), angles, buffer, n_jobs=None),
        COSINES: lambda: np.cos(angles, out=buffer),
        GEMM: lambda: np.matmul(X, frequencies, out=product),
    }


def peer_transforms(X: np.ndarray, columns: int, quick: bool) -> dict[str, peers.Transform]:
    """Return the fitted peers that are installed here."""
    found = {"RBFSampler": peers.rbf_sampler(X, columns)}
    if not quick:
        found["Nystroem of scikit-learn"] = peers.nystroem(X, columns)
    generator = peers.xgpr(X, columns) if X.dtype == np.float64 else None
    if generator is not None:
        found["xGPR"] = generator
    return found


def fitted_maps(X: np.ndarray, columns: int, quick: bool) -> dict[str, RandomFourier]:
    """Return our map with every choice of directions; quick leaves out the dense ones that are not the default."""
    kernel = Gaussian(lengthscale=float(np.sqrt(X.shape[1])))
    maps = {name: RandomFourier(kernel, columns, directions=name, random_state=0).fit(X) for name in DIRECTIONS}
    default = RandomFourier().directions
    return {name: one for name, one in maps.items() if not quick or name == default or is_structured(one)}


def is_structured(feature_map: RandomFourier) -> bool:
    """Return whether the map projects without a dense matrix."""
    return not isinstance(feature_map.features_.projection, DenseProjection)


def kernel_error(transform: peers.Transform, X: np.ndarray) -> float:
    """Return the relative error of the approximate kernel on some rows: all contenders approximate the same one."""
    rows = X[:256]
    K = Gaussian(lengthscale=float(np.sqrt(X.shape[1])))(rows.astype(float))
    Z = transform(rows).astype(float)
    return float(np.linalg.norm(Z @ Z.T - K) / np.linalg.norm(K))


def measure(dtype: str, d: int, options: argparse.Namespace, environment: peers.FastfoodEnvironment | None) -> Panel:
    """Time all cases for one dtype and width."""
    n, columns = options.rows, options.n_components
    X = np.random.default_rng(DATA_SEED).standard_normal((n, d)).astype(dtype)
    buffer = np.zeros((n, columns), dtype)
    maps = fitted_maps(X, columns, options.quick)
    default = RandomFourier(Gaussian(lengthscale=float(np.sqrt(d))), columns, random_state=0).fit(X)
    allocating = peer_transforms(X, columns, options.quick) | {DEFAULT: default.transform}
    reusing = {buffered(name): one.transform for name, one in maps.items()}
    cases = limits(X, columns, buffer)
    cases |= {name: partial(transform, X) for name, transform in allocating.items()}
    cases |= {name: partial(transform, X, out=buffer) for name, transform in reusing.items()}
    errors = {name: kernel_error(transform, X) for name, transform in (allocating | reusing).items()}
    timings = interleave(cases, options.rounds)
    structured = {name: one.unbiased is True for name, one in maps.items() if is_structured(one)}
    # It has no output but float64.
    fastfood = environment.time(n, d, columns, options.rounds) if environment and dtype == "float64" else None
    return Panel(dtype, d, timings, errors, structured, fastfood)


def table(panel: Panel, elements: int) -> str:
    """Return the timings of one panel, fastest first."""
    relative = panel.relative()
    rows = [
        (
            name,
            f"{1e3 * timing.best:.1f}",
            f"{1e3 * timing.median:.1f}",
            f"{1e9 * timing.best / elements:.2f}",
            f"{relative[name]:.2f}",
            f"{relative['RBFSampler'] / relative[name]:.1f}",
            f"{panel.errors[name]:.4f}" if name in panel.errors else "",
        )
        for name, timing in sorted(panel.all_timings().items(), key=lambda item: relative[item[0]])
    ]
    header = ("", "best ms", "median", "ns/element", "/ copy", "x RBFSampler", "kernel error")
    return f"\n{panel.title}\n{format_table(header, rows)}"


def rbf_sampler_checks(panel: Panel) -> list[Check]:
    """Return how many times faster than RBFSampler the map is, as users call both."""
    value = ratio(panel.timings["RBFSampler"], panel.timings[DEFAULT])
    target = RBF_SAMPLER[panel.dtype][panel.d]
    return [Check(f"times faster than RBFSampler, allocated, {panel.title}", value, at_least=target)]


def xgpr_checks(panel: Panel) -> list[Check]:
    """Return how many times faster than xGPR the map is, at equal float64 output."""
    if panel.dtype != "float64" or panel.d not in XGPR:
        return []
    value = ratio(panel.timings.get("xGPR"), panel.timings[DEFAULT])
    return [Check(f"times faster than xGPR, allocated, {panel.title}", value, at_least=XGPR[panel.d])]


def copy_checks(panel: Panel) -> list[Check]:
    """Return the cost of structured directions relative to a copy: the plain one has a target, the threaded none."""
    if panel.d not in STRUCTURED_WIDTHS:
        return []
    found = []
    for name in panel.structured:
        time = panel.timings[buffered(name)]
        plain, threaded = (ratio(time, panel.timings[copy]) for copy in (COPY, THREADED_COPY))
        found.append(Check(f"{name} into a buffer / {COPY}, {panel.title}", plain, at_most=WITHIN_COPY))
        found.append(Check(f"{name} into a buffer / {THREADED_COPY}, {panel.title}", threaded))
    return found


def unbiased_checks(panel: Panel) -> list[Check]:
    """Return the cost of exactly unbiased structured directions relative to sign-Hadamard ones."""
    if panel.d not in STRUCTURED_WIDTHS:
        return []
    exact = [name for name, unbiased in panel.structured.items() if unbiased]
    hadamard = panel.timings.get(buffered("hadamard"))
    return [
        Check(
            f"{name} / hadamard, {panel.title}",
            ratio(panel.timings.get(buffered(name)), hadamard),
            at_most=WITHIN_HADAMARD,
        )
        for name in exact or ["exactly unbiased structured directions"]
    ]


CHECKS = (rbf_sampler_checks, xgpr_checks, copy_checks, unbiased_checks)


def fastfood_or_none(
    options: argparse.Namespace, stack: contextlib.ExitStack, notes: list[str]
) -> peers.FastfoodEnvironment | None:
    """Return the environment of Fastfood, or None with a note that says why."""
    if options.no_fastfood:
        notes.append("Fastfood was left out (--no-fastfood)")
        return None
    if options.quick and options.peer_env is None:
        notes.append("quick: without Fastfood, which is installed first; --peer-env DIR keeps its environment")
        return None
    try:
        return stack.enter_context(peers.fastfood_environment(options.peer_env))
    except RuntimeError as error:
        notes.append(f"Fastfood was left out: {error}")
        return None


def run(options: argparse.Namespace, report: Report) -> list[Panel]:
    """Measure all panels, printing each as it comes."""
    elements = options.rows * options.n_components
    panels = []
    with contextlib.ExitStack() as stack:
        environment = fastfood_or_none(options, stack, report.notes)
        for dtype in DTYPES:
            for d in WIDTHS:
                panels.append(measure(dtype, d, options, environment))
                print(table(panels[-1], elements), flush=True)
    return panels


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = parser_for(__doc__.splitlines()[0], rounds=7, quick_rounds=3)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--n-components", type=int, default=COLUMNS)
    parser.add_argument("--peer-env", type=Path, help="directory to keep the environment of Fastfood in")
    parser.add_argument("--no-fastfood", action="store_true", help="leave Fastfood out")
    options = parser.parse_args(arguments)
    options.rounds = pick(options.quick, options.rounds, 7, 3)
    return options


def main() -> None:
    """Run, print, write."""
    options = options_of()
    sizes = {"rows": options.rows, "n_components": options.n_components}
    settings = sizes | {"rounds": options.rounds, "quick": options.quick, "data_seed": DATA_SEED, "seed": 0}
    report = Report("transform", settings, judged=sizes == {"rows": ROWS, "n_components": COLUMNS})
    report.begin()
    panels = run(options, report)
    if machine.version("xGPR") is None:
        report.notes.append("xGPR is not installed; it is free for academic use only (pip install xGPR==0.4.8.5)")
    if options.quick:
        report.notes.append("quick: without scikit-learn's Nystroem, whose fit takes long, and other dense directions")
    report.results = {"default_directions": RandomFourier().directions, "panels": [p.to_dict() for p in panels]}
    report.checks = [check for checks_of in CHECKS for panel in panels for check in checks_of(panel)]
    stem = report.finish(options.output)
    label = "time relative to a copy of the output (logarithmic)"
    plots.bars({p.title: p.relative() for p in panels}, LIMITS, report.caption(label), stem.with_suffix(".png"))


if __name__ == "__main__":
    main()
