"""Policies that a simulation can run under: our planning, EDL's, FIFO and best effort.

Each has the form of planning's `decide`, and is given the same. Only ours is in the product; the
others are what it is compared with, and are never better informed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from et_contract.admissions import AdmissionState, Placement
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Change, Decision, Step
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.queues import Queue
from et_scheduler.planning.fitting import Gang, find_seats, take_seats
from et_scheduler.planning.passing import decide
from et_scheduler.planning.rooms import Room
from et_scheduler.simulating.edl import decide_as_edl
from et_scheduler.simulating.simulation import Decide


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to decide. `drains`: whether its workers leave at a commit, or are killed.

    `is_judged`: whether it promises what judging.py looks for.
    """

    name: str
    decide: Decide
    drains: bool = True
    is_judged: bool = False


def start_gangs(
    cluster: Cluster, jobs: Iterable[Job], now: int, *, at_most: bool, in_order: bool
) -> Decision:
    """Gangs of a fixed size, oldest first; `in_order`: none passes one that does not fit."""
    found = sorted(jobs, key=lambda job: (job.created, job.uid))
    room = Room(cluster.nodes, {shape for job in found for shape in (job.launcher, job.worker)})
    for job in found:
        _seat(room, job)
    changes = []
    for job in found:
        if not job.is_waiting:
            continue
        size = job.maximum if at_most else job.minimum
        gang = Gang(job.launcher, job.worker, size)
        seats = find_seats(room, gang)
        if seats is not None:
            take_seats(room, gang, seats)
            names = tuple(room.nodes[place].name for place in seats.places)
            own = "" if seats.launcher is None else room.nodes[seats.launcher].name
            admission = _admit(job, size, Placement(own, names), now)
            changes.append(Change(job.uid, Step.TAKE, admission))
        elif in_order:
            break
    return Decision(tuple(changes))


def _seat(room: Room, job: Job) -> None:
    """What is bound, and what is promised and will be."""
    unbound = 0
    for pod in job.pods:
        if pod.node:
            shape = job.launcher if pod.is_launcher else job.worker
            room.take((room.places[pod.node],), (1,), shape)
        else:
            unbound += not pod.is_launcher
    seats = find_seats(room, Gang(None, job.worker, unbound)) if unbound else None
    if seats is not None:
        take_seats(room, Gang(None, job.worker, unbound), seats)


def _admit(job: Job, size: int, placement: Placement, now: int) -> Admission:
    number = (job.admission.number if job.admission else 0) + 1
    return replace(
        job.admission or Admission(),
        number=number,
        state=AdmissionState.ADMITTED,
        queue=job.queue,
        workers=size,
        placement=placement,
        since=now,
    )


def fifo_most(cluster: Cluster, _: Iterable[Queue], jobs: Iterable[Job], now: int) -> Decision:
    """FIFO, whole gangs of the largest size."""
    return start_gangs(cluster, jobs, now, at_most=True, in_order=True)


def fifo_least(cluster: Cluster, _: Iterable[Queue], jobs: Iterable[Job], now: int) -> Decision:
    """FIFO, whole gangs of the least size."""
    return start_gangs(cluster, jobs, now, at_most=False, in_order=True)


def best_effort(cluster: Cluster, _: Iterable[Queue], jobs: Iterable[Job], now: int) -> Decision:
    """Whoever fits starts with the largest size, whoever waits."""
    return start_gangs(cluster, jobs, now, at_most=True, in_order=False)


POLICIES = (
    Policy("ours", decide, is_judged=True),
    Policy("edl", decide_as_edl, drains=False),
    Policy("fifo-max", fifo_most),
    Policy("fifo-min", fifo_least),
    Policy("best-effort", best_effort),
)
