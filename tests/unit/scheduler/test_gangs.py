"""Several gangs in one pass: each for whom others go has their room, whoever comes after it."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.decisions import Change, Decision, Step
from et_scheduler.model.jobs import Admission, Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import HOUR, SECOND, make_shape
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
    make_nodes,
    run_on,
)

CLUSTERS = int(os.environ.get("CLUSTERS", "40")) * 10
Drawn = tuple[tuple[Node, ...], tuple[Queue, ...], list[Job]]


def wait_since(job: Job, at: int) -> Job:
    """It has fitted nowhere since then."""
    told = Admission(0, AdmissionState.WAITING, job.queue, queued_at=at, since=at, unfit_since=at)
    return replace(job, created=at, admission=replace(told, reason=Reason.NO_ROOM))


def draw(seed: int) -> Drawn:
    """Nodes that are nearly full, and gangs of several queues and priorities that wait."""
    random = Random(seed)  # noqa: S311 (no secret)
    left = {f"node-{i}": random.choice([4, 8, 8, 16]) for i in range(random.randint(2, 6))}
    nodes = tuple(make_node(name, cpu) for name, cpu in left.items())
    queues = tuple(
        Queue(
            name,
            weight=random.randint(1, 3),
            priority=random.choice([0, 0, 1]),
            is_reclaimable=random.random() < 0.8,
        )
        for name in ("main", "other", "third")[: random.randint(1, 3)]
    )
    running = (draw_running(random, i, left, queues) for i in range(random.randint(1, 7)))
    jobs = [job for job in running if job is not None]
    jobs += [draw_waiting(random, i, queues) for i in range(random.randint(2, 5))]
    return nodes, queues, jobs


def draw_running(
    random: Random, index: int, left: dict[str, int], queues: tuple[Queue, ...]
) -> Job | None:
    cpu, own, count = random.choice([1, 2, 3, 4]), random.choice([0, 0, 1]), random.randint(1, 8)
    places: list[str] = []
    for name in random.sample(sorted(left), len(left)):
        fits = min((left[name] - (0 if places else own)) // cpu, count - len(places))
        if fits > 0:
            left[name] -= fits * cpu + (0 if places else own)
            places += [name] * fits
    if not places:
        return None
    least = random.randint(1, len(places))
    job = make_job(
        f"run-{index}",
        least,
        max(len(places), least + random.randint(0, 4)),
        cpu,
        launcher=cpus(own),
        queue=random.choice(queues).name,
        priority=random.choice([-1, 0, 0, 1]),
    )
    return run_on(job, *places, since=LONG_AGO + index)


def draw_waiting(random: Random, index: int, queues: tuple[Queue, ...]) -> Job:
    least, cpu = random.randint(1, 6), random.choice([1, 2, 3, 4])
    job = make_job(
        f"wait-{index}",
        least,
        least + random.randint(0, 3),
        cpu,
        launcher=cpus(random.choice([0, 0, 1, 2])),
        queue=random.choice(queues).name,
        priority=random.choice([0, 0, 1, 2]),
    )
    return wait_since(job, NOW - random.randint(1, 300) * SECOND)


def list_evictors(decision: Decision) -> set[str]:
    """For whom whole jobs go."""
    return {
        change.admission.evictions[-1].uid
        for change in decision.changes
        if change.admission.evictions
    }


def list_receivers(decision: Decision) -> set[str]:
    """For whom workers go, or whole jobs."""
    gifts = [(one.admission.gave_for, one.admission.leaving) for one in decision.changes]
    given = {gift.uid for gift, leaving in gifts if gift is not None and leaving}
    return (given | list_evictors(decision)) - {""}


def let_go(jobs: list[Job], decision: Decision) -> list[Job]:
    """Whoever was asked to go has gone. Nobody has been admitted, or has grown."""
    told = {one.uid: one for one in decision.changes if one.step is not Step.TAKE}
    starting = {one.uid for one in decision.changes if one.step is Step.TAKE}
    kept = [job for job in jobs if job.uid not in starting or not job.is_waiting]
    return [carry_out(job, told[job.uid]) if job.uid in told else job for job in kept]


def carry_out(job: Job, change: Change) -> Job:
    admission = change.admission
    if admission.state is AdmissionState.WAITING:
        return replace(job, admission=admission, pods=(), is_waiting=True)
    pods = tuple(pod for pod in job.pods if pod.name not in admission.leaving)
    return replace(job, admission=admission, pods=pods)


def find_losers(drawn: Drawn) -> dict[str, Reason]:
    """For whom others go in this pass, and who has no room when they have gone."""
    nodes, queues, jobs = drawn
    first = decide(Cluster(nodes), queues, jobs, NOW)
    after = let_go(jobs, first)
    second = decide(Cluster(nodes), queues, after, NOW + SECOND)
    told = {job.uid: job.admission or Admission() for job in after}
    told |= {change.uid: change.admission for change in second.changes}
    found = {uid: told[uid] for uid in list_receivers(first)}
    return {u: one.reason for u, one in found.items() if one.state is AdmissionState.WAITING}


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_nobody_goes_for_one_whose_room_another_has(part: int) -> None:
    for seed in range(part, CLUSTERS, 4):
        assert not find_losers(draw(seed)), seed


TWO_QUEUES = (Queue("main"), Queue("other", is_reclaimable=False))


def make_conflict() -> list[Job]:
    """One of queue main for whom a job will go, and a larger one of higher priority in other."""
    low = run_on(make_job("low", 1, 1, 8, replicas=1, priority=-1), "node-00")
    one = wait_since(make_job("one", 1, 1, 7, launcher=cpus(1)), NOW - SECOND)
    two = make_job("two", 2, 2, 8, queue="other", priority=1)
    fixed = run_on(make_job("fixed", 1, 1, 8, queue="other", priority=1), "node-01")
    return [low, fixed, one, wait_since(two, NOW - HOUR)]


def test_who_reserves_leaves_nodes_from_which_others_go_for_somebody() -> None:
    told = decide_on(make_nodes(2), make_conflict(), TWO_QUEUES)
    assert told["low"].reason is Reason.EVICTED
    assert told["one"].reserved == ("node-00",)
    assert told["two"].reserved == ("node-01",)


def test_who_is_of_higher_priority_has_what_is_free_beside_them() -> None:
    nodes = (make_node("node-00", 16), make_node("node-01"))
    told = decide_on(nodes, [*make_conflict(), make_job("new", 1, 1, 2, priority=9)], TWO_QUEUES)
    assert told["new"].placement.only == ("node-00",)


def test_nobody_goes_for_seats_that_pods_of_another_may_take() -> None:
    """Which node has two of the three that have just started is not known before."""
    nodes = (make_node("node-00", 10), make_node("node-01", 4))
    low = run_on(make_job("low", 1, 1, 4, replicas=1, priority=-1), "node-00")
    new = make_job("new", 3, 3, 2, priority=2)
    one = make_job("one", 1, 1, 8, priority=1)
    told = decide_on(nodes, [low, new, one])
    assert told["new"].placement.only == ("node-00", "node-01")
    assert "low" not in told
    bound = [Pod("new-launcher", "node-01", NOW, is_launcher=True)]
    bound += [Pod(f"new-{i}", f"node-0{i > 0:d}", NOW) for i in range(3)]
    there = replace(new, admission=told["new"], pods=tuple(bound), is_waiting=False)
    later = decide_on(nodes, [low, replace(there, admitted_number=1), one], now=NOW + SECOND)
    assert later["low"].reason is Reason.EVICTED


# ---------------------------------------------------------------- beside one that starts


def wait_beside_start(cpu: int, *, priority: int, ago: int) -> dict[str, Admission]:
    """Two workers of a gang that has just started are to come to two nodes, which has which?

    On the first of the nodes is a whole job that would go for who waits since then.
    """
    nodes = (make_node("node-00", 8), make_node("node-01", cpu))
    starts = run_on(make_job("starts", 2, 2, cpu, priority=priority), "", "", since=NOW - SECOND)
    assert starts.admission is not None
    starts = replace(starts, admission=replace(starts.admission, bound_at=None))
    runs = run_on(make_job("runs", 6, 6), *["node-00"] * 6)
    waits = wait_since(make_job("waits", 1, 1, 8 - 2 * cpu + 1, priority=5), NOW - ago)
    return decide_on(nodes, [starts, runs, waits])


@pytest.mark.parametrize(
    ("priority", "ago", "goes"),
    [
        pytest.param(0, SECOND, False, id="both may come there"),
        pytest.param(0, 61 * SECOND, True, id="they do not, for a minute, and others are less"),
        pytest.param(5, 61 * SECOND, True, id="others are no more"),
        pytest.param(6, 61 * SECOND, False, id="others are more"),
    ],
)
def test_nobody_goes_for_seats_that_a_gang_that_starts_may_take(
    priority: int, ago: int, *, goes: bool
) -> None:
    told = wait_beside_start(2, priority=priority, ago=ago)
    assert ("runs" in told) is goes


def test_who_has_waited_is_tried_though_one_before_him_who_has_not_failed() -> None:
    """They are alike, but he waits for fewer of those who start beside him."""
    nodes = (make_node("node-00", 8), make_node("node-01", 2))
    starts = run_on(make_job("starts", 2, 2, 2), "", "", since=NOW - SECOND)
    assert starts.admission is not None
    starts = replace(starts, admission=replace(starts.admission, bound_at=None))
    runs = run_on(make_job("runs", 6, 6), *["node-00"] * 6)
    first, waits = (wait_since(make_job(name, 1, 1, 5, priority=5), NOW - HOUR) for name in "ab")
    assert first.admission is not None
    first = replace(first, admission=replace(first.admission, unfit_since=NOW - SECOND))
    told = decide_on(nodes, [starts, runs, first, waits])
    assert told["runs"].evictions[-1].uid == "b"


def test_a_gang_that_starts_keeps_nobody_from_what_it_cannot_take() -> None:
    """It has one worker, on a node of which most is then left."""
    starts = run_on(make_job("starts", 1, 1, priority=-5), "", since=NOW - SECOND)
    assert starts.admission is not None
    starts = replace(starts, admission=replace(starts.admission, bound_at=None))
    runs = run_on(make_job("runs", 7, 7), *["node-00"] * 7)
    waits = make_job("waits", 1, 1, 6, priority=5)
    assert decide_on(make_nodes(1), [starts, runs, waits])["runs"].reason is Reason.EVICTED


@pytest.mark.parametrize(("protected", "gone"), [(True, []), (False, ["v0", "v1"])])
def test_nobody_goes_for_room_that_pods_which_look_for_a_node_will_have(
    gone: list[str], *, protected: bool
) -> None:
    """One that runs has lost half of its workers, and what replaces them fits nowhere."""
    nodes = (*make_nodes(2), make_node("other", 4))
    runs = [
        run_on(make_job(f"v{i}", 8, 8), *[f"node-0{i}"] * 8, since=NOW - SECOND * i)
        if i and protected
        else run_on(make_job(f"v{i}", 8, 8), *[f"node-0{i}"] * 8)
        for i in range(2)
    ]
    lost = run_on(make_job("lost", 4, 8, priority=5), *["other"] * 4, workers=8)
    assert lost.admission is not None
    lost = replace(lost, admission=replace(lost.admission, short_since=NOW - SECOND))
    pods = tuple(Pod(f"lost-new-{i}", "", NOW - SECOND) for i in range(4))
    told = decide_on(
        nodes, [*runs, replace(lost, pods=lost.pods + pods), make_job("w", 1, 1, 8, priority=5)]
    )
    assert [uid for uid, one in told.items() if one.reason is Reason.EVICTED] == gone


def test_a_launcher_on_a_node_without_a_hostname_is_not_looked_for_where_its_workers_are() -> None:
    """It would have lost its seat in each pass, and have it again at once."""
    nodes = (
        make_node("node-00", 4),
        make_node("node-01", 8, more={"gpu": 1}, hostname=""),
    )
    job = make_job("a", 4, 4, launcher=make_shape({"gpu": 1}))
    job = apply([job], decide(Cluster(nodes), MAIN, [job], NOW))[0]
    assert job.admission is not None
    assert job.admission.placement.only == ()
    assert decide_on(nodes, [job]) == {}
