"""Why a job waits, or has what it has: one word for programs, one sentence for people.

Words are on the wire and read back; a sentence is read by people, and by no rule. Who says which is
in planning (gating, explaining, and whoever changes an admission).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Reason(StrEnum):
    """The word in `status.admission.reason`."""

    NONE = ""
    STARTED = "Started"
    GROWN = "Grown"
    RAISED = "Raised"
    GAVE_WAY = "GaveWay"
    EVICTED = "Evicted"
    NO_QUEUE = "NoQueue"
    QUEUE_STOPPED = "QueueStopped"
    NOT_IN_QUEUE = "NamespaceNotAdmitted"
    AT_LIMIT = "AtLimit"
    PODS_LEFT = "PodsOfLastLife"
    BACKING_OFF = "BackingOff"
    BEHIND_EVICTOR = "BehindEvictor"
    TOO_LARGE = "TooLarge"
    NO_ROOM = "NoRoom"
    ROOM_COMES = "RoomComes"
    NOT_BOUND = "NotBound"
    NEVER_CREATED = "NeverCreated"
    NOT_GROWN = "NotGrown"
    BELOW_MINIMUM = "BelowMinimum"


FOR_ROOM = (Reason.NO_ROOM, Reason.ROOM_COMES)
"""Nothing but room keeps such a job from its start."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """A reason in one sentence, with the numbers of the pass that found it."""

    reason: Reason
    message: str
