"""Whom his queue refuses asks for nothing there: all is decided as if he were not there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from et_contract.admissions import AdmissionState, Elasticity
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.decisions import Decision
from et_scheduler.model.jobs import Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import CPU, MINUTE, Operator, Requirement
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import (
    NOW,
    decide_on,
    make_job,
    make_node,
    make_nodes,
    run_on,
)
from tests.unit.scheduler.test_held import hold
from tests.unit.scheduler.test_kinds import FEW, TAKEN, make_kinds
from tests.unit.scheduler.test_properties import EXAMPLES, draw_simulations

TWO = make_nodes(2)
LOW = (Queue("a"), Queue("b"), Queue("c"))
PROD = Queue("prod", priority=10)
STOPPED = replace(PROD, is_stopped=True)
OF_OTHERS = replace(PROD, namespaces=frozenset({"x"}))
MOST = 10**6
refusing = pytest.mark.parametrize("prod", [STOPPED, OF_OTHERS], ids=["stopped", "of others"])


def make_stray(number: int = 0) -> Job:
    return make_job(f"stray-{number}", 1, MOST, queue="prod", created=0)


def tell(decision: Decision) -> tuple[object, ...]:
    """What is decided and told of all others."""
    changes = [change for change in decision.changes if "stray" not in change.uid]
    told = {uid: one for uid, one in decision.explanations.items() if "stray" not in uid}
    queues = [queue for queue in decision.queues if queue.name != "prod"]
    return changes, told, queues, decision.wake_at


def fill_both() -> list[Job]:
    """Two queues have half each, and no more than they are due beside two others."""
    rigid = [run_on(make_job(q, 8, 8, queue=q), *[f"node-0{i}"] * 8) for i, q in enumerate("ab")]
    return [*rigid, make_job("gang", 8, 8, queue="c")]


def lend() -> list[Job]:
    """One has all but one worker; a gang of another, within its share, waits."""
    grown = run_on(make_job("grown", 1, 16, queue="a"), *["node-00"] * 8, *["node-01"] * 7)
    own = run_on(make_job("own", 1, 1, queue="b"), "node-01")
    return [grown, own, make_job("gang", 4, 4, queue="b")]


@refusing
def test_a_queue_reclaims_its_share_whoever_asks_for_all_in_another(prod: Queue) -> None:
    queues, jobs = (*LOW, prod), lend()
    alone = decide(Cluster(TWO), queues, jobs, NOW)
    given = {one.uid: len(one.admission.leaving) for one in alone.changes}
    assert given == {"grown": 4, "gang": 0}
    assert tell(decide(Cluster(TWO), queues, [*jobs, make_stray()], NOW)) == tell(alone)


@refusing
def test_nobody_goes_whose_queue_would_have_less_than_it_is_due_without_them(prod: Queue) -> None:
    queues, jobs = (*LOW, prod), fill_both()
    alone = decide(Cluster(TWO), queues, jobs, NOW)
    assert [change.uid for change in alone.changes] == ["gang"]
    assert tell(decide(Cluster(TWO), queues, [*jobs, make_stray()], NOW)) == tell(alone)


@pytest.mark.long
@settings(max_examples=EXAMPLES)
@given(draw_simulations(), st.integers(0, 900), st.sampled_from([STOPPED, OF_OTHERS]))
def test_whatever_they_ask_for_changes_nothing(drawn: Any, seconds: int, prod: Queue) -> None:
    simulation, _, queues = drawn
    simulation.run(seconds * 1000)
    queues, jobs = (*queues, prod), simulation.show_jobs()
    strays = [make_stray(number) for number in range(3)]
    given = (simulation.show_cluster(), queues)
    alone = decide(*given, jobs, simulation.clock.now)
    assert tell(decide(*given, [*jobs, *strays], simulation.clock.now)) == tell(alone)


@refusing
def test_who_runs_there_asks_as_before(prod: Queue) -> None:
    runs = run_on(make_job("runs", 1, MOST, queue="prod"), "node-00")
    told = {one.name: one for one in decide(Cluster(TWO), (*LOW, prod), [runs], NOW).queues}
    assert told["prod"].deserved == {CPU: 16_000}


@refusing
def test_a_larger_least_size_asks_for_no_more_than_there_is(prod: Queue) -> None:
    fixed = make_job("fixed", replicas=MOST, queue="prod", elasticity=Elasticity.FIXED)
    jobs = [run_on(fixed, "node-00"), run_on(make_job("own", MOST, MOST, queue="prod"), "node-01")]
    told = {one.name: one for one in decide(Cluster(TWO), (*LOW, prod), jobs, NOW).queues}
    assert told["prod"].deserved == {CPU: 2000}


@pytest.mark.parametrize(
    ("prod", "reason", "line"),
    [
        pytest.param(STOPPED, Reason.QUEUE_STOPPED, ("ns/stray-0",), id="it is stopped"),
        pytest.param(OF_OTHERS, Reason.NOT_IN_QUEUE, (), id="it is of others"),
    ],
)
def test_who_may_use_a_queue_is_in_its_line_although(
    prod: Queue, reason: Reason, line: tuple[str, ...]
) -> None:
    """Of who may not its people hear nothing."""
    decision = decide(Cluster(TWO), (prod,), [make_stray()], NOW)
    [told] = decision.queues
    assert (told.waiting, told.line, told.deserved) == (len(line), line, {})
    assert decision.explanations["stray-0"].reason is reason


@refusing
def test_of_many_kinds_all_are_told_at_once_and_none_has_a_turn(prod: Queue) -> None:
    many = [replace(job, queue="prod") for job in make_kinds("many", 20)]
    decision = decide(Cluster(TAKEN), (prod,), many, NOW, FEW)
    assert decision.explanations.keys() == {job.uid for job in many}
    assert decision.wake_at is None


@refusing
def test_nodes_are_held_for_nobody_there_not_even_who_cannot_be_written(prod: Queue) -> None:
    gang = hold(make_job("gang", 16, 16, queue="prod"), "node-00", "node-01")
    jobs = [replace(gang, frozen_since=NOW), make_job("mine", 8, 8, queue="a")]
    assert decide_on(TWO, jobs, (*LOW, prod))["mine"].state is AdmissionState.ADMITTED


@refusing
def test_a_larger_least_size_waits_until_it_may(prod: Queue) -> None:
    """It is told why, holds nothing, and keeps what it has."""
    told: dict[str, Any] = {"reserved": ("node-01",), "unfit_since": NOW - 2 * MINUTE}
    job = run_on(make_job("job", 2, 2, queue="prod"), "node-00", **told)
    decision = decide(Cluster(TWO), (prod,), [job], NOW)
    [change] = decision.changes
    assert (change.admission.workers, change.admission.reserved) == (1, ())
    assert decision.explanations["job"].reason in {Reason.QUEUE_STOPPED, Reason.NOT_IN_QUEUE}


@refusing
def test_of_how_many_kinds_they_are_changes_nothing_of_where_others_count(prod: Queue) -> None:
    """What others wait for is only in the smaller pool, and so nothing of the larger is its due."""
    pools = {"x": 4, "y": 2}
    nodes = tuple(
        make_node(f"node-{pool}{i}", pool=pool, labels={"pool": pool})
        for pool, count in pools.items()
        for i in range(count)
    )
    terms = ((Requirement("pool", Operator.IN, ("y",)),),)
    waits = [
        replace(job, worker=replace(job.worker, terms=terms), maximum=9, queue="a")
        for job in make_kinds("mine", 3, cpu=3000)
    ]
    runs = run_on(make_job("r", 1, 40, queue="b"), *[f"node-x{i}" for i in range(4)] * 8)
    strays = [
        replace(job, uid=f"stray-{job.uid}", queue="prod", created=0)
        for job in make_kinds("mine", 40, cpu=2000)
    ]
    given = (Cluster(nodes), (*LOW, prod))
    alone = decide(*given, [*waits, runs], NOW, FEW)
    assert tell(decide(*given, [*waits, runs, *strays], NOW, FEW)) == tell(alone)
