r"""The commands ``fit``, ``predict``, ``evaluate``, ``report`` and ``export``."""

from __future__ import annotations

from typing import Annotated, Optional

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
    NJobs,
    Quiet,
    RandomState,
    Target,
    TimeLimit,
    command_line,
    show_progress,
)
from mercer.cli.output import announce, check_stdout, check_targets, one_line_errors, print_json

Table = Annotated[str, typer.Argument(metavar="TABLE", help="csv, parquet or arrow files; - for CSV on stdin.")]
Model = Annotated[str, typer.Argument(metavar="MODEL", help="Model file, as `mercer fit` writes it.")]


def fit(
    table: Table,
    *,
    target: Target = None,
    test: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--test", metavar="TABLE", help="Test rows, instead of a part that is held out."),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="Model file to write.")] = "model.mercer",
    report: Annotated[str, typer.Option("--report", help="HTML page to write.")] = "report.html",
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no page.")] = False,
    task: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            "--task",
            show_default="by the target",
            help="regression or classification. Strings, booleans and at most 20 different integers are labels.",
        ),
    ] = None,
    estimator: Annotated[
        str,
        typer.Option("--estimator", help="auto, which chooses everything by itself, or ridge, gp, logistic or svc."),
    ] = "auto",
    kernel: Kernel = None,
    lengthscale: Lengthscale = None,
    n_components: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--n-components", min=1, max=2**20, help="Number of components; not for auto."),
    ] = None,
    alpha: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--alpha", min=0, help="Penalty of ridge and logistic; not for auto."),
    ] = None,
    C: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--C", min=0, help="Inverse penalty of svc; not for auto."),
    ] = None,
    drop: Drop = None,
    header: Header = None,
    test_size: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option(
            "--test-size", min=0, show_default="0.2, at most 20,000 rows", help="Share or number of rows held out."
        ),
    ] = None,
    refit: Annotated[
        bool,
        typer.Option("--refit", help="Save a model that is fitted again to all rows; otherwise the one measured."),
    ] = False,
    no_compare: Annotated[
        bool,
        typer.Option("--no-compare", help="Skip the other models, the learning curve and the importances."),
    ] = False,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    n_jobs: NJobs = None,
    scheduler: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--scheduler", metavar="tcp://HOST:PORT", help="Dask scheduler whose workers read the rows."),
    ] = None,
    random_state: RandomState = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Fit a model to a table; write a model file and a page.

    The model is measured on rows that are held out, beside a linear model and scikit-learn's gradient boosting.

    Columns may be numbers, categories, dates and booleans, with missing cells.

    \b
    Example:
      mercer fit train.csv --target y
    """
    page = None if no_report else report
    with one_line_errors():
        check_targets(output, page)
        from mercer.workflows import fit_file

        result = fit_file(
            table,
            target,
            test=test,
            output=output,
            report=page,
            task=task,  # type: ignore[arg-type]
            estimator=estimator,  # type: ignore[arg-type]
            parameters={
                "kernel": kernel,
                "lengthscale": lengthscale,
                "n_components": n_components,
                "alpha": alpha,
                "C": C,
            },
            drop=drop or (),
            header=header,
            test_size=test_size,
            refit=refit,
            compare=not no_compare,
            time_limit=time_limit,
            memory_limit=memory_limit,
            n_jobs=n_jobs,
            random_state=random_state,
            scheduler=scheduler,
            command=command_line(),
            progress=show_progress(quiet),
            announce=lambda text: announce(text, err=as_json),
        )
        if as_json:
            print_json(result.to_dict() | {"report_path": page})
            return
        from mercer.cli.text import bytes_text, fit_lines
        from mercer.report.numbers import seconds

        for line in fit_lines(result):
            typer.echo(line)
        which = "all rows" if refit else "the training rows; --refit fits it to all rows"
        typer.echo(f"\nModel:  {output} (fitted to {which})")
        if page is not None:
            typer.echo(f"Report: {page}")
        limit = "" if memory_limit is None else f" of {bytes_text(memory_limit)}"
        typer.echo(f"{seconds(result.timings['total'])}, peak memory {bytes_text(result.peak_bytes)}{limit}.")
        for message in result.warnings:
            typer.echo(f"mercer: warning: {message}", err=True)
        typer.echo(f"Next:   mercer predict {output} NEW.csv -o predictions.csv")


def predict(
    model: Model,
    table: Table,
    *,
    output: Annotated[
        str, typer.Option("--output", "-o", help="csv, tsv, parquet, arrow, jsonl or npy file; - for CSV on stdout.")
    ] = "predictions.csv",
    proba: Annotated[bool, typer.Option("--proba", help="Write the probabilities of all labels.")] = False,
    std: Annotated[bool, typer.Option("--std", help="Write standard deviations of new targets.")] = False,
    interval: Annotated[
        Optional[float],  # noqa: UP045
        typer.Option("--interval", metavar="P", help="Write intervals that contain a target with probability P."),
    ] = None,
    keep: Keep = None,
    header: Header = None,
    n_jobs: NJobs = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Predict the rows of a table of any size.

    \b
    Example:
      mercer predict model.mercer new.csv -o predictions.csv
    """
    with one_line_errors():
        check_stdout(output, as_json)
        check_targets(output)
        from mercer.workflows import predict_file

        result = predict_file(
            model,
            table,
            output,
            proba=proba,
            std=std,
            interval=interval,
            keep=keep or (),
            header=header,
            n_jobs=n_jobs,
            progress=show_progress(quiet),
        )
        if as_json:
            print_json(result.to_dict())
            return
        from mercer.cli.text import predict_lines

        for line in predict_lines(result, "predictions"):
            if output != "-":
                typer.echo(line)


