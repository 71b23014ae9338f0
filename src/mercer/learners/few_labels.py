"""Classification with few labels among many rows, by the smoothest functions of a graph of all rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
import scipy.sparse as sp
from scipy import special

from mercer._docs import doc
from mercer.data.results import rowwise
from mercer.data.targets import as_targets, has_target, label_codes, plain_labels, validate_rows
from mercer.engines import linear_values
from mercer.errors import DataError, ParameterError
from mercer.features import Features, rows_to_features
from mercer.graphs import GraphBasis, NeighborGraph
from mercer.graphs.basis.extension import GraphFeatures
from mercer.graphs.laplacian_graph import AllRows
from mercer.kernels import Kernel
from mercer.learners.base import Classifier, Fit, check_is_fitted
from mercer.maps import BaseMap, SumMap
from mercer.maps.base import unchanged_if_it_fails
from mercer.metric import ScaledColumns
from mercer.metric.features import MetricFeatures
from mercer.metric.scaled_columns import sample_of_columns
from mercer.parameters import Choice, Domain, Integer, Interval, check_parameter
from mercer.solvers.few_labels.next_rows import next_rows
from mercer.solvers.few_labels.selection import (
    BALANCES,
    FewLabels,
    Parts,
    Selected,
    SettingGrid,
    balanced_folds,
    fit_setting,
    select,
)
from mercer.solvers.few_labels.threshold_steps import Steps, Walk, class_shifts, threshold_steps
from mercer.solvers.ridge.label_scores import LabeledFeatures, LabeledRows
from mercer.solvers.ridge.paths import log_loss_scale
from mercer.statistics import row_hashes
from mercer.statistics.distinct import rank_hashes
from mercer.statistics.sample import seed_of

__all__ = ["FewLabelClassifier"]

Array = np.ndarray
# Columns are divided by their spread if their ranges differ by more than this factor: then they have different units.
MOST_DIFFERENT = 10.0
# Fraction of the columns, at both ends, that is ignored in this comparison, and rows that are looked at.
TAIL = 0.1
SCALE_ROWS = 2000
# Number of threshold steps of steps="auto".
STEPS = 20
# Folds of labels on which fits with and without threshold steps are compared.
MOST_STEP_FOLDS = 3
# Rows among which the next rows to label are searched, and the noise of the process relative to its mean variance.
MOST_CANDIDATES = 20_000
PROCESS_NOISE = 0.1
BLOCK_ROWS = 8192
# Largest norm of the residual of an eigenvector. The span of the smoothest ones has a far smaller error.
RESIDUAL = 1e-3


@doc
class FewLabelClassifier(Classifier):
    r"""Classifier for few labels among many rows: the smoothest functions of a graph of all rows, labeled or not.

    The decision values are linear in the eigenvectors of the graph (`GraphBasis`), and of the features of another map
    if one is given. Strength and power of the roughness, the weight of the two parts and the ridge penalty are selected
    by left-out labels, with equal weights of the classes. With one label per class, the settings are those of a process
    on the graph close to Poisson learning [1]_. Known sizes of the classes are a constraint, and improve the labels of
    the rows by threshold steps.

    Parameters
    ----------
    graph : LaplacianGraph or sparse matrix of shape (n, n), default=None
        The graph of all rows, as in `GraphBasis`. None means ``NeighborGraph(weights="self_tuned")``.
    n_components : int, default=300
        Number of eigenvectors of the graph. If `strength` is "loo", labels may select a half, a quarter, and so on of
        them, the smoothest ones, at least two per class.
    feature_map : BaseMap or None, default=None
        A map, such as ``Nystroem(Gaussian("median"), 1000)``, whose features join those of the graph. It helps if there
        are many labels, and labels change within clusters of rows. None means the graph only.
    strength : "loo" or float, default="loo"
        The number :math:`t \ge 0`: eigenvectors are weighted by :math:`(1 + t (\lambda / \lambda_1)^c)^{-1/2}`, where
        :math:`\lambda_1` is the smallest positive eigenvalue. "loo" selects among 1, 10 and 100.
    power : "loo" or float, default="loo"
        The power c. "loo" selects among 1, 1.5, 2 and 3.
    balance : "loo" or float, default="loo"
        The weight of the kernel of the graph, from 0 to 1; that of the other map is one minus it.
    alpha : "loo" or float, default="loo"
        The ridge penalty, relative to the largest eigenvalue of the Gram matrix of the labeled rows. Large values give
        the solution of Poisson learning, :math:`\sum_i k(x, x_i)(y_i - \bar y)`.
    class_prior : None, "uniform", "labels" or array-like of shape (K,), default=None
        Fractions of the classes among all rows, in the order of the sorted labels; "uniform" means equal ones, "labels"
        those of the labeled rows. Decision values are shifted such that the rows of the graph have these classes. None
        means that they are not known.
    steps : "auto" or int, default="auto"
        Largest number of threshold steps: labels of all rows are diffused along the graph, and replaced by those of the
        largest values. "auto" is 20 if `class_prior` is given, there are fewer labels than `n_components`, and left-out
        labels, if there are any, are predicted at least as well as without steps; otherwise it is 0. With steps, only
        the graph determines the decision values.
    unlabeled : label, default=-1
        Value in `y` of rows whose label is not known.
    scale_columns : "auto" or bool, default="auto"
        Whether columns are divided by their spread before distances are computed. "auto" does so for dense rows with
        columns whose ranges differ by more than a factor of 10, without a tenth of them at both ends.
    %(common_parameters)s

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        The labels, sorted.
    strength_, power_, balance_, alpha_ : float
        The selected settings.
    class_prior_ : ndarray of shape (K,) or None
        The fractions of the classes, if they are known.
    n_components_ : int
        Number of eigenvectors that are used.
    n_steps_ : int
        Number of threshold steps.
    transduction_ : ndarray of shape (n,) or None
        Labels of all rows of the fit, in their order. Labeled rows have their own labels. None if the graph was built
        from a sample of the rows, or weights are zero.
    left_out_loss_ : float
        Log loss of left-out labels with the selected settings; NaN if no class has two labels.
    probability_scale_ : float
        Factor of the decision values in `predict_proba`.
    n_labeled_ : int
        Number of labeled rows.
    coef_ : ndarray of shape (K, D)
        Coefficients of the features of `feature_map_`, before threshold steps.
    intercept_ : ndarray of shape (K,)
        Shifts of the decision values.
    feature_map_ : BaseMap
        The fitted map: a `GraphBasis`, joined with the given map, of scaled columns if they are scaled.
    n_features_in_ : int
        Number of features of the rows seen in `fit`.

    See Also
    --------
    GraphBasis : The map.
    DeformedSearchCV : Search for the deformation of the kernel of another map by a graph.
    sklearn.semi_supervised.LabelSpreading : Labels by diffusion, without rows outside the graph at this size.

    Notes
    -----
    Left-out labels are those of folds that have at most one label of each class, so that few labels remain balanced; of
    many labels there are ten folds. Rows of left-out labels remain in the graph. The default settings are replaced only
    if others are better by more than two standard errors.

    Probabilities are :math:`\mathrm{softmax}(a f(x))` of the decision values. The factor minimizes the log loss of
    left-out labels; if there are none, or after threshold steps, that of the labeled rows themselves, which is too
    confident. An additional row with each label keeps it finite.

    Rows outside the graph get the weighted mean of their neighbors. Without steps, it is divided by one minus the
    eigenvalue, for each eigenvector.

    References
    ----------
    .. [1] Calder, Cook, Thorpe, Slepcev (2020), Poisson learning: graph based semi-supervised learning at very low
       label rates, ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from mercer import FewLabelClassifier
    >>> X, truth = load_digits(return_X_y=True)
    >>> y = np.full(len(X), -1)
    >>> for label in range(10):
    ...     y[np.flatnonzero(truth == label)[:2]] = label  # two labels per class
    >>> model = FewLabelClassifier(n_components=100, random_state=0).fit(X, y)
    >>> bool(np.mean(model.transduction_ == truth) > 0.9)
    True
    >>> y[model.suggest_labels(5)].tolist()  # rows without a label
    [-1, -1, -1, -1, -1]
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "n_components": Integer(1),
        "strength": Choice("loo") | Interval(0),
        "power": Choice("loo") | Interval(0, 100, closed="right"),
        "balance": Choice("loo") | Interval(0, 1, closed="both"),
        "alpha": Choice("loo") | Interval(0, closed="neither"),
        "steps": Choice("auto") | Integer(0),
        "scale_columns": Choice("auto", True, False),
    }

    feature_map: BaseMap | None
    selected_: Selected
    class_prior_: Array | None
    transduction_: Array | None
    _labeled_nodes_: Array
    node_values_: Array | None

    def __init__(
        self,
        graph: Any = None,
        n_components: int = 300,
        *,
        feature_map: BaseMap | None = None,
        strength: float | Literal["loo"] = "loo",
        power: float | Literal["loo"] = "loo",
        balance: float | Literal["loo"] = "loo",
        alpha: float | Literal["loo"] = "loo",
        class_prior: Any = None,
        steps: int | Literal["auto"] = "auto",
        unlabeled: Any = -1,
        scale_columns: bool | Literal["auto"] = "auto",
        block_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: Any = False,
    ) -> None:
        self.graph = graph
        self.n_components = n_components
        self.feature_map = feature_map
        self.strength = strength
        self.power = power
        self.balance = balance
        self.alpha = alpha
        self.class_prior = class_prior
        self.steps = steps
        self.unlabeled = unlabeled
        self.scale_columns = scale_columns
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    # ---- the template of `fit` ------------------------------------------------------------------

    def _several_passes(self) -> str | None:
        return (
            "the graph is built from all rows before labels are used. Use KernelRidgeClassifier, which needs one pass."
        )

    def _statistic(self, fit: Fit) -> None:  # noqa: ARG002 - `_solve` reads the labeled rows
        return None

    def _costs(self, n: int, D: int) -> dict[str, float | None]:
        return {"solve": 200.0 * n * D}

    def _unfitted_map(self, random_state: Any, n_rows: int | None = None) -> BaseMap:  # noqa: ARG002
        if isinstance(self.feature_map, Kernel) or not (
            self.feature_map is None or isinstance(self.feature_map, BaseMap)
        ):
            msg = (
                "FewLabelClassifier: feature_map must be a mercer map such as Nystroem(Gaussian('median')), or None, "
                f"got {self.feature_map!r}."
            )
            raise ParameterError(msg)
        # Weights of eigenvectors are a part of the coefficients.
        basis = GraphBasis(
            NeighborGraph(weights="self_tuned") if self.graph is None else self.graph,
            self.n_components,
            0.0,
            1,
            normalize=False,
            tol=RESIDUAL,
            random_state=random_state,
            n_jobs=self.n_jobs,
        )
        if self.feature_map is None:
            return basis
        if self.feature_map.uses_targets or self.feature_map.scales_columns:
            msg = (
                "FewLabelClassifier: feature_map must be a map that neither learns from targets nor scales columns, "
                f"got {type(self.feature_map).__name__}. Use scale_columns=True, and the inner map."
            )
            raise ParameterError(msg)
        return SumMap(maps=[basis, self.feature_map], random_state=random_state, n_jobs=self.n_jobs)

    def _scales_columns(self, prototype: BaseMap) -> bool:  # noqa: ARG002 - it is the same for all maps
        return self.scale_columns is not False

    def _fit_map(self, fit: Fit) -> BaseMap:
        if self.scale_columns == "auto":
            sample = sample_of_columns(fit.engine, fit.random_state, 1, fit.report)
            scaled = has_units(sample.X if sample.weight is None else sample.X[sample.weight > 0])
        else:
            scaled = bool(self.scale_columns)
        if not scaled:
            return fit.fitted(fit.feature_map)
        return fit.fitted(ScaledColumns(fit.feature_map, random_state=fit.random_state, n_jobs=self.n_jobs))

    def _solve(self, statistic: Any, fit: Fit | None) -> None:  # noqa: ARG002 - there is no statistic
        assert fit is not None
        rows = fit.labeled.sum(LabeledFeatures(self.feature_map_.features_), fit.report)
        order = np.argsort(rows.index)  # blocks may be added in any order
        rows = LabeledRows(rows.Z[order], rows.y[order], rows.index[order], rows.weight[order])
        basis = self._basis()
        if basis.nodes_ is not None:
            nodes = keys = basis.nodes_[rows.index.astype(np.int64)]
        else:  # the graph is that of a sample of the rows
            X = self._inputs(fit.labeled.sum(AllRows.of).joined())
            nodes, keys = basis.features_.neighborhood(X)[0][:, 0], row_hashes(X)
        self._solve_labels(rows, nodes, keys, fit.random_state)

    def _solve_labels(self, rows: LabeledRows, nodes: Array, keys: Array, random_state: Any) -> None:
        """Set the fitted attributes, given the features and labels of the labeled rows and their nodes.

        Equal rows have equal keys. With equal labels they are one row here: left out one by one, the others would
        predict them, and the selected settings would differ from those of a weight.
        """
        labels = np.unique(rows.y)
        self._check_two_labels(labels)
        seed = seed_of(random_state, "folds") % 2**32
        codes = label_codes(rows.y, labels)
        self.n_labeled_ = len(codes)
        first, weight = merged(keys, codes, rows.weight)
        if self._basis()._rows is not None:
            # Folds depend on the content of rows, so that neither order nor copies change what is selected.
            order = np.lexsort((codes[first], rank_hashes(self._basis()._rows[nodes[first]])))
            first, weight = first[order], weight[order]
        own_rows, own_codes = rows.index.astype(np.int64), codes
        rows = LabeledRows(rows.Z[first], rows.y[first], rows.index[first], weight)
        codes, labeled = codes[first], nodes[first]
        few = FewLabels.of(rows.Z, codes, len(labels), rows.weight)
        prior = self._prior(labels, codes, rows.weight)
        parts, basis = self._parts(rows.Z, rows.weight), self._basis()
        selected = select(few, parts, self._grid(len(parts.values), len(labels)), seed)
        coef = fit_setting(few, parts, selected.setting)
        self.classes_, self.class_prior_ = labels, prior
        self.selected_ = selected
        setting = selected.setting
        self.strength_, self.power_ = setting.strength, setting.power
        self.balance_, self.alpha_ = setting.balance, setting.penalty
        self.n_components_ = len(parts.values) if setting.components is None else setting.components
        self.left_out_loss_ = selected.loss
        self.coef_, self.node_values_, self.n_steps_ = coef.T.copy(), None, 0
        self._labeled_nodes_ = labeled
        steps = self._n_steps(few, prior)
        values = self._node_values(coef)
        if steps:
            found = self._with_steps(few, parts, selected, values, labeled, prior, steps, seed)
        if steps and found is not None:
            self.node_values_, self.intercept_, self.n_steps_ = found.values, found.shifts, found.n_steps
            at_labels, node_codes = found.values[labeled] + found.shifts, found.codes
        else:
            self.intercept_ = class_shifts(values, prior, seed=seed)
            left_out = rows.Z @ coef if selected.left_out is None else selected.left_out
            at_labels = left_out + self.intercept_
            node_codes = (values + self.intercept_).argmax(axis=1)
            node_codes[labeled] = codes
        self.probability_scale_ = log_loss_scale(at_labels, codes, rows.weight)
        self.transduction_ = None
        if basis.nodes_ is not None and (basis.nodes_ >= 0).all():
            row_codes = node_codes[basis.nodes_]
            row_codes[own_rows] = own_codes  # equal rows may have different labels
            self.transduction_ = labels[row_codes]

    def _with_steps(
        self,
        few: FewLabels,
        parts: Parts,
        selected: Selected,
        values: Array,
        labeled: Array,
        prior: Array | None,
        steps: int,
        seed: int,
    ) -> Steps | None:
        """Return the result of threshold steps, or None if they predict left-out labels worse than the fit itself."""
        laplacian = self._basis()._laplacian
        assert laplacian is not None
        if laplacian.degree is None:
            msg = "FewLabelClassifier: threshold steps need a graph that is built from weights. Use steps=0."
            raise DataError(msg)
        walk = Walk(laplacian.matrix, laplacian.degree, self.n_jobs)
        options: dict[str, Any] = {"sizes": prior, "n_steps": steps, "seed": seed}
        if self.steps == "auto" and np.bincount(few.codes).max() > 1:
            folds = balanced_folds(few.codes, seed)
            gain = 0
            for fold in range(min(MOST_STEP_FOLDS, folds.max() + 1)):
                held, used = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
                if len(np.unique(few.codes[used])) < few.n_labels:
                    continue  # a class with a single label
                rest = FewLabels.of(few.Z[used], few.codes[used], few.n_labels, few.weight[used])
                without = self._node_values(fit_setting(rest, parts, selected.setting))
                found = threshold_steps(walk, without, labeled[used], few.codes[used], **options)
                plain = (without + class_shifts(without, prior, seed=seed))[labeled[held]].argmax(axis=1)
                gain += int((found.codes[labeled[held]] == few.codes[held]).sum() - (plain == few.codes[held]).sum())
            if gain < 0:
                return None
        return threshold_steps(walk, values, labeled, few.codes, **options)

    # ---- parts of the solution ------------------------------------------------------------------

    def _grid(self, n_components: int, n_labels: int) -> SettingGrid:
        """Return the candidates: single values where parameters are numbers."""
        given: dict[str, tuple[Any, ...]] = {}
        if self.strength == "loo":
            halves = [n_components >> i for i in range(1, n_components.bit_length())]
            given["components"] = (None, *(half for half in halves if half >= 2 * n_labels))
        for name, value in (("strengths", self.strength), ("powers", self.power), ("penalties", self.alpha)):
            if value != "loo":
                given[name] = (float(value),)
        if self.feature_map is not None:
            given["balances"] = BALANCES if self.balance == "loo" else (float(self.balance),)
        return SettingGrid(**given)

    def _n_steps(self, few: FewLabels, prior: Array | None) -> int:
        if self.steps != "auto":
            return int(self.steps)
        return STEPS if prior is not None and len(few) < self.n_components else 0

    def _prior(self, labels: Array, codes: Array, weight: Array) -> Array | None:
        """Return the fractions of the classes, or None if they are not known."""
        if self.class_prior is None:
            return None
        if isinstance(self.class_prior, str):
            check_parameter("FewLabelClassifier", "class_prior", self.class_prior, Choice(None, "uniform", "labels"))
            counts = np.ones(len(labels)) if self.class_prior == "uniform" else np.bincount(codes, weight)
            return counts / counts.sum()
        try:
            prior = np.asarray(self.class_prior, dtype=np.float64)
        except (TypeError, ValueError):  # a dictionary, or strings
            prior = np.empty(0)
        if prior.shape != (len(labels),) or not (np.isfinite(prior).all() and (prior > 0).all()):
            msg = (
                f"FewLabelClassifier: class_prior must be {len(labels)} numbers > 0, one per label in the order "
                f"{labels.tolist()[:5]}, or 'uniform', 'labels' or None, got {self.class_prior!r}. A class without a "
                "labeled row cannot be predicted: label a row of it, or leave it out."
            )
            raise ParameterError(msg)
        return prior / prior.sum()

    def _inner_map(self) -> BaseMap:
        """Return the fitted map of scaled columns, or of columns as they are."""
        return self.feature_map_.feature_map_ if isinstance(self.feature_map_, ScaledColumns) else self.feature_map_

    def _basis(self) -> GraphBasis:
        inner = self._inner_map()
        basis = inner.maps_[0] if isinstance(inner, SumMap) else inner
        assert isinstance(basis, GraphBasis)
        return basis

    def _parts(self, Z: Array, weight: Array) -> Parts:
        basis = self._basis()
        k = len(basis.eigenvalues_)
        squares = mean_squares(basis.features_)
        other = float(weight @ np.square(Z[:, k:]).sum(axis=1) / weight.sum()) if Z.shape[1] > k else 1.0
        return Parts(basis.eigenvalues_, Z.shape[1], squares, other, basis.graph_.n_connected_components == 1)

    def _node_values(self, coef: Array) -> Array:
        """Return the decision values (n, K) of all nodes."""
        basis = self._basis()
        features, k = basis.features_, len(basis.eigenvalues_)
        n = len(features.vectors)
        out = np.empty((n, coef.shape[1]))
        for start in range(0, n, BLOCK_ROWS):
            nodes = slice(start, start + BLOCK_ROWS)
            out[nodes] = features.at_nodes(nodes) @ coef[:k].astype(features.vectors.dtype)
        inner = self._inner_map()
        if isinstance(inner, SumMap):
            out += linear_values(inner.maps_[1].features_, basis._rows, coef[k:], n_jobs=self.n_jobs)
        return out

    def _inputs(self, X: Any) -> Any:
        """Return rows with scaled columns, if columns are scaled."""
        features: Features = self.feature_map_.features_
        return features.inputs(X).astype(X.dtype, copy=False) if isinstance(features, MetricFeatures) else X

    def relabel(self, y: Any) -> FewLabelClassifier:
        """Fit the model to other labels of the same rows, without building the graph again.

        Parameters
        ----------
        y : array-like of shape (n,)
            Labels of all rows of the fit, in their order; the `unlabeled` value where they are not known.

        Returns
        -------
        self : FewLabelClassifier
            The fitted object.
        """
        check_is_fitted(self)
        with unchanged_if_it_fails(self):
            self._check_parameters()
            basis = self._basis()
            if basis.nodes_ is None or basis._laplacian is None:
                msg = (
                    "FewLabelClassifier: relabel needs the graph of all rows of the fit, which a graph with max_rows "
                    "and a model from a file or a pickle do not have. Use fit."
                )
                raise DataError(msg)
            y = np.asarray(as_targets(y))
            if y.shape != basis.nodes_.shape:
                msg = (
                    f"FewLabelClassifier: y must have one label for each of the {len(basis.nodes_)} rows of the fit, "
                    f"got an array of shape {y.shape}."
                )
                raise DataError(msg)
            index = np.flatnonzero(has_target(y, self.unlabeled) & (basis.nodes_ >= 0))
            nodes = basis.nodes_[index]
            Z = np.asarray(basis.features_.at_nodes(nodes), dtype=np.float64)
            inner = self._inner_map()
            if isinstance(inner, SumMap):
                Z = np.hstack([Z, rows_to_features(inner.maps_[1].features_, basis._rows[nodes])])
            rows = LabeledRows(Z, plain_labels(y[index]), index, np.ones(len(index)))
            self._solve_labels(rows, nodes, nodes, self.random_state)
        return self

    # ---- predicting -----------------------------------------------------------------------------

    @rowwise
    def decision_function(self, X: Any) -> Array:
        """Return the decision values of rows, in the graph or not: one per label, or for two labels a single value.

        The single value is that of the second label minus that of the first.

        %(rows_to_results)s
        ndarray of shape (n,) or (n, K)
        """
        values = self._values(X)
        return values[:, 1] - values[:, 0] if values.shape[1] == 2 else values

    def _values(self, X: Any) -> Array:
        """Return the decision values (n, K) of rows, one per label."""
        check_is_fitted(self)
        if self.node_values_ is None:
            return self._linear(X, self.coef_.T, self.intercept_)
        X = validate_rows(self, X, reset=False)
        X = self._inputs(X)
        basis, out = self._basis().features_, np.empty((X.shape[0], len(self.classes_)))
        for start in range(0, X.shape[0], BLOCK_ROWS):
            found, weights = basis.neighborhood(X[start : start + BLOCK_ROWS])
            out[start : start + BLOCK_ROWS] = np.einsum("ij,ijk->ik", weights, self.node_values_[found])
        return out + self.intercept_

    @rowwise
    def predict(self, X: Any) -> Array:
        """Return the label of the largest decision value of each row, in the graph or not.

        %(rows_to_results)s
        ndarray of shape (n,)
        """
        return self.classes_[self._values(X).argmax(axis=1)]

    @rowwise
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all labels; the formula is in the Notes of the class.

        %(rows_to_results)s
        ndarray of shape (n, K)
        """
        return special.softmax(self.probability_scale_ * self._values(X), axis=1)

    def suggest_labels(self, n_rows: int = 10, *, criterion: Literal["total", "largest"] = "total") -> Array:
        """Return rows of the fit to label next, each as if those before it were labeled.

        Parameters
        ----------
        n_rows : int, default=10
            Number of rows; of fewer unlabeled rows, all are returned.
        criterion : {"total", "largest"}, default="total"
            "total" takes the row whose label reduces the sum of the variances of all nodes the most, for a Gaussian
            process on the graph with the selected weights of eigenvectors. "largest" takes the row of the largest
            variance, which is often far from all others.

        Returns
        -------
        ndarray of shape (n_rows,)
            Indices of rows of the fit that have no label. Of more than 20,000 nodes, a sample is considered.
        """
        check_is_fitted(self)
        check_parameter("FewLabelClassifier", "n_rows", n_rows, Integer(1))
        check_parameter("FewLabelClassifier", "criterion", criterion, Choice("total", "largest"))
        basis = self._basis()
        if basis.nodes_ is None:
            msg = (
                "FewLabelClassifier: suggest_labels needs a graph of all rows of the fit, but it was built from a part "
                "of them. Fit a graph without max_rows."
            )
            raise DataError(msg)
        nodes, first = np.unique(basis.nodes_, return_index=True)
        nodes, first = nodes[nodes >= 0], first[nodes >= 0]
        free = np.setdiff1d(nodes, self._labeled_nodes_)
        if not free.size:
            msg = "FewLabelClassifier: all rows of the fit have a label; there is nothing to suggest."
            raise DataError(msg)
        if len(free) > MOST_CANDIDATES:
            rng = np.random.default_rng(seed_of(self.random_state, "suggestions"))
            free = np.sort(rng.permutation(free)[:MOST_CANDIDATES])
        k = len(basis.eigenvalues_)
        parts = self._parts(np.zeros((1, k)), np.ones(1))
        factors = parts.factors(self.strength_, self.power_, 1.0, self.n_components_)[:k]
        at = basis.features_.at_nodes
        scaled = [np.asarray(at(some), np.float64) * factors for some in (free, self._labeled_nodes_)]
        gram = np.zeros((k, k))
        for start in range(0, len(nodes), BLOCK_ROWS):
            Z = np.asarray(at(nodes[start : start + BLOCK_ROWS]), np.float64) * factors
            gram += Z.T @ Z
        rows, _ = next_rows(scaled[0], gram / len(nodes), scaled[1], n_rows, noise=PROCESS_NOISE, criterion=criterion)
        return first[np.searchsorted(nodes, free[rows])]


def merged(keys: Array, codes: Array, weight: Array) -> tuple[Array, Array]:
    """Return the first of the rows with the same key and code each, in ascending order, and the sums of weights.

    Examples
    --------
    >>> import numpy as np
    >>> merged(np.array([7, 5, 7, 7]), np.array([0, 0, 0, 1]), np.ones(4))
    (array([0, 1, 3]), array([2., 1., 1.]))
    """
    order = np.lexsort((codes, keys))
    new = np.ones(len(order), dtype=bool)
    new[1:] = (np.diff(keys[order]) != 0) | (np.diff(codes[order]) != 0)
    first = order[new]  # the sort is stable
    total = np.add.reduceat(weight[order], np.flatnonzero(new))
    ascending = np.argsort(first)
    return first[ascending], total[ascending]


def has_units(X: Any) -> bool:
    """Return whether columns of dense rows have different units, judged by their ranges over some rows."""
    if sp.issparse(X) or X.shape[1] < 2 or X.shape[0] < 2:
        return False
    some = X[:: max(1, X.shape[0] // SCALE_ROWS)]
    ranges = np.asarray(some.max(axis=0) - some.min(axis=0), dtype=np.float64)
    ranges = ranges[ranges > 0]
    if len(ranges) < 2:
        return False
    low, high = np.quantile(ranges, [TAIL, 1 - TAIL], method="nearest")
    if len(ranges) * TAIL < 1:
        low, high = ranges.min(), ranges.max()
    return bool(high > MOST_DIFFERENT * low)


def mean_squares(features: GraphFeatures) -> Array:
    """Return the mean squares (k,) of the features over the nodes."""
    n = len(features.vectors)
    total = np.zeros(features.n_components)
    for start in range(0, n, BLOCK_ROWS):
        total += np.square(features.at_nodes(slice(start, start + BLOCK_ROWS)), dtype=np.float64).sum(axis=0)
    return total / n
