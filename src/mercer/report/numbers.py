"""Functions that format numbers as text, for both the terminal and the HTML page."""

from __future__ import annotations

import math

__all__ = ["count", "memory", "of_one", "percent", "seconds", "significant"]


def percent(fraction: float, digits: int = 1) -> str:
    """Return a fraction as a percentage.

    Examples
    --------
    >>> percent(0.98444)
    '98.4 %'
    """
    return f"{100 * fraction:.{digits}f} %"


def significant(value: float, digits: int = 3) -> str:
    """Return a number as text with `digits` significant digits, in exponent notation only if it is below 1e-5.

    Examples
    --------
    >>> significant(0.0093632), significant(1234.5), significant(0.0), significant(44828.1)
    ('0.00936', '1234', '0', '44,828')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    if abs(value) >= 10_000:
        return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.{digits - 1}e}"
    rounded = f"{value:.{digits - 1}e}"
    if abs(value) < 1e-5:
        return rounded
    # The exponent is taken after rounding, because 99.96 with three digits is written 100, not 100.0.
    return f"{value:.{max(0, digits - 1 - int(rounded.partition('e')[2]))}f}"


def seconds(value: float) -> str:
    """Return a duration in seconds as text, in milliseconds if it is below 0.1 s, in minutes if it is above 120 s.

    Examples
    --------
    >>> seconds(0.00354), seconds(0.1234), seconds(12.34), seconds(312)
    ('3.5 ms', '0.12 s', '12.3 s', '5 min 12 s')
    """
    if round(value) > 120:
        return f"{round(value) // 60} min {round(value) % 60} s"
    if value < 0.1:
        return f"{significant(1000 * value, 2)} ms"
    return f"{value:.1f} s" if value >= 10 else f"{value:.2f} s"


def memory(n_bytes: int) -> str:
    """Return a number of bytes as text in megabytes (10^6 bytes), or gigabytes above 1000 of them.

    Examples
    --------
    >>> memory(21_884_051), memory(2_188_405_100)
    ('21.9 MB', '2.19 GB')
    """
    return f"{n_bytes / 1e6:.1f} MB" if n_bytes < 1e9 else f"{n_bytes / 1e9:.2f} GB"


def count(number: int) -> str:
    """Return an integer with separated thousands.

    Examples
    --------
    >>> count(1234567)
    '1,234,567'
    """
    return f"{number:,}"


def of_one(value: float, digits: int = 2, *, as_percent: bool = False) -> str:
    """Return a score of which one is the best, with `digits` decimals, and more if it is so near to one.

    Examples
    --------
    >>> of_one(0.8412), of_one(0.99943), of_one(0.8412, as_percent=True), of_one(-0.2), of_one(1.0)
    ('0.84', '0.9994', '84 %', '-0.20', '1.00')
    """
    if not math.isfinite(value):
        return "not defined"
    missing = 1 - value
    places = digits if not 1e-9 < missing < 1 else max(digits, digits - 2 + math.ceil(-math.log10(missing / 5)))
    return f"{100 * value:.{places - 2}f} %" if as_percent else f"{value:.{places}f}"
