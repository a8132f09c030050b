"""Least attained service in a few levels (Tiresias: Gu and others, NSDI 2019, "2D-LAS").

Gangs of the size that was asked for. A job's service is its GPUs times the time that it had them.
Who has had less than a bound is before who has had more, and within a level the oldest is. Who
waits takes the room of jobs of higher levels, whole jobs, those of the most service first.

Left out: levels that jobs come back from where they wait long (their STARVELIMIT), placing by the
model's skew. An eviction costs what a resize does; no step is lost by it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Change, Decision, Step
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.shapes import HOUR
from et_scheduler.planning.fitting import Gang, Seats, find_seats
from et_scheduler.planning.rooms import Room
from et_scheduler.simulating.gangs import (
    admit,
    build_room,
    get_asked,
    keep_apart,
    name_nodes,
    seat,
    sort_by_age,
)

GPU = "nvidia.com/gpu"
BOUNDS = (1.0 * HOUR, 8.0 * HOUR)
"""Of the levels: service of one GPU."""


class LeastAttained:
    """Remembers what each job has had; of one run."""

    def __init__(self) -> None:
        self._attained: dict[str, float] = {}
        self._rates: dict[str, int] = {}
        self._seen = 0

    def decide(
        self, cluster: Cluster, _: Iterable[Queue], jobs: Iterable[Job], now: int
    ) -> Decision:
        """Who has had least starts, and who has had more goes for him."""
        found = sort_by_age(jobs)
        self._note(found, now)
        room = build_room(cluster, found)
        running = [job for job in found if not job.is_waiting]
        running.sort(key=lambda job: self._attained[job.uid])
        evicted: list[Job] = []
        started = []
        waiting = [job for job in found if job.is_waiting]
        for job in sorted(waiting, key=self._get_level):
            seats = seat(room, job, get_asked(job)) or self._make_room(room, job, running, evicted)
            if seats is not None:
                started.append(admit(job, get_asked(job), now, name_nodes(room, seats)))
        gone = [_evict(job, now) for job in evicted]
        is_short = len(started) < len(waiting)
        wake_at = self._find_next(running, now) if is_short else None
        return Decision((*gone, *keep_apart(started)), wake_at=wake_at)

    def _note(self, jobs: list[Job], now: int) -> None:
        """Since the last pass each had what it had then."""
        for job in jobs:
            since = self._rates.get(job.uid, 0) * (now - self._seen)
            self._attained[job.uid] = self._attained.get(job.uid, 0.0) + since
        self._rates = {job.uid: _count_gpus(job) for job in jobs}
        self._seen = now

    def _get_level(self, job: Job) -> int:
        return bisect_right(BOUNDS, self._attained[job.uid])

    def _make_room(
        self, room: Room, job: Job, running: list[Job], evicted: list[Job]
    ) -> Seats | None:
        """Seats where jobs of higher levels were; these are moved to `evicted`."""
        tried = []
        gang = Gang(job.launcher, job.worker, get_asked(job))
        while running and self._get_level(running[-1]) > self._get_level(job):
            victim = running.pop()
            tried.append(victim)
            _release(room, victim)
            if find_seats(room, gang) is not None:
                evicted += tried
                return seat(room, job, gang.workers)
        for victim in reversed(tried):
            _release(room, victim, back=True)
            running.append(victim)
        return None

    def _find_next(self, running: list[Job], now: int) -> int | None:
        """When the first of them comes to its next level."""
        times = []
        for job in running:
            level, rate = self._get_level(job), self._rates[job.uid]
            if level < len(BOUNDS) and rate:
                times.append(now + int((BOUNDS[level] - self._attained[job.uid]) / rate) + 1)
        return min(times, default=None)


def _count_gpus(job: Job) -> int:
    """On nodes; of workers without any each counts as one."""
    each = dict(job.worker.requests).get(GPU, 1)
    return each * sum(bool(pod.node) and not pod.is_launcher for pod in job.pods)


def _release(room: Room, job: Job, *, back: bool = False) -> None:
    for pod in job.pods:
        if pod.node:
            place = (room.places[pod.node],)
            shape = job.launcher if pod.is_launcher else job.worker
            (room.take if back else room.give_back)(place, (1,), shape)


def _evict(job: Job, now: int) -> Change:
    assert job.admission is not None  # noqa: S101 (it runs)
    waiting = replace(job.admission, state=AdmissionState.WAITING, since=now)
    return Change(job.uid, Step.GIVE, waiting)
