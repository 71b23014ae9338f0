r"""The commands ``transform``, ``audit``, ``compare``, ``choose``, ``cluster`` and ``test``."""

from __future__ import annotations

from typing import Annotated, List, Optional  # noqa: UP035 - the oldest supported typer does not accept `list`

import typer

from mercer.cli.options import (
    AsJson,
    Config,
    Drop,
    Header,
    Keep,
    Kernel,
    Lengthscale,
    MemoryLimit,
    NComponents,
    NJobs,
    Quiet,
    RandomState,
    TimeLimit,
    show_progress,
)
from mercer.cli.output import check_stdout, check_targets, one_line_errors, print_json

Table = Annotated[str, typer.Argument(metavar="TABLE", help="csv, parquet or arrow files; - for CSV on stdin.")]
ModelFile = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--model", metavar="MODEL", help="Model file with a map, instead of a new map."),
]
SaveFile = Annotated[
    Optional[str],  # noqa: UP045
    typer.Option("--save", metavar="MODEL", help="Model file to write, for other tables."),
]


def transform(
    table: Table,
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", help="csv, tsv, parquet, arrow, jsonl or npy file; - for CSV on stdout.")
    ] = "features.parquet",
    model: ModelFile = None,
    save: SaveFile = None,
    kernel: Kernel = None,
    lengthscale: Lengthscale = None,
    n_components: NComponents = 512,
    keep: Keep = None,
    drop: Drop = None,
    header: Header = None,
    memory_limit: MemoryLimit = None,
    n_jobs: NJobs = None,
    random_state: RandomState = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Write the components of a feature map to a file.

    \b
    Example:
      mercer transform new.csv -o features.parquet --n-components 64
    """
    with one_line_errors():
        check_stdout(output, as_json)
        check_targets(output, save)
        from mercer.workflows import transform_file

        result = transform_file(
            table,
            output,
            model=model,
            save=save,
            kernel=kernel,
            lengthscale=lengthscale,
            n_components=n_components,
            keep=keep or (),
            drop=drop or (),
            header=header,
            memory_limit=memory_limit,
            n_jobs=n_jobs,
            random_state=random_state,
            progress=show_progress(quiet),
        )
        if as_json:
            print_json(result.to_dict())
        elif output != "-":
            from mercer.cli.text import predict_lines

            for line in predict_lines(result, "components"):
                typer.echo(line)


def audit(
    table: Table,
    *,
    model: ModelFile = None,
    kernel: Kernel = None,
    lengthscale: Lengthscale = None,
    n_components: NComponents = 512,
    drop: Drop = None,
    header: Header = None,
    memory_limit: MemoryLimit = None,
    n_jobs: NJobs = None,
    random_state: RandomState = 0,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Measure the error of a feature map on a table.

    \b
    Example:
      mercer audit new.csv --kernel gaussian --n-components 256
    """
    with one_line_errors():
        from mercer.workflows import audit_file

        result = audit_file(
            table,
            model=model,
            kernel=kernel,
            lengthscale=lengthscale,
            n_components=n_components,
            drop=drop or (),
            header=header,
            memory_limit=memory_limit,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        print_json(result.to_dict()) if as_json else typer.echo(result.text)


def compare(
    table: Table,
    *,
    kernel: Kernel = None,
    lengthscale: Lengthscale = None,
    widths: Annotated[
        Optional[List[int]],  # noqa: UP006, UP045
        typer.Option(
            "--n-components", min=1, max=2**20, show_default="128 and 512", help="Number of components; repeatable."
        ),
    ] = None,
    drop: Drop = None,
    header: Header = None,
    memory_limit: MemoryLimit = None,
    random_state: RandomState = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Compare errors, times and memory of all maps for a kernel.

    \b
    Example:
      mercer compare new.csv --kernel gaussian --n-components 16 --n-components 32
    """
    with one_line_errors():
        from mercer.workflows import compare_file

        result = compare_file(
            table,
            kernel=kernel,
            lengthscale=lengthscale,
            widths=tuple(widths or (128, 512)),
            drop=drop or (),
            header=header,
            memory_limit=memory_limit,
            random_state=random_state,
            progress=show_progress(quiet),
        )
        print_json(result.to_dict()) if as_json else typer.echo(result.text)


def choose(
    table: Table,
    *,
    kernel: Kernel = None,
    lengthscale: Lengthscale = None,
    n_components: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--n-components", min=1, max=2**20, help="Number of components, at most."),
    ] = None,
    tol: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--tol", help="Largest root mean squared error of the kernel."),
    ] = None,
    drop: Drop = None,
    header: Header = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    n_jobs: NJobs = None,
    random_state: RandomState = 0,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Choose a map for a size, an error, a time or a memory.

    \b
    Example:
      mercer choose new.csv --tol 0.05
    """
    with one_line_errors():
        from mercer.workflows import choose_file

        result = choose_file(
            table,
            kernel=kernel,
            lengthscale=lengthscale,
            n_components=n_components,
            tol=tol,
            time_limit=time_limit,
            memory_limit=memory_limit,
            drop=drop or (),
            header=header,
            n_jobs=n_jobs,
            random_state=random_state,
        )
        print_json(result.to_dict()) if as_json else typer.echo(result.text)


def cluster(
    table: Table,
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", help="csv, tsv, parquet, arrow, jsonl or npy file; - for CSV on stdout.")
    ] = "clusters.csv",
    n_clusters: Annotated[int, typer.Option("--n-clusters", min=1, help="Number of clusters.")] = 8,
    n_init: Annotated[int, typer.Option("--n-init", min=1, help="Number of starts.")] = 4,
    save: SaveFile = None,
    kernel: Kernel = None,
    lengthscale: Lengthscale = None,
    n_components: NComponents = 512,
    keep: Keep = None,
    drop: Drop = None,
    header: Header = None,
    memory_limit: MemoryLimit = None,
    n_jobs: NJobs = None,
    random_state: RandomState = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Write the cluster of each row, by kernel k-means.

    \b
    Example:
      mercer cluster new.csv --n-clusters 3 -o clusters.csv
    """
    with one_line_errors():
        check_stdout(output, as_json)
        check_targets(output, save)
        from mercer.workflows import cluster_file

        result = cluster_file(
            table,
            output,
            n_clusters=n_clusters,
            n_init=n_init,
            save=save,
            kernel=kernel,
            lengthscale=lengthscale,
            n_components=n_components,
            keep=keep or (),
            drop=drop or (),
            header=header,
            memory_limit=memory_limit,
            n_jobs=n_jobs,
            random_state=random_state,
            progress=show_progress(quiet),
        )
        if as_json:
            print_json(result.to_dict())
        elif output != "-":
            sizes = ", ".join(f"{size:,}" for size in result.sizes)
            typer.echo(f"{output}: clusters of {result.n_rows:,} rows, with {sizes} rows, {result.seconds:.1f} s.")
            if result.n_fitted < result.n_rows:
                typer.echo(f"The clusters were fitted to a random sample of {result.n_fitted:,} rows.")


def two_sample(
    table: Table,
    second: Annotated[
        Optional[str],  # noqa: UP045
        typer.Argument(metavar="[TABLE2]", help="The other sample; or pass --by.", show_default=False),
    ] = None,
    *,
    by: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--by", metavar="COLUMN", help="Column with two values that divide the rows into the samples."),
    ] = None,
    kernel: Kernel = None,
    lengthscale: Lengthscale = None,
    n_components: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--n-components", min=2, max=2**20, help="Number of components.", show_default="automatic"),
    ] = None,
    n_permutations: Annotated[
        int, typer.Option("--n-permutations", min=1, max=10**6, help="Number of permutations.")
    ] = 999,
    level: Annotated[float, typer.Option("--level", help="Level of significance.")] = 0.05,
    drop: Drop = None,
    header: Header = None,
    memory_limit: MemoryLimit = None,
    n_jobs: NJobs = None,
    random_state: RandomState = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Test whether two samples have the same distribution.

    Without a kernel the test adapts to the scale of the difference.

    \b
    Example:
      mercer test train.csv test.csv
    """
    with one_line_errors():
        from mercer.workflows import two_sample_files

        result = two_sample_files(
            table,
            second,
            by=by,
            kernel=kernel,
            lengthscale=lengthscale,
            n_components=n_components,
            n_permutations=n_permutations,
            level=level,
            drop=drop or (),
            header=header,
            memory_limit=memory_limit,
            n_jobs=n_jobs,
            random_state=random_state,
            progress=show_progress(quiet),
        )
        if as_json:
            print_json(result.to_dict())
            return
        first, other = result.samples
        differs = "differ" if result.p_value <= result.level else "show no difference"
        typer.echo(f"{first} ({result.n_rows[0]:,} rows) and {other} ({result.n_rows[1]:,} rows) {differs}.")
        statistic = "squared discrepancy" if result.lengthscale is None else "score"
        typer.echo(
            f"p-value {result.p_value:.4g} with {result.n_permutations:,} permutations; {statistic} "
            f"{result.statistic:.3g}, threshold {result.threshold:.3g} at level {result.level:g}."
        )
        if result.lengthscale is not None:
            typer.echo(
                f"The evidence is strongest at lengthscale {result.lengthscale:.3g}, in spreads of the columns "
                f"(z = {result.z:.3g})."
            )
        if result.differing and result.p_value <= result.level:
            shown = ", ".join(f"{column['name']} ({100 * column['share']:.0f} %)" for column in result.differing)
            typer.echo(f"The difference depends most on {shown}.")
        typer.echo(f"{len(result.columns)} columns were compared, {result.feature_map}.")
