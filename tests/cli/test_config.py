"""Options from a TOML file."""

import json

import pytest


def test_values_of_a_file_are_defaults_and_flags_override_them(run, folder):
    (folder / "c.toml").write_text('[predict]\noutput = "a.csv"\nkeep = ["id"]\nstd = true\n')
    code, out, _ = run("predict", "model.mercer", "new.csv", "--config", "c.toml", "--json")
    assert code == 0
    assert json.loads(out)["columns"] == ["id", "prediction", "std"]
    assert (folder / "a.csv").exists()
    code, _, _ = run("predict", "model.mercer", "new.csv", "--config", "c.toml", "-o", "b.csv")
    assert code == 0
    assert (folder / "b.csv").exists()


def test_values_at_the_top_are_for_all_commands_that_have_them(run, folder):
    (folder / "c.toml").write_text('n-components = 8\nlengthscale = "median"\n[transform]\noutput = "f.npy"\n')
    code, out, err = run("transform", "new.csv", "--config", "c.toml", "--json")
    assert code == 0, err
    assert len(json.loads(out)["columns"]) == 8
    assert run("info", "--json")[0] == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[predict]\nouput = 'a.csv'", "unknown option 'ouput'. Did you mean 'output'?"),
        ("destination = 'a.csv'", "unknown option 'destination'"),
        ("[predct]\nstd = true", "unknown option 'predct'. Did you mean 'predict'?"),
        ("[predict", "is not a TOML file"),
        ("[predict]\ninterval = 'wide'", "--interval"),
        ("[predict.output]\na = 1", "must be a single value"),
    ],
)
def test_wrong_files_are_usage_errors(run, folder, text, message):
    (folder / "c.toml").write_text(text)
    code, out, err = run("predict", "model.mercer", "new.csv", "--config", "c.toml", "-o", "x.csv")
    assert (code, out) == (2, "")
    assert message in " ".join(err.split())
    assert not (folder / "x.csv").exists()


def test_a_missing_file_is_a_usage_error(run, folder):
    code, _, err = run("predict", "model.mercer", "new.csv", "--config", "absent.toml")
    assert code == 2
    assert "absent.toml cannot be read" in err
