"""Signs of a node's end, and signs that only look like it."""

from __future__ import annotations

from typing import Any

import pytest

from et_operator.codec.nodes import NOTICE_CONDITIONS, NOTICE_TAINTS, decode_node
from et_operator.model.pods import Node

READY = {"type": "Ready", "status": "True"}


def make_node(*conditions: dict[str, Any], taints: list[str] | None = None, **spec: Any):
    taint_list = [{"key": key, "effect": "NoSchedule"} for key in taints or ()]
    return {
        "metadata": {"name": "n1"},
        "spec": {"taints": taint_list, **spec},
        "status": {"conditions": list(conditions)},
    }


def test_a_good_node():
    assert decode_node(make_node(READY, taints=["nvidia.com/gpu"])) == Node("n1")


def test_a_node_that_has_said_nothing_is_not_ready():
    assert decode_node({"metadata": {"name": "n1"}}) == Node("n1", is_ready=False)


@pytest.mark.parametrize("status", ["Unknown", "False"])
def test_a_node_that_is_not_heard_of_is_unreachable_and_a_sick_one_is_not(status: str):
    node = decode_node(make_node({"type": "Ready", "status": status}))
    assert not node.is_ready
    assert node.is_unreachable is (status == "Unknown")


@pytest.mark.parametrize(
    "taint", ["node.kubernetes.io/unreachable", "node.kubernetes.io/out-of-service"]
)
def test_a_node_that_others_call_lost(taint: str):
    assert decode_node(make_node(READY, taints=[taint])).is_unreachable


def test_a_cordoned_node_has_no_notice():
    node = decode_node(make_node(READY, unschedulable=True))
    assert (node.is_cordoned, node.notice) == (True, "")


@pytest.mark.parametrize("taint", NOTICE_TAINTS)
def test_a_notice_by_a_taint_names_it(taint: str):
    assert taint in decode_node(make_node(READY, taints=[taint])).notice


@pytest.mark.parametrize("kind", NOTICE_CONDITIONS)
def test_a_notice_by_a_condition_holds_while_it_is_true(kind: str):
    assert kind in decode_node(make_node(READY, {"type": kind, "status": "True"})).notice
    assert decode_node(make_node(READY, {"type": kind, "status": "False"})).notice == ""


def test_a_spot_node_is_not_a_node_with_a_notice():
    taints = ["kubernetes.azure.com/scalesetpriority", "DeletionCandidateOfClusterAutoscaler"]
    assert decode_node(make_node(READY, taints=taints)).notice == ""


def test_a_node_that_shuts_down_says_so():
    message = "node is shutting down"
    node = decode_node(make_node({"type": "Ready", "status": "False", "message": message}))
    assert "shutting down" in node.notice


def test_a_node_object_that_is_being_deleted():
    body = make_node(READY)
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert decode_node(body).notice == "the node is being deleted"
