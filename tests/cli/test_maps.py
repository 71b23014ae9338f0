"""The commands ``transform``, ``audit``, ``compare``, ``choose``, ``cluster`` and ``test``."""

import json

import numpy as np
import pandas as pd
import pytest


def test_transform_saves_a_map_for_other_tables(run, folder):
    code, _, err = run("transform", "train.csv", "-o", "a.npy", "--n-components", "16", "--save", "map.mercer")
    assert code == 0, err
    assert np.load(folder / "a.npy").shape == (90, 16)
    code, _, err = run("transform", "train.csv", "-o", "b.npy", "--model", "map.mercer")
    assert code == 0, err
    assert (np.load(folder / "a.npy") == np.load(folder / "b.npy")).all()


def test_cluster_writes_a_label_per_row(run, folder):
    code, out, err = run("cluster", "train.csv", "--n-clusters", "3", "--n-components", "32", "--keep", "id", "--json")
    assert code == 0, err
    found = pd.read_csv(folder / "clusters.csv")
    assert found.id.tolist() == list(range(90))
    assert json.loads(out)["sizes"] == np.bincount(found.cluster, minlength=3).tolist()


def test_two_samples_from_one_table_and_from_two(run, folder):
    rows = pd.DataFrame({"a": np.random.default_rng(0).normal(size=120), "half": ["first", "second"] * 60})
    rows["late"] = np.where(rows.a > 0, "yes", "no")
    rows.to_csv("rows.csv", index=False)
    few = ["--n-permutations", "99"]
    result = json.loads(run("test", "rows.csv", "--by", "late", "--drop", "half", *few, "--json")[1])
    assert result["p_value"] == 0.01
    code, out, _ = run("test", "rows.csv", "--by", "half", "--drop", "late", *few)
    assert code == 0
    assert "half = first (60 rows) and half = second (60 rows) show no difference." in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["test", "new.csv"], "Two samples are needed"),
        (["test", "new.csv", "--by", "kind"], "must have two different values, got 3"),
        (["audit", "new.csv", "--kernel", "rbf"], "kernel must be one of gaussian"),
        (["audit", "new.csv", "--kernel", "polynomial2", "--lengthscale", "1"], "has no lengthscale"),
        (["cluster", "new.csv", "--n-clusters", "51"], "n_clusters must be at most the number of rows, 50"),
        (["transform", "new.csv", "--model", "model.mercer"], "has no method transform"),
    ],
)
def test_wrong_arguments_are_one_line(run, folder, arguments, message):
    code, out, err = run(*arguments)
    assert code in (1, 2)
    assert out == ""
    assert err.count("\n") == 1
    assert message in err
