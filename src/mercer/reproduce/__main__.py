"""One row of a table in its own process: ``python -m mercer.reproduce TABLE ROW METHODS SPLITS QUICK FOLDER FILE``.

The file receives the figures of all splits and the peak memory of the process; `mercer.reproduce.run` starts it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mercer.io import write_text
from mercer.reproduce.papers import TABLES
from mercer.reproduce.tables import Trial


def peak_bytes() -> int | None:
    """Return the largest memory that this process has had, or None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def main(arguments: list[str]) -> None:
    """Measure all splits of one row, and write them."""
    name, row, methods, splits, quick, folder, file = arguments
    table, names = TABLES[name], tuple(json.loads(methods))
    found: dict[str, list[dict[str, object]]] = {method: [] for method in names}
    for split in range(int(splits)):
        measured = table.measure(Trial(Path(folder), row, split, quick == "quick", names))
        for method, one in measured.items():
            facts = {"value": one.value, "seconds": one.seconds, **one.facts}
            found[method].append(facts)
    write_text(file, json.dumps({"methods": found, "peak_bytes": peak_bytes()}, allow_nan=False))


if __name__ == "__main__":
    main(sys.argv[1:])
