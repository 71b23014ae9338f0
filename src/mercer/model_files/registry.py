"""The classes and functions that a model file can hold: a closed table.

A file names a class by a short name, the key of this table, and the module comes from the table: no name of a file is
ever imported. A class that becomes a part of fitted models needs an entry here, and a test fails until it has one.
Entries are not removed, and names do not change: files with them exist.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

__all__ = ["CLASSES", "FUNCTIONS", "UPGRADES", "class_of", "name_of"]

# The names of classes, by the module that defines them. The module may change, the names must not.
_TABLE: dict[str, str] = {
    # Kernels.
    "kernels.algebra": "Composed Constant Product Scaled Sum Transformed",
    "kernels.arc_cosine": "ArcCosine",
    "kernels.deformed": "DeformedKernel",
    "kernels.dot_product": "DotProduct ExponentialDotProduct Geometric Polynomial",
    "kernels.histogram": "Chi2 Hellinger Intersection JensenShannon Min",
    "kernels.isotropic": "Gaussian Matern RationalQuadratic",
    "kernels.separable": "Cauchy Laplacian",
    "kernels.spectral": "Affine FrozenMatrix",
    "kernels.values.precomputed": "Precomputed",
    # Maps, and what they draw.
    "maps.algebra.composition": "CompositionFeatures CompositionMap",
    "maps.algebra.copies": "MixedFeatures ShuffledFeatures",
    "maps.algebra.joined": "KroneckerFeatures MultipliedFeatures PairedFeatures StackedFeatures",
    "maps.algebra.product_map": "ProductMap",
    "maps.algebra.sum_map": "SumMap",
    "maps.fourier.frequency_grids": "GridFeatures GridPart Summand",
    "maps.fourier.grid_fourier": "GridFourier",
    "maps.fourier.projections": "ButterflyProjection DenseProjection HadamardProjection Rotations",
    "maps.fourier.random_fourier": "RandomFourier TrigFeatures",
    "maps.fourier.resampled": "ResampledFourier",
    "maps.fourier.spherical_radial": "QuadratureFeatures SphericalRadial",
    "maps.histogram.homogeneous": "HomogeneousFeatures LogarithmicFeatures",
    "maps.histogram.indicators": "IndicatorFeatures Indicators",
    "maps.histogram.thresholds": "ThresholdFeatures",
    "maps.landmarks.features": "LandmarkFeatures LandmarkValues",
    "maps.landmarks.nystroem": "Nystroem",
    "maps.neurons.expansion": "Expansion",
    "maps.neurons.features": "NeuronFeatures",
    "maps.neurons.random_neurons": "RandomNeurons",
    "maps.series.anchored": "AnchoredComponents",
    "maps.series.components": "MaclaurinFeatures SeriesComponents",
    "maps.series.inputs": "Preparation",
    "maps.series.monomials": "Monomials",
    "maps.series.plans": "DegreeDistribution Plan Stratum",
    "maps.series.polynomial_sketch": "PolynomialFeatures PolynomialSketch",
    "maps.series.projection_products": "ComplexProducts DenseProducts HadamardProducts SummedProducts",
    "maps.series.random_maclaurin": "RandomMaclaurin",
    "maps.series.tensor_sketch": "CountSketch SketchFeatures TensorSketch",
    # Graphs.
    "graphs.base": "GraphSummary Nodes Penalty",
    "graphs.basis.extension": "GraphFeatures Neighborhood",
    "graphs.basis.graph_basis": "GraphBasis",
    "graphs.basis.kernel": "GraphKernel",
    "graphs.deformed": "Deformed",
    "graphs.feature_graph": "FeatureGraph FeatureLaplacian FeatureMoments",
    "graphs.laplacian": "GraphLaplacian",
    "graphs.laplacian_graph": "GivenGraph",
    "graphs.neighbor_graph": "NeighborGraph",
    "graphs.positive_features": "PositiveFeatures",
    "graphs.whitening": "LowRankFeatures WhitenedFeatures",
    # Choices of maps, and learned metrics.
    "choice.feature_map": "FeatureMap",
    "choice.table": "MapChoice",
    "choice.trials": "MapTrial=Trial",
    "metric.features": "MetricFeatures",
    "metric.inputs": "MetricInputs",
    "metric.learned_metric": "LearnedMetric",
    "metric.rounds": "MetricRound MetricRounds",
    "metric.scaled_columns": "ScaledColumns",
    # Targets, sums over rows, and what solvers return.
    "data.targets": "Ignored Labels Numbers",
    "linalg.row_search": "PackedRows",
    "neighbors.dense": "DenseIndex",
    "neighbors.sparse": "SparseIndex",
    "solvers.clusters.exact": "ExactClusters",
    "solvers.clusters.lloyd": "FeatureClusters",
    "solvers.clusters.mini_batch": "RunningMeans",
    "solvers.few_labels.selection": "Selected Setting",
    "solvers.laplace.posterior": "LabelPosterior",
    "solvers.local.metric_search": "MetricTrial",
    "solvers.grid.posterior": "GridPosterior",
    "solvers.grid.systems": "DenseGram System ToeplitzGram",
    "solvers.grid.tuning": "GridTrial",
    "solvers.grid.variance": "RowVariances",
    "solvers.local.near_fit": "LocalFit PartScore",
    "solvers.local.near_kernel": "NearKernel",
    "solvers.local.near_logits": "CodeResiduals",
    "solvers.local.near_model": "GlobalPart LeftOut NearModel NearProblem",
    "solvers.local.near_rows": "Copies NearRows",
    "solvers.losses.path": "LossPath",
    "solvers.neighbor_processes.posterior": "NeighborPosterior",
    "solvers.processes.evidence": "Scales",
    "solvers.processes.intervals": "StandardizedErrors Student",
    "solvers.processes.posterior": "Posterior Representers",
    "solvers.processes.tuning": "LengthscaleTrial=Trial",
    "solvers.ridge.least_squares": "Spectrum",
    "solvers.ridge.paths": "RidgePath",
    "statistics.distinct": "DistinctRows",
    "statistics.feature_cache": "RowFeatures",
    "statistics.grid_sums": "GridSums TargetScale",
    "statistics.moments": "Moments TargetMoments",
    "statistics.sample": "RowSample",
    # Tables.
    "tables.column_functions": "Components PlainColumns RampColumns RankedColumns",
    "tables.column_scaler": "ColumnScaler",
    "tables.encoders": "CategoryColumn DateColumn DroppedColumn NumberColumn ScaledNumbers",
    "tables.preprocessor": "ColumnSummary TablePreprocessor UnseenCategories",
    # Learners.
    "learners.deformed_search": "DeformedSearchCV",
    "learners.few_labels": "FewLabelClassifier",
    "learners.glm": "KernelLogisticRegression KernelSVC",
    "learners.kmeans": "KernelKMeans",
    "learners.local_correction": "LocalCorrection",
    "learners.pca": "KernelPCA ScoresToRows",
    "learners.processes.classifier": "GaussianProcessClassifier",
    "learners.processes.regressor": "GaussianProcessRegressor",
    "learners.processes.grid": "GridGaussianProcessRegressor",
    "learners.ridge": "KernelRidge KernelRidgeClassifier",
    "automatic.models": "FittedMember KernelClassifier KernelRegressor",
    "automatic.search": "Found Member",
    "automatic.trials": "Trial Trials",
    "model_files.encoding": "NotStored",
}


def _classes() -> dict[str, tuple[str, str]]:
    found: dict[str, tuple[str, str]] = {"Pipeline": ("sklearn.pipeline", "Pipeline")}
    for module, names in _TABLE.items():
        for entry in names.split():
            name, _, attribute = entry.partition("=")
            if name in found:
                msg = f"two classes of model files are named {name}: write NewName={name} for the second one"
                raise ValueError(msg)
            found[name] = (f"mercer.{module}", attribute or name)
    return found


#: Module and name of each class, by its name in files.
CLASSES = _classes()
_NAMES = {place: name for name, place in CLASSES.items()}
#: Functions that are parts of fitted models, by their names in files.
FUNCTIONS: dict[str, Any] = {"numpy.subtract": np.subtract}
#: Functions from the attributes of an instance in a file to those of the next format, by the name of the class and the
#: format of the file. A field or parameter that is renamed needs an entry; one that is added needs a default only.
UPGRADES: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}


@cache
def class_of(name: str) -> type | None:
    """Return the class with a name in files, or None if the table has no such name.

    Examples
    --------
    >>> class_of("Gaussian")
    <class 'mercer.kernels.isotropic.Gaussian'>
    >>> class_of("os.system") is None
    True
    """
    if name not in CLASSES:
        return None
    module, attribute = CLASSES[name]
    found: type = getattr(importlib.import_module(module), attribute)
    return found


def name_of(cls: type) -> str | None:
    """Return the name of a class in files, or None if files cannot hold its instances."""
    return _NAMES.get((cls.__module__, cls.__qualname__))
