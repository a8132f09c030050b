"""Room that is coming, and does not come: pods that do not end, victims that do not leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.jobs import Job
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import MINUTE
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import MAIN, NOW, apply, make_job, make_node, make_nodes, run_on


def wait_long(jobs: list[Job], nodes: tuple[Node, ...], minutes: int) -> list[Job]:
    """A pass a minute; the pods of all stay as they are."""
    for minute in range(minutes + 1):
        jobs = apply(jobs, decide(Cluster(nodes), MAIN, jobs, NOW + minute * MINUTE))
    return jobs


@pytest.mark.parametrize(("minutes", "workers"), [(11, 16), (12, 8), (30, 8)])
def test_others_are_asked_where_a_pod_does_not_end(minutes: int, workers: int) -> None:
    amounts = {"cpu": 8000, "pods": 1}
    nodes = (*make_nodes(2), make_node("node-02", taken=amounts, leaving=amounts))
    giver = run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 8)
    after = wait_long([giver, make_job("b", 2, 2, 4)], nodes, minutes)
    assert [job.admission.workers for job in after if job.admission] == [workers, 0]
    assert after[1].admission is not None
    assert after[1].admission.reason is Reason.ROOM_COMES


@pytest.mark.parametrize(("minutes", "evicted"), [(11, 1), (12, 2), (23, 2), (24, 3)])
def test_one_more_goes_where_a_victim_does_not(minutes: int, evicted: int) -> None:
    jobs = [
        run_on(make_job(f"job-{i}", 2, 2, 4, priority=-1), f"node-0{i}", f"node-0{i}")
        for i in range(4)
    ]
    after = [*jobs, make_job("b", 2, 2, 4)]
    for minute in range(minutes + 1):
        after = apply(after, decide(Cluster(make_nodes(4)), MAIN, after, NOW + minute * MINUTE))
        after = [replace(job, is_waiting=is_held(job)) for job in after]  # pods stay all the same
    assert sum(bool(job.admission and job.admission.evictions) for job in after[:4]) == evicted


def is_held(job: Job) -> bool:
    return job.admission is None or job.admission.state is AdmissionState.WAITING


def test_nobody_is_written_again_where_nobody_else_could_give() -> None:
    amounts = {"cpu": 8000, "pods": 1}
    nodes = (make_node("node-00", taken=amounts, leaving=amounts),)
    jobs = wait_long([make_job("b", 2, 2, 4)], nodes, 0)
    assert wait_long(jobs, nodes, 30) == jobs


def test_a_larger_least_size_is_written_once_while_room_comes() -> None:
    amounts = {"cpu": 7000, "pods": 1}
    nodes = (make_node("node-00", taken=amounts, leaving=amounts),)
    jobs = wait_long([run_on(make_job("a", 3, 6), "node-00", workers=1)], nodes, 0)
    assert wait_long(jobs, nodes, 30) == jobs
