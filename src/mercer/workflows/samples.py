"""Clusters of the rows of a table, and the test whether two tables have the same distribution."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.pipeline import Pipeline

from mercer.choice import FeatureMap
from mercer.diagnostics.fits.results import Result
from mercer.engines import Report
from mercer.errors import DataError, MercerWarning, ParameterError
from mercer.hypothesis_tests import mmd_test
from mercer.io.source import load_pyarrow
from mercer.io.writers import output_format
from mercer.learners import KernelKMeans
from mercer.model_files import save_model
from mercer.tables import TablePreprocessor
from mercer.workflows.kernels import DEFAULT_WIDTH, kernel_named, numeric_rows
from mercer.workflows.predict import write_rows
from mercer.workflows.resources import available_bytes
from mercer.workflows.sources import check_column, opened, read_sample

__all__ = ["ClusterResult", "TwoSampleResult", "cluster_file", "two_sample_files"]

Array = np.ndarray
# Largest number of rows that clusters are fitted to, and of rows of a test.
MOST_ROWS, MOST_TEST_ROWS = 200_000, 100_000
# Share of the memory that is available for the rows of a test.
ROWS_SHARE = 0.2
# Largest number of columns that a test reports as different, and their least score.
SHOWN_COLUMNS, LEAST_Z = 5, 2.0


@dataclass(frozen=True)
class ClusterResult(Result):
    """Clusters of the rows of a table.

    Attributes
    ----------
    source, output : str
        The table, and the file of labels.
    n_rows, n_fitted, n_clusters : int
        Number of rows, of those that the clusters were fitted to, and of clusters.
    sizes : tuple of int
        Number of rows per cluster.
    inertia : float
        Sum of squared distances of the fitted rows to the centers of their clusters, in the space of the features.
    seconds : float
        Time, including reading and writing.
    model_path : str or None
        The model file, if one was written.
    """

    source: str
    output: str
    n_rows: int
    n_fitted: int
    n_clusters: int
    sizes: tuple[int, ...]
    inertia: float
    seconds: float
    model_path: str | None


@dataclass(frozen=True)
class TwoSampleResult(Result):
    """Result of a test whether two samples have the same distribution.

    Attributes
    ----------
    samples : tuple of str
        Names of the samples.
    n_rows : tuple of int
        Number of rows of each.
    statistic, threshold, p_value, level : float
        The score of the adaptive test, or the squared maximum mean discrepancy of a given kernel; the value that it
        must exceed for a p-value of `level`, and the p-value.
    n_permutations : int
        Number of permutations.
    columns : tuple of str
        The columns that were compared.
    feature_map : str
        The feature map and its kernel.
    lengthscale, z : float or None
        The lengthscale at which the samples differ most, in units of the spread of the encoded columns, and how many
        standard deviations of the permutations they differ by. None for a given kernel.
    differing : tuple of dict
        The encoded columns that the difference depends on most: name, share and z. Empty for a given kernel.
    seconds : float
        Time, including reading.
    """

    samples: tuple[str, ...]
    n_rows: tuple[int, ...]
    statistic: float
    threshold: float
    p_value: float
    level: float
    n_permutations: int
    columns: tuple[str, ...]
    feature_map: str
    lengthscale: float | None
    z: float | None
    differing: tuple[dict[str, Any], ...]
    seconds: float


def cluster_file(
    source: Any,
    output: str | os.PathLike[str] = "clusters.csv",
    *,
    n_clusters: int = 8,
    kernel: str | None = None,
    lengthscale: float | Literal["median"] | None = None,
    n_components: int = DEFAULT_WIDTH,
    n_init: int = 4,
    save: str | os.PathLike[str] | None = None,
    keep: Sequence[str] = (),
    drop: Sequence[str] = (),
    header: bool | None = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    format: str | None = None,
    progress: bool | Report = False,
) -> ClusterResult:
    """Find clusters of the rows of a table by kernel k-means, and write the cluster of each row to a file.

    Parameters
    ----------
    source : path, glob pattern, folder, list of these, data frame or "-"
        The table: csv, parquet or arrow files; "-" means CSV on standard input.
    output : path-like, default="clusters.csv"
        The file to write: csv, tsv, parquet, arrow, jsonl or npy, by its name; "-" means CSV on standard output.
    n_clusters : int, default=8
        Number of clusters.
    n_init : int, default=4
        Number of starts, of which the best is retained.
    save : path-like or None, default=None
        The model file to write, for other tables.
    kernel, lengthscale, n_components, keep, drop, header, memory_limit, n_jobs, random_state, format, progress
        As in `transform_file`.

    Returns
    -------
    ClusterResult

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, pandas as pd
    >>> from mercer.workflows import cluster_file
    >>> rows = pd.DataFrame({"x": np.r_[np.zeros(50), np.ones(30)] + np.linspace(0, 0.1, 80)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     result = cluster_file(rows, f"{folder}/clusters.csv", n_clusters=2, n_components=32)
    >>> sorted(result.sizes)
    [30, 50]
    """
    start = time.perf_counter()
    output_format(output, format)
    # Ranks would fill the gaps between clusters.
    X, preprocessor, _ = numeric_rows(
        source,
        drop=drop,
        header=header,
        memory_limit=memory_limit,
        seed=random_state,
        most=MOST_ROWS,
        scale="spread",
    )
    if n_clusters > X.shape[0]:
        msg = f"n_clusters must be at most the number of rows, {X.shape[0]:,}, got {n_clusters:,}."
        raise ParameterError(msg)
    feature_map = FeatureMap(
        kernel_named(kernel, lengthscale), min(n_components, X.shape[0]), for_learner=True, random_state=random_state,
        n_jobs=n_jobs,
    )  # fmt: skip
    model = KernelKMeans(feature_map, n_clusters=n_clusters, n_init=n_init, random_state=random_state, n_jobs=n_jobs)
    with warnings.catch_warnings():
        # Columns are divided by their spreads. If their scales still differ, some have heavy tails, and the advice of
        # the warning, to divide by spreads, does not apply.
        warnings.filterwarnings("ignore", "KernelKMeans: columns of X with one lengthscale", MercerWarning)
        model.fit(X)
    pipeline = Pipeline([("table", preprocessor), ("clusters", model)])
    sizes = np.zeros(n_clusters, dtype=int)

    def labels(table: Any) -> dict[str, Array]:
        found = pipeline.predict(table)
        sizes[:] += np.bincount(found, minlength=n_clusters)
        return {"cluster": found}

    written = write_rows("mercer cluster", "", source, output, labels, keep, format, progress, header)
    path = None if save is None else str(save_model(pipeline, save))
    return ClusterResult(
        source=written.source if isinstance(source, str | os.PathLike) else "a table in memory",
        output=written.output,
        n_rows=written.n_rows,
        n_fitted=int(X.shape[0]),
        n_clusters=n_clusters,
        sizes=tuple(int(size) for size in sizes),
        inertia=float(model.inertia_),
        seconds=time.perf_counter() - start,
        model_path=path,
    )


def two_sample_files(
    first: Any,
    second: Any = None,
    *,
    by: str | None = None,
    kernel: str | None = None,
    lengthscale: float | Literal["median"] | None = None,
    n_components: int | None = None,
    n_permutations: int = 999,
    level: float = 0.05,
    drop: Sequence[str] = (),
    header: bool | None = None,
    memory_limit: int | None = None,
    n_jobs: int | None = None,
    random_state: int = 0,
    progress: bool | Report = False,
) -> TwoSampleResult:
    """Test whether two tables, or two parts of one table, have the same distribution.

    Parameters
    ----------
    first : path, glob pattern, folder, list of these, data frame or "-"
        A table.
    second : as `first`, or None, default=None
        The other table; columns that only one of them has are not compared. None means that `by` divides `first`.
    by : str or None, default=None
        A column of `first` with exactly two different values, which divide its rows into the samples.
    kernel : str or None, default=None
        Name of a kernel. None means the adaptive test with ten Gaussian kernels, unless `lengthscale` is given.
    n_components : int or None, default=None
        Number of components. None means the default of the adaptive test, or 512 for a given kernel.
    n_permutations : int, default=999
        Number of permutations; the smallest possible p-value is 1 / (1 + n_permutations).
    level : float, default=0.05
        Level of the threshold.
    lengthscale, drop, header, memory_limit, n_jobs, random_state, progress
        As in `transform_file`.

    Returns
    -------
    TwoSampleResult

    See Also
    --------
    mercer.mmd_test : The test, for arrays.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> from mercer.workflows import two_sample_files
    >>> rows = pd.DataFrame({"x": np.r_[np.zeros(50), np.ones(50)] + np.linspace(0, 1, 100), "half": ["a", "b"] * 50})
    >>> rows["late"] = np.arange(100) >= 50
    >>> two_sample_files(rows, by="half", drop=["late"]).p_value > 0.05
    True
    >>> two_sample_files(rows, by="late", drop=["half"]).p_value < 0.01
    True
    """
    start = time.perf_counter()
    if (second is None) == (by is None):
        msg = "Two samples are needed: pass a second table, or by, a column that divides the table into two parts."
        raise ParameterError(msg)
    pa = load_pyarrow("pyarrow", "A table")
    most = ROWS_SHARE * available_bytes(memory_limit)
    if by is not None:
        tables, names = _parts(first, by, drop, header, most, random_state)
    else:
        names = tuple(str(one) if isinstance(one, str | os.PathLike) else "a table" for one in (first, second))
        found = []
        for one in (first, second):
            with opened(one, header=header) as table:
                found.append(read_sample(table, most_bytes=most / 2, seed=random_state).table)
        shared = [name for name in found[0].column_names if name in found[1].column_names and name not in drop]
        if not shared:
            msg = (
                f"{names[0]} and {names[1]} have no column in common: {', '.join(found[0].column_names[:10])} and "
                f"{', '.join(found[1].column_names[:10])}."
            )
            raise DataError(msg)
        tables = [table.select(shared) for table in found]
    tables = [_at_most(table, MOST_TEST_ROWS, random_state) for table in tables]
    # The preprocessor must not know which sample a row belongs to, so that the test is exact.
    pooled = pa.concat_tables(tables, promote_options="permissive")
    if not pooled.num_columns:
        msg = "There is no column to compare."
        raise DataError(msg)
    preprocessor = TablePreprocessor().fit(pooled)
    Z = preprocessor.transform(pooled)
    n = tables[0].num_rows
    adaptive = kernel is None and lengthscale is None
    feature_map = FeatureMap(
        kernel_named(kernel, lengthscale), n_components or DEFAULT_WIDTH, for_learner=True, random_state=random_state,
        n_jobs=n_jobs,
    )  # fmt: skip
    result = mmd_test(
        Z[:n],
        Z[n:],
        "adaptive" if adaptive else feature_map,
        n_components=n_components if adaptive else None,
        n_permutations=n_permutations,
        n_jobs=n_jobs,
        random_state=random_state,
        progress=progress,
    )
    encoded = preprocessor.get_feature_names_out()
    found_columns = () if result.witness is None else result.witness.columns(SHOWN_COLUMNS)
    return TwoSampleResult(
        samples=names,
        n_rows=tuple(result.rows),
        statistic=float(result.statistic),
        threshold=result.threshold(level),
        p_value=float(result.p_value),
        level=level,
        n_permutations=len(result.null),
        columns=tuple(pooled.column_names),
        feature_map="; ".join(result.maps),
        lengthscale=None if result.scales is None else result.scales.lengthscale[0],
        z=None if result.scales is None else float(result.scales.z[result.scales.loudest]),
        differing=tuple(
            {"name": str(encoded[score.column]), "share": score.share, "z": score.z}
            for score in found_columns
            if score.z > LEAST_Z
        ),
        seconds=time.perf_counter() - start,
    )


def _parts(
    source: Any, by: str, drop: Sequence[str], header: bool | None, most: float, seed: int
) -> tuple[list[Any], tuple[str, ...]]:
    """Return the two parts of a table by the values of a column, and their names."""
    pc = load_pyarrow("pyarrow.compute", "A table")
    with opened(source, drop=drop, header=header) as table:
        check_column(by, table.feature_names or (), "by", str(source) if isinstance(source, str) else "The table")
        rows = read_sample(table, most_bytes=most, seed=seed).table
    column = rows.column(by)
    values = [value for value in pc.unique(column).to_pylist() if value is not None]
    if len(values) != 2:
        shown = ", ".join(str(value)[:30] for value in values[:5]) + (", ..." if len(values) > 5 else "")
        msg = f"The column {by!r} must have two different values, got {len(values):,}: {shown}."
        raise DataError(msg)
    values = sorted(values, key=str)
    others = rows.drop_columns([by])
    parts = [others.filter(pc.fill_null(pc.equal(column, value), False)) for value in values]
    return parts, tuple(f"{by} = {value}" for value in values)


def _at_most(table: Any, most: int, seed: int) -> Any:
    if table.num_rows <= most:
        return table
    return table.take(np.sort(np.random.default_rng([seed, 0x3A3]).permutation(table.num_rows)[:most]))
