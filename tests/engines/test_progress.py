"""Progress is reported after every block, and shown only to people."""

import io
import sys

import numpy as np

from mercer import Gaussian, KernelRidge, RandomFourier
from mercer.engines import Progress, show_progress


def test_reports_count_all_rows():
    reports = []
    X, y = np.random.default_rng(0).normal(size=(100, 2)), np.zeros(100)
    model = KernelRidge(RandomFourier(Gaussian(), 8), block_size=30, progress=reports.append).fit(X, y)
    assert [(r.rows, r.total) for r in reports] == [(30, 100), (60, 100), (90, 100), (100, 100)]
    assert reports[-1].seconds_left == 0
    reports.clear()
    model.fit((X[i : i + 50], y[i : i + 50]) for i in (0, 50))
    assert [(r.rows, r.total) for r in reports] == [(30, None), (50, None), (80, None), (100, None), (100, 100)]


def test_time_left_goes_by_the_rate():
    assert Progress(rows=20, total=60, seconds=2.5).seconds_left == 5.0
    assert Progress(rows=20, total=None, seconds=2.5).seconds_left is None


def test_shown_on_a_terminal_only(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    for stream, shown in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr(sys, "stderr", stream)
        show_progress(Progress(rows=1000, total=3000, seconds=1.0))
        assert ("1,000 of 3,000 rows, 1.0 s, about 2.0 s left" in stream.getvalue()) == shown
