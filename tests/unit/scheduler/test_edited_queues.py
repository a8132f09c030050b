"""What `spec.queue` says of a job that was admitted is looked at by nobody."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from et_contract.admissions import AdmissionState, Elasticity
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import HOUR, MINUTE
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import NOW, apply, decide_on, make_job, make_nodes, run_on
from tests.unit.scheduler.test_properties import EXAMPLES, draw_simulations

PLANNING = Path(__file__).resolve().parents[3] / "et_scheduler" / "planning"
QUEUES = (
    Queue("low"),
    Queue("mid", priority=5),
    Queue("prod", priority=10, namespaces=frozenset({"prod"})),
)


@pytest.mark.long
@settings(max_examples=EXAMPLES)
@given(draw_simulations(), st.integers(0, 900), st.data())
def test_the_queue_in_the_spec_of_who_runs_changes_nothing(
    drawn: Any, seconds: int, data: st.DataObject
) -> None:
    """Whoever asks for more, and however long: all that is decided and told is the same."""
    simulation, _, queues = drawn
    simulation.run(seconds * 1000)
    cluster, now = simulation.show_cluster(), simulation.clock.now
    names = st.sampled_from(["main", "other", "nobody's"])
    edited: dict[str, str] = {}
    jobs = []
    for job in simulation.show_jobs():
        if job.admission is not None and job.admission.state is AdmissionState.ADMITTED:
            edited[job.uid] = data.draw(names)
            more = data.draw(st.integers(0, 6))
            least = job.minimum + more
            most = max(least, job.maximum)
            jobs.append(replace(job, minimum=least, maximum=most, sizes=()))
        else:
            jobs.append(job)
    for _ in range(3):
        others = [replace(job, queue=edited.get(job.uid, job.queue)) for job in jobs]
        told = decide(cluster, queues, jobs, now)
        jobs = apply(jobs, told)
        running = {job.uid for job in jobs if is_admitted(job)}
        if not edited.keys() <= running:
            return  # who is in the line again is in that of his spec
        assert decide(cluster, queues, others, now) == told
        now += MINUTE + 1


def is_admitted(job: Job) -> bool:
    return job.admission is not None and job.admission.state is AdmissionState.ADMITTED


@pytest.mark.parametrize("queue", ["low", "prod", "nobody's"])
def test_who_runs_reserves_with_the_rank_of_the_queue_in_which_it_was_admitted(
    queue: str,
) -> None:
    fixed: dict[str, Any] = {"elasticity": Elasticity.FIXED}
    greedy = run_on(make_job("greedy", replicas=1, queue="low", **fixed), "node-00")
    greedy = replace(greedy, queue=queue, replicas=30)
    long = run_on(make_job("long", replicas=4, queue="low", **fixed), *["node-00"] * 4)
    jobs, nodes = [greedy, long], make_nodes(4)
    for minute in range(3):
        jobs = apply(jobs, decide(Cluster(nodes), QUEUES, jobs, NOW + minute * MINUTE))
    assert jobs[0].admission is not None
    assert jobs[0].admission.reserved, "it holds what it waits for"
    now = NOW + 3 * MINUTE
    jobs.append(make_job("mine", 1, 1, 4, queue="mid", created=now, **fixed))
    decision = decide(Cluster(nodes), QUEUES, jobs, now)
    told = {change.uid: change.admission for change in decision.changes}
    assert told["mine"].state is AdmissionState.ADMITTED


def test_others_are_told_of_the_queue_in_which_it_was_admitted():
    fixed: dict[str, Any] = {"elasticity": Elasticity.FIXED}
    holder = run_on(
        make_job("holder", replicas=1, queue="low", **fixed),
        "node-00",
        unfit_since=NOW - HOUR,
        reserved=("node-00",),
    )
    holder = replace(holder, queue="prod", replicas=8)
    rest = run_on(make_job("rest", replicas=2, queue="low", **fixed), *["node-00"] * 2)
    other = make_job("other", 4, 4, queue="low", **fixed, replicas=4)
    told = decide(Cluster(make_nodes(1)), QUEUES, [holder, rest, other], NOW).explanations["other"]
    assert "node-00 reserved for a job of queue low" in told.message


def test_who_cannot_be_written_holds_nothing_in_another_queue():
    """Its place in line is lost with the edit, whether that can be written down or not."""
    fields: dict[str, Any] = {"queued_at": NOW - HOUR, "since": NOW - HOUR}
    told = Admission(0, AdmissionState.WAITING, "low", reserved=("node-00",), **fields)
    told = replace(told, unfit_since=NOW - HOUR, reason=Reason.NO_ROOM)
    job = replace(make_job("job", 8, 8, queue="prod"), admission=told, frozen_since=NOW - 1000)
    mine = make_job("mine", 8, 8, queue="mid", namespace="other")
    admissions = decide_on(make_nodes(1), [job, mine], QUEUES)
    assert admissions["mine"].state is AdmissionState.ADMITTED


def test_one_place_of_the_planner_reads_the_queue_of_a_job():
    """All else asks it: by its own word a job would be of any queue, once it runs."""
    found = {
        (path.name, name)
        for path in PLANNING.glob("*.py")
        for name in list_readers(ast.parse(path.read_text("utf-8")))
    }
    assert found == {("drafts.py", "get_queue")}


def list_readers(tree: ast.Module) -> set[str]:
    """Functions that read `queue` of anything but what was admitted, a claim, an eviction."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    return {
        function.name
        for function in functions
        for node in ast.walk(function)
        if isinstance(node, ast.Attribute) and node.attr == "queue"
        if ast.unparse(node.value).rpartition(".")[2] not in {"admission", "claim", "eviction"}
    }


