"""What administrators say about who may have how much.

The codec makes a Queue of each TrainingQueue, and JSON of a QueueStatus. Nothing of a queue is
remembered between passes: its status is for people alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from et_scheduler.model.shapes import Amounts

DEFAULT_ORDER = ("priority", "fairness", "age")


@dataclass(frozen=True, slots=True)
class Queue:
    """A TrainingQueue's spec. `namespaces` None: all of them may use it."""

    name: str
    weight: int = 1
    priority: int = 0
    limits: Amounts = field(default_factory=dict)
    is_reclaimable: bool = True
    is_autoscaled: bool = False
    is_stopped: bool = False
    namespaces: frozenset[str] | None = None
    order: tuple[str, ...] = DEFAULT_ORDER


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """What a queue has and is due. `line` are the first of those who wait, `namespace/name`."""

    name: str
    waiting: int
    running: int
    allocated: Amounts
    deserved: Amounts
    line: tuple[str, ...]
