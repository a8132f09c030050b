"""What is admitted and fits on no node, so that an autoscaler sees it, is had by nobody."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster
from et_scheduler.model.jobs import Job, Pod
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import CPU
from et_scheduler.planning.drafts import Draft
from et_scheduler.planning.passing import decide
from et_scheduler.planning.seating import book, seat_bound, seat_unbound
from tests.unit.scheduler.makers import NOW, apply, cpus, make_job, make_nodes, run_on

AUTOSCALED = Queue("a", is_autoscaled=True)
OTHER = Queue("b")


def make_world() -> list[Job]:
    """Queue a has what it is due; a gang of b needs a worker's room that is on no node."""
    honest = make_job("honest", 8, 8, namespace="honest", queue="a")
    running = make_job("running", 4, 4, queue="b")
    return [
        run_on(honest, *["node-00"] * 5, *["node-01"] * 3),
        run_on(running, "node-00", *["node-01"] * 3),
        make_job("gang", 1, 1, cpu=4, queue="b"),
    ]


def make_pods(job: Job) -> Job:
    """They are created, and no node has room for them."""
    assert job.admission is not None
    pods = (Pod("huge-launcher", "", NOW, is_launcher=True), Pod("huge-0", "", NOW))
    return replace(job, is_waiting=False, admitted_number=job.admission.number, pods=pods)


@pytest.mark.parametrize("cpu", [8, 16, 10**6])
def test_nobody_goes_of_a_queue_for_what_it_was_promised_and_no_node_has(cpu: int) -> None:
    huge = make_job("huge", 1, 1, cpu=cpu, namespace="other", queue="a", created=NOW + 1)
    jobs = [*make_world(), huge]
    for _ in range(4):
        decision = decide(Cluster(make_nodes(2)), (AUTOSCALED, OTHER), jobs, NOW)
        assert all(one.admission.reason is not Reason.EVICTED for one in decision.changes)
        jobs = apply(jobs, decision)
        jobs = [make_pods(one) if one.uid == "huge" and one.is_waiting else one for one in jobs]
    found = {job.uid: job.admission for job in jobs}
    assert found["huge"] is not None
    assert found["huge"].state is AdmissionState.ADMITTED


def test_it_counts_for_the_limit_of_its_queue() -> None:
    """Nodes may come for it at any time."""
    limited = replace(AUTOSCALED, limits={CPU: 20_000})
    huge = make_job("huge", 1, 1, cpu=12, namespace="other", queue="a")
    jobs = apply([huge], decide(Cluster(make_nodes(2)), (limited,), [huge], NOW))
    jobs = [make_pods(jobs[0]), make_job("next", 9, 9, queue="a")]
    decision = decide(Cluster(make_nodes(2)), (limited,), jobs, NOW)
    assert decision.explanations["next"].reason is Reason.AT_LIMIT


@pytest.mark.parametrize("cpu", [1, 10**6])
def test_what_its_template_asks_for_now_takes_nothing_from_what_its_queue_has(cpu: int) -> None:
    """One that lacks its node counts as those that are there, and is missed as that."""
    first, second = make_nodes(2)
    cluster = Cluster((first, replace(second, taken={CPU: 1000})))
    ratios = []
    for workers in (15, 16):
        job = run_on(make_job("job", 1, 16, queue="a"), *["node-00"] * 8, *["node-01"] * 7)
        assert job.admission is not None
        told = replace(job.admission, workers=workers)
        edited = replace(job, admission=told, worker=cpus(cpu))
        draft = Draft(cluster, (Queue("a"), OTHER), [edited], NOW, Rules())
        seat_bound(draft)
        book(draft)
        seat_unbound(draft)
        assert len(draft.unseated) == workers - 15
        ratios.append(draft.ledger.get_ratio("a"))
    assert ratios[0] == ratios[1] > 0
