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
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import RESULTS, Check, Report, format_table

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "engines"))
import faults

WORKERS, REPETITIONS = 3, 8
ROWS, PARTITION, COLUMNS = 24_000, 1_000, 128
QUICK_ROWS, QUICK_REPETITIONS = 12_000, 2
# Seconds that a worker which was killed may take to come back.
PATIENCE = 60


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


def measure(learner: str, fit: Callable[[], np.ndarray], repetitions: int) -> Iterator[Kill]:
    """Fit undisturbed, and then with kills."""
    with ExitStack() as stack:
        client, killer = stack.enter_context(faults.cluster(WORKERS))
        faults.fit_and_kill(client, killer, fit, None, 0, WORKERS)  # imports and first connections
        start = time.perf_counter()
        expected = faults.fit_and_kill(client, killer, fit, None, 0, WORKERS)
        undisturbed, total = time.perf_counter() - start, killer.done
        for repetition in range(repetitions):
            if not complete(client):
                stack.close()
                client, killer = stack.enter_context(faults.cluster(WORKERS))
            rng = random.Random(f"{learner} {repetition}")
            after = rng.randint(total // 5, 4 * total // 5)
            start = time.perf_counter()
            try:
                found = faults.fit_and_kill(client, killer, fit, after, rng.random(), WORKERS)
            except Exception as error:
                print(f"{learner}, repetition {repetition}: {type(error).__name__}: {error}")
                found = None
            seconds = time.perf_counter() - start
            done = (found is not None, found is not None and np.array_equal(found, expected))
            print(f"{learner}, repetition {repetition}: killed after {after} of {total}, bits equal: {done[1]}")
            yield Kill(learner, repetition, after, total, killer.hit or 0, seconds, undisturbed, *done)


def complete(client: Any) -> bool:
    """Return whether all workers are back; on a busy machine a nanny may give up on one that is slow to start."""
    try:
        client.wait_for_workers(WORKERS, timeout=PATIENCE)
    except TimeoutError:
        return False
    return True


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
    fits = faults.fits(*faults.rows(options.rows, PARTITION), width=COLUMNS)
    kills = [kill for learner, fit in fits.items() for kill in measure(learner, fit, options.repetitions)]
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
