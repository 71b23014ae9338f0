"""Paragraphs that many docstrings share, written once and inserted when a class or function is defined.

A docstring holds a line such as ``%(random_state)s``, or ``%(random_state, n_jobs)s`` for two paragraphs, and the
decorator `doc` replaces the line by the paragraphs, at the indentation of the line::

    @doc
    def transform(X, n_jobs=None):
        '''Return features.

        %(X)s
        %(n_jobs)s
        '''

`help`, doctest and documentation generators see the complete text. Where docstrings are stripped (``python -OO``),
the decorator does nothing.
"""

from __future__ import annotations

import re
from textwrap import indent
from typing import Any, TypeVar

__all__ = ["PARAGRAPHS", "doc"]

Documented = TypeVar("Documented", bound=Any)
MARKER = re.compile(r"^([ \t]*)%\(([\w, ]+)\)s[ \t]*$", re.MULTILINE)

#: The shared paragraphs by name. Learners and maps share a paragraph only if the parameter means the same in both.
PARAGRAPHS: dict[str, str] = {
    # ---- parameters of maps -------------------------------------------------------------------
    "kernel": """\
kernel : Kernel, default=None
    Kernel to approximate; None means ``Gaussian(lengthscale="median")``.""",
    "n_components": """\
n_components : int, default=512
    Number of components of the output, at least 1.""",
    "random_state": """\
random_state : int, Generator, RandomState or None, default=None
    Seed of the random numbers. An integer makes repeated fits identical.""",
    "n_jobs": """\
n_jobs : int or None, default=None
    Number of threads; None means all cores. The result does not depend on it.""",
    # ---- parameters of learners ---------------------------------------------------------------
    "feature_map": """\
feature_map : BaseMap, Kernel or None, default=None
    Feature map, cloned before it is fitted; or a kernel, whose default map is used (see
    `mercer.maps.default_map`); None means ``RandomFourier()``, a Gaussian kernel of median lengthscale.""",
    "jackknife_rows": """\
X, y : array-like or CSR of shape (n, d), array-like of shape (n,) or (n, t)
    The rows and targets of the fit, all of them, which was without weights.""",
    "jackknife": """\
Jackknife
    ``jackknife.interval(X, coverage)`` returns the intervals of jackknife+ for new rows [JK]_. If rows are
    exchangeable, they contain a new target with a probability of at least ``2 * level - 1``, and usually of
    about `level`, whatever the distribution of the rows is. The guarantee is for parameters and features
    that do not depend on these rows. `predictions`, `residuals` and `leverages` are attributes.""",
    "jackknife_paper": """\
.. [JK] Barber, Candes, Ramdas, Tibshirani (2021), Predictive inference with the jackknife+, Annals of
   Statistics.""",
    "progress": """\
progress : bool, default=False
    Whether to show a progress bar.""",
    # ---- fitted attributes --------------------------------------------------------------------
    "kernel_": """\
kernel_ : Kernel
    The kernel with numbers for all parameters, also for those that are estimated from rows.""",
    "n_features_in_": """\
n_features_in_ : int
    Number of features of the rows seen in `fit`.""",
    "signs_none": """\
signs_ : None
    None, since the approximate kernel is positive semi-definite.""",
    "feature_map_": """\
feature_map_ : BaseMap
    The fitted feature map.""",
    # ---- arguments of methods -----------------------------------------------------------------
    "X": """\
X : array-like or CSR of shape (n, d)
    Rows.""",
    "X_or_dask": """\
X : array-like or CSR of shape (n, d), or dask array or dataframe
    Rows. For a dask collection the result is a dask array that is not computed yet.""",
    "y_ignored": """\
y : ignored
    Present for compatibility with pipelines.""",
    "sample_weight": """\
sample_weight : array-like of shape (n,), default=None
    Weights >= 0 of the rows; a row of weight two counts as the row repeated. None means that all weights are one.""",
    "returns_self": """\
self : object
    The fitted object.""",
}


def doc(thing: Documented) -> Documented:
    """Replace the lines ``%(name)s`` of a docstring by the shared paragraphs of these names; used as a decorator.

    Parameters
    ----------
    thing : class or function
        Object whose docstring is changed in place. The same object is returned.

    Raises
    ------
    KeyError
        If a name is not in `PARAGRAPHS`.

    Examples
    --------
    >>> @doc
    ... def fit(X):
    ...     '''Fit.
    ...
    ...     Parameters
    ...     ----------
    ...     %(X)s
    ...     '''
    >>> print(fit.__doc__.splitlines()[4].strip())
    X : array-like or CSR of shape (n, d)
    """
    text = thing.__doc__
    if text is not None:
        thing.__doc__ = MARKER.sub(_paragraphs, text)
    return thing


def _paragraphs(found: re.Match[str]) -> str:
    """Return the paragraphs for a matched line ``%(name, ...)s``, with the indentation of that line."""
    return indent("\n".join(PARAGRAPHS[name.strip()] for name in found[2].split(",")), found[1])
