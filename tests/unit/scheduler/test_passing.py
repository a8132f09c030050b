"""Single passes over small clusters: who starts, who gives, who waits and why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState, Elasticity, Placement
from et_scheduler.model.cluster import Cluster, Leaving, PendingPod
from et_scheduler.model.decisions import Decision, Step
from et_scheduler.model.jobs import Admission, Eviction, Gift, Job, Pod, Purpose
from et_scheduler.model.queues import DEFAULT_ORDER, Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    Operator,
    Requirement,
    Shape,
    make_shape,
)
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import (
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

ONE = make_nodes(1)
TWO = make_nodes(2)
BOTH = (Queue("main"), Queue("other"))
NOWHERE = ((Requirement("pool", Operator.IN, ("of nobody",)),),)
AUTOSCALED = (Queue("main", is_autoscaled=True),)
SOON = NOW - MINUTE


def explain(decision: Decision, uid: str) -> str:
    return decision.explanations[uid].message


# ---------------------------------------------------------------- starts and growth
def test_who_is_suspended_before_he_started_has_lost_what_others_have_by_then() -> None:
    room = Admission(1, AdmissionState.ADMITTED, queue="main", workers=8, queued_at=SOON)
    held = replace(make_job("a", 8, 8), is_suspended=True, admission=room)
    jobs = [held, make_job("b", 8, 8)]
    decision = decide(Cluster(ONE), MAIN, jobs, NOW)
    assert [(change.uid, change.admission.state.value) for change in decision.changes] == [
        ("a", "Waiting"),
        ("b", "Admitted"),
    ]
    a, b = apply(jobs, decision)
    told = decide_on(ONE, [replace(a, is_suspended=False), b])["a"]
    assert (told.state, told.workers, told.queued_at) == (AdmissionState.WAITING, 0, NOW)
    assert "a" not in decide_on(ONE, [a, b])


@pytest.mark.parametrize("is_noted", [True, False], ids=["by the operator", "by nobody"])
def test_who_is_suspended_in_the_line_has_left_it(*, is_noted: bool) -> None:
    """It was the first, and is the last when it is resumed."""
    jobs = [
        replace(make_job(name, 8, 8, created=SOON + i), admission=Admission(queue="main"))
        for i, name in enumerate("ab")
    ]
    jobs = [replace(one, admission=Admission(queue="main", queued_at=one.created)) for one in jobs]
    busy = run_on(make_job("busy", 8, 8, priority=1), *["node-00"] * 8)
    jobs = apply([*jobs, busy], decide(Cluster(ONE), MAIN, [*jobs, busy], SOON + 10))
    jobs[0] = replace(jobs[0], is_suspended=True, is_waiting=not is_noted)
    jobs = apply(jobs, decide(Cluster(ONE), MAIN, jobs, SOON + 20))
    assert not decide(Cluster(ONE), MAIN, jobs, SOON + 30).changes
    jobs[0] = replace(jobs[0], is_suspended=False, is_waiting=True)
    told = decide_on(ONE, jobs[:2])
    assert told["a"].queued_at == NOW
    assert told["b"].state is AdmissionState.ADMITTED


def test_a_gang_starts_where_it_fits_and_grows_into_what_is_left() -> None:
    told = decide_on(TWO, [make_job("a", least=2, most=10)])["a"]
    assert told.state is AdmissionState.ADMITTED
    assert told.workers == 10
    assert told.number == 1
    assert told.queued_at == NOW


def test_a_gang_that_does_not_fit_gets_nothing_and_a_sentence() -> None:
    jobs = [
        run_on(make_job("a", 3, 3, 4), "node-00", "node-00", "node-01"),
        make_job("b", 2, cpu=4),
    ]
    decision = decide(Cluster(TWO), MAIN, jobs, NOW)
    assert [change.uid for change in decision.changes] == ["b"]
    assert decision.changes[0].admission.state is AdmissionState.WAITING
    assert decision.changes[0].admission.unfit_since == NOW
    assert explain(decision, "b") == "needs 2 workers of 4 CPU, 1 fit now; main has 12 CPU"


def test_what_an_empty_cluster_would_not_hold_is_too_large() -> None:
    told = decide_on(TWO, [make_job("a", least=3, most=9, cpu=8)])["a"]
    assert told.reason is Reason.TOO_LARGE
    assert told.message == "needs 3 workers of 8 CPU; an empty cluster holds 2 workers"
    assert not told.reserved


def test_who_asks_for_what_no_node_has_waits_alone() -> None:
    odd = make_shape({"cpu": 1000, "example.org/none": 1})
    jobs = [
        make_job("a", 1, 1, worker=odd, priority=1),
        make_job("b", 1, 1, launcher=odd, priority=1),
        make_job("c", 1, 1, created=NOW + 1),
    ]
    decision = decide(Cluster(TWO), MAIN, jobs, NOW)
    told = {change.uid: change.admission for change in decision.changes}
    assert [told[uid].state for uid in "abc"] == [
        AdmissionState.WAITING,
        AdmissionState.WAITING,
        AdmissionState.ADMITTED,
    ]
    assert told["a"].reason is told["b"].reason is Reason.TOO_LARGE
    assert decision.queues[0].allocated == {"cpu": 1000}


def test_its_failure_is_nobody_elses() -> None:
    """Where nodes may come it is tried: what else fits is no larger than it in anything known."""
    odd = make_shape({"cpu": 1000, "example.org/none": 1})
    first = make_job("a", 1, 1, worker=odd, created=NOW - 2)
    second = make_job("b", 1, 1, worker=odd, created=NOW - 1)
    told = decide_on(TWO, [first, second, make_job("c", 1, 1)], AUTOSCALED)
    assert told["b"].state is AdmissionState.WAITING
    assert told["c"].state is AdmissionState.ADMITTED


def test_a_limit_holds_of_what_no_node_has_yet() -> None:
    odd = make_shape({"cpu": 1000, "example.org/none": 1})
    queue = Queue("main", limits={"example.org/none": 1}, is_autoscaled=True)
    decision = decide(Cluster(TWO), [queue], [make_job("a", 2, 2, worker=odd)], NOW)
    assert decision.changes[0].admission.reason is Reason.AT_LIMIT


def test_sizes_are_kept() -> None:
    told = decide_on(TWO, [make_job("a", least=3, most=15, sizes=(4, 8))])["a"]
    assert told.workers == 8


def test_a_fixed_job_is_its_replicas() -> None:
    job = make_job("a", least=1, most=9, replicas=3, elasticity=Elasticity.FIXED)
    assert decide_on(TWO, [job])["a"].workers == 3


def test_room_goes_to_who_has_least() -> None:
    jobs = [
        run_on(make_job("a", 1, 16), *["node-00"] * 5),
        run_on(make_job("b", 1, 16), "node-00", "node-01"),
    ]
    told = decide_on(TWO, jobs)
    assert (told["a"].workers, told["b"].workers) == (8, 8)
    assert told["b"].resized_at == NOW


def test_no_growth_in_the_cool_down() -> None:
    job = run_on(make_job("a", 1, 16, cooldown=MINUTE), "node-00", resized_at=NOW - 59 * SECOND)
    decision = decide(Cluster(TWO), MAIN, [job], NOW)
    assert not decision.changes
    assert decision.wake_at == NOW + SECOND


def test_growth_by_less_than_a_tenth_is_not_worth_it() -> None:
    nodes = make_nodes(1, cpu=13)
    job = run_on(make_job("a", 1, 20), *["node-00"] * 12)
    assert not decide_on(nodes, [job])


# ---------------------------------------------------------------- giving way
def test_elastic_workers_give_way_for_a_gang_and_it_holds_their_room() -> None:
    donor = run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 8)
    decision = decide(Cluster(TWO), MAIN, [donor, make_job("b", 2)], NOW)
    told = {change.uid: change.admission for change in decision.changes}
    assert [change.step for change in decision.changes] == [Step.RESERVE, Step.GIVE]
    assert told["a"].workers == 14
    assert len(told["a"].leaving) == 2
    assert told["a"].gave_for == Gift(Purpose.GANG, "b")
    assert told["b"].state is AdmissionState.WAITING
    assert told["b"].reserved
    assert told["b"].reason is Reason.ROOM_COMES


def test_who_gives_already_is_asked_for_no_more() -> None:
    donor = run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 8)
    first = decide_on(TWO, [donor, make_job("b", 2)])
    jobs = [replace(donor, admission=first["a"])]
    jobs += [replace(make_job("b", 2), admission=first["b"]), make_job("c", 2, created=NOW + 1)]
    told = decide_on(TWO, jobs, now=NOW + SECOND)
    assert "a" not in told
    assert told["c"].reason is Reason.NO_ROOM


def test_services_come_first() -> None:
    donor = run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 8)
    cluster = Cluster(TWO, (PendingPod("s", cpus(3), 0, NOW),))
    (change,) = decide(cluster, MAIN, [donor], NOW).changes
    assert change.admission.workers == 13
    assert change.admission.gave_for == Gift(Purpose.SERVICE, "s")
    nodes = {pod.name: pod.node for pod in donor.pods}
    assert len({nodes[name] for name in change.admission.leaving}) == 1


@pytest.mark.parametrize(
    ("priority", "since", "preempts"),
    [
        pytest.param(-1, NOW, True, id="of lower priority than the job"),
        pytest.param(0, NOW - 5 * MINUTE, True, id="that has not fitted for five minutes"),
        pytest.param(1000, NOW, False, id="that preempts nobody"),
    ],
)
def test_nobody_gives_for_a_pod(priority: int, since: int, preempts: bool) -> None:
    donor = run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 8)
    cluster = Cluster(TWO, (PendingPod("s", cpus(3), priority, since, preempts),))
    assert not decide(cluster, MAIN, [donor], NOW).changes


def test_a_job_below_its_share_makes_another_queue_give() -> None:
    donor = run_on(make_job("a", 1, 16, queue="other"), *["node-00"] * 8, *["node-01"] * 8)
    told = decide_on(TWO, [donor, make_job("b", 4)], BOTH)
    assert told["a"].workers == 12


def test_a_borrower_makes_nobody_give() -> None:
    other = run_on(make_job("a", 1, 8, queue="other"), *["node-00"] * 8)
    mine = run_on(make_job("b", 8, 8), *["node-01"] * 8)
    assert decide_on(TWO, [other, mine, make_job("c", 1)], BOTH)["c"].reason is Reason.NO_ROOM


def test_a_queue_that_may_not_be_asked_gives_nothing() -> None:
    queues = (Queue("main"), Queue("other", is_reclaimable=False))
    donor = run_on(make_job("a", 1, 16, queue="other"), *["node-00"] * 8, *["node-01"] * 8)
    assert decide_on(TWO, [donor, make_job("b", 4)], queues)["b"].reason is Reason.NO_ROOM


# ---------------------------------------------------------------- evictions
def test_lower_priority_goes_whole_where_shrinking_is_not_enough() -> None:
    victim = run_on(make_job("a", 2, 2, 8), "node-00", "node-01")
    decision = decide(Cluster(TWO), MAIN, [victim, make_job("b", 1, cpu=8, priority=1)], NOW)
    told = {change.uid: change.admission for change in decision.changes}
    assert told["a"].state is AdmissionState.WAITING
    assert told["a"].evictions == (Eviction("b", "main", NOW),)
    assert told["a"].queued_at == victim.admission.queued_at  # type: ignore[union-attr]
    assert told["b"].reason is Reason.ROOM_COMES
    held = replace(victim, is_waiting=True, pods=(), admission=told["a"])
    waiter = replace(make_job("b", 1, cpu=8, priority=1), admission=told["b"])
    after = decide_on(TWO, [held, waiter], now=NOW + SECOND)
    assert after["b"].state is AdmissionState.ADMITTED
    assert after["a"].reason in (Reason.NO_ROOM, Reason.BEHIND_EVICTOR)


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"since": NOW - 9 * MINUTE}, id="in its first ten minutes"),
        pytest.param(
            {"evictions": (Eviction("x", "main", NOW - HOUR // 2),)}, id="within the hour"
        ),
    ],
)
def test_some_are_protected(changes: dict[str, object]) -> None:
    victim = run_on(make_job("a", 2, 2, 8), "node-00", "node-01")
    assert victim.admission is not None
    victim = replace(victim, admission=replace(victim.admission, **changes))  # type: ignore[arg-type]
    told = decide_on(TWO, [victim, make_job("b", 1, cpu=8, priority=1)])
    assert "a" not in told
    assert told["b"].reason is Reason.NO_ROOM


def test_no_victim_where_it_would_not_help() -> None:
    """The other half of the room is another priority's, which may not be asked."""
    low = run_on(make_job("a", 1, 1, 8), "node-00")
    high = run_on(make_job("b", 1, 1, 8, priority=2), "node-01")
    told = decide_on(TWO, [low, high, make_job("c", 2, cpu=8, priority=1)])
    assert set(told) == {"c"}


