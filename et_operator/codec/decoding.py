"""Our own three kinds, as their authors wrote them, to model objects.

Nothing here raises for what an author wrote: an object that cannot be used says so in `invalid`.
The API server refuses most of it already; all is checked again, because rules in a CRD may be older
than this operator and are not applied to what was stored before them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from et_contract import starters
from et_contract.admissions import Elasticity
from et_contract.documents import MAX_WORKERS
from et_contract.pods import MAX_JOB_NAME, read_command
from et_kube.errors import InvalidObject
from et_kube.resources import Json
from et_kube.times import parse_time
from et_operator.codec.admissions import decode_admission
from et_operator.codec.children import find_controller
from et_operator.codec.fields import Fields, attempt, dig
from et_operator.codec.misfits import find_misfits
from et_operator.codec.statuses import decode_status
from et_operator.codec.templates import (
    MAX_SLOTS,
    count_gpus,
    decode_launcher_template,
    decode_worker_template,
)
from et_operator.model.jobs import TrainingJob
from et_operator.model.keys import JobKey, OwnerReference
from et_operator.model.names import (
    ANNOTATION_APPLIED_SCALING,
    ANNOTATION_LAUNCHER,
    ANNOTATION_RENEWED,
    ANNOTATION_SCRIPTS,
    build_access_name,
)
from et_operator.model.scalings import Scaling, ScalingStatus
from et_operator.model.scripts import DEFAULT_TIMEOUT, NoticeScript, is_path
from et_operator.model.specs import (
    MANY_WORKERS,
    AttachMode,
    CleanPodPolicy,
    JobSpec,
    LauncherCreation,
    LossRecovery,
    NoticePolicy,
    NoticeSignal,
    RestartPolicy,
    ScriptRight,
    StallPolicy,
    WorkerSpec,
)
from et_operator.model.statuses import JobStatus, ScalingKind
from et_operator.model.texts import measure

ANNOTATION_SUSPENDED = "job-supervisor.kube-ai.io/job-suspended"
"""et-operator's way to suspend a job."""

