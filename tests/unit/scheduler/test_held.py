"""Nodes that are held are held for one who will start there: nobody waits beside idle ones."""

from __future__ import annotations

import os
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from et_contract.admissions import AdmissionState, Elasticity, Placement
from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.jobs import Admission, Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import CPU, HOUR, MINUTE, PODS, SECOND
from et_scheduler.planning.holds import Holds
from et_scheduler.planning.passing import decide
from et_scheduler.planning.rooms import Room
from et_scheduler.planning.standings import Standing
from tests.counting import find_peak
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

WORLDS = int(os.environ.get("CLUSTERS", "40")) * 5
QUEUES = (Queue("main"), Queue("other"), Queue("third"))
NAMES = tuple(f"node-0{i}" for i in range(4))


def hold(job: Job, *nodes: str, since: int = NOW - 2 * MINUTE) -> Job:
    """It has fitted nowhere since then, and holds these nodes."""
    told = Admission(0, AdmissionState.WAITING, job.queue, queued_at=since, since=since)
    told = replace(told, unfit_since=since, reason=Reason.NO_ROOM, reserved=nodes)
    told = replace(told, reserved_since=since + MINUTE if nodes else None)
    return replace(job, created=since, admission=told)


def take(node: Node, cpu: int = 1) -> Node:
    """A pod of others is there."""
    return replace(node, taken={CPU: cpu * 1000, PODS: 1})


def run_passes(nodes: tuple[Node, ...], jobs: list[Job], count: int) -> set[str]:
    """A pass each minute, and one after each that has changed something; who has started."""
    now, started = NOW, set[str]()
    for _ in range(count):
        decision = decide(Cluster(nodes), QUEUES, jobs, now)
        told = {change.uid: change.admission for change in decision.changes}
        jobs = [replace(job, admission=told.get(job.uid, job.admission)) for job in jobs]
        started |= {u for u, one in told.items() if one.state is AdmissionState.ADMITTED}
        now += SECOND if decision.changes else MINUTE
    return started


def test_of_two_who_lack_nodes_of_each_other_the_later_yields() -> None:
    """A pod of others has come on one node of each: each would keep what the other lacks."""
    one, two, three, four = make_nodes(4)
    nodes = (one, take(two), take(three), four)
    first = hold(make_job("z", 2, 2, 8), "node-00", "node-01", since=NOW - 3 * MINUTE)
    second = hold(make_job("a", 2, 2, 8, queue="other"), "node-02", "node-03")
    decision = decide(Cluster(nodes), QUEUES, [second, first], NOW)
    told = {change.uid: change.admission.reserved for change in decision.changes}
    assert told == {"z": ("node-00", "node-03"), "a": ()}
    assert run_passes(nodes, [second, first], 3) == {"z"}


def test_who_lacks_nothing_yields_to_nobody_of_his_priority() -> None:
    first = hold(make_job("z", 3, 3, 8), "node-00", since=NOW - 3 * MINUTE)
    second = hold(make_job("a", 2, 2, 8, queue="other"), "node-01", "node-02")
    busy = run_on(make_job("busy", 2, 2, 8, queue="third"), "node-01", "node-03")
    assert decide_on(make_nodes(4), [second, first, busy], QUEUES) == {}


