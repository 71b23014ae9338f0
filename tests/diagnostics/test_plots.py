"""Figures of audits and comparisons."""

import sys

import numpy as np
import pytest

from mercer import Gaussian, Laplacian, MissingPackageError, Nystroem, RandomFourier, audit, compare

pytest.importorskip("matplotlib")
X = np.random.default_rng(0).normal(size=(240, 3))


def titles(figure):
    return [panel.get_title(loc="left") for panel in figure.axes if panel.get_title(loc="left")]


def labels(panel):
    return panel.get_legend_handles_labels()[1]


def test_audit_has_three_panels_if_the_error_at_other_widths_is_predicted(tmp_path):
    result = audit(RandomFourier(Gaussian(2.0), 64, random_state=0).fit(X), X[:60], widths=(16, 32), n_draws=2)
    figure = result.plot()
    assert titles(figure) == ["Error by distance", "Approximate against exact", "Error by width"]
    assert labels(figure.axes[0]) == ["RMSE", "mean error"]
    assert labels(figure.axes[2]) == ["predicted", "95 % of draws", "other draws", "this map"]
    (line,) = [line for line in figure.axes[0].lines if line.get_label() == "RMSE"]
    np.testing.assert_allclose(line.get_ydata(), [one.rmse for one in result.by_distance(12).bins])
    figure.savefig(tmp_path / "audit.png")
    assert (tmp_path / "audit.png").stat().st_size > 10_000


def test_audit_of_landmarks_has_two_panels_without_other_widths():
    result = audit(Nystroem(Gaussian(2.0), 16, random_state=0).fit(X[:200]), X[200:])
    assert titles(result.plot()) == ["Error by distance", "Approximate against exact"]


@pytest.mark.parametrize("widths", [(8,), (8, 16)])
def test_comparison_has_errors_by_width_time_and_memory(widths, tmp_path):
    result = compare(Laplacian(2.0), X, widths=widths, n_draws=2, repeats=1)
    figure = result.plot()
    assert titles(figure) == ["Error by width", "Error by time", "Error by memory"]
    assert set(labels(figure.axes[0])) == {one.name for one in result.maps}
    styles = {line.get_label(): line.get_linestyle() for line in figure.axes[0].lines}
    assert (styles["RandomFourier"], styles["sklearn Nystroem"]) == ("-", "--")
    figure.savefig(tmp_path / "comparison.png")


def test_missing_matplotlib_says_what_to_install(monkeypatch):
    result = audit(RandomFourier(Gaussian(2.0), 16, random_state=0).fit(X), X[:20])
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingPackageError, match=r'Audit\.plot needs matplotlib, .* pip install "mercer\[report\]"'):
        result.plot()
