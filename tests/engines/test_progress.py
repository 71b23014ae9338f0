"""Progress: stages and fractions of a fit, and their display on a terminal, in a notebook and in a log."""

import io
import logging
import os
import sys
import types

import numpy as np
import pytest

from mercer import (
    Deformed,
    DeformedSearchCV,
    Gaussian,
    GaussianProcessRegressor,
    KernelKMeans,
    KernelPCA,
    KernelRidge,
    KernelRidgeClassifier,
    NeighborGraph,
    Nystroem,
    RandomFourier,
)
from mercer.engines import Progress, enter_stage, report_step, reported, stages_of
from mercer.engines.progress import (
    Display,
    LogDisplay,
    NotebookDisplay,
    Stages,
    TerminalDisplay,
    describe,
    duration,
)

RNG = np.random.default_rng(0)
X, y = RNG.normal(size=(100, 2)), np.zeros(100)


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Recorder(Display):
    """Display that records everything that it is given."""

    def __init__(self):
        super().__init__()
        self.events = []

    def _is_due(self, progress):
        return True

    def _starts_show(self, progress):
        return True

    def _show(self, line, progress):
        self.events.append(progress)

    def _end(self, line):
        self.last = line


@pytest.fixture
def recorder(monkeypatch):
    display = Recorder()
    monkeypatch.setattr(Display, "here", staticmethod(lambda: display))
    return display


