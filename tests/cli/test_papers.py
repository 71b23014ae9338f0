"""The command ``reproduce``: its list, a small run that is continued, and errors."""

import json

ROW = "mixture, n = 500"


def test_without_a_name_tables_and_data_sets_are_listed(run):
    code, out, _ = run("reproduce")
    assert code == 0
    assert "munkhoeva: Munkhoeva et al. (2018), Figure 1" in out
    assert "letter.npz - Letter recognition: UCI 59" in out


def test_a_row_is_run_and_the_page_written(run, tmp_path):
    options = ("mmd-fuse", "--row", ROW, "--splits", "2", "--data", str(tmp_path), "-o", str(tmp_path / "out"))
    code, out, _ = run("reproduce", *options)
    assert code == 0
    assert ROW in out
    assert (tmp_path / "out" / "scoreboard.html").read_text().startswith("<!doctype html>")
    code, out, err = run("reproduce", *options, "--json")
    assert code == 0
    assert json.loads(out)["tables"][0]["rows"][0]["name"] == ROW
    assert "Page:" in err


def test_errors_are_one_line(run, tmp_path):
    code, _, err = run("reproduce", "nothing", "--data", str(tmp_path), "-o", str(tmp_path / "out"))
    assert code == 2
    assert "'munkhoeva'" in err
    code, _, err = run("reproduce", "munkhoeva", "mmd-fuse", "--row", ROW, "--data", str(tmp_path))
    assert code == 2
    assert "--row needs the name of one table" in err
