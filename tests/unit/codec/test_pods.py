"""What is read from a pod, in the states in which kubelets leave it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from et_operator.codec.pods import decode_pod
from et_operator.model.names import Role
from et_operator.model.pods import Pod, Termination


def make_pod(status: dict[str, Any] | None = None, **metadata: Any) -> dict[str, Any]:
    labels = {"training-job-role": "worker", "replica-index": "3"}
    return {
        "metadata": {"namespace": "team", "name": "train-worker-3", "uid": "u", "labels": labels}
        | metadata,
        "spec": {"nodeName": "n1", "containers": [{"name": "mesh"}, {"name": "trainer"}]},
        "status": status or {},
    }


def decode(*args: Any, **metadata: Any) -> Pod:
    annotations = {"kai.alibabacloud.com/container": "trainer"}
    metadata.setdefault("annotations", annotations)
    pod = decode_pod(make_pod(*args, **metadata))
    assert pod is not None
    return pod


def make_status(state: dict[str, Any], **other: Any) -> dict[str, Any]:
    mesh = {"name": "mesh", "state": {"terminated": {"exitCode": 9}}}
    return {"containerStatuses": [mesh, {"name": "trainer", "state": state}], **other}


@pytest.mark.parametrize("labels", [None, {}, {"training-job-role": "driver"}])
def test_a_pod_without_a_role_is_none_of_ours(labels: dict[str, str] | None):
    assert decode_pod(make_pod(labels=labels)) is None


def test_a_new_pod():
    owners = [{"uid": "o1"}, {"uid": "o2", "controller": True}]
    pod = decode(ownerReferences=owners, creationTimestamp="2026-01-01T00:00:00Z")
    assert (pod.role, pod.index, pod.epoch) == (Role.WORKER, 3, None)
    assert (pod.owner_uid, pod.node, pod.phase) == ("o2", "n1", "Pending")
    assert pod.created == datetime(2026, 1, 1, tzinfo=UTC)
    assert not pod.is_container_running
    assert not pod.has_container_started
    assert not pod.is_deleting


@pytest.mark.parametrize("label", ["x", "", None, "1.5"])
def test_an_index_that_is_no_number_is_none(label: str | None):
    labels = {"training-job-role": "worker", "replica-index": label}
    assert decode(labels=labels).index is None


@pytest.mark.parametrize(
    ("annotations", "container"),
    [
        ({"kai.alibabacloud.com/container": "trainer"}, "trainer"),
        ({"kubectl.kubernetes.io/default-container": "trainer"}, "trainer"),
        ({"kai.alibabacloud.com/container": "gone"}, "mesh"),
        ({}, "mesh"),
        (None, "mesh"),
    ],
)
def test_the_container_is_known_by_name(annotations: dict[str, str] | None, container: str):
    assert decode(annotations=annotations).container == container


def test_a_running_container_and_since_when():
    pod = decode(make_status({"running": {"startedAt": "2026-01-01T00:00:02Z"}}, phase="Running"))
    assert pod.is_container_running
    assert pod.has_container_started
    assert pod.started == datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)
    assert pod.termination is None


def test_the_end_of_the_container_and_not_of_its_neighbour():
    ended = {
        "exitCode": 134,
        "reason": "Error",
        "message": "core dumped",
        "startedAt": "2026-01-01T00:00:02Z",
        "finishedAt": "2026-01-01T00:00:05Z",
    }
    pod = decode(make_status({"terminated": ended}, phase="Failed"))
    finished = datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC)
    assert pod.termination == Termination(134, "Error", "core dumped", finished)
    assert (pod.is_terminal, pod.is_container_running, pod.has_container_started) == (
        True,
        False,
        True,
    )


def test_what_a_container_waits_for():
    pod = decode(make_status({"waiting": {"reason": "ErrImagePull", "message": "no such image"}}))
    assert (pod.waiting_reason, pod.waiting_message) == ("ErrImagePull", "no such image")
    assert not pod.has_container_started


def test_a_container_that_waits_for_another_says_what_that_one_waits_for():
    broker = {
        "name": "edl-broker",
        "state": {"waiting": {"reason": "ImagePullBackOff", "message": "denied"}},
    }
    status = make_status({"waiting": {"reason": "PodInitializing"}}, initContainerStatuses=[broker])
    pod = decode(status)
    assert pod.waiting_reason == "ImagePullBackOff"
    assert pod.waiting_message == "container edl-broker: denied"


def test_a_container_that_only_initializes():
    status = make_status(
        {"waiting": {"reason": "PodInitializing"}},
        initContainerStatuses=[{"name": "init", "state": {"running": {}}}],
    )
    assert decode(status).waiting_reason == "PodInitializing"


def test_a_deletion_was_asked_for_before_its_grace():
    pod = decode(deletionTimestamp="2026-01-01T00:01:00Z", deletionGracePeriodSeconds=60)
    assert pod.deletion_requested == datetime(2026, 1, 1, tzinfo=UTC)
    assert pod.is_deleting


def test_why_others_ended_or_hold_it():
    conditions = [
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
        {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/2 nodes",
        },
    ]
    pod = decode({"conditions": conditions, "reason": "Evicted", "message": "low on memory"})
    assert pod.disruption_reason == "EvictionByEvictionAPI"
    assert pod.unschedulable_message == "0/2 nodes"
    assert (pod.pod_reason, pod.pod_message) == ("Evicted", "low on memory")


def test_a_scheduled_pod_is_not_unschedulable():
    conditions = [
        {"type": "PodScheduled", "status": "True"},
        {"type": "DisruptionTarget", "status": "False", "reason": "Over"},
    ]
    pod = decode({"conditions": conditions})
    assert pod.unschedulable_message == pod.disruption_reason == ""


@pytest.mark.parametrize(("text", "cost"), [("-5", -5), ("7", 7), ("much", 0)])
def test_the_cost_of_its_deletion(text: str, cost: int):
    annotations = {"controller.kubernetes.io/pod-deletion-cost": text}
    assert decode(annotations=annotations).deletion_cost == cost
