"""Mutated tables through ``mercer fit`` and ``mercer predict``: no crash, hang, traceback or partial output.

Each case is a small table of numbers, categories, dates and missing cells, damaged in a way that its number determines.
A worker process runs ``fit`` on it, and ``predict`` with a model that was fitted to the undamaged table, exactly as the
command line does. The verdict of a case is a fault unless

- the exit code is 0, 1 or 2;
- a failure prints one line that starts with ``mercer: `` on stderr, besides warnings, and nothing on stdout but lines
  that were announced before;
- no internal error and no traceback is printed;
- after a failure there is no output, after a success it is complete, and there is no temporary file in either case;
- the case ends within a time limit, and within 4 GB of memory.

``python benchmarks/fuzz_tables.py --cases 500`` runs the cases in two processes, and exits with 1 if there is a fault.
``--only NUMBER`` repeats one case and prints its output.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet

ROWS = 80
SECONDS = 120.0
MEMORY = 4 * 2**30
HEADER = ["age", "city", "joined", "member", "score", "y"]


def base_rows(rng: random.Random, task: str) -> list[list[str]]:
    """Return the rows of an undamaged table, as strings."""
    rows = []
    for _ in range(ROWS):
        age = rng.randint(18, 90)
        city = rng.choice(["Oslo", "Bergen", "Zürich", "São Paulo", "?"])
        joined = f"20{rng.randint(10, 24)}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}"
        member = rng.choice(["yes", "no"])
        score = "" if rng.random() < 0.1 else f"{rng.gauss(0, 1):.4f}"
        value = age / 50 + (city == "Oslo") + rng.gauss(0, 0.1)
        y = f"{value:.4f}" if task == "regression" else ("high" if value > 1.2 else "low")
        rows.append([str(age), city, joined, member, score, y])
    return rows


def text_of(rows: list[list[str]], header: list[str] | None = None, delimiter: str = ",", end: str = "\n") -> bytes:
    """Return a table as the bytes of a CSV file."""
    out = io.StringIO()
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end)
    writer.writerow(HEADER if header is None else header)
    writer.writerows(rows)
    return out.getvalue().encode()


# ---- mutations ----------------------------------------------------------------------------------


def _cell(rng: random.Random, rows: list[list[str]], value: str) -> bytes:
    rows[rng.randrange(len(rows))][rng.randrange(len(HEADER))] = value
    return text_of(rows)


def _column(rng: random.Random, rows: list[list[str]], values: list[str]) -> bytes:
    j = rng.randrange(len(HEADER))
    for row in rows:
        row[j] = rng.choice(values)
    return text_of(rows)


def _target(rng: random.Random, rows: list[list[str]], values: list[str]) -> bytes:
    for row in rows:
        row[-1] = rng.choice(values)
    return text_of(rows)


def _bytes(rng: random.Random, rows: list[list[str]], count: int) -> bytes:
    data = bytearray(text_of(rows))
    for _ in range(count):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def _ragged(rng: random.Random, rows: list[list[str]]) -> bytes:
    lines = text_of(rows).split(b"\n")
    for _ in range(rng.randint(1, 5)):
        i = rng.randrange(1, len(lines) - 1)
        lines[i] = lines[i] + b",extra" if rng.random() < 0.5 else lines[i].rsplit(b",", rng.randint(1, 3))[0]
    return b"\n".join(lines)


def _inserted(rng: random.Random, rows: list[list[str]], piece: bytes) -> bytes:
    data = text_of(rows)
    at = rng.randrange(len(data))
    return data[:at] + piece + data[at:]


def _missing_column(rng: random.Random, rows: list[list[str]]) -> bytes:
    j = rng.randrange(len(HEADER))
    return text_of([row[:j] + row[j + 1 :] for row in rows], HEADER[:j] + HEADER[j + 1 :])


def _renamed(rng: random.Random, rows: list[list[str]], name: str) -> bytes:
    header = list(HEADER)
    header[rng.randrange(len(header))] = name
    return text_of(rows, header)


MUTATIONS = {
    "none": lambda rng, rows: text_of(rows),
    "truncated": lambda rng, rows: text_of(rows)[: rng.randrange(1, 2000)],
    "empty": lambda rng, rows: b"",
    "white space only": lambda rng, rows: rng.choice([b"\n", b"\n\n\n", b" ", b"\r\n", b",,,,,\n"]),
    "header only": lambda rng, rows: text_of([]),
    "one row": lambda rng, rows: text_of(rows[:1]),
    "two rows": lambda rng, rows: text_of(rows[:2]),
    "few rows": lambda rng, rows: text_of(rows[: rng.randint(3, 9)]),
    "no header": lambda rng, rows: text_of(rows).split(b"\n", 1)[1],
    "semicolons": lambda rng, rows: text_of(rows, delimiter=";"),
    "tabs": lambda rng, rows: text_of(rows, delimiter="\t"),
    "bars": lambda rng, rows: text_of(rows, delimiter="|"),
    "mixed delimiters": lambda rng, rows: text_of(rows[:40]) + text_of(rows[40:], delimiter=";"),
    "ragged rows": _ragged,
    "NUL bytes": lambda rng, rows: _inserted(rng, rows, b"\0" * rng.randint(1, 9)),
    "random bytes": lambda rng, rows: _bytes(rng, rows, rng.choice([1, 3, 30, 300])),
    "all random": lambda rng, rows: rng.randbytes(rng.randint(1, 5000)),
    "huge field": lambda rng, rows: _cell(rng, rows, "x" * rng.choice([10_000, 1_000_000, 20_000_000])),
    "huge number": lambda rng, rows: _cell(rng, rows, rng.choice(["1e308", "-1e308", "1e999", "9" * 400, "1" * 30])),
    "huge numbers": lambda rng, rows: _column(rng, rows, ["1e300", "-1e300", "1e308", "2"]),
    "tiny numbers": lambda rng, rows: _column(rng, rows, ["1e-320", "2e-320", "0"]),
    "infinite": lambda rng, rows: _cell(rng, rows, rng.choice(["inf", "-inf", "Infinity", "nan", "NaN", "NULL"])),
    "infinite column": lambda rng, rows: _column(rng, rows, ["inf", "-inf", "1", "2"]),
    "infinite target": lambda rng, rows: _target(rng, rows, ["inf", "1.5", "2.5"]),
    "text in a cell": lambda rng, rows: _cell(rng, rows, rng.choice(["oops", "#REF!", "1,5", "=1+1", "\u202e"])),
    "latin-1": lambda rng, rows: text_of(rows).decode().encode("latin-1"),
    "utf-16": lambda rng, rows: text_of(rows).decode().encode("utf-16"),
    "mixed encodings": lambda rng, rows: text_of(rows[:40]) + text_of(rows[40:]).decode().encode("latin-1"),
    "byte order mark": lambda rng, rows: b"\xef\xbb\xbf" + text_of(rows),
    "CRLF": lambda rng, rows: text_of(rows, end="\r\n"),
    "CR": lambda rng, rows: text_of(rows, end="\r"),
    "mixed line ends": lambda rng, rows: text_of(rows[:40], end="\r\n") + text_of(rows[40:]),
    "open quote": lambda rng, rows: _inserted(rng, rows, b'"'),
    "quotes": lambda rng, rows: _cell(rng, rows, rng.choice(['a"b', '"', "a,b", "a\nb", '""', "'"])),
    "missing column": _missing_column,
    "renamed column": lambda rng, rows: _renamed(rng, rows, rng.choice(["age ", "AGE", "other", "", "Y", "\u00e4"])),
    "duplicated header": lambda rng, rows: _renamed(rng, rows, rng.choice(HEADER)),
    "repeated header": lambda rng, rows: text_of(rows[:40]) + text_of(rows[40:]),
    "missing values": lambda rng, rows: _column(rng, rows, [""]),
    "missing targets": lambda rng, rows: _target(rng, rows, [""]),
    "some missing targets": lambda rng, rows: _target(rng, rows, ["", "1.5", "2.5", "3.5", "0.5"]),
    "constant": lambda rng, rows: _column(rng, rows, ["7"]),
    "constant target": lambda rng, rows: _target(rng, rows, [rng.choice(["1", "1.5", "a"])]),
    "labels": lambda rng, rows: _target(rng, rows, rng.choice([["0", "1"], ["true", "false"], ["1.0", "2.0"]])),
    "rare label": lambda rng, rows: _target(rng, rows, ["a"] * 60 + ["b"]),
    "identifiers": lambda rng, rows: _target(rng, rows, [f"id{i}" for i in range(5000)]),
    "mixed types": lambda rng, rows: _column(rng, rows, ["1", "a", "2020-01-01", "", "true", "1e5"]),
    "dates of two forms": lambda rng, rows: _column(rng, rows, ["2020-01-31", "31.01.2020", "01/31/2020"]),
    "impossible dates": lambda rng, rows: _column(rng, rows, ["2020-02-30", "2020-13-01", "0000-00-00", "9999-12-31"]),
    "many columns": lambda rng, rows: text_of(
        [[*row[:-1], *(["1", "2"] * 500), row[-1]] for row in rows],
        [*HEADER[:-1], *(f"c{j}" for j in range(1000)), HEADER[-1]],
    ),
    "target only": lambda rng, rows: text_of([row[-1:] for row in rows], HEADER[-1:]),
    "blank lines": lambda rng, rows: text_of(rows).replace(b"\n", b"\n\n", rng.randint(1, 90)),
    "comment": lambda rng, rows: b"# a comment\n" + text_of(rows),
    "gzip bytes": lambda rng, rows: b"\x1f\x8b\x08" + rng.randbytes(500),
}


def mutated_table(number: int, folder: Path) -> tuple[str, str, str]:
    """Write the table of a case, and return the name of the mutation, the path and the task of the model."""
    rng = random.Random(number)
    task = rng.choice(["regression", "classification"])
    names = list(MUTATIONS)
    name = names[number % len(names)]
    rows = base_rows(rng, task)
    data = MUTATIONS[name](rng, rows)
    kind = "csv" if rng.random() < 0.8 else rng.choice(["parquet", "arrow", "csv.gz"])
    path = folder / f"table.{kind}"
    if kind in ("parquet", "arrow"):
        # Tables that can be read are written in the other format, and damaged there.
        try:
            table = pa.csv.read_csv(io.BytesIO(data))
            with io.BytesIO() as out:
                if kind == "parquet":
                    pa.parquet.write_table(table, out)
                else:
                    pa.feather.write_feather(table, out, compression="uncompressed")
                data = out.getvalue()
        except (pa.ArrowInvalid, UnicodeDecodeError, pa.ArrowKeyError):
            pass
        else:
            data = bytearray(data)
            for _ in range(rng.choice([0, 1, 5, 50])):
                data[rng.randrange(len(data))] = rng.randrange(256)
            data = bytes(data[: rng.randrange(1, len(data) + 1)] if rng.random() < 0.2 else data)
        name = f"{name}, as {kind}"
    elif kind == "csv.gz":
        import gzip

        data = gzip.compress(data)
        if rng.random() < 0.5:
            data = data[: rng.randrange(1, len(data))]
        name = f"{name}, compressed"
    path.write_bytes(data)
    return name, str(path), task


# ---- running ------------------------------------------------------------------------------------


def run_command(arguments: list[str]) -> tuple[int, str, str]:
    """Run the command line in this process, and return the exit code and what it printed."""
    from mercer import cli

    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    before, sys.argv = sys.argv, ["mercer", *arguments]
    code: object = 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
            try:
                cli.main()
            except SystemExit as stopped:
                code = stopped.code or 0
            except BaseException:
                err.write(traceback.format_exc())
                code = -1
    finally:
        sys.argv = before
    return int(code) if isinstance(code, int) else -1, out.buffer.getvalue().decode(errors="replace"), err.getvalue()


def faults_of(code: int, err: str, folder: Path, outputs: list[str], before: set[str]) -> list[str]:
    """Return what is wrong with the result of a command."""
    faults = []
    lines = [line for line in err.splitlines() if line.strip() and not line.startswith("mercer: warning:")]
    if code not in (0, 1, 2):
        faults.append(f"exit code {code}")
    if code and (len(lines) != 1 or not lines[0].startswith("mercer: ")):
        faults.append(f"{len(lines)} lines on stderr")
    if not code and lines:
        faults.append("a message on stderr after a success")
    if "Traceback" in err or "internal error" in err:
        faults.append("an internal error")
    left = {path.name for path in folder.iterdir()} - before
    if code and left:
        faults.append(f"files after a failure: {', '.join(sorted(left))}")
    if not code and left != set(outputs):
        faults.append(f"files after a success: {', '.join(sorted(left)) or 'none'}")
    return faults


def run_case(number: int, models: dict[str, str]) -> dict[str, object]:
    """Run a case in this process."""
    folder = Path(tempfile.mkdtemp(prefix="mercer-fuzz-"))
    start = time.perf_counter()
    try:
        os.chdir(folder)
        name, path, task = mutated_table(number, folder)
        before = {one.name for one in folder.iterdir()}
        code, out, err = run_command(
            [
                "fit",
                path,
                "--target",
                "y",
                "--no-compare",
                "--no-report",
                "--time-limit",
                "3",
                "-o",
                "model.mercer",
                "-q",
            ]
        )
        faults = [f"fit: {fault}" for fault in faults_of(code, err, folder, ["model.mercer"], before)]
        if not code and not faults:
            from mercer import load_model

            load_model(folder / "model.mercer")
        shutil.rmtree(folder / "model.mercer", ignore_errors=True)
        (folder / "model.mercer").unlink(missing_ok=True)
        output = random.Random(number + 1).choice(["out.csv", "out.parquet", "out.jsonl"])
        second, out2, err2 = run_command(["predict", models[task], path, "-o", output, "-q"])
        faults += [f"predict: {fault}" for fault in faults_of(second, err2, folder, [output], before)]
        if not second and not faults and output == "out.csv":
            rows = pa.csv.read_csv(folder / output).num_rows
            if f"of {rows:,} rows" not in out2:
                faults.append(f"predict: {rows} rows were written, but: {out2.strip()}")
    finally:
        os.chdir("/")
        shutil.rmtree(folder, ignore_errors=True)
    return {
        "number": number,
        "mutation": name,
        "codes": [code, second],
        "faults": faults,
        "seconds": time.perf_counter() - start,
        "stderr": [err, err2],
        "stdout": [out, out2],
    }


def worker(pipe, models: dict[str, str]) -> None:
    """Run cases whose numbers arrive by a pipe."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    while True:
        number = pipe.recv()
        if number is None:
            return
        try:
            pipe.send(run_case(number, models))
        except BaseException:
            pipe.send(
                {"number": number, "mutation": "?", "codes": [], "faults": [traceback.format_exc()], "seconds": 0}
            )