@pytest.mark.parametrize(
    ("victims", "is_evicted"),
    [
        pytest.param(2, True, id="has more than it is due, and goes on with what it is"),
        pytest.param(1, False, id="would have less than it is due"),
    ],
)
def test_another_queue_loses_a_job_only_if_it(victims: int, is_evicted: bool) -> None:
    """Of 16 CPUs each queue is due 8: one job of 8, or, whole, none of one of 16."""
    size = 2 // victims
    jobs = [
        run_on(
            make_job(f"v{i}", size, size, 8, queue="other"),
            *[f"node-0{i + k}" for k in range(size)],
        )
        for i in range(victims)
    ]
    told = decide_on(TWO, [*jobs, make_job("b", 1, 1, 8)], BOTH)
    assert (told["b"].reason is Reason.ROOM_COMES) == is_evicted
    assert sum(one.reason is Reason.EVICTED for one in told.values()) == is_evicted


def test_who_preempts_nobody_is_first_in_line_and_asks_nobody() -> None:
    rigid = run_on(make_job("a", 1, cpu=8), "node-00")
    grown = run_on(make_job("b", 1, 8), *["node-01"] * 8)
    polite = make_job("c", 1, cpu=8, priority=9, preempts=False)
    told = decide_on(TWO, [rigid, grown, polite, make_job("d", 1)])
    assert told["c"].reason is Reason.NO_ROOM
    assert told["d"].reason is Reason.ROOM_COMES
    assert told["b"].gave_for == Gift(Purpose.GANG, "d")
    assert "a" not in told
    told = decide_on(TWO, [grown, polite, make_job("d", 8)])
    assert told["c"].state is AdmissionState.ADMITTED
    assert told["d"].state is AdmissionState.WAITING


