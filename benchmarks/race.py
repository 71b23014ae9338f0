"""The race: our models without arguments beside trees and kernel methods of other libraries, on raw columns.

    python benchmarks/race.py --data DIR [--names NAME ...] [--methods METHOD ...] [--splits 5] [--parts PART ...]

DIR holds .npz files with arrays X and y, or X_train, y_train, X_test, y_test. Every data set is split at random five
times, 80 % of the rows for the fit (MNIST: the official split, once). Each cell (a data set, a split, a method) runs in
a process of its own, which is ended above --timeout seconds or --memory gigabytes and then counts as "did not finish".
Its result is one JSON file in the folder race/ of --output. Cells that have a file are not run again, except for failed
ones, so that a long race can be run in pieces; --again repeats them. benchmarks/race/measured.jsonl has results that
were measured before, with their commits. Methods of other libraries are not run again if it has them; ours are, except
with --stored-ours.

race
    Test error (% of labels; root mean square error relative to the deviation of the test targets), log loss or negative
    log density, seconds of fit and prediction, peak memory, size of the pickled model, what was chosen. Exact kernel
    models, neighbors and feature maps of scikit-learn are standardized and tuned: trials on a subset of the rows, then
    a fit to the largest subset, together in --peer-seconds. LightGBM is tuned by 20 random trials that stop early.
units
    Columns times 1e-6 to 1e6: the largest change of our predictions, relative to their spread.
report
    A table per data set, means over splits with standard errors, the targets, and the rows that we lose.
markdown
    The tables of docs/benchmarks.md; only if --parts names it.
store
    Write all results, those of measured.jsonl and the new ones, to measured.jsonl; only if --parts names it.
page
    race.html in --output, with plots of error by seconds of fit. With --quick, all files are race_quick instead.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import Report, parser_for, pick
from race import data
from race.cell import UNITS, Cell, is_done, measure, read_all, read_stored, run_apart, store, write_stored
from race.judge import OF_OURS, OURS, UNIT_SETS, Judge, Summary, summarize
from race.methods import METHODS, Options
from race.tables import print_markdown, print_tables

PARTS = ("race", "units", "report", "page", "markdown", "store")
#: Parts that run only if they are named.
ON_DEMAND = ("markdown", "store")
QUICK_NAMES = ("energy", "wine_red")
#: Results that were measured before.
STORED = Path(__file__).parent / "race" / "measured.jsonl"


def cells_of(arguments: argparse.Namespace) -> Iterator[Cell]:
    """Yield the cells to run, data set by data set."""
    for name in arguments.names:
        for split in data.splits_of(name, arguments.splits):
            if "race" in arguments.parts:
                for key, method in METHODS.items():
                    # The synthetic rows are for the time of our default fit only.
                    if key in arguments.methods and (name != data.SYNTHETIC or key == OURS):
                        if method.takes(data.is_classification(name)):
                            yield Cell(name, split, key)
            if "units" in arguments.parts and name in UNIT_SETS and split == 0:
                yield Cell(name, split, UNITS)


def run(arguments: argparse.Namespace, folder: Path, stored: Mapping[Cell, Any]) -> None:
    """Run the cells that have no result, and print one line for each."""
    for cell in cells_of(arguments):
        if not arguments.again and (is_done(cell, folder) or cell in stored):
            continue
        missing = METHODS[OURS if cell.method == UNITS else cell.method].missing()
        if missing is not None:
            print(f"{cell}: skipped, {missing}", flush=True)
            continue
        file = cell.file(folder)
        command = [sys.executable, str(Path(__file__).resolve()), *forwarded(arguments), "--cell", cell.name]
        command += [str(cell.split), cell.method]
        result = run_apart(cell, command, file, seconds=arguments.timeout, n_bytes=1e9 * arguments.memory)
        print(f"{cell}: {line_of(result)}", flush=True)


def forwarded(arguments: argparse.Namespace) -> list[str]:
    """Return the options that the process of a cell needs."""
    names = ("data", "output", "time_limit", "peer_seconds", "tuned_seconds", "peer_memory")
    values = [part for name in names for part in (f"--{name.replace('_', '-')}", str(getattr(arguments, name)))]
    return [*values, "--quick"] if arguments.quick else values


def line_of(result: dict[str, Any]) -> str:
    """Return the result of a cell as a line of text."""
    if result["state"] != "finished":
        return f"{result['state']}, {result['reason']}"
    if "change" in result:
        return f"predictions change by {result['change']:.2g}"
    return f"error {result['score']:.4g}, fit {result['fit seconds']:.3g} s, {result['rows per second']:.3g} rows/s"


def judge(report: Report, cells: list[dict[str, Any]], splits: int) -> dict[str, dict[str, Summary]]:
    """Fill the report with the checks, the cells and the notes, and return the table of summaries."""
    table = summarize(cells)
    verdict = Judge(table, splits)
    report.results["cells"] = cells
    report.checks += verdict.checks()
    report.notes += verdict.losses()
    seen = {cell["method"] for cell in cells}
    for key, method in METHODS.items():
        if key not in seen and (why := method.missing()) is not None:
            report.notes.append(f"{method.title} was not run: {why}")
    finished = [cell for cell in cells if cell["state"] == "finished"]
    limits = ("time_limit", "peer_seconds", "tuned_seconds")
    other = sum(any(cell["options"][key] != report.settings[key] for key in limits) for cell in finished)
    if other:
        report.notes.append(f"{other} of {len(finished)} cells were measured with other limits than these settings")
    busy = sum(cell["cores of others"] > 0.1 for cell in finished)
    if busy:
        report.notes.append(f"{busy} of {len(finished)} cells were measured while other processes used the machine")
    return table


def parse() -> argparse.Namespace:
    """Return the options of the command line, with those of the quick mode filled in."""
    parser = parser_for(__doc__, 1, 1)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[part for part in PARTS if part not in ON_DEMAND])
    parser.add_argument("--names", nargs="+", choices=data.NAMES, help=f"default: all; quick: {' '.join(QUICK_NAMES)}")
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--splits", type=int, help="default 5; quick 1")
    parser.add_argument("--stored-ours", action="store_true", help="do not run cells of ours that have a stored result")
    parser.add_argument("--again", action="store_true", help="run cells that have a result, too")
    parser.add_argument("--time-limit", type=float, help="seconds of our limited fit (default 600; quick 30)")
    parser.add_argument("--peer-seconds", type=float, help="seconds of a tuned method (default 300; quick 10)")
    parser.add_argument(
        "--tuned-seconds", type=float, help="last start of a trial of LightGBM (default 1800; quick 20)"
    )
    parser.add_argument("--peer-memory", type=float, default=6.0, help="gigabytes that a tuned method may plan")
    parser.add_argument("--timeout", type=float, default=3600.0, help="seconds of a cell")
    parser.add_argument("--memory", type=float, default=14.0, help="gigabytes of a cell")
    parser.add_argument("--cell", nargs=3, metavar=("NAME", "SPLIT", "METHOD"), help="run one cell in this process")
    arguments = parser.parse_args()
    arguments.names = pick(arguments.quick, arguments.names, data.NAMES, QUICK_NAMES)
    arguments.splits = pick(arguments.quick, arguments.splits, 5, 1)
    arguments.time_limit = pick(arguments.quick, arguments.time_limit, 600.0, 30.0)
    arguments.peer_seconds = pick(arguments.quick, arguments.peer_seconds, 300.0, 10.0)
    arguments.tuned_seconds = pick(arguments.quick, arguments.tuned_seconds, 1800.0, 20.0)
    return arguments


def terminate(*_: Any) -> None:
    """End as by an exception, so that the process of a cell is ended, too; a second signal must not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit("race: terminated")


