"""What is kept, given and waited for, for somebody's start: while room alone keeps him from it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, Node
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import DAY, MINUTE, SECOND
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

QUEUES = (Queue("first"), Queue("other"))
STOPPED = (replace(QUEUES[0], is_stopped=True), QUEUES[1])
LIMITED = (replace(QUEUES[0], limits={"cpu": 4000}), QUEUES[1])
TWO = make_nodes(2)
FULLER = tuple(make_node(node.name, 8, taken={"cpu": 4500}) for node in TWO)
FULLER = (*FULLER, make_node("node-02", 1))


def settle(
    jobs: list[Job], now: int, nodes: tuple[Node, ...] = TWO, queues: tuple[Queue, ...] = QUEUES
) -> list[Job]:
    """Passes until one changes nothing; pods stay as they are."""
    for _ in range(9):
        decision = decide(Cluster(nodes), queues, jobs, now)
        if not decision.changes:
            break
        jobs = apply(jobs, decision)
    return jobs


def evict() -> tuple[Job, Job]:
    """Of two that filled the cluster who was evicted, and for whom. The other one has ended."""
    rigid = [run_on(make_job(f"v{i}", 8, 8, queue="other"), *[f"node-0{i}"] * 8) for i in range(2)]
    jobs = settle([*rigid, make_job("e", 8, 8, queue="first")], NOW)
    [victim] = [job for job in jobs if job.admission and job.admission.reason is Reason.EVICTED]
    return replace(victim, is_waiting=True, pods=()), jobs[-1]


def get_reason(job: Job) -> Reason:
    assert job.admission is not None
    return job.admission.reason


def test_who_was_evicted_waits_for_the_start_of_who_asked_for_it() -> None:
    victim, evictor = evict()
    rigid = run_on(make_job("r", 8, 8, queue="other"), *["node-00"] * 8)
    victim, evictor, _ = settle([victim, evictor, rigid], NOW + SECOND)
    assert get_reason(evictor) is Reason.STARTED
    assert get_reason(victim) is Reason.NO_ROOM


@pytest.mark.parametrize(
    ("changes", "queues"),
    [
        pytest.param({"minimum": 900, "maximum": 900}, QUEUES, id="is edited to be too large"),
        pytest.param({"worker": cpus(99)}, QUEUES, id="is edited to fit no node"),
        pytest.param({"queue": "none"}, QUEUES, id="names a queue that is not there"),
        pytest.param({}, STOPPED, id="is in a queue that is stopped"),
        pytest.param({}, LIMITED, id="is in a queue that is limited"),
    ],
)
def test_nobody_waits_for_an_evictor_that(
    changes: dict[str, object], queues: tuple[Queue, ...]
) -> None:
    victim, evictor = evict()
    edited = replace(evictor, **changes)  # type: ignore[arg-type]
    victim, _ = settle([victim, edited], NOW + SECOND, queues=queues)
    assert get_reason(victim) is Reason.STARTED


@pytest.mark.parametrize(("passed", "is_started"), [(11 * MINUTE, False), (12 * MINUTE, True)])
def test_for_one_that_finds_no_room_it_waits_for_some_minutes(
    passed: int, is_started: bool
) -> None:
    """Pods of others were faster; there is room for one worker on a node that nobody holds."""
    victim, evictor = evict()
    victim = replace(victim, minimum=1, maximum=1)
    jobs = settle([victim, evictor], NOW + SECOND, FULLER)
    assert get_reason(jobs[0]) is Reason.BEHIND_EVICTOR
    decision = decide(Cluster(FULLER), QUEUES, jobs, NOW + 2 * SECOND)
    assert decision.wake_at is not None
    assert decision.wake_at <= NOW + 12 * MINUTE
    victim, evictor = settle(jobs, NOW + passed, FULLER)
    assert (get_reason(victim) is Reason.STARTED) == is_started
    assert get_reason(evictor) is Reason.NO_ROOM


def test_a_namespace_that_starts_nothing_stops_nobody_for_good() -> None:
    nodes = make_nodes(6)
    jobs = [run_on(make_job(f"v{i}", 8, 8, queue="other"), *[f"node-0{i}"] * 8) for i in range(6)]
    for number in range(6):
        jobs.append(make_job(f"e{number}", 8, 8, queue="first"))
        jobs = settle(jobs, NOW + number * SECOND, nodes)
        jobs = [stop(job) for job in jobs]
    jobs = settle(jobs, NOW + DAY, nodes)
    states = [job.admission.state for job in jobs[:6] if job.admission]
    assert states == [AdmissionState.ADMITTED] * 6


def stop(job: Job) -> Job:
    """Its author edits it while room comes; the operator ends pods of who waits."""
    if job.queue == "first":
        return replace(job, minimum=900, maximum=900)
    is_evicted = get_reason(job) is Reason.EVICTED
    return replace(job, is_waiting=True, pods=()) if is_evicted else job


@pytest.mark.parametrize(
    ("changes", "kept"),
    [
        pytest.param({}, 13, id="waits for room"),
        pytest.param({"minimum": 900, "maximum": 900}, 16, id="is too large by now"),
    ],
)
def test_who_gives_goes_on_giving_while_the_waiter(changes: dict[str, int], kept: int) -> None:
    donor = run_on(make_job("a", 1, 16), *["node-00"] * 8, *["node-01"] * 8)
    waiter = make_job("b", 3, 3)
    told = decide_on(TWO, [donor, waiter])
    waiter = replace(waiter, admission=told["b"], **changes)  # type: ignore[arg-type]
    after = settle([replace(donor, admission=told["a"]), waiter], NOW, queues=MAIN)
    assert after[0].admission is not None
    assert after[0].admission.workers == kept


# ---------------------------------------------------------------- who cannot be written
def hold_both(**changes: object) -> Job:
    """A gang that holds both nodes since an hour."""
    long_ago = NOW - 60 * MINUTE
    told = Admission(queue="main", queued_at=long_ago, since=long_ago, unfit_since=long_ago)
    told = replace(told, reserved=("node-00", "node-01"), reason=Reason.NO_ROOM)
    return replace(make_job("gang", 16, 16, admission=told), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("since", "is_started"),
    [
        pytest.param(None, False, id="is written"),
        pytest.param(NOW, False, id="could not be written once"),
        pytest.param(NOW - 12 * MINUTE, True, id="could not be written for long"),
    ],
)
def test_nodes_are_held_for_a_gang_that(since: int | None, is_started: bool) -> None:
    """One of the two is free by now."""
    rigid = run_on(make_job("rigid", 8, 8), *["node-01"] * 8)
    told = decide_on(TWO, [rigid, hold_both(frozen_since=since), make_job("small", 8, 8)])
    assert (told["small"].state is AdmissionState.ADMITTED) == is_started
    assert since is None or "gang" not in told


def test_who_was_evicted_waits_for_one_that_could_not_be_written_once() -> None:
    victim, evictor = evict()
    victim, _ = settle([victim, replace(evictor, frozen_since=NOW)], NOW + SECOND)
    assert get_reason(victim) is Reason.BEHIND_EVICTOR


def test_who_cannot_be_written_and_holds_nothing_holds_up_nobody() -> None:
    first = make_job("first", 16, 16, created=NOW - MINUTE, frozen_since=NOW)
    assert decide_on(TWO, [first, make_job("next", 8, 8)])["next"].state is AdmissionState.ADMITTED


def test_a_node_that_was_given_to_another_meanwhile_is_his() -> None:
    higher = hold_both(uid="higher", name="higher", priority=1, minimum=8, maximum=8)
    assert higher.admission is not None
    own = replace(higher.admission, queued_at=NOW, reserved=("node-00",))
    rigid = run_on(make_job("rigid", 16, 16), *["node-00"] * 8, *["node-01"] * 8)
    rigid = replace(rigid, priority=2)
    jobs = [rigid, hold_both(frozen_since=NOW), replace(higher, admission=own)]
    assert get_reserved(settle(jobs, NOW, queues=MAIN)[2]) == ("node-00",)


def get_reserved(job: Job) -> tuple[str, ...]:
    assert job.admission is not None
    return job.admission.reserved
