"""Dominant resource fairness (Ghodsi and others, NSDI 2011) as static schedulers have it.

A job is a user of the paper, its demand a worker. Who starts is given workers one by one, always
the one with the least dominant share, until he has his most or nothing fits; he keeps them to his
end. A gang that does not fit is passed by those that do.

Left out: who runs gets nothing more and gives nothing back, which is what is static about it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

import numpy as np

from et_contract.admissions import Placement
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Decision
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.planning.rooms import Room
from et_scheduler.simulating.gangs import (
    admit,
    build_room,
    keep_apart,
    measure_share,
    name_nodes,
    seat,
    sort_by_age,
)


@dataclass(slots=True)
class _Start:
    """A job that starts in this pass."""

    job: Job
    placement: Placement
    size: int


def decide_by_drf(cluster: Cluster, _: Iterable[Queue], jobs: Iterable[Job], now: int) -> Decision:
    """Whoever fits starts, and what is left then is filled up among them."""
    found = sort_by_age(jobs)
    room = build_room(cluster, found)
    starts = []
    for job in found:
        seats = seat(room, job, job.minimum) if job.is_waiting else None
        if seats is not None:
            starts.append(_Start(job, name_nodes(room, seats), job.minimum))
    _fill(room, starts)
    changes = (admit(one.job, one.size, now, one.placement) for one in starts)
    return Decision(tuple(keep_apart(changes)))


def _fill(room: Room, starts: list[_Start]) -> None:
    units = [measure_share(room, one.job.worker) for one in starts]
    line = [(one.size * units[place], place) for place, one in enumerate(starts)]
    heapify(line)
    while line:
        _, place = heappop(line)
        start = starts[place]
        fits = room.count_fits(start.job.worker)
        candidates = np.flatnonzero(fits)
        if start.size >= start.job.maximum or not candidates.size:
            continue
        node = int(candidates[int(np.argmin(fits[candidates]))])
        room.take((node,), (1,), start.job.worker)
        only = {*start.placement.only, room.nodes[node].name}
        start.placement = replace(start.placement, only=tuple(sorted(only)))
        start.size += 1
        heappush(line, (start.size * units[place], place))