class Clock:
    """Clock that is set by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_reports_count_all_rows():
    reports = []
    model = KernelRidge(RandomFourier(Gaussian(), 8), alpha=1.0, block_size=30, progress=reports.append).fit(X, y)
    assert [(r.rows, r.total) for r in reports] == [(30, 100), (60, 100), (90, 100), (100, 100)]
    assert {(r.owner, r.stage, r.unit) for r in reports} == {("KernelRidge", "sum over rows", "rows")}
    assert reports[-1].seconds_left < 0.1 * reports[-1].elapsed  # what is left is to solve
    reports.clear()
    model.fit((X[i : i + 50], y[i : i + 50]) for i in (0, 50))
    assert [(r.rows, r.total) for r in reports] == [(30, None), (50, None), (80, None), (100, None), (100, 100)]
    assert {r.fraction for r in reports} == {None}  # the number of rows was not known
    reports.clear()
    model.partial_fit(X, y)
    assert [(r.rows, r.total) for r in reports] == [(30, 100), (60, 100), (90, 100), (100, 100)]


def test_time_left_goes_by_the_rate():
    assert Progress(rows=20, total=60, seconds=2.5).seconds_left == 5.0
    assert Progress(rows=20, total=None, seconds=2.5).seconds_left is None
    # That of a fit goes by its fraction.
    assert Progress(rows=60, total=60, seconds=2.5, fraction=0.25, elapsed=5.0).seconds_left == 15.0
    assert Progress(rows=60, total=60, seconds=2.5, elapsed=5.0).seconds_left is None


# ---- stages -----------------------------------------------------------------------------------


def test_fractions_go_by_the_costs_of_stages():
    seen, clock = [], Clock()
    stages = Stages("Model", seen.append, clock)
    stages.plan({"first": 1.0, "second": 3.0, "skipped": 4.0, "last": 2.0})
    stages.enter("first")
    stages(Progress(5, 10, 0.0))
    stages.enter("second")
    clock.now = 8.0
    stages(Progress(1, 3, 0.0))
    stages.enter("a part of it")  # not announced
    stages.step(1, 2)
    stages(Progress(3, 3, 0.0))
    stages.enter("last")
    stages.step(1, 2, "half", unit="halves")
    stages.step(2, 2)
    assert [p.fraction for p in seen] == [0.05, 0.2, 0.2, 0.2, 0.9, 1.0]
    assert [p.stage for p in seen] == ["first", "second", "a part of it", "a part of it", "last", "last"]
    assert (seen[1].elapsed, seen[1].seconds_left) == (8.0, 32.0)
    assert (seen[4].rows, seen[4].total, seen[4].note, seen[4].unit) == (1, 2, "half", "halves")


def test_fractions_never_decrease():
    seen = []
    stages = Stages("Model", seen.append)
    stages.plan({"pass": 1.0, "solve": 1.0})
    stages.enter("pass")
    for rows in (5, 10, 5, 10):  # a repeated pass
        stages(Progress(rows, 10, 0.0))
    stages.plan({"solve": 9.0})  # more than was thought
    stages(Progress(10, 10, 0.0))
    assert [p.fraction for p in seen] == [0.25, 0.5, 0.5, 0.5, 0.5]


def test_there_is_no_fraction_before_a_stage_of_unknown_cost_is_finished():
    seen = []
    stages = Stages("Model", seen.append)
    stages.plan({"tune": None, "pass": 1.0})
    stages.enter("tune")
    stages.step(7, None)
    stages.enter("pass")
    stages(Progress(5, 10, 0.0))
    assert [p.fraction for p in seen] == [None, 0.5]


def test_stages_are_ignored_where_they_are_not_known():
    for report in (None, print):
        enter_stage(report, "stage")
        report_step(report, 1, 2)
        with reported(report):
            pass
    assert stages_of("Model", False) is None


def silences(recorder):
    """Return the largest difference between fractions of consecutive reports, from 0 to 1."""
    fractions = [0.0, *(p.fraction for p in recorder.events if p.fraction is not None), 1.0]
    assert fractions == sorted(fractions)
    return max(np.diff(fractions))


@pytest.mark.parametrize("alpha", ["loo", "gcv", "evidence", 1.0])
@pytest.mark.parametrize("learner", [KernelRidge, KernelRidgeClassifier])
def test_ridge_is_never_silent_for_a_fifth_of_its_work(recorder, learner, alpha):
    rows = RNG.normal(size=(3000, 3))
    targets = rows[:, 0] + RNG.normal(size=3000)
    targets = targets if learner is KernelRidge else targets > 0
    feature_map = RandomFourier(Gaussian(), 64, random_state=0)
    learner(feature_map, alpha=alpha, block_size=250, progress=True).fit(rows, targets)
    stages = list(dict.fromkeys(p.stage for p in recorder.events))
    chosen = {"loo": ["decompose moments", "score penalties"], 1.0: []}.get(alpha, ["decompose moments"])
    assert stages == ["fit map", "sum over rows", "solve", *chosen]
    assert silences(recorder) < 0.2
    assert recorder.last.startswith(f"{learner.__name__}: done in ")


def test_a_search_is_never_silent_for_a_fifth_of_its_work(recorder):
    rows = RNG.normal(size=(9000, 2))
    labels = np.where(np.arange(9000) < 30, (rows[:, 0] > 0).astype(int), -1)
    deformed = Deformed(RandomFourier(Gaussian(), 48, random_state=0), NeighborGraph(5), random_state=0)
    model = KernelRidgeClassifier(deformed, unlabeled=-1, block_size=500, progress=True)
    DeformedSearchCV(model, strengths=(0.0, 1.0, 10.0), powers=(1, 2, 3)).fit(rows, labels)
    stages = list(dict.fromkeys(p.stage for p in recorder.events))
    assert stages == [
        *("fit map", "build graph", "read labels"),
        *(f"{what} of power {power}" for power in (1, 2, 3) for what in ("measure roughness", "compare candidates")),
        *("deform", "sum over rows", "solve"),
    ]
    assert silences(recorder) < 0.2
    assert recorder.last.startswith("DeformedSearchCV: done in ")


def test_stages_of_other_fits(recorder):
    rows = RNG.normal(size=(400, 2))

    def stages(model):
        recorder.events.clear()
        model.fit(rows, np.sin(rows[:, 0]))
        return list(dict.fromkeys(p.stage for p in recorder.events))

    options = {"progress": True, "random_state": 0}
    pca = KernelPCA(Nystroem(Gaussian("median"), 40, random_state=0), 2, **options)
    assert stages(pca) == ["fit map", "choose landmarks", "sum over rows", "solve"]
    assert max(p.rows for p in recorder.events if p.unit == "landmarks") == 40
    process = GaussianProcessRegressor(RandomFourier(Gaussian(), 16, random_state=0), **options)
    assert stages(process) == ["tune lengthscales", "fit map", "sum over rows", "solve"]
    assert max(p.rows for p in recorder.events if "evaluations" in p.unit) == len(process.tuning_)
    clusters = KernelKMeans(RandomFourier(Gaussian(), 16, random_state=0), 3, **options)
    assert stages(clusters) == ["fit map", "solve", "choose starts", "move centers"]
    feature_map = Deformed(RandomFourier(Gaussian(), 16, random_state=0), NeighborGraph(5))
    ridge = KernelRidge(feature_map, alpha=1.0, **options)
    assert stages(ridge) == ["fit map", "build graph", "measure roughness", "deform", "sum over rows", "solve"]


def test_a_failed_fit_ends_its_display(recorder):
    with pytest.raises(ValueError, match="alpha"):
        KernelRidge(RandomFourier(Gaussian(), 80, random_state=0), alpha=1e-300, progress=True).fit(X, y)
    assert recorder.last.startswith("KernelRidge: stopped after ")


def test_the_model_does_not_depend_on_the_display(recorder):
    def fitted(progress):
        deformed = Deformed(RandomFourier(Gaussian(), 16, random_state=0), NeighborGraph(5), random_state=0)
        return KernelRidge(deformed, alpha="loo", progress=progress).fit(X, X[:, 0])

    assert np.array_equal(fitted(True).coef_, fitted(False).coef_)


# ---- displays ---------------------------------------------------------------------------------


def fit_with_reports(display, clock, seconds=1.0):
    """Report the progress of a fit of two stages, with `seconds` between the reports."""
    stages = Stages("Model", display, clock)
    stages.plan({"pass": 9.0, "solve": 1.0})
    with reported(stages):
        stages.enter("pass")
        for rows in range(100, 1001, 100):
            clock.now += seconds
            stages(Progress(rows, 1000, clock.now))
        stages.enter("solve")
        clock.now += seconds


def test_a_terminal_shows_one_line_that_is_replaced(monkeypatch):
    terminal, clock = Terminal(), Clock()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((200, 20)))
    assert isinstance(Display.here(), TerminalDisplay)
    fit_with_reports(TerminalDisplay(clock), clock)
    shown = terminal.getvalue()
    assert shown.count("\n") == 1
    lines = shown.split("\r\033[K")[1:]
    assert lines[0] == "Model: pass, 0 %, 0.0 s"
    assert lines[3] == "Model: pass, 300 of 1,000 rows, 27 %, 3.0 s, about 8.1 s left"
    assert lines[-2] == "Model: solve, 90 %, 10.0 s, about 1.1 s left"
    assert lines[-1] == "Model: done in 11.0 s\n"
    assert len(lines) == 13


def test_lines_fit_into_the_terminal_and_are_not_too_many(monkeypatch):
    terminal, clock = Terminal(), Clock()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((30, 20)))
    fit_with_reports(TerminalDisplay(clock), clock, seconds=0.03)
    lines = terminal.getvalue().split("\r\033[K")[1:]
    assert len(lines) == 5  # two starts, two of ten reports, and the end
    assert lines[1] == "Model: pass, 400 of 1,000 ro…"
    assert max(map(len, lines[:-1])) == 29


def test_a_terminal_repeats_the_line_where_a_stage_reports_nothing(monkeypatch):
    terminal, clock = Terminal(), Clock()
    monkeypatch.setattr(sys, "stderr", terminal)
    display = TerminalDisplay(clock)
    display.start(Progress(0, None, 0.0, stage="solve", owner="Model", elapsed=2.0))
    clock.now = 0.5
    display.repeat()  # too early
    clock.now = 3.0
    display.repeat()
    display.end(Progress(0, None, 5.0, owner="Model"), success=True)
    display.repeat()  # too late
    lines = terminal.getvalue().split("\r\033[K")[1:]
    assert lines == ["Model: solve, 2.0 s", "Model: solve, 5.0 s", "Model: done in 5.0 s\n"]


def test_a_fit_on_a_terminal(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    KernelRidge(RandomFourier(Gaussian(), 8, random_state=0), alpha="loo", progress=True).fit(X, X[:, 0])
    shown = terminal.getvalue()
    for stage in ("fit map", "sum over rows", "decompose moments", "score penalties"):
        assert f"\r\033[KKernelRidge: {stage}, " in shown
    assert shown.endswith(" s\n")


def test_a_log_has_few_lines_and_no_carriage_returns(monkeypatch):
    stream, clock = io.StringIO(), Clock()
    monkeypatch.setattr(sys, "stderr", stream)
    assert isinstance(Display.here(), LogDisplay)
    fit_with_reports(LogDisplay(clock), clock)
    lines = stream.getvalue().splitlines()
    assert "\r" not in stream.getvalue()
    assert lines[0] == "Model: pass, 0 %, 0.0 s"
    assert lines[1] == "Model: pass, 200 of 1,000 rows, 18 %, 2.0 s, about 9.1 s left"
    assert lines[-1] == "Model: done in 11.0 s"
    assert len(lines) == 11
    stream.truncate(0)
    fit_with_reports(LogDisplay(clock), clock, seconds=0.01)  # a short fit
    assert len(stream.getvalue().splitlines()) == 2
    stream.truncate(0)
    stages = Stages("Model", LogDisplay(clock), clock)
    stages.enter("solve")  # of unknown length
    for _ in range(100):
        clock.now += 1.0
        stages.step(1, None)
    assert len(stream.getvalue().splitlines()) == 4  # one in 30 seconds


def test_a_log_goes_to_the_logger_if_there_is_one(monkeypatch, caplog):
    stream, clock = io.StringIO(), Clock()
    monkeypatch.setattr(sys, "stderr", stream)
    with caplog.at_level(logging.INFO, logger="mercer"):
        fit_with_reports(LogDisplay(clock), clock)
    assert stream.getvalue() == ""
    assert caplog.messages[-1] == "Model: done in 11.0 s"
    assert {record.name for record in caplog.records} == {"mercer"}


def test_a_notebook_has_one_output_that_is_updated(monkeypatch):
    outputs = []

    class Handle:
        def update(self, data, *, raw):
            assert raw
            outputs[-1].append(data["text/plain"])

    def display(data, *, raw, display_id):
        assert raw
        assert display_id is True
        outputs.append([data["text/plain"]])
        return Handle()

    shell = types.ModuleType("IPython")
    shell.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    shell.display = types.ModuleType("IPython.display")
    shell.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", shell)
    monkeypatch.setitem(sys.modules, "IPython.display", shell.display)
    assert isinstance(Display.here(), NotebookDisplay)
    clock = Clock()
    fit_with_reports(NotebookDisplay(clock), clock)
    assert len(outputs) == 1
    assert outputs[0][0] == "Model: pass, 0 %, 0.0 s"
    assert outputs[0][-1] == "Model: done in 11.0 s"
    assert len(outputs[0]) == 13
    KernelRidge(RandomFourier(Gaussian(), 8, random_state=0), progress=True).fit(X, y)
    assert len(outputs) == 2
    # A terminal with IPython is a terminal.
    shell.get_ipython = lambda: types.SimpleNamespace()
    assert not isinstance(Display.here(), NotebookDisplay)
    shell.get_ipython = lambda: None
    assert not isinstance(Display.here(), NotebookDisplay)


def test_text():
    assert describe(Progress(0, None, 1.0, stage="solve", elapsed=61.0)) == "solve, 1 min 1 s"
    assert describe(Progress(7, None, 1.0, "loss 3")) == "loss 3, 7 rows, 1.0 s"
    early = Progress(1, 1000, 1.0, fraction=0.001, elapsed=1.0)
    assert describe(early) == "1 of 1,000 rows, 0 %, 1.0 s"  # too early for a remaining time
    assert [duration(s) for s in (0.04, 59.96, 3600)] == ["0.0 s", "1 min 0 s", "1 h 0 min"]
