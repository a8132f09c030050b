"""A node that is not ready for seconds, as while its kubelet starts anew: its room comes back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from et_contract.admissions import AdmissionState, Placement
from et_scheduler.codec.nodes import decode_node
from et_scheduler.model.cluster import Cluster, Headroom, Leaving, Node
from et_scheduler.model.decisions import Decision
from et_scheduler.model.jobs import Job
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import CPU, HOUR, MINUTE, SECOND
from et_scheduler.planning.passing import decide
from fakes import carriers
from tests.unit.scheduler.makers import (
    MAIN,
    NOW,
    apply,
    cpus,
    decide_on,
    make_job,
    make_node,
    run_on,
)
from tests.unit.scheduler.test_held import hold

TAKEN = {CPU: 8000, "pods": 1}
WELL = make_node("x", taken=TAKEN, leaving=(Leaving(NOW, TAKEN),))
SINCE = NOW + 5 * SECOND
BACK = SINCE + MINUTE
NOT_READY = replace(WELL, unready_since=SINCE)
OTHER = make_node("y")
LOWER = run_on(make_job("low", 1, 1, 8, priority=-1), "y")
WAITER = make_job("w", 1, 1, 8)


def pass_over(node: Node, jobs: list[Job], now: int) -> Decision:
    return decide(Cluster((node, OTHER)), MAIN, jobs, now)


def test_nobody_goes_for_one_who_waits_for_room_on_a_node_that_will_be_ready_again() -> None:
    jobs = apply([LOWER, WAITER], pass_over(WELL, [LOWER, WAITER], NOW))
    told = jobs[1].admission
    assert told is not None
    assert told.reason is Reason.ROOM_COMES
    while_away = pass_over(NOT_READY, jobs, SINCE)
    assert while_away.changes == ()
    assert while_away.explanations["w"].message.endswith("x not ready for the moment")
    assert pass_over(NOT_READY, jobs, BACK - 1).changes == ()
    gone = {one.uid: one.admission for one in pass_over(NOT_READY, jobs, BACK).changes}
    assert gone["low"].reason is Reason.EVICTED


def test_nobody_is_asked_to_go_on_a_node_where_nobody_can_end_now() -> None:
    away, there = (
        run_on(make_job(name, 1, 1, 8, priority=-1), node, since=NOW - age * HOUR)
        for name, node, age in (("away", "x", 1), ("there", "y", 2))
    )
    node = make_node("x", unready_since=NOW)
    assert set(decide_on((node, OTHER), [away, there, WAITER])) == {"there", "w"}
    assert set(decide_on((node,), [away, WAITER])) == {"w"}
    grown = run_on(make_job("grown", 1, 8, priority=-1), *["x"] * 8)
    assert "grown" not in decide_on((node,), [grown, make_job("w", 1, 1, 4)])


def test_a_pass_is_due_when_it_is_waited_for_no_more() -> None:
    assert pass_over(NOT_READY, [], SINCE).wake_at == BACK
    assert pass_over(NOT_READY, [], BACK).wake_at == NOW + 12 * MINUTE  # the pod that leaves


@pytest.mark.parametrize(
    ("ahead", "waits"), [(-60, False), (-59, True), (59, True), (61, False), (3600, False)]
)
def test_a_clock_that_is_far_from_ours_keeps_nobody_waiting(ahead: int, *, waits: bool) -> None:
    """A kubelet writes since when: by its own clock."""
    node = replace(OTHER, name="x", unready_since=NOW + ahead * SECOND)
    decision = pass_over(node, [LOWER, WAITER], NOW)
    told = {one.uid: one.admission.reason for one in decision.changes}
    assert told == {"w": Reason.ROOM_COMES} | ({} if waits else {"low": Reason.EVICTED})


def test_nobody_starts_or_grows_on_a_node_that_is_not_ready() -> None:
    node = make_node("x", unready_since=NOW)
    grows = run_on(make_job("a", 1, 16), *["y"] * 6)
    assert decide_on((node, OTHER), [grows])["a"].workers == 8
    assert decide_on((node,), [WAITER])["w"].state is AdmissionState.WAITING


def test_a_gang_that_was_told_to_start_there_is_taken_back_when_the_node_stays_away() -> None:
    told = Placement("", ("x",))
    job = run_on(WAITER, "", since=NOW, bound_at=None, placement=told)
    node = make_node("x", unready_since=NOW + SECOND)
    assert decide_on((node, OTHER), [job], now=NOW + 50 * SECOND) == {}
    late = replace(node, unready_since=NOW - 30 * SECOND)
    gone = decide_on((late, OTHER), [job], now=NOW + 30 * SECOND)["w"]
    assert (gone.reason, gone.message) == (Reason.NOT_BOUND, "its nodes have no room any more")


def test_no_workers_leave_for_room_that_is_kept_there() -> None:
    job = run_on(make_job("a", 1, 8), *["y"] * 8)
    for since, left in ((NOW, None), (NOW - MINUTE, 5)):
        node = make_node("x", 3, unready_since=since)
        decision = decide(Cluster((node, OTHER), (), Headroom(cpus(3), 1)), MAIN, [job], NOW)
        assert [one.admission.workers for one in decision.changes] == ([left] if left else [])


def test_what_queues_are_due_stays() -> None:
    for since, deserved in ((NOW, 16), (NOW - MINUTE, 8)):
        node = make_node("x", unready_since=since)
        status = pass_over(node, [run_on(make_job("a", 1, 64), "y")], NOW).queues[0]
        assert status.deserved == {CPU: deserved * 1000}


def test_who_needs_every_node_keeps_those_that_it_holds() -> None:
    gang = hold(make_job("g", 2, 2, 8), "x", "y")
    busy = run_on(make_job("busy", 1, 1, 8, priority=1), "y")
    nodes = (make_node("x", unready_since=NOW), OTHER)
    assert decide_on(nodes, [gang, busy]) == {}


def read(status: str = "True", spec: Any = None, since: str = "2026-01-01T00:00:00Z") -> Node:
    """A node with such a condition Ready."""
    node = carriers.make_node("n")
    ready = {"type": "Ready", "status": status, "lastTransitionTime": since}
    return decode_node(
        node | {"spec": spec or {}, "status": {**node["status"], "conditions": [ready]}}
    )


AT = 1_767_225_600_000
TAINTED = [
    {"key": f"node.kubernetes.io/{key}", "effect": effect}
    for key in ("not-ready", "unreachable")
    for effect in ("NoSchedule", "NoExecute")
]


@pytest.mark.parametrize("status", ["False", "Unknown"])
def test_since_when_it_is_not_ready_its_condition_says(status: str) -> None:
    found = read(status, {"taints": TAINTED})
    assert (found.has_room, found.unready_since, found.taints) == (True, AT, ())
    assert (read().has_room, read().unready_since) == (True, None)


def test_a_node_is_not_ready_before_the_taints_of_that_have_gone() -> None:
    """They are taken away a moment after the kubelet has said that it is ready."""
    for taint in TAINTED:
        found = read("True", {"taints": [taint]})
        assert (found.unready_since, found.taints) == (AT, ())


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(read("False", {"unschedulable": True}), id="cordoned"),
        pytest.param(read("False", since=""), id="says no time"),
        pytest.param(read("False", {"taints": TAINTED * 200}), id="more taints than are read"),
    ],
)
def test_room_that_will_not_be_there_again_is_waited_for_by_nobody(found: Node) -> None:
    assert (found.has_room, found.unready_since) == (False, None)
