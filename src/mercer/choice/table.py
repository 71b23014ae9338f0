"""The table of a choice: which maps were tried, their errors and costs, and which one was chosen."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from typing import Any

from mercer.choice.trials import Trial
from mercer.errors.packages import axes_of, data_frame, optional_module
from mercer.maps.base import DrawnMap

__all__ = ["MapChoice"]

ERROR_LABELS = {
    "rmse": "RMSE of the kernel",
    "relative": "relative Frobenius error",
    "spectral": "relative spectral error",
    "largest": "largest error",
}


@dataclass(frozen=True)
class MapChoice:
    """The maps that were tried for a kernel, and the one that was chosen.

    Attributes
    ----------
    kernel : str
        The kernel.
    question : str
        What was asked for, such as "at most 0.01".
    error : {"rmse", "relative", "spectral", "largest"}
        The error that was measured.
    tol : float or None
        The error that was asked for.
    met : bool
        Whether the chosen map is what was asked for. False if no map that was tried reaches `tol` within the limits.
    reason : str
        Why the map was chosen.
    chosen : Trial
        The chosen map.
    trials : tuple of Trial
        All maps that were tried, in order of their errors.
    n_fitted, n_held_out : int
        Numbers of the rows that the maps were fitted to at most, and on which errors were measured.
    """

    kernel: str
    question: str
    error: str
    tol: float | None
    met: bool
    reason: str
    chosen: Trial
    trials: tuple[Trial, ...]
    n_fitted: int
    n_held_out: int

    def without_maps(self) -> MapChoice:
        """Return the same table without the fitted maps, which may be large."""
        light = {id(trial): replace(trial, feature_map=None) for trial in self.trials}
        return replace(self, chosen=light[id(self.chosen)], trials=tuple(light.values()))

    def with_map(self, feature_map: DrawnMap) -> MapChoice:
        """Return the same table with the fitted map that was chosen."""
        chosen = replace(self.chosen, feature_map=feature_map)
        return replace(self, chosen=chosen, trials=tuple(chosen if t is self.chosen else t for t in self.trials))

    def to_dict(self) -> dict[str, Any]:
        """Return the table as a dictionary of built-in types."""
        result = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("chosen", "trials")}
        return result | {"chosen": _row(self.chosen), "trials": [_row(trial) for trial in self.trials]}

    def to_pandas(self) -> Any:
        """Return the table as a pandas data frame, one row per map that was tried."""
        rows = [_row(trial) | {"chosen": trial is self.chosen} for trial in self.trials]
        return data_frame(rows, "MapChoice.to_pandas")

    def __str__(self) -> str:
        width = max(len(trial.name) for trial in self.trials)
        lines = [
            f"{self.kernel}, {self.question}: {self.reason}",
            f"Errors ({ERROR_LABELS[self.error]}) on {self.n_held_out} rows held out from the fits to at most "
            f"{self.n_fitted} rows.",
            f"  {'map':<{width}}  components     error  at most  us a row    fit s       MB",
        ]
        for trial in self.trials:
            mark = "*" if trial is self.chosen else " "
            if trial.error == float("inf"):
                lines.append(f"{mark} {trial.name:<{width}}  {trial.n_components:>10}  {trial.note}")
                continue
            lines.append(
                f"{mark} {trial.name:<{width}}  {trial.n_components:>10}  {trial.error:>8.2e} {trial.upper:>8.2e}  "
                f"{1e6 * trial.row_seconds:>8.2f} {trial.fit_seconds:>8.3f} {trial.n_bytes / 1e6:>8.2f}"
            )
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Plot the errors of all maps that were tried against their numbers of components.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None means a new figure.

        Returns
        -------
        matplotlib Axes
        """
        ax = axes_of(ax, "MapChoice", (7.5, 4.8))
        ticker = optional_module("matplotlib.ticker", "MapChoice.plot", "'mercer[report]'")
        tried = [trial for trial in self.trials if 0 < trial.error < float("inf")]
        for name in dict.fromkeys(trial.name for trial in tried):
            mine = sorted((t for t in tried if t.name == name), key=lambda trial: trial.n_components)
            widths, errors = [t.n_components for t in mine], [t.error for t in mine]
            ax.errorbar(
                widths,
                errors,
                [[0] * len(mine), [t.upper - t.error for t in mine]],
                fmt="o-",
                label=name,
                markersize=4,
                linewidth=1.2,
                capsize=2,
            )
        if self.tol is not None:
            ax.axhline(self.tol, color="0.4", linestyle="--", linewidth=1)
            ax.annotate("tolerance", (0.01, self.tol), xycoords=("axes fraction", "data"), va="bottom", color="0.4")
        if self.chosen.error > 0:
            ax.plot(
                self.chosen.n_components,
                self.chosen.error,
                "o",
                markersize=13,
                fillstyle="none",
                color="black",
                label="chosen",
            )
        ax.set(xscale="log", yscale="log", xlabel="number of components", ylabel=ERROR_LABELS[self.error])
        widths = sorted({trial.n_components for trial in tried})
        ax.set_xticks(_spaced(widths))
        ax.xaxis.set_major_formatter(ticker.ScalarFormatter())
        ax.xaxis.set_minor_locator(ticker.NullLocator())
        ax.set_title(re.sub(r"\d+\.\d{4,}", lambda number: f"{float(number[0]):.4g}", self.kernel), fontsize=10)
        ax.grid(visible=True, alpha=0.3)
        ax.legend(fontsize=8, frameon=False)
        return ax


def _spaced(widths: list[int]) -> list[int]:
    """Return some of the sorted numbers, each at least 1.6 times as large as the one before."""
    spaced: list[int] = []
    for width in widths:
        if not spaced or width >= 1.6 * spaced[-1]:
            spaced.append(width)
    return spaced


def _row(trial: Trial) -> dict[str, Any]:
    return {f.name: getattr(trial, f.name) for f in fields(trial) if f.name != "feature_map"}
