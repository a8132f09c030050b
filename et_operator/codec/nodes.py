"""Nodes: whether they live, and whether somebody said that they will not for long."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from et_kube.resources import Json
from et_operator.model.pods import Node

_LOST_TAINTS = frozenset(
    {"node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service"},
)

NOTICE_TAINTS: Mapping[str, str] = {
    "aws-node-termination-handler/spot-itn": "AWS takes the spot instance back",
    "aws-node-termination-handler/scheduled-maintenance": "AWS maintenance",
    "aws-node-termination-handler/asg-lifecycle-termination": "the auto-scaling group ends it",
    "aws-node-termination-handler/rebalance-recommendation": "AWS recommends to leave it",
    "cloud.google.com/impending-node-termination": "Google Cloud takes the instance back",
    "remediator.kubernetes.azure.com/unschedulable": "an Azure scheduled event",
    "karpenter.sh/disrupted": "Karpenter drains it",
    "karpenter.sh/disruption": "Karpenter drains it",
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler removes it",
    "node.cloudprovider.kubernetes.io/shutdown": "the instance is shut down",
    "node.kubernetes.io/out-of-service": "an administrator declared it out of service",
}
"""Taints by which others announce the end of a node."""

NOTICE_CONDITIONS: Mapping[str, str] = {
    "InstanceExpired": "Alibaba Cloud takes the instance back",
    "InstanceToBeTerminated": "Alibaba Cloud takes the instance back",
}
"""Node conditions that announce its end while they are "True"."""


def decode_node(obj: Json) -> Node:
    """The node as far as the loss of its pods goes; one that says nothing is not ready."""
    metadata: Json = obj.get("metadata") or {}
    spec: Json = obj.get("spec") or {}
    conditions: dict[str, Json] = {
        str(c.get("type")): c for c in (obj.get("status") or {}).get("conditions") or ()
    }
    taints = {str(taint.get("key")) for taint in spec.get("taints") or ()}
    ready: Json = conditions.get("Ready", {})
    return Node(
        name=metadata.get("name", ""),
        is_ready=ready.get("status") == "True",
        is_unreachable=ready.get("status") == "Unknown" or bool(taints & _LOST_TAINTS),
        is_cordoned=bool(spec.get("unschedulable")),
        notice=_find_notice(metadata, taints, conditions),
    )


def _find_notice(metadata: Json, taints: set[str], conditions: Mapping[str, Any]) -> str:
    for key, meaning in NOTICE_TAINTS.items():
        if key in taints:
            return f"{meaning} (taint {key})"
    for kind, meaning in NOTICE_CONDITIONS.items():
        if conditions.get(kind, {}).get("status") == "True":
            return f"{meaning} (condition {kind})"
    ready = conditions.get("Ready", {})
    if ready.get("status") == "False" and "shutting down" in str(ready.get("message")):
        return "the node is shutting down"
    if metadata.get("deletionTimestamp"):
        return "the node is being deleted"
    return ""
