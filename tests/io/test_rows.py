"""Files of every format yield the rows of the arrays that were written, and the same model."""

import pickle
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from sklearn.datasets import dump_svmlight_file

from mercer import DataError, Gaussian, KernelRidge, KernelRidgeClassifier, ParameterError, RandomFourier, open_rows

from .conftest import joined

FORMATS = ["parquet", "csv", "feather", "npy"]
NAMES = ["a", "b", "c", "d"]


def write(path, X, y, weight, labels, files=1):
    """Write a table in one format, to one file or several, and return their paths."""
    path.mkdir()
    kind = path.suffix[1:]
    paths = []
    for i, rows in enumerate(np.array_split(np.arange(len(X)), files)):
        file = path / f"part{i}.{kind}"
        paths.append(file)
        if kind == "npy":
            np.save(file, np.column_stack([X, y, weight])[rows])
            np.save(path / f"labels{i}.npy", labels[rows])
            continue
        columns = {**dict(zip(NAMES, X[rows].T, strict=True)), "y": y[rows], "w": weight[rows], "label": labels[rows]}
        data = pa.table(columns)
        if kind == "parquet":
            pyarrow.parquet.write_table(data, file, row_group_size=170, write_page_checksum=True)
        elif kind == "csv":
            pyarrow.csv.write_csv(data, file)
        else:
            pyarrow.feather.write_feather(data, str(file), chunksize=130, compression="uncompressed")
    return paths


