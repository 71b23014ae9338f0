"""Exported models of tables: numbers, categories, dates, booleans, missing cells, new categories."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from mercer import (
    ExportError,
    KernelClassifier,
    KernelRegressor,
    KernelRidge,
    TablePreprocessor,
    export_model,
    open_table,
)
from mercer.export.checks import onnx_columns, run_onnx
from mercer.export.learners import outputs_of
from mercer.export.onnx_file import onnx_model
from mercer.export.program import program_of
from mercer.export.tables import frame_columns, random_frame, takes_matrix
from mercer.tables import sums

pandas = pytest.importorskip("pandas")
pytestmark = pytest.mark.filterwarnings("ignore")  # of few rows and new categories, which are not the subject
NAMES = {"python": "model.py", "onnx": "model.onnx"}


def table_of_all_kinds(n=200):
    rng = np.random.default_rng(0)
    days = pandas.to_datetime("2000-01-01") + pandas.to_timedelta(rng.integers(0, 8000 * 24 * 60, n), unit="min")
    table = pandas.DataFrame(
        {
            "size": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(size=n)),
            "plain": rng.normal(size=n),
            "heating": rng.choice(["gas", "oil", None, "wood, größer"], n),
            "city": rng.choice([f"city {i}" for i in range(60)], n),
            "built": days,
            "flag": rng.random(n) < 0.3,
            "constant": 1,
            "two": rng.choice(["a", "b"], n),
        }
    )
    table.loc[::17, "built"] = pandas.NaT
    return table


TABLE = table_of_all_kinds()
Y = np.nan_to_num(TABLE["size"].to_numpy()) + 2 * (TABLE["heating"] == "gas").to_numpy()
OTHER = TABLE.iloc[::-1][::3].copy()
OTHER.loc[OTHER.index[::5], "heating"] = "coal"
OTHER["size"] = OTHER["size"].replace(OTHER["size"].max(), np.inf)
OTHER = OTHER[["two", "built", "flag", "heating", "plain", "constant", "size", "city"]]  # in another order


@pytest.fixture(params=list(NAMES))
def to(request):
    if request.param == "onnx":
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    return request.param


@pytest.mark.parametrize(
    "options",
    [{}, {"scale": "spread"}, {"scale": None}, {"max_categories": 3, "min_frequency": 1, "n_buckets": 4}],
    ids=["quantiles", "spread", "none", "buckets"],
)
def test_preprocessors(options, to, tmp_path):
    model = TablePreprocessor(**options).fit(TABLE)
    for rows in (OTHER, None):
        result = export_model(model, tmp_path / NAMES[to], to=to, rows=rows)
        assert result.rows_from == ("random" if rows is None else "given")
        assert result.relative_difference < (1e-6 if to == "onnx" else 1e-10)


@pytest.fixture(scope="module")
def models():
    return (
        make_pipeline(TablePreprocessor(), KernelRidge(random_state=0)).fit(TABLE, Y),
        KernelRegressor(random_state=0, time_limit=0.5).fit(TABLE, Y),
        KernelClassifier(random_state=0, time_limit=0.5).fit(TABLE, np.where(Y > 1, "high", "low")),
    )


def test_pipelines_and_automatic_models(to, models, tmp_path):
    for model in models:
        result = export_model(model, tmp_path / NAMES[to], to=to, rows=OTHER)
        assert result.relative_difference < (1e-6 if to == "onnx" else 1e-9)
        assert result.n_labels_different == 0


def test_arrays_with_missing_numbers_stay_arrays(to, tmp_path):
    X = np.random.default_rng(0).normal(size=(80, 3))
    X[::7, 1] = np.nan
    model = KernelRegressor(random_state=0, time_limit=0.5).fit(X, np.nan_to_num(X).sum(axis=1))
    assert takes_matrix(model.preprocessor_)
    result = export_model(model, tmp_path / NAMES[to], to=to, rows=X)
    assert result.relative_difference < (1e-6 if to == "onnx" else 1e-9)
    pipeline = make_pipeline(TablePreprocessor(), KernelRidge(random_state=0)).fit(X, X[:, 0])
    assert program_of(pipeline)(X)["variable"][:, 0] == pytest.approx(pipeline.predict(X), abs=1e-9)


def test_python_file_takes_data_frames_and_csv_files(tmp_path):
    model = make_pipeline(TablePreprocessor(), KernelRidge(random_state=0)).fit(TABLE, Y)
    path = export_model(model, tmp_path / "model.py", to="python", check=False).path
    names = {"__name__": "model", "__file__": str(path)}
    exec(compile(path.read_text(), "model.py", "exec"), names)
    truth = model.predict(OTHER)
    assert names["predict"](OTHER) == pytest.approx(truth, abs=1e-9)
    assert names["predict"]({name: OTHER[name].tolist() for name in OTHER}) == pytest.approx(truth, abs=1e-9)
    with pytest.raises(ValueError, match=r"the table must have the columns size, .* it lacks city, two"):
        names["predict"](OTHER.drop(columns=["two", "city"]))
    OTHER.to_csv(tmp_path / "rows.csv", index=False, quoting=csv.QUOTE_NONNUMERIC)
    command = [sys.executable, "-I", str(path), str(tmp_path / "rows.csv")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [float(line) for line in printed.split()] == pytest.approx(truth.tolist(), abs=1e-9)
    assert "# category 'heating'" in path.read_text()


def test_columns_with_names_that_are_no_identifiers(to, tmp_path):
    names = ["2nd floor", "class", "a\nb = 1", 'quotes """ and \'', "np", "table", "größe", "", "variable", "t_1"]
    values = np.random.default_rng(0).normal(size=(50, len(names)))
    table = pandas.DataFrame(values, columns=names).astype({"class": str})
    table["class"] = np.where(values[:, 1] > 0, "import os", "\\ \" '")
    model = TablePreprocessor().fit(table)
    assert export_model(model, tmp_path / NAMES[to], to=to, rows=table).relative_difference < 1e-6


