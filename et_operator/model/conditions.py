"""Conditions, as every Kubernetes status has them.

Which of a job's are troubles is said here for the operator, its metrics and `et`: a new type is put
into one of the two sets. Nothing here decides which are True.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

AWAITING = "Awaiting"
"""Type of the condition that says what a job waits for, and until when."""
RECOVERING = "Recovering"
"""Type of the condition that a job has fewer hosts than it had, for some were lost."""
END_UNSEEN = "EndUnseen"
"""Type of the condition that a command was told to have ended, and its container does not."""
STOPPED = "JobSuspended"
"""Reason of `Suspended` once nothing of a job that its author has suspended is awaited any more."""
USUAL = frozenset(
    {
        "Created",
        "Running",
        "HostsListed",
        "Admitted",
        "Scaling",
        "Suspended",
        "Succeeded",
        "Failed",
        "RestartingWorkers",
        AWAITING,
        RECOVERING,
    }
)
"""Types of a job's conditions that are no trouble when they are True."""
TROUBLES = frozenset(
    {
        "AccountRefused",
        "ContainerConfigInvalid",
        "DeadlineHeldUp",
        "DrainHeldUp",
        "DriverStalled",
        END_UNSEEN,
        "Foreign",
        "ImagePullFailing",
        "ImageUnfit",
        "InvalidSpec",
        "LauncherTrouble",
        "NameTaken",
        "NoRing",
        "NodesLeaving",
        "NotElastic",
        "PlanningFailed",
        "PodsEnding",
        "PodsRefused",
        "RanksFailing",
        "Restarting",
        "RingNotBroken",
        "RuntimeMissing",
        "StatusDamaged",
        "TemplateChanged",
        "TooFewWorkers",
        "Unschedulable",
        "WorkersFailing",
        "WorkersIdle",
        "WritesRefused",
    }
)
"""The others of ours. A type that others have written is a trouble too, called by its own name."""


@dataclass(frozen=True, slots=True)
class Condition:
    """`status` is "True", "False" or "Unknown"; `last_transition_time` changes only with it."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """The condition of this type, if there is one."""
    return next((c for c in conditions if c.type == kind), None)


def is_true(conditions: Iterable[Condition], kind: str) -> bool:
    """Whether the condition of this type is there and "True"."""
    found = find_condition(conditions, kind)
    return found is not None and found.status == "True"


def find_troubles(conditions: Iterable[Condition]) -> list[Condition]:
    """Conditions of a job that somebody should look at, in their order."""
    return [c for c in conditions if c.status == "True" and c.type not in USUAL]


def name_troubles(conditions: Iterable[Condition]) -> str:
    """The types of troubles: `ImagePullFailing,WritesRefused`, "" for none."""
    return ",".join(c.type for c in find_troubles(conditions))


def with_condition(
    conditions: tuple[Condition, ...], new: Condition, now: datetime
) -> tuple[Condition, ...]:
    """The conditions with `new` in its type's place.

    The time of the last transition is kept while the status is the same, else it is `now`.
    """
    old = find_condition(conditions, new.type)
    same = old is not None and old.status == new.status
    stamp = old.last_transition_time if old is not None and same else now
    fresh = replace(new, last_transition_time=stamp)
    if old is None:
        return (*conditions, fresh)
    return tuple(fresh if c.type == new.type else c for c in conditions)
