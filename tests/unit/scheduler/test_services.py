"""What pods without a queue make elastic workers give, where gangs wait for room too."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, PendingPod
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import MINUTE, SECOND
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import NOW, apply, cpus, make_job, make_nodes, run_on

NODES = make_nodes(8)
SMALL = (Queue("small", weight=1), Queue("other", weight=99))
ALONE = (SMALL[0], replace(SMALL[1], is_reclaimable=False))
EQUAL = (Queue("small"), Queue("other"))
STOPPED = (replace(EQUAL[0], is_stopped=True), EQUAL[1])


def make_jobs(least: int, queue: str, *, preempts: bool) -> list[Job]:
    """A grown job on each node, and a gang that has held nodes for a minute."""
    grown = [
        run_on(make_job(f"a{i}", 1, 8, queue="other"), *[node.name] * 8)
        for i, node in enumerate(NODES)
    ]
    held = tuple(node.name for node in NODES[: -(-least // 8)])
    told = Admission(queue=queue, queued_at=NOW - MINUTE, since=NOW - MINUTE, reserved=held)
    told = replace(told, unfit_since=NOW - MINUTE, reason=Reason.NO_ROOM)
    gang = make_job("gang", least, least, queue=queue, preempts=preempts, admission=told)
    return [*grown, gang]


def count_given(jobs: list[Job], pods: int, queues: tuple[Queue, ...]) -> int:
    """How many workers are asked to go for so many pods, of a CPU each, that stay pending."""
    pending = tuple(PendingPod(f"s{i}", cpus(1), 0, NOW) for i in range(pods))
    for passed in range(5):
        decision = decide(Cluster(NODES, pending), queues, jobs, NOW + passed * SECOND)
        jobs = apply(jobs, decision)
    assert jobs[-1].admission is not None
    assert jobs[-1].admission.state is AdmissionState.WAITING
    return sum(len(job.admission.leaving) for job in jobs if job.admission)


@pytest.mark.parametrize("pods", [1, 3])
@pytest.mark.parametrize(
    ("queue", "preempts", "queues"),
    [
        pytest.param("other", False, SMALL, id="makes nobody go, or is unproven"),
        pytest.param("small", False, EQUAL, id="makes nobody go within its share"),
        pytest.param(
            "small", True, (SMALL[0], replace(SMALL[1], is_reclaimable=False)), id="alone"
        ),
        pytest.param("small", True, STOPPED, id="is in a queue that is stopped"),
    ],
)
def test_nobody_gives_for_a_gang_that_may_not_ask(
    pods: int, queue: str, preempts: bool, queues: tuple[Queue, ...]
) -> None:
    assert count_given(make_jobs(40, queue, preempts=preempts), pods, queues) == pods


@pytest.mark.parametrize("pods", [1, 3])
def test_what_pods_cannot_take_of_a_gangs_room_is_not_given_for_them(pods: int) -> None:
    """Its share is less than the gang, its queue has nothing: some of it could be asked for."""
    jobs = make_jobs(40, "small", preempts=True)
    assert pods < count_given(jobs, pods, EQUAL) <= 3 * pods


def test_what_pods_take_of_a_gangs_room_is_asked_for_with_theirs() -> None:
    jobs = make_jobs(60, "other", preempts=True)
    assert count_given(jobs, 2, EQUAL) == 6


def test_nobody_gives_for_a_gang_whose_queue_is_gone() -> None:
    """It held nodes in a queue that was deleted since."""
    jobs = make_jobs(8, "gone", preempts=True)
    assert count_given(jobs, 1, SMALL) == 1
