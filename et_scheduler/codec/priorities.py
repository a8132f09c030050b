"""PriorityClasses: what the API server writes into pods that name one, or none."""

from __future__ import annotations

from dataclasses import dataclass

from et_kube.resources import Json
from et_scheduler.codec.reading import MAX_INTEGER, read_flag, read_integer


@dataclass(frozen=True, slots=True)
class PriorityClass:
    """`is_default`: of pods that name none."""

    value: int
    is_default: bool = False


def decode_priority_class(obj: Json) -> PriorityClass:
    """Raises ValueError for what cannot be one."""
    value = read_integer(obj, "value", least=-MAX_INTEGER - 1, most=MAX_INTEGER)
    return PriorityClass(value, read_flag(obj, "globalDefault"))
