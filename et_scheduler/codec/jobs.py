"""TrainingJobs: what their authors ask for, what the operator says of them, what we told them.

A job of which something cannot be read is a StoredJob with its trouble, and one that was admitted
counts by its pods all the same. Which jobs are none of ours is said here too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median_low

from et_contract.admissions import (
    ADMITTED,
    DEFAULT_QUEUE,
    NO_QUEUE,
    REFUSED,
    WAITING,
    AdmissionState,
    Elasticity,
)
from et_contract.documents import MAX_WORKERS
from et_kube.resources import Json
from et_scheduler.codec.admissions import decode_admission
from et_scheduler.codec.priorities import read_preempts
from et_scheduler.codec.reading import (
    MAX_INTEGER,
    find_moment,
    read_choice,
    read_flag,
    read_integer,
    read_list,
    read_moment,
    read_object,
    read_objects,
    read_text,
)
from et_scheduler.codec.shapes import decode_shape
from et_scheduler.model.jobs import Admission, Gift, Job, Purpose
from et_scheduler.model.shapes import SECOND, Shape

LEAST_COOLDOWN = 30
MOST_COOLDOWN = 900
COST_FACTOR = 10
"""A job grows again when so many times the cost of a resize have passed."""
_MAX_CONDITIONS = 64
_MAX_RESIZES = 3
_MAX_UID = 64
_MAX_QUEUE = 63
_MAX_STATES = 8192
_MAX_ROLES = 2
_ASIDE = frozenset({WAITING, REFUSED})
_ENDS = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as it is stored.

    `job` has no pods yet; None where there is nothing to decide about it. `leaving` are workers
    that have begun to leave, and since when (0: not known). `priority_classes` are names of which
    the first that is there says what workers to come have ("": that of pods that name none); where
    there are no names, `job` says it. `is_proven`: the server would make such a worker, as it has
    said. `trouble` says what of a job cannot be read: it is left alone then. If it was admitted,
    `job` counts by its pods, gives and goes as others do, and grows no more. `is_free`: it runs, or
    will, without a queue: its pods are as those of others.
    """

    job: Job | None = None
    leaving: Mapping[str, int] = field(default_factory=dict)
    priority_classes: tuple[str, ...] = ()
    is_proven: bool = False
    trouble: str = ""
    is_free: bool = False


NOT_OURS = StoredJob()
FREE = StoredJob(is_free=True)


def decode_job(obj: Json) -> StoredJob:
    """A job that runs without a queue, has ended or is being deleted is none of ours."""
    metadata, spec = obj["metadata"], read_object(obj, "spec")
    status = read_object(obj, "status")
    is_waiting, reason = _is_waiting(status), _find_reason(status)
    if metadata.get("deletionTimestamp") or _has_ended(status):
        return NOT_OURS
    if reason == NO_QUEUE:
        return FREE
    told = _find_told(status)
    if not is_waiting and status.get("admission") is None and told.get("status") != "True":
        return NOT_OURS if told else FREE
    is_silent = status.get("shapes") is None
    if is_silent and (spec.get("suspend") is True or reason in _ASIDE):
        return NOT_OURS  # the operator speaks first: not yet, or its pods would not be created
    try:
        leaving = {
            read_text(one, "name"): find_moment(one, "since") or 0
            for one in read_objects(status, "workers", _MAX_STATES)
            if one.get("state") == "Leaving"
        }
        job = _build(metadata, spec, status, is_waiting=is_waiting)
        proof = _find_proof(status)
        classes = _list_priority_classes(spec, proof)
        return StoredJob(job, leaving, classes, is_proven=bool(proof))
    except (ValueError, LookupError, TypeError) as error:
        trouble = f"{type(error).__name__}: {error}"[:256]
        return StoredJob(_build_admitted(metadata, spec, status), trouble=trouble)