_READ = (
    ANNOTATION_APPLIED_SCALING,
    ANNOTATION_LAUNCHER,
    ANNOTATION_RENEWED,
    ANNOTATION_SCRIPTS,
    ANNOTATION_SUSPENDED,
)
MAX_ENV = 60_000
"""Bytes, as JSON, of a script's environment: it is handed over in the job's config."""
MAX_SCRIPT = 1024
"""Bytes, as JSON, of a job's own script: the largest job has no room for many."""
MAX_SCRIPT_SECONDS = 3600
MAX_OWNERS = 8192
"""Bytes, as JSON, of a scaling's owner references: some dozens."""
MAX_ANNOTATION = 1024
"""Characters that are kept of an annotation; none that we read has so many."""
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_OUR_FIELDS = ("epoch", "generation", "observedGeneration")
FOR_PEOPLE = frozenset(
    {
        "phase",
        "trouble",
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
ORPHAN = "orphan"
"""The finalizer of the garbage collector (k8s.io/apimachinery, FinalizerOrphanDependents)."""
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)


def decode_job(obj: Json) -> TrainingJob:
    """The job; with `spec` None and a sentence in `invalid` where its author must change it."""
    metadata: Json = obj.get("metadata") or {}
    annotations: Json = metadata.get("annotations") or {}
    body: Json = obj.get("status") or {}
    status, problems = decode_status(JobStatus, body)
    is_foreign = _is_foreign(body)
    spec, invalid = attempt(lambda: _decode_spec(Fields(obj, ""), annotations), "spec")
    return TrainingJob(
        key=JobKey(metadata.get("namespace", ""), metadata.get("name", "")),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation", 0),
        created=parse_time(metadata.get("creationTimestamp")) or _LONG_AGO,
        spec=spec,
        status=status,
        annotations={k: str(annotations[k])[:MAX_ANNOTATION] for k in _READ if k in annotations},
        deletion_requested=_find_deletion(metadata),
        is_orphaning=ORPHAN in (metadata.get("finalizers") or ()),
        invalid=invalid,
        warnings=find_misfits(obj, spec) if spec else (),
        is_foreign=is_foreign,
        unread={} if is_foreign else {k: v for k, v in problems.items() if k not in FOR_PEOPLE},
        admission=decode_admission(body.get("admission"))[0],
    )


def _find_deletion(metadata: Json) -> datetime | None:
    asked = metadata.get("deletionTimestamp")
    return (parse_time(asked) or _LONG_AGO) if asked else None


def decode_scaling(obj: Json, kind: ScalingKind | None = None) -> Scaling:
    """The scaling; with a sentence in `invalid` where it can never be done.

    Items of a list carry no kind: give `kind` for these.
    """
    metadata: Json = obj.get("metadata") or {}
    status, _ = decode_status(ScalingStatus, obj.get("status") or {})
    kind = kind or ScalingKind(str(obj.get("kind")))
    wishes, invalid = attempt(
        lambda: _decode_wishes(Fields(obj, "").require_object("spec"), kind), "spec"
    )
    owners, is_owned, too_many = _decode_owners(metadata)
    return Scaling(
        kind=kind,
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        generation=metadata.get("generation", 0),
        created=parse_time(metadata.get("creationTimestamp")) or _LONG_AGO,
        job_name=find_job_name(obj),
        is_owned=is_owned,
        owners=owners,
        deletion_requested=bool(metadata.get("deletionTimestamp")),
        status=status,
        invalid=too_many or invalid,
        **(wishes or {}),
    )


def _decode_owners(metadata: Json) -> tuple[tuple[OwnerReference, ...], bool, str]:
    """A scaling's owners, whether it is owned, and a sentence where there are too many of them.

    The controller may be of any kind. All of them are kept, to be written again beside the job; too
    many are left as they are, and the job is not added.
    """
    owners = metadata.get("ownerReferences") or ()
    size = len(json.dumps(owners))
    if size <= MAX_OWNERS:
        return tuple(map(_decode_owner, owners)), find_controller(metadata) is not None, ""
    words = f"metadata.ownerReferences: are {size} bytes as JSON, {MAX_OWNERS} at most: remove some"
    return (), True, words


def _decode_owner(reference: Json) -> OwnerReference:
    """All that the API server stores of one."""
    return OwnerReference(
        api_version=reference.get("apiVersion", ""),
        kind=reference.get("kind", ""),
        name=reference.get("name", ""),
        uid=reference.get("uid", ""),
        is_controller=reference.get("controller"),
        blocks_deletion=reference.get("blockOwnerDeletion"),
    )


def _is_foreign(status: Json) -> bool:
    """Whether another operator has begun with the job: its status has none of our fields.

    What et-scheduler says, perhaps to a status that somebody has emptied, is no operator's.
    """
    said = status.keys() - {"admission"}
    return bool(said) and not any(key in said for key in _OUR_FIELDS)


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
    scripts = _choose_scripts(annotations.get(ANNOTATION_SCRIPTS))
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
        "loss_recovery": spec.get_choice("lossRecovery", LossRecovery),
        "notice_policy": spec.get_choice("noticePolicy", NoticePolicy),
        "notice_signal": spec.get_choice("noticeSignal", NoticeSignal),
        "notice_script": _decode_notice_script(spec.get_object("noticeScript"), scripts),
        "queue": spec.get_text("queue"),
        "elasticity": spec.get_choice("elasticity", Elasticity),
    }
    name = job.require_object("metadata").require_text("name")
    template = decode_launcher_template(launcher, build_access_name(name))
    choice = _choose_launcher(template, annotations.get(ANNOTATION_LAUNCHER), slots or 1)
    return JobSpec(
        launcher_template=template,
        launcher=choice.name,
        is_elastic=choice.is_elastic,
        command_least=choice.least,
        command_most=choice.most,
        is_alone=choice.is_alone,
        scripts=scripts,
        worker=worker,
        suspend=spec.get_flag("suspend") or annotations.get(ANNOTATION_SUSPENDED) == "true",
        **_without_none(given),
    )


