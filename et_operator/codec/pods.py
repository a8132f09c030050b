"""Pods: the few facts of them that a decision needs.

Pods come from the API server, which has checked their types; only what users may write freely
(labels, annotations) is read with care.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from et_contract import paths
from et_contract.documents import read_ip
from et_contract.pods import LABEL_ROLE, Role, read_launcher_epoch, read_role, read_worker_index
from et_contract.texts import clean
from et_kube.notices import read_annotation
from et_kube.resources import Json
from et_kube.times import parse_time
from et_operator.codec.children import find_owner
from et_operator.model import names
from et_operator.model.avoiding import keep_avoided
from et_operator.model.keys import Owner
from et_operator.model.pods import MAX_RETRIES, Pod, Termination

MAX_WORDS = 1024
MAX_TERMINATION = 4096
"""A kubelet keeps no more of what a container says when it ends."""
MAX_REASON = 128
MAX_IMAGE = 256
_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_GRACE = 2**31 - 1
_MOST_IPS = 2
_FLAGS = {"true": True, "false": False}
_INTEGER = re.compile(r"-?[0-9]{1,10}")
_WAITS_FOR_OTHERS = frozenset({"PodInitializing", "ContainerCreating"})


def decode_pod(obj: Json) -> Pod | None:
    """The pod; None for one that no job of ours could have made."""
    metadata: Json = obj.get("metadata") or {}
    labels: Json = metadata.get("labels") or {}
    owner = find_owner(metadata)
    role = _find_role(owner, metadata, labels)
    if role is None:
        return None
    spec: Json = obj.get("spec") or {}
    annotations: Json = metadata.get("annotations") or {}
    notice, misread = read_annotation(metadata)
    pod = Pod(
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        uid=metadata.get("uid", ""),
        resource_version=metadata.get("resourceVersion", ""),
        role=role,
        index=read_worker_index(str(metadata.get("name"))),
        epoch=_find_epoch(role, metadata, labels),
        created=parse_time(metadata.get("creationTimestamp")) or _LONG_AGO,
        phase="Pending",
        owner=owner,
        container=_choose_container(annotations, spec),
        node=spec.get("nodeName") or None,
        account=str(spec.get("serviceAccountName") or ""),
        keys_secret=_find_keys(spec),
        deletion_requested=_find_deletion(metadata),
        deletion_grace_seconds=_find_grace(metadata),
        retries=_count_retries(annotations),
        deletion_cost=_parse_integer(annotations.get(names.ANNOTATION_DELETION_COST)) or 0,
        is_elastic=_FLAGS.get(str(annotations.get(names.ANNOTATION_ELASTIC))),
        template=clean(annotations.get(names.ANNOTATION_TEMPLATE), MAX_REASON),
        command_least=_parse_integer(annotations.get(names.ANNOTATION_LEAST)),
        notice=notice,
        misread=misread,
    )
    if (pod.node is None or role is Role.LAUNCHER) and pod.owner is not None:  # else nobody asks
        pod = replace(pod, avoids=keep_avoided(annotations.get(names.ANNOTATION_AVOIDS)))
    own = _find_by_name(spec.get("containers") or (), pod.container)
    pod = replace(
        pod,
        is_probed=bool(own.get("livenessProbe") or own.get("startupProbe")),
        has_pre_stop=has_pre_stop(own),
        image=clean(own.get("image"), MAX_IMAGE),
    )
    return _add_status(pod, spec, obj.get("status") or {})


def has_pre_stop(container: Json) -> bool:
    """Whether the container has a hook that a kubelet runs before anything in it is told to end."""
    return bool((container.get("lifecycle") or {}).get("preStop"))


def _find_role(owner: Owner | None, metadata: Json, labels: Json) -> Role | None:
    """What a job's own is called as, which nobody can change; of any other what its label says."""
    called = read_role(str(metadata.get("name")), owner.name) if owner else None
    said = labels.get(LABEL_ROLE)
    return called or (Role(said) if said in set(Role) else None)


def _count_retries(annotations: Json) -> int:
    """A status has what comes of it (planning/replacing), and its numbers have 32 bits."""
    found = _parse_integer(annotations.get(names.ANNOTATION_RETRIES)) or 0
    return min(max(found, 0), MAX_RETRIES)


def _find_epoch(role: Role, metadata: Json, labels: Json) -> int | None:
    """Of a launcher what its name says; of a worker what its label says, a floor and no more."""
    if role is Role.LAUNCHER:
        return read_launcher_epoch(str(metadata.get("name")))
    return _parse_integer(labels.get(names.LABEL_EPOCH))


