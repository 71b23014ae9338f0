"""Classifiers that minimize a penalized loss on features: logistic regression and support vector machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import special

from mercer._docs import PARAGRAPHS, doc
from mercer.data.results import rowwise
from mercer.engines import Report, enter_stage
from mercer.engines.passes import Passes
from mercer.errors import ParameterError
from mercer.features import features_of
from mercer.kernels import Kernel
from mercer.learners.base import Classifier, Fit, available_if, warn_not_converged
from mercer.learners.checkpointing import fingerprint_of
from mercer.learners.local_correction import NEIGHBORS, LabelTargets, LocalCorrection, fit_loss_correction
from mercer.maps import BaseMap
from mercer.parameters import Choice, Domain, Instance, Integer, Interval
from mercer.solvers.local.near_logits import LossPart, coupling_of
from mercer.solvers.losses.curvature import SampleCurvature
from mercer.solvers.losses.fit import minimize_on_rows, sample_size
from mercer.solvers.losses.losses import Logistic, Loss, Problem, SquaredHinge
from mercer.solvers.losses.path import choose_weight
from mercer.solvers.losses.sample import Sample
from mercer.statistics.feature_cache import RowFeatures
from mercer.statistics.label_counts import CountLabels, LabelCounts

__all__ = ["KernelLogisticRegression", "KernelSVC", "label_factors"]

Array = np.ndarray
# The sample is a means to find the minimum and does not change it, so it is the same for every `random_state`.
SAMPLE_SEED = 20260
# Generators have a state that changes with use, so that equal parameters do not mean equal draws.
GENERATORS = (np.random.Generator, np.random.RandomState, np.random.BitGenerator)
# Rows on which two maps with equal features are taken to be the same.
SAME_ROWS = 64

LOSS_PARAMETERS = """\
C : float or "auto", default="auto"
    Weight of the losses relative to half the squared norm of the coefficients, as in scikit-learn: smaller values mean
    more regularization. "auto" chooses it by the loss of rows that are held out; see Notes.
fit_intercept : bool, default=True
    Whether to fit an intercept, which is not penalized.
class_weight : dict, "balanced" or None, default=None
    Factors of the sample weights by label; "balanced" gives all labels the same total weight. Labels that a dict does
    not name have the factor 1.
max_iter : int, default=100
    Maximal number of steps.
tol : float, default=1e-6
    The fit ends when the objective exceeds its minimum by at most this fraction of what the fit has gained over the
    best constant decision values, as estimated from the gradient. At the default, probabilities differ from those at
    the minimum by about 0.001. Coefficients that are exact to ten digits need a `tol` of about 1e-20, at two to three
    times the number of steps.
warm_start : bool, default=False
    Whether `fit` starts from the coefficients of the previous fit and uses its map, as long as the parameters of the
    map, the number of features and the labels are the same. A map that depends on the rows is fitted again: with a
    seed, the coefficients are reused if the map is the same."""

PARAGRAPHS |= {
    "loss_parameters": "\n".join(
        [
            PARAGRAPHS["feature_map"],
            LOSS_PARAMETERS,
            PARAGRAPHS["neighbors"],
            PARAGRAPHS["unlabeled_label"],
            PARAGRAPHS["common_parameters"],
        ]
    ),
    "loss_attributes": """\
classes_ : ndarray of shape (K,)
    Labels of rows with a positive weight, sorted.
coef_ : ndarray of shape (K, D), or (1, D) for two labels
    Coefficients of the features.
intercept_ : ndarray of shape (K,) or (1,)
    Intercepts.
C_ : float
    The weight of the losses used.
path_ : LossPath or None
    Weights of the losses that were tried, `path_.weights`, and the mean losses of the rows held out, `path_.losses`;
    None if `C` is a number.
n_iter_ : int
    Number of steps on all rows.
n_passes_ : int
    Number of passes over all rows.
feature_map_ : BaseMap
    The fitted map.
width_ : int
    Number of components of the fitted map."""
    + "\n"
    + PARAGRAPHS["local_"],
    "loss_local": """\
With `neighbors`, decision values are logits a f(x) + b g(x), where f are those of the features, and g predicts the
codes +1 and -1 of the labels from the near rows. The factors, the noise of g, and whether only f, only g or both are
used, are those of the least logarithmic loss of a sample of 2000 rows that are left out one at a time. The
coefficients without a row are approximated by one Newton step. The probabilities are the softmax of the logits.""",
    "loss_notes": """\