def main() -> None:
    """Run the race, judge it, and write the page."""
    arguments = parse()
    # Results of the quick mode do not mix with others.
    title = "race_quick" if arguments.quick else "race"
    folder = arguments.output / title
    options = Options(
        time_limit=arguments.time_limit,
        peer_seconds=arguments.peer_seconds,
        tuned_seconds=arguments.tuned_seconds,
        peer_bytes=1e9 * arguments.peer_memory,
    )
    if arguments.cell:
        name, split, method = arguments.cell
        cell = Cell(name, int(split), method)
        store(measure(cell, arguments.data, replace(options, seed=cell.split)), cell.file(folder))
        return
    settings = {key: getattr(arguments, key) for key in ("splits", "time_limit", "peer_seconds", "tuned_seconds")}
    report = Report(title, settings, judged=not arguments.quick)
    report.begin()
    signal.signal(signal.SIGTERM, terminate)
    stored = {} if arguments.quick else read_stored(STORED)
    run(
        arguments,
        folder,
        {cell: one for cell, one in stored.items() if arguments.stored_ours or cell.method not in OF_OURS},
    )
    results = stored | read_all(folder)
    if "store" in arguments.parts:
        write_stored(results, STORED)
    cells = list(results.values())
    table = judge(report, cells, arguments.splits)
    if "report" in arguments.parts:
        print_tables(table)
        report.finish(arguments.output)
    if "markdown" in arguments.parts:
        print_markdown(table)
    if "page" in arguments.parts:
        from race.page import write_page

        print(f"page: {write_page(table, report, arguments.output / f'{title}.html')}")


if __name__ == "__main__":
    main()
