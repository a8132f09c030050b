"""Charts as PNG files."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

from benchmarks.findings import Chart

mpl.use("Agg")
from matplotlib import pyplot as plt

_COLOURS = ("#1f6feb", "#9aa5b1", "#d1495b", "#2a9d8f", "#e9a03b")
_NAMED = 6
"""So many lines have each a name beside them."""


def draw(chart: Chart, path: Path) -> None:
    """Write one chart; the folder must be there."""
    figure, axes = plt.subplots(figsize=(8, 4.2), dpi=110)
    style, marker = ("steps-post", "") if chart.is_stepwise else ("default", "o")
    for number, line in enumerate(chart.lines):
        across, up = zip(*line.points, strict=True)
        colour = _pick(number, len(chart.lines))
        axes.plot(across, up, drawstyle=style, marker=marker, color=colour, label=line.label)
    if chart.is_logarithmic:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    axes.set_title(chart.title)
    axes.set_xlabel(chart.across)
    axes.set_ylabel(chart.up)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if len(chart.lines) <= _NAMED:
        axes.legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def _pick(number: int, count: int) -> object:
    """A colour; of many lines one of a scale, from the first to the last."""
    if count <= len(_COLOURS):
        return _COLOURS[number]
    return plt.get_cmap("viridis")(number / count)