def evaluate(
    model: Model,
    table: Table,
    *,
    target: Target = None,
    header: Header = None,
    n_jobs: NJobs = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Score a model file on a table with the target.

    \b
    Example:
      mercer evaluate model.mercer test.csv
    """
    with one_line_errors():
        from mercer.workflows import evaluate_file

        result = evaluate_file(model, table, target, header=header, n_jobs=n_jobs, progress=show_progress(quiet))
        if as_json:
            print_json(result.to_dict())
            return
        from mercer.cli.text import evaluate_lines

        for line in evaluate_lines(result):
            typer.echo(line)


def report(
    model: Model,
    table: Table,
    *,
    output: Annotated[str, typer.Option("--output", "-o", help="HTML page to write.")] = "report.html",
    target: Target = None,
    header: Header = None,
    time_limit: TimeLimit = None,
    memory_limit: MemoryLimit = None,
    n_jobs: NJobs = None,
    random_state: RandomState = 0,
    as_json: AsJson = False,
    quiet: Quiet = False,
    config: Config = None,
) -> None:
    """Write a page about a model file and its test errors.

    \b
    Example:
      mercer report model.mercer test.csv -o report.html
    """
    with one_line_errors():
        check_targets(output)
        from mercer.workflows import report_file

        result = report_file(
            model,
            table,
            output,
            target,
            header=header,
            time_limit=time_limit,
            memory_limit=memory_limit,
            n_jobs=n_jobs,
            random_state=random_state,
            command=command_line(),
            progress=show_progress(quiet),
        )
        if as_json:
            print_json(result.to_dict() | {"report_path": output})
            return
        from mercer.cli.text import fit_lines

        for line in fit_lines(result):
            typer.echo(line)
        typer.echo(f"\nReport: {output}")


def export(
    model: Model,
    *,
    to: Annotated[str, typer.Option("--to", help="onnx, or python for a file that needs NumPy only.")] = "onnx",
    output: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--output", "-o", show_default="name of the model file", help="File to write."),
    ] = None,
    rows: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--rows", metavar="TABLE", help="Rows on which predictions are compared."),
    ] = None,
    as_json: AsJson = False,
    config: Config = None,
) -> None:
    """Export a model file to ONNX or to plain NumPy.

    Predictions of the exported file are compared with those of the model.

    \b
    Example:
      mercer export model.mercer --to python --rows new.csv
    """
    with one_line_errors():
        check_targets(output)
        from mercer.workflows import export_file

        result = export_file(model, output, to=to, rows=rows)  # type: ignore[arg-type]
        if as_json:
            print_json(result.to_dict())
            return
        from mercer.cli.text import export_lines

        for line in export_lines(result):
            typer.echo(line)
