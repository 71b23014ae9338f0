"""svmlight files yield the rows that scikit-learn reads from them."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from mercer import DataError, Gaussian, KernelRidge, ParameterError, RandomFourier
from mercer.io import open_svmlight


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    X = sp.random_array((2000, 12), density=0.3, format="csr", rng=rng)
    X = X + sp.csr_array(([1.0], ([5], [11])), shape=X.shape)  # so that the last column occurs
    X.indices, X.indptr = (
        X.indices.astype(np.int32),
        X.indptr.astype(np.int32),
    )  # the index type that scikit-learn can write
    return X, rng.normal(size=2000)


def joined(source):
    parts = list(source)
    return sp.vstack([X for X, _ in parts], format="csr"), np.concatenate([y for _, y in parts])


@pytest.mark.parametrize("zero_based", [True, False])
@pytest.mark.usefixtures("small_pieces")
def test_rows_equal_those_of_scikit_learn(zero_based, rows, tmp_path):
    X, y = rows
    path = tmp_path / "t.svm"
    dump_svmlight_file(X, y, str(path), zero_based=zero_based, comment="by scikit-learn")
    expected, labels = load_svmlight_file(str(path))
    for options in ({}, {"n_features": 12}, {"zero_based": zero_based}, {"n_features": 12, "zero_based": zero_based}):
        source = open_svmlight(path, **options)
        got, targets = joined(source)
        assert got.shape == expected.shape == (2000, 12)
        assert (got != expected).nnz == 0
        assert got.indices.dtype == got.indptr.dtype == np.int32
        assert np.array_equal(targets, labels)
        assert source.n_rows == (None if len(options) == 2 else 2000)
        assert len(source.parts()) > 3
    assert joined(open_svmlight(path, n_features=20))[0].shape == (2000, 20)
    assert joined(open_svmlight(path, dtype=np.float32))[0].dtype == np.float32


@pytest.mark.usefixtures("small_pieces")
def test_parts_can_be_pickled_and_model_equals_that_of_the_matrix(rows, tmp_path):
    X, y = rows
    dump_svmlight_file(X, y, str(tmp_path / "t.svm"), zero_based=True)
    source = open_svmlight(tmp_path / "t.svm", zero_based=True)
    parts = pickle.loads(pickle.dumps(source.parts()))
    assert sum(part.n_rows for part in parts) == 2000
    again = sp.vstack([block[0] for part in parts for block in part], format="csr")
    assert (again != joined(source)[0]).nnz == 0
    learner = KernelRidge(RandomFourier(Gaussian(), 50, random_state=0))
    read_back, labels = load_svmlight_file(str(tmp_path / "t.svm"), n_features=12, zero_based=True)
    assert np.allclose(
        learner.fit(source).coef_, KernelRidge(learner.feature_map).fit(read_back, labels).coef_, atol=1e-10
    )


def write(path, text):
    path.write_text(text)
    return path


def test_comments_qid_blank_lines_and_rows_without_entries(tmp_path):
    text = "# head\n\n+1 1:0.5 3:-2e1 # note 7:8\n-1\n2 qid:4 2:1\n  3   1:1\t2:2  \n"
    X, y = joined(open_svmlight(write(tmp_path / "t.svm", text)))
    assert X.toarray().tolist() == [[0.5, 0, -20], [0, 0, 0], [0, 1, 0], [1, 2, 0]]
    assert y.tolist() == [1, -1, 2, 3]
    zero, _ = joined(open_svmlight(write(tmp_path / "z.svm", "1 0:1\n1 2:1\n")))
    assert zero.toarray().tolist() == [[1, 0, 0], [0, 0, 1]]
    two, _ = joined(open_svmlight([tmp_path / "z.svm", write(tmp_path / "o.svm", "1 1:5\n")]))
    assert two.toarray().tolist() == [[1, 0, 0], [0, 0, 1], [0, 5, 0]]


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("x 1:2", "the label 'x' is not one number"),
        ("1,2 1:2", "the label '1,2' is not one number"),
        ("1 2", "'2' is not a column and a number"),
        ("1 1:2 3", "'3' is not a column and a number"),
        ("1 1:two", "'1:two' is not a column and a number"),
        ("1 1: 2", "'1:' is not a column and a number"),
        ("1 a:2", "'a:2' is not a column, which is an integer >= 0, and a number"),
        ("1 1.5:2", "'1.5:2' is not a column, which is an integer"),
        ("1 -1:2", "'-1:2' is not a column, which is an integer"),
        ("1 2:1 1:1", "column 1 comes after column 2, but columns must increase"),
        ("1 2:1 2:1", "column 2 comes after column 2"),
    ],
)
def test_errors_name_the_invalid_line(line, match, tmp_path):
    path = write(tmp_path / "t.svm", "1 1:2 3:4\n# note\n" * 1300 + line + "\n1 2:2\n")
    with pytest.raises(DataError, match=f"t.svm, line 2601: {match}.*A line is: label"):
        list(open_svmlight(path, n_features=9, zero_based=False))


def test_columns_out_of_range_raise(tmp_path):
    path = write(tmp_path / "t.svm", "1 1:1\n# note\n1\n1 2:1 7:1\n")
    with pytest.raises(
        DataError, match=r"line 4: column 7 is not in the range 1 to 5\. Pass another n_features or zero_based"
    ):
        list(open_svmlight(path, n_features=5))
    zero = write(tmp_path / "z.svm", "1 0:1\n")
    with pytest.raises(DataError, match="line 1: column 0 is not in the range 1 to 5"):
        list(open_svmlight(zero, n_features=5, zero_based=False))


def test_files_without_rows_raise(tmp_path):
    with pytest.raises(DataError, match="has no rows; every line is blank or a comment"):
        open_svmlight(write(tmp_path / "t.svm", "# only\n\n"))
    with pytest.raises(ParameterError, match="zero_based must be True, False or 'auto', got 'maybe'"):
        open_svmlight(write(tmp_path / "t.svm", "1 1:1\n"), zero_based="maybe")


# ---- what scikit-learn refuses, and what it reads -----------------------------------------------


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(
    ("lines", "match"),
    [
        ("1 1:5 2\n3:4", "line 2001: '2' is not a column and a number"),
        ("1 5\n3:4 6:7", "line 2001: '5' is not a column and a number"),
        ("1 1:0.5 2:0.25 9\n1:1 2:2 3:3", "line 2001: '9' is not a column and a number"),
        ("1 1:1\n3:4", "line 2002: the label '3:4' is not one number"),
        ("1 1:1 qid:3 2:1", "line 2001: 'qid:3' is not a column, which is an integer"),
        ("1 9007199254740993:1", "line 2001: column 9007199254740993 is larger than 2147483647"),
        ("1 4000000000000:1", "line 2001: column 4000000000000 is larger.*would not fit into memory.*n_features"),
        ("1 1:1\x00", "line 2001: .* is not a column and a number"),
        ("\x00", "line 2001: the label .* is not one number"),
    ],
)
def test_lines_that_scikit_learn_refuses_are_refused(lines, match, tmp_path):
    path = write(tmp_path / "t.svm", "1 1:2 3:4\n" * 2000 + lines + "\n" + "0 2:2\n" * 500)
    with pytest.raises((ValueError, OverflowError)):
        load_svmlight_file(str(path))
    with pytest.raises(DataError, match=match):
        open_svmlight(path)
    with pytest.raises(DataError, match=match):
        list(open_svmlight(path, n_features=9, zero_based=False))


def test_spellings_that_scikit_learn_reads_are_read(tmp_path):
    text = "1_0 1_1:0.5\r\n+inf 1:nan 2:-Infinity 3:1e400\n-0 +2:+1e-400\x0b3:.5\n\x0c2e0 qid:x 1:2#3:4\n\xa0"
    path = tmp_path / "t.svm"
    path.write_bytes(text[:-1].encode())
    expected, labels = load_svmlight_file(str(path))
    got, targets = joined(open_svmlight(path))
    assert got.shape == expected.shape == (4, 11)
    assert np.array_equal(got.toarray(), expected.toarray(), equal_nan=True)
    assert np.array_equal(targets, labels)


@pytest.mark.usefixtures("small_pieces")
def test_file_that_has_become_shorter_raises(tmp_path):
    path = write(tmp_path / "t.svm", "1 1:2 3:4\n" * 9000)
    source = open_svmlight(path)
    path.write_text("1 1:2 3:4\n" * 100)
    with pytest.raises(DataError, match=r"t\.svm has become shorter while it was read"):
        list(source)
