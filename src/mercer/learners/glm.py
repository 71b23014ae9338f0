"""Classifiers that minimize a penalized loss on features: logistic regression and support vector machines."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from mercer.learners.loss_learner import LossLearner
from mercer.solvers.losses.losses import Logistic, SquaredHinge

__all__ = ["KernelLogisticRegression", "KernelSVC"]

Array = np.ndarray


class KernelLogisticRegression(LossLearner):
    r"""Kernel logistic regression at linear cost: probabilities of labels.

    Multinomial logistic regression on the features of a map: the model of scikit-learn's `LogisticRegression` on
    them, at its exact minimum,

    .. math:: \min_{W, b} \; C \sum_i w_i \, \bigl(\log \textstyle\sum_k e^{f_{ik}} - f_{i y_i}\bigr)
        + \tfrac{1}{2} \|W\|^2, \qquad f_i = W z(x_i) + b,

    and for two labels with one column of coefficients and the logistic function. Labels need not be known in advance.

    Parameters
    ----------
    feature_map : BaseMap, Kernel or None, default=None
        A map; or a kernel, for which a map of 512 features is drawn; None means a Gaussian kernel of median
        lengthscale.
    C : float, default=1.0
        Weight of the losses beside half the squared coefficients, as in scikit-learn: less of it is more penalty.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalized.
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of rows by label; "balanced" gives all labels the same total weight. Labels that a dict
        does not name have the factor one.
    max_iter : int, default=100
        Most Newton steps.
    tol : float, default=1e-11
        The fit ends when the next Newton step would change no coefficient by more than this share of the largest. Steps
        double the digits at the end, so a larger `tol` saves few passes.
    warm_start : bool, default=False
        Whether `fit` starts from the coefficients of the last fit, with the same map, as long as its parameters, the
        width of the rows and the labels are the same. A map that learns from rows is drawn anew: give it a seed, and
        the coefficients are kept if it is the same again.
    unlabeled : label or None, default=None
        What `y` holds for rows whose label is not known, such as -1: the map learns from these rows too, the
        model only from the others, and `score` passes over them. None means that every row has one.
    block_size : int or None, default=None
        Rows that are worked on at a time; None chooses by width. It changes the result by rounding only.
    n_jobs : int or None, default=None
        Threads; None means all cores. The result does not depend on it, to the bit.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the map, where `feature_map` is a kernel or None.
    progress : bool or callable, default=False
        True shows each pass over the rows and the loss on a terminal; a callable gets a `Progress` after each pass.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels of rows with a weight, sorted.
    coef_ : ndarray of shape (K, D), or (1, D) for two labels
        Coefficients of the features.
    intercept_ : ndarray of shape (K,) or (1,)
        Intercepts.
    n_iter_ : int
        Newton steps on all rows.
    n_passes_ : int
        How often all rows were read.
    feature_map_ : BaseMap
        The fitted map.

    Notes
    -----
    Every road is the same search for the same minimum: rows in memory, blocks from files and clusters differ by
    rounding. A sample of rows gives a start and the curvature that preconditions conjugate gradients; each product and
    each gradient is then one sum over all rows, of which a fit takes some tens. Features are never held: memory is
    O(D^2 + block) for any number of rows.

    See Also
    --------
    KernelRidgeClassifier : One pass over the rows, and `partial_fit`.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from mercer import KernelLogisticRegression
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = KernelLogisticRegression(C=10.0, random_state=0).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.97)
    True
    >>> model.predict_proba(X_test).shape
    (450, 10)
    """

    _loss = Logistic()

    def predict_proba(self, X: Any) -> Array:
        """Return probabilities of all labels.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        ndarray of shape (n, K)
        """
        values = self.decision_function(X)
        if values.ndim == 1:
            return np.column_stack([special.expit(-values), special.expit(values)])
        return special.softmax(values, axis=1)

    def predict_log_proba(self, X: Any) -> Array:
        """Return logarithms of the probabilities, also where these are too small to be told from zero."""
        values = self.decision_function(X)
        if values.ndim == 1:
            return np.column_stack([special.log_expit(-values), special.log_expit(values)])
        return special.log_softmax(values, axis=1)


class KernelSVC(LossLearner):
    r"""Kernel support vector machine at linear cost, with the squared hinge loss, one label against the rest.

    The model of scikit-learn's `LinearSVC` on the features of a map, at its exact minimum, but for an intercept that is
    not penalized,

    .. math:: \min_{w, b} \; C \sum_i w_i \max(0, 1 - s_i (w^\top z(x_i) + b))^2 + \tfrac{1}{2} \|w\|^2,
        \qquad s_i = \pm 1,

    for each label; for two labels once, with s = +1 for the second. Labels need not be known in advance.

    Parameters
    ----------
    feature_map : BaseMap, Kernel or None, default=None
        A map; or a kernel, for which a map of 512 features is drawn; None means a Gaussian kernel of median
        lengthscale.
    C : float, default=1.0
        Weight of the losses beside half the squared coefficients, as in scikit-learn: less of it is more penalty.
    fit_intercept : bool, default=True
        Whether to fit an intercept, which is not penalized.
    class_weight : dict, "balanced" or None, default=None
        Factors of the weights of rows by label; "balanced" gives all labels the same total weight. Labels that a dict
        does not name have the factor one.
    max_iter : int, default=100
        Most Newton steps.
    tol : float, default=1e-11
        The fit ends when the next Newton step would change no coefficient by more than this share of the largest. Steps
        double the digits at the end, so a larger `tol` saves few passes.
    warm_start : bool, default=False
        Whether `fit` starts from the coefficients of the last fit, with the same map, as long as its parameters, the
        width of the rows and the labels are the same. A map that learns from rows is drawn anew: give it a seed, and
        the coefficients are kept if it is the same again.
    unlabeled : label or None, default=None
        What `y` holds for rows whose label is not known, such as -1: the map learns from these rows too, the
        model only from the others, and `score` passes over them. None means that every row has one.
    block_size : int or None, default=None
        Rows that are worked on at a time; None chooses by width. It changes the result by rounding only.
    n_jobs : int or None, default=None
        Threads; None means all cores. The result does not depend on it, to the bit.
    random_state : int, Generator, RandomState or None, default=None
        Seed of the map, where `feature_map` is a kernel or None.
    progress : bool or callable, default=False
        True shows each pass over the rows and the loss on a terminal; a callable gets a `Progress` after each pass.

    Attributes
    ----------
    classes_ : ndarray of shape (K,)
        Labels of rows with a weight, sorted.
    coef_ : ndarray of shape (K, D), or (1, D) for two labels
        Coefficients of the features.
    intercept_ : ndarray of shape (K,) or (1,)
        Intercepts.
    n_iter_ : int
        Newton steps on all rows.
    n_passes_ : int
        How often all rows were read.
    feature_map_ : BaseMap
        The fitted map.

    Notes
    -----
    Every road is the same search for the same minimum: rows in memory, blocks from files and clusters differ by
    rounding. A sample of rows gives a start and the curvature that preconditions conjugate gradients; each product and
    each gradient is then one sum over all rows, of which a fit takes some tens. Features are never held: memory is
    O(D^2 + block) for any number of rows.

    See Also
    --------
    KernelLogisticRegression : The same with probabilities.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from mercer import KernelSVC
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    >>> model = KernelSVC(random_state=0).fit(X_train, y_train)
    >>> bool(model.score(X_test, y_test) > 0.97)
    True
    """

    _loss = SquaredHinge()
