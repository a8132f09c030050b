"""Charts as PNG files.

measuring.py has each chart of a finding drawn. Nothing is computed here, and no number left out or
smoothed.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl

from benchmarks.findings import Chart, Waterfall

mpl.use("Agg")
from matplotlib import pyplot as plt

_COLOURS = ("#1f6feb", "#9aa5b1", "#d1495b", "#2a9d8f", "#e9a03b", "#8057b5", "#5a4637")
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
        axes.set_xlim(left=find_left(chart))
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


def find_left(chart: Chart) -> float:
    """Where the picture begins: at 0, or with what was before that."""
    return min(0.0, *(across for line in chart.lines for across, _ in line.points))


def draw_waterfall(waterfall: Waterfall, path: Path) -> None:
    """Write one waterfall, the first bar on top; the folder must be there."""
    bars = waterfall.bars
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.36 * len(bars)), dpi=110)
    colours = dict(zip(dict.fromkeys(bar.whose for bar in bars), _COLOURS, strict=False))
    for row, bar in enumerate(bars):
        length = bar.end - bar.begin
        label = bar.whose if bar is next(b for b in bars if b.whose == bar.whose) else None
        axes.barh(row, length, left=bar.begin, color=colours.get(bar.whose, "grey"), label=label)
        axes.text(bar.end, row, f" {length:.2f} s", va="center", fontsize=8)
    axes.set_yticks(range(len(bars)), [bar.label for bar in bars], fontsize=8)
    axes.invert_yaxis()
    axes.set_xlim(0, 1.1 * max(bar.end for bar in bars))
    axes.set_xlabel("seconds since the creation of the job")
    axes.set_title(waterfall.title)
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(path, metadata={"Software": None})
    plt.close(figure)


def _pick(number: int, count: int) -> object:
    """A colour; of many lines one of a scale, from the first to the last."""
    if count <= len(_COLOURS):
        return _COLOURS[number]
    return plt.get_cmap("viridis")(number / count)
