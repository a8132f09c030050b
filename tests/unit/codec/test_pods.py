"""What is read from a pod, in the states in which kubelets leave it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from et_contract.documents import HostConfig, Member, MemberState, decode_config, encode_config
from et_contract.pods import Role
from et_operator.codec.pods import decode_pod
from et_operator.model.names import build_labels
from et_operator.model.pods import MAX_RETRIES, Pod, Termination
from tests.counting import count_steps


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


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("train-worker-3", Role.WORKER),
        ("train-launcher", Role.LAUNCHER),
        ("train-launcher-r2", Role.LAUNCHER),
        ("else-worker-3", None),
    ],
)
@pytest.mark.parametrize("label", [None, "chief", "launcher", "worker"])
def test_the_role_of_a_jobs_own_is_that_of_its_name_whatever_a_label_says(
    name: str, role: Role | None, label: str | None
):
    owner = {"apiVersion": "kai.alibabacloud.com/v1alpha1", "kind": "TrainingJob"}
    owners = [{**owner, "name": "train", "uid": "o2", "controller": True}]
    labels = build_labels("train") | ({"training-job-role": label} if label else {})
    pod = decode_pod(make_pod(name=name, labels=labels, ownerReferences=owners))
    said = Role(label) if label in set(Role) else None
    assert (pod and pod.role) == (role or said)


def test_a_new_pod():
    owner = {"apiVersion": "kai.alibabacloud.com/v1alpha1", "kind": "TrainingJob"}
    owners = [{"uid": "o1"}, {**owner, "name": "train", "uid": "o2", "controller": True}]
    labels = build_labels("train", Role.WORKER)
    pod = decode(ownerReferences=owners, labels=labels, creationTimestamp="2026-01-01T00:00:00Z")
    assert (pod.role, pod.index, pod.epoch) == (Role.WORKER, 3, None)
    assert (pod.owner, pod.node, pod.phase) == (("train", "o2"), "n1", "Pending")
    assert pod.created == datetime(2026, 1, 1, tzinfo=UTC)
    assert not pod.is_container_running
    assert not pod.has_container_started
    assert not pod.is_deleting


@pytest.mark.parametrize("label", ["x", "", None, "3000000", "4"])
def test_a_workers_index_is_that_of_its_name_whatever_a_label_says(label: str | None):
    labels = {"training-job-role": "worker", "replica-index": label}
    assert decode(labels=labels).index == 3


@pytest.mark.parametrize(
    ("name", "index"),
    [
        ("train-worker-0", 0),
        ("train-worker-999999", 999999),
        ("a-worker-1-worker-2", 2),
        ("train-worker-1000000", None),
        ("train-worker-07", None),
        ("train-worker-\u0663", None),
        ("train-worker-", None),
        ("-worker-3", None),
        ("train-worker-3x", None),
        ("train", None),
    ],
)
def test_an_index_is_a_number_of_up_to_six_digits(name: str, index: int | None):
    assert decode(name=name).index == index


@pytest.mark.parametrize(
    ("name", "epoch"),
    [
        ("train-launcher", 1),
        ("train-launcher-r1", 2),
        ("train-launcher-r41", 42),
        ("train-launcher-r0", None),
        ("train-launcher-r9999999999", None),
        ("train", None),
    ],
)
def test_a_launchers_epoch_is_that_of_its_name_whatever_a_label_says(name: str, epoch: int | None):
    labels = {"training-job-role": "launcher", "kai.alibabacloud.com/epoch": "7"}
    assert decode(name=name, labels=labels).epoch == epoch


@pytest.mark.parametrize(("label", "epoch"), [("7", 7), ("9" * 60, None), ("x", None)])
def test_a_workers_epoch_is_bounded(label: str, epoch: int | None):
    labels = {"training-job-role": "worker", "kai.alibabacloud.com/epoch": label}
    assert decode(labels=labels).epoch == epoch


def test_pods_that_differ_in_their_version_alone_are_equal():
    old = decode(resourceVersion="1")
    new = decode(resourceVersion="2", managedFields=[{"manager": "cni"}])
    assert old == new
    assert (old.resource_version, new.resource_version) == ("1", "2")


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


@pytest.mark.parametrize(
    ("status", "ips"),
    [
        ({}, ()),
        ({"podIP": "10.0.0.1"}, ("10.0.0.1",)),
        (
            {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
            ("10.0.0.1", "fd00::1"),
        ),
        (
            {"podIPs": [{}, {"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}, {"ip": "10.0.0.3"}]},
            ("10.0.0.1", "10.0.0.2"),
        ),
        ({"podIP": "FD00:0::1"}, ("fd00::1",)),
        (
            {"podIPs": [{"ip": "010.0.0.1"}, {"ip": "fe80::1%eth0"}, {"ip": 7}, {"ip": "fd00::1"}]},
            ("fd00::1",),
        ),
    ],
)
def test_all_its_addresses(status: dict[str, Any], ips: tuple[str, ...]):
    """As the config says them when it is read: else that would be written without end."""
    pod = decode(status)
    assert pod.ips == ips
    assert pod.address == (ips[0] if ips else "")
    members = (Member("w", "u", 1, MemberState.ACTIVE, "c", ips=pod.ips),)
    config = HostConfig("job", "ns", "uid", 1, 1, 1, 1, members, ())
    assert decode_config(encode_config(config)) == config


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


def make_unstarted(**ends: int) -> dict[str, Any]:
    states = [{"name": n, "state": {"terminated": {"exitCode": c}}} for n, c in ends.items()]
    main = [{"name": "trainer", "state": {"waiting": {"reason": "PodInitializing"}}}]
    return {"containerStatuses": main, "initContainerStatuses": states}


@pytest.mark.parametrize(
    ("phase", "ends", "named"),
    [
        (
            "Failed",
            {"edl-broker": 137, "check": 0, "fetch": 2},
            Termination(2, "", "", None, "fetch"),
        ),
        ("Failed", {"edl-broker": 137, "check": 0}, None),
        ("Pending", {"fetch": 2}, None),
    ],
    ids=["it failed", "a sidecar ended with the pod", "it is tried again"],
)
def test_a_pod_that_failed_before_its_container_is_its_init_containers(
    phase: str, ends: dict[str, int], named: Termination | None
):
    body = make_pod({**make_unstarted(**ends), "phase": phase}, annotations={})
    body["spec"]["containers"] = [{"name": "trainer"}]
    body["spec"]["initContainers"] = [
        {"name": "edl-broker", "restartPolicy": "Always"},
        {"name": "check"},
        {"name": "fetch"},
    ]
    pod = decode_pod(body)
    assert pod is not None
    assert pod.termination == named
    assert not pod.has_container_started


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


def test_each_of_many_init_containers_is_looked_for_once():
    def read(size: int) -> int:
        body = make_pod({"phase": "Failed"})
        inits = [{"name": f"init-{number}"} for number in range(size)]
        body["spec"]["initContainers"] = inits
        body["status"]["initContainerStatuses"] = [*inits]
        return count_steps(lambda: decode_pod(body))

    assert read(200) < 3 * read(100)


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


@pytest.mark.parametrize(
    ("grace", "told"),
    [(0, 0), (10, 10), (10**14, 2**31 - 1), (-1, None), ("soon", None), (None, None)],
)
def test_how_long_its_deletion_gives_it(grace: Any, told: int | None):
    pod = decode(deletionTimestamp="2026-01-01T00:01:00Z", deletionGracePeriodSeconds=grace)
    assert pod.deletion_grace_seconds == told
    assert decode(deletionGracePeriodSeconds=grace).deletion_grace_seconds is None


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


@pytest.mark.parametrize(
    ("text", "is_elastic"), [("true", True), ("false", False), ("perhaps", None), (None, None)]
)
def test_whether_a_launcher_is_elastic(text: str | None, is_elastic: bool | None):
    annotations = {"kai.alibabacloud.com/elastic": text}
    assert decode(annotations=annotations).is_elastic is is_elastic


@pytest.mark.parametrize(("text", "least"), [("4", 4), ("0", 0), ("few", None), (None, None)])
def test_with_how_few_workers_a_launchers_command_goes_on(text: str | None, least: int | None):
    annotations = {"kai.alibabacloud.com/least-workers": text}
    assert decode(annotations=annotations).command_least == least


@pytest.mark.parametrize(
    ("end", "grace", "asked"),
    [
        ("2026-01-01T00:01:00Z", 60, datetime(2026, 1, 1, tzinfo=UTC)),
        ("5195-01-01T00:00:00Z", 10**11, datetime(2026, 2, 15, 14, 13, 20, tzinfo=UTC)),
        ("3170843-11-07T09:46:40Z", 10**14, datetime(1970, 1, 1, tzinfo=UTC)),
        ("2026-01-01T00:01:00Z", 10**14, datetime(1970, 1, 1, tzinfo=UTC)),
        ("2026-01-01T00:01:00Z", "soon", datetime(1970, 1, 1, tzinfo=UTC)),
    ],
)
def test_whatever_its_grace_a_pod_that_goes_is_seen_to_go(end: str, grace: Any, asked: datetime):
    pod = decode(deletionTimestamp=end, deletionGracePeriodSeconds=grace)
    assert pod.deletion_requested == asked


def test_the_keys_that_a_pod_mounts_as_ours():
    labels = {"training-job-role": "worker"}
    volumes = [
        {"name": "mine", "secret": {"secretName": "other"}},
        {"name": "edl-keys", "secret": {"secretName": "train-ssh-x7f2q"}},
    ]
    pod = decode_pod({"metadata": {"labels": labels}, "spec": {"volumes": volumes}})
    assert pod is not None
    assert pod.keys_secret == "train-ssh-x7f2q"


@pytest.mark.parametrize("probe", ["livenessProbe", "startupProbe", "readinessProbe"])
@pytest.mark.parametrize("container", [0, 1], ids=["another", "its own"])
def test_a_probe_that_ends_the_container_that_counts_is_known(probe: str, container: int) -> None:
    body = make_pod(annotations={"kai.alibabacloud.com/container": "trainer"})
    body["spec"]["containers"][container][probe] = {"exec": {"command": ["true"]}}
    pod = decode_pod(body)
    assert pod is not None
    assert pod.is_probed is (container == 1 and probe != "readinessProbe")


@pytest.mark.parametrize("hook", ["preStop", "postStart"])
@pytest.mark.parametrize("container", [0, 1], ids=["another", "its own"])
def test_a_hook_that_comes_before_sigterm_is_known(hook: str, container: int) -> None:
    body = make_pod(annotations={"kai.alibabacloud.com/container": "trainer"})
    body["spec"]["containers"][container]["lifecycle"] = {hook: {"exec": {"command": ["true"]}}}
    pod = decode_pod(body)
    assert pod is not None
    assert pod.has_pre_stop is (container == 1 and hook == "preStop")


def test_the_end_of_a_pod_was_asked_for_when_somebody_first_did() -> None:
    body = make_pod()
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    asked = {"lastTransitionTime": "2026-01-01T12:00:00Z"}
    body["status"] = {"phase": "Running", "conditions": [condition | asked]}
    body["metadata"]["deletionTimestamp"] = "2026-01-01T12:00:33Z"
    body["metadata"]["deletionGracePeriodSeconds"] = 30
    pod = decode_pod(body)
    assert pod is not None
    assert pod.end_requested == datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_what_a_pod_keeps_off_is_kept_within_bounds_of_unplaced_workers_and_launchers() -> None:
    owner = {"apiVersion": "kai.alibabacloud.com/v1alpha1", "kind": "TrainingJob"}
    owners = [{**owner, "name": "train", "uid": "o2", "controller": True}]

    def read(
        text: str, node: str | None, owners: list[dict[str, Any]], role: Role = Role.WORKER
    ) -> str:
        annotations = {"kai.alibabacloud.com/avoids": text}
        labels = build_labels("train", role)
        name = "train-launcher" if role is Role.LAUNCHER else "train-worker-3"
        body = make_pod(name=name, annotations=annotations, ownerReferences=owners, labels=labels)
        body["spec"]["nodeName"] = node
        pod = decode_pod(body)
        assert pod is not None
        return pod.avoids

    assert read("n1,n2", None, owners) == "n1,n2"
    assert read("n1,n2", "n3", owners) == ""
    assert read("n1,n2", "n3", owners, Role.LAUNCHER) == "n1,n2"
    assert read("n1,n2", "n3", [], Role.LAUNCHER) == ""
    assert read("n1,n2", None, []) == ""
    assert read(",".join(map(chr, range(0x10000, 0x10000 + 9))), None, owners) == ""
    assert read("a," * 60_000, None, owners) == ""


@pytest.mark.parametrize(
    ("said", "counted"),
    [("3", 3), ("-1", 0), ("x", 0), ("2146435073", MAX_RETRIES), ("9999999999", MAX_RETRIES)],
)
def test_no_more_tries_are_counted_than_anybody_makes(said: str, counted: int) -> None:
    assert decode(annotations={"kai.alibabacloud.com/retries": said}).retries == counted
