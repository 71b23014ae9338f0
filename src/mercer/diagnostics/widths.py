"""The error of a map at other numbers of components: predicted from a closed form, or from errors at several widths."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.special import stdtrit

from mercer.errors import ParameterError

__all__ = ["ErrorModel", "KnownShape", "PowerLaw", "WidthErrors", "power_law"]

# Largest number of components for which a closed form is evaluated, which needs a map of this width. Beyond, the error
# is taken to fall as one over the square root.
LARGEST_WIDTH = 2**14
# Largest number of components that `components_for` returns.
MOST_COMPONENTS = 2**40
LEVEL = 0.95


@dataclass(frozen=True)
class WidthErrors:
    """Root mean squared errors of several draws of a map with the same number of components."""

    n_components: int
    rmse: tuple[float, ...]  # one per draw


class ErrorModel(ABC):
    """Base class of predictions of the error at any number of components."""

    #: How the prediction is made, as a phrase.
    method: str

    @abstractmethod
    def predict(self, n_components: float) -> float:
        """Return the predicted root mean squared error."""

    @abstractmethod
    def interval(self, n_components: int) -> tuple[float, float] | None:
        """Return a 95 % interval for the error of a new draw, or None if none can be given."""

    @abstractmethod
    def components_for(self, tol: float) -> int | None:
        """Return the least number of components with a predicted error <= `tol`, or None if there is none."""


@dataclass(frozen=True)
class KnownShape(ErrorModel):
    """Error whose dependence on the width is known: from a closed form, or as one over the square root.

    `shape` returns the predicted error. `measured` are errors of several draws, if any, from which an interval for a
    new draw is computed: the logarithm of measured over predicted error is taken to be normal, with a variance that
    does not depend on the width. For independent components, D times the mean squared error of a draw converges in
    distribution as the width D grows, so that this holds for all but small widths.
    """

    method: str
    shape: Callable[[int], float]
    measured: tuple[WidthErrors, ...] = ()
    _known: dict[int, float] = field(default_factory=dict, compare=False, repr=False)

    def predict(self, n_components: float) -> float:
        width = int(n_components)
        nearest = min(width, LARGEST_WIDTH)
        if nearest not in self._known:
            self._known[nearest] = self.shape(nearest)
        return self._known[nearest] * math.sqrt(nearest / width)

    def interval(self, n_components: int) -> tuple[float, float] | None:
        ratios = [
            math.log(error / self.predict(one.n_components))
            for one in self.measured
            for error in one.rmse
            if error > 0 and self.predict(one.n_components) > 0
        ]
        if len(ratios) < 2:
            return None
        mean, spread, n = float(np.mean(ratios)), float(np.std(ratios, ddof=1)), len(ratios)
        margin = float(stdtrit(n - 1, (1 + LEVEL) / 2)) * spread * math.sqrt(1 + 1 / n)
        center = self.predict(n_components)
        return center * math.exp(mean - margin), center * math.exp(mean + margin)

    def components_for(self, tol: float) -> int | None:
        low, high = 0, 1
        while self.predict(high) > tol:
            low, high = high, 2 * high
            if high > MOST_COMPONENTS:
                return None
        while high - low > max(1, low // 256):  # each step may draw a map
            middle = (low + high) // 2
            low, high = (low, middle) if self.predict(middle) <= tol else (middle, high)
        return high


@dataclass(frozen=True)
class PowerLaw(ErrorModel):
    """Error c D^-r. An extrapolation of unknown accuracy has no interval."""

    method: str
    log_factor: float  # log c
    rate: float  # r

    def predict(self, n_components: float) -> float:
        return math.exp(self.log_factor - self.rate * math.log(n_components))

    def interval(self, n_components: int) -> tuple[float, float] | None:  # noqa: ARG002 - the signature of the contract
        return None

    def components_for(self, tol: float) -> int | None:
        if self.rate <= 0:
            return 1 if self.predict(1) <= tol else None
        power = (self.log_factor - math.log(tol)) / self.rate
        if power > math.log(MOST_COMPONENTS):
            return None
        # A power that is an integer up to rounding is that integer.
        return max(1, math.ceil(math.exp(power) * (1 - 1e-12)))


def power_law(measured: tuple[WidthErrors, ...], n_components: int, rmse: float, name: str) -> PowerLaw:
    """Return the power law through an error, with the rate of the mean logarithms at the two largest measured widths.

    Errors of landmarks fall faster and faster, or slower and slower, as the width grows, so that errors at smaller
    widths would not improve the prediction.
    """
    points = {one.n_components: [math.log(error) for error in one.rmse if error > 0] for one in measured}
    widths = sorted(width for width, errors in points.items() if errors)[-2:]
    if len(widths) < 2:
        msg = (
            f"audit: the error of {name} at other widths is extrapolated from errors at two different widths, got "
            f"errors above zero at {widths}. Pass widths=(...) with more different numbers of components."
        )
        raise ParameterError(msg)
    (x, y), (small, large) = np.log(widths).tolist(), (float(np.mean(points[width])) for width in widths)
    rate = (small - large) / (y - x)
    method = (
        f"extrapolated from {n_components} components by a power law, of the rate {rate:.2f} between errors at "
        f"{widths[0]} and {widths[1]} components"
    )
    return PowerLaw(method, (math.log(rmse) if rmse > 0 else -math.inf) + rate * math.log(n_components), rate)
