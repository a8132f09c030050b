"""Signs of a node's end, and signs that only look like it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from et_kube.notices import LEAVING_AT, ROWS, NoticeKind, Row, Sign
from et_operator.codec.nodes import decode_node
from et_operator.model.pods import Node

READY = {"type": "Ready", "status": "True"}


def make_node(*conditions: dict[str, Any], taints: list[str] | None = None, **spec: Any):
    taint_list = [{"key": key, "effect": "NoSchedule"} for key in taints or ()]
    return {
        "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
        "spec": {"taints": taint_list, **spec},
        "status": {"conditions": list(conditions)},
    }


def is_leaving(node: Node) -> bool:
    """Whether somebody has said for sure that it ends."""
    return node.notice is not None and node.notice.is_firm


def test_a_good_node():
    assert decode_node(make_node(READY, taints=["nvidia.com/gpu"])) == Node("n1")


def test_a_node_that_has_said_nothing_is_not_ready():
    assert decode_node({"metadata": {"name": "n1"}}) == Node("n1", is_ready=False, hostname="")


def test_a_node_may_be_called_otherwise_than_its_label_says():
    node = make_node(READY)
    node["metadata"]["labels"]["kubernetes.io/hostname"] = "ip-10-0-0-1"
    assert decode_node(node) == Node("n1", hostname="ip-10-0-0-1")


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


TAINTS = [row for row in ROWS if row.sign is Sign.TAINT]
CONDITIONS = [row for row in ROWS if row.sign is Sign.CONDITION]


def test_a_cordoned_node_may_stay_for_long():
    notice = decode_node(make_node(READY, unschedulable=True)).notice
    assert notice is not None
    assert (notice.kind, notice.deadline) == (NoticeKind.SOFT, None)


@pytest.mark.parametrize("row", TAINTS, ids=lambda row: row.key)
def test_a_notice_by_a_taint_names_it(row: Row):
    notice = decode_node(make_node(READY, taints=[row.key])).notice
    assert notice is not None
    assert (notice.source, notice.kind) == (f"taint {row.key}", row.kind)
    assert row.reason in str(notice)


@pytest.mark.parametrize("row", CONDITIONS, ids=lambda row: row.key)
def test_a_notice_by_a_condition_holds_while_it_is_true(row: Row):
    node = decode_node(make_node(READY, {"type": row.key, "status": "True"}))
    assert str(node.notice) == f"{row.reason} (condition {row.key})"
    assert decode_node(make_node(READY, {"type": row.key, "status": "False"})).notice is None


def test_a_spot_node_is_not_a_node_with_a_notice():
    taints = ["kubernetes.azure.com/scalesetpriority", "DeletionCandidateOfClusterAutoscaler"]
    assert decode_node(make_node(READY, taints=taints)).notice is None


def test_a_node_that_shuts_down_says_so():
    message = "node is shutting down"
    node = decode_node(make_node({"type": "Ready", "status": "False", "message": message}))
    assert is_leaving(node)
    assert "shutting down" in str(node.notice)


def test_a_node_object_that_is_being_deleted():
    body = make_node(READY)
    body["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    node = decode_node(body)
    assert "the node is being deleted" in str(node.notice)
    assert not is_leaving(node)


def test_an_annotation_gives_the_moment_and_one_that_is_no_time_is_said_and_nothing_else():
    body = make_node(READY)
    body["metadata"]["annotations"] = {LEAVING_AT: "2026-01-01T01:00:00+01:00"}
    node = decode_node(body)
    assert node.notice is not None
    assert (node.notice.deadline, node.misread) == (datetime(2026, 1, 1, tzinfo=UTC), "")
    assert is_leaving(node)
    body["metadata"]["annotations"] = {LEAVING_AT: "tomorrow\x1b[2J"}
    node = decode_node(body)
    assert node.notice is None
    assert node.misread == (
        "annotation kai.alibabacloud.com/leaving-at is 'tomorrow', which is no time as "
        "2026-01-31T12:00:00Z"
    )


def test_all_that_is_said_of_a_node_is_kept_where_it_is_more_than_one_word() -> None:
    taints = [{"key": "karpenter.sh/disrupted"}]
    annotations = {"kai.alibabacloud.com/leaving-at": "2026-01-01T00:00:00Z"}
    node = decode_node({"metadata": {"name": "n"}, "spec": {"taints": taints}})
    assert (node.notice is not None, node.notices) == (True, ())
    metadata = {"name": "n", "annotations": annotations}
    node = decode_node({"metadata": metadata, "spec": {"taints": taints}})
    assert [one.deadline is None for one in node.notices] == [False, True]
    assert node.notice == node.notices[1]
