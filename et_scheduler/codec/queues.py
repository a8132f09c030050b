"""TrainingQueues, the namespaces that may use them, and their statuses.

What cannot be a queue raises ValueError, and the store goes on with what it knew. Of a queue only
its status is ever encoded: acting/publishing.py writes it, `et` reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from et_kube.quantities import read_amounts
from et_kube.resources import Json
from et_scheduler.codec.reading import (
    MAX_INTEGER,
    read_flag,
    read_integer,
    read_object,
    read_objects,
    read_text,
    read_texts,
)
from et_scheduler.model.queues import DEFAULT_ORDER, Queue, QueueStatus

_MAX_WEIGHT = 1_000_000
_MAX_LIMITS = 64
_MAX_ORDER = 8
_MAX_EXPRESSIONS = 64
_MAX_KEY = 317
_MAX_WORD = 63

Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Demand:
    """What a namespace's label must be: one of `values` (none: whatever), or must not be."""

    key: str
    values: frozenset[str]
    is_opposite: bool = False

    def holds(self, labels: Labels) -> bool:
        """Whether a namespace with these labels is as demanded."""
        value = labels.get(self.key)
        is_there = value is not None and (not self.values or value in self.values)
        return is_there != self.is_opposite


@dataclass(frozen=True, slots=True)
class StoredQueue:
    """A queue as it is stored: for whom by `demands` (None: for all); `shown` is its status."""

    queue: Queue
    demands: tuple[Demand, ...] | None
    shown: Json


def decode_queue(obj: Json) -> StoredQueue:
    """Raises ValueError for what cannot be a queue."""
    spec, status = read_object(obj, "spec"), read_object(obj, "status")
    limits = read_object(spec, "limits")
    if len(limits) > _MAX_LIMITS:
        raise ValueError("limits has more names than are read")
    queue = Queue(
        read_text(obj["metadata"], "name"),
        weight=read_integer(spec, "weight", 1, least=1, most=_MAX_WEIGHT),
        priority=read_integer(spec, "priority", least=-MAX_INTEGER - 1, most=MAX_INTEGER),
        # A limit of 0 is one too, unlike an amount of 0 that is requested.
        limits=dict.fromkeys(map(str, limits), 0) | read_amounts(limits),
        is_reclaimable=read_flag(spec, "reclaimable", default=True),
        is_autoscaled=read_flag(spec, "autoscaled"),
        is_stopped=read_flag(spec, "stopped"),
        order=read_texts(spec, "order", _MAX_ORDER, _MAX_WORD) or DEFAULT_ORDER,
    )
    return StoredQueue(queue, _decode_demands(spec), status)


def decode_namespace(obj: Json) -> Labels:
    """The namespace's labels, however many: with one missing it might be let in, or kept out."""
    labels = read_object(obj["metadata"], "labels")
    return {str(key): str(value)[:_MAX_WORD] for key, value in labels.items()}


def open_queue(stored: StoredQueue, namespaces: Iterable[tuple[str, Labels]]) -> Queue:
    """The queue with the names of those who may use it."""
    demands = stored.demands
    if demands is None:
        return stored.queue
    found = (name for name, labels in namespaces if all(one.holds(labels) for one in demands))
    return replace(stored.queue, namespaces=frozenset(found))


def encode_queue_status(status: QueueStatus) -> dict[str, Any]:
    """The status as it is stored."""
    return {
        "waiting": status.waiting,
        "running": status.running,
        "allocated": dict(status.allocated),
        "deserved": dict(status.deserved),
        "line": list(status.line),
    }


def build_queue_patch(shown: Json, wanted: Json) -> dict[str, Any] | None:
    """The merge patch that makes one of the other; None where nothing differs.

    An amount that is there no more is removed by its null.
    """
    if all(shown.get(key) == value for key, value in wanted.items()):
        return None
    patch = dict(wanted)
    for key in ("allocated", "deserved"):
        patch[key] = dict.fromkeys(read_object(shown, key)) | wanted[key]
    return patch


def _decode_demands(spec: Json) -> tuple[Demand, ...] | None:
    selector = spec.get("namespaces")
    if selector is None:
        return None
    labels = read_object(spec, "namespaces").get("matchLabels") or {}
    pairs = read_object({"matchLabels": labels}, "matchLabels").items()
    demands = [Demand(str(key), frozenset({str(value)})) for key, value in pairs]
    for one in read_objects(selector, "matchExpressions", _MAX_EXPRESSIONS):
        operator = read_text(one, "operator", _MAX_WORD)
        if operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            raise ValueError(f"namespaces has an unknown operator {operator!r}")
        values = frozenset(read_texts(one, "values", _MAX_EXPRESSIONS, _MAX_WORD))
        if ("In" in operator) != bool(values):
            raise ValueError(f"namespaces has {operator} with the wrong number of values")
        is_opposite = operator in {"NotIn", "DoesNotExist"}
        demands.append(Demand(read_text(one, "key", _MAX_KEY), values, is_opposite))
    return tuple(demands)