def numbers(kind):
    return {"target": 4, "weight": 5, "columns": [0, 1, 2, 3]} if kind == "npy" else {
        "target": "y", "weight": "w", "columns": NAMES
    }  # fmt: skip


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.usefixtures("small_pieces")
def test_rows_equal_the_arrays_that_were_written(kind, files, table, tmp_path):
    X, y, weight, _ = table
    source = open_rows(write(tmp_path / f"t.{kind}", *table, files), **numbers(kind))
    assert source.n_features == 4
    assert source.n_rows == (None if kind == "csv" else len(X))
    assert len(source.parts()) > 2 * files
    for _ in range(2):  # a source can be read repeatedly
        blocks = list(source)
        assert len(blocks) > len(source.parts())
        for got, wanted in zip(joined(blocks), (X, y, weight), strict=True):
            assert got.dtype == np.float64
            assert np.array_equal(got, wanted)  # floats written as text are read exactly


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.usefixtures("small_pieces")
def test_parts_can_be_pickled_and_read(kind, table, tmp_path):
    source = open_rows(write(tmp_path / f"t.{kind}", *table), **numbers(kind))
    parts = pickle.loads(pickle.dumps(source.parts()))
    assert all(len(pickle.dumps(part)) < 3000 for part in parts)
    assert [part.n_rows for part in parts] == [part.n_rows for part in source.parts()]
    apart = [block for part in parts for block in part]
    for one, other in zip(apart, source, strict=True):
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    known = [part.n_rows for part in parts if part.n_rows is not None]
    assert known == ([] if kind == "csv" else [sum(len(block[0]) for block in part) for part in parts])


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.usefixtures("small_pieces")
def test_model_equals_that_of_the_arrays(kind, table, tmp_path):
    X, y, weight, _ = table
    feature_map = RandomFourier(Gaussian(1.5), 50, random_state=0)
    in_memory = KernelRidge(feature_map, alpha=0.1).fit(X, y, sample_weight=weight)
    seen = []
    source = open_rows(write(tmp_path / f"t.{kind}", *table), **numbers(kind))
    streamed = KernelRidge(feature_map, alpha=0.1, progress=seen.append).fit(source)
    assert np.allclose(streamed.coef_, in_memory.coef_, rtol=1e-10, atol=1e-10)
    assert np.isclose(streamed.intercept_, in_memory.intercept_, rtol=1e-10)
    assert seen[0].total == source.n_rows
    assert (seen[0].seconds_left is None) == (kind == "csv")


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.usefixtures("small_pieces")
def test_string_labels(kind, table, tmp_path):
    X, _, _, labels = table
    paths = write(tmp_path / f"t.{kind}", *table, 2)
    if kind == "npy":
        target = [path.with_name(path.name.replace("part", "labels")) for path in paths]
        source = open_rows(paths, target=target, columns=[0, 1, 2, 3])
    else:
        source = open_rows(paths, target="label", columns=NAMES)
    assert np.array_equal(joined(source)[1], labels)
    feature_map = RandomFourier(Gaussian(1.5), 30, random_state=0)
    model = KernelRidgeClassifier(feature_map, random_state=0).fit(source)
    in_memory = KernelRidgeClassifier(feature_map, random_state=0).fit(X, labels)
    assert model.classes_.tolist() == ["cat", "dog", "größe"]
    assert np.allclose(model.coef_, in_memory.coef_, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", FORMATS)
def test_columns_by_index_with_several_targets_and_none(kind, table, tmp_path):
    X, y, weight, _ = table
    paths = write(tmp_path / f"t.{kind}", *table)
    (got,) = joined(open_rows(paths, columns=[2, 0]))
    assert np.array_equal(got, X[:, [2, 0]])
    last = -1 if kind == "npy" else -2
    got_X, got_y, got_w = joined(open_rows(paths, columns=[1], target=[4, 0], weight=last))
    assert np.array_equal(got_X, X[:, [1]])
    assert np.array_equal(got_y, np.column_stack([y, X[:, 0]]))
    assert np.array_equal(got_w, weight)
    got_X, none, got_w = joined(open_rows(paths, columns=[1], weight=last))
    assert none is None
    assert np.array_equal(got_w, weight)
    _, matrix = joined(open_rows(paths, columns=[1], target=[4]))
    assert matrix.shape == (len(X), 1)
    if kind == "npy":
        assert open_rows(paths, target=-2, weight=-1).n_features == 4
    else:
        assert open_rows(paths, target="y", weight="w", columns=NAMES).feature_names == tuple(NAMES)


@pytest.mark.parametrize("kind", ["parquet", "feather", "npy"])
def test_float32_features_remain_float32(kind, table, tmp_path):
    X, y, weight, labels = table
    if kind == "npy":
        path = tmp_path / "t.npy"
        np.save(path, X.astype(np.float32))
    else:
        path = write(tmp_path / f"t.{kind}", X.astype(np.float32), y, weight, labels)
    columns = [0, 1, 2, 3]
    (got,) = joined(open_rows(path, columns=columns))
    assert got.dtype == np.float32
    assert np.array_equal(got, X.astype(np.float32))
    (wide,) = joined(open_rows(path, columns=columns, dtype=np.float64))
    assert wide.dtype == np.float64
    wide_path = write(tmp_path / f"wide.{kind}", X, y, weight, labels)
    (mixed,) = joined(open_rows([*(path if kind != "npy" else []), *wide_path], columns=columns))
    assert mixed.dtype == np.float64
    (narrowed,) = joined(open_rows(wide_path, columns=columns, dtype="float32"))
    assert np.array_equal(narrowed, X.astype(np.float32))


def test_folders_and_patterns_are_read_in_order(table, tmp_path):
    X, y, *_ = table
    paths = write(tmp_path / "t.parquet", *table, 3)
    (tmp_path / "t.parquet" / "README").write_text("not rows")
    chosen = {"target": "y", "columns": NAMES}
    for source in (tmp_path / "t.parquet", str(tmp_path / "t.parquet" / "part*.parquet"), [paths[0], *paths[1:]]):
        assert np.array_equal(joined(open_rows(source, **chosen))[0], X)
    backwards = joined(open_rows(paths[::-1], **chosen))[1]
    assert not np.array_equal(backwards, y)
    assert np.array_equal(np.sort(backwards), np.sort(y))


def test_svmlight_files_are_opened(table, tmp_path):
    X, y, *_ = table
    dump_svmlight_file(X, y, str(tmp_path / "t.svm"))
    got, targets = next(iter(open_rows(tmp_path / "t.svm")))
    assert np.allclose(got.toarray(), X)
    assert np.allclose(targets, y)
    with pytest.raises(ParameterError, match="svmlight files contain their targets"):
        open_rows(tmp_path / "t.svm", target=0)


# ---- errors -------------------------------------------------------------------------------------


def test_sources_that_cannot_be_opened_raise(tmp_path):
    with pytest.raises(DataError, match=r"nowhere.parquet cannot be opened. There is no such file"):
        open_rows(tmp_path / "nowhere.parquet")
    with pytest.raises(DataError, match=r"There is no folder .*gone"):
        open_rows(tmp_path / "gone" / "nowhere.npy")
    with pytest.raises(DataError, match="No file matches"):
        open_rows(str(tmp_path / "*.csv"))
    with pytest.raises(DataError, match="have no file whose name ends in"):
        open_rows(tmp_path)
    with pytest.raises(ParameterError, match="list of paths is empty"):
        open_rows([])
    with pytest.raises(ParameterError, match=r"cannot be inferred from the name.*Pass format="):
        open_rows(tmp_path / "rows.dat")
    with pytest.raises(ParameterError, match="format must be one of 'arrow', 'csv'"):
        open_rows(tmp_path / "rows.dat", format="excel")
    with pytest.raises(ParameterError, match="All files must have one format, got csv and npy"):
        open_rows([tmp_path / "a.csv", tmp_path / "a.npy"])
    with pytest.raises(ParameterError, match=r"got ndarray. Arrays need not be opened; pass them to fit"):
        open_rows(np.zeros((3, 2)))


@pytest.mark.parametrize("kind", [*FORMATS, "svm"])
def test_empty_and_corrupt_files_raise(kind, table, tmp_path):
    empty = tmp_path / f"empty.{kind}"
    empty.touch()
    with pytest.raises(DataError, match=r"is empty \(0 bytes\)"):
        open_rows(empty)
    noise = tmp_path / f"noise.{kind}"
    noise.write_bytes(bytes(range(256)) * 20)
    with pytest.raises(DataError, match=f"noise.{kind}"):
        list(open_rows(noise))


@pytest.mark.parametrize("kind", ["parquet", "feather", "npy"])
def test_truncated_files_raise(kind, table, tmp_path):
    (path,) = write(tmp_path / f"t.{kind}", *table)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(DataError, match=r"part0.*cannot be read as"):
        open_rows(path)


def test_corrupt_row_group_raises_when_it_is_read(table, tmp_path):
    (path,) = write(tmp_path / "t.parquet", *table)
    content = bytearray(path.read_bytes())
    content[2000:3000] = b"\xff" * 1000
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"part0.parquet, row group.* cannot be read as Parquet.*Is the file complete"):
        list(open_rows(path, target="y", columns=NAMES))


