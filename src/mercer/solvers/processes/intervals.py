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

__all__ = ["METHODS", "StandardizedErrors", "Student", "fit_student", "interval", "log_densities", "quantile_of_sorted"]

Array = np.ndarray
# Degrees of freedom that are compared; infinity is the normal distribution. Steps of 12 % change the density by less
# than its standard error.
DEGREES = (np.inf, *np.geomspace(100.0, 1.0, 41).tolist())
# Number of iterations for the width of a Student distribution, from that of the previous degrees of freedom on.
FIXED_POINTS = 6


@dataclass(frozen=True)
class Student:
    """A Student distribution that is fitted to standardized errors.

    Attributes
    ----------
    dof : float
        Degrees of freedom; infinity means the normal distribution.
    width : float
        Factor of the standard deviations, which is not the standard deviation of the distribution.
    log_density : float
        Weighted mean of the log density of the errors.
    """

    dof: float
    width: float
    log_density: float

    def log_densities(self, ratios: Array) -> Array:
        """Return the log density of errors divided by their standard deviations."""
        return student_densities(np.asarray(ratios) / self.width, self.dof) - np.log(self.width)


def student_densities(values: Array, dof: float) -> Array:
    """Return the log density of the Student distribution, or of the normal distribution if `dof` is infinite."""
    if not np.isfinite(dof):
        return -0.5 * (np.square(values) + np.log(2 * np.pi))
    constant = special.gammaln((dof + 1) / 2) - special.gammaln(dof / 2) - 0.5 * np.log(np.pi * dof)
    return np.asarray(constant - (dof + 1) / 2 * np.log1p(np.square(values) / dof))


def fit_student(ratios: Array, weight: Array) -> Student:
    """Fit a Student distribution to absolute standardized errors, by the highest density times a prior.

    Degrees of freedom have a gamma prior of shape 2 and rate 0.1 (Juarez, Steel 2010), which matters for few errors
    only, and are chosen from a grid. The width has a closed form at each of them, as a fixed point.
    """
    if not len(ratios) or not (ratios > 0).any():
        return Student(np.inf, 1.0, float(np.log(1 / np.sqrt(2 * np.pi))))
    squares, share = np.square(ratios), weight / weight.sum()
    width = float(np.sqrt(share @ squares))  # that of the normal distribution
    found = []
    for dof in DEGREES:
        if np.isfinite(dof):
            for _ in range(FIXED_POINTS):  # the iteration of an EM algorithm
                width = float(np.sqrt(share @ (squares * (dof + 1) / (dof + squares / width**2))))
        density = float(share @ student_densities(ratios / width, dof)) - float(np.log(width))
        prior = np.log(dof) - 0.1 * dof if np.isfinite(dof) else np.log(DEGREES[1]) - 0.1 * DEGREES[1]
        found.append((density + prior / weight.sum(), Student(dof, width, density)))
    return max(found, key=lambda entry: entry[0])[1]


@dataclass(frozen=True, eq=False)
class StandardizedErrors:
    """Absolute leave-one-out errors of rows, divided by the standard deviations of a new target, in ascending order."""

    ratios: tuple[Array, ...]  # one array (n,) per column of targets, ascending
    weights: tuple[Array, ...]  # numbers of repetitions (n,) of each of them
    students: tuple[Student, ...]  # the distribution that is fitted to them, one per column of targets

    @classmethod
    def of(cls, ratios: list[Array], weights: list[Array]) -> StandardizedErrors:
        """Return sorted errors, given absolute errors divided by their standard deviations, and their weights."""
        orders = [np.argsort(values, kind="stable") for values in ratios]
        return cls(
            tuple(values[order] for values, order in zip(ratios, orders, strict=True)),
            tuple(values[order] for values, order in zip(weights, orders, strict=True)),
            tuple(fit_student(*pair) for pair in zip(ratios, weights, strict=True)),
        )

    def quantiles(self, level: float) -> Array:
        """Return the factors (t,) of standard deviations at which intervals contain this share of new targets."""
        pairs = zip(self.ratios, self.weights, strict=True)
        return np.array([quantile_of_sorted(ratios, weight, level) for ratios, weight in pairs])

    def log_densities(self, errors: Array, std: Array) -> Array:
        """Return the log densities (n, t) of targets, given errors and standard deviations of predictions (n, t)."""
        columns = [student.log_densities(errors[:, t] / std[:, t]) for t, student in enumerate(self.students)]
        return np.stack(columns, axis=1) - np.log(std)


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
    half = std * errors_of(posterior).quantiles(level)
    return np.stack([mean - half, mean + half], axis=-1)


def log_densities(posterior: Any, errors: Array, std: Array) -> Array:
    """Return the log densities (n, t) of new targets, given errors and standard deviations of predictions (n, t)."""
    return errors_of(posterior).log_densities(errors, std)


def errors_of(posterior: Any) -> StandardizedErrors:
    """Return the leave-one-out errors of a posterior; raise if it has none."""
    errors: StandardizedErrors | None = posterior.errors
    if errors is None:
        msg = (
            "Calibrated intervals and densities need leave-one-out errors, which this model has not: it was saved by "
            "an earlier version. Fit it again."
        )
        raise ParameterError(msg)
    return errors


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
