"""Time and size of model files, beside pickle, joblib and skops if it is installed.

    python benchmarks/model_files.py [--quick] [--rounds 15] [--data DIR] [--output DIR]

A fitted ridge regression with 4096 components is written and read again, with dense directions and with butterflies;
the target is less than 50 ms for both together. With ``--data DIR``, an automatic model of the rows of
concrete.npz is written, too. Files are on the file system of the temporary folder, and are synchronized to the disk;
those of the other libraries are not.
"""

from __future__ import annotations

import importlib.util
import pickle
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from harness import Check, Report, format_table, interleave, parser_for, pick

from mercer import Gaussian, KernelRegressor, KernelRidge, RandomFourier, load_model, save_model

ROUNDS, QUICK_ROUNDS, COMPONENTS = 15, 5, 4096
TARGET_SECONDS = 0.05


def through_mercer(model: Any, path: Path) -> Any:
    """Write and read a model file."""
    return load_model(save_model(model, path))


def through_pickle(model: Any, path: Path) -> Any:
    """Write and read a pickle."""
    path.write_bytes(pickle.dumps(model))
    return pickle.loads(path.read_bytes())


def through_joblib(model: Any, path: Path) -> Any:
    """Write and read a file of joblib."""
    joblib.dump(model, path)
    return joblib.load(path)


def through_skops(model: Any, path: Path) -> Any:
    """Write and read a file of skops, whose types are trusted."""
    from skops import io

    io.dump(model, path)
    return io.load(path, trusted=io.get_untrusted_types(file=path))


def models_of(data: Path | None) -> dict[str, Any]:
    """Return fitted models."""
    X = np.random.default_rng(0).normal(size=(2000, 20))
    y = np.sin(X[:, 0])
    maps = {
        "dense": RandomFourier(Gaussian("median"), COMPONENTS, directions="iid", random_state=0),
        "butterflies": RandomFourier(Gaussian("median"), COMPONENTS, directions="butterfly", random_state=0),
    }
    found: dict[str, Any] = {name: KernelRidge(one, alpha=1e-3).fit(X, y) for name, one in maps.items()}
    found["map only"] = RandomFourier(Gaussian("median"), COMPONENTS, random_state=0).fit(X)
    if data is not None:
        rows = np.load(data / "concrete.npz")
        found["automatic"] = KernelRegressor(random_state=0).fit(rows["X"], rows["y"])
    return found


def main() -> None:
    """Run, print, write."""
    parser = parser_for(__doc__.splitlines()[0], ROUNDS, QUICK_ROUNDS)
    parser.add_argument("--data", type=Path, help="folder with concrete.npz")
    options = parser.parse_args()
    rounds = pick(options.quick, options.rounds, ROUNDS, QUICK_ROUNDS)
    report = Report("model_files", {"components": COMPONENTS, "rounds": rounds})
    report.begin()
    ways = {"mercer": through_mercer, "pickle": through_pickle, "joblib": through_joblib}
    if importlib.util.find_spec("skops"):
        ways["skops"] = through_skops
    else:
        report.notes.append("skops is not installed")
    rows = []
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models_of(options.data).items():
            paths = {way: Path(folder) / f"{name}.{way}" for way in ways}
            cases = {way: partial(through, model, paths[way]) for way, through in ways.items()}
            timings = interleave(cases, rounds)
            sizes = {way: path.stat().st_size for way, path in paths.items()}
            for way in ways:
                rows.append((name, way, f"{1e3 * timings[way].median:.1f}", f"{sizes[way] / 1e6:.2f}", ""))
            report.results[name] = {way: timings[way].to_dict() | {"bytes": sizes[way]} for way in ways}
            if name != "automatic":
                at_most = TARGET_SECONDS
                report.checks.append(
                    Check(f"{name}: seconds to write and read", timings["mercer"].median, None, at_most)
                )
    print(f"\n{format_table(('model', 'format', 'ms, write and read', 'MB', ''), rows)}")
    report.finish(options.output)


if __name__ == "__main__":
    main()
