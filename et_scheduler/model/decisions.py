"""The decision of a pass: what changes for which jobs, in which order, and when to pass again.

Made by planning/passing.py: nothing else of a pass outlives it. acting/writing.py writes `changes`,
acting/publishing.py shows `queues`, deciding.py comes back at `wake_at`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from et_scheduler.model.jobs import Admission
from et_scheduler.model.queues import QueueStatus
from et_scheduler.model.reasons import Explanation


class Step(IntEnum):
    """In which order changes are written: each rests on those before it."""

    RESERVE = 1
    GIVE = 2
    TAKE = 3
    TELL = 4


@dataclass(frozen=True, slots=True)
class Change:
    """The new admission of one job."""

    uid: str
    step: Step
    admission: Admission


@dataclass(frozen=True, slots=True)
class Decision:
    """`changes` in the order in which they are written, one a job; jobs that stay are not in it.

    `explanations` has all who wait, with the numbers of when their kind was looked at last, most
    often now: what is written into a job's admission changes with its reason only. `wake_at` is
    when time alone will change something.
    """

    changes: tuple[Change, ...] = ()
    queues: tuple[QueueStatus, ...] = ()
    explanations: Mapping[str, Explanation] = field(default_factory=dict)
    wake_at: int | None = None
