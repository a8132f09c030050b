"""Workers and loss over time, as pictures.

Drawn after a scene from what its trainings have shown, look by look: no cluster is asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl

from examples.demo.trainings import Training

mpl.use("Agg")
from matplotlib import pyplot as plt

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, RED, GREY = "#1f6feb", "#d1495b", "#9aa5b1"


def draw_scaling(training: Training, path: Path, *, title: str) -> None:
    """Write a PNG: pods and world size as steps above, the loss below."""
    figure, (above, below) = _open()
    _draw_sizes(above, training, BLUE)
    above.set_ylabel("workers")
    losses = [(m.seconds, m.loss) for m in training.history if m.loss is not None]
    below.plot([s for s, _ in losses], [loss for _, loss in losses], color=RED)
    below.set_ylabel("loss")
    below.set_xlabel("seconds since the job was submitted")
    _close(figure, path, title)


def draw_sharing(first: Training, second: Training, path: Path, *, title: str) -> None:
    """Write a PNG: pods and world size of the first job above, of the second below."""
    figure, panels = _open()
    most = max(moment.workers for moment in first.history) + 1
    for axes, training, color in zip(panels, (first, second), (BLUE, RED), strict=True):
        _draw_sizes(axes, training, color)
        axes.set_ylim(0, most)
        axes.set_ylabel(f"workers of {training.name}")
    panels[-1].set_xlabel(f"seconds since {first.name} was submitted")
    _close(figure, path, title)


def _open() -> tuple[Figure, Sequence[Axes]]:
    figure, panels = plt.subplots(2, 1, sharex=True, figsize=(9, 5.5), dpi=120)
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
    return figure, panels


def _draw_sizes(axes: Axes, training: Training, color: str) -> None:
    history = training.history
    seconds = [m.seconds for m in history]
    axes.step(seconds, [m.workers for m in history], where="post", color=GREY, label="pods")
    sizes = [m.size for m in history]
    axes.step(seconds, sizes, where="post", color=color, lw=2, label="world size")
    axes.set_ylim(0, max(m.workers for m in history) + 1)
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False)


def _close(figure: Figure, path: Path, title: str) -> None:
    figure.suptitle(title)
    figure.tight_layout()
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
