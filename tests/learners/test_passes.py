"""Passes: rows add up over passes and runs, and the last report says that it is the last."""

from mercer.learners.passes import Passes


def test_rows_add_up_over_runs_and_the_end_is_told():
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


def test_nobody_needs_to_listen():
    passes = Passes(None)
    passes.tell(10, 1)
    passes.end()