def _choose_launcher(template: Json, wish: str | None, slots: int) -> starters.Choice:
    if wish is not None and wish not in starters.NAMES:
        raise InvalidObject(
            f"metadata.annotations[{ANNOTATION_LAUNCHER}]",
            f"{wish!r} is no launcher, use one of {', '.join(starters.NAMES)}",
        )
    container = template["spec"]["containers"][0]
    return starters.choose(read_command(container), wish, slots)


def _choose_scripts(wish: object) -> ScriptRight:
    if wish is None:
        return ScriptRight.FILES
    try:
        return ScriptRight(str(wish))
    except ValueError as error:
        raise InvalidObject(
            f"metadata.annotations[{ANNOTATION_SCRIPTS}]",
            f"must be one of {', '.join(ScriptRight)}, not {wish!r}",
        ) from error


def _decode_notice_script(body: Fields | None, right: ScriptRight) -> NoticeScript | None:
    """Of the launcher's own environment, which its template sets: an `env` beside it is none."""
    if body is None:
        return None
    script = body.require_text("script")
    if (size := measure(script)) > MAX_SCRIPT:
        raise body.fail("script", f"is {size} bytes as JSON, {MAX_SCRIPT} at most")
    if right is not ScriptRight.SHELL and not is_path(script):
        words = f'is no absolute path of a file; for shell text annotate {ANNOTATION_SCRIPTS}: "'
        raise body.fail("script", f'{words}{ScriptRight.SHELL}"')
    seconds = body.get_integer("timeout", minimum=0, maximum=MAX_SCRIPT_SECONDS)
    return NoticeScript(script, timedelta(seconds=seconds) if seconds else DEFAULT_TIMEOUT)


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
    if (given["replicas"] or 1) > MAX_WORKERS:
        raise worker.fail("replicas", f"{given['replicas']} is too many: {MANY_WORKERS}")
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


def _decode_wishes(spec: Fields, kind: ScalingKind) -> dict[str, Any]:
    spec.require_object("selector").require_text("name")
    change = spec.require_object("toDelete" if kind is ScalingKind.IN else "toAdd")
    if kind is ScalingKind.IN:
        count = change.get_integer("count", minimum=0) or None
        pod_names = tuple(dict.fromkeys(change.get_texts("podNames")))
        if count is None and not pod_names:
            raise InvalidObject(change.path, "give count (1 or more) or podNames, or both")
    else:
        count, pod_names = change.get_integer("count", minimum=1, maximum=MAX_WORKERS), ()
        if count is None:
            raise change.fail("count", "is required")
    return {
        "count": count,
        "pod_names": pod_names,
        "script": spec.get_text("script") or "",
        "env": _decode_env(spec),
        "timeout": spec.get_seconds("timeout", minimum=0) or None,
        "backoff_limit": spec.get_integer("backoffLimit", minimum=0) or 0,
        "ttl_after_finished": spec.get_seconds("ttlSecondsAfterFinished", minimum=0),
    }


def _decode_env(spec: Fields) -> tuple[tuple[str, str], ...]:
    env = tuple(map(_decode_variable, spec.get_objects("env")))
    size = sum(measure(name) + measure(value) for name, value in env)
    if size > MAX_ENV:
        raise spec.fail("env", f"is {size} bytes as JSON, {MAX_ENV} at most reach the launcher")
    return env


def _decode_variable(variable: Fields) -> tuple[str, str]:
    if variable.get_object("valueFrom") is not None:
        raise variable.fail(
            "valueFrom", "cannot be resolved inside the launcher, give a plain value"
        )
    return variable.require_text("name"), variable.get_text("value") or ""


def find_job_name(scaling: Json) -> str:
    """The job's name, also of a scaling that is invalid otherwise: the job reports about it."""
    name = dig(scaling, "spec", "selector").get("name")
    return name if isinstance(name, str) else ""


def _without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
