"""A fitted model as a graph of array operations, with what is known about its inputs and outputs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from mercer import __version__
from mercer.errors import ExportError
from mercer.export import graph as g
from mercer.export.graph import Value
from mercer.export.learners import Outputs, outputs_of
from mercer.export.tables import encoded_columns, encoded_matrix, table_of, takes_matrix
from mercer.neighbors import neighbor_index

__all__ = ["Program", "n_features_of", "program_of", "reference"]

Array = np.ndarray


@dataclass(frozen=True, eq=False)
class Program:
    """What a fitted model computes.

    Attributes
    ----------
    name : str
        Name of the class of the model.
    rows : Value
        The rows (n, d); without columns for a model of tables.
    columns : tuple of Value
        The columns (n, 1) of a model of tables; empty for a model of rows.
    takes_nan : bool
        Whether numbers of the rows may be missing.
    outputs : dict of Value
        What is computed, by names; see `mercer.export.learners`.
    classes : ndarray or None
        Labels of a classifier, of which the output "label" has the indices.
    feature_names : tuple of str
        Names of the features.
    is_complex : bool
        Whether the last axis of the output has real and imaginary parts.
    is_single : bool
        Whether predictions are one number per row.
    is_transformer : bool
        Whether the output "variable" are transformed rows rather than predictions.
    version : str
        Version of mercer.
    """

    name: str
    rows: Value
    outputs: Outputs
    classes: Array | None
    feature_names: tuple[str, ...]
    is_complex: bool
    is_single: bool
    is_transformer: bool
    columns: tuple[Value, ...] = ()
    takes_nan: bool = False
    version: str = __version__

    def __call__(self, rows: Any) -> dict[str, Array]:
        """Return the outputs for rows (n, d) in float64, or for columns by names, by NumPy operation by operation.

        This is what all exports are compared with in tests.
        """
        results: dict[int, Array] = {}
        for value in g.ordered(self.outputs.values()):
            if value.op == "rows":
                results[id(value)] = rows if not self.columns else rows[value.options["column"]]
            elif value.is_constant:
                results[id(value)] = value.example
            else:
                inputs = (results[id(one)] for one in value.inputs)
                results[id(value)] = g.OPERATIONS[value.op](*inputs, **value.options)
        return {name: results[id(value)] for name, value in self.outputs.items()}

    @property
    def n_features(self) -> int:
        """Number of features of a row."""
        return len(self.columns) or self.rows.width

    @property
    def input_names(self) -> dict[str, str]:
        """Names of the inputs of an ONNX graph by the names of columns, from which they differ only if these are taken.

        Examples
        --------
        >>> column = g.table_column("label", "number")
        >>> Program("Model", g.rows(0), {"label": column}, None, (), False, False, False, (column,)).input_names
        {'label': 'label_'}
        """
        names: dict[str, str] = {}
        taken = set(self.outputs)
        for one in self.columns:
            name = str(one.options["column"]) or "column"
            while name in taken:
                name += "_"
            taken.add(name)
            names[str(one.options["column"])] = name
        return names

    @property
    def description(self) -> str:
        """The model in a few words."""
        noun = "column" if self.columns else "feature"
        width = f"1 {noun}" if self.n_features == 1 else f"{self.n_features} {noun}s"
        return f"{self.name} of {'tables' if self.columns else 'rows'} with {width}, exported by mercer {self.version}"


def program_of(model: Any, *, return_std: bool = False) -> Program:
    """Return what a fitted model computes, as a graph of array operations.

    Parameters
    ----------
    model : estimator
        A fitted map, learner or transformer of mercer, or a pipeline of them.
    return_std : bool, default=False
        Whether standard deviations of predictions are an output, too.
    """
    try:
        check_is_fitted(model)
    except (NotFittedError, TypeError) as error:
        msg = f"export_model needs a fitted model, got {type(model).__name__}, which is not fitted. Call fit first."
        raise ExportError(msg) from error
    preprocessor, numeric = table_of(model)
    columns: tuple[Value, ...] = ()
    if preprocessor is not None and not takes_matrix(preprocessor):
        columns, Z = encoded_columns(preprocessor)
        width, X = 0, g.rows(0)
    else:
        width = n_features_of(model)
        X = g.rows(width)
        Z = X if preprocessor is None else encoded_matrix(preprocessor, X)
    outputs = {"variable": Z} if numeric is None else outputs_of(numeric, Z, with_std=return_std)
    outputs = {name: named_output(value, Z) for name, value in outputs.items()}
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    names = getattr(model, "feature_names_in_", None)
    if columns:
        names = [one.options["column"] for one in columns]
    return Program(
        name=type(last).__name__,
        rows=X,
        outputs=outputs,
        classes=np.asarray(last.classes_) if hasattr(last, "classes_") else None,
        feature_names=tuple(f"x{i}" for i in range(width)) if names is None else tuple(map(str, names)),
        is_complex="variable" in outputs and outputs["variable"].example.ndim == 3,
        is_single="variable" in outputs and hasattr(last, "predict") and bool(getattr(last, "_single", False)),
        is_transformer=not hasattr(last, "predict"),
        columns=columns,
        takes_nan=preprocessor is not None and not columns,
    )


def n_features_of(model: Any) -> int:
    """Return the number of features of the rows of a fitted model."""
    if isinstance(model, Pipeline):  # its first step may be "passthrough"
        return next(int(step.n_features_in_) for _, step in model.steps if hasattr(step, "n_features_in_"))
    return int(model.n_features_in_)


def named_output(value: Value, X: Value) -> Value:
    """Return an output as a value of its own: one that depends on the rows, and that is not the rows themselves."""
    if not value.is_batched:
        return g.repeat_rows(value, X)
    return g.apply("add", value, 0.0) if value.op == "rows" else value


def reference(model: Any) -> Any:
    """Return the model with exact searches of near rows, which is what is exported.

    Searches among many rows are approximate by default, and miss about one near row in fifty.
    """
    from copy import copy

    if isinstance(model, Pipeline):
        last = reference(model.steps[-1][1])
        return model if last is model.steps[-1][1] else Pipeline([*model.steps[:-1], (model.steps[-1][0], last)])
    if hasattr(model, "_members"):
        members = tuple(replace(one, learner=reference(one.learner)) for one in model._members)
        if all(a.learner is b.learner for a, b in zip(members, model._members, strict=True)):
            return model
        out = copy(model)
        out._members = members
        return out
    local = vars(model).get("local_") if hasattr(model, "__dict__") else None
    if local is None or local.model.source is not None or local.model.problem.index.search == "exact":
        return model
    out, problem = copy(model), local.model.problem
    problem = replace(problem, index=neighbor_index(problem.points, search="exact"))
    out.local_ = replace(local, model=replace(local.model, problem=problem))
    return out
