"""What the operator recorded about a TrainingJob: what people see, and decisions that survive.

Drafts change it, the codec writes and reads it field by field: a new field is on the wire, belongs
into the CRD, and has a default, for a status that an older operator wrote has none of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from et_operator.model.admissions import Shapes
from et_operator.model.blacklists import GivenUp
from et_operator.model.conditions import Condition, is_true
from et_operator.model.listings import Listing
from et_operator.model.notices import NoticeRecord
from et_operator.model.phases import JobPhase
from et_operator.model.shortages import Shortage


@dataclass(frozen=True, slots=True)
class WorkerId:
    """One incarnation of a worker. `uid` is "" where only the name has been decided so far."""

    name: str
    uid: str = ""


class ScalingKind(StrEnum):
    """What asked for the change; REPLICAS is `kubectl scale` or an HPA, QUEUE et-scheduler."""

    IN = "ScaleIn"
    OUT = "ScaleOut"
    REPLICAS = "Replicas"
    QUEUE = "Queue"

    @property
    def is_number(self) -> bool:
        """Whether no object of its own asked for it, but a number that is there already."""
        return self in {ScalingKind.REPLICAS, ScalingKind.QUEUE}


class Leaving(StrEnum):
    """How a worker left."""

    GRACEFUL = "graceful"
    FORCED = "forced"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class WorkerOutcome:
    """One worker's end in a scaling: how, and the seconds from the decision until it was known."""

    name: str
    result: Leaving
    seconds: float
    reason: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class ScriptAttempt:
    """The newest attempt of a scaling's script; the result comes with the broker's report."""

    number: int
    started: datetime
    code: int | None = None
    output: str = ""
    next_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a scaling ended; recorded before anything follows from it."""

    succeeded: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class ScalingRecord:
    """The decision about one scaling, written to the job's status before it is acted on.

    `final` is what `worker.replicas` must become when the scaling was stopped; None: it stays.
    """

    kind: ScalingKind
    name: str
    uid: str
    base: int
    target: int
    started: datetime
    victims: tuple[WorkerId, ...] = ()
    added: tuple[WorkerId, ...] = ()
    choice: str = ""
    workers: tuple[WorkerOutcome, ...] = ()
    script: ScriptAttempt | None = None
    outcome: Outcome | None = None
    final: int | None = None
    ended: datetime | None = None


@dataclass(frozen=True, slots=True)
class UntoldEnd:
    """How a scaling ended whose own status could not be written."""

    kind: ScalingKind
    name: str
    uid: str
    outcome: Outcome


class WorkerState(StrEnum):
    """Of workers that are joining or leaving, or are known to have ended."""

    JOINING = "Joining"
    LEAVING = "Leaving"
    GONE = "Gone"


@dataclass(frozen=True, slots=True)
class WorkerRecord:
    """What must be remembered about one worker beyond its pod. GONE is final for a uid.

    A JOINING record with uid "" is a name that was decided and whose pod has not been seen yet.
    Of a LEAVING one: `generation` is that of the config which first names it draining (None: no
    written config ever held it), `waiting_since` is what its drain time-out is counted from, and
    `served` says that horovodrun has read a list without it.
    """

    name: str
    uid: str
    state: WorkerState
    reason: str = ""
    since: datetime | None = None
    generation: int | None = None
    waiting_since: datetime | None = None
    served: bool = False
    taken: bool = False
    """Whether the platform ended it, or somebody through it, or we by force, its time over."""
    ours: bool | None = None
    """Whether that was our doing for the job's own sake, so that what it explains has a limit.

    Of a JOINING one: whether the worker in whose place it comes was used up.
    None: no, which needs no room in the status of a large job.
    """
    replaces: str = ""
    """Of a JOINING one: the worker that it is made for and held until that one leaves."""
    retries: int = 0
    """Of a JOINING one: as its pod's. Its place is counted from `since` (planning/replacing.py)."""


@dataclass(frozen=True, slots=True)
class RoleCounts:
    """Pods of one role."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0


@dataclass(frozen=True, slots=True)
class ReplicaStatuses:
    """`status.replicaStatuses`, with et-operator's keys."""

    launcher: RoleCounts = field(default_factory=RoleCounts)
    worker: RoleCounts = field(default_factory=RoleCounts)


