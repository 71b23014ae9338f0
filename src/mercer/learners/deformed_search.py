"""Selection of the strength and power of a deformed map, and of the ridge penalty, by scores on the labeled rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from mercer._docs import doc
from mercer.data.callbacks import CallbackSupport, calling_callbacks, fit_report
from mercer.data.sources import Reader, source_of
from mercer.data.targets import Labels, Numbers
from mercer.engines import Engine, StagedReport, enter_stage, reported
from mercer.errors import DataError, ParameterError
from mercer.graphs import Deformed, GraphSummary
from mercer.learners.base import SUM_COST, MetaEstimatorMixin, available_if, check_is_fitted, get_tags
from mercer.learners.base import labeled_rows as rows_with_targets
from mercer.learners.ridge import KernelRidge, KernelRidgeClassifier
from mercer.maps.base import Estimator, fresh_copy, unchanged_if_it_fails, warn_of_scales
from mercer.parameters import Choice, Domain
from mercer.solvers.ridge.deformations import (
    Candidate,
    DeformationGrid,
    best_of,
    search_costs,
    search_deformations,
    warn_at_ends,
)
from mercer.solvers.ridge.label_scores import (
    SEARCH_CRITERIA,
    LabeledFeatures,
    LabeledRows,
    LabelScorer,
    SearchCriterion,
)

__all__ = ["DeformedSearchCV"]

Array = np.ndarray
STRENGTHS = (0.0, 0.01, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4)
CRITERION_NAMES = {"cv": "cross-validation", "loo": "leave-one-out", "evidence": "evidence"}


def _has(method: str) -> Any:
    """Return a function for `available_if` that checks whether the estimator of a search has the method `name`."""

    def check(search: DeformedSearchCV) -> bool:
        getattr(vars(search).get("best_estimator_", search.estimator), method)
        return True

    return check


class DeformedSearchCV(CallbackSupport, MetaEstimatorMixin, Estimator):
    r"""Search for the strength and power of a deformed map and the ridge penalty, by scores on the labeled rows.

    The graph is built once, and its roughness :math:`\Phi^\top L^c \Phi` is computed once per power. Every strength
    costs a Cholesky factorization, and every penalty hardly anything, since the candidates are solved on the labeled
    rows only. A search over hundreds of candidates therefore takes little more time than a few fits.

    Parameters
    ----------
    estimator : KernelRidge or KernelRidgeClassifier
        The model, whose `feature_map` is a `Deformed` map and whose `unlabeled` is the value in `y` of rows without a
        target. Its `alpha`, and `strength` and `power` of its map, are replaced by those of the candidates.
    strengths : sequence of float, default=(0, 0.01, 0.1, 1, 10, 100, 1000, 10000)
        Strengths of the deformation. Zero is the inner map without a graph, and shows whether the graph helps.
    powers : sequence of float, default=(1, 2, 3)
        Powers of the Laplacian.
    penalties : sequence of float or None, default=None
        Ridge penalties > 0. None means 17 penalties from 1e-7 to 10 times the largest eigenvalue of the kernel matrix
        of the labeled rows, for each strength and power.
    criterion : {"loo", "cv", "evidence"}, default="loo"
        The score. "loo" is minus the squared error of exact leave-one-out, with labels coded as +1 and -1; "cv" is the
        cross-validated accuracy of labels, or R^2 of numeric targets; "evidence" is the marginal likelihood, which
        holds out no row and so also works with one label per class. See Notes.
    cv : int or array-like of shape (n,), default=5
        For criterion "cv": the number of folds, which are stratified by label; or the fold of each row, to keep groups
        together. The folds of unlabeled rows are ignored.
    random_state : int, Generator, RandomState or None, default=0
        Seed of the folds.

    Attributes
    ----------
    best_estimator_ : KernelRidge or KernelRidgeClassifier
        The estimator with the best parameters, fitted on all rows.
    best_params_ : dict
        The parameters of the best candidate: "alpha", "feature_map__power" and "feature_map__strength".
    best_score_ : float
        The score of the best candidate.
    best_index_ : int
        The index of the best candidate in `cv_results_`. Among candidates of equal score, it is the one of
        least squared error; among those of equal squared error, the one of fewest degrees of freedom.
    cv_results_ : dict of arrays
        One entry per candidate: "params", "param_alpha", "param_feature_map__power", "param_feature_map__strength",
        "mean_test_score" (the score), "standard_error" of the score, "squared_error" of held-out targets,
        "degrees_of_freedom" on the labeled rows, and "rank_test_score". Errors are NaN for criterion "evidence". It can
        be passed to ``pandas.DataFrame``.
    plain_index_ : int or None
        Index of the best candidate of strength zero, or None if zero is not among `strengths`.
    graph_ : GraphSummary
        The graph of all rows.
    n_labeled_ : int
        Number of rows whose target is known.
    classes_ : ndarray of shape (K,)
        The labels, for a classifier.
    n_features_in_ : int
        Number of features of the rows seen in `fit`.

    See Also
    --------
    Deformed : The map whose parameters are selected.
    sklearn.model_selection.GridSearchCV : Search over any parameters, which builds a graph for every candidate.

    Notes
    -----
    Held-out rows remain nodes of the graph, and only their labels are hidden. The scores are therefore those of rows
    that are known before the fit (transductive), and new rows may be predicted less accurately. The best of many scores
    is also optimistic, especially with few labels: estimate the accuracy on labels that were not used in the search.

    Leave-one-out and cross-validation are exact, from one eigendecomposition per strength and power [1]_.

    If the best candidate lies at an end of the grid and is clearly better than the others, a `MercerWarning` is issued.
    The ends strength 0 and power 1 do not warn, nor do lists of one or two values.

    With few labels there are few different accuracies, and many candidates are tied by "cv". "loo" uses the same
    labels more efficiently and is recommended. "evidence" models labels as numbers with Gaussian noise, which is
    inaccurate, and often prefers no graph.

    The memory is two matrices of shape (D, D) and the features of the labeled rows. If `progress` of the estimator is
    set, it covers the search: the graph, the roughness of each power, the candidates, and the fit of the best one.

    References
    ----------
    .. [1] An, Liu, Venkatesh (2007), Fast cross-validation algorithms for least squares support vector machine and
       kernel ridge regression, Pattern Recognition.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import make_moons
    >>> from mercer import Deformed, DeformedSearchCV, Gaussian, KernelRidgeClassifier, NeighborGraph, RandomFourier
    >>> X, truth = make_moons(400, noise=0.08, random_state=0)
    >>> y = np.full(400, -1)
    >>> for label in (0, 1):
    ...     y[np.flatnonzero(truth == label)[:5]] = label  # five labels per class
    >>> feature_map = Deformed(RandomFourier(Gaussian(0.3), 300, random_state=0), NeighborGraph(8))
    >>> search = DeformedSearchCV(KernelRidgeClassifier(feature_map, unlabeled=-1), powers=(1, 2)).fit(X, y)
    >>> bool(search.best_params_["feature_map__strength"] > 0)
    True
    >>> bool(search.score(X, truth) > 0.98)
    True
    """

    parameter_domains: ClassVar[Mapping[str, Domain]] = {"criterion": Choice(*SEARCH_CRITERIA)}

    best_estimator_: Any
    best_params_: dict[str, float]
    best_score_: float
    best_index_: int
    cv_results_: dict[str, Any]
    plain_index_: int | None
    graph_: GraphSummary
    n_labeled_: int

    def __init__(
        self,
        estimator: KernelRidge | KernelRidgeClassifier,
        *,
        strengths: Sequence[float] = STRENGTHS,
        powers: Sequence[float] = (1, 2, 3),
        penalties: Sequence[float] | None = None,
        criterion: SearchCriterion = "loo",
        cv: Any = 5,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.strengths = strengths
        self.powers = powers
        self.penalties = penalties
        self.criterion = criterion
        self.cv = cv
        self.random_state = random_state

    # ---- fitting ------------------------------------------------------------------------------

    @calling_callbacks
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Score all candidates, and fit the best one.

        Parameters
        ----------
        X, y, sample_weight
            All rows, labeled or not, in any form that `fit` of the estimator accepts: arrays, blocks that can be read
            again, files, or Dask collections. Weights are repetitions of rows.

        Returns
        -------
        self : object
            The fitted object.
        """
        with unchanged_if_it_fails(self):
            self._check_domains()
            self._fit(X, y, sample_weight)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        grid = DeformationGrid.of("DeformedSearchCV", self.strengths, self.powers, self.penalties)
        model = self._checked_estimator()
        owner, labels = type(model).__name__, isinstance(model, KernelRidgeClassifier)
        deformed = fresh_copy(model.feature_map)
        coding = Labels(model.unlabeled) if labels else Numbers(model.unlabeled)
        reader = Reader(model, coding, width=deformed.width, block_size=model.block_size, n_jobs=model.n_jobs)
        engine = source_of(X, y, sample_weight, owner=owner).engine(reader)
        warn_of_scales(model, deformed._kernel(), engine)
        report = fit_report(self, model.progress)
        with reported(report):
            self._search(engine, reader, deformed, grid, report)

    def _search(
        self, engine: Engine, reader: Reader, deformed: Deformed, grid: DeformationGrid, report: StagedReport | None
    ) -> None:
        model = reader.estimator
        owner, labels = type(model).__name__, isinstance(model, KernelRidgeClassifier)
        n, D = engine.n_rows, deformed.width
        graph = {} if n is None else deformed.fit_costs(n, model.n_features_in_)
        # The number of labeled rows is known only later: the stages after the graph are announced then.
        before = {name: graph[name] for name in graph if name not in ("measure roughness", "deform")}
        if report is not None and n is not None:
            report.plan({**before, "read labels": float(n * D), **search_costs(grid, n, 0, D), **refit_costs(n, D)})
        inner, measure = deformed.measure(engine, report)
        enter_stage(report, "read labels")
        labeled = rows_with_targets(owner, engine, model.unlabeled)
        rows = labeled.sum(LabeledFeatures(inner.features_), report)
        if report is not None and n is not None:
            m = len(rows.Z)
            report.plan({**search_costs(grid, n, m, D), **refit_costs(m, D)})
        scorer = LabelScorer.of(
            "DeformedSearchCV",
            rows,
            labels=labels,
            criterion=self.criterion,
            cv=self.cv,
            random_state=self.random_state,
            n_rows=engine.n_rows,
        )
        self._check_evidence(rows, fit_intercept=model.fit_intercept)
        candidates, best, roughness = search_deformations(
            measure, rows, scorer, grid, fit_intercept=model.fit_intercept, rank=deformed.rank, report=report
        )
        warn_at_ends(candidates, candidates[best], self.criterion)
        self._set_results(candidates, best)
        self.graph_, self.n_labeled_ = roughness.graph, len(rows.Z)
        fitted = fresh_copy(deformed, strength=candidates[best].strength, power=candidates[best].power)
        enter_stage(report, "deform")
        fitted.fit_roughness(inner, roughness, engine.first().X.dtype)
        self.n_features_in_ = model.n_features_in_
        if hasattr(model, "feature_names_in_"):
            self.feature_names_in_ = fitted.feature_names_in_ = model.feature_names_in_
        best_estimator = fresh_copy(self.estimator, **self.best_params_)
        self.best_estimator_ = best_estimator.fit_engine(engine, fitted, reader, report)

    def _checked_estimator(self) -> Any:
        """Return an unfitted copy of the estimator; raise if it is not a ridge learner on a `Deformed` map."""
        if not isinstance(self.estimator, KernelRidge | KernelRidgeClassifier):
            msg = (
                "DeformedSearchCV: estimator must be a KernelRidge or a KernelRidgeClassifier, whose candidates are "
                f"cheap to solve, got {type(self.estimator).__name__}. Search with one of these, and use the best map "
                "with another learner."
            )
            raise ParameterError(msg)
        if not isinstance(self.estimator.feature_map, Deformed):
            msg = (
                "DeformedSearchCV: feature_map of the estimator must be a Deformed map, got "
                f"{self.estimator.feature_map!r}. Try Deformed(RandomFourier(Gaussian('median')), NeighborGraph())."
            )
            raise ParameterError(msg)
        return fresh_copy(self.estimator)

    def _check_evidence(self, rows: LabeledRows, *, fit_intercept: bool) -> None:
        """Raise `DataError` if the criterion is "evidence" and the labeled rows are too few to compare candidates."""
        if self.criterion != "evidence":
            return
        weight = float(rows.weight.sum())
        if weight <= fit_intercept:
            msg = (
                "DeformedSearchCV: criterion='evidence' counts weights as rows, and needs a total weight above one of "
                f"all labeled rows, got {weight:g}. Scale the weights to a mean of one, or use criterion='loo'."
            )
            raise DataError(msg)
        if len(rows.Z) - fit_intercept < 2:
            msg = (
                f"DeformedSearchCV: with {len(rows.Z)} labeled rows and an intercept all candidates have the same "
                "evidence. Label more rows, or set strength and power of the map by hand."
            )
            raise DataError(msg)

    def _set_results(self, candidates: list[Candidate], best: int) -> None:
        params = [
            {"alpha": c.penalty, "feature_map__power": c.power, "feature_map__strength": c.strength} for c in candidates
        ]
        scores = np.array([c.score for c in candidates])
        self.cv_results_ = {
            "params": params,
            **{f"param_{name}": np.array([one[name] for one in params]) for name in params[0]},
            "mean_test_score": scores,
            "standard_error": np.array([c.standard_error for c in candidates]),
            "squared_error": np.array([c.squared_error for c in candidates]),
            "degrees_of_freedom": np.array([c.degrees for c in candidates]),
            "rank_test_score": 1 + (scores[:, None] < scores).sum(axis=1),
        }
        plain = best_of([c for c in candidates if c.strength == 0])
        self.plain_index_ = None if plain is None else candidates.index(plain)
        self.best_index_, self.best_score_, self.best_params_ = best, candidates[best].score, params[best]

    # ---- results ------------------------------------------------------------------------------

    def summary(self) -> str:
        """Return a table of the scores as text, with one line per strength and one column per power.

        Each cell shows the highest score over all penalties, and its standard error unless the criterion is "evidence".
        A star marks the best candidate, whose parameters are on the last line.

        Returns
        -------
        str
        """
        self._fitted()
        results = self.cv_results_
        strengths, powers = results["param_feature_map__strength"], results["param_feature_map__power"]
        lines = [
            f"{CRITERION_NAMES[self.criterion]} on {self.n_labeled_} labeled of {self.graph_.n_nodes} rows, the best "
            "penalty of each:",
            f"{'strength':>9}" + "".join(f"{f'power {power:g}':>18}" for power in np.unique(powers)),
        ]
        for strength in np.unique(strengths):
            line = f"{strength:>9g}"
            for power in np.unique(powers):
                some = np.flatnonzero((strengths == strength) & (powers == power))
                line += f"{self._cell(some):>18}"
            lines.append(line.rstrip())
        best = self.best_params_
        lines.append(
            f"best: strength={best['feature_map__strength']:g}, power={best['feature_map__power']:g}, "
            f"alpha={best['alpha']:.3g}, {self._cell(np.array([self.best_index_])).strip(' *')}"
        )
        return "\n".join(lines)

    def _cell(self, some: Array) -> str:
        """Return the highest score of the candidates with indices `some`, as text for one cell of the table.

        A star is appended if the score is `best_score_`. The text is empty if `some` is empty.
        """
        if not len(some):
            return ""
        scores = self.cv_results_["mean_test_score"]
        best = self.best_index_ if self.best_index_ in some else some[scores[some].argmax()]
        error = self.cv_results_["standard_error"][best]
        spread = "" if np.isnan(error) else f" ± {error:.3f}"
        return f"{scores[best]:.3f}{spread}{' *' if best == self.best_index_ else '  '}"

    def _fitted(self) -> Any:
        """Return the best estimator; raise `NotFittedError` if the search is not fitted."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    # ---- the best estimator -------------------------------------------------------------------

    @property
    def classes_(self) -> Array:
        return self.best_estimator_.classes_

    @doc
    def predict(self, X: Any) -> Array:
        """Return the predictions of the best estimator.

        %(rows_to_results)s
        ndarray of shape (n,) or (n, t)
        """
        return self._fitted().predict(X)

    @available_if(_has("predict_proba"))
    @doc
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all labels by the best estimator.

        %(rows_to_results)s
        ndarray of shape (n, K)
        """
        return self._fitted().predict_proba(X)

    @available_if(_has("decision_function"))
    @doc
    def decision_function(self, X: Any) -> Array:
        """Return the decision values of the best estimator.

        %(rows_to_results)s
        ndarray of shape (n,) or (n, K)
        """
        return self._fitted().decision_function(X)

    @doc
    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Return the score of the best estimator on rows whose target is known: accuracy or R^2.

        %(scored_rows)s
        """
        return self._fitted().score(X, y, sample_weight)

    def __sklearn_tags__(self) -> Any:
        tags, inner = super().__sklearn_tags__(), get_tags(self.estimator)
        tags.estimator_type = inner.estimator_type
        tags.classifier_tags, tags.regressor_tags = inner.classifier_tags, inner.regressor_tags
        tags.input_tags, tags.target_tags = inner.input_tags, inner.target_tags
        return tags


def refit_costs(n: int, D: int) -> dict[str, float]:
    """Return the stages of the fit of the best estimator and their costs, for n labeled rows and D components."""
    return {"deform": float(D**3), "sum over rows": SUM_COST * n * D**2, "solve": 0.3 * D**3}
