"""Errors as one line, exit codes, interrupts, full disks and closed pipes."""

import os
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

from mercer import DataError, ParameterError
from mercer.cli.output import check_targets, one_line_errors

START = [sys.executable, "-c", "import sys; from mercer.cli import main; sys.argv[0] = 'mercer'; main()"]


def code_of(error, capsys):
    import typer

    with pytest.raises(typer.Exit) as stopped, one_line_errors():
        raise error
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return stopped.value.exit_code, err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ParameterError("a is wrong.\n  try: b"), 2, "mercer: a is wrong.; try: b\n"),
        (DataError("no rows"), 1, "mercer: no rows\n"),
        (MemoryError(), 1, "mercer: there is not enough memory. Pass a smaller --memory-limit, or fewer rows\n"),
        (OSError(28, "No space left on device", "x.csv"), 1, "mercer: cannot write x.csv: No space left on device\n"),
        (OSError(5, "Input/output error"), 1, "mercer: Input/output error\n"),
        (KeyboardInterrupt(), 130, "mercer: interrupted; no unfinished file was left behind\n"),
    ],
)
def test_errors_are_one_line_with_an_exit_code(capsys, monkeypatch, error, code, message):
    assert code_of(error, capsys) == (code, message)


def test_an_unexpected_error_is_one_line_too_unless_debugging(capsys, monkeypatch):
    monkeypatch.delenv("MERCER_DEBUG", raising=False)
    code, err = code_of(ZeroDivisionError("division by zero"), capsys)
    assert code == 1
    assert err.startswith("mercer: internal error, please report it: ZeroDivisionError: division by zero.")
    monkeypatch.setenv("MERCER_DEBUG", "1")
    with pytest.raises(ZeroDivisionError), one_line_errors():
        raise ZeroDivisionError


def test_two_outputs_must_differ(tmp_path):
    check_targets(str(tmp_path / "a"), str(tmp_path / "b"), None, "-")
    with pytest.raises(ParameterError, match="Two outputs are the same file"):
        check_targets(str(tmp_path / "a"), str(tmp_path / "." / "a"))


def test_a_closed_pipe_is_silent(folder):
    reader, writer = os.pipe()
    os.close(reader)
    command = [*START, "predict", "model.mercer", "new.csv", "-o", "-"]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_is_one_line(folder):
    if not os.path.exists("/dev/full"):
        pytest.skip("the system has no /dev/full")
    with open("/dev/full", "wb") as full:
        command = [*START, "predict", "model.mercer", "new.csv", "-o", "-"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "mercer: cannot write standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, -signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_signals_leave_no_unfinished_file(folder, number, code):
    # A table that is long enough for a signal to arrive while predictions are written.
    lines = (folder / "new.csv").read_text().splitlines()
    (folder / "long.csv").write_text("\n".join([lines[0], *lines[1:] * 6000]))
    before = {path.name for path in folder.iterdir()}
    command = [*START, "predict", "model.mercer", "long.csv"]
    # A shell lets commands in its background ignore interrupts, and so would this process.
    default = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=default)
    deadline = time.monotonic() + 60
    while not list(folder.glob(".predictions.csv.*.part")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert list(folder.glob(".predictions.csv.*.part"))
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert err == ("mercer: interrupted; no unfinished file was left behind\n" if code == 130 else "")
    assert {path.name for path in folder.iterdir()} == before
