"""Time, memory and progress of workflows."""

import sys

import numpy as np
import pytest

from mercer.engines import Progress
from mercer.workflows.resources import Deadline, PeakMemory, Steps, available_bytes, processor_share


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def test_deadline():
    clock = Clock()
    limited, unlimited = Deadline(10, clock), Deadline(None, clock)
    clock.now = 4
    assert limited.left == 6
    assert unlimited.left == float("inf")
    clock.now = 20
    assert limited.left == 0


def test_the_time_left_is_that_of_all_steps():
    clock, seen = Clock(), []
    with Steps("test", seen.append, clock) as steps:
        steps.expect({"read": 10, "fit": 40, "write": 50})
        with steps.step("read"):
            clock.now = 2
            steps.advance(None)
            assert seen[-1].seconds_left == pytest.approx(8 + 90)
            clock.now = 5
            steps.advance(0.5)
            assert seen[-1].seconds_left == pytest.approx(5 + 90)
            clock.now = 10
        with steps.step("fit") as inner:
            clock.now = 20  # a quarter of it took 10 seconds, not what was expected
            inner(Progress(0, None, 0.0, stage="search", fraction=0.25))
            assert seen[-1].seconds_left == pytest.approx(30 + 50)
            assert (seen[-1].stage, seen[-1].note) == ("fit", "search")
            clock.now = 50
        steps.expect({"write": 1})
        with steps.step("write"):
            steps.advance(0.0)
            assert seen[-1].seconds_left == pytest.approx(1)
    assert steps.seconds == {"read": 10, "fit": 40, "write": 0}


def test_a_step_with_a_time_limit_goes_by_time():
    clock, seen = Clock(), []
    steps = Steps("test", seen.append, clock)
    steps.expect({"fit": 10})
    with steps.step("fit", 10) as inner:
        clock.now = 2
        inner(Progress(0, None, 0.0, fraction=0.9))
    assert seen[-1].fraction == pytest.approx(0.2)


def test_without_progress_there_is_no_report():
    steps = Steps("test", False)
    with steps.step("fit") as inner:
        assert inner is None
        steps.advance(0.5)


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is reset on Linux only")
def test_peak_memory_is_that_of_the_block():
    with PeakMemory() as large:
        np.ones(30_000_000).sum()
    with PeakMemory() as small:
        np.ones(1000).sum()
    assert 200e6 < large.added < 320e6
    assert small.added < 100e6
    assert PeakMemory.overall > 240e6


def test_share_of_the_processors():
    assert 0.1 <= processor_share(1, 0.05) <= 1
    assert processor_share(1000, 0.05) == 0.1  # no machine gives so many threads a processor each


def test_available_memory():
    assert available_bytes(10**15) > 9 * 10**14
    assert available_bytes(1) == 0
    assert available_bytes(None) > 0