def test_a_new_job_is_in_no_line_while_its_pods_are_tried_and_no_longer_than_ten_seconds() -> None:
    new = make_job("a", tried_since=NOW)
    decision = decide(Cluster(TWO), MAIN, [new], NOW + 9 * SECOND)
    assert (decision.changes, decision.wake_at) == ((), NOW + 10 * SECOND)
    assert decide_on(TWO, [new], now=NOW + 10 * SECOND)["a"].state is AdmissionState.ADMITTED
    assert decide_on(TWO, [replace(new, tried_since=None)])["a"].state is AdmissionState.ADMITTED


def test_within_a_limit_nobody_shrinks_for_who_preempts_nobody() -> None:
    queues = (Queue("main", limits={"cpu": 8000}),)
    grown = run_on(make_job("a", 1, 8), *["node-00"] * 8)
    assert decide_on(TWO, [grown, make_job("b", 2)], queues)["a"].workers == 6
    assert "a" not in decide_on(TWO, [grown, make_job("b", 2, preempts=False)], queues)


def test_the_level_takes_from_nobody_for_who_preempts_nobody() -> None:
    grown = run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 7)
    late = run_on(make_job("b", 1, 16), "node-01")
    assert decide_on(TWO, [grown, late])["a"].gave_for == Gift(Purpose.LEVEL)
    assert not decide_on(TWO, [grown, replace(late, preempts=False)])


def test_equal_priority_is_not_evicted() -> None:
    victim = run_on(make_job("a", 2, 2, 8), "node-00", "node-01")
    assert set(decide_on(TWO, [victim, make_job("b", 1, cpu=8)])) == {"b"}


# ---------------------------------------------------------------- reservations
def wait_on(uid: str, least: int, cpu: int, *, unfit: int, **changes: object) -> object:
    told = Admission(queue="main", queued_at=unfit, since=unfit, unfit_since=unfit)
    return make_job(uid, least, least, cpu, admission=replace(told, **changes))  # type: ignore[arg-type]


def test_who_fits_nowhere_for_a_minute_holds_nodes_that_others_avoid() -> None:
    nodes = make_nodes(3)
    small = [run_on(make_job(f"s{i}", 1, 1), f"node-0{i}") for i in range(3)]
    big = wait_on("big", 2, 8, unfit=NOW - MINUTE)
    told = decide_on(nodes, [*small, big])  # type: ignore[list-item]
    assert told["big"].reserved == ("node-00", "node-01")
    held = replace(big, admission=told["big"])  # type: ignore[type-var]
    after = decide_on(nodes, [*small, held, make_job("late", 1)], now=NOW + SECOND)  # type: ignore[list-item]
    assert after["late"].placement.only == ("node-02",)
    assert after["late"].placement.avoid == ("node-00", "node-01")