def _add_status(pod: Pod, spec: Json, status: Json) -> Pod:
    own = _find_by_name(status.get("containerStatuses") or (), pod.container)
    state: Json = own.get("state") or {}
    last: Json = own.get("lastState") or {}
    ended: Json | None = state.get("terminated") or last.get("terminated")
    waiting_reason, waiting_message = _explain_waiting(state, status)
    disruption = _find_disruption(status)
    return replace(
        pod,
        phase=status.get("phase") or "Pending",
        is_container_running="running" in state,
        has_container_started="running" in state or "terminated" in state or bool(last),
        waiting_reason=waiting_reason,
        waiting_message=waiting_message,
        termination=_decode_termination(ended) or _find_init_failure(spec, status),
        disruption_reason=_explain_disruption(disruption),
        disrupted=parse_time(disruption.get("lastTransitionTime")),
        unschedulable_message=_find_unschedulable(status),
        pod_reason=clean(status.get("reason"), MAX_REASON),
        pod_message=clean(status.get("message"), MAX_WORDS),
        ips=_find_ips(status),
        started=parse_time((state.get("running") or ended or {}).get("startedAt")),
    )


def _find_ips(status: Json) -> tuple[str, ...]:
    """One of each family at most; the first is `podIP`. What is no address is left out."""
    found: list[str] = []
    for entry in status.get("podIPs") or ({"ip": status.get("podIP")},):
        with suppress(TypeError, ValueError):
            found.append(read_ip(entry.get("ip")))
    return tuple(found)[:_MOST_IPS]


def _find_keys(spec: Json) -> str:
    volume = _find_by_name(spec.get("volumes") or (), paths.KEYS_VOLUME)
    return str((volume.get("secret") or {}).get("secretName") or "")


def _find_deletion(metadata: Json) -> datetime | None:
    """When it was asked for: the server writes when the grace will be over.

    A grace of thousands of years ends when no clock can tell: then it was asked for long ago.
    """
    if not metadata.get("deletionTimestamp"):
        return None
    try:
        end = parse_time(metadata["deletionTimestamp"])
        grace = timedelta(seconds=metadata.get("deletionGracePeriodSeconds") or 0)
        return _LONG_AGO if end is None else max(end - grace, _LONG_AGO)
    except (OverflowError, TypeError):
        return _LONG_AGO


def _find_grace(metadata: Json) -> int | None:
    """What its deletion gives it; None where it is not deleted, or that is no number of seconds."""
    grace = metadata.get("deletionGracePeriodSeconds")
    if not metadata.get("deletionTimestamp") or type(grace) is not int or grace < 0:
        return None
    return min(grace, _MOST_GRACE)


def _choose_container(annotations: Json, spec: Json) -> str:
    present = [str(c.get("name")) for c in spec.get("containers") or ()]
    for key in (names.ANNOTATION_CONTAINER, _DEFAULT_CONTAINER):
        if annotations.get(key) in present:
            return str(annotations[key])
    return present[0] if present else ""


def _explain_waiting(state: Json, status: Json) -> tuple[str, str]:
    """Why the container waits; where it only waits for another one, what that one waits for."""
    waiting: Json = state.get("waiting") or {}
    reason = clean(waiting.get("reason"), MAX_REASON)
    message = clean(waiting.get("message"), MAX_WORDS)
    if state and reason not in _WAITS_FOR_OTHERS:
        return reason, message
    for other in status.get("initContainerStatuses") or ():
        cause: Json = (other.get("state") or {}).get("waiting") or {}
        if cause.get("reason") and cause["reason"] not in _WAITS_FOR_OTHERS:
            why = clean(cause.get("message"), MAX_WORDS)
            return clean(cause["reason"], MAX_REASON), f"container {other.get('name')}: {why}"
    return reason, message


def _decode_termination(body: Json | None) -> Termination | None:
    if not body:
        return None
    return Termination(
        exit_code=int(body.get("exitCode", 0)),
        reason=clean(body.get("reason"), MAX_REASON),
        message=clean(body.get("message"), MAX_TERMINATION),
        finished=parse_time(body.get("finishedAt")),
    )


def _find_init_failure(spec: Json, status: Json) -> Termination | None:
    """Of a failed pod whose own container never started: the init container that ended it.

    Sidecars among them end with the pod, and are not asked.
    """
    if status.get("phase") != "Failed":
        return None
    statuses = {one.get("name"): one for one in status.get("initContainerStatuses") or ()}
    for container in spec.get("initContainers") or ():
        state: Json = statuses.get(container.get("name"), {}).get("state") or {}
        end = _decode_termination(state.get("terminated"))
        if end is not None and end.exit_code != 0 and container.get("restartPolicy") != "Always":
            return replace(end, init_container=str(container.get("name")))
    return None


def _find_by_name(items: Iterable[Json], name: str) -> Json:
    return next((item for item in items if item.get("name") == name), {})


def _find_disruption(status: Json) -> Json:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return condition  # type: ignore[no-any-return]  # as the server has checked it
    return {}


def _explain_disruption(condition: Json) -> str:
    return clean(condition.get("reason"), MAX_REASON) or condition.get("type") or ""


def _find_unschedulable(status: Json) -> str:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return clean(condition.get("message") or condition.get("reason"), MAX_WORDS)
    return ""


def _parse_integer(text: object) -> int | None:
    """A number that somebody wrote as text; None where it is none, or longer than an int32."""
    return int(str(text)) if _INTEGER.fullmatch(str(text)) else None
