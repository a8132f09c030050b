"""Our own three kinds, as their authors wrote them, to model objects.

Nothing here raises for what an author wrote: an object that cannot be used says so in `invalid`.
The API server refuses most of it already; all is checked again, because rules in a CRD may be older
than this operator and are not applied to what was stored before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from et_operator.codec.children import find_owner_uid
from et_operator.codec.fields import Fields
from et_operator.codec.statuses import decode_status
from et_operator.codec.templates import count_gpus, decode_launcher_template, decode_worker_template
from et_operator.codec.times import parse_time
from et_operator.errors import InvalidObject
from et_operator.model.jobs import (
    AttachMode,
    CleanPodPolicy,
    JobKey,
    JobSpec,
    JobStatus,
    LauncherCreation,
    RestartPolicy,
    ScalingKind,
    StallPolicy,
    TrainingJob,
    WorkerSpec,
)
from et_operator.model.names import ANNOTATION_LAUNCHER, MAX_JOB_NAME
from et_operator.model.resources import Json
from et_operator.model.scalings import Scaling, ScalingStatus
from launcher import launchers

ANNOTATION_SUSPENDED = "job-supervisor.kube-ai.io/job-suspended"
"""et-operator's way to suspend a job."""
MAX_SLOTS = 1024
"""More ranks than a host can have; a host list is read whole every second."""

_ANNOTATION_SSH_SECRET = "arena.kubeflow.org/ssh-secret"  # noqa: S105 (a name, not a secret)
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_OUR_FIELDS = ("epoch", "generation", "observedGeneration")
_FOR_PEOPLE = frozenset(
    {
        "phase",
        "observedGeneration",
        "replicaStatuses",
        "targetWorkers",
        "currentWorkers",
        "currentScaler",
        "replicas",
        "selector",
    }
)
"""Fields of a job's status that are computed anew in each pass; the others are decisions."""
_LONG_AGO = datetime.min.replace(tzinfo=UTC)


def decode_job(obj: Json) -> TrainingJob:
    """The job; with `spec` None and a sentence in `invalid` where its author must change it."""
    metadata: Json = obj.get("metadata") or {}
    annotations: Json = metadata.get("annotations") or {}
    body: Json = obj.get("status") or {}
    status, problems = decode_status(JobStatus, body)
    is_foreign = _is_foreign(body)
    spec, invalid = None, ""
    try:
        spec = _decode_spec(Fields(obj, ""), annotations)
    except InvalidObject as error:
        invalid = str(error)
    return TrainingJob(
        key=JobKey(metadata.get("namespace", ""), metadata.get("name", "")),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation", 0),
        created=parse_time(metadata.get("creationTimestamp")) or _LONG_AGO,
        spec=spec,
        status=status,
        labels=metadata.get("labels") or {},
        annotations=annotations,
        deletion_requested=bool(metadata.get("deletionTimestamp")),
        invalid=invalid,
        warnings=tuple(_find_ignored(obj)),
        is_foreign=is_foreign,
        unread={} if is_foreign else {k: v for k, v in problems.items() if k not in _FOR_PEOPLE},
    )


def decode_scaling(obj: Json, kind: ScalingKind | None = None) -> Scaling:
    """The scaling; with a sentence in `invalid` where it can never be done.

    Items of a list carry no kind: give `kind` for these.
    """
    metadata: Json = obj.get("metadata") or {}
    status, _ = decode_status(ScalingStatus, obj.get("status") or {})
    kind = kind or ScalingKind(str(obj.get("kind")))
    wishes: dict[str, Any] = {}
    invalid = ""
    try:
        wishes = _decode_wishes(Fields(obj, "").require_object("spec"), kind)
    except InvalidObject as error:
        invalid = str(error)
    return Scaling(
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation", 0),
        created=parse_time(metadata.get("creationTimestamp")) or _LONG_AGO,
        job_name=_find_job_name(obj),
        owner_uid=find_owner_uid(metadata),
        owners=tuple(metadata.get("ownerReferences") or ()),
        deletion_requested=bool(metadata.get("deletionTimestamp")),
        status=status,
        invalid=invalid,
        **wishes,
    )


def _is_foreign(status: Json) -> bool:
    """Whether another operator has begun with the job: its status has none of our fields."""
    return bool(status) and not any(key in status for key in _OUR_FIELDS)


