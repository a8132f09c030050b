"""Pods: where they are, what they take there, whose they are. Nothing else of them is kept.

Whatever the API server stores is read: a pod that could not be would take no room. Only what the
server itself has checked may be relied on; what says when or why has a meaning, however odd it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from sys import intern

from et_contract.pods import ENDED, LABEL_GROUP, LABEL_JOB, Role, read_role
from et_kube.resources import GROUP, TRAINING_JOBS, Json
from et_scheduler.codec.priorities import read_preempts
from et_scheduler.codec.reading import (
    MAX_INTEGER,
    MAX_NAME,
    find_moment,
    read_integer,
    read_object,
    read_text,
)
from et_scheduler.codec.shapes import read_bound_shape, read_whole_shape
from et_scheduler.model.cluster import Node
from et_scheduler.model.shapes import SECOND, Shape

_MAX_UID = 64
NOTHING = Shape()


@dataclass(frozen=True, slots=True)
class Tenant:
    """A pod as far as it takes, or wants, room.

    `owner` is the uid of the training job that it is of, "" for the pods of others. `is_pending`
    says that whoever binds pods looks for a node for it, and that what it asks is kept. `since`:
    then, or, of a job's pod, when it was created. `priority` and `preempts`, known of these, are
    what the server admitted it with. `deletion_asked`: when its deletion was, of one that is
    terminating. One that has ended has all defaults.
    """

    node: str = ""
    shape: Shape = NOTHING
    owner: str = ""
    is_launcher: bool = False
    is_terminating: bool = False
    is_pending: bool = False
    priority: int = 0
    preempts: bool = True
    since: int = 0
    deletion_asked: int = 0


GONE = Tenant()


def decode_pod(
    obj: Json,
    find_node: Callable[[str], Node | None] = lambda _: None,
    may_keep: Callable[[str, Shape], bool] = lambda *_: True,
) -> Tenant:
    """Raises ValueError (LookupError, TypeError, AttributeError) for what no server stores.

    `may_keep` says whether there is room for what a pod of this namespace asks. Where there is
    none, nobody makes room for it; of one that has a node the least counts.
    """
    metadata, spec = obj["metadata"], read_object(obj, "spec")
    status = read_object(obj, "status")
    if status.get("phase") in ENDED:
        return GONE
    # A binding may name anything: what is longer than a node's name stays longer, and is none.
    node = intern(str(spec.get("nodeName") or "")[: MAX_NAME + 1])
    owner, is_launcher = _find_owner(metadata)
    is_terminating = bool(metadata.get("deletionTimestamp"))
    created = find_moment(metadata, "creationTimestamp") or 0
    is_pending = not (node or is_terminating or spec.get("schedulingGates"))
    has_shape = is_pending or node
    found = _find_shape(obj, node, find_node, may_keep) if has_shape else None
    is_pending, shape = is_pending and found is not None, found or NOTHING
    if not (owner or is_pending):
        asked = _find_deletion(metadata)
        return Tenant(node, shape, is_terminating=is_terminating, deletion_asked=asked)
    return Tenant(
        node,
        shape,
        owner,
        is_launcher,
        is_terminating,
        is_pending,
        priority=read_integer(spec, "priority", least=-MAX_INTEGER - 1, most=MAX_INTEGER),
        preempts=read_preempts(spec),
        since=created if owner else _find_unplaced(status) or created,
        deletion_asked=_find_deletion(metadata),
    )


def _find_shape(
    obj: Json,
    node: str,
    find_node: Callable[[str], Node | None],
    may_keep: Callable[[str, Shape], bool],
) -> Shape | None:
    """What a pod takes of its node, or asks of one; None where that is not kept."""
    namespace = str(obj["metadata"].get("namespace", ""))
    if not node:
        shape = read_whole_shape(obj)
        return shape if may_keep(namespace, shape) else None
    known = find_node(node)
    offered = known.allocatable if known is not None else {}
    shape = read_bound_shape(obj, offered)
    return shape if may_keep(namespace, shape) else read_bound_shape(obj, offered, is_least=True)


def _find_deletion(metadata: Json) -> int:
    """When it was asked for: what is written is the end of its grace. 0: nobody has asked.

    A grace may be longer than any time can tell: then it was asked for long ago.
    """
    if not metadata.get("deletionTimestamp"):
        return 0
    end = find_moment(metadata, "deletionTimestamp") or 0
    return max(end - (metadata.get("deletionGracePeriodSeconds") or 0) * SECOND, 1)


def _find_owner(metadata: Json) -> tuple[str, bool]:
    """The uid of its training job, whether it is the launcher; ("", False): somebody else's.

    Anybody who makes pods can write any owner: one that is not called as a job's pod is none, nor
    is one without the operator's labels, which the operator would never see, and never end.
    """
    name, labels = read_text(metadata, "name"), read_object(metadata, "labels")
    if labels.get(LABEL_GROUP) != GROUP:
        return "", False
    for one in metadata.get("ownerReferences") or ():
        if not isinstance(one, Mapping) or not one.get("controller"):
            continue
        group = str(one.get("apiVersion")).partition("/")[0]
        if (group, one.get("kind")) != (TRAINING_JOBS.group, TRAINING_JOBS.kind):
            continue
        job, uid = str(one.get("name")), str(one.get("uid"))[:_MAX_UID]
        role = read_role(name, job)
        if labels.get(LABEL_JOB) == job and role is not None:
            return uid, role is Role.LAUNCHER
    return "", False


def _find_unplaced(status: Json) -> int | None:
    """Since when kube-scheduler says that no node has room for it."""
    for one in status.get("conditions") or ():
        if one.get("type") == "PodScheduled" and one.get("status") == "False":
            return find_moment(one, "lastTransitionTime")
    return None
