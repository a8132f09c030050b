"""Room that is coming, and does not come: pods that do not end, victims that do not leave."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, Leaving, Node
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import MINUTE
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import (
    MAIN,
    NOW,
    apply,
    decide_on,
    make_job,
    make_node,
    make_nodes,
    run_on,
)

LATER = NOW + 30 * MINUTE
"""When a pod is asked to go whose server's clock is ahead: it is waited for all the while."""


def end_on(name: str, cpu: int, since: int = NOW) -> Node:
    """A pod of others, which was asked to go then, has so much of the node."""
    amounts = {"cpu": cpu * 1000, "pods": 1}
    return make_node(name, taken=amounts, leaving=(Leaving(since, amounts),))


def wait_long(jobs: list[Job], nodes: tuple[Node, ...], minutes: int) -> list[Job]:
    """A pass a minute; the pods of all stay as they are."""
    for minute in range(minutes + 1):
        jobs = apply(jobs, decide(Cluster(nodes), MAIN, jobs, NOW + minute * MINUTE))
    return jobs


@pytest.mark.parametrize(("minutes", "workers"), [(11, 16), (12, 8), (23, 8)])
def test_others_are_asked_where_a_pod_does_not_end(minutes: int, workers: int) -> None:
    nodes = (*make_nodes(2), end_on("node-02", 8))
    giver = run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 8)
    after = wait_long([giver, make_job("b", 2, 2, 4)], nodes, minutes)
    assert [job.admission.workers for job in after if job.admission] == [workers, 0]
    assert after[1].admission is not None
    assert after[1].admission.reason is Reason.ROOM_COMES


@pytest.mark.long
@pytest.mark.parametrize(("minutes", "workers"), [(11, 4), (12, 8), (600, 8)])
def test_nothing_is_kept_for_long_beside_a_pod_of_others_that_does_not_end(
    minutes: int, workers: int
) -> None:
    """The whole node would be a gang's, were it not for that pod."""
    nodes = (end_on("node-00", 4), make_node("node-01", 4))
    grows = run_on(make_job("a", 4, 8), *["node-01"] * 4)
    after = wait_long([grows, make_job("b", 1, 1, 8)], nodes, minutes)
    assert [job.admission.workers for job in after if job.admission] == [workers, 0]


def test_a_pass_is_due_when_a_pod_of_others_should_have_gone() -> None:
    decision = decide(Cluster((end_on("node-00", 4),)), MAIN, [], NOW + MINUTE)
    assert decision.wake_at == NOW + 12 * MINUTE


@pytest.mark.parametrize(("minutes", "evicted"), [(11, 1), (12, 2), (71, 2), (72, 3)])
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
    nodes = (end_on("node-00", 8, LATER),)
    jobs = wait_long([make_job("b", 2, 2, 4)], nodes, 0)
    assert wait_long(jobs, nodes, 30) == jobs


def test_a_larger_least_size_is_written_once_while_room_comes() -> None:
    nodes = (end_on("node-00", 7, LATER),)
    jobs = wait_long([run_on(make_job("a", 3, 6), "node-00", workers=1)], nodes, 0)
    assert wait_long(jobs, nodes, 30) == jobs


@pytest.mark.parametrize(
    ("minutes", "priority", "left"),
    [
        pytest.param(11, 5, 4, id="it may come yet"),
        pytest.param(12, 5, 1, id="it has not come"),
        pytest.param(12, 0, 4, id="he who waits for it is no less"),
    ],
)
def test_a_node_where_room_has_not_come_is_nobodys_against_who_is_more(
    minutes: int, priority: int, left: int
) -> None:
    """A gang holds the node, from which a pod of others goes; who comes would ask a job there."""
    since = NOW - minutes * MINUTE
    told = Admission(queue="main", queued_at=since, since=since, coming_since=since)
    told = replace(told, reason=Reason.ROOM_COMES, reserved=("node-00",))
    jobs = [
        run_on(make_job("gives", 1, 4, priority=1), *["node-00"] * 4),
        make_job("holds", 1, 1, 4, admission=told),
        make_job("comes", 1, 1, 3, priority=priority),
    ]
    after = decide_on((end_on("node-00", 4, LATER),), jobs)
    assert (after["gives"].workers if "gives" in after else 4) == left
