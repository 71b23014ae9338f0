"""Whether fits that continue from damaged checkpoints give the right bits, or refuse with an error of mercer.

    python benchmarks/fuzz_checkpoints.py [--quick] [--number 1000] [--output DIR]

Fits of seven learners are interrupted at up to five points, their checkpoints are damaged in ways that the numbers of
the cases determine (bits, truncation, deletion, values of other checkpoints, metadata, also while the fit is running),
and the fits are called again, in a child process. A case is at fault if the process ends, if it takes more than 20 s,
if the error is not a CheckpointError, if its message has no advice, if other files are left, or if any bit of the
fitted model differs from that of a fit that was not interrupted. The damages are in
tests/learners/mutated_checkpoints.py.
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

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "learners"))
import mutated_checkpoints

NUMBER, LEAST, QUICK_NUMBER = 1000, 500, 100
VERDICTS = ("same bits", "refused", "removed", *mutated_checkpoints.FAULTS)


def table(counts: dict[str, Counter[str]]) -> str:
    """Return the number of cases of every verdict, with a row for each damage and one for all of them."""
    total: Counter[str] = Counter()
    for found in counts.values():
        total.update(found)
    rows = [(damage, *(str(found[verdict]) for verdict in VERDICTS), "") for damage, found in counts.items()]
    rows.append(("all", *(str(total[verdict]) for verdict in VERDICTS), ""))
    return format_table(("damage", *VERDICTS, ""), rows)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_NUMBER} checkpoints")
    parser.add_argument("--number", type=int, help=f"number of checkpoints (default {NUMBER})")
    parser.add_argument("--first", type=int, default=0, help="number of the first checkpoint")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.number = options.number or (QUICK_NUMBER if options.quick else NUMBER)
    return options


def measure(options: argparse.Namespace) -> Report:
    """Judge all cases, and return the report."""
    settings = {"checkpoints": options.number, "first": options.first}
    report = Report("fuzz_checkpoints", settings, judged=options.number >= LEAST)
    report.begin()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        numbers = range(options.first, options.first + options.number)
        outcomes = list(mutated_checkpoints.judge_all(numbers, folder))
    counts = mutated_checkpoints.counts(outcomes)
    print(f"\n{table(counts)}")
    faults = [outcome for outcome in outcomes if outcome.verdict in mutated_checkpoints.FAULTS]
    for outcome in faults:
        print(f"{outcome.number} ({outcome.learner}, {outcome.damage}): {outcome.verdict}: {outcome.detail}")
    found = Counter(outcome.verdict for outcome in outcomes)
    report.results = {
        "counts": {damage: dict(of_damage) for damage, of_damage in counts.items()},
        "learners": dict(Counter(outcome.learner for outcome in outcomes)),
        "seconds": time.perf_counter() - start,
        "faults": [asdict(outcome) for outcome in faults],
    }
    intact = [outcome for outcome in outcomes if outcome.damage == "nothing"]
    report.checks = [
        Check("checkpoints", float(len(outcomes)), at_least=LEAST),
        *(Check(verdict, float(found[verdict]), at_most=0) for verdict in mutated_checkpoints.FAULTS),
        # Refusing everything would not do.
        Check(
            "share of intact checkpoints that continue to the same bits",
            sum(outcome.verdict == "same bits" for outcome in intact) / len(intact) if intact else None,
            at_least=1,
        ),
        Check(
            "seconds of the slowest checkpoint",
            max(outcome.seconds for outcome in outcomes),
            at_most=mutated_checkpoints.LIMIT,
        ),
    ]
    return report


def run(options: argparse.Namespace) -> None:
    """Run, print, write."""
    measure(options).finish(options.output)


if __name__ == "__main__":
    run(options_of())
