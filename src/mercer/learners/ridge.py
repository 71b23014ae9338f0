"""Ridge regression and ridge classification on features."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from mercer.engines import Accumulator, Block, Engine, Workers
from mercer.errors import DataError
from mercer.features import Features, features_of
from mercer.learners.base import check_fitted
from mercer.learners.linear_classifier import LinearClassifier
from mercer.learners.one_pass import OnePassClassifier, OnePassRegressor
from mercer.learners.ridge_learner import RidgeLearner
from mercer.solvers.ridge.calibration import best_scale
from mercer.solvers.ridge.least_squares import Leverages, solve_ridge
from mercer.statistics.label_moments import LabelSum
from mercer.statistics.moments import Moments, MomentSum, TargetMoments
from mercer.statistics.sample import seed_of

__all__ = ["KernelRidge", "KernelRidgeClassifier"]

Array = np.ndarray


class NumberSum(Accumulator[Moments]):
    """Moments of numeric targets."""

    def __init__(self, features: Features, *, double: bool, centered: bool = True) -> None:
        self._sum = MomentSum(features, double=double, centered=centered)
        self._targets: TargetMoments | None = None

    def add(self, block: Block, workers: Workers) -> None:
        part = self._sum.add(block, block.y, workers)
        self._targets = part if self._targets is None else self._targets + part

    def result(self) -> Moments:
        assert self._targets is not None
        return self._sum.moments(self._targets)

    def restore(self, state: Moments) -> None:
        self._sum.restore(state.gram, state.roundoff, state.shift)
        self._targets = state.targets


class KernelRidge(RidgeLearner, OnePassRegressor):
    """Kernel ridge regression at linear cost.

    Ridge regression on the features of a map: time O(n D^2), memory O(D^2 + block), never O(n D) or O(n^2).

    Parameters
    ----------
    feature_map : BaseMap, Kernel or None, default=None
        A map; or a kernel, for which a map of 512 features is drawn; None means a Gaussian kernel of median
        lengthscale.
    alpha : float, "loo", "evidence" or "gcv", default=1.0
        Penalty, as in scikit-learn's KernelRidge; or how to choose it on a path of penalties, all from one
        eigendecomposition. "loo" is exact leave-one-out and the one to prefer; it
        reads the rows twice. "evidence" (the marginal likelihood) and "gcv" (generalized cross-validation) need one
        pass, and so serve `partial_fit` and iterators too; of these prefer "evidence". See Notes.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalized.
    unlabeled : float or None, default=None
        What `y` holds for rows whose target is not known, such as ``np.nan``: the map learns from these rows too, the
        model only from the others, and `score` passes over them. None means that every row has one.
    block_size : int or None, default=None
        Rows that are worked on at a time; None chooses by width. It changes the result by rounding only.
    n_jobs : int or None, default=None
        Threads; None means all cores. The result does not depend on it, to the bit.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the map, where `feature_map` is a kernel or None.
    progress : bool or callable, default=False
        True shows rows done and time left on a terminal; a callable gets a `Progress` after each block.

    Attributes
    ----------
    coef_ : ndarray of shape (D,) or (t, D)
        Coefficients of the features.
    intercept_ : float or ndarray of shape (t,)
        Intercept.
    alpha_ : float
        The penalty used.
    path_ : RidgePath or None
        Scores of all penalties tried, where `alpha` is a word.
    rounding_ : float
        By about what share rounding may change predictions, from other blocks or another engine, say: the rounding of
        the second moments over the penalty.
    feature_map_ : BaseMap
        The fitted map.
    statistic_ : Moments
        What was learned from the rows; `partial_fit` adds to it.

    Notes
    -----
    "loo" scores a penalty by the squared error of every row when it is left out, weights being repetitions of which
    one is left out, and takes about three times the time of a fit with a number. "evidence" takes coefficients for
    Gaussian, and noise for Gaussian and the same everywhere. "gcv" takes all rows for equally influential: where a few
    rows lie far from all others, as with heavy-tailed columns, it can choose far too small a penalty
    (`benchmarks/ridge_paths.py` shows by how much).

    See Also
    --------
    sklearn.kernel_ridge.KernelRidge : The exact model, in time O(n^3) and memory O(n^2), without an intercept.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import KernelRidge, Matern
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, size=(2000, 1))
    >>> y = np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=2000)
    >>> model = KernelRidge(Matern(nu=2.5), alpha="loo", random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.97)
    True
    >>> blocks = [(X[i : i + 500], y[i : i + 500]) for i in range(0, 2000, 500)]
    >>> streamed = KernelRidge(Matern(nu=2.5), alpha="loo", random_state=0).fit(blocks)
    >>> bool(np.allclose(model.predict(X), streamed.predict(X)))
    True
    """

    def _accumulator(self, features: Features, *, double: bool | None = None) -> NumberSum:
        self._check_alpha()
        double = self._needs_double() if double is None else double
        return NumberSum(features, double=double, centered=bool(self.fit_intercept))

    def _moments(self) -> Moments:
        return self.statistic_

    def _solve(self, engine: Engine | None = None) -> None:
        self._check_alpha()
        self._solution, _ = solve_ridge(
            self.statistic_, self.alpha, fit_intercept=self.fit_intercept, left_out=self._left_out(engine)
        )
        self._solved = True

    @property
    def coef_(self) -> Array:
        self._ensure_solved()
        return self._solution.coef.T if self._target_shape else self._solution.coef[:, 0]

    @property
    def intercept_(self) -> Any:
        self._ensure_solved()
        return self._solution.intercept if self._target_shape else float(self._solution.intercept[0])

    def predict(self, X: Any) -> Array:
        """Return predictions.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n,) or (n, t)
        """
        self._ensure_solved()
        values = self._linear(X, self._solution.coef, self._solution.intercept)
        return values if self._target_shape else values[:, 0]


class KernelRidgeClassifier(RidgeLearner, OnePassClassifier, LinearClassifier):
    r"""Kernel ridge classification at linear cost.

    Ridge regression on targets +1 for a label and -1 for the others, one column a label; the largest decision value
    wins. Labels need not be known in advance: they may appear in any block.

    Parameters
    ----------
    feature_map : BaseMap, Kernel or None, default=None
        A map; or a kernel, for which a map of 512 features is drawn; None means a Gaussian kernel of median
        lengthscale.
    alpha : float, "loo", "evidence" or "gcv", default=1.0
        Penalty, as in scikit-learn's RidgeClassifier; or how to choose it on a path of penalties, all from one
        eigendecomposition. "loo" is exact leave-one-out, by the squared error of targets +-1, and the one to prefer; it
        reads the rows twice. "evidence" (the marginal likelihood) and "gcv" (generalized cross-validation) need one
        pass, and so serve `partial_fit` and iterators too; of these prefer "evidence". See Notes.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalized.
    unlabeled : label or None, default=None
        What `y` holds for rows whose label is not known, such as -1: the map learns from these rows too, the
        model only from the others, and `score` passes over them. None means that every row has one.
    block_size : int or None, default=None
        Rows that are worked on at a time; None chooses by width. It changes the result by rounding only.
    n_jobs : int or None, default=None
        Threads; None means all cores. The result does not depend on it, to the bit.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the map, where `feature_map` is a kernel or None, and of the sample that probabilities are scaled on.
    progress : bool or callable, default=False
        True shows rows done and time left on a terminal; a callable gets a `Progress` after each block.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels of rows with a weight, or announced to `partial_fit`, sorted.
    coef_ : ndarray of shape (K, D), or (1, D) for two labels
        Coefficients of the features.
    intercept_ : ndarray of shape (K,) or (1,)
        Intercepts.
    alpha_ : float
        The penalty used.
    path_ : RidgePath or None
        Scores of all penalties tried, where `alpha` is a word.
    rounding_ : float
        By about what share rounding may change predictions, from other blocks or another engine, say: the rounding of
        the second moments over the penalty.
    probability_scale_ : float
        The factor a of `predict_proba`.
    feature_map_ : BaseMap
        The fitted map.

    Notes
    -----
    Probabilities are :math:`\mathrm{softmax}(a f(x))` of the decision values f, and :math:`1 / (1 + e^{-a f})` for two
    labels. The one number a > 0 minimizes the logarithmic loss of the leave-one-out decision values of a seeded sample
    of 1000 training rows: exact leave-one-out, from the leverages, so training rows count as unseen ones. One more row,
    whose label could be any, keeps it finite. It never changes which label is the most probable.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from mercer import KernelRidgeClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = KernelRidgeClassifier(alpha="loo", random_state=0).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.97)
    True
    """

    def _accumulator(self, features: Features, *, double: bool | None = None) -> LabelSum:
        self._check_alpha()
        double = self._needs_double() if double is None else double
        seed = seed_of(self.random_state, "calibration")
        return LabelSum(features, seed, double=double, centered=bool(self.fit_intercept))

    def _moments(self) -> Moments:
        return self.statistic_.signed()

    def _solve(self, engine: Engine | None = None) -> None:
        self._check_alpha()
        labels = self.statistic_.labels
        if len(labels) < 2:
            got = f"one class only: {labels.tolist()[0]!r}" if len(labels) else "no row with a weight"
            msg = f"{type(self).__name__} needs rows of at least two classes, got {got}."
            raise DataError(msg)
        signed = self.statistic_.signed()
        self._solution, leverages = solve_ridge(
            signed, self.alpha, fit_intercept=self.fit_intercept, left_out=self._left_out(engine, labels)
        )
        self._scale = self._calibrate(leverages)
        self._solved = True

    def _calibrate(self, leverages: Leverages) -> float:
        """Return the scale of the logits, chosen on leave-one-out decision values of the sample."""
        sample, solution = self.statistic_.sample, self._solution
        Z = features_of(self.feature_map_.features_.astype(np.float64), sample.X.astype(np.float64))
        codes = np.searchsorted(self.statistic_.labels, sample.y)
        signs = np.where(codes[:, None] == np.arange(len(self.statistic_.labels)), 1.0, -1.0)
        if signs.shape[1] == 2:
            signs = signs[:, 1:]
        weight = np.ones(len(Z)) if sample.weight is None else sample.weight
        # Weights are repetitions, of which one is left out. A row of leverage one is fitted whatever its label is,
        # so it says nothing about new rows.
        room = 1 - leverages(Z, np.minimum(weight, 1.0))
        free = (room > 1e-6) & (weight > 0)
        if not free.any():
            return 2.0  # least squares reads f as 2p - 1, whose logit is 2f near zero
        fitted = Z[free] @ solution.coef + solution.intercept
        left_out = signs[free] - (signs[free] - fitted) / room[free, None]

        return best_scale(left_out, codes[free], weight[free])

    @property
    def classes_(self) -> Array:
        check_fitted(self)
        return self.statistic_.labels

    @property
    def coef_(self) -> Array:
        self._ensure_solved()
        return self._solution.coef.T

    @property
    def intercept_(self) -> Array:
        self._ensure_solved()
        return self._solution.intercept

    @property
    def probability_scale_(self) -> float:
        self._ensure_solved()
        return self._scale

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities of all labels; see Notes for the rule.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        logits = self.decision_function(X).astype(np.float64) * self.probability_scale_
        if logits.ndim == 1:
            positive = special.expit(logits)
            return np.column_stack([1 - positive, positive])
        return special.softmax(logits, axis=1)