def test_who_cannot_be_held_nodes_for_any_more_holds_none() -> None:
    """A pod of others is where it needs all: the whole cluster, emptied of jobs, would not do."""
    big = wait_on("big", 16, 1, unfit=NOW - HOUR, reserved=("node-00", "node-01"))
    nodes = (make_node("node-00", taken={"cpu": 1000, "pods": 1}), make_node("node-01"))
    told = decide_on(nodes, [big, make_job("small")])["big"]  # type: ignore[list-item]
    assert told.reserved == ()
    later = [replace(big, admission=told), make_job("small")]  # type: ignore[type-var]
    assert decide_on(nodes, later)["small"].state is AdmissionState.ADMITTED


def test_elastic_workers_may_be_on_reserved_nodes_if_their_least_is_elsewhere() -> None:
    nodes = make_nodes(2, cpu=4)
    rigid = run_on(make_job("r", 1, 1), "node-00")
    elastic = run_on(make_job("e", 2, 6), "node-01", "node-01")
    big = wait_on("big", 1, 4, unfit=NOW, reserved=("node-00",))
    told = decide_on(nodes, [rigid, elastic, big])  # type: ignore[list-item]
    assert told["e"].workers == 6, "two beside its own, and into the hole too"


def test_a_reserved_gang_starts_when_its_nodes_are_free() -> None:
    nodes = make_nodes(2)
    big = wait_on("big", 2, 8, unfit=NOW - MINUTE, reserved=("node-00", "node-01"))
    told = decide_on(nodes, [big, make_job("a", 1, created=NOW - HOUR)])  # type: ignore[list-item]
    assert told["big"].state is AdmissionState.ADMITTED
    assert not told["big"].reserved


@pytest.mark.parametrize("pool", ["of workers", "of its own"])
def test_so_does_a_gang_whose_launcher_finds_no_seat_beside_its_workers(pool: str) -> None:
    """Its workers fill whole nodes: their launcher is elsewhere, on a node that all may use."""
    nodes = (*make_nodes(2), make_node("pool", labels={"pool": "cpu"}))
    small = [run_on(make_job(f"s{i}", 1, 1), f"node-0{i}") for i in range(2)]
    own = ((Requirement("pool", Operator.IN, ("cpu",)),),)
    others = ((Requirement("pool", Operator.DOES_NOT_EXIST),),)
    launcher = replace(cpus(1), terms=own if pool == "of its own" else ())
    big = wait_on("big", 2, 8, unfit=NOW - MINUTE)
    big = replace(big, worker=replace(cpus(8), terms=others), launcher=launcher)  # type: ignore[type-var]
    told = decide_on(nodes, [*small, big])  # type: ignore[list-item]
    assert told["big"].reserved == ("node-00", "node-01")
    held = replace(big, admission=told["big"])
    late = make_job("late", 1, 1, launcher=launcher)
    after = decide_on(nodes, [*small, held, late], now=NOW + SECOND)
    assert after["late"].placement.launcher in {"pool", ""}
    assert after["late"].state is AdmissionState.ADMITTED
    free = decide_on(nodes, [held], now=NOW + SECOND)["big"]
    assert free.state is AdmissionState.ADMITTED
    assert (free.placement.only, free.placement.launcher) == (("node-00", "node-01"), "pool")


# ---------------------------------------------------------------- queues
def test_a_place_in_line_is_in_one_queue() -> None:
    waiting = wait_on("a", 1, 1, unfit=NOW - HOUR, reserved=("node-00",))
    moved = replace(waiting, queue="other")  # type: ignore[type-var]
    full = run_on(make_job("r", 1, 1, 8), "node-00")
    told = decide_on(ONE, [full, moved], BOTH)["a"]  # type: ignore[list-item]
    assert (told.queue, told.queued_at, told.reserved) == ("other", NOW, ())


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        pytest.param(Queue("elsewhere"), Reason.NO_QUEUE, id="that does not exist"),
        pytest.param(Queue("main", is_stopped=True), Reason.QUEUE_STOPPED, id="stopped"),
        pytest.param(
            Queue("main", namespaces=frozenset({"x"})), Reason.NOT_IN_QUEUE, id="of others"
        ),
        pytest.param(Queue("main", limits={"cpu": 1000}), Reason.AT_LIMIT, id="at its limit"),
    ],
)
def test_a_queue(queue: Queue, reason: Reason) -> None:
    told = decide_on(TWO, [make_job("a", 2)], (queue,))["a"]
    assert told.state is AdmissionState.WAITING
    assert told.reason is reason


def test_a_lowered_limit_shrinks_and_evicts_nobody() -> None:
    jobs = [
        run_on(make_job("a", 2, 8), *["node-00"] * 6),
        run_on(make_job("b", 3, 3), *["node-01"] * 3),
    ]
    told = decide_on(TWO, jobs, (Queue("main", limits={"cpu": 4000}),))
    assert told["a"].workers == 2
    assert "b" not in told


@pytest.mark.parametrize("cpu", [0, 8, 10**6])
def test_an_edited_template_changes_nothing_for_others(cpu: int) -> None:
    """Its pods take what they took; only its own next workers are asked for by what it says now."""
    edited = run_on(make_job("a", 1, 1), "node-00")
    pods = tuple(pod if pod.is_launcher else replace(pod, shape=cpus(1)) for pod in edited.pods)
    edited = replace(edited, worker=cpus(cpu), launcher=cpus(cpu), pods=pods)
    edited = replace(edited, pods=tuple(replace(p, shape=p.shape or make_shape({})) for p in pods))
    jobs = [edited, run_on(make_job("b", 1, 8), *["node-01"] * 4), make_job("c", 2, 2)]
    decision = decide(Cluster(TWO), (Queue("main", limits={"cpu": 7000}),), jobs, NOW)
    told = {change.uid: change.admission for change in decision.changes}
    assert told["c"].state is AdmissionState.ADMITTED
    assert "b" not in told
    assert decision.queues[0].allocated == {"cpu": 7000}


