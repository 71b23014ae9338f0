"""Functions that format numbers as text, for both the terminal and the HTML page."""

from __future__ import annotations

import math

__all__ = ["memory", "percent", "seconds", "significant"]


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
    >>> significant(0.0093632), significant(1234.5), significant(0.0)
    ('0.00936', '1234', '0')
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = f"{value:.{digits - 1}e}"
    if abs(value) < 1e-5:
        return rounded
    # The exponent is taken after rounding, because 99.96 with three digits is written 100, not 100.0.
    return f"{value:.{max(0, digits - 1 - int(rounded.partition('e')[2]))}f}"


def seconds(value: float) -> str:
    """Return a duration in seconds as text, in milliseconds if it is below 0.1 s.

    Examples
    --------
    >>> seconds(0.00354), seconds(0.1234), seconds(12.34)
    ('3.5 ms', '0.12 s', '12.3 s')
    """
    if value < 0.1:
        return f"{significant(1000 * value, 2)} ms"
    return f"{value:.1f} s" if value >= 10 else f"{value:.2f} s"


def memory(n_bytes: int) -> str:
    """Return a number of bytes as text in megabytes (10^6 bytes).

    Examples
    --------
    >>> memory(21_884_051)
    '21.9 MB'
    """
    return f"{n_bytes / 1e6:.1f} MB"