@pytest.mark.parametrize("kind", ["parquet", "csv", "feather"])
def test_columns_that_do_not_exist_raise(kind, table, tmp_path):
    paths = write(tmp_path / f"t.{kind}", *table)
    with pytest.raises(
        DataError, match=r"no column 'labels', which target asks for. Did you mean 'label'\? Its columns are 'a'"
    ):
        open_rows(paths, target="labels")
    with pytest.raises(DataError, match=r"has 7 columns, so target=7 is out of range"):
        open_rows(paths, target=7)
    with pytest.raises(ParameterError, match="column 'y' cannot be both a feature and a target"):
        open_rows(paths, target="y", columns=["a", "y"])
    with pytest.raises(ParameterError, match=r"Try columns=\['a'\]"):
        open_rows(paths, columns="a")
    with pytest.raises(DataError, match="no column left for features"):
        open_rows(paths, columns=[])
    with pytest.raises(ParameterError, match=r"must give columns by name or index, got 1\.5"):
        open_rows(paths, target=1.5)


@pytest.mark.parametrize("kind", ["parquet", "csv", "feather"])
def test_string_columns_as_features_raise(kind, table, tmp_path):
    paths = write(tmp_path / f"t.{kind}", *table)
    with pytest.raises(DataError, match=r"column 'label' contains .*not.*number.*Omit"):
        list(open_rows(paths, target="y"))


