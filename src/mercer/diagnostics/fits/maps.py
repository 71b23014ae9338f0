"""Kernel errors of the feature map of a fitted model, at its number of components and at others."""

from __future__ import annotations

import time
import warnings
from functools import partial
from typing import Any

import numpy as np

from mercer.diagnostics.audit import Audit, audit
from mercer.diagnostics.fits.results import MapAudit, WidthPoint
from mercer.diagnostics.fits.tables import member_rows, row_count, take_rows
from mercer.errors import DataError, MercerError, MercerWarning
from mercer.maps import BaseMap

__all__ = ["audit_of_best"]

Array = np.ndarray
# Largest number of rows whose pairs are compared, and from which landmarks of other maps are drawn.
MOST_ROWS, MOST_FITTED = 1000, 10_000
# Number of rows whose pairs are compared for each of the maps of other numbers of components.
ROWS_OF_OTHERS = 500
# Other numbers of components, as multiples of that of the model; those of more than so many rows are omitted.
FACTORS = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2)
LEAST_WIDTH, MOST_WIDTH = 4, 4096
N_DRAWS = 3
# Relative errors below this are rounding.
ROUNDING = 1e-9


def audit_of_best(
    model: Any,
    X: Any,
    *,
    X_train: Any = None,
    n_train: int | None = None,
    time_limit: float | None = None,
    random_state: int = 0,
) -> MapAudit | None:
    """Return the kernel error of the feature map of a model on rows that it was not fitted to.

    For an automatic model it is the map of its best member, on rows as that member scales them.

    Parameters
    ----------
    model : estimator
        A fitted `KernelRegressor` or `KernelClassifier`, a learner with a `feature_map_`, or a pipeline that ends with
        a learner.
    X : table or array
        Test rows. At most 1000 of them are used, and all of their pairs.
    X_train : table or array, default=None
        Training rows, or a sample of them, from which maps of other numbers of components are drawn, three of each.
        None means that only the map of the model is measured.
    n_train : int, default=None
        Number of rows that the model was fitted to; None means that of `X_train`. It decides whether all of them are
        landmarks, for which the kernel is exact.
    time_limit : float or None, default=None
        Number of seconds after which no map of another number of components is drawn; None means no limit.
    random_state : int, default=0
        Seed of the sample of rows and of the maps.

    Returns
    -------
    MapAudit or None
        None if the model has no feature map, or there are fewer than two test rows.

    Examples
    --------
    >>> import numpy as np
    >>> from mercer import Gaussian, KernelRidge, Nystroem
    >>> X = np.random.default_rng(0).normal(size=(900, 3))
    >>> model = KernelRidge(Nystroem(Gaussian(2.0), 100), random_state=0).fit(X[:600], X[:600, 0])
    >>> found = audit_of_best(model, X[600:], X_train=X[:600])
    >>> found.width, bool(found.widths[0].error > found.rmse > found.widths[-1].error)
    (100, True)
    """
    found = _map_and_rows(model)
    if found is None or row_count(X) < 2:
        return None
    feature_map, learner, scaled = found
    rng, start = np.random.default_rng(random_state), time.perf_counter()
    chosen = np.sort(rng.permutation(row_count(X))[:MOST_ROWS])
    rows = scaled(take_rows(X, chosen))
    measured = _measured(feature_map, rows)
    if measured is None:
        return None
    width = measured.n_components
    n_train = n_train if n_train is not None or X_train is None else row_count(X_train)
    if measured.relative_error < ROUNDING and not feature_map.built_from_rows:
        note = "The features of the map are exact: the kernel has no error but rounding."
        return MapAudit(measured.kernel, measured.feature_map, width, 0.0, 0.0, 0.0, (), note)
    exact = _is_exact(feature_map, width, n_train)
    points: tuple[WidthPoint, ...] = ()
    if X_train is not None:
        fitted = scaled(take_rows(X_train, np.sort(rng.permutation(row_count(X_train))[:MOST_FITTED])))
        until = np.inf if time_limit is None else start + time_limit
        points = _other_widths(feature_map, width, fitted, rows, rng, until)
    return MapAudit(
        kernel=measured.kernel,
        map_name=measured.feature_map,
        width=width,
        rmse=measured.rmse,
        low=measured.rmse_interval[0],
        high=measured.rmse_interval[1],
        widths=points,
        note=" ".join(_notes(measured, exact, points, learner)),
    )


def _map_and_rows(model: Any) -> tuple[BaseMap, Any, Any] | None:
    """Return the fitted map of a model, its learner, and the function from rows of the model to rows of the map."""
    best = getattr(model, "best_estimator_", model if hasattr(model, "steps") else None)
    learner = model if best is None else best[-1]
    feature_map = getattr(learner, "feature_map_", None)
    if not isinstance(feature_map, BaseMap):
        return None
    return feature_map, learner, partial(member_rows, model, best)


def _measured(feature_map: BaseMap, rows: Any) -> Audit | None:
    """Return the audit of a map, or None if the rows do not allow one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MercerWarning)  # test rows may be equal to rows of the fit by coincidence
        try:
            return audit(feature_map, rows, random_state=0)
        except DataError:  # values of the kernel beyond the numbers of their type
            return None


def _other_widths(
    feature_map: BaseMap, width: int, fitted: Any, rows: Any, rng: np.random.Generator, until: float
) -> tuple[WidthPoint, ...]:
    """Return the errors of maps of other numbers of components, drawn from training rows."""
    most = min(MOST_WIDTH, row_count(fitted))
    wanted = sorted({round(factor * width) for factor in FACTORS} - {width})
    points: dict[int, list[float]] = {}
    base = getattr(feature_map, "map_", None)
    base = base if isinstance(base, BaseMap) else feature_map
    if "n_components" not in base.get_params(deep=False):
        return ()
    for size in (one for one in wanted if LEAST_WIDTH <= one <= most):
        for seed in rng.integers(2**31, size=N_DRAWS).tolist():
            if time.perf_counter() > until:
                break
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MercerWarning)
                try:
                    drawn = base.with_kernel(base.kernel_).set_params(n_components=size, random_state=seed).fit(fitted)
                except MercerError:
                    continue  # a map that does not have this number of components
                found = _measured(drawn, rows[:ROWS_OF_OTHERS])
            if found is not None:
                points.setdefault(found.n_components, []).append(found.rmse)
    points.pop(width, None)
    return tuple(
        WidthPoint(size, float(np.mean(errors)), min(errors), max(errors)) for size, errors in sorted(points.items())
    )


def _is_exact(feature_map: BaseMap, width: int, n_train: int | None) -> bool:
    """Return whether all training rows are landmarks."""
    return n_train is not None and feature_map.built_from_rows and width >= n_train


def _notes(measured: Audit, exact: bool, points: tuple[WidthPoint, ...], learner: Any) -> list[str]:
    """Return what a reader has to know about the error."""
    if exact:
        return [
            f"All {measured.n_components:,} training rows are landmarks. Kernel values of a row and a training row, "
            "which are all that predictions use, are exact, and the model is that of the exact kernel. The error shown "
            "is that of pairs of new rows, which predictions do not use."
        ]
    notes = [f"That is {100 * measured.relative_error:.2g} % of the kernel matrix."]
    more = [one for one in points if one.width > measured.n_components]
    if more and more[-1].error > 0:
        factor = measured.rmse / more[-1].error
        notes.append(f"With {more[-1].width:,} components the error would be {factor:.1f} times smaller.")
    parts = getattr(getattr(learner, "local_", None), "parts", "global")
    if parts != "global":
        notes.append("Predictions also use near rows, which correct a part of what the map misses.")
    return notes
