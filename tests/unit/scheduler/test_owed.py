"""What is kept, and asked for, within a queue's limit: for nobody who could not start even so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from et_contract.admissions import AdmissionState
from et_scheduler.model.cluster import Cluster, Leaving
from et_scheduler.model.decisions import Decision
from et_scheduler.model.jobs import Admission, Job
from et_scheduler.model.queues import Queue
from et_scheduler.model.reasons import Reason
from et_scheduler.model.rules import Rules
from et_scheduler.model.shapes import CPU, PODS, SECOND, make_shape
from et_scheduler.planning.passing import decide
from tests.unit.scheduler.makers import NOW, make_job, make_nodes, run_on

DAEMONS = tuple(replace(node, taken={CPU: 100, PODS: 1}) for node in make_nodes(3))
"""On each node a pod of others leaves all but a tenth of a CPU."""
LIMITED = Queue("main", limits={CPU: 15_000})
VAIN = make_job("vain", 1, 1, cpu=8, namespace="other")
"""An empty node would hold its worker."""
FULL = run_on(make_job("r", 1, 20), *["node-00"] * 7, *["node-01"] * 7)
SMALL = run_on(make_job("r", 1, 20), *["node-00"] * 3)


def decide_here(
    jobs: list[Job], queue: Queue = LIMITED, second: int = 0, kinds: int = 256
) -> Decision:
    queues, now = (queue, Queue("second")), NOW + second * SECOND
    return decide(Cluster(DAEMONS), queues, jobs, now, Rules(kinds=kinds))


def get_size(decision: Decision) -> int | None:
    """What the running job is to have, if that is another one."""
    return {one.uid: one.admission.workers for one in decision.changes}.get("r")


def lack(job: Job, reason: Reason = Reason.NO_ROOM) -> Job:
    """The same, told so when it was looked at last."""
    told = Admission(0, AdmissionState.WAITING, job.queue, queued_at=NOW - 1, since=NOW - 1)
    return replace(job, admission=replace(told, reason=reason))


def test_nobody_gives_of_a_limit_for_one_whom_pods_of_others_leave_no_room() -> None:
    decision = decide_here([FULL, VAIN])
    assert get_size(decision) is None
    told = decision.explanations["vain"]
    assert told.reason is Reason.NO_ROOM
    assert "pods of others leave room for 0 workers" in told.message


def test_nothing_of_a_limit_is_kept_for_one_whom_pods_of_others_leave_no_room() -> None:
    assert get_size(decide_here([SMALL, VAIN])) == 15


def test_what_leaves_keeps_nobody_from_what_is_owed_to_him() -> None:
    """As where a Deployment rolls: its old pod is on the node still, beside the new one."""
    leaving = (Leaving(NOW - SECOND, {CPU: 1000, PODS: 1}),)
    nodes = [replace(node, taken={CPU: 1100, PODS: 2}, leaving=leaving) for node in DAEMONS]
    jobs = [FULL, make_job("waits", 1, 1, cpu=7)]
    assert get_size(decide(Cluster(tuple(nodes)), (LIMITED,), jobs, NOW)) == 8


def test_of_a_limit_that_is_kept_for_who_comes_behind_one_who_could_never_start() -> None:
    waits = make_job("waits", 1, 1, cpu=7, created=NOW + 1)
    assert get_size(decide_here([FULL, VAIN, waits])) == 8
    assert (
        decide_here([FULL, VAIN, waits])
        .explanations["waits"]
        .message.endswith("is at its limit until elastic workers have gone")
    )


def test_where_nodes_may_come_others_give_for_one_who_has_no_room_on_those_there_are() -> None:
    assert get_size(decide_here([FULL, VAIN], replace(LIMITED, is_autoscaled=True))) == 7


def test_for_a_larger_least_size_counts_what_the_job_has_itself() -> None:
    """Beside that there is room for one more on an empty node, but for the pods of others."""
    raised = run_on(make_job("raised", 4, 4, cpu=4), "node-02", "node-01", "node-00")
    runs = run_on(make_job("r", 1, 5, worker=make_shape({CPU: 100})), *["node-00"] * 5)
    queue = replace(LIMITED, limits={CPU: 16_200})
    assert get_size(decide_here([runs, raised], queue)) is None


@pytest.mark.parametrize("reason", [Reason.NO_ROOM, Reason.AT_LIMIT])
def test_for_whomever_others_have_between_their_turns_nothing_is_kept_in_vain(
    reason: Reason,
) -> None:
    shapes = [make_shape({CPU: 7999 - i}) for i in range(40)]
    vain = [
        lack(make_job(f"v-{i:02}", 1, 1, worker=shape, namespace="other"), reason)
        for i, shape in enumerate(shapes)
    ]
    for second in range(10):
        assert get_size(decide_here([SMALL, *vain], second=second, kinds=4)) == 15


def test_behind_many_kinds_of_others_that_could_never_start_one_is_owed_what_is_his() -> None:
    """Whether it is his turn, or not."""
    shapes = [make_shape({CPU: 7999 - i}) for i in range(40)]
    vain = [
        lack(make_job(f"v-{i:02}", 1, 1, worker=shape, namespace="other"))
        for i, shape in enumerate(shapes)
    ]
    kinds = [make_job(f"w-{i}", 1, 1, cpu=20 + i, namespace="mine") for i in range(12)]
    waits = lack(make_job("x", 1, 1, cpu=7, namespace="mine", preempts=False))
    waits = replace(waits, admission=replace(waits.admission, queued_at=NOW + 1))
    others = run_on(make_job("o", 14, 14, queue="second"), *["node-01"] * 7, *["node-02"] * 7)
    jobs, seen = [SMALL, others, *vain, *kinds, waits], set[bool]()
    queue = replace(LIMITED, limits={CPU: 12_000})
    for second in range(6):
        decision = decide_here(jobs, queue, second, kinds=4)
        seen.add(decision.explanations["x"].message != "")
        assert get_size(decision) == 5
    assert seen == {True, False}
