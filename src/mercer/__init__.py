"""Kernel methods at linear cost: explicit feature maps with an error bar, and the learners on top."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mercer.diagnostics.audit import audit
    from mercer.diagnostics.compare import compare
    from mercer.engines import Checkpoint, on_dask
    from mercer.errors import (
        CheckpointError,
        DataError,
        MercerError,
        MercerWarning,
        MissingPackageError,
        NoClosedFormError,
        ParameterError,
        UnsupportedKernelError,
    )
    from mercer.io import open_rows
    from mercer.kernels import (
        ArcCosine,
        Cauchy,
        Chi2,
        Composed,
        Constant,
        DeformedKernel,
        DotProduct,
        Exponential,
        Gaussian,
        Geometric,
        Hellinger,
        Intersection,
        JensenShannon,
        Kernel,
        Laplacian,
        Matern,
        Min,
        Polynomial,
        Product,
        RationalQuadratic,
        Scaled,
        Sum,
        Transformed,
        neural_tangent_kernel,
    )
    from mercer.learners import (
        GaussianProcessRegressor,
        KernelKMeans,
        KernelLogisticRegression,
        KernelPCA,
        KernelRidge,
        KernelRidgeClassifier,
        KernelSVC,
        hsic_test,
        mmd_test,
        tune_deformation,
    )
    from mercer.maps import (
        CompositionMap,
        Deformed,
        FeatureGraph,
        HomogeneousFeatures,
        NeighborGraph,
        Nystroem,
        PolynomialSketch,
        ProductMap,
        RandomFourier,
        RandomMaclaurin,
        RandomNeurons,
        SphericalRadial,
        SumMap,
        TensorSketch,
        ThresholdFeatures,
    )
    from mercer.theory import required_components

__version__ = "0.1.0"

# Each public name and the module that it comes from: imported at first use, so that `import mercer` and the
# command line start at once.
_HOMES = {
    "ArcCosine": "kernels",
    "Cauchy": "kernels",
    "Checkpoint": "engines",
    "CheckpointError": "errors",
    "Chi2": "kernels",
    "Composed": "kernels",
    "CompositionMap": "maps",
    "Constant": "kernels",
    "DataError": "errors",
    "Deformed": "maps",
    "DeformedKernel": "kernels",
    "DotProduct": "kernels",
    "Exponential": "kernels",
    "FeatureGraph": "maps",
    "Gaussian": "kernels",
    "GaussianProcessRegressor": "learners",
    "Geometric": "kernels",
    "Hellinger": "kernels",
    "HomogeneousFeatures": "maps",
    "Intersection": "kernels",
    "JensenShannon": "kernels",
    "Kernel": "kernels",
    "KernelKMeans": "learners",
    "KernelLogisticRegression": "learners",
    "KernelPCA": "learners",
    "KernelRidge": "learners",
    "KernelRidgeClassifier": "learners",
    "KernelSVC": "learners",
    "Laplacian": "kernels",
    "Matern": "kernels",
    "MercerError": "errors",
    "MercerWarning": "errors",
    "Min": "kernels",
    "MissingPackageError": "errors",
    "NeighborGraph": "maps",
    "NoClosedFormError": "errors",
    "Nystroem": "maps",
    "ParameterError": "errors",
    "Polynomial": "kernels",
    "PolynomialSketch": "maps",
    "Product": "kernels",
    "ProductMap": "maps",
    "RandomFourier": "maps",
    "RandomMaclaurin": "maps",
    "RandomNeurons": "maps",
    "RationalQuadratic": "kernels",
    "Scaled": "kernels",
    "SphericalRadial": "maps",
    "Sum": "kernels",
    "SumMap": "maps",
    "TensorSketch": "maps",
    "ThresholdFeatures": "maps",
    "Transformed": "kernels",
    "UnsupportedKernelError": "errors",
    "audit": "diagnostics",
    "compare": "diagnostics",
    "hsic_test": "learners",
    "mmd_test": "learners",
    "neural_tangent_kernel": "kernels",
    "on_dask": "engines",
    "open_rows": "io",
    "required_components": "theory",
    "tune_deformation": "learners",
}

_MODULES = ("diagnostics", "engines", "errors", "io", "kernels", "learners", "linalg", "maps", "testing", "theory")

__all__ = [
    "ArcCosine",
    "Cauchy",
    "Checkpoint",
    "CheckpointError",
    "Chi2",
    "Composed",
    "CompositionMap",
    "Constant",
    "DataError",
    "Deformed",
    "DeformedKernel",
    "DotProduct",
    "Exponential",
    "FeatureGraph",
    "Gaussian",
    "GaussianProcessRegressor",
    "Geometric",
    "Hellinger",
    "HomogeneousFeatures",
    "Intersection",
    "JensenShannon",
    "Kernel",
    "KernelKMeans",
    "KernelLogisticRegression",
    "KernelPCA",
    "KernelRidge",
    "KernelRidgeClassifier",
    "KernelSVC",
    "Laplacian",
    "Matern",
    "MercerError",
    "MercerWarning",
    "Min",
    "MissingPackageError",
    "NeighborGraph",
    "NoClosedFormError",
    "Nystroem",
    "ParameterError",
    "Polynomial",
    "PolynomialSketch",
    "Product",
    "ProductMap",
    "RandomFourier",
    "RandomMaclaurin",
    "RandomNeurons",
    "RationalQuadratic",
    "Scaled",
    "SphericalRadial",
    "Sum",
    "SumMap",
    "TensorSketch",
    "ThresholdFeatures",
    "Transformed",
    "UnsupportedKernelError",
    "audit",
    "compare",
    "hsic_test",
    "mmd_test",
    "neural_tangent_kernel",
    "on_dask",
    "open_rows",
    "required_components",
    "tune_deformation",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"mercer.{name}")
    if name not in _HOMES:
        msg = f"module 'mercer' has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(f"mercer.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
