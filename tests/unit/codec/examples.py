"""One status of each kind in which every field has a value."""

from __future__ import annotations

from datetime import UTC, datetime

from et_kube.notices import NoticeKind
from et_operator.model.admissions import Shapes
from et_operator.model.blacklists import GivenUp, Moment
from et_operator.model.conditions import Condition
from et_operator.model.listings import Listing
from et_operator.model.notices import NoticeRecord
from et_operator.model.phases import JobPhase, ScalingPhase
from et_operator.model.scalings import ScalingStatus
from et_operator.model.shortages import Shortage
from et_operator.model.statuses import (
    Backoff,
    Failures,
    JobStatus,
    LauncherMove,
    Leaving,
    Outcome,
    ReplicaStatuses,
    RoleCounts,
    Runtime,
    ScalingKind,
    ScalingRecord,
    ScriptAttempt,
    WorkerId,
    WorkerOutcome,
    WorkerRecord,
    WorkerState,
)

NOON = datetime(2026, 1, 2, 12, 0, 0, 250000, tzinfo=UTC)
CONDITION = Condition("Running", "True", "WorkersRun", "two workers", NOON, 3)
OUTCOMES = (WorkerOutcome("train-worker-2", Leaving.GRACEFUL, 1.5, "left by itself", "uid-2"),)

FULL_JOB_STATUS = JobStatus(
    phase=JobPhase.SCALING,
    trouble="ImagePullFailing,Unschedulable",
    conditions=(CONDITION, Condition("HostsListed", "False", "Waiting", "", NOON)),
    observed_generation=4,
    replica_statuses=ReplicaStatuses(RoleCounts(1, 0, 2), RoleCounts(3, 0, 1)),
    target_workers=("train-worker-0", "train-worker-3"),
    current_workers=("train-worker-0",),
    current_scaler="ScaleIn:default/in",
    scaling=ScalingRecord(
        kind=ScalingKind.IN,
        name="in",
        uid="uid-s",
        base=3,
        target=2,
        started=NOON,
        victims=(WorkerId("train-worker-2", "uid-2"),),
        added=(WorkerId("train-worker-3"),),
        choice="newest",
        workers=OUTCOMES,
        script=ScriptAttempt(2, NOON, code=1, output="no", next_at=NOON),
        outcome=Outcome(succeeded=False, reason="Preempted", message="by a ScaleIn"),
        final=2,
    ),
    generation=7,
    epoch=2,
    runtime=Runtime("abc", "localhost/et-operator:dev", 1),
    restart_count=1,
    start_time=NOON,
    completion_time=NOON,
    replicas=3,
    selector="training-job-name=train",
    last_worker_index=3,
    failures=Failures(1, 2),
    workers=(
        WorkerRecord(
            name="train-worker-2",
            uid="uid-2",
            state=WorkerState.LEAVING,
            reason="in",
            since=NOON,
            generation=7,
            waiting_since=NOON,
            served=True,
            taken=True,
            ours=True,
        ),
        WorkerRecord("train-worker-3", "", WorkerState.JOINING),
    ),
    decided_replicas=2,
    launcher_uid="uid-l",
    launch_backoff=Backoff(1, NOON),
    lost_launchers=Backoff(1, NOON),
    shortage=Shortage(5, NOON, NOON),
    given_up=GivenUp(5, (Moment(NOON, 2),), NOON),
    admitted_number=2,
    resize_seconds=(12, 9),
    notices=(
        NoticeRecord(
            "it leaves", NoticeKind.FIRM, NOON, "n1", "", NOON, NOON, "taint t", through=3
        ),
    ),
    slowest_drain=7,
    listings=(Listing(NOON, (0, 2)),),
    launcher_move=LauncherMove("uid-l", 1, "n1: it leaves (taint t)", NOON, NOON, "s", NOON, 1, 2),
    shapes=Shapes(({"role": "worker", "requests": {"cpu": 1000}},), elastic=False),
)

FULL_SCALING_STATUS = ScalingStatus(
    phase=ScalingPhase.SUCCEEDED,
    conditions=(CONDITION,),
    observed_generation=1,
    job_uid="uid-j",
    to_delete_pods=("train-worker-2",),
    add_pods=("train-worker-3",),
    workers=OUTCOMES,
    script_attempts=2,
    script_output="done",
    start_time=NOON,
    completion_time=NOON,
    seen_version=4711,
)
