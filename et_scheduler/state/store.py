"""All objects that et-scheduler watches, reduced to what decisions need.

A cluster may have a hundred thousand pods: a few words of each are kept, and sums by node, which
are computed again for the nodes that something has changed on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import attrgetter
from typing import Any

from et_kube.notices import ROWS, Row
from et_kube.resources import (
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    TRAINING_JOBS,
    TRAINING_QUEUES,
    Json,
    Resource,
)
from et_kube.tables import Table
from et_scheduler.codec.jobs import StoredJob, decode_job
from et_scheduler.codec.nodes import decode_node
from et_scheduler.codec.pods import Tenant, decode_pod
from et_scheduler.codec.priorities import PriorityClass, decode_priority_class
from et_scheduler.codec.queues import Labels, StoredQueue, decode_namespace, decode_queue
from et_scheduler.model.cluster import Node
from et_scheduler.state.weighing import Weights

DECODERS: dict[Resource, Callable[[Json], object]] = {
    TRAINING_JOBS: decode_job,
    TRAINING_QUEUES: decode_queue,
    NAMESPACES: decode_namespace,
    PRIORITY_CLASSES: decode_priority_class,
}
"""What is kept of each kind that says all about itself. Of pods and nodes: see Store.decode."""

NODE = "node"
PENDING = "pending"
"""Indexes of pods: by their node, and those that wait for one (True)."""


class Store:
    """One table a kind, and of which kinds nothing is missing.

    `dirty_nodes` and `dirty_jobs` (by uid) are those that may look different since they were last
    looked at: state/surveying takes them, and whether a namespace may (`are_namespaces_dirty`).
    `rows`: the signs by which the end of a node is known. `weights`: what shapes of pods take.
    """

    def __init__(self, rows: Sequence[Row] = ROWS, weights: Weights | None = None) -> None:
        self._rows = rows
        self._weights = weights or Weights()
        self.jobs: Table[StoredJob] = Table(find_uid)
        self.queues: Table[StoredQueue] = Table(lambda _: None)
        self.pods: Table[Tenant] = Table(
            lambda pod: pod.owner or None,
            node=lambda pod: pod.node or None,
            pending=lambda pod: pod.is_pending or None,
        )
        self.nodes: Table[Node] = Table(lambda _: None)
        self.namespaces: Table[Labels] = Table(lambda _: None)
        self.priority_classes: Table[PriorityClass] = Table(lambda _: None)
        self.tables: dict[Resource, Table[Any]] = {
            TRAINING_JOBS: self.jobs,
            TRAINING_QUEUES: self.queues,
            PODS: self.pods,
            NODES: self.nodes,
            NAMESPACES: self.namespaces,
            PRIORITY_CLASSES: self.priority_classes,
        }
        self.dirty_nodes: set[str] = set()
        self.dirty_jobs: set[str] = set()
        self.are_namespaces_dirty = True
        self._behind: set[Resource] = set(self.tables)

    def decode(self, resource: Resource, obj: Json) -> object:
        """What is kept of an object; raises ValueError (KeyError, TypeError) if it is unreadable.

        What a pod takes of its node is looked at beside what that node offers, and what it asks
        beside what others of its namespace do.
        """
        if resource == PODS:
            return decode_pod(obj, lambda name: self.nodes.find(("", name)), self._weights.may_keep)
        return decode_node(obj, self._rows) if resource == NODES else DECODERS[resource](obj)

    @property
    def is_current(self) -> bool:
        """Whether every kind was listed, and its watch is not cut."""
        return not self._behind

    def list_behind(self) -> list[str]:
        """The kinds of which something may be missing."""
        return sorted(resource.plural for resource in self._behind)

    def expect_list(self, resource: Resource) -> None:
        """Nothing is decided until this kind was listed, or its watch goes on."""
        self._behind.add(resource)

    def note_current(self, resource: Resource) -> None:
        """What is known of this kind misses nothing."""
        self._behind.discard(resource)

    def note_changed(self, changed: Iterable[object]) -> None:
        """Values in `changed` came, went, or are what was there before."""
        for value in changed:
            match value:
                case Tenant():
                    self.dirty_nodes.add(value.node)
                    self.dirty_jobs.add(value.owner)
                case Node():
                    self.dirty_nodes.add(value.name)
                case StoredJob():
                    self.dirty_jobs.add(value.job.uid if value.job is not None else "")
                case PriorityClass():
                    self.dirty_jobs.update(entry.uid for entry in self.jobs)
                case dict():
                    self.are_namespaces_dirty = True
                case _:
                    pass

    def find_priority_class(self, name: str) -> PriorityClass | None:
        """The class of pods that name it ("": none); None where there is none: it has no pods."""
        if name:
            return self.priority_classes.find(("", name))
        defaults = [entry.value for entry in self.priority_classes if entry.value.is_default]
        return min(defaults, key=attrgetter("value"), default=PriorityClass(0))  # as the server


def find_uid(stored: StoredJob) -> Hashable | None:
    """Jobs that something is to be decided about, by their uid."""
    return stored.job.uid if stored.job is not None else None