def test_a_worker_that_is_missing_counts_for_no_more_than_the_others_take() -> None:
    job = run_on(make_job("a", 2, 2), "node-00", "node-00")
    pods = tuple(replace(pod, shape=cpus(1)) for pod in job.pods if pod.name != "a-1")
    job = replace(job, worker=cpus(6), pods=pods)
    limit = (Queue("main", limits={"cpu": 6000}),)
    decision = decide(Cluster(TWO), limit, [job, make_job("b", 3, 3)], NOW)
    assert {change.uid: change.admission for change in decision.changes}["b"].workers == 3


def test_what_no_node_could_hold_counts_nothing() -> None:
    """It was admitted with another template, and has no pods yet."""
    job = replace(run_on(make_job("a", 2, 2, cpu=99), "node-00"), pods=())
    limit = (Queue("main", limits={"cpu": 6000}),)
    decision = decide(Cluster(TWO), limit, [job, make_job("b", 3, 3)], NOW)
    told = {change.uid: change.admission for change in decision.changes}
    assert told["b"].state is AdmissionState.ADMITTED


def test_who_gives_is_booked_by_what_goes() -> None:
    """Were it by his template, his queue would seem to have nothing left, and all could start."""
    giver = run_on(make_job("a", 1, 4), *["node-00"] * 4)
    pods = tuple(pod if pod.is_launcher else replace(pod, shape=cpus(2)) for pod in giver.pods)
    giver = replace(giver, worker=cpus(99), pods=pods)
    waiting = [make_job(name, 2, 2, cpu=4, created=NOW + 1) for name in "bcd"]
    jobs = [giver, *waiting]
    limit = (Queue("main", limits={"cpu": 12_000}),)
    decision = decide(Cluster(TWO), limit, jobs, NOW)
    told = {change.uid: change.admission for change in decision.changes}
    assert [told[uid].state for uid in "bcd"] == [AdmissionState.WAITING] * 3
    assert told["a"].workers == 2


def test_growth_stays_within_the_limit() -> None:
    told = decide_on(TWO, [make_job("a", 1, 16)], (Queue("main", limits={"cpu": 5000}),))
    assert told["a"].workers == 5


def test_the_queue_that_has_least_of_its_due_is_next() -> None:
    jobs = [
        run_on(make_job("a", 6, 6), *["node-00"] * 6),
        make_job("b", 8, created=NOW - 1),
        make_job("c", 8, queue="other"),
    ]
    told = decide_on(TWO, jobs, BOTH)
    assert told["c"].state is AdmissionState.ADMITTED
    assert told["b"].state is AdmissionState.WAITING


# ---------------------------------------------------------------- fallback
def half_bound(**changes: object) -> object:
    job = run_on(make_job("a", 2, 2), "node-00", "node-00", since=SOON, bound_at=None)
    pods = (job.pods[0], job.pods[1], Pod("a-1", "", SOON))
    return replace(job, pods=pods, **changes)  # type: ignore[arg-type]


def test_a_gang_that_is_not_bound_in_a_minute_is_taken_back() -> None:
    told = decide_on(TWO, [half_bound()])["a"]  # type: ignore[list-item]
    assert told.state is AdmissionState.WAITING
    assert told.reason is Reason.NOT_BOUND
    assert told.attempts == 1
    assert told.retry_at is not None
    assert NOW + 30 * SECOND <= told.retry_at <= NOW + 36 * SECOND
    assert told.queued_at == SOON


TOLD = Placement("node-00", ("node-00", "node-01"))


def promised(nodes: tuple[str, ...] = ("node-00", ""), placement: Placement = TOLD) -> Job:
    """A gang of two workers of 5 CPU that was started a second ago, some of them on nodes."""
    job = run_on(make_job("a", 2, 2, 5), *nodes, since=NOW - SECOND, bound_at=None)
    assert job.admission is not None
    return replace(job, admission=replace(job.admission, placement=placement, queued_at=SOON))


@pytest.mark.parametrize("nodes", [("node-00", ""), ("node-00",)])
def test_a_gang_whose_nodes_others_took_is_taken_back_at_once(nodes: tuple[str, ...]) -> None:
    taken = (make_node("node-00"), make_node("node-01", taken={"cpu": 4000}), make_node("node-02"))
    job = replace(promised(nodes), minimum=2)
    job = replace(job, admission=replace(job.admission, workers=2))  # type: ignore[type-var]
    told = decide_on(taken, [job])["a"]
    assert (told.state, told.reason) == (AdmissionState.WAITING, Reason.NOT_BOUND)
    assert told.message == "its nodes have no room any more"
    assert (told.attempts, told.retry_at, told.queued_at) == (0, None, SOON)


@pytest.mark.parametrize(
    "taken",
    [
        pytest.param({}, id="is free"),
        pytest.param(
            {"taken": {"cpu": 4000}, "leaving": (Leaving(NOW, {"cpu": 4000}),)},
            id="will be free",
        ),
    ],
)
def test_it_is_waited_for_while_there_is_room_where_it_looks(taken: dict[str, object]) -> None:
    nodes = (make_node("node-00"), make_node("node-01", **taken))
    assert "a" not in decide_on(nodes, [promised()])


def test_it_is_waited_for_where_others_were_only_promised_the_same_node() -> None:
    other = replace(promised(), uid="b", name="b", created=NOW - HOUR)
    assert "a" not in decide_on(
        (make_node("node-00", 16), make_node("node-01")), [promised(), other]
    )


def test_who_was_told_no_nodes_has_lost_none() -> None:
    full = (make_node("node-00"), make_node("node-01", taken={"cpu": 4000}))
    assert "a" not in decide_on(full, [promised(placement=Placement())])


