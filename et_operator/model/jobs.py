"""TrainingJob: what its author asked for, and what the operator recorded about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from et_contract.admissions import Elasticity
from et_contract.documents import MAX_WORKERS
from et_kube.resources import TRAINING_JOBS, Json, Ref
from et_operator.model.admissions import Admission, Shapes
from et_operator.model.blacklists import GivenUp
from et_operator.model.conditions import Condition, is_true
from et_operator.model.phases import JobPhase
from et_operator.model.shortages import Shortage


@dataclass(frozen=True, slots=True, order=True)
class JobKey:
    """Namespace and name: what a reconcile pass is about."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def ref(self) -> Ref:
        """Where the job is in the API."""
        return Ref(TRAINING_JOBS, self.namespace, self.name)


class Owner(NamedTuple):
    """The job that an object in its namespace says to be controlled by."""

    name: str
    uid: str


class AttachMode(StrEnum):
    """How the launcher reaches its workers."""

    KUBEXEC = "kubexec"
    SSH = "ssh"


class LauncherCreation(StrEnum):
    """When the launcher pod is created."""

    AT_STARTUP = "AtStartup"
    WAIT_FOR_WORKERS_READY = "WaitForWorkersReady"


class CleanPodPolicy(StrEnum):
    """Which pods are deleted when the job has ended."""

    NONE = "None"
    RUNNING = "Running"
    ALL = "All"


class RestartPolicy(StrEnum):
    """Whether the job is tried again after the user's own failure."""

    NEVER = "Never"
    ON_FAILURE = "OnFailure"
    ALWAYS = "Always"
    EXIT_CODE = "ExitCode"


class StallPolicy(StrEnum):
    """What becomes of a launcher whose command has stopped asking for hosts."""

    IGNORE = "Ignore"
    RESTART = "Restart"
    FAIL = "Fail"


class LossRecovery(StrEnum):
    """Whether ranks of an elastic horovodrun end a broken ring, or wait for Gloo's time-out."""

    FAST = "Fast"
    WAIT = "Wait"


class ScriptRight(StrEnum):
    """What the authors of scalings may have run in a job's launcher: its own author says."""

    FILES = "files"
    ENVIRONMENT = "environment"
    SHELL = "shell"


MANY_WORKERS = (
    f"a job has {MAX_WORKERS} workers at most, the record of more would not fit into one object of "
    "the API server: give each more slots, or make several jobs"
)


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """How many workers, within which bounds; `minimum` is `replicas` where it was not given."""

    template: Json
    replicas: int = 1
    min_replicas: int | None = None
    max_replicas: int | None = None


@dataclass(frozen=True, slots=True)
class JobSpec:
    """`spec` of a TrainingJob with every default filled in."""

    launcher_template: Json
    worker: WorkerSpec
    attach_mode: AttachMode = AttachMode.KUBEXEC
    launcher_creation: LauncherCreation = LauncherCreation.AT_STARTUP
    slots_per_worker: int = 1
    clean_pod_policy: CleanPodPolicy = CleanPodPolicy.RUNNING
    restart_policy: RestartPolicy = RestartPolicy.NEVER
    backoff_limit: int = 6
    suspend: bool = False
    active_deadline: timedelta | None = None
    ttl_after_finished: timedelta | None = None
    drain_timeout: timedelta = timedelta(seconds=600)
    stall_policy: StallPolicy = StallPolicy.IGNORE
    loss_recovery: LossRecovery = LossRecovery.FAST
    scripts: ScriptRight = ScriptRight.FILES
    launcher: str = "other"
    """Which one its command starts, as et_contract/starters.py names it."""
    is_elastic: bool = True
    """Whether workers may join and leave while that runs."""
    command_least: int = 0
    """With how few workers that goes on: below it waits for others, and gives up. 0: not known."""
    queue: str = ""
    """The TrainingQueue that it waits in; "" for a job that starts at once."""
    elasticity: Elasticity | None = None
    """Who chooses its number of workers, where its author says so."""

    @property
    def least_workers(self) -> int | None:
        """With how many workers the command may be started; None: as many as were decided."""
        return self.worker.min_replicas if self.is_elastic else None

    def find_needed(self, decided: int | None) -> int:
        """The same as a number, where `decided` workers, if any yet, were decided."""
        return self.least_workers or decided or self.worker.replicas


@dataclass(frozen=True, slots=True)
class WorkerId:
    """One incarnation of a worker. `uid` is None where only the name has been decided so far."""

    name: str
    uid: str | None = None


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
    uid: str | None
    result: Leaving
    seconds: float
    reason: str = ""


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
    """Whether the platform ended it, or somebody through it."""
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
    took that it grew, the newest last.
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

    @property
    def has_finished(self) -> bool:
        """Whether the job's end is recorded."""
        return is_true(self.conditions, "Succeeded") or is_true(self.conditions, "Failed")

    @property
    def is_suspended(self) -> bool:
        """Whether the suspension is recorded (its pods may still be on their way out)."""
        return is_true(self.conditions, "Suspended")


@dataclass(frozen=True, slots=True)
class TrainingJob:
    """One TrainingJob as last seen; `invalid` says what its author must change, if anything.

    `is_orphaning`: who deletes it wants its pods and all else of it to stay. `annotations` are
    those that decisions read, and no others. `unread` are the fields of its status, by their names
    on the wire, that hold decisions and cannot be read, each with the reason: as written by a newer
    operator, or by hand.

    `admission` is et-scheduler's word; None where it has said none that can be read.
    """

    key: JobKey
    uid: str
    resource_version: str = field(compare=False)
    generation: int
    created: datetime
    spec: JobSpec | None
    status: JobStatus = field(default_factory=JobStatus)
    annotations: Mapping[str, str] = field(default_factory=dict)
    deletion_requested: datetime | None = None
    is_orphaning: bool = False
    invalid: str = ""
    warnings: tuple[str, ...] = ()
    is_foreign: bool = False
    unread: Mapping[str, str] = field(default_factory=dict)
    admission: Admission | None = None

    @property
    def owner(self) -> Owner:
        """What everything that is the job's own says of its owner."""
        return Owner(self.key.name, self.uid)

    def fill_queue(self, queue: str) -> TrainingJob:
        """The same, in this queue where its author names none."""
        if self.spec is None or self.spec.queue:
            return self
        return replace(self, spec=replace(self.spec, queue=queue))
