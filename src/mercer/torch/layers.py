"""Modules of PyTorch: the features of a fitted map, and the linear function of a fitted learner."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from mercer.errors import ExportError
from mercer.export import graph as g
from mercer.export.graph import Value, ordered
from mercer.export.learners import outputs_of
from mercer.export.maps import Lengthscales, features_of_rows
from mercer.kernels import Kernel
from mercer.learners import GaussianProcessClassifier, GaussianProcessRegressor, KernelPCA
from mercer.maps.base import BaseMap
from mercer.parameters import Choice, check_parameter
from mercer.torch.operations import OPERATIONS

__all__ = ["FeatureLayer", "LinearHead"]

# Names of constants, and operations, with which a layer computes in float64: kernel values of landmarks are multiplied
# by a whitening matrix, which magnifies rounding errors.
WHITENING, IN_DOUBLE = "whitening", {"squared_distances", "coordinate_kernel", "solve", "nearest"}


@dataclass(frozen=True)
class Step:
    """One operation of a layer."""

    op: str
    inputs: tuple[int, ...]  # numbers of the steps whose results it takes
    options: dict[str, Any]
    name: str | None  # of the parameter or buffer with a constant, or with indices


class FeatureLayer(nn.Module):
    """The features of a fitted map as a module, with gradients in the inputs and in the lengthscales.

    Parameters
    ----------
    feature_map : estimator
        A fitted map, such as `RandomFourier`, `Nystroem` or `ScaledColumns`; or another fitted transformer, such as
        `ColumnScaler`, `KernelPCA` or a pipeline of transformers, which has no lengthscales.
    trainable : {"lengthscale", "all", None}, default="lengthscale"
        "lengthscale": the parameter `log_lengthscale`. "all": also frequencies, landmarks and all other constants of
        the map. None: nothing; the constants are buffers.
    dtype : torch.dtype, default=None
        Dtype of constants and parameters; None means ``torch.get_default_dtype()``. With landmarks it is always
        float64, as in `Nystroem`, because whitening magnifies rounding errors: `to` does not change it then, and the
        features have the dtype of the rows.

    Attributes
    ----------
    log_lengthscale : torch.nn.Parameter of shape (d,)
        Logarithms of the lengthscales of the inputs of the map, one per column. They start at those of the fitted
        kernel, if it has one lengthscale per column, and at zero otherwise. The inputs are divided by their ratios to
        the lengthscales of the fit. Frequencies and other random numbers stay the same; landmarks are whitened again.
        For a map of scaled rows (`ScaledColumns`, `LearnedMetric`), the columns are those of the scaled rows.
    n_components : int
        Number of components.

    See Also
    --------
    LinearHead : The linear function of a learner on these features.
    mercer.export.export_model : Models without PyTorch.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from mercer import Gaussian, RandomFourier
    >>> from mercer.torch import FeatureLayer
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> feature_map = RandomFourier(Gaussian(2.0), 64, random_state=0).fit(X)
    >>> layer = FeatureLayer(feature_map, dtype=torch.float64)
    >>> Z = layer(torch.from_numpy(X))
    >>> bool(np.allclose(Z.detach().numpy(), feature_map.transform(X), atol=1e-12))
    True
    >>> Z.square().sum().backward()
    >>> layer.log_lengthscale.grad.shape, layer.lengthscale.tolist()
    (torch.Size([3]), [2.0, 2.0, 2.0])
    """

    log_lengthscale: nn.Parameter | None
    log_fitted_lengthscale: Tensor

    def __init__(
        self,
        feature_map: Any,
        *,
        trainable: Literal["lengthscale", "all"] | None = "lengthscale",
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_parameter("FeatureLayer", "trainable", trainable, Choice("lengthscale", "all", None))
        width = int(feature_map.n_features_in_)
        X = g.rows(width)
        scales = Lengthscales() if trainable is not None and isinstance(feature_map, BaseMap) else None
        if isinstance(feature_map, BaseMap):
            out = features_of_rows(feature_map.features_, X, scales)
        else:
            outputs = outputs_of(feature_map, X)
            if "variable" not in outputs or hasattr(feature_map, "predict"):
                msg = (
                    f"FeatureLayer needs a fitted map or transformer, got {type(feature_map).__name__}. Use its "
                    "feature_map_ with LinearHead."
                )
                raise ExportError(msg)
            out = outputs["variable"]
        self.n_features = width
        self.n_components = out.shape[1]
        self._is_complex = out.example.ndim == 3
        values = ordered([out])
        self._in_double = any(value.op in IN_DOUBLE or value.name == WHITENING for value in values)
        dtype = torch.float64 if self._in_double else torch.get_default_dtype() if dtype is None else dtype
        position = {id(value): i for i, value in enumerate(values)}
        self._steps: list[Step] = []
        for value in values:
            inputs = tuple(position[id(one)] for one in value.inputs)
            self._steps.append(self._step(value, inputs, dtype, trainable == "all"))
        self.log_lengthscale = None
        if scales is not None and scales.factor is not None:
            fitted = torch.from_numpy(np.log(fitted_lengthscales(feature_map, scales.factor.width))).to(dtype)
            self.log_lengthscale = nn.Parameter(fitted.clone())
            self.register_buffer("log_fitted_lengthscale", fitted)

    def _step(self, value: Value, inputs: tuple[int, ...], dtype: torch.dtype, trainable: bool) -> Step:
        """Return how a value is computed, and register its arrays as parameters or buffers."""
        options, name = dict(value.options), None
        if value.is_constant:
            tensor = torch.from_numpy(np.array(value.example))
            if tensor.is_floating_point():
                tensor = tensor.to(dtype)
            name = self._free(value.name or "constant")
            if trainable and tensor.is_floating_point() and tensor.ndim and value.name is not None:
                self.register_parameter(name, nn.Parameter(tensor))
            else:
                self.register_buffer(name, tensor)
        elif "indices" in options:
            name = self._free("indices")
            self.register_buffer(name, torch.from_numpy(np.array(options.pop("indices"))))
        return Step(value.op, inputs, options, name)

    def _free(self, name: str) -> str:
        name = re.sub(r"\W", "_", name)
        found, number = name, 2
        while hasattr(self, found):
            found, number = f"{name}_{number}", number + 1
        return found

    @property
    def lengthscale(self) -> Tensor | None:
        """The lengthscales (d,), or None if they cannot be trained."""
        return None if self.log_lengthscale is None else self.log_lengthscale.exp()

    def forward(self, X: Tensor) -> Tensor:
        """Return the features of rows.

        Parameters
        ----------
        X : Tensor of shape (n, d)
            Rows.

        Returns
        -------
        Tensor of shape (n, n_components)
        """
        if X.ndim != 2 or X.shape[1] != self.n_features:
            msg = f"FeatureLayer: X must have the shape (n, {self.n_features}), got {tuple(X.shape)}."
            raise ValueError(msg)
        results: list[Tensor] = []
        for step in self._steps:
            if step.op == "rows":
                results.append(X.to(torch.float64) if self._in_double else X)
            elif step.op == "constant":
                results.append(getattr(self, str(step.name)))
            elif step.op == "parameter":
                assert self.log_lengthscale is not None
                results.append(self.log_lengthscale - self.log_fitted_lengthscale)
            else:
                options = step.options if step.name is None else {**step.options, "indices": getattr(self, step.name)}
                results.append(OPERATIONS[step.op](*(results[i] for i in step.inputs), **options))
        out = results[-1]
        out = torch.view_as_complex(out.contiguous()) if self._is_complex else out
        return out.to(X.dtype) if self._in_double and not self._is_complex else out

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FeatureLayer:
        # `to(dtype)`, `float` and `half` move tensors by this method: those that must stay in float64 do.
        if not self._in_double:
            return super()._apply(fn, recurse)

        def keeping_dtype(tensor: Tensor) -> Tensor:
            out = fn(tensor)
            return tensor.to(out.device) if tensor.is_floating_point() and out.dtype != tensor.dtype else out

        return super()._apply(keeping_dtype, recurse)

    def extra_repr(self) -> str:
        """Return the sizes, for the repr of modules."""
        return f"n_features={self.n_features}, n_components={self.n_components}"


class LinearHead(nn.Module):
    """The linear function that a learner has fitted on features, as a module.

    ``torch.nn.Sequential(FeatureLayer(model.feature_map_), LinearHead(model))`` is the model: numbers for regressors,
    decision values for classifiers, scores for `KernelPCA`.

    Parameters
    ----------
    model : estimator
        A fitted learner of mercer that is linear in the features of its map: `KernelRidge`, `KernelRidgeClassifier`,
        `KernelLogisticRegression`, `KernelSVC`, `GaussianProcessRegressor` (its mean) or `KernelPCA`. With near rows
        (`neighbors=`) only if the fit has chosen the features alone.
    trainable : bool, default=True
        Whether coefficients and intercepts are parameters; otherwise they are buffers.
    dtype : torch.dtype, default=None
        Dtype of coefficients; None means ``torch.get_default_dtype()``.

    Attributes
    ----------
    weight : Tensor of shape (t, D)
        Coefficients.
    bias : Tensor of shape (t,)
        Intercepts.
    classes : ndarray or None
        Labels of a classifier.

    See Also
    --------
    FeatureLayer : The features.

    Examples
    --------
    >>> import numpy as np
    >>> import torch
    >>> from mercer import KernelRidge
    >>> from mercer.torch import FeatureLayer, LinearHead
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> model = KernelRidge(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> options = {"dtype": torch.float64}
    >>> module = torch.nn.Sequential(FeatureLayer(model.feature_map_, **options), LinearHead(model, **options))
    >>> bool(np.allclose(module(torch.from_numpy(X)).detach().numpy(), model.predict(X), atol=1e-8))
    True
    """

    weight: Tensor
    bias: Tensor
    probability_scale: Tensor

    def __init__(self, model: Any, *, trainable: bool = True, dtype: torch.dtype | None = None) -> None:
        super().__init__()
        coef, intercept, single = linear_function(model)
        dtype = torch.get_default_dtype() if dtype is None else dtype
        self._single = single
        self.classes = getattr(model, "classes_", None)
        for name, values in (("weight", coef.T), ("bias", intercept)):
            tensor = torch.from_numpy(np.array(values, dtype=np.float64)).to(dtype)
            if trainable:
                self.register_parameter(name, nn.Parameter(tensor))
            else:
                self.register_buffer(name, tensor)
        scale = probability_scale(model)
        self._has_probabilities = scale is not None
        self.register_buffer("probability_scale", torch.tensor(1.0 if scale is None else scale, dtype=dtype))

    def forward(self, Z: Tensor) -> Tensor:
        """Return the linear function of features.

        Parameters
        ----------
        Z : Tensor of shape (n, D)
            Features.

        Returns
        -------
        Tensor of shape (n,) or (n, t)
            Predictions, or decision values; with one column for two labels.
        """
        values = nn.functional.linear(Z, self.weight, self.bias)
        return values[:, 0] if self._single else values

    def predict_proba(self, Z: Tensor) -> Tensor:
        """Return the probabilities (n, K) of all labels, given features.

        Parameters
        ----------
        Z : Tensor of shape (n, D)
            Features.

        Returns
        -------
        Tensor of shape (n, K)
        """
        if not self._has_probabilities:
            msg = "LinearHead: the model has no probabilities. Try KernelLogisticRegression or KernelRidgeClassifier."
            raise AttributeError(msg)
        logits = self.probability_scale * self(Z)
        if logits.ndim == 1:
            return torch.stack([torch.sigmoid(-logits), torch.sigmoid(logits)], dim=1)
        return torch.softmax(logits, dim=1)

    def extra_repr(self) -> str:
        """Return the sizes, for the repr of modules."""
        return f"n_components={self.weight.shape[1]}, n_outputs={self.weight.shape[0]}"


def linear_function(model: Any) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return coefficients (D, t) and intercepts (t,) of a fitted learner, and whether results have one axis."""
    name = type(model).__name__
    if isinstance(model, GaussianProcessRegressor):
        posterior = model.posterior_
        if model.local_ is not None:
            msg = (
                "LinearHead: this GaussianProcessRegressor predicts from near rows, which is no linear function of "
                "features. Fit it with neighbors=None, or export it by mercer.export.export_model."
            )
            raise ExportError(msg)
        return posterior.coef, posterior.spectrum.offset, model._single
    if isinstance(model, KernelPCA):
        coef = model.components_.T * model._scales()
        return coef, -model.mean_ @ coef, False
    if isinstance(model, GaussianProcessClassifier):
        msg = (
            f"LinearHead: the decision values of {name} are no linear function of features. Use "
            "KernelLogisticRegression on its feature_map_."
        )
        raise ExportError(msg)
    if not hasattr(model, "coef_") or not hasattr(model, "feature_map_"):
        msg = f"LinearHead needs a fitted learner of mercer that is linear in the features of its map, got {name}."
        raise ExportError(msg)
    classifier = hasattr(model, "classes_")
    local = vars(model).get("local_")
    if local is not None:
        if local.parts != "global":
            msg = (
                f"LinearHead: this {name} predicts from near rows (local_.parts is {local.parts!r}), which is no "
                "linear function of features. Fit it with neighbors=None, or export it by mercer.export.export_model."
            )
            raise ExportError(msg)
        part = local.model.part
        single = len(part.intercept) == 1 if classifier else model._single
        return local.unit * part.coef, local.unit * part.intercept, single
    if not hasattr(model, "intercept_"):
        msg = (
            f"LinearHead: the predictions of {name} are no linear function of the features of its map. Export it by "
            "mercer.export.export_model."
        )
        raise ExportError(msg)
    coef, intercept = np.atleast_2d(model.coef_).T, np.atleast_1d(model.intercept_)
    return coef, intercept, len(intercept) == 1 if classifier else model._single


def probability_scale(model: Any) -> float | None:
    """Return the factor of decision values in probabilities, or None if a model has none."""
    if not hasattr(model, "classes_") or not hasattr(model, "predict_proba"):
        return None
    return float(getattr(model, "probability_scale_", 1.0))


def fitted_lengthscales(feature_map: Any, width: int) -> np.ndarray:
    """Return the lengthscale of each column of the inputs of drawn features; ones if they are not known."""
    while True:
        inner = getattr(feature_map, "feature_map_", None) or getattr(feature_map, "map_", None)
        if inner is None:
            break
        feature_map = inner
    kernel = getattr(feature_map, "kernel_", None)
    parts = kernel.spectral_parts() if isinstance(kernel, Kernel) else None
    factors = [part.factors for part in parts or () if part.factors]
    out = np.ones(width)
    if len(factors) != 1 or len(factors[0]) != 1 or not factors[0][0].is_diagonal:
        return out
    (factor,) = factors[0]
    rates = factor.pull_back(np.ones((1, factor.width(width))), width)[0] / float(factor.kernel.lengthscale)
    return np.where(rates > 0, 1 / np.where(rates > 0, rates, 1.0), out)