@pytest.mark.parametrize(("coming", "workers"), [("cpu", None), ("gpu", 4)])
def test_nobody_grows_where_pods_that_take_the_same_are_to_come(
    coming: str, workers: int | None
) -> None:
    node = make_node("node-00", more={"gpu": 4})
    gang = run_on(make_job("a", 2, 2, worker=make_shape({coming: 1})), "node-00", "node-00")
    pods = tuple(pod if pod.is_launcher else replace(pod, node="") for pod in gang.pods)
    gang = replace(gang, pods=tuple(replace(pod, created=NOW) for pod in pods))
    running = run_on(make_job("b", 1, 4), "node-00")
    found = decide_on((node,), [gang, running]).get("b")
    assert (found.workers if found else None) == workers


@pytest.mark.parametrize(("wanted", "workers"), [("cpu", 1), ("gpu", 4)])
def test_a_gang_starts_small_where_somebody_waits_for_what_it_takes(
    wanted: str, workers: int
) -> None:
    waiter = make_job("a", 5, 5, worker=make_shape({wanted: 2000}))
    node = make_node("node-00", 12, more={"gpu": 10000})
    holder = run_on(make_job("c", 1, 1, worker=make_shape({wanted: 6000})), "node-00")
    told = decide_on((node,), [waiter, make_job("b"), holder])
    assert told["a"].reason is Reason.NO_ROOM
    assert told["b"].workers == workers


@pytest.mark.parametrize("elasticity", list(Elasticity))
@pytest.mark.parametrize("created", [0, 1])
def test_a_larger_least_size_that_does_not_come_costs_nothing(
    elasticity: Elasticity, created: int
) -> None:
    job = run_on(make_job("a", 2, 8, elasticity=elasticity), "node-00", "node-00")
    job = replace(job, minimum=4, replicas=4)
    told = decide_on(TWO, [job])["a"]
    assert (told.workers, told.reason) == (4, Reason.RAISED)
    some = tuple(Pod(f"new-{i}", "", NOW) for i in range(created))
    raised = replace(job, admission=told, pods=(*job.pods, *some))
    assert "a" not in decide_on(TWO, [raised], now=NOW + 119 * SECOND)
    given = decide_on(TWO, [raised], now=NOW + 120 * SECOND)["a"]
    assert (given.state, given.workers, given.reason) == (
        AdmissionState.ADMITTED,
        2,
        Reason.NOT_GROWN,
    )
    assert given.retry_at is not None
    assert given.retry_at >= NOW + 150 * SECOND
    rests = replace(job, admission=given)
    assert "a" not in decide_on(TWO, [rests], now=given.retry_at - SECOND)
    assert decide_on(TWO, [rests], now=given.retry_at)["a"].workers == 4
    more = (*job.pods, *(Pod(f"new-{i}", "node-01", NOW) for i in range(2)))
    bound = decide_on(TWO, [replace(raised, pods=more)])["a"]
    assert (bound.reason, bound.attempts, bound.retry_at) == (Reason.GROWN, 0, None)


def test_its_next_attempt_waits() -> None:
    told = Admission(queue="main", queued_at=SOON, retry_at=NOW + SECOND, attempts=1)
    decision = decide(Cluster(TWO), MAIN, [make_job("a", admission=told)], NOW)
    assert decision.explanations["a"].reason is Reason.BACKING_OFF
    assert decision.wake_at == NOW + SECOND


@pytest.mark.parametrize("made", [0, 1])
def test_what_was_created_in_part_or_not_at_all_is_an_attempt(made: int) -> None:
    job = half_bound()
    job = replace(job, pods=job.pods[:made])  # type: ignore[type-var,attr-defined]
    told = decide_on(TWO, [job])["a"]
    assert told.reason is Reason.NEVER_CREATED
    assert told.message == "of 2 workers the operator had created 0 after 60 s"
    assert told.attempts == 1
    assert told.retry_at is not None


def test_a_gang_that_is_being_created_has_time() -> None:
    job = half_bound()
    pods = (job.pods[0], replace(job.pods[1], created=NOW - SECOND))  # type: ignore[attr-defined]
    assert "a" not in decide_on(TWO, [replace(job, pods=pods)])  # type: ignore[type-var]


def test_a_launcher_that_comes_after_the_workers_is_waited_for() -> None:
    job = run_on(make_job("a", 2, 2), "node-00", "node-00", since=SOON, bound_at=None)
    told = decide_on(TWO, [replace(job, pods=job.pods[1:])])["a"]
    assert told.state is AdmissionState.ADMITTED
    assert told.bound_at == NOW


def test_a_launcher_without_a_node_is_not_bound() -> None:
    job = run_on(make_job("a", 2, 2), "node-00", "node-00", since=SOON - SECOND, bound_at=None)
    pods = (replace(job.pods[0], node=""), *job.pods[1:])
    told = decide_on(TWO, [replace(job, pods=pods)])["a"]
    assert told.reason is Reason.NOT_BOUND


def test_who_fails_again_is_behind_who_has_come_since() -> None:
    job = half_bound()
    again = replace(job.admission, attempts=1)  # type: ignore[attr-defined]
    assert decide_on(TWO, [replace(job, admission=again)])["a"].queued_at == NOW  # type: ignore[type-var]


def take_up(job: Job) -> Job:
    """As the operator does, whose pods a quota refuses."""
    if job.admission is None or job.admission.state is AdmissionState.WAITING:
        return replace(job, is_waiting=True)
    return replace(job, is_waiting=False, admitted_number=job.admission.number)


@pytest.mark.long
def test_many_who_never_stand_keep_nobody_from_starting() -> None:
    stuck = [make_job(f"stuck-{i}", 2, 2, 4, created=SOON) for i in range(20)]
    jobs, one = apply(stuck, decide(Cluster(ONE), MAIN, stuck, NOW)), make_job("one", 2, 2, 4)
    jobs.append(one)
    for passed in range(0, HOUR, 10 * SECOND):
        decision = decide(Cluster(ONE), MAIN, jobs, NOW + SECOND + passed)
        jobs = [take_up(job) for job in apply(jobs, decision)]
        if jobs[-1].admission is not None and jobs[-1].admission.state is AdmissionState.ADMITTED:
            return
    raise AssertionError("they take turns for ever")