def draw_idle(seed: int) -> tuple[tuple[Node, ...], list[Job]]:
    """Nothing runs, pods of others are about, and gangs hold what they held before these came."""
    random = Random(seed)  # noqa: S311 (no secret)
    count = random.randint(2, 8)
    nodes = list(make_nodes(count))
    free = [node.name for node in nodes]
    random.shuffle(free)
    jobs = []
    for index in range(random.randint(2, 6)):
        least, queue = random.randint(1, count), random.choice(QUEUES).name
        job = make_job(f"g{index}", least, least, random.choice([2, 4, 8, 8]), queue=queue)
        job = replace(job, priority=random.choice([0, 0, 0, 1]))
        if random.random() < 0.3:
            job = replace(job, launcher=cpus(random.choice([1, 8])))
        mine = [free.pop() for _ in range(min(random.choice([0, 1, 2, least]), len(free)))]
        jobs.append(hold(job, *sorted(mine), since=NOW - random.randint(60, 300) * SECOND))
    taken = random.sample(range(count), random.randint(0, count // 2))
    for place in taken:
        nodes[place] = take(nodes[place], random.choice([1, 1, 7]))
    return tuple(nodes), jobs


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_on_idle_nodes_somebody_starts(part: int) -> None:
    """Whoever holds which: where one of them fits alone, one of them runs soon."""
    stuck = {}
    for seed in range(part * WORLDS, (part + 1) * WORLDS):
        nodes, jobs = draw_idle(seed)
        fit = [
            job.uid
            for job in jobs
            if decide_on(nodes, [replace(job, admission=None)], QUEUES)[job.uid].state
            is AdmissionState.ADMITTED
        ]
        if fit and not run_passes(nodes, jobs, 6):
            stuck[seed] = fit
    assert stuck == {}


@pytest.mark.parametrize("of_whom", ["who runs elsewhere", "who was evicted"])
def test_nodes_are_held_for_nobody_who_needs_one_that_a_stuck_pod_keeps(of_whom: str) -> None:
    """A finalizer, or a process that cannot be killed: nobody waits for it, whosever it is."""
    stuck = Pod("x-9", "node-03", LONG_AGO, is_terminating=True, leaving_since=NOW - HOUR)
    other = make_job("x", 1, 1)
    if of_whom == "who was evicted":
        told = Admission(2, AdmissionState.WAITING, "main", queued_at=NOW, since=NOW)
        other = replace(other, pods=(stuck,), is_suspended=True, admission=told)
    else:
        other = run_on(other, "node-02")
        other = replace(other, pods=(*other.pods, stuck))
    gang = hold(make_job("gang", 4, 4, 8), *(f"node-0{i}" for i in range(4)))
    small = make_job("small", 1, 1, 8)
    decision = decide(Cluster(make_nodes(4)), MAIN, [other, gang, small], NOW)
    told = {change.uid: change.admission for change in decision.changes}
    why = "; pods of others and pods that do not go leave room for 3 workers"
    assert why in decision.explanations["gang"].message
    assert told["gang"].reserved == ()
    freed = replace(gang, admission=told["gang"])
    after = decide_on(make_nodes(4), [other, freed, small], now=NOW + SECOND)
    assert after["small"].state is AdmissionState.ADMITTED, "the nodes are nobody's any more"


def test_nor_where_it_keeps_a_port_that_all_of_them_need() -> None:
    port = replace(cpus(1), host_ports=frozenset({"TCP/80"}))
    stuck = Pod("x-9", "node-01", LONG_AGO, is_terminating=True, leaving_since=NOW - HOUR)
    other = run_on(make_job("x", 1, 1, worker=port), "node-00")
    other = replace(other, pods=(other.pods[0], stuck))
    gang = hold(make_job("gang", 2, 2, worker=port), "node-00", "node-01")
    assert decide_on(make_nodes(2), [other, gang])["gang"].reserved == ()
    going = replace(stuck, leaving_since=NOW - MINUTE)
    other = replace(other, pods=(other.pods[0], going))
    assert "gang" not in decide_on(make_nodes(2), [other, gang]), "it goes in time"


def test_what_it_keeps_is_waited_for_until_it_is_overdue() -> None:
    """It is looked at again when that time is over."""
    going = Pod("x-9", "node-01", LONG_AGO, is_terminating=True, leaving_since=NOW - MINUTE)
    told = Admission(2, AdmissionState.WAITING, "main", queued_at=NOW, since=NOW)
    other = replace(make_job("x", 1, 1), pods=(going,), is_suspended=True, admission=told)
    gang = hold(make_job("gang", 2, 2, 8), "node-00", "node-01")
    decision = decide(Cluster(make_nodes(2)), MAIN, [other, gang], NOW)
    assert all(change.admission.reserved for change in decision.changes if change.uid == "gang")
    assert decision.wake_at is not None
    assert decision.wake_at <= NOW + 11 * MINUTE


@pytest.mark.parametrize("queue", ["main", "other"])
@pytest.mark.parametrize(
    ("minutes", "is_open"),
    [
        *((30, False), (60, False), (61, True), (120, True), (121, False), (240, False)),
        *((241, True), (360, True), (361, False), (601, True), (841, False), (1321, True)),
        *((1801, False), (2761, True), (3721, False), (5641, True), (7561, False)),
        *((9481, True), (11401, False)),
    ],
)
def test_nodes_are_held_in_turns(minutes: int, queue: str, *, is_open: bool) -> None:
    """Who is on one of them may stay for good: all others would wait beside idle ones."""
    gang = hold(make_job("gang", 4, 4, 8), *NAMES, since=NOW - minutes * MINUTE)
    stays = run_on(make_job("stays", 1, 1, queue=queue), "node-00")
    jobs = [gang, stays, make_job("small", 1, 1, queue=queue)]
    decision = decide(Cluster(make_nodes(4)), QUEUES, jobs, NOW)
    told = {change.uid: change.admission for change in decision.changes}
    assert (told["small"].state is AdmissionState.ADMITTED) == is_open
    assert "gang" not in told, "they are its own again afterwards"
    later = decide(Cluster(make_nodes(4)), QUEUES, apply(jobs, decision), NOW + 1)
    assert not later.changes
    assert later.wake_at is not None
    assert later.wake_at <= NOW + 96 * HOUR, "it is looked at again when they are open"


def test_an_hour_is_its_own_from_when_it_holds_them_first() -> None:
    gang = hold(make_job("gang", 4, 4, 8), since=NOW - 48 * HOUR)
    jobs = [gang, run_on(make_job("stays", 1, 1), "node-00")]
    jobs = apply(jobs, decide(Cluster(make_nodes(4)), QUEUES, jobs, NOW))
    for passed, is_open in ((1, False), (59 * MINUTE, False), (61 * MINUTE, True)):
        small = make_job("small", 1, 1, created=NOW)
        decision = decide(Cluster(make_nodes(4)), QUEUES, [*jobs, small], NOW + passed)
        told = {change.uid: change.admission for change in decision.changes}
        assert (told["small"].state is AdmissionState.ADMITTED) == is_open


@pytest.mark.parametrize(("minutes", "is_open"), [(-1, False), (30, False), (90, True)])
def test_the_turns_go_on_where_others_were_asked_for_it(minutes: int, *, is_open: bool) -> None:
    gang = hold(make_job("gang", 4, 4, 8), *NAMES, since=NOW - (minutes + 1) * MINUTE)
    assert gang.admission is not None
    gang = replace(gang, admission=replace(gang.admission, unfit_since=NOW))
    jobs = [gang, run_on(make_job("stays", 1, 1), "node-00"), make_job("small", 1, 1)]
    after = decide_on(make_nodes(4), jobs)
    assert (after["small"].state is AdmissionState.ADMITTED) == is_open


@pytest.mark.long
def test_whoever_holds_nodes_others_wait_for_no_longer_than_a_turn() -> None:
    gang = hold(make_job("gang", 4, 4, 8), *NAMES)
    jobs, now, waited = [gang, run_on(make_job("stays", 1, 1), "node-00")], NOW, 0
    while waited <= 60 * 40:
        small = make_job("small", 1, 1, created=now)
        decision = decide(Cluster(make_nodes(4)), QUEUES, [*jobs, small], now)
        told = {change.uid: change.admission for change in decision.changes}
        is_there = told["small"].state is AdmissionState.ADMITTED
        waited, now = 0 if is_there else waited + 20, now + 20 * MINUTE
        if now > NOW + 40 * 24 * HOUR:
            break
    assert waited <= 60 * 32 + 20


def test_who_waits_for_room_that_comes_holds_its_nodes_alone() -> None:
    """Pods of who starts there may come to any of the nodes that they are told."""
    gang = hold(make_job("gang", 4, 4, 8), *NAMES, since=NOW - 90 * MINUTE)
    going = Pod("x-9", "node-00", LONG_AGO, is_terminating=True, leaving_since=NOW - MINUTE)
    told = Admission(2, AdmissionState.WAITING, "main", queued_at=NOW, since=NOW)
    other = replace(make_job("x", 1, 1), pods=(going,), is_suspended=True, admission=told)
    after = decide_on(make_nodes(4), [gang, other, make_job("small", 1, 1)])
    assert after["small"].state is AdmissionState.WAITING
    assert after["gang"].reason is Reason.ROOM_COMES


def make_kept_off(name: str = "small", *nodes: str, least: int = 2, most: int = 2) -> Job:
    """It was started while others held two nodes, and runs where nobody did."""
    job = make_job(name, least, most)
    told = Placement(nodes[0], ("node-02",), ("node-00", "node-01"))
    return run_on(job, *nodes, placement=told)


def test_who_was_told_to_keep_off_nodes_may_be_there_once_nobody_holds_them() -> None:
    """Who takes the place of a worker that is lost would have no node, beside two that are free."""
    small = make_kept_off("small", "node-02", "node-02")
    gang = hold(make_job("gang", 2, 2, 8), "node-00", "node-01")
    busy = run_on(make_job("busy", 2, 2, queue="other"), "node-00", "node-01")
    assert "small" not in decide_on(make_nodes(3), [small, busy, gang], QUEUES)
    fixed = replace(small, elasticity=Elasticity.FIXED, replicas=2)
    for job in (small, fixed, make_kept_off("small", "node-02", "node-02", most=8)):
        told = decide_on(make_nodes(3), [job], QUEUES)["small"]
        assert told.placement.avoid == ()
        assert told.state is AdmissionState.ADMITTED
        assert decide_on(make_nodes(3), [replace(job, admission=told)], QUEUES).keys() <= {"small"}


def test_what_others_hold_still_is_kept_off() -> None:
    small = make_kept_off("small", "node-02", "node-02")
    gang = hold(make_job("gang", 1, 1, 8), "node-00")
    busy = run_on(make_job("busy", 2, 2, queue="other"), "node-00", "node-01")
    told = decide_on(make_nodes(3), [small, busy, gang], QUEUES)
    assert told["small"].placement == Placement("node-02", ("node-02",), ("node-00",))


@pytest.mark.long
def test_what_many_hold_takes_one_table_for_all_who_ask() -> None:
    def measure(count: int) -> int:
        nodes = make_nodes(20 * count)
        standings = [Standing(make_job(f"job-{i}"), 0) for i in range(count)]
        holds = Holds(Room(nodes, ()), lambda _: (0, 0), lambda _: False, 0)
        for i, one in enumerate(standings):
            holds.hold(one, range(20 * i, 20 * i + 20))
        names = [node.name for node in nodes]
        return find_peak(lambda: [len(holds.select_held(one, names)) for one in standings])

    assert measure(80) < 3 * measure(40)


@pytest.mark.long
def test_what_gangs_need_that_hold_nodes_is_counted_once_for_all_that_are_alike() -> None:
    nodes = tuple(take(node) for node in make_nodes(2000))

    def measure(count: int) -> int:
        queues = [Queue(f"queue-{i}") for i in range(count)]
        jobs = [
            hold(make_job(f"g-{i}", 2, 2, 8, queue=f"queue-{i}"), nodes[i].name)
            for i in range(count)
        ]
        return find_peak(lambda: decide(Cluster(nodes), queues, jobs, NOW))

    measure(2)  # what is done once
    per_gang = (measure(24) - measure(8)) / 16
    assert per_gang < 8 * len(nodes), "not one number for each node"


def test_what_a_pod_without_a_node_was_told_is_remembered_until_it_has_one() -> None:
    """It keeps off these nodes as long as it is there, and is given back for that."""
    small = make_kept_off("small", "node-02", "node-02", "node-02", most=3)
    gone, *pods = reversed(small.pods)
    assert not gone.is_launcher
    lost = replace(small, pods=(*pods, Pod("small-9", created=NOW - SECOND)))
    for change in decide_on(make_nodes(3), [lost], QUEUES).values():
        assert change.placement == small.admission.placement  # type: ignore[union-attr]


def test_who_could_never_be_there_keeps_nobody_of_his_queue_from_holding_nodes() -> None:
    """An empty cluster would hold it; pods of others are on each node, and stay."""
    nodes = tuple(take(node) for node in make_nodes(2))
    vain = hold(make_job("vain", 1, 1, 8), since=NOW - 9 * MINUTE)
    large = hold(make_job("large", 2, 2, 7), since=NOW - 5 * MINUTE)
    after = decide_on(nodes, [vain, large, run_on(make_job("stays", 1, 1), "node-00")])
    assert {uid: one.reserved for uid, one in after.items()} == {"large": NAMES[:2]}


@pytest.mark.parametrize(("minutes", "names"), [(30, ()), (61, NAMES[:2])])
def test_who_fails_to_stand_again_and_again_holds_no_nodes_for_hours(
    minutes: int, names: tuple[str, ...]
) -> None:
    """After each failure they would be its own for an hour, for good."""
    gang = hold(make_job("gang", 2, 2, 8), since=NOW - minutes * MINUTE)
    assert gang.admission is not None
    gang = replace(gang, admission=replace(gang.admission, attempts=6))
    jobs = [gang, run_on(make_job("stays", 1, 1), "node-00")]
    decision = decide(Cluster(make_nodes(2)), MAIN, jobs, NOW)
    after = {one.uid: one.admission.reserved for one in decision.changes}
    assert after.get("gang", ()) == names
    assert names or decision.wake_at == NOW + HOUR - minutes * MINUTE


def test_a_larger_least_size_that_is_withdrawn_leaves_no_wait_to_the_next() -> None:
    """It would hold nodes at once, and ask others, for having waited weeks ago."""
    job, busy = run_on(make_job("a", 1, 1, 8), "node-00"), run_on(make_job("b", 1, 1), "node-01")
    held = []
    for minutes, least in ((0, 2), (2, 2), (3, 1), (60, 2), (62, 2)):
        job = replace(job, minimum=least, maximum=least)
        told = decide_on(make_nodes(2), [job, busy], now=NOW + minutes * MINUTE)
        job = replace(job, admission=told.get("a", job.admission))
        assert job.admission is not None
        held.append(job.admission.reserved)
    assert held == [(), ("node-01",), (), (), ("node-01",)]
    assert job.admission.reserved_since == NOW + 62 * MINUTE


def raise_to(least: int, *nodes: str, cpu: int = 1, **told: Any) -> Job:
    """It runs there, and has waited for longer than others for so many workers at least."""
    fields = {"unfit_since": NOW - 5 * MINUTE, "reserved_since": NOW - 4 * MINUTE, **told}
    return run_on(make_job("raise", least, least, cpu), *nodes, **fields)


@pytest.mark.parametrize("reserved", [(), NAMES[:2]], ids=["holds none", "holds all"])
@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        pytest.param(make_nodes(2, 5), Reason.TOO_LARGE, id="on an empty cluster"),
        pytest.param(
            tuple(take(node, 5) for node in make_nodes(2, 10)), Reason.NO_ROOM, id="beside others"
        ),
    ],
)
def test_a_larger_least_size_for_which_there_is_no_room_beside_its_own_workers(
    nodes: tuple[Node, ...], reason: Reason, reserved: tuple[str, ...]
) -> None:
    """Six more would fit if the six were not there, which stay: it keeps nobody from nodes."""
    job = raise_to(12, *NAMES[:1] * 3, *NAMES[1:2] * 3, reserved=reserved)
    gang = hold(make_job("gang", 2, 2, 5))
    decision = decide(Cluster(nodes), (Queue("main", order=("age",)),), [job, gang], NOW)
    after = {one.uid: one.admission.reserved for one in decision.changes}
    assert after.get("raise", ()) == ()
    assert after["gang"] == NAMES[:2]
    assert decision.explanations["raise"].reason is reason


