import pytest
import typer

from mercer.cli.options import parse_bytes, parse_lengthscale, parse_seconds


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1GB", 10**9),
        ("1 gb", 10**9),
        ("1GiB", 2**30),
        ("512M", 512 * 10**6),
        ("1.5kB", 1500),
        ("2e9", 2 * 10**9),
        (7, 7),
    ],
)
def test_sizes(text, expected):
    assert parse_bytes(text) == expected


@pytest.mark.parametrize("text", ["", "GB", "-1GB", "1XB", "1.2.3GB", "0", "nan", "1e400", "ten"])
def test_wrong_sizes_are_refused(text):
    with pytest.raises(typer.BadParameter, match="is not a size"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("90", 90), ("1.5", 1.5), ("10m", 600), ("1h30m", 5400), ("2min", 120), ("1 h", 3600)],
)
def test_durations(text, expected):
    assert parse_seconds(text) == expected


@pytest.mark.parametrize("text", ["", "m", "-5", "3q", "0", "1:30", "1..5", "h1"])
def test_wrong_durations_are_refused(text):
    with pytest.raises(typer.BadParameter, match=r"is not a duration|longer than 0"):
        parse_seconds(text)


def test_lengthscales():
    assert parse_lengthscale("Median") == "median"
    assert parse_lengthscale("0.5") == 0.5
    for wrong in ("0", "-1", "inf", "x"):
        with pytest.raises(typer.BadParameter):
            parse_lengthscale(wrong)