LEFT = run_on(make_job("left", 1, 16, queue="deleted"), *["node-00"] * 8, *["node-01"] * 8)


def test_workers_of_a_deleted_queue_leave_for_gangs_of_others() -> None:
    """As they did while it was there."""
    waits = make_job("waits", 4, 4, queue="low")
    for queues in (QUEUES, (*QUEUES, Queue("deleted"))):
        assert decide_on(make_nodes(2), [LEFT, waits], queues)["left"].workers == 12


def test_no_whole_job_of_a_deleted_queue_goes() -> None:
    """Nobody could start it again."""
    waits = make_job("waits", 16, 16, queue="prod", namespace="prod", priority=5)
    assert "left" not in decide_on(make_nodes(2), [LEFT, waits], QUEUES)
    later = NOW + HOUR
    assert "left" not in decide_on(make_nodes(2), [LEFT, waits], QUEUES, later)


def test_what_a_job_of_a_deleted_queue_lacks_is_counted_before_others_go() -> None:
    """Its pod would have the room of one of them, and nobody could ask for that again."""
    left = run_on(make_job("left", 8, 8, queue="deleted"), *["node-01"] * 7)
    left = replace(left, admission=replace(left.admission, workers=8))
    low = [run_on(make_job(name, 4, 4, queue="low"), *["node-00"] * 4) for name in ("x", "y")]
    full = run_on(make_job("full", 1, 1, queue="low"), "node-01")
    waits = make_job("waits", 4, 4, queue="low", priority=5)
    told = decide_on(make_nodes(2), [left, *low, full, waits], QUEUES, NOW + HOUR)
    gone = {uid for uid, one in told.items() if one.reason is Reason.EVICTED}
    assert len(gone) == 2


def test_workers_of_a_deleted_queue_leave_for_nobody_above_his_share() -> None:
    has = run_on(make_job("has", 6, 6, queue="low"), *["node-02"] * 6)
    prod = make_job("first", 20, 20, queue="prod", namespace="prod")
    above = make_job("waits", 4, 4, queue="low")
    told = decide_on(make_nodes(3), [LEFT, has, prod, above], QUEUES)
    assert "left" not in told
    assert decide_on(make_nodes(3), [LEFT, has, above], QUEUES)["left"].workers == 14