def test_a_larger_least_size_has_no_room_where_its_own_workers_have_the_port() -> None:
    port = replace(cpus(1), host_ports=frozenset({"TCP/80"}))
    job = replace(raise_to(4, *NAMES[:2]), worker=port)
    told = decide(Cluster(make_nodes(3)), MAIN, [job], NOW).explanations["raise"]
    text = "needs 2 workers of 1 CPU; an empty cluster holds 1 workers beside those that it has"
    assert (told.reason, told.message) == (Reason.TOO_LARGE, text)


def test_a_larger_least_size_holds_nodes_without_its_own_workers() -> None:
    """On its own node there is no room for more, whoever leaves that."""
    others = run_on(make_job("others", 8, 8), *NAMES[1:2] * 8)
    jobs = [raise_to(2, *NAMES[:1], cpu=8), others]
    assert decide_on(make_nodes(2), jobs)["raise"].reserved == NAMES[1:2]


def test_who_is_evicted_waits_from_then_on() -> None:
    """What he had waited for beside what he had is another matter."""
    waits = dict.fromkeys(("unfit_since", "coming_since", "reserved_since"), NOW - HOUR)
    job = run_on(make_job("a", 2, 2, 8), "node-00", reserved=("node-01",), **waits)
    busy = run_on(make_job("b", 1, 1, 8, priority=2), "node-01")
    high = make_job("high", 1, 1, 7, priority=1, launcher=cpus(1))
    queue = replace(MAIN[0], order=("age",))  # it has its turn in the pass first
    told = decide_on(make_nodes(2), [job, busy, high], (queue,))["a"]
    assert (told.state, told.reserved) == (AdmissionState.WAITING, ())
    assert (told.unfit_since, told.coming_since, told.reserved_since) == (None, None, None)