def run_all(numbers: list[int], models: dict[str, str], n_jobs: int) -> list[dict[str, object]]:
    """Run cases in worker processes, which are replaced if a case crashes them or takes too long."""
    context = multiprocessing.get_context("spawn")

    def start():
        ours, theirs = context.Pipe()
        process = context.Process(target=worker, args=(theirs, models), daemon=True)
        process.start()
        theirs.close()
        return process, ours

    todo, results = list(reversed(numbers)), []
    busy: dict[int, tuple] = {}
    workers = {i: start() for i in range(n_jobs)}
    while todo or busy:
        for i in workers:
            if i not in busy and todo:
                number = todo.pop()
                workers[i][1].send(number)
                busy[i] = (number, time.perf_counter())
        for i, (number, since) in list(busy.items()):
            process, pipe = workers[i]
            fault = None
            if pipe.poll(0.05):
                try:
                    results.append(pipe.recv())
                except EOFError:
                    fault = f"crash, exit code {process.exitcode}"
            elif time.perf_counter() - since > SECONDS:
                fault = f"no end within {SECONDS:g} seconds"
            else:
                continue
            del busy[i]
            if fault is not None:
                results.append({"number": number, "mutation": "?", "codes": [], "faults": [fault], "seconds": SECONDS})
                process.kill()
                process.join()
                workers[i] = start()
            if len(results) % 50 == 0:
                print(f"{len(results)} of {len(numbers)} cases", file=sys.stderr)
    for process, pipe in workers.values():
        pipe.send(None)
        process.join()
    return results


