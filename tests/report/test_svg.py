"""Figures are compact, and carry nothing into the page around them."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from mercer.report.svg import SERIES, figure_style, panels, plain_ticks, thousands, to_svg


def scatter(n, name="dots"):
    with figure_style(name):
        figure, axes = panels()
        x, y = np.random.default_rng(0).normal(size=(2, n))
        axes[0, 0].plot(x, y, "o", color=SERIES[0], alpha=0.5)
        return to_svg(figure, name)


def test_two_thousand_points_take_less_than_120_kilobytes():
    svg = scatter(2000)
    assert len(svg) < 120_000
    # As many markers as points, and those of the ticks.
    assert len(re.findall(r'<use href="#dots-\w+" x="[\d.]+" y="[\d.]+"/>', svg)) >= 2000


def test_figures_have_no_style_elements_and_prefixed_identifiers():
    svg = scatter(10)
    assert "<style" not in svg
    assert all(name.startswith("dots-") for name in re.findall(r' id="([^"]*)"', svg))
    assert not re.search(r"\d\.\d{4}", re.sub(r"#[\w-]+|opacity: [\d.]+|stroke-width: [\d.]+", "", svg))


def test_numbers_at_axes_have_separated_thousands():
    with figure_style("axis"):
        figure, axes = panels()
        panel = axes[0, 0]
        panel.plot([-200_000, 100_000], [0, 1])
        thousands(panel)
        text = to_svg(figure, "axis")
    assert "\N{MINUS SIGN}200,000" in text
    assert ">0.2<" in text or "<!-- 0.2 -->" in text
    with figure_style("axis"):
        figure, axes = panels()
        axes[0, 0].loglog([1000, 20_000], [1, 2])
        plain_ticks(axes[0, 0], "x", [1000, 20_000])
        assert "20,000" in to_svg(figure, "axis")
