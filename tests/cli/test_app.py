"""The help of all commands, its examples, and shell completion."""

import os
import re
import shlex
import subprocess
import sys
import time

import pytest

from mercer.cli import app

COMMANDS = [one.name or one.callback.__name__ for one in app.registered_commands]
FIGURES = {"demo", "reproduce"}  # their examples take long, and tests/cli/test_about.py and test_papers.py run parts


def help_of(run, command):
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    return out


def examples(text):
    return [line.strip() for line in re.findall(r"^\s*Example:\n((?:\s+mercer .*\n)+)", text, re.MULTILINE)]


def test_all_commands_are_there():
    expected = "fit predict evaluate report export transform audit compare choose cluster test reproduce demo info"
    assert expected.split() == COMMANDS


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(run, command):
    found = examples(help_of(run, command))
    assert len(found) == 1
    assert found[0].startswith(f"mercer {command}")


@pytest.mark.parametrize("command", [pytest.param(c, marks=pytest.mark.slow) if c == "fit" else c for c in COMMANDS])
def test_the_example_of_the_help_runs(run, folder, command):
    if command in FIGURES:
        pytest.skip("tests/cli/test_about.py runs the demo")
    if command in ("fit", "report"):
        pytest.importorskip("jinja2")
        pytest.importorskip("matplotlib")
    (example,) = examples(help_of(run, command))
    code, out, err = run(*shlex.split(example)[1:])
    assert code == 0, err
    assert out
    assert not list(folder.glob(".*"))


def test_the_help_is_fast():
    """The best of several starts, because other processes may need the processor, too."""
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "mercer", "--help"], capture_output=True, check=True)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.5  # 0.3 s where the machine is idle; see docs/design/0028-command-line.md


def test_completion_proposes_commands_and_options():
    pytest.importorskip("shellingham")
    for words, expected in [("mercer ", "predict"), ("mercer fit --tar", "--target")]:
        environment = os.environ | {
            "_MERCER_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        script = "from mercer.cli import main; import sys; sys.argv = ['mercer']; main()"
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert expected in done.stdout