def main() -> None:
    """Run the cases and print a summary."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--only", type=int)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--json", help="file of all results")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory(prefix="mercer-fuzz-") as folder:
        models = {}
        for task in ("regression", "classification"):
            path = Path(folder) / f"{task}.csv"
            path.write_bytes(text_of(base_rows(random.Random(1), task)))
            models[task] = str(Path(folder) / f"{task}.mercer")
            code, _, err = run_command(["fit", str(path), "-t", "y", "--no-compare", "--no-report", "-o", models[task]])
            if code:
                sys.exit(f"The undamaged table cannot be fitted: {err}")
        if options.only is not None:
            print(json.dumps(run_case(options.only, models), indent=1))
            return
        start = time.perf_counter()
        results = run_all(list(range(options.first, options.first + options.cases)), models, options.n_jobs)
    if options.json:
        Path(options.json).write_text(json.dumps(results, indent=1))
    faulty = [one for one in results if one["faults"]]
    for one in sorted(faulty, key=lambda one: one["number"]):
        print(f"case {one['number']} ({one['mutation']}): {'; '.join(one['faults'])}")
    codes = Counter(tuple(one["codes"]) for one in results)
    slowest = max(results, key=lambda one: one["seconds"])
    print(
        f"{len(results)} tables in {time.perf_counter() - start:.0f} s, exit codes of fit and predict "
        f"{ {str(key): count for key, count in sorted(codes.items())} }, slowest {slowest['seconds']:.1f} s "
        f"(case {slowest['number']}); faults: {len(faulty)}"
    )
    sys.exit(1 if faulty else 0)


if __name__ == "__main__":
    main()
