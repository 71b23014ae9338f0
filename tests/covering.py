"""Covering arrays: few of many cases that still hold every value, or every pair of values, of their parameters.

Most faults show for a single value of one parameter or for one pair of values of two parameters, and few need three
values at once (Kuhn, Wallace and Gallo, 2004, IEEE Transactions on Software Engineering 30(6)). A subset of a product
of parameters that holds every pair of values therefore finds nearly all that the product finds, with far fewer cases.
"""

import heapq
from collections.abc import Callable, Hashable, Mapping, Sequence
from itertools import combinations, product
from typing import Any

from sklearn.base import BaseEstimator


def cover(cases: Sequence[Mapping[Hashable, Hashable]], strength: int = 2) -> list[int]:
    """Return the positions of few cases that hold every combination of `strength` values found in any of the cases.

    Parameters
    ----------
    cases : sequence of mappings
        Each case maps its axes to their values. Cases need not form a full product, and may differ in their axes.
    strength : int, default=2
        1 covers every value of every axis, 2 every pair of values of two axes, 0 is the first case alone. A case with
        fewer axes than this combines all of them.

    Returns
    -------
    list of int
        In increasing order.

    Notes
    -----
    This is the greedy algorithm for set cover: the next case is the one that holds the most combinations which are not
    covered yet, the first such case if there are several. The result depends only on the order of the cases and on
    which of their values are equal, so that all processes of a parallel run select the same cases.
    """
    if strength < 0:
        raise ValueError(f"strength must be a non-negative integer, got {strength!r}.")
    missing = [set(map(frozenset, combinations(case.items(), min(strength, len(case))))) for case in cases]
    covered: set[frozenset] = set()
    chosen = []
    # Gains never increase: a case that is first in the queue with a gain computed just now has the largest one.
    queue = [(-len(held), position) for position, held in enumerate(missing)]
    heapq.heapify(queue)
    while queue:
        _, position = heapq.heappop(queue)
        missing[position] -= covered
        entry = (-len(missing[position]), position)
        if queue and entry > queue[0]:
            heapq.heappush(queue, entry)
        elif missing[position]:
            chosen.append(position)
            covered |= missing[position]
    return sorted(chosen)


def covering(*axes: Sequence, strength: int = 2) -> list[tuple]:
    """Return few combinations of one value per axis that hold every combination of values of `strength` axes.

    This takes the place of `itertools.product` in lists of cases.

    >>> covering("ab", [1, 2], [True, False])
    [('a', 1, True), ('a', 2, False), ('b', 1, False), ('b', 2, True)]
    """
    rows = list(product(*(range(len(axis)) for axis in axes)))
    chosen = cover([dict(enumerate(row)) for row in rows], strength)
    return [tuple(axis[i] for axis, i in zip(axes, rows[k], strict=True)) for k in chosen]


def cover_parameters(cases: Sequence[Mapping[str, Any]], strength: int = 2, **parts: Callable[[Any], Any]) -> list[int]:
    """Return the positions of few cases that cover the axes of the parameters of a test; see `axes_of`."""
    return cover([axes_of(parameters, **parts) for parameters in cases], strength)


def axes_of(parameters: Mapping[str, Any], **parts: Callable[[Any], Any]) -> dict[Hashable, Hashable]:
    """Return the axes and values of a case, given the parameters of a test.

    A tuple and a mapping have one axis per element, and an estimator has its class and its own parameters as axes, so
    that a list of configurations is covered by what the configurations are made of. `parts` has functions of
    parameters, by their names, which return what is to be covered of them instead.
    """
    axes: dict[Hashable, Hashable] = {}
    unknown = set(parts) - set(parameters)
    if unknown:
        raise ValueError(f"the test has no parameters {sorted(unknown)}, only {sorted(parameters)}.")
    stack: list[tuple[tuple, Any]] = [
        ((name,), parts[name](value) if name in parts else value) for name, value in parameters.items()
    ]
    while stack:
        path, value = stack.pop()
        if isinstance(value, tuple):
            stack += [((*path, i), part) for i, part in enumerate(value)]
        elif isinstance(value, Mapping):
            stack += [((*path, key), part) for key, part in value.items()]
        elif isinstance(value, BaseEstimator):
            axes[path] = type(value)
            stack += [((*path, type(value), name), part) for name, part in value.get_params(deep=False).items()]
        else:
            axes[path] = label(value)
    return axes


def label(value: Any) -> Hashable:
    """Return what tells a value from others: its type, and itself or, if it cannot be hashed, how it is printed."""
    try:
        hash(value)
    except TypeError:
        return type(value), repr(value)
    return type(value), value  # 1, 1.0 and True are different values
