"""Callbacks of scikit-learn 1.9 and later: a fit reports its stages, and the steps of each stage, as tasks.

With older versions `CallbackSupport` has no methods, and `calling_callbacks` changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

from mercer.engines import Progress, Report, StagedReport, stages_of

if TYPE_CHECKING:

    class CallbackSupport:
        """Base class of estimators that scikit-learn's callbacks can be set on."""

    def with_callbacks(method: Callable[..., Any]) -> Callable[..., Any]:
        """Tear the callbacks down after a method."""
else:
    try:
        from sklearn.callback import CallbackSupportMixin as CallbackSupport
        from sklearn.callback import with_callbacks
    except ImportError:  # before scikit-learn 1.9

        class CallbackSupport:
            """Base class of estimators, which has callbacks with scikit-learn 1.9 and later."""

        def with_callbacks(method):
            """Return the method: there are no callbacks."""
            return method


__all__ = ["CALLBACK_ATTRIBUTES", "CallbackSupport", "calling_callbacks", "fit_report"]

F = TypeVar("F", bound=Callable[..., Any])
#: Attributes that scikit-learn stores callbacks and their context in; none of them belongs to a fitted model.
CALLBACK_ATTRIBUTES = frozenset(
    {"_skl_callbacks", "_callback_fit_ctx", "_skl_callbacks_to_teardown", "_parent_callback_ctx"}
)


def calling_callbacks(fit: F) -> F:
    """Return a method ``fit(X, y, sample_weight, ...)`` that calls the callbacks of the estimator.

    The fit is the root task. A report of `fit_report` adds the other tasks.
    """

    @with_callbacks
    def called(self: Any, X: Any, y: Any = None, sample_weight: Any = None, **options: Any) -> Any:
        context = self._init_callback_context(max_subtasks=None)
        metadata = {} if sample_weight is None else {"sample_weight": sample_weight}
        context.call_on_fit_task_begin(estimator=self, X=X, y=y, metadata=metadata)
        fit(self, X, y, sample_weight, **options)
        context.call_on_fit_task_end(estimator=self, X=X, y=y, metadata=metadata, reconstruction_attributes={})
        return self

    @wraps(fit)
    def method(self: Any, X: Any, y: Any = None, sample_weight: Any = None, **options: Any) -> Any:
        watched = CALLBACK_ATTRIBUTES & vars(self).keys()
        return (called if watched else fit)(self, X, y, sample_weight, **options)

    return method  # type: ignore[return-value]


def fit_report(estimator: Any, progress: bool | Report) -> StagedReport | None:
    """Return the report of a fit: that of the parameter `progress`, and tasks for callbacks if there are any."""
    report = stages_of(type(estimator).__name__, progress)
    context = vars(estimator).get("_callback_fit_ctx")
    return report if context is None else TaskReport(estimator, context, report)


class TaskReport(StagedReport):
    """Report that calls callbacks: each stage of a fit is a task, and each step that it reports a task within it.

    Parameters
    ----------
    estimator : estimator
        The estimator that is fitted.
    context : sklearn.callback.CallbackContext
        The task of the fit.
    inner : StagedReport or None
        The report of the parameter `progress`, which receives everything, too.
    """

    def __init__(self, estimator: Any, context: Any, inner: StagedReport | None) -> None:
        self._estimator = estimator
        self._context = context
        self._inner = inner
        self._stage: Any = None

    def plan(self, costs: Mapping[str, float | None]) -> None:
        if self._inner is not None:
            self._inner.plan(costs)

    def enter(self, name: str) -> None:
        self._end_stage()
        self._stage = self._begin(self._context, name, None)
        if self._inner is not None:
            self._inner.enter(name)

    def __call__(self, progress: Progress) -> None:
        self._report_step(progress.unit)
        if self._inner is not None:
            self._inner(progress)

    def step(self, done: int, total: int | None, note: str = "", unit: str = "steps") -> None:
        self._report_step(unit)
        if self._inner is not None:
            self._inner.step(done, total, note, unit)

    def close(self, *, success: bool) -> None:
        if success:  # the tasks of a fit that has failed do not end
            self._end_stage()
        if self._inner is not None:
            self._inner.close(success=success)

    def _begin(self, parent: Any, name: str, most: int | None) -> Any:
        return parent.subcontext(task_name=name, max_subtasks=most).call_on_fit_task_begin(estimator=self._estimator)

    def _report_step(self, unit: str) -> None:
        """Call the callbacks for a step, which is reported when it is done."""
        parent = self._context if self._stage is None else self._stage
        self._begin(parent, unit, 0).call_on_fit_task_end(estimator=self._estimator)

    def _end_stage(self) -> None:
        if self._stage is not None:
            self._stage.call_on_fit_task_end(estimator=self._estimator)
            self._stage = None
