"""PriorityClasses, and what the API server writes of them into pods that name one, or none.

The store looks up by them what a job that waits would have: by the class that its pods would be
admitted with, once they were tried. Of a pod that is there the server's own word counts.
"""

from __future__ import annotations

from dataclasses import dataclass

from et_kube.resources import Json
from et_scheduler.codec.reading import MAX_INTEGER, read_flag, read_integer, read_text

_NEVER = "Never"


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """`is_default`: of pods that name none. `preempts`: those who have it may make others go."""

    value: int
    is_default: bool = False
    preempts: bool = True


def decode_priority_class(obj: Json) -> PriorityClass:
    """Raises ValueError for what cannot be one."""
    value = read_integer(obj, "value", least=-MAX_INTEGER - 1, most=MAX_INTEGER)
    return PriorityClass(value, read_flag(obj, "globalDefault"), read_preempts(obj))


def read_preempts(body: Json) -> bool:
    """Whether a pod that was admitted with this, or has this class, may make others go."""
    return read_text(body, "preemptionPolicy") != _NEVER
