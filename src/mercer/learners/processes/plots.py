"""Pictures of fitted Gaussian processes with one or two features. Matplotlib is imported when one is made."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from mercer.errors import ParameterError
from mercer.errors.packages import axes_of

__all__ = ["plot_classifier", "plot_regressor"]

Array = np.ndarray
# Colors of Okabe and Ito, which readers with color vision deficiencies can distinguish.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
INK = "#1f2328"
# Number of points of a line, and of each side of a grid.
POINTS, SIDE = 400, 80
# Width and height of a new figure.
SIZE = (6.4, 4.4)
# Part of the range of the rows that is shown beyond them.
MARGIN = 0.15
# Largest number of rows that are drawn.
MOST_ROWS = 2000


def plot_regressor(model: Any, X: Any, y: Any, ax: Any, *, target: int, coverage: float) -> Any:
    """Return axes with the mean and bands of a fitted process of one feature, or the mean of two and its deviation.

    Parameters
    ----------
    model : GaussianProcessRegressor
        The fitted process.
    X, y : array-like of shape (n, d), array-like of shape (n,) or (n, t), or None
        Rows to draw, which also give the range; y may be None.
    ax : matplotlib Axes or None
        Axes to draw into; None makes new ones.
    target : int
        Column of targets.
    coverage : float
        Probability of the bands.
    """
    rows, targets = drawn_rows(model, X, y)
    values = None if targets is None else column_of(np.asarray(targets, dtype=np.float64), target)
    name = type(model).__name__
    ax = axes_of(ax, name, SIZE)
    if rows.shape[1] == 1:
        grid = line_of(rows)
        mean, function = (column_of(part, target) for part in at(model.predict, grid, return_std=True))
        _, new = (column_of(part, target) for part in at(model.predict, grid, return_std=True, with_noise=True))
        factor = normal_factor(coverage)
        share = f"{100 * coverage:g} %"
        x, color = grid[:, 0], COLORS[0]
        for deviation, alpha, of in ((new, 0.15, "new targets"), (function, 0.35, "functions")):
            low, high = mean - factor * deviation, mean + factor * deviation
            ax.fill_between(x, low, high, color=color, alpha=alpha, lw=0, label=f"{share} of {of}")
        ax.plot(x, mean, color=color, lw=1.8, label="mean")
        if values is not None:
            ax.scatter(rows[:, 0], values, s=10, color=INK, alpha=0.6, lw=0, label="rows", zorder=3)
        ax.set(xlabel=names_of(model, 1)[0], ylabel="target", xlim=(x[0], x[-1]))
        ax.legend(frameon=False, fontsize=9)
        return ax
    first, second, grid = grid_of(rows)
    mean, function = (column_of(part, target).reshape(SIDE, SIDE) for part in at(model.predict, grid, return_std=True))
    filled = ax.contourf(first, second, mean, 14, cmap="viridis")
    ax.figure.colorbar(filled, ax=ax, label="mean")
    lines = ax.contour(first, second, function, 5, colors="white", linewidths=0.8, alpha=0.9)
    ax.clabel(lines, fontsize=8, fmt="%.2g")
    ax.scatter(rows[:, 0], rows[:, 1], s=8, color="white", edgecolor=INK, linewidths=0.4, zorder=3)
    across, up = names_of(model, 2)
    ax.set(xlabel=across, ylabel=up, title="mean, and lines of equal standard deviation")
    return ax


def plot_classifier(model: Any, X: Any, y: Any, ax: Any) -> Any:
    """Return axes with the probabilities of a fitted classifier of one or two features.

    Parameters
    ----------
    model : GaussianProcessClassifier
        The fitted process.
    X, y : array-like of shape (n, d), array-like of shape (n,) or None
        Rows to draw, which also give the range; y may be None.
    ax : matplotlib Axes or None
        Axes to draw into; None makes new ones.
    """
    rows, labels = drawn_rows(model, X, y)
    ax = axes_of(ax, type(model).__name__, SIZE)
    known = None if labels is None else np.asarray(labels)
    if rows.shape[1] == 1:
        grid = line_of(rows)
        P = at(model.predict_proba, grid)
        for k, label in enumerate(model.classes_):
            color = COLORS[k % len(COLORS)]
            ax.plot(grid[:, 0], P[:, k], color=color, lw=1.8, label=f"{label}")
            if known is not None:
                x = rows[known == label, 0]
                height = -0.04 * (k + 1)
                ax.scatter(x, np.full(len(x), height), s=12, marker="|", color=color, lw=0.8)
        ax.set(xlabel=names_of(model, 1)[0], ylabel="probability", ylim=(-0.04 * (len(model.classes_) + 1), 1.02))
        ax.set(xlim=(grid[0, 0], grid[-1, 0]))
        ax.legend(frameon=False, fontsize=9, title="label")
        return ax
    first, second, grid = grid_of(rows)
    P = at(model.predict_proba, grid)
    across, up = names_of(model, 2)
    if len(model.classes_) == 2:
        levels = np.linspace(0, 1, 11)
        shown = P[:, 1].reshape(SIDE, SIDE)
        filled = ax.contourf(first, second, shown, levels, cmap="RdBu_r")
        ax.contour(first, second, shown, [0.5], colors=INK, linewidths=1.2)
        ax.figure.colorbar(filled, ax=ax, label=f"probability of {model.classes_[1]}")
        colors: tuple[str, ...] = ("#2166ac", "#b2182b")
    else:
        colors = COLORS
        chosen = P.argmax(axis=1).reshape(SIDE, SIDE)
        top = P.max(axis=1).reshape(SIDE, SIDE)
        shades = np.array([as_rgb(colors[k % len(colors)]) for k in range(len(model.classes_))])
        # The less likely the most likely label is, the whiter.
        mix = ((top - 1 / len(model.classes_)) / (1 - 1 / len(model.classes_)))[:, :, None]
        extent = (first[0], first[-1], second[0], second[-1])
        ax.imshow(1 - 0.7 * mix * (1 - shades[chosen]), extent=extent, origin="lower", aspect="auto")
    if known is None:
        ax.scatter(rows[:, 0], rows[:, 1], s=10, color=INK, lw=0)
    else:
        for k, label in enumerate(model.classes_):
            chosen_rows = rows[known == label]
            marker, color = MARKERS[k % len(MARKERS)], colors[k % len(colors)]
            ax.scatter(
                chosen_rows[:, 0], chosen_rows[:, 1], s=14, marker=marker, color=color, edgecolor=INK,
                linewidths=0.5, label=f"{label}", zorder=3,
            )  # fmt: skip
        ax.legend(fontsize=9, title="label", framealpha=0.9)
    ax.set(xlabel=across, ylabel=up)
    return ax


def at(method: Callable[..., Any], grid: Array, **options: Any) -> Any:
    """Return the result of a method for the points of a grid, whose columns have no names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return method(grid, **options)


