"""Exit codes, streams and files of the command line."""

import json
import subprocess
import sys

import pytest

import mercer
from mercer import Gaussian, cli, save_model
from mercer.diagnostics.demo import run_demo
from mercer.errors import DataError

START = "import sys; from mercer.cli import main; "


@pytest.fixture(scope="module")
def result():
    return run_demo(n_components=16, random_state=3, data_sets=[])


@pytest.fixture
def run(monkeypatch, capsys, tmp_path):
    """Return a function that runs the command line in an empty folder: exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["mercer", *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        return stopped.value.code or 0, *capsys.readouterr()

    return call


@pytest.fixture
def quick(monkeypatch, result):
    """Replace the demo by one that returns a result measured before, and record its arguments."""
    calls = []

    def replay(**arguments):
        calls.append(arguments)
        return result

    monkeypatch.setattr("mercer.diagnostics.demo.run_demo", replay)
    return calls


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"], ["demo", "--help"], ["info", "-h"]])
def test_help_and_version_do_not_import_numerical_libraries(arguments):
    check = (
        "import atexit; heavy = ('numpy', 'scipy', 'sklearn', 'joblib', 'matplotlib', 'jinja2', 'rich'); "
        "atexit.register(lambda: print('LOADED', [m for m in heavy if m in sys.modules])); "
    )
    command = [sys.executable, "-W", "error", "-c", START + check + f"sys.argv[1:] = {arguments!r}; main()"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("LOADED []\n")
    assert done.stderr == ""


def test_version(run):
    assert run("--version") == (0, f"mercer {mercer.__version__}\n", "")


def test_help_lists_the_commands(run):
    code, out, _ = run("-h")
    assert code == 0
    assert "demo" in out
    assert "info" in out


def test_python_dash_m_prints_the_same_help(run):
    done = subprocess.run([sys.executable, "-m", "mercer", "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == run("--help")
    assert done.stdout.strip().startswith("Usage: mercer ")


@pytest.mark.parametrize(
    "arguments",
    [
        ["unknown"],
        ["info", "--unknown"],
        ["demo", "--n-components", "15"],
        ["demo", "--n-components", "1025"],
        ["demo", "--n-components", "many"],
        ["demo", "--random-state", "-1"],
        ["demo", "--json", "--output", "-"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_two(run, tmp_path, arguments):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "Usage: mercer" in err
    assert list(tmp_path.iterdir()) == []


def test_info_as_table_and_as_json(run):
    code, out, err = run("info")
    assert (code, err) == (0, "")
    assert "scikit-learn" in out
    code, out, err = run("info", "--json")
    assert (code, err) == (0, "")
    environment = json.loads(out)
    assert list(environment) == [
        "mercer",
        "python",
        "system",
        "packages",
        "extras",
        "compiled",
        "instruction_set",
        "cpu_count",
        "threads",
        "blas",
    ]
    assert environment["compiled"] == (environment["instruction_set"] != "numpy")
    assert set(environment["extras"]) == {"io", "dask", "report", "graph"}
    assert all(set(one) == {"library", "version", "architecture", "threads"} for one in environment["blas"])


def test_info_of_a_model_file(run, tmp_path):
    path = save_model(Gaussian(0.5), tmp_path / "kernel.mercer", metadata={"trained on": "nothing"})
    code, out, err = run("info", str(path))
    assert (code, err) == (0, "")
    assert out.startswith("model     Gaussian, not fitted\n")
    assert "trained on" in out
    code, out, err = run("info", str(path), "--json")
    assert (code, err) == (0, "")
    about = json.loads(out)
    assert (about["class_name"], about["parameters"]) == ("Gaussian", {"lengthscale": "0.5"})
    assert about["path"] == str(path)


def test_info_of_what_is_not_a_model_file_is_an_error_of_one_line(run, tmp_path):
    for name in ("missing.mercer", "text.mercer"):
        (tmp_path / "text.mercer").write_text("text")
        code, out, err = run("info", str(tmp_path / name))
        assert (code, out) == (1, "")
        assert err.startswith("mercer: ")
        assert name in err
        assert err.count("\n") == 1


def test_demo_writes_the_page_and_prints_its_path(run, quick, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    code, out, err = run("demo", "--n-components", "16", "--random-state", "3")
    assert (code, err) == (0, "")
    assert quick == [{"n_components": 16, "random_state": 3, "progress": None}]
    page = tmp_path / "mercer-demo.html"
    assert out.endswith(f"Page: {page}\n")
    assert "RBFSampler" in out
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [page]


def test_demo_json_is_the_only_output_on_stdout(run, quick, result, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    code, out, err = run("demo", "--json", "-o", "sub/page.html")
    assert code == 0
    measured = json.loads(out)
    page = tmp_path / "sub" / "page.html"
    assert err == f"Page: {page}\n"
    assert measured.pop("page") == str(page)
    assert measured == json.loads(json.dumps(result.to_dict()))
    assert set(measured["contenders"][0]) == {
        "name",
        "library",
        "classifier",
        "accuracy",
        "accuracy_error",
        "alpha",
        "audit",
        "fit_seconds",
        "fit_seconds_slowest",
        "transform_seconds",
        "peak_bytes",
    }


def test_demo_page_to_stdout_moves_the_table_to_stderr(run, quick, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    code, out, err = run("demo", "--output", "-")
    assert code == 0
    assert out.startswith("<!doctype html>")
    assert out.endswith("</html>\n")
    assert "RBFSampler" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("absent", ["matplotlib", "jinja2"])
def test_without_the_extra_the_table_is_printed_with_a_hint(run, quick, monkeypatch, tmp_path, absent):
    monkeypatch.setitem(sys.modules, absent, None)
    code, out, err = run("demo")
    assert code == 0
    assert "RBFSampler" in out
    assert err == "No page was written. For a page with figures: pip install 'mercer[report]'\n"
    code, out, _ = run("demo", "--json")
    assert code == 0
    assert json.loads(out)["page"] is None
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_a_requested_page_is_an_error(run, quick, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    code, out, err = run("demo", "--output", "page.html")
    assert (code, out, quick) == (1, "", [])
    assert err == "mercer: --output needs jinja2. Try: pip install 'mercer[report]'\n"


def test_unwritable_output_fails_before_the_demo_runs(run, quick, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    (tmp_path / "file").write_text("mine")
    reasons = {"file/page.html": "is not a folder", ".": "it is a folder; pass the name of a file"}
    for output, reason in reasons.items():
        code, out, err = run("demo", "--output", output)
        assert (code, out, quick) == (1, "", [])
        assert err.startswith(f"mercer: cannot write {output}: ")
        assert err.endswith(f"{reason}\n")
        assert err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("call", ["os.fsync", "os.replace"])
def test_failure_to_write_the_page_leaves_no_file(call, run, quick, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")

    def full(*_):
        raise OSError(28, "No space left on device")  # without a name, as from a write

    monkeypatch.setattr(call, full)
    code, out, err = run("demo")
    assert code == 1
    assert "RBFSampler" in out  # the results are not lost
    assert err == f"mercer: cannot write {tmp_path / 'mercer-demo.html'}: No space left on device\n"
    assert list(tmp_path.iterdir()) == []


def test_library_error_is_printed_on_one_line(run, monkeypatch, tmp_path):
    def fail(**_):
        raise DataError("rows are wrong.\n  needs: rows\n  got:   none")

    monkeypatch.setattr("mercer.diagnostics.demo.run_demo", fail)
    code, out, err = run("demo")
    assert (code, out) == (1, "")
    assert err == "mercer: rows are wrong.; needs: rows; got:   none\n"
    assert list(tmp_path.iterdir()) == []


def test_warning_is_printed_on_one_line(run, quick, monkeypatch, result):
    import warnings

    def warn(**_):
        warnings.warn("careful", UserWarning, stacklevel=1)
        return result

    monkeypatch.setattr("mercer.diagnostics.demo.run_demo", warn)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        code, _, err = run("demo", "--json")
    assert code == 0
    assert err.startswith("mercer: warning: careful\n")


def test_ranges_of_the_options_are_those_of_run_demo():
    with pytest.raises(mercer.ParameterError, match="from 16 to 1024"):
        run_demo(n_components=1025)
    with pytest.raises(mercer.ParameterError, match="from 0 to 4294967295"):
        run_demo(random_state=2**32)
