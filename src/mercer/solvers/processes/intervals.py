r"""Intervals of new targets, and their density, from standardized leave-one-out errors.

Errors of real data are rarely normally distributed. Divided by their standard deviations, those of left-out rows have
the distribution that errors of new rows have, so their quantiles give intervals with the right coverage, and a Student
distribution that is fitted to them gives a density with tails that are as heavy as those of the errors.

`interval` dispatches to the methods by name. A further method is a function with the signature of `calibrated`, and an
entry of `METHODS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from mercer.errors import ParameterError

__all__ = ["METHODS", "StandardizedErrors", "interval", "quantile_of_sorted"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class StandardizedErrors:
    """Absolute leave-one-out errors of rows, divided by the standard deviations of a new target, in ascending order."""

    ratios: tuple[Array, ...]  # one array (n,) per column of targets, ascending
    weights: tuple[Array, ...]  # numbers of repetitions (n,) of each of them

    @classmethod
    def of(cls, ratios: list[Array], weights: list[Array]) -> StandardizedErrors:
        """Return sorted errors, given absolute errors divided by their standard deviations, and their weights."""
        orders = [np.argsort(values, kind="stable") for values in ratios]
        return cls(
            tuple(values[order] for values, order in zip(ratios, orders, strict=True)),
            tuple(values[order] for values, order in zip(weights, orders, strict=True)),
        )

    def quantiles(self, level: float) -> Array:
        """Return the factors (t,) of standard deviations at which intervals contain this share of new targets."""
        pairs = zip(self.ratios, self.weights, strict=True)
        return np.array([quantile_of_sorted(ratios, weight, level) for ratios, weight in pairs])


def quantile_of_sorted(ratios: Array, weight: Array, level: float) -> float:
    """Return the factor of standard deviations at which an interval contains a share of new targets.

    A new error is as likely to have any rank among the left-out ones, so the factor is the error of rank
    ``level * (n + 1)``. If there are too few errors for that rank, it is the largest of them, or the quantile of the
    normal distribution if that is larger.
    """
    normal = float(special.ndtri(0.5 + level / 2))
    below = np.cumsum(weight)
    if not len(ratios) or not below[-1] > 0:
        return normal
    rank = level * (1 + 1 / max(len(ratios), below[-1])) * below[-1] * (1 - 1e-12)
    index = int(np.searchsorted(below, rank))
    if index < len(ratios):
        return float(ratios[index])
    return max(float(ratios[-1]), normal)


def calibrated(posterior: Any, X: Any, mean: Array, std: Array, level: float) -> Array:  # noqa: ARG001 - the contract
    """Return intervals (n, t, 2) around predictions; see `interval` for the parameters.

    Their half-widths are the standard deviations of a new target times the quantile of the absolute standardized
    leave-one-out errors.
    """
    if posterior.errors is None:
        msg = (
            "Intervals with method='calibrated' need leave-one-out errors, which this model has not: it was saved by "
            "an earlier version. Fit it again."
        )
        raise ParameterError(msg)
    half = std * posterior.errors.quantiles(level)
    return np.stack([mean - half, mean + half], axis=-1)


#: Methods by name: functions with the parameters of `calibrated`.
METHODS: dict[str, Callable[[Any, Any, Array, Array, float], Array]] = {"calibrated": calibrated}


def interval(posterior: Any, X: Any, mean: Array, std: Array, level: float, method: str) -> Array:
    """Return the lower and upper ends (n, t, 2) of intervals that contain new targets with a given probability.

    Parameters
    ----------
    posterior : object
        The posterior of a process. Its attribute `errors` are the `StandardizedErrors` of the rows of the fit.
    X : ndarray or CSR of shape (n, d)
        Validated rows.
    mean, std : ndarray of shape (n, t)
        Means and standard deviations of new targets.
    level : float
        The probability.
    method : str
        A key of `METHODS`.
    """
    return METHODS[method](posterior, X, mean, std, level)
