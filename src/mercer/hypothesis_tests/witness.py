"""What an adaptive test found: the lengthscales at which samples differ, the witness function, columns, and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from mercer.errors import DataError, ParameterError
from mercer.errors.packages import optional_module
from mercer.features import features_of
from mercer.hypothesis_tests.frequencies import SharedFrequencies
from mercer.kernels.base import as_rows
from mercer.parameters import Integer, check_parameter

__all__ = ["ColumnScore", "ScaleScores", "Witness", "figure_of_test"]

Array = np.ndarray
# Number of rows at which gradients of the witness function are averaged.
GRADIENT_ROWS = 200
BLUE, ORANGE, MUTED = "#0072b2", "#d55e00", "#6e7781"


@dataclass(frozen=True, eq=False)
class ScaleScores:
    """Evidence of an adaptive test at each lengthscale.

    Attributes
    ----------
    lengthscales : tuple of ndarray
        Lengthscales of the Gaussian kernels, in units of the spreads of the columns. There is one array for a
        two-sample test, and one array per variable for an independence test.
    statistics : ndarray of shape (K,) or (K, L)
        Statistic of each kernel, or of each pair of kernels.
    z : ndarray of shape (K,) or (K, L)
        Standardized cube roots of the statistics: how many standard deviations of the permutations they exceed the mean
        by.
    p_values : ndarray of shape (K,) or (K, L)
        The p-value of each kernel alone. The least of them is not a valid p-value of the test.
    loudest : tuple of int
        Index of the kernel that the score of the test comes from.
    """

    lengthscales: tuple[Array, ...]
    statistics: Array
    z: Array
    p_values: Array
    loudest: tuple[int, ...]

    @property
    def lengthscale(self) -> tuple[float, ...]:
        """The loudest lengthscale, one per variable."""
        return tuple(float(h[i]) for h, i in zip(self.lengthscales, self.loudest, strict=True))

    def __repr__(self) -> str:
        at = " and ".join(f"{h:.3g}" for h in self.lengthscale)
        low, high = (" and ".join(f"{h[i]:.3g}" for h in self.lengthscales) for i in (0, -1))
        return f"loudest at lengthscale {at} (z = {self.z[self.loudest]:.3g}), of {self.z.size} from {low} to {high}"

    def to_dict(self) -> dict[str, Any]:
        """Return the table as plain Python values.

        Returns
        -------
        dict
        """
        return {
            "lengthscales": [h.tolist() for h in self.lengthscales],
            "statistics": self.statistics.tolist(),
            "z": self.z.tolist(),
            "p_values": self.p_values.tolist(),
            "loudest": list(self.loudest),
        }


@dataclass(frozen=True)
class ColumnScore:
    """How much of the difference of two samples depends on one column.

    Attributes
    ----------
    column : int
        Index of the column.
    name : str
        Its name, or "column 3" for the fourth column of rows without names.
    share : float
        Share of the squared gradient of the witness function, less what permuted samples have, from 0 to 1.
    z : float
        How many standard deviations of permuted samples the squared gradient exceeds their mean by.
    """

    column: int
    name: str
    share: float
    z: float


@dataclass(frozen=True, eq=False)
class Witness:
    """The witness function of a two-sample test: where the first sample has more rows than the second, and where fewer.

    It is the difference of the kernel means of both samples, mean_i k(x_i, .) - mean_j k(y_j, .), for the loudest
    kernel. Its values are positive where the first sample is denser, at the resolution of the lengthscale.

    Attributes
    ----------
    features : SharedFrequencies
        The features of the test.
    difference : ndarray of shape (2 J,)
        Mean features of the first sample minus those of the second.
    permuted : ndarray of shape (P, 2 J)
        The same for some permutations.
    loudest : int
        Index of the loudest kernel.
    rows : ndarray or CSR of shape (m, d)
        Some rows of both samples.
    names : tuple of str or None
        Names of the columns.
    """

    features: SharedFrequencies
    difference: Array
    permuted: Array
    loudest: int
    rows: Any
    names: tuple[str, ...] | None = None

    def __call__(self, X: Any, *, standardized: bool = False, kernel: int | None = None) -> Array:
        """Return the values of the witness function at rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows, not necessarily of the samples.
        standardized : bool, default=False
            Whether values are divided by their standard deviation over permutations, at each row.
        kernel : int or None, default=None
            Index of a kernel of the test; None means the loudest.

        Returns
        -------
        ndarray of shape (n,)
        """
        X = as_rows(self, X)
        d = self.features.scaling.n_features
        if X.shape[1] != d:
            msg = f"Witness: rows must have the {d} features of the samples, got {X.shape[1]}."
            raise DataError(msg)
        Z = features_of(self.features.astype(X.dtype), X)
        weights = self._weights(kernel)
        values = Z @ (weights * self.difference)
        if not standardized:
            return values
        spread = (Z @ (weights * self.permuted).T).std(axis=1)
        return values / np.where(spread > 0, spread, 1.0)

    def on_grid(self, columns: Any = None, n_points: int = 50) -> tuple[tuple[Array, ...], Array]:
        """Return the witness function on a grid of one or two columns, with the medians of all other columns.

        Parameters
        ----------
        columns : sequence of one or two ints or names, default=None
            The columns. None means the only column, or the two columns that differ most.
        n_points : int, default=50
            Number of points per column, from the 1 % to the 99 % quantile of the rows.

        Returns
        -------
        axes : tuple of ndarray of shape (n_points,)
            Values of the columns.
        values : ndarray of shape (n_points,) or (n_points, n_points)
        """
        check_parameter("Witness.on_grid", "n_points", n_points, Integer(2))
        if columns is None:
            columns = [score.column for score in self.columns(2)]
        chosen = [self._index(c) for c in np.atleast_1d(np.asarray(columns, dtype=object))]
        if not 1 <= len(chosen) <= 2:
            msg = f"Witness.on_grid: columns must be one or two columns, got {columns!r}."
            raise ParameterError(msg)
        rows = self.rows.toarray() if sp.issparse(self.rows) else self.rows
        ends = [[float(q) for q in np.quantile(rows[:, c], [0.01, 0.99])] for c in chosen]
        axes = tuple(np.linspace(low, high, n_points) for low, high in ends)
        mesh = np.meshgrid(*axes, indexing="ij")
        X = np.tile(np.median(rows, axis=0).astype(np.float64), (mesh[0].size, 1))
        for c, values in zip(chosen, mesh, strict=True):
            X[:, c] = values.ravel()
        return axes, self(X).reshape(mesh[0].shape)

    def columns(self, n: int | None = 10) -> tuple[ColumnScore, ...]:
        """Return the columns that the difference of the samples depends on most.

        The score of a column is the mean square of the derivative of the witness function along the column, in units of
        its spread, at rows of both samples. It sees differences of a single column and differences of the dependence
        between columns. Scores are descriptive: they are not p-values.

        Parameters
        ----------
        n : int or None, default=10
            Largest number of columns; None means all.

        Returns
        -------
        tuple of ColumnScore
            In descending order of `share`.
        """
        squares = self._squared_gradients()
        mean, spread = squares[1:].mean(axis=0), squares[1:].std(axis=0)
        excess = squares[0] - mean
        z = excess / np.where(spread > 0, spread, 1.0)
        share = np.maximum(excess, 0.0)
        share = share / (share.sum() if share.any() else 1.0)
        order = np.lexsort((-z, -share))[:n]
        columns = self.features.scaling.columns[order]
        return tuple(
            ColumnScore(int(c), self._name(int(c)), float(share[i]), float(z[i]))
            for c, i in zip(columns, order, strict=True)
        )

    def __repr__(self) -> str:
        h = self.features.collection.lengthscales[self.loudest]
        return f"Witness(lengthscale={h:.3g}, n_features={self.features.scaling.n_features})"

    def _weights(self, kernel: int | None) -> Array:
        """Return the weights (2 J,) of the components for a kernel."""
        weights = self.features.weights[self.loudest if kernel is None else kernel]
        return np.concatenate([weights, weights])

    def _squared_gradients(self) -> Array:
        """Return the mean squares (1 + P, k) of the derivatives along scaled columns, of all witness functions."""
        rows = self.rows[:GRADIENT_ROWS]
        Z = features_of(self.features.astype(rows.dtype), rows).astype(np.float64)
        J = Z.shape[1] // 2
        functions = np.concatenate([self.difference[None], self.permuted]) * self._weights(None)
        out = np.empty((len(functions), self.features.frequencies.shape[0]))
        for number, c in enumerate(functions):
            slopes = (Z[:, :J] * c[J:] - Z[:, J:] * c[:J]) @ self.features.frequencies.T
            out[number] = np.square(slopes).mean(axis=0)
        return out

    def _name(self, column: int) -> str:
        return f"column {column}" if self.names is None else self.names[column]

    def _index(self, column: Any) -> int:
        """Return the index of a column that is given by its index or name."""
        d = self.features.scaling.n_features
        if self.names is not None and column in self.names:
            return self.names.index(column)
        if isinstance(column, int | np.integer) and 0 <= column < d:
            return int(column)
        known = f"from 0 to {d - 1}" + ("" if self.names is None else f" or one of {', '.join(self.names[:10])}")
        msg = f"Witness: a column must be an index {known}, got {column!r}."
        raise ParameterError(msg)


def figure_of_test(
    title: str, statistic: float, null: Array, threshold: float, scales: ScaleScores | None, witness: Witness | None
) -> Any:
    """Return a Matplotlib figure: the null distribution, the scores by lengthscale, and the witness function."""
    optional_module("matplotlib", "plot", "'mercer[report]'")
    from matplotlib.figure import Figure

    panels = 1 + (scales is not None) + (witness is not None)
    figure = Figure(figsize=(4.2 * panels, 3.4), layout="constrained")
    axes = iter(np.atleast_1d(figure.subplots(1, panels)))
    first = next(axes)
    first.hist(null, bins=min(40, max(5, len(null) // 10)), color=MUTED, alpha=0.6, label="permutations")
    first.axvline(statistic, color=ORANGE, label="observed")
    if np.isfinite(threshold):
        first.axvline(threshold, color=MUTED, linestyle="--", label="critical at 5 %")
    first.set(title="Null distribution", xlabel="statistic", ylabel="permutations")
    first.legend(frameon=False, fontsize=8)
    if scales is not None:
        _draw_scales(next(axes), scales)
    if witness is not None:
        _draw_witness(next(axes), witness)
    for panel in figure.axes:
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize=10)
    return figure


def _draw_scales(axes: Any, scales: ScaleScores) -> None:
    """Draw the standardized statistics against the lengthscales."""
    if len(scales.lengthscales) == 1:
        h = scales.lengthscales[0]
        axes.semilogx(h, scales.z, "o-", color=BLUE)
        axes.semilogx(h[scales.loudest[0]], scales.z[scales.loudest], "o", color=ORANGE, markersize=10)
        axes.set_xticks(h[::3], [f"{value:.2g}" for value in h[::3]])
        axes.minorticks_off()
        axes.axhline(0.0, color=MUTED, linewidth=0.8)
        axes.set(title="Lengthscales", xlabel="lengthscale, in spreads", ylabel="z")
        return
    a, b = scales.lengthscales
    image = axes.pcolormesh(a, b, scales.z.T, shading="nearest", cmap="viridis")
    axes.plot(*scales.lengthscale, "o", color=ORANGE, markersize=10)
    axes.set(title="Lengthscales (z)", xlabel="of X, in spreads", ylabel="of Y", xscale="log", yscale="log")
    axes.figure.colorbar(image, ax=axes)


def _draw_witness(axes: Any, witness: Witness) -> None:
    """Draw the witness function on a grid of the one or two columns that differ most."""
    scores = witness.columns(2)
    grid, values = witness.on_grid([score.column for score in scores])
    if len(grid) == 1:
        axes.plot(grid[0], values, color=BLUE)
        axes.axhline(0.0, color=MUTED, linewidth=0.8)
        axes.set(title="Witness: first minus second", xlabel=scores[0].name)
        return
    size = float(np.abs(values).max()) or 1.0
    image = axes.pcolormesh(*grid, values.T, shading="nearest", cmap="RdBu_r", vmin=-size, vmax=size)
    axes.set(title="Witness: first minus second", xlabel=scores[0].name, ylabel=scores[1].name)
    axes.figure.colorbar(image, ax=axes)
