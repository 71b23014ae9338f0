"""Whether fits on a cluster whose workers are killed finish, and with the same bits.

    python benchmarks/faults.py [--quick] [--repetitions 8] [--output DIR]

Three worker processes on this machine; ridge regression, logistic regression and k-means; in every repetition SIGKILL
hits a random worker that is at work, at a random moment between a fifth and four fifths of all tasks. A kill counts
only if tasks were pending when the scheduler noticed it. The fault injector is that of the tests:
tests/engines/faults.py.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from harness import RESULTS, Check, Report, format_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "engines"))
import faults

WORKERS, REPETITIONS = 3, 8
ROWS, PARTITION, COLUMNS = 60_000, 1_000, 256
QUICK_ROWS, QUICK_REPETITIONS = 12_000, 2


@dataclass(frozen=True)
class Kill:
    """One fit that lost a worker."""

    learner: str
    repetition: int
    after: int  # partitions that were done when the signal was sent
    of: int  # partitions that the undisturbed fit works on, over all its passes
    pending: int  # tasks that were waiting or under way when the worker was gone; zero if nobody was killed in time
    seconds: float
    undisturbed_seconds: float
    finished: bool
    equal: bool


def measure(options: argparse.Namespace) -> list[Kill]:
    """Run all fits, undisturbed and disturbed."""
    kills = []
    fits = faults.fits(*faults.rows(options.rows, PARTITION), width=COLUMNS)
    with faults.cluster(WORKERS) as (client, killer):
        for learner, fit in fits.items():
            faults.fit_and_kill(client, killer, fit, None, 0, WORKERS)  # imports and first connections
            start = time.perf_counter()
            expected = faults.fit_and_kill(client, killer, fit, None, 0, WORKERS)
            undisturbed, total = time.perf_counter() - start, killer.done
            for repetition in range(options.repetitions):
                rng = random.Random(f"{learner} {repetition}")
                after = rng.randint(total // 5, 4 * total // 5)
                start = time.perf_counter()
                try:
                    found = faults.fit_and_kill(client, killer, fit, after, rng.random(), WORKERS)
                except Exception as error:
                    print(f"{learner}, repetition {repetition}: {type(error).__name__}: {error}")
                    found = None
                seconds = time.perf_counter() - start
                equal = found is not None and np.array_equal(found, expected)
                done = (found is not None, equal)
                kills.append(Kill(learner, repetition, after, total, killer.hit or 0, seconds, undisturbed, *done))
                print(f"{learner}, repetition {repetition}: killed after {after} of {total}, bits equal: {equal}")
    return kills


def table(kills: list[Kill]) -> str:
    """Return a row for every fit."""
    rows = [
        (
            f"{kill.learner} {kill.repetition + 1}",
            f"{kill.after} of {kill.of}",
            str(kill.pending),
            f"{kill.undisturbed_seconds:.1f}",
            f"{kill.seconds:.1f}",
            "yes" if kill.finished else "NO",
            "yes" if kill.equal else "NO",
        )
        for kill in kills
    ]
    return format_table(("fit", "killed after", "tasks pending", "undisturbed s", "s", "finished", "bit-equal"), rows)


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rows, few repetitions")
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.rows = QUICK_ROWS if options.quick else ROWS
    options.repetitions = options.repetitions or (QUICK_REPETITIONS if options.quick else REPETITIONS)
    return options


def run(options: argparse.Namespace) -> None:
    """Run, print, write."""
    settings = {"workers": WORKERS, "rows": options.rows, "partition": PARTITION, "n_components": COLUMNS}
    report = Report("faults", settings | {"repetitions": options.repetitions}, judged=not options.quick)
    report.begin()
    kills = measure(options)
    print(f"\n{table(kills)}")
    report.results = {"fits": [asdict(kill) for kill in kills]}
    for name, good in (
        ("fits that lost a worker with work pending", [kill.pending > 0 for kill in kills]),
        ("of them finished", [kill.finished for kill in kills]),
        ("of them bit-equal to the undisturbed fit", [kill.equal for kill in kills]),
    ):
        report.checks.append(Check(name, float(sum(good)), at_least=float(len(kills))))
    report.finish(options.output)


if __name__ == "__main__":
    run(options_of())
