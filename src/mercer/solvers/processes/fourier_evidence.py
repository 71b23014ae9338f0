"""Log marginal likelihood (evidence) of a sample of rows on random features, as a function of the lengthscales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mercer.engines import Block
from mercer.features import Features, features_of
from mercer.solvers.processes.evidence import Evidence, Scales
from mercer.solvers.processes.lengthscales import LengthscaleGradient
from mercer.solvers.ridge.least_squares import Spectrum
from mercer.statistics.moments import Moments, TargetMoments

__all__ = ["FourierEvidence"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class FourierEvidence:
    """The log marginal likelihood of a sample of rows on random features of a shift-invariant kernel.

    The random parameters of the features are fixed, so that the log marginal likelihood is a smooth function of the
    lengthscales. The methods are those of `GramEvidence`, which uses the exact kernel.
    """

    features: Features  # `lengthscales` is not None
    rows: Array  # (m, d)
    targets: Array  # (m, t), centered if the model has a mean
    weight: Array  # (m,)
    repeated: bool = True  # whether weights are repetitions of rows; otherwise they are precisions of their noise

    def _at(self, log_scales: Array) -> tuple[Features, Spectrum]:
        assert self.features.lengthscales is not None
        features = self.features.lengthscales.multiplied(np.exp(log_scales))
        Z = features_of(features, self.rows)
        moments = Moments(Z.T @ (Z * self.weight[:, None]), TargetMoments.of(Z, self.targets, self.weight))
        return features, Spectrum.of(moments, centered=False)

    def _evidence(self, spectrum: Spectrum) -> Evidence:
        return Evidence(spectrum, None if self.repeated else float(len(self.weight)))

    def __call__(self, log_scales: Array, log_noise: Array, log_amplitude: Array) -> tuple[float, Array, Array, Array]:
        """Return the log marginal likelihood and its derivatives with respect to all arguments.

        The arguments and results are those of `GramEvidence.__call__`.
        """
        features, spectrum = self._at(log_scales)
        scales, evidence = Scales(np.exp(log_noise), np.exp(log_amplitude)), self._evidence(spectrum)
        in_noise, in_amplitude = evidence.gradient(scales)
        in_scales = LengthscaleGradient(features, spectrum, scales)(Block(0, self.rows, self.targets, self.weight))
        return float(evidence.value(scales).sum()), in_scales, in_noise, in_amplitude

    def best(self, log_scales: Array, noise: float | None, amplitude: float | None) -> tuple[float, Scales]:
        """Maximize the log marginal likelihood over noise and amplitude, for fixed lengthscales.

        Arguments and results are those of `GramEvidence.best`.
        """
        evidence = self._evidence(self._at(log_scales)[1])
        scales = evidence.best(noise, amplitude)
        return float(evidence.value(scales).sum()), scales