def _build_admitted(metadata: Json, spec: Json, status: Json) -> Job | None:
    """What an admitted job is of which no more can be read; None for all others.

    It trains on. Were it left out, an edit that cannot be read would free what it has of its
    queue's limit; were nothing asked of it, its author could keep all that it has grown to.
    """
    try:
        admission = _find_admission(spec, status)
        if admission is None or admission.state is not AdmissionState.ADMITTED:
            return None
        admitted_number = read_integer(status, "admittedNumber", most=MAX_INTEGER)
        is_waiting = _is_waiting(status)
        if is_waiting and admission.number <= admitted_number:
            return None
        return Job(
            uid=read_text(metadata, "uid", _MAX_UID),
            namespace=read_text(metadata, "namespace"),
            name=read_text(metadata, "name"),
            queue=admission.queue,
            launcher=Shape(),
            worker=Shape(),
            minimum=min(_read_least(spec), admission.workers),
            maximum=admission.workers,
            replicas=admission.workers,
            elasticity=admission.elasticity,
            is_waiting=is_waiting,
            is_suspended=spec.get("suspend") is True,
            admitted_number=admitted_number,
            admission=admission,
        )
    except (ValueError, LookupError, TypeError):
        return None


def _read_least(spec: Json) -> int:
    try:
        worker = read_object(read_object(spec, "etReplicaSpecs"), "worker")
        return _read_workers(worker, "minReplicas", 1)
    except ValueError:
        return 1


def _build(metadata: Json, spec: Json, status: Json, *, is_waiting: bool) -> Job:
    worker = read_object(read_object(spec, "etReplicaSpecs"), "worker")
    shapes = read_object(status, "shapes")
    pods = {read_text(one, "role"): one for one in read_objects(shapes, "pods", _MAX_ROLES)}
    is_tried = all("priority" in one for one in pods.values())
    job = Job(
        uid=read_text(metadata, "uid", _MAX_UID),
        namespace=read_text(metadata, "namespace"),
        name=read_text(metadata, "name"),
        queue=_read_queue(spec),
        launcher=_read_shape(pods, "launcher"),
        worker=_read_shape(pods, "worker"),
        minimum=_read_workers(worker, "minReplicas", 1),
        maximum=_read_workers(worker, "maxReplicas", 1),
        replicas=_read_workers(worker, "replicas", 1),
        sizes=_read_sizes(spec),
        priority=read_integer(pods["worker"], "priority", least=-MAX_INTEGER - 1, most=MAX_INTEGER),
        preempts=read_preempts(pods["worker"]),
        cooldown=_find_cooldown(spec, status) * SECOND,
        created=read_moment(metadata, "creationTimestamp") or 0,
        tried_since=None if is_tried else _find_held_since(status),
        is_waiting=is_waiting,
        is_suspended=read_flag(spec, "suspend"),
        admitted_number=read_integer(status, "admittedNumber", most=MAX_INTEGER),
        admission=_find_admission(spec, status),
    )
    return replace(job, elasticity=_find_elasticity(spec, worker, shapes))


def _find_admission(spec: Json, status: Json) -> Admission | None:
    """What we told it. Of one that is admitted and has lost that, what it has by now.

    Its pods run, and count; and until it is told again the operator leaves its number as it is. It
    has stood, and is lacking from now on what it lacks. As one that has given something: the next
    pass notes that this is over, and so all of it is written.
    """
    if status.get("admission") is not None:
        found = decode_admission(status["admission"])
        is_lacking = found.state is AdmissionState.ADMITTED and not found.queue
        return replace(found, queue=_read_queue(spec)) if is_lacking else found
    told = _find_told(status)
    if told.get("status") != "True":
        return None
    worker = read_object(read_object(spec, "etReplicaSpecs"), "worker")
    replicas = _read_workers(worker, "replicas", 1)
    since = find_moment(told, "lastTransitionTime") or 0
    return Admission(
        number=read_integer(status, "admittedNumber", most=MAX_INTEGER),
        state=AdmissionState.ADMITTED,
        queue=_read_queue(spec),
        elasticity=_find_elasticity(spec, worker, read_object(status, "shapes")),
        workers=_read_workers(status, "decidedReplicas", replicas),
        queued_at=since,
        since=since,
        bound_at=since,
        gave_for=Gift(Purpose.LIMIT),
    )