def test_whose_room_comes_beside_another_on_his_node_keeps_those_that_he_holds() -> None:
    """Of that node he would hold nothing: it stays with the one for whom others leave it."""
    sizes = {"node-00": 4, "node-01": 16, "node-02": 4, "node-03": 4}
    nodes = tuple(make_node(name, cpu) for name, cpu in sizes.items())
    ago = dict.fromkeys(sizes, 5 * MINUTE) | {"node-02": 50 * MINUTE}
    jobs = [
        run_on(make_job(f"on-{name}", cpu, cpu, queue=queue), *[name] * cpu, since=NOW - ago[name])
        for (name, cpu), queue in zip(sizes.items(), "qrrq", strict=True)
    ]
    since = NOW - MINUTE
    first = hold(make_job("a", 1, 1, 2, queue="r", priority=1), "node-01", since=since)
    other = hold(make_job("b", 1, 1, 2, queue="q"), "node-02", since=since)
    large = hold(make_job("c", 1, 1, 8, queue="q"), since=since)
    told = decide_on(nodes, [*jobs, first, other, large], (Queue("q"), Queue("r")))
    assert told["on-node-02"].reason is Reason.EVICTED
    assert told["a"].reason is Reason.ROOM_COMES
    assert told["a"].reserved == ("node-01",)
