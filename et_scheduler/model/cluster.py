"""The nodes, and the pods that are not of training jobs with a queue.

state/surveying.py builds it for a pass, codec/snapshots.py keeps it in a record. Pods of jobs with
a queue are with their jobs: whoever counted them here as well would count them twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from et_scheduler.model.shapes import Amounts, Shape, Taint


@dataclass(frozen=True, slots=True)
class Leaving:
    """What pods of others request that were all asked to go `since` then, and are still there."""

    since: int
    amounts: Amounts


@dataclass(frozen=True, slots=True)
class Node:
    """One node, and the sum of what others have on it.

    `taken` is what all pods bound to it request, without those of the jobs that are given to
    `decide`; `leaving` are the parts of it whose pods are being terminated: taken still, and free
    later, unless they should have gone long ago; `ports` are the sets that one of the same pods
    has, each set one object for all nodes: as many as there are pods may have hundreds.
    `has_room` is False for a node that is cordoned, or said to go, or does not say since when it is
    not ready (`unready_since`; None: it is). What it has is another resource for queues than the
    same in another `pool`. Pods are bound to it by `hostname`, the value of its label
    kubernetes.io/hostname: "" where it has none, and None where that is its name.
    """

    name: str
    allocatable: Amounts
    taken: Amounts = field(default_factory=dict)
    leaving: tuple[Leaving, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    ports: tuple[frozenset[str], ...] = ()
    has_room: bool = True
    unready_since: int | None = None
    pool: str = ""
    hostname: str | None = None

    def sum_leaving(self, overdue_since: int) -> Amounts:
        """What will be free of it: of all who were asked to go after that."""
        found: Counter[str] = Counter()
        for one in self.leaving:
            if one.since > overdue_since:
                found.update(one.amounts)
        return found


@dataclass(frozen=True, slots=True)
class PendingPod:
    """A pod of others that no node has been found for, `since` then.

    One that does not `preempt` makes nobody go, and has what is free or becomes so.
    `namespace` is whose it is: each has its own share of what a pass has time for.
    """

    uid: str
    shape: Shape
    priority: int
    since: int
    preempts: bool = True
    namespace: str = ""


@dataclass(frozen=True, slots=True)
class Headroom:
    """Room for so many pods of others that are yet to come."""

    shape: Shape
    pods: int


@dataclass(frozen=True, slots=True)
class Cluster:
    """What there is to share. Names of nodes and uids of pods are unique."""

    nodes: tuple[Node, ...] = ()
    pending: tuple[PendingPod, ...] = ()
    headroom: Headroom | None = None
