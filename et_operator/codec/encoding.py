"""Nouns to the bodies of requests.

The executor has each change encoded here, which pins it to the uid and version that were planned
from. Objects that are created are built in planning/manifests, of the parts that are here.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, assert_never

from et_contract.documents import HostConfig, MemberState, encode_config
from et_contract.names import CONFIG_KEY, HOSTFILE_KEY, SCRIPT_KEY
from et_kube.resources import TRAINING_JOBS, Json
from et_operator.codec.statuses import encode_status
from et_operator.model.actions import (
    AcceptScaling,
    AnswerScaling,
    Change,
    SetAccounts,
    SetReplicas,
    SetRights,
    WriteConfig,
    WriteStatus,
)
from et_operator.model.keys import Owner, OwnerReference
from et_operator.model.names import ANNOTATION_APPLIED_SCALING
from et_operator.model.rights import Rights
from et_operator.model.scalings import ScalingStatus
from et_operator.model.statuses import JobStatus


def encode_change(change: Change) -> Json:
    """The body of a merge patch; it fails with Conflict unless the object is still this one."""
    body = _encode_change(change)
    pin = {"uid": change.uid, "resourceVersion": change.resource_version}
    return {**body, "metadata": {**body.get("metadata", {}), **pin}}


def find_subresource(change: Change) -> str:
    """Where the patch goes: to a subresource, or "" for the object itself."""
    return "status" if isinstance(change, WriteStatus | AnswerScaling) else ""


def encode_status_patch(
    status: JobStatus | ScalingStatus, unread: Collection[str] = ()
) -> dict[str, Any]:
    """`status` of a job or a scaling in a merge patch; what has no value is removed.

    What could not be read (`unread`) stays as it is.
    """
    body = encode_status(status)
    return {"status": {key: value for key, value in body.items() if key not in unread}}


def encode_config_data(config: HostConfig) -> dict[str, str]:
    """`data` of <job>-config: what the broker reads, and two keys for people who look."""
    active = [m for m in config.members if m.state is MemberState.ACTIVE]
    lines = "".join(f"echo {m.name}:{m.slots}\n" for m in active)
    return {
        CONFIG_KEY: encode_config(config),
        HOSTFILE_KEY: "".join(f"{m.name} slots={m.slots}\n" for m in active),
        SCRIPT_KEY: f"#!/bin/sh\n{lines}",
    }


def encode_rules(rights: Rights) -> list[dict[str, Any]]:
    """`rules` of a Role."""
    return [
        _encode_rule("pods/exec", ["get", "create"], rights.seal, rights.execs),
        _encode_rule("configmaps", ["get", "watch"], rights.seal, rights.reads),
        _encode_rule("configmaps", ["patch"], rights.seal, rights.writes),
    ]


def encode_accounts(namespace: str, accounts: Collection[str]) -> list[dict[str, str]]:
    """`subjects` of a RoleBinding: ServiceAccounts of its namespace."""
    place = {"kind": "ServiceAccount", "namespace": namespace}
    return [{**place, "name": account} for account in sorted(accounts)]


def encode_owner(job: Owner) -> dict[str, Any]:
    """An owner reference to the job; it never blocks the job's deletion."""
    api_version, kind = TRAINING_JOBS.api_version, TRAINING_JOBS.kind
    owner = OwnerReference(api_version, kind, job.name, job.uid, is_controller=True)
    return _encode_reference(owner)


def _encode_change(change: Change) -> dict[str, Any]:
    match change:
        case WriteStatus(status=job_status, unread=unread):
            return encode_status_patch(job_status, unread)
        case AnswerScaling(status=status):
            return encode_status_patch(status)
        case SetReplicas():
            return _encode_replicas(change)
        case WriteConfig(config=config):
            return {"data": encode_config_data(config)}
        case SetRights(rights=rights):
            return {"rules": encode_rules(rights)}
        case SetAccounts(accounts=accounts):
            return {"subjects": encode_accounts(change.ref.namespace, accounts)}
        case AcceptScaling(owners=owners, job=job):
            references = [*map(_encode_reference, owners), encode_owner(job)]
            return {"metadata": {"ownerReferences": references}}
        case _:
            assert_never(change)


def _encode_reference(owner: OwnerReference) -> dict[str, Any]:
    controls, blocks = owner.is_controller, owner.blocks_deletion
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        **({} if controls is None else {"controller": controls}),
        **({} if blocks is None else {"blockOwnerDeletion": blocks}),
    }


def _encode_replicas(change: SetReplicas) -> dict[str, Any]:
    body: dict[str, Any] = {"spec": {"etReplicaSpecs": {"worker": {"replicas": change.number}}}}
    if change.scaling_uid:
        body["metadata"] = {"annotations": {ANNOTATION_APPLIED_SCALING: change.scaling_uid}}
    return body


def _encode_rule(
    resource: str, verbs: list[str], seal: str, names: frozenset[str]
) -> dict[str, Any]:
    return {
        "apiGroups": [""],
        "resources": [resource],
        "verbs": verbs,
        "resourceNames": [seal, *sorted(names)],
    }