def test_python_file_reads_cells_of_csv_files_as_tables_are_read(tmp_path):
    lines = [f"{i % 17},{('yes', 'no')[i % 2]},{('NA', 'a', 'b')[i % 3]},{i % 17 + 5 * (i % 2)}" for i in range(100)]
    (tmp_path / "rows.csv").write_text("\n".join(["size,smoker,kind,y", *lines, "?, yes,n/a,3"]) + "\n")
    rows = open_table(tmp_path / "rows.csv", target="y")
    preprocessor = TablePreprocessor().fit(rows)
    assert [column.kind for column in preprocessor.columns_] == ["number", "boolean", "category"]
    path = export_model(preprocessor, tmp_path / "model.py", to="python", check=False).path
    command = [sys.executable, "-I", str(path), str(tmp_path / "rows.csv")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = np.array([[float(cell) for cell in line.split(",")] for line in printed.splitlines()])
    assert found == pytest.approx(
        preprocessor.transform(open_table(tmp_path / "rows.csv", columns=["size", "smoker", "kind"]))
    )
    (tmp_path / "rows.csv").write_text("size,smoker,kind\nbig,no,a\n")
    message = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    assert "the column 'size' must have cells of the kind number" in message


def test_inputs_of_onnx_are_columns():
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    model = TablePreprocessor().fit(TABLE)
    program = program_of(model)
    proto = onnx_model(program)
    onnx.checker.check_model(proto, full_check=True)
    types = {one.name: one.type.tensor_type.elem_type for one in proto.graph.input}
    kinds = onnx.TensorProto
    assert types["heating"] == kinds.STRING
    assert types["built"] == kinds.INT64
    assert types["flag"] == types["size"] == kinds.FLOAT
    assert "constant" not in types
    feed = {name: TABLE[[name]].to_numpy(np.float32) for name in ("size", "plain", "flag")}
    feed |= {name: TABLE[[name]].fillna("").to_numpy(object) for name in ("heating", "city", "two")}
    feed["built"] = TABLE[["built"]].to_numpy("datetime64[us]").astype("int64")
    found = run_onnx(proto.SerializeToString(), feed)["variable"]
    assert found == pytest.approx(model.transform(TABLE), abs=1e-4)
    with pytest.raises(ExportError, match=r"'built' has dates, which need compute='float64'"):
        onnx_model(program, compute=np.float32)


def test_categories_by_a_hash(tmp_path, monkeypatch):
    monkeypatch.setattr(sums, "MOST_COUNTED", 100)
    strings = [f"name {i % 300}" for i in range(1200)]
    model = TablePreprocessor(min_frequency=2).fit(pandas.DataFrame({"name": strings}))
    assert not model.encoders_[0].complete
    rows = pandas.DataFrame({"name": [*strings[:300], "new", None]})
    result = export_model(model, tmp_path / "model.py", to="python", rows=rows)
    assert result.largest_difference == 0
    pytest.importorskip("onnx")
    with pytest.raises(ExportError, match=r"'name' has more categories than the model stores.*Use to='python'"):
        onnx_model(program_of(model))


def test_cells_of_tables():
    model = TablePreprocessor().fit(TABLE)
    frame = random_frame(model, 50)
    cells = frame_columns(frame, program_of(model).columns)
    assert {one.shape for one in cells.values()} == {(50, 1)}
    assert None in cells["heating"][:, 0].tolist()
    feed = onnx_columns(program_of(model), frame, np.float32)
    assert "" in feed["heating"][:, 0].tolist()
    assert feed["built"].dtype == np.int64
    assert feed["built"].min() == np.iinfo(np.int64).min


def test_preprocessor_after_other_steps_is_refused():
    with pytest.raises(ExportError, match="by itself or as the first step of a pipeline"):
        outputs_of(TablePreprocessor().fit(TABLE), None)
