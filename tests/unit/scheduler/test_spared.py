"""Who is asked for nothing: for what would not help, and for whom may not ask him."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState, Elasticity
from et_scheduler.model.cluster import Cluster, PendingPod
from et_scheduler.model.jobs import Admission, Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import CPU, HOUR, MINUTE
from et_scheduler.planning.passing import decide
from et_scheduler.simulating.jobs import SimJob
from tests.unit.scheduler.makers import (
    MAIN,
    NOW,
    cpus,
    decide_on,
    make_job,
    make_node,
    make_nodes,
    make_simulation,
    run_on,
)

WITH_PORT = replace(cpus(1), host_ports=frozenset({"TCP/80"}))


def count_leaving(told: dict[str, Admission]) -> int:
    return sum(len(one.leaving) for one in told.values())


def run_elastic(*nodes: str) -> Job:
    return run_on(make_job("elastic", 1, 8), *[name for name in nodes for _ in range(4)])


@pytest.mark.parametrize(
    ("workers", "leaving"),
    [pytest.param(2, 2, id="a node for each"), pytest.param(3, 0, id="a node too few")],
)
def test_a_port_of_a_node_is_one_pods_however_many_go(workers: int, leaving: int) -> None:
    """The third node is a job's that gives nothing."""
    nodes = make_nodes(3, 4)
    rigid = make_job("rigid", 4, 4, elasticity=Elasticity.FIXED)
    jobs = [run_elastic("node-00", "node-01"), run_on(rigid, *["node-02"] * 4)]
    gang = make_job("gang", workers, workers, worker=WITH_PORT)
    assert count_leaving(decide_on(nodes, [*jobs, gang])) == leaving


def test_pods_of_others_with_one_port_get_a_node_each() -> None:
    nodes = make_nodes(2, 4)
    pending = tuple(PendingPod(f"s{i}", WITH_PORT, 0, NOW) for i in range(3))
    job = run_elastic("node-00", "node-01")
    decision = decide(Cluster(nodes, pending), MAIN, [job], NOW)
    assert [len(change.admission.leaving) for change in decision.changes] == [2]


def test_a_launcher_with_the_port_of_its_workers_is_on_a_node_of_its_own() -> None:
    gang = make_job("gang", 1, 1, worker=WITH_PORT, launcher=WITH_PORT)
    assert decide_on(make_nodes(2), [gang])["gang"].placement.launcher == "node-00"
    assert decide_on(make_nodes(2), [gang])["gang"].placement.only == ("node-01",)
    assert decide_on(make_nodes(1), [gang])["gang"].reason is not Reason.STARTED


@pytest.mark.parametrize(("priority", "leaving"), [(0, 2), (1, 2), (-1, 0)])
def test_at_the_limit_nobody_gives_for_one_of_lower_priority(priority: int, leaving: int) -> None:
    job = run_on(make_job("elastic", 1, 8), *["node-00"] * 8)
    gang = make_job("gang", 2, 2, priority=priority)
    queue = Queue("main", limits={CPU: 8_000})
    assert count_leaving(decide_on(make_nodes(1, 16), [job, gang], (queue,))) == leaving


def test_above_the_limit_everybody_gives() -> None:
    job = run_on(make_job("elastic", 1, 8, priority=9), *["node-00"] * 8)
    queue = Queue("main", limits={CPU: 6_000})
    assert count_leaving(decide_on(make_nodes(1, 16), [job], (queue,))) == 2


@pytest.mark.parametrize("limits", [{}, {CPU: 8_000}])
@pytest.mark.parametrize(
    ("attempts", "hours", "leaving"),
    [(5, 0, 2), (6, 0, 0), (6, 1, 2), (7, 1, 0), (7, 2, 2), (99, 31, 0), (99, 32, 2)],
)
def test_for_one_that_goes_on_failing_to_stand_nobody_leaves_for_hours(
    attempts: int, hours: int, leaving: int, limits: dict[str, int]
) -> None:
    """A quota may let no more of its pods be created than were tried."""
    job = run_on(make_job("elastic", 1, 8), *["node-00"] * 8)
    since = NOW - hours * HOUR
    told = Admission(9, AdmissionState.WAITING, "main", queued_at=since, since=since)
    told = replace(told, attempts=attempts, reason=Reason.NEVER_CREATED)
    gang = replace(make_job("gang", 2, 2), admission=told, admitted_number=9)
    nodes, queue = make_nodes(1, 16 if limits else 8), Queue("main", limits=limits)
    decision = decide(Cluster(nodes), (queue,), [job, gang], NOW)
    after = {change.uid: change.admission for change in decision.changes}
    assert count_leaving(after) == leaving
    if leaving == 0:
        assert decision.wake_at is not None
        assert limits or "no nodes are held for " in decision.explanations["gang"].message


@pytest.mark.long
@pytest.mark.parametrize(("least", "quota"), [(2, 2), (2, 5), (8, 3)])
def test_a_job_that_its_quota_holds_back_costs_its_neighbours_few_workers(
    least: int, quota: int
) -> None:
    """It may grow no further, or never stands: others gave for it four times an hour."""
    jobs = [make_job("a", 1, 40, created=0), make_job("b", least, 40, created=MINUTE)]
    simulation = make_simulation(make_nodes(4), jobs, MAIN)
    add = simulation._add

    def add_within(sim: SimJob, admission: Admission, *, is_launcher: bool) -> None:
        there = sum(not pod.is_launcher for pod in sim.pods)
        if sim.job.uid == "a" or is_launcher or there < quota:
            add(sim, admission, is_launcher=is_launcher)

    simulation._add = add_within  # type: ignore[method-assign]
    simulation.run(24 * HOUR)
    early = simulation.jobs["a"].ended_workers
    simulation.run(48 * HOUR)
    assert simulation.jobs["a"].ended_workers - early <= 32


