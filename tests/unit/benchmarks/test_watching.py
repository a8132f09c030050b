"""What the benchmarks read from watches and logs."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import pytest

from benchmarks.containers import Beginnings
from benchmarks.manifests import build_bare_pod
from benchmarks.podwatching import find_ended, find_listed, find_running
from benchmarks.scalings import find_left
from benchmarks.storms import find_running_names
from launcher.broker.logging import log


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


def test_containerd_tells_when_something_was_executed_in_a_container() -> None:
    beginnings = Beginnings()
    for second in (6, 8):
        time = f"2026-01-02 03:04:0{second} +0000 UTC k8s.io /tasks/exec-started"
        beginnings.take(f'{time} {{"container_id":"abc","exec_id":"e{second}","pid":7}}')
    own = {"name": "own", "containerID": "containerd://abc"}
    pod = {"status": {"containerStatuses": [own]}}
    assert beginnings.find_execution(pod, "own", 1767323040.0) == 1767323046.0
    assert beginnings.find_execution(pod, "own", 1767323047.0) == 1767323048.0
    with pytest.raises(LookupError):
        beginnings.find_execution(pod, "own", 1767323049.0)
    with pytest.raises(LookupError):
        beginnings.find(pod, "own")


def test_the_brokers_log_tells_when_the_list_had_changed_last(
    capsys: pytest.CaptureFixture[str],
) -> None:
    log.info("broker starts", epoch=1)
    log.info("hosts listed", count=1)
    lines = ["no JSON", *capsys.readouterr().err.splitlines()]
    entry = json.loads(lines[-1])
    at = datetime.fromisoformat(entry["time"]).timestamp()
    later = json.dumps({**entry, "time": "2999-01-01T00:00:00Z"})
    assert find_listed([*lines, later], at + 1.0) == at
