"""kube-batch's `allocate` with its plug-ins gang and drf, as their source has it at its end (2021).

A PodGroup's minMember is the job's least size here, its pods are as many as the author asked for.
Jobs that lack minMember come first, then who has the least dominant share, then the oldest: each
is given pods one by one, until it has minMember, and then one at a time. What a job was given that
has not come to minMember is not given back in the session: it starts nothing, and blocks others
(kube-batch #561). Nodes are the emptiest (nodeorder). Nobody shrinks, and nobody goes.

Left out: queues and their shares (proportion), for there is one queue here; priorities, reclaim
and preempt, for all jobs are equal; pods without requests (backfill).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

import numpy as np

from et_contract.admissions import Placement
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Change, Decision, Step
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.rooms import Room
from et_scheduler.simulating.gangs import (
    admit,
    build_room,
    get_asked,
    keep_apart,
    measure_share,
    sort_by_age,
)


@dataclass(slots=True)
class _Group:
    """A job in a session: how many workers it has, and where those are that it was given in it."""

    job: Job
    unit: float
    size: int
    launcher: int | None = None
    places: list[int] = field(default_factory=list)

    @property
    def is_ready(self) -> bool:
        """Whether it has minMember."""
        return self.size >= self.job.minimum

    @property
    def key(self) -> tuple[bool, float, int, str]:
        """The order of jobs."""
        return (self.is_ready, self.size * self.unit, self.job.created, self.job.uid)


def decide_as_kube_batch(
    cluster: Cluster, _: Iterable[Queue], jobs: Iterable[Job], now: int
) -> Decision:
    """One session."""
    found = sort_by_age(jobs)
    room = build_room(cluster, found)
    groups = [_Group(job, measure_share(room, job.worker), _count_workers(job)) for job in found]
    line = [(one.key, place) for place, one in enumerate(groups) if one.size < get_asked(one.job)]
    heapify(line)
    while line:
        place = heappop(line)[1]
        group = groups[place]
        if _allocate(room, group) and group.size < get_asked(group.job):
            heappush(line, (group.key, place))
    grown = (one for one in groups if one.places and one.is_ready)
    return Decision(tuple(keep_apart(_conclude(room, one, now) for one in grown)))


def _count_workers(job: Job) -> int:
    """What it is told counts, whether it is bound or not."""
    return 0 if job.is_waiting or job.admission is None else job.admission.workers


def _allocate(room: Room, group: _Group) -> bool:
    """Pods until it has minMember, or one more; False as soon as one of them has no node."""
    job = group.job
    if job.is_waiting and group.launcher is None:
        group.launcher = _bind(room, job.launcher)
        if group.launcher is None:
            return False
    while True:
        place = _bind(room, job.worker)
        if place is None:
            return False
        group.places.append(place)
        group.size += 1
        if group.is_ready:
            return True


def _bind(room: Room, shape: Shape) -> int | None:
    """The emptiest node, as a share of what it has."""
    candidates = np.flatnonzero(room.count_fits(shape))
    if not candidates.size:
        return None
    left = room.now[candidates] / np.maximum(room.allocatable[candidates], 1)
    place = int(candidates[int(np.argmax(left[:, 1:].sum(axis=1)))])
    room.take((place,), (1,), shape)
    return place


def _conclude(room: Room, group: _Group, now: int) -> Change:
    own = "" if group.launcher is None else room.nodes[group.launcher].name
    names = tuple(sorted({room.nodes[place].name for place in group.places}))
    placement, admission = Placement(own, names), group.job.admission
    if group.job.is_waiting or admission is None:
        return admit(group.job, group.size, now, placement)
    more = replace(admission, workers=group.size, placement=placement, resized_at=now)
    return Change(group.job.uid, Step.TAKE, more)
