"""A job of the demo as its training and its pods show it, look by look.

No I/O: observing.py brings what it has read. A size is what rank 0 has printed, never what a spec
asks for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from et.reading import ENDED
from et.steps import Step, count_repeats, list_sizes


class DemoError(Exception):
    """The demo did not go as it must; the message says what and where to look."""


@dataclass(frozen=True)
class Moment:
    """One look at a job: seconds since the scene began, workers that run, and the newest step.

    `size` is the world size of that step, 0 before the first and once the job has ended.
    """

    seconds: float
    workers: int
    size: int
    step: int
    loss: float | None


@dataclass
class Training:
    """What is known of one job. `steps` are those that rank 0 printed, in order."""

    name: str
    status: dict[str, Any] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    history: list[Moment] = field(default_factory=list)

    @property
    def phase(self) -> str:
        """The job's phase, "" while it has none."""
        return self.status.get("phase") or ""

    @property
    def size(self) -> int:
        """The world size now, 0 before the first step and once the job has ended."""
        return (self.steps[-1].size or 0) if self.steps and self.phase not in ENDED else 0

    @property
    def sizes(self) -> list[int]:
        """World sizes in the order in which the training saw them."""
        return list_sizes(self.steps)

    @property
    def restarts(self) -> int:
        """How often the launcher was started again."""
        return int(self.status.get("restartCount") or 0)

    def count_repeated_steps(self) -> int:
        """Steps that had to be trained more than once."""
        return count_repeats(self.steps)

    def note(self, seconds: float, workers: int) -> Moment:
        """Keep what is known now."""
        newest = self.steps[-1] if self.steps else Step(number=0)
        moment = Moment(seconds, workers, self.size, newest.number or 0, newest.loss)
        self.history.append(moment)
        return moment

    def describe(self) -> str:
        """The job's conditions, for a failure message."""
        return f"{self.name}: {json.dumps(self.status.get('conditions', []), indent=1)}"


def list_changes(trainings: Sequence[Training]) -> list[tuple[float, tuple[int, ...]]]:
    """When a world size changed, and those of all trainings then; 0 for one that does not train."""
    seen = sorted(
        (moment.seconds, index, moment.size)
        for index, training in enumerate(trainings)
        for moment in training.history
    )
    changes = [(0.0, (0,) * len(trainings))]
    for seconds, looks in groupby(seen, key=itemgetter(0)):
        sizes = list(changes[-1][1])
        for _, index, size in looks:
            sizes[index] = size
        if tuple(sizes) != changes[-1][1]:
            changes.append((seconds, tuple(sizes)))
    return changes[1:]
