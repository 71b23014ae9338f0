"""Print the seconds that the tests took, per file and per test, from a JUnit file that pytest wrote.

Run ``pytest -n auto --junitxml=times.xml``, then ``python tools/test_times.py times.xml``. The seconds of a test are
summed over its parametrized cases, with their setup and teardown. They are seconds of one process: with two processes
the run takes about half of their sum, and the collection of the tests besides.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from pathlib import Path
from xml.etree import ElementTree


def read(path: Path) -> dict[str, dict[str, list[float]]]:
    """Return the seconds of the cases of every test of every file."""
    times: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for case in ElementTree.parse(path).iter("testcase"):
        module, name = case.get("classname", ""), case.get("name", "")
        times[module.replace(".", "/") + ".py"][name.partition("[")[0]].append(float(case.get("time", 0)))
    return times


def main() -> None:
    """Print the files and the tests that took the most time."""
    parser = argparse.ArgumentParser(description="Print the seconds per test file and per test.")
    parser.add_argument("file", type=Path, help="written by pytest --junitxml")
    parser.add_argument("--top", type=int, default=20, help="number of files and of tests to print (default: 20)")
    arguments = parser.parse_args()
    times = read(arguments.file)
    files = {file: [t for cases in tests.values() for t in cases] for file, tests in times.items()}
    tests = {f"{file}::{name}": cases for file, found in times.items() for name, cases in found.items()}
    everything = [seconds for cases in files.values() for seconds in cases]
    print(f"{sum(everything):8.1f} s {len(everything):6d} cases in {len(tests)} tests of {len(files)} files")
    for table in (files, tests):
        print()
        for name, cases in sorted(table.items(), key=lambda item: -sum(item[1]))[: arguments.top]:
            print(f"{sum(cases):8.1f} s {len(cases):6d} cases  {name}")


if __name__ == "__main__":
    main()
