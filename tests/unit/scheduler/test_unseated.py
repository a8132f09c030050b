"""Others' pods find no node, and a gang of one node asks: for whom do whole jobs go?"""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.jobs import Admission, Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import SECOND
from tests.unit.scheduler.makers import (
    LONG_AGO,
    MAIN,
    NOW,
    decide_on,
    make_job,
    make_node,
    make_nodes,
    run_on,
)
from tests.unit.scheduler.test_gangs import wait_since

NODES = (*make_nodes(4), make_node("own", 1))
QUEUES = (Queue("main", weight=1000), Queue("auto", is_autoscaled=True))


def make_victims() -> list[Job]:
    """A whole job on each of four nodes; the last one is the youngest."""
    return [
        run_on(make_job(f"v{i}", 8, 8), *[f"node-0{i}"] * 8, since=LONG_AGO + i) for i in range(4)
    ]


def make_waiter(ago: int = SECOND) -> Job:
    return wait_since(make_job("waits", 1, 1, 8, priority=5), NOW - ago)


def make_looking(count: int, there: int = 0) -> tuple[Pod, ...]:
    """So many pods that look for a node, and of them so many that have found one."""
    nodes = ["node-03"] * there + [""] * (count - there)
    return tuple(Pod(f"new-{i}", node, NOW - SECOND) for i, node in enumerate(nodes))


def lose(count: int, there: int = 0, **changes: int) -> Job:
    """A job that has one worker, and lost all others a moment ago."""
    job = run_on(make_job("loses", 1, 1 + count, **changes), "own", workers=1 + count)
    assert job.admission is not None
    told = replace(job.admission, short_since=NOW - SECOND)
    return replace(job, admission=told, pods=job.pods + make_looking(count, there))


def seek(count: int, there: int = 0, **changes: int) -> Job:
    """A gang that was admitted so that an autoscaler brings nodes for it."""
    job = make_job("seeks", count, count, queue="auto", **changes)
    job = run_on(job, "own", since=NOW - SECOND, workers=count, bound_at=None)
    return replace(job, pods=(job.pods[0], *make_looking(count, there)))


def list_gone(told: dict[str, Admission]) -> list[str]:
    return sorted(uid for uid, one in told.items() if one.reason is Reason.EVICTED)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lose(16, priority=-9), id="that run and give back what they take"),
        pytest.param(seek(16, priority=-9), id="for which nodes are to come"),
        pytest.param(seek(160, priority=-9), id="more than the cluster would hold"),
    ],
)
def test_one_job_goes_for_one_node_whatever_pods_of_lower_rank_find_none(other: Job) -> None:
    told = decide_on(NODES, [*make_victims(), other, make_waiter()], QUEUES)
    assert list_gone(told) == ["v3"]
    assert told["waits"].reason is Reason.ROOM_COMES


@pytest.mark.parametrize(
    ("priority", "ago", "gone"),
    [
        pytest.param(4, 1, ["v3"], id="of lower rank"),
        pytest.param(5, 1, [], id="of the same"),
        pytest.param(6, 1, [], id="of a higher one"),
        pytest.param(5, 61, ["v3"], id="of the same, for a minute"),
        pytest.param(6, 61, ["v3"], id="of a higher one, for a minute"),
    ],
)
def test_nobody_goes_for_who_seeks_nodes_nor_at_first_for_what_he_would_take(
    priority: int, ago: int, gone: list[str]
) -> None:
    jobs = [*make_victims(), seek(16, priority=priority), make_waiter(ago * SECOND)]
    assert list_gone(decide_on(NODES, jobs, QUEUES)) == gone


def take_room(other: Job, there: int) -> dict[str, Admission]:
    """What is decided once the job that went is gone, and some of those pods have its node."""
    jobs = [*make_victims(), other, make_waiter()]
    told = decide_on(NODES, jobs, QUEUES)
    assert list_gone(told) == ["v3"]
    jobs = [replace(job, admission=told.get(job.uid, job.admission)) for job in jobs]
    jobs[3] = replace(jobs[3], pods=(), is_waiting=True)
    looking = make_looking(len(other.pods) - (1 if other.uid == "seeks" else 2), there)
    kept = tuple(pod for pod in other.pods if not pod.name.startswith("new-"))
    jobs[4] = replace(jobs[4], pods=(*kept, *looking))
    return decide_on(NODES, jobs, QUEUES, NOW + SECOND)


@pytest.mark.parametrize("there", [1, 5, 8])
@pytest.mark.parametrize("count", [9, 16, 160])
def test_who_does_not_stand_gives_back_the_node_that_one_of_higher_rank_holds(
    count: int, there: int
) -> None:
    told = take_room(seek(count, priority=-9), there)
    assert list_gone(told) == ["seeks"]
    assert told["seeks"].evictions[-1].uid == "waits"
    assert told["seeks"].evictions[-1].is_early
    assert told["waits"].reason is Reason.ROOM_COMES  # it holds the node


@pytest.mark.parametrize("there", [1, 5, 8])
@pytest.mark.parametrize("count", [8, 16])
def test_who_runs_gives_it_back_too(count: int, there: int) -> None:
    told = take_room(lose(count, priority=-9), there)
    assert list_gone(told) == []
    assert (told["loses"].workers, len(told["loses"].leaving)) == (1, there)


@pytest.mark.parametrize("later", [False, True])
def test_what_becomes_free_there_is_kept_from_pods_of_lower_rank(*, later: bool) -> None:
    """They would fit, and are not there yet: so nobody else has to go."""
    held = replace(make_waiter(), admission=replace(make_waiter().admission, reserved=("node-03",)))
    jobs = [*make_victims()[:3], seek(8, priority=-9), held]
    if later:
        gone = run_on(make_job("gone", 8, 8), *["node-03"] * 8)
        pods = [replace(pod, is_terminating=True, leaving_since=NOW) for pod in gone.pods]
        jobs.append(replace(gone, pods=tuple(pods)))
    told = decide_on(NODES, jobs, QUEUES)
    assert list_gone(told) == []
    state = AdmissionState.WAITING if later else AdmissionState.ADMITTED
    assert told["waits"].state is state


def test_nobody_else_goes_while_one_of_no_lower_rank_may_still_come_to_stand_there() -> None:
    """It stands in ten minutes, or is taken back: no other node is made free meanwhile."""
    held = make_waiter(61 * SECOND)
    assert held.admission is not None
    held = replace(held, admission=replace(held.admission, reserved=("node-03",)))
    jobs = [*make_victims()[:3], seek(160, 8, priority=5), held]
    assert list_gone(decide_on(NODES, jobs, QUEUES)) == []
    elsewhere = replace(held, admission=replace(held.admission, reserved=()))  # type: ignore[arg-type]
    assert list_gone(decide_on(NODES, [*jobs[:4], elsewhere], QUEUES)) == ["v2"]


def test_whoever_has_lost_workers_and_gives_nothing_back_is_there_first() -> None:
    """It has its least size to lose, and is of no lower rank: one more goes for it."""
    jobs = [*make_victims(), lose(8, priority=5), make_waiter()]
    assert list_gone(decide_on(NODES, jobs, MAIN)) == ["v2", "v3"]
