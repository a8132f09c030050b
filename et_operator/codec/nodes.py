"""Nodes: whether they live, and whether somebody said that they will not for long.

The store calls it with the signs of its installation. What a sign means is said in et_kube/notices,
and what follows from one is decided in planning/noticing.py.
"""

from __future__ import annotations

from collections.abc import Sequence

from et_kube.notices import ROWS, Row, choose_notice, find_misreading, list_notices
from et_kube.resources import Json
from et_kube.shaping import HOSTNAME
from et_operator.model.pods import Node

_LOST_TAINTS = frozenset(
    {"node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service"},
)


def decode_node(obj: Json, rows: Sequence[Row] = ROWS) -> Node:
    """The node as far as the loss of its pods goes; one that says nothing is not ready."""
    metadata: Json = obj.get("metadata") or {}
    spec: Json = obj.get("spec") or {}
    conditions: dict[str, Json] = {
        str(c.get("type")): c for c in (obj.get("status") or {}).get("conditions") or ()
    }
    taints = {str(taint.get("key")) for taint in spec.get("taints") or ()}
    ready: Json = conditions.get("Ready", {})
    notices = list_notices(obj, rows)
    name = metadata.get("name", "")
    hostname = (metadata.get("labels") or {}).get(HOSTNAME, "")
    return Node(
        name=name,
        is_ready=ready.get("status") == "True",
        is_unreachable=ready.get("status") == "Unknown" or bool(taints & _LOST_TAINTS),
        notice=choose_notice(notices),
        notices=tuple(notices) if len(notices) > 1 else (),
        misread=find_misreading(obj, rows),
        hostname=None if hostname == name else str(hostname),
    )
