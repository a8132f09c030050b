"""ScaleIn and ScaleOut as one noun.

The codec makes it; `invalid` says what cannot be used. In which order they have their turns is told
here (`order`), whether one may have it in planning/turns.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from et_kube.resources import TRAINING_JOBS
from et_operator.model.conditions import Condition
from et_operator.model.keys import OwnerReference
from et_operator.model.phases import ScalingPhase
from et_operator.model.statuses import ScalingKind, WorkerOutcome


@dataclass(frozen=True, slots=True)
class ScalingStatus:
    """`status` of a ScaleIn or ScaleOut; the last condition is the current one.

    `seen_version`: its resourceVersion when it was first written to here; 0: not yet.
    """

    phase: ScalingPhase | None = None
    conditions: tuple[Condition, ...] = ()
    observed_generation: int | None = None
    job_uid: str = ""
    to_delete_pods: tuple[str, ...] = ()
    add_pods: tuple[str, ...] = ()
    workers: tuple[WorkerOutcome, ...] = ()
    script_attempts: int = 0
    script_output: str = ""
    start_time: datetime | None = None
    completion_time: datetime | None = None
    seen_version: int = 0


@dataclass(frozen=True, slots=True)
class Scaling:
    """One ScaleIn or ScaleOut as last seen.

    `is_owned`: it has a controller, or more owners than can be written again beside one.
    """

    kind: ScalingKind
    namespace: str
    name: str
    uid: str
    resource_version: str = field(compare=False)
    generation: int
    created: datetime
    job_name: str
    count: int | None = None
    pod_names: tuple[str, ...] = ()
    script: str = ""
    env: tuple[tuple[str, str], ...] = ()
    timeout: timedelta | None = None
    backoff_limit: int = 0
    ttl_after_finished: timedelta | None = None
    is_owned: bool = False
    owners: tuple[OwnerReference, ...] = ()
    deletion_requested: bool = False
    status: ScalingStatus = field(default_factory=ScalingStatus)
    invalid: str = ""

    @property
    def order(self) -> tuple[datetime, int, str]:
        """By which the scalings of a job take their turns, oldest first.

        Times of creation have whole seconds; within one of them the version decides, which is that
        of the creation, or of our first write, which comes in the same order. That of later writes
        does not: each would change whose turn it is, and with it what all others are told.
        """
        return self.created, self.status.seen_version or self._version, self.uid

    @property
    def _version(self) -> int:
        return int(self.resource_version) if self.resource_version.isdecimal() else 0

    def see(self) -> ScalingStatus:
        """The scaling's status with its place in that order."""
        seen = self.status.seen_version or self._version
        return replace(self.status, seen_version=seen)

    @property
    def is_accepted(self) -> bool:
        """Whether it has been written to: as the job's own, or about it. Then its end can be."""
        return self.is_owned or bool(self.status.job_uid)

    def is_of_other(self, job_uid: str) -> bool:
        """Whether it was accepted for another job than this one: a former one of the same name."""
        owners = {o.uid for o in self.owners if o.kind == TRAINING_JOBS.kind}
        return self.status.job_uid not in {"", job_uid} or bool(owners - {job_uid})
