"""Functions that format numbers as text, for both the terminal and the HTML page."""

from __future__ import annotations

import math

__all__ = ["interval", "memory", "percent", "seconds", "significant"]


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


def interval(bounds: tuple[float, float]) -> str:
    """Return an interval as text. The upper end has at least two significant digits, the lower end as many decimals.

    Examples
    --------
    >>> interval((0.00893, 0.01077)), interval((0.000643, 0.000736))
    ('0.009–0.011', '0.00064–0.00074')
    """
    low, high = bounds
    decimals = 0 if high == 0 else max(0, 1 - math.floor(math.log10(abs(high))))
    return f"{low:.{decimals}f}–{high:.{decimals}f}"  # noqa: RUF001 - a range is written with an en dash


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
