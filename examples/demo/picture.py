"""Workers and loss over time, as a picture."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from observing import Moment

mpl.use("Agg")
from matplotlib import pyplot as plt


def draw(history: list[Moment], path: Path, *, title: str) -> None:
    """Write a PNG: pods and world size as steps above, the loss below."""
    seconds = [m.seconds for m in history]
    figure, (above, below) = plt.subplots(2, 1, sharex=True, figsize=(9, 5.5), dpi=120)
    above.step(seconds, [m.workers for m in history], where="post", color="#9aa5b1", label="pods")
    above.step(
        seconds, [m.size for m in history], where="post", color="#1f6feb", lw=2, label="world size"
    )
    above.set_ylabel("workers")
    above.set_ylim(0, max(m.workers for m in history) + 1)
    above.legend(loc="upper right", frameon=False)
    losses = [(m.seconds, m.loss) for m in history if m.loss is not None]
    below.plot([s for s, _ in losses], [loss for _, loss in losses], color="#d1495b")
    below.set_ylabel("loss")
    below.set_xlabel("seconds since the job was submitted")
    for axes in (above, below):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", alpha=0.25)
    figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(path)
    plt.close(figure)
