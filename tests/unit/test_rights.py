"""The audit of the end-to-end run must see what it is there to see."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from devcluster.audits import POD, Request, Right
from devcluster.settings import AUDIT_BACKUPS
from tests.e2e.rights import (
    BROKERS,
    NOTICES,
    OPERATOR,
    REFUSED_ON_PURPOSE,
    SCHEDULER,
    examine,
    read_requests,
    spread,
)

BROKER = "system:serviceaccount:team:job-launcher"
NODES = Right("", "nodes", "get")


def make_line(second: int = 0, **changes: Any) -> dict[str, Any]:
    right = changes.pop("right", NODES)
    resource, _, subresource = right.resource.partition("/")
    is_allowed = changes.pop("is_allowed", True)
    account = changes.pop("account", OPERATOR)
    pod = changes.pop("pod", "job-launcher-r1" if account == BROKER else "")
    about = {
        "resource": resource,
        "subresource": subresource,
        "apiGroup": right.group,
        "namespace": changes.pop("namespace", ""),
        "name": changes.pop("name", ""),
    }
    return {
        "requestReceivedTimestamp": f"2026-01-01T00:00:{second:02}.000000Z",
        "user": {"username": account, "extra": {POD: [pod]} if pod else {}},
        "userAgent": changes.pop("agent", "et-operator/1"),
        "verb": right.verb,
        "objectRef": {key: value for key, value in about.items() if value},
        "annotations": {"authorization.k8s.io/decision": "allow" if is_allowed else "forbid"},
    }


def write(path: Path, *lines: dict[str, Any], age: int = 0) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    os.utime(path, (1000 - age, 1000 - age))


def read(folder: Path, *lines: dict[str, Any]) -> list[Request]:
    write(folder / "audit.log", *lines)
    return list(read_requests(folder))


def test_a_log_is_read_over_all_its_files_oldest_first(tmp_path: Path) -> None:
    write(tmp_path / "audit.log", make_line(3))
    write(tmp_path / "audit-2026-01-01T00-00-02.000.log", make_line(1), make_line(2), age=9)
    (tmp_path / "apiserver.log").write_text("no JSON")

    assert [r.at[17:19] for r in read_requests(tmp_path)] == ["01", "02", "03"]


def test_only_what_was_asked_since_counts(tmp_path: Path) -> None:
    write(tmp_path / "audit.log", make_line(1), make_line(5))

    assert [r.at[17:19] for r in read_requests(tmp_path, "2026-01-01T00:00:02Z")] == ["05"]


def test_a_log_of_which_the_beginning_may_be_gone_proves_nothing(tmp_path: Path) -> None:
    for number in range(AUDIT_BACKUPS + 1):
        write(tmp_path / f"audit-{number}.log", make_line(number))

    with pytest.raises(AssertionError, match="may be lost"):
        list(read_requests(tmp_path))


def test_a_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / "audit.log", make_line(1))
    with (tmp_path / "audit.log").open("a") as stream:
        stream.write('{"requestReceivedTimestamp": "2026')

    assert len(list(read_requests(tmp_path))) == 1


def test_our_programs_and_brokers_are_told_apart_from_everybody_else(tmp_path: Path) -> None:
    execs, pods = Right("", "pods/exec", "get"), Right("", "pods", "list")
    patch = Right("", "nodes", "patch")
    requests = read(
        tmp_path,
        make_line(right=NODES),
        make_line(account=BROKER, right=execs, namespace="team"),
        make_line(account=SCHEDULER, agent="et-scheduler/1", right=pods),
        make_line(account=NOTICES, agent="et-notices/1", right=patch),
        make_line(account="admin", right=Right("", "secrets", "get")),
        make_line(account="system:serviceaccount:team:mine", agent="curl", right=NODES),
        make_line(account="system:serviceaccount:second:et-operator", pod="et-operator-1-x"),
    )

    audits = examine(requests)

    used = {kind: audit.used for kind, audit in audits.items()}
    assert used == {OPERATOR: {NODES}, SCHEDULER: {pods}, NOTICES: {patch}, BROKERS: {execs}}


def test_a_broker_is_known_by_its_pod_whatever_its_account(tmp_path: Path) -> None:
    line = make_line(account="system:serviceaccount:team:cloud", pod="job-launcher", right=NODES)

    assert examine(read(tmp_path, line))[BROKERS].used == {NODES}


def test_what_was_refused_is_told_unless_it_was_allowed_later(tmp_path: Path) -> None:
    pods = Right("", "pods", "list")
    requests = read(
        tmp_path,
        make_line(1, right=NODES, is_allowed=False),
        make_line(1, right=pods, is_allowed=False),
        make_line(2, right=pods),
    )

    operator = examine(requests)[OPERATOR]

    assert [r.right for r in operator.refused] == [NODES]
    assert operator.used == {pods}


def test_what_was_meant_to_be_refused_is_no_finding(tmp_path: Path) -> None:
    lines = [make_line(is_allowed=answer, agent=REFUSED_ON_PURPOSE) for answer in (False, True)]

    operator = examine(read(tmp_path, *lines))[OPERATOR]

    assert operator.refused == []
    assert operator.used == set()


@pytest.mark.parametrize(
    ("resource", "verb", "name"),
    [
        pytest.param("trainingjobs", "delete", "job", id="job"),
        pytest.param("trainingjobs", "deletecollection", "", id="all jobs"),
        pytest.param("namespaces", "delete", "team", id="namespace"),
    ],
)
def test_a_broker_whose_job_was_deleted_may_be_refused(
    tmp_path: Path, resource: str, verb: str, name: str
) -> None:
    end = make_line(
        1, account="admin", right=Right("", resource, verb), namespace="team", name=name
    )
    late = make_line(2, account=BROKER, namespace="team", is_allowed=False)
    early = {**late, "requestReceivedTimestamp": "2026-01-01T00:00:00.000000Z"}

    assert examine(read(tmp_path, end, late))[BROKERS].refused == []
    assert examine(read(tmp_path, late, end))[BROKERS].refused == [], (
        "the deletion was answered later"
    )
    assert len(examine(read(tmp_path, early, end))[BROKERS].refused) == 1


def test_et_notices_may_be_refused_once_it_is_taken_away(tmp_path: Path) -> None:
    end = make_line(5, account="admin", right=Right("", "namespaces", "delete"), name="et-notices")
    lines = [make_line(second, account=NOTICES, is_allowed=False) for second in (4, 6)]

    [early] = examine(read(tmp_path, lines[0], end, lines[1]))[NOTICES].refused

    assert early.at[17:19] == "04"


def test_rules_are_spread_into_single_rights() -> None:
    rules = [{"apiGroups": ["", "g"], "resources": ["pods/exec"], "verbs": ["get", "create"]}]

    assert spread(rules) == {
        Right(group, "pods/exec", verb) for group in ("", "g") for verb in ("get", "create")
    }
