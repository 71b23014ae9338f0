"""Every tutorial runs, from another folder, without a display, and writes its picture."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import mercer

TUTORIALS = Path(__file__).parent.parent / "docs" / "tutorials"


def run(script, folder):
    pytest.importorskip("matplotlib")
    path = folder / "picture.png"
    env = os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(Path(mercer.__file__).parent.parent)}
    done = subprocess.run(
        [sys.executable, str(script), str(path)], cwd=folder, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size > 20_000  # more than empty axes
    return done.stdout


def check_two_moons(printed):
    rows = re.findall(r"^ +(\d)  +([\d.]+) +([\d.]+) +([\d.]+) +([\d.]+)$", printed, re.MULTILINE)
    assert [row[0] for row in rows] == ["1", "2", "5"]
    for _, plain, _, deformed, worst in (map(float, row) for row in rows):
        assert plain < 0.95
        assert deformed > 0.99
        assert worst > 0.95
    scores = [float(score) for score in re.findall(r"neighbors: accuracy ([\d.]+)", printed)]
    assert len(scores) == 4
    assert scores.index(max(scores)) == 2  # neither too few nor too many
    assert re.search(r"best: strength=(?!0,)", printed)


def check_without_arguments(printed):
    races = dict(re.findall(r"^([\w ]+), (?:R2|accuracy): mercer ([\d.]+), trees", printed, re.MULTILINE))
    assert list(races) == ["diabetes", "wine", "breast cancer"]
    assert float(races["diabetes"]) > 0.3
    assert min(float(races["wine"]), float(races["breast cancer"])) > 0.93
    assert "KernelRegressor: 331 rows of 10 columns" in printed
    (share,) = re.findall(r"intervals of 90 % contain (\d+)%", printed)
    assert 80 <= int(share) <= 98
    (change,) = re.findall(r"change by at most ([\d.e+-]+)", printed)
    assert float(change) < 1e-4  # targets range to 346


# What a tutorial prints has to bear out what its text says.
CHECKS = {"semi_supervised.py": check_two_moons, "without_arguments.py": check_without_arguments}


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted(TUTORIALS.glob("*.py")), ids=lambda script: script.stem)
def test_it_runs_and_shows_what_it_promises(script, tmp_path):
    CHECKS[script.name](run(script, tmp_path))


def test_the_list_names_them_all():
    text = (TUTORIALS / "README.md").read_text(encoding="utf-8")
    names = {script.name for script in TUTORIALS.glob("*.py")}
    assert names
    assert {name for name in names if f"({name})" not in text} == set()
    assert set(re.findall(r"\]\((\w+\.py)\)", text)) == names
