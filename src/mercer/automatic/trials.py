"""The table of what a model tried."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mercer.errors.packages import axes_of, data_frame

__all__ = ["Trial", "Trials"]


@dataclass(frozen=True)
class Trial:
    """One kernel and metric that was tried.

    Attributes
    ----------
    columns : str
        How columns are scaled: "spread", "ranks" or "components".
    kernel : str
        The kernel, such as "Matern 1.5".
    metric : str
        "shared", "diagonal" or "full": one lengthscale for all columns, one per column, or a matrix; "none" for a line.
    n_rows : int
        Number of rows.
    part : int
        Which rows were held out: trials of the same part are compared on the same rows.
    loss : float
        Root mean squared error of held-out targets divided by their standard deviation, or logarithmic loss of
        held-out labels.
    seconds : float
        Time of the search that this trial is a part of, divided by its number of trials.
    weight : float
        Weight in the model; zero if it is not used.
    """

    columns: str
    kernel: str
    metric: str
    n_rows: int
    part: int
    loss: float
    seconds: float
    weight: float = 0.0

    @property
    def name(self) -> str:
        """Columns, kernel and metric in one line."""
        return ", ".join(part for part in (self.columns, self.kernel, self.metric) if part != "none")


@dataclass(frozen=True)
class Trials:
    """What was tried, in the order of the trials.

    Attributes
    ----------
    trials : tuple of Trial
        The trials.
    loss : str
        What the losses are.
    """

    trials: tuple[Trial, ...]
    loss: str

    def __len__(self) -> int:
        return len(self.trials)

    def __iter__(self) -> Any:
        return iter(self.trials)

    def least_losses(self) -> dict[str, float]:
        """Return the least loss for each scaling of columns, averaged over the parts with most rows; the best first."""
        least: dict[str, float] = {}
        for name in dict.fromkeys(trial.columns for trial in self.trials):
            some = [trial for trial in self.trials if trial.columns == name]
            most = max(trial.n_rows for trial in some)
            parts = {trial.part for trial in some if trial.n_rows == most}
            losses = [min(t.loss for t in some if t.part == part and t.n_rows == most) for part in parts]
            least[name] = sum(losses) / len(losses)
        return dict(sorted(least.items(), key=lambda item: item[1]))

    def to_pandas(self) -> Any:
        """Return the table as a data frame."""
        return data_frame([vars(trial) for trial in self.trials], "Trials.to_pandas")

    def __str__(self) -> str:
        lines = [f"  columns     kernel      metric        rows  part  {self.loss:>16}  weight"]
        for trial in self.trials:
            weight = f"{trial.weight:.2f}" if trial.weight else ""
            lines.append(
                f"{'*' if trial.weight else ' '} {trial.columns:<11} {trial.kernel:<11} {trial.metric:<9} "
                f"{trial.n_rows:>8,}  {trial.part:>4}  {trial.loss:>16.4g}  {weight:>6}"
            )
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Plot the losses of all trials, by what was tried; the area of a marker grows with its weight.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; None means a new figure.

        Returns
        -------
        matplotlib Axes
        """
        names = list(dict.fromkeys(trial.name for trial in self.trials))
        ax = axes_of(ax, "Trials", (7, 1.2 + 0.26 * len(names)))
        sizes = sorted({trial.n_rows for trial in self.trials})
        for color, size in enumerate(sizes):
            some = [trial for trial in self.trials if trial.n_rows == size]
            heights = [names.index(trial.name) for trial in some]
            areas = [20 + 200 * trial.weight for trial in some]
            losses = [trial.loss for trial in some]
            ax.scatter(losses, heights, s=areas, color=f"C{color}", alpha=0.7, label=f"{size:,} rows")
        ax.set_yticks(range(len(names)), names)
        ax.invert_yaxis()
        ax.set_xlabel(f"{self.loss} of held-out rows")
        ax.grid(visible=True, axis="x", alpha=0.3)
        ax.set_axisbelow(True)
        if len(sizes) > 1:
            ax.legend(frameon=False)
        return ax
