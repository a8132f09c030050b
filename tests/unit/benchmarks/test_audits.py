from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.audits import count_writes, find_writer, parse_requests, read_audit

OPERATOR = "system:serviceaccount:et-operator:et-operator"
BROKER = "system:serviceaccount:ns:job-launcher"


def make_line(verb: str = "create", name: str = "job", **changes: Any) -> bytes:
    """An audit event as the API server writes it."""
    about = {"resource": "pods", "namespace": "ns", "name": name, "apiVersion": "v1"}
    event = {
        "stage": "ResponseComplete",
        "verb": verb,
        "user": {"username": changes.pop("user", OPERATOR)},
        "userAgent": changes.pop("agent", "et-operator/0.1"),
        "objectRef": about | changes.pop("about", {}),
        "responseStatus": {"code": changes.pop("code", 201)},
        "requestReceivedTimestamp": changes.pop("at", "2026-11-21T11:23:25.500000Z"),
        "stageTimestamp": "2026-11-21T11:23:26.750000Z",
    }
    return json.dumps(event | changes, separators=(",", ":")).encode() + b"\n"


def test_a_request_has_its_times_to_the_microsecond() -> None:
    (request,) = parse_requests([make_line()], "ns")
    assert request.done - request.received == 1.25


def test_operator_and_broker_are_told_apart_though_their_agent_is_the_same() -> None:
    requests = parse_requests(
        [make_line(), make_line(user=BROKER), make_line(user="admin", agent="kubelet/v1 (linux)")],
        "ns",
    )
    assert [find_writer(request) for request in requests] == ["operator", "broker", "kubelet"]


def test_only_writes_that_succeeded_are_counted() -> None:
    lines = [
        make_line("create"),
        make_line("create", code=409),
        make_line("get", code=200),
        make_line("patch", code=200, about={"subresource": "status"}),
        make_line("patch", code=200, about={"subresource": "status"}),
        make_line("watch", code=200, stage="ResponseStarted"),
    ]
    assert count_writes(parse_requests(lines, "ns")) == {
        ("operator", "create", "pods"): 1,
        ("operator", "patch", "pods/status"): 2,
    }


def test_other_namespaces_and_half_a_line_are_left_out(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    lines = [make_line(about={"namespace": "other"}), make_line("delete"), make_line()[:-30]]
    log.write_bytes(b"".join(lines))
    assert [request.verb for request in read_audit(log, "ns")] == ["delete"]


def test_what_the_log_rotated_is_read_too(tmp_path: Path) -> None:
    old, new = make_line("create"), make_line("delete", at="2026-11-21T11:24:00.000000Z")
    (tmp_path / "audit-2026-11-21T11-23-59.000.log").write_bytes(old)
    (tmp_path / "audit.log").write_bytes(new)
    found = read_audit(tmp_path / "audit.log", "ns")
    assert [request.verb for request in found] == ["create", "delete"]
