import pickle

import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest

from mercer import KernelRidge, open_table
from mercer.errors import DataError, ParameterError
from mercer.io import TableSource

FRAME = pd.DataFrame(
    {
        "n": [1, 2, None, 4] * 25,
        "s": ["a", None, "b", "a"] * 25,
        "c": pd.Categorical(["u", "v", "u", None] * 25),
        "t": pd.to_datetime(["2024-01-01", None, "2024-01-03", "2024-01-04"] * 25),
        "b": [True, False] * 50,
        "y": range(100),
    }
)


@pytest.mark.parametrize("end", ["parquet", "feather", "csv"])
def test_files_have_the_cells_of_the_table(tmp_path, end):
    path = tmp_path / f"table.{end}"
    if end == "parquet":
        FRAME.to_parquet(path, row_group_size=30)
    elif end == "feather":
        pa.feather.write_feather(pa.Table.from_pandas(FRAME), path, chunksize=30)
    else:
        FRAME.to_csv(path, index=False)
    source = open_table(path, target="y")
    assert isinstance(source, TableSource)
    assert source.n_rows == 100
    assert source.feature_names == ("n", "s", "c", "t", "b")
    blocks = [block for part in source.parts() for block in pickle.loads(pickle.dumps(part))]
    table = pa.concat_tables([X for X, _ in blocks]).to_pandas()
    assert table["s"].isna().tolist() == FRAME["s"].isna().tolist()
    assert table["c"].astype(object).where(table["c"].notna(), None).tolist() == [
        None if pd.isna(one) else one for one in FRAME["c"]
    ]
    assert (table["t"].dropna().astype("M8[s]") == FRAME["t"].dropna().astype("M8[s]")).all()
    assert table["b"].tolist() == FRAME["b"].tolist()
    assert [int(one) for _, y in blocks for one in y] == list(range(100))


def test_types_of_several_files_are_joined(tmp_path):
    pd.DataFrame({"a": [1, 2], "b": ["x", "y"]}).to_parquet(tmp_path / "1.parquet")
    pd.DataFrame({"b": pd.Categorical(["z"]), "a": [2.5]}).to_parquet(tmp_path / "2.parquet")
    pd.DataFrame({"a": [None], "b": [None]}).to_parquet(tmp_path / "3.parquet")
    source = open_table(tmp_path / "*.parquet")
    assert [row for (X,) in source for row in X.to_pylist()] == [
        {"a": 1.0, "b": "x"},
        {"a": 2.0, "b": "y"},
        {"a": 2.5, "b": "z"},
        {"a": None, "b": None},
    ]
    pd.DataFrame({"a": ["text"], "b": ["x"]}).to_parquet(tmp_path / "4.parquet")
    with pytest.raises(DataError, match=r"Column 'a' contains .* in .*1.parquet, but .*string in .*4.parquet"):
        open_table(tmp_path)


def test_errors_of_paths_and_formats(tmp_path):
    with pytest.raises(DataError, match="There is no such file"):
        open_table(tmp_path / "no.csv")
    with pytest.raises(ParameterError, match="format cannot be inferred"):
        open_table(tmp_path / "table.xlsx")
    with pytest.raises(ParameterError, match="format must be one of 'arrow', 'csv', 'parquet'"):
        open_table(tmp_path / "table.npy", format="npy")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="no column 'c', which target asks for"):
        open_table(tmp_path / "a.csv", target="c")


def test_learners_of_numbers_say_what_to_do(tmp_path):
    with pytest.raises(DataError, match=r"TablePreprocessor\(\).fit\(table\).rows\(table\)"):
        KernelRidge().fit(open_table(FRAME, target="y"))