def drawn_rows(model: Any, X: Any, y: Any) -> tuple[Array, Any]:
    """Return at most `MOST_ROWS` rows and their targets; raise unless they have one or two features."""
    rows = model.feature_map_.check_rows(X)
    n, d = rows.shape
    if d > 2:
        msg = (
            f"{type(model).__name__}: plot needs rows of one or two features, got {d}. Fit the process to two of them, "
            "or plot predictions against one feature."
        )
        raise ParameterError(msg)
    rows = np.asarray(rows.todense() if hasattr(rows, "todense") else rows, dtype=np.float64)
    if y is not None and len(y) != n:
        msg = f"{type(model).__name__}: plot needs one target per row, got {len(y)} for {n} rows."
        raise ParameterError(msg)
    targets = None if y is None else np.asarray(y)
    if n > MOST_ROWS:
        chosen = np.sort(np.random.default_rng(0).permutation(n)[:MOST_ROWS])
        rows, targets = rows[chosen], None if targets is None else targets[chosen]
    return rows, targets


def column_of(values: Array, target: int) -> Array:
    """Return a column of targets; one-dimensional arrays have only one."""
    if values.ndim == 1:
        return values
    if not 0 <= target < values.shape[1]:
        msg = f"plot: target must be the index of one of {values.shape[1]} columns of targets, got {target!r}."
        raise ParameterError(msg)
    return values[:, target]


def names_of(model: Any, count: int) -> list[str]:
    """Return the names of the features, or those of their positions."""
    found = getattr(model, "feature_names_in_", None)
    return [f"feature {i}" for i in range(count)] if found is None else [str(name) for name in found]


def limits(values: Array) -> tuple[float, float]:
    """Return the ends of an axis: the range of values and a margin."""
    low, high = float(values.min()), float(values.max())
    margin = MARGIN * (high - low) if high > low else 1.0
    return low - margin, high + margin


def line_of(rows: Array) -> Array:
    """Return points (POINTS, 1) across the range of rows of one feature."""
    return np.linspace(*limits(rows[:, 0]), POINTS)[:, None]


def grid_of(rows: Array) -> tuple[Array, Array, Array]:
    """Return the coordinates of a grid across the range of rows of two features, and its points (SIDE^2, 2)."""
    first, second = (np.linspace(*limits(rows[:, j]), SIDE) for j in range(2))
    across, up = np.meshgrid(first, second)
    return first, second, np.column_stack([across.ravel(), up.ravel()])


def normal_factor(coverage: float) -> float:
    """Return the number of standard deviations within which a normal variable is with a given probability."""
    from scipy import special

    if not (isinstance(coverage, int | float) and 0 < coverage < 1):
        msg = f"plot: coverage must be a number between 0 and 1, got {coverage!r}."
        raise ParameterError(msg)
    return float(special.ndtri(0.5 + coverage / 2))


def as_rgb(color: str) -> tuple[float, ...]:
    """Return a color as three numbers from 0 to 1."""
    return tuple(int(color[i : i + 2], 16) / 255 for i in (1, 3, 5))
