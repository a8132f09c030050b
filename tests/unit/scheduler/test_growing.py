"""Workers that were promised room and do not come: their room is others' again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from et_contract.admissions import AdmissionState, Elasticity, Placement
from et_scheduler.model.cluster import Cluster, PendingPod
from et_scheduler.model.jobs import Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import CPU, HOUR, MINUTE, SECOND
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import (
    LONG_AGO,
    MAIN,
    NOW,
    apply,
    cpus,
    decide_on,
    make_job,
    make_node,
    run_on,
)

BOTH = (Queue("main"), Queue("other"))
ONE = (make_node("node-00", 8),)


def live(
    jobs: list[Job], seconds: int, *, now: int = NOW, queues: tuple[Queue, ...] = BOTH
) -> tuple[list[Job], int]:
    """A pass each ten seconds on a node of 8 CPUs; pods stay as they are."""
    until = now + seconds * SECOND
    while now < until:
        jobs = apply(jobs, decide(Cluster(ONE), queues, jobs, now))
        now += 10 * SECOND
    return jobs, now


def grow() -> Job:
    """Two workers that may be eight since NOW."""
    job = run_on(make_job("a", 2, 8), "node-00", "node-00")
    [job] = apply([job], decide(Cluster(ONE), MAIN, [job], NOW))
    assert job.admission is not None
    assert job.admission.workers == 8
    return job


def add(job: Job, *created: int, node: str = "node-00") -> Job:
    pods = tuple(Pod(f"new-{at}-{i}", node, at) for i, at in enumerate(created))
    return replace(job, pods=(*job.pods, *pods))


def start_half() -> Job:
    """Started with eight, of which a quota lets two be created."""
    job = make_job("a", 2, 8)
    [job] = apply([job], decide(Cluster(ONE), MAIN, [job], NOW))
    assert job.admission is not None
    assert job.admission.workers == 8
    pods = run_on(job, "node-00", "node-00", since=NOW).pods
    return replace(job, pods=pods, is_waiting=False, admitted_number=1)


def remake(job: Job, at: int) -> Job:
    """Its last worker was lost and is made anew."""
    return add(replace(job, pods=job.pods[:-1]), at)


@pytest.mark.long
@pytest.mark.parametrize(
    "grown",
    [
        pytest.param(grow(), id="none of them"),
        pytest.param(add(grow(), NOW + SECOND), id="but one"),
        pytest.param(add(grow(), NOW + SECOND, node=""), id="but one, which finds no node"),
        pytest.param(remake(grow(), NOW + HOUR), id="none, and one was remade long after"),
        pytest.param(remake(grow(), NOW - 2 * SECOND), id="none, and one was remade just before"),
        pytest.param(start_half(), id="none that a start has promised above the least"),
    ],
)
def test_room_for_workers_that_nobody_creates_is_others_after_two_minutes(grown: Job) -> None:
    there = sum(1 for pod in grown.pods if pod.node) - 1
    waiter = make_job("b", 4, 4, namespace="innocent", queue="other")
    jobs, now = live([grown, waiter], 120)
    assert jobs[1].admission is not None
    assert jobs[1].admission.reason is Reason.NO_ROOM
    jobs, _ = live(jobs, 20, now=now)
    told, other = (job.admission for job in jobs)
    assert told is not None
    assert other is not None
    assert other.state is AdmissionState.ADMITTED
    assert (told.workers, told.reason) == (there, Reason.NOT_GROWN)
    assert told.message.startswith(f"{8 - there} workers had no node in 120 s")
    assert "were not created" in told.message


@pytest.mark.long
def test_each_growth_of_which_nothing_comes_is_tried_later() -> None:
    jobs, now, sizes = [grow()], NOW, []
    for _ in range(60):
        jobs, now = live(jobs, 60, now=now)
        assert jobs[0].admission is not None
        sizes.append(jobs[0].admission.workers)
    assert sizes.count(8) <= 14
    assert sizes[-1] == 2
    came = add(jobs[0], *[now] * 6)
    fields = {"reason": Reason.GROWN, "short_since": now, "grown_from": 2}
    whole = replace(jobs[0].admission, workers=8, **fields)
    told = decide_on(ONE, [replace(came, admission=whole)], now=now)["a"]
    assert (told.attempts, told.retry_at, told.short_since) == (0, None, None)


@pytest.mark.parametrize(
    ("poor", "gives"),
    [
        ({}, True),
        ({"attempts": 9, "retry_at": NOW + 1}, False),
        ({"attempts": 1, "retry_at": NOW}, True),
        ({"attempts": 9, "retry_at": NOW}, False),
        ({"attempts": 3, "retry_at": NOW - 2 * HOUR + 1}, False),
        ({"attempts": 3, "retry_at": NOW - 2 * HOUR}, True),
        ({"attempts": 99, "retry_at": NOW - 32 * HOUR}, True),
    ],
)
def test_nobody_gives_for_the_level_of_one_whose_workers_were_not_created_before_its_next_growth(
    poor: dict[str, int], *, gives: bool
) -> None:
    rich = run_on(make_job("a", 1, 8), *["node-00"] * 7)
    assert ("a" in decide_on(ONE, [rich, run_on(make_job("b", 1, 8), "node-00", **poor)])) is gives


def test_a_growth_of_which_some_came_has_not_failed() -> None:
    job = add(grow(), NOW + SECOND)
    assert job.admission is not None
    job = replace(job, admission=replace(job.admission, attempts=3))
    told = decide_on(ONE, [job], now=NOW + 2 * MINUTE)["a"]
    assert (told.workers, told.attempts, told.retry_at) == (3, 0, None)


@pytest.mark.parametrize(("sizes", "attempts"), [((2, 3, 8), 0), ((2, 4, 8), 4)])
def test_a_growth_of_which_no_size_came_has_failed(sizes: tuple[int, ...], attempts: int) -> None:
    """What has come of it goes again, as often as it is tried: a quota may leave no more."""
    job = replace(add(grow(), NOW + SECOND), sizes=sizes)
    assert job.admission is not None
    job = replace(job, admission=replace(job.admission, attempts=3))
    told = decide_on(ONE, [job], now=NOW + 2 * MINUTE)["a"]
    assert (told.workers, told.attempts) == (3 if 3 in sizes else 2, attempts)
    assert (told.retry_at is not None) is bool(attempts)


@pytest.mark.parametrize("is_autoscaled", [False, True])
@pytest.mark.parametrize("pending", [0, 1])
def test_so_it_has_whatever_the_rest_waits_for(pending: int, *, is_autoscaled: bool) -> None:
    """Nodes may come, or pods of others wait: some have come, and go again each time."""
    job = replace(add(grow(), NOW + SECOND), sizes=(2, 4, 8))
    job = add(job, *[NOW + SECOND] * 5, node="")
    now = NOW + 2 * MINUTE + SECOND
    pods = tuple(PendingPod(f"s{i}", cpus(8), 0, now) for i in range(pending))
    queues = tuple(replace(queue, is_autoscaled=is_autoscaled) for queue in MAIN)
    [change] = decide(Cluster(ONE, pods), queues, [job], now).changes
    assert (change.admission.workers, change.admission.attempts) == (2, 1)


@pytest.mark.parametrize(("is_autoscaled", "attempts"), [(False, 1), (True, 0)])
def test_a_growth_that_finds_room_and_is_bound_nowhere_is_tried_later(
    attempts: int, *, is_autoscaled: bool
) -> None:
    job = add(grow(), *[NOW + SECOND] * 6, node="")
    queues = tuple(replace(queue, is_autoscaled=is_autoscaled) for queue in MAIN)
    told = decide_on(ONE, [job], queues, NOW + 2 * MINUTE + SECOND)["a"]
    assert (told.workers, told.attempts) == (2, attempts)
    assert (told.retry_at is not None) is bool(attempts)


# ---------------------------------------------------------------- what was lost
def churn(jobs: list[Job], minutes: int) -> tuple[list[Job], int]:
    """Each ten seconds the first job loses its oldest worker, and the one before is made anew."""
    now = NOW
    for _ in range(minutes * 6):
        launcher, _, *workers = jobs[0].pods
        jobs[0] = replace(jobs[0], pods=(launcher, *workers, Pod(f"new-{now}", "node-00", now)))
        jobs, now = live(jobs, 10, now=now)
    return jobs, now


def lose(job: Job, count: int = 1) -> Job:
    return replace(job, pods=job.pods[:-count])


@pytest.mark.long
def test_who_always_lacks_a_worker_keeps_its_size_where_nobody_wants_the_room() -> None:
    whole = run_on(make_job("a", 2, 8), *["node-00"] * 8)
    jobs, _ = churn([lose(whole)], 60)
    assert whole.admission is not None
    assert jobs[0].admission is not None
    kept = replace(jobs[0].admission, short_since=None, placement=whole.admission.placement)
    assert kept == whole.admission


def test_who_waits_for_room_gets_what_several_have_lost() -> None:
    losers = [lose(run_on(make_job(name, 1, 4), *["node-00"] * 4)) for name in "ac"]
    losers[1] = replace(losers[1], admission=replace(losers[1].admission, short_since=NOW - MINUTE))  # type: ignore[type-var]
    jobs, _ = live([*losers, make_job("b", 2, 2, preempts=False)], 130)
    assert [job.admission.workers for job in jobs if job.admission is not None] == [3, 3, 2]


def test_what_is_not_enough_for_who_waits_is_kept_by_who_lost_it() -> None:
    since = {"short_since": NOW - 2 * MINUTE}
    losers = [lose(run_on(make_job(name, 1, 4), *["node-00"] * 4, **since)) for name in "ac"]
    told = decide_on(ONE, [*losers, make_job("b", 3, 3, preempts=False)])
    kept = [(told[name].workers, told[name].leaving, told[name].reason) for name in "ac"]
    assert kept == [(4, (), Reason.NONE)] * 2
    rounds = {told[name].short_since for name in "ac"}
    assert len(rounds) == 1
    assert decide_on(ONE, [*losers, make_job("b", 2, 2, preempts=False)])["b"].workers == 2


@pytest.mark.parametrize("limits", [{}, {CPU: 8000}], ids=["no limit", "at the limit"])
@pytest.mark.parametrize("ago", [10 * SECOND, 2 * MINUTE], ids=["to come", "lost as well"])
def test_what_another_has_lost_costs_nobody_his_own(limits: dict[str, int], ago: int) -> None:
    losers = [
        lose(run_on(make_job(name, 1, 4), *["node-00"] * 4, short_since=NOW - since))
        for name, since in (("a", 2 * MINUTE), ("c", ago))
    ]
    told = decide_on((make_node("node-00", 32),), losers, (Queue("main", limits=limits),))
    assert all(admission.workers == 4 for admission in told.values())
    assert told["a"].reason is Reason.NONE


@pytest.mark.parametrize(("cpu", "workers"), [(1, 3), (40, 4)], ids=["may be there", "nowhere"])
def test_it_is_theirs_where_pods_of_others_want_it_only(cpu: int, workers: int) -> None:
    """One that can be nowhere, as nodes are now, costs nobody what he has lost."""
    nodes = (make_node("node-00", 4), make_node("full", 40, taken={CPU: 40_000}))
    loser = lose(run_on(make_job("a", 1, 4), *["node-00"] * 4, short_since=NOW - 2 * MINUTE))
    pending = (PendingPod("s", cpus(cpu), 0, NOW, preempts=False, namespace="web"),)
    told = decide(Cluster(nodes, pending), MAIN, [loser], NOW).changes
    assert [one.admission.workers for one in told] == [workers]


def test_who_keeps_what_he_has_lost_in_each_pass_may_go_as_a_whole() -> None:
    """Beside a pod of others that fits nowhere: who tries and takes back has changed nothing."""
    nodes = (make_node("node-00", 9), make_node("piece", 1), make_node("web", 40))
    nodes = (*nodes[:2], replace(nodes[2], taken={CPU: 40_000}))
    since = {"workers": 10, "short_since": NOW - 30 * SECOND}
    loser = run_on(make_job("a", 9, 10), *["node-00"] * 9, **since)
    loser = add(loser, NOW - 30 * SECOND, node="")
    pending = (PendingPod("s", cpus(30), -10, NOW, preempts=False, namespace="web"),)
    waiter = make_job("b", 3, 3, 3, priority=1)
    decision = decide(Cluster(nodes, pending), MAIN, [loser, waiter], NOW)
    told = {one.uid: one.admission for one in decision.changes}
    assert told["a"].reason is Reason.EVICTED


def test_who_starts_for_an_autoscaler_to_see_it_does_not_grow_at_once() -> None:
    """Told of the nodes of its growth alone it would look for its least size there, in vain."""
    queues = (Queue("main", is_autoscaled=True),)
    job = make_job("a", 4, 8, 3)
    first = decide_on(ONE, [job], queues)["a"]
    assert (first.state, first.workers, first.placement) == (
        AdmissionState.ADMITTED,
        4,
        Placement(),
    )
    [job] = apply([job], decide(Cluster(ONE), queues, [job], NOW))
    assert decide(Cluster(ONE), queues, [job], NOW + SECOND).changes == ()


@pytest.mark.parametrize(
    ("only", "avoid", "workers"),
    [((), (), 4), ((), ("free",), 3), (("node-00",), (), 4), (("node-00",), ("free",), 3)],
)
def test_pods_that_look_for_room_where_there_is_none_are_given_back(
    only: tuple[str, ...], avoid: tuple[str, ...], workers: int
) -> None:
    """Who once had to keep off nodes of others would else keep off them for good."""
    nodes = (make_node("node-00", 4, taken={CPU: 1000}), make_node("free", 8))
    job = run_on(make_job("a", 1, 4), *["node-00"] * 4, placement=Placement("", only, avoid))
    job = add(lose(job), NOW - 3 * MINUTE, NOW - 3 * MINUTE, node="")
    job = replace(job, admission=replace(job.admission, short_since=NOW - 3 * MINUTE))  # type: ignore[type-var]
    assert decide_on(nodes, [job])["a"].workers == workers


def test_who_can_grow_gets_it_and_gives_it_back_for_the_level_of_all() -> None:
    other, job = (run_on(make_job(name, 1, 8), *["node-00"] * 4) for name in "ab")
    jobs, now = live([other, lose(job, 2)], 130)
    assert [job.admission.workers for job in jobs if job.admission is not None] == [6, 2]
    jobs, _ = live([add(jobs[0], now, now), jobs[1]], 10, now=now)
    assert jobs[0].admission is not None
    assert jobs[0].admission.reason is Reason.GAVE_WAY


def test_who_falls_below_its_least_size_for_a_while_gives_nothing_back_as_it_returns() -> None:
    whole = run_on(make_job("a", 2, 8), *["node-00"] * 8)
    jobs, now = live([lose(whole, 7)], 300)
    jobs, _ = live([add(jobs[0], now)], 20, now=now)
    assert jobs[0].admission is not None
    assert jobs[0].admission.workers == 8


# ---------------------------------------------------------------- before its launcher stands
@pytest.mark.parametrize(("launchers", "workers"), [(0, 2), (1, 8)])
def test_nobody_grows_before_its_launcher_has_a_node(launchers: int, workers: int) -> None:
    job = run_on(make_job("a", 2, 8), *["node-00"] * 2)
    job = replace(job, pods=job.pods[1 - launchers :])
    jobs, _ = live([job], 60)
    assert jobs[0].admission is not None
    assert jobs[0].admission.workers == workers


def test_what_does_not_come_before_its_launcher_is_no_failed_growth() -> None:
    job = start_half()
    jobs, _ = live([replace(job, pods=job.pods[1:])], 140)
    assert jobs[0].admission is not None
    assert (jobs[0].admission.workers, jobs[0].admission.attempts) == (2, 0)


def test_a_worker_that_drains_keeps_its_place_for_the_next() -> None:
    job = run_on(make_job("a", 1, 4), *["node-00"] * 4)
    gone = replace(job.pods[-1], is_terminating=True, leaving_since=NOW)
    jobs, now = live([replace(job, pods=(*job.pods[:-1], gone))], 600)
    assert jobs[0].admission == job.admission
    jobs, now = live([replace(jobs[0], pods=job.pods[:-1])], 60, now=now)
    assert jobs[0].admission is not None
    assert jobs[0].admission.workers == 4
    jobs, _ = live([add(jobs[0], now)], 10, now=now)
    assert jobs[0].admission == job.admission


def test_one_that_is_deleted_before_it_had_a_node_keeps_no_room() -> None:
    pod = Pod("new", "", NOW, is_terminating=True, leaving_since=NOW)
    grown = grow()
    jobs, _ = live([replace(grown, pods=(*grown.pods, *[pod] * 6))], 130)
    assert jobs[0].admission is not None
    assert jobs[0].admission.workers == 2


def test_attempts_to_grow_are_none_to_start() -> None:
    victim = run_on(
        make_job("a", 2, 2, 4), "node-00", "node-00", attempts=5, retry_at=NOW + 10 * MINUTE
    )
    waiter = make_job("b", 2, 2, 4, priority=9, created=LONG_AGO)
    told = decide_on(ONE, [victim, waiter])["a"]
    assert told.reason is Reason.EVICTED
    assert (told.attempts, told.retry_at) == (0, None)


# ---------------------------------------------------------------- a larger least size
def raise_to(job: Job, least: int) -> Job:
    """Its author asks for more, and it may have them since NOW."""
    job = replace(job, minimum=least, replicas=least)
    [job] = apply([job], decide(Cluster(ONE), MAIN, [job], NOW))
    assert job.admission is not None
    assert (job.admission.workers, job.admission.reason) == (least, Reason.RAISED)
    return job


def make_two(**changes: Any) -> Job:
    return run_on(make_job("a", 2, 8, **changes), "node-00", "node-00")


FIXED = {"elasticity": Elasticity.FIXED}


@pytest.mark.parametrize(
    ("job", "workers", "there"),
    [
        pytest.param(raise_to(make_two(), 6), 3, 3, id="what has come stays"),
        pytest.param(raise_to(make_two(**FIXED), 6), 3, 3, id="of a Fixed one too"),
        pytest.param(raise_to(make_two(sizes=(2, 4, 8)), 8), 5, 4, id="down to an allowed size"),
        pytest.param(raise_to(make_two(sizes=(2, 4, 8)), 8), 3, 2, id="or the one before"),
        pytest.param(raise_to(make_two(), 6), 1, 2, id="its own is to come back"),
        pytest.param(raise_to(make_two(**FIXED), 6), 1, 2, id="that of a Fixed one too"),
    ],
)
def test_a_job_whose_larger_least_size_does_not_come_may_have_what_it_had(
    job: Job, workers: int, there: int
) -> None:
    job = add(job, *[NOW] * 6)
    lost = replace(job, pods=job.pods[: 1 + workers])
    assert "a" not in decide_on(ONE, [lost], now=NOW + 119 * SECOND)
    told = decide_on(ONE, [lost], now=NOW + 120 * SECOND)["a"]
    assert (told.workers, told.reason, told.grown_from) == (there, Reason.NOT_GROWN, 0)
    assert len(told.leaving) == max(workers - there, 0)
    assert told.retry_at is not None


@pytest.mark.parametrize("left", [0, 1])
def test_one_that_loses_its_own_meanwhile_is_evicted_ten_minutes_later(left: int) -> None:
    job = raise_to(make_two(), 6)
    lost = replace(job, pods=job.pods[: 1 + left])
    jobs, now = live([lost], 12 * 60)
    assert jobs[0].admission is not None
    assert jobs[0].admission.state is AdmissionState.ADMITTED
    jobs, _ = live(jobs, 60, now=now)
    assert jobs[0].admission is not None
    assert jobs[0].admission.reason is Reason.BELOW_MINIMUM


def test_a_larger_least_size_that_is_lowered_again_is_given_back() -> None:
    job = replace(raise_to(make_two(), 8), minimum=2, replicas=2)
    told = decide_on(ONE, [job], now=NOW + 120 * SECOND)["a"]
    assert (told.workers, told.reason, told.grown_from) == (2, Reason.NOT_GROWN, 0)


def test_a_least_size_that_rises_while_it_grows_costs_nothing_either() -> None:
    grown = replace(add(grow(), NOW), minimum=5)
    assert "a" not in decide_on(ONE, [grown], now=NOW + 119 * SECOND)
    told = decide_on(ONE, [grown], now=NOW + 120 * SECOND)["a"]
    assert (told.state, told.workers) == (AdmissionState.ADMITTED, 3)
    assert told.reason is Reason.NOT_GROWN


def test_a_larger_least_size_waits_until_the_job_stands() -> None:
    job = replace(make_two(), minimum=4)
    lost = replace(job, pods=job.pods[:2])
    decision = decide(Cluster(ONE), MAIN, [lost], NOW)
    assert decision.explanations["a"].reason is Reason.BELOW_MINIMUM
    assert [change.admission.workers for change in decision.changes] == [2]


def test_one_that_a_former_version_has_raised_goes_on_with_what_is_there() -> None:
    fields = {"reason": Reason.RAISED, "short_since": NOW - 2 * MINUTE}
    job = run_on(make_job("a", 6, 8), *["node-00"] * 3)
    former = replace(job, admission=replace(job.admission, workers=6, **fields))  # type: ignore[type-var]
    assert decide_on(ONE, [former])["a"].workers == 3


# ---------------------------------------------------------------- what others do for it
@pytest.mark.parametrize(("attempts", "asks"), [(0, True), (1, False)])
@pytest.mark.parametrize("limit", [99, 8])
def test_one_whose_workers_did_not_come_takes_only_what_is_free(
    attempts: int, limit: int, *, asks: bool
) -> None:
    queues = (Queue("main", limits={"cpu": limit * 1000}),)
    rich = run_on(make_job("v", 2, 6), *["node-00"] * 6)
    poor = replace(make_two(**FIXED), replicas=6)
    assert poor.admission is not None
    poor = replace(poor, admission=replace(poor.admission, attempts=attempts))
    assert ("v" in decide_on(ONE, [rich, poor], queues)) is asks
    told = decide_on((*ONE, make_node("node-01", 4)), [rich, poor])["a"]
    assert (told.workers, told.reason) == (6, Reason.RAISED)


def test_nor_does_it_keep_room_from_others() -> None:
    rich = run_on(make_job("v", 2, 2), *["node-00"] * 2)
    poor = replace(make_two(**FIXED), replicas=7)
    assert poor.admission is not None
    poor = replace(poor, admission=replace(poor.admission, attempts=1))
    jobs, now = live([rich, poor], 300)
    jobs = [*jobs, make_job("b", 4, 4, created=now)]
    jobs, _ = live(jobs, 10, now=now)
    assert jobs[2].admission is not None
    assert jobs[2].admission.state is AdmissionState.ADMITTED
    limited = (Queue("main", limits={"cpu": 7000}),)
    grower = run_on(make_job("v", 1, 4), *["node-00"])
    assert decide_on(ONE, [grower, poor], limited)["v"].workers == 4