def _read_queue(spec: Json) -> str:
    return read_text(spec, "queue", _MAX_QUEUE) or DEFAULT_QUEUE


def _find_proof(status: Json) -> Json:
    """As what the server would make a worker; {} where it has not said so."""
    for one in read_objects(read_object(status, "shapes"), "pods", _MAX_ROLES):
        if one.get("role") == "worker" and one.get("priority") is not None:
            return one
    return {}


def _list_priority_classes(spec: Json, proof: Json) -> tuple[str, ...]:
    """What the template names, before its pods were tried; then what these would be made with.

    The class of who names none may be another one by now. A former operator has not told it.
    """
    worker = read_object(read_object(spec, "etReplicaSpecs"), "worker")
    template = read_object(read_object(worker, "template"), "spec")
    name = template.get("priorityClassName")
    named = name if isinstance(name, str) else ""  # no pod can be made of anything else
    if not proof:
        return (named,)
    if proof.get("priorityClassName") is None:
        return ()
    proven = read_text(proof, "priorityClassName")
    return (proven,) if named else (proven, "")


def _find_elasticity(spec: Json, worker: Json, shapes: Json) -> Elasticity:
    """Auto needs both bounds, and a launcher that takes other numbers than it started with."""
    default = Elasticity.AUTO if spec.get("queue") else Elasticity.FIXED
    asked = read_choice(spec, "elasticity", Elasticity, default)
    is_possible = (
        worker.get("minReplicas") is not None
        and worker.get("maxReplicas") is not None
        and read_flag(shapes, "elastic")
    )
    return asked if is_possible else Elasticity.FIXED


def _read_shape(pods: Mapping[str, Json], role: str) -> Shape:
    if role not in pods:
        raise ValueError(f"status.shapes says nothing of its {role}")
    return decode_shape(pods[role])


def _read_workers(body: Json, key: str, default: int) -> int:
    return min(read_integer(body, key, default, most=MAX_INTEGER), MAX_WORKERS)


def _read_sizes(spec: Json) -> tuple[int, ...]:
    sizes = read_list(spec, "sizes", MAX_WORKERS)
    if any(type(one) is not int or not 1 <= one <= MAX_WORKERS for one in sizes):
        raise ValueError("sizes has something that is no number of workers")
    return tuple(sorted(set(sizes)))


def _find_cooldown(spec: Json, status: Json) -> int:
    """Seconds. Ten times what a resize of this job costs, unless its author says otherwise."""
    asked = read_integer(spec, "resizeCooldownSeconds", -1, least=-1, most=MAX_INTEGER)
    costs = read_list(status, "resizeSeconds", _MAX_RESIZES)
    if asked < 0:
        known = [one for one in costs if type(one) is int and one >= 0]
        asked = COST_FACTOR * median_low(known) if known else LEAST_COOLDOWN
    return min(max(asked, LEAST_COOLDOWN), MOST_COOLDOWN)


def _is_waiting(status: Json) -> bool:
    """Whether the operator holds it and asks."""
    return _find_reason(status) == WAITING


def _find_reason(status: Json) -> str:
    """Why the operator holds it; "" where it does not."""
    return str(_find_held(status).get("reason", ""))


def _find_held_since(status: Json) -> int | None:
    return read_moment(_find_held(status), "lastTransitionTime")


def _find_held(status: Json) -> Json:
    """The condition that says that it is held; {} where it is not."""
    told = _find_told(status)
    return told if told.get("status") == "False" else {}


def _find_told(status: Json) -> Json:
    """The condition that says whether it is admitted; {} where it was never in a queue."""
    return next((one for one in _list_conditions(status) if one.get("type") == ADMITTED), {})


def _has_ended(status: Json) -> bool:
    return any(
        one.get("type") in _ENDS and one.get("status") == "True" for one in _list_conditions(status)
    )


def _list_conditions(status: Json) -> list[Json]:
    """What can be read of them: a job does not leave its queue because one more was written."""
    found = status.get("conditions")
    conditions = found[:_MAX_CONDITIONS] if isinstance(found, list) else []
    return [one for one in conditions if isinstance(one, dict)]