@dataclass(frozen=True, slots=True)
class Failures:
    """The ledger: only `user` counts against backoffLimit."""

    user: int = 0
    infrastructure: int = 0


@dataclass(frozen=True, slots=True)
class Backoff:
    """How often something failed without ten good minutes in between, and when it last did."""

    count: int
    at: datetime


@dataclass(frozen=True, slots=True)
class LauncherMove:
    """That a launcher ends before its node does, so that another one takes its place elsewhere.

    `uid` is its pod, `epoch` its own, `reason` of which node, or of which pod, what is said and by
    which sign; `at` is when it was decided. None: it was not, but the job's script runs for that
    in it, or has: since when it was to (`started`; as if sooner, of one that has ended with much of
    its time left), for which `word`, with which `deadline`, and its exit `code`, as far as it has
    ended. `row` is how many right before it were moved, all but the first of them young.
    """

    uid: str
    epoch: int
    reason: str
    at: datetime | None = None
    deadline: datetime | None = None
    word: str = ""
    started: datetime | None = None
    code: int | None = None
    row: int = 0


@dataclass(frozen=True, slots=True)
class Runtime:
    """What a job's pods run, pinned while any of them lives, so that versions cannot mix."""

    digest: str
    broker_image: str
    version: int = 1


@dataclass(frozen=True, slots=True)
class JobStatus:
    """`status` of a TrainingJob: observations for people, decisions that must survive a crash.

    `trouble` names the conditions that somebody should look at, for lists of jobs.
    `target_workers` and `current_workers` are names of workers: clients that know et-operator's
    types read lists there and would fail on anything else. `decided_replicas` is the number of
    workers that was decided last: a spec that says otherwise is a change yet to be decided.
    `launcher_uid` is the pod of `epoch`, "" until it was seen; `keys_secret` the Secret of ssh keys
    that was made for the job, "" until it was. `launch_backoff` is what the next launcher waits
    for, `lost_launchers` what the limit of those is about that the platform ended.
    `admitted_number` is that of the newest admission that was carried out, or spent, and `shapes`
    what the pods of a job with a queue ask of nodes; `resize_seconds` is how long the last times
    took that it grew, the newest last. `slowest_drain` is how long the slowest worker has taken to
    leave by itself, in seconds, 0 before any has. `listings` are of the list that holds, the oldest
    first. `launcher_move` is the newest.
    """

    phase: JobPhase | None = None
    trouble: str = ""
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None
    replica_statuses: ReplicaStatuses = field(default_factory=ReplicaStatuses)
    target_workers: tuple[str, ...] = ()
    current_workers: tuple[str, ...] = ()
    current_scaler: str = ""
    scaling: ScalingRecord | None = None
    untold: tuple[UntoldEnd, ...] = ()
    generation: int = 0
    epoch: int = 0
    runtime: Runtime | None = None
    restart_count: int = 0
    start_time: datetime | None = None
    completion_time: datetime | None = None
    replicas: int = 0
    selector: str = ""
    last_worker_index: int = -1
    failures: Failures = field(default_factory=Failures)
    workers: tuple[WorkerRecord, ...] = ()
    decided_replicas: int | None = None
    launcher_uid: str = ""
    launch_backoff: Backoff | None = None
    lost_launchers: Backoff | None = None
    shortage: Shortage | None = None
    given_up: GivenUp | None = None
    keys_secret: str = ""
    admitted_number: int = 0
    shapes: Shapes | None = None
    resize_seconds: tuple[int, ...] = ()
    notices: tuple[NoticeRecord, ...] = ()
    slowest_drain: int = 0
    listings: tuple[Listing, ...] = ()
    launcher_move: LauncherMove | None = None

    @property
    def has_finished(self) -> bool:
        """Whether the job's end is recorded."""
        return is_true(self.conditions, "Succeeded") or is_true(self.conditions, "Failed")

    @property
    def is_suspended(self) -> bool:
        """Whether the suspension is recorded (its pods may still be on their way out)."""
        return is_true(self.conditions, "Suspended")