def lose_one(sizes: tuple[int, ...]) -> Job:
    """Of eight workers one was lost three minutes ago, and what takes its place finds no node."""
    since = NOW - 3 * MINUTE
    told = run_on(make_job("a", 2, 8, sizes=sizes), *["node-00"] * 7)
    assert told.admission is not None
    admission = replace(told.admission, workers=8, short_since=since)
    return replace(told, pods=(*told.pods, Pod("new", "", since)), admission=admission)


NODE = make_node("node-00", 7)


def test_healthy_workers_do_not_go_for_one_that_is_lost() -> None:
    assert decide_on((NODE,), [lose_one((2, 4, 8))]) == {}
    assert decide_on((NODE,), [lose_one(())])["a"].workers == 7


def test_between_two_sizes_the_lower_counts_where_somebody_waits_for_room() -> None:
    told = Admission(queue="main", queued_at=NOW, since=NOW, reason=Reason.NO_ROOM)
    waiter = make_job("waiter", 3, 3, admission=told)
    assert decide_on((NODE,), [lose_one((2, 4, 8)), waiter])["a"].workers == 4


def test_a_queue_is_left_no_more_room_than_it_is_due() -> None:
    """A third of 24 CPUs: what others leave already for its first gangs is part of it."""
    nodes = make_nodes(6, 4)
    names = [node.name for node in nodes for _ in range(4)]
    donor = run_on(make_job("donor", 1, 24, queue="other"), *names)
    gangs = [make_job(f"{queue}-{i}", 4, 4, queue=queue) for queue in "ab" for i in range(3)]
    decision = decide(
        Cluster(nodes), (Queue("a"), Queue("b"), Queue("other")), [donor, *gangs], NOW
    )
    told = decision.explanations
    coming = sorted(uid for uid, one in told.items() if one.reason is Reason.ROOM_COMES)
    assert coming == ["a-0", "a-1", "b-0", "b-1"]


@pytest.mark.parametrize("is_reclaimable", [True, False])
def test_what_may_not_be_asked_back_is_not_evened_out(*, is_reclaimable: bool) -> None:
    rich = run_on(make_job("rich", 1, 8, queue="other"), *["node-00"] * 7)
    poor = run_on(make_job("poor", 1, 8), "node-00")
    queues = (Queue("main"), Queue("other", is_reclaimable=is_reclaimable))
    assert bool(decide_on((make_node("node-00", 8),), [rich, poor], queues)) is is_reclaimable


# ---------------------------------------------------------------- at the limit of a queue


def give_at_limit(limit: int, priorities: tuple[int, ...], *waiting: Job) -> dict[str, int]:
    """How many workers each of those who run, with eight each, has left."""
    jobs = [
        run_on(make_job(f"r{n}", 1, 8, priority=n), *["node-00"] * 8, resized_at=0)
        for n in priorities
    ]
    queue = Queue("main", limits={CPU: limit * 1000}, order=("age",))
    told = decide_on(make_nodes(1, 64), [*jobs, *waiting], (queue,))
    return {uid: one.workers for uid, one in told.items() if uid.startswith("r")}


@pytest.mark.parametrize(
    ("least", "left"),
    [pytest.param(7, {"r0": 1}, id="they suffice"), pytest.param(8, {}, id="one too few")],
)
def test_at_a_limit_nobody_gives_where_those_who_may_be_asked_do_not_suffice(
    least: int, left: dict[str, int]
) -> None:
    assert give_at_limit(16, (0, 10), make_job("w", least, least)) == left


def test_at_a_limit_who_can_be_served_does_not_wait_for_who_cannot() -> None:
    old, new = (
        make_job(uid, 4, 4, created=NOW + n, priority=n) for n, uid in ((0, "w0"), (9, "w9"))
    )
    assert give_at_limit(9, (5,), old) == {}
    assert give_at_limit(9, (5,), old, new) == {"r5": 5}


def test_at_a_limit_nothing_is_kept_for_whom_nobody_may_give() -> None:
    runs = run_on(make_job("r", 1, 8, priority=5), *["node-00"] * 4)
    queue = (Queue("main", limits={CPU: 6000}),)
    for priority, workers in ((0, 6), (5, 3)):
        waits = make_job("w", 3, 3, priority=priority)
        assert decide_on(make_nodes(1, 64), [runs, waits], queue)["r"].workers == workers


# ---------------------------------------------------------------- at their level


@pytest.mark.parametrize(
    ("minutes", "gives"),
    [pytest.param(1, False, id="it may come yet"), pytest.param(3, True, id="for good")],
)
def test_who_has_lost_a_worker_gives_for_the_level_as_if_he_were_whole(
    minutes: int, *, gives: bool
) -> None:
    """Between two of its sizes it gives nothing back by itself, as long as nobody waits."""
    since = NOW - minutes * MINUTE
    rich = run_on(make_job("rich", 2, 16, sizes=(2, 4, 6, 8, 12, 16)), *["node-00"] * 15)
    assert rich.admission is not None
    told = replace(rich.admission, workers=16, short_since=since)
    rich = replace(rich, admission=told, pods=(*rich.pods, Pod("rich-new", "", since)))
    poor = run_on(make_job("poor", 1, 16), "node-00")
    found = decide_on(make_nodes(1, 16), [rich, poor])
    assert {uid: one.workers for uid, one in found.items()} == ({"rich": 8} if gives else {})
