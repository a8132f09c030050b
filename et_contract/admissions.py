"""What et-scheduler and operator promise each other about a job with a queue.

`status.admission` is the scheduler's word: state, elasticity, how many workers, and where. The
operator answers with the condition `Admitted`: it holds the job and asks, or has carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

ADMITTED = "Admitted"
"""The condition of a job with a queue; and its reason where the job is admitted."""
WAITING = "Waiting"
"""Reason of the conditions of a job that is held: et-scheduler answers who has it."""
REFUSED = "PodsRefused"
"""Reason of a job whose pods the server would not create: it is in no line until it would."""
NO_QUEUE = "NoQueue"
"""Reason of a job that is in no queue any more: it is none of et-scheduler's."""
DEFAULT_QUEUE = "default"
"""The queue of whoever is held and names none: that he is held says that he is in one."""
MAX_NODES = 200
"""Names of nodes that are written into a pod: more of them bind it no better."""


class AdmissionState(StrEnum):
    """Whether a job may have pods."""

    WAITING = "Waiting"
    ADMITTED = "Admitted"


class Elasticity(StrEnum):
    """Who chooses the number of workers of a job with a queue: et-scheduler, or its author."""

    AUTO = "Auto"
    FIXED = "Fixed"


@dataclass(frozen=True, slots=True)
class Placement:
    """Nodes for pods that are made from now on, by their hostname; what is empty binds nobody.

    Workers must be on `only` and not on `avoid`. `launcher` is the node of a launcher that starts:
    were it anywhere on `only`, it could take the place of the last worker.
    """

    launcher: str = ""
    only: tuple[str, ...] = ()
    avoid: tuple[str, ...] = ()


ANYWHERE = Placement()