With ``C="auto"``, a path of weights is tried on a sample of rows, of 4096 rows or eight per component: a quarter of
the rows is held out, or two quarters in turn if there are fewer than 1000 rows. The path ascends by factors of ten,
each minimization starts from the one before, and the path ends when the loss of the rows held out increases. Then the
weights on both sides of the best one are tried. The model is fitted to all rows with the weight of the least loss.

The minimum is the same in memory, out of core and on Dask, up to `tol`. A sample of rows gives a starting point, and
the Hessian that preconditions L-BFGS. Each step is then one pass over all rows, which sums values and gradients, and a
fit takes about ten passes. Memory is O(D^2) per label plus one block of rows, for any number of rows. Features are
stored only if they are slow to compute, the rows are in memory, and their features take at most 512 MiB. For float32
rows, products are computed in float32, unless `tol` is below 1e-9.""",
}

PARAGRAPHS["loss_classifier"] = "\n".join(
    [
        "Parameters\n----------",
        PARAGRAPHS["loss_parameters"],
        "\nAttributes\n----------",
        PARAGRAPHS["loss_attributes"],
    ]
)


class LossClassifier(Classifier):
    """A classifier that minimizes a penalized loss over all rows."""

    #: The loss that is minimized.
    loss: ClassVar[Loss]

    parameter_domains: ClassVar[Mapping[str, Domain]] = {
        "C": Interval(0, closed="neither") | Choice("auto"),
        "class_weight": Choice(None, "balanced") | Instance(dict, "a dict"),
        "neighbors": NEIGHBORS,
        "max_iter": Integer(1),
        "tol": Interval(0, closed="neither"),
    }

    def __init__(
        self,
        feature_map: BaseMap | Kernel | None = None,
        *,
        C: float | Literal["auto"] = "auto",
        fit_intercept: bool = True,
        class_weight: Any = None,
        neighbors: int | Literal["auto"] | LocalCorrection | None = None,
        max_iter: int = 100,
        tol: float = 1e-6,
        warm_start: bool = False,
        unlabeled: Any = None,
        block_size: int | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: bool | Report = False,
    ) -> None:
        self.feature_map = feature_map
        self.C = C
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.neighbors = neighbors
        self.max_iter = max_iter
        self.tol = tol
        self.warm_start = warm_start
        self.unlabeled = unlabeled
        self.block_size = block_size
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    def _several_passes(self) -> str:
        return "it reads the rows many times. Use KernelRidgeClassifier, which reads them once."

    def _statistic(self, fit: Fit) -> None:  # noqa: ARG002 - the signature of the contract
        if self.neighbors is not None and self.class_weight is not None:
            msg = (
                f"{type(self).__name__}: class_weight must be None with neighbors=, got {self.class_weight!r}: near "
                "rows have no weights of labels. Try sample_weight, or neighbors=None."
            )
            raise ParameterError(msg)
        # The solver asks for its sums.

    def _solve(self, statistic: None, fit: Fit | None) -> None:  # noqa: ARG002 - the signature of the contract
        assert fit is not None
        enter_stage(fit.report, "count labels")
        counts = fit.labeled.sum(CountLabels(sample_size(self.feature_map_.features_.n_components), SAMPLE_SEED))
        self._check_two_labels(counts.labels)
        label_weight = label_factors(type(self).__name__, self.class_weight, counts.labels, counts.weight)
        problem = Problem(RowFeatures(self.feature_map_.features_), self.loss, counts.labels, label_weight)
        self.path_ = None
        if isinstance(self.C, str):
            enter_stage(fit.report, "choose C")
            self.path_ = choose_weight(
                problem, counts, fit_intercept=bool(self.fit_intercept), n_jobs=self.n_jobs, report=fit.report
            )
        self.C_ = float(self.C) if self.path_ is None else self.path_.C
        passes = Passes(fit.report)
        found = minimize_on_rows(
            fit.labeled,
            problem,
            counts,
            C=self.C_,
            fit_intercept=bool(self.fit_intercept),
            start=self._start(fit, counts.labels),
            passes=passes,
            report=fit.report,
            n_jobs=self.n_jobs,
            tol=float(self.tol),
            max_iter=int(self.max_iter),
        )
        self.classes_ = counts.labels
        self.coef_ = found.coef[:-1].T.copy()
        self.intercept_ = found.coef[-1].copy()
        self.n_iter_ = found.steps
        self.n_passes_ = passes.count + 1  # that of the label counts
        if not found.converged:
            warn_not_converged(
                f"{type(self).__name__}: after {found.steps} steps, the objective exceeds its minimum by an estimated "
                f"{found.excess:.1g} of its decrease (tol={self.tol:g}). Try a larger max_iter, a larger tol, or a "
                "smaller C."
            )
        self.local_ = None
        if self.neighbors is not None:
            part = self._loss_part(problem, counts, found.coef)
            self.local_ = fit_loss_correction(self, part, fit, LabelTargets(counts.labels))

    def _loss_part(self, problem: Problem, counts: LabelCounts, coef: Array) -> LossPart:
        """Return the fitted model with its Hessian, from which decision values without a row are computed."""
        coupling, intercept = coupling_of(self.loss, coef.shape[1]), bool(self.fit_intercept)
        sample = Sample.of(counts, problem.features, self.n_jobs)
        curvature = SampleCurvature(sample, sample, coupling * self.C_, problem, intercept, exact=True)
        hessian = curvature(coef, accurate=True)
        return LossPart(coef[:-1], coef[-1], self.loss, self.C_, hessian, coupling, intercept)

    # ---- starting from the previous fit -----------------------------------------------------------

    def _fit_map(self, fit: Fit) -> BaseMap:
        # A map drawn again would make the previous coefficients meaningless, so it is reused if its parameters are
        # the same.
        prototype, n_features = fit.feature_map, fit.engine.first().X.shape[1]
        generators = [id(value) for value in prototype.get_params().values() if isinstance(value, GENERATORS)]
        self._drawn_for_ = (n_features, fingerprint_of(prototype), generators)
        reusable = self.warm_start and fit.previous.get("_drawn_for_") == self._drawn_for_
        if reusable and not prototype.needs_rows():
            return fit.previous["feature_map_"]
        return fit.fitted(prototype)

    def _start(self, fit: Fit, labels: Array) -> Array | None:
        """Return the starting point of a warm start: coefficients and intercept of the previous fit, (D + 1, K).

        The result is None if `warm_start` is False, or if the features or the labels differ from those of that fit.
        """
        before = fit.previous
        if not self.warm_start or before.get("_drawn_for_") != self._drawn_for_:
            return None
        if not np.array_equal(before["classes_"], labels):
            return None
        if not same_features(before["feature_map_"], self.feature_map_, fit.engine.first().X[:SAME_ROWS]):
            return None
        coef = np.vstack([before["coef_"].T, before["intercept_"]])
        if not self.fit_intercept:
            coef[-1] = 0.0
        return coef


def label_factors(owner: str, choice: Any, labels: Array, weight: Array) -> Array:
    """Return the factor of the weights of the rows of each label (K,), as a parameter `class_weight` specifies.

    Parameters
    ----------
    owner : str
        Name of the learner, for messages.
    choice : dict, "balanced" or None
        The parameter.
    labels, weight : ndarray of shape (K,)
        Labels, and the total sample weight of each.
    """
    if choice is None:
        return np.ones(len(labels))
    if isinstance(choice, str):
        return weight.sum() / (len(labels) * weight)
    unknown = [label for label in choice if label not in set(labels.tolist())]
    if unknown and not set(labels.tolist()) <= set(choice):
        msg = (
            f"{owner}: class_weight has {unknown}, which are not labels of these rows; the labels "
            f"are {labels.tolist()}."
        )
        raise ParameterError(msg)
    factors = np.array([choice.get(label, 1.0) for label in labels.tolist()], dtype=np.float64)
    if not (np.isfinite(factors).all() and (factors > 0).all()):
        msg = f"{owner}: weights in class_weight must be finite and > 0, got {choice!r}."
        raise ParameterError(msg)
    return factors


def same_features(one: BaseMap, other: BaseMap, X: Any) -> bool:
    """Return whether two fitted maps have equal features on the rows `X`."""
    if one is other:
        return True
    a, b = (features_of(each.features_.astype(X.dtype), X) for each in (one, other))
    return a.shape == b.shape and bool(np.array_equal(a, b))


def has_probabilities(model: Any) -> bool:
    """Return True if a model has a local correction; otherwise raise an error that gives the reason."""
    if model.neighbors is None:
        msg = (
            f"{type(model).__name__} has no predict_proba with neighbors=None. Try neighbors=64, or "
            "KernelLogisticRegression."
        )
        raise AttributeError(msg)
    return True


def per_label(values: Array, of_two: Callable[[Array], Array], of_many: Callable[..., Array]) -> Array:
    """Return decision values with one column per label (n, K), also for two labels.

    The given decision values have a single column if there are two labels.
    """
    return np.column_stack([of_two(-values), of_two(values)]) if values.ndim == 1 else of_many(values, axis=1)


@doc
class KernelLogisticRegression(LossClassifier):
    r"""Kernel logistic regression at linear cost.

    Multinomial logistic regression on the features of a map. The model is scikit-learn's `LogisticRegression` on these
    features, at its exact minimum,

    .. math:: \min_{W, b} \; C \sum_i w_i \, \bigl(\log \textstyle\sum_k e^{f_{ik}} - f_{i y_i}\bigr)
        + \tfrac{1}{2} \|W\|^2, \qquad f_i = W z(x_i) + b.

    For two labels there is one column of coefficients, and the loss is that of the logistic function. Labels need not
    be known in advance.

    %(loss_classifier)s

    See Also
    --------
    KernelRidgeClassifier : One pass over the rows, and `partial_fit`.
    KernelSVC : The squared hinge loss.
    sklearn.linear_model.LogisticRegression : The same model on given features.

    Notes
    -----
    %(loss_notes)s

    %(loss_local)s

    References
    ----------
    .. [1] Zhu, Hastie (2005), Kernel logistic regression and the import vector machine, Journal of Computational and
       Graphical Statistics.
    .. [2] Lin, Weng, Keerthi (2008), Trust region Newton method for large-scale logistic regression, JMLR.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from mercer import KernelLogisticRegression
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = KernelLogisticRegression(C=10.0, random_state=0).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.97)
    True
    >>> model.predict_proba(X_test).shape
    (180, 4)
    """

    loss = Logistic()

    @rowwise
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all labels.

        %(rows_to_results)s
        ndarray of shape (n, K)
        """
        return per_label(self.decision_function(X), special.expit, special.softmax)

    @rowwise
    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of the probabilities of all labels, finite even if probabilities underflow to 0.

        %(rows_to_results)s
        ndarray of shape (n, K)
        """
        return per_label(self.decision_function(X), special.log_expit, special.log_softmax)


@doc
class KernelSVC(LossClassifier):
    r"""Kernel support vector machine at linear cost, with the squared hinge loss, one label against the rest.

    The model of scikit-learn's `LinearSVC` on the features of a map, at its exact minimum, except that the intercept is
    not penalized,

    .. math:: \min_{w, b} \; C \sum_i w_i \max(0, 1 - s_i (w^\top z(x_i) + b))^2 + \tfrac{1}{2} \|w\|^2,
        \qquad s_i = \pm 1,

    for each label, with s = +1 for its rows and s = -1 for all others. For two labels there is one such problem, with
    s = +1 for the second label. Labels need not be known in advance.

    %(loss_classifier)s

    See Also
    --------
    KernelLogisticRegression : The logarithmic loss, with probabilities.
    KernelRidgeClassifier : One pass over the rows, and `partial_fit`.
    sklearn.svm.LinearSVC : The same model on given features.
    sklearn.svm.SVC : The exact machine with the hinge loss, in time between O(n^2) and O(n^3).

    Notes
    -----
    %(loss_notes)s

    %(loss_local)s

    References
    ----------
    .. [1] Chapelle (2007), Training a support vector machine in the primal, Neural Computation.
    .. [2] Keerthi, DeCoste (2005), A modified finite Newton method for fast solution of large scale linear SVMs, JMLR.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from mercer import KernelSVC
    >>> X, y = load_digits(n_class=4, return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = KernelSVC(random_state=0).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.97)
    True
    """

    loss = SquaredHinge()

    @available_if(has_probabilities)
    @rowwise
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of all labels, with the parameter `neighbors` only.

        %(rows_to_results)s
        ndarray of shape (n, K)
        """
        self._check_fitted()
        if self.local_ is None:
            msg = f"{type(self).__name__}: predict_proba needs a fit with neighbors, got a fit without. Fit again."
            raise ParameterError(msg)
        return per_label(self.decision_function(X), special.expit, special.softmax)
