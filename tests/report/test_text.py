"""Tables in a terminal or a file, and the sentences below them."""

import io
from dataclasses import replace

import pytest

from mercer.diagnostics.environment import describe_environment
from mercer.report import numbers, sentences
from mercer.report.text import print_demo, print_environment, progress_bar


def written(function, value):
    file = io.StringIO()
    function(value, file)
    return file.getvalue()


def test_table_has_a_row_per_contender_and_is_plain_text_in_a_file(demo):
    text = written(print_demo, replace(demo, races=()))
    for one in demo.contenders:
        (row,) = (line for line in text.splitlines() if line.strip().startswith(one.name))
        assert numbers.percent(one.accuracy) in row
        assert numbers.memory(one.peak_bytes) in row
    assert "\x1b" not in text
    assert "random_state=0" in text
    assert max(map(len, text.splitlines())) <= 100


def test_race_is_shown_before_the_maps(demo):
    text = written(print_demo, demo)
    (race,) = demo.races
    for one in race.runners:
        (row,) = (line for line in text.splitlines() if one.name in line and one.library in line)
        assert f"{one.score:.3f}" in row
    assert text.index("diabetes, R2") < text.index("Feature maps")
    assert "highest score, alone or with others, on" in sentences.race_headline(demo)
    assert "race" not in written(print_demo, replace(demo, races=()))


def test_headline_has_the_ranges_of_accuracies_and_errors(demo):
    sentence = sentences.headline(demo)
    assert "With 32 components each, all four maps classify" in sentence
    assert f"of {demo.split.n_test} test digits" in sentence
    assert numbers.significant(max(one.audit.rmse for one in demo.contenders), 2) in sentence


def test_caveat_mentions_times_that_vary(demo):
    calm = [replace(one, fit_seconds_slowest=1.5 * one.fit_seconds) for one in demo.contenders]
    assert "busy" not in sentences.caveat(replace(demo, contenders=tuple(calm)))
    calm[2] = replace(calm[2], fit_seconds_slowest=2.5 * calm[2].fit_seconds)
    assert "the machine was busy" in sentences.caveat(replace(demo, contenders=tuple(calm)))


def test_environment_lists_versions_threads_and_extras():
    environment = replace(describe_environment(), extras={"io": {"pyarrow": None}})
    text = written(print_environment, environment)
    assert environment.mercer in text
    assert environment.packages["numpy"] in text
    assert "pyarrow not installed" in text
    assert f"{environment.threads} of {environment.cpu_count} processors" in text


@pytest.mark.parametrize("compiled", [True, False])
def test_missing_compiled_kernels_are_reported_with_a_remedy(compiled):
    name = "avx2" if compiled else "numpy"
    environment = replace(describe_environment(), compiled=compiled, instruction_set=name)
    text = written(print_environment, environment)
    assert ("compiled, avx2" in text) == compiled
    assert ("NumPy is used instead" in text and "Install a C++ compiler" in text) == (not compiled)


def test_progress_is_drawn_only_on_a_terminal(monkeypatch, capsys):
    with progress_bar() as progress:
        assert progress is None
    assert capsys.readouterr() == ("", "")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with progress_bar() as progress:
        progress(1, 2, "halfway there")
    out, err = capsys.readouterr()
    assert out == ""
    assert "halfway there" in err


@pytest.mark.parametrize(
    ("write", "value", "text"),
    [
        (numbers.percent, 1.0, "100.0 %"),
        (numbers.significant, 99.96, "100"),
        (numbers.significant, 3e-7, "3.00e-07"),
        (numbers.significant, float("inf"), "inf"),
        (numbers.seconds, 0.0999, "100 ms"),
        (numbers.seconds, 59.96, "60.0 s"),
        (numbers.memory, 0, "0.0 MB"),
        (numbers.memory, 999_999_999, "1000.0 MB"),
        (numbers.seconds, 120.4, "120.4 s"),
        (numbers.seconds, 121.0, "2 min 1 s"),
        (numbers.significant, 12345.6, "12,346"),
        (numbers.significant, 1e20, "1.00e+20"),
        (numbers.of_one, 0.995, "0.995"),
        (numbers.of_one, float("nan"), "not defined"),
    ],
)
def test_numbers_at_the_limits_of_their_formats(write, value, text):
    assert write(value) == text
