"""Jobs of many kinds that wait: so many are looked at in a pass, and nobody loses by his turn."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import CPU, MINUTE, SECOND, make_shape
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.ordering import list_lines
from et_scheduler.planning.passing import decide
from et_scheduler.planning.rooms import Room
from et_scheduler.planning.seating import book, seat_bound
from et_scheduler.planning.starting import start_all
from tests.unit.scheduler.makers import MAIN, NOW, make_job, make_nodes, run_on
from tests.unit.scheduler.test_held import hold

TAKEN = tuple(replace(node, taken={CPU: 3000}) for node in make_nodes(2))
FEW = Rules(kinds=8)


def make_kinds(namespace: str, count: int, cpu: int = 7900) -> list[Job]:
    """Jobs that fit nowhere, each of a kind of its own, the first in line first."""
    shapes = [make_shape({CPU: cpu - i}) for i in range(count)]
    return [
        make_job(f"{namespace}-{i:02}", 1, 1, namespace=namespace, worker=shape)
        for i, shape in enumerate(shapes)
    ]


def list_told(jobs: list[Job], second: int = 0) -> set[str]:
    """Who is told in that second, for the first time, that he has no room."""
    return set(decide(Cluster(TAKEN), MAIN, jobs, NOW + second * SECOND, FEW).explanations)


def test_of_many_kinds_each_is_looked_at_in_its_turn() -> None:
    """Those of others, and the first in line, in every pass."""
    many, few = make_kinds("many", 20), make_kinds("few", 1, 6500)
    seen: set[str] = set()
    for second in range(2):
        told = list_told([*many, *few], second)
        assert {"few-00", "many-00", "many-06"} <= told
        assert len(told) <= 15
        seen |= told
    assert seen == {job.uid for job in (*many, *few)}
    assert decide(Cluster(TAKEN), MAIN, many, NOW, FEW).wake_at == NOW + SECOND


def test_all_who_are_alike_are_looked_at_together() -> None:
    many = make_kinds("many", 20)
    alike = [make_job(f"alike-{i:02}", 1, 1, worker=many[0].worker) for i in range(20)]
    assert {job.uid for job in alike} < list_told([*many, *alike])


def test_where_there_are_few_kinds_all_are_looked_at_however_many_namespaces_have_them() -> None:
    jobs = [
        replace(job, uid=f"{team}-{job.uid}", namespace=f"team-{team}")
        for team in range(9)
        for job in make_kinds("many", 8)
    ]
    decision = decide(Cluster(TAKEN), MAIN, jobs, NOW, FEW)
    assert len(decision.explanations) == 72
    assert decision.wake_at == NOW + MINUTE


def test_who_holds_nodes_is_looked_at_in_every_pass() -> None:
    many = [hold(job, since=NOW - 10 * MINUTE) for job in make_kinds("many", 20)]
    many[19] = hold(many[19], "node-01")
    for second in range(4):
        decision = decide(Cluster(TAKEN), MAIN, many, NOW + second * SECOND, FEW)
        assert decision.explanations["many-19"].message
        assert not all(told.message for told in decision.explanations.values())
    free = Cluster((TAKEN[0], make_nodes(2)[1]))
    told = {one.uid: one.admission for one in decide(free, MAIN, many, NOW, FEW).changes}
    assert told["many-19"].state is AdmissionState.ADMITTED


def test_who_is_tried_later_takes_nobodys_turn() -> None:
    told = Admission(0, AdmissionState.WAITING, "main", queued_at=NOW - 1, since=NOW - 1)
    told = replace(told, reason=Reason.NOT_BOUND, retry_at=NOW + 2 * MINUTE)
    many = make_kinds("many", 100)
    jobs = [*(replace(job, admission=told) for job in many[:92]), *many[92:]]
    decision = decide(Cluster(TAKEN), MAIN, jobs, NOW, FEW)
    reasons = Counter(one.reason for one in decision.explanations.values())
    assert reasons == {Reason.BACKING_OFF: 92, Reason.NO_ROOM: 8}
    assert decision.wake_at == NOW + MINUTE
    found = decide(Cluster(TAKEN), MAIN, [*jobs, *make_kinds("more", 20, 6500)], NOW, FEW)
    reasons = Counter(one.reason for one in found.explanations.values())
    assert reasons[Reason.BACKING_OFF] == 92
    assert reasons[Reason.NO_ROOM] < 28


def test_what_is_looked_for_on_all_nodes_is_bounded() -> None:
    draft = Draft(Cluster(TAKEN), MAIN, make_kinds("many", 200), NOW, FEW)
    seat_bound(draft)
    book(draft)
    start_all(draft, list_lines(draft))
    assert len(draft.largest) == 16


def test_what_is_owed_to_one_within_a_limit_is_kept_between_his_turns() -> None:
    """Who runs would grow into it, and be asked to shrink again a second later."""
    told = Admission(0, AdmissionState.WAITING, "main", queued_at=NOW, since=NOW)
    waits = [make_job(f"w-{i}", 1, 1, cpu=20 + i) for i in range(2)]
    owed = make_job("w-9", 1, 1, cpu=5, preempts=False)
    owed = replace(owed, admission=replace(told, reason=Reason.NO_ROOM, unfit_since=NOW))
    queue, runs = Queue("main", limits={CPU: 10_000}), run_on(make_job("r"), *["node-00"] * 4)
    looked_at = set()
    for second in range(2):
        jobs = [replace(runs, maximum=8), *waits, owed]
        found = decide(Cluster(make_nodes(1)), [queue], jobs, NOW + second * SECOND, Rules(kinds=1))
        sizes = {change.uid: change.admission.workers for change in found.changes}
        assert sizes["r"] == 5
        looked_at.add("5 CPU" in found.explanations["w-9"].message)
    assert looked_at == {False, True}


@pytest.mark.parametrize(
    ("queue", "changes", "reason"),
    [
        pytest.param(Queue("main", is_stopped=True), {}, Reason.QUEUE_STOPPED, id="stopped"),
        pytest.param(
            Queue("main", namespaces=frozenset({"x"})), {}, Reason.NOT_IN_QUEUE, id="of others"
        ),
        pytest.param(MAIN[0], {"retry_at": NOW + MINUTE}, Reason.BACKING_OFF, id="tried later"),
    ],
)
def test_nobody_gives_for_one_who_lacked_room_when_he_was_looked_at_last(
    queue: Queue, changes: dict[str, int], reason: Reason
) -> None:
    """His author has named another queue since, or he failed."""
    told = Admission(0, AdmissionState.WAITING, "third", queued_at=NOW, since=NOW)
    waits = [make_job(f"w-{i}", 1, 1, cpu=20 + i, queue="third") for i in range(2)]
    moved = make_job("w-9", 1, 1, cpu=5)
    moved = replace(moved, admission=replace(told, reason=Reason.NO_ROOM, **changes))
    runs = run_on(make_job("r", 1, 8), *["node-00"] * 8)
    queues = (replace(queue, limits={CPU: 10_000}), Queue("third", priority=1))
    for second in range(2):
        jobs, now = [runs, *waits, moved], NOW + second * SECOND
        found = decide(Cluster(make_nodes(1)), queues, jobs, now, Rules(kinds=1))
        assert "r" not in {change.uid for change in found.changes}
        assert found.explanations["w-9"].reason is reason


def test_room_that_came_for_one_who_is_not_looked_at_keeps_nobody_from_the_level() -> None:
    told = Admission(0, AdmissionState.WAITING, "main", queued_at=NOW, since=NOW)
    waits = [make_job(f"w-{i}", 1, 1, cpu=20 + i) for i in range(3)]
    waits[2] = replace(waits[2], admission=replace(told, reason=Reason.ROOM_COMES))
    large = run_on(make_job("large", 1, 8), *["node-00"] * 7)
    jobs, reasons = [large, run_on(make_job("small", 1, 8), "node-00"), *waits], set[Reason]()
    for second in range(2):
        now = NOW + second * SECOND
        found = decide(Cluster(make_nodes(1)), MAIN, jobs, now, Rules(kinds=1))
        assert {one.uid: one.admission.workers for one in found.changes}["large"] == 4
        reasons.add(found.explanations["w-2"].reason)
    assert reasons == {Reason.ROOM_COMES, Reason.TOO_LARGE}


def ask_for(jobs: list[Job], second: int) -> set[str]:
    """For whom workers go in that second, of whom there is time to look at each once."""
    nodes = make_nodes(3)
    runs = [run_on(make_job(f"r-{node.name}", 1, 8), *[node.name] * 8) for node in nodes]
    given = (Cluster(nodes), MAIN, [*runs, *jobs], NOW + second * SECOND)
    gifts = {one.admission.gave_for for one in decide(*given, replace(FEW, looks=1)).changes}
    return {gift.uid for gift in gifts if gift is not None}


def test_however_many_kinds_one_namespace_has_workers_go_for_others_in_their_turn() -> None:
    many = make_kinds("many", 200, 7000)
    others = [job for i in range(4) for job in make_kinds(f"other-{i}", 1, 6700 - 50 * i)]
    jobs = [replace(job, priority=1) for job in (*many, *others)]
    asked: set[str] = set()
    for second in range(4):
        asked |= ask_for(jobs, second)
    assert asked.issuperset(job.uid for job in others)


def test_for_each_of_many_kinds_workers_go_in_its_turn() -> None:
    """It need not be one of the kinds whose turn it is to be looked at."""
    jobs = [replace(job, priority=1) for job in make_kinds("many", 20, 7000)]
    asked: set[str] = set()
    for second in range(19):
        asked |= ask_for(jobs, second)
    assert asked == {job.uid for job in jobs}


@pytest.mark.long
@pytest.mark.parametrize("since", [NOW, None], ids=["a pass", "one that fails"])
def test_nothing_waits_for_the_collector_of(since: Any) -> None:
    """With thousands of kinds it is some hundred MB, and the next passes come before it does."""

    def count() -> int:
        return sum(isinstance(one, Draft | Room) for one in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        told = Admission(queue="main", queued_at=since)
        jobs = make_kinds("many", 2)
        jobs[0] = replace(jobs[0], admission=told)
        before = count()
        with suppress(TypeError):
            decide(Cluster(TAKEN), MAIN, jobs, NOW)
            assert since is not None
        assert count() == before
    finally:
        gc.enable()