def test_growth_that_finds_no_node_is_given_back() -> None:
    job = run_on(make_job("a", 1, 4), "node-00", workers=2, short_since=NOW - 2 * MINUTE)
    job = replace(job, pods=(*job.pods, Pod("a-9", "", NOW - 2 * MINUTE)))
    assert decide_on(make_nodes(1, cpu=1), [job])["a"].workers == 1


def test_a_job_below_its_least_is_evicted_after_ten_minutes() -> None:
    job = run_on(make_job("a", 2, 2), "node-00", workers=2, short_since=NOW - 10 * MINUTE)
    told = decide_on(make_nodes(1, cpu=1), [job])["a"]
    assert told.state is AdmissionState.WAITING
    assert told.reason is Reason.BELOW_MINIMUM


def test_no_start_while_pods_of_the_last_life_are_there() -> None:
    job = make_job("a", pods=(Pod("a-0", "node-00", SOON),))
    told = decide_on(TWO, [job])["a"]
    assert told.reason is Reason.PODS_LEFT


def test_a_resumed_job_is_last_in_line_with_a_higher_number() -> None:
    told = Admission(3, AdmissionState.ADMITTED, "main", workers=2, queued_at=SOON, since=SOON)
    job = make_job("a", admission=told, admitted_number=3)
    after = decide_on(TWO, [job])["a"]
    assert after.number == 4
    assert after.queued_at == NOW


# ---------------------------------------------------------------- edits of jobs that run
def test_a_larger_least_size_waits_in_line_for_the_difference() -> None:
    job = run_on(make_job("a", 3, 6), "node-00", workers=1)
    told = decide_on(make_nodes(1, cpu=4), [job])["a"]
    assert told.workers == 3
    assert told.number == 1, "no start"


@pytest.mark.parametrize(
    ("priority", "order"), [(1, DEFAULT_ORDER), (0, DEFAULT_ORDER), (0, ("age",))]
)
def test_the_difference_waits_as_a_start_does(priority: int, order: tuple[str, ...]) -> None:
    """Behind one of higher priority, one that has less, one that has asked for longer."""
    told = Admission(queue="main", queued_at=SOON)
    jobs = [
        run_on(make_job("a", 3, 6), "node-00", workers=1),
        make_job("b", 2, 2, priority=priority, admission=told),
    ]
    after = decide_on(make_nodes(1, cpu=3), jobs, (Queue("main", order=order),))
    assert after["b"].state is AdmissionState.ADMITTED
    assert "a" not in after or after["a"].workers == 1


def test_it_is_told_where_there_is_no_room_for_the_difference() -> None:
    job = run_on(make_job("a", 3, 6), "node-00", workers=1)
    other = run_on(make_job("b", 3, 3), *["node-00"] * 3)
    decision = decide(Cluster(make_nodes(1, cpu=4)), MAIN, [job, other], NOW)
    assert explain(decision, "a") == "needs 2 workers of 1 CPU, 0 fit now; main has 4 CPU"


def test_fewer_replicas_are_free() -> None:
    job = make_job("a", 1, 9, replicas=1, elasticity=Elasticity.FIXED)
    told = decide_on(TWO, [run_on(job, "node-00", "node-00")])["a"]
    assert told.workers == 1
    assert not told.leaving


def test_a_lower_maximum_lets_the_newest_go() -> None:
    told = decide_on(TWO, [run_on(make_job("a", 1, 2), *["node-00"] * 4)])["a"]
    assert told.workers == 2
    assert told.leaving == ("a-2", "a-3")


def test_between_two_sizes_the_lower_counts() -> None:
    job = make_job("a", 2, 16, sizes=(2, 8, 16))
    donor = run_on(job, *["node-00"] * 8, *["node-01"] * 8)
    told = decide_on(TWO, [donor, make_job("b", 1)])
    assert told["a"].workers == 8
    assert len(told["a"].leaving) == 8


def test_who_has_not_begun_to_drain_stays_when_the_waiter_is_gone() -> None:
    donor = run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 8)
    told = decide_on(TWO, [donor, make_job("b", 3)])["a"]
    first, *others = told.leaving
    pods = tuple(replace(pod, is_draining=pod.name == first) for pod in donor.pods)
    after = decide_on(TWO, [replace(donor, pods=pods, admission=told)])["a"]
    assert after.workers == 15
    assert after.leaving == (first,)
    assert len(others) == 2


def test_room_that_is_given_back_is_nobody_elses() -> None:
    """While the donor's workers leave, a job that came later takes no room of theirs."""
    donor = run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 8)
    waiter = make_job("b", 2)
    told = decide_on(TWO, [donor, waiter])
    gone = set(told["a"].leaving[:1])
    pods = tuple(pod for pod in donor.pods if pod.name not in gone)
    donor = replace(donor, admission=told["a"], pods=pods)
    waiter = replace(waiter, admission=told["b"])
    after = decide_on(TWO, [donor, waiter, make_job("c", 1, created=NOW + 1)], now=NOW + SECOND)
    assert after["c"].state is AdmissionState.WAITING
    pods = tuple(pod for pod in pods if pod.name not in told["a"].leaving)
    donor = replace(donor, pods=pods)
    after = decide_on(TWO, [donor, waiter, make_job("c", 1, created=NOW + 1)], now=NOW + SECOND)
    assert after["b"].state is AdmissionState.ADMITTED
    assert after["c"].state is AdmissionState.WAITING


# ---------------------------------------------------------------- nodes to come


@pytest.mark.parametrize(("least", "cpu"), [(4, 8), (1, 1000)])  # other pods, and the same
def test_of_each_namespace_one_job_at_a_time_lets_an_autoscaler_see_its_pods(
    least: int, cpu: int
) -> None:
    """Whoever has many for which no node will ever come keeps nobody else from theirs."""
    many = [make_job(f"a-{i}", 1, cpu=1000, namespace="many", created=NOW + i) for i in range(3)]
    jobs = [*many, make_job("b", least, cpu=cpu, namespace="few", created=NOW + 5)]
    told = decide_on(TWO, jobs, AUTOSCALED)
    started = {uid for uid, one in told.items() if one.state is AdmissionState.ADMITTED}
    assert started == {"a-0", "b"}


