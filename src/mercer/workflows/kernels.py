"""Feature maps for the rows of a table: their components, their errors, and which map to use."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.pipeline import Pipeline

from mercer.choice import FeatureMap, choose
from mercer.diagnostics import audit, compare
from mercer.diagnostics.fits.results import Result, json_value
from mercer.engines import Report
from mercer.errors import DataError, ParameterError
from mercer.io.writers import output_format
from mercer.kernels import (
    ArcCosine,
    Cauchy,
    ExponentialDotProduct,
    Gaussian,
    Kernel,
    Laplacian,
    Matern,
    Polynomial,
    RationalQuadratic,
)
from mercer.model_files import save_model
from mercer.tables import TablePreprocessor
from mercer.workflows.predict import PredictResult, model_rows, read_model, write_rows
from mercer.workflows.resources import available_bytes
from mercer.workflows.sources import opened, read_sample

__all__ = [
    "KERNELS",
    "MapResult",
    "audit_file",
    "choose_file",
    "compare_file",
    "kernel_named",
    "map_for",
    "numeric_rows",
    "transform_file",
]

Array = np.ndarray
#: Kernels by name: a function of the lengthscale, or of nothing for kernels that have none.
KERNELS: dict[str, Any] = {
    "gaussian": Gaussian,
    "laplacian": Laplacian,
    "cauchy": Cauchy,
    "matern12": lambda lengthscale: Matern(0.5, lengthscale),
    "matern32": lambda lengthscale: Matern(1.5, lengthscale),
    "matern52": lambda lengthscale: Matern(2.5, lengthscale),
    "rational-quadratic": lambda lengthscale: RationalQuadratic(lengthscale=lengthscale),
    "polynomial2": lambda: Polynomial(2),
    "polynomial3": lambda: Polynomial(3),
    "arc-cosine": ArcCosine,
    "exponential": ExponentialDotProduct,
}
WITHOUT_LENGTHSCALE = ("polynomial2", "polynomial3", "arc-cosine", "exponential")
DEFAULT_WIDTH = 512
# Share of the memory that is available for the rows that maps are compared on, and their largest number.
ROWS_SHARE, MOST_ROWS = 0.1, 20_000


@dataclass(frozen=True)
class MapResult(Result):
    """What was measured of feature maps on the rows of a table.

    Attributes
    ----------
    source : str
        The table.
    n_rows, n_columns : int
        Number of rows that were used, and of their columns after preprocessing.
    seconds : float
        Time, including reading.
    text : str
        The result as text.
    details : dict
        All figures: those of `Audit`, `Comparison` or `MapChoice`.
    """

    source: str
    n_rows: int
    n_columns: int
    seconds: float
    text: str
    details: dict[str, Any]


def kernel_named(name: str | None, lengthscale: float | Literal["median"] | None = None) -> Kernel:
    """Return the kernel of a name, such as "gaussian".

    Examples
    --------
    >>> kernel_named("matern32", 2.0)
    Matern(nu=1.5, lengthscale=2.0)
    """
    name = (name or "gaussian").lower()
    if name not in KERNELS:
        msg = f"kernel must be one of {', '.join(KERNELS)}, got {name!r}."
        raise ParameterError(msg)
    if name in WITHOUT_LENGTHSCALE:
        if lengthscale is not None:
            msg = f"kernel={name!r} has no lengthscale. Omit it."
            raise ParameterError(msg)
        return KERNELS[name]()
    return KERNELS[name]("median" if lengthscale is None else lengthscale)


def map_for(
    kernel: str | None,
    lengthscale: float | Literal["median"] | None,
    n_components: int | None,
    seed: int,
    n_jobs: int | None,
) -> FeatureMap | None:
    """Return an unfitted map for a learner, or None for its default map if nothing is given."""
    if kernel is None and lengthscale is None and n_components is None:
        return None
    return FeatureMap(
        kernel_named(kernel, lengthscale), n_components or DEFAULT_WIDTH, for_learner=True, random_state=seed,
        n_jobs=n_jobs,
    )  # fmt: skip


def numeric_rows(
    source: Any,
    *,
    drop: Sequence[str] = (),
    header: bool | None = None,
    memory_limit: int | None = None,
    seed: int = 0,
    most: int = MOST_ROWS,
    scale: Literal["quantiles", "spread"] = "quantiles",
) -> tuple[Any, TablePreprocessor, int]:
    """Return rows of a table as numbers, the fitted preprocessor, and the number of rows of the table."""
    with opened(source, drop=drop, header=header) as table:
        preprocessor = TablePreprocessor(scale=scale).fit(table)
        sample = read_sample(table, most_bytes=ROWS_SHARE * available_bytes(memory_limit), seed=seed)
    if len(sample.index) > most:
        rows = np.sort(np.random.default_rng([seed, 0x90B5]).permutation(len(sample.index))[:most])
        sample_table = sample.table.take(rows)
    else:
        sample_table = sample.table
    return preprocessor.transform(sample_table), preprocessor, sample.n_rows


def transform_file(
    source: Any,
    output: str | os.PathLike[str] = "features.parquet",
    *,
    model: str | os.PathLike[str] | None = None,
    save: str | os.PathLike[str] | None = None,
    kernel: str | None = None,
    lengthscale: float | Literal["median"] | None = None,
    n_components: int = DEFAULT_WIDTH,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    header: bool | None = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    format: str | None = None,
    progress: bool | Report = False,
) -> PredictResult:
    r"""Write the components of a feature map for the rows of a table to a file.

    The map is fitted to a sample of the rows: of the maps that accept the kernel, the one of least error. Rows are then
    read and written block by block.

    Parameters
    ----------
    source : path, glob pattern, folder, list of these, data frame or "-"
        The table: csv, parquet or arrow files; "-" means CSV on standard input.
    output : path-like, default="features.parquet"
        The file to write: csv, tsv, parquet, arrow, jsonl or npy, by its name; "-" means CSV on standard output.
    model : path-like or None, default=None
        A model file with a map, as `save` writes it, instead of a new map.
    save : path-like or None, default=None
        The model file to write, for other tables.
    kernel : str or None, default=None
        Name of the kernel: one of `mercer.workflows.KERNELS`; None means "gaussian".
    lengthscale : float, "median" or None, default=None
        Lengthscale of the kernel; None means the median distance of rows.
    n_components : int, default=512
        Number of components.
    keep, drop : sequence of str, default=()
        Columns that are written before the components, and columns that are not used.
    header : bool or None, default=None
        Whether the first line of CSV files contains the names of the columns; None infers this from the first lines.
    memory_limit : int or None, default=None
        Number of bytes for this process; the sample is smaller if it is small.
    n_jobs : int or None, default=None
        Number of threads; None means all cores.
    random_state : int, default=0
        Seed.
    format : str or None, default=None
        Format of the output; None infers it from its name.
    progress : bool or callable, default=False
        True shows the progress on standard error. A callable receives a `Progress`.

    Returns
    -------
    PredictResult

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from mercer.workflows import transform_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = Path(folder) / "table.csv"
    ...     _ = table.write_text("\n".join(["x,kind", *(f"{i % 7},{'ab'[i % 2]}" for i in range(60))]))
    ...     result = transform_file(table, f"{folder}/features.npy", n_components=4)
    >>> result.n_rows, result.columns
    (60, ('feature_0', 'feature_1', 'feature_2', 'feature_3'))
    """
    output_format(output, format)
    if model is not None:
        if save is not None or kernel is not None or lengthscale is not None:
            msg = "A map from a model file has its kernel already. Omit kernel, lengthscale and save."
            raise ParameterError(msg)
        pipeline, _ = read_model(model, method="transform")
    else:
        width = FeatureMap(kernel_named(kernel, lengthscale), n_components, random_state=random_state, n_jobs=n_jobs)
        X, preprocessor, _ = numeric_rows(
            source, drop=drop, header=header, memory_limit=memory_limit, seed=random_state
        )
        pipeline = Pipeline([("table", preprocessor), ("map", width.fit(X))])
    if save is not None:
        save_model(pipeline, save)

    def components(table: Any) -> dict[str, Array]:
        features = np.asarray(pipeline.transform(model_rows(pipeline, table)))
        return {f"feature_{j}": column for j, column in enumerate(features.T)}

    return write_rows(
        "mercer transform", str(model or save or ""), source, output, components, keep, format, progress, header
    )


def audit_file(
    source: Any,
    *,
    model: str | os.PathLike[str] | None = None,
    kernel: str | None = None,
    lengthscale: float | Literal["median"] | None = None,
    n_components: int = DEFAULT_WIDTH,
    drop: Sequence[str] = (),
    header: bool | None = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
) -> MapResult:
    """Measure the error of a feature map on the rows of a table.

    Parameters
    ----------
    source : path, glob pattern, folder, list of these, data frame or "-"
        The table; it is preprocessed as for a model.
    model : path-like or None, default=None
        A model file with a map, or with a model whose map is measured. None means a new map: of the maps that accept
        the kernel, the one of least error.
    kernel, lengthscale, n_components, drop, header, memory_limit, n_jobs, random_state
        As in `transform_file`.

    Returns
    -------
    MapResult
        The figures of `mercer.audit`.

    See Also
    --------
    compare_file : Measures several maps.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mercer.workflows import audit_file
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("abc"))
    >>> result = audit_file(rows, n_components=64)
    >>> 0 < result.details["rmse"] < 0.1
    True
    """
    start = time.perf_counter()
    if model is not None:
        if kernel is not None or lengthscale is not None:
            msg = "A map from a model file has its kernel already. Omit kernel and lengthscale."
            raise ParameterError(msg)
        fitted, _ = read_model(model, method="get_params")
        with opened(source, drop=drop, header=header) as table:
            sample = read_sample(table, most_bytes=ROWS_SHARE * available_bytes(memory_limit), seed=random_state)
        X, feature_map = _map_of(fitted, sample.table.slice(0, MOST_ROWS), str(model))
    else:
        X, _, _ = numeric_rows(source, drop=drop, header=header, memory_limit=memory_limit, seed=random_state)
        _check_rows(X)
        half = np.random.default_rng([random_state, 0xA0D17]).permutation(X.shape[0])
        fit_rows, other = np.sort(half[: len(half) // 2]), np.sort(half[len(half) // 2 :])
        chosen = FeatureMap(kernel_named(kernel, lengthscale), n_components, random_state=random_state, n_jobs=n_jobs)
        feature_map, X = chosen.fit(X[fit_rows]).map_, X[other]
    width = feature_map.n_components
    widths = sorted({max(1, width // 4), max(1, width // 2)}) if 2 <= width <= X.shape[0] // 2 else None
    found = audit(feature_map, X, widths=widths, random_state=random_state)
    return _map_result(source, X, start, found.summary(), found.to_dict())


def compare_file(
    source: Any,
    *,
    kernel: str | None = None,
    lengthscale: float | Literal["median"] | None = None,
    widths: Sequence[int] = (128, 512),
    drop: Sequence[str] = (),
    header: bool | None = None,
    memory_limit: int | None = None,
    random_state: int = 0,
    progress: bool | Report = False,
) -> MapResult:
    """Compare the errors, times and memory of all maps for a kernel on the rows of a table.

    Parameters
    ----------
    source : path, glob pattern, folder, list of these, data frame or "-"
        The table; it is preprocessed as for a model. At most 20,000 rows are used.
    widths : sequence of int, default=(128, 512)
        Numbers of components.
    kernel, lengthscale, drop, header, memory_limit, random_state, progress
        As in `transform_file`.

    Returns
    -------
    MapResult
        The figures of `mercer.compare`.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mercer.workflows import compare_file
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("abc"))
    >>> {one["n_components"] for one in compare_file(rows, widths=(16, 32)).details["maps"]}
    {16, 32}
    """
    start = time.perf_counter()
    X, _, _ = numeric_rows(source, drop=drop, header=header, memory_limit=memory_limit, seed=random_state)
    _check_rows(X)
    found = compare(
        kernel_named(kernel, lengthscale), X, widths=tuple(widths), random_state=random_state, progress=progress
    )
    return _map_result(source, X, start, str(found), found.to_dict())


def choose_file(
    source: Any,
    *,
    kernel: str | None = None,
    lengthscale: float | Literal["median"] | None = None,
    n_components: int | None = None,
    tol: float | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    drop: Sequence[str] = (),
    header: bool | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
) -> MapResult:
    """Choose a map for a kernel and the rows of a table: for a number of components, an error, a time or a memory.

    Parameters
    ----------
    source : path, glob pattern, folder, list of these, data frame or "-"
        The table; it is preprocessed as for a model. At most 20,000 rows are used.
    n_components, tol, time_limit, memory_limit
        As in `mercer.choose`.
    kernel, lengthscale, drop, header, n_jobs, random_state
        As in `transform_file`.

    Returns
    -------
    MapResult
        The figures of `mercer.choose`.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mercer.workflows import choose_file
    >>> rows = pd.DataFrame(np.random.default_rng(0).normal(size=(300, 3)), columns=list("abc"))
    >>> choose_file(rows, n_components=32).details["chosen"]["n_components"]
    32
    """
    start = time.perf_counter()
    X, _, _ = numeric_rows(source, drop=drop, header=header, memory_limit=None, seed=random_state)
    _check_rows(X)
    found = choose(
        kernel_named(kernel, lengthscale),
        X,
        n_components,
        tol=tol,
        time_limit=time_limit,
        memory_limit=memory_limit,
        random_state=random_state,
        n_jobs=n_jobs,
    )
    details = {
        "kernel": found.kernel,
        "question": found.question,
        "reason": found.reason,
        "met": found.met,
        "chosen": _trial(found.chosen),
        "trials": [_trial(trial) for trial in found.trials],
        "n_fitted": found.n_fitted,
        "n_held_out": found.n_held_out,
    }
    return _map_result(source, X, start, str(found), details)


def _trial(trial: Any) -> dict[str, Any]:
    return {
        name: value for name, value in vars(trial).items() if isinstance(value, str | int | float | bool | type(None))
    }


def _check_rows(X: Any) -> None:
    if X.shape[0] < 10:
        msg = f"At least 10 rows are needed to measure errors of maps, got {X.shape[0]}."
        raise DataError(msg)


def _map_of(model: Any, table: Any, path: str) -> tuple[Any, Any]:
    """Return the rows of a table as the map of a model takes them, and the map."""
    rows: Any = model_rows(model, table)
    last = model
    if hasattr(model, "best_estimator_"):
        if getattr(model, "preprocessor_", None) is not None:
            rows = model.preprocessor_.transform(table)
        model = model.best_estimator_
        last = model
    if isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            rows = step.transform(rows)
        last = model.steps[-1][1]
    feature_map = getattr(last, "map_", None) or getattr(last, "feature_map_", last)
    feature_map = getattr(feature_map, "map_", feature_map)
    if not hasattr(feature_map, "gram"):
        msg = f"{path} has a {type(last).__name__}, which has no feature map."
        raise DataError(msg)
    return rows, feature_map


def _map_result(source: Any, X: Any, start: float, text: str, details: dict[str, Any]) -> MapResult:
    seconds = time.perf_counter() - start
    name = str(source) if isinstance(source, str | os.PathLike) else "a table in memory"
    return MapResult(name, int(X.shape[0]), int(X.shape[1]), seconds, text, json_value(details))
