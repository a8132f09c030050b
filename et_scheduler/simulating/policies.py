"""Policies that a simulation can run under: our planning, and what it is compared with.

Each decides in the form of planning's `decide`, and is given the same. Only ours is in the product.
Those that it is to be better than know no more than it does, and end no job; two others stand
beside them: one evicts whole jobs, one knows how fast each job would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Decision
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.planning.passing import decide
from et_scheduler.simulating.afs import KnownCurves
from et_scheduler.simulating.drf import decide_by_drf
from et_scheduler.simulating.edl import decide_as_edl
from et_scheduler.simulating.gangs import start_gangs
from et_scheduler.simulating.jobs import Work
from et_scheduler.simulating.kubebatch import decide_as_kube_batch
from et_scheduler.simulating.las import LeastAttained
from et_scheduler.simulating.simulation import Decide


@dataclass(frozen=True, slots=True)
class Policy:
    """A way to decide. `begin` gives it for one run of these jobs, with a memory of its own.

    `drains`: whether its workers leave at a commit, or are killed. `is_rival`: it is one of those
    that ours is to be better than. `is_judged`: it promises what judging.py looks for.
    """

    name: str
    begin: Callable[[Iterable[Work]], Decide]
    drains: bool = True
    is_rival: bool = True
    is_judged: bool = False


def fifo_most(cluster: Cluster, _: Iterable[Queue], jobs: Iterable[Job], now: int) -> Decision:
    """FIFO, whole gangs of the largest size."""
    return start_gangs(cluster, jobs, now, at_most=True, in_order=True)


def fifo_least(cluster: Cluster, _: Iterable[Queue], jobs: Iterable[Job], now: int) -> Decision:
    """FIFO, whole gangs of the least size."""
    return start_gangs(cluster, jobs, now, at_most=False, in_order=True)


def best_effort(cluster: Cluster, _: Iterable[Queue], jobs: Iterable[Job], now: int) -> Decision:
    """Whoever fits starts with the largest size, whoever waits."""
    return start_gangs(cluster, jobs, now, at_most=True, in_order=False)


def know_curves(works: Iterable[Work]) -> Decide:
    """Told of each job how fast it would be."""
    return KnownCurves({work.job.uid: work.curve for work in works}).decide


OURS = Policy("ours", lambda _: decide, is_rival=False, is_judged=True)
POLICIES = (
    OURS,
    Policy("edl", lambda _: decide_as_edl, drains=False),
    Policy("fifo-max", lambda _: fifo_most),
    Policy("fifo-min", lambda _: fifo_least),
    Policy("best-effort", lambda _: best_effort),
    Policy("kube-batch", lambda _: decide_as_kube_batch),
    Policy("drf", lambda _: decide_by_drf),
    Policy("las", lambda _: LeastAttained().decide, is_rival=False),
    Policy("afs", know_curves, is_rival=False),
)
