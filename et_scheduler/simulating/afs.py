"""Elastic shares by those who know how fast each job would be: after AFS (Hwang and others, 2021).

Every job has its least size, the oldest first as long as that fits; each further worker goes to
the job that it speeds up most, as a share of the speed that it has. So sizes are found anew
whenever jobs come or go, and all who are above them shrink at once for those below.

AFS also weighs how much each job has left. Nobody knows that here, so all have as much left, and
its rule becomes this one. Left out besides: its rounds, between which nothing changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from heapq import heapify, heappop, heappush

from et_contract.admissions import ANYWHERE
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Change, Decision, Step
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.fitting import Gang, Seats, find_seats, take_seats
from et_scheduler.planning.rooms import Room
from et_scheduler.simulating.gangs import (
    admit,
    build_room,
    keep_apart,
    name_nodes,
    seat,
    sort_by_age,
    take_pods,
)
from et_scheduler.simulating.progress import Curve

USUAL = Curve()


@dataclass(frozen=True, slots=True)
class KnownCurves:
    """`curves`: by the uids of jobs; who has none there has the usual one."""

    curves: Mapping[str, Curve]

    def decide(
        self, cluster: Cluster, _: Iterable[Queue], jobs: Iterable[Job], now: int
    ) -> Decision:
        """Sizes for all, and who has none yet starts with his."""
        found = sort_by_age(jobs)
        room = build_room(cluster, found)
        least = _build_least(cluster, found)
        seats = {job.uid: _start(room, least, job) for job in found if job.is_waiting}
        sizes = {job.uid: job.minimum for job in found if seats.get(job.uid, Seats()) is not None}
        self._fill(least, [job for job in found if job.uid in sizes], sizes)
        changes = []
        for job in found:
            own = seats.get(job.uid)
            if own is not None:
                size = sizes[job.uid]
                is_seated = own.places and size == job.minimum
                placement = name_nodes(room, own) if is_seated else ANYWHERE
                changes.append(admit(job, size, now, placement))
            elif job.uid in sizes:
                changes += _resize(job, sizes[job.uid], now)
        return Decision(tuple(keep_apart(changes)))

    def _fill(self, room: Room, jobs: list[Job], sizes: dict[str, int]) -> None:
        """Of workers that are alike as many as there is room for, wherever that is."""
        left: dict[Shape, int] = {}
        line = [(-self._find_gain(job, sizes[job.uid]), place) for place, job in enumerate(jobs)]
        heapify(line)
        while line and line[0][0] < 0:
            _, place = heappop(line)
            job = jobs[place]
            if job.worker not in left:
                left[job.worker] = room.count_all(job.worker)
            if left[job.worker]:
                left[job.worker] -= 1
                sizes[job.uid] += 1
                heappush(line, (-self._find_gain(job, sizes[job.uid]), place))

    def _find_gain(self, job: Job, size: int) -> float:
        """By one more, to the speed that it has; 0 where it may have no more."""
        if size >= job.maximum:
            return 0.0
        curve = self.curves.get(job.uid, USUAL)
        return curve.get_rate(size + 1) / curve.get_rate(size) - 1


def _build_least(cluster: Cluster, jobs: list[Job]) -> Room:
    """The nodes if each job that runs had its least size, of those that it has had longest."""
    room = Room(cluster.nodes, {shape for job in jobs for shape in (job.launcher, job.worker)})
    missing = []
    for job in jobs:
        workers = [pod for pod in job.pods if pod.node and not pod.is_launcher]
        workers.sort(key=lambda pod: (pod.is_draining, pod.created, pod.name))
        launchers = [pod for pod in job.pods if pod.node and pod.is_launcher]
        take_pods(room, job, (*launchers, *workers[: job.minimum]))
        if not job.is_waiting:
            missing.append(Gang(None, job.worker, max(job.minimum - len(workers), 0)))
    for gang in missing:
        take_seats(room, gang, find_seats(room, gang) or Seats())
    return room


def _start(room: Room, least: Room, job: Job) -> Seats | None:
    """Where its least size goes; None: nowhere. No places: wherever others shrink for it."""
    if seat(least, job, job.minimum) is None:
        return None
    return seat(room, job, job.minimum) or Seats()


def _resize(job: Job, size: int, now: int) -> Iterator[Change]:
    admission = job.admission
    if admission is None or admission.workers == size:
        return
    workers = [pod for pod in job.pods if not (pod.is_launcher or pod.is_draining)]
    workers.sort(key=lambda pod: (not pod.node, pod.created, pod.name))
    leaving = tuple(pod.name for pod in workers[size:])
    after = replace(admission, workers=size, leaving=leaving, placement=ANYWHERE, resized_at=now)
    yield Change(job.uid, Step.GIVE, after)
