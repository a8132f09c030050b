"""Training jobs as their scheduler sees them, and what it has told them so far.

An admission is all the memory there is: what a pass has to know of former ones is a field of it,
and on the wire, for the next leader has nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from et_contract.admissions import ANYWHERE, AdmissionState, Elasticity, Placement
from et_scheduler.model.reasons import Reason
from et_scheduler.model.shapes import SECOND, Shape

ABOVE_ALL = 2**31
"""Above the priority of any pod, or job."""


class Purpose(StrEnum):
    """What a job gives its workers for."""

    GANG = "Gang"
    SERVICE = "Service"
    LEVEL = "Level"
    LIMIT = "Limit"


@dataclass(frozen=True, slots=True)
class Gift:
    """For whom the pods go that are leaving: a job's or a pod's uid, "" for the level of all."""

    purpose: Purpose
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Eviction:
    """The job was evicted for this one, of this queue, then; `is_early`: before it stood."""

    uid: str
    queue: str
    at: int
    is_early: bool = False


@dataclass(frozen=True, slots=True)
class Admission:
    """`status.admission`: all that the scheduler decides about a job, and remembers of it.

    `workers` is what an admitted job may have now. `leaving` are the names that go first, asked
    `leaving_since`.
    `reserved` are nodes that a waiting job holds, for the first time `reserved_since`.
    `queued_at` is its place in line, `since` that of `state`; `bound_at` says that its least size
    was bound in this admission. `grown_from` is what it had before it was to have more, until that
    has come. It lacks room since `unfit_since`, and is told since `coming_since` that room comes;
    where others were asked for it, both are then. In so many `rounds` whole jobs have gone for it
    since it stood, in the last of them at `round_at`.
    It grew last `resized_at`, and `levelled_at` into room that others had given for the level of
    all, which it has `levelled_since`; so often in a row (`level_turns`) it has given such room
    again to one that was there already.
    """

    number: int = 0
    state: AdmissionState = AdmissionState.WAITING
    queue: str = ""
    elasticity: Elasticity = Elasticity.AUTO
    workers: int = 0
    leaving: tuple[str, ...] = ()
    placement: Placement = ANYWHERE
    reserved: tuple[str, ...] = ()
    reason: Reason = Reason.NONE
    message: str = ""
    queued_at: int = 0
    since: int = 0
    reserved_since: int | None = None
    unfit_since: int | None = None
    bound_at: int | None = None
    short_since: int | None = None
    gave_for: Gift | None = None
    evictions: tuple[Eviction, ...] = ()
    attempts: int = 0
    retry_at: int | None = None
    resized_at: int | None = None
    levelled_at: int | None = None
    levelled_since: int | None = None
    level_turns: int = 0
    rounds: int = 0
    round_at: int | None = None
    leaving_since: int | None = None
    grown_from: int = 0
    coming_since: int | None = None


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod of a job that has not ended. `node` is "" until it is bound.

    `shape` is given where the pod was made from another template than the job has now.
    `is_draining` says that its leaving has begun, and `is_terminating` that it is being deleted;
    `leaving_since` when the first of both was asked for, 0 where that is not known.
    """

    name: str
    node: str = ""
    created: int = 0
    is_launcher: bool = False
    is_draining: bool = False
    is_terminating: bool = False
    shape: Shape | None = None
    leaving_since: int = 0


@dataclass(frozen=True, slots=True)
class Job:
    """A job that has a queue and is held or admitted.

    `minimum`, `maximum` and `replicas` are of the spec; which of them count depends on the
    elasticity. `sizes` rises; empty: any. `is_waiting` says that the operator holds it and asks;
    `admitted_number` is the newest admission that it has carried out. Who does not `preempt` is in
    line by his priority, and nobody gives or goes for him. `tried_since`: the operator asks since
    then whether its pods would be created; None: they would. `frozen_since`: it cannot be
    written, since then, so nothing about it is decided, and what it was promised stays its own.
    """

    uid: str
    namespace: str
    name: str
    queue: str
    launcher: Shape
    worker: Shape
    minimum: int
    maximum: int
    replicas: int = 1
    elasticity: Elasticity = Elasticity.AUTO
    sizes: tuple[int, ...] = ()
    priority: int = 0
    preempts: bool = True
    cooldown: int = 30 * SECOND
    created: int = 0
    tried_since: int | None = None
    is_waiting: bool = True
    is_suspended: bool = False
    frozen_since: int | None = None
    admitted_number: int = 0
    pods: tuple[Pod, ...] = ()
    admission: Admission | None = None

    @property
    def is_frozen(self) -> bool:
        """Whether it cannot be written now: it may wait, run, or neither, all the same."""
        return self.frozen_since is not None
