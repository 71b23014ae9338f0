"""What the benchmarks share: interleaved timing, ratios beside their targets, a table, a JSON file."""

from __future__ import annotations

import argparse
import gc
import json
import operator
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import machine

RESULTS = Path(__file__).parent / "results"
# A time relative to a part of itself: anything below is an error of measurement.
BELOW_LIMIT = 0.9


@dataclass(frozen=True)
class Timing:
    """Seconds of one case in every round."""

    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The fastest round: what the code costs when nothing disturbs it."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The round in the middle: far above `best` means a disturbed run."""
        return statistics.median(self.seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {"best": self.best, "median": self.median, "rounds": list(self.seconds)}


# Idle threads of BLAS spin for some 20 ms, on a core that the next case may need.
SETTLE = 0.05


def interleave(cases: Mapping[str, Callable[[], Any]], rounds: int, *, warm_up: bool = True) -> dict[str, Timing]:
    """Time all cases in turn, several times over, so that slow spells of the machine hit all of them.

    What a case returns is freed before the next one starts, outside the timing: whoever allocates its output pays for
    fresh memory in every round.

    Parameters
    ----------
    cases : dict of str to callable
        What to time, by name.
    rounds : int
        Times that each case runs.
    warm_up : bool, default=True
        Whether to run each case once before, untimed.

    Returns
    -------
    dict of str to Timing
    """
    if warm_up:
        for case in cases.values():
            case()
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, case in cases.items():
            gc.collect()
            time.sleep(SETTLE)
            seconds[name].append(seconds_of(case))
    return {name: Timing(tuple(values)) for name, values in seconds.items()}


def seconds_of(case: Callable[[], Any]) -> float:
    """Return how long one call takes; its result is freed after the clock has stopped."""
    start = time.perf_counter()
    result = case()
    stop = time.perf_counter()
    del result
    return stop - start


@dataclass(frozen=True)
class Check:
    """A figure beside its target: at least, or at most, or between two numbers.

    A figure of None was not measured in this run. With `limit` it is a time relative to work that is part of it, which
    cannot be well below one: such a figure says that the limit was disturbed or is none, not that the target is met.
    """

    name: str
    value: float | None
    at_least: float | None = None
    at_most: float | None = None
    limit: bool = False

    @property
    def suspect(self) -> bool:
        """Whether the figure is below what its limit allows."""
        return self.limit and self.value is not None and self.value < BELOW_LIMIT

    @property
    def met(self) -> bool | None:
        """Whether the target is met; None if there is no target, or no figure to trust."""
        bounds = [(operator.ge, self.at_least), (operator.le, self.at_most)]
        given = [(compare, bound) for compare, bound in bounds if bound is not None]
        if self.value is None or self.suspect or not given:
            return None
        return all(compare(self.value, bound) for compare, bound in given)

    @property
    def target(self) -> str:
        """The target in words."""
        if self.at_least is not None and self.at_most is not None:
            return f"{self.at_least:g} to {self.at_most:g}"
        if self.at_least is not None:
            return f"at least {self.at_least:g}"
        return "" if self.at_most is None else f"at most {self.at_most:g}"


@dataclass
class Report:
    """All that a benchmark found.

    Attributes
    ----------
    name : str
        Stem of the files.
    settings : dict
        Sizes, rounds, seed.
    judged : bool
        Whether the sizes are those that the targets are for.
    results : dict
        Timings and other figures, as plain values.
    checks : list of Check
        Ratios and their targets.
    notes : list of str
        What was left out, and why.
    """

    name: str
    settings: dict[str, Any]
    judged: bool = True
    results: dict[str, Any] = field(default_factory=dict)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    load: machine.Load | None = None
    _start: machine.Clock = field(default_factory=machine.Clock.read)

    def begin(self) -> None:
        """Print what is about to run, and warn if the machine is not idle."""
        sizes = ", ".join(f"{key}={value}" for key, value in self.settings.items())
        print(f"{self.name}: {sizes}")
        if self._start.load > machine.BUSY_LOAD:
            print(f"warning: the load average is {self._start.load:.2f}; wait for an idle machine to trust the figures")

    def finish(self, output: Path) -> Path:
        """Print the table of ratios and the notes, write the JSON file, and return the stem for a plot."""
        self.load = machine.Load.between(self._start, machine.Clock.read())
        print(f"\n{self.table()}\n")
        for note in self.notes:
            print(f"note: {note}")
        print(self.load)
        if self.load.busy:
            print("warning: the machine was busy with other processes; the figures are marked so")
        output.mkdir(parents=True, exist_ok=True)
        (output / f"{self.name}.json").write_text(json.dumps(self.to_dict(), indent=2) + "\n")
        return output / self.name

    def caption(self, text: str) -> str:
        """Return a label for a plot, marked if the figures are suspect."""
        return f"{text}\ntaken on a busy machine" if self.load is not None and self.load.busy else text

    def table(self) -> str:
        """Return the ratios with their targets."""
        rows = [
            (check.name, "-" if check.value is None else f"{check.value:.3g}", check.target, self.verdict(check))
            for check in self.checks
        ]
        return format_table(("case", "figure", "target", ""), rows)

    def verdict(self, check: Check) -> str:
        """Return one or two words on a check."""
        if check.value is None:
            return "not measured"
        if check.suspect:
            return "SUSPECT: below its own limit"
        if check.met is None:
            return ""
        if not self.judged:
            return "other sizes: not judged"
        suffix = " (busy machine)" if self.load is not None and self.load.busy else ""
        return ("met" if check.met else "NOT MET") + suffix

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        load = None if self.load is None else asdict(self.load) | {"busy": self.load.busy}
        return {
            "benchmark": self.name,
            "taken": datetime.now(UTC).isoformat(timespec="seconds"),
            "machine": machine.facts(),
            "load": load,
            "settings": self.settings,
            "judged": self.judged,
            "checks": [
                asdict(check) | {"met": check.met if self.judged else None, "suspect": check.suspect}
                for check in self.checks
            ],
            "results": self.results,
            "notes": self.notes,
        }


@dataclass
class Draws:
    """Values of independent draws, which are appended to a file, so that a measurement can be made in pieces.

    Attributes
    ----------
    path : Path or None
        File of one line per draw; those that it has are not drawn again. None means that nothing is written.
    seconds : float
        Processor seconds after which no draws are added.
    """

    path: Path | None = None
    seconds: float = float("inf")
    _found: dict[tuple[str, int], Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.path is not None and self.path.exists():
            for line in self.path.read_text().splitlines():
                case, number, value = json.loads(line)
                self._found[case, number] = value

    def of(self, case: str, runs: int, draw: Callable[[int], Any]) -> list[Any]:
        """Return the values of the draws 0 to `runs` - 1 of a case; if the time is over, of those that are known."""
        values = []
        for number in range(runs):
            if (case, number) not in self._found:
                if time.process_time() > self.seconds:
                    continue
                self._found[case, number] = draw(number)
                if self.path is not None:
                    with self.path.open("a") as file:
                        file.write(json.dumps([case, number, self._found[case, number]]) + "\n")
            values.append(self._found[case, number])
        return values


def add_draws_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `Draws`."""
    parser.add_argument("--draws", type=Path, help="file to which draws are appended, to continue an earlier run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="processor seconds for further draws")


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return aligned columns: the first to the left, numbers to the right, the last to the left."""
    cells = [header, *rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(header))]
    last = len(header) - 1

    def line(row: Sequence[str]) -> str:
        parts = [
            text.ljust(width) if column in (0, last) else text.rjust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        return "  ".join(parts).rstrip()

    return "\n".join([line(header), "-" * len(line(header)), *map(line, rows)])


def parser_for(description: str, rounds: int, quick_rounds: int) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks take."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="under two minutes: fewer rounds, fewer or smaller cases")
    parser.add_argument("--rounds", type=int, help=f"times each case runs (default {rounds}; quick {quick_rounds})")
    parser.add_argument("--output", type=Path, default=RESULTS, help="directory of the JSON file and the plot")
    return parser


def pick(quick: bool, given: Any, full: Any, short: Any) -> Any:
    """Return what was given on the command line, or else the default of the mode."""
    if given is not None:
        return given
    return short if quick else full


def ratio(numerator: Timing | None, denominator: Timing | None) -> float | None:
    """Return the ratio of best times, or None if either was not measured."""
    if numerator is None or denominator is None:
        return None
    return numerator.best / denominator.best
