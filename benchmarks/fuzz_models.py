"""Whether damaged and forged model files are refused in one sentence, or predict, without crash, hang or execution.

    python benchmarks/fuzz_models.py [--quick] [--number 2000] [--output DIR]

Files of twenty models are changed in ways that the numbers of the cases determine: bits, truncation, splices and tricks
with zip files, and objects and arrays with digests that are computed again. Each is described, loaded and used for
predictions in a child process, whose memory is limited, and which notices programs that are started, files that are
written and modules that are imported. A case is at fault if the process ends, if it takes more than 20 s, if anything
is executed, if an error is not one of mercer's or has several lines, or if a file that was damaged gives other
predictions. A forged file may be another model: its author chooses it. The changes are in
tests/model_files/mutated_models.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from harness import RESULTS, Check, Report, format_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "model_files"))
import mutated_models

NUMBER, LEAST, QUICK_NUMBER = 2000, 500, 200
VERDICTS = ("same bits", "refused", "refused at use", "another model", *mutated_models.FAULTS)


def table(counts: dict[str, Counter[str]]) -> str:
    """Return the number of cases of every verdict, with a row for each change and one for all of them."""
    total: Counter[str] = Counter()
    for found in counts.values():
        total.update(found)
    rows = [(damage, *(str(found[verdict]) for verdict in VERDICTS), "") for damage, found in counts.items()]
    rows.append(("all", *(str(total[verdict]) for verdict in VERDICTS), ""))
    return format_table(("change", *VERDICTS, ""), rows)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_NUMBER} files")
    parser.add_argument("--number", type=int, help=f"number of files (default {NUMBER})")
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.number = options.number or (QUICK_NUMBER if options.quick else NUMBER)
    return options


def measure(options: argparse.Namespace) -> Report:
    """Judge all cases, and return the report."""
    settings = {"files": options.number, "first": options.first}
    report = Report("fuzz_models", settings, judged=options.number >= LEAST)
    report.begin()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        numbers = range(options.first, options.first + options.number)
        outcomes = list(mutated_models.judge_all(numbers, folder))
    counts = mutated_models.counts(outcomes)
    print(f"\n{table(counts)}")
    faults = [outcome for outcome in outcomes if outcome.verdict in mutated_models.FAULTS]
    for outcome in faults:
        print(f"{outcome.number} ({outcome.model}, {outcome.damage}): {outcome.verdict}: {outcome.detail}")
    found = Counter(outcome.verdict for outcome in outcomes)
    report.results = {
        "counts": {damage: dict(of_damage) for damage, of_damage in counts.items()},
        "models": dict(Counter(outcome.model for outcome in outcomes)),
        "seconds": time.perf_counter() - start,
        "faults": [asdict(outcome) for outcome in faults],
    }
    intact = [outcome for outcome in outcomes if outcome.damage == "nothing"]
    report.checks = [
        Check("files", float(len(outcomes)), at_least=LEAST),
        *(Check(verdict, float(found[verdict]), at_most=0) for verdict in mutated_models.FAULTS),
        # Refusing everything would not do.
        Check(
            "share of intact files that predict the same bits",
            sum(outcome.verdict == "same bits" for outcome in intact) / len(intact) if intact else None,
            at_least=1,
        ),
        Check("seconds of the slowest file", max(one.seconds for one in outcomes), at_most=mutated_models.LIMIT),
    ]
    return report


def run(options: argparse.Namespace) -> None:
    """Run, print, write."""
    measure(options).finish(options.output)


if __name__ == "__main__":
    run(options_of())