def test_one_job_at_a_time_lets_an_autoscaler_see_its_pods() -> None:
    jobs = [make_job("a", 3, cpu=8), make_job("b", 4, cpu=8, created=NOW + 1)]
    told = decide_on(TWO, jobs, AUTOSCALED)
    assert told["a"].state is AdmissionState.ADMITTED
    assert told["a"].placement.only == ()
    assert told["b"].state is AdmissionState.WAITING
    begun = replace(jobs[0], admission=told["a"], is_waiting=False, admitted_number=1)
    pods = tuple(Pod(f"a-{i}", "", NOW) for i in range(3))
    begun = replace(begun, pods=(*pods, Pod("l", "node-00", NOW, is_launcher=True)))
    for now in (NOW + 9 * MINUTE, NOW + 10 * MINUTE):
        later = decide_on(TWO, [begun], AUTOSCALED, now=now)
        assert ("a" in later) == (now == NOW + 10 * MINUTE)


def test_of_larger_least_sizes_too_one_of_a_namespace_at_a_time_is_seen() -> None:
    """Whoever runs stands already: only what was raised says that its pods look for nodes."""
    jobs = [run_on(make_job(f"r{i}", 2, 2, 8), f"node-0{i}") for i in range(2)]
    jobs = apply(jobs, decide(Cluster(TWO), AUTOSCALED, jobs, NOW))
    assert [job.admission.workers for job in jobs if job.admission] == [2, 1]
    for pods in ((), (Pod("r0-new", "", NOW),)):
        jobs[0] = replace(jobs[0], pods=(*jobs[0].pods, *pods))
        told = decide_on(TWO, jobs, AUTOSCALED, now=NOW + SECOND)
        assert all(one.workers == 1 for uid, one in told.items() if uid == "r1")


# ---------------------------------------------------------------- level
def test_who_has_far_more_gives_to_who_has_far_less() -> None:
    jobs = [
        run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 6),
        run_on(make_job("b", 1, 16), "node-01", "node-01"),
    ]
    told = decide_on(TWO, jobs)
    assert told["a"].workers == 8
    assert told["a"].gave_for == Gift(Purpose.LEVEL)
    assert "b" not in told, "it grows when the room is free"


def test_small_differences_are_left_alone() -> None:
    jobs = [
        run_on(make_job("a", 1, 16), *["node-00"] * 8, "node-01"),
        run_on(make_job("b", 1, 16), *["node-01"] * 7),
    ]
    assert not decide_on(TWO, jobs)


def test_levelling_needs_proof_of_placement() -> None:
    """What the one would give does not hold a worker of the other."""
    nodes = (make_node("node-00", 4), make_node("node-01", 4), make_node("node-02", 4))
    jobs = [
        run_on(make_job("a", 1, 9, 3), "node-00", "node-01"),
        run_on(make_job("b", 1, 4, 4), "node-02"),
    ]
    assert not decide_on(nodes, jobs)


def test_one_that_cannot_be_written_keeps_nobody_from_the_level() -> None:
    large = run_on(make_job("large", 1, 8), *["node-00"] * 7)
    small = run_on(make_job("small", 1, 8), "node-00")
    stuck = run_on(make_job("stuck", 8, 8, frozen_since=NOW), *["node-01"] * 8)
    assert decide_on(TWO, [large, small, stuck])["large"].workers == 4


@pytest.mark.parametrize(
    ("shape", "since"),
    [
        pytest.param(cpus(1000), NOW, id="that no node could hold"),
        pytest.param(replace(cpus(1), terms=NOWHERE), NOW, id="that suits no node"),
        pytest.param(cpus(8), NOW - 30 * DAY, id="that has not fitted for five minutes"),
    ],
)
def test_a_pod_of_others_that_counts_no_more_keeps_nobody_from_the_level(
    shape: Shape, since: int
) -> None:
    jobs = [
        run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 7),
        run_on(make_job("b", 1, 16), "node-01"),
    ]
    pending = (PendingPod("x", shape, 0, since),)
    told = {
        one.uid: one.admission for one in decide(Cluster(TWO, pending), MAIN, jobs, NOW).changes
    }
    assert told["a"].workers == 8


def test_a_resource_that_there_is_enough_of_keeps_nobody_from_going() -> None:
    nodes = tuple(make_node(f"n{i}", 4, more={"memory": 2**36}) for i in range(2))
    small = make_shape({"memory": 2**26})
    old = run_on(make_job("old", 4, 4, launcher=small), "n0", "n0", "n1", "n1")
    new = make_job("new", 6, 16, queue="first", launcher=small)
    queues = (Queue("main"), Queue("first", priority=5))
    told = decide_on(nodes, [old, new], queues)
    assert told["old"].state is AdmissionState.WAITING
    assert [one.queue for one in told["old"].evictions] == ["first"]


def test_the_node_with_the_least_that_stays_is_reserved_however_large_amounts_are() -> None:
    gib = 2**30
    nodes = tuple(make_node(f"node-{n}", more={"memory": 64 * gib}) for n in range(2))
    rigid = [
        run_on(make_job(f"rigid-{n}", 1, 1, worker=make_shape({"memory": size * gib})), f"node-{n}")
        for n, size in enumerate((12, 5))
    ]
    big = wait_on("big", 1, 1, unfit=NOW - 2 * MINUTE)
    big = replace(big, worker=make_shape({"memory": 60 * gib}))  # type: ignore[type-var]
    told = decide_on(nodes, [*rigid, big])  # type: ignore[list-item]
    assert told["big"].reserved == ("node-1",)
