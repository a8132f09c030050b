"""What the author of a TrainingJob asked for, with every default filled in.

The codec fills it in, from the manifest and from what the command says of itself; after that nobody
looks for a default. What a queue lets the job have is put in its place by planning/admitting.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from et_contract.admissions import Elasticity
from et_contract.documents import MAX_WORKERS
from et_kube.resources import Json
from et_operator.model.scripts import NoticeScript


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


class NoticePolicy(StrEnum):
    """For which notices a worker is moved: those of nodes that surely end, or all of them."""

    FIRM = "Firm"
    EAGER = "Eager"


class NoticeSignal(StrEnum):
    """By which signal processes of a worker are told of a notice, if they have a handler for it."""

    NONE = "None"
    USR1 = "SIGUSR1"
    USR2 = "SIGUSR2"


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
    """The pods of a job's workers: how they are made, how many, and within which bounds.

    A bound that its author has not given is None: how many a start needs then, JobSpec knows.
    """

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
    notice_policy: NoticePolicy = NoticePolicy.FIRM
    notice_signal: NoticeSignal = NoticeSignal.NONE
    scripts: ScriptRight = ScriptRight.FILES
    notice_script: NoticeScript | None = None
    launcher: str = "other"
    """Which one its command starts, as et_contract/starters.py names it."""
    is_elastic: bool = True
    """Whether workers may join and leave while that runs."""
    command_least: int = 0
    """With how few workers that goes on: below it waits for others, and gives up. 0: not known."""
    command_most: int = 0
    """How many processes it lets run, all workers together. 0: not known."""
    is_alone: bool = False
    """Whether the command keeps its processes in the launcher's pod, as far as its options tell."""
    queue: str = ""
    """The TrainingQueue that it waits in; "" for a job that starts at once."""
    elasticity: Elasticity | None = None
    """Who chooses its number of workers, where its author says so."""

    @property
    def least_workers(self) -> int | None:
        """With how many workers the command may be started; None: as many as were decided."""
        return self.worker.min_replicas if self.is_elastic else None

    def find_needed(self, decided: int | None) -> int:
        """With how many workers the command may be started.

        `decided` is the number that the operator has decided on, None before it has: it counts for
        a job without `least_workers`.
        """
        return self.least_workers or decided or self.worker.replicas
