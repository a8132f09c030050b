"""What the policies share that ours is compared with: rooms, and gangs that start whole.

Of planning they take the arithmetic of a room and of seats, and none of its rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from et_contract.admissions import ANYWHERE, AdmissionState, Placement
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Change, Decision, Step
from et_scheduler.model.jobs import Admission, Job, Pod
from et_scheduler.model.shapes import Shape
from et_scheduler.planning.fitting import Gang, Seats, find_seats, take_seats
from et_scheduler.planning.rooms import Room


def sort_by_age(jobs: Iterable[Job]) -> list[Job]:
    """The oldest first."""
    return sorted(jobs, key=lambda job: (job.created, job.uid))


def get_asked(job: Job) -> int:
    """As many workers as its author has written, of those that it may have."""
    return min(max(job.replicas, job.minimum), job.maximum)


def measure_share(room: Room, shape: Shape) -> float:
    """Of the resource of which one such pod takes most of the cluster."""
    total = room.allocatable.sum(axis=0)
    return float((room.get_vector(shape) / np.maximum(total, 1))[1:].max(initial=0.0))


def build_room(cluster: Cluster, jobs: Sequence[Job]) -> Room:
    """What these jobs leave of the nodes: by what is bound, and by what will be."""
    room = Room(cluster.nodes, {shape for job in jobs for shape in (job.launcher, job.worker)})
    for job in jobs:
        take_pods(room, job, (pod for pod in job.pods if pod.node))
    for job in jobs:
        unbound = sum(not (pod.node or pod.is_launcher) for pod in job.pods)
        gang = Gang(None, job.worker, unbound)
        if unbound and (seats := find_seats(room, gang)) is not None:
            take_seats(room, gang, seats)
    return room


def take_pods(room: Room, job: Job, pods: Iterable[Pod]) -> None:
    """Take the room of these pods of the job, where they are."""
    found = Counter((pod.is_launcher, room.places[pod.node]) for pod in pods)
    for is_launcher in (True, False):
        places = {place: n for (role, place), n in found.items() if role is is_launcher}
        if places:
            shape = job.launcher if is_launcher else job.worker
            room.take(tuple(places), tuple(places.values()), shape)


def seat(room: Room, job: Job, size: int) -> Seats | None:
    """Take room for launcher and so many workers, tightest nodes first; None: there is not enough.

    Then nothing is taken.
    """
    gang = Gang(job.launcher, job.worker, size)
    seats = find_seats(room, gang)
    if seats is not None:
        take_seats(room, gang, seats)
    return seats


def name_nodes(room: Room, seats: Seats) -> Placement:
    """Where they are."""
    own = "" if seats.launcher is None else room.nodes[seats.launcher].name
    return Placement(own, tuple(room.nodes[place].name for place in seats.places))


def admit(job: Job, size: int, now: int, placement: Placement = ANYWHERE) -> Change:
    """The job starts, with so many workers."""
    admission = replace(
        job.admission or Admission(),
        number=(job.admission.number if job.admission else 0) + 1,
        state=AdmissionState.ADMITTED,
        queue=job.queue,
        workers=size,
        placement=placement,
        since=now,
    )
    return Change(job.uid, Step.TAKE, admission)


def keep_apart(changes: Iterable[Change]) -> list[Change]:
    """Without those that share nodes with one before them: these come with the next pass.

    A job's pods are bound anywhere among the nodes that it is told, so of two that share some, the
    first may take both seats of one. Where each has but one node, sums say it all.
    """
    kept: list[Change] = []
    told: dict[str, bool] = {}
    for change in changes:
        names = set(change.admission.placement.only)
        is_one = len(names) == 1
        if all(is_one and told[name] for name in names & told.keys()):
            told |= dict.fromkeys(names, is_one)
            kept.append(change)
    return kept


def start_gangs(
    cluster: Cluster, jobs: Iterable[Job], now: int, *, at_most: bool, in_order: bool
) -> Decision:
    """Gangs of a fixed size, oldest first; `in_order`: none passes one that does not fit."""
    found = sort_by_age(jobs)
    room = build_room(cluster, found)
    changes = []
    for job in found:
        if not job.is_waiting:
            continue
        size = job.maximum if at_most else job.minimum
        seats = seat(room, job, size)
        if seats is not None:
            changes.append(admit(job, size, now, name_nodes(room, seats)))
        elif in_order:
            break
    return Decision(tuple(keep_apart(changes)))