def _decode_spec(job: Fields, annotations: Json) -> JobSpec:
    _check_name(job)
    spec = job.require_object("spec")
    roles = spec.require_object("etReplicaSpecs")
    launcher = roles.require_object("launcher")
    if launcher.get_integer("replicas", minimum=0) not in (None, 1):
        raise launcher.fail("replicas", "a job has one launcher, set it to 1 or leave it out")
    worker = _decode_worker(roles.require_object("worker"))
    slots = spec.get_integer("slotsPerWorker", minimum=1, maximum=MAX_SLOTS) or count_gpus(
        worker.template
    )
    given = {
        "attach_mode": spec.get_choice("launcherAttachMode", AttachMode),
        "launcher_creation": spec.get_choice("launcherCreationPolicy", LauncherCreation),
        "slots_per_worker": slots,
        "clean_pod_policy": spec.get_choice("cleanPodPolicy", CleanPodPolicy),
        "restart_policy": spec.get_choice("restartPolicy", RestartPolicy),
        "backoff_limit": spec.get_integer("backoffLimit", minimum=0),
        "active_deadline": spec.get_seconds("activeDeadlineSeconds", minimum=1),
        "ttl_after_finished": spec.get_seconds("ttlSecondsAfterFinished", minimum=0),
        "drain_timeout": spec.get_seconds("drainTimeoutSeconds", minimum=1),
        "stall_policy": spec.get_choice("driverStalledPolicy", StallPolicy),
    }
    template = decode_launcher_template(launcher)
    choice = _choose_launcher(template, annotations.get(ANNOTATION_LAUNCHER))
    return JobSpec(
        launcher_template=template,
        launcher=choice.name,
        is_elastic=choice.is_elastic,
        worker=worker,
        suspend=spec.get_flag("suspend") or annotations.get(ANNOTATION_SUSPENDED) == "true",
        **_without_none(given),
    )


def _choose_launcher(template: Json, wish: str | None) -> launchers.Choice:
    if wish is not None and wish not in launchers.NAMES:
        raise InvalidObject(
            f"metadata.annotations[{ANNOTATION_LAUNCHER}]",
            f"{wish!r} is no launcher, use one of {', '.join(launchers.NAMES)}",
        )
    container = template["spec"]["containers"][0]
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    return launchers.choose(words, wish)


def _check_name(job: Fields) -> None:
    name = job.require_object("metadata").require_text("name")
    if len(name) > MAX_JOB_NAME or not _DNS_LABEL.fullmatch(name):
        raise InvalidObject(
            "metadata.name",
            f"must be a DNS label (lower-case letters, digits and '-') of at most {MAX_JOB_NAME} "
            "characters, because workers are named <name>-worker-<number> and these are host "
            "names: choose a shorter name without dots",
        )


def _decode_worker(worker: Fields) -> WorkerSpec:
    given = {
        "replicas": worker.get_integer("replicas", minimum=1),
        "min_replicas": worker.get_integer("minReplicas", minimum=1),
        "max_replicas": worker.get_integer("maxReplicas", minimum=1),
    }
    spec = WorkerSpec(decode_worker_template(worker), **_without_none(given))
    if spec.min_replicas is not None and spec.min_replicas > spec.replicas:
        raise worker.fail(
            "minReplicas",
            f"{spec.min_replicas} is larger than replicas, lower it or raise replicas",
        )
    if spec.max_replicas is not None and spec.max_replicas < spec.replicas:
        raise worker.fail(
            "maxReplicas",
            f"{spec.max_replicas} is smaller than replicas, raise it or lower replicas",
        )
    return spec


def _find_ignored(job: Json) -> Iterator[str]:
    """Sentences about what the author wrote and nothing follows from."""
    roles = _dig(job, "spec", "etReplicaSpecs")
    for role in ("launcher", "worker"):
        for place in ((), ("template", "spec")):
            policy = _dig(roles, role, *place).get("restartPolicy")
            if policy not in (None, "", "Never"):
                path = ".".join(("spec.etReplicaSpecs", role, *place))
                yield (
                    f"{path}.restartPolicy: {policy} is ignored, pods are never restarted in "
                    "place: use spec.restartPolicy"
                )
    if _ANNOTATION_SSH_SECRET in _dig(job, "metadata", "annotations"):
        yield f"annotation {_ANNOTATION_SSH_SECRET} is ignored, keys for ssh are made by us"


def _decode_wishes(spec: Fields, kind: ScalingKind) -> dict[str, Any]:
    spec.require_object("selector").require_text("name")
    change = spec.require_object("toDelete" if kind is ScalingKind.IN else "toAdd")
    if kind is ScalingKind.IN:
        count = change.get_integer("count", minimum=0) or None
        pod_names = tuple(dict.fromkeys(change.get_texts("podNames")))
        if count is None and not pod_names:
            raise InvalidObject(change.path, "give count (1 or more) or podNames, or both")
    else:
        count, pod_names = change.get_integer("count", minimum=1), ()
        if count is None:
            raise change.fail("count", "is required")
    return {
        "count": count,
        "pod_names": pod_names,
        "script": spec.get_text("script") or "",
        "env": tuple(map(_decode_variable, spec.get_objects("env"))),
        "timeout": spec.get_seconds("timeout", minimum=0) or None,
        "backoff_limit": spec.get_integer("backoffLimit", minimum=0) or 0,
        "ttl_after_finished": spec.get_seconds("ttlSecondsAfterFinished", minimum=0),
    }


def _decode_variable(variable: Fields) -> tuple[str, str]:
    if variable.get_object("valueFrom") is not None:
        raise variable.fail(
            "valueFrom", "cannot be resolved inside the launcher, give a plain value"
        )
    return variable.require_text("name"), variable.get_text("value") or ""


def _find_job_name(scaling: Json) -> str:
    """The job's name, also of a scaling that is invalid otherwise: the job reports about it."""
    name = _dig(scaling, "spec", "selector").get("name")
    return name if isinstance(name, str) else ""


def _dig(body: Any, *path: str) -> Json:
    for key in path:
        body = body.get(key) if isinstance(body, Mapping) else None
    return body if isinstance(body, Mapping) else {}


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
