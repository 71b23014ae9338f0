"""Whether damaged files of all formats are read as independent readers read them, or refused with an error of mercer.

    python benchmarks/fuzz_files.py [--quick] [--number 500] [--workers 2] [--output DIR]

Files of six formats are damaged in ways that their numbers determine, and each is read in a child process, in many
small blocks, by mercer and by an independent reader: Python's csv module and pandas, scikit-learn, NumPy, pyarrow with
complete validation. A case is at fault if the process ends, if it takes more than 20 s, if the error is not one of
mercer's, if the rows differ, or if mercer reads what the independent reader refuses. The damages, the readers and the
rules for what mercer refuses alone are in tests/io/mutated_files.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from harness import RESULTS, Check, Report, format_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "io"))
import mutated_files

# Cases of each format, of which the first dozen are not damaged.
NUMBER, QUICK_NUMBER, WORKERS = 500, 60, 2
VERDICTS = ("equal", "both refuse", "mercer refuses", "independent reader fails", *mutated_files.FAULTS)


def table(counts: dict[str, dict[str, int]]) -> str:
    """Return the number of cases of every verdict, with a row for each format and one for all of them."""
    total = Counter()
    for found in counts.values():
        total.update(found)
    rows = [(kind, *(str(found.get(verdict, 0)) for verdict in VERDICTS), "") for kind, found in counts.items()]
    rows.append(("all", *(str(total[verdict]) for verdict in VERDICTS), ""))
    return format_table(("format", *VERDICTS, ""), rows)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_NUMBER} files of each format")
    parser.add_argument("--number", type=int, help=f"files of each format (default {NUMBER})")
    parser.add_argument("--first", type=int, default=0, help="number of the first file of each format")
    parser.add_argument("--workers", type=int, default=WORKERS, help="child processes")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.number = options.number or (QUICK_NUMBER if options.quick else NUMBER)
    return options


def measure(options: argparse.Namespace) -> Report:
    """Judge all cases, and return the report."""
    settings = {"files per format": options.number, "first": options.first, "workers": options.workers}
    report = Report("fuzz_files", settings, judged=options.number >= NUMBER)
    report.begin()
    start = time.perf_counter()
    numbers = range(options.first, options.first + options.number)
    outcomes = mutated_files.judge_all(
        [(kind, number) for kind in mutated_files.KINDS for number in numbers], workers=options.workers
    )
    counts = mutated_files.counts(outcomes)
    print(f"\n{table(counts)}")
    faults = [outcome for outcome in outcomes if outcome.verdict in mutated_files.FAULTS]
    for outcome in faults:
        print(f"{outcome.kind} {outcome.number}: {outcome.verdict}: {outcome.detail}")
    # Where scikit-learn reads an svmlight file, mercer must read it too, unless the file has no rows.
    stricter = [
        outcome
        for outcome in outcomes
        if outcome.kind == "svm"
        and outcome.verdict == "mercer refuses"
        and not ("has no rows" in outcome.detail or "is empty" in outcome.detail)
    ]
    report.results = {
        "counts": counts,
        "seconds": time.perf_counter() - start,
        "slowest": [asdict(outcome) for outcome in sorted(outcomes, key=lambda outcome: -outcome.seconds)[:10]],
        "faults": [asdict(outcome) for outcome in faults],
        "only mercer refuses": [asdict(outcome) for outcome in outcomes if outcome.verdict == "mercer refuses"],
    }
    found = Counter(outcome.verdict for outcome in outcomes)
    report.checks = [
        Check("files", float(len(outcomes)), at_least=2000),
        *(Check(verdict, float(found[verdict]), at_most=0) for verdict in mutated_files.FAULTS),
        Check("svmlight files with rows that only mercer refuses", float(len(stricter)), at_most=0),
        Check("share of files that both read, to equal rows", found["equal"] / len(outcomes), at_least=0.15),
        Check("seconds of the slowest file", max(outcome.seconds for outcome in outcomes), at_most=mutated_files.LIMIT),
    ]
    return report


def run(options: argparse.Namespace) -> None:
    """Run, print, write."""
    measure(options).finish(options.output)


if __name__ == "__main__":
    run(options_of())
