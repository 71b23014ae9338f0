"""Damaged files, checkpoints, models and tables: all scripts fuzz_*.py in one command.

    python benchmarks/fuzz.py [--quick] [--output DIR]

3000 files of six formats, 500 checkpoints of seven learners, 2000 files of twenty models, and 500 tables through the
command line. The exit code is 1 if there is a crash, an execution, an error that is not one of mercer's, a case of
more than 20 s, a row that an independent reader reads otherwise, a fit that continues to another model, or a damaged
model that predicts otherwise.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import fuzz_checkpoints
import fuzz_files
import fuzz_models
from harness import RESULTS


def main() -> int:
    """Run all, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer cases")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    missed = 0
    for module in (fuzz_files, fuzz_checkpoints, fuzz_models):
        report = module.measure(module.options_of(["--quick"] if options.quick else []))
        report.finish(options.output)
        missed += sum(check.met is False for check in report.checks) if report.judged else 0
    # The command line is run in processes of its own, so this script prints its own summary.
    tables = [
        sys.executable,
        str(Path(__file__).with_name("fuzz_tables.py")),
        "--cases",
        "50" if options.quick else "500",
    ]
    missed += subprocess.run(tables, check=False).returncode != 0
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
