"""What the benchmarks read from watches and logs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.containers import Beginnings
from benchmarks.manifests import build_bare_pod
from benchmarks.podwatching import find_ended, find_running
from benchmarks.scalings import find_left
from benchmarks.storms import find_running_names


def make_event(name: str, *states: str, phase: str = "Pending") -> bytes:
    containers = [{"state": {state: {}}} for state in states]
    pod = {
        "metadata": {"name": name},
        "status": {"phase": phase, "containerStatuses": containers},
    }
    return json.dumps({"type": "MODIFIED", "object": pod}, separators=(",", ":")).encode()


def test_a_pod_runs_from_when_all_its_containers_were_first_seen_running() -> None:
    lines = [
        (1.0, make_event("a")),
        (2.0, make_event("a", "running", "waiting")),
        (3.0, make_event("b", "running")),
        (4.0, make_event("a", "running", "running")),
        (5.0, make_event("a", "running", "running")),
    ]
    assert find_running(lines, "a") == 4.0
    assert find_running(lines, "c") is None
    assert find_ended(lines, "a") is None
    assert find_ended([*lines, (6.0, make_event("a", "terminated", "running"))], "a") == 6.0


def test_names_of_running_objects_are_found_without_decoding() -> None:
    lines = [
        make_event("storm-1", phase="Running"),
        make_event("storm-2"),
        make_event("bare-3-0", phase="Running"),
    ]
    assert find_running_names(lines) == {b"storm-1", b"bare-3-0"}


def test_a_process_tells_when_it_left() -> None:
    lines = [(1.0, b"listed 12.5 a,b"), (2.0, b"left 13.25 b")]
    assert find_left(lines, "b") == 13.25
    assert find_left(lines, "a") is None


def test_a_bare_pod_is_nobodys() -> None:
    pod: dict[str, Any] = {
        "metadata": {"name": "job-worker-0", "uid": "1", "labels": {"group-name": "x"}},
        "spec": {"nodeName": "n", "serviceAccountName": "job-launcher", "containers": [{}]},
        "status": {},
    }
    bare = build_bare_pod(pod, "bare-1")
    assert bare["metadata"] == {"name": "bare-1", "labels": {"benchmark": "bare"}}
    assert bare["spec"] == {"containers": [{}], "automountServiceAccountToken": False}


def test_containerd_tells_when_a_container_began() -> None:
    beginnings = Beginnings()
    for line in (
        '2026-01-02 03:04:05.123456789 +0000 UTC k8s.io /tasks/create {"container_id":"abc"}',
        '2026-01-02 03:04:06.5 +0000 UTC k8s.io /tasks/start {"container_id":"abc","pid":7}',
        '2026-01-02 03:04:09 +0000 UTC k8s.io /tasks/start {"container_id":"abc","pid":7}',
        "",
    ):
        beginnings.take(line)
    broker = {"name": "broker", "containerID": "containerd://abc"}
    own = {"name": "own", "containerID": "containerd://def"}
    pod = {"status": {"initContainerStatuses": [broker], "containerStatuses": [own]}}
    assert beginnings.find(pod, "broker") == 1767323046.5
    with pytest.raises(LookupError):
        beginnings.find(pod, "own")
