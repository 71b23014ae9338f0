"""Passes: rows add up over passes and runs, and the last report says that it is the last."""

from mercer.engines import Progress
from mercer.engines.passes import Passes


def test_rows_add_up_over_runs_and_the_end_is_reported():
    told = []
    passes = Passes(told.append)
    for number in (1, 2, 3):
        passes.tell(10, number)
    for number in (1, 2):  # another start
        passes.tell(10, number)
    passes.end()
    assert [p.rows for p in told] == [10, 20, 30, 40, 50, 50]
    assert [p.total for p in told] == [None] * 5 + [50]
    assert [p.seconds for p in told] == sorted(p.seconds for p in told)


def test_progress_need_not_be_reported():
    passes = Passes(None)
    passes.tell(10, 1)
    passes.end()
    assert passes.within is None
    passes.done(10)
    assert passes.count == 2


def test_long_passes_are_reported_with_number_and_note():
    told = []
    passes = Passes(told.append)
    for note in ("", "loss 3", ""):
        for rows in (4, 8, 10):
            passes.within(Progress(rows, 10, 0.5 * rows))
        passes.done(10, note)
    assert [(one.rows, one.note) for one in told] == [
        *((rows, "pass 1") for rows in (4, 8, 10)),
        *((rows, "pass 2") for rows in (4, 8)),
        (10, "pass 2, loss 3"),
        *((rows, "pass 3, loss 3") for rows in (4, 8, 10)),
    ]
    assert all(one.total == 10 for one in told)
    assert [one.seconds for one in told if one.rows < 10] == [2.0, 4.0] * 3


def test_a_pass_is_over_at_the_rows_it_read_though_fewer_count():
    told = []
    passes = Passes(told.append)
    for rows in (4, 10):
        passes.within(Progress(rows, 10, 0.5))
    passes.done(3)
    passes.done(3)  # without an earlier report
    assert [(one.rows, one.total) for one in told] == [(4, 10), (10, 10), (3, 3)]