@pytest.mark.parametrize("kind", ["parquet", "feather"])
@pytest.mark.parametrize("column", ["a", "w"])
def test_missing_values_raise_with_their_row(kind, column, tmp_path):
    values = {"a": [1.0] * 600, "y": [0.5] * 600, "w": [1.0] * 600}
    values[column][517] = None
    file = tmp_path / f"t.{kind}"
    (pyarrow.parquet.write_table if kind == "parquet" else pyarrow.feather.write_feather)(pa.table(values), str(file))
    with pytest.raises(DataError, match=rf"t.{kind}: column '{column}' has no value in row 517 \(counted from 0\)"):
        list(open_rows(file, target="y", weight="w", columns=["a"]))


def test_non_finite_features_raise_with_the_file(table, tmp_path):
    X, y, weight, labels = table
    X[2000, 1] = np.nan
    paths = write(tmp_path / "t.parquet", X, y, weight, labels)
    with pytest.raises(DataError, match=r"part0.parquet, row group.*NaN"):
        KernelRidge(random_state=0).fit(open_rows(paths, target="y", columns=NAMES))


def test_column_types(tmp_path):
    data = pa.table(
        {
            "small": pa.array([1, 2, 3], pa.int8()),
            "flag": pa.array([True, False, True]),
            "price": pa.array([1.0, 2.0, 3.0]).cast(pa.decimal128(10, 2)),
            "half": pa.array(np.array([0.5, 1.5, 2.5], np.float16)),
            "when": pa.array([1, 2, 3], pa.timestamp("s")),
            "kind": pa.array(["u", "v", "u"]).dictionary_encode(),
            "grade": pa.array([3, 1, 2], pa.int32()),
        }
    )
    path = tmp_path / "t.parquet"
    pyarrow.parquet.write_table(data, path)
    X, y = joined(open_rows(path, target="kind", columns=["small", "flag", "price", "half"]))
    assert X.tolist() == [[1, 1, 1, 0.5], [2, 0, 2, 1.5], [3, 1, 3, 2.5]]
    assert y.tolist() == ["u", "v", "u"]
    assert joined(open_rows(path, target="grade", columns=["half"]))[1].dtype == np.int32
    with pytest.raises(DataError, match=r"column 'when' contains timestamp\[m?s\], not numbers"):
        open_rows(path, columns=["when"])
    with pytest.raises(DataError, match=r"target 'when' contains timestamp\[m?s\], not numbers or strings"):
        open_rows(path, target="when", columns=["half"])
    with pytest.raises(DataError, match=r"target 'kind' contains .*, not numbers\."):
        open_rows(path, target=["kind", "grade"], columns=["half"])
    with pytest.raises(DataError, match=r"column 'kind' contains dictionary"):
        open_rows(path, weight="kind", columns=["half"])


@pytest.mark.parametrize("kind", ["parquet", "csv", "npy"])
def test_files_with_different_columns_raise(kind, table, tmp_path):
    X, y, *_ = table
    write(tmp_path / f"t.{kind}", *table)
    other = tmp_path / f"other.{kind}"
    if kind == "npy":
        np.save(other, X)
    else:
        data = pa.table({"a": X[:, 0], "b": X[:, 1], "y": y})
        (pyarrow.parquet.write_table if kind == "parquet" else pyarrow.csv.write_csv)(data, other)
    with pytest.raises(DataError, match=f"other.{kind} has (no column 'c'|the columns|4 columns)"):
        open_rows([tmp_path / f"t.{kind}" / f"part0.{kind}", other], columns=[0, 2])


def test_missing_pyarrow_raises_with_the_extra_to_install(table, tmp_path, monkeypatch):
    paths = {kind: write(tmp_path / f"t.{kind}", *table) for kind in ("parquet", "csv", "feather", "npy")}
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    for kind in ("parquet", "csv", "feather"):
        with pytest.raises(ImportError, match=r"needs pyarrow, which is not.* Try: pip install 'mercer\[io\]'"):
            open_rows(paths[kind])
    assert open_rows(paths["npy"]).n_rows == 3001
